"""What a cut gives, as tables: windows that fire and go, events, and the groups' next state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.base.state import CLOSED, EXPIRED
from lakestream.engine.windows.rows.cutting import _opening
from lakestream.engine.windows.rows.groups import Happening
from lakestream.engine.windows.rows.tables import CutTables
from tests.unit.windows.cuts import closed, group, opened
from tests.unit.windows.streams import classic, new

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.rows.groups import CutGroup
    from lakestream.engine.windows.rows.tables import CutResult

SESSION, STATE = "SESSION(ts, 5s)", "STATE_WINDOW(v)"
CLOSING = new(SESSION)
OPENING = new(SESSION, "EVENT_TYPE(WINDOW_OPEN)")
BOTH = new(SESSION, "EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)")
OTHER = group(gid=2, names=(None,))
VERSION = 8


def tables(stream: Stream) -> CutTables:
    return CutTables(stream, pa.schema({"gid": pa.int64(), "_ls_g1": pa.string()}), VERSION)


def next_state(stream: Stream, cut: list[dict[str, Any]], **of: Any) -> dict[str, Any]:
    found = tables(stream).result([], [], states=[(group(**of), cut)])
    (row,) = found.groups.to_pylist()
    assert isinstance(row, dict)
    return row


# --- what fires, goes, is emitted ---


def test_windows_that_fire_are_listed_with_their_group_and_version() -> None:
    found = tables(CLOSING).result([(group(), (0, 10)), (OTHER, (20, 30))], [(1, 40)], rows=5, late=2)
    assert found.fired.to_pylist() == [
        {"gid": 1, "_ls_g1": "a", "k": 0, "c": VERSION, "low": 0, "high": 10, "opening": False},
        {"gid": 2, "_ls_g1": None, "k": 20, "c": VERSION, "low": 20, "high": 30, "opening": False},
    ]
    assert found.retracted.to_pylist() == [{"gid": 1, "low": 40}]
    assert (found.rows, found.late) == (5, 2)


def test_spans_cover_what_fires_once() -> None:
    fired = [(group(), (20, 30)), (OTHER, (20, 30)), (OTHER, (25, 40)), (group(), (0, 10))]
    assert tables(CLOSING).result(fired, []).spans == [(0, 10), (20, 40)]


def test_nothing_gives_tables_without_rows_of_the_same_columns() -> None:
    empty, some = tables(CLOSING).result([], []), tables(CLOSING).result([(group(), (0, 10))], [(1, 4)])
    assert (empty.fired.num_rows, empty.retracted.num_rows, empty.events.num_rows, empty.spans) == (
        0,
        0,
        0,
        [],
    )
    assert empty.fired.schema == some.fired.schema
    assert empty.retracted.schema == some.retracted.schema


@pytest.mark.parametrize(
    ("stream", "opening"), [(CLOSING, set()), (OPENING, {(1, 0), (1, 20)}), (BOTH, {(1, 20)})]
)
def test_a_window_opens_that_is_open_or_whose_closing_computes_nothing(
    stream: Stream, opening: set[tuple[int, int]]
) -> None:
    assert _opening(stream, {1: [closed(0, 10), opened(20, 30)]}) == opening


def test_windows_that_fire_say_whether_they_open() -> None:
    fired: list[tuple[CutGroup, tuple[int, int]]] = [(group(), (0, 10)), (group(), (20, 30))]
    found = tables(BOTH).result(fired, [], opening={(1, 20), (2, 0)})
    assert found.fired["opening"].to_pylist() == [False, True]


def test_events_are_listed_as_they_happened() -> None:
    happenings = [
        Happening(OTHER, 0, 10, "WINDOW_INVALIDATION", refired=True),
        Happening(group(), 5, 9, "WINDOW_CLOSE", extra="{}"),
    ]
    events = tables(CLOSING).result([], [], happenings).events.to_pylist()
    columns = ("gid", "_ls_g1", "low", "high", "kind", "refired", "extra")
    assert events == [
        dict(zip(columns, (2, None, 0, 10, "WINDOW_INVALIDATION", True, None), strict=True)),
        dict(zip(columns, (1, "a", 5, 9, "WINDOW_CLOSE", False, "{}"), strict=True)),
    ]


# --- the next state ---


def test_a_group_goes_on_from_its_open_window_behind_its_mark() -> None:
    late = new(SESSION, "WATERMARK(10s)")
    assert next_state(late, [closed(0, 10), opened(50, 60)], newest=70_000_000) == {
        "gid": 1,
        "_ls_g1": "a",
        "first": 0,
        "newest": 70_000_000,
        "safe": 60_000_000,
        "resume": 50,
        "counted": 0,
        "starts": [],
        "opened": [50],
    }


def test_a_group_with_nothing_open_goes_on_from_nowhere() -> None:
    state = next_state(CLOSING, [closed(0, 10)])
    assert (state["resume"], state["opened"]) == (None, [])


def test_a_group_without_rows_has_no_newest_one() -> None:
    assert next_state(CLOSING, [], newest=None)["newest"] is None


def test_a_window_that_is_still_too_short_is_cut_on_and_has_not_opened() -> None:
    state = next_state(new(STATE), [opened(50, 60, counts=False), opened(70, 80)])
    assert (state["resume"], state["opened"]) == (50, [70])


def test_a_count_goes_on_by_what_was_counted_in_the_first_open_window() -> None:
    cut = [closed(0, 10), opened(20, 41, behind=2), opened(30, 41, behind=1)]
    state = next_state(new("COUNT_WINDOW(3, 1)"), cut)
    assert (state["counted"], state["starts"], state["resume"]) == (2, [20, 30], 20)


KEEPS = classic(SESSION)


@pytest.mark.parametrize(
    ("cut", "before", "end"),
    [
        ([closed(0, 10), closed(20, 30), opened(50, 60)], None, 30),
        ([closed(0, 10)], 44, 44),
        ([opened(50, 60)], 44, 44),
        ([opened(50, 60)], None, None),
        ([closed(-20, -10)], -5, -5),
        ([closed(-20, -10)], 0, 0),
    ],
)
def test_the_end_of_the_last_closed_window_is_kept(
    cut: list[dict[str, Any]], before: int | None, end: int | None
) -> None:
    assert next_state(KEEPS, cut, closed=before)[CLOSED] == end


@pytest.mark.parametrize(
    ("cut", "kept"),
    [([closed(0, 10), opened(50, 90)], [60, 70]), ([opened(65, 90)], [70]), ([closed(0, 10)], [])],
)
def test_expired_rows_are_kept_that_lie_in_what_is_open(cut: list[dict[str, Any]], kept: list[int]) -> None:
    keeps = new(STATE, "EXPIRED_TIME(1h)")
    assert next_state(keeps, cut, expired=[40, 60, 70])[EXPIRED] == kept


def test_a_state_has_what_its_stream_keeps_and_no_more() -> None:
    assert not {CLOSED, EXPIRED} & {*next_state(CLOSING, [])}
    assert EXPIRED not in next_state(new(SESSION, "EXPIRED_TIME(1h)"), [])


def test_rows_of_the_next_state_that_are_known_stand_behind_those_of_groups_that_were_cut() -> None:
    known = next_state(CLOSING, [opened(5, 9)], gid=3)
    found: CutResult = tables(CLOSING).result([], [], states=[(group(), [])], left=[known])
    assert found.groups["gid"].to_pylist() == [1, 3]
    assert found.groups.to_pylist()[1] == known
