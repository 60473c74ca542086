"""The lake's own records, damaged or put back from an older copy: seen, named, and led out of."""

from __future__ import annotations

import errno
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.errors import StorageError
from lakestream.lake import Lake
from lakestream.storage.records import keyed, states, tick_log
from lakestream.storage.records.states import SavedStates
from lakestream.storage.writes import upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a INTO o AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM c COUNT_WINDOW(2) FROM a INTO oc AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
"""

QUARANTINED = """
CREATE STREAM q INTERVAL(1m) SLIDING(1m) FROM a EXPECT few CHECK (v > 1) ON VIOLATION QUARANTINE
  INTO oq AS SELECT _twstart AS w, sum(v) AS s FROM %%trows
"""


class Story:
    """A lake whose source gets a row a minute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for minute in range(3):
            self.come(minute)
        self.lake.close()

    def come(self, minute: int) -> None:
        self.lake.insert("a", [{"ts": f"2026-01-01 00:{minute:02}:00", "v": 1}])
        self.lake.run()

    def reopen(self) -> None:
        self.lake = Lake(self.root)

    def of(self, *names: str) -> Path:
        return self.root.joinpath("_lakestream", *names)

    def states(self) -> dict[str, str]:
        return {
            one.name: f"{one.status} {(one.last_error or '').partition(':')[0]}"
            for one in self.lake.streams()
        }

    def minutes(self, table: str) -> list[int]:
        """Return the minutes of the windows that had rows."""
        rows = self.lake.sql(f"SELECT w FROM {table} WHERE s IS NOT NULL").fetchall()
        return sorted(row[0].minute for row in rows)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def cut_rows(table: Path) -> None:
    """Cut the newest file of rows."""
    cut(max(table.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns))


def cut_log(table: Path) -> None:
    cut(max(table.glob("_delta_log/*.json")))


def empty_log(table: Path) -> None:
    """Leave the newest commit empty, as a power cut does."""
    max(table.glob("_delta_log/*.json")).write_bytes(b"")


DAMAGES: list[Callable[[Path], None]] = [cut_rows, cut_log]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", ["streams", "plans", "progress"])
def test_a_damaged_table_of_ours_is_named(story: Story, table: str, damage: Callable[[Path], None]) -> None:
    damage(story.of(table))
    story.reopen()
    for look in (story.lake.streams, story.lake.run, lambda: story.lake.sql("SHOW STREAMS")):
        with pytest.raises(StorageError) as caught:
            look()
        assert caught.value.code == "REGISTRY_DAMAGED"
        assert f"_lakestream/{table}" in caught.value.message
        assert "repair" in caught.value.hint
    assert story.minutes("o") == [0, 1]  # what was written is there all the same


def repaired(lake: Lake) -> list[str]:
    """Repair what is found until there is nothing more; return where it was."""
    places: list[str] = []
    while found := [*lake.repair.check()]:
        assert len(places) < 10, found
        for finding in found:
            assert finding.remedy, finding
            lake.repair.repair(finding)
            places.append(finding.where)
        lake.run()
    return places


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", ["streams", "plans", "progress"])
def test_a_damaged_table_of_ours_is_repaired(
    story: Story, table: str, damage: Callable[[Path], None]
) -> None:
    story.reopen()
    assert [*story.lake.repair.check()] == []
    story.lake.close()
    damage(story.of(table))
    story.reopen()
    assert repaired(story.lake)[0] == f"_lakestream/{table}"
    story.come(3)
    story.come(4)
    assert story.states() == {"s": "Running ", "c": "Running "}
    assert story.minutes("oc") == [0, 2]
    assert story.minutes("o") == [0, 1, 2, 3]


ENTRIES: dict[str, Callable[[Path], object]] = {
    "half": cut,
    "empty": lambda entry: entry.write_bytes(b""),
    "gone": lambda entry: entry.unlink(),
}


@pytest.mark.parametrize(
    ("name", "how", "at"),
    [
        (name, how, at)
        for name, entries in {"o": 4, "oc": 2, "oq": 1, "q__quarantine": 2}.items()
        for how in ENTRIES
        for at in range(entries)
    ],
)
def test_any_entry_of_the_log_of_an_output_leads_back_without_loss(
    story: Story, name: str, how: str, at: int
) -> None:
    """An empty one in the midst of a log is none to delta-rs: the rows of it would be missing for good."""
    story.reopen()
    story.lake.sql(QUARANTINED)
    story.come(3)
    story.lake.close()
    ENTRIES[how](sorted((story.root / "main" / name / "_delta_log").glob("*.json"))[at])
    story.reopen()
    story.come(4)
    repaired(story.lake)
    story.reopen()
    story.come(5)
    assert story.states() == {"s": "Running ", "c": "Running ", "q": "Running "}
    assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3, 4], [0, 2, 4])
    kept = story.lake.sql("SELECT ts FROM q__quarantine").fetchall()
    assert sorted(row[0].minute for row in kept) == [3, 4, 5]
    assert [*story.lake.repair.check()] == []


@pytest.mark.parametrize("name", ["a", "o", "oc"])
@pytest.mark.parametrize("damage", [*DAMAGES, empty_log])
def test_a_damaged_table_is_repaired(story: Story, name: str, damage: Callable[[Path], None]) -> None:
    path = story.root / "main" / name
    before = story.lake.sql("SELECT count(*) FROM a").fetchall()
    damage(path)
    story.reopen()
    assert repaired(story.lake)[0] == f"main.{name}"
    story.come(3)
    story.come(4)
    assert story.states() == {"s": "Running ", "c": "Running "}
    left = {row[0].minute for row in story.lake.sql("SELECT ts FROM a").fetchall()}
    assert len(left) == 5 or (name == "a" and before)
    assert set(story.minutes("o")) <= left
    if name != "a":
        assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3], [0, 2])


def empty_amid(table: Path) -> None:
    """Leave a commit empty that others follow on: to delta-rs it is one without changes."""
    sorted(table.glob("_delta_log/*.json"))[-2].write_bytes(b"")


@pytest.mark.parametrize("damage", [*DAMAGES, empty_amid])
def test_a_damaged_state_is_computed_anew_or_named(story: Story, damage: Callable[[Path], None]) -> None:
    for state in story.of("state").iterdir():
        damage(state)
    story.reopen()
    story.come(3)
    assert story.states() == {"s": "Running ", "c": "Failed STATE_DAMAGED"}
    assert story.minutes("o") == [0, 1, 2]
    story.lake.sql("RECALCULATE STREAM c RESYNC")
    story.come(4)
    story.come(5)
    assert story.states() == {"s": "Running ", "c": "Running "}
    assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3, 4], [0, 2, 4])
    story.lake.close()
    story.reopen()
    story.come(6)
    assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3, 4, 5], [0, 2, 4])


@pytest.mark.parametrize("tables", [("plans", "progress"), ("plans", "progress", "state"), ("progress",)])
def test_records_of_an_older_copy_are_seen(story: Story, tmp_path: Path, tables: tuple[str, ...]) -> None:
    for table in tables:
        shutil.copytree(story.of(table), tmp_path / table)
    story.reopen()
    for minute in (3, 4, 5):
        story.come(minute)
    story.lake.close()
    for table in tables:
        shutil.rmtree(story.of(table))
        shutil.copytree(tmp_path / table, story.of(table))
    story.reopen()
    story.come(6)
    assert story.states() == {"s": "Failed REGISTRY_REWOUND", "c": "Failed REGISTRY_REWOUND"}
    for name in "sc":
        story.lake.sql(f"RECALCULATE STREAM {name} RESYNC")
    story.come(7)
    assert story.states() == {"s": "Running ", "c": "Running "}
    assert (story.minutes("o"), story.minutes("oc")) == ([*range(7)], [0, 2, 4, 6])


@pytest.mark.parametrize("damage", [cut, lambda entry: entry.write_bytes(b"")])
def test_a_commit_is_no_failure_where_its_checkpoint_is_one(
    story: Story, damage: Callable[[Path], None]
) -> None:
    """A checkpoint is made of the whole log: of one with an empty commit it would lose rows for good."""
    story.reopen()
    story.come(3)
    log = story.root / "main" / "a" / "_delta_log"
    entry = sorted(log.glob("*.json"))[2]
    whole = entry.read_bytes()
    damage(entry)
    for minute in range(4, 14):
        story.lake.insert("a", [{"ts": f"2026-01-01 00:{minute:02}:00", "v": minute}])
    story.lake.sql("DELETE FROM a WHERE v = 13")
    assert not [*log.glob("*.checkpoint*")]
    entry.write_bytes(whole)
    story.reopen()
    for minute in range(14, 24):
        story.come(minute)
    assert len(story.lake.sql("SELECT ts FROM a").fetchall()) == 23
    assert [*log.glob("*.checkpoint*")]
    assert [*story.lake.repair.check()] == []


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_is_done_is_no_failure_where_upkeep_behind_it_is_one(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A statement that is answered with an error, and is done, is given again or taken for not done."""
    story.reopen()
    monkeypatch.setattr(keyed, "put_together", full)
    monkeypatch.setattr(keyed, "_COMPACT_AFTER", 0)
    monkeypatch.setattr(upkeep, "put_together", full)
    monkeypatch.setattr(states, "_KEPT_UP_EVERY", 1)
    monkeypatch.setattr(tick_log, "put_together", full)
    monkeypatch.setattr(tick_log, "_MAX_FILES", 0)
    story.lake.sql(QUARANTINED)
    for minute in range(3, 7):
        story.come(minute)
    assert story.states() == {"s": "Running ", "c": "Running ", "q": "Running "}
    assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3, 4, 5], [0, 2, 4])
    for table in ("streams", "plans", "progress", "state/"):
        assert re.search(
            rf"_lakestream/{table}.* was not kept up behind a commit: .*No space left", caplog.text
        )


def test_a_state_that_cannot_be_saved_is_its_streams_alone(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.reopen()
    whole = SavedStates.write_changes

    def refuse(states: SavedStates, uuid: str, *rest: Any) -> bool:
        if uuid == counting:
            raise PermissionError(13, "Permission denied")
        return whole(states, uuid, *rest)

    counting = story.lake._statements.streams.named("c").uuid
    with monkeypatch.context() as patch:
        patch.setattr(SavedStates, "write_changes", refuse)
        for minute in (3, 4):
            story.come(minute)
    assert story.states() == {"s": "Running ", "c": "Retrying IO_ERROR"}
    assert story.minutes("o") == [0, 1, 2, 3]
    story.reopen()
    story.come(5)
    story.come(6)
    assert story.states() == {"s": "Running ", "c": "Running "}
    assert (story.minutes("o"), story.minutes("oc")) == ([0, 1, 2, 3, 4, 5], [0, 2, 4])


@pytest.mark.parametrize("refused", ["open", "stat"])
def test_what_the_storage_refuses_is_no_damage(
    story: Story, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    story.reopen()
    with monkeypatch.context() as patch:
        if refused == "open":
            patch.setattr("lakestream.storage.tables.table.DeltaTable", refuse)
        else:
            patch.setattr("lakestream.storage.writes.mending._damaged_files", refuse)
        found = [*story.lake.repair.check()]
    assert {(one.code, one.remedy) for one in found} == {("IO_ERROR", "")}
    assert [*story.lake.repair.check()] == []
