"""Continuous queries: created, shown, dropped, and executed when they are due (IoTDB A2).

What is due follows from the due instant that the registry holds and from the clock. An execution records
the snapshot of the tree that it reads, writes its points, a commit per table that is made at most once
for its instant, and then records the instant that comes next: whatever stops in between, the same instant
is executed again, from the same series and rows, and writes nothing twice.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import from_micros, instant_micros, to_micros
from lakestream.engine.base.result import Result
from lakestream.engine.rounds.failing import as_failure
from lakestream.engine.rounds.runtime import TickReport
from lakestream.errors import LakestreamError, StatementError, did_you_mean
from lakestream.language import parse_statement
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.checks import check_reach
from lakestream.language.iotdb.paths import has_placeholder
from lakestream.language.iotdb.values import CreateContinuousQuery, Span
from lakestream.storage.delta import CommitTag
from lakestream.storage.names.tree import Snapshot
from lakestream.storage.records.definitions import QueryRecord
from lakestream.storage.tables.table import refusals_named
from lakestream.timeseries.large import write_large
from lakestream.timeseries.origins import QueryOrigins, find_origins
from lakestream.timeseries.series import blocks_into, check_targets, placements
from lakestream.triggers.resample import Resample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.clock import Clock
    from lakestream.compute.tree.series import SeriesQuery
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.language.iotdb.values import BackfillContinuousQuery, DropContinuousQuery
    from lakestream.settings import Settings
    from lakestream.storage.records.definitions import Definitions
    from lakestream.timeseries.points import Writer
    from lakestream.timeseries.series import SeriesReader

_NOTHING = Span(0, 0, "0s")
MOST_BACKFILLED = 100_000
"""Executions of one BACKFILL: of an hour each they are eleven years."""
_UNREAD_RETRY_MICROS = 60_000_000
"""When a query is looked at again whose text could not be read, as one of another version."""


@dataclass
class _Attempt:
    """An execution under way: what it computes, and its rows or what it failed of."""

    record: QueryRecord
    timing: Resample | None = None
    query: SeriesQuery | None = None
    rows: pa.Table | DataFrame | None = None
    error: LakestreamError | None = None


@dataclass
class ContinuousQueries:
    """The continuous queries of one lake. ``epoch`` is the number of this process's turn at writing."""

    definitions: Definitions
    reader: SeriesReader
    writer: Writer
    clock: Clock
    system_clock: Clock
    settings: Settings
    zone: str
    epoch: int
    starting: Callable[[str, int], int] | None = None
    """For tests: hears of an execution's start (name, due instant in µs), returns how long it is to take
    by the clock (µs), or raises."""
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    """When an execution is due, by the query's id: as of the last round that found nothing due."""
    _read: dict[str, tuple[CreateContinuousQuery, Resample]] = field(default_factory=dict)
    _origins: dict[str, tuple[object, QueryOrigins]] = field(default_factory=dict)
    _until: dict[str, int] = field(default_factory=dict)
    _retry_at: dict[str, int] = field(default_factory=dict)
    _looked_at: list[QueryRecord] | None = None
    _idle_until: float = 0

    # --- statements ---

    def create(self, statement: CreateContinuousQuery) -> Result:
        """CREATE CQ. Raises StatementError CQ_EXISTS, CQ_INVALID, DATABASE_MAPPED.

        Also SERIES_TYPE, ALIAS_OF_MANY and INTO_INVALID, where the series that are there already, and those
        it would write, cannot go with it; those that come are looked at by the executions.
        """
        place = place_of(statement.place)
        if self.definitions.query(statement.name) is not None:
            raise StatementError(
                "CQ_EXISTS",
                f"CQ {statement.name} has already been created.",
                hint=f"DROP CQ {statement.name} first",
                place=place,
            )
        _check_distance(statement, self.settings.continuous_query_min_every_interval_in_ms)
        check_reach(statement)
        self._check_targets(statement)
        now = to_micros(self.clock.now())
        record = QueryRecord(
            uuid4().hex, statement.name, statement.text, self.zone, now, self._boundary(statement, now), 0
        )
        timing = timing_of(record, statement)
        first = timing.first(now)
        self._check_result(statement, first, timing.range_of(first))
        self.definitions.put_queries([replace(record, next_us=first)])
        warned = "".join(f"\nwarning: {warning}" for warning in warnings(statement))
        return Result(message=f"created CQ {statement.name}, first due at {_shown(first)}{warned}")

    def _check_targets(self, statement: CreateContinuousQuery) -> None:
        """Refuse a target that nothing can be written to; one with placeholders is known when it is due."""
        for target in statement.select.into:
            if not any(map(has_placeholder, target.device.nodes)):
                try:
                    self.writer.tree.check_writable(target.device)
                except LakestreamError as error:
                    raise error.at(place_of(statement.select.text)) from None

    def _check_result(self, statement: CreateContinuousQuery, due_us: int, bounds: tuple[int, int]) -> None:
        """Refuse what the execution due at an instant could not do, by the series that there are now."""
        select = statement.select
        query = self.reader.resolve(select, due_us, self.reader.snapshot(select.sources), bounds)
        check_targets(self.writer.tree, query)

    def _boundary(self, statement: CreateContinuousQuery, now_us: int) -> int:
        boundary = statement.boundary
        if boundary is None:
            # Months are counted from a local 1970-01-01, elapsed time from that of UTC.
            boundary = "1970-01-01 00:00:00" if statement.distance.months else 0
        return instant_micros(boundary, now_us, self.zone)

    def drop(self, statement: DropContinuousQuery) -> Result:
        """DROP CQ; what it wrote stays. Raises StatementError CQ_NOT_FOUND."""
        name = _named(self.definitions, statement).name
        self.definitions.remove_query(name)
        self._forget(name)
        return Result(message=f"dropped CQ {name}")

    def backfill(self, statement: BackfillContinuousQuery) -> Result:
        """BACKFILL CQ: the executions that read of a range are due now, one by one, before what comes next.

        It takes the place of another one that is under way. Raises StatementError CQ_NOT_FOUND, CQ_INVALID.
        """
        record = _named(self.definitions, statement)
        _, timing = self._of(record)
        now = to_micros(self.clock.now())
        resume = record.next_us if record.resume_us is None else record.resume_us
        bounds = [
            instant_micros(at, now, self.zone) if at is not None else timing.range_of(resume)[0]
            for at in (statement.start, statement.end)
        ]
        first, until = timing.covering(bounds[0], bounds[1])
        until = min(until, resume)
        count = timing.skipped(first, until) + 1 if first < until else 0
        if not 0 < count <= MOST_BACKFILLED:
            raise StatementError(
                "CQ_INVALID",
                f"{count:,} executions of CQ {record.name} read of that range before the next one, due at "
                f"{_shown(resume)}; there may be 1 to {MOST_BACKFILLED:,}",
                place=place_of(statement.place),
            )
        filling = replace(
            record,
            uuid=uuid4().hex,
            next_us=first,
            backfill_until_us=until,
            resume_us=resume,
            series=None,
            versions={},
        )
        self.definitions.put_queries([filling])
        self._forget(record.name)
        said = (
            f"{count:,} executions are due, from {_shown(first)} on, before the next one at {_shown(resume)}"
        )
        return Result(message=f"backfilling CQ {record.name}: {said}")

    def _forget(self, name: str) -> None:
        for kept in (self._until, self._retry_at):
            kept.pop(name, None)

    def show(self) -> Result:
        """SHOW CQS: by name; the columns behind State are lakestream's own."""
        columns = ("CQId", "Query", "State", "NextExecution", "LastExecution", "Skipped", "LastError")
        rows = [
            (
                record.name,
                record.sql,
                "ACTIVE" if record.backfill_until_us is None else "BACKFILLING",
                from_micros(record.next_us),
                None if record.last_us is None else from_micros(record.last_us),
                record.skipped,
                record.last_error,
            )
            for record in self.definitions.queries()
        ]
        return Result(columns, rows)

    def origins(self) -> dict[str, QueryOrigins]:
        """Return by query the tables that it reads and writes; of one that cannot be read, none."""
        return {record.name: self.origins_of(record) for record in self.definitions.queries()}

    def origins_of(self, record: QueryRecord) -> QueryOrigins:
        """Return the tables that a query reads and writes, found once for the series that there are."""
        tree = self.reader.tree
        state = (record.sql, tree.newest, tree.databases(), tree.mappings())
        known = self._origins.get(record.uuid)
        if known is None or known[0] != state:
            known = self._origins[record.uuid] = (state, self._found_origins(record))
        return known[1]

    def _found_origins(self, record: QueryRecord) -> QueryOrigins:
        try:
            return find_origins(self._of(record)[0], self.reader)
        except LakestreamError:
            return QueryOrigins((), ())

    # --- executions ---

    def is_idle(self) -> bool:
        """Return whether nothing is due, however many queries there are; False where that is not known."""
        now = to_micros(self.clock.now())
        return self.definitions.queries() is self._looked_at and now < self._idle_until

    def round(self) -> list[TickReport]:
        """Run the execution that is due next of every query that has one; no report: nothing is due."""
        if self.is_idle():
            return []
        now, records = to_micros(self.clock.now()), self.definitions.queries()
        due = sorted(
            (record for record in records if self._waits_until(record) <= now),
            key=lambda record: (record.next_us, record.name),
        )
        attempts = [attempt for record in due if (attempt := self._started(record, now)) is not None]
        if not attempts:
            self._looked_at = records
            self._idle_until = min(map(self._waits_until, records), default=inf)
            self.alarms = {record.uuid: self._alarm(record) for record in records}
            return []
        self._looked_at = None
        self.definitions.renew_queries([attempt.record for attempt in attempts])
        crash_point("C2")
        threads = min(len(attempts), self.settings.continuous_query_submit_thread_count)
        started = self.system_clock.monotonic()
        with ThreadPoolExecutor(threads, "continuous-query") as pool:
            computed = list(pool.map(self._compute, attempts))
        return [self._finish(attempt, started) for attempt in computed]

    def _waits_until(self, record: QueryRecord) -> int:
        return max(record.next_us, self._until.get(record.name, 0), self._retry_at.get(record.name, 0))

    def _alarm(self, record: QueryRecord) -> Alarm:
        """Return the instants of a query; the moment at which it is tried again, where that comes first."""
        waits_until = self._waits_until(record)
        if waits_until == record.next_us:
            with suppress(LakestreamError):
                return self._of(record)[1]
        return from_micros(waits_until)

    def _started(self, record: QueryRecord, now_us: int) -> _Attempt | None:
        """Return an execution, resolved against the series there are now; None when it takes longer."""
        attempt = _Attempt(record)
        try:
            statement, attempt.timing = self._of(record)
            if self.starting is not None and self._until.pop(record.name, None) is None:
                takes = self.starting(record.name, record.next_us)
                if takes:
                    self._until[record.name] = now_us + takes
                    return None
            select, bounds = statement.select, attempt.timing.range_of(record.next_us)
            snapshot = _begun(record) or self.reader.snapshot(select.sources)
            attempt.record = replace(record, series=snapshot.series, versions=snapshot.versions)
            attempt.query = self.reader.resolve(select, record.next_us, snapshot, bounds)
        except BaseException as error:  # noqa: BLE001 - as below
            attempt.error = as_failure(error)
        return attempt

    def _compute(self, attempt: _Attempt) -> _Attempt:
        snapshot = _begun(attempt.record)
        if attempt.query is not None and snapshot is not None:
            try:
                # Triggers are Python: what they see comes into this process.
                compute = self.reader.rows if self._is_watched(attempt.query) else self.reader.result
                attempt.rows = compute(attempt.query, snapshot)
            except BaseException as error:  # noqa: BLE001 - what is no defect of this execution goes on
                attempt.error = as_failure(error)
        return attempt

    def _is_watched(self, query: SeriesQuery) -> bool:
        if not query.outputs:
            return False
        return self.writer.triggers.watch(
            device for placement in placements(query) for device in placement.devices.values()
        )

    def _finish(self, attempt: _Attempt, started: float) -> TickReport:
        record, written = attempt.record, 0
        if attempt.error is None and attempt.query is not None and attempt.rows is not None:
            try:
                written = self._write(attempt.query, attempt.rows, self._tag(record))
            except BaseException as error:  # noqa: BLE001 - as above
                attempt.error = as_failure(error)
        if attempt.error is not None:
            self._failed(attempt, attempt.error)
        elif attempt.timing is not None:
            self._succeeded(attempt.record, attempt.timing)
        return _report(attempt, written, self.system_clock.monotonic() - started)

    def _write(self, query: SeriesQuery, rows: pa.Table | DataFrame, tag: CommitTag) -> int:
        import pyarrow as pa

        if isinstance(rows, pa.Table):
            return self.writer.write(blocks_into(query, rows), tag)
        try:
            return write_large(self.writer, rows, placements(query), tag)
        finally:
            rows.unpersist()

    def _tag(self, record: QueryRecord) -> CommitTag:
        metadata: dict[str, object] = {"epoch": self.epoch, "cq": record.name, "due_us": record.next_us}
        return CommitTag(f"lakestream:cq:{record.uuid}", record.next_us, metadata)

    def _succeeded(self, record: QueryRecord, timing: Resample) -> None:
        self._retry_at.pop(record.name, None)
        done = replace(record, last_us=record.next_us, last_error=None, series=None, versions={})
        self.definitions.renew_queries([_following(done, timing, to_micros(self.clock.now()))])

    def _failed(self, attempt: _Attempt, error: LakestreamError) -> None:
        record = replace(attempt.record, last_error=str(error))
        pause = _UNREAD_RETRY_MICROS if attempt.timing is None else attempt.timing.retry_us
        self._retry_at[record.name] = to_micros(self.clock.now()) + pause
        # What was written in part is computed from the same rows the next time.
        if not self._may_have_written(record):
            record = replace(record, series=None, versions={})
        self.definitions.renew_queries([record])

    def _may_have_written(self, record: QueryRecord) -> bool:
        try:
            with refusals_named():
                return self.writer.has_written(self._tag(record))
        except LakestreamError:
            return True

    def _of(self, record: QueryRecord) -> tuple[CreateContinuousQuery, Resample]:
        """Return the statement and the timing of a query, read once."""
        if record.uuid not in self._read:
            statement = parse_statement(record.sql, dialect="iotdb")
            assert isinstance(statement, CreateContinuousQuery)
            self._read[record.uuid] = statement, timing_of(record, statement)
        return self._read[record.uuid]


def _named(definitions: Definitions, statement: DropContinuousQuery | BackfillContinuousQuery) -> QueryRecord:
    """Return the query that a statement names. Raises StatementError CQ_NOT_FOUND."""
    record = definitions.query(statement.name)
    if record is None:
        known = [record.name for record in definitions.queries()]
        raise StatementError(
            "CQ_NOT_FOUND",
            f"there is no CQ {statement.name}",
            hint=did_you_mean(statement.name, known),
            place=place_of(statement.place),
        )
    return record


def _check_distance(statement: CreateContinuousQuery, least: int) -> None:
    every = statement.distance
    if not every.months and every.micros < least * 1_000:
        raise StatementError(
            "CQ_INVALID",
            f"Every interval [{every.micros / 1_000:g}] should not be lower than the "
            f"`continuous_query_minimum_every_interval` [{least}] configured.",
            place=place_of(statement.place),
        )


def _following(record: QueryRecord, timing: Resample, now_us: int) -> QueryRecord:
    """Return a query that has done the execution due next."""
    until, resume = record.backfill_until_us, record.resume_us
    if until is None or resume is None:
        following = timing.following(record.next_us, now_us)
        skipped = record.skipped + timing.skipped(record.next_us, following)
        return replace(record, next_us=following, skipped=skipped)
    following = timing.after(record.next_us)
    if following < until:
        return replace(record, next_us=following)
    return replace(record, next_us=resume, backfill_until_us=None, resume_us=None)


def _begun(record: QueryRecord) -> Snapshot | None:
    """Return the snapshot that an execution which has begun reads, None where none has."""
    return None if record.series is None else Snapshot(record.series, record.versions)


def timing_of(record: QueryRecord, statement: CreateContinuousQuery) -> Resample:
    """Return when a continuous query is due and what it reads then."""
    return Resample(
        statement.distance,
        statement.reach,
        statement.end_offset or _NOTHING,
        record.boundary_us,
        statement.policy,
        record.zone,
    )


def warnings(statement: CreateContinuousQuery) -> list[str]:
    """Return what of an accepted CREATE CQ may not be meant."""
    found = []
    select, every, reach_back = statement.select, statement.distance, statement.reach
    if not (every.months or reach_back.months) and reach_back.micros < every.micros:
        found.append(
            f"each execution reads {reach_back} and the next is due {every} later: "
            f"the {(every.micros - reach_back.micros) // 1_000} ms in between are never read"
        )
    aggregates = any(item.expression.aggregates for item in select.items)
    if aggregates and select.group is None and select.cut is None:
        found.append("aggregates without GROUP BY are written at the time 0 (1970-01-01)")
    group = select.group
    if group is not None and statement.start_offset is None and group.step.micros < group.interval.micros:
        found.append("windows that cross the end of the range are cut off for good: RANGE can overlap them")
    wild = any(path.is_pattern for path in select.sources) or any(
        path.is_pattern for item in select.items for path in item.expression.paths
    )
    named = [node for target in select.into for node in (*target.device.nodes, *target.measurements)]
    if wild and len(select.into) > 1 and not any(map(has_placeholder, named)):
        found.append(
            "wildcards meet targets by position: they pair in the order in which series were created"
        )
    return found


def _shown(instant_us: int) -> str:
    return from_micros(instant_us).isoformat(sep=" ", timespec="milliseconds")


def _report(attempt: _Attempt, written: int, seconds: float) -> TickReport:
    windows = attempt.query.windows if attempt.query is not None else None
    return TickReport(
        stream=attempt.record.name,
        tick=attempt.record.next_us,
        kind="cq",
        after=0,
        upto=0,
        commits=0,
        rows_in=0,
        rows_out=written,
        windows=windows.count if windows is not None else 0,
        late=0,
        seconds=seconds,
        transport="",
        lag=0,
        error=None if attempt.error is None else str(attempt.error),
    )
