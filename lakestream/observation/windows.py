"""The windows that an output's rows are of, and which of them fired again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.base.names import visible_columns
from lakestream.errors import StreamError
from lakestream.output.columns import provenance_of
from lakestream.storage.rows.changes import CHANGE_TYPE, changes_arrow_or_none
from lakestream.storage.tables.log import read_commits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lakestream.output.columns import Provenance
    from lakestream.storage.delta import Table
    from lakestream.storage.names.table_info import TableInfo

_LAST_COMMITS = 20
"""How many commits of an output are looked at for windows that fired again."""


def with_windows(table: Table, info: TableInfo, rows: pa.Table, most_bytes: int) -> pa.Table:
    """Return rows of a table with the window of each in a column behind those that are shown.

    It is a struct of ``start``, ``end`` and ``again``: whether the window fired again in one of the last
    commits, as far as these have ``most_bytes`` together. NULL where the table does not tell windows.
    """
    shown = rows.select(list(visible_columns(info)))
    places = provenance_of([column.name for column in info.columns], info.hidden)
    if places is None:
        return without_windows(shown)
    again = _fired_again(table, info, places, most_bytes)
    windows = [
        {"start": start, "end": end, "again": (group, start) in again}
        for group, start, end in places.extents(rows)
    ]
    return _appended(shown, windows)


def without_windows(rows: pa.Table) -> pa.Table:
    """Return rows with that column, of which no window is known."""
    return _appended(rows, [None] * rows.num_rows)


def _appended(rows: pa.Table, windows: Sequence[Mapping[str, int | bool] | None]) -> pa.Table:
    import pyarrow as pa

    time = pa.timestamp("us", "UTC")
    kind = pa.struct([("start", time), ("end", time), ("again", pa.bool_())])
    return rows.append_column("window", pa.array(windows, kind))


def _fired_again(table: Table, info: TableInfo, places: Provenance, most_bytes: int) -> set[tuple[int, int]]:
    """Return the windows (group, start in µs) of which one of the last commits took rows away."""
    import pyarrow as pa
    import pyarrow.compute as pc

    after = max(0, table.version - _LAST_COMMITS)
    size = 0
    for commit in reversed(read_commits(table.path, after, table.version)):
        size += commit.add_bytes
        if size > most_bytes:
            after = commit.version
            break
    try:
        changes = changes_arrow_or_none(table, after, table.version, list(info.hidden))
    except StreamError:  # the feed does not reach back so far, or is off: then nothing is known of it
        return set()
    if changes is None:
        return set()
    taken = pc.is_in(changes[CHANGE_TYPE], value_set=pa.array(["delete", "update_preimage"]))
    return {(gid, low) for gid, low, _ in places.extents(changes.filter(taken))}
