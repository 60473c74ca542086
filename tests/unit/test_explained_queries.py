"""EXPLAIN of a query: who computes it, and what it reads; nothing here starts Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = """
CREATE STABLE t (ts TIMESTAMP, v INT) TAGS (g VARCHAR(5));
INSERT INTO a USING t TAGS ('x') VALUES ('2026-01-01', 1), ('2026-01-02', 2);
CREATE DATABASE other;
CREATE TABLE other.u (ts TIMESTAMP, v INT);
INSERT INTO other.u VALUES ('2026-01-01', 1);
INSERT INTO other.u VALUES ('2026-01-02', 2)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", settings=Settings(jars=tmp_path)) as lake:  # no jars, no Spark
        lake.sql(TABLES)
        yield lake


def explained(lake: Lake, query: str) -> list[tuple[str, str]]:
    return [(stage, what.partition(", bytes")[0]) for stage, what in lake.sql(f"EXPLAIN {query}").fetchall()]


@pytest.mark.parametrize(
    ("query", "who", "read"),
    [
        ("SELECT count(*) FROM t", "DuckDB", ["main.t, version 1 (rows: 2"]),
        ("SELECT v FROM a WHERE v > 1 LIMIT 5", "DuckDB", ["main.t, version 1 (rows: 2"]),
        ("(SELECT v FROM t) UNION ALL (SELECT v FROM t)", "DuckDB", ["main.t, version 1 (rows: 2"]),
        (
            "WITH w AS (SELECT v FROM t) SELECT w.v FROM w JOIN other.u ON u.v = w.v",
            "DuckDB",
            ["main.t, version 1 (rows: 2", "other.u, version 2 (rows: 2"],
        ),
        ("SELECT v FROM other.u VERSION AS OF 1", "DuckDB", ["other.u, version 1 (rows: 1"]),
        ("SELECT sql FROM information_schema.ins_streams", "DuckDB", ["information_schema.ins_streams"]),
        ("VALUES (1)", "DuckDB", []),
        ("SELECT soundex(g) FROM t", "Spark: Soundex is not on the list", ["main.t, version 1 (rows: 2"]),
    ],
)
def test_explain_says_who_computes_a_query_and_what_it_reads(
    lake: Lake, query: str, who: str, read: list[str]
) -> None:
    lines = explained(lake, query)
    assert lines[0][0] == "computed by"
    assert lines[0][1].startswith(who)
    assert [what for stage, what in lines if stage == "read"] == read
    assert lines[-1][0] == "query"


def test_a_table_that_is_not_small_is_sparks_to_read(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake", settings=Settings(jars=tmp_path, small_bytes=1)) as lake:
        lake.sql(TABLES)
        said = dict(lake.sql("EXPLAIN SELECT sum(v) FROM t").fetchall())
    assert said["computed by"] == "Spark: t is larger than small_bytes, or Spark alone reads it"


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT nosuch FROM t", "QUERY_INVALID", "there is no column nosuch"),
        ("SELECT v FROM nosuch", "TABLE_NOT_FOUND", "main.nosuch"),
        ("SELECT v FROM t VERSION AS OF 9", "VERSION_NOT_FOUND", "9"),
        ("SELECT reflect('a', 'b')", "FORBIDDEN", "reflect"),
        ("ANALYZE SELECT 1", "NOT_SUPPORTED", "EXPLAIN"),
        ("(FORMAT JSON) SELECT 1", "NOT_SUPPORTED", "EXPLAIN"),
        ("INSERT INTO t VALUES (1)", "NOT_SUPPORTED", "EXPLAIN"),
    ],
)
def test_what_is_no_query_is_refused_as_the_query_is(lake: Lake, query: str, code: str, said: str) -> None:
    with pytest.raises(LakestreamError, match=said) as refused:
        lake.sql(f"EXPLAIN {query}")
    assert refused.value.code == code
    assert refused.value.place is not None
