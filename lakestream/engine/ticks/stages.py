"""A tick's plan as a tuple of stages, for every kind of tick: it runs them, and EXPLAIN prints the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.covered import redacted
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import PERIOD
from lakestream.engine.windows.said import named, versions_read, ways_said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Family, Step
    from lakestream.storage.records.registry import TickPlan


@dataclass(frozen=True)
class ReadChanges:
    """Read the source's changed rows, or the part of its history that the tick takes."""

    what: str
    columns: tuple[str, ...]
    title: ClassVar[str] = "read changes"

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class FollowTables:
    """Find the windows that changes of other tables touch, by the ways that the query leaves."""

    ways: tuple[str, ...]
    title: ClassVar[str] = "follow tables"

    def __str__(self) -> str:
        return "; ".join(self.ways)


@dataclass(frozen=True)
class CheckRows:
    """Hold the rows that came against what is expected of them; which go elsewhere is written at the end."""

    expected: tuple[str, ...]
    table: str | None
    title: ClassVar[str] = "check rows"

    def __str__(self) -> str:
        return _expected(self.expected, self.table)


@dataclass(frozen=True)
class CheckResults:
    """Hold the computed rows against what is expected of the output, before anything is written."""

    expected: tuple[str, ...]
    table: str | None
    title: ClassVar[str] = "check results"

    def __str__(self) -> str:
        return _expected(self.expected, self.table)


@dataclass(frozen=True)
class ReadRows:
    """Read what else the windows that fire need: rows of the source, and other tables.

    ``late_only``: only windows that had fired before need rows.
    """

    rows: str | None
    tables: tuple[str, ...]
    late_only: bool
    title: ClassVar[str] = "read rows"

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
    title: ClassVar[str] = "compute"

    def __str__(self) -> str:
        filled = f"; windows without rows: {self.fill}" if self.fill else ""
        failing = "; windows that fail are left out" if self.isolates else ""
        late = "; late windows only, if any" if self.late_only else ""
        return f"{self.way}{', by panes' if self.panes else ''}{filled}{failing}{late}"


@dataclass(frozen=True)
class WriteErrors:
    """Append the rows that were left out, and the windows that failed, to the stream's error table."""

    table: str
    title: ClassVar[str] = "write errors"

    def __str__(self) -> str:
        return f"rows left out and windows that fail, if any, appended to {self.table}"


@dataclass(frozen=True)
class Write:
    """Write the result rows in one idempotent commit; what is ``emitted`` goes into the outbox before that.

    ``rewrites``: windows that had fired before may be among them.
    """

    table: str
    how: str
    rewrites: bool = False
    emitted: str = ""
    title: ClassVar[str] = "write"

    def __str__(self) -> str:
        late = ", late windows rewritten" if self.rewrites else ""
        events = f"; before it {self.emitted}" if self.emitted else ""
        return f"{self.how} in {self.table}{late}, one commit{events}"


_TAKE_ROWS = ("changes", "history", PERIOD)
"""Kinds of ticks that take rows of the source that no tick has taken before."""

Shared = CheckRows | ReadChanges | FollowTables | ReadRows | Compute | CheckResults | WriteErrors | Write
"""The stages that are the same for all families."""


def stages(
    stream: Stream, target: Target, plan: TickPlan, event_range: EventRange | None = None
) -> tuple[Shared | Step, ...]:
    """Return what the tick does, in order; a pure function of stream, target and plan.

    ``event_range`` is the range of event time of a recalculation. Read, advance, evaluate, commit.
    """
    family = family_of(stream)
    step = family.step(target, plan, event_range)
    takes_rows = event_range is None and plan.kind in _TAKE_ROWS
    reads: tuple[Shared, ...] = _checks(stream, target) if takes_rows else ()
    if family.reads_changes(plan, event_range):
        reads = (*reads, ReadChanges(versions_read(stream, plan), stream.changed_columns))
        if stream.followed and plan.kind == "changes":
            reads = (*reads, FollowTables(tuple(ways_said(stream))))
    if not step.fires:
        return (*reads, step)
    errors = () if target.errors is None else (WriteErrors(named(target.errors)),)
    rows = _rows(family, step)
    computed = (_compute(family, step), *_result_checks(target))
    return (*reads, step, *rows, *computed, *errors, _write(family, target, plan, event_range))


def _checks(stream: Stream, target: Target) -> tuple[CheckRows, ...]:
    table = None if target.quarantine is None else named(target.quarantine)
    expected = tuple(str(check.expectation) for check in stream.checks)
    return (CheckRows(expected, table),) if expected else ()


def _result_checks(target: Target) -> tuple[CheckResults, ...]:
    table = None if target.refused is None else named(target.refused.info)
    expected = tuple(str(check.expectation) for check in target.checks)
    return (CheckResults(expected, table),) if expected else ()


def _expected(expected: Sequence[str], table: str | None) -> str:
    return f"{'; '.join(expected)}{f'; quarantine in {table}' if table else ''}"


def _rows(family: Family, step: Step) -> tuple[ReadRows, ...]:
    stream = family.stream
    tables = tuple(read.relation.key for read in stream.calculation.reads)
    if not family.reads_rows and not tables:
        return ()
    rows = named(stream.source.info) if family.needs_rows else None
    return (ReadRows(rows, tables, step.late_only),)


def _at_version(tables: Sequence[str]) -> list[str]:
    return [f"{name} at its version in the plan" for name in tables]


def _compute(family: Family, step: Step) -> Compute:
    stream = family.stream
    fill = str(stream.definition.options.fill or "")
    return Compute(stream.way.value, stream.evaluation().by_panes, fill, family.isolates, step.late_only)


def _write(family: Family, target: Target, plan: TickPlan, event_range: EventRange | None) -> Write:
    how, rewrites = family.writes(target, plan, event_range), family.rewrites(plan, event_range)
    return Write(named(target.info), how, rewrites, _emitted(family.stream, plan))


def _emitted(stream: Stream, plan: TickPlan) -> str:
    notification = stream.definition.notification
    if notification is None or (plan.kind == "history" and not notification.history):
        return ""
    targets = ", ".join(map(redacted, notification.urls))
    return f"{', '.join(notification.events)} into the outbox, for {targets}"
