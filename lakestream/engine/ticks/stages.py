"""A tick's plan as a tuple of stages, for every kind of tick: it runs them, and EXPLAIN prints the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import from_micros
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.windows.admission import FLUSH
from lakestream.engine.windows.passing import passes
from lakestream.engine.windows.readmission import ANEW
from lakestream.language.expressions.shown import trigger_text
from lakestream.language.expressions.targets import redacted
from lakestream.language.model import (
    WINDOW_CLOSE,
    BoundedSessionTrigger,
    EventTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    StateTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.stream import Part, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.language.model import Duration, Trigger
    from lakestream.storage.registry import TickPlan
    from lakestream.storage.table_info import TableInfo

PERIOD, CLOCK, DELAY = "period", "clock", "delay"
"""Kinds of ticks: an instant of PERIOD, windows that the clock has closed, open ones whose delay is over."""

CLOCK_KINDS = (DELAY, CLOCK)
"""Kinds of ticks that take no changes: time has passed."""


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
    """Find out which windows fire, and the state after the tick.

    ``passes``: rows that come in order are cut and computed in one query.
    """

    rule: str
    passes: bool = False

    def __str__(self) -> str:
        return f"{self.rule}{'; rows in order are cut and computed in one query' if self.passes else ''}"


@dataclass(frozen=True)
class AdmitRows:
    """Read the changed rows, leave late ones out, and close the windows whose time has come."""

    rule: str
    taken: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.taken}"


@dataclass(frozen=True)
class AdmitAgain:
    """Find the windows of a part of event time that are over, of all rows that the source has."""

    rule: str
    part: str
    table: str

    def __str__(self) -> str:
        return f"{self.rule}: all windows {self.part} anew from {self.table}, late rows included"


@dataclass(frozen=True)
class CountWritten:
    """Count by group the rows that were written since the instant before, which are its %%trows."""

    rule: str

    def __str__(self) -> str:
        return f"{self.rule}: the rows written since the instant before, by group"


@dataclass(frozen=True)
class FireInstants:
    """Fire an instant of the wall clock for every group (``only_written``: for those with rows)."""

    only_written: bool
    tables: tuple[str, ...]

    def __str__(self) -> str:
        groups = "every group with such rows" if self.only_written else "every group there is"
        return "; ".join([f"the instant for {groups}", *_at_version(self.tables)])


@dataclass(frozen=True)
class FireByClock:
    """Fire windows because time has passed: those that the clock has closed, or that are still open."""

    rule: str
    closes: bool

    def __str__(self) -> str:
        what = "windows that the clock has closed" if self.closes else "open windows whose delay is over"
        return f"{self.rule}: {what}, as the state has them"


@dataclass(frozen=True)
class FireAgain:
    """Find the windows of a part of event time that have fired, in the source as it is."""

    rule: str
    part: str

    def __str__(self) -> str:
        return f"{self.rule}: all windows {self.part} again, in the source as it is"


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
        return "; ".join([*parts, *_at_version(self.tables)]) or "nothing"


@dataclass(frozen=True)
class Compute:
    """Evaluate the calculation for all windows at once; ``isolates``: but for those that fail in it.

    ``late_only``: only for windows that had fired before; the others' results are there already.
    """

    way: str
    panes: bool
    fill: str = ""
    isolates: bool = False
    late_only: bool = False

    def __str__(self) -> str:
        filled = f"; windows without rows: {self.fill}" if self.fill else ""
        failing = "; windows that fail are left out" if self.isolates else ""
        late = "; late windows only, if any" if self.late_only else ""
        return f"{self.way}{', by panes' if self.panes else ''}{filled}{failing}{late}"


@dataclass(frozen=True)
class WriteErrors:
    """Append the rows that were left out, and the windows that failed, to the stream's error table."""

    table: str

    def __str__(self) -> str:
        return f"rows left out and windows that fail, if any, appended to {self.table}"


@dataclass(frozen=True)
class Write:
    """Write the result rows in one idempotent commit; what is ``told`` goes into the outbox before that.

    ``rewrites``: windows that had fired before may be among them.
    """

    table: str
    how: str
    rewrites: bool = False
    told: str = ""

    def __str__(self) -> str:
        late = ", late windows rewritten" if self.rewrites else ""
        events = f"; before it {self.told}" if self.told else ""
        return f"{self.how} in {self.table}{late}, one commit{events}"


Stage = (
    ReadChanges
    | UpdateWindows
    | DetectWindows
    | AdmitRows
    | AdmitAgain
    | CountWritten
    | FireInstants
    | FireByClock
    | FireAgain
    | ReadRows
    | Compute
    | WriteErrors
    | Write
)


def stages(stream: Stream, target: Target, plan: TickPlan, part: Part | None = None) -> tuple[Stage, ...]:
    """Return what the tick does, in order; a pure function of stream, target and plan.

    ``part`` is the part of event time of a recalculation.
    """
    writing = _write(stream, target, plan, part)
    computing = (_compute(stream), writing)
    errors = () if target.errors is None else (WriteErrors(_named(target.errors)),)
    if stream.assigner is not None:
        return (_admit(stream, plan, part), _compute(stream), *errors, writing)
    if part is not None:
        return (FireAgain(_rule(stream), _extent(part)), _rows(stream), *computing)
    if stream.is_periodic:
        counting = (_changes(stream, plan), CountWritten(_rule(stream)))
        return (*counting, _instants(stream), *computing) if plan.kind == PERIOD else counting
    if plan.kind in CLOCK_KINDS:
        return (FireByClock(_rule(stream), closes=plan.kind == CLOCK), _rows(stream), *computing)
    if by_update(stream, target, plan):
        updating = (_changes(stream, plan), UpdateWindows(_rule(stream)))
        return (*updating, _rows(stream, late_only=True), _compute(stream, late_only=True), writing)
    detecting = DetectWindows(_rule(stream), passes(stream, target, plan))
    return (_changes(stream, plan), detecting, _rows(stream), *computing)


def _admit(stream: Stream, plan: TickPlan, part: Part | None) -> AdmitRows | AdmitAgain:
    if part is not None:
        return AdmitAgain(_rule(stream), _extent(part), _named(stream.source.info))
    return AdmitRows(_rule(stream), _taken(stream, plan))


def _changes(stream: Stream, plan: TickPlan) -> ReadChanges:
    source, columns = _named(stream.source.info), stream.changed_columns
    return ReadChanges(source, plan.after, plan.upto, columns, history=plan.kind == "history")


def _taken(stream: Stream, plan: TickPlan) -> str:
    """Say what a tick of a stream that admits rows takes."""
    source = _named(stream.source.info)
    if plan.kind == ANEW:
        return f"all windows anew from {source} at version {plan.upto}"
    if plan.kind == FLUSH:
        return "what is open closes, as if no row were to come"
    if plan.kind == CLOCK:
        return "what time has closed, of the rows that were held"
    return f"{_changes(stream, plan)}, and the rows that were held"


def _instants(stream: Stream) -> FireInstants:
    return FireInstants(stream.definition.options.ignore_nodata, _tables(stream))


def _rows(stream: Stream, *, late_only: bool = False) -> ReadRows:
    rows = _named(stream.source.info) if needs_rows(stream) else None
    return ReadRows(rows, _tables(stream), late_only)


def _tables(stream: Stream) -> tuple[str, ...]:
    return tuple(read.relation.key for read in stream.calculation.reads)


def _at_version(tables: Sequence[str]) -> list[str]:
    return [f"{name} at its version in the plan" for name in tables]


def _compute(stream: Stream, *, late_only: bool = False) -> Compute:
    fill = str(stream.definition.options.fill or "")
    isolates = stream.assigner is not None
    return Compute(stream.way.value, stream.evaluation().by_panes, fill, isolates, late_only)


def _write(stream: Stream, target: Target, plan: TickPlan, part: Part | None) -> Write:
    how = "append" if target.appends else "replace rows of equal key"
    if part is not None or plan.kind == ANEW:
        how = "replace all rows of the windows"
    elif stream.assigner is not None:
        how = "rewrite from the first window that changed" if stream.exact else "append"
    by_rows = part is None and stream.assigner is None and not stream.is_periodic
    rewrites = by_rows and plan.kind not in CLOCK_KINDS
    return Write(_named(target.info), how, rewrites, _told(stream, plan))


def _named(info: TableInfo) -> str:
    return f"{info.database}.{info.name}"


def _extent(part: Part) -> str:
    """Say which windows a part of event time has."""
    bounds = {"that end after": part.overlap_us, "from": part.from_us, "before": part.to_us}
    said = [f"{word} {from_micros(at).isoformat()}" for word, at in bounds.items() if at is not None]
    return " ".join(said) or "there are"


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
