"""What a tick takes: the pure parts of planning, and of what its rows replace."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream.engine.base.state import GroupState, summary_of
from lakestream.engine.planning.planner import Limits, _admitted
from lakestream.engine.reading.transport import MAX_SPANS, Size, merge_spans
from lakestream.storage.tables.log import CommitInfo

LIMITS = Limits(commits=3, rows=100, bytes=1_000, small=Size(10, 10), transport="auto")
SPANS = st.lists(
    st.tuples(st.integers(0, 1_000), st.integers(1, 50)).map(lambda s: (s[0], s[0] + s[1])), min_size=1
)


def commit(version: int, rows: int | None = 1, size: int = 1) -> CommitInfo:
    return CommitInfo(
        version=version,
        adds=1,
        removes=0,
        cdc_files=0,
        add_rows=rows,
        add_bytes=size,
        data_change=True,
        append_only=True,
        schema_changed=False,
        schema_json=None,
        change_feed=None,
        metadata_id=None,
        operation="WRITE",
        user_metadata=None,
        timestamp_ms=0,
        transactions=(),
        files=(),
        removed=(),
        written=(),
    )


@pytest.mark.parametrize(
    ("commits", "taken"),
    [
        ([commit(1), commit(2)], 2),
        ([commit(v) for v in range(1, 9)], 3),
        ([commit(1, rows=60), commit(2, rows=60), commit(3)], 1),
        ([commit(1, rows=5_000), commit(2)], 1),
        ([commit(1, size=600), commit(2, size=600)], 1),
        ([commit(1, rows=None), commit(2, rows=None)], 2),
    ],
)
def test_a_tick_takes_what_its_limits_admit_and_one_commit_at_least(
    commits: list[CommitInfo], taken: int
) -> None:
    assert len(_admitted(commits, LIMITS)) == taken


@given(SPANS)
def test_merged_spans_cover_all_and_are_few_and_apart(spans: list[tuple[int, int]]) -> None:
    merged = merge_spans(spans)
    assert len(merged) <= MAX_SPANS
    assert all(any(low <= a and b <= high for low, high in merged) for a, b in spans)
    assert all(first[1] < second[0] for first, second in pairwise(merged))


def test_many_spans_part_at_the_widest_gaps() -> None:
    starts = [at * 10 for at in range(500_000)]
    spans = [(start, start + 1 + at % 2) for at, start in enumerate(starts) if at % 50_000]
    merged = merge_spans(spans)
    assert len(merged) == MAX_SPANS
    assert {second[0] - first[1] for first, second in pairwise(merged)} >= {18}


def test_state_replaces_the_touched_groups_only() -> None:
    state = GroupState(pa.table({"gid": [1, 2], "first": [10, 20], "newest": [11, 21]}))
    updated = state.updated(pa.table({"gid": [2, 3], "first": [20, 30], "newest": [25, 35]}))
    assert updated.rows is not None
    assert sorted(updated.rows.to_pylist(), key=lambda row: row["gid"]) == [
        {"gid": 1, "first": 10, "newest": 11},
        {"gid": 2, "first": 20, "newest": 25},
        {"gid": 3, "first": 30, "newest": 35},
    ]
    assert len(state) == 2


def test_a_checkpoint_keeps_the_version_that_the_state_stands_for() -> None:
    state = GroupState(pa.table({"gid": [1], "first": [10], "newest": [11]}))
    version, loaded = GroupState.loaded(state.saved(7))
    assert version == 7
    assert loaded.rows == state.rows


def test_a_detection_is_summed_up_by_group() -> None:
    ranges = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    fired = pa.table(
        {
            "gid": [1, 1, 2],
            "_ls_g1": ["a", "a", None],
            "v": [5, 6, 6],
            "first": [10, 8, 50],
            "newest": [20, 40, 60],
            "fires": pa.array([[], [{"a": 1, "b": 2}], []], ranges),
            "refired": pa.array([[], [{"a": 0, "b": 0}], []], ranges),
            "retracted": pa.array([[], [], [{"a": 4, "b": 5}]], ranges),
            "rows": [1, 2, 3],
            "late": [0, 1, 0],
            "windows": [0, 3, 0],
            "low": pa.array([None, 0, None], pa.int64()),
            "high": pa.array([None, 30, None], pa.int64()),
        }
    )
    columns = (
        "gid",
        "_ls_g1",
        "first",
        "newest",
        "rows",
        "late",
        "windows",
        "refired",
        "retracted",
        "low",
        "high",
    )
    assert sorted(summary_of(fired, ("_ls_g1",)).to_pylist(), key=lambda row: row["gid"]) == [
        dict(zip(columns, (1, "a", 8, 40, 3, 1, 3, 1, 0, 0, 30), strict=True)),
        dict(zip(columns, (2, None, 50, 60, 3, 0, 0, 0, 1, None, None), strict=True)),
    ]
