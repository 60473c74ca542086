"""Windows that are written before they close: however the input comes, the output is the reference's."""

from __future__ import annotations

from datetime import timedelta
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream.clock import ManualClock
from tests.properties.meters import SECONDS, START, STATES, World, from_first_to_last
from tests.reference import cut
from tests.tiers import by_spark, leaving

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.properties.meters import Row, Window, Windows

pytestmark = [pytest.mark.spark]


def _of_time(length: int, step: int) -> Windows:
    """Return the windows of a length, one every step, that hold rows."""

    def windows(rows: Sequence[Row]) -> list[Window]:
        starts = sorted({at - at % step - back for at, _ in rows for back in range(0, length, step)})
        held = ((low, [row for row in rows if low <= row[0] < low + length]) for low in starts)
        return [(low, low + length, inside) for low, inside in held if inside]

    return windows


def _events(rows: Sequence[Row]) -> list[Window]:
    return from_first_to_last(cut.events(rows, lambda v: v == 1, lambda v: v == 2, still_open=True))


KINDS: dict[str, tuple[str, Windows]] = {
    "tumbling": ("INTERVAL(10s)", _of_time(10, 10)),
    "hopping": ("INTERVAL(10s) SLIDING(5s)", _of_time(10, 5)),
    "session": ("SESSION(ts, 4s)", lambda rows: _sessions(rows, 4)),
    "state": ("STATE_WINDOW(v)", lambda rows: from_first_to_last(cut.states(rows, still_open=True))),
    "count": ("COUNT_WINDOW(3)", lambda rows: from_first_to_last(cut.counts(rows, 3, 3, still_open=True))),
    "sliding-count": (
        "COUNT_WINDOW(4, 2)",
        lambda rows: from_first_to_last(cut.counts(rows, 4, 2, still_open=True)),
    ),
}


def _sessions(rows: Sequence[Row], gap: int) -> list[Window]:
    """Return sessions; the classic syntax says that they end when the gap is over."""
    return [
        (low, high + gap, inside)
        for low, high, inside in from_first_to_last(cut.sessions(rows, gap, still_open=True))
    ]


def _write_some(world: World, random: Random, seconds: range, kind: str) -> range:
    """Write rows at some of the seconds, and return those of the next ones."""
    fresh = random.sample(seconds, 5)
    if "count" in kind:  # counted windows take no late rows (TDengine A7)
        seconds = range(max(fresh) + 1, max(fresh) + 12)
    world.write({(random.choice(["a", "b"]), at): random.choice(STATES) for at in fresh})
    return seconds


@pytest.mark.parametrize(
    ("kind", "transport"), leaving(zip(KINDS, cycle(["arrow", "spark"]), strict=False), by_spark)
)
def test_at_once_every_window_is_as_its_rows_are(
    tmp_path: Path, spark: SparkSession, kind: str, transport: str
) -> None:
    random, (clause, windows) = Random(f"{kind} {transport}"), KINDS[kind]
    world = World(
        tmp_path,
        spark,
        "CREATE STREAM s TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 "
        "INTO o TAGS (tag_tbname VARCHAR(9)) AS "
        "SELECT _wstart AS ws, _wend AS we, count(*) AS n, sum(v) AS total "
        f"FROM meters PARTITION BY tbname AS tag_tbname {clause}",
        windows,
        transport,
    )
    seconds = range(SECONDS)
    for _ in range(5):
        for _ in range(random.choice([1, 1, 2])):
            seconds = _write_some(world, random, seconds, kind)
        world.run()


BY_EVENTS = "EVENT_WINDOW(START WITH v = 1 END WITH v = 2)"
DELAYED: dict[str, tuple[str, Windows]] = {
    **KINDS,
    "tumbling": ("INTERVAL(10s) SLIDING(10s)", _of_time(10, 10)),
    "session": (
        "SESSION(ts, 4s)",
        lambda rows: from_first_to_last(cut.sessions(rows, 4, still_open=True)),
    ),
    "event": (BY_EVENTS, _events),
}


@pytest.mark.parametrize(
    ("kind", "transport"), leaving(zip(DELAYED, cycle(["arrow", "arrow", "spark"]), strict=False), by_spark)
)
def test_after_the_delay_every_window_is_as_its_rows_are(
    tmp_path: Path, spark: SparkSession, kind: str, transport: str
) -> None:
    random, (clause, windows), clock = Random(f"{kind} {transport}"), DELAYED[kind], ManualClock(START)
    options = "MAX_DELAY(5s) | IGNORE_NODATA_TRIGGER" if "INTERVAL" in clause else "MAX_DELAY(5s)"
    world = World(
        tmp_path,
        spark,
        f"CREATE STREAM s {clause} FROM meters PARTITION BY tbname STREAM_OPTIONS({options}) INTO o AS "
        "SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(v) AS total FROM %%trows",
        windows,
        transport,
        clock=clock,
    )
    seconds = range(SECONDS)
    for _ in range(3):
        for _ in range(random.choice([1, 1, 2])):
            seconds = _write_some(world, random, seconds, kind)
            world.tick()
            clock.advance(timedelta(seconds=random.choice([0, 2])))
        clock.advance(timedelta(seconds=6))
        world.run()


def _from_the_first(length: int, step: int) -> Windows:
    """Return the windows of a length, one every step, from that of the first row to that of the newest."""

    def windows(rows: Sequence[Row]) -> list[Window]:
        first = (rows[0][0] - length) // step * step + step
        return [(low, low, rows) for low in range(first, rows[-1][0] + 1, step)]

    return windows


OPENING: dict[str, tuple[str, Windows]] = {
    **DELAYED,
    "tumbling": ("INTERVAL(10s) SLIDING(10s)", _from_the_first(10, 10)),
    "hopping": ("INTERVAL(10s) SLIDING(5s)", _from_the_first(10, 5)),
}


@pytest.mark.parametrize(
    ("kind", "transport"), leaving(zip(OPENING, cycle(["spark", "arrow", "arrow"]), strict=False), by_spark)
)
def test_every_window_is_written_as_it_was_when_it_opened(
    tmp_path: Path, spark: SparkSession, kind: str, transport: str
) -> None:
    random, (clause, windows) = Random(f"{kind} {transport}"), OPENING[kind]

    def as_opened(rows: Sequence[Row]) -> list[Window]:
        return [(low, low, [row for row in rows if row[0] <= low]) for low, *_ in windows(rows)]

    world = World(
        tmp_path,
        spark,
        f"CREATE STREAM s {clause} FROM meters PARTITION BY tbname "
        "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) INTO o AS "
        "SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(v) AS total "
        "FROM meters WHERE tbname = %%tbname AND ts <= _twstart",
        as_opened,
        transport,
    )
    since = 0
    for _ in range(4):
        for _ in range(random.choice([1, 1, 2])):
            fresh = random.sample(range(since, since + 15), 6)
            since = max(fresh) + 1
            world.write({(random.choice(["a", "b"]), at): random.choice(STATES) for at in fresh})
        world.run()
