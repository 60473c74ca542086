"""What partial aggregates gave: windows with their results, here as Arrow or, if too many, in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.reading.transport import merge_spans
from lakestream.engine.windows.totals import spans_of, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lakestream.engine.base.rows import Rows

LASTING = "_ls_open OR coalesce(_ls_ignored, false)"
"""What makes a window more than one that had fired before and is late: what is in it is looked at."""


@dataclass(frozen=True)
class Updated:
    """The output rows of the ``count`` windows that fire for the first time, in parts, and what else is.

    ``kept`` is what the state keeps of open windows; ``flagged`` are the windows (slots) that go on or had
    fired before, with what their groups say (None: none had fired); ``groups`` are those with changes (gid,
    group columns, first, newest), ``late`` those that have windows to compute again, or earlier ones to open.
    So many ``rows`` came, ``late_rows`` of them late; ``ignored`` counts those that are to be judged one by
    one. ``fired`` are all columns of the results (None: they are in Spark, or in parts).
    """

    due: Sequence[Rows]
    count: int
    kept: pa.Table
    flagged: pa.Table | None
    groups: pa.Table
    late: pa.Table
    rows: int = 0
    late_rows: int = 0
    ignored: int = 0
    fired: pa.Table | None = None


def updated_of(
    due: Sequence[Rows],
    count: int,
    kept: pa.Table,
    flagged: pa.Table | None,
    summary: pa.Table,
    names: Sequence[str],
    *,
    fired: pa.Table | None = None,
) -> Updated:
    """Return what an update gave, with what its summary by group says; ``names`` are its group columns."""
    return Updated(
        due,
        count,
        kept,
        flagged,
        # Copied: columns that Spark sends lie in one piece with all others of their batch.
        summary.select(["gid", *names, "first", "newest"]).combine_chunks(),
        summary.schema.empty_table() if flagged is None else _late(summary),
        total(summary, "rows"),
        total(summary, "late"),
        total(summary, "ignored"),
        fired,
    )


def together(parts: Sequence[Updated]) -> Updated:
    """Return what parts of the groups gave as one; there is one part at least."""
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    flagged = [part.flagged for part in parts if part.flagged is not None]
    late = [part.late for part in parts if part.late.num_rows]
    return Updated(
        [rows for part in parts for rows in part.due],
        sum(part.count for part in parts),
        pa.concat_tables([part.kept for part in parts], promote_options="default"),
        pa.concat_tables(flagged, promote_options="default") if flagged else None,
        pa.concat_tables([part.groups for part in parts], promote_options="default"),
        pa.concat_tables(late, promote_options="default") if late else parts[0].late,
        sum(part.rows for part in parts),
        sum(part.late_rows for part in parts),
        sum(part.ignored for part in parts),
    )


def _late(summary: pa.Table) -> pa.Table:
    """Return the groups of a summary that have windows to compute again, or earlier ones to open."""
    import pyarrow.compute as pc

    opened = pc.less(summary["base"], pc.min_element_wise(summary["base_before"], summary["closed_before"]))
    return summary.filter(pc.or_(pc.equal(summary["refired"], 1), pc.fill_null(opened, fill_value=False)))


def is_flagged(rows: pa.Table) -> pa.ChunkedArray:
    """Return which windows are more than a result: they go on, or had fired before."""
    import pyarrow.compute as pc

    return pc.or_(pc.or_(rows["_ls_open"], rows["_ls_late"]), rows["_ls_ignored"])


def picked(windows: pa.Table, flag: str, columns: Mapping[str, str]) -> pa.Table:
    """Return the windows with a flag, with columns under other names."""
    rows = windows.filter(windows[flag])
    return rows.select(list(columns)).rename_columns(list(columns.values()))


def with_groups(windows: pa.Table, groups: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Return windows with what their judged groups say, under other names."""
    import pyarrow.compute as pc

    found = pc.index_in(windows["_ls_gid"], value_set=groups["gid"].combine_chunks())
    for name, column in columns.items():
        windows = windows.append_column(column, groups[name].take(found))
    return windows


def are_in_order(groups: pa.Table) -> bool:
    """Return whether no row of the judged groups falls into a window that had fired."""
    import pyarrow.compute as pc

    return bool(pc.all(groups["in_order"]).as_py())


def windows_passed(groups: pa.Table) -> pa.ChunkedArray:
    """Return how many windows of each group pass, also without rows: very many by a row far ahead."""
    import pyarrow.compute as pc

    return pc.max_element_wise(pc.subtract(groups["closed"], groups["done"]), 0)


def windows_opened(groups: pa.Table, start: str) -> pa.ChunkedArray:
    """Return how many windows of each group lie before the first one that it had: what an early row opens.

    ``start`` names the column with the last window that ended before the group's first row.
    """
    import pyarrow.compute as pc

    last = pc.min_element_wise(groups[f"{start}_before"], groups["closed_before"])
    return pc.max_element_wise(pc.subtract(last, groups[start]), 0)


def most_windows(groups: pa.Table, step_us: int, overlap: int) -> int:
    """Return how many windows the changed rows of judged groups are in at most."""
    import pyarrow.compute as pc

    spread = pc.divide(pc.subtract(groups["highest"], groups["lowest"]), step_us)
    own = pc.multiply(groups["rows"], overlap)
    windows = pc.min_element_wise(pc.add(spread, overlap + 1), own)
    return int(pc.sum(windows).as_py() or 0)


def late_spans(late: pa.Table) -> list[tuple[int, int]]:
    """Return the spans of event time of late windows, and from an earlier first row to the one before."""
    import pyarrow.compute as pc

    earlier = late.filter(pc.less(late["first"], late["first_before"]))
    own, before = spans_of(late["low"], late["high"]), spans_of(earlier["first"], earlier["first_before"])
    return merge_spans([*own, *before])
