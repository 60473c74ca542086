"""A lake on a Spark session that a user has: what it computes with, and what it leaves as it was."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakestream import Lake
from lakestream.engine.rounds.failing import as_failure
from lakestream.errors import SparkGoneError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark

MINUTES = (
    "CREATE TABLE t (ts TIMESTAMP, n INT); CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t "
    "INTO o AS SELECT _twstart AS minute, sum(n) AS total, 1 / 0 AS nothing FROM %%trows"
)
SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.runSQLOnFiles")


@pytest.fixture
def user(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as a notebook has it: in another zone, strict, in a schema of its own, with a view."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.sql("CREATE SCHEMA users")
    session.sql("USE users")
    session.createDataFrame([(1,)], "n INT").createOrReplaceTempView("t")  # which makes it the active one
    yield session
    session.sql("DROP SCHEMA users CASCADE")
    spark.createDataFrame([], "n INT")  # as before, for the tests that follow


def state(session: SparkSession) -> dict[str, Any]:
    """Return what a user sees of a session."""
    return {
        "active": SparkSession.getActiveSession(),
        "built": SparkSession.builder.getOrCreate(),
        "settings": {key: session.conf.get(key, None) for key in SETTINGS},
        "catalog": session.catalog.currentCatalog(),
        "database": session.catalog.currentDatabase(),
        "views": session.sql("SHOW VIEWS").collect(),
        "rows": session.table("t").collect(),
    }


@pytest.mark.slow
def test_a_given_session_stays_as_it_was(user: SparkSession, tmp_path: Path) -> None:
    before = state(user)
    assert before["active"] is user
    with Lake(tmp_path / "lake", spark=user) as lake:
        lake.sql(MINUTES)
        lake.insert("t", user.createDataFrame([(0, 7), (60_000, 8)], "ts LONG, n INT"))
        assert lake.run().failed == []
        assert state(user) == before
        result = lake.sql("SELECT CAST(minute AS STRING) AS minute, total, nothing FROM o")
        assert result.fetchall() == [("1970-01-01 00:00:00", 7, None)]
        assert result.to_spark().count() == lake.table("o").count() == 1
        assert lake.sql("SHOW STREAMS").to_spark().count() == 1
        assert lake.sql("SELECT count(*) FROM information_schema.ins_stream_events").fetchall() == [(0,)]
        assert lake.spark.table("main.t").count() == 2
    assert state(user) == before
    assert user.range(3).count() == 3


def test_two_lakes_share_a_given_session(user: SparkSession, tmp_path: Path) -> None:
    lakes = [Lake(tmp_path / name, spark=user) for name in ("one", "two")]
    for lake in lakes:
        lake.sql(MINUTES)
    for number in range(2):
        for factor, lake in enumerate(lakes, 1):
            lake.insert("t", [{"ts": 60_000 * number, "n": factor}])
            assert lake.run().failed == []
    lakes[0].close()
    lakes[1].insert("t", [{"ts": 120_000, "n": 2}])
    assert lakes[1].run().failed == []
    totals = [lake.sql("SELECT total FROM o ORDER BY minute").fetchall() for lake in lakes]
    assert totals == [[(1,)], [(2,), (2,)]]


def test_a_session_that_is_stopped_meanwhile_fails_no_stream(
    user: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake", spark=user)
    lake.sql(MINUTES)
    lake.insert("t", [{"ts": 0, "n": 7}])
    lake.run()
    lake.insert("t", [{"ts": 60_000, "n": 8}])
    with monkeypatch.context() as stopped:
        stopped.setattr(user.sparkContext, "_jsc", None)  # as stop() leaves it
        for use in (
            lake.run,
            lambda: lake.sql("SELECT sum(n) FROM t"),
            lambda: lake.verify("s"),
            lake.another,
        ):
            with pytest.raises(SparkGoneError) as caught:
                use()
            assert caught.value.code == "SPARK_STOPPED"
        for error in (caught.value, Py4JError("An error occurred")):  # in the middle of a round
            with pytest.raises(SparkGoneError):
                as_failure(error)
        assert [stream.status for stream in lake.streams()] == ["Running"]
        lake.close()
    assert lake.run().failed == []
    assert lake.sql("SELECT total FROM o").fetchall() == [(7,)]


WITHOUT_DELTA = """
from pyspark.sql import SparkSession
from lakestream import Lake
from lakestream.errors import LakestreamError

def code(use):
    try:
        use()
    except LakestreamError as error:
        return error.code

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
lake = Lake("lake", spark=spark)
lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT)")
print(code(lambda: lake.sql("SELECT hex('a')")), code(lambda: lake.spark), code(lambda: Lake("lake").spark))
spark.stop()
print(code(lambda: lake.spark), code(lambda: Lake("lake", spark=spark)), code(lake.close))
print(code(lambda: Lake("lake").spark))
"""


def printed(script: str, folder: Path) -> list[str]:
    """Return the words that a process of its own prints."""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.slow
def test_a_session_without_delta_or_stopped_is_refused_by_name(tmp_path: Path) -> None:
    assert printed(WITHOUT_DELTA, tmp_path) == [
        *("DELTA_NOT_CONFIGURED", "DELTA_NOT_CONFIGURED", "DELTA_NOT_CONFIGURED"),
        *("SPARK_STOPPED", "SPARK_STOPPED", "None"),
        "DELTA_NOT_CONFIGURED",  # what it has started lives on, and takes no more jars
    ]


def test_lakes_in_threads_of_their_own_share_a_session(spark: SparkSession, tmp_path: Path) -> None:
    # One that computes as lakestream does already, so that it is no lake's own child.
    lakes = [Lake(tmp_path / str(number), spark=spark) for number in range(2)]

    def totals(at: int) -> list[tuple[object, ...]]:
        lake = lakes[at]
        lake.sql(MINUTES)
        for number in range(4):
            lake.insert("t", [{"ts": 60_000 * number, "n": 10**at}])
            assert lake.run().failed == []
        return lake.sql("SELECT total FROM o ORDER BY minute").fetchall()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(totals, range(2))) == [[(1,)] * 3, [(10,)] * 3]
