"""One tick of one stream: read, advance, evaluate, commit, report, by the stages of its plan."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakestream.compute.windows.calculation import WINDOWS
from lakestream.compute.windows.evaluate import Way
from lakestream.compute.windows.keyed.keys import Share
from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.refused import spark_errors
from lakestream.engine.base.rows import Rows
from lakestream.engine.planning.checks import gone
from lakestream.engine.planning.planner import table_size
from lakestream.engine.reading.queries import shrunk_sql
from lakestream.engine.reading.relations import CHANGED, Relations
from lakestream.engine.reading.touched import Touched
from lakestream.engine.reading.transport import SPARK, fits_here
from lakestream.engine.streams.write import (
    take_out_others,
    tick_tag,
    write_errors,
    write_range,
    write_result,
)
from lakestream.engine.ticks.evaluating import evaluated_sql
from lakestream.engine.ticks.expecting import ResultChecks, SourceChecks, SourceQuarantine
from lakestream.engine.ticks.isolation import Isolation
from lakestream.engine.ticks.notices import RESULTS, Notices, event_rules
from lakestream.engine.ticks.previous import PREVIOUS, register_previous
from lakestream.engine.ticks.stages import (
    CheckResults,
    CheckRows,
    Compute,
    FollowTables,
    ReadChanges,
    ReadRows,
    Write,
    WriteErrors,
    stages,
)
from lakestream.engine.windows.family import Step, TickInput
from lakestream.engine.windows.once.admission import failed_windows
from lakestream.errors import StorageError
from lakestream.storage.delta import capabilities, rows_between, said_by
from lakestream.storage.records.registry import Checked
from lakestream.storage.rows.views import view_of, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.reading.relations import History
    from lakestream.engine.reading.transport import Transport
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.streams.write import Written
    from lakestream.engine.windows.family import Advance
    from lakestream.notify.outbox import Outbox
    from lakestream.storage.delta import CommitTag, Table, Tables
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import TickPlan
    from lakestream.storage.rows.views import View


@dataclass
class TickResult:
    """What a tick did; ``shrunk`` are groups that wait of which rows went.

    ``checked`` counts the rows that it held against expectations.
    """

    state: GroupState
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    missed: int = 0
    windows: int = 0
    output_version: int | None = None
    shrunk: tuple[int, ...] = ()
    checked: dict[str, Checked] = field(default_factory=dict)


@dataclass
class Tick:
    """A tick under way. ``output_committed`` says that its output is there already (replay after a crash).

    ``updated`` is the result of the update query, where streams of one shape have shared it. ``compares``: it
    only does again what was done, for a comparison: expectations stop nothing, and count nothing.
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
    output_committed: bool = False
    outbox: Outbox | None = None
    updated: pa.Table | None = None
    compares: bool = False
    relations: Relations = field(init=False)
    _advance: Advance = field(init=False)
    _results: list[Rows] = field(default_factory=list)
    _shown: View | None = None
    """The results, where events are emitted for them."""
    _touched: pa.Table | None = None
    _failed: pa.Table | None = None
    _moved: Rows | None = None
    """What comes into the quarantine of the source, or goes."""
    _others: Rows | None = None
    """Computed rows that do not stay in the output."""
    _refused: Rows | None = None
    """Computed rows that go into the quarantine."""
    _outcome: TickResult = field(init=False)
    _app: str = field(init=False)

    def __post_init__(self) -> None:
        """Take the plan's way of moving bytes."""
        self.relations = Relations.of(self.spark, self.tables, self.stream, self.plan, self.history)
        self._outcome = TickResult(self.state)
        self._app = output_app(self.stream.uuid)

    @cached_property
    def _notices(self) -> Notices | None:
        """What takes the tick's events; None where none are emitted."""
        notification = self.stream.definition.notification
        if notification is None or self.output_committed or self.outbox is None:
            return None
        if self.plan.kind == "history" and not notification.history:
            return None
        rules = event_rules(self.stream, self.target.shape)
        return Notices(self.relations, self.target, rules, self.outbox, self.epoch)

    @property
    def transport(self) -> Transport:
        """How this tick's bytes move."""
        return self.relations.transport

    def run(self) -> TickResult:
        """Run the stages of the plan; raises StreamError with the named state of the stream."""
        return self._run(None)

    def recalculate(self, event_range: EventRange, app: str) -> TickResult:
        """Compute all windows of a range from the source as it is, and put them in its place."""
        self._app = app
        if event_range.begins_anew and not event_range.only:
            table = self.tables.open(self.target.info.path)
            take_out_others(self.spark, table, self.target, tick_tag(f"{app}:others", self.plan, self.epoch))
        return self._run(event_range)

    def rehearse(self) -> None:
        """Do what a tick does, but write nothing; raises what a tick raises."""
        self._run(None, writes=False)

    def _run(self, event_range: EventRange | None, *, writes: bool = True) -> TickResult:
        begins_anew = event_range is not None and event_range.begins_anew
        run: Mapping[type, Callable[[Any], None]] = {
            CheckRows: self._check_rows,
            CheckResults: self._check_results,
            ReadChanges: self._read_changes,
            FollowTables: self._follow_tables,
            ReadRows: self._read_rows,
            Compute: lambda stage: self._compute(stage, begins_anew=begins_anew),
            WriteErrors: self._write_errors,
            Write: self._write,
        }
        try:
            for stage in stages(self.stream, self.target, self.plan, event_range):
                if not writes and isinstance(stage, WriteErrors | Write):
                    break
                if not isinstance(stage, Step):
                    run[type(stage)](stage)
                    continue
                self._find(stage)
                if self.output_committed or (self._advance.writes_nothing and self._notices is None):
                    if writes:
                        self._move_quarantined()
                    break
        finally:
            self.transport.release()
        return self._outcome

    # --- reading ---

    def _read_changes(self, stage: ReadChanges) -> None:
        if self.updated is None:
            self.relations.changes(stage.columns)
        waits = self.stream.waiting_groups and self.stream.forgets_what_went
        if waits and not self.plan.appends_only:
            found = self.spark.sql(shrunk_sql(self.stream, CHANGED)).toArrow()
            self._outcome.shrunk = tuple(found["gid"].to_pylist())

    def _follow_tables(self, _stage: FollowTables) -> None:
        """Find the windows that changes of other tables touch; their results change, and no state."""
        if not self.output_committed:
            self._touched = Touched(self.relations).windows(self.state.rows)

    def _check_rows(self, _stage: CheckRows) -> None:
        """Count the rows that meet what is expected of them, and find those that do not."""
        if not self.compares:
            checks = SourceChecks(self.relations, stops=not self.output_committed)
            self._outcome.checked, self._moved = checks.run()

    # --- advancing ---

    def _find(self, step: Step) -> None:
        """Let the family find out what fires, and the state behind it."""
        advance = step.advance(
            TickInput(
                self.relations,
                self.target,
                self.state,
                self.max_windows,
                self.output_committed,
                None if self._notices is None else self._notices.rules,
                self.updated,
                self._touched,
            )
        )
        self._advance, self._results = advance, [*advance.results]
        outcome = self._outcome
        outcome.state, outcome.rows_in, outcome.late = advance.state, advance.rows, advance.late
        outcome.missed, outcome.windows = advance.missed, advance.windows

    # --- evaluating ---

    def _read_rows(self, stage: ReadRows) -> None:
        """Register the rows of the windows that fire, and the other tables at the plan's versions."""
        fired = self._advance.fired
        if fired is None:
            return
        if stage.rows is not None and fired.settled:
            self.relations.rows_at(self.plan.upto, fired.spans, fired.own)
        elif stage.rows is not None:
            self.relations.rows_as_changed(fired.spans, fired.own)
        self.relations.tables_read(fired.spans, without=fired.registered, narrowed=fired.narrowed)

    def _compute(self, stage: Compute, *, begins_anew: bool) -> None:
        fired = self._advance.fired
        if fired is None:
            return
        if fired.windows is not None:
            view_of_sql(self.spark, fired.windows, WINDOWS)
        previous = None if begins_anew else self._previous()
        self._results.append(self._evaluated(self.stream, previous))
        if stage.isolates:
            self._isolate()

    def _evaluated(self, stream: Stream, previous: str | None = None) -> Rows:
        """Evaluate the calculation for the registered windows, by the way of the stream given."""
        retracts = not self.plan.appends_only
        fired = self._advance.fired
        sql = evaluated_sql(
            self.spark,
            stream,
            retracts=retracts,
            settled=fired is not None and fired.settled,
            previous=previous,
            share=Share.ALL if fired is None else fired.share,
        )
        rows = self.spark.sql(self.target.shape.select(sql, unique=self.target.appends))
        if self._notices is None:
            return Rows.of(rows)
        kept = self.transport.materialize(rows)
        self._shown = view_of(kept.frame, RESULTS)
        return kept

    def _isolate(self) -> None:
        """Compute the results now, but for windows whose calculation fails, which become errors."""
        try:
            self._results = [self._computed(rows) for rows in self._results]
        except spark_errors() as error:
            isolation = Isolation(self.spark, self.stream, self._try, error)
            failed = isolation.run()
            self._results = [self._computed(self._evaluated(isolation.evaluated))]
            self._failed = failed_windows(failed, self.plan.clock_us)

    def _try(self, stream: Stream) -> None:
        """Evaluate the registered windows for nothing but whether that fails."""
        self.spark.sql(evaluated_sql(self.spark, stream, retracts=False, settled=True)).toArrow()

    def _computed(self, rows: Rows) -> Rows:
        """Return rows that are there already: as Arrow, or kept by Spark if they are for Spark to write."""
        kept = self.transport.materialize(rows.frame)
        # How they are written depends on how many there are; a window of several groups counts as many.
        self._outcome.windows += kept.count()
        return kept

    def _previous(self) -> str | None:
        """Return a view of the values before the registered windows, None where nothing is before them."""
        if not self.stream.calculation.carried:
            return None
        register_previous(self.spark, self.tables, self.stream, self.target)
        return PREVIOUS

    def _check_results(self, _stage: CheckResults) -> None:
        """Count the computed rows that meet what is expected of them, and part the others from them."""
        checks = ResultChecks(self.spark, self.stream, self.target, self.plan, stops=not self.compares)
        checked = checks.run(self._handed_over(), self.transport)
        self._results, self._others, self._refused = [checked.rows], checked.others, checked.quarantined
        if not self.compares:
            self._outcome.checked |= checked.counts

    # --- committing ---

    def _move_quarantined(self) -> None:
        """Let rows of the source come into the quarantine and go, unless that was done with the output."""
        if self._moved is None or self.target.quarantine is None or self.output_committed:
            return
        tag = tick_tag(quarantine_app(self._app), self.plan, self.epoch)
        SourceQuarantine(self.relations, self.target.quarantine).move(self._moved, tag)
        crash_point("Q1")

    def _write_errors(self, _stage: WriteErrors) -> None:
        """Write the rows that were left out, and the windows that failed."""
        rows = _joined([rows for rows in (self._advance.errors, self._failed) if rows is not None])
        if rows is not None:
            assert self.target.errors is not None  # by stages()
            table = _errors_there(self.tables, self.target.errors)
            # A recalculation has a series of its own.
            ticks = self._app == output_app(self.stream.uuid)
            app = errors_app(self.stream.uuid) if ticks else f"{self._app}:errors"
            write_errors(table, rows, tick_tag(app, self.plan, self.epoch))

    def _write(self, _stage: Write) -> None:
        """Write the results, and take back the windows they replace, under a transaction id."""
        rows, retracted = self._handed_over(), _joined([*self._advance.replaced])
        crash_point("C3")
        self._move_quarantined()
        table = self.tables.open(self.target.info.path)
        if self._notices is not None:
            self._notices.write(table, self._app, self._advance, results=self._shown, retracted=retracted)
        if self._refused is not None and self.target.refused is not None:
            tag = tick_tag(quarantine_app(self._app), self.plan, self.epoch)
            self._put(self.target.refused, self._refused, retracted, rows, tag)
            crash_point("Q1")
        counting = () if self.compares else self.target.checks
        counts = {check.name: astuple(self._outcome.checked[check.name]) for check in counting}
        tag = tick_tag(self._app, self.plan, self.epoch, **({"checked": counts} if counts else {}))
        written = self._put(self.target, rows, retracted, self._others, tag)
        self._outcome.rows_out, self._outcome.output_version = written.rows, written.version

    def _put(
        self, target: Target, rows: Rows, retracted: pa.Table | None, beside: Rows | None, tag: CommitTag
    ) -> Written:
        """Write rows into an output; ``beside`` are those of the same windows that go elsewhere."""
        table, event_range = self.tables.open(target.info.path), self._advance.event_range
        if event_range is not None:
            return write_range(table, target, rows, event_range=event_range, tag=tag, beside=beside)
        return write_result(table, target, rows, retracted=retracted, tag=tag, beside=beside)

    def _handed_over(self) -> Rows:
        """Return the rows as the output can take them: delta-rs cannot write every table."""
        import pyarrow as pa

        results = self._results or [Rows.of(self.spark.sql(f"{self.target.shape.nothing} WHERE false"))]
        if self._goes_as_arrow:
            found = [rows.to_arrow() for rows in results]
            return Rows(self.spark, pa.concat_tables([rows.cast(found[0].schema) for rows in found]))
        frame = results[0].frame
        for more in results[1:]:
            frame = frame.unionByName(more.frame)
        return Rows.of(frame)

    @property
    def _goes_as_arrow(self) -> bool:
        """Whether delta-rs writes the result: it is ten times as fast as Spark, if the rows fit here."""
        output = self.tables.open(self.target.info.path)
        if not capabilities(output).arrow_writes:
            return False
        if self.transport.name != SPARK:
            return True
        if self.plan.spark_only or not self.target.appends:
            return False
        event_range = self._advance.event_range
        if self.stream.way in (Way.WHOLE, Way.KEYED) and not (event_range and event_range.only):
            return False
        replaced = _joined([*self._advance.replaced])
        rows = self._outcome.windows
        if replaced is not None and replaced.num_rows:
            rows += _rows_near(self.target, output, replaced)
        return fits_here(rows, len(self.target.shape.names))


def _rows_near(target: Target, output: Table, replaced: pa.Table) -> int:
    """Return about how many rows of the output may have to be written again with replaced windows."""
    import pyarrow.compute as pc

    provenance = target.shape.provenance
    if provenance is None:
        return table_size(output, output.version).rows  # they do not say where they lie
    starts = pc.min_max(replaced["low"]).as_py()
    return rows_between(output, provenance.start_in_statistics, starts["min"], starts["max"] + 1)


def _joined(tables: list[pa.Table]) -> pa.Table | None:
    import pyarrow as pa

    return pa.concat_tables(tables, promote_options="default") if tables else None


def _errors_there(tables: Tables, errors: TableInfo) -> Table:
    """Return the table of the rows that are left out, as it is now. Raises StreamError OUTPUT_GONE."""
    try:
        return tables.latest(errors.path)
    except StorageError as error:
        if error.code == "TABLE_NOT_FOUND":
            raise gone(errors.full_name) from error
        raise


def output_app(uuid: str) -> str:
    """Return the transaction application id of a stream's output commits."""
    return f"lakestream:{uuid}:output"


def counts_committed(output: Table, plan: TickPlan) -> dict[str, Checked]:
    """Return how many computed rows met expectations, as the commit of a tick's output says."""
    said = said_by(output, output_app(plan.uuid), plan.tick).get("checked")
    return {name: Checked(*counts) for name, counts in said.items()} if isinstance(said, dict) else {}


def quarantine_app(app: str) -> str:
    """Return the transaction application id of the quarantines' commits that go with those of an output."""
    return f"{app}:quarantine"


def has_begun(tables: Tables, target: Target, outbox: Outbox, plan: TickPlan) -> bool:
    """Return whether a tick wrote rows it left out or put into a quarantine, or events, before its output."""
    app, results = output_app(plan.uuid), None if target.refused is None else target.refused.info
    written = {
        quarantine_app(app): (target.quarantine, results),
        errors_app(plan.uuid): (target.errors,),
    }
    known = (
        tables.latest(info.path).transaction_version(of)
        for of, infos in written.items()
        for info in infos
        if info is not None
    )
    return outbox.has(app, plan.tick) or any((number or 0) >= plan.tick for number in known)


def errors_app(uuid: str) -> str:
    """Return the transaction application id of a stream's commits to its error table."""
    return f"lakestream:{uuid}:errors"
