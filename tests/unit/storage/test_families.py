"""Values that Spark does not let stand beside one another are Spark's to refuse, where types are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.rewritten import rewritten
from lakestream.storage.small.typed.families import MixedError
from lakestream.storage.small.typed.passing import passed_on, settled

if TYPE_CHECKING:
    from lakestream.storage.small.typed.scopes import Columns

_COLUMNS: Columns = (
    ("ts", "timestamp"),
    ("d", "date"),
    ("i", "int"),
    ("v", "double"),
    ("b", "boolean"),
    ("s", "string"),
    ("x", "binary"),
)
_PLAIN = tuple(column for column in _COLUMNS if column[1] != "binary")

_COMPARED = ["ts = i", "i <> d", "b = ts", "b < i", "i <= TRUE", "ts IN (i)", "i BETWEEN b AND b", "s = x"]
_CHOSEN = [
    *("coalesce(i, b)", "nvl(s, TRUE)", "greatest(i, s)", "least(ts, 'a')", "if(b, i, s)", "array(i, b)"),
    *("CASE WHEN b THEN i ELSE b END", "lag(ts, 1, i) OVER (ORDER BY ts)", "coalesce(d, 1)"),
]
_TAKEN = [
    *("sum(b)", "avg(ts)", "bool_and(i)", "count_if(s)", "sqrt(b)", "b OR i", "NOT i", "if(i, 1, 2)"),
    *("nullif(ts, i)", "CASE ts WHEN i THEN 1 END", "d IS TRUE", "size(s)", "date(i)", "b / NULL"),
    *("i IN (SELECT b FROM t)", "count(*) FILTER (WHERE i)", "count(*) FILTER (WHERE NULL)"),
    *("CASE WHEN NULL THEN 1 END", "if(NULL, 1, 2)", "lead(i, NULL) OVER (ORDER BY ts)"),
]
_CLAUSES = [
    *("i FROM t UNION ALL SELECT s FROM t", "d FROM t UNION SELECT b FROM t", "i FROM t WHERE i"),
    *(
        "s FROM t GROUP BY s HAVING max(i)",
        "t.i FROM t JOIN t AS u ON t.i",
        "t.i FROM t JOIN t AS u ON t.i = u.ts",
    ),
    "q FROM (SELECT i AS q FROM t) WHERE q = DATE '2026-01-01'",
    *("i FROM t WHERE NULL", "i FROM t WHERE coalesce(NULL, NULL)", "t.i FROM t JOIN t AS u ON NULL"),
]
_BOUNDS = ["LIMIT NULL", "LIMIT '1'", "LIMIT 1.5", "LIMIT TRUE", "LIMIT (SELECT 1)", "LIMIT 1 OFFSET '1'"]
_NAMES = [
    *("SELECT * FROM t AS u(a)", "SELECT * FROM (SELECT i, v FROM t) AS u(a)"),
    *("SELECT * FROM (SELECT i, v FROM t) AS u(a, a)", "WITH w(a) AS (SELECT i, v FROM t) SELECT * FROM w"),
    *("SELECT * FROM (VALUES (1, 2)) AS u(a)", "WITH w(a) AS (VALUES (1, 2)) SELECT * FROM w"),
    "SELECT * FROM t LATERAL VIEW explode(array(1, 2)) x AS y, z",
]
_RIGHT = [
    *("ts > d", "ts > '2026-01-01 00:00:00'", "b = i", "b <> 1", "i < v", "coalesce(i, v, 0)", "i IS NULL"),
    *("CASE b WHEN 1 THEN 'a' END", "nullif(b, 1)", "sum(i + v)", "count_if(i > 1)", "b AND i > 1 AND TRUE"),
    *("greatest(ts, ts)", "NULL = i", "coalesce(NULL, i)"),
]


_NAMED = [
    *("SELECT * FROM (VALUES (1, 2)) AS u(a, b)", "SELECT col2 FROM VALUES (1, 2)"),
    *("WITH w(a) AS (VALUES (1)) SELECT a FROM w", "SELECT * FROM (SELECT i, v FROM t) AS u(a, b)"),
    *("SELECT * FROM t LATERAL VIEW posexplode(array(1, 2)) x AS y, z", "SELECT i FROM t LIMIT ALL"),
    *("SELECT * FROM t LATERAL VIEW explode(map('a', 1)) x AS y, z", "SELECT i FROM t LIMIT 1 + 1"),
]


def _query(said: str) -> str:
    return f"SELECT {said}" if " FROM t " in said or said.endswith("FROM t") else f"SELECT {said} AS r FROM t"


@pytest.mark.parametrize("said", [*_COMPARED, *_CHOSEN, *_TAKEN, *_CLAUSES])
def test_families_that_do_not_go_together_are_left_to_spark(said: str) -> None:
    query = _query(said) if "IN (SELECT" not in said else f"SELECT {said} AS r FROM t"
    with pytest.raises(NotExactError):
        rewritten(query, (("t", _COLUMNS if "x" in said.split() else _PLAIN),))
    with pytest.raises(NotExactError):
        passed_on(query, (("t", _COLUMNS),))


@pytest.mark.parametrize("query", [*(f"SELECT i FROM t {said}" for said in _BOUNDS), *_NAMES])
def test_bounds_and_names_that_do_not_fit_are_left_to_spark(query: str) -> None:
    with pytest.raises(MixedError):
        settled(query, (("t", _PLAIN),))


@pytest.mark.parametrize("query", _NAMED)
def test_bounds_and_names_that_fit_are_answered(query: str) -> None:
    settled(query, (("t", _PLAIN),))


@pytest.mark.parametrize("said", _RIGHT)
def test_families_that_go_together_are_answered(said: str) -> None:
    query = f"SELECT {said} AS r FROM t"
    assert rewritten(query, (("t", _PLAIN),)).views == ("t",)
    assert passed_on(query, (("t", _COLUMNS),)).text == query


def test_thousands_of_conditions_beside_bytes_do_not_stand_in_one_another() -> None:
    query = "SELECT i FROM t WHERE " + " AND ".join(f"i <> {at}" for at in range(600))
    assert passed_on(query, (("t", _COLUMNS),)).columns == (("i", "int"),)


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ("CASE WHEN typeof(s) = 'timestamp' THEN 'a' ELSE s END", "s"),
        ("CASE WHEN typeof(max(ts)) = 'timestamp' THEN i ELSE 0 END", "i"),
        ("CASE WHEN typeof(i) RLIKE '^(int|bigint)$' THEN 1 WHEN typeof(i) = 'string' THEN 2 END", "1"),
        ("CASE WHEN typeof(b) = 'string' THEN 1 END", "NULL"),
        (
            "CASE WHEN typeof(s) = 'string' THEN CASE WHEN typeof(i) = 'string' THEN 1 ELSE 2 END ELSE 3 END",
            "2",
        ),
    ],
)
def test_what_is_chosen_by_a_type_is_the_part_for_that_type(said: str, chosen: str) -> None:
    assert settled(f"SELECT {said} AS r FROM t", (("t", _PLAIN),)) == f"SELECT {chosen} AS r FROM t"


@pytest.mark.parametrize("said", ["i + 1", "unknown", "coalesce(i, v)"])
def test_what_is_chosen_by_a_type_that_is_not_known_stays(said: str) -> None:
    query = f"SELECT CASE WHEN typeof({said}) = 'string' THEN 1 ELSE 2 END AS r FROM t"
    assert settled(query, (("t", _PLAIN),)) == query
