"""A source that somebody damaged stops its stream by name; its neighbours, and the lake, go on."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.errors import LakestreamError
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    Damage = Callable[[Path], object]

pytestmark = [pytest.mark.faults, pytest.mark.spark]

START = datetime(2025, 1, 1, tzinfo=UTC)
FEED = {"delta.enableChangeDataFeed": "true"}


def readings(first: int, end: int) -> pa.Table:
    """Return a reading each ten minutes."""
    return pa.table(
        {"ts": [START + timedelta(minutes=10 * n) for n in range(first, end)], "v": list(range(first, end))}
    )


def newest(folder: Path, suffix: str) -> Path:
    return max(folder.glob(f"*{suffix}"), key=lambda file: (file.stat().st_mtime_ns, file.name))


def commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def appended(table: Path) -> Path:
    """Return the file of the rows that were appended last, which a delete has not touched."""
    actions = map(json.loads, (table / "_delta_log" / f"{1:020}.json").read_text().splitlines())
    (name,) = [str(action["add"]["path"]) for action in actions if "add" in action]
    return table / name


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def with_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    cut(newest(table / "_delta_log", ".checkpoint.parquet"))


def with_file_for_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("no folder")


DAMAGES: dict[str, tuple[Damage, set[str]]] = {
    "commit cut": (lambda table: cut(commit(table)), {"TABLE_UNREADABLE"}),
    "commit empty": (lambda table: commit(table).write_bytes(b""), {"TABLE_UNREADABLE"}),
    "commit of zeros": (lambda table: commit(table).write_bytes(bytes(99)), {"TABLE_UNREADABLE"}),
    "checkpoint cut": (with_checkpoint, {"TABLE_UNREADABLE"}),
    "data cut": (lambda table: cut(appended(table)), {"CHANGES_LOST"}),
    "data empty": (lambda table: appended(table).write_bytes(b""), {"CHANGES_LOST"}),
    "data gone": (lambda table: appended(table).unlink(), {"CHANGES_LOST"}),
    "kept rows cut": (lambda table: cut(newest(table, ".parquet")), {"READ_FAILED"}),
    "feed cut": (lambda table: cut(newest(table / "_change_data", ".parquet")), {"CHANGES_LOST"}),
    "feed gone": (lambda table: newest(table / "_change_data", ".parquet").unlink(), {"CHANGES_LOST"}),
    "log gone": (lambda table: shutil.rmtree(table / "_delta_log"), {"TABLE_NOT_FOUND"}),
    "table gone": (shutil.rmtree, {"TABLE_NOT_FOUND"}),
    "table a file": (with_file_for_folder, {"TABLE_UNREADABLE", "TABLE_NOT_FOUND"}),
    "log a file": (lambda table: with_file_for_folder(table / "_delta_log"), {"TABLE_UNREADABLE"}),
}


EACH_TIME = {
    ("commit cut", True),
    ("commit empty", False),
    ("data cut", False),
    ("kept rows cut", True),
    ("log a file", False),
}
"""What is tried each time, and whether the lake is opened anew; the others with the long tests."""


class Pair:
    """A lake with a stream over each of two tables that others write: one will be damaged."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.spark = spark
        self.lake = self.opened()
        for name in ("ill", "well"):
            write_deltalake(str(folder / name), readings(0, 12), configuration=FEED)
            self.lake.sql(f"CREATE TABLE {name} LOCATION '{folder / name}'")
            self.lake.sql(
                f"CREATE STREAM s_{name} INTERVAL(1h) SLIDING(1h) FROM {name} "
                f"STREAM_OPTIONS(FILL_HISTORY | EXACT) INTO o_{name} "
                "AS SELECT _twstart AS h, count(*) AS n, sum(v) AS total FROM %%trows"
            )
        self.lake.run()
        self.append(12, 20)

    def opened(self) -> Lake:
        return Lake(self.folder / "lake", spark=self.spark)

    def reopen(self) -> None:
        self.lake.close()
        self.lake = self.opened()

    def append(self, first: int, end: int) -> None:
        for name in ("ill", "well"):
            write_deltalake(str(self.folder / name), readings(first, end), mode="append")

    def run(self, times: int = 1) -> None:
        """Run, also where some streams fail."""
        for _ in range(times):
            self.lake.run()

    def state(self, name: str) -> tuple[str, str]:
        """Return a stream's state, and its error's code."""
        (status,) = [status for status in self.lake.streams() if status.name == name]
        return status.status, (status.last_error or "").partition(":")[0]

    def totals(self, name: str) -> list[int]:
        """Return the output's counts by hour, read from Delta."""
        rows = DeltaTable(str(self.folder / "lake" / "main" / f"o_{name}")).to_pyarrow_table()
        return [row["n"] for row in sorted(rows.to_pylist(), key=lambda row: row["h"])]

    def differences(self, name: str) -> int:
        return self.lake.verify(f"s_{name}").differing_rows


@pytest.fixture
def pair(tmp_path: Path, spark: SparkSession) -> Iterator[Pair]:
    pair = Pair(tmp_path, spark)
    yield pair
    pair.lake.close()


def damaged(pair: Pair, damage: Damage) -> None:
    """Damage one table; how it was before is kept."""
    table = pair.folder / "ill"
    DeltaTable(str(table)).delete("v = 3")
    shutil.copytree(table, pair.folder / "kept")
    damage(table)


def mended(pair: Pair) -> None:
    table = pair.folder / "ill"
    if table.is_dir():
        shutil.rmtree(table)
    table.unlink(missing_ok=True)
    shutil.copytree(pair.folder / "kept", table)


def leads_back(pair: Pair) -> None:
    """Take up the stream, by a statement where it has failed; the output is what it should be."""
    pair.run()
    if pair.state("s_ill")[0] == "Failed":
        pair.lake.sql("START STREAM s_ill")
    pair.append(20, 26)
    pair.run()
    assert pair.state("s_ill") == ("Running", "")
    assert pair.totals("ill") == [5, 6, 6, 6]
    assert pair.differences("ill") == 0


@pytest.mark.parametrize(
    ("what", "reopened"),
    leaving(product(DAMAGES, (False, True)), lambda case: case not in EACH_TIME),
)
def test_a_damaged_source_is_a_named_state(pair: Pair, what: str, *, reopened: bool) -> None:
    damage, codes = DAMAGES[what]
    damaged(pair, damage)
    if reopened:
        pair.reopen()
    pair.run()
    state, code = pair.state("s_ill")
    assert state in {"Retrying", "Failed"}
    assert code in codes
    assert pair.totals("ill") == [6]
    assert pair.state("s_well") == ("Running", "")
    assert pair.totals("well") == [6, 6, 6]
    assert pair.differences("well") == 0
    assert ("ill", None) in pair.lake.sql("SHOW TABLES").fetchall()
    mended(pair)
    leads_back(pair)


def error_of(pair: Pair, statement: str) -> LakestreamError | None:
    try:
        pair.lake.sql(statement).fetchall()
    except LakestreamError as error:
        return error
    return None


@pytest.mark.parametrize(
    "what",
    leaving(
        ("commit cut", "data cut", "table gone", "table a file", "log a file"),
        lambda what: what not in {"commit cut", "table a file"},
    ),
)
def test_statements_on_a_damaged_table_name_what_is_wrong(pair: Pair, what: str) -> None:
    damage, _ = DAMAGES[what]
    damaged(pair, damage)
    for statement in ("SELECT count(v) FROM ill WHERE v > 1", "VERIFY STREAM s_ill", "EXPLAIN STREAM s_ill"):
        error = error_of(pair, statement)
        if error is not None:
            assert error.code in {"TABLE_UNREADABLE", "TABLE_NOT_FOUND", "READ_FAILED"}, statement
            assert str(pair.folder / "ill") in str(error), statement
    for number, statement in enumerate(("CREATE TABLE other", "CREATE TABLE IF NOT EXISTS other")):
        place = pair.folder / f"other{number}"
        shutil.copytree(pair.folder / "kept", place)
        damage(place)
        error = error_of(pair, f"{statement} LOCATION '{place}'")
        if what == "data cut":  # its log is whole
            assert error is None
            pair.lake.sql("DROP TABLE other")
        else:
            assert error is not None
            assert error.code in {"TABLE_UNREADABLE", "TABLE_NOT_FOUND"}
            assert ("other", None) not in pair.lake.sql("SHOW TABLES").fetchall()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_source_that_may_not_be_read_is_a_named_state(pair: Pair) -> None:
    log = pair.folder / "ill" / "_delta_log"
    damaged(pair, lambda _: log.chmod(0))
    try:
        pair.run()
        assert pair.state("s_ill") == ("Retrying", "TABLE_UNREADABLE")
        assert pair.totals("well") == [6, 6, 6]
    finally:
        log.chmod(0o755)
    leads_back(pair)
