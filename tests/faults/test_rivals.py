"""Answers that get lost, and processes that think a tick is theirs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from lakestream.errors import BusyError, StorageError
from lakestream.storage.places.claims import Claim
from lakestream.storage.records.registry import Registry
from lakestream.storage.writes import commit as module
from tests.faults.attach import child, gateway_of
from tests.faults.meters import NEIGHBOUR, TUMBLING, Story

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]

WRITERS = {"arrow": "_write_arrow", "spark": "_write_spark"}


def begun(folder: Path, spark: SparkSession, transport: str = "arrow") -> Story:
    story = Story(folder / "lake", spark, TUMBLING, transport).begin()
    story.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    return story


def once(action: Callable[..., None], then: Callable[..., None]) -> Callable[..., None]:
    """Return a function that does ``action`` the first time, and ``then`` later."""
    left = [action]

    def run(*arguments: Any, **named: Any) -> None:
        (left.pop() if left else then)(*arguments, **named)

    return run


@pytest.mark.parametrize("transport", WRITERS)
def test_a_commit_whose_answer_is_lost_is_recognised(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    story = begun(tmp_path, spark, transport)
    written = getattr(module, WRITERS[transport])

    def lost(*arguments: Any) -> None:
        written(*arguments)
        raise OSError("connection lost")

    monkeypatch.setattr(module, WRITERS[transport], once(lost, written))
    assert [report.error for report in story.run()] == [None]
    story.check()


@pytest.mark.parametrize("transport", WRITERS)
def test_a_commit_that_fails_is_tried_again_until_it_is_made(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    story = begun(tmp_path, spark, transport)

    def full(*_arguments: Any) -> None:
        raise OSError("No space left on device")

    written = getattr(module, WRITERS[transport])
    monkeypatch.setattr(module, WRITERS[transport], full)
    story.run()
    status = story.status()
    assert (status.status, status.retry_us is None) == ("Retrying", False)
    assert (status.last_error or "").startswith("COMMIT_FAILED: ")
    assert "No space left" in (status.last_error or "")
    monkeypatch.setattr(module, WRITERS[transport], written)
    story.run()
    assert (story.status().status, story.status().last_error) == ("Running", None)
    story.check()


def test_a_tick_that_could_not_be_recorded_is_not_taken_for_a_larger_one(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is there, its record is not, and the same process goes on with more rows."""
    story = begun(tmp_path, spark)

    def fail(*_arguments: Any) -> None:
        raise StorageError("COMMIT_FAILED", "no space left")

    with story.opened() as lake:
        with monkeypatch.context() as patched:
            patched.setattr(Registry, "write_progress", fail)
            with pytest.raises(StorageError):
                lake.run()
        story.write(("a", 52, 5), ("b", 55, 6))
        assert not lake.run().failed
    story.check()


def test_a_process_that_was_overtaken_in_its_tick_is_fenced(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept between its plan and its commit, and another one did the tick: without the lake's lock."""
    story = begun(tmp_path, spark)
    sleeper = unlocked(story)
    meanwhile(monkeypatch, "_write_arrow", lambda: unlocked(story).run())
    [report] = sleeper.tick_once()
    assert report.error is not None
    assert "another process" in report.error
    status = story.status()
    assert status.status == "Failed"
    assert (status.last_error or "").startswith("FENCED: ")
    with story.opened() as lake:
        lake.sql("START STREAM s")
    story.write(("a", 52, 5), ("b", 55, 6))
    story.run()
    story.check()
    assert story.verify()


def test_a_process_that_went_on_sleeping_is_fenced_ticks_later(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = begun(tmp_path, spark)
    sleeper = unlocked(story)

    def two_ticks() -> None:
        other = unlocked(story)
        other.run()
        story.write(("a", 52, 5), ("b", 55, 6))
        other.run()

    meanwhile(monkeypatch, "_write_arrow", two_ticks)
    [report] = sleeper.tick_once()
    assert report.error is not None
    with story.opened() as lake:
        lake.sql("START STREAM s")
    story.run()
    story.check()


@pytest.mark.parametrize("transport", WRITERS)
def test_a_commit_that_a_gone_process_left_behind_counts(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """Its commit was under way when it was killed, and lands when its successor does the same tick."""
    story = begun(tmp_path, spark, transport)
    gone, successor = unlocked(story), unlocked(story)
    assert gone._at.engine.services.epoch < successor._at.engine.services.epoch
    meanwhile(monkeypatch, WRITERS[transport], gone.run)
    assert [report.error for report in successor.tick_once()] == [None]
    story.run()
    story.check()


def meanwhile(monkeypatch: pytest.MonkeyPatch, writer: str, others: Callable[[], object]) -> None:
    """Let others do something between the plan and the commit of the next one that writes."""
    written = getattr(module, writer)

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(module, writer, written)
        others()
        written(*arguments)

    monkeypatch.setattr(module, writer, late)


def unlocked(story: Story) -> Lake:
    """Open the lake as two machines on one object store do: nothing keeps them apart but the commits."""
    lake = story.opened()
    layout = lake._at.layout = _Elsewhere(lake._at.layout)  # type: ignore[assignment]
    lake._at.engine.services.turns.try_claim = lambda uuid: Claim(cast("Any", layout), uuid, None)
    return lake


class _Elsewhere:
    """A layout that says it is not local, so that no lock is taken."""

    is_local = False

    def __init__(self, layout: object) -> None:
        self._layout = layout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layout, name)


def test_a_second_process_leaves_alone_what_the_first_one_ticks(tmp_path: Path, spark: SparkSession) -> None:
    """The first one is stopped in the middle of a tick, and goes on afterwards."""
    story = begun(tmp_path, spark)
    with child("tests.faults.child", str(story.root), "arrow", "--stop-at=C3", **gateway_of(spark)) as first:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        impatient = Settings(lock_wait_seconds=0)
        with Lake(story.root, spark=spark, settings=impatient) as lake:
            assert lake.tick_once() == []
            streams = lake.streams()
            assert [status.status for status in streams] == ["Running", "Running"]
            [ticked] = [status.name for status in streams if status.name != NEIGHBOUR]
            with pytest.raises(BusyError, match="STREAM_BUSY"):
                lake.sql(f"DROP STREAM {ticked}")
            lake.sql("CREATE TABLE beside (ts TIMESTAMP, v INT)")
        first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=240) == 0
    story.run()
    story.check()


def test_two_processes_that_watch_one_lake_share_the_work(tmp_path: Path, spark: SparkSession) -> None:
    story = begun(tmp_path, spark)
    gateway = gateway_of(spark)
    arguments = ("tests.faults.child", str(story.root), "arrow", "--watch")
    with child(*arguments, **gateway) as one, child(*arguments, **gateway) as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for at in range(40, 120, 20):
            story.write(("a", at, at), ("b", at + 3, at), ("a", at - 38, 1))
        while story.status().lag:
            SystemClock().sleep(0.2)
            assert (one.poll(), two.poll(), story.status().status) == (None, None, "Running")
        for process in (one, two):
            process.terminate()
            assert process.wait(timeout=240) == 0
    story.run()
    story.check()
    assert story.verify()
