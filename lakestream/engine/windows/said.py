"""What EXPLAIN says of a stream's windows: the rule by which they come about, and ranges of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.base.instants import from_micros
from lakestream.language.expressions.shown import trigger_text
from lakestream.language.model import (
    BoundedSessionTrigger,
    EventTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    StateTrigger,
)

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.language.model import Trigger, TrueFor
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import TickPlan


def named(info: TableInfo) -> str:
    """Return a table's full name."""
    return f"{info.database}.{info.name}"


def versions_read(stream: Stream, plan: TickPlan) -> str:
    """Say which versions of the source a tick reads, and which columns."""
    history = plan.kind == "history"
    what = f"history at version {plan.upto}" if history else f"changes of ({plan.after}, {plan.upto}]"
    return f"{what} of {named(stream.source.info)}: {', '.join(stream.changed_columns)}"


def ways_said(stream: Stream) -> list[str]:
    """Say how changes of other tables lead to windows."""
    follow, said = stream.late.follow, []
    for path in stream.followed:
        where = (
            path.said if path.leads else f"all within {follow.within if follow else None} of the newest row"
        )
        said.append(f"changes of {path.read.relation.key}: windows {where}")
    return said


def extent(event_range: EventRange) -> str:
    """Say which windows a range of event time has."""
    bounds = {
        "that end after": event_range.overlap_us,
        "from": event_range.from_us,
        "before": event_range.to_us,
    }
    said = [f"{word} {from_micros(at).isoformat()}" for word, at in bounds.items() if at is not None]
    return " ".join(said) or "there are"


def rule(stream: Stream) -> str:
    """Say by which trigger and groups windows come about, and what becomes of late rows."""
    text = _trigger(stream.definition.trigger)
    late = "late rows fire their windows again" if stream.refires else "late rows are ignored"
    if stream.exact:
        late = "every change is followed"
    watermark = stream.definition.options.watermark
    return f"{text} by {_groups(stream)}, watermark {watermark or '0s'}, {late}"


def admission(stream: Stream) -> str:
    """Say how rows are admitted to a stream, and by which trigger."""
    text = _trigger(stream.definition.trigger)
    options = stream.definition.options
    keys = ", ".join(key.expression.sql for key in stream.definition.partition_by) or "one timeline"
    if options.late.by_arrival:
        return f"{text}, by {keys}, by the time of arrival"
    late = "every change is followed" if stream.exact else "late rows are left out"
    return f"{text}, by {keys}, tolerance {options.watermark or '0s'}, {late}"


def arrival(stream: Stream) -> str:
    """Say by which trigger and groups rows count when they come."""
    return f"{_trigger(stream.definition.trigger)} by {_groups(stream)}, by the time of arrival"


def _groups(stream: Stream) -> str:
    keys = stream.definition.partition_by
    return ", ".join("tbname" if key.is_tbname else key.name for key in keys) or "one group"


def _trigger(trigger: Trigger) -> str:
    match trigger:
        case SlideTrigger():
            when = f" WHEN {trigger.when.sql}" if trigger.when else ""
            said = f"each row{when}: {trigger.length} before to {trigger.delay} after it"
        case BoundedSessionTrigger():
            said = f"sessions with gaps up to {trigger.gap}, cut every {trigger.longest}"
        case LatestTrigger():
            said = f"the latest {trigger.count} rows, every {trigger.step}"
        case SpanTrigger():
            end = f" to {trigger.end.sql}" if trigger.end else " to the next one"
            said = f"from {trigger.begin.sql}{end}"
        case StateTrigger():
            states = ", ".join(state.sql for state in trigger.states)
            said = f"STATE_WINDOW({states}){trigger.rule}{_following(trigger.true_for)}"
        case EventTrigger():
            conditions = f"START WITH {trigger.start.sql} END WITH {trigger.end.sql}"
            said = f"EVENT_WINDOW({conditions}){_following(trigger.true_for)}"
        case _:
            said = trigger_text(trigger)
    return said


def _following(true_for: TrueFor | None) -> str:
    return f" {true_for}" if true_for is not None else ""
