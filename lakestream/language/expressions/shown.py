"""A trigger as one short text, in the words of the statement that it was written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakestream.language.model import (
    BoundedSessionTrigger,
    CalendarTrigger,
    CountTrigger,
    EventTrigger,
    IdleTrigger,
    IntervalTrigger,
    LatestTrigger,
    PeriodTrigger,
    SessionTrigger,
    SlideTrigger,
    SlidingTrigger,
    SpanTrigger,
    StateTrigger,
    WholeTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.model import Duration, Fragment, Trigger


def trigger_text(trigger: Trigger) -> str:
    """Return a trigger as one line.

    >>> from lakestream.language.model import Duration
    >>> trigger_text(PeriodTrigger(Duration(10, "s"), Duration(0, "s")))
    'PERIOD(10s)'
    """
    return _TEXTS[type(trigger)](trigger)


def _list(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part is not None)


def _unless_zero(duration: Duration) -> Duration | None:
    return duration if duration.value else None


def _sql(fragment: Fragment | None) -> str | None:
    return " ".join(fragment.sql.split()) if fragment is not None else None


def _interval(trigger: IntervalTrigger) -> str:
    return f"INTERVAL({_list(trigger.length, _unless_zero(trigger.offset))}) SLIDING({trigger.step})"


def _calendar(trigger: CalendarTrigger) -> str:
    start = " ".join(str(part) for part in (trigger.weekday, trigger.month, trigger.day) if part is not None)
    return f"CALENDAR({trigger.unit} FROM {start})" if start else f"CALENDAR({trigger.unit})"


_TEXTS: dict[type, Callable[[Any], str]] = {
    IntervalTrigger: _interval,
    CalendarTrigger: _calendar,
    SlidingTrigger: lambda t: f"SLIDING({_list(t.step, _unless_zero(t.offset))})",
    SessionTrigger: lambda t: f"SESSION({_list(t.column, t.gap)})",
    StateTrigger: lambda t: f"STATE_WINDOW({_list(*map(_sql, t.states))}){t.rule}",
    EventTrigger: lambda t: f"EVENT_WINDOW(START WITH {_sql(t.start)} END WITH {_sql(t.end)})",
    CountTrigger: lambda t: f"COUNT_WINDOW({_list(t.count, t.step, *map(_sql, t.columns))})",
    IdleTrigger: lambda t: f"IDLE_TIMEOUT({t.timeout})",
    PeriodTrigger: lambda t: f"PERIOD({_list(t.period, _unless_zero(t.offset))})",
    SlideTrigger: lambda t: f"SLIDINGWINDOW({_list(t.length, _unless_zero(t.delay))})",
    BoundedSessionTrigger: lambda t: f"SESSIONWINDOW({_list(t.longest, t.gap)})",
    LatestTrigger: lambda t: f"COUNTWINDOW({_list(t.count, t.step)})",
    WholeTrigger: lambda _: "everything",
    SpanTrigger: lambda t: f"STATEWINDOW({_list(_sql(t.begin), _sql(t.end))})",
}
