"""A lake works to the end wherever it lies, whatever its folder is called and whoever may read it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.errors import LakeError, LakestreamError
from tests.faults.attach import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]

START = datetime(2025, 1, 1, tzinfo=UTC)
FOLDERS = ["a b", "läke-日本", "a#b?c", "a+b&c=d", "it's", 'say "so"', "{y}", "~"]
STREAM = (
    "CREATE STREAM s INTERVAL(10m) SLIDING(10m) FROM {} PARTITION BY g STREAM_OPTIONS(EXACT) INTO o AS "
    "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
)


def rows(first: int, end: int) -> pa.Table:
    """Return a row each five minutes, of two groups by turns."""
    numbers = range(first, end)
    times = [START + timedelta(minutes=5 * n) for n in numbers]
    return pa.table({"ts": times, "v": [*numbers], "g": [f"g {n % 2}/%20'" for n in numbers]})


def expected(numbers: set[int]) -> list[tuple[str, int, int]]:
    """Return group, number of rows and their sum of each closed window: of two rows, one of each group."""
    closed = {group: max(n for n in numbers if n % 2 == group) // 2 for group in (0, 1)}
    return sorted((f"g {n % 2}/%20'", 1, n) for n in numbers if n // 2 < closed[n % 2])


def outputs(lake: Lake) -> list[tuple[str, int, int]]:
    """Return what has come out for windows that hold rows."""
    return sorted(lake.sql("SELECT g, n, total FROM o WHERE n > 0").fetchall())


@pytest.mark.parametrize("transport", ["arrow", "spark"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_name_of_a_folder_is_only_a_name(
    tmp_path: Path, spark: SparkSession, folder: str, transport: str
) -> None:
    source = tmp_path / folder / "source"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(source), rows(0, 6), configuration=feed, partition_by=["g"])
    place = str(source).replace("'", "''")
    with Lake(tmp_path / folder / "lake", spark=spark, settings=Settings(transport=transport)) as lake:
        lake.sql(f"CREATE TABLE t LOCATION '{place}' TIMESTAMP BY ts")
        lake.sql(STREAM.format("t").replace("EXACT", "EXACT | FILL_HISTORY"))
        assert lake.run().failed == []
        assert outputs(lake) == expected(set(range(6)))
    write_deltalake(str(source), rows(6, 12), mode="append")
    DeltaTable(str(source)).delete("v = 1")
    with Lake(tmp_path / folder / "lake", spark=spark, settings=Settings(transport=transport)) as lake:
        assert lake.run().failed == []
        assert outputs(lake) == expected(set(range(12)) - {1})
        assert lake.verify("s").holds
        lake.sql("RECALCULATE STREAM s FROM '2025-01-01' TO '2025-01-02'")
        assert lake.run().failed == []
        assert lake.verify("s").holds


@pytest.mark.parametrize(
    "folder", ["100%", "[x]", "a]", "a^b", "a|b", "back\\slash", "new\nline", "\x1b[1m", "\udcff"]
)
def test_a_folder_that_is_read_as_another_is_refused_by_name(tmp_path: Path, folder: str) -> None:
    """By delta-rs or by Spark, which take these for escapes, or for no path at all."""
    (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / folder)
    with pytest.raises(LakeError, match="BAD_PATH"):
        Lake(tmp_path / folder / "lake")
    with pytest.raises(LakeError, match="BAD_PATH"):
        Lake(tmp_path / "link" / "lake")
    with Lake(tmp_path / "lake") as lake:
        place = str(tmp_path / folder / "source").replace("\\", "\\\\").replace("'", "''")
        refused = "BAD_CHARACTER" if folder == "\udcff" else "BAD_PATH|SYNTAX"
        with pytest.raises(LakestreamError, match=refused):
            lake.sql(f"CREATE TABLE t LOCATION '{place}' TIMESTAMP BY ts")


def test_a_lake_behind_a_symbolic_link_is_the_lake(tmp_path: Path, spark: SparkSession) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    with Lake(real, spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, g VARCHAR(9))")
        lake.sql(STREAM.format("t"))
    link.symlink_to(real, target_is_directory=True)
    for number, root in enumerate((link, real, link)):
        with Lake(root, spark=spark) as lake:
            lake.insert("t", rows(4 * number, 4 * number + 4))
            assert lake.run().failed == []
            assert outputs(lake) == expected(set(range(4 * number + 4)))
            assert lake.verify("s").holds


WITHOUT_POWER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
"""Runs a command as root that may read and write what others than its owner may."""
NOBODY = 65534

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="giving files to others needs root"
)


def given_away(root: Path, *, readable: bool) -> None:
    """Make a lake with a row that belongs to somebody else."""
    with Lake(root) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql("INSERT INTO t VALUES ('2025-01-01', 1)")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
        path.chmod((0o755 if path.is_dir() else 0o644) if readable else (0o700 if path.is_dir() else 0o600))


def stranger(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on somebody else's lake."""
    ran = subprocess.run(
        [*WITHOUT_POWER, sys.executable, "-m", "lakestream", "--lake", str(root), *command],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran


WRITE = "INSERT INTO t VALUES ('2025-01-02', 1)"


@as_root
def test_somebody_elses_lake_is_refused_by_name(tmp_path: Path) -> None:
    given_away(tmp_path / "lake", readable=False)
    for command in (("status",), ("run",), ("sql", WRITE), ("doctor",)):
        ran = stranger(tmp_path / "lake", *command)
        assert ran.returncode != 0, (command, ran.stdout)
        assert "ermission" in ran.stderr + ran.stdout, (command, ran.stdout, ran.stderr)


@as_root
def test_a_lake_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    given_away(tmp_path / "lake", readable=True)
    shown = stranger(tmp_path / "lake", "sql", "SHOW TABLES")
    assert (shown.returncode, "t" in shown.stdout) == (0, True), shown.stderr
    assert stranger(tmp_path / "lake", "status").returncode == 0
    written = stranger(tmp_path / "lake", "sql", WRITE)
    assert written.returncode != 0
    assert "ermission" in written.stderr, written.stderr
