"""Where Spark is not installed: what needs it says so, and nothing else fails for the want of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

_WINDOW = "INTERVAL(1m) SLIDING(1m) FROM t INTO"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "py4j"):
        monkeypatch.setitem(sys.modules, name, None)
    lake = Lake(str(tmp_path / "lake"), settings=Settings())
    lake.sql(
        "CREATE TABLE t (ts TIMESTAMP, v INT); INSERT INTO t VALUES ('2025-01-01', 1), ('2025-01-02', 2)"
    )
    return lake


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_format(ts, 'EEEE') FROM t",
        f"CREATE STREAM a {_WINDOW} x AS SELECT _twstart AS at, avg(soundex(v)) AS v FROM %%trows",
        f"CREATE STREAM b {_WINDOW} y AS SELECT _twstart AS at, max(date_format(ts, 'E')) AS v FROM %%trows",
    ],
)
def test_what_needs_spark_says_so(lake: Lake, sql: str) -> None:
    with lake, pytest.raises(LakestreamError, match="is not installed") as refusal:
        lake.sql(sql)
    assert refusal.value.code == "SPARK_MISSING"


def test_what_is_misspelt_is_told_without_it(lake: Lake) -> None:
    with lake, pytest.raises(LakestreamError, match="there is no column vv") as refusal:
        lake.sql("SELECT vv FROM t")
    assert refusal.value.code == "QUERY_INVALID"


def test_what_does_not_need_it_works(lake: Lake) -> None:
    with lake:
        assert lake.sql("SELECT sum(v) FROM t").fetchall() == [(3,)]
        lake.sql(f"CREATE STREAM s {_WINDOW} o AS SELECT _twstart AS at, sum(v) AS v FROM %%trows")
        lake.sql("INSERT INTO t VALUES ('2025-01-03', 4), ('2025-01-03 00:02:00', 5)")
        lake.run()
        assert lake.sql("SELECT v FROM o WHERE v > 3").fetchall() == [(4,)]
