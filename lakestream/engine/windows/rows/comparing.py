"""Windows of a new cut held against those that fired before: which ones fire, which ones go, what is emitted.

All of it is over values: nothing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.engine.reading.relations import EVER
from lakestream.engine.windows.rows.extents import chained, holds, one_of_each_start, overlaps
from lakestream.engine.windows.rows.groups import Happening
from lakestream.language.model import WINDOW_CLOSE, WINDOW_OPEN
from lakestream.notify.events import WINDOW_INVALIDATION
from lakestream.triggers.cut import DETAILS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.rows.extents import Window
    from lakestream.engine.windows.rows.groups import CutGroup


@dataclass(frozen=True)
class Comparing:
    """The comparison for one stream; ``unique``: its output holds a key once."""

    stream: Stream
    unique: bool

    def compared(
        self,
        touched: list[CutGroup],
        windows: dict[int, list[dict[str, Any]]],
        there: dict[int, list[Window]],
        moved: dict[int, list[int]],
    ) -> tuple[list[tuple[CutGroup, Window]], list[tuple[int, int]]]:
        """Return the windows that fire, and (group, low) of those whose rows go."""
        fired: list[tuple[CutGroup, Window]] = []
        retracted: list[tuple[int, int]] = []
        for group in touched:
            found = windows.get(group.gid, [])
            now, before = self._both(group, found, there.get(group.gid, []))
            if group.late:
                same = {window for window in now & before if not holds(moved[group.gid], window)}
                stay = self._opened_still(group, found) - {low for low, _ in now}
                retracted += [(group.gid, low) for low, _ in before - same if low not in stay]
                now -= same
            elif self.stream.emission.fires_open:
                retracted += [(group.gid, low) for low in sorted(self._left(group, found, now, before))]
            fired += [(group, window) for window in sorted(now)]
        return fired, retracted

    def differs_apart(
        self, group: CutGroup, found: list[dict[str, Any]], shown: list[Window], moved: list[int]
    ) -> bool:
        """Return whether a late group's cut may differ from what was ``shown`` beside where it changed."""
        if self._begins_apart:
            return True  # the output does not say where the open window begins
        now, before = self._both(group, found, shown)
        goes_on = EVER[1] if group.goes_on is None else group.goes_on
        changed = _around(now | before, lambda of: holds(moved, of) or of[0] >= goes_on)
        return not now ^ before <= changed

    def narrowed(
        self,
        group: CutGroup,
        found: list[dict[str, Any]],
        was: list[dict[str, Any]],
        shown: list[Window],
        moved: list[int],
    ) -> tuple[list[dict[str, Any]], list[Window]]:
        """Return a late group's cut and what was ``shown`` without the closed windows that stay.

        Those hold no change, are as they were cut before it (``was``), and overlap none that is not so. An
        open one that no change touches keeps the start that is known.
        """
        now, before = self._both(group, found, shown)
        opened = _opened(was)
        cut, then = now | _opened(found), self.firing(group, was, ()) | opened
        moves = cut ^ then
        changed = _around(cut | before | then, lambda of: of in moves or holds(moved, of))
        kept = [
            {**row, "low": group.goes_on} if self._keeps_start(row, opened - changed) else row
            for row in found
            if not row["closed"] or (row["low"], row["high"]) not in now - changed
        ]
        still = {(row["low"], row["high"]) for row in found if not row["closed"]}
        return kept, sorted(before & (changed | still))

    def _keeps_start(self, row: dict[str, Any], opened: set[Window]) -> bool:
        """Return whether an open window begins where one of ``opened`` did, which rows do not tell."""
        return self._begins_apart and not row["closed"] and (row["low"], EVER[1]) in opened

    @property
    def _begins_apart(self) -> bool:
        """Whether a window may begin elsewhere than at its first row."""
        return self.stream.cut is not None and self.stream.cut.begins_apart

    def _both(
        self, group: CutGroup, found: list[dict[str, Any]], shown: list[Window]
    ) -> tuple[set[Window], set[Window]]:
        before = {window for window in shown if window[0] >= group.from_us}
        return self.firing(group, found, before), before

    def _left(
        self, group: CutGroup, found: list[dict[str, Any]], now: set[Window], shown: set[Window]
    ) -> set[int]:
        """Return the starts of windows that had been open whose rows in the output go, or come anew."""
        lows = {low for low, _ in now}
        if self.stream.emission.at_once:
            return set(group.opened) - (lows if self.unique else set())
        return {low for low, _ in shown} | (group.opened - {row["low"] for row in found})

    def _opened_still(self, group: CutGroup, found: list[dict[str, Any]]) -> set[int]:
        """Return the starts of windows whose opening was computed and that are there: it is not again."""
        if not self.stream.emission.at_open:
            return set()
        return {row["low"] for row in found if row["counts"] and row["low"] in group.opened}

    def firing(
        self, group: CutGroup, found: Iterable[dict[str, Any]], shown: Collection[Window]
    ) -> set[Window]:
        """Return the windows that fire: those that close, those that are open, or those that open.

        ``shown`` are windows that the output has rows of: what is open of them fires again (MAX_DELAY).
        """
        options = self.stream.definition.options
        known = shown if options.emission.max_delay is not None else ()
        firing = (
            (row["low"], row["high"])
            for row in found
            if (
                row["counts"]
                and options.emission.at_close
                and (row["closed"] or (options.emission.at_once and self.shows(row)))
            )
            or (row["counts"] and options.emission.at_open and row["low"] not in group.opened)
            or (not row["closed"] and self.shows(row) and overlaps((row["low"], row["high"]), known))
        )
        return one_of_each_start(firing)

    def shows(self, row: dict[str, Any]) -> bool:
        """Return whether a window that is open may be computed: in the classic syntax not without its end."""
        return bool(row["fires"] and (row["shows"] or not self.stream.emission.opens_ahead))

    def events(
        self,
        group: CutGroup,
        found: Iterable[dict[str, Any]],
        there: Iterable[Window],
        opened: frozenset[int],
        moved: list[int] | None,
    ) -> list[Happening]:
        """Return what happened to a group's windows since the last events: of the open ones and those there.

        Windows go by their start: one that ends elsewhere now has not gone. One that is as it was and
        holds no changed row (``moved``; None: any may have changed) has no event again.
        """
        if self.stream.definition.notification is None:
            return []
        counting = [row for row in found if row["counts"]]
        before = {low: high for low, high in there if low >= group.from_us and low not in opened}
        closed = {row["low"] for row in counting if row["closed"]}
        known = opened | {low for low in before if low in closed}
        left = opened - {row["low"] for row in counting} if moved is not None else frozenset()
        ends = [(low, high) for low, high in before.items() if low not in closed]
        ends += [(low, low + 1) for low in left if low >= group.from_us]
        events = [
            Happening(group, low, high, WINDOW_INVALIDATION, refired=True) for low, high in sorted(ends)
        ]
        opens_with, closes_with = DETAILS
        for row in counting:
            low, high = window = row["low"], row["high"]
            if low not in known:
                events.append(Happening(group, *window, WINDOW_OPEN, extra=row[opens_with]))
            same = moved is not None and before.get(low) == high and not holds(moved, window)
            if row["closed"] and not same:
                events.append(Happening(group, *window, WINDOW_CLOSE, low in before, row[closes_with]))
        return events


def _around(windows: set[Window], is_changed: Callable[[Window], bool]) -> set[Window]:
    """Return windows that are changed, and all that overlap these, one after the other."""
    return {window for chain in chained(windows) if any(map(is_changed, chain)) for window in chain}


def _opened(found: Iterable[dict[str, Any]]) -> set[Window]:
    """Return the windows of a cut that are open, for ever."""
    return {(row["low"], EVER[1]) for row in found if not row["closed"]}
