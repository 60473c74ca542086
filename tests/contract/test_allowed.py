"""What Spark made of a query, held against what a query may do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream import Lake, Settings
from lakestream.errors import StatementError
from lakestream.language.common import allowed
from lakestream.language.common.allowed import HARMLESS, REFUSED
from lakestream.storage.sessions.plans import refuse_plan
from lakestream.storage.sessions.session import is_remote, statement_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OF_OTHERS = frozenset(
    {"ai_query", "cloud_files", "http_request", "identifier", "openrowset", "read_files", "read_kafka"}
    | {"read_statestore", "remote_query", "secret", "try_secret", "vector_search"}
    | {"read_csv", "read_parquet"}
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    settings = Settings(small_path="spark")
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql("INSERT INTO t VALUES ('2025-01-01 00:00:00', 2)")
        yield lake


def test_the_lists_name_every_function_that_spark_has(spark: SparkSession) -> None:
    if is_remote(spark):
        pytest.skip("a client does not see the registry")
    state = spark._jsparkSession.sessionState()
    found = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        listed = registry.listFunction()
        found |= {listed.apply(at).unquotedString().rpartition(".")[2] for at in range(listed.size())}
    named = {name for name in found if re.fullmatch(r"\w+", name) and not name.startswith("ls_")}
    assert named - HARMLESS - REFUSED.keys() == set(), "what is new is judged before it is listed"
    assert (HARMLESS | REFUSED.keys()) - named - OF_OTHERS == set()


def test_rows_that_are_handed_to_spark_as_a_file_are_the_tables(lake: Lake) -> None:
    begin, count = datetime(2025, 1, 1, tzinfo=UTC), 100_000
    times = [begin + timedelta(seconds=at) for at in range(count)]
    lake.sql("CREATE TABLE large (ts TIMESTAMP, v INT)")
    lake.insert("large", pa.table({"ts": times, "v": pa.array(range(count), pa.int32())}))
    found = lake.sql("SELECT count(*), max(v) FROM large WHERE sha1(CAST(v AS STRING)) > ''")
    assert found.fetchall() == [(count, count - 1)]
    assert "deleted 1 row" in lake.sql("DELETE FROM large WHERE year(ts) = 2025 AND v = 7").message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT java_method('java.lang.Math', 'abs', -1)",
        "SELECT * FROM t WHERE v IN (SELECT CAST(builtin.reflect('java.lang.Math', 'abs', v) AS INT) FROM t)",
        "SELECT transform(array(1), x -> try_reflect('java.lang.Math', 'abs', x))",
        "SELECT schema_of_xml('<a/>')",
        "SELECT user",
        "SELECT input_file_name()",
        "SET",
    ],
)
def test_a_plan_that_runs_or_tells_what_it_may_not_is_refused(sql: str, spark: SparkSession) -> None:
    if is_remote(spark):
        pytest.skip("a client does not see the plan")
    session = statement_session(spark)
    session.range(1).selectExpr("CAST(id AS INT) AS v").createOrReplaceTempView("t")
    with pytest.raises(StatementError) as refused:
        refuse_plan(session.sql(sql), sql)
    assert refused.value.code == "FORBIDDEN"


def test_a_plan_that_reads_files_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    if is_remote(spark):
        pytest.skip("a client does not see the plan")
    tmp_path.joinpath("x.csv").write_text("a\n1\n")
    for frame in (spark.read.csv(str(tmp_path)), spark.read.format("text").load(str(tmp_path))):
        with pytest.raises(StatementError, match="HadoopFsRelation"):
            refuse_plan(frame.limit(1), "of files")


def test_names_without_brackets_are_found_in_the_plan(lake: Lake, spark: SparkSession) -> None:
    if is_remote(spark):
        pytest.skip("a client does not see the plan")
    with pytest.raises(StatementError, match="CurrentUser"):
        lake.sql("SELECT user FROM t")
    with pytest.raises(StatementError, match="CurrentUser"):
        lake.sql(
            "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t INTO o "
            "AS SELECT _twstart AS w, max(concat(user, 'x')) AS x FROM %%trows"
        )


def test_functions_that_the_owner_of_the_session_made_are_called(lake: Lake, spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE FUNCTION default.doubled(x INT) RETURNS INT RETURN 2 * x")
    try:
        assert lake.sql("SELECT default.doubled(v) FROM t").fetchall() == [(4,)]
    finally:
        spark.sql("DROP FUNCTION default.doubled")
    with pytest.raises(StatementError, match="there is no function"):
        lake.sql("SELECT default.doubled(v) FROM t")


def test_a_function_of_another_spark_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "HARMLESS", HARMLESS - {"luhn_check", "soundex"})
    with pytest.raises(StatementError, match="luhn_check is not known to be harmless"):
        lake.sql("SELECT `luhn_check`('a') FROM t")
    with pytest.raises(StatementError, match="soundex is not known to be harmless"):
        lake.sql(
            "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t INTO o "
            "AS SELECT _twstart AS w, max(soundex('a')) AS x FROM %%trows"
        )


def test_a_recursion_without_end_ends(lake: Lake) -> None:
    with pytest.raises(StatementError) as refused:
        lake.sql("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r")
    assert refused.value.code in ("QUERY_INVALID", "NOT_SUPPORTED")
