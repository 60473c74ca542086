"""Rows of others in an output: a verification counts them, and holds the stream to its own."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from tests.contract.foreign_tables import Maker, Owner
from tests.contract.test_foreign_outputs import ROWS, START, STREAM

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_a_verification_leaves_rows_of_others_to_them(
    small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    owner = Owner(spark, tmp_path / "theirs")
    owner.sql(*Maker().statements())  # seven rows of theirs, of the first minute
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}'")
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        lake.sql(STREAM)
        for second, n, site in ROWS[:3]:
            lake.insert("own", [{"ts": START + timedelta(seconds=second), "n": n, "site": site}])
            lake.run()
        noon = "TIMESTAMP '2025-01-01 12:00:00'"
        owner.sql(f"INSERT INTO {{t}} (at, site, v) VALUES ({noon}, 'a', 1), ({noon}, 'a', 1)")
        for second, n, site in ROWS[3:]:
            lake.insert("own", [{"ts": START + timedelta(seconds=second), "n": n, "site": site}])
            lake.run()
        sound = lake.verify("s")
        assert (sound.holds, sound.equal_rows, sound.found_rows, sound.others_rows) == (True, 2, 2, 9)
        assert dict(sound.summary())["rows of others"] == "9"
        # A row of a window is the stream's to answer for, whoever wrote it.
        owner.sql(
            "UPDATE {t} SET v = 5 WHERE v = 9",
            "INSERT INTO {t} (at, site, v) VALUES ('2025-01-01 01:00:10', 'b', 2)",
        )
        seen = lake.verify("s")
        assert (seen.equal_rows, seen.differing_rows, seen.others_rows) == (1, 2, 9)
        # What the log no longer tells is said, and not guessed.
        (record,) = lake._at.registry.streams()
        lake._at.registry.update(record.uuid, output_version=None)
        blind = lake.verify("s")
        assert (blind.differing_rows, blind.others_rows) == (11, None)
        assert dict(blind.summary())["rows of others"] == "not told apart"


def test_rows_without_a_window_are_not_the_streams(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        lake.sql(STREAM.replace("theirs", "o"))
        for second, n, site in ROWS:
            lake.insert("own", [{"ts": START + timedelta(seconds=second), "n": n, "site": site}])
        lake.run()
        Owner(spark, tmp_path / "lake" / "main" / "o").sql(
            "INSERT INTO {t} (at, site, v) VALUES (TIMESTAMP '2025-01-01 12:00:00', 'a', 1)"
        )
        sound = lake.verify("s")
        assert (sound.holds, sound.equal_rows, sound.found_rows, sound.others_rows) == (True, 2, 2, 1)
