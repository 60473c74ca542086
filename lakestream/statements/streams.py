"""Statements on streams: making, replacing, starting, stopping, recalculating and dropping them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lakestream.engine.base.result import Result
from lakestream.errors import (
    LakestreamError,
    NotSupportedError,
    Place,
    StatementError,
)
from lakestream.storage.places.claims import forget_claim
from lakestream.triggers.kinds import is_periodic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.engine.rounds.runtime import StreamRuntime
    from lakestream.language import model
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.records.registry import Accepted, Recalculation, StreamChanges, StreamRecord


T = TypeVar("T")
NOT_INCREMENTAL = (
    "UNBOUNDED_READ",
    "NOT_SUPPORTED",
    "VIEW_NOT_INCREMENTAL",
    "NO_TIME_COLUMN",
    "SESSION_COLUMN",
    "GROUP_TYPE",
)
"""What refuses a view that goes by windows, and not one that is computed as a whole."""


@dataclass
class StreamStatements:
    """Runs statements on streams."""

    at: Workspace

    def create(self, statement: model.CreateStream) -> Result:
        """CREATE STREAM, or the other definition of one that is there."""
        from lakestream.engine.creation.create import drop_made

        uuid = self.at.apart.kept("uuid", lambda: str(uuid4()))
        try:
            return self._create(statement, uuid)
        except Exception:
            with suppress(Exception):  # the first one is what is to be told
                if all(record.uuid != uuid for record in self.at.registry.streams()):
                    drop_made(self.at.catalog, statement.definition.within(self.at.database), uuid)
            raise

    def _create(self, statement: model.CreateStream, uuid: str) -> Result:
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.create import create_stream
        from lakestream.engine.rounds.notifier import check_targets

        definition = statement.definition
        database = definition.name.database or self.at.database
        self.at.catalog.databases.require(database)
        known = self.at.registry.find(database, definition.name.name)
        if known is not None:
            if statement.or_replace:
                return self._replace(known, statement)
            if statement.if_not_exists:
                return Result(message=f"there is a stream {database}.{definition.name.name}")
            kind = "STREAM" if definition.options.view is None else "MATERIALIZED VIEW"
            raise StatementError(
                "STREAM_ALREADY_EXISTS",
                f"the stream {database}.{definition.name.name} exists already",
                hint=f"IF NOT EXISTS keeps it, CREATE OR REPLACE {kind} gives it another definition",
                place=_place(definition.name),
            )
        check_targets(definition.notification, self.at.settings.notify_hosts)

        def make(chosen: model.StreamDefinition) -> StreamRecord:
            return create_stream(
                self.at.small,
                self.at.catalog,
                self.at.registry,
                chosen,
                self.at.timezone,
                to_micros(self.at.clock.now()),
                uuid=uuid,
                current=self.at.database,
                exact_by_default=self.at.settings.exact,
                catalogs=lambda: self.at.catalogs,
            )

        record, why = self._by_first(statement, make)
        self.at.notifier.begin(record, definition.notification)
        if definition.options.view is not None:
            return Result(message=f"created materialized view {record.output}{why}")
        does = f"writing {record.output}" if definition.stores else "which notifies"
        return Result(message=f"created stream {record.database}.{record.name}, {does}")

    def _by_first(
        self, statement: model.CreateStream, make: Callable[[model.StreamDefinition], T]
    ) -> tuple[T, str]:
        """Return what is made of a statement's definition, or of the other one that it leaves, and why."""
        definition = statement.definition.within(self.at.database)
        try:
            return make(definition), ""
        except StatementError as error:
            if statement.otherwise is None or error.code not in NOT_INCREMENTAL:
                raise error.at(_place(definition.source)) from None
            otherwise = statement.otherwise.within(self.at.database)
            return make(otherwise), f", computed as a whole: {error.message}"
        except LakestreamError as error:
            raise error.at(_place(definition.source)) from None

    def _replace(self, known: StreamRecord, statement: model.CreateStream) -> Result:
        """Give what is there another definition; a view is made anew, once nothing is wrong with it."""
        from lakestream.engine.creation.compile import definition_of
        from lakestream.engine.creation.create import check_view

        views = [one.options.view is not None for one in (definition_of(known), statement.definition)]
        if not any(views):
            return self._replace_stream(known, statement.definition)
        if not all(views):
            raise NotSupportedError(
                f"CREATE OR REPLACE of {known.database}.{known.name}, where one is a view and one a stream",
                hint="drop it first",
                place=_place(statement.definition.name),
            )
        if known.sql == statement.definition.text:
            return Result(message=f"{known.output} says the same already: nothing is computed anew")

        def check(chosen: model.StreamDefinition) -> None:
            check_view(
                self.at.small,
                self.at.catalog,
                self.at.registry,
                known,
                chosen,
                zone=self.at.timezone,
                exact_by_default=self.at.settings.exact,
            )

        self._by_first(statement, check)
        self.remove(known)
        self.at.catalog.drop_table(*known.output.split(".", 1))
        return self.create(statement)

    def drop(self, statement: model.DropStream) -> Result:
        """DROP STREAM: none where one is not there; of a materialized view its table goes too."""
        what = "materialized view" if statement.is_view else "stream"
        found = {}
        for name in statement.names:
            if (record := self._record(name, if_exists=statement.if_exists)) is not None:
                if statement.is_view:
                    self._refuse_no_view(record, name)
                found[record.uuid] = record, name
        for record, _ in found.values():
            if statement.is_view:  # first: without the view nobody would know whose table it was
                self.at.catalog.drop_table(*record.output.split(".", 1), if_exists=True)
            self.remove(record)
        if not found:
            return Result(message=f"there was no such {what}")
        named = ", ".join(str(name) for _, name in found.values())
        return Result(message=f"dropped {what}{'s' * (len(found) > 1)} {named}")

    def refresh(self, statement: model.RefreshView) -> Result:
        """REFRESH MATERIALIZED VIEW: what is new in its tables is taken now."""
        from lakestream.engine.rounds.engine import refresh
        from lakestream.statements.rounds import ticking

        record = self._record(statement.name)
        assert record is not None
        self._refuse_no_view(record, statement.name)
        with ticking(self.at, record, "REFRESH MATERIALIZED VIEW") as engine:
            reports = refresh(engine, self.at.registry.stream(record.database, record.name))
        rows = sum(report.rows_out for report in reports)
        return Result(message=f"refreshed {record.output}: {rows} rows written")

    def _refuse_no_view(self, record: StreamRecord, name: model.TableName) -> None:
        from lakestream.engine.creation.compile import definition_of

        if definition_of(record).options.view is None:
            raise StatementError(
                "STREAM_NOT_FOUND",
                f"{record.database}.{record.name} is a stream and no materialized view",
                place=_place(name),
            )

    def start(self, statement: model.StartStream) -> Result:
        """START STREAM: failed ones go on, and groups that wait are taken up."""
        from lakestream.statements.rounds import ticking

        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None and statement.ignore_untreated:
            with ticking(self.at, record, "START STREAM") as engine:
                engine.skip(record)
        records = filter(None, [record])
        with self.at.writing("StartStream", records):
            return self._started(statement)

    def _started(self, statement: model.StartStream) -> Result:
        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None:
            accepted = self._accepted(record)
            changes: StreamChanges = {"status": "Running", "last_error": None}
            if accepted is not None:
                changes["accepted"] = accepted
            record = self.at.registry.update(record.uuid, **changes)
            self._take_up(record)
        return Result(message=f"started stream {statement.name}" if record else "there was no such stream")

    def _accepted(self, record: StreamRecord) -> Accepted | None:
        """Return where the output of a stream is that others changed: it is gone on with as it is."""
        from lakestream.storage.records.registry import Accepted, TablePosition

        output = self.at.catalog.find_table(*record.output.split(".", 1))
        if output is None or not (record.last_error or "").startswith("OUTPUT_TOUCHED: "):
            return None
        progress = self.at.registry.last(record.uuid)[1]
        place = TablePosition.of(self.at.catalog.handles.latest(output.path))
        return Accepted(progress.tick if progress else 0, place)

    def stop(self, statement: model.StopStream) -> Result:
        """STOP STREAM."""
        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None:
            self.at.registry.update(record.uuid, status="Stopped")
            if self.at.running is not None:
                self.at.running.forget(record.uuid)
        return Result(message=f"stopped stream {statement.name}" if record else "there was no such stream")

    def flush(self, statement: model.FlushStream) -> Result:
        """FLUSH STREAM."""
        from lakestream.statements.rounds import ticking

        record = self._record(statement.name)
        assert record is not None
        with ticking(self.at, record, "FLUSH STREAM") as engine:
            reports = engine.flush(record)
        rows = sum(report.rows_out for report in reports)
        return Result(message=f"flushed {record.database}.{record.name}: {rows} rows written")

    def recalculate(self, statement: model.RecalculateStream) -> Result:
        """RECALCULATE STREAM: queued, for the next run."""
        record = self._record(statement.name)
        assert record is not None
        bounds = None if statement.start is None else (statement.start, statement.end)
        self.request(record, bounds)
        waits = "" if record.status == "Running" or bounds is None else ", once the stream is started"
        return Result(message=f"queued: the next run recalculates {record.database}.{record.name}{waits}")

    def _record(self, name: model.TableName, *, if_exists: bool = False) -> StreamRecord | None:
        database = self.at.in_database(name)
        if if_exists:
            return self.at.registry.find(database, name.name)
        return self.at.registry.stream(database, name.name)

    def named(self, name: str) -> StreamRecord:
        """Return the stream of a name, ``s`` or ``db.s``. Raises StatementError STREAM_NOT_FOUND."""
        database, _, stream = name.rpartition(".")
        return self.at.registry.stream(database or self.at.database, stream)

    def remove(self, record: StreamRecord) -> None:
        """Remove a stream with what lies under its id; its output stays."""
        self.at.registry.remove(record.uuid)
        forget_claim(self.at.layout, record.uuid)
        self.at.catalog.drop_results(record.uuid)
        self.at.notifier.end(record.uuid)
        if self.at.running is not None:
            self.at.running.forget(record.uuid)

    def request(self, record: StreamRecord, bounds: tuple[str, str | None] | None) -> Recalculation:
        """Queue a recalculation between bounds of event time; None: of everything, as the source is now."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.compile import definition_of
        from lakestream.engine.creation.create import require_provenance
        from lakestream.engine.recalculation.recalculate import request_recalculation

        definition = definition_of(record)
        if bounds is None:
            self._refuse_unfit(record)
        if definition.options.late.by_arrival and bounds is not None:
            hint = "its rows have no event time to go by"
            raise NotSupportedError("RECALCULATE of a stream in processing time", hint=hint)
        if definition.options.late.drops and bounds is not None:
            target = self.loaded(record).target
            require_provenance("RECALCULATE STREAM", target.info, target.shape)
        by_clock = definition.options.emission.by_clock or is_periodic(definition.trigger)
        if by_clock and (bounds is not None or definition.options.emission.by_clock):
            kind = "PERIOD" if is_periodic(definition.trigger) else "FORCE_WINDOW_CLOSE"
            hint = "what it has written belongs to the time at which it was"
            raise NotSupportedError(f"RECALCULATE of a stream with {kind}", hint=hint)
        return request_recalculation(
            self.at.registry,
            record,
            definition,
            bounds,
            # A resynchronisation takes the source as it is when it is its turn.
            version=(self.at.latest_version(record.source) or 0) if bounds else 0,
            now_us=to_micros(self.at.system_clock.now()),
            progress=lambda: self.loaded(record).newest_us,
        )

    def loaded(self, record: StreamRecord) -> StreamRuntime:
        """Return a stream with its state, which may have to be followed from its source anew.

        A statement that is tried with the lake's lock has it read without.
        """
        last = self.at.registry.last(record.uuid)
        return self.at.apart.ask(("loaded", record, last), lambda: self.at.engine.loader.load(record, *last))

    def _replace_stream(self, record: StreamRecord, definition: model.StreamDefinition) -> Result:
        """Give a stream another definition, and have its windows computed anew."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.compile import definition_of
        from lakestream.engine.creation.create import replace_stream
        from lakestream.engine.recalculation.recalculate import request_recalculation
        from lakestream.engine.rounds.notifier import check_targets
        from lakestream.language.expressions.differences import differences

        definition = definition.within(self.at.database)
        check_targets(definition.notification, self.at.settings.notify_hosts)
        before = definition_of(record)
        changed = differences(before, definition)
        name = f"{record.database}.{record.name}"
        if not changed:
            return Result(message=f"{name} says the same already: nothing is computed anew")
        refuse_replacing(before, definition)
        if self.at.running is not None:
            self.at.running.forget(record.uuid)
        keeps = replace_stream(
            self.at.small,
            self.at.catalog,
            self.at.registry,
            record,
            definition,
            current=self.at.database,
            exact_by_default=self.at.settings.exact,
            recalculate=lambda: request_recalculation(
                self.at.registry,
                record,
                definition,
                None,
                version=0,
                now_us=to_micros(self.at.system_clock.now()),
                progress=lambda: None,
            ),
        )
        self.at.notifier.begin(record, definition.notification)
        by_arrival = definition.options.late.by_arrival
        told = [
            ("output", "", "kept" if keeps else "made anew: its columns are others"),
            ("recomputed", "", "none: it goes on from now" if by_arrival else "all windows, by the next run"),
        ]
        return Result(("clause", "before", "after"), [*changed, *told])

    def _take_up(self, record: StreamRecord) -> None:
        """Have the groups of a stream that wait taken up again, as far as they need not wait any more."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.compile import compile_record
        from lakestream.engine.windows.waiting import taking_up

        gids = [group.gid for group in record.waiting_groups]
        if gids and compile_record(record, self.at.catalog).forgets_what_went:
            version = self.at.latest_version(record.source) or 0
            self.at.registry.put_recalculation(
                taking_up(record, gids, version, to_micros(self.at.system_clock.now()))
            )

    def _refuse_unfit(self, record: StreamRecord) -> None:
        """Refuse to begin anew with a source that the stream cannot be computed from, by its named state."""
        from lakestream.engine.creation.compile import compile_record
        from lakestream.engine.creation.create import refuse_unfit
        from lakestream.engine.planning.checks import named_state

        try:
            refuse_unfit(self.at.small, self.at.catalog, record, compile_record(record, self.at.catalog))
        except LakestreamError as error:
            raise named_state(record, error, by_resync=True) from error


def _place(name: model.TableName) -> Place:
    return Place(name.line, name.column, len(name.name))


def refuse_replacing(before: model.StreamDefinition, after: model.StreamDefinition) -> None:
    """Raise NotSupportedError where CREATE OR REPLACE cannot make one definition of another."""
    from lakestream.language.expressions.differences import LAYOUT, differences

    clauses = {clause for clause, _, _ in differences(before, after)}
    both = (before.options, after.options)
    refused = {
        **{f"STREAM with another {clause}": clause in clauses for clause in ("FROM", "INTO", LAYOUT)},
        "of a stream with FORCE_WINDOW_CLOSE: each of its windows fires once": any(
            options.emission.by_clock for options in both
        ),
        "by a stream that does otherwise with late rows (eKuiper's leave them out, IDLE_TIMEOUT has none)": (
            len({(one.late.drops, one.late.by_arrival and not one.late.drops) for one in both}) > 1
        ),
    }
    for what, is_so in refused.items():
        if is_so:
            raise NotSupportedError(
                f"CREATE OR REPLACE {what}",
                hint=f"DROP STREAM {before.name}, then CREATE STREAM",
                place=_place(after.name),
            )
