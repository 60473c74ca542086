"""Values that a column of a table has in all rows that count: by them, files and rows are passed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.language.folders import UNTOLD
from lakestream.language.quoting import DELTA, SPARK, quoted
from lakestream.output.columns import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lakestream.engine.streams.stream import Stream
    from lakestream.language.quoting import Quoting

    Narrowed = Mapping[str, Sequence["OneOf"]]
    """What columns have, by the view of a read."""

MAX_LITERALS = 300
"""Values that a condition lists one by one; of more it says between which ones they lie."""


@dataclass(frozen=True)
class OneOf:
    """A column, and the values that it may have."""

    column: str
    values: pa.ChunkedArray

    def spark(self) -> str | None:
        """Return SQL for Spark that holds where the column has one of the values; None: not said."""
        return self._sql(SPARK, times=True)

    def delta(self) -> str | None:
        """Return the same for delta-rs, to which the NULL of a column of folders may be a text."""
        return self._sql(DELTA, times=False)

    def _sql(self, quoting: Quoting, *, times: bool) -> str | None:
        """Return SQL that holds for the values, or between them where they are many.

        What an engine may read otherwise than it is written, such as fractions, is not said.
        """
        import pyarrow as pa

        kind, name = self.values.type, quoting.name(self.column)
        if pa.types.is_integer(kind):
            written = [*map(str, _sorted(self.values.to_pylist()))]
        elif pa.types.is_date(kind):
            written = [f"DATE '{value}'" for value in _sorted(self.values.to_pylist())]
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            untold = UNTOLD if quoting is DELTA and self.values.null_count else ()
            written = [*map(quoting.text, _sorted([*self.values.to_pylist(), *untold]))]
        elif times and pa.types.is_timestamp(kind) and kind.tz is not None:
            # Of times that are written as texts Spark would compare the texts.
            written = [f"timestamp_micros({value}L)" for value in _sorted(micros(self.values))]
        else:
            return None
        there = [f"{name} IS NULL"] if self.values.null_count else []
        if len(written) > MAX_LITERALS:
            there.append(f"{name} BETWEEN {written[0]} AND {written[-1]}")
        elif written:
            there.append(f"{name} IN ({', '.join(written)})")
        return f"({' OR '.join(there) or 'false'})"


def of_groups(stream: Stream, summary: pa.Table) -> tuple[Narrowed, Sequence[OneOf]]:
    """Return what rows that count have in columns by which groups are: rows of reads, and the source's own.

    Nothing is said of many groups.
    """
    if summary.num_rows > MAX_LITERALS:
        return {}, ()
    narrowed: dict[str, tuple[OneOf, ...]] = {}
    for view, column, group in stream.calculation.reads_of_groups:
        narrowed[view] = (*narrowed.get(view, ()), OneOf(column, summary[group]))
    columns = {quoted(column): column for column in stream.changed_columns}
    own = [
        OneOf(columns[group], summary[name])
        for group, name in zip(stream.groups, stream.group_columns, strict=True)
        if group in columns
    ]
    return narrowed, own


def said(conditions: Iterable[str | None]) -> str | None:
    """Return conditions, as far as they are said, as one; None for none."""
    known = [condition for condition in conditions if condition is not None]
    return " AND ".join(known) or None


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted({value for value in values if value is not None})
