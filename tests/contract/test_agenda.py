"""A round looks at the streams that may have something to do, at no others, and misses nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, ManualClock
from lakestream.engine.rounds.engine import Engine
from lakestream.engine.rounds.following import Following
from lakestream.triggers.period import Period

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream.engine.rounds.runtime import StreamRuntime
    from lakestream.engine.rounds.wakeups import Look

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, clock: ManualClock) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", spark=spark, clock=clock) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o "
            "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
        )
        write(lake, 1)
        lake.run()
        assert not lake.tick_once()
        yield lake


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the streams that are looked at."""
    found: list[str] = []
    whole = Following.next

    def noted(following: Following, running: StreamRuntime, look: Look) -> object:
        found.append(running.record.name)
        return whole(following, running, look)

    monkeypatch.setattr(Following, "next", noted)
    return found


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List a number for every round that looks at streams."""
    found: list[int] = []
    whole = Engine._plan

    def counted(engine: Engine, look: Look, marks: tuple[int, ...]) -> object:
        found.append(len(found))
        return whole(engine, look, marks)

    monkeypatch.setattr(Engine, "_plan", counted)
    return found


def write(lake: Lake, minute: int) -> None:
    lake.insert("m", [{"ts": f"2025-01-01 00:{minute:02}:{second:02}", "v": 1} for second in (1, 30)])


def test_nothing_new_is_one_look(lake: Lake, rounds: list[int]) -> None:
    for _ in range(3):
        assert not lake.tick_once()
    assert not rounds


def test_a_commit_and_what_a_statement_changed_are_seen(lake: Lake, rounds: list[int]) -> None:
    write(lake, 2)
    assert [report.rows_in for report in lake.tick_once()] == [2]
    lake.run()
    seen = len(rounds)
    lake.sql("STOP STREAM s")
    write(lake, 3)
    assert not lake.tick_once()
    assert len(rounds) > seen
    lake.sql("START STREAM s")
    assert [report.rows_in for report in lake.tick_once()] == [2]


def test_what_another_handle_on_the_lake_did_is_seen(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark) as other:
        write(other, 2)
        other.run()
        other.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00' TO '2025-01-01 00:05:00'")
    assert [report.kind for report in lake.run().ticks] == ["recalculation"]


def test_a_source_that_is_gone_fails_its_stream(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "lake/main/m").rename(tmp_path / "gone")
    lake.tick_once()
    assert lake.streams()[0].status == "Failed"


def test_an_instant_of_the_clock_ends_the_rest(lake: Lake, clock: ManualClock, rounds: list[int]) -> None:
    lake.sql(
        "CREATE STREAM p PERIOD(10s) INTO op AS SELECT CAST(_tlocaltime / 1000 AS TIMESTAMP) AS t, 1 AS n"
    )
    lake.run()
    assert not lake.tick_once()
    seen = len(rounds)
    clock.advance(timedelta(seconds=9))
    assert not lake.tick_once()
    assert len(rounds) == seen
    uuid = lake._at.registry.stream("main", "p").uuid
    assert [name for name, alarm in lake.alarms.items() if isinstance(alarm, Period)] == [uuid]
    clock.advance(timedelta(seconds=1))
    assert [report.kind for report in lake.tick_once()] == ["period"]


def test_only_streams_that_may_have_something_to_do_are_looked_at(
    lake: Lake, clock: ManualClock, planned: list[str]
) -> None:
    lake.sql("CREATE TABLE other (ts TIMESTAMP, v INT)")
    lake.sql(
        "CREATE STREAM t INTERVAL(10s) SLIDING(10s) FROM other STREAM_OPTIONS(MAX_DELAY(5s)) INTO ot "
        "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows;"
        "CREATE STREAM p PERIOD(1h) FROM other INTO op "
        "AS SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS t, count(*) AS n FROM %%trows"
    )
    lake.run()
    planned.clear()
    lake.insert("other", [{"ts": "2025-01-01 00:00:01", "v": 1}])
    lake.run()
    assert set(planned) == {"t"}
    planned.clear()
    clock.advance(timedelta(seconds=6))
    assert [report.kind for report in lake.run().ticks] == ["delay"]
    assert set(planned) == {"t"}
    planned.clear()
    write(lake, 2)
    lake.run()
    assert set(planned) == {"s"}
