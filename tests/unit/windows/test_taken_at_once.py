"""How many commits one tick takes, for it to give the same as one for each would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakestream.engine.windows.families import family_of
from tests.unit.windows.streams import classic, commit, ekuiper, new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.tables.log import CommitInfo

SESSION, STATE, TENS = "SESSION(ts, 5s)", "STATE_WINDOW(v)", "INTERVAL(10s) SLIDING(10s)"
IN_ORDER = (commit(1, 1, 5), commit(2, 6, 7), commit(3, 9))
LATE_THIRD = (commit(1, 1, 5), commit(2, 6, 9), commit(3, 7), commit(4, 20))
SAME_INSTANT = (commit(1, 1, 5), commit(2, 5, 9))
DELETE_SECOND = (commit(1, 1), commit(2, 5, appends=False), commit(3, 9))
WITHOUT_STATISTICS = (commit(1, 1), commit(2, 5), commit(3, 9, statistics=False), commit(4, 12))
NO_CHANGE = (commit(1, 1), commit(2, 1, changes=False, appends=False), commit(3, 9))
LATE_AND_NO_CHANGE = (commit(1, 5), commit(2, 5, changes=False, appends=False), commit(3, 1))
FIRST_IS_DELETE = (commit(1, 1, appends=False), commit(2, 5))
FIRST_UNKNOWN = (commit(1, 5, statistics=False), commit(2, 9))


@pytest.mark.parametrize(
    "stream",
    [
        new(TENS),
        new(TENS, "IGNORE_DISORDER"),
        new("SLIDING(10s)"),
        new(SESSION, "EXACT"),
        new("COUNT_WINDOW(3)", "EXACT"),
        new("PERIOD(10s)"),
        ekuiper("TUMBLINGWINDOW(ss, 10)"),
        ekuiper("COUNTWINDOW(2)", ""),
        ekuiper("COUNTWINDOW(2)", "TIMESTAMP = 'ts', EXACT = 'true'"),
    ],
)
@pytest.mark.parametrize("commits", [IN_ORDER, LATE_THIRD, DELETE_SECOND, WITHOUT_STATISTICS])
def test_all_where_each_is_judged_for_itself_or_every_change_is_followed(
    stream: Stream, commits: Sequence[CommitInfo]
) -> None:
    assert family_of(stream).taken_at_once(commits) == len(commits)


@pytest.mark.parametrize(
    "stream",
    [
        new(SESSION),
        new(SESSION, "DELETE_RECALC"),
        new(SESSION, "WATERMARK(5s)"),
        new("COUNT_WINDOW(3, 1)"),
    ],
)
@pytest.mark.parametrize(
    ("commits", "taken"),
    [
        (IN_ORDER, 3),
        (LATE_THIRD, 4),
        (SAME_INSTANT, 2),
        (WITHOUT_STATISTICS, 4),
        (NO_CHANGE, 3),
        (LATE_AND_NO_CHANGE, 3),
        (DELETE_SECOND, 1),
        (FIRST_IS_DELETE, 1),
    ],
)
def test_row_windows_that_follow_late_rows_take_all_that_only_add_some(
    stream: Stream, commits: Sequence[CommitInfo], taken: int
) -> None:
    assert family_of(stream).taken_at_once(commits) == taken


@pytest.mark.parametrize(
    "stream",
    [
        new(SESSION, "IGNORE_DISORDER"),
        new(STATE, "EXPIRED_TIME(1h)"),
        new("COUNT_WINDOW(3)"),
        classic(SESSION),
        classic(SESSION, "TRIGGER AT_ONCE"),
    ],
)
@pytest.mark.parametrize(
    ("commits", "taken"),
    [
        (IN_ORDER, 3),
        (LATE_THIRD, 2),
        (SAME_INSTANT, 1),
        (WITHOUT_STATISTICS, 2),
        (NO_CHANGE, 3),
        (LATE_AND_NO_CHANGE, 2),
        (DELETE_SECOND, 1),
        (FIRST_IS_DELETE, 1),
        (FIRST_UNKNOWN, 1),
        (IN_ORDER[:1], 1),
    ],
)
def test_row_windows_that_leave_late_rows_out_take_what_comes_in_order(
    stream: Stream, commits: Sequence[CommitInfo], taken: int
) -> None:
    assert family_of(stream).taken_at_once(commits) == taken


def _at(version: int, second: str) -> CommitInfo:
    ends = {"ts": f"1970-01-01T00:00:{second}Z"}
    (file,) = commit(version, 0).files
    return replace(commit(version, 0), files=(replace(file, minimum=ends, maximum=ends),))


@pytest.mark.parametrize(("second", "taken"), [("05.001", 1), ("05.002", 2)])
def test_statistics_that_are_cut_to_milliseconds_may_hide_a_later_row(second: str, taken: int) -> None:
    commits = [_at(1, "05.000"), _at(2, second)]
    assert family_of(new(SESSION, "IGNORE_DISORDER")).taken_at_once(commits) == taken
