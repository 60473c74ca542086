"""What time alone makes due: the clock's windows, delays, windows by arrival, instants of PERIOD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.base.state import GroupState
from lakestream.engine.windows.delays import Delays
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Due, Standing
from lakestream.engine.windows.once.admission import stale_state
from tests.unit.windows.streams import SECOND, classic, ekuiper, new

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

TENS, SESSION, TUMBLING = "INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)", "TUMBLINGWINDOW(ss, 10)"
BY_CLOCK = classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE")
SHIFTED = classic("INTERVAL(10s, 2s)", "TRIGGER FORCE_WINDOW_CLOSE")
NO_SPARK: Any = None


def standing(
    *, closed: int = 0, opened: dict[int, int] | None = None, state: GroupState | None = None
) -> Standing:
    """Return where a stream stands; ``opened``: when its windows (of group 1) opened, delay 5 s. Seconds."""
    delays = None
    if opened is not None:
        delays = Delays(5 * SECOND)
        for k, second in opened.items():
            delays.follow([*((1, known) for known in opened if known < k), (1, k)], second * SECOND)
    return Standing(state or GroupState(), closed * SECOND, delays)


def held(*due: int | None) -> GroupState:
    """Return a state of admitted rows whose windows time ends at some seconds; the first row says so."""
    instants = [None, *(None if second is None else second * SECOND for second in due)]
    count = len(instants)
    return GroupState(
        pa.table(
            {
                "_ls_ts": [0] * count,
                "_ls_v": [-1, *[3] * (count - 1)],
                "_ls_n": [0] * count,
                "_ls_due": pa.array(instants, pa.int64()),
            }
        )
    )


@pytest.mark.parametrize(
    ("stream", "closed", "now", "due"),
    [
        (BY_CLOCK, 0, 9, None),
        (BY_CLOCK, 0, 10, (0, 10)),
        (BY_CLOCK, 10, 19, None),
        (BY_CLOCK, 10, 45, (10, 40)),
        (SHIFTED, 2, 11, None),
        (SHIFTED, 2, 12, (2, 12)),
    ],
)
def test_the_clock_closes_all_windows_that_have_ended_since(
    stream: Stream, closed: int, now: int, due: tuple[int, int] | None
) -> None:
    found = family_of(stream).due(standing(closed=closed), now * SECOND)
    ends = None if due is None else (due[0] * SECOND, due[1] * SECOND)
    assert found == (None if ends is None else Due("clock", closed=ends))


@pytest.mark.parametrize(("stream", "now", "following"), [(BY_CLOCK, 45, 50), (SHIFTED, 45, 52)])
def test_the_clock_closes_the_next_window_at_its_end(stream: Stream, now: int, following: int) -> None:
    assert family_of(stream).next_due(standing(), now * SECOND) == following * SECOND


DELAYED = [
    new(TENS, "MAX_DELAY(5s)"),
    new(SESSION, "MAX_DELAY(5s)"),
    classic("INTERVAL(10s)", "TRIGGER MAX_DELAY 5s"),
]


@pytest.mark.parametrize("stream", DELAYED)
def test_open_windows_are_due_when_their_delay_is_over(stream: Stream) -> None:
    family, stands = family_of(stream), standing(opened={10: 0, 20: 3})
    assert family.next_due(stands, 0) == 5 * SECOND
    assert family.due(stands, 4 * SECOND) is None
    assert family.due(stands, 5 * SECOND) == Due("delay", windows=[(1, 10)])
    assert family.due(stands, 8 * SECOND) == Due("delay", windows=[(1, 10), (1, 20)])


@pytest.mark.parametrize(
    "stream", [new(TENS), new("SLIDING(10s)"), new(SESSION), new("PERIOD(10s)"), ekuiper(TUMBLING)]
)
def test_nothing_is_due_by_time_alone_where_rows_move_it(stream: Stream) -> None:
    family = family_of(stream)
    assert (family.due(standing(), 90 * SECOND), family.next_due(standing(), 90 * SECOND)) == (None, None)


@pytest.mark.parametrize(
    ("state", "now", "due", "following"),
    [
        (GroupState(), 90, False, None),
        (held(None), 90, False, None),
        (held(30, 20), 19, False, 20),
        (held(30, 20, None), 20, True, 20),
        (held(30, 20), 90, True, 20),
    ],
)
def test_time_ends_windows_of_rows_by_arrival(
    state: GroupState, now: int, due: bool, following: int | None
) -> None:
    family, stands = family_of(ekuiper(TUMBLING, "")), standing(state=state)
    assert family.due(stands, now * SECOND) == (Due("clock") if due else None)
    assert family.next_due(stands, now * SECOND) == (None if following is None else following * SECOND)


def test_time_does_not_end_windows_in_event_time() -> None:
    family, stands = family_of(ekuiper(TUMBLING)), standing(state=held(20))
    assert (family.due(stands, 90 * SECOND), family.next_due(stands, 0)) == (None, None)


@pytest.mark.parametrize(
    ("stream", "opened", "saves"),
    [
        (new(TENS), None, False),
        (new(TENS, "MAX_DELAY(5s)"), {}, True),
        (new(SESSION), None, True),
        (new("COUNT_WINDOW(3)"), None, True),
        (new("PERIOD(10s)"), None, False),
        (ekuiper(TUMBLING), None, False),
        (ekuiper(TUMBLING, ""), None, True),
    ],
)
def test_a_state_that_depends_on_which_ticks_there_were_is_saved_with_each(
    stream: Stream, opened: dict[int, int] | None, saves: bool
) -> None:
    assert family_of(stream).saves_each_tick(standing(opened=opened)) is saves


@pytest.mark.parametrize(
    ("stream", "state", "stale"),
    [
        (ekuiper(TUMBLING), stale_state(), True),
        (ekuiper(TUMBLING), held(20), False),
        (ekuiper(TUMBLING), GroupState(), False),
        (new(TENS), GroupState(pa.table({"gid": [1], "newest": [5]})), False),
    ],
)
def test_a_state_may_ask_for_all_windows_to_be_made_anew(
    stream: Stream, state: GroupState, stale: bool
) -> None:
    assert family_of(stream).is_stale(state) is stale


@pytest.mark.parametrize(
    ("created", "after", "instants"),
    [(3, 3, [10, 20, 30]), (10, 10, [20, 30, 40])],
)
def test_the_clock_triggers_at_instants_counted_from_midnight(
    created: int, after: int, instants: list[int]
) -> None:
    period = family_of(new("PERIOD(10s)")).instants(created * SECOND)
    assert period is not None
    found = [after * SECOND]
    for _ in instants:
        found.append(period.after(found[-1]))
    assert found[1:] == [second * SECOND for second in instants]


@pytest.mark.parametrize("stream", [new(TENS), BY_CLOCK, new(SESSION), ekuiper(TUMBLING, "")])
def test_other_streams_have_no_instants_of_the_clock(stream: Stream) -> None:
    assert family_of(stream).instants(0) is None


GROUPS = pa.table(
    {
        "gid": [1, 2, 3],
        "resume": pa.array([100, None, 300], pa.int64()),
        "starts": pa.array([[100, 110], [], [300]], pa.list_(pa.int64())),
        "opened": pa.array([[], [], [300, 310]], pa.list_(pa.int64())),
    }
)


@pytest.mark.parametrize(
    ("stream", "opened"),
    [
        (new(SESSION, "MAX_DELAY(5s)"), [(1, 100), (3, 300)]),
        (new("COUNT_WINDOW(3, 2)", "MAX_DELAY(5s)"), [(1, 100), (1, 110), (3, 300)]),
        (classic(SESSION, "TRIGGER MAX_DELAY 5s"), [(3, 300), (3, 310)]),
    ],
)
def test_open_row_windows_are_those_that_the_state_lists(
    stream: Stream, opened: list[tuple[int, int]]
) -> None:
    assert family_of(stream).open_windows(NO_SPARK, GROUPS) == opened


def test_instants_and_admitted_windows_are_never_open() -> None:
    for stream in (new("PERIOD(10s)"), ekuiper(TUMBLING)):
        assert family_of(stream).open_windows(NO_SPARK, GROUPS) == []
