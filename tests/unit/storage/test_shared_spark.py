"""A Spark that has died: when another one is started, and who hears of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.errors import BusyError, LakestreamError, PrerequisiteError, SparkGoneError
from lakestream.storage.sessions import session as sessions
from lakestream.storage.sessions.shared import LIVED_SECONDS, MOST_IN_A_ROW, Deaths, SharedSpark

GONE = SparkGoneError("SPARK_DIED", "process 9 has ended")


def at() -> ManualClock:
    return ManualClock(datetime(2025, 1, 1, tzinfo=UTC))


class Sparks:
    """Starts sessions that are nothing but names, and tells of each whether it lives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started = 0
        self.dead: set[str] = set()
        self.fails: LakestreamError | None = None
        self.are_ours = True
        monkeypatch.setattr(sessions, "spark_session", self._start)
        monkeypatch.setattr(sessions, "adopt_session", lambda given: given)
        monkeypatch.setattr(sessions, "check_given", self._check)
        monkeypatch.setattr(sessions, "forget_spark", lambda _: self.are_ours)

    def _start(self, *_: object) -> str:
        if self.fails is not None:
            raise self.fails
        self.started += 1
        return f"spark {self.started}"

    def _check(self, spark: str) -> None:
        if spark in self.dead:
            raise GONE


@pytest.fixture
def sparks(monkeypatch: pytest.MonkeyPatch) -> Sparks:
    return Sparks(monkeypatch)


def asked(spark: SharedSpark) -> str:
    return cast("str", spark.session(cast("Any", None), list))


def test_pauses_grow_while_each_dies_soon_and_there_is_an_end() -> None:
    clock = at()
    deaths = Deaths(clock)
    pauses = []
    for _ in range(MOST_IN_A_ROW - 1):
        deaths.began()
        deaths.note(GONE)
        begun = clock.monotonic()
        while deaths.rests:
            clock.advance(timedelta(seconds=1))
        pauses.append(clock.monotonic() - begun)
        deaths.check()
    assert pauses == [0, 2, 4, 8, 16, 32, 60, 60, 60]
    deaths.note(GONE)
    assert (deaths.goes_on, deaths.rests) == (False, True)
    with pytest.raises(SparkGoneError):
        deaths.check()


def test_one_that_has_lived_is_followed_at_once() -> None:
    clock = at()
    deaths = Deaths(clock)
    for _ in range(3 * MOST_IN_A_ROW):
        deaths.began()
        clock.advance(timedelta(seconds=LIVED_SECONDS))
        deaths.note(GONE)
        assert not deaths.rests
    assert deaths.count == 3 * MOST_IN_A_ROW


def test_whoever_needs_spark_has_another_one(sparks: Sparks) -> None:
    spark = SharedSpark(None, None, at())
    assert asked(spark) == asked(spark) == "spark 1"
    sparks.dead.add("spark 1")
    assert spark.goes_on()
    assert asked(spark) == "spark 2"
    sparks.dead.add("spark 2")
    with pytest.raises(BusyError, match="SPARK_RESTING"):
        asked(spark)
    assert (spark.deaths.count, sparks.started) == (2, 2)


def test_a_start_that_fails_after_a_death_is_one_too(sparks: Sparks) -> None:
    spark, failed = SharedSpark(None, None, at()), PrerequisiteError("SPARK_NOT_STARTED", "killed")
    sparks.fails = failed
    with pytest.raises(PrerequisiteError):
        asked(spark)
    sparks.fails = None
    asked(spark)
    sparks.dead.add("spark 1")
    sparks.fails = failed
    with pytest.raises(BusyError, match="SPARK_RESTING"):
        asked(spark)
    assert spark.deaths.count == 2


def test_a_spark_of_another_owner_is_not_replaced(sparks: Sparks) -> None:
    given, found = SharedSpark(cast("Any", "given"), None, at()), SharedSpark(None, None, at())
    asked(given)
    asked(found)
    sparks.dead |= {"given", "spark 1"}
    sparks.are_ours = False
    for spark in (given, found):
        assert not spark.goes_on()
        with pytest.raises(SparkGoneError):
            asked(spark)
    assert sparks.started == 1


def test_a_round_says_once_that_spark_has_died(
    tmp_path_factory: pytest.TempPathFactory, sparks: Sparks
) -> None:
    with Lake(tmp_path_factory.mktemp("lake")) as lake:
        assert asked(lake._at.spark) == "spark 1"
        sparks.dead.add("spark 1")
        assert asked(lake._at.spark) == "spark 2"  # a statement has noticed
        with pytest.raises(SparkGoneError):
            lake.tick_once(ended=lambda: None)
        assert lake.tick_once(ended=lambda: None) == []


def dies(spark: SharedSpark, sparks: Sparks, who: str) -> None:
    """Have the Spark die of which somebody's statement is."""

    def statement() -> None:
        with spark.guests.asking(who):
            sparks.dead.add(asked(spark))
            raise GONE

    with pytest.raises(SparkGoneError):
        statement()


def waits(spark: SharedSpark, clock: ManualClock, who: str) -> float:
    """Return the seconds for which somebody's statements that need Spark are refused."""
    begun = clock.monotonic()
    while (refused := refusal(spark, who)) is not None:
        clock.advance(timedelta(seconds=int(refused.message.split()[-2])))
    return clock.monotonic() - begun


def refusal(spark: SharedSpark, who: str) -> BusyError | None:
    """Return what somebody's statement that needs Spark is refused with."""
    try:
        with spark.guests.asking(who):
            asked(spark)
    except BusyError as refused:
        return refused
    return None


def test_who_has_spark_die_again_and_again_waits_longer_each_time_and_nobody_else(sparks: Sparks) -> None:
    clock = at()
    spark = SharedSpark(None, None, clock)
    pauses = []
    for _ in range(2 * MOST_IN_A_ROW):
        dies(spark, sparks, "bob")
        assert spark.goes_on()
        assert not spark.deaths.rests
        assert asked(spark) == f"spark {sparks.started}"  # a tick goes on at once
        assert waits(spark, clock, "ann") == 0
        pauses.append(waits(spark, clock, "bob"))
    assert pauses[:8] == [0, 2, 4, 8, 16, 32, 64, 128]
    assert pauses[-1] == 3600
    clock.advance(timedelta(days=1, seconds=1))
    dies(spark, sparks, "bob")
    assert waits(spark, clock, "bob") == 0


def test_guests_are_the_reason_only_while_they_are_in(sparks: Sparks) -> None:
    spark = SharedSpark(None, None, at())
    asked(spark)
    with pytest.raises(SparkGoneError), spark.guests.asking("bob"):
        raise GONE  # without Spark: it is another's error
    assert not spark.guests.were_in
    with spark.guests.asking("bob"):
        asked(spark)
        asked(spark)
        assert spark.guests.were_in
    assert not spark.guests.were_in
    dies(spark, sparks, "bob")
    assert spark.guests.were_in  # until another Spark is there
    asked(spark)
    assert not spark.guests.were_in
    sparks.dead.add("spark 2")
    with spark.guests.asking("bob"):
        assert asked(spark) == "spark 3"  # that one died before
    sparks.dead.add("spark 3")
    with pytest.raises(BusyError, match="SPARK_RESTING"):
        asked(spark)
