"""One tick of one stream: the stages of its plan, run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.evaluate import BATCH, Way
from lakestream.engine.base.faults import reach
from lakestream.engine.base.state import GroupState, summary_of, summary_sql
from lakestream.engine.planning.planner import table_size
from lakestream.engine.reading.relations import (
    CHANGED,
    CHANGES,
    EVER,
    EXTREMES,
    FIRED,
    STATE,
    UPDATED,
    Relations,
)
from lakestream.engine.reading.transport import ARROW, Kept, SparkTransport, fits_here, frame_of, merge_spans
from lakestream.engine.streams.previous import PREVIOUS, register_previous
from lakestream.engine.streams.stream import Part
from lakestream.engine.streams.write import (
    read_windows,
    windows_of_part,
    write_errors,
    write_part,
    write_result,
)
from lakestream.engine.ticks.isolation import Isolation
from lakestream.engine.ticks.notices import Notices
from lakestream.engine.ticks.stages import (
    DELAY,
    AdmitAgain,
    AdmitRows,
    Compute,
    CountWritten,
    DetectWindows,
    FireAgain,
    FireByClock,
    FireInstants,
    ReadChanges,
    ReadRows,
    UpdateWindows,
    Write,
    WriteErrors,
    stages,
)
from lakestream.engine.windows.admission import Admission, failed_windows, newest_of
from lakestream.engine.windows.cutting import Cutting, Found
from lakestream.engine.windows.extremes import Extremes
from lakestream.engine.windows.passing import Passed, Passing, known_sums
from lakestream.engine.windows.readmission import ANEW, Readmission, Renewal
from lakestream.engine.windows.updated import Updated, count_of, late_spans, least, picked
from lakestream.engine.windows.updating import Updating
from lakestream.engine.windows.waiting import check_groups, check_windows
from lakestream.language.quoting import quoted
from lakestream.storage.delta import capabilities, rows_between
from lakestream.storage.reading import arrow_frame
from lakestream.storage.types import types_of
from lakestream.triggers.detect import WIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.relations import FirstWindow, History
    from lakestream.engine.reading.transport import Transport
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.ticks.stages import Stage
    from lakestream.notify.outbox import Outbox
    from lakestream.storage.delta import Table, Tables
    from lakestream.storage.registry import TickPlan

    Rows: TypeAlias = Any  # an Arrow table (which has no types) or a DataFrame


_SHOWN = "ls_shown"
_FINDING = (UpdateWindows, DetectWindows, AdmitRows, AdmitAgain, FireInstants, FireByClock)
"""The stages that find out what fires: where that is nothing, the rest is not run."""


@dataclass
class Outcome:
    """What a tick did; ``shrunk`` are groups that wait of which rows went."""

    state: GroupState
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    missed: int = 0
    windows: int = 0
    output_version: int | None = None
    shrunk: tuple[int, ...] = ()


@dataclass
class Tick:
    """A tick under way. ``landed`` says that its output is there already (replay after a crash).

    ``updated`` is the result of the update query, where streams of one shape have shared it.
    """

    spark: SparkSession
    tables: Tables
    stream: Stream
    target: Target
    plan: TickPlan
    state: GroupState
    history: History
    max_windows: int
    epoch: int
    landed: bool = False
    outbox: Outbox | None = None
    updated: pa.Table | None = None
    relations: Relations = field(init=False)
    outcome: Outcome = field(init=False)
    _results: list[Rows] = field(default_factory=list)
    _replaced: list[pa.Table] = field(default_factory=list)
    _spans: list[tuple[int, int]] = field(default_factory=list)
    _settled: bool = False
    _begins_anew: bool = False
    _part: Part | None = None
    """The part of event time whose windows the results take the place of; None: only of their own."""
    _errors: list[pa.Table] = field(default_factory=list)
    _written_rows: pa.Table | None = None
    _shrunk: tuple[int, ...] = ()
    _app: str = field(init=False)
    _notices: Notices | None = field(init=False)

    def __post_init__(self) -> None:
        """Take the plan's way of moving bytes."""
        self.relations = Relations.of(self.spark, self.tables, self.stream, self.plan, self.history)
        self.outcome = Outcome(self.state)
        self._app = output_app(self.stream.uuid)
        self._notices = self._made_notices()

    def _made_notices(self) -> Notices | None:
        """Return what takes the tick's events; None where nobody is told of them."""
        notification = self.stream.definition.notification
        if notification is None or self.landed or self.outbox is None:
            return None
        if self.plan.kind == "history" and not notification.history:
            return None
        return Notices(
            self.spark, self.stream, self.target, self.plan, self.relations, self.outbox, self.epoch
        )

    @property
    def transport(self) -> Transport:
        """How this tick's bytes move."""
        return self.relations.transport

    def run(self) -> Outcome:
        """Run the stages of the plan; raises StreamError with the named state of the stream."""
        return self._run(None)

    def recalculate(self, part: Part, app: str) -> Outcome:
        """Compute all windows of a part of event time from the source as it is, and put them in its place."""
        self._begins_anew = part.overlap_us is None and part.from_us is None
        self._app = app
        return self._run(part)

    def _run(self, part: Part | None) -> Outcome:
        run: Mapping[type[Stage], Callable[[Any], None]] = {
            ReadChanges: self._read_changes,
            UpdateWindows: self._update,
            DetectWindows: self._detect,
            AdmitRows: self._admit,
            AdmitAgain: lambda _: self._admit_again(part),
            CountWritten: self._count_written,
            FireInstants: self._fire_instants,
            FireByClock: self._fire_by_clock,
            FireAgain: lambda _: self._fire_again(part),
            ReadRows: self._read_rows,
            Compute: self._compute,
            WriteErrors: self._write_errors,
            Write: self._write,
        }
        try:
            for stage in stages(self.stream, self.target, self.plan, part):
                run[type(stage)](stage)
                if isinstance(stage, _FINDING) and (self.landed or self._is_idle):
                    break
        finally:
            if isinstance(self.transport, SparkTransport):
                self.transport.release()
        self.outcome.shrunk = self._shrunk
        return self.outcome

    # --- the wall clock ---

    def _count_written(self, _stage: CountWritten) -> None:
        """Bring the groups of a stream that the clock alone triggers forward."""
        self.spark.sql(self.stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)
        names = "".join(f", any_value({name}) AS {name}" for name in self.stream.group_columns)
        self._written_rows = self.spark.sql(
            f"SELECT gid{names}, min(ts) AS first, max(ts) AS newest, count(1) AS rows "
            f"FROM {CHANGES} WHERE kept GROUP BY gid"
        ).toArrow()
        state = self.state.updated(self._written_rows.drop_columns(["rows"]))
        rows = _total(self._written_rows, "rows")
        self.outcome = Outcome(state, rows_in=rows, missed=self.plan.extra.get("missed", 0))

    def _fire_instants(self, stage: FireInstants) -> None:
        """Let an instant of PERIOD fire for all groups there are."""
        if self.landed:
            return
        assert self._written_rows is not None  # by _count_written
        fired = self._instants(self.outcome.state, self._written_rows, only_written=stage.only_written)
        self.outcome.windows = fired.num_rows
        if not fired.num_rows:
            return
        arrow_frame(self.spark, fired).createOrReplaceTempView(FIRED)
        self.spark.sql(self.stream.windows_sql(FIRED, 0)).createOrReplaceTempView(WINDOWS)
        if self._notices is not None:
            self._notices.fired(FIRED)
        before = self.plan.extra["neighbours"][0]
        self.spark.sql(self.stream.written_sql(CHANGED, before)).createOrReplaceTempView(ROWS)
        self._settled, self._spans = True, [EVER]
        self.relations.tables_read(self._spans)

    # --- rows that are admitted ---

    def _admit(self, _stage: AdmitRows) -> None:
        """Admit rows; the windows that are over are to be computed."""
        admitted = self._admission.run()
        self.outcome = Outcome(admitted.state, rows_in=admitted.rows, late=admitted.late)
        if self.landed:
            return
        self._settled, self._spans = True, [EVER]
        self._part = admitted.replaces
        if admitted.errors is not None:
            self._errors.append(admitted.errors)

    def _admit_again(self, part: Part | None) -> None:
        """Find the windows of a part that are over, from the source as it is; the state stays."""
        assert part is not None  # by stages()
        if newest_of(self.state) is None:
            return
        written = partial(windows_of_part, self.tables.open(self.target.info.path), self.target)
        given = (self.spark, self.relations, self.stream, self.plan, self.state)
        renewed = Renewal(*given, part=part, written=written).run()
        self._settled, self._spans, self._part = True, [EVER], renewed.replaces

    def _write_errors(self, _stage: WriteErrors) -> None:
        """Write the rows that were left out, and the windows that failed."""
        rows = _joined(self._errors)
        if rows is not None:
            assert self.target.errors is not None  # by stages()
            table = self.tables.open(self.target.errors.path)
            write_errors(table, rows, self._errors_app, self.plan, self.epoch)

    @property
    def _errors_app(self) -> str:
        """The series of the tick's commits to the error table: a recalculation has its own."""
        ticks = self._app == output_app(self.stream.uuid)
        return errors_app(self.stream.uuid) if ticks else f"{self._app}:errors"

    @property
    def _admission(self) -> Admission:
        given = (self.spark, self.relations, self.stream, self.plan, self.state)
        anew = self.plan.kind == ANEW
        return Readmission(*given, everything=anew) if self.stream.exact or anew else Admission(*given)

    def _settle_failures(self) -> pa.Table | None:
        """Compute the results now; windows whose calculation fails are left out, and returned as errors."""
        from pyspark.errors import PySparkException

        try:
            self._results = [self._computed(rows) for rows in self._results]
        except PySparkException as error:
            isolation = Isolation(self.spark, self.stream, self._try, error)
            failed = isolation.run()
            self._results = []
            self._evaluate(isolation.evaluated)
            self._results = [self._computed(rows) for rows in self._results]
            return failed_windows(failed, self.plan.clock_us)
        return None

    def _try(self, stream: Stream) -> None:
        """Evaluate the registered windows for nothing but whether that fails."""
        self.spark.sql(evaluated_sql(self.spark, stream, retracts=False, settled=True)).toArrow()

    def _computed(self, rows: Rows) -> Rows:
        """Return rows that are there already: as Arrow, or kept by Spark if they are for Spark to write."""
        kept = self.transport.keep(rows)
        found = kept.frame if kept.rows is None else kept.rows
        # How they are written depends on how many there are; a window of several groups counts as many.
        self.outcome.windows += count_of(found)
        return found

    def _instants(self, state: GroupState, written: pa.Table, *, only_written: bool) -> pa.Table:
        """Return the instant for each group; without PARTITION BY there is one group, with rows or not."""
        import pyarrow as pa

        names = ["gid", *self.stream.group_columns]
        known = written if only_written else state.rows
        groups = None if known is None else known.select(names)
        if not self.stream.groups and not only_written:
            groups = pa.table({"gid": pa.array([0], pa.int64())})
        if groups is None:
            groups = written.select(names)
        before, after = self.plan.extra["neighbours"]
        now = self.plan.clock_us
        values = {"k": now, "c": self.plan.upto, "low": before, "high": now, "after": after}
        for name, value in values.items():
            groups = groups.append_column(name, pa.array([value] * groups.num_rows, pa.int64()))
        return groups

    def _fire_by_clock(self, stage: FireByClock) -> None:
        """Let windows fire because time has passed: open ones, or those that the clock has closed."""
        if self.landed or not len(self.state):
            return
        if self.stream.cut is not None:
            self._take_cut(self._cutting.opened({(gid, low) for gid, low in self.plan.extra["windows"]}))
        else:
            self._fire_by_time(closes=stage.closes)
        if self._notices is not None and stage.closes:
            self._notices.closed()

    def _fire_by_time(self, *, closes: bool) -> None:
        self._state_view()
        if closes:
            since, until = self.plan.extra["closed"]
            ranges = self.stream.clock_sql(STATE, since, until)
        else:
            windows = ", ".join(f"({gid}L, {k}L, {k}L)" for gid, k in self.plan.extra["windows"])
            ranges = f"SELECT * FROM VALUES {windows} AS t(gid, a, b)"
        self._fire(self.stream.fired_sql(STATE, self.plan.upto, ranges))

    def _fire_again(self, part: Part | None) -> None:
        """Let all windows of a part fire that have fired."""
        assert part is not None  # by stages()
        if self.stream.cut is None:
            self._part = replace(part, without=self.stream.waiting_groups)
        if not len(self.state):
            return
        if self.stream.cut is not None:
            self._take_cut(self._cutting.again(part))
            return
        self._state_view()
        if self.stream.begins_again:
            self._begin_earlier(part)
        self._fire(self.stream.recalculated_sql(STATE, self.plan.upto, part))
        if self._notices is not None:
            self._notices.closed(again=True)

    def _begin_earlier(self, part: Part) -> None:
        """Have the groups begin with what the source or the output has first of a part, if it was left out.

        Where the output has the window before it, they had begun: only that tells of what is left out there.
        """
        known = self.spark.sql(self.relations.begun_sql(self.plan.upto, STATE, part, self._begun_before))
        arrow_frame(self.spark, known.toArrow()).coalesce(1).createOrReplaceTempView(STATE)

    def _begun_before(self, first: FirstWindow) -> str:
        """Return SQL of the groups of which the output has the window before a part's first one."""
        groups: set[int] = set()
        if self.target.shape.provenance:
            table = self.tables.open(self.target.info.path)
            part = Part(from_us=first.before_us, to_us=first.low_us)
            groups = {gid for gid, _, _ in windows_of_part(table, self.target, part)}
        listed = ", ".join(f"({gid}L)" for gid in sorted(groups))
        return f"VALUES {listed}" if listed else "SELECT 0L WHERE false"

    def _fire(self, detected: str) -> None:
        """Let the windows of a detection result fire, over the source as it is; the state stays."""
        fired = self.transport.keep(self.spark.sql(detected))
        fired.frame.createOrReplaceTempView(FIRED)
        summary = self._summed(fired)
        self._settled, self._spans = True, _spans_of(summary)
        self.outcome = Outcome(self.state, windows=_total(summary, "windows"))

    @property
    def _is_idle(self) -> bool:
        return not (self._results or self._replaced or self._spans or self._notices)

    # --- changes ---

    def _read_changes(self, stage: ReadChanges) -> None:
        if self.updated is None:
            self.relations.changes(stage.columns)
        waits = self.stream.waiting_groups and self.stream.forgets_what_went
        if waits and not self.plan.extra.get("appends_only"):
            found = self.spark.sql(self.stream.shrunk_sql(CHANGED)).toArrow()
            self._shrunk = tuple(found["gid"].to_pylist())

    # --- windows kept by partial aggregates ---

    def _update(self, stage: UpdateWindows) -> None:
        """Let changes and open windows give the results and the next state in one query."""
        updating, state = self._updating, self.state
        if self.updated is None:
            state = state if self.landed else updating.with_open_windows(state)
            updated = updating.alone(state)
        else:
            updated = updating.shared(self.updated)
        if _total(updated.summary, "ignored") or (self._notices is not None and updated.late.num_rows):
            # Which of the rows count depends on what each commit found, and what is told of windows that
            # had fired on what they were; the rows are judged one by one.
            if self.updated is not None:
                self.relations.changes(self.stream.changed_columns)
            self._detect(DetectWindows(stage.rule))
            return
        self._take_update(state, updated)

    @property
    def _updating(self) -> Updating:
        return Updating(
            self.spark,
            self.tables,
            self.relations,
            self.stream,
            self.target,
            self.plan,
            self.history,
            self.max_windows,
            None if self._notices is None else self._notices.rules,
        )

    def _take_update(self, state: GroupState, updated: Updated) -> None:
        opened = None
        if state.opened is not None or not len(state):
            opened = updated.kept
        groups = updated.summary.select(["gid", *self.stream.group_columns, "first", "newest"])
        self.outcome = Outcome(
            state.updated(groups, opened),
            rows_in=_total(updated.summary, "rows"),
            late=_total(updated.summary, "late"),
            windows=updated.count,
        )
        if self.landed:
            return
        if updated.count:
            self._results.extend(updated.due)
            if self._notices is not None and updated.fired is not None:
                self._notices.updated(updated.fired)
        late = updated.late
        if updated.told is not None and late.num_rows:
            self._take_late(updated.told, late)

    def _take_late(self, told: pa.Table, late: pa.Table) -> None:
        """Have the windows that changed after they had fired computed again, from the source as it is."""
        arrow_frame(self.spark, told).coalesce(1).createOrReplaceTempView(UPDATED)
        self.spark.sql(self.stream.late_sql(UPDATED, self.plan.upto)).createOrReplaceTempView(FIRED)
        self._spans = merge_spans(late_spans(late))
        self._settled = True
        self._replaced.append(picked(told, "_ls_late", {"_ls_gid": "gid", "_ls_low": "low"}))
        self.outcome.windows += self._replaced[-1].num_rows

    # --- windows detected from rows ---

    def _detect(self, stage: DetectWindows) -> None:
        """Detect, and sum up by group: the next state, how much fires, and which span it covers."""
        stream = self.stream
        if stage.passes and self._passes(known_sums(stream, self.state, self.relations.added)):
            return
        self.spark.sql(stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)
        self._state_view()
        if stream.cut is not None:
            self._cut(may_pass=stage.passes)
            return
        fired = self._fired()
        fired.frame.createOrReplaceTempView(FIRED)
        summary = None
        if self._notices is not None:
            # Which of them open, or are no more, is found out by a list of them.
            summary = self._summed(fired)
            self._notices.detected()
        options = stream.definition.options
        shown = self._shown()
        if options.at_once or options.at_open or options.by_clock or shown is not None:
            anew = stream.renews_open and not (self.plan.extra.get("appends_only") and self.target.unique)
            sql = stream.early_sql(FIRED, STATE, anew=anew, shown=shown)
            fired, summary = self.transport.keep(self.spark.sql(sql)), None
            fired.frame.createOrReplaceTempView(FIRED)
        summary = self._summed(fired) if summary is None else summary
        counted = {name: _total(summary, name) for name in ("rows", "late", "windows", "again", "gone")}
        touched = summary.select(["gid", *stream.group_columns, "first", "newest"])
        self.outcome = Outcome(
            self.state.updated(touched),
            rows_in=counted["rows"],
            late=counted["late"],
            windows=counted["windows"],
        )
        if self.landed:
            return
        self._settled = stream.exact
        self._spans = _spans_of(summary)
        self._replaced = self._rewritten(counted)

    def _shown(self) -> str | None:
        """Return SQL of the open windows that MAX_DELAY has shown, where rows of them may have gone."""
        import pyarrow as pa

        options = self.stream.definition.options
        if options.max_delay is None or self.plan.extra.get("appends_only") or self.landed:
            return None
        provenance = self.target.shape.provenance
        if not provenance or not len(self.state):
            return None
        opened = self.spark.sql(self.stream.open_sql(STATE)).toArrow()
        if not opened.num_rows:
            return None
        output = self.tables.open(self.target.info.path)
        there = read_windows(output, provenance, least(opened["low"]))
        open_now = {*zip(opened["gid"].to_pylist(), opened["low"].to_pylist(), strict=True)}
        found = open_now.intersection(provenance.windows(there))
        if not found:
            return None
        gids, lows = zip(*sorted(found), strict=True)
        shown = pa.table({"gid": pa.array(gids, pa.int64()), "low": pa.array(lows, pa.int64())})
        arrow_frame(self.spark, shown).coalesce(1).createOrReplaceTempView(_SHOWN)
        return f"SELECT gid, collect_list(low) AS lows FROM {_SHOWN} GROUP BY gid"

    def _cut(self, *, may_pass: bool) -> None:
        """Cut windows by what rows there are."""
        cutting = self._cutting
        changes = cutting.summed()
        if may_pass and self._passes(changes):
            return
        found = cutting.run(changes)
        check_windows(found.fired.num_rows, self.max_windows)
        self._take_cut(found)

    def _passes(self, changes: pa.Table | None) -> bool:
        """Cut and compute the rows of summed up changes in one query, if that can be; return whether."""
        passed = None if changes is None else self._passing.run(changes)
        if passed is None:
            return False
        check_windows(passed.windows, self.max_windows)
        self._take_passed(passed, changes)
        return True

    @property
    def _passing(self) -> Passing:
        return Passing(
            self.spark,
            self.relations,
            self.stream,
            self.target,
            self.state,
            self.plan.upto,
            self.plan.clock_us,
        )

    def _take_passed(self, passed: Passed, changes: pa.Table) -> None:
        self.outcome = Outcome(
            self.state.updated(passed.groups),
            rows_in=_total(changes, "n"),
            late=_total(changes, "late"),
            windows=passed.windows,
        )
        if passed.due.num_rows and not self.landed:
            self._results.append(passed.due)

    @property
    def _cutting(self) -> Cutting:
        version = self.plan.upto
        return Cutting(self.spark, self.tables, self.relations, self.stream, self.target, self.state, version)

    def _take_cut(self, found: Found) -> None:
        self.outcome = Outcome(
            self.state.updated(found.groups),
            rows_in=found.rows,
            late=found.late,
            windows=found.fired.num_rows,
        )
        if self.landed:
            return
        if self._notices is not None:
            self._notices.take(found.events)
        arrow_frame(self.spark, found.fired).createOrReplaceTempView(FIRED)
        self._settled, self._spans = True, found.spans
        self._replaced = [found.gone] if found.gone.num_rows else []

    def _state_view(self) -> None:
        if self.state.rows is not None and len(self.state):
            arrow_frame(self.spark, self.state.rows).coalesce(1).createOrReplaceTempView(STATE)
            return
        self.spark.sql(self.stream.empty_state_sql(CHANGES)).createOrReplaceTempView(STATE)

    def _fired(self) -> Kept:
        stream = self.stream
        extremes = Extremes(self.spark, self.relations)
        if stream.exact:
            extremes.register(both=True)
            return self.transport.keep(self.spark.sql(stream.net_detection.sql(CHANGES, STATE, EXTREMES)))
        fired = self.transport.keep(self.spark.sql(stream.detection.sql(CHANGES, STATE)))
        if stream.deletes and not self.plan.extra.get("appends_only") and extremes.register(both=False):
            fired.frame.createOrReplaceTempView(FIRED)
            sql = stream.detection.without_first_sql(FIRED, STATE, EXTREMES)
            return self.transport.keep(self.spark.sql(sql))
        return fired

    def _summed(self, fired: Kept) -> pa.Table:
        """Sum up by group; raises TooManyWindowsError, unless only windows with rows count: a row makes few.

        Where somebody is told of them, all are looked at. What has landed is not computed again.
        """
        if fired.rows is not None:
            summary = summary_of(fired.rows, self.stream.group_columns)
        else:
            summary = self.spark.sql(summary_sql(FIRED, self.stream.group_columns)).toArrow()
        lists_all = not self.stream.counting_rows or self._notices is not None
        if lists_all and not self.landed:
            check_groups(self.stream, summary, summary["windows"], self.max_windows)
        return summary

    def _rewritten(self, counted: Mapping[str, int]) -> list[pa.Table]:
        """Return group and start of the windows whose old rows go."""
        found = []
        if counted["again"]:
            found.append(self.spark.sql(self.stream.detection.again_sql(FIRED)).toArrow())
        if counted["gone"]:
            gone = self.spark.sql(self.stream.detection.gone_sql(FIRED)).toArrow()
            found += [gone.filter(gone["high"].is_null()).drop_columns(["high"]), *self._widely_gone(gone)]
        return found

    def _widely_gone(self, gone: pa.Table) -> list[pa.Table]:
        """Return the windows of wide ranges that are no more, as far as the output has them."""
        import pyarrow as pa

        ranges = gone.filter(gone["high"].is_valid()).to_pylist()
        if not ranges or not self.target.shape.provenance:
            return []
        part = Part(groups=tuple((row["gid"], row["low"], row["high"] + 1) for row in ranges))
        there = windows_of_part(self.tables.open(self.target.info.path), self.target, part)
        windows = {"gid": [gid for gid, *_ in there], "low": [low for _, low, _ in there]}
        return [pa.table(windows, schema=gone.schema.remove(gone.schema.get_field_index("high")))]

    # --- computing windows from rows ---

    def _read_rows(self, stage: ReadRows) -> None:
        """Register the rows of the span that fires, and the other tables at the plan's versions."""
        if not self._spans:
            return
        if stage.rows is not None and self._settled:
            self.relations.rows_at(self.plan.upto, self._spans)
        elif stage.rows is not None:
            self.relations.rows_as_changed(self._spans)
        # What MAX_DELAY has computed is as at a closing (TDengine).
        opens, wide = self.plan.kind != DELAY, self.outcome.windows > WIDE
        windows = self.stream.windows_sql(FIRED, self.plan.clock_us, opens=opens, wide=wide)
        self.spark.sql(windows).createOrReplaceTempView(WINDOWS)
        self.relations.tables_read(self._spans)

    def _compute(self, stage: Compute) -> None:
        if self._spans:
            self._evaluate()
        if stage.isolates and (failed := self._settle_failures()) is not None:
            self._errors.append(failed)

    def _evaluate(self, stream: Stream | None = None) -> None:
        """Evaluate the calculation for the registered windows, by the way of the stream or of another one."""
        retracts = not self.plan.extra.get("appends_only", False)
        previous = self._previous()
        sql = evaluated_sql(
            self.spark, stream or self.stream, retracts=retracts, settled=self._settled, previous=previous
        )
        rows = self.spark.sql(self.target.shape.select(sql, unique=self.target.appends))
        if self._notices is not None:
            kept = self.transport.keep(rows)
            self._notices.results(kept.frame)
            self._results.append(kept.frame if kept.rows is None else kept.rows)
            return
        self._results.append(rows)

    def _previous(self) -> str | None:
        """Return a view of the values before the registered windows, None where nothing is before them."""
        if not self.stream.carries or self._begins_anew:
            return None
        register_previous(self.spark, self.tables, self.stream, self.target)
        return PREVIOUS

    # --- writing ---

    def _write(self, _stage: Write) -> None:
        """Write the results, and take back the windows they replace, under a transaction id."""
        rows, again = self._handed_over(), _joined(self._replaced)
        reach("C3")
        table = self.tables.open(self.target.info.path)
        if self._notices is not None:
            self._notices.write(table, self._app, again=again, part=self._part)
        if self._part is not None:
            written = write_part(
                table, self.target, rows, part=self._part, app=self._app, plan=self.plan, epoch=self.epoch
            )
        else:
            written = write_result(
                self.spark,
                table,
                self.target,
                rows,
                again=again,
                app=self._app,
                plan=self.plan,
                epoch=self.epoch,
            )
        self.outcome.rows_out = written.rows
        self.outcome.output_version = written.version

    def _handed_over(self) -> Rows:
        """Return the rows as the output can take them: delta-rs cannot write every table."""
        import pyarrow as pa

        if self._goes_as_arrow:
            found = [rows if isinstance(rows, pa.Table) else rows.toArrow() for rows in self._results]
            if not found:
                return self._no_rows().toArrow()
            return pa.concat_tables([rows.cast(found[0].schema) for rows in found])
        frames = [frame_of(self.spark, rows) for rows in self._results]
        if not frames:
            return self._no_rows()
        rows = frames[0]
        for more in frames[1:]:
            rows = rows.unionByName(more)
        return rows

    @property
    def _goes_as_arrow(self) -> bool:
        """Whether delta-rs writes the result: it is ten times as fast as Spark, if the rows fit here."""
        output = self.tables.open(self.target.info.path)
        if not capabilities(output).arrow_writes:
            return False
        if self.transport.name == ARROW:
            return True
        if self.plan.extra.get("spark_only") or not self.target.appends:
            return False
        replaced = _joined(self._replaced)
        rows = self.outcome.windows
        if replaced is not None and replaced.num_rows:
            rows += self._rows_near(output, replaced)
        return fits_here(rows, len(self.target.shape.names))

    def _rows_near(self, output: Table, replaced: pa.Table) -> int:
        """Return about how many rows of the output may have to be written again with replaced windows."""
        import pyarrow.compute as pc

        provenance = self.target.shape.provenance
        if provenance is None:
            return table_size(output, output.version).rows  # they do not say where they lie
        starts = pc.min_max(replaced["low"]).as_py()
        return rows_between(output, provenance.start_in_statistics, starts["min"], starts["max"] + 1)

    def _no_rows(self) -> DataFrame:
        """Return the output's columns without a row: only old rows go."""
        return self.spark.sql(f"{self.target.shape.nothing} WHERE false")


def _spans_of(summary: pa.Table) -> list[tuple[int, int]]:
    low, high = summary["low"].to_pylist(), summary["high"].to_pylist()
    return merge_spans([(a, b) for a, b in zip(low, high, strict=True) if a is not None and b is not None])


def _joined(tables: list[pa.Table]) -> pa.Table | None:
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="default") if tables else None


def output_app(uuid: str) -> str:
    """Return the transaction application id of a stream's output commits."""
    return f"lakestream:{uuid}:output"


def errors_app(uuid: str) -> str:
    """Return the transaction application id of a stream's commits to its error table."""
    return f"lakestream:{uuid}:errors"


def _total(summary: pa.Table, name: str) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(summary[name]).as_py() or 0)


def evaluated_sql(
    spark: SparkSession,
    stream: Stream,
    *,
    retracts: bool,
    settled: bool = False,
    previous: str | None = None,
) -> str:
    """Return the SQL of the calculation's result for the registered windows, by the stream's way.

    ``previous`` names a view of the values before the windows, for a stream that carries them on.
    """
    if stream.way is not Way.EACH:
        return stream.evaluation(retracts=retracts, settled=settled, previous=previous).sql()
    _each_window(spark, stream, retracts=retracts, settled=settled).createOrReplaceTempView("ls_evaluated")
    return "SELECT * FROM ls_evaluated"


def _each_window(spark: SparkSession, stream: Stream, *, retracts: bool, settled: bool) -> DataFrame:
    """Evaluate window by window what Spark cannot for all at once, in batches of a query each."""
    import pyarrow as pa

    evaluation = stream.evaluation(retracts=retracts, settled=settled)
    windows = spark.sql(evaluation.fired_sql())
    kinds = types_of(windows)
    listed = ", ".join(_as_literal(name, kind) for name, kind in kinds.items())
    windows.createOrReplaceTempView("ls_each")
    literals = [
        dict(zip(kinds, row, strict=True)) for row in spark.sql(f"SELECT {listed} FROM ls_each").collect()
    ]
    if not literals:
        nothing = {name: f"CAST(NULL AS {kind})" for name, kind in kinds.items()}
        return spark.sql(evaluation.each_sql([nothing])).limit(0)
    batches = [literals[at : at + BATCH] for at in range(0, len(literals), BATCH)]
    # One batch after the other: joins of all of them at once would hold as many broadcasts in memory.
    results = [spark.sql(evaluation.each_sql(batch)).toArrow() for batch in batches]
    return arrow_frame(spark, pa.concat_tables(results)).coalesce(1)


def _as_literal(name: str, kind: str) -> str:
    """Return SQL that gives a value as a literal of Spark SQL."""
    column = quoted(name)
    if kind == "string":
        escaped = f"replace(replace({column}, '\\\\', '\\\\\\\\'), '\\'', '\\\\\\'')"
        body = f"concat('\\'', {escaped}, '\\'')"
    else:
        body = f"concat('CAST(\\'', CAST({column} AS STRING), '\\' AS {kind})')"
    return f"coalesce({body}, 'CAST(NULL AS {kind})') AS {column}"
