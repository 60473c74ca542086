"""Sums over what a tick found by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.reading.transport import merge_spans

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.reading.relations import Spans


def total(summary: pa.Table, name: str) -> int:
    """Return the sum of a column over all groups."""
    import pyarrow.compute as pc

    return int(pc.sum(summary[name]).as_py() or 0)


def least(values: pa.ChunkedArray) -> int | None:
    """Return the least of some numbers; None for none."""
    import pyarrow.compute as pc

    found: int | None = pc.min(values).as_py()
    return found


def spans_of(low: pa.ChunkedArray, high: pa.ChunkedArray) -> Spans:
    """Return the spans ``[low, high)`` of event time (µs) of groups, of each where it has any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pairs = pa.table({"low": low, "high": high}).drop_null()
    pairs = pairs.filter(pc.less(pairs["low"], pairs["high"])).sort_by("low")
    if not pairs.num_rows:
        return []
    # What overlaps is put together first: there may be a million of them.
    ends = pc.cumulative_max(pairs["high"])
    apart = pc.greater(pairs["low"].slice(1), ends.slice(0, len(ends) - 1)).combine_chunks()
    first = pa.concat_arrays([pa.array([True]), apart])
    last = pa.concat_arrays([apart, pa.array([True])])
    lows, highs = pairs["low"].filter(first), ends.filter(last)
    return merge_spans([*zip(lows.to_pylist(), highs.to_pylist(), strict=True)])
