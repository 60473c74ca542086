"""How ticks of windows of a grid find out what fires: as stages that run, and that EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.windows.family import Advance, Step
from lakestream.engine.windows.grid.detecting import Detecting
from lakestream.engine.windows.grid.firing import Firing
from lakestream.engine.windows.grid.updating import Updating
from lakestream.engine.windows.steps import DelayedStep, RecomputeStep

if TYPE_CHECKING:
    from lakestream.engine.windows.family import TickInput


@dataclass(frozen=True)
class DetectWindows(Step):
    """Find out from the changed rows which windows fire."""

    rule: str
    title: ClassVar[str] = "detect windows"

    def __str__(self) -> str:
        return self.rule

    def advance(self, given: TickInput) -> Advance:
        """Detect, and sum up by group: the next state, how much fires, and which span it covers."""
        return Detecting(given).run()


@dataclass(frozen=True)
class UpdateWindows(Step):
    """Merge the changes into the open windows' partial aggregates, and close those that are due."""

    rule: str
    title: ClassVar[str] = "update windows"
    late_only: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.rule}; by partial aggregates of the open windows"

    def advance(self, given: TickInput) -> Advance:
        """Let changes and open windows give the results in one query; else judge the rows one by one."""
        updated = Updating(given).run()
        if updated is not None:
            return updated
        if not given.relations.has_changes:
            given.relations.changes(given.stream.changed_columns)
        return Detecting(given).run()


@dataclass(frozen=True)
class FireByClock(Step):
    """Fire the windows that end in a range of the clock's time; None: EXPLAIN does not know it yet."""

    rule: str
    closed: tuple[int, int] | None = None
    title: ClassVar[str] = "fire by the clock"

    def __str__(self) -> str:
        return f"{self.rule}: windows that the clock has closed, as the state has them"

    def advance(self, given: TickInput) -> Advance:
        """Let the windows fire that the clock has closed."""
        if given.output_committed or not len(given.state) or self.closed is None:
            return Advance(given.state)
        return Firing(given).of_clock(*self.closed)


@dataclass(frozen=True)
class FireDelayed(DelayedStep):
    """Fire windows of a grid that are open."""

    def advance(self, given: TickInput) -> Advance:
        """Let the windows fire."""
        if given.output_committed or not len(given.state) or not self.windows:
            return Advance(given.state)
        return Firing(given).of_delay(self.windows)


@dataclass(frozen=True)
class RecomputeGrid(RecomputeStep):
    """Fire windows of a grid again."""

    def advance(self, given: TickInput) -> Advance:
        """Let all windows of the range fire that have fired."""
        return Firing(given).recompute(self.event_range)
