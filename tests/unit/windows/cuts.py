"""Groups that are cut, and windows of a cut as its query gives them: times are plain numbers."""

from __future__ import annotations

from typing import Any

from lakestream.engine.windows.rows.groups import CutGroup

_NO_CHANGE = CutGroup(1, ("a",), 0, 100, 0, (), frozenset(), 0, late=False, lost_newest=False)


def group(**changes: Any) -> CutGroup:
    """Return a group of rows from 0 to 100 that is cut from 0 on, with nothing open, but for the changes."""
    opened = frozenset(changes.pop("opened", ()))
    return CutGroup(**{**vars(_NO_CHANGE), "opened": opened, **changes})


def closed(low: int, high: int, **other: Any) -> dict[str, Any]:
    """Return a window that has closed; it counts unless ``other`` says that TRUE_FOR drops it."""
    return _window(low, high, closed=True, **other)


def opened(low: int, high: int, **other: Any) -> dict[str, Any]:
    """Return a window that is open as far as it has come."""
    return _window(low, high, closed=False, **other)


def _window(low: int, high: int, **other: Any) -> dict[str, Any]:
    window = {"gid": 1, "low": low, "high": high, "behind": None}
    return {
        **window,
        **dict.fromkeys(("shows", "fires", "counts"), True),
        "opens_with": f"o{low}",
        "closes_with": f"c{low}",
        **other,
    }
