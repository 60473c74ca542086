"""Rows that are admitted: the marks of commits, what a state says of itself, and windows that fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.instants import latest
from lakestream.engine.base.state import GroupState
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.family import TickInput
from lakestream.engine.windows.once import rebuilding
from lakestream.engine.windows.once.admission import (
    Admission,
    Classification,
    _buffered,
    _Commit,
    bounds_of,
    due_of,
    failed_windows,
    newest_of,
    origin_of_state,
    stale_state,
)
from lakestream.engine.windows.once.rebuilding import Rebuilding, _Changes, _met
from lakestream.triggers.assign import Move
from tests.unit.windows.streams import commit, ekuiper, plan, target

if TYPE_CHECKING:
    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Stream

SECOND = 1_000_000
TUMBLING, COUNTED = "TUMBLINGWINDOW(ss, 10)", "COUNTWINDOW(2)"
EVENT_TIME = "TIMESTAMP = 'ts', LATE_TOLERANCE = '5s'"
EXACT = f"{EVENT_TIME}, EXACT = 'true'"


def state(newest: int, *rows: tuple[int, int | None], said: int | None = 0) -> GroupState:
    """Return a state of a newest time and held rows (time, when time alone ends their window)."""
    held = [{"_ls_ts": at, "_ls_v": 3, "_ls_n": None, "_ls_due": due} for at, due in rows]
    marker = {"_ls_ts": newest, "_ls_v": -1, "_ls_n": said, "_ls_due": None}
    schema = pa.schema([(name, pa.int64()) for name in marker])
    return GroupState(pa.Table.from_pylist([marker, *held], schema=schema))


def given(of: Stream, known: GroupState | None = None, **planned: Any) -> TickInput:
    relations = cast("Relations", SimpleNamespace(stream=of, plan=plan(**planned)))
    return TickInput(relations, target(of), known or GroupState(), 1_000)


# --- what a state says ---


def test_the_newest_time_is_that_of_the_marker_wherever_it_stands() -> None:
    known = state(70, (90, None), (40, None))
    assert known.rows is not None
    assert newest_of(known) == 70
    assert newest_of(GroupState(known.rows.take([2, 1, 0]))) == 70
    assert newest_of(GroupState()) is None


@pytest.mark.parametrize(("said", "mark"), [(0, None), (None, None), (1, "flush"), (2, "stale")])
def test_a_state_says_how_it_came_to_be(said: int | None, mark: str | None) -> None:
    assert origin_of_state(state(70, (40, None), said=said)) == mark


def test_a_stale_state_says_nothing_else() -> None:
    stale = stale_state()
    assert (origin_of_state(stale), len(stale), due_of(stale)) == ("stale", 1, None)
    assert origin_of_state(GroupState()) is None


@pytest.mark.parametrize(
    ("known", "due"),
    [
        (GroupState(), None),
        (state(70), None),
        (state(70, (40, None)), None),
        (state(70, (40, 90), (60, 80), (65, None)), 80),
    ],
)
def test_time_ends_the_first_window_of_those_that_are_buffered(known: GroupState, due: int | None) -> None:
    assert due_of(known) == due


def test_held_rows_are_those_of_a_state_but_its_marker() -> None:
    known = state(70, (40, None), (60, 80))
    assert known.rows is not None
    held = _buffered(known.rows)
    assert held["_ls_ts"].to_pylist() == [40, 60]
    assert held["_ls_p"].to_pylist() == [None, None]
    placed = known.rows.append_column("_ls_p", pa.array([None, 7, 8], pa.int64()))
    assert _buffered(placed)["_ls_p"].to_pylist() == [7, 8]


@pytest.mark.parametrize(
    ("one", "other", "found"), [(None, None, None), (5, None, 5), (None, 0, 0), (5, 7, 7), (7, 5, 7)]
)
def test_the_newest_time_never_goes_back(one: int | None, other: int | None, found: int | None) -> None:
    assert latest(one, other) == found


# --- how commits are judged ---

COMMITS = (
    _Commit(3, 2, 0, 10 * SECOND, None, 20 * SECOND),
    _Commit(4, 1, 0, 18 * SECOND, 20 * SECOND, 20 * SECOND),
    _Commit(5, 1, 0, 30 * SECOND, 20 * SECOND, 30 * SECOND),
)


def test_each_commit_is_judged_by_the_mark_before_it() -> None:
    admission = Admission(given(ekuiper(TUMBLING, EVENT_TIME)))
    move = admission._move(None, 30 * SECOND)
    classification = admission._classification(COMMITS, move)
    assert classification.watermarks == [(3, None), (4, 15 * SECOND), (5, 15 * SECOND)]
    assert classification.steps == [(3, 15 * SECOND), (5, 25 * SECOND)]
    assert (move, classification.by_arrival) == (Move(None, 25 * SECOND), False)


def test_a_commit_without_a_time_moves_no_mark() -> None:
    admission = Admission(given(ekuiper(TUMBLING, EVENT_TIME)))
    classification = admission._classification(
        [_Commit(3, 1, 1, None, None, None)], admission._move(None, None)
    )
    assert (classification.watermarks, classification.steps) == ([(3, None)], [])


@pytest.mark.parametrize(
    ("kind", "known", "newest", "move"),
    [
        ("changes", 20, 30, Move(15 * SECOND, 25 * SECOND)),
        ("changes", 20, 20, Move(15 * SECOND, 15 * SECOND)),
        ("flush", 20, 20, Move(15 * SECOND, 15 * SECOND, ends=True)),
        ("changes", None, None, Move(None, 0)),
    ],
)
def test_the_mark_moves_to_the_tolerance_before_the_newest_time(
    kind: str, known: int | None, newest: int | None, move: Move
) -> None:
    admission = Admission(given(ekuiper(TUMBLING, EVENT_TIME), kind=kind))
    before, after = (None if second is None else second * SECOND for second in (known, newest))
    assert admission._move(before, after) == move


@pytest.mark.parametrize(("clock", "known", "arrival"), [(50, None, 50), (50, 40, 50), (50, 70, 70)])
def test_rows_by_arrival_come_when_their_tick_was_planned_and_time_never_goes_back(
    clock: int, known: int | None, arrival: int
) -> None:
    assert Admission(given(ekuiper(TUMBLING, ""), clock_us=clock))._arrival(known) == arrival


def test_rows_in_event_time_have_their_own() -> None:
    assert Admission(given(ekuiper(TUMBLING, EVENT_TIME), clock_us=50))._arrival(None) is None


NONE = "CAST(NULL AS BIGINT)"


@pytest.mark.parametrize(
    ("classification", "sql"),
    [
        (Classification((), (), Move(None, 0), 5), NONE),
        (Classification((), (), Move(None, 0, ends=True), 5), f"coalesce({NONE}, 5L)"),
        (
            Classification((), [(3, 70)], Move(None, 70), 5),
            "CASE WHEN 70L >= _ls_ts AND 3L >= _ls_v THEN 3L END",
        ),
        (
            Classification((), [(3, 70), (5, 90)], Move(None, 90), 5),
            (
                "get(filter(array(struct(3L AS v, 70L AS mark), struct(5L AS v, 90L AS mark)), "
                "s -> s.mark >= _ls_ts AND s.v >= _ls_v), 0).v"
            ),
        ),
        (Classification((), [(3, 70)], Move(None, 70), 5, by_arrival=True), "_ls_v"),
    ],
)
def test_a_row_is_released_by_the_commit_that_moved_the_mark_to_it(
    classification: Classification, sql: str
) -> None:
    assert classification.reached() == sql


@pytest.mark.parametrize(
    ("event_range", "bounds"),
    [
        (EventRange(), []),
        (EventRange(overlap_us=5, to_us=9), ["high > 5L", "low < 9L"]),
        (EventRange(from_us=5, over_us=9), ["low >= 5L", "high <= 9L"]),
        (
            EventRange(groups=((1, 5, 9), (2, 6, 8))),
            [("((_ls_gid = 1L AND low >= 5L AND low < 9L) OR (_ls_gid = 2L AND low >= 6L AND low < 8L))")],
        ),
    ],
)
def test_windows_of_a_range_lie_within_its_bounds(event_range: EventRange, bounds: list[str]) -> None:
    assert bounds_of(event_range, "low", "high") == bounds


def test_windows_that_fail_are_told_of_with_their_reason() -> None:
    window = {"_ls_gid": 1, "_ls_low": 0, "_ls_high": 10 * SECOND}
    found = failed_windows([(window, ValueError("cannot divide"))], 60 * SECOND).to_pylist()
    assert found == [
        {
            "at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
            "reason": "calculation: cannot divide",
            "event_time": datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC),
            "commit_version": None,
            "event": (
                '{"window_start": "1970-01-01T00:00:00+00:00", "window_end": "1970-01-01T00:00:10+00:00"}'
            ),
        }
    ]
    assert failed_windows([], 0).schema == failed_windows([(window, ValueError(""))], 0).schema


# --- what is made anew under EXACT ---

ADDED = _Changes(rows=2, missing=0, removed=0, oldest=66 * SECOND, newest=80 * SECOND, newest_removed=None)
KNOWN = state(70 * SECOND)


def changed(**other: Any) -> _Changes:
    return _Changes(**{**vars(ADDED), **other})


@pytest.mark.parametrize(
    ("changes", "known", "kind", "in_order"),
    [
        (ADDED, KNOWN, "changes", True),
        (changed(oldest=65 * SECOND), KNOWN, "changes", False),
        (changed(oldest=65 * SECOND + 1), KNOWN, "changes", True),
        (changed(removed=1), KNOWN, "changes", False),
        (changed(oldest=3 * SECOND), GroupState(), "changes", True),
        (changed(oldest=None, newest=None), KNOWN, "changes", True),
        (ADDED, state(70 * SECOND, said=1), "changes", False),
        (ADDED, state(70 * SECOND, said=2), "changes", False),
        (changed(oldest=None, newest=None), KNOWN, "flush", True),
    ],
)
def test_rows_are_in_order_that_are_new_and_beyond_the_mark(
    changes: _Changes, known: GroupState, kind: str, in_order: bool
) -> None:
    again = Rebuilding(given(ekuiper(TUMBLING, EXACT), known, kind=kind))
    assert again._is_in_order(changes, newest_of(known)) is in_order


@pytest.mark.parametrize(
    ("window", "appends_only", "moved", "in_order"),
    [
        (COUNTED, True, False, True),
        (COUNTED, False, False, False),
        (COUNTED, True, True, False),
        (TUMBLING, False, True, True),
    ],
)
def test_where_the_order_of_rows_counts_none_may_be_rewritten_or_lie_elsewhere(
    window: str, appends_only: bool, moved: bool, in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = commit(5, 80)
    rewritten = replace(found, removed=("a", "b")) if moved else found
    monkeypatch.setattr(rebuilding, "read_commits", lambda *_: [rewritten])
    again = Rebuilding(given(ekuiper(window, EXACT), KNOWN, appends_only=appends_only))
    assert again._is_in_order(ADDED, newest_of(KNOWN)) is in_order


def test_nothing_is_in_order_where_all_is_made_anew() -> None:
    again = Rebuilding(given(ekuiper(TUMBLING, EXACT), KNOWN), everything=True)
    assert not again._is_in_order(ADDED, newest_of(KNOWN))


@pytest.mark.parametrize(
    ("changes", "before"),
    [
        (changed(oldest=40 * SECOND), 40 * SECOND - 1),
        (changed(oldest=None), 65 * SECOND - 1),
        (changed(oldest=90 * SECOND), 65 * SECOND - 1),
    ],
)
def test_windows_stay_that_are_over_before_the_first_change_and_both_marks(
    changes: _Changes, before: int
) -> None:
    again = Rebuilding(given(ekuiper(TUMBLING, EXACT), KNOWN))
    assert again._before(changes, 75 * SECOND) == before


def test_windows_stay_that_are_over_before_a_mark_that_moved_back() -> None:
    assert Rebuilding(given(ekuiper(TUMBLING, EXACT), KNOWN))._before(ADDED, 50 * SECOND) == 50 * SECOND - 1


@pytest.mark.parametrize(
    ("windows", "end", "start", "to_us", "met"),
    [
        ([], 0, 10, 20, []),
        ([(1, 0, 5), (1, 12, 15), (1, 30, 40)], 0, 10, 20, [(1, 12, 15)]),
        # Those that hang together go together, from window to window.
        ([(1, 5, 12), (1, 11, 22), (1, 21, 30), (1, 30, 40)], 0, 13, 14, [(1, 5, 30)]),
        # A window that ends where the range begins is not met, unless it holds its last instant.
        ([(1, 5, 10)], 0, 10, 20, []),
        ([(1, 5, 10)], 1, 10, 20, [(1, 5, 11)]),
        ([(1, 20, 30)], 0, 10, 20, []),
        ([(1, 20, 30)], 0, 10, None, [(1, 20, 30)]),
        # Between two runs of a group that are met lies nothing of others.
        ([(1, 10, 12), (1, 14, 16)], 0, 10, 20, [(1, 10, 16)]),
        ([(2, 10, 12), (1, 8, 11)], 0, 10, 20, [(1, 8, 11), (2, 10, 12)]),
        # A window of one instant is a microsecond long.
        ([(1, 10, 10)], 0, 10, 20, [(1, 10, 11)]),
    ],
)
def test_a_range_meets_by_group_all_windows_that_hang_together_with_its_own(
    windows: list[tuple[int, int, int]],
    end: int,
    start: int,
    to_us: int | None,
    met: list[tuple[int, int, int]],
) -> None:
    assert _met(windows, end, start, to_us) == met
