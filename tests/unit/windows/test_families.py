"""Which family a stream is of, and what is so for all streams of a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.grid.family import Grid
from lakestream.engine.windows.idle.family import Idle
from lakestream.engine.windows.once.family import FireOnce
from lakestream.engine.windows.periodic import Periodic
from lakestream.engine.windows.rows.family import RowWindows
from tests.unit.windows.streams import classic, ekuiper, new, stream

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Family

EVENT_TIME = "TIMESTAMP = 'ts'"
EXACT = f"{EVENT_TIME}, EXACT = 'true'"
TUMBLING = "TUMBLINGWINDOW(ss, 10)"


def silences(trigger: str) -> Stream:
    """Return a stream of groups that fall idle, which names a trigger besides."""
    told = "STREAM_OPTIONS(IDLE_TIMEOUT(5s)) NOTIFY('ws://h:1/n') ON (IDLE)"
    return stream(f"CREATE STREAM s {trigger} FROM m PARTITION BY tbname {told}")


EVENTS = "EVENT_WINDOW(START WITH v > 1 END WITH v < 1)"


@pytest.mark.parametrize(
    ("stream", "family"),
    [
        (new("INTERVAL(10s) SLIDING(10s)"), Grid),
        (new("INTERVAL(10s) SLIDING(20s)"), Grid),
        (new("SLIDING(10s)"), Grid),
        (new("SESSION(ts, 5s)"), RowWindows),
        (new("STATE_WINDOW(v)"), RowWindows),
        (new(EVENTS), RowWindows),
        (new("COUNT_WINDOW(3, 1)"), RowWindows),
        (new("PERIOD(10s)"), Periodic),
        (silences("SESSION(ts, 5s)"), Idle),
        (silences("INTERVAL(10s) SLIDING(10s)"), Idle),
        (classic("INTERVAL(10s)"), Grid),
        (classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE"), Grid),
        (classic("SESSION(ts, 5s)"), RowWindows),
        (classic("STATE_WINDOW(v)"), RowWindows),
        (classic("EVENT_WINDOW START WITH v > 1 END WITH v < 1"), RowWindows),
        (classic("COUNT_WINDOW(3)"), RowWindows),
        (ekuiper(TUMBLING), FireOnce),
        (ekuiper("HOPPINGWINDOW(ss, 10, 5)"), FireOnce),
        (ekuiper("SLIDINGWINDOW(ss, 10)"), FireOnce),
        (ekuiper("SESSIONWINDOW(ss, 30, 5)"), FireOnce),
        (ekuiper("COUNTWINDOW(3)"), FireOnce),
        (ekuiper("STATEWINDOW(v > 1, v < 1)"), FireOnce),
        (ekuiper(TUMBLING, ""), FireOnce),
        (ekuiper(TUMBLING, EXACT), FireOnce),
    ],
)
def test_a_stream_is_of_the_family_of_its_windows(stream: Stream, family: type[Family]) -> None:
    assert type(family_of(stream)) is family


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        (Grid, {"reads_rows", "recalculates", "divides", "follows_history"}),
        (RowWindows, {"reads_rows", "recalculates", "follows_history"}),
        (FireOnce, {"isolates", "flushes", "assigns_rows", "judges_commits"}),
        (Periodic, {"divides", "judges_commits", "follows_history"}),
        (Idle, {"divides", "closes_with_rows"}),
    ],
)
def test_what_is_so_for_a_family(family: type[Family], facts: set[str]) -> None:
    known = {
        "reads_rows",
        "isolates",
        "recalculates",
        "flushes",
        "assigns_rows",
        "divides",
        "judges_commits",
        "follows_history",
        "closes_with_rows",
    }
    assert {name for name in known if getattr(family, name)} == facts


@pytest.mark.parametrize(
    ("stream", "leaves_out"),
    [
        (new("INTERVAL(10s) SLIDING(10s)"), False),
        (new("SESSION(ts, 5s)"), False),
        (new("COUNT_WINDOW(3, 1)"), False),
        (new("COUNT_WINDOW(3)"), True),
        (new("COUNT_WINDOW(3)", "EXACT"), False),
        (new("SLIDING(10s)"), True),
        (new("PERIOD(10s)"), True),
        (silences("COUNT_WINDOW(3)"), True),
        (new("SESSION(ts, 5s)", "IGNORE_DISORDER"), True),
        (classic("SESSION(ts, 5s)"), True),
        (classic("SESSION(ts, 5s)", "IGNORE EXPIRED 0"), False),
        (ekuiper(TUMBLING), True),
        (ekuiper(TUMBLING, EXACT), True),
    ],
)
def test_late_rows_count_for_nothing_where_no_window_fires_again(stream: Stream, leaves_out: bool) -> None:
    assert family_of(stream).leaves_out_late is leaves_out


@pytest.mark.parametrize(
    ("stream", "asks"),
    [
        (new("INTERVAL(10s) SLIDING(10s)"), False),
        (new("INTERVAL(10s) SLIDING(10s)", "DELETE_RECALC"), True),
        (new("INTERVAL(10s) SLIDING(10s)", "DELETE_RECALC | EXACT"), False),
        (new("SESSION(ts, 5s)", "DELETE_RECALC"), False),
        (new("PERIOD(10s)"), False),
        (ekuiper(TUMBLING), False),
        (ekuiper(TUMBLING, EXACT), True),
    ],
)
def test_the_batch_asks_for_the_state_where_only_ticks_tell(stream: Stream, asks: bool) -> None:
    assert family_of(stream).batch_needs_state is asks


SESSIONS, GRID = new("SESSION(ts, 5s)"), new("INTERVAL(10s) SLIDING(10s)")
AT_ONCE = classic("INTERVAL(10s)", "TRIGGER AT_ONCE IGNORE UPDATE 0")


@pytest.mark.parametrize(
    ("stream", "late", "only_added", "follows"),
    [
        (GRID, 3, False, True),
        (new("INTERVAL(10s) SLIDING(10s)", "IGNORE_DISORDER"), 3, False, True),
        (AT_ONCE, 0, True, True),
        (AT_ONCE, 0, False, False),
        (classic("INTERVAL(10s)", "IGNORE UPDATE 1"), 0, True, True),
        (classic("INTERVAL(10s)", "IGNORE UPDATE 1"), 0, False, False),
        (classic("INTERVAL(10s)", "IGNORE UPDATE 0"), 0, False, True),
        (SESSIONS, 3, True, True),
        (SESSIONS, 0, False, False),
        (new("SESSION(ts, 5s)", "DELETE_RECALC"), 3, False, True),
        (new("SESSION(ts, 5s)", "IGNORE_DISORDER"), 0, True, True),
        (new("SESSION(ts, 5s)", "IGNORE_DISORDER"), 1, True, False),
        (new("SESSION(ts, 5s)", "EXPIRED_TIME(1h)"), 0, True, False),
        (new("SESSION(ts, 5s)", "EXACT"), 3, False, True),
        (new("COUNT_WINDOW(3)"), 1, True, False),
        (new("PERIOD(10s)"), 0, True, False),
        (silences("SESSION(ts, 5s)"), 0, True, False),
        (ekuiper(TUMBLING), 0, True, False),
        (ekuiper(TUMBLING, EXACT), 3, False, True),
    ],
)
def test_what_was_written_follows_from_the_source_where_nothing_was_left_out_or_taken_back(
    stream: Stream, late: int, only_added: bool, follows: bool
) -> None:
    assert family_of(stream).follows_from_source(late, lambda: only_added) is follows


def elsewhere(options: str = "", result: str = "count(*)") -> Stream:
    """Return a stream whose calculation reads another table than its own."""
    return stream(
        f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m {options} INTO o AS "
        f"SELECT _twstart AS ws, {result} AS n FROM nt WHERE ts >= _twstart AND ts < _twend"
    )


@pytest.mark.parametrize(
    ("stream", "reads"),
    [
        (elsewhere(), False),
        (elsewhere("STREAM_OPTIONS(IGNORE_NODATA_TRIGGER)"), True),
        (elsewhere(result="_twrownum"), True),
        (new("INTERVAL(10s) SLIDING(10s)"), True),
        (classic("INTERVAL(10s)"), True),
        (new("PERIOD(10s)"), False),
        (ekuiper(TUMBLING), False),
    ],
)
def test_rows_of_windows_are_read_where_they_did_not_come_with_the_changes(
    stream: Stream, reads: bool
) -> None:
    assert family_of(stream).needs_rows is reads
