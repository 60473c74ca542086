"""What is asked of a trigger outside this room: the one place that tells its kinds apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.model import (
    MICROS,
    CalendarTrigger,
    CountTrigger,
    EventTrigger,
    IdleTrigger,
    IntervalTrigger,
    PeriodTrigger,
    RowTrigger,
    SessionTrigger,
    SlideTrigger,
    SlidingTrigger,
    SpanTrigger,
    StateTrigger,
    WholeTrigger,
)

if TYPE_CHECKING:
    from lakestream.language.model import Fragment, Trigger


_TYPES: dict[type[Trigger], str] = {
    IntervalTrigger: "Interval",
    CalendarTrigger: "Calendar",
    SlidingTrigger: "Sliding",
    SessionTrigger: "Session",
    StateTrigger: "State",
    EventTrigger: "Event",
    CountTrigger: "Count",
    PeriodTrigger: "Period",
}

_DAYS = {"WEEK": 7, "MONTH": 30, "QUARTER": 91, "YEAR": 365}
"""About how many days a unit of CALENDAR has."""


def type_in_messages(trigger: Trigger) -> str:
    """Return what messages call a kind of trigger whose events may be emitted."""
    return _TYPES[type(_named(trigger))]


def _named(trigger: Trigger) -> Trigger:
    """Return the trigger that a statement names, where IDLE_TIMEOUT stands in the place of its windows."""
    return trigger.windows if isinstance(trigger, IdleTrigger) else trigger


def fragments_of(trigger: Trigger) -> list[Fragment]:
    """Return what a trigger looks at in a row, as written."""
    trigger = _named(trigger)
    if isinstance(trigger, StateTrigger):
        return [*trigger.states]
    if isinstance(trigger, EventTrigger):
        return [trigger.start, trigger.end]
    if isinstance(trigger, CountTrigger):
        return list(trigger.columns)
    if isinstance(trigger, SlideTrigger):
        return [trigger.when] if trigger.when else []
    if isinstance(trigger, SpanTrigger):
        return [trigger.begin, *([trigger.end] if trigger.end else [])]
    return []


def is_periodic(trigger: Trigger) -> bool:
    """Return whether the wall clock alone triggers (PERIOD)."""
    return isinstance(trigger, PeriodTrigger)


def counts_what_is_written(trigger: Trigger) -> bool:
    """Return whether rows count as they are written, again with each update, and not as what there is."""
    return isinstance(trigger, PeriodTrigger | IdleTrigger)


def idle_events(trigger: Trigger) -> tuple[str, ...]:
    """Return the events of idle groups that compute; none of any other trigger."""
    return trigger.events if isinstance(trigger, IdleTrigger) else ()


def is_whole(trigger: Trigger) -> bool:
    """Return whether a single window holds all there is (a view that is computed as a whole)."""
    return isinstance(trigger, WholeTrigger)


def is_of_instants(trigger: Trigger) -> bool:
    """Return whether it fires at instants of event time, which do not open or close (SLIDING alone)."""
    return isinstance(trigger, SlidingTrigger)


def is_session(trigger: Trigger) -> bool:
    """Return whether windows go on until there is a gap."""
    return isinstance(trigger, SessionTrigger)


def is_of_states(trigger: Trigger) -> bool:
    """Return whether windows go on while a state lasts."""
    return isinstance(trigger, StateTrigger)


def zeroth_of(trigger: Trigger) -> tuple[int | bool | str | None, ...]:
    """Return for each state of a trigger the value whose windows give nothing, None for none."""
    if not isinstance(trigger, StateTrigger):
        return ()
    return trigger.rule.zeroth or (None,) * len(trigger.states)


def counts_rows(trigger: Trigger) -> bool:
    """Return whether windows are so many rows long."""
    return isinstance(trigger, CountTrigger)


def is_each_row(trigger: Trigger) -> bool:
    """Return whether every row is a window of its own."""
    return isinstance(trigger, CountTrigger) and trigger.count == 1


def is_cut_by_rows(trigger: Trigger) -> bool:
    """Return whether windows end with a row: their end is the last instant in them."""
    return isinstance(trigger, RowTrigger)


def late_rows_refire(trigger: Trigger, *, expires_closed: bool) -> bool:
    """Return whether a late row makes its windows fire again unless it is said otherwise (TDengine A7).

    Counted windows do so where each row begins one; ``expires_closed``: late rows count in open windows only.
    """
    if isinstance(trigger, CountTrigger):
        return trigger.step == 1 or expires_closed
    return not isinstance(trigger, SlidingTrigger | PeriodTrigger | IdleTrigger)


def step_us(trigger: Trigger) -> int:
    """Return about how far windows lie apart, in microseconds; a second where time does not tell."""
    if isinstance(trigger, CalendarTrigger):
        return _DAYS[trigger.unit] * MICROS["d"]
    if not isinstance(trigger, IntervalTrigger | SlidingTrigger):
        return MICROS["s"]
    step = trigger.step
    return step.months * 30 * MICROS["d"] if step.months else max(step.micros, 1)
