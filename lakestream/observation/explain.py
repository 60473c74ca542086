"""EXPLAIN STREAM: the stages of the ticks that come next, as these would run them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import from_micros
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.recalculation.recalculate import range_of, whole_of
from lakestream.engine.ticks.stages import stages
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import CLOCK, DELAY, PERIOD
from lakestream.engine.windows.once.rebuilding import REBUILD
from lakestream.storage.records.registry import TickPlan

if TYPE_CHECKING:
    from lakestream.compute.windows.keyed.keys import Keys
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.storage.records.registry import Recalculation, StreamRecord

    Coming = tuple[str, TickPlan, EventRange | None]
    """What a tick is called, its plan, and the range of event time that it recalculates."""


def explain_stream(engine: Engine, record: StreamRecord) -> list[tuple[str, str]]:
    """Return (stage, what it does) of the stream's next tick; of a small append's when nothing is new.

    Behind it those of an open recalculation, and of a tick for which only time has to pass.
    """
    stream, target, plan = engine.next_plan(record)
    latest = engine.services.catalog.handles.open(stream.source.info.path).version
    jobs = [job for job in engine.services.registry.recalculations(record.uuid) if job.is_open]
    coming = [
        _next(record, plan, latest, engine.next_instant(record)),
        *(coming for job in jobs for coming in _recalculation(stream, record, job, latest)),
        *_by_clock(stream, record, latest),
    ]
    lines: list[tuple[str, str]] = []
    for name, planned, event_range in coming:
        lines.append(("tick", name))
        if planned is plan:
            lines.append(("bytes move by", planned.transport))
            lines.append(("computed by", engine.computed_by(record, planned)))
        elif planned is coming[0][1] and planned.kind == "changes":
            handles = engine.services.catalog.handles
            versions = {info.path: handles.latest(info.path).version for info in stream.tables.values()}
            nothing = replace(planned, upto=planned.after, table_versions=versions)
            lines.append(("computed by", engine.computed_by(record, nothing)))
        lines += [(stage.title, str(stage)) for stage in stages(stream, target, planned, event_range)]
    return [*_refreshed(stream), *lines, ("calculation", stream.calculation.query.sql("spark"))]


def _refreshed(stream: Stream) -> list[tuple[str, str]]:
    """Say how a materialized view is refreshed, and why; nothing of another stream."""
    view = stream.definition.options.view
    if view is None:
        return []
    if view.time is not None:
        keys = ", ".join(key.name for key in stream.definition.partition_by)
        by = f"windows of {view.time}" + (f" and the keys {keys}" if keys else "")
        return [("refresh", f"incremental, by {by}: those that a change touches")]
    if stream.keys is None:
        why = ", not by keys: ".join(filter(None, (view.why, stream.why_whole)))
        return [("refresh", f"as a whole, with each change: {why}")]
    by = "the one key of all rows" if stream.keys.is_total else f"the keys {stream.keys.said}"
    lines = [("refresh", f"incremental, by {by}: those that a change touches"), _moved(stream.keys)]
    if nowhere := stream.keys.leading_nowhere:
        said = (
            f"as a whole, with each change of {', '.join(sorted(nowhere))}, from which no equal columns lead"
        )
        lines.append(("refresh", f"{said} to keys (instead: a join with it by a.x = b.x)"))
    return lines


def _moved(keys: Keys) -> tuple[str, str]:
    """Say what changed rows move, or why a key that they touch is computed from all of its rows."""
    kept = keys.kept
    if kept is None:
        return "refresh", f"a touched key is computed from all its rows: {keys.why_unkept}"
    tables = " or ".join(sorted(kept.keeping.movable)) or "no table"
    said = f"changed rows of {tables} alone move what is kept of a key: {kept.said}"
    return "refresh", f"{said}; with other changes it is computed from all its rows"


def _next(record: StreamRecord, plan: TickPlan | None, latest: int, instant_us: int | None) -> Coming:
    if plan is not None:
        return f"{plan.tick} ({plan.kind})", plan, None
    if instant_us is not None:
        at = from_micros(instant_us).isoformat()
        return f"nothing is due; at {at}", _imagined(record, PERIOD, latest, latest), None
    return "nothing is new; of a small append", _imagined(record, "changes", latest, latest + 1), None


def _recalculation(stream: Stream, record: StreamRecord, job: Recalculation, latest: int) -> list[Coming]:
    if job.resync and family_of(stream).assigns_rows:
        # One tick makes all windows anew, where it is not for place and state alone.
        replaced = record.is_replaced and not stream.definition.options.late.by_arrival
        again = stream.exact or replaced
        return [("all windows", _imagined(record, REBUILD, latest, latest), None)] if again else []
    event_range = range_of(job, job.part) if job.cuts is not None else whole_of(job)
    name = f"recalculation, part {job.part + 1} of {job.parts or 'as many as it takes'}"
    return [(name, _imagined(record, "recalculation", latest, latest), event_range)]


def _by_clock(stream: Stream, record: StreamRecord, latest: int) -> list[Coming]:
    """Return the tick that comes when time passes without rows, if there is one."""
    emission, late = stream.definition.options.emission, stream.definition.options.late
    if emission.max_delay is not None:
        what = f"when a window is open for {emission.max_delay}"
        return [(what, _imagined(record, DELAY, latest, latest), None)]
    if emission.by_clock or late.by_arrival:
        falls_idle = family_of(stream).closes_with_rows
        what = "when a group falls idle" if falls_idle else "when the clock has closed windows"
        return [(what, _imagined(record, CLOCK, latest, latest), None)]
    return []


def _imagined(record: StreamRecord, kind: str, after: int, upto: int) -> TickPlan:
    """Return the plan of a tick that is not due yet: small, of rows that are only added."""
    return TickPlan(record.uuid, 0, kind, after, upto, 0, transport=ARROW, appends_only=True)
