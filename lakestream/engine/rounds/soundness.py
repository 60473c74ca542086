"""Whether what is recorded of a stream fits its source, its output and its state; no Spark is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.creation.compile import compile_record
from lakestream.engine.planning.checks import (
    check_beside,
    check_followed,
    check_output,
    check_plan,
    check_source,
    check_tick,
    refuse_gone,
)
from lakestream.engine.recalculation.recalculate import app_of
from lakestream.engine.rounds.runtime import beside_of, mark_of, owns_output, position_of
from lakestream.engine.streams.quarantine import Quarantine
from lakestream.engine.streams.target import missing_errors
from lakestream.engine.ticks.tick import output_app

if TYPE_CHECKING:
    from lakestream.engine.planning.planner import Position
    from lakestream.engine.rounds.runtime import Services
    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.records.registry import Progress, Registry, StreamRecord, TickPlan


def refuse_unsound(services: Services, record: StreamRecord) -> None:
    """Raise the named state (StreamError) that a stream's next tick would find it in, or StorageError."""
    plan, progress = services.registry.last(record.uuid)
    stream = compile_record(record, services.catalog)
    position, _ = standing(services, record, stream, plan, progress)
    _check_output(services, record, plan, progress)
    quarantine = Quarantine(stream.definition, record.uuid)
    missing = [*quarantine.missing(services.catalog), *missing_errors(services.catalog, stream.definition)]
    refuse_gone(mark_of(record, progress), missing)
    check_beside(beside_of(record, progress), services.catalog.handles)
    services.registry.states.read(record.uuid, position.tick)


def standing(
    services: Services, record: StreamRecord, stream: Stream, plan: TickPlan | None, progress: Progress | None
) -> tuple[Position, TickPlan | None]:
    """Return where a stream stands, and its plan that is not done yet; both held against its source.

    Raises StreamError REGISTRY_REWOUND, and what check_source raises.
    """
    position = position_of(record, stream, progress)
    pending = plan if plan is not None and plan.tick > position.tick else None
    taken, commit, followed = position.version, position.commit, position.followed
    if pending is not None:
        check_plan(pending, position.version)
        taken, commit, followed = pending.upto, pending.commit, pending.followed
    check_followed(stream, followed, services.catalog.handles)
    check_source(record, taken, services.catalog.handles.latest(stream.source.info.path), commit)
    return position, pending


def has_happened(registry: Registry, app: str, number: int) -> bool | None:
    """Return whether a commit to an output and its record are done; None: they never will be."""
    uuid, job = app.split(":")[1], app.rpartition(":")[2]
    if all(record.uuid != uuid for record in registry.streams()):
        return None
    if app == output_app(uuid):
        progress = registry.last(uuid)[1]
        return progress is not None and progress.tick >= number
    found = next((one for one in registry.recalculations(uuid) if one.id == job), None)
    return None if found is None else found.part >= number


def is_recorded(services: Services, record: StreamRecord) -> bool:
    """Return whether what ticks of a stream, and recalculations of it, have committed is recorded."""
    info = services.catalog.find_table(*record.output.split(".", 1))
    if info is None:
        return True
    output = services.catalog.handles.latest(info.path)
    progress = services.registry.last(record.uuid)[1]
    if (output.transaction_version(output_app(record.uuid)) or 0) > (progress.tick if progress else 0):
        return False
    jobs = (job for job in services.registry.recalculations(record.uuid) if job.is_open)
    return all((output.transaction_version(app_of(job)) or 0) <= job.part for job in jobs)


def _check_output(
    services: Services, record: StreamRecord, plan: TickPlan | None, progress: Progress | None
) -> None:
    """Check the output, if it was written already."""
    info, mark = services.catalog.find_table(*record.output.split(".", 1)), mark_of(record, progress)
    if info is None:
        refuse_gone(mark, [record.output])
        return
    output = services.catalog.handles.latest(info.path)
    check_output(mark, output, is_own=owns_output(record, info))
    last = max((one.tick for one in (plan, progress) if one is not None), default=0)
    check_tick(output_app(record.uuid), last, output)
