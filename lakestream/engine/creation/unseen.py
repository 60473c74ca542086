"""Rows of the trigger table that a query reads by its name, beside those that the trigger sees in the window.

A change of them triggers nothing by itself. Where windows follow from time alone it is followed as one of any
other table is; elsewhere an ``EXACT`` stream that reads such rows is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.windows.reach import GROUPS, paths_of
from lakestream.engine.base.names import TBNAME
from lakestream.engine.streams.stream import opens_once
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.said import named
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.source import place_of

if TYPE_CHECKING:
    from lakestream.compute.windows.reach import Path
    from lakestream.engine.streams.stream import Stream


def refuse_unseen(stream: Stream) -> None:
    """Refuse EXACT where changes of rows that the query reads could not reach the result.

    What is computed as windows open (EVENT_TYPE(WINDOW_OPEN)) sees none of its window.
    Raises StatementError UNBOUNDED_READ, NOT_SUPPORTED.
    """
    if not stream.exact or not _reads_unseen(stream):
        return
    table, place = named(stream.source.info), place_of(stream.definition.calculation)
    if opens_once(stream):
        raise NotSupportedError(
            f"EXACT with a query that reads rows of {table} as windows open where rows cut these, or "
            "MAX_DELAY computes them too",
            hint="EVENT_TYPE(WINDOW_CLOSE) and %%trows in its place, INTERVAL without MAX_DELAY, or no EXACT",
            place=place,
        )
    if family_of(stream).follows_tables:
        instead = "" if stream.emission.at_open else "read %%trows, "
        raise StatementError(
            "UNBOUNDED_READ",
            f"neither a key nor a time leads from a change of {table} to windows",
            hint=f"{instead}bound its time by the window, or say how far back a change counts: "
            "EXACT(ALL, WITHIN 30d)",
            place=place,
        )
    raise NotSupportedError(
        f"EXACT with windows that rows cut and a query that reads rows of {table} beside those of its window",
        hint="read %%trows in its place",
        place=place,
    )


def _reads_unseen(stream: Stream) -> bool:
    calculation, followed = stream.calculation, {path.read.view for path in stream.followed}
    unseen = {
        read.view
        for read in calculation.reads
        if read.relation.key == calculation.scope.source.key and read.relation.version is None
    } - (set() if opens_once(stream) else followed)
    return bool(unseen) and any(
        path.read.view in unseen and not _is_of_window(stream, path) for path in paths_of(calculation)
    )


def _is_of_window(stream: Stream, path: Path) -> bool:
    """Return whether the rows on a path are among those that the trigger sees in the window."""
    of_all = not (stream.condition or stream.checks or stream.source.subtable)
    if stream.emission.at_open or not of_all or not path.leads:
        return False
    lower, upper = path.read.lower, path.read.upper
    if lower is None or upper is None or (lower.placeholder, upper.placeholder) != ("_twstart", "_twend"):
        return False
    return _is_of_group(stream, path) and lower.offset >= 0 and upper.offset <= 0


def _is_of_group(stream: Stream, path: Path) -> bool:
    """Return whether the rows on a path are of the window's group; a table's tags are those of its name."""
    said = {one.sql for one in path.conditions if one.by_group}
    own = zip(stream.groups, stream.group_columns, strict=True)
    others = {group.strip("`") for group, name in own if f"`n0`.{group} = {GROUPS}.{name}" not in said}
    by_table = TBNAME in {group.strip("`") for group in stream.groups} - others
    tags = {column.name for column in stream.source.info.tags} if by_table else set()
    return others <= tags
