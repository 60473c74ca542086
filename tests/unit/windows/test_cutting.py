"""From where on a group with changes is cut, by policy. Times are plain numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.state import CLOSED, EXPIRED, GroupState
from lakestream.engine.reading.relations import EVER
from lakestream.engine.windows.family import TickInput
from lakestream.engine.windows.rows.cutting import Cutting, with_expired
from tests.unit.windows.cuts import group
from tests.unit.windows.streams import classic, new, plan, target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.rows.groups import CutGroup

SESSION, COUNTED = "SESSION(ts, 5s)", "COUNT_WINDOW(3, 1)"
FOLLOWS, EXACT, COUNTS = new(SESSION), new(SESSION, "EXACT"), new(COUNTED)
Joined = dict[int, tuple[int | None, int | None]]


def cutting(stream: Stream) -> Cutting:
    relations = cast("Relations", SimpleNamespace(stream=stream, plan=plan()))
    return Cutting(TickInput(relations, target(stream), GroupState(), 1_000), pa.schema([]))


def changes(**sums: Any) -> dict[str, Any]:
    """Return a group's changes, summed up; nothing but what is said."""
    ends = ("low", "low_kept", "high", "high_removed", "top", "top_removed")
    return {"gid": 1, "_ls_g1": "a", **dict.fromkeys(ends), **sums}


def added(low: int, high: int, **other: Any) -> dict[str, Any]:
    return changes(**{"low": low, "low_kept": low, "high": high, "top": high, **other})


def known(**changed: Any) -> dict[str, Any]:
    """Return a group's state: rows from 10 to 50, its mark at 50, nothing open."""
    rows = {"gid": 1, "first": 10, "newest": 50, "safe": 50}
    return {**rows, "resume": None, "counted": 0, "starts": [], "opened": [], **changed}


def touched(
    stream: Stream, row: dict[str, Any], old: dict[str, Any] | None, joined: Joined | None = None
) -> CutGroup | None:
    return cutting(stream)._touched(row, old, joined or {})


def test_a_new_group_is_cut_from_its_first_row() -> None:
    found = touched(FOLLOWS, added(20, 70), None)
    assert found is not None
    assert (found.from_us, found.first, found.newest, found.late, found.names) == (20, 20, 70, False, ("a",))


def test_what_went_from_a_group_that_was_never_known_counts_for_nothing() -> None:
    assert touched(FOLLOWS, changes(low=20, top=20, high_removed=20, top_removed=20), None) is None


@pytest.mark.parametrize(
    ("stream", "resume", "row", "late", "from_us"),
    [
        (FOLLOWS, None, 51, False, 51),
        (FOLLOWS, None, 50, True, 50),
        (FOLLOWS, 30, 31, False, 30),
        (FOLLOWS, 30, 30, True, 30),
        (FOLLOWS, 30, 20, True, 20),
        # What is open may begin beyond the mark, and rows that are not late come before it.
        (FOLLOWS, 70, 60, True, 51),
        # A count is never continued by a late row.
        (COUNTS, 30, 50, True, 50),
        (COUNTS, 30, 51, False, 51),
    ],
)
def test_a_group_goes_on_from_what_is_open_or_is_cut_anew_from_a_late_row(
    stream: Stream, resume: int | None, row: int, late: bool, from_us: int
) -> None:
    found = touched(stream, added(row, 90), known(resume=resume))
    assert found is not None
    assert (found.late, found.from_us, found.newest) == (late, from_us, 90)


@pytest.mark.parametrize(
    ("resume", "low", "high", "spans"),
    [
        (40, 90, 95, [(40, 51), (90, 96)]),
        (None, 90, 95, [(90, 96)]),
        (40, 50, 95, [(40, 96)]),
        (20, 30, 40, [(20, 51)]),
    ],
)
def test_no_row_of_a_group_is_looked_for_between_what_was_known_and_what_came(
    resume: int | None, low: int, high: int, spans: list[tuple[int, int]]
) -> None:
    cut = cutting(FOLLOWS)
    found = cut._touched(
        added(low, high), known(resume=resume, newest=50, safe=50 if resume is None else 45), {}
    )
    assert found is not None
    assert found.spans == spans


@pytest.mark.parametrize(("stream", "counted", "starts"), [(COUNTS, 2, [30, 40]), (FOLLOWS, 0, ())])
def test_only_counts_go_on_from_what_was_counted(stream: Stream, counted: int, starts: Sequence[int]) -> None:
    old = known(resume=30, counted=2, starts=[30, 40], opened=[30, 40])
    found = touched(stream, added(51, 90), old)
    assert found is not None
    assert (found.counted, found.starts, found.opened) == (counted, starts, frozenset({30, 40}))


def test_late_rows_that_count_for_nothing_do_not_move_a_group() -> None:
    ignored = changes(low_kept=20, high=20, top=20)
    assert touched(new(SESSION, "IGNORE_DISORDER"), ignored, known()) is None
    assert touched(new(SESSION, "IGNORE_DISORDER"), ignored, known(resume=15)) is not None


def test_an_earlier_row_is_the_groups_first() -> None:
    found = touched(FOLLOWS, added(5, 90), known())
    assert found is not None
    assert (found.first, found.newest) == (5, 90)


@pytest.mark.parametrize(("stream", "lost"), [(EXACT, True), (new(SESSION, "DELETE_RECALC"), False)])
def test_only_exact_moves_the_mark_back_where_the_newest_row_went(stream: Stream, lost: bool) -> None:
    found = touched(stream, changes(low=50, top=50, high_removed=50, top_removed=50), known(resume=30))
    assert found is not None
    assert (found.late, found.lost_newest, found.from_us) == (True, lost, 30)


def test_a_row_that_went_from_what_is_open_changes_it() -> None:
    went = changes(low=None, top=40, top_removed=40)
    found = touched(FOLLOWS, went, known(resume=30))
    assert found is not None
    assert (found.changed, found.late) == (True, False)
    added_only = touched(FOLLOWS, added(60, 90), known(resume=30))
    assert added_only is not None
    assert not added_only.changed


def test_a_group_that_is_cut_anew_knows_which_rows_in_its_open_window_had_expired() -> None:
    old = known(resume=30, **{EXPIRED: [25, 40]})
    keeps = new("STATE_WINDOW(v)", "EXPIRED_TIME(1h)")
    on, anew = touched(keeps, added(60, 90), old), touched(keeps, added(20, 90), old)
    assert on is not None
    assert anew is not None
    assert (on.expired, anew.expired) == ([40], [40])


CLASSIC = classic(SESSION)


def test_late_rows_that_join_the_open_window_let_it_begin_earlier() -> None:
    late = changes(low_kept=25, high=25, top=25)
    found = touched(CLASSIC, late, known(resume=30, **{CLOSED: 20}), {1: (25, 20)})
    assert found is not None
    assert (found.from_us, found.closed, found.changed, found.late) == (25, 20, True, False)


def test_late_rows_that_close_a_window_of_their_own_move_the_group() -> None:
    late = changes(low_kept=25, high=25, top=25)
    old = known(resume=40, **{CLOSED: 20})
    found = touched(CLASSIC, late, old, {1: (None, 26)})
    assert found is not None
    assert (found.from_us, found.closed) == (40, 26)
    assert touched(CLASSIC, late, old, {1: (None, 20)}) is None


@pytest.mark.parametrize(
    ("joining", "resume", "joins"), [(25, 30, True), (30, 30, False), (None, 30, False), (25, None, True)]
)
def test_a_late_row_before_the_open_window_of_a_count_is_in_it(
    joining: int | None, resume: int | None, joins: bool
) -> None:
    counted = classic("COUNT_WINDOW(3)")
    row = {"gid": 1, "joining": joining}
    found = cutting(counted)._joined([row], {1: known(resume=resume, **{CLOSED: 20})})
    assert found == ({1: (joining, 20)} if joins else {})


# --- expired rows, and where a cut begins ---


def test_rows_that_had_expired_are_noted_in_a_group_with_an_open_window() -> None:
    state = {1: known(resume=30, **{EXPIRED: [40]}), 2: known(gid=2, **{EXPIRED: []})}
    rows = [{"gid": 1, EXPIRED: [35, 40]}, {"gid": 2, EXPIRED: [35]}, {"gid": 3, EXPIRED: []}]
    noted = with_expired(rows, state)
    assert [(row["gid"], row[EXPIRED]) for row in noted] == [(1, [35, 40])]
    assert state[2][EXPIRED] == []


@pytest.mark.parametrize(
    ("there", "from_us"),
    [
        ([(0, 10), (20, 30), (35, 50)], 20),
        ([(0, 10), (20, 40)], 20),
        ([(0, 10), (20, 41)], 0),
        ([(35, 50)], EVER[0]),
        ([], EVER[0]),
    ],
)
def test_a_late_group_is_cut_from_the_last_window_that_ends_before_the_change(
    there: list[tuple[int, int]], from_us: int
) -> None:
    late = group(from_us=40, late=True, counted=2, starts=[30])
    found = cutting(FOLLOWS)._back(late, {1: there})
    assert (found.from_us, found.counted, found.starts) == (from_us, 0, ())


@pytest.mark.parametrize(
    ("stream", "upto"),
    [
        (new(SESSION, "WATERMARK(10s)"), 60_000_000),
        (classic(SESSION, "WATERMARK 10s"), 60_000_000),
        (classic(SESSION, "TRIGGER AT_ONCE WATERMARK 10s"), 70_000_000),
    ],
)
def test_rows_are_cut_up_to_the_mark_or_to_the_newest_where_windows_open_ahead(
    stream: Stream, upto: int
) -> None:
    cut = cutting(stream)
    assert cut._upto(group(newest=70_000_000)) == upto
    assert cut._mark(group(newest=70_000_000)) == 60_000_000
    assert cut._mark(group(newest=None)) == cut._upto(group(newest=None)) == EVER[0]
