"""Rows that are admitted to a stream that leaves late ones out: its windows, and what is buffered for later.

The state is the newest time seen and the rows that later windows need, so a window holds what was
admitted, whatever has become of the source since. Each commit is judged against the commits before it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.ranges import MARKED
from lakestream.compute.windows.window_rows import each_sql
from lakestream.engine.base.instants import latest
from lakestream.engine.base.names import TBNAME
from lakestream.engine.base.refused import spark_message
from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.relations import CHANGED, EMPTY_CHANGES, EVER, empty_view
from lakestream.engine.streams.expectations import stays_sql
from lakestream.engine.windows.family import Advance, Fired
from lakestream.language.quoting import quoted, quoted_text
from lakestream.storage.columns.times import iso
from lakestream.storage.delta import POSITION
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql
from lakestream.triggers.analytic import KEPT
from lakestream.triggers.assign import ORDER, ORDER_OF_ROWS, Move

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.windows.family import TickInput
    from lakestream.storage.records.registry import TickPlan
    from lakestream.triggers.analytic import Analytic

FLUSH = "flush"
"""The kind of a tick after which no row is to come (FLUSH STREAM)."""

CLASSIFIED, BUFFERED, ADMITTED = "ls_judged", "ls_held", "ls_admitted"
ARRIVED, EVALUATED = "ls_arrived", "ls_evaluated"
"""Rows that were admitted or held, and those of them that functions look at with their results."""
_MARKER = -1
"""The commit of the row of the state that stands for the newest time seen."""

STALE = "stale"
"""What a state says of itself when all windows are to be made anew from the source."""
_ORIGINS = {0: None, 1: FLUSH, 2: STALE}
"""What the number of that row (_ls_n) says: how the state came to be."""

_BUFFER = ("_ls_ts", "_ls_v", "_ls_c", "_ls_n", "_ls_due", "_ls_p")
"""What the state has of a row beside the source's columns (BIGINT)."""

_SPENT = "_ls_spent"
"""What it has of one besides where functions look at rows (BIGINT): 1 where they alone still need it.

So it has their results, and the row's hash, which takes longer to find than all else.
"""


@dataclass(frozen=True)
class _Commit:
    """What a commit brought, and the newest time before and after it (µs; None: none yet)."""

    version: int
    rows: int
    missing: int
    oldest: int | None
    before: int | None
    newest: int | None


@dataclass
class Admission:
    """One tick's rows of a stream: those buffered by earlier ticks, and those that its plan brings."""

    given: TickInput
    remembers: bool = field(default=False, init=False)
    """Whether functions have looked at rows before, of which some are held."""

    @property
    def stream(self) -> Stream:
        """The stream that admits them."""
        return self.given.stream

    @property
    def plan(self) -> TickPlan:
        """What the tick takes."""
        return self.given.plan

    def run(self) -> Advance:
        """Judge the changed rows; register ``ls_windows`` and ``ls_rows`` of the windows that are over."""
        known = newest_of(self.given.state)
        self.given.relations.events(self.stream.changed_columns)
        classified = classified_sql(self.stream, self._arrival(known), placed=self.stream.keeps_order)
        view_of_sql(self.given.spark, classified, CLASSIFIED)
        commits = self._commits(known)
        newest = commits[-1].newest if commits else self._passed(known)
        move = self._move(known, newest)
        self._register_buffered()
        self._register_admitted(self._classification(commits, move))
        self._mark(move)
        state = self._next(newest)
        errors = self._errors(commits)
        missing = sum(commit.missing for commit in commits)
        late = errors.num_rows - missing if errors is not None else 0
        rows = sum(commit.rows for commit in commits)
        return self._advance(state, rows, late, errors)

    def _advance(
        self,
        state: GroupState,
        rows: int,
        late: int = 0,
        errors: pa.Table | None = None,
        event_range: EventRange | None = None,
    ) -> Advance:
        """Return what was admitted, with the registered windows as those that are to be computed."""
        if self.given.output_committed:
            return Advance(state, rows, late)
        return Advance(state, rows, late, fired=Fired([EVER]), errors=errors, event_range=event_range)

    # --- the watermark ---

    def _arrival(self, known: int | None) -> int | None:
        """Return the time of rows that come by arrival: when the tick was planned; time never goes back."""
        if not self.stream.late.by_arrival:
            return None
        return max(self.plan.clock_us, known or 0)

    def _passed(self, known: int | None) -> int | None:
        """Return the newest time where no row has come: the clock goes on without rows."""
        return self._arrival(known) or known

    def _commits(self, known: int | None) -> list[_Commit]:
        """Return what each commit with rows brought, in order."""
        summed = self.given.spark.sql(
            f"SELECT _ls_v AS version, count(1) AS rows, count_if(_ls_ts IS NULL) AS missing, "
            f"min(_ls_ts) AS oldest, max(_ls_ts) AS newest FROM {CLASSIFIED} GROUP BY _ls_v ORDER BY _ls_v"
        ).toArrow()
        commits = []
        for row in summed.to_pylist():
            before = known
            known = latest(known, row["newest"])
            commits.append(_Commit(row["version"], row["rows"], row["missing"], row["oldest"], before, known))
        return commits

    def _move(self, known: int | None, newest: int | None) -> Move:
        before = None if known is None else known - self.stream.watermark_delay
        # Without a time there is no row that could be held against it.
        watermark = 0 if newest is None else newest - self.stream.watermark_delay
        return Move(before, watermark, ends=self.plan.kind == FLUSH)

    # --- admission ---

    def _classification(self, commits: Sequence[_Commit], move: Move) -> Classification:
        tolerance = self.stream.watermark_delay
        watermarks = [(c.version, None if c.before is None else c.before - tolerance) for c in commits]
        moved = [c for c in commits if c.newest != c.before]
        steps = [(c.version, c.newest - tolerance) for c in moved if c.newest is not None]
        by_arrival = self.stream.late.by_arrival
        return Classification(watermarks, steps, move, self.plan.upto, by_arrival)

    def _register_buffered(self) -> None:
        rows = self.given.state.rows
        if rows is None:
            view_of_sql(self.given.spark, empty_buffer_sql(self.stream), BUFFERED)
            return
        self.remembers = _SPENT in rows.column_names
        view_of_rows(self.given.spark, _buffered(rows), BUFFERED)

    def _register_admitted(self, classification: Classification) -> None:
        """Register the rows that may be in windows; functions look at those that are released now."""
        spark, stream = self.given.spark, self.stream
        if stream.analytic is None:
            view_of_sql(spark, admitted_sql(stream, classification), ADMITTED)
            return
        view_of_sql(spark, arrived_sql(stream, classification, remembers=self.remembers), ARRIVED)
        evaluated = spark.sql(evaluated_sql(stream, remembers=self.remembers))
        view_of(self.given.relations.transport.materialize(evaluated).frame, EVALUATED)
        view_of_sql(spark, admitted_with_results_sql(stream, remembers=self.remembers), ADMITTED)

    def _mark(self, move: Move) -> None:
        """Find out which windows are over, and register their rows."""
        marked = self.given.spark.sql(self._marked_sql(move))
        view_of(self.given.relations.transport.materialize(marked).frame, MARKED)
        register_windows(self.given.spark, self.stream, move, self.plan.clock_us)

    def _marked_sql(self, move: Move) -> str:
        assert self.stream.assigner is not None
        return self.stream.assigner.marked_sql(f"SELECT * FROM {ADMITTED}", move)

    def _next(self, newest: int | None) -> GroupState:
        """Return the rows that stay, and the newest time as a row of its own."""
        import pyarrow as pa

        if newest is None:
            return self.given.state
        stay = self.given.spark.sql(staying_sql(self.stream, remembers=self.remembers)).toArrow()
        nullable = pa.schema([field.with_nullable(True) for field in stay.schema])
        said = int(self.plan.kind == FLUSH)
        marker = pa.Table.from_pylist([{"_ls_ts": newest, "_ls_v": _MARKER, "_ls_n": said}], schema=nullable)
        return GroupState(pa.concat_tables([marker, stay.cast(nullable)]).combine_chunks())

    # --- what is left out ---

    def _errors(self, commits: Sequence[_Commit]) -> pa.Table | None:
        """Return the rows without a time and the late ones, None where there are none."""
        tolerance = self.stream.watermark_delay
        left_out = [
            commit
            for commit in commits
            if commit.missing
            or (
                commit.oldest is not None
                and commit.before is not None
                and commit.oldest < commit.before - tolerance
            )
        ]
        if not left_out:
            return None
        watermarks = [(c.version, None if c.before is None else c.before - tolerance) for c in left_out]
        self.given.relations.events(self.stream.source.columns)
        return self._error_rows(watermarks)

    def _error_rows(self, watermarks: Sequence[tuple[int, int | None]]) -> pa.Table:
        """Return what the error table says of the changed rows, registered anew with all their columns."""
        columns = self.stream.source.columns
        view_of_sql(self.given.spark, classified_sql(self.stream, None, columns), CLASSIFIED)
        return self.given.spark.sql(
            errors_sql(self.stream, watermarks, self.plan.clock_us, columns)
        ).toArrow()


@dataclass(frozen=True)
class Classification:
    """How the rows of a tick are judged.

    The watermark before each commit, the commits that moved it with what it was after each, its whole move.
    ``by_arrival``: a row's time is when it came.
    """

    watermarks: Sequence[tuple[int, int | None]]
    steps: Sequence[tuple[int, int]]
    move: Move
    upto: int
    by_arrival: bool = False

    def reached(self) -> str:
        """Return SQL of the commit that moved the watermark to or past a row's time, NULL for none yet.

        A row that comes just at the watermark waits until it moves on (eKuiper); one by arrival is
        there at once.
        """
        if self.by_arrival:
            return "_ls_v"
        listed = ", ".join(
            f"struct({version}L AS v, {watermark}L AS mark)" for version, watermark in self.steps
        )
        first = f"get(filter(array({listed}), s -> s.mark >= _ls_ts AND s.v >= _ls_v), 0).v"
        if len(self.steps) == 1:
            version, watermark = self.steps[0]
            first = f"CASE WHEN {watermark}L >= _ls_ts AND {version}L >= _ls_v THEN {version}L END"
        elif not self.steps:
            first = _literal(None)
        return f"coalesce({first}, {self.upto}L)" if self.move.ends else first


# --- the state ---


def newest_of(state: GroupState) -> int | None:
    """Return the newest time that a stream has seen (µs), None before its first row."""
    return None if state.rows is None else int(state.rows["_ls_ts"][_marker_at(state.rows)].as_py())


def origin_of_state(state: GroupState) -> str | None:
    """Return FLUSH for a state behind a FLUSH STREAM, STALE for one that must be made anew, else None."""
    return None if state.rows is None else _ORIGINS[state.rows["_ls_n"][_marker_at(state.rows)].as_py() or 0]


def stale_state() -> GroupState:
    """Return a state that says nothing but that all windows are to be made anew."""
    import pyarrow as pa

    values = {"_ls_ts": 0, "_ls_v": _MARKER, "_ls_n": 2}
    return GroupState(pa.table({name: pa.array([values.get(name)], pa.int64()) for name in _BUFFER}))


def due_of(state: GroupState) -> int | None:
    """Return the next instant at which time alone ends a window (µs), None for none."""
    import pyarrow.compute as pc

    if state.rows is None:
        return None
    found = pc.min(state.rows["_ls_due"]).as_py()
    return None if found is None else int(found)


def _marker_at(rows: pa.Table) -> int:
    import pyarrow.compute as pc

    return int(pc.index(rows["_ls_v"], _MARKER).as_py())


def _buffered(rows: pa.Table) -> pa.Table:
    """Return the rows of a state without its marker; those of an older lakestream have no place."""
    import pyarrow as pa
    import pyarrow.compute as pc

    buffered = rows.filter(pc.not_equal(rows["_ls_v"], _MARKER))
    if "_ls_p" in buffered.column_names:
        return buffered
    return buffered.append_column("_ls_p", pa.nulls(buffered.num_rows, pa.int64()))


# --- SQL over the relations of a tick ---


def classified_sql(
    stream: Stream, arrival: int | None, columns: Sequence[str] = (), *, placed: bool = False
) -> str:
    """Return SQL of the written rows with their commit and time; ``arrival`` is the time of all of them.

    ``columns`` are other ones than those that the stream uses; ``placed``: the rows have their place.
    """
    time = stream.time_us if arrival is None else f"{arrival}L"
    written = CHANGED
    if stream.exact:  # alike rows of a net change come as one, with their number
        written = each_sql(CHANGED, "_ls_sign")
    return (
        f"SELECT {_columns(stream, columns)}, CAST(_commit_version AS BIGINT) AS _ls_v, {time} AS _ls_ts, "
        f"{POSITION if placed else _literal(None)} AS _ls_p FROM {written} "
        f"WHERE _change_type IN ('insert', 'update_postimage'){of_stream(stream)}"
    )


def empty_buffer_sql(stream: Stream) -> str:
    """Return SQL of no buffered rows."""
    own = ", ".join(f"CAST(NULL AS BIGINT) AS {name}" for name in _BUFFER)
    return f"SELECT {_columns(stream)}, {own} FROM {CHANGED} WHERE false"


def buffered_again_sql(stream: Stream, rows: str, before: int | None) -> str:
    """Return SQL of rows of the source as if buffered since the watermark was at ``before`` (µs).

    Where the order of rows does not count, it must not show in which commit a row came.
    """
    place = "_ls_v, _ls_p" if stream.keeps_order else f"0L AS _ls_v, {_literal(None)} AS _ls_p"
    released = "CAST(NULL AS BIGINT)" if before is None else f"CASE WHEN _ls_ts <= {before}L THEN 0L END"
    return (
        f"SELECT {_columns(stream)}, _ls_ts, {place}, {released} AS _ls_c, "
        f"CAST(NULL AS BIGINT) AS _ls_n, CAST(NULL AS BIGINT) AS _ls_due FROM {rows}"
    )


def admitted_sql(stream: Stream, classification: Classification) -> str:
    """Return SQL of the rows that may be in windows, as :mod:`lakestream.triggers.assign` takes them."""
    return _looked_at_sql(stream, arrived_sql(stream, classification, remembers=False))


def arrived_sql(stream: Stream, classification: Classification, *, remembers: bool) -> str:
    """Return SQL of the rows that were admitted, or held; of the latter with what functions have of them."""
    columns, reached = _columns(stream), classification.reached()
    condition = f" AND ({stream.condition})" if stream.condition else ""
    version = "0L AS _ls_v" if stream.exact and not stream.keeps_order else "_ls_v"
    results = _results(stream) if remembers else ()
    own = "".join(f", {name}" for name in results)
    none = "".join(f", NULL AS {name}" for name in results)
    hashed = f"xxhash64({', '.join(quoted(name) for name in _hashed_columns(stream))})"
    fresh = (
        f"SELECT {columns}, _ls_ts, {version}, _ls_p, {reached} AS _ls_c, CAST(NULL AS BIGINT) AS _ls_n, "
        f"{hashed} AS _ls_h, true AS _ls_waited{none} FROM ({_with_mark(classification.watermarks)}) "
        f"WHERE _ls_ts IS NOT NULL AND (_ls_mark IS NULL OR _ls_ts >= _ls_mark){condition}"
    )
    moved = f"coalesce(_ls_c, {reached})"
    buffered = (
        f"SELECT {columns}, _ls_ts, _ls_v, _ls_p, {moved}, _ls_n, {'_ls_h' if remembers else hashed}, "
        f"_ls_c IS NULL{own} FROM {BUFFERED}"
    )
    rows = f"{fresh} UNION ALL {buffered}"
    return stream.analytic.touched(rows, _RELEASED) if stream.analytic and remembers else rows


def no_events_sql(stream: Stream, analytic: Analytic) -> str:
    """Return SQL of no rows with the results of functions."""
    own = [f"CAST(NULL AS {'BOOLEAN' if name == '_ls_waited' else 'BIGINT'}) AS {name}" for name in _OF_ROW]
    rows = f"SELECT {', '.join([_columns(stream), *own])} FROM {CHANGED} WHERE false"
    return analytic.sql(rows, [*map(quoted, stream.changed_columns), *_OF_ROW], remembers=False)


def evaluated_sql(stream: Stream, *, remembers: bool) -> str:
    """Return SQL of the rows that are released now and those that functions still need, with the results."""
    assert stream.analytic is not None
    # An event that a window holds too is there twice.
    needed = f"_ls_touched AND (_ls_waited OR {_SPENT} = 1)" if remembers else _RELEASED
    rows = f"SELECT * FROM {ARRIVED} WHERE {needed}"
    return stream.analytic.sql(rows, [*map(quoted, stream.changed_columns), *_OF_ROW], remembers=remembers)


def admitted_with_results_sql(stream: Stream, *, remembers: bool) -> str:
    """Return SQL of the rows that may be in windows: those released now, and those that windows hold."""
    assert stream.analytic is not None
    listed = ", ".join([_columns(stream), *_OF_ROW, *stream.analytic.columns])
    condition = f" AND ({stream.analytic.condition})" if stream.analytic.condition else ""
    rows = f"SELECT {listed} FROM {EVALUATED} WHERE _ls_waited{condition}"
    if remembers:
        held = f"_ls_c IS NOT NULL AND NOT _ls_waited AND {_SPENT} = 0"
        rows += f" UNION ALL SELECT {listed} FROM {ARRIVED} WHERE {held}"
    return _looked_at_sql(stream, rows)


def staying_sql(stream: Stream, *, remembers: bool) -> str:
    """Return SQL of the rows that are to be held: for later windows, and for functions over later rows."""
    listed = [_columns(stream), *_BUFFER]
    if stream.analytic is None:
        return f"SELECT {', '.join(listed)} FROM {MARKED} WHERE _ls_stays"
    own = [*stream.analytic.columns, "_ls_h"]
    waiting = own if remembers else [*(f"NULL AS {name}" for name in own[:-1]), "_ls_h"]
    not_due = [_columns(stream), *("NULL AS _ls_due" if name == "_ls_due" else name for name in _BUFFER)]
    parts = [
        f"SELECT {', '.join([*listed, *own])}, 0L AS {_SPENT} FROM {MARKED} WHERE _ls_stays",
        f"SELECT {', '.join([*not_due, *waiting])}, 0L FROM {ARRIVED} WHERE _ls_c IS NULL",
        f"SELECT {', '.join([*not_due, *own])}, 1L FROM {EVALUATED} WHERE {KEPT}",
    ]
    if remembers:
        of_others = f"{_SPENT} = 1 AND NOT _ls_touched"
        parts.append(f"SELECT {', '.join([*not_due, *own])}, 1L FROM {ARRIVED} WHERE {of_others}")
    return " UNION ALL ".join(parts)


_RELEASED = "_ls_c IS NOT NULL AND _ls_waited"
"""SQL that holds for a row that is released now."""

_OF_ROW = ("_ls_ts", "_ls_v", "_ls_p", "_ls_c", "_ls_n", "_ls_waited", "_ls_h")
"""What a row has beside the source's columns while a tick looks at it."""


def _results(stream: Stream) -> tuple[str, ...]:
    """Return the columns that a state has of functions."""
    return () if stream.analytic is None else (*stream.analytic.columns, _SPENT)


def _looked_at_sql(stream: Stream, rows: str) -> str:
    """Return SQL of rows with their group, and what the trigger looks at in them."""
    assert stream.assigner is not None
    groups = "".join(
        f", {group} AS {name}" for group, name in zip(stream.groups, stream.group_columns, strict=True)
    )
    looked_at = "".join(
        f", {sql} AS {name}"
        for sql, name in zip(stream.assigner.expressions, stream.assigner.columns, strict=True)
    )
    order = f", struct({ORDER_OF_ROWS}) AS {ORDER}" if stream.calculation.orders_rows else ""
    return f"SELECT *, {stream.group_id()} AS _ls_gid{groups}{looked_at}{order} FROM ({rows})"


def _with_mark(watermarks: Sequence[tuple[int, int | None]]) -> str:
    """Return SQL of the judged rows with the watermark before their commit, as _ls_mark."""
    if len(watermarks) <= 1:
        watermark = _literal(watermarks[0][1]) if watermarks else _literal(None)
        return f"SELECT *, {watermark} AS _ls_mark FROM {CLASSIFIED}"
    listed = ", ".join(f"({version}L, {_literal(watermark)})" for version, watermark in watermarks)
    return (
        f"SELECT j.*, m.mark AS _ls_mark FROM {CLASSIFIED} j "
        f"JOIN VALUES {listed} AS m(v, mark) ON m.v = j._ls_v"
    )


def _literal(value: int | None) -> str:
    return "CAST(NULL AS BIGINT)" if value is None else f"{value}L"


def errors_sql(
    stream: Stream, watermarks: Sequence[tuple[int, int | None]], clock_us: int, columns: Sequence[str]
) -> str:
    """Return SQL of the rows that some commits left out, as the error table has them: with these columns."""
    name = stream.time_name
    column = quoted(name)
    known = f"coalesce(concat('\\'', CAST({column} AS STRING), '\\''), 'NULL')"
    missing = f"concat('no timestamp: {name} is ', {known})"
    late = "concat('late: before the watermark ', CAST(timestamp_micros(_ls_mark) AS STRING))"
    versions = ", ".join(str(version) for version, _ in watermarks)
    values = {
        "at": f"timestamp_micros({clock_us}L)",
        "reason": f"CASE WHEN _ls_ts IS NULL THEN {missing} ELSE {late} END",
        "event_time": "timestamp_micros(_ls_ts)",
        "commit_version": "_ls_v",
        "event": f"to_json(struct({_columns(stream, columns)}))",
    }
    listed = ", ".join(f"{sql} AS `{column}`" for column, sql in values.items())
    return (
        f"SELECT {listed} FROM ({_with_mark(watermarks)}) WHERE _ls_v IN ({versions}) "
        f"AND (_ls_ts IS NULL OR _ls_ts < _ls_mark)"
    )


def failed_windows(failed: Sequence[tuple[dict[str, int], Exception]], clock_us: int) -> pa.Table:
    """Return windows whose calculation failed as the error table has them; the event is the window."""
    import pyarrow as pa

    time = pa.timestamp("us", "UTC")
    bounds = [
        {name: f"{iso(window[f'_ls_{name}']).removesuffix('.000000')}+00:00" for name in ("low", "high")}
        for window, _ in failed
    ]
    reasons = [f"calculation: {spark_message(error)}" for _, error in failed]
    events = [json.dumps({"window_start": b["low"], "window_end": b["high"]}) for b in bounds]
    return pa.table(
        {
            "at": pa.array([clock_us] * len(failed), pa.int64()).cast(time),
            "reason": pa.array(reasons, pa.string()),
            "event_time": pa.array([window["_ls_high"] for window, _ in failed], pa.int64()).cast(time),
            "commit_version": pa.nulls(len(failed), pa.int64()),
            "event": pa.array(events, pa.string()),
        }
    )


def _columns(stream: Stream, columns: Sequence[str] = ()) -> str:
    return ", ".join(quoted(name) for name in columns or stream.changed_columns)


def register_windows(
    spark: SparkSession, stream: Stream, move: Move, clock_us: int, event_range: EventRange | None = None
) -> None:
    """Register the rows of the windows that are over (of a range), and these with their placeholders."""
    assert stream.assigner is not None
    local = f", {clock_us * 1000}L AS _tlocaltime" if "_tlocaltime" in stream.calculation.used else ""
    rows = view_of_sql(
        spark,
        f"SELECT *, timestamp_micros(_ls_low) AS _twstart, timestamp_micros(_ls_high) AS _twend, "
        f"(_ls_high - _ls_low) div 1000L AS _twduration{local}, _ls_gid AS _tgrpid "
        f"FROM ({stream.assigner.members_sql(MARKED, move)}){_within(event_range)}",
        ROWS,
    )
    view_of_sql(spark, windows_of_rows_sql(stream, str(rows)), WINDOWS)


def windows_of_rows_sql(stream: Stream, rows: str) -> str:
    """Return SQL of the windows, with their placeholders, that rows are assigned to."""
    placeholders = ["_twstart", "_twend", "_twduration", "_tgrpid"]
    placeholders += ["_tlocaltime"] if "_tlocaltime" in stream.calculation.used else []
    columns = ["_ls_gid", "_ls_k", *stream.group_columns, "_ls_low", "_ls_high", *placeholders]
    return f"SELECT DISTINCT {', '.join(columns)}, 0L AS _ls_c FROM {rows}"


def _within(event_range: EventRange | None) -> str:
    """Return SQL that leaves out the rows of windows that are not of a range of event time."""
    found = [] if event_range is None else bounds_of(event_range, "_ls_low", "_ls_high")
    return f" WHERE {' AND '.join(found)}" if found else ""


def bounds_of(event_range: EventRange, low: str, high: str) -> list[str]:
    """Return SQL conditions of the windows of a range of event time; low and high are SQL, in µs."""
    bounds = {
        f"{high} >": event_range.overlap_us,
        f"{low} >=": event_range.from_us,
        f"{low} <": event_range.to_us,
        f"{high} <=": event_range.over_us,
    }
    found = [f"{bound} {at}L" for bound, at in bounds.items() if at is not None]
    of_groups = " OR ".join(
        f"(_ls_gid = {gid}L AND {low} >= {first}L AND {low} < {last}L)"
        for gid, first, last in event_range.groups
    )
    return [*found, *([f"({of_groups})"] if of_groups else [])]


def register_empty(spark: SparkSession, stream: Stream) -> None:
    """Register the relations of a tick without rows, for Spark to check the stream's expressions over."""
    empty_view(spark, stream.source.info, CHANGED, EMPTY_CHANGES)
    view_of_sql(spark, classified_sql(stream, None), CLASSIFIED)
    view_of_sql(spark, empty_buffer_sql(stream), BUFFERED)
    move = Move(None, 0)
    nothing = Classification((), (), move, 0)
    if stream.analytic is None:
        view_of_sql(spark, admitted_sql(stream, nothing), ADMITTED)
    else:
        view_of_sql(spark, arrived_sql(stream, nothing, remembers=False), ARRIVED)
        view_of_sql(spark, evaluated_sql(stream, remembers=False), EVALUATED)
        view_of_sql(spark, admitted_with_results_sql(stream, remembers=False), ADMITTED)
    assert stream.assigner is not None
    view_of_sql(spark, stream.assigner.marked_sql(f"SELECT * FROM {ADMITTED}", move), MARKED)
    register_windows(spark, stream, move, 0)


def _hashed_columns(stream: Stream) -> tuple[str, ...]:
    """Return the columns by whose hash rows of equal time are put in order: all that Spark can hash."""
    kinds = {column.name: column.type for column in stream.source.info.columns}
    return tuple(name for name in stream.changed_columns if "map<" not in kinds[name])


def of_stream(stream: Stream) -> str:
    """Return SQL that narrows a condition to rows that there are for a stream: its subtable's, as expected.

    What FILTER leaves out is there, and moves the watermark.
    """
    subtable, stays = stream.source.subtable, stays_sql(stream.checks)
    parts = [] if subtable is None else [f"{quoted(TBNAME)} = {quoted_text(subtable)}"]
    if stays:
        parts.append(f"({f'NOT coalesce({stream.condition}, false) OR ' if stream.condition else ''}{stays})")
    return "".join(f" AND {part}" for part in parts)
