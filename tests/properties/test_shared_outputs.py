"""Streams of one output: each one's rows are those that it has in an output of its own, whatever comes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.errors import StatementError
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLES = """
CREATE STABLE power (ts TIMESTAMP, watts DOUBLE) TAGS (hall VARCHAR(10));
CREATE TABLE drill USING power TAGS ('A') lathe USING power TAGS ('B') press USING power TAGS (NULL)
"""
WINDOWS = {
    "grid": "INTERVAL(1m) SLIDING(1m)",
    "hopping": "INTERVAL(2m) SLIDING(1m)",
    "session": "SESSION(ts, 90s)",
    "count": "COUNT_WINDOW(3)",
}
KEPT_APART = {
    "subtables": (
        "PARTITION BY tbname",
        "OUTPUT_SUBTABLE(concat('{name}_', tbname))",
    ),
    "tags": (
        "PARTITION BY tbname",
        "OUTPUT_SUBTABLE(concat('t_', tbname)) TAGS (of VARCHAR(10) AS '{name}')",
    ),
    "named": ("PARTITION BY hall, tbname", "TAGS (of VARCHAR(10) AS '{name}', hall VARCHAR(10) AS hall)"),
}
STREAM = (
    "CREATE STREAM {name}_{output} {windows} FROM power {groups} STREAM_OPTIONS({options}) "
    "INTO {output} {apart} AS SELECT _twstart AS at, {result} AS v FROM %%trows"
)
RESULTS = {"x": "max(watts)", "y": "sum(watts)"}


def make(lake: Lake, windows: tuple[str, str], apart: str, options: str) -> None:
    """Make streams x and y of one output, and each of one of its own."""
    groups, clause = KEPT_APART[apart]
    for name, kind in zip(RESULTS, windows, strict=True):
        for output in ("both", f"only_{name}"):
            said = {"windows": WINDOWS[kind], "groups": groups, "options": options, "result": RESULTS[name]}
            lake.sql(STREAM.format(name=name, output=output, apart=clause.format(name=name), **said))


def rows(lake: Lake, table: str) -> list[str]:
    return sorted(map(repr, lake.sql(f"SELECT * FROM {table}").fetchall()))


def is_equal(lake: Lake) -> bool:
    return rows(lake, "both") == sorted(rows(lake, "only_x") + rows(lake, "only_y"))


def history(lake: Lake, seed: int, *, steps: int) -> Iterator[None]:
    """Insert, update, delete and recalculate at random, a commit or two at a time."""
    drawn = random.Random(seed)
    for _ in range(steps):
        for _ in range(drawn.randint(1, 3)):
            at = f"2025-01-01 08:{drawn.randrange(12):02}:{drawn.randrange(60):02}"
            table = drawn.choice(["drill", "lathe", "press"])
            change = drawn.random()
            if change < 0.7:
                lake.sql(f"INSERT INTO {table} VALUES ('{at}', {drawn.randrange(100)})")
            elif change < 0.85:
                lake.sql(f"DELETE FROM power WHERE ts = '{at}'")
            else:
                lake.sql(f"UPDATE power SET watts = watts + 1 WHERE ts <= '{at}'")
        lake.run()
        yield
        if drawn.random() < 0.5:
            for output in ("both", "only_x"):
                lake.sql(f"RECALCULATE STREAM x_{output} FROM '2025-01-01 08:00:00' TO '2025-01-01 08:00:01'")
            lake.run()
            yield


@pytest.mark.parametrize("options", ["EXACT", "FILL_HISTORY"])
@pytest.mark.parametrize("apart", KEPT_APART)
@pytest.mark.parametrize(
    "windows",
    [("grid", "grid"), ("session", "hopping"), ("count", "session")],
    ids=["grids", "sessions", "counts"],
)
def test_each_has_the_rows_of_an_output_of_its_own(
    tmp_path: Path, windows: tuple[str, str], apart: str, options: str
) -> None:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        make(lake, windows, apart, options)
        for _ in history(lake, len(apart), steps=4):
            assert is_equal(lake)


@pytest.mark.spark
def test_spark_rewrites_and_verifies_a_streams_own_rows(tmp_path: Path, spark: SparkSession) -> None:
    settings = Settings(small_path="spark", small_rows=0)
    with Lake(tmp_path, spark=spark, settings=settings) as lake:
        lake.sql(TABLES)
        make(lake, ("grid", "session"), "tags", "EXACT")
        for _ in history(lake, 5, steps=2):
            assert is_equal(lake)
        for name in RESULTS:
            verified = lake.verify(f"{name}_both")
            assert verified.holds
            assert verified.others_rows == len(rows(lake, "both")) - verified.found_rows > 0
        lake.sql("UPDATE both SET v = 0 WHERE of = 'y'")
        assert lake.verify("x_both").holds
        assert not lake.verify("y_both").holds


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("OUTPUT_SUBTABLE(concat('a_', tbname))", "OUTPUT_SUBTABLE(concat('a_b', tbname))"),
        ("OUTPUT_SUBTABLE(concat('a_', tbname))", "OUTPUT_SUBTABLE(concat(tbname, '_b'))"),
        ("OUTPUT_SUBTABLE(concat('a_', hall, tbname))", "OUTPUT_SUBTABLE(concat('b_', hall, tbname))"),
        ("TAGS (of VARCHAR(10) AS 'a')", "TAGS (of VARCHAR(10) AS 'a')"),
        ("TAGS (of VARCHAR(10) AS 'a')", "TAGS (of VARCHAR(10) AS hall)"),
        ("", ""),
    ],
)
def test_what_may_be_anothers_row_is_refused(tmp_path: Path, first: str, second: str) -> None:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        said = {"windows": WINDOWS["grid"], "options": "FILL_HISTORY", "result": "max(watts)"}
        said |= {"groups": "PARTITION BY tbname, hall", "output": "both"}
        lake.sql(STREAM.format(name="a", apart=first, **said))
        with pytest.raises(StatementError) as refused:
            lake.sql(STREAM.format(name="b", apart=second, **said))
        assert refused.value.code == "OUTPUT_TAKEN"


def test_other_rows_are_not_called_a_streams_own(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        make(lake, ("grid", "grid"), "tags", "EXACT")
        lake.sql("INSERT INTO drill VALUES ('2025-01-01 08:00:00', 1) ('2025-01-01 08:05:00', 1)")
        lake.run()
        groups, clause = KEPT_APART["tags"]
        said = {
            "windows": WINDOWS["grid"],
            "groups": groups,
            "options": "EXACT",
            "output": "both",
            "name": "x",
        }
        again = "CREATE OR REPLACE" + STREAM.removeprefix("CREATE")
        with pytest.raises(StatementError) as refused:
            lake.sql(again.format(apart=clause.format(name="z"), result="max(watts)", **said))
        assert refused.value.code == "OUTPUT_MISMATCH"
        with pytest.raises(StatementError):
            lake.sql(again.format(apart=clause.format(name="x"), result="max(hall)", **said))
        lake.sql(again.format(apart=clause.format(name="x"), result="min(watts)", **said))
        lake.run()
        assert is_equal(lake)
