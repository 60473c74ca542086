"""Rows in order: which are, from where they are cut, and the state behind them. Times are plain numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.state import CLOSED, EXPIRED, GroupState
from lakestream.engine.reading.relations import EVER
from lakestream.engine.windows.family import TickInput
from lakestream.engine.windows.rows.in_order import InOrder, _is_cut_by_time, _last_ends, _Windows
from lakestream.engine.windows.rows.tables import CutTables
from tests.unit.windows.cuts import closed, group, opened
from tests.unit.windows.streams import classic, new, plan, target

if TYPE_CHECKING:
    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Stream

SESSION, STATE, COUNTED = "SESSION(ts, 5s)", "STATE_WINDOW(v)", "COUNT_WINDOW(3)"
FOLLOWS, IGNORES = new(SESSION), new(SESSION, "IGNORE_DISORDER")
KEEPS_CLOSED, KEEPS_EXPIRED = classic(SESSION), new(STATE, "EXPIRED_TIME(1h)")
COUNTS = new(COUNTED)
INTEGER, LISTED = pa.int64(), pa.list_(pa.int64())


def passing(stream: Stream, **known: Any) -> InOrder:
    """Return a tick of a group 1 of which ``known`` is the state; nothing: of a group that is new."""
    state = GroupState()
    if known:
        row = {"gid": 1, "_ls_g1": "a", "resume": None, "counted": 0, "starts": [], "opened": [], **known}
        kinds = {"_ls_g1": pa.string(), "starts": LISTED, "opened": LISTED, EXPIRED: LISTED}
        state = GroupState(pa.table({name: pa.array([row[name]], kinds.get(name, INTEGER)) for name in row}))
    relations = cast("Relations", SimpleNamespace(stream=stream, plan=plan(), spark=None))
    return InOrder(TickInput(relations, target(stream), state, 1_000))


def changes(*instants: int, **other: Any) -> pa.Table:
    """Return rows at some instants that came to group 1, as summed up."""
    low, high = (min(instants), max(instants)) if instants else (None, None)
    row = {"gid": 1, "n": len(instants), "late": 0, "low": low, "low_kept": low, "high": high, **other}
    columns = {name: pa.array([value], INTEGER) for name, value in row.items() if name != EXPIRED}
    listed = pa.array([other.get(EXPIRED, [])], LISTED)
    return pa.table({**columns, "_ls_g1": pa.array(["a"]), EXPIRED: listed})


def judged(stream: Stream, came: pa.Table, **known: Any) -> list[dict[str, Any]] | None:
    found = passing(stream, **known)._classified(came)
    return None if found is None else list(found.to_pylist())


KNOWN = {"first": 10, "newest": 50, "safe": 50}


def test_a_new_group_is_cut_from_its_first_row() -> None:
    late = new(SESSION, "WATERMARK(1s)")
    assert judged(late, changes(2_000_000, 7_000_000)) == [
        {
            "gid": 1,
            "_ls_g1": "a",
            "first": 2_000_000,
            "newest": 7_000_000,
            "safe": EVER[0] - 1,
            "from_us": 2_000_000,
            "mark": 6_000_000,
            "counted": 0,
            "resume": None,
            "known": None,
        }
    ]


@pytest.mark.parametrize(
    ("stream", "kept"), [(FOLLOWS, {}), (KEEPS_CLOSED, {CLOSED: 25}), (KEEPS_EXPIRED, {EXPIRED: [20]})]
)
def test_a_new_group_knows_nothing_of_the_others(stream: Stream, kept: dict[str, Any]) -> None:
    found = judged(stream, changes(60, 70, gid=2), **KNOWN, **kept)
    assert found is not None
    ((row),) = found
    assert (row["first"], row["from_us"], row["safe"], row["resume"]) == (60, 60, EVER[0] - 1, None)
    assert row.get(CLOSED) is None


@pytest.mark.parametrize(
    ("stream", "resume", "from_us"),
    [(FOLLOWS, 30, 30), (FOLLOWS, None, 51), (IGNORES, 30, 30), (COUNTS, 30, 30), (COUNTS, None, 51)],
)
def test_a_known_group_goes_on_from_its_open_window_or_behind_its_mark(
    stream: Stream, resume: int | None, from_us: int
) -> None:
    found = judged(stream, changes(60, 70), **KNOWN, resume=resume, counted=2)
    assert found is not None
    ((row),) = found
    assert (row["from_us"], row["first"], row["newest"], row["safe"]) == (from_us, 10, 70, 50)
    assert (row["resume"], row["counted"]) == (resume, 2)


@pytest.mark.parametrize(
    ("stream", "resume", "row", "in_order"),
    [
        (FOLLOWS, None, 50, False),
        (FOLLOWS, None, 51, True),
        # A row in the open window is late, and may not begin it anew.
        (FOLLOWS, 30, 30, False),
        (FOLLOWS, 30, 31, True),
        # What counts goes on behind its mark: no late row is ever counted.
        (COUNTS, 30, 50, False),
        (COUNTS, 30, 51, True),
    ],
)
def test_rows_are_in_order_that_lie_beyond_what_was_cut(
    stream: Stream, resume: int | None, row: int, in_order: bool
) -> None:
    assert (judged(stream, changes(row, 90), **KNOWN, resume=resume) is not None) is in_order


def test_late_rows_that_count_for_nothing_are_in_nobodys_way() -> None:
    late = changes(20, 90, low=None, late=1)
    found = judged(IGNORES, late, **KNOWN)
    assert found is not None
    assert [row["from_us"] for row in found] == [51]
    assert judged(IGNORES, changes(20, low=None, late=1), **KNOWN) == []


def test_a_group_of_which_no_row_came_is_not_cut() -> None:
    assert judged(FOLLOWS, changes(), **KNOWN) == []


def test_a_late_row_may_be_in_the_open_window_where_others_expire() -> None:
    known = {**KNOWN, CLOSED: 25}
    assert judged(KEEPS_CLOSED, changes(40, 90, low=None, late=1), **known) is None
    found = judged(KEEPS_CLOSED, changes(60, 90, low=None), **known)
    assert found is not None
    assert found[0][CLOSED] == 25


@pytest.mark.parametrize(
    ("before", "came", "in_order"),
    [([], [], True), ([20], [], False), ([], [20], False)],
)
def test_expired_rows_lie_among_those_to_cut(before: list[int], came: list[int], in_order: bool) -> None:
    found = judged(KEEPS_EXPIRED, changes(60, **{EXPIRED: came}), **KNOWN, **{EXPIRED: before})
    assert (found is not None) is in_order


@pytest.mark.parametrize(
    ("stream", "kept", "other"),
    [
        (FOLLOWS, {}, changes(40)),
        (KEEPS_CLOSED, {CLOSED: 25}, changes(60, low=None, late=1)),
        (KEEPS_EXPIRED, {EXPIRED: []}, changes(60, **{EXPIRED: [20]})),
    ],
)
def test_a_tick_is_in_order_where_all_its_groups_are(
    stream: Stream, kept: dict[str, Any], other: pa.Table
) -> None:
    in_order = changes(60, gid=2, low=None if kept else 60)
    assert judged(stream, in_order, **KNOWN, **kept) is not None
    assert judged(stream, pa.concat_tables([in_order, other]), **KNOWN, **kept) is None


# --- what the cut gave ---


def windows(*rows: tuple[int, int, int], **flags: Any) -> pa.Table:
    """Return windows (group, low, high) as the query gives them."""
    gids, lows, highs = zip(*rows, strict=True)
    count = len(rows)
    columns = {"is_window": True, "tied": False, "closed": True, "lasts": True, "counted": 0, "is_row": True}
    found = {f"_ls_{name}": [flags.get(name, value)] * count for name, value in columns.items()}
    return pa.table({"_ls_gid": gids, "_ls_low": lows, "_ls_high": highs, **found})


@pytest.mark.parametrize(
    ("found", "by_time"),
    [
        (windows((1, 0, 10), (1, 10, 20), (2, 5, 15)), True),
        (windows((1, 10, 20), (1, 0, 11)), False),
        (windows((1, 0, 10), (1, 10, 20), tied=True), True),
        (pa.concat_tables([windows((1, 0, 10)), windows((1, 12, 13), is_window=False)]), True),
        (pa.concat_tables([windows((1, 0, 10)), windows((1, 12, 13), is_window=False, tied=True)]), False),
        (windows((1, 0, 10)).slice(0, 0), True),
    ],
)
def test_times_tell_windows_apart_unless_rows_of_one_time_are_in_two_or_in_none(
    found: pa.Table, by_time: bool
) -> None:
    assert _is_cut_by_time(found) is by_time


def after(stream: Stream, over: pa.Table, going_on: pa.Table, **known: Any) -> dict[str, Any]:
    """Return the state behind a tick of rows at 60 and 70 that gave closed and open windows."""
    tick = passing(stream, **known)
    groups = tick._classified(changes(60, 70))
    (row,) = tick._next(groups, _Windows(None, 0, going_on, _last_ends(over))).to_pylist()
    assert isinstance(row, dict)
    return row


NONE = windows((1, 0, 0)).slice(0, 0)


def test_a_group_goes_on_from_the_window_that_is_open() -> None:
    assert after(FOLLOWS, windows((1, 30, 51)), windows((1, 60, 71)), **KNOWN) == {
        "gid": 1,
        "_ls_g1": "a",
        "first": 10,
        "newest": 70,
        "safe": 70,
        "resume": 60,
        "counted": 0,
        "starts": [],
        "opened": [60],
    }


def test_nothing_is_open_behind_a_window_that_its_last_row_has_closed() -> None:
    found = after(COUNTS, windows((1, 30, 71)), NONE, **KNOWN, resume=30, counted=2)
    assert (found["resume"], found["counted"], found["starts"], found["opened"]) == (None, 0, [], [])


def test_a_window_that_is_too_short_yet_is_open_and_has_no_event() -> None:
    found = after(new("STATE_WINDOW(v) TRUE_FOR(5s)"), NONE, windows((1, 60, 71), lasts=False), **KNOWN)
    assert (found["resume"], found["opened"]) == (60, [])


def test_rows_are_counted_from_the_start_of_the_open_window() -> None:
    found = after(COUNTS, windows((1, 30, 61)), windows((1, 70, 71), counted=5), **KNOWN)
    assert (found["counted"], found["starts"], found["opened"]) == (2, [70], [70])


@pytest.mark.parametrize(("over", "end"), [(windows((1, 30, 41), (1, 45, 51)), 51), (NONE, 25)])
def test_the_end_of_the_last_closed_window_is_kept(over: pa.Table, end: int) -> None:
    assert after(KEEPS_CLOSED, over, NONE, **KNOWN, **{CLOSED: 25})[CLOSED] == end


def test_no_expired_row_is_left() -> None:
    assert after(KEEPS_EXPIRED, NONE, NONE, **KNOWN, **{EXPIRED: []})[EXPIRED] == []


@pytest.mark.parametrize(
    ("stream", "known", "over", "going_on"),
    [
        (FOLLOWS, {}, [(20, 31)], (60, 71, 0)),
        (FOLLOWS, {**KNOWN, "resume": 30}, [(30, 51)], None),
        (COUNTS, {**KNOWN, "resume": 30, "counted": 2}, [(30, 61)], (70, 71, 1)),
        (KEEPS_CLOSED, {**KNOWN, CLOSED: 25}, [(30, 41), (45, 51)], (60, 71, 0)),
        (KEEPS_CLOSED, {**KNOWN, CLOSED: 25}, [], (60, 71, 0)),
        (KEEPS_EXPIRED, {**KNOWN, EXPIRED: []}, [(30, 41)], (60, 71, 0)),
    ],
)
def test_the_state_is_that_of_a_cut_step_by_step(
    stream: Stream,
    known: dict[str, Any],
    over: list[tuple[int, int]],
    going_on: tuple[int, int, int] | None,
) -> None:
    cut: list[dict[str, Any]] = [closed(*window) for window in over]
    open_now = NONE
    if going_on is not None:
        low, high, counted = going_on
        cut.append(opened(low, high, behind=counted))
        open_now = windows((1, low, high), counted=counted)
    ends = windows(*((1, *window) for window in over)) if over else NONE
    of = group(first=known.get("first", 60), newest=70, closed=known.get(CLOSED))
    schema = pa.schema({"_ls_g1": pa.string()})
    by_steps = CutTables(stream, schema, 5).result([], [], states=[(of, cut)]).groups
    assert after(stream, ends, open_now, **known) == by_steps.to_pylist()[0]


def test_closed_windows_fire_that_last_and_give_rows_that_have_a_key() -> None:
    tick = passing(FOLLOWS)
    groups = tick._classified(changes(60, 70))
    found = pa.concat_tables(
        [
            windows((1, 0, 10)),
            windows((1, 20, 21), lasts=False),
            windows((1, 30, 40), is_row=False),
            windows((1, 50, 60), closed=False),
        ]
    )
    shape = tick.given.target.shape
    for name in shape.names:
        found = found.append_column(name, found["_ls_low"])
    passed = tick._here(found)
    assert passed is not None
    assert passed.count == 2
    assert passed.due is not None
    assert passed.due.to_arrow().column_names == [*shape.names]
    assert passed.due.to_arrow()["ws"].to_pylist() == [0]
    assert tick._next(groups, passed)["resume"].to_pylist() == [50]
