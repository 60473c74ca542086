"""Rows by group, held against a dict of lists, whatever is replaced in whichever order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.engine.base import keyed
from lakestream.engine.base.keyed import Keyed
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.rows import settled

GIDS = st.integers(-4, 4)
ROWS = st.lists(st.tuples(GIDS, st.integers(0, 9)), max_size=12)


def table(rows: list[tuple[int, int]]) -> pa.Table:
    gids, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"gid": pa.array(gids, pa.int64()), "v": pa.array(values, pa.int64())})


def listed(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(rows["gid"].to_pylist(), rows["v"].to_pylist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(
    ROWS,
    st.lists(st.tuples(st.sets(GIDS, min_size=1), ROWS), max_size=6),
    st.sets(GIDS),
    st.sampled_from([0, 3, 99]),
    st.sampled_from([1, 3, 99]),
    st.sampled_from([None, 0, 1, 3]),
)
def test_what_is_replaced_is_found(
    first: list[tuple[int, int]],
    steps: list[tuple[set[int], list[tuple[int, int]]]],
    wanted: set[int],
    most: int,
    batch: int,
    spilled_at: int | None,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "_MOST_APART", most)
        patch.setattr(settled, "_BATCH_ROWS", batch)
        rows, expected = Keyed.of_table(table(first)), list(first)
        for step, (gids, given_rows) in enumerate(steps):
            rows = rows.spilled() if step == spilled_at else rows
            new = [row for row in given_rows if row[0] in gids]
            before = listed(rows.rows)
            after = rows.replaced(table(new), pa.array(sorted(gids), pa.int64()))
            assert listed(rows.rows) == before  # a value
            rows = after
            expected = [row for row in expected if row[0] not in gids] + new
            assert len(rows) == len(expected)
            assert listed(rows.of(pa.array(wanted, pa.int64()))) == Counter(
                r for r in expected if r[0] in wanted
            )
        assert listed(rows.rows) == Counter(expected)
        in_file = rows.spilled()
        assert listed(in_file.rows) == Counter(expected)
        assert in_file.settled.in_file


def test_rows_in_a_file_take_no_memory_and_leave_no_file_behind() -> None:
    rows = Keyed.of_table(table([(gid, gid) for gid in range(100)]))
    in_file = rows.spilled()
    assert (rows.nbytes, in_file.nbytes) == (1600, 0)
    assert in_file.spilled() is in_file
    after = in_file.replaced(table([(7, 1)]), pa.array([7, 8], pa.int64()))
    assert listed(after.of(pa.array([6, 7, 8], pa.int64()))) == Counter([(6, 6), (7, 1)])
    assert after.nbytes == 16
    assert not [*scratch_folder().glob("state-*")]
