"""A source whose log was written anew behind a stream's back: seen, named, and led out of, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.errors import StorageError
from lakestream.lake import Lake
from lakestream.storage.writes.mending import mend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE TABLE b (ts TIMESTAMP, v INT);
CREATE STREAM sa INTERVAL(1m) SLIDING(1m) FROM a INTO oa AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM sb INTERVAL(1m) SLIDING(1m) FROM b INTO ob AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
"""


class Story:
    """A lake, of whose source ``a`` each commit has the rows of a minute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for minute in range(4):
            self.come(minute, 1)
        self.log = Path(self.lake._at.catalog.table("main", "a").path, "_delta_log")

    def come(self, minute: int, value: int) -> None:
        """Let the rows of a minute come to both sources, and take them."""
        for table in "ab":
            self.lake.insert(table, [{"ts": f"2026-01-01 00:{minute:02}:00", "v": value}])
        self.lake.run()

    def reopen(self) -> None:
        """Open the lake in another process, as far as it can tell."""
        self.lake.close()
        self.lake = Lake(self.root)

    def commits(self) -> list[Path]:
        return sorted(self.log.glob("*.json"))

    def state(self, name: str = "sa") -> str:
        [found] = [status for status in self.lake.streams() if status.name == name]
        return f"{found.status} {(found.last_error or '').partition(':')[0]}".strip()

    def sums(self, table: str) -> dict[int, int]:
        """Return the sums by their minutes, of those that had rows."""
        rows = self.lake.sql(f"SELECT w, s FROM {table} WHERE s IS NOT NULL").fetchall()
        return {row[0].minute: row[1] for row in rows}


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()


def write(story: Story, minute: int, value: int) -> None:
    """Write a row from another process, as far as the lake can tell."""
    with Lake(story.root) as other:
        other.insert("a", [{"ts": f"2026-01-01 00:{minute:02}:00", "v": value}])


def rewritten(story: Story) -> None:
    """Exchange the commit taken last for one of the same rows: with other bytes it is another one."""
    last = story.commits()[-1]
    last.write_bytes(last.read_bytes() + b"\n")


def set_back(story: Story) -> None:
    """Set the log back by two commits, and let others come in their place, and more."""
    for last in story.commits()[-2:]:
        last.unlink()
    for minute in (2, 3, 4):
        write(story, minute, 7)


DAMAGES: list[Callable[[Story], None]] = [rewritten, set_back]


@pytest.mark.parametrize("anew", [False, True], ids=["same process", "another process"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_seen_and_resync_leads_out(story: Story, damage: Callable[[Story], None], anew: bool) -> None:
    damage(story)
    if anew:
        story.reopen()
    story.come(5, 1)
    assert (story.state(), story.state("sb")) == ("Failed SOURCE_HISTORY_REWRITTEN", "Running")
    assert story.sums("ob") == {0: 1, 1: 1, 2: 1, 3: 1}
    story.lake.sql("RECALCULATE STREAM sa RESYNC")
    story.come(6, 1)
    then = {2: 1, 3: 1} if damage is rewritten else {2: 7, 3: 7, 4: 7}
    assert story.sums("oa") == {0: 1, 1: 1, **then, 5: 1}
    assert story.state() == "Running"


@pytest.mark.parametrize("anew", [False, True], ids=["same process", "another process"])
def test_the_commit_put_back_leads_out(story: Story, tmp_path: Path, anew: bool) -> None:
    last = story.commits()[-1]
    shutil.copy(last, tmp_path / "kept")
    rewritten(story)
    story.come(5, 1)
    assert story.state() == "Failed SOURCE_HISTORY_REWRITTEN"
    shutil.copy(tmp_path / "kept", last)
    if anew:
        story.reopen()
    story.lake.sql("START STREAM sa")
    story.come(6, 1)
    assert story.sums("oa") == {0: 1, 1: 1, 2: 1, 3: 1, 5: 1}


LOSSES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda entry: entry.write_bytes(b""),
    "torn": lambda entry: entry.write_bytes(entry.read_bytes()[:99]),
    "zeros": lambda entry: entry.write_bytes(bytes(99)),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("anew", [False, True])
def test_a_table_goes_on_without_a_commit_in_its_midst(story: Story, loss: str, anew: bool) -> None:
    LOSSES[loss](story.commits()[2])
    if anew:
        story.reopen()
        story.lake.run()
        assert story.state() == "Retrying TABLE_UNREADABLE"
    [finding] = story.lake.repair.check()
    assert (finding.where, finding.code) == ("main.a", "TABLE_DAMAGED")
    assert story.lake.repair.repair(finding)[-1] == "queued: the next round computes main.sa anew"
    story.come(4, 1)
    story.come(5, 1)
    assert story.state() == "Running"
    assert story.sums("oa") == {0: 1, 2: 1, 3: 1, 4: 1}
    assert story.sums("ob") == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}
    assert [*story.lake.repair.check()] == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_commit_that_others_build_on_is_not_gone_without(story: Story, at: int) -> None:
    """What replaced the rows that it put in would stand beside those that it had replaced."""
    story.lake.sql("UPDATE a SET v = v + 1")  # of all files, which commits 1 to 4 put in
    story.lake.close()
    lost = story.commits()[at]
    lost.write_bytes(b"")
    story.lake = Lake(story.root)
    [finding] = story.lake.repair.check()
    with pytest.raises(StorageError, match=r"NOT_REPAIRABLE.*backup"):
        story.lake.repair.repair(finding)
    assert not lost.read_bytes()


def test_a_log_that_was_cleared_up_to_what_was_taken_is_no_damage(story: Story) -> None:
    write(story, 5, 1)
    DeltaTable(story.log.parent).create_checkpoint()
    for old in story.commits()[:-1]:
        old.unlink()
    story.lake.run()
    assert story.state() == "Running"
    assert story.sums("oa") == {0: 1, 1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("checkpointed", [False, True])
def test_where_commits_have_times_none_is_gone_without(tmp_path: Path, checkpointed: bool) -> None:
    """A commit that changes nothing would have none."""
    table, aside = tmp_path / "t", tmp_path / "aside"
    for number in range(6):
        write_deltalake(str(table), pa.table({"n": [number]}), mode="append")
    first = table / "_delta_log" / f"{0:020}.json"
    timed = '"configuration":{"delta.enableInCommitTimestamps":"true"}'
    assert '"configuration":{}' in first.read_text()
    first.write_text(first.read_text().replace('"configuration":{}', timed))
    if checkpointed:
        DeltaTable(str(table), version=2).create_checkpoint()
    first.with_name(f"{4:020}.json").write_bytes(b"")
    with pytest.raises(StorageError, match="NOT_REPAIRABLE"):
        mend(str(table), str(aside), rewinds=False)
