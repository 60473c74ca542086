"""Saved states: what is read as of a tick is what was saved, at the cost of what changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakestream.engine.base.state import GroupState
from lakestream.storage.delta import Tables, read_commits
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.states import SavedStates

if TYPE_CHECKING:
    from collections.abc import Iterable

Groups = dict[int, int]


@pytest.fixture
def states(layout: Layout) -> SavedStates:
    return SavedStates(layout, Tables())


def rows(groups: Iterable[tuple[int, int | None]]) -> pa.Table:
    gids, newest = zip(*groups, strict=True)
    return pa.table(
        {
            "gid": pa.array(gids, pa.int64()),
            "_ls_g1": pa.array([f"group {gid}" for gid in gids]),
            "newest": pa.array(newest, pa.int64()),
        }
    )


def save(states: SavedStates, tick: int, state: GroupState) -> tuple[GroupState, bool]:
    """Save as rounds do; return the state after it, and whether its changes were enough."""
    changes = state.changes(tick * 10)
    by_change = changes is not None and states.write_changes("u1", tick, changes)
    if not by_change:
        states.write("u1", tick, state.saved(tick * 10))
    return state.as_saved(tick), by_change


def read(states: SavedStates, upto: int | None = None) -> tuple[int, int, Groups] | None:
    """Return the tick, the source's version and the newest row of each group."""
    found = states.read("u1", upto)
    if found is None:
        return None
    version, state = GroupState.loaded(found[1])
    assert state.rows is not None
    newest = dict(zip(state.rows["gid"].to_pylist(), state.rows["newest"].to_pylist(), strict=True))
    assert len(newest) == len(state)
    return found[0], version, newest


def added_bytes(states: SavedStates) -> int:
    path = states._path("u1")
    version = DeltaTable(path).version()
    return read_commits(path, version - 1, version)[0].add_bytes


def test_a_tick_that_touches_few_groups_saves_these(states: SavedStates) -> None:
    """Of fifty thousand groups, as many bytes as of five thousand."""
    found = []
    for count in (5_000, 50_000):
        state, by_change = save(states, count, GroupState(rows((gid, 1) for gid in range(count))))
        assert not by_change
        whole = added_bytes(states)
        touched = rows((gid * 7, 2) for gid in range(100))
        state, by_change = save(states, count + 1, state.updated(touched))
        assert by_change
        found.append(added_bytes(states))
        assert found[-1] < whole / 5
        expected = {gid: 2 if gid % 7 == 0 and gid < 700 else 1 for gid in range(count)}
        assert read(states) == (count + 1, (count + 1) * 10, expected)
        assert read(states, count) == (count, count * 10, dict.fromkeys(range(count), 1))
    assert found[1] < found[0] * 1.1


def test_changes_go_on_from_the_state_that_was_saved_last(states: SavedStates) -> None:
    first, _ = save(states, 1, GroupState(rows((gid, 1) for gid in range(10))))
    one, other = first.updated(rows([(3, 2)])), first.updated(rows([(4, 2)]))
    assert save(states, 2, one)[1]
    assert not save(states, 3, other)[1], "it does not know of tick 2"
    assert read(states) == (3, 30, {gid: 2 if gid == 4 else 1 for gid in range(10)})
    assert read(states, 2) == (2, 20, {gid: 2 if gid == 3 else 1 for gid in range(10)})
    assert not save(states, 3, other.as_saved(3).updated(rows([(5, 2)])))[1], "the tick is saved already"
    assert not save(states, 4, GroupState(rows([(1, 1)])))[1], "what changed is not known"


def test_what_an_older_lakestream_saved_is_read_and_gone_on_from(states: SavedStates) -> None:
    from deltalake import CommitProperties, Transaction

    path, state = states._path("u1"), GroupState(rows((gid, 1) for gid in range(10)))
    for tick in (4, 5):
        properties = CommitProperties(app_transactions=[Transaction("lakestream:state", tick)])
        saved = state.saved(tick * 10)
        write_deltalake(path, saved, mode="overwrite", schema_mode="overwrite", commit_properties=properties)
    everywhere = dict.fromkeys(range(10), 1)
    assert read(states) == (5, 50, everywhere)
    assert read(states, 4) == (4, 40, everywhere)
    state, by_change = save(states, 6, state.as_saved(5).updated(rows([(3, 2)])))
    assert not by_change, "its columns are others"
    assert save(states, 7, state.updated(rows([(3, 3)])))[1]
    assert read(states) == (7, 70, {**everywhere, 3: 3})
    assert read(states, 5) == (5, 50, everywhere)


@pytest.mark.parametrize("what", ["", "_delta_log"])
def test_a_table_that_is_gone_meanwhile_is_made_anew(states: SavedStates, layout: Layout, what: str) -> None:
    state, _ = save(states, 1, GroupState(rows((gid, 0) for gid in range(5))))
    for tick in (2, 3):
        state, _ = save(states, tick, state.updated(rows([(0, tick)])))
    shutil.rmtree(Path(layout.system_path("state/u1")) / what)
    state, by_change = save(states, 4, state.updated(rows([(1, 4)])))
    assert not by_change
    state, by_change = save(states, 5, state.updated(rows([(2, 5)])))
    assert by_change
    assert read(states) == (5, 50, {0: 3, 1: 4, 2: 5, 3: 0, 4: 0})


def test_a_state_without_groups_is_saved_whole() -> None:
    """That of windows that fire once are the rows that wait."""
    state = GroupState(pa.table({"n": [1, 2]})).as_saved(1)
    assert state.changes(10) is None


CHANGES = st.dictionaries(st.integers(0, 30), st.none() | st.integers(1, 9), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(CHANGES, min_size=1, max_size=8), reopened=st.sets(st.integers(0, 7)))
def test_states_are_read_as_of_each_tick(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Groups], reopened: set[int]
) -> None:
    """Groups come, change and go; now and then by another process, which has read the state."""
    root: Path = tmp_path_factory.mktemp("states")
    states = SavedStates(Layout(str(root)), Tables())
    model: Groups = dict.fromkeys(range(20), 0)
    state, _ = save(states, 1, GroupState(rows(model.items())))
    expected = {1: dict(model)}
    for tick, change in enumerate(changes, 2):
        state, _ = save(states, tick, state.updated(rows(change.items())))
        model = {gid: at for gid, at in {**model, **change}.items() if at is not None}
        expected[tick] = dict(model)
        if tick - 2 in reopened:
            states = SavedStates(Layout(str(root)), Tables())
            found = states.read("u1")
            assert found is not None
            state = GroupState.loaded(found[1])[1].as_saved(found[0])
    for tick, groups in expected.items():
        assert read(states, tick) == (tick, tick * 10, groups)
    assert read(states, 0) is None


def test_many_changes_are_put_together(states: SavedStates) -> None:
    state, _ = save(states, 1, GroupState(rows((gid, 1) for gid in range(2_000))))
    for tick in range(2, 200):
        state, by_change = save(states, tick, state.updated(rows([(tick, tick)])))
        assert by_change
    assert len(DeltaTable(states._path("u1")).file_uris()) < 70
    newest = {gid: gid if 2 <= gid < 200 else 1 for gid in range(2_000)}
    assert read(states) == (199, 1_990, newest)


def test_a_state_is_saved_whole_when_most_rows_count_no_more(states: SavedStates) -> None:
    state, _ = save(states, 1, GroupState(rows((gid, 1) for gid in range(3_000))))
    ways = []
    for tick in range(2, 20):
        state, by_change = save(states, tick, state.updated(rows((gid, tick) for gid in range(1_400))))
        ways.append(by_change)
    assert ways.count(False) == 1
    assert DeltaTable(states._path("u1")).count() < 17_000
