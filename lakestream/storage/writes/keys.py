"""Keys of rows that are to be written, held against those of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.rows.reading import read_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakestream.storage.tables.table import Table


def span_of(rows: pa.Table, column: str) -> tuple[int, int]:
    """Return the first and last time of rows, in microseconds since 1970 UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = pc.min_max(rows[column].cast(pa.timestamp("us", rows[column].type.tz)).cast(pa.int64()))
    return bounds["min"].as_py(), bounds["max"].as_py()


def meets_keys(table: Table, rows: pa.Table, key: Sequence[str], time_column: str) -> bool:
    """Return whether a row of the table has the key of one of the rows, NULL being equal to NULL.

    Keys of the rows' range of time are read only.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return False
    first, last = span_of(rows, time_column)
    old = read_arrow(table, columns=list(key), lower=first, upper=last + 1, time_column=time_column)
    if not old.num_rows:
        return False
    new = rows.select(list(key)).cast(old.schema)
    sides = (_distinct(compared(one, key), key) for one in (old, new))
    both = pa.concat_tables(sides).group_by(list(key)).aggregate([([], "count_all")])
    return bool(pc.max(both["count_all"]).as_py() > 1)


def compared(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the key of rows as SQL compares it: Arrow's groups take 0.0 and -0.0 for two."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = rows.select(list(key))
    for place, field in enumerate(found.schema):
        if pa.types.is_floating(field.type):
            whole = pc.add(found[field.name], pa.scalar(0.0, field.type))  # -0.0 + 0.0 is 0.0
            found = found.set_column(place, field, whole)
    return found


def _distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    return rows.group_by(list(key)).aggregate([]).select(list(key))
