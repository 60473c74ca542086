"""Expectations of a tick's rows: counted, and those that do not meet them dropped, refused or quarantined.

Rows of the source that do not meet what is expected of them are left out where rows are admitted, so that
all else follows; here they are counted, as commits wrote them, and what of them the source has goes into the
quarantine. Rows of the output are held against their expectations when they have been computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.compute.windows.window_rows import each_sql
from lakestream.engine.base.rows import Rows
from lakestream.engine.reading.relations import goes_by_table_time
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.streams.expectations import (
    described,
    listed_sql,
    quarantined_sql,
    reason_sql,
    stays_sql,
)
from lakestream.engine.streams.quarantine import AT, REASON, TICK, said_sql
from lakestream.errors import StreamError
from lakestream.language.quoting import quoted
from lakestream.storage.delta import commit, read_arrow, read_spark, timestamp_literal
from lakestream.storage.records.registry import Checked
from lakestream.storage.rows.reading import instant_literal
from lakestream.storage.rows.views import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.reading.transport import Transport
    from lakestream.engine.streams.expectations import Check
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import CommitTag, Table
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import TickPlan


class ResultRefusedError(StreamError):
    """A row of the output does not meet an expectation with ON VIOLATION FAIL; nothing was written."""


_LOOKED, _RESULTS, _MOVED, _OLD, _STANDING = (
    "ls_looked_at",
    "ls_results_checked",
    "ls_quarantine_moved",
    "ls_quarantine_old",
    "ls_quarantine_standing",
)


@dataclass(frozen=True)
class SourceChecks:
    """The source rows that a tick takes, held against what is expected of them; ``stops``: that may fail."""

    relations: Relations
    stops: bool = True

    @property
    def _stream(self) -> Stream:
        return self.relations.stream

    @property
    def _spark(self) -> SparkSession:
        return self.relations.spark

    def run(self) -> tuple[dict[str, Checked], Rows | None]:
        """Return counts, by expectation, and the rows that come into the quarantine or go (_ls_sign).

        None where the stream has no quarantine of its source. Counted are rows as each commit wrote them.
        Raises StreamError EXPECTATION_FAILED.
        """
        stream = self._stream
        view_of(self.relations.looked_at(), _LOOKED)
        rows = f"{_LOOKED} WHERE {_taken(stream)}"
        counts = counted(self._spark, stream.checks, f"{rows} AND _ls_sign > 0", "_ls_sign")
        self._refuse(counts, rows)
        quarantined = quarantined_sql(stream.checks)
        if not quarantined:
            return counts, None
        columns = listed_sql(stream.changed_columns)
        selected = f"SELECT {columns}, {reason_sql(stream.checks)} AS {REASON}, _ls_sign FROM {rows}"
        summed = (
            f"SELECT {columns}, {REASON}, CAST(sum(_ls_sign) AS BIGINT) AS _ls_sign "
            f"FROM ({selected} AND {quarantined}) GROUP BY {columns}, {REASON} HAVING sum(_ls_sign) <> 0"
        )
        return counts, self.relations.transport.materialize(self._spark.sql(summed))

    def _refuse(self, counts: dict[str, Checked], rows: str) -> None:
        """Refuse to go on while the source, as it is now, has a row that is to stop the stream."""
        for check in self._stream.checks:
            if not (self.stops and check.fails and counts[check.name].violated):
                continue
            time = f"{self._stream.row_us}"
            sql = f"SELECT min({time}) AS low, max({time}) AS high FROM {rows} AND NOT {check.holds}"
            low, high = (column[0].as_py() for column in self._spark.sql(sql).toArrow().columns)
            standing = standing_rows(self.relations, self._latest, (low, high))
            refuse_failed(self._spark, self._stream, [check], f"{_STANDING} WHERE {standing}")

    @property
    def _latest(self) -> int:
        return self.relations.tables.latest(self._stream.source.info.path).version


def _taken(stream: Stream) -> str:
    """Return SQL that holds for the rows that expectations look at: of groups that wait too."""
    return replace(stream, checks=(), waiting_groups=()).admitted()


def counted(spark: SparkSession, checks: Sequence[Check], rows: str, weight: str) -> dict[str, Checked]:
    """Return how many rows meet each expectation and how many do not; ``rows`` is SQL behind FROM."""
    items = ", ".join(
        f"coalesce(sum(CASE WHEN {condition} THEN {weight} ELSE 0L END), 0L) AS {name}{number}"
        for number, check in enumerate(checks)
        for name, condition in (("p", check.holds), ("v", f"NOT {check.holds}"))
    )
    found = spark.sql(f"SELECT {items} FROM {rows}").toArrow().to_pylist()[0]
    return {
        check.name: Checked(int(found[f"p{number}"]), int(found[f"v{number}"]))
        for number, check in enumerate(checks)
    }


def standing_rows(relations: Relations, version: int, span: tuple[int | None, int | None]) -> str:
    """Register the source rows of a version and a span of time; return SQL of those that the stream takes."""
    stream = relations.stream
    low, high = span
    spans = [(low, None if high is None else high + 1)] if goes_by_table_time(stream) else [(None, None)]
    view_of(relations.standing_at(version, spans), _STANDING)
    return _taken(stream)


def refuse_standing(relations: Relations, version: int) -> None:
    """Raise StreamError EXPECTATION_FAILED where a version of the source has a row that stops the stream."""
    failing = [check for check in relations.stream.checks if check.fails]
    if failing:
        taken = standing_rows(relations, version, (None, None))
        refuse_failed(relations.spark, relations.stream, failing, f"{_STANDING} WHERE {taken}")


def refuse_failed(spark: SparkSession, stream: Stream, checks: Sequence[Check], rows: str) -> None:
    """Raise StreamError EXPECTATION_FAILED for the first row that does not meet an expectation of these."""
    columns = stream.changed_columns
    for check in checks:
        sql = f"SELECT {listed_sql(columns)} FROM {rows} AND NOT {check.holds} LIMIT 1"
        if said := _violation(spark, check, columns, sql):
            hint = f"correct or delete it in {_source(stream)}, then {_leads_on(stream)}"
            raise StreamError("EXPECTATION_FAILED", said, hint=hint)


def _source(stream: Stream) -> str:
    return f"{stream.source.info.database}.{stream.source.info.name}"


def _leads_on(stream: Stream) -> str:
    name = f"{stream.definition.name.database}.{stream.definition.name.name}"
    return f"START STREAM {name}; or CREATE OR REPLACE it with another expectation"


def _violation(spark: SparkSession, check: Check, columns: Sequence[str], sql: str) -> str:
    """Say which row a query has found first; empty for none."""
    found = spark.sql(sql).toArrow().to_pylist()
    return described(check, columns, [found[0][column] for column in columns]) if found else ""


# --- results ---


@dataclass(frozen=True)
class CheckedResults:
    """Rows of the output that stay, those that go elsewhere, and the counts by expectation."""

    rows: Rows
    others: Rows
    quarantined: Rows | None
    counts: dict[str, Checked]


@dataclass(frozen=True)
class ResultChecks:
    """Computed rows of an output, held against what is expected of them; ``stops``: that may fail."""

    spark: SparkSession
    stream: Stream
    target: Target
    plan: TickPlan
    stops: bool = True

    def run(self, rows: Rows, transport: Transport) -> CheckedResults:
        """Return what becomes of the rows. Raises StreamError EXPECTATION_FAILED."""
        kept = rows if rows.here is not None else transport.materialize(rows.frame)
        view_of(kept.frame, _RESULTS)
        counts = counted(self.spark, self.target.checks, _RESULTS, "1L")
        for check in self.target.checks:
            if self.stops and check.fails and counts[check.name].violated:
                provenance = self.target.shape.provenance
                hidden = provenance.types if provenance else ()
                columns = [
                    name for name in kept.frame.columns if name not in hidden and not name.startswith("_ls_")
                ]
                sql = f"SELECT {listed_sql(columns)} FROM {_RESULTS} WHERE NOT {check.holds} LIMIT 1"
                hint = f"correct {_source(self.stream)}, then {_leads_on(self.stream)}"
                raise ResultRefusedError(
                    "EXPECTATION_FAILED", _violation(self.spark, check, columns, sql), hint=hint
                )
        stays = stays_sql(self.target.checks) or "true"
        quarantined = quarantined_sql(self.target.checks)
        said = said_sql(self.plan, reason_sql(self.target.checks)) if quarantined else ""
        return CheckedResults(
            self._as(kept, f"SELECT * FROM {_RESULTS} WHERE {stays}"),
            self._as(kept, f"SELECT * FROM {_RESULTS} WHERE NOT ({stays})"),
            self._as(kept, f"SELECT *, {said} FROM {_RESULTS} WHERE {quarantined}") if quarantined else None,
            counts,
        )

    def _as(self, kept: Rows, sql: str) -> Rows:
        """Return what a query gives, here or in Spark as the rows are that it asks."""
        found = self.spark.sql(sql)
        return Rows.of(found) if kept.here is None else Rows(self.spark, found.toArrow())


# --- the quarantine of the source ---


@dataclass(frozen=True)
class SourceQuarantine:
    """The table of a stream's source rows that do not meet what is expected of them."""

    relations: Relations
    info: TableInfo

    @property
    def _stream(self) -> Stream:
        return self.relations.stream

    @property
    def _spark(self) -> SparkSession:
        return self.relations.spark

    def move(self, moved: Rows, tag: CommitTag) -> None:
        """Let rows come and go, in one commit, once for each tick; ``moved`` is of :class:`SourceChecks`."""
        view_of(moved.frame, _MOVED)
        time = self._time
        span = f"min({time}) AS low, max({time}) AS high" if time else "0L AS low, 0L AS high"
        sql = f"SELECT count(1) AS n, count_if(_ls_sign < 0) AS gone, {span} FROM {_MOVED}"
        found = self._spark.sql(sql).toArrow().to_pylist()[0]
        if not found["n"]:
            return
        table = self.relations.tables.open(self.info.path)
        table.refresh()
        if not found["gone"]:
            commit(table, self._written(self._came), tag)
            return
        self._register_old(table, self._where(found["low"], found["high"], by_arrow=self._by_arrow))
        rows = self._written(f"{self._stayed} UNION ALL {self._came}")
        commit(table, rows, tag, replace=self._where(found["low"], found["high"], by_arrow=self._by_arrow))

    def fill(self, version: int, tag: CommitTag) -> None:
        """Put what is to be there at a version of the source in the place of all that was."""
        table = self.relations.tables.open(self.info.path)
        table.refresh()
        said = said_sql(self.relations.plan, self._reason)
        sql = f"SELECT {self._columns}, {said} FROM {self._standing(version)}"
        rows = self._spark.sql(sql)
        commit(table, rows.toArrow() if self._by_arrow else rows, tag, replace=f"{TICK} >= 0")

    def expected(self, version: int) -> str:
        """Return SQL of the rows that are to be there at a version of the source, each with why."""
        return f"SELECT {self._columns}, {self._reason} AS {REASON} FROM {self._standing(version)}"

    def _standing(self, version: int) -> str:
        taken = standing_rows(self.relations, version, (None, None))
        return f"{_STANDING} WHERE {taken} AND {quarantined_sql(self._stream.checks)}"

    @property
    def _reason(self) -> str:
        return reason_sql(self._stream.checks)

    @property
    def _columns(self) -> str:
        return listed_sql(self._stream.changed_columns)

    @property
    def _by_arrow(self) -> bool:
        return self.relations.transport.name != SPARK

    @property
    def _time(self) -> str:
        """SQL of the rows' time in µs, by which rows that go are found; empty where they have none."""
        name = self.info.time_column
        timed = name and self.info.column(name).type == "timestamp"
        return f"unix_micros({quoted(name)})" if timed else ""

    def _where(self, low: int, high: int, *, by_arrow: bool) -> str:
        if not self._time:
            return f"{TICK} >= 0"
        literal, name = instant_literal if by_arrow else timestamp_literal, quoted(self.info.time_column)
        return f"{name} >= {literal(low)} AND {name} <= {literal(high)}"

    def _register_old(self, table: Table, where: str) -> None:
        if self._by_arrow:
            old = Rows(self._spark, read_arrow(table, None, where=where)).frame
        else:
            old = read_spark(self._spark, table, table.version).where(where)
        view_of(old, _OLD)

    @property
    def _came(self) -> str:
        """SQL of the rows that come."""
        said = said_sql(self.relations.plan, REASON)
        return f"SELECT {self._columns}, {said} FROM {each_sql(_MOVED, '_ls_sign')}"

    @property
    def _stayed(self) -> str:
        """SQL of the rows that were there and stay: of alike ones as many go as are said to."""
        names = self._stream.changed_columns
        same = " AND ".join(f"o.{quoted(name)} <=> g.{quoted(name)}" for name in [*names, REASON])
        numbered = (
            f"SELECT *, row_number() OVER (PARTITION BY {self._columns}, {REASON} ORDER BY {TICK}) AS _ls_n "
            f"FROM {_OLD}"
        )
        said = ", ".join(f"o.{name}" for name in [*map(quoted, names), AT, TICK, REASON])
        gone = f"SELECT * FROM {_MOVED} WHERE _ls_sign < 0"
        return (
            f"SELECT {said} FROM ({numbered}) o LEFT JOIN ({gone}) g ON {same} "
            f"WHERE o._ls_n > coalesce(-g._ls_sign, 0L)"
        )

    def _written(self, sql: str) -> pa.Table | DataFrame:
        rows = self._spark.sql(sql)
        return rows.toArrow() if self._by_arrow else rows
