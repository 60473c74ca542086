"""The ways of moving bytes: Arrow through delta-rs for what is here, Spark for what is large.

Both give DataFrames of the same rows, of Spark or of the session that answers as Spark does.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from lakestream.engine.base.rows import Rows
from lakestream.engine.reading.narrowed import said
from lakestream.storage.delta import (
    POSITION,
    appended_spark,
    arrivals_arrow,
    arrivals_spark,
    capabilities,
    changes_arrow_or_none,
    changes_spark,
    placed_rows_arrow,
    placed_rows_spark,
    read_arrow,
    read_spark,
)
from lakestream.storage.rows.reading import TooManyRowsError, arrow_frame
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.narrowed import OneOf
    from lakestream.storage.delta import Table, Tables
    from lakestream.storage.tables.datafiles import Span

ARROW, DUCKDB, SPARK = "arrow", "duckdb", "spark"
"""Few rows as Arrow, many as Arrow where DuckDB computes them, and what else there is by Spark."""
MAX_ARROW_CELLS = 32_000_000
"""Values of rows (rows times columns) that are read as Arrow beside changed ones."""
MAX_HANDED_CELLS = 8_000_000
"""Values of rows that Spark hands over: they pass through the heap of its driver; executors write others."""
_CELL_BYTES, _ROW_BYTES = 48, 130
"""What a value, and a row besides, take in memory while DuckDB computes windows of many."""
MAX_SPANS = 8
"""Ranges of time that are read apart; closer ones are read as one."""


def fits_here(rows: int, columns: int) -> bool:
    """Return whether a result is small enough to be handed over as Arrow."""
    return rows * columns <= MAX_HANDED_CELLS


def row_bytes(columns: int) -> int:
    """Return about how many bytes a row of some columns takes while DuckDB computes windows of many."""
    return columns * _CELL_BYTES + _ROW_BYTES


@dataclass(frozen=True)
class Size:
    """Rows and bytes; commits without statistics count as many rows."""

    rows: int
    bytes: int = 0

    def fits(self, most: Size) -> bool:
        """Return whether it is within a limit."""
        return self.rows <= most.rows and self.bytes <= most.bytes


def choose_transport(table: Table, size: Size, most: Size, *, wanted: str = "") -> str:
    """Return by which way rows of a table move: as Arrow while they are few, and delta-rs can read them.

    ``most`` is what counts as few; ``wanted`` is a way that is asked for, whatever the size.
    """
    able = capabilities(table)
    if not (able.arrow_reads and able.arrow_changes) or wanted == SPARK:
        return SPARK
    return ARROW if wanted == ARROW or size.fits(most) else SPARK


def transport_by(name: str, spark: SparkSession, tables: Tables) -> Transport:
    """Return a way of moving bytes by its name; many rows are moved by Spark where it computes them.

    Raises NotExactError where rows are for Spark, and DuckDB is asked.
    """
    is_here = isinstance(spark, SmallSession)
    if name == ARROW or (name == DUCKDB and is_here):
        return ArrowTransport(spark, tables, name)
    if is_here:
        raise NotExactError("more rows beside the changed ones than are read as Arrow", always=False)
    return SparkTransport(spark, tables)


class Transport(Protocol):
    """How a tick reads tables and hands on what Spark computed."""

    name: str

    def changes(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Return changed rows with ``_commit_version`` and ``_change_type``."""
        ...

    def appended(self, path: str, after: int, upto: int, columns: Sequence[str], *, versions: bool) -> Rows:
        """Return the rows of commits that only added some; without ``versions`` all as of the last one."""
        ...

    def arrivals(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Return the rows that commits wrote with their place, NULL where the files do not tell."""
        ...

    def rows(
        self,
        path: str,
        version: int,
        columns: Sequence[str],
        time: str,
        spans: Sequence[Span],
        only: Sequence[OneOf] = (),
    ) -> DataFrame:
        """Return the rows at a version whose time lies in one of the spans; a table may have no ``time``.

        Rows that have other values than ``only`` those may be left out. Raises NotExactError where there are
        more than DuckDB is given.
        """
        ...

    def placed_rows(
        self, path: str, version: int, columns: Sequence[str], time: str, spans: Sequence[tuple[int, int]]
    ) -> DataFrame:
        """Return such rows of a table with a time, with the commit and place of each."""
        ...

    def materialize(self, result: DataFrame) -> Rows:
        """Compute a relation once, to be used several times."""
        ...

    def release(self) -> None:
        """Give the memory of kept relations back."""
        ...


class ArrowTransport:
    """Rows travel as Arrow tables in this process; one partition, so that no query shuffles.

    What delta-rs cannot read, or would read wrongly, is read by Spark, and so are more rows than fit here.
    """

    def __init__(self, spark: SparkSession, tables: Tables, name: str = ARROW) -> None:
        self.name = name
        self._spark = spark
        self._tables = tables
        self._beside = SparkTransport(spark, tables)

    def frame(self, rows: pa.Table) -> DataFrame:
        """Return Arrow rows as a DataFrame of one partition."""
        return arrow_frame(self._spark, rows).coalesce(1)

    def changes(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Read the files of the commits, else the change feed by delta-rs."""
        rows = self._changed(path, after, upto, columns)
        if rows is None:
            return self._beside.changes(path, after, upto, columns)
        return self.frame(rows)

    def appended(self, path: str, after: int, upto: int, columns: Sequence[str], *, versions: bool) -> Rows:
        """Read the files of the commits, else the change feed by delta-rs."""
        rows = self._changed(path, after, upto, columns)
        if rows is None:
            return self._beside.appended(path, after, upto, columns, versions=versions)
        return Rows(self._spark, rows, lambda: self.frame(rows))

    def _changed(self, path: str, after: int, upto: int, columns: Sequence[str]) -> pa.Table | None:
        return changes_arrow_or_none(self._tables.open(path), after, upto, columns)

    def arrivals(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Read the files of the commits, else the change feed."""
        rows = arrivals_arrow(self._tables.open(path), after, upto, columns)
        if rows is None:
            return unplaced(self.changes(path, after, upto, columns))
        return self.frame(rows)

    def placed_rows(
        self, path: str, version: int, columns: Sequence[str], time: str, spans: Sequence[tuple[int, int]]
    ) -> DataFrame:
        """Read the files that may hold rows of the spans; Spark where they do not tell."""
        most = self._most(len(columns))
        try:
            rows = placed_rows_arrow(self._tables.open(path), version, columns, time, spans, most)
        except TooManyRowsError:
            return self._by_spark().placed_rows(path, version, columns, time, spans)
        if rows is None:
            return self._beside.placed_rows(path, version, columns, time, spans)
        return self.frame(rows)

    def rows(
        self,
        path: str,
        version: int,
        columns: Sequence[str],
        time: str,
        spans: Sequence[Span],
        only: Sequence[OneOf] = (),
    ) -> DataFrame:
        """Read the spans by delta-rs, which skips files by their statistics."""
        table = self._tables.open(path)
        if not capabilities(table).arrow_reads:
            return self._beside.rows(path, version, columns, time, spans, only)
        try:
            rows = read_arrow(
                *(table, version),
                columns=columns,
                spans=spans,
                time_column=time or None,
                where=said(one.delta() for one in only),
                most=self._most(len(columns)),
            )
        except TooManyRowsError:
            return self._by_spark().rows(path, version, columns, time, spans, only)
        return self.frame(rows)

    def _most(self, columns: int) -> int:
        """Return how many rows of some columns are read, by what they may take."""
        if isinstance(self._spark, SmallSession) and self.name == DUCKDB:
            return self._spark.room.memory // row_bytes(columns)
        return MAX_ARROW_CELLS // max(columns, 1)

    def _by_spark(self) -> Transport:
        return transport_by(SPARK, self._spark, self._tables)

    def materialize(self, result: DataFrame) -> Rows:
        """Collect as Arrow."""
        rows = result.toArrow()
        return Rows(self._spark, rows, lambda: self.frame(rows))

    def release(self) -> None:
        """Do nothing: Arrow rows go with whoever has them."""


class SparkTransport:
    """Rows stay in Spark, which splits and spills them as it needs."""

    name = SPARK

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        self._kept: list[DataFrame] = []

    def changes(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Read the change feed by Spark."""
        return changes_spark(self._spark, self._tables.open(path), after, upto, columns)

    def appended(self, path: str, after: int, upto: int, columns: Sequence[str], *, versions: bool) -> Rows:
        """Read the added data files by Spark."""
        table = self._tables.open(path)
        return Rows(
            self._spark,
            None,
            lambda: appended_spark(self._spark, table, after, upto, columns, versions=versions),
        )

    def arrivals(self, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        """Read the files of the commits by Spark, else the change feed."""
        rows = arrivals_spark(self._spark, self._tables.open(path), after, upto, columns)
        return unplaced(self.changes(path, after, upto, columns)) if rows is None else rows

    def placed_rows(
        self, path: str, version: int, columns: Sequence[str], time: str, spans: Sequence[tuple[int, int]]
    ) -> DataFrame:
        """Read from the earliest to the latest instant of the spans by Spark."""
        whole = (min(low for low, _ in spans), max(high for _, high in spans))
        return placed_rows_spark(self._spark, self._tables.open(path), version, columns, time, whole)

    def rows(
        self,
        path: str,
        version: int,
        columns: Sequence[str],
        time: str,
        spans: Sequence[Span],
        only: Sequence[OneOf] = (),
    ) -> DataFrame:
        """Read from the earliest to the latest instant of the spans by Spark."""
        lowers, uppers = [lower for lower, _ in spans], [upper for _, upper in spans]
        where = said(one.spark() for one in only)
        rows = read_spark(
            self._spark,
            self._tables.open(path),
            version,
            columns=columns,
            lower=None if None in lowers else min(_known(lowers)),
            upper=None if None in uppers else max(_known(uppers)),
            time_column=time or None,
        )
        return rows if where is None else rows.where(where)

    def materialize(self, result: DataFrame) -> Rows:
        """Persist until :meth:`release`."""
        kept = result.persist()
        self._kept.append(kept)
        return Rows.of(kept)

    def release(self) -> None:
        """Give the memory of kept relations back."""
        while self._kept:
            self._kept.pop().unpersist()


def unplaced(changes: DataFrame) -> DataFrame:
    """Return changed rows without a place, of which the one that sorts first by its values comes first."""
    return changes.selectExpr("*", f"CAST(NULL AS BIGINT) AS {POSITION}")


def _known(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping ranges, then the closest ones until at most ``MAX_SPANS`` are left.

    >>> merge_spans([(0, 10), (5, 20), (40, 50)])
    [(0, 20), (40, 50)]
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    gaps = [after[0] - before[1] for before, after in pairwise(merged)]
    widest = sorted(nlargest(MAX_SPANS - 1, range(len(gaps)), key=gaps.__getitem__))
    firsts, lasts = [0, *(at + 1 for at in widest)], [*widest, len(gaps)]
    return [(merged[first][0], merged[last][1]) for first, last in zip(firsts, lasts, strict=True) if merged]
