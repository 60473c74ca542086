"""A tick's plan as a tuple of stages: running it and explaining it interpret the same values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.transport import ARROW
from lakestream.language.model import (
    WINDOW_CLOSE,
    BoundedSessionTrigger,
    EventTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    StateTrigger,
)
from lakestream.language.shown import trigger_text
from lakestream.language.targets import redacted

if TYPE_CHECKING:
    from lakestream.engine.stream import Stream
    from lakestream.engine.target import Target
    from lakestream.language.model import Duration, Trigger
    from lakestream.storage.registry import TickPlan


@dataclass(frozen=True)
class ReadChanges:
    """Read the source's changed rows, or the part of its history that the tick takes."""

    table: str
    after: int
    upto: int
    columns: tuple[str, ...]
    history: bool

    def __str__(self) -> str:
        what = (
            f"history at version {self.upto}" if self.history else f"changes of ({self.after}, {self.upto}]"
        )
        return f"{what} of {self.table}: {', '.join(self.columns)}"


@dataclass(frozen=True)
class UpdateWindows:
    """Merge the changes into the open windows' partial aggregates, and close those that are due."""

    rule: str

    def __str__(self) -> str:
        return f"{self.rule}; by partial aggregates of the open windows"


@dataclass(frozen=True)
class DetectWindows:
    """Find out which windows fire, and the state after the tick."""

    rule: str

    def __str__(self) -> str:
        return self.rule


@dataclass(frozen=True)
class ReadRows:
    """Read what else the windows that fire need: rows of the source, and other tables.

    ``late_only``: only windows that had fired before need rows.
    """

    rows: str | None
    tables: tuple[str, ...]
    late_only: bool

    def __str__(self) -> str:
        if self.late_only:
            return f"rows of {self.rows} in the span of late windows, if any"
        parts = [f"rows of {self.rows} in the span of the windows"] if self.rows else []
        parts += [f"{name} at its version in the plan" for name in self.tables]
        return "; ".join(parts) or "nothing"


@dataclass(frozen=True)
class Compute:
    """Evaluate the calculation for all windows at once."""

    way: str
    panes: bool
    fill: str = ""

    def __str__(self) -> str:
        filled = f"; windows without rows: {self.fill}" if self.fill else ""
        return f"{self.way}{', by panes' if self.panes else ''}{filled}"


@dataclass(frozen=True)
class Write:
    """Write the result rows in one idempotent commit; what is ``told`` goes into the outbox before that."""

    table: str
    appends: bool
    told: str = ""

    def __str__(self) -> str:
        how = "append" if self.appends else "replace rows of equal key"
        events = f"; before it {self.told}" if self.told else ""
        return f"{how} in {self.table}, late windows rewritten, one commit{events}"


Stage = ReadChanges | UpdateWindows | DetectWindows | ReadRows | Compute | Write


def stages(stream: Stream, target: Target, plan: TickPlan) -> tuple[Stage, ...]:
    """Return what the tick does, in order; a pure function of stream, target and plan."""
    source = f"{stream.source.info.database}.{stream.source.info.name}"
    calculation = stream.calculation
    updates = by_update(stream, target, plan)
    return (
        ReadChanges(source, plan.after, plan.upto, stream.changed_columns, history=plan.kind == "history"),
        UpdateWindows(_rule(stream)) if updates else DetectWindows(_rule(stream)),
        ReadRows(
            source if needs_rows(stream) else None,
            tuple(read.relation.key for read in calculation.reads),
            late_only=updates,
        ),
        Compute(stream.way.value, stream.evaluation().by_panes, str(stream.definition.options.fill or "")),
        Write(f"{target.info.database}.{target.info.name}", target.appends, _told(stream, plan)),
    )


def _told(stream: Stream, plan: TickPlan) -> str:
    notification = stream.definition.notification
    if notification is None or (plan.kind == "history" and not notification.history):
        return ""
    targets = ", ".join(map(redacted, notification.urls))
    return f"{', '.join(notification.events)} into the outbox, for {targets}"


def by_update(stream: Stream, target: Target, plan: TickPlan) -> bool:
    """Return whether the tick goes by partial aggregates: rows are only added, in an order that counts not.

    That is so where late rows make their windows fire again, and for a single commit.
    """
    if not plan.extra.get("appends_only") or not target.unique or stream.incremental(1) is None:
        return False
    options = stream.definition.options
    if options.at_open or options.by_clock or not _tells_by_update(stream, plan):
        return False
    return stream.follows_source or plan.kind == "history" or plan.upto - plan.after == 1


def _tells_by_update(stream: Stream, plan: TickPlan) -> bool:
    """Return whether partial aggregates know all that is told of: the windows that close, in a small tick."""
    notification = stream.definition.notification
    if notification is None or (plan.kind == "history" and not notification.history):
        return True
    small = plan.kind == "changes" and plan.extra.get("transport") == ARROW
    return small and notification.events == (WINDOW_CLOSE,) and not stream.definition.options.at_once


def needs_rows(stream: Stream) -> bool:
    """Return whether the rows of a window themselves are needed, not only which windows fire."""
    if stream.assigner is not None:
        return False  # they come with the changes, or were held back
    options = stream.definition.options
    used = stream.calculation.used
    return stream.calculation.reads_rows or options.ignore_nodata or "_twrownum" in used


def _rule(stream: Stream) -> str:
    text = _trigger(stream.definition.trigger)
    if stream.assigner is not None:
        return f"{text}, {_admitted(stream)}"
    keys = stream.definition.partition_by
    groups = ", ".join("tbname" if key.is_tbname else key.name for key in keys) or "one group"
    late = "late rows fire their windows again" if stream.refires else "late rows are ignored"
    if stream.exact:
        late = "every change is followed"
    watermark = stream.definition.options.watermark
    return f"{text} by {groups}, watermark {watermark or '0s'}, {late}"


def _admitted(stream: Stream) -> str:
    """Say how rows are admitted."""
    options = stream.definition.options
    keys = ", ".join(key.expression.sql for key in stream.definition.partition_by) or "one timeline"
    if options.by_arrival:
        return f"by {keys}, by the time of arrival"
    late = "every change is followed" if stream.exact else "late rows are left out"
    return f"by {keys}, tolerance {options.watermark or '0s'}, {late}"


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
            said = f"STATE_WINDOW({trigger.state.sql}){_true_for(trigger.true_for)}"
        case EventTrigger():
            conditions = f"START WITH {trigger.start.sql} END WITH {trigger.end.sql}"
            said = f"EVENT_WINDOW({conditions}){_true_for(trigger.true_for)}"
        case _:
            said = trigger_text(trigger)
    return said


def _true_for(duration: Duration | None) -> str:
    return f" TRUE_FOR({duration})" if duration else ""
