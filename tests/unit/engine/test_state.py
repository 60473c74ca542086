"""What is saved of a stream's state, and what comes back of it."""

from __future__ import annotations

import pyarrow as pa

from lakestream.engine.base.state import EXPIRED, GroupState

SAVED = pa.table({"gid": [7, 8], "newest": [1, 2], "version": [5, 5]})


def test_a_state_comes_back_with_its_version() -> None:
    version, state = GroupState.loaded(SAVED)
    assert version == 5
    assert state.rows is not None
    assert state.rows.to_pydict() == {"gid": [7, 8], "newest": [1, 2]}


def test_a_state_that_was_saved_without_expired_rows_has_none() -> None:
    _, state = GroupState.loaded(SAVED, keeps_expired=True)
    assert state.rows is not None
    assert state.rows[EXPIRED].to_pylist() == [[], []]
    saved = state.saved(6)
    _, again = GroupState.loaded(saved, keeps_expired=True)
    assert again.rows is not None
    assert again.rows.equals(state.rows)


def test_a_state_says_which_groups_its_last_update_touched() -> None:
    state = GroupState(pa.table({"gid": [1, 2, 3], "newest": [5, 5, 5]}))
    after = state.updated(pa.table({"gid": [2, 3, 4], "newest": pa.array([6, None, 7], pa.int64())}))
    assert after.touched is not None
    assert after.touched.to_pylist() == [2, 3, 4]
    rows = after.of(after.touched)
    assert rows is not None
    assert rows.to_pydict() == {"gid": [2, 4], "newest": [6, 7]}
    assert after.updated(pa.table({"gid": [], "newest": []})).touched is None
