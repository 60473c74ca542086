"""The outbox, damaged while events wait in it: seen, named, and led out of with each event once, in order."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.lake import Lake
from lakestream.notify.outbox import Outbox
from lakestream.settings import Settings
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a NOTIFY('{url}') ON (WINDOW_CLOSE) INTO o AS
  SELECT _twstart AS w, sum(v) AS t FROM %%trows;
CREATE STREAM other INTERVAL(1m) SLIDING(1m) FROM a INTO oo AS SELECT _twstart AS w, sum(v) AS t FROM %%trows;
"""
SETTINGS = Settings(notify_hosts=("localhost",))


class Story:
    """A lake whose target has the events of the first minutes, and was away since."""

    def __init__(self, root: Path) -> None:
        self.root, self.minute = root, 0
        self.catcher = Catcher()
        self.lake = self.opened()
        self.lake.sql(TABLES.format(url=self.catcher.url))
        for _ in range(3):
            self.come()
        self.lake.run()
        self.lake.close()
        self.catcher.close()
        self.lake = self.opened()
        for _ in range(3):
            self.come()
        self.lake.close()
        self.sent = [self.catcher]

    def opened(self) -> Lake:
        return Lake(self.root, settings=SETTINGS)

    @property
    def outbox(self) -> Path:
        return self.root / "_lakestream" / "outbox"

    def come(self) -> None:
        self.lake.insert("a", [{"ts": f"2026-01-01 00:{self.minute:02}:00", "v": self.minute}])
        self.minute += 1
        self.lake.run()

    def reopen(self) -> None:
        """Open the lake, and have the target be there again."""
        self.lake.close()
        if len(self.sent) == 1:
            self.sent.append(Catcher(self.catcher.port))
        self.lake = self.opened()

    def results(self) -> list[int]:
        """Return the results that came, each message once, in order."""
        messages = {one["messageId"]: one for caught in self.sent for one in caught.messages}
        return [
            event["result"]["t"]
            for message in messages.values()
            for stream in message["streams"]
            for event in stream["events"]
        ]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()
    told.sent[-1].close()


def newest(outbox: Path, pattern: str) -> Path:
    return max(outbox.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def unlink_all(outbox: Path) -> None:
    for file in outbox.glob("*.parquet"):
        file.unlink()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "folder gone": shutil.rmtree,
    "log gone": lambda outbox: shutil.rmtree(outbox / "_delta_log"),
    "newest entry gone": lambda outbox: max(outbox.glob("_delta_log/*.json")).unlink(),
    "newest entry torn": lambda outbox: half(max(outbox.glob("_delta_log/*.json"))),
    "newest entry empty": lambda outbox: max(outbox.glob("_delta_log/*.json")).write_bytes(b""),
    "first entry torn": lambda outbox: half(min(outbox.glob("_delta_log/*.json"))),
    "an entry gone": lambda outbox: sorted(outbox.glob("_delta_log/*.json"))[-2].unlink(),
    "newest rows gone": lambda outbox: newest(outbox, "*.parquet").unlink(),
    "newest rows torn": lambda outbox: half(newest(outbox, "*.parquet")),
    "all rows gone": unlink_all,
}


NOT_READ_AGAIN = ("first entry torn", "newest rows gone", "newest rows torn", "all rows gone")
"""Damages that a process which sends does not see."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_events_that_wait_are_sent_once_and_in_order_after_a_repair(story: Story, damage: str) -> None:
    assert story.results() == [0, 1]
    DAMAGES[damage](story.outbox)
    story.reopen()
    story.come()
    states = {one.name: (one.status, (one.last_error or "")[:8]) for one in story.lake.streams()}
    assert states["other"] == ("Running", "")
    assert states["s"] in (("Running", ""), ("Failed", "REGISTRY"))
    others = story.lake.sql("SELECT count(*) AS n FROM oo").fetchall()
    assert others == [(story.minute - 1,)]  # its neighbour goes on meanwhile
    findings = [*story.lake.repair.check()]
    assert [(one.where, one.code) for one in findings] == [("_lakestream/outbox", "REGISTRY_DAMAGED")]
    for finding in findings:
        assert story.lake.repair.repair(finding)
    story.reopen()
    story.come()
    assert {one.name: one.status for one in story.lake.streams()} == {"s": "Running", "other": "Running"}
    assert story.results() == [*range(story.minute - 1)]
    assert [*story.lake.repair.check()] == []
    story.reopen()
    story.come()
    assert story.results() == [*range(story.minute - 1)]


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in NOT_READ_AGAIN])
def test_a_process_that_sends_goes_on_after_the_repair_of_another(story: Story, damage: str) -> None:
    story.lake = story.opened()
    story.come()
    DAMAGES[damage](story.outbox)
    story.come()
    with story.opened() as other:
        findings = [*other.repair.check()]
        assert [(one.where, one.code) for one in findings] == [("_lakestream/outbox", "REGISTRY_DAMAGED")]
        assert other.repair.repair(findings[0])
        story.sent.append(Catcher(story.catcher.port))
    story.come()
    assert {one.name: one.status for one in story.lake.streams()} == {"s": "Running", "other": "Running"}
    story.come()
    assert story.results() == [*range(story.minute - 1)]
    assert [*story.lake.repair.check()] == []


def test_what_was_sent_is_kept_beside_the_outbox_no_longer(story: Story) -> None:
    kept = story.root / "_lakestream" / "copies" / "outbox"
    assert len([*kept.glob("[0-9]*.json")]) == 3
    story.reopen()
    story.lake.run()
    story.lake.close()
    assert story.results() == [0, 1, 2, 3, 4]
    assert not [*kept.glob("[0-9]*.json")]
    story.lake = story.opened()
    story.lake.sql("STOP STREAM s; DROP STREAM s")
    story.come()


def test_a_repair_that_is_cut_off_is_begun_again(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(story.outbox)
    story.reopen()
    put, done = Outbox.put, iter(range(2))

    def fails_at_the_second(self: Outbox, *given: Any) -> None:
        if next(done):
            raise OSError(errno.ENOSPC, "No space left on device")
        put(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "put", fails_at_the_second)
        [finding] = story.lake.repair.check()
        with pytest.raises(OSError, match="No space"):
            story.lake.repair.repair(finding)
    story.reopen()
    [finding] = story.lake.repair.check()
    assert finding.code == "REGISTRY_DAMAGED"
    story.lake.repair.repair(finding)
    story.reopen()
    story.come()
    assert story.results() == [*range(story.minute - 1)]
    assert [*story.lake.repair.check()] == []
