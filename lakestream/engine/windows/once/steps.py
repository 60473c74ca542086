"""How ticks of windows that fire once find out what fires: as stages that run, and that EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.streams.write import windows_in_range
from lakestream.engine.windows.family import Advance, Step
from lakestream.engine.windows.once.admission import Admission, newest_of
from lakestream.engine.windows.once.rebuilding import REBUILD, RangeRebuilding, Rebuilding
from lakestream.engine.windows.said import extent

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import EventRange
    from lakestream.engine.windows.family import TickInput


@dataclass(frozen=True)
class AdmitRows(Step):
    """Read the changed rows, leave late ones out, and close the windows whose time has come."""

    rule: str
    taken: str
    title: ClassVar[str] = "admit rows"

    def __str__(self) -> str:
        return f"{self.rule}: {self.taken}"

    def advance(self, given: TickInput) -> Advance:
        """Admit rows; the windows that are over are to be computed."""
        anew = given.plan.kind == REBUILD
        if given.stream.exact or anew:
            return Rebuilding(given, everything=anew).run()
        return Admission(given).run()


@dataclass(frozen=True)
class RecomputeAdmitted(Step):
    """Find the windows of a range of event time that are over, of all rows that the source has."""

    rule: str
    event_range: EventRange
    table: str
    title: ClassVar[str] = "admit again"

    def __str__(self) -> str:
        return (
            f"{self.rule}: all windows {extent(self.event_range)} anew from {self.table}, late rows included"
        )

    def advance(self, given: TickInput) -> Advance:
        """Find the windows from the source as it is; the state stays."""
        if newest_of(given.state) is None:
            return Advance(given.state)
        return RangeRebuilding(
            given, event_range=self.event_range, written=partial(windows_in_range, given.tables, given.target)
        ).run()
