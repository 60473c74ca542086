"""Which family a stream's windows are of: the one place where that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.windows.grid.family import Grid
from lakestream.engine.windows.once.family import FireOnce
from lakestream.engine.windows.periodic import Periodic
from lakestream.engine.windows.rows.family import RowWindows
from lakestream.engine.windows.whole.family import Whole
from lakestream.language.model import PeriodTrigger, WholeTrigger

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Family


def family_of(stream: Stream) -> Family:
    """Return the family of a stream."""
    if isinstance(stream.definition.trigger, WholeTrigger):
        return Whole(stream)
    if stream.assigner is not None:
        return FireOnce(stream)
    if stream.cut is not None:
        return RowWindows(stream)
    if isinstance(stream.definition.trigger, PeriodTrigger):
        return Periodic(stream)
    return Grid(stream)
