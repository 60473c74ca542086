"""What a lake must refuse: code, message, place; and nothing of a refused statement may remain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakestream import Lake, Settings
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text("utf-8"))

SETUP = """
CREATE TABLE nt (ts TIMESTAMP, v INT);
CREATE TABLE nt2 (ts TIMESTAMP, v INT);
CREATE TABLE ck (ts TIMESTAMP, k INT COMPOSITE KEY, v INT);
CREATE TABLE ref (ts TIMESTAMP, p INT);
CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (loc VARCHAR(16), gid INT);
CREATE TABLE t1 USING meters TAGS ('A', 1);
CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM nt INTO o
  AS SELECT _twstart AS ws, count(*) AS n FROM %%trows;
CREATE STREAM g INTERVAL(10s) SLIDING(10s) FROM meters PARTITION BY loc INTO og
  AS SELECT _twstart AS ws, count(*) AS n FROM %%trows;
CREATE TABLE taken__errors (ts TIMESTAMP, v INT);
CREATE STREAM e WITH (TIMESTAMP='ts') INTO oe AS SELECT count(*) AS c FROM nt GROUP BY TUMBLINGWINDOW(ss, 5);
CREATE STREAM arrived WITH (TIME_CHARACTERISTIC='processing') INTO oa AS
SELECT count(*) AS c FROM nt GROUP BY TUMBLINGWINDOW(ss, 5);
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark, settings=Settings()) as lake:
        lake.sql(SETUP)
        yield lake


def everything(lake: Lake) -> tuple[object, ...]:
    tables = lake.sql("SHOW TABLES").fetchall(), lake.sql("SHOW STABLES").fetchall()
    return (*tables, lake.sql("SHOW DATABASES").fetchall(), [stream.name for stream in lake.streams()])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"][:70])
def test_refused(case: dict[str, Any], lake: Lake) -> None:
    before = everything(lake)
    with pytest.raises(StatementError) as refused:
        lake.sql(case["sql"])
    error = refused.value
    assert error.code == case["code"], error.render()
    assert re.search(case["match"], error.message), error.render()
    assert re.search(case.get("hint", ""), error.hint), error.render()
    if "line" in case:
        assert error.place is not None
        assert (error.place.line, error.place.column) == (case["line"], case["column"]), error.render()
        assert "^" in error.render()
    assert everything(lake) == before


def test_a_cycle_through_other_streams_is_refused(lake: Lake) -> None:
    with pytest.raises(StatementError) as refused:
        lake.sql(
            "CREATE STREAM back INTERVAL(1m) SLIDING(1m) FROM o INTO nt "
            "AS SELECT _twstart AS ts, max(n) AS v FROM %%trows"
        )
    assert refused.value.code == "STREAM_CYCLE"
