"""The windows that the output has of groups that are cut by rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.reading.relations import EVER
from lakestream.engine.streams.write import last_starts, windows_from

if TYPE_CHECKING:
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.rows.extents import Window
    from lakestream.engine.windows.rows.groups import CutGroup
    from lakestream.storage.delta import Tables

_NEAR_US = 86_400_000_000
"""How far before a change a window is looked for, before the last one of each group is."""


@dataclass(frozen=True)
class Shown:
    """Looks windows up in the output, where its rows say which one they are of.

    ``is_delayed``: it has windows that are open (MAX_DELAY); ``share`` says which part of the groups is
    looked for, of how many.
    """

    tables: Tables
    target: Target
    is_delayed: bool
    share: tuple[int, int] = (0, 1)

    def before(self, late: list[CutGroup]) -> dict[int, list[Window]]:
        """Return the windows of late groups, in order, from before the change on."""
        if not late or not self.target.shape.provenance:
            return {}
        lower = min(group.from_us for group in late) - _NEAR_US
        near = self._written(late, lower)
        if lower < EVER[0]:
            return near
        far = [group for group in late if not near.get(group.gid) or near[group.gid][0][1] > group.from_us]
        return near | self._further_back(far) if far else near

    def opened(self, changed: list[CutGroup]) -> dict[int, list[Window]]:
        """Return the open windows of groups, where they are not all in the output."""
        if not changed or not self.is_delayed or not self.target.shape.provenance:
            return {}
        return self._written(changed, min(group.from_us for group in changed))

    def _further_back(self, late: list[CutGroup]) -> dict[int, list[Window]]:
        """Return the windows of groups from the last one before the change on, however far back it is."""
        before, gids = min(group.from_us for group in late), [group.gid for group in late]
        starts = last_starts(self.tables, self.target, before, self.share, gids)
        return self._written(late, min(starts, default=None), over=before)

    def _written(
        self, late: list[CutGroup], lower: int | None, over: int | None = None
    ) -> dict[int, list[Window]]:
        """Return the windows of groups from an instant on, or that end after another."""
        gids = [group.gid for group in late]
        windows: dict[int, set[Window]] = defaultdict(set)
        found = windows_from(self.tables, self.target, lower, self.share, over=over, only=gids)
        for gid, start, end in found:
            windows[gid].add((start, end))
        return {gid: sorted(listed) for gid, listed in windows.items()}
