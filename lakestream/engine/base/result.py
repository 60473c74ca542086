"""What a statement gives back: rows with named columns, or a message."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.plain import shown, table_lines
from lakestream.errors import PrerequisiteError
from lakestream.storage.columns.times import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

SHOWN_ROWS = 100


class Result:
    """Rows of a statement. Times come as datetimes in UTC; ``message`` is what there is to say beside them.

    ``truncated``: there were more rows than were asked for; ``written`` is how many a statement has inserted,
    changed or deleted, None for one that does none of it; ``spark`` gives the session of :meth:`to_spark`.
    Rows that came as a ``reader`` are computed while it is read, all of them where they are asked for whole.
    The rows are an Arrow stream for whatever takes one (DuckDB, Polars, :meth:`lakestream.Lake.insert`).
    """

    def __init__(
        self,
        columns: Sequence[str] = (),
        rows: Sequence[tuple[Any, ...]] = (),
        *,
        arrow: pa.Table | None = None,
        reader: pa.RecordBatchReader | None = None,
        message: str = "",
        truncated: bool = False,
        written: int | None = None,
        spark: Callable[[], SparkSession] | None = None,
    ) -> None:
        given = arrow if reader is None else reader
        self.columns = tuple(columns) if given is None else tuple(given.schema.names)
        self.message = message
        self.truncated = truncated
        self.written = written
        self._rows = list(rows)
        self._arrow, self._reader = arrow, reader
        self._spark = spark

    @property
    def arrow(self) -> pa.Table | None:
        """The rows as the Arrow table that they came as, None when they came otherwise."""
        if self._reader is not None:
            self._arrow, self._reader = self._reader.read_all(), None
        return self._arrow

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader; what computes them part by part does so while it is read, once."""
        if (reader := self._reader) is None:
            return self.to_arrow().to_reader()
        self._reader = None
        return reader

    @classmethod
    def of_rows(cls, did: str, count: int) -> Result:
        """Return what a statement says that has ``inserted``, ``updated`` or ``deleted`` rows."""
        return cls(message=f"{did} {count} row{'s' if count != 1 else ''}", written=count)

    def first(self, limit: int) -> Result:
        """Return the result with no more than its first ``limit`` rows."""
        if (arrow := self.arrow) is None:
            more = len(self._rows) > limit
            return Result(
                self.columns,
                self._rows[:limit],
                message=self.message,
                truncated=more,
                written=self.written,
            )
        more = arrow.num_rows > limit
        return Result(arrow=arrow.slice(0, limit), message=self.message, truncated=more)

    def within(self, spark: Callable[[], SparkSession]) -> Result:
        """Return the same result with the session that :meth:`to_spark` uses; started on first need."""
        return Result(
            self.columns,
            self._rows,
            arrow=self._arrow,
            reader=self._reader,
            message=self.message,
            truncated=self.truncated,
            written=self.written,
            spark=spark,
        )

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples, in the order of ``columns``.

        Python's datetime ends with the years 1 and 9999: a column with times beyond them is one of texts.
        """
        if (arrow := self.arrow) is None:
            return list(self._rows)
        return list(zip(*map(values_of, arrow.columns), strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        if (arrow := self.arrow) is not None:
            return arrow
        values = [list(column) for column in zip(*self._rows, strict=True)] or [[] for _ in self.columns]
        return pa.table(dict(zip(self.columns, values, strict=True)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of an Arrow stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; times stay in microseconds, UTC."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame. Raises PrerequisiteError PACKAGE_MISSING."""
        try:
            import polars as pl
        except ModuleNotFoundError:
            raise PrerequisiteError(
                "PACKAGE_MISSING",
                "to_polars() needs polars, which is not installed",
                hint="pip install polars",
            ) from None
        return pl.DataFrame(self.to_arrow())

    def to_spark(self) -> DataFrame:
        """Return the rows as a DataFrame of the lake's Spark session, which is started on first need.

        Raises ValueError for a result that no lake gave.
        """
        if self._spark is None:
            raise ValueError("to_spark() needs the session of the lake that gave the result")
        from lakestream.storage.rows.reading import arrow_frame

        return arrow_frame(self._spark(), self.to_arrow())

    def _repr_html_(self) -> str:
        """Return the first rows as a table for notebooks, and the message."""
        said = f"<p>{escape(self.message)}</p>" if self.message or not self.columns else ""
        if not self.columns:
            return said
        rows = self.fetchall()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows[:SHOWN_ROWS])
        more = _more(len(rows) - SHOWN_ROWS)
        note = f"<p>{more}</p>" if more else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}{said}"

    def show(self, limit: int = SHOWN_ROWS) -> None:
        """Print the first rows as a table on standard output, and the message."""
        sys.stdout.write(f"{self._text(limit)}\n")

    def __repr__(self) -> str:
        """Return what :meth:`show` prints: what a shell of Python's shows of a statement."""
        return self._text(SHOWN_ROWS)

    def _text(self, limit: int) -> str:
        if not self.columns:
            return self.message
        rows = self.fetchall()
        lines = table_lines(self.columns, rows[:limit], _screen())
        return "\n".join(filter(None, [*lines, _more(len(rows) - limit), self.message]))


def _screen() -> Console | None:
    """Return the terminal that shows it, None for a file or a pipe, which have no width."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(markup=False, highlight=False)


def _more(count: int) -> str:
    return f"{count:,} more row{'' if count == 1 else 's'}" if count > 0 else ""


def _html_cell(value: object) -> str:
    return f"<td>{escape(shown(value))}</td>"
