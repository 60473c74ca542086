"""The state of groups: what an update leaves of it, what is saved, and results summed up by group."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakestream.engine.base.state import (
    CLOSED,
    GroupState,
    gids_sql,
    summary_in_steps,
    update_summary_of,
)


def groups(*rows: tuple[int, int | None]) -> pa.Table:
    """Return groups with their newest row."""
    gids, newest = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"gid": pa.array(gids, pa.int64()), "newest": pa.array(newest, pa.int64())})


def opened(*rows: tuple[int, int]) -> pa.Table:
    """Return open windows: group, number."""
    gids, numbers = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"gid": pa.array(gids, pa.int64()), "k": pa.array(numbers, pa.int64())})


def listed(found: pa.Table | None) -> list[tuple[int, ...]] | None:
    return None if found is None else sorted(tuple(row.values()) for row in found.to_pylist())


KNOWN = GroupState(groups((1, 10), (2, 20)), opened((1, 7), (2, 7), (2, 8)))


@pytest.mark.parametrize(
    ("touched", "new", "rows", "windows"),
    [
        # Of a touched group all open windows are replaced, of the others none.
        (groups((2, 25)), opened((2, 9)), [(1, 10), (2, 25)], [(1, 7), (2, 9)]),
        (groups((2, 25)), opened(), [(1, 10), (2, 25)], [(1, 7)]),
        (groups((3, 5)), opened((3, 1)), [(1, 10), (2, 20), (3, 5)], [(1, 7), (2, 7), (2, 8), (3, 1)]),
        # A group without a newest row goes.
        (groups((2, None)), opened(), [(1, 10)], [(1, 7)]),
        # What is open is not known any more.
        (groups((2, 25)), None, [(1, 10), (2, 25)], None),
        (groups(), opened(), [(1, 10), (2, 20)], [(1, 7), (2, 7), (2, 8)]),
        (groups(), None, [(1, 10), (2, 20)], None),
    ],
)
def test_an_update_replaces_what_is_known_of_the_groups_it_touches(
    touched: pa.Table,
    new: pa.Table | None,
    rows: list[tuple[int, ...]],
    windows: list[tuple[int, ...]] | None,
) -> None:
    after = KNOWN.updated(touched, new)
    assert (listed(after.rows), listed(after.opened)) == (rows, windows)
    assert listed(KNOWN.rows) == [(1, 10), (2, 20)]


def test_the_first_groups_bring_their_open_windows() -> None:
    after = GroupState().updated(groups((1, 10)), opened((1, 7)))
    assert (listed(after.rows), listed(after.opened)) == ([(1, 10)], [(1, 7)])


def test_open_windows_of_groups_that_were_not_known_make_none_of_the_others_known() -> None:
    unknown = GroupState(groups((1, 10)))
    assert unknown.updated(groups((2, 20)), opened((2, 7))).opened is None


def test_a_state_in_a_file_is_the_same_state() -> None:
    spilled = KNOWN.spilled()
    assert spilled == KNOWN
    assert (KNOWN.nbytes > 0, spilled.nbytes) == (True, 0)
    after = [state.updated(groups((2, 25)), opened((2, 9))) for state in (KNOWN, spilled, spilled.spilled())]
    assert [listed(state.opened) for state in after] == [[(1, 7), (2, 9)]] * 3
    assert listed(after[1].only([2]).rows) == [(2, 25)]
    assert listed(spilled.rows) == [(1, 10), (2, 20)]
    assert GroupState().spilled() == GroupState()


def test_a_state_that_is_not_by_group_stays_in_memory() -> None:
    state = GroupState(pa.table({"newest": [1]}))
    assert state.spilled() is state


def test_groups_are_left_out_or_picked_with_their_windows() -> None:
    others, one = KNOWN.without([1]), KNOWN.only([1])
    assert (listed(others.rows), listed(others.opened)) == ([(2, 20)], [(2, 7), (2, 8)])
    assert (listed(one.rows), listed(one.opened)) == ([(1, 10)], [(1, 7)])
    assert listed(GroupState(groups((1, 10), (2, 20))).without([1]).rows) == [(2, 20)]
    assert listed(KNOWN.of(pa.array([2, 9]))) == [(2, 20)]
    assert GroupState().of(pa.array([2])) is None
    assert KNOWN.without([]) is KNOWN
    assert KNOWN.only([9]) == KNOWN.without([1, 2]) == GroupState()


def test_groups_and_windows_travel_as_one_table() -> None:
    kinds = pa.schema({"gid": pa.int64(), "k": pa.int64(), "newest": pa.int64(), "n": pa.int64()})
    merged = KNOWN.merged(kinds)
    columns = ("gid", "newest", "k")
    assert sorted(merged.select(columns).to_pylist(), key=str) == sorted(
        [
            {"gid": 1, "newest": 10, "k": None},
            {"gid": 2, "newest": 20, "k": None},
            {"gid": 1, "newest": None, "k": 7},
            {"gid": 2, "newest": None, "k": 7},
            {"gid": 2, "newest": None, "k": 8},
        ],
        key=str,
    )
    nothing_open = opened().append_column("n", pa.array([], pa.int64()))
    for alone in (GroupState(groups((1, 10))), GroupState(groups((1, 10)), nothing_open)):
        rows = alone.merged(kinds)
        assert rows.select(columns).to_pylist() == [{"gid": 1, "newest": 10, "k": None}]
        assert {*rows.schema.names} == {*merged.schema.names}
    assert GroupState().merged(kinds) == kinds.empty_table()


def test_a_saved_state_has_no_end_of_closed_windows_before_it_was_kept() -> None:
    _, state = GroupState.loaded(GroupState(groups((1, 10))).saved(4), keeps_closed=True)
    assert state.rows is not None
    assert state.rows[CLOSED].to_pylist() == [None]


def test_groups_are_listed_for_sql() -> None:
    assert gids_sql([3, -4]) == "3L, -4L"


# --- summed up by group ---

_GROUP = {
    "first": 5,
    "newest": 90,
    "base": 0,
    "base_before": 0,
    "first_before": 5,
    "closed": 8,
    "closed_before": 6,
    "done": 6,
}


def slot(gid: int, name: str, low: int, fresh: int, **flags: bool) -> dict[str, Any]:
    """Return a window of an update's result with how many rows came to it."""
    flags_of = {"_ls_late": flags.get("late", False), "_ls_ignored": flags.get("ignored", False)}
    own = {f"_ls_{key}": value for key, value in _GROUP.items()}
    place = {"_ls_gid": gid, "_ls_g1": name, "_ls_low": low, "_ls_high": low + 10, "_ls_fresh": fresh}
    return {**place, **flags_of, **own}


def test_an_update_is_summed_up_by_group_with_the_span_of_its_late_windows() -> None:
    rows = [
        slot(1, "a", 10, 1, late=True),
        slot(1, "a", 30, 2, late=True),
        slot(1, "a", 80, 4),
        slot(2, "b", 80, 3),
        slot(2, "b", 90, 1, ignored=True),
    ]
    found = update_summary_of(pa.Table.from_pylist(rows), ("_ls_g1",)).sort_by("gid").to_pylist()
    one = {"gid": 1, "_ls_g1": "a", "rows": 7, "late": 3, "refired": 1, "ignored": 0, "low": 10, "high": 40}
    other = {"gid": 2, "_ls_g1": "b", "rows": 4, "late": 0, "refired": 0, "ignored": 1}
    assert found == [{**one, **_GROUP}, {**other, "low": None, "high": None, **_GROUP}]


def test_judged_groups_are_summed_up_with_their_flagged_windows() -> None:
    judged = pa.table({"gid": [1, 2], "rows": [7, 4], "start": [0, 1], "start_before": [0, 2]})
    flagged = pa.Table.from_pylist([slot(1, "a", 10, 1, late=True), slot(1, "a", 30, 2, late=True)])
    found = summary_in_steps(judged, flagged).sort_by("gid")
    wanted = ("gid", "rows", "base", "base_before", "late", "refired", "ignored", "low", "high")
    assert [tuple(row[name] for name in wanted) for row in found.to_pylist()] == [
        (1, 7, 0, 0, 3, 1, 0, 10, 40),
        (2, 4, 1, 2, 0, 0, 0, None, None),
    ]


def test_groups_in_order_have_nothing_late() -> None:
    judged = pa.table({"gid": [1, 2], "rows": [7, 4]})
    found = summary_in_steps(judged, None)
    assert (found["late"].to_pylist(), found["ignored"].to_pylist()) == ([0, 0], [0, 0])
