"""Streams that have to wait for something else than a commit go on when it is over, whenever that is."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from lakestream.engine.rounds.engine import Engine
from lakestream.engine.rounds.notifier import Notifier
from lakestream.storage.places.claims import Patience, claimed, try_claim
from lakestream.storage.records.registry import Registry
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Seen

STREAM = (
    "CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM readings STREAM_OPTIONS({options}) INTO hours "
    "AS SELECT _twstart AS hour, sum(n) AS n FROM %%trows"
)
HOURS = [(f"2025-01-01 {hour:02}:00:00", 1) for hour in range(5)]


class Skipping(SystemClock):
    """A clock that a slow machine is played with: time passes where a test says so."""

    passed = 0.0

    def monotonic(self) -> float:
        """Return the machine's seconds, and what has passed."""
        return super().monotonic() + self.passed

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.passed += seconds


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake in which each commit is a tick of its own, and each tick's output has to rest."""
    settings = Settings(durability="process", max_commits_per_tick=1, sink_commits_per_second=2)
    monkeypatch.setattr("lakestream.statements.workspace.SystemClock", Skipping)
    with Lake(tmp_path / "lake", settings=settings) as made, without_spark():
        made.sql("CREATE TABLE readings (ts TIMESTAMP, n INT)")
        yield made


def write(lake: Lake, options: str = "WATERMARK(0s)") -> None:
    lake.sql(STREAM.format(options=options))
    for at, n in HOURS:
        lake.sql(f"INSERT INTO readings VALUES ('{at}', {n})")


def hours(lake: Lake) -> int:
    return int(lake.sql("SELECT count(*) FROM hours").fetchall()[0][0])


def test_a_limit_that_ends_just_after_a_round_has_looked_ends_no_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake)
    clock, rounds = lake._at.system_clock, Engine.round
    assert isinstance(clock, Skipping)

    def slow(engine: Engine, seen: Seen) -> list[TickReport]:
        reports = rounds(engine, seen)
        clock.passed += 1
        return reports

    planned = Engine._plan

    def hasty(engine: Engine, *given: object) -> object:
        clock.passed -= 1
        return planned(engine, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "round", slow)
    monkeypatch.setattr(Engine, "_plan", hasty)
    lake.run()
    assert hours(lake) == len(HOURS) - 1


def test_a_limit_that_ends_within_a_round_leaves_no_stream_asleep(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake)
    clock, wait = lake._at.system_clock, Engine._wait
    assert isinstance(clock, Skipping)

    def slow(engine: Engine, *given: object) -> None:
        clock.passed += 1
        wait(engine, *given)  # type: ignore[arg-type]
        clock.passed -= 1

    monkeypatch.setattr(Engine, "_wait", slow)
    for _ in range(40):
        lake.tick_once()
        clock.passed += 0.2
    assert hours(lake) == len(HOURS) - 1


def test_events_that_are_sent_just_after_a_round_has_looked_end_no_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake)
    asked: list[str] = []

    def blocked_once(_: Notifier, uuid: str) -> bool:
        asked.append(uuid)
        return len(asked) == 1

    monkeypatch.setattr(Notifier, "is_blocked", blocked_once)
    lake.run()
    assert hours(lake) == len(HOURS) - 1


def test_a_stream_that_another_process_works_on_goes_on_after_it(lake: Lake) -> None:
    write(lake)
    lake.tick_once()
    at = lake._at
    (record,) = at.registry.streams()
    with claimed(
        *(at.layout, "verify", {record.uuid: "s"}),
        wait_seconds=0,
        clock=at.lock_clock,
        now=0.0,
        told=lambda _: nullcontext(),
    ):
        for _ in range(3):
            assert lake.tick_once() == []
    lake.run()
    assert hours(lake) == len(HOURS) - 1


def test_what_others_record_during_a_round_is_seen_by_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake, "FILL_HISTORY")
    lake.sql("STOP STREAM s")
    lake.run()
    at, wait = lake._at, Engine._wait

    def beside(engine: Engine, *given: object) -> None:
        (record,) = Registry(at.layout).streams()
        Registry(at.layout).update(record.uuid, status="Running")
        wait(engine, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "_wait", beside)
    at.engine.forget()
    lake.tick_once()
    monkeypatch.setattr(Engine, "_wait", wait)
    lake.run()
    assert hours(lake) == len(HOURS) - 1


def test_what_is_flushed_is_all_that_is_there(lake: Lake) -> None:
    lake.sql("CREATE TABLE events (ts TIMESTAMP, n INT)", dialect="ekuiper")
    query = "SELECT count(*) AS n FROM events GROUP BY TUMBLINGWINDOW(hh, 1)"
    lake.sql(f"CREATE STREAM e WITH (TIMESTAMP='ts') INTO counts AS {query}", dialect="ekuiper")
    for at, n in HOURS:
        lake.sql(f"INSERT INTO events VALUES ('{at}', {n})")
    lake.sql("FLUSH STREAM e")
    assert lake.sql("SELECT count(*), sum(n) FROM counts").fetchall() == [(len(HOURS), len(HOURS))]
    assert lake.sql("SELECT count(*) FROM e__errors").fetchall() == [(0,)]


@pytest.mark.parametrize("wanted", ["a tick", "a recalculation"])
def test_a_run_waits_for_who_works_on_a_stream(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    write(lake)
    if wanted == "a recalculation":
        lake.run()
        lake.recalculate("s", "2025-01-01", "2025-01-02")
    at, clock = lake._at, lake._at.system_clock
    (record,) = at.registry.streams()
    assert isinstance(clock, Skipping)
    claim, began = try_claim(at.layout, record.uuid), clock.monotonic()
    assert claim is not None
    assert lake.run().ticks == []
    assert clock.monotonic() - began >= at.settings.lock_wait_seconds
    asked = Patience.waits

    def released(patience: Patience) -> bool:
        claim.release()
        return asked(patience)

    monkeypatch.setattr(Patience, "waits", released)
    assert lake.run().ticks != []
    assert hours(lake) == len(HOURS) - 1
    assert {job.status for job in lake.recalculations("s")} <= {"Done"}


def test_a_round_asks_once_and_with_each_claim_how_far_the_registry_has_come(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake)
    lake.run()
    asked, marks, clock = [], Registry.marks, lake._at.system_clock

    def counted(registry: Registry) -> tuple[int, ...]:
        asked.append(registry)
        return marks(registry)

    monkeypatch.setattr(Registry, "marks", counted)
    lake.sql("INSERT INTO readings VALUES ('2025-01-01 06:00:00', 1)")
    for ticks, claims in ((1, 1), (0, 1), (0, 0)):  # a stream that has just ticked is looked at again
        asked.clear()
        assert isinstance(clock, Skipping)
        clock.passed += 60  # the limit of the output's commits holds nothing
        assert len(lake.tick_once()) == ticks
        assert len(asked) == 1 + claims
