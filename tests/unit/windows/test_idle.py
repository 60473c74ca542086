"""Groups that fall idle: what a tick does with its rows and its clock, over values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.base.state import GroupState
from lakestream.engine.ticks.stages import stages
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Due, Standing
from lakestream.engine.windows.idle.silences import Silences
from tests.unit.windows.streams import SECOND, plan, stream, target

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

TIMEOUT = 10
Groups = dict[int, tuple[int, int | None]]
"""Of each group the seconds when it was heard of and is due to be idle."""


def idle(options: str = "EVENT_TYPE(IDLE | RESUME)", trigger: str = "STATE_WINDOW(v)") -> Stream:
    """Return a stream of groups that are idle after ten seconds."""
    text = "SELECT CAST(_tidleend / 1000000 AS TIMESTAMP) AS ws, _tidlestart AS n"
    listed = f"STREAM_OPTIONS(IDLE_TIMEOUT({TIMEOUT}s) | {options})"
    return stream(f"CREATE STREAM s {trigger} FROM m PARTITION BY tbname {listed} INTO o AS {text}")


def state(groups: Groups) -> GroupState:
    """Return a state of groups; none is as before the first row."""
    if not groups:
        return GroupState()
    seconds = [(heard * SECOND, None if due is None else due * SECOND) for heard, due in groups.values()]
    rows = written(*groups).drop_columns(["rows"])
    rows = rows.append_column("heard", pa.array([heard for heard, _ in seconds], pa.int64()))
    return GroupState(rows.append_column("due", pa.array([due for _, due in seconds], pa.int64())))


def written(*gids: int) -> pa.Table:
    """Return that rows of groups came."""
    numbers = {name: pa.array([0] * len(gids), pa.int64()) for name in ("first", "newest", "rows")}
    names = pa.array([f"t{gid}" for gid in gids], pa.string())
    return pa.table({"gid": pa.array(gids, pa.int64()), "_ls_g1": names, **numbers})


def shown(groups: pa.Table | None) -> Groups:
    """Return groups as :func:`state` takes them."""
    rows = [] if groups is None else groups.select(["gid", "heard", "due"]).to_pylist()
    return {
        row["gid"]: (row["heard"] // SECOND, None if row["due"] is None else row["due"] // SECOND)
        for row in rows
    }


def told(events: pa.Table) -> list[tuple[Any, ...]]:
    """Return events: group, kind, and the seconds from when to when."""
    assert events.column_names == ["gid", "_ls_g1", "low", "high", "kind"]
    return [(e["gid"], e["kind"], e["low"] // SECOND, e["high"] // SECOND) for e in events.to_pylist()]


ACTIVE, IDLE = (5, 15), (5, None)


@pytest.mark.parametrize(
    ("before", "came", "now", "after", "events"),
    [
        ({}, [1, 2], 7, {1: (7, 17), 2: (7, 17)}, []),
        ({1: ACTIVE, 2: ACTIVE}, [2], 7, {1: ACTIVE, 2: (7, 17)}, []),
        # Rows that have come by now count, whatever is due.
        ({1: ACTIVE}, [1], 90, {1: (90, 100)}, []),
        ({1: IDLE, 2: IDLE}, [2, 3], 30, {1: IDLE, 2: (30, 40), 3: (30, 40)}, [(2, "RESUME", 5, 30)]),
        # The clock was set back: time stands still for a group.
        ({1: ACTIVE, 2: IDLE}, [1, 2], 3, {1: (5, 15), 2: (15, 25)}, [(2, "RESUME", 5, 15)]),
        ({1: ACTIVE}, [], 90, {1: ACTIVE}, []),
    ],
)
def test_rows_are_heard_of_and_end_silences(
    before: Groups, came: list[int], now: int, after: Groups, events: list[Any]
) -> None:
    known = state(before)
    changed = Silences(TIMEOUT * SECOND, now * SECOND).heard(known, written(*came))
    assert shown(known.updated(changed.groups).rows) == after
    assert told(changed.events) == events


@pytest.mark.parametrize(
    ("before", "now", "fallen"),
    [
        ({}, 90, None),
        ({1: IDLE}, 90, None),
        ({1: ACTIVE, 2: (6, 16)}, 14, None),
        ({1: ACTIVE, 2: (6, 16), 3: IDLE}, 15, [(1, "IDLE", 5, 15)]),
        # However late it is looked for, a silence is one when the timeout is over.
        ({1: ACTIVE, 2: (6, 16)}, 90, [(1, "IDLE", 5, 15), (2, "IDLE", 6, 16)]),
    ],
)
def test_groups_fall_idle_when_their_timeout_is_over(before: Groups, now: int, fallen: Any) -> None:
    known = state(before)
    changed = Silences(TIMEOUT * SECOND, now * SECOND).fallen(known)
    assert (None if changed is None else told(changed.events)) == fallen
    if changed is not None:
        gids = [gid for gid, *_ in fallen]
        after = shown(known.updated(changed.groups).rows)
        assert after == {gid: (one[0], None) if gid in gids else one for gid, one in before.items()}


@pytest.mark.parametrize(
    ("groups", "now", "due", "following"),
    [
        ({}, 90, False, None),
        ({1: IDLE}, 90, False, None),
        ({1: (8, 18), 2: ACTIVE, 3: IDLE}, 14, False, 15),
        ({1: (8, 18), 2: ACTIVE, 3: IDLE}, 15, True, 15),
    ],
)
def test_the_next_group_that_falls_idle_is_due(
    groups: Groups, now: int, due: bool, following: int | None
) -> None:
    family, stands = family_of(idle()), Standing(state(groups), 3 * SECOND, None)
    assert family.due(stands, now * SECOND) == (
        Due("clock", closed=(3 * SECOND, now * SECOND)) if due else None
    )
    assert family.next_due(stands, 0) == (None if following is None else following * SECOND)
    assert family.saves_each_tick(stands)


def test_the_stages_of_ticks_are_said() -> None:
    of, rule = idle(), "IDLE_TIMEOUT(10s) by tbname, by the time of arrival"
    fallen = "IDLE of those that were heard of 10s ago"
    heard = (
        "hear",
        f"{rule}: RESUME of idle groups of which rows come; where that is all there is, {fallen}",
    )
    replace = ("write", "replace rows of equal key in db.o, one commit")
    changes = [(one.title, str(one)) for one in stages(of, target(of), plan())]
    assert changes == [
        ("read changes", "changes of (4, 5] of db.m: ts, v, tbname"),
        heard,
        ("compute", "lateral"),
        replace,
    ]
    clock = [(one.title, str(one)) for one in stages(of, target(of), plan("clock", closed=(0, 9)))]
    assert clock == [("hear", f"{rule}: {fallen}"), ("compute", "lateral"), replace]
