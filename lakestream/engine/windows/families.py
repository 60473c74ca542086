"""Which family a stream's windows are of: the one place where that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.model import IdleTrigger, PeriodTrigger, WholeTrigger

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Family


def family_of(stream: Stream) -> Family:
    """Return the family of a stream; what others do is not loaded for it."""
    if isinstance(stream.definition.trigger, WholeTrigger):
        from lakestream.engine.windows.whole.family import Whole

        return Whole(stream)
    if stream.assigner is not None:
        from lakestream.engine.windows.once.family import FireOnce

        return FireOnce(stream)
    if stream.cut is not None:
        from lakestream.engine.windows.rows.family import RowWindows

        return RowWindows(stream)
    if isinstance(stream.definition.trigger, PeriodTrigger):
        from lakestream.engine.windows.periodic import Periodic

        return Periodic(stream)
    if isinstance(stream.definition.trigger, IdleTrigger):
        from lakestream.engine.windows.idle.family import Idle

        return Idle(stream)
    from lakestream.engine.windows.grid.family import Grid

    return Grid(stream)
