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


def spans_of(summary: pa.Table) -> Spans:
    """Return the spans of event time (µs) of groups from low to high, where they have any."""
    low, high = summary["low"].to_pylist(), summary["high"].to_pylist()
    return merge_spans([(a, b) for a, b in zip(low, high, strict=True) if a is not None and b is not None])
