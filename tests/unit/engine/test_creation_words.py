"""Ordinary functions have types that are known, so that CREATE STREAM starts no Spark."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from lakestream.compute.expressions.plain import is_plain
from lakestream.compute.expressions.plain_queries import is_plain_query

_COLUMNS = {"v": "a whole number", "d": "a double", "s": "a text", "ts": "an instant"}


@pytest.mark.parametrize(
    "said",
    [
        *("round(avg(v), 2)", "round(sum(v))", "upper(max(s))", "trim(max(s))", "replace(max(s), 'a', 'b')"),
        *("date_format(max(ts), 'yyyy-MM')", "to_date(max(ts))", "max(ts) - INTERVAL 1 HOUR"),
        "count_if(ts >= TIMESTAMP '2026-01-01 00:00:00')",
    ],
)
def test_types_of_ordinary_functions_are_known(said: str) -> None:
    assert is_plain(parse_one(f"SELECT {said} AS r FROM rows", dialect="spark"), _COLUMNS)


@pytest.mark.parametrize(
    "said",
    ["round(s, 2)", "upper(v)", "trim(BOTH 'x' FROM s)", "date_format(s, 'yyyy')", "s - INTERVAL 1 HOUR"],
)
def test_types_of_others_are_spark_s_to_tell(said: str) -> None:
    assert not is_plain(parse_one(f"SELECT {said} AS r FROM rows", dialect="spark"), _COLUMNS)


_TABLES = {
    "t": _COLUMNS,
    "k": {"s": "a text", "f": "a whole number", "v": "a text"},
}
_VIEWS = [
    *("s, count(*) AS n, avg(d) AS m FROM t GROUP BY s", "upper(s) AS u, sum(v) AS n FROM t GROUP BY 1"),
    *("DISTINCT s FROM t WHERE v > 1", "s AS s, max(ts) AS at FROM t GROUP BY s HAVING count(*) > 1"),
    *("t.ts, k.f * t.d AS x FROM t JOIN k ON k.s = t.s", "k.f FROM t LEFT JOIN k USING (s)"),
    *("s FROM t UNION ALL SELECT s FROM k", "q.n FROM (SELECT s, count(*) AS n FROM t GROUP BY s) q"),
    "s, d FROM (SELECT s, d, row_number() OVER (PARTITION BY s ORDER BY ts DESC) AS n FROM t) WHERE n = 1",
    *(
        "upper(s) AS u, count(*) AS n FROM t GROUP BY u HAVING n > 1",
        "t.s AS s FROM t JOIN k ON k.s = t.s GROUP BY t.s",
    ),
    *("a FROM (SELECT s, d FROM t) AS q(a, b)", "* FROM t", "sum(d) OVER (PARTITION BY s) AS x FROM t"),
]
_OTHERS = [
    *("v FROM t JOIN k ON k.s = t.s", "t.s FROM t JOIN k ON k.f", "s FROM t WHERE v"),
    *("s FROM t UNION SELECT f FROM k", "s AS v, count(*) AS n FROM t GROUP BY v", "s FROM other"),
    *("s FROM t GROUP BY 2", "count(*) AS n, s FROM t GROUP BY 1", "a FROM (SELECT s, d FROM t) AS q(a)"),
    *("rank() OVER (PARTITION BY s) AS n FROM t", "s FROM t NATURAL JOIN k", "NULL AS x FROM t"),
    *("count(*) AS n FROM t GROUP BY n", "t.s AS s FROM t JOIN k ON k.s = t.s GROUP BY s"),
    *("s FROM t WHERE s IN (SELECT s FROM k)", "s FROM t ORDER BY s LIMIT 1", "* EXCEPT (v) FROM t"),
]


def _of_tables(said: str, *, nested: bool = True) -> bool:
    return is_plain_query(parse_one(f"SELECT {said}", dialect="spark"), _TABLES, {}, nested=nested)


@pytest.mark.parametrize("said", _VIEWS)
def test_types_of_views_are_known(said: str) -> None:
    assert _of_tables(said)


@pytest.mark.parametrize("said", _OTHERS)
def test_types_of_other_views_are_spark_s_to_tell(said: str) -> None:
    assert not _of_tables(said)


@pytest.mark.parametrize(
    "said", ["k.f FROM t LEFT JOIN k USING (s)", _VIEWS[4], "s FROM t UNION SELECT s FROM k"]
)
def test_queries_within_windows_have_no_others_in_them(said: str) -> None:
    assert _of_tables("sum(v) AS n FROM (SELECT v, ts FROM t) AS t WHERE ts >= _twstart", nested=False)
    assert _of_tables(said, nested=False) == (said == _VIEWS[4])
