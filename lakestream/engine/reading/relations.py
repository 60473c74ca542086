"""What a tick reads, registered as the relations that its queries name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.names import visible_columns
from lakestream.engine.reading.queries import net_sql, placed_rows_sql, rewritten_sql, rows_sql, taken_sql
from lakestream.engine.reading.transport import (
    SPARK,
    ArrowTransport,
    Size,
    SparkTransport,
    choose_transport,
    transport_by,
    unplaced,
)
from lakestream.engine.streams.stream import timestamp_us
from lakestream.language.quoting import quoted
from lakestream.storage.delta import POSITION, rows_between
from lakestream.storage.rows.reading import constant
from lakestream.storage.rows.views import view_of, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.windows.calculation import Bound, Read, Relation
    from lakestream.engine.base.rows import Rows
    from lakestream.engine.reading.narrowed import Narrowed, OneOf
    from lakestream.engine.reading.transport import Transport
    from lakestream.engine.streams.stream import Stream
    from lakestream.language.model import StreamDefinition
    from lakestream.storage.delta import Tables
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord, TickPlan
    from lakestream.storage.tables.datafiles import Span

    Spans = list[tuple[int, int]]

CHANGED, BEFORE, EXCLUDED, STATE, CHANGES, FIRED, EXTREMES, SUMMED, GOING_ON, UPDATED, GROUPS, PRESENT = (
    "ls_changed",
    "ls_before",
    "ls_excluded",
    "ls_state",
    "ls_changes",
    "ls_detected",
    "ls_extremes",
    "ls_summed",
    "ls_going_on",
    "ls_updated",
    "ls_groups",
    "ls_present",
)
_RAW, _REWRITTEN = "ls_raw", "ls_rewritten"
EMPTY_CHANGES = (
    "CAST(0 AS BIGINT) AS _commit_version, '' AS _change_type, 1L AS _ls_sign, "
    f"CAST(NULL AS BIGINT) AS {POSITION}"
)
"""What changed rows have beside the source's columns."""

_FEW = Size(500_000)
"""Rows beside the changed ones that are read as Arrow."""

EVER = (-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999 in microseconds, which are the timestamps of Spark and Delta."""


@dataclass(frozen=True)
class History:
    """Rows written before the stream was created: taken from ``start_us`` on, or not at all.

    ``version`` is the source's version at creation; ``taken`` says whether its rows are the stream's.
    Rows before ``until_us`` of that version are not (None: there are none to leave out), nor are those
    that commits of the ranges ``(after, upto]`` in ``skipped`` wrote.
    """

    version: int
    taken: bool
    start_us: int | None
    until_us: int | None
    skipped: tuple[tuple[int, int], ...] = ()

    def takes_all(self, plan: TickPlan) -> bool:
        """Return whether all changed rows of a plan are the stream's, as far as the plan can tell."""
        oldest = plan.oldest_us
        if self.until_us is None or plan.kind == "history":
            return True
        return oldest is not None and oldest >= self.until_us


def history_of(record: StreamRecord, definition: StreamDefinition) -> History:
    """Return what a stream takes of the rows that were there before it."""
    until, skipped = record.until_us, record.skipped
    if record.resynced is not None:
        return History(record.start_version, True, record.floor_us, None, skipped)
    taken = definition.options.wants_history
    return History(record.start_version, taken, until if taken else None, until, skipped)


@dataclass
class Relations:
    """The tables of one tick at the versions of its plan, by the plan's way of moving bytes."""

    spark: SparkSession
    tables: Tables
    stream: Stream
    plan: TickPlan
    history: History
    transport: Transport
    added: pa.Table | None = field(default=None, init=False)
    """The changed rows, where they are registered as they were added and travel as Arrow."""
    has_changes: bool = field(default=False, init=False)
    """Whether the changed rows are registered; who lets go of them says so."""

    @classmethod
    def of(
        cls, spark: SparkSession, tables: Tables, stream: Stream, plan: TickPlan, history: History
    ) -> Relations:
        """Return the relations of a plan, by its transport."""
        return cls(spark, tables, stream, plan, history, transport_by(plan.transport, spark, tables))

    def by(self, transport: str) -> Relations:
        """Return the same relations by another way of moving bytes."""
        return replace(self, transport=transport_by(transport, self.spark, self.tables))

    @property
    def _path(self) -> str:
        return self.stream.source.info.path

    # --- changes ---

    def changes(self, columns: Sequence[str]) -> None:
        """Register the changed rows of the plan; where rows went, those that cancel out are gone."""
        plan, info, self.has_changes = self.plan, self.stream.source.info, True
        if plan.after == plan.upto:
            empty_view(self.spark, info, CHANGED, EMPTY_CHANGES)
            return
        if plan.kind == "history":
            span = (plan.lower_us, plan.upper_us)
            rows = self.transport.rows(self._path, plan.upto, columns, info.time_column, [span])
            version = f"CAST({plan.upto} AS BIGINT) AS _commit_version"
            changed = rows.selectExpr("*", version, "'insert' AS _change_type")
        elif plan.appends_only and self.stream.keeps_order:
            changed = self.transport.arrivals(self._path, plan.after, plan.upto, columns)
        elif plan.appends_only:
            versions = not self.stream.follows_source and plan.upto - plan.after > 1
            kept = self.transport.appended(self._path, plan.after, plan.upto, columns, versions=versions)
            self.added = kept.here
            if kept.here is None:
                changed = kept.frame
            else:  # each counts once
                counted = kept.here.append_column("_ls_sign", constant(1, kept.here.num_rows))
                changed = ArrowTransport(self.spark, self.tables).frame(counted)
        else:
            view_of(self.transport.changes(self._path, plan.after, plan.upto, columns), _RAW)
            changed = self.spark.sql(net_sql(self.stream, _RAW, plan.upto, columns))
            changed = self.transport.materialize(changed).frame
            if self.stream.keeps_order:
                changed = unplaced(changed)
        if "_ls_sign" not in changed.columns:
            changed = changed.selectExpr("*", "1L AS _ls_sign")
        taken = self._without_untaken(changed)
        if taken is not changed:
            self.added = None
        view_of(taken, CHANGED)

    def _without_untaken(self, changed: DataFrame) -> DataFrame:
        """Return the changes without rows that were there at creation and are not the stream's.

        Such a row may be deleted, and written again as it was.
        """
        if self.history.takes_all(self.plan):
            return changed
        time = f"unix_micros({quoted(self.stream.source.info.time_column)})"
        untaken = changed if self.history.skipped else changed.where(f"{time} < {self.history.until_us}")
        found = untaken.selectExpr(f"min({time}) AS low", f"max({time}) AS high")
        low, high = (column.to_pylist()[0] for column in found.toArrow().columns)
        if low is None or self._excluded([(low, high + 1)]) is None:
            return changed
        self._read(self.plan.after, [(low, high + 1)], ())
        view_of(changed, CHANGED)
        return self.spark.sql(taken_sql(self.stream, CHANGED, changed.columns, BEFORE, EXCLUDED))

    def looked_at(self) -> DataFrame:
        """Return the changed rows of the plan as each commit left them, with _ls_sign: how many came or went.

        What a commit writes anew as it was is not among them.
        """
        plan, info, columns = self.plan, self.stream.source.info, self.stream.changed_columns
        listed = ", ".join(map(quoted, columns))
        if plan.after == plan.upto:
            empty_view(self.spark, info, _RAW, "1L AS _ls_sign")
            return self.spark.sql(f"SELECT * FROM {_RAW}")
        if plan.kind == "history":
            span = (plan.lower_us, plan.upper_us)
            rows = self.transport.rows(self._path, plan.upto, columns, info.time_column, [span])
            return rows.selectExpr("*", "1L AS _ls_sign")
        if plan.appends_only:
            rows = self.transport.appended(self._path, plan.after, plan.upto, columns, versions=False).frame
            rows = rows.selectExpr("*", "1L AS _ls_sign")
        else:
            view_of(self.transport.changes(self._path, plan.after, plan.upto, columns), _RAW)
            sign = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
            net = self.spark.sql(
                f"SELECT {listed}, _commit_version, CAST(sum({sign}) AS BIGINT) AS _ls_sign FROM {_RAW} "
                f"GROUP BY {listed}, _commit_version HAVING sum({sign}) <> 0"
            )
            rows = self.transport.materialize(net).frame
        return self._without_untaken(rows).selectExpr(*map(quoted, columns), "_ls_sign")

    def standing_at(self, version: int, spans: Sequence[Span]) -> DataFrame:
        """Return the rows of the source at a version, of spans of its time, that the stream takes any of."""
        columns, time = self.stream.changed_columns, self._file_time
        rows = self.transport.rows(self._path, version, columns, time, spans)
        ends = [(EVER[0] if low is None else low, EVER[1] if high is None else high) for low, high in spans]
        excluded = self._excluded(ends)
        if _takes_what_comes(self.stream, self.history):
            there = self.transport.rows(self._path, self.history.version, columns, "", [(None, None)])
            excluded = str(view_of(there, EXCLUDED))
        if excluded is None:
            return rows
        view_of(rows, BEFORE)
        listed = ", ".join(map(quoted, columns))
        return self.spark.sql(f"SELECT {listed} FROM {BEFORE} EXCEPT ALL SELECT {listed} FROM {excluded}")

    def events(self, columns: Sequence[str]) -> None:
        """Register the changed rows of the plan as they were written, each with its commit.

        Where the order of rows counts, each with its place besides.
        """
        plan, info = self.plan, self.stream.source.info
        if plan.after == plan.upto:
            empty_view(self.spark, info, CHANGED, EMPTY_CHANGES)
        elif self.stream.keeps_order:
            rows = self.transport.arrivals(self._path, plan.after, plan.upto, columns)
            view_of(rows, CHANGED)
        elif plan.appends_only:
            versions = plan.upto - plan.after > 1
            added = self.transport.appended(self._path, plan.after, plan.upto, columns, versions=versions)
            view_of(added.frame, CHANGED)
        else:
            view_of(self.transport.changes(self._path, plan.after, plan.upto, columns), CHANGED)

    # --- rows of the source ---

    def rows_as_changed(self, spans: Spans, only: Sequence[OneOf] = ()) -> None:
        """Register the rows that windows of the spans may hold: those before the tick, and the changes.

        Rows before it that have other values than ``only`` those may be left out.
        """
        spans = self._of_table(spans)
        before = self._rows_before(spans, only)
        excluded = self._excluded(spans) if before else None
        view_of_sql(self.spark, rows_sql(self.stream, CHANGED, before, excluded), ROWS)

    def rows_at(self, version: int, spans: Spans, only: Sequence[OneOf] = ()) -> None:
        """Register the stream's rows of the spans as they are at a version of the source.

        Rows that have other values than ``only`` those may be left out.
        """
        spans = self._of_table(spans)
        self._read(version, spans, only)
        view_of_sql(self.spark, rows_sql(self.stream, None, BEFORE, self._excluded(spans)), ROWS)

    def rows_before(self, spans: Spans) -> bool:
        """Register the stream's rows of the spans from before the tick; return whether there are any."""
        spans = self._of_table(spans)
        before = self._rows_before(spans, ())
        if before is not None:
            view_of_sql(self.spark, rows_sql(self.stream, None, before, self._excluded(spans)), ROWS)
        return before is not None

    def placed_rows_at(self, version: int, spans: Spans) -> None:
        """Register what :meth:`rows_at` does, each row with its commit and place."""
        spans = self._of_table(spans)
        rows = self.transport.placed_rows(
            self._path, version, self.stream.changed_columns, self._file_time, spans
        )
        view_of(rows, BEFORE)
        view_of_sql(self.spark, placed_rows_sql(self.stream, BEFORE, self._excluded(spans)), ROWS)

    def _read(self, version: int, spans: Spans, only: Sequence[OneOf]) -> None:
        read, columns = spans if self._file_time else [(None, None)], self.stream.changed_columns
        rows = self.transport.rows(self._path, version, columns, self._file_time, read, only)
        rewritten = self._rewritten(version, spans)
        view_of(rows if rewritten is None else rows.unionByName(rewritten), BEFORE)

    @property
    def _file_time(self) -> str:
        """The time column by which the source's files are found, empty where rows go by another time."""
        return self.stream.source.info.time_column if goes_by_table_time(self.stream) else ""

    def _of_table(self, spans: Spans) -> Spans:
        """Return spans as those of the source's own time; of another one nothing follows for it."""
        return spans if self._file_time else [EVER]

    def _rewritten(self, version: int, spans: Spans) -> DataFrame | None:
        """Return what rows of the spans were before they were rewritten, where that counts; None for none.

        A recalculation reads the source as it is (TDengine A7).
        """
        if not self.stream.counts_rewritten or self.plan.kind == "recalculation":
            return None
        rewrites, skipped = self.tables.open(self._path).rewrites, self.history.skipped
        commits = rewrites.within(self.history.version, version)
        taken = [v for v in commits if not any(after < v <= upto for after, upto in skipped)]
        self._note_times([version for version in taken if version not in rewrites.times], rewrites.times)
        taken = [version for version in taken if _meets(rewrites.times[version], spans)]
        if not taken:
            return None
        columns, time = self.stream.changed_columns, self._time
        view_of(self._changes_of(taken), _REWRITTEN)
        within = " OR ".join(f"({time} >= {low}L AND {time} < {high}L)" for low, high in spans)
        return self.spark.sql(
            f"SELECT * FROM ({rewritten_sql(self.stream, _REWRITTEN, columns)}) WHERE {within}"
        )

    @property
    def _time(self) -> str:
        return f"unix_micros({quoted(self.stream.source.info.time_column)})"

    def _changes_of(self, versions: Sequence[int]) -> DataFrame:
        columns = self.stream.changed_columns
        parts = [self.transport.changes(self._path, after, upto, columns) for after, upto in _runs(versions)]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _note_times(self, versions: Sequence[int], times: dict[int, tuple[int, int] | None]) -> None:
        """Note of what time the rows were that commits took away or wrote anew: most are read once only."""
        if not versions:
            return
        view_of(self._changes_of(versions), _REWRITTEN)
        found = self.spark.sql(
            f"SELECT CAST(_commit_version AS BIGINT) AS v, min({self._time}) AS low, "
            f"max({self._time}) AS high FROM {_REWRITTEN} "
            f"WHERE _change_type IN ('update_preimage', 'delete') GROUP BY 1"
        ).toArrow()
        known = {row["v"]: (row["low"], row["high"]) for row in found.to_pylist() if row["low"] is not None}
        times |= {version: known.get(version) for version in versions}

    def _rows_before(self, spans: Spans, only: Sequence[OneOf]) -> str | None:
        """Register the source's rows of the spans as they were before the tick; None for no such rows."""
        plan, history = self.plan, self.history
        if plan.kind == "history":
            upper, start = plan.lower_us, history.start_us
            if upper is None or plan.slice is None or not plan.slice.number:
                return None
            spans = [(low, min(high, upper)) for low, high in spans if low < upper]
            spans = [(low if start is None else max(low, start), high) for low, high in spans]
        elif plan.after == history.version and history.until_us is None and not history.taken:
            return None
        if not spans:
            return None
        self._read(plan.upto if plan.kind == "history" else plan.after, spans, only)
        return BEFORE

    def _excluded(self, spans: Spans) -> str | None:
        """Register the source's rows that the stream does not take; None for none.

        Those are rows of before its creation, and what was written while it was told to pass over it.
        """
        if self.plan.kind == "history":
            return None
        until = self.history.until_us
        overlapping = [(low, min(high, until)) for low, high in spans if until is not None and low < until]
        columns, found = self.stream.changed_columns, []
        if overlapping:
            time = self.stream.source.info.time_column
            found.append(self.transport.rows(self._path, self.history.version, columns, time, overlapping))
        for after, upto in self.history.skipped:
            written = self.transport.changes(self._path, after, upto, columns)
            written = written.where("_change_type IN ('insert', 'update_postimage')")
            found.append(written.select(*map(quoted, columns)))
        if not found:
            return None
        view_of(reduce(lambda one, other: one.unionByName(other), found), EXCLUDED)
        return EXCLUDED

    # --- other tables ---

    def net_changes(self, path: str, versions: tuple[int, int], relation: Relation, name: str) -> Rows:
        """Return the rows of a table that versions ``(after, upto]`` added or took away.

        ``name`` is that of a view for them as they were written. What cancels out is gone, but where values
        cannot be counted: Spark groups by no map.
        """
        raw = view_of(self.transport.changes(path, *versions, relation.columns), name)
        listed = ", ".join(map(quoted, relation.columns))
        kinds = (relation.types.get(column.lower(), "") for column in relation.columns)
        counted = ""
        if not any(word in kind for kind in kinds for word in ("map<", "variant")):
            came = "_change_type IN ('insert', 'update_postimage')"
            counted = f" GROUP BY {listed} HAVING sum(CASE WHEN {came} THEN 1 ELSE -1 END) <> 0"
        return self.transport.materialize(self.spark.sql(f"SELECT {listed} FROM {raw}{counted}"))

    def whole(self, read: Read) -> DataFrame:
        """Return all rows of a table that the calculation reads, at the plan's version."""
        return self._table_read(replace(read, lower=None, upper=None), EVER)

    def tables_read(
        self,
        spans: Spans,
        *,
        without: frozenset[str] = frozenset(),
        narrowed: Narrowed | None = None,
    ) -> None:
        """Register the tables that the calculation reads, as far as windows of the spans need them.

        The views ``without`` are there already; ``narrowed`` says what rows of views have that count.
        """
        span = (spans[0][0], spans[-1][1])
        for read in self.stream.calculation.reads:
            if read.view not in without:
                view_of(self._table_read(read, span, (narrowed or {}).get(read.view, ())), read.view)

    def _table_read(self, read: Read, span: tuple[int, int], only: Sequence[OneOf] = ()) -> DataFrame:
        info = self.stream.tables[read.relation.key]
        asked = read.relation.version
        version = self.plan.table_versions[info.path] if asked is None else asked
        lower, upper = _edge(read.lower, span, 0), _edge(read.upper, span, 1)
        transport = self.transport
        large = lower is None and self.plan.large_tables.get(info.path)
        if transport.name != SPARK and large:
            transport = SparkTransport(self.spark, self.tables)
        columns, time = read.relation.columns, info.time_column
        return transport.rows(info.path, version, columns, time, [(lower, upper)], only)


def by_size(relations: Relations, spans: Spans) -> Relations:
    """Return relations by the way that rows of some spans move: as Arrow while they are few."""
    source = relations.tables.open(relations.stream.source.info.path)
    return relations.by(choose_transport(source, _rows_of(relations, spans), _FEW))


def _rows_of(relations: Relations, spans: Spans) -> Size:
    """Return about how many rows of the source lie in some spans."""
    info = relations.stream.source.info
    source = relations.tables.open(info.path)
    return Size(sum(rows_between(source, info.time_column, low, high) for low, high in spans))


def _meets(times: tuple[int, int] | None, spans: Spans) -> bool:
    """Return whether a first and a last time (µs; None: there is none) may lie in one of the spans."""
    return times is not None and any(low <= times[1] and times[0] < high for low, high in spans)


def _runs(versions: Sequence[int]) -> list[tuple[int, int]]:
    """Return versions, which are in order, as ranges ``(after, upto]``."""
    runs: list[tuple[int, int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1] = runs[-1][0], version
        else:
            runs.append((version - 1, version))
    return runs


def _edge(bound: Bound | None, span: tuple[int, int], end: int) -> int | None:
    """Return the microseconds that a read's bound comes to over all windows, a little wide."""
    if bound is None or (bound.placeholder == "_tnext_ts" and end):
        return None
    return span[end] + bound.offset + (2 if end else -1)


def empty_view(spark: SparkSession, info: TableInfo, view: str, more: str = "") -> None:
    """Register a table's visible columns without a row, with ``more`` columns behind them."""
    shown = set(visible_columns(info))
    columns = [
        f"CAST(NULL AS {column.type}) AS {quoted(column.name)}"
        for column in info.columns
        if column.name in shown
    ]
    listed = ", ".join([*columns, *([more] if more else [])])
    view_of_sql(spark, f"SELECT {listed} WHERE false", view)


def _takes_what_comes(stream: Stream, history: History) -> bool:
    """Return whether no row that was there when a stream began is its own, whatever the time of the row."""
    timed = bool(stream.source.info.time_column)
    return stream.late.by_arrival or not (history.taken or timed)


def goes_by_table_time(stream: Stream) -> bool:
    """Return whether a row's time is that of the source's own time column, by which its files are found."""
    return not stream.time_us or stream.time_us == timestamp_us(stream.source.info.time_column)
