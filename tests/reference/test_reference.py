"""The reference against figures worked out by hand (the same as in the conformance cases)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.reference.aggregates import figures
from tests.reference.fold import Change, Recalculate, Resync, Stream, evaluate
from tests.reference.grid import Interval, Sliding, Span, windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.reference.fold import Event, Figures, Group, Row

TEN = Span(10, "s")
TUMBLING = Interval(TEN, TEN)
EVERY_TEN = Sliding(TEN)
COUNT_AND_SUM = figures(("count", "*"), ("sum", "v"))


def at(seconds: float) -> datetime:
    """Return an instant of the first minute of 2025."""
    return datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def row(second: float, v: int, table: str | None = None) -> dict[str, Any]:
    """Return a row."""
    return {"tbname": table, "ts": at(second), "v": v}


def commit(*rows: tuple[float, int], table: str | None = None) -> list[Change]:
    """Return a commit that writes (second, v) rows."""
    return [Change(row(*cells, table)) for cells in rows]


def delete(*rows: tuple[float, int], table: str | None = None) -> list[Change]:
    """Return a commit that deletes (second, v) rows."""
    return [Change(row(*cells, table), "delete") for cells in rows]


def move(old: tuple[float, int], new: tuple[float, int]) -> list[Change]:
    """Return a commit that changes a row's key."""
    return [Change(row(*new), was=row(*old))]


def run(
    trigger: Interval | Sliding, *events: Event, not_taken: list[Change] | None = None, **options: Any
) -> list[tuple[Any, ...]]:
    """Return (end for SLIDING, start for INTERVAL, in seconds; figures…) in order."""
    stream = Stream(trigger, COUNT_AND_SUM, **options)
    written = evaluate(stream, events, [change.row for change in not_taken or []])
    shown = 0 if isinstance(trigger, Interval) else 1
    return sorted(((found[shown] - at(0)).total_seconds(), *found[2:]) for found in written)


def test_tumbling_end_is_exclusive() -> None:
    rows = commit((0, 1), (5, 2), (9.999, 4), (10, 8), (19, 16), (20, 32))
    assert run(TUMBLING, rows) == [(0, 3, 7), (10, 2, 24)]


def test_open_window_gives_nothing() -> None:
    first, second = commit((1, 1), (9.999, 2)), commit((10, 4))
    assert run(TUMBLING, first) == []
    assert run(TUMBLING, first, second) == [(0, 2, 3)]


def test_empty_windows_fire() -> None:
    assert run(TUMBLING, commit((1, 1), (35, 2))) == [(0, 1, 1), (10, 0, None), (20, 0, None)]


def test_ignore_nodata() -> None:
    rows = commit((1, 1), (35, 2), (41, 4))
    assert run(TUMBLING, rows, ignore_nodata=True) == [(0, 1, 1), (30, 1, 2)]


def test_ignore_nodata_hopping() -> None:
    hopping = Interval(TEN, Span(5, "s"))
    assert run(hopping, commit((7, 1), (40, 2)), ignore_nodata=True) == [(0, 1, 1), (5, 1, 1)]


def test_hopping() -> None:
    rows = commit((7, 1), (12, 2), (18, 4), (25, 8))
    assert run(Interval(TEN, Span(5, "s")), rows) == [(0, 1, 1), (5, 2, 3), (10, 2, 6), (15, 1, 4)]


def test_first_hopping_window_is_the_earliest_that_covers_the_first_row() -> None:
    assert next(windows(Interval(TEN, Span(5, "s")), at(31))).start == at(25)


def test_step_longer_than_the_interval() -> None:
    sparse = Interval(Span(5, "s"), TEN)
    rows = commit((7, 1), (12, 2), (17, 4), (33, 8))
    assert run(sparse, rows) == [(10, 1, 2), (20, 0, None)]
    assert run(sparse, commit((4, 1), (7, 2), (15, 4))) == [(0, 1, 1), (10, 0, None)]


def test_interval_offset() -> None:
    trigger = Interval(TEN, TEN, Span(2, "s"))
    rows = commit((1, 1), (2, 2), (11, 4), (12, 8), (23, 16))
    assert run(trigger, rows) == [(-8, 1, 1), (2, 2, 6), (12, 1, 8)]


def test_window_over_several_commits() -> None:
    commits = [commit((s, v)) for s, v in ((1, 1), (4, 2), (6, 4), (9, 8), (13, 16))]
    assert run(TUMBLING, *commits) == [(0, 4, 15)]


def test_groups_have_their_own_time() -> None:
    commits = [
        commit((1, 1), table="t1") + commit((2, 2), table="t2"),
        commit((15, 4), table="t1"),
        commit((3, 8), (12, 16), table="t3"),
        commit((21, 32), table="t2"),
    ]
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=lambda row: (row["tbname"],))
    assert {(t, start, *rest) for t, start, _end, *rest in evaluate(stream, commits)} == {
        ("t1", at(0), 1, 1),
        ("t2", at(0), 1, 2),
        ("t2", at(10), 0, None),
        ("t3", at(0), 1, 8),
    }


def test_late_row_recalculates() -> None:
    commits = [commit((1, 1), (12, 2), (21, 4)), commit((5, 8), (6, 16))]
    assert run(TUMBLING, *commits) == [(0, 3, 25), (10, 1, 2)]


def test_update_recalculates() -> None:
    assert run(TUMBLING, commit((1, 1), (5, 2), (12, 4)), commit((5, 100))) == [(0, 2, 101)]


def test_delete_changes_nothing() -> None:
    rows, gone = commit((1, 1), (5, 2), (12, 4)), delete((5, 2))
    assert run(TUMBLING, rows, gone) == [(0, 2, 3)]


def test_deleted_row_is_not_in_a_window_that_fires_after_it() -> None:
    rows, gone = commit((1, 1), (5, 2)), delete((5, 2))
    assert run(TUMBLING, rows, gone, commit((12, 4))) == [(0, 1, 1)]
    assert run(TUMBLING, rows, gone, commit((5, 8)), commit((12, 4))) == [(0, 2, 9)]


def test_ignored_delete_is_out_of_what_is_computed_again() -> None:
    rows, gone = commit((1, 1), (5, 2)), delete((5, 2))
    assert run(TUMBLING, rows, gone, commit((12, 4)), commit((3, 8))) == [(0, 2, 9)]
    assert run(TUMBLING, rows, gone, commit((12, 4)), commit((1, 8))) == [(0, 1, 8)]


def test_row_written_as_it_was_is_no_change() -> None:
    rows, gone = commit((1, 1), (5, 2), (12, 4)), delete((5, 2))
    assert run(TUMBLING, rows, gone, commit((1, 1))) == [(0, 2, 3)]


def test_row_moved_in_time_is_an_update_of_both_windows() -> None:
    rows = commit((1, 1), (5, 2), (12, 4), (25, 8))
    assert run(TUMBLING, rows, move((5, 2), (15, 2))) == [(0, 1, 1), (10, 2, 6)]
    assert run(TUMBLING, rows[:2], move((5, 2), (15, 2)), commit((25, 8))) == [(0, 1, 1), (10, 1, 2)]


def by_v(row: Row) -> Group:
    """Group by whether v is odd."""
    return (row["v"] % 2,)


def test_row_moved_to_another_group_leaves_the_old_one() -> None:
    rows = commit((1, 1), (2, 4), (5, 3), (21, 5), (22, 6))
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=by_v, ignore_nodata=True)
    assert sorted(evaluate(stream, [rows])) == [(0, at(0), at(10), 1, 4), (1, at(0), at(10), 2, 4)]
    moved = sorted(evaluate(stream, [rows, commit((5, 8))]))
    assert moved == [(0, at(0), at(10), 2, 12), (1, at(0), at(10), 1, 1)]


def test_row_moved_to_another_group_leaves_its_open_window() -> None:
    events = [commit((1, 1), (2, 4), (5, 3)), commit((5, 8)), commit((21, 5), (22, 6))]
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=by_v, ignore_nodata=True)
    assert sorted(evaluate(stream, events)) == [(0, at(0), at(10), 2, 12), (1, at(0), at(10), 1, 1)]


def test_the_mark_stays_where_a_moved_row_left_it() -> None:
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=by_v)
    events = [commit((1, 1), (12, 3)), commit((12, 2)), commit((13, 4))]
    assert evaluate(stream, events) == [(1, at(0), at(10), 1, 1)]


def test_late_row_before_the_first_window_opens_windows() -> None:
    commits = [commit((31, 1), (42, 2)), commit((3, 4))]
    assert run(TUMBLING, *commits, ignore_nodata=True) == [(0, 1, 4), (30, 1, 1)]
    assert run(TUMBLING, *commits) == [(0, 1, 4), (10, 0, None), (20, 0, None), (30, 1, 1)]


def test_watermark() -> None:
    five = timedelta(seconds=5)
    commits = [commit((1, 1), (12, 2), (14, 4)), commit((9, 8)), commit((15, 16))]
    assert run(TUMBLING, *commits[:2], watermark=five) == []
    assert run(TUMBLING, *commits, watermark=five) == [(0, 2, 9)]


def test_late_beyond_the_watermark_recalculates() -> None:
    five = timedelta(seconds=5)
    assert run(TUMBLING, commit((1, 1), (12, 2), (16, 4)), watermark=five) == [(0, 1, 1)]
    late = [commit((1, 1), (12, 2), (16, 4)), commit((3, 8))]
    assert run(TUMBLING, *late, watermark=five) == [(0, 2, 9)]


def test_lateness_is_judged_against_the_mark_before_the_commit() -> None:
    assert run(TUMBLING, commit((25, 1), (3, 2))) == [(0, 1, 2), (10, 0, None)]


def test_pre_filter() -> None:
    rows, more = commit((1, 1), (2, -5), (3, 2), (11, -1)), commit((12, 7))
    admits: dict[str, Any] = {"admits": lambda row: row["v"] > 0}
    assert run(EVERY_TEN, rows, **admits) == []
    assert run(EVERY_TEN, rows, more, **admits) == [(10, 2, 3)]


def test_sliding() -> None:
    commits = [commit((1, 1), (5, 2)), commit((12, 4)), commit((25, 8))]
    assert run(EVERY_TEN, *commits) == [(10, 2, 3), (20, 1, 4)]


def test_sliding_row_on_the_boundary() -> None:
    commits = [commit((4, 1), (10, 2)), commit((11, 4), (20, 8))]
    assert run(EVERY_TEN, *commits) == [(10, 2, 3), (20, 2, 12)]


def test_sliding_offset() -> None:
    rows = commit((1, 1), (5, 1), (14, 1), (22, 1))
    assert run(Sliding(TEN, Span(3, "s")), rows) == [(3, 1, 1), (13, 1, 1)]


def test_sliding_jump_fires_every_step() -> None:
    rows = commit((1, 1), (45, 1))
    assert run(EVERY_TEN, rows) == [(10, 1, 1), (20, 0, None), (30, 0, None), (40, 0, None)]


def test_sliding_ignore_nodata() -> None:
    rows = commit((1, 1), (45, 1), (46, 1), (51, 1))
    assert run(EVERY_TEN, rows, ignore_nodata=True) == [(10, 1, 1), (50, 2, 2)]


def test_sliding_ignores_late_rows() -> None:
    commits = [commit((1, 1), (12, 2), (21, 4)), commit((5, 100), (1, 50)), commit((-30, 7))]
    assert run(EVERY_TEN, *commits) == [(10, 1, 1), (20, 1, 2)]


def test_sliding_fires_once_per_step() -> None:
    rows = commit(*((30 * n, 1) for n in range(40)))
    assert len(run(Sliding(Span(1, "s")), rows)) == 1171


IGNORE_DISORDER: dict[str, Any] = {"ignore_disorder": True}
DELETE_RECALC: dict[str, Any] = {"delete_recalc": True}
EXACT: dict[str, Any] = {"exact": True}
EXPIRED_20: dict[str, Any] = {"expired_time": timedelta(seconds=20)}


def test_ignore_disorder() -> None:
    rows, late, update = commit((1, 1), (12, 2)), commit((5, 8)), commit((1, 100))
    assert run(TUMBLING, rows, late, update, **IGNORE_DISORDER) == [(0, 1, 1)]
    assert run(TUMBLING, rows, late, update, commit((21, 4)), **IGNORE_DISORDER) == [(0, 1, 1), (10, 1, 2)]


def test_ignore_disorder_takes_late_rows_and_updates_in_open_windows() -> None:
    events = [commit((11, 1), (18, 2)), commit((12, 4)), commit((11, 8)), commit((21, 16))]
    assert run(TUMBLING, *events, **IGNORE_DISORDER) == [(10, 3, 14)]


def test_ignore_disorder_opens_nothing_earlier() -> None:
    events = [commit((31, 1), (42, 2)), commit((3, 4))]
    assert run(TUMBLING, *events, **IGNORE_DISORDER) == [(30, 1, 1)]
    fifteen = timedelta(seconds=15)
    in_order = [commit((31, 1)), commit((18, 2)), commit((55, 4))]
    assert run(TUMBLING, *in_order, watermark=fifteen, **IGNORE_DISORDER) == [
        (10, 1, 2),
        (20, 0, None),
        (30, 1, 1),
    ]


def test_expired_time() -> None:
    rows, late = commit((1, 1), (12, 2), (25, 4), (32, 8)), commit((5, 100), (15, 16))
    before = [(0, 1, 1), (10, 1, 2), (20, 1, 4)]
    assert run(TUMBLING, rows, **EXPIRED_20) == before
    assert run(TUMBLING, rows, late, **EXPIRED_20) == [(0, 1, 1), (10, 2, 18), (20, 1, 4)]


def test_expired_time_per_group() -> None:
    stream = Stream(
        TUMBLING, COUNT_AND_SUM, group=lambda row: (row["tbname"],), ignore_nodata=True, **EXPIRED_20
    )
    rows = commit((1, 1), (100, 2), table="t1") + commit((1, 4), (15, 8), table="t2")
    late = commit((5, 16), table="t1") + commit((5, 32), table="t2")
    assert sorted(evaluate(stream, [rows, late])) == [
        ("t1", at(0), at(10), 1, 1),
        ("t2", at(0), at(10), 2, 36),
    ]


def test_expired_row_opens_nothing_and_is_in_what_fires_after_it() -> None:
    wide = Interval(Span(1, "m"), Span(1, "m"))
    rows, expired, closing = commit((5, 1), (40, 2)), commit((10, 4), (-30, 8)), commit((60, 16))
    assert run(wide, rows, expired, closing, **EXPIRED_20) == [(0, 3, 7)]


def test_expired_row_is_in_what_is_computed_again() -> None:
    wide = Interval(Span(1, "m"), Span(1, "m"))
    events = [commit((5, 1), (40, 2)), commit((10, 4)), commit((60, 16)), commit((50, 32))]
    assert run(wide, *events, **EXPIRED_20) == [(0, 4, 39)]


def test_row_at_the_limit_has_not_expired() -> None:
    assert run(TUMBLING, commit((1, 1), (32, 2)), commit((12, 4)), **EXPIRED_20)[1] == (10, 1, 4)


def test_expiry_is_judged_before_the_commit() -> None:
    assert run(TUMBLING, commit((1, 1)), commit((100, 2), (5, 4)), **EXPIRED_20)[0] == (0, 2, 5)


def test_expired_update_triggers_nothing() -> None:
    rows = commit((1, 1), (12, 2), (25, 4), (32, 8))
    assert run(TUMBLING, rows, commit((1, 100)), **EXPIRED_20)[0] == (0, 1, 1)


def test_delete_recalc() -> None:
    rows, gone = commit((1, 1), (5, 2), (12, 4)), delete((5, 2))
    assert run(TUMBLING, rows, gone, **DELETE_RECALC) == [(0, 1, 1)]


def test_delete_recalc_counts_in_open_windows() -> None:
    rows, gone = commit((1, 1), (5, 2)), delete((5, 2))
    assert run(TUMBLING, rows, gone, commit((12, 4)), **DELETE_RECALC) == [(0, 1, 1)]


def test_delete_recalc_leaves_the_mark() -> None:
    rows, gone = commit((1, 1), (12, 2), (25, 4)), delete((25, 4))
    assert run(TUMBLING, rows, gone, **DELETE_RECALC) == [(0, 1, 1), (10, 1, 2)]


def test_delete_recalc_of_the_first_row_takes_windows_away() -> None:
    rows, gone = commit((1, 1), (12, 2), (25, 4), (31, 8)), delete((1, 1), (12, 2))
    assert run(TUMBLING, rows, gone, **DELETE_RECALC) == [(20, 1, 4)]
    assert run(TUMBLING, rows, gone, commit((5, 16)), **DELETE_RECALC) == [
        (0, 1, 16),
        (10, 0, None),
        (20, 1, 4),
    ]


def test_delete_recalc_of_another_row_opens_nothing_earlier() -> None:
    rows, late, gone = commit((31, 1), (35, 2), (42, 4)), commit((3, 8), (4, 16)), delete((4, 16), (35, 2))
    assert run(TUMBLING, rows, late, gone, **DELETE_RECALC, **IGNORE_DISORDER) == [(30, 1, 1)]


def test_delete_recalc_takes_a_first_row_that_moved_away_for_gone() -> None:
    rows, moved = commit((1, 1), (12, 2), (25, 4), (31, 8)), move((1, 1), (13, 1))
    assert run(TUMBLING, rows, moved) == [(0, 0, None), (10, 2, 3), (20, 1, 4)]
    assert run(TUMBLING, rows, moved, **DELETE_RECALC) == [(10, 2, 3), (20, 1, 4)]


def test_delete_recalc_of_a_whole_group() -> None:
    rows, gone = commit((1, 1), (12, 2)), delete((1, 1), (12, 2))
    assert run(TUMBLING, rows, gone, **DELETE_RECALC) == []
    assert run(TUMBLING, rows, gone, commit((15, 4)), commit((21, 8)), **DELETE_RECALC) == [(10, 1, 4)]


def test_exact_sliding_follows_late_rows() -> None:
    rows, late = commit((1, 1), (12, 2), (25, 4)), commit((5, 8))
    assert run(EVERY_TEN, rows, **EXACT) == [(10, 1, 1), (20, 1, 2)]
    assert run(EVERY_TEN, rows, late, **EXACT) == [(10, 2, 9), (20, 1, 2)]


def test_exact_delete_of_the_newest_row_opens_its_window_again() -> None:
    events = [commit((1, 1), (12, 2)), delete((12, 2)), commit((9, 4), (11, 8))]
    assert run(TUMBLING, *events[:1], **EXACT) == [(0, 1, 1)]
    assert run(TUMBLING, *events[:2], **EXACT) == []
    assert run(TUMBLING, *events, **EXACT) == [(0, 2, 5)]


def test_exact_delete_and_update() -> None:
    rows = commit((1, 1), (3, 2), (14, 4), (21, 8))
    assert run(TUMBLING, rows, commit((3, 100)), delete((1, 1)), **EXACT) == [(0, 1, 100), (10, 1, 4)]


def test_exact_forgets_windows_before_the_first_row() -> None:
    rows = commit((1, 1), (31, 2), (42, 4))
    assert run(TUMBLING, rows, delete((1, 1)), **EXACT) == [(30, 1, 2)]


def test_exact_forgets_a_group_that_is_left() -> None:
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=by_v, **EXACT)
    assert evaluate(stream, [commit((1, 1), (12, 3)), commit((1, 2), (12, 4))]) == [(0, at(0), at(10), 1, 2)]


def test_exact_with_watermark_and_pre_filter() -> None:
    options: dict[str, Any] = {"watermark": timedelta(seconds=5), "admits": lambda row: row["v"] > 0}
    events = [commit((1, 1), (16, 2), (18, -4)), commit((16, -2)), commit((15, 8))]
    assert run(TUMBLING, *events[:1], **EXACT, **options) == [(0, 1, 1)]
    assert run(TUMBLING, *events[:2], **EXACT, **options) == []
    assert run(TUMBLING, *events, **EXACT, **options) == [(0, 1, 1)]


def test_rows_not_taken_are_not_there() -> None:
    old, rows = commit((1, 1), (12, 2), (21, 4)), commit((25, 8), (32, 16))
    assert run(TUMBLING, rows, not_taken=old) == [(20, 1, 8)]
    assert run(TUMBLING, rows, not_taken=old, **EXACT) == [(20, 1, 8)]
    assert run(TUMBLING, rows, delete((1, 1)), commit((1, 1)), not_taken=old, **EXACT) == [(20, 1, 8)]


def test_update_of_a_row_not_taken_is_a_row() -> None:
    old, rows = commit((1, 1), (21, 4)), commit((25, 8), (32, 16))
    assert run(TUMBLING, rows, commit((21, 5)), not_taken=old) == [(20, 2, 13)]
    assert run(TUMBLING, rows, commit((21, 5)), not_taken=old, **EXACT) == [(20, 2, 13)]


def test_fill_history_goes_on_with_live_rows() -> None:
    events = [commit((1, 1), (12, 2), (21, 4)), commit((25, 8), (32, 16))]
    assert run(TUMBLING, *events) == [(0, 1, 1), (10, 1, 2), (20, 2, 12)]


def test_fill_history_first_from() -> None:
    old = commit((1, 1), table="t1") + commit((1, 2), table="t2")
    filled, live = commit((31, 4), (45, 8), table="t2"), commit((52, 16), (61, 32), table="t1")
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=lambda row: (row["tbname"],), ignore_nodata=True)
    written = evaluate(stream, [filled, live], [change.row for change in old])
    assert sorted(written) == [("t1", at(50), at(60), 1, 16), ("t2", at(30), at(40), 1, 4)]


RECALCULATED = [
    pytest.param(Recalculate(at(10), at(19)), [(0, 1), (10, 22), (20, 4)], id="a window"),
    pytest.param(Recalculate(at(3), at(4)), [(0, 11), (10, 2), (20, 4)], id="inside a window"),
    pytest.param(Recalculate(at(0), at(10)), [(0, 11), (10, 2), (20, 4)], id="the end is exclusive"),
    pytest.param(Recalculate(at(10)), [(0, 1), (10, 22), (20, 44)], id="to the present"),
    pytest.param(Resync(), [(0, 11), (10, 22), (20, 44)], id="all"),
]


@pytest.mark.parametrize(("event", "expected"), RECALCULATED)
def test_recalculate(event: Event, expected: list[tuple[int, int]]) -> None:
    other = {1: 1, 11: 2, 21: 4}

    def total(rows: list[Row]) -> Figures:
        decade = (rows[0]["ts"] - at(0)).seconds // 10
        return (sum(p for second, p in other.items() if second // 10 == decade),)

    def events() -> Iterator[Event]:
        yield commit((1, 0), (12, 0), (21, 0), (32, 0))
        other.update({5: 10, 15: 20, 25: 40, 35: 80})
        yield event

    written = evaluate(Stream(TUMBLING, total), events())
    assert [((start - at(0)).seconds, figure) for start, _, figure in sorted(written)] == expected


def test_recalculate_sliding() -> None:
    events: list[Event] = [commit((1, 1), (12, 2), (21, 4)), commit((5, 8), (15, 16))]
    assert run(EVERY_TEN, *events, Recalculate(at(1), at(10))) == [(10, 2, 9), (20, 1, 2)]
    assert run(EVERY_TEN, *events, Recalculate(at(10), at(11))) == [(10, 2, 9), (20, 2, 18)]
    assert run(EVERY_TEN, *events, Recalculate(at(11))) == [(10, 1, 1), (20, 2, 18)]


def test_recalculate_takes_expired_rows() -> None:
    events: list[Event] = [commit((1, 1), (50, 2)), commit((5, 4))]
    options = {**EXPIRED_20, "ignore_nodata": True}
    assert run(TUMBLING, *events, **options) == [(0, 1, 1)]
    assert run(TUMBLING, *events, Recalculate(at(0), at(9)), **options) == [(0, 2, 5)]


def test_recalculate_takes_ignored_disorder() -> None:
    events: list[Event] = [commit((1, 1), (12, 2)), commit((5, 4))]
    assert run(TUMBLING, *events, Recalculate(at(0), at(9)), **IGNORE_DISORDER) == [(0, 2, 5)]


def test_recalculate_takes_deletes_and_leaves_windows_that_are_open() -> None:
    events: list[Event] = [
        commit((1, 1), (5, 2), (12, 4), (13, 8)),
        delete((5, 2), (12, 4)),
        Recalculate(at(0)),
    ]
    assert run(TUMBLING, *events) == [(0, 1, 1)]
    assert run(TUMBLING, *events, commit((20, 16))) == [(0, 1, 1), (10, 1, 8)]


def test_recalculate_per_group() -> None:
    stream = Stream(TUMBLING, COUNT_AND_SUM, group=lambda row: (row["tbname"],))
    rows = commit((1, 1), (11, 2), table="t1") + commit((2, 4), (12, 8), table="t2")
    gone = delete((1, 1), table="t1") + delete((2, 4), table="t2")
    assert sorted(evaluate(stream, [rows, gone, Recalculate(at(0), at(9))])) == [
        ("t1", at(0), at(10), 0, None),
        ("t2", at(0), at(10), 0, None),
    ]


def test_resync_starts_from_the_source_as_it_is() -> None:
    events: list[Event] = [commit((1, 1), (12, 2), (25, 4), (31, 8)), delete((1, 1), (31, 8)), Resync()]
    assert run(TUMBLING, *events) == [(10, 1, 2)]
    assert run(TUMBLING, *events, commit((29, 16)), commit((31, 32))) == [(10, 1, 2), (20, 2, 20)]


def test_resync_takes_rows_after_the_newest_that_was_not_taken() -> None:
    old, rows = commit((12, 1)), commit((5, 2), (12, 4), (15, 8), (20, 16))
    assert run(TUMBLING, rows, not_taken=old) == [(0, 1, 2), (10, 2, 12)]
    assert run(TUMBLING, rows, Resync(), commit((13, 32), (4, 64)), not_taken=old) == [(10, 2, 40)]


def test_resync_of_an_empty_source() -> None:
    assert run(TUMBLING, commit((1, 1), (12, 2)), delete((1, 1), (12, 2)), Resync()) == []


def points(trigger: Interval | Sliding, first: str, number: int, zone: str = "UTC") -> list[str]:
    """Return starts (INTERVAL) or instants (SLIDING) on the zone's wall clock."""
    there = ZoneInfo(zone)
    start = datetime.fromisoformat(first).replace(tzinfo=there).astimezone(UTC)
    shown = [
        w.start if isinstance(trigger, Interval) else w.end
        for w in islice(windows(trigger, start, there), number)
    ]
    return [t.astimezone(there).strftime("%m-%d %H:%M") for t in shown]


@pytest.mark.parametrize(
    ("trigger", "first", "zone", "expected"),
    [
        (
            Sliding(Span(7, "h")),
            "2025-01-01 01:00",
            "UTC",
            ["01-01 07:00", "01-01 14:00", "01-01 21:00", "01-02 00:00"],
        ),
        (Sliding(Span(330, "m"), Span(1, "m")), "2025-05-01 22:00", "UTC", ["05-01 22:01", "05-02 00:01"]),
        (Sliding(Span(2, "d")), "2025-05-01 12:00", "UTC", ["05-03 00:00", "05-05 00:00"]),
        (Sliding(Span(1, "d"), Span(8, "h")), "2025-05-01 06:00", "UTC", ["05-01 08:00", "05-02 08:00"]),
        (Sliding(Span(25, "h")), "2025-05-01 12:00", "UTC", ["05-02 01:00", "05-03 02:00"]),
        (Sliding(Span(1, "d")), "2025-03-29 12:00", "Europe/Berlin", ["03-30 00:00", "03-31 00:00"]),
        (
            Sliding(Span(6, "h")),
            "2025-03-30 00:30",
            "Europe/Berlin",
            ["03-30 07:00", "03-30 13:00", "03-30 19:00", "03-31 00:00"],
        ),
        (
            Interval(Span(1, "d"), Span(1, "d")),
            "2025-10-25 12:00",
            "Europe/Berlin",
            ["10-25 00:00", "10-26 00:00", "10-27 00:00"],
        ),
        (Interval(Span(1, "w"), Span(1, "w")), "2025-01-01 12:00", "UTC", ["12-30 00:00", "01-06 00:00"]),
        (
            Interval(Span(1, "n"), Span(1, "n")),
            "2025-01-31 23:00",
            "America/New_York",
            ["01-01 00:00", "02-01 00:00", "03-01 00:00"],
        ),
        (Interval(Span(3, "n"), Span(3, "n")), "2025-05-05 00:00", "UTC", ["04-01 00:00", "07-01 00:00"]),
        (Interval(Span(1, "y"), Span(1, "y")), "2025-05-05 00:00", "UTC", ["01-01 00:00", "01-01 00:00"]),
        (Interval(Span(1, "d"), Span(1, "d"), Span(8, "h")), "2025-01-01 06:00", "UTC", ["12-31 08:00"]),
    ],
)
def test_grid(trigger: Interval | Sliding, first: str, zone: str, expected: list[str]) -> None:
    assert points(trigger, first, len(expected), zone) == expected


def test_a_day_of_a_change_of_clocks_is_one_window() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2025, 3, 30, 12, tzinfo=berlin).astimezone(UTC)
    day = next(windows(Interval(Span(1, "d"), Span(1, "d")), first, berlin))
    assert day.end - day.start == timedelta(hours=23)


def test_span_of_text() -> None:
    assert Span.of("5m") == Span(5, "m")
    with pytest.raises(ValueError, match="no duration"):
        Span.of("0.5s")
