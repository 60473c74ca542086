"""Rows of lakestream's own tables that others change, and tables put back from an older copy; no Spark."""

from __future__ import annotations

import json
import shutil
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.errors import StorageError
from lakestream.lake import Lake
from lakestream.storage.tables.copies import Copies
from lakestream.storage.tables.own import last_said
from lakestream.storage.writes.mending import mend
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a INTO o AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM c COUNT_WINDOW(2) FROM a INTO oc AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
"""
MORE = """
CREATE STREAM m INTERVAL(1m) SLIDING(1m) FROM a INTO om AS SELECT _twstart AS w, max(v) AS s FROM %%trows
"""


class Story:
    """A lake whose source gets a row a minute."""

    def __init__(self, root: Path) -> None:
        self.root, self.minute = root, 0
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for _ in range(3):
            self.come()

    def come(self) -> None:
        self.lake.insert("a", [{"ts": f"2026-01-01 00:{self.minute:02}:00", "v": 1}])
        self.minute += 1
        self.lake.run()

    def reopen(self) -> None:
        self.lake.close()
        self.lake = Lake(self.root)

    def of(self, name: str) -> Path:
        return self.root / "_lakestream" / name

    def states(self) -> dict[str, str]:
        return {
            one.name: f"{one.status} {(one.last_error or '').partition(':')[0]}".strip()
            for one in self.lake.streams()
        }

    def minutes(self, table: str) -> list[int]:
        """Return the minutes of the windows that had rows."""
        rows = DeltaTable(str(self.root / "main" / table)).to_pyarrow_table().to_pylist()
        return sorted(row["w"].minute for row in rows if row["s"] is not None)

    def is_right(self) -> bool:
        by_minute, by_two = [*range(self.minute - 1)], [*range(0, self.minute - 1, 2)]
        return (self.minutes("o"), self.minutes("oc")) == (by_minute, by_two)

    def repaired(self) -> list[tuple[str, str]]:
        """Repair what is found until there is nothing more; return where it was, and its code."""
        found: list[tuple[str, str]] = []
        while left := [*self.lake.repair.check()]:
            assert len(found) < 10, found
            for finding in left:
                assert finding.remedy, finding
                self.lake.repair.repair(finding)
                found.append((finding.where, finding.code))
            self.lake.run()
        return found


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()


def empty(path: str) -> None:
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 0), mode="overwrite")


def delete_one(path: str) -> None:
    uuid = DeltaTable(path).to_pyarrow_table()["uuid"][0].as_py()
    DeltaTable(path).delete(f"uuid = '{uuid}'")


def overwrite_by_older(path: str) -> None:
    """Write the rows anew as an older version had them."""
    table = DeltaTable(path)
    write_deltalake(path, DeltaTable(path, version=table.version() - 1).to_pyarrow_table(), mode="overwrite")


def update(path: str) -> None:
    fields = DeltaTable(path).schema().to_arrow()
    number = next(name for name in ("created_us", "clock_us", "finished_us", "tick") if name in fields.names)
    DeltaTable(path).update(updates={number: f"{number} + 1"})


def append_twice(path: str) -> None:
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 1), mode="append")


TOUCHES: dict[str, Callable[[str], None]] = {
    "emptied": empty,
    "one stream deleted": delete_one,
    "older rows": overwrite_by_older,
    "updated": update,
    "a row twice": append_twice,
}
EACH_TIME = {
    ("streams", "one stream deleted", False),
    ("streams", "emptied", True),
    ("plans", "older rows", True),
    ("progress", "older rows", False),
    ("progress", "updated", True),
}


@pytest.mark.parametrize(
    ("table", "touch", "anew"),
    leaving(
        product(("streams", "plans", "progress"), TOUCHES, (False, True)), lambda case: case not in EACH_TIME
    ),
)
def test_what_others_change_in_records_is_named_and_undone(
    story: Story, table: str, touch: str, *, anew: bool
) -> None:
    if anew:
        story.reopen()
    TOUCHES[touch](str(story.of(table)))
    for look in (story.lake.run, lambda: story.lake.sql("SHOW STREAMS")):
        with pytest.raises(StorageError, match=f"REGISTRY_TOUCHED: .*_lakestream/{table}"):
            look()
    assert story.repaired() == [(f"_lakestream/{table}", "REGISTRY_TOUCHED")]
    assert story.states() == {"s": "Running", "c": "Running"}
    story.come()
    story.come()
    assert story.is_right()


def test_others_may_put_files_of_records_together(story: Story) -> None:
    for table in ("streams", "plans", "progress"):
        DeltaTable(str(story.of(table))).optimize.compact()
        DeltaTable(str(story.of(table))).create_checkpoint()
    story.come()
    story.reopen()
    story.come()
    assert [*story.lake.repair.check()] == []
    assert story.is_right()


@pytest.mark.parametrize("rewinds", [True, False])
def test_a_repair_leaves_tables_that_are_no_records_to_their_writers(
    tmp_path: Path, *, rewinds: bool
) -> None:
    """The outbox and the audit say nothing of themselves: what is written behind a repair is not undone."""
    path = str(tmp_path / "t")
    for number in range(2):
        write_deltalake(path, pa.table({"n": [number]}), mode="append")
    written = json.loads((tmp_path / "t" / "_delta_log" / f"{1:020}.json").read_text().splitlines()[-1])
    (tmp_path / "t" / written["add"]["path"]).unlink()
    mend(path, str(tmp_path / "aside"), rewinds=rewinds)
    write_deltalake(path, pa.table({"n": [2]}), mode="append")
    assert last_said(path, -1, DeltaTable(path).version()) == {}
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == [0, 2]


def set_back(story: Story, tmp_path: Path, way: str) -> None:
    """Have the list of streams be an older copy, or gone; the newer one is kept."""
    shutil.copytree(story.of("streams"), tmp_path / "old")
    story.lake.sql(MORE)
    story.come()
    story.lake.close()
    shutil.copytree(story.of("streams"), tmp_path / "new")
    shutil.rmtree(story.of("streams"))
    if way == "put back":
        shutil.copytree(tmp_path / "old", story.of("streams"))


CODES = {"put back": "REGISTRY_REWOUND", "gone": "REGISTRY_DAMAGED"}


@pytest.mark.parametrize("back", ["the newer one", "repair"])
@pytest.mark.parametrize("way", CODES)
def test_streams_of_an_older_copy_are_named_and_lead_back(
    story: Story, tmp_path: Path, way: str, back: str
) -> None:
    set_back(story, tmp_path, way)
    story.reopen()
    for look in (story.lake.run, story.lake.streams, lambda: story.lake.sql("SHOW STREAMS")):
        with pytest.raises(StorageError, match=rf"{CODES[way]}: .*_lakestream/streams"):
            look()
    if back == "repair":
        assert story.repaired() == [("_lakestream/streams", CODES[way])]
    else:
        shutil.rmtree(story.of("streams"), ignore_errors=True)
        shutil.copytree(tmp_path / "new", story.of("streams"))
    for _ in range(2):
        story.come()
        assert story.states() == {"s": "Running", "c": "Running", "m": "Running"}
        assert story.is_right()
        story.reopen()


STATEMENTS = {
    "created": MORE,
    "dropped": "DROP STREAM c",
    "replaced": "CREATE OR REPLACE"
    + TABLES.strip().splitlines()[1].removeprefix("CREATE").replace("sum", "max"),
}


@pytest.mark.parametrize("has_ticked", [True, False])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_streams_from_before_a_statement_are_seen_though_nothing_has_ticked_since(
    tmp_path: Path, statement: str, *, has_ticked: bool
) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLES)
        if has_ticked:
            lake.insert("a", [{"ts": "2026-01-01 00:00:00", "v": 1}])
            lake.run()
    streams = tmp_path / "lake" / "_lakestream" / "streams"
    shutil.copytree(streams, tmp_path / "old")
    with Lake(tmp_path / "lake") as lake:
        lake.sql(STATEMENTS[statement])
        listed = [(one.name, one.status) for one in lake.streams()]
    shutil.copytree(streams, tmp_path / "new")
    shutil.rmtree(streams)
    shutil.copytree(tmp_path / "old", streams)
    with Lake(tmp_path / "lake") as lake:
        with pytest.raises(StorageError, match=r"REGISTRY_REWOUND: .*_lakestream/streams"):
            lake.streams()
        assert [one.code for one in lake.repair.check()] == ["REGISTRY_REWOUND"]
    shutil.rmtree(streams)
    shutil.copytree(tmp_path / "new", streams)
    with Lake(tmp_path / "lake") as lake:
        assert [(one.name, one.status) for one in lake.streams()] == listed
    shutil.rmtree(streams)
    shutil.copytree(tmp_path / "old", streams)
    with Lake(tmp_path / "lake") as lake:
        [finding] = lake.repair.check()
        lake.repair.repair(finding)
        assert [(one.name, one.status) for one in lake.streams()] == listed


def test_streams_of_an_older_copy_are_taken_as_they_are_where_nothing_else_is_left(
    story: Story, tmp_path: Path
) -> None:
    set_back(story, tmp_path, "put back")
    shutil.rmtree(story.of("copies"))
    story.reopen()
    assert story.repaired()[0] == ("_lakestream/streams", "REGISTRY_REWOUND")
    assert story.states() == {"s": "Running", "c": "Running"}  # the other one is not known any more
    story.come()
    story.come()
    assert story.is_right()
    story.reopen()
    story.come()
    assert story.is_right()


ENTRIES = {
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "empty": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
    "another": lambda file: file.write_bytes(file.read_bytes().replace(b'"stats":"{', b'"stats":"[', 1)),
}


@pytest.mark.parametrize("table", ["streams", "plans", "progress", "databases"])
@pytest.mark.parametrize("how", ENTRIES)
@pytest.mark.parametrize("at", [0, 1, -1], ids=["first", "second", "last"])
def test_any_entry_of_a_log_of_records_leads_back_without_loss(
    story: Story, table: str, how: str, at: int
) -> None:
    story.lake.sql("CREATE DATABASE other")
    story.lake.sql(MORE)
    story.come()
    story.lake.close()
    ENTRIES[how](sorted(story.of(f"{table}/_delta_log").glob("*.json"))[at])
    story.reopen()
    story.repaired()
    story.reopen()
    story.come()
    assert story.states() == {"s": "Running", "c": "Running", "m": "Running"}
    assert story.is_right()
    assert [*story.lake.repair.check()] == []
    assert {"main", "other"} <= {row[0] for row in story.lake.sql("SHOW DATABASES").fetchall()}


def test_a_table_of_definitions_that_is_gone_is_not_taken_for_an_empty_one(story: Story) -> None:
    story.lake.close()
    shutil.rmtree(story.of("databases"))
    story.reopen()
    with pytest.raises(StorageError, match=r"REGISTRY_DAMAGED: .*_lakestream/databases"):
        story.lake.sql("SHOW DATABASES")
    assert story.repaired() == [("_lakestream/databases", "REGISTRY_DAMAGED")]
    story.come()
    assert story.is_right()


def test_copies_follow_what_is_changed_and_dropped(story: Story) -> None:
    story.lake.sql(MORE)
    story.lake.sql("STOP STREAM s; DROP STREAM m")
    path = str(story.of("streams"))

    def is_as_copied() -> bool:
        rows = DeltaTable(path).to_pyarrow_table().to_pylist()
        return sorted(Copies(path).rows(), key=itemgetter("uuid")) == sorted(rows, key=itemgetter("uuid"))

    assert is_as_copied()
    assert len(Copies(path).rows()) == 2
    assert Copies(path).version() == DeltaTable(path).version()
    shutil.rmtree(story.of("copies"))
    story.lake.sql("START STREAM s; STOP STREAM s")
    assert is_as_copied()
    max(story.of("copies/streams").iterdir()).unlink()
    story.lake.sql("START STREAM s; STOP STREAM s")
    assert is_as_copied()
    for _ in range(70):
        story.lake.sql("START STREAM s; STOP STREAM s")
    assert is_as_copied()
    assert len([*story.of("copies/streams").iterdir()]) < 70
