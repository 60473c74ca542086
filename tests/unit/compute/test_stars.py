"""What a star stands for: the columns that Spark has, in its order; what is twice is told by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.compute.windows.calculation import Relation, Scope, compile_calculation
from lakestream.errors import LakestreamError, StatementError
from lakestream.language.model import Fragment
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

A, B, C = ("id", "k", "v"), ("id", "w", "k"), ("c1", "ID")
TABLES = {
    name: Relation(f"main.{name}", columns, columns[0])
    for name, columns in zip("abc", (A, B, C), strict=True)
}
QUERIES = {
    "SELECT * FROM a": "id k v",
    "SELECT * EXCEPT (K) FROM a": "id v",
    "SELECT x.*, 1 AS one FROM a x": "id k v one",
    "SELECT * FROM a JOIN b ON a.k = b.k": "id k v id w k",
    "SELECT * FROM a, b": "id k v id w k",
    "SELECT a.*, b.w FROM a LEFT JOIN b ON a.k = b.k": "id k v w",
    "SELECT a.* EXCEPT (k), b.* EXCEPT (id) FROM a JOIN b ON a.k = b.k": "id v w k",
    "SELECT * FROM a JOIN b USING (k)": "k id v id w",
    "SELECT * FROM a JOIN b USING (k, id)": "k id v w",
    "SELECT * FROM a RIGHT JOIN b USING (k)": "k id v id w",
    "SELECT * FROM a FULL JOIN b USING (k, id)": "k id v w",
    "SELECT b.*, a.v FROM a LEFT JOIN b USING (k)": "k id w v",
    "SELECT a.*, b.w FROM a LEFT JOIN b USING (k)": "k id v w",
    "SELECT a.*, b.w FROM a RIGHT JOIN b USING (k)": "k id v w",
    "SELECT b.* FROM a FULL JOIN b USING (k, id)": "k id w",
    "SELECT a.* FROM a JOIN b USING (k) JOIN c ON c.c1 = v": "k id v",
    "SELECT * FROM a NATURAL JOIN b": "id k v w",
    "SELECT * FROM a JOIN b USING (k, id) JOIN c USING (id)": "id k v w c1",
    "SELECT * FROM a SEMI JOIN b ON a.k = b.k": "id k v",
    "SELECT * FROM a LEFT ANTI JOIN b USING (k)": "k id v",
    "SELECT * FROM a LATERAL VIEW explode(array(v)) e AS one": "id k v one",
    "SELECT a.*, e.* FROM a LATERAL VIEW posexplode(array(v)) e AS at, one": "id k v at one",
    "SELECT * FROM (SELECT k, count(*) AS n FROM a GROUP BY k) d JOIN c ON c.c1 = d.n": "k n c1 ID",
    "SELECT * FROM (SELECT * FROM a JOIN c USING (id)) d": "id k v c1",
    "SELECT * FROM (SELECT id, v FROM a) AS d (p, q)": "p q",
    "SELECT * FROM a AS d (p, q, r)": "p q r",
    "SELECT * FROM (SELECT k, v FROM a)": "k v",
    "SELECT * FROM (SELECT * FROM a UNION ALL SELECT * FROM b)": "id k v",
    "SELECT a.v, b.* FROM (SELECT c1 AS n FROM c) JOIN a ON n = a.id JOIN b USING (k)": "v k id w",
    "SELECT * FROM (SELECT k AS m FROM a) JOIN (SELECT c1 FROM c) ON c1 = m": "m c1",
    "SELECT * FROM a UNION ALL SELECT * FROM b": "id k v",
    "SELECT * FROM (SELECT k FROM a UNION SELECT * EXCEPT (id, w) FROM b) d": "k",
    "SELECT * FROM (SELECT * FROM a EXCEPT SELECT * FROM b) d": "id k v",
    "SELECT * FROM a JOIN (VALUES ('x', 1.5)) AS t (kk, f) ON t.kk = a.k": "id k v kk f",
    "SELECT * FROM VALUES ('x', 1.5) t": "col1 col2",
    "WITH d AS (SELECT * FROM a), e AS (SELECT * EXCEPT (v) FROM d) SELECT * FROM e": "id k",
    "WITH d (p, q, r) AS (SELECT * FROM a) SELECT * FROM d JOIN c ON c.c1 = d.p": "p q r c1 ID",
    "WITH d AS (SELECT k FROM a) SELECT * FROM (WITH d AS (SELECT v FROM a) SELECT * FROM d) x": "v",
}
"""Queries, and the columns of their stars."""


def names(query: str) -> tuple[str, ...]:
    def resolve(_: object, name: str, __: object) -> Relation:
        return TABLES[name]

    scope = Scope(TABLES["a"], (), None, frozenset(), "UTC", resolve)
    return compile_calculation(Fragment(query, statement=query, spark=True), scope).names


@pytest.mark.parametrize("query", QUERIES)
def test_a_star_is_the_columns_of_all_that_is_read(query: str) -> None:
    assert " ".join(names(query)) == QUERIES[query]


def test_spark_has_the_same_columns(spark: SparkSession) -> None:
    for name, relation in TABLES.items():
        kinds = {"k": "STRING"}
        columns = ", ".join(f"CAST(1 AS {kinds.get(one, 'INT')}) AS {one}" for one in relation.columns)
        spark.sql(f"SELECT {columns}").createOrReplaceTempView(name)
    assert {query: " ".join(spark.sql(query).columns) for query in QUERIES} == QUERIES


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT * FROM a, range(3) r", "COLUMN_NAME_MISSING", "not known: RANGE"),
        ("SELECT * FROM a PIVOT (sum(v) FOR k IN ('x'))", "COLUMN_NAME_MISSING", "PIVOT"),
        ("SELECT * FROM (SELECT k, count(*) FROM a GROUP BY k) d", "COLUMN_NAME_MISSING", "has no name"),
        ("SELECT * FROM a LATERAL VIEW explode(array(v)) e", "COLUMN_NAME_MISSING", "EXPLODE"),
        ("SELECT k.* FROM a", "COLUMN_NAME_MISSING", "fields of k"),
        ("SELECT y.* FROM a x", "COLUMN_NOT_FOUND", r"y\.\* is nothing .* mean x\.\*"),
        ("SELECT * EXCEPT (vv) FROM a", "COLUMN_NOT_FOUND", "vv is nothing .* mean v"),
        ("SELECT * FROM a JOIN c USING (kk)", "COLUMN_NOT_FOUND", "kk"),
    ],
)
def test_what_a_star_cannot_stand_for_is_said(query: str, code: str, said: str) -> None:
    with pytest.raises(StatementError, match=said) as refused:
        names(query)
    assert refused.value.code == code


def test_a_star_stands_for_the_columns_that_there_were(tmp_path: Path) -> None:
    queries = (
        "SELECT * FROM m",
        "SELECT * FROM (SELECT *, v + 1 AS w FROM m) q",
        "SELECT k, n FROM (SELECT k, max(v) AS n FROM (SELECT * FROM m) r GROUP BY k) q",
    )
    stream = "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM m INTO o AS SELECT * FROM %%trows"
    with without_spark():
        with Lake(tmp_path) as lake:
            lake.sql("CREATE TABLE m (ts TIMESTAMP, k VARCHAR(4) COMPOSITE KEY, v INT)")
            lake.sql(
                "; ".join(f"CREATE MATERIALIZED VIEW v{n} AS {query}" for n, query in enumerate(queries))
            )
            lake.sql(f"{stream}; INSERT INTO m VALUES ('2025-01-01', 'x', 1) ('2025-01-01', 'y', 3)")
            lake.run()
        with Lake(tmp_path) as lake:
            lake.sql(
                "ALTER TABLE m ADD COLUMN more INT; INSERT INTO m VALUES ('2025-01-01 01:00:00', 'x', 2, 7)"
            )
            lake.run()
            assert [one.last_error for one in lake.streams()] == [None] * 4
            assert sorted(lake.sql("SELECT k, v FROM v0").fetchall()) == [("x", 1), ("x", 2), ("y", 3)]
            assert sorted(lake.sql("SELECT k, w FROM v1").fetchall()) == [("x", 2), ("x", 3), ("y", 4)]
            assert sorted(lake.sql("SELECT * FROM v2").fetchall()) == [("x", 2), ("y", 3)]
            assert lake.sql("SELECT count(*) FROM o").fetchall() == [(1,)]
            lake.sql("CREATE OR REPLACE MATERIALIZED VIEW v0 AS SELECT * FROM m")
            lake.run()
            assert lake.sql("SELECT k, more FROM v0 WHERE more > 0").fetchall() == [("x", 7)]


def test_columns_of_one_name_are_told_without_spark(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, k VARCHAR(4) COMPOSITE KEY, v INT)")
        lake.sql("CREATE TABLE s (at TIMESTAMP, k VARCHAR(4) COMPOSITE KEY, w INT)")
        with pytest.raises(
            LakestreamError, match=r"are called k .*t\.k AS k_2.*t\.\* EXCEPT \(k\)"
        ) as refused:
            lake.sql("CREATE MATERIALIZED VIEW j AS\nSELECT * FROM m JOIN s ON s.k = m.k")
        place = refused.value.place
        assert (refused.value.code, place and (place.line, place.column)) == ("DUPLICATE_COLUMN", (2, 8))
        lake.sql("CREATE MATERIALIZED VIEW j AS SELECT m.*, s.* EXCEPT (k) FROM m JOIN s ON s.k = m.k")
        lake.sql("INSERT INTO m VALUES ('2025-01-01', 'x', 1); INSERT INTO s VALUES ('2025-01-01', 'x', 2)")
        lake.run()
        assert lake.sql("SELECT k, v, w FROM j").fetchall() == [("x", 1, 2)]
