"""Steps that several families take, each in its own way: open windows shown, and windows that fire again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.windows.family import Step
from lakestream.engine.windows.said import extent

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import EventRange
    from lakestream.engine.windows.delays import OpenWindow


@dataclass(frozen=True)
class DelayedStep(Step):
    """Fire windows that are still open, as far as they have come: MAX_DELAY has passed."""

    rule: str
    windows: tuple[OpenWindow, ...] = ()
    title: ClassVar[str] = "fire by the clock"

    def __str__(self) -> str:
        return f"{self.rule}: open windows whose delay is over, as the state has them"


@dataclass(frozen=True)
class RecomputeStep(Step):
    """Find the windows of a range of event time that have fired, in the source as it is."""

    rule: str
    event_range: EventRange
    title: ClassVar[str] = "fire again"

    def __str__(self) -> str:
        return f"{self.rule}: all windows {extent(self.event_range)} again, in the source as it is"
