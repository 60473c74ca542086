"""The reference against figures worked out by hand (the same as in the conformance cases)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.reference.aggregates import figures
from tests.reference.fold import Change, Commit, Stream, evaluate
from tests.reference.grid import Interval, Sliding, Span, windows

TEN = Span(10, "s")
TUMBLING = Interval(TEN, TEN)
EVERY_TEN = Sliding(TEN)
COUNT_AND_SUM = figures(("count", "*"), ("sum", "v"))


def at(seconds: float) -> datetime:
    """Return an instant of the first minute of 2025."""
    return datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def commit(*rows: tuple[float, int], table: str | None = None) -> Commit:
    """Return a commit of (second, v) rows."""
    return [Change({"tbname": table, "ts": at(s), "v": v}) for s, v in rows]


def run(trigger: Interval | Sliding, *commits: Commit, **options: Any) -> list[tuple[Any, ...]]:
    """Return (end for SLIDING, start for INTERVAL, in seconds; figures…) in order."""
    written = evaluate(Stream(trigger, COUNT_AND_SUM, **options), commits)
    shown = 0 if isinstance(trigger, Interval) else 1
    return sorted(((row[shown] - at(0)).total_seconds(), *row[2:]) for row in written)


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
        commit((1, 1), table="t1") + commit((2, 2), table="t2"),  # type: ignore[operator]
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


def test_delete_changes_nothing_that_fired() -> None:
    gone = [Change({"tbname": None, "ts": at(5), "v": 2}, "delete")]
    rows = commit((1, 1), (5, 2), (12, 4))
    assert run(TUMBLING, rows, gone) == [(0, 2, 3)]
    assert run(TUMBLING, commit((1, 1), (5, 2)), gone, commit((12, 4))) == [(0, 1, 1)]


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
    admits = {"admits": lambda row: row["v"] > 0}
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
