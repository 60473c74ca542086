"""Each damage, its named state, the way back, and rows that an independent judge computes: DuckDB.

Nothing here starts Spark; ``test_verify_agrees_after_every_way_back`` asks VERIFY too.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakestream.clock import SystemClock
from lakestream.lake import Lake
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.faults
CLOCK = SystemClock()

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT);
CREATE TABLE b (ts TIMESTAMP, v INT);
CREATE STREAM sa INTERVAL(1m) SLIDING(1m) FROM a STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER)
  INTO oa AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM ca COUNT_WINDOW(2) FROM a INTO oc AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM sb INTERVAL(1m) SLIDING(1m) FROM b STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER)
  INTO ob AS SELECT _twstart AS w, sum(v) AS s FROM %%trows
"""
BY_MINUTE = """
SELECT date_trunc('minute', ts) AS w, sum(v) AS s FROM rows GROUP BY w
HAVING w + INTERVAL 1 MINUTE <= (SELECT max(ts) FROM rows) ORDER BY ALL
"""
BY_TWO = """
SELECT min(ts) AS w, sum(v) AS s FROM (SELECT *, row_number() OVER (ORDER BY ts) - 1 AS n FROM rows)
GROUP BY n // 2 HAVING count(*) = 2 ORDER BY ALL
"""
OUTPUTS = {"oa": ("a", BY_MINUTE), "oc": ("a", BY_TWO), "ob": ("b", BY_MINUTE)}


class Story:
    """A lake whose sources get two rows a minute; the last minute is not read yet."""

    def __init__(self, root: Path) -> None:
        self.root, self.minutes = root, 0
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for _ in range(3):
            self.come()
            self.lake.run()
        self.kept = root.with_name("kept")

    def come(self) -> None:
        """Let the rows of a minute come to both sources."""
        for table in "ab":
            rows = [
                {"ts": f"2026-01-01 00:{self.minutes:02}:{second:02}", "v": 10 * self.minutes + second}
                for second in (1, 31)
            ]
            self.lake.insert(table, rows)
        self.minutes += 1

    def reopen(self, spark: SparkSession | None = None) -> None:
        self.lake.close()
        self.lake = Lake(self.root, spark=spark)

    def path(self, table: str) -> Path:
        return self.root / "main" / table

    def keep(self, table: str) -> None:
        """Keep a table as it is, to be put back."""
        shutil.copytree(self.path(table), self.kept)

    def put_back(self, table: str) -> None:
        shutil.rmtree(self.path(table))
        shutil.copytree(self.kept, self.path(table))

    def states(self) -> dict[str, str]:
        return {
            one.name: f"{one.status} {(one.last_error or '').partition(':')[0]}".strip()
            for one in self.lake.streams()
        }

    def rows(self, table: str, query: str) -> list[tuple[object, ...]]:
        """Return what DuckDB makes of a table as it is on the disk."""
        rows = DeltaTable(str(self.path(table))).to_pyarrow_table()
        with duckdb.connect() as judge:
            return judge.register("rows", rows).execute(query).fetchall()

    def is_right(self, output: str) -> bool:
        """Return whether an output is what DuckDB makes of its source."""
        source, query = OUTPUTS[output]
        return self.rows(output, "SELECT w, s FROM rows ORDER BY ALL") == self.rows(source, query)


def newest(log: Path) -> Path:
    return max(log.glob("*.json"))


def entry(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change the newest entry of a log."""

    def damage(table: Path) -> None:
        file = newest(table / "_delta_log")
        file.write_bytes(change(file.read_bytes()))

    return damage


def remove_newest(table: Path) -> None:
    newest(table / "_delta_log").unlink()


def remove_files(table: Path) -> None:
    """Remove the data of the newest commit that has some."""
    for log in sorted((table / "_delta_log").glob("*.json"), reverse=True):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        if added := [action["add"]["path"] for action in actions if "add" in action]:
            for name in added:
                (table / name).unlink()
            return


def cut_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    (file,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    file.write_bytes(file.read_bytes()[:99])


def exchange_checkpoint(table: Path) -> None:
    """Have a checkpoint that is whole lack a file of the table."""
    DeltaTable(str(table)).create_checkpoint()
    file = max((table / "_delta_log").glob("*.checkpoint.parquet"))
    rows = pq.read_table(file)
    lost = next(number for number, add in enumerate(rows["add"].to_pylist()) if add is not None)
    pq.write_table(rows.take([number for number in range(rows.num_rows) if number != lost]), file)


def double_in_checkpoint(table: Path) -> None:
    """Have a checkpoint that is whole name a file of the table twice."""
    DeltaTable(str(table)).create_checkpoint()
    file = max((table / "_delta_log").glob("*.checkpoint.parquet"))
    rows = pq.read_table(file)
    twice = next(number for number, add in enumerate(rows["add"].to_pylist()) if add is not None)
    pq.write_table(rows.take([*range(rows.num_rows), twice]), file)


def move(table: Path) -> None:
    table.rename(table.with_name("moved"))


def set_back(table: Path) -> None:
    """Set the log back by two commits."""
    remove_newest(table)
    remove_newest(table)


def write_anew(table: Path) -> None:
    """Set the log back, and let other rows come in its place."""
    set_back(table)
    for second in (7, 77, 107):
        instant = datetime(2026, 1, 1, 0, 2, tzinfo=UTC) + timedelta(seconds=second)
        rows = pa.table(
            {"ts": pa.array([instant], pa.timestamp("us", "UTC")), "v": pa.array([7], pa.int32())}
        )
        write_deltalake(str(table), rows, mode="append")


def rows_of(table: Path) -> pa.Table:
    return pa.table(DeltaTable(str(table)).to_pyarrow_table())


def append_foreign(table: Path) -> None:
    """Append a row that is there, and one that names no window."""
    rows = rows_of(table).slice(0, 1)
    at = rows.schema.get_field_index("window")
    nameless = rows.set_column(at, rows.schema.field(at), pa.nulls(1, rows.schema.field(at).type))
    write_deltalake(str(table), pa.concat_tables([rows, nameless]), mode="append")


def update_foreign(table: Path) -> None:
    DeltaTable(str(table)).update(updates={"s": "s + 1"})


def delete_foreign(table: Path) -> None:
    DeltaTable(str(table)).delete("s > 50")


def merge_foreign(table: Path) -> None:
    merger = DeltaTable(str(table)).merge(rows_of(table), "t.w = s.w", source_alias="s", target_alias="t")
    merger.when_matched_update(updates={"s": "s.s + 1"}).execute()


def overwrite(table: Path) -> None:
    write_deltalake(str(table), rows_of(table).slice(1), mode="overwrite")


def overwrite_schema(table: Path) -> None:
    write_deltalake(str(table), rows_of(table).select(["w"]), mode="overwrite", schema_mode="overwrite")


def restore(table: Path) -> None:
    DeltaTable(str(table)).restore(1)


def add_column(table: Path) -> None:
    DeltaTable(str(table)).alter.add_columns([Field("note", PrimitiveType("string"))])


def replace_by_another(table: Path) -> None:
    """Put another table of the same columns in its place."""
    rows = rows_of(table)
    shutil.rmtree(table)
    write_deltalake(str(table), rows.slice(0, 1))


@dataclass(frozen=True)
class Case:
    """A damage of a table, the states of those whose table it is, and the statement that leads back."""

    table: str
    damage: Callable[[Path], None]
    states: tuple[str, ...]
    back: str  # "file": it is put back; "resync": what is there now counts; "repair"


RETRYING = ("Retrying TABLE_UNREADABLE",)
REWRITTEN = ("Failed SOURCE_HISTORY_REWRITTEN", "Failed SOURCE_REWOUND")
TOUCHED = ("Failed OUTPUT_TOUCHED",)
COLUMNS = ("Failed OUTPUT_CHANGED",)
CASES = {
    "source: entry empty, put back": Case("a", entry(lambda _: b""), RETRYING, "file"),
    "source: entry torn, put back": Case("a", entry(lambda old: old[: len(old) // 2]), RETRYING, "file"),
    "source: entry of zeros, put back": Case("a", entry(lambda old: bytes(len(old))), RETRYING, "file"),
    "source: entry torn, repaired": Case("a", entry(lambda old: old[: len(old) // 2]), RETRYING, "repair"),
    "source: newest entry gone, put back": Case("a", set_back, REWRITTEN, "file"),
    "source: log set back, as it is": Case("a", set_back, REWRITTEN, "resync"),
    "source: written anew, put back": Case("a", write_anew, REWRITTEN, "file"),
    "source: written anew, as it is": Case("a", write_anew, REWRITTEN, "resync"),
    "source: data gone, put back": Case("a", remove_files, ("Failed CHANGES_LOST",), "file"),
    "source: checkpoint cut, put back": Case("a", cut_checkpoint, (*RETRYING, "Running"), "file"),
    "source: checkpoint exchanged, put back": Case("a", exchange_checkpoint, (*RETRYING, "Running"), "file"),
    "source: checkpoint exchanged, repaired": Case(
        "a", exchange_checkpoint, (*RETRYING, "Running"), "repair"
    ),
    "output: checkpoint exchanged, repaired": Case(
        "oa", exchange_checkpoint, (*RETRYING, "Running"), "repair"
    ),
    "source: checkpoint with a file twice, repaired": Case(
        "a", double_in_checkpoint, (*RETRYING, "Running"), "repair"
    ),
    "output: checkpoint with a file twice, repaired": Case(
        "oc", double_in_checkpoint, (*RETRYING, "Running"), "repair"
    ),
    "source: another table, put back": Case("a", replace_by_another, ("Failed SOURCE_REPLACED",), "file"),
    "source: moved, repaired": Case("a", move, ("Failed TABLE_NOT_FOUND",), "repair"),
    "output: entry empty, put back": Case("oa", entry(lambda _: b""), RETRYING, "file"),
    "output: entry torn, put back": Case("oa", entry(lambda old: old[: len(old) // 2]), RETRYING, "file"),
    "output: entry torn, repaired": Case("oa", entry(lambda old: old[: len(old) // 2]), RETRYING, "repair"),
    "output: newest entry gone, as it is": Case("oa", remove_newest, ("Failed OUTPUT_REWOUND",), "resync"),
    "output: newest entry gone, put back": Case("oa", remove_newest, ("Failed OUTPUT_REWOUND",), "file"),
    "output: log set back, as it is": Case("oc", set_back, ("Failed OUTPUT_REWOUND",), "resync"),
    "output: rows appended, as it is": Case("oa", append_foreign, TOUCHED, "resync"),
    "output: rows appended, repaired": Case("oc", append_foreign, TOUCHED, "repair"),
    "output: rows updated, as it is": Case("oa", update_foreign, TOUCHED, "resync"),
    "output: rows deleted, as it is": Case("oa", delete_foreign, TOUCHED, "resync"),
    "output: rows merged, repaired": Case("oa", merge_foreign, TOUCHED, "repair"),
    "output: overwritten, put back": Case("oa", overwrite, TOUCHED, "file"),
    "output: overwritten, as it is": Case("oc", overwrite, TOUCHED, "resync"),
    "output: other columns, put back": Case("oa", overwrite_schema, (*TOUCHED, *COLUMNS), "file"),
    "output: column added, put back": Case("oa", add_column, COLUMNS, "file"),
    "output: restored, as it is": Case("oa", restore, ("Failed OUTPUT_REWOUND",), "resync"),
    "output: another table, put back": Case("oa", replace_by_another, ("Failed OUTPUT_REPLACED",), "file"),
}


def back(story: Story, case: Case) -> None:
    """Lead back: files, the statement that the state names, or the remedies of ``check``."""
    if case.back == "file":
        story.put_back(case.table)
    story.lake.run()
    for _ in range(5):
        if case.back != "repair":
            break
        for finding in [*story.lake.repair.check()]:
            story.lake.repair.repair(finding)
        story.lake.run()
    for name, state in story.states().items():
        if state.startswith("Failed"):
            story.lake.sql(
                f"START STREAM {name}" if case.back == "file" else f"RECALCULATE STREAM {name} RESYNC"
            )
    story.come()
    for _ in range(40):  # what is Retrying is tried again after a pause
        story.lake.run()
        if set(story.states().values()) == {"Running"}:
            break
        CLOCK.sleep(0.25)


def damaged(story: Story, case: Case) -> None:
    """Let rows come that are not read yet, damage the table, and look what comes of it."""
    story.come()
    story.keep(case.table)
    case.damage(story.path(case.table))
    ill = {"a": ("sa", "ca"), "oa": ("sa",), "oc": ("ca",)}[case.table]
    story.lake.run()
    for name, state in story.states().items():
        assert state in (case.states if name in ill else ("Running",)), (name, state)
    if case.damage in (exchange_checkpoint, double_in_checkpoint):
        # Who stands behind it does not read it; nobody else believes it.
        assert [one.code for one in story.lake.repair.check()][:1] == ["TABLE_DAMAGED"]
    assert story.is_right("ob")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()


EACH_TIME = {
    ("source: entry torn, repaired", False),
    ("output: newest entry gone, as it is", True),
    ("source: checkpoint exchanged, repaired", True),
    ("output: checkpoint with a file twice, repaired", True),
    ("output: rows appended, as it is", False),
}
"""What is tried each time, and whether by another process; the others with the long tests."""


@pytest.mark.parametrize(
    ("name", "anew"), leaving(product(CASES, (False, True)), lambda case: case not in EACH_TIME)
)
def test_damage_is_named_and_led_out_of(story: Story, name: str, *, anew: bool) -> None:
    case = CASES[name]
    if anew:
        story.reopen()
    damaged(story, case)
    back(story, case)
    assert set(story.states().values()) == {"Running"}
    assert [output for output in OUTPUTS if not story.is_right(output)] == []
    assert [*story.lake.repair.check()] == []


@pytest.mark.long
@pytest.mark.spark
def test_verify_agrees_after_every_way_back(tmp_path: Path, spark: SparkSession) -> None:
    for number, case in enumerate(CASES.values()):
        story = Story(tmp_path / str(number) / "lake")
        damaged(story, case)
        back(story, case)
        story.reopen(spark)
        for stream in ("sa", "ca", "sb"):
            assert story.lake.verify(stream).differing_rows == 0, (case, stream)
        story.lake.close()
