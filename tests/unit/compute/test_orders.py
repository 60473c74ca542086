"""Orders of views as text: what they go on with, and which stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlglot import exp, parse_one

from lakestream.compute.windows.orders import complete_orders

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = "PARTITION BY k ORDER BY v"
BEFORE = "rows BETWEEN 1 preceding AND CURRENT ROW"
ALL = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


@pytest.mark.parametrize(
    ("written", "completed"),
    [
        ("SELECT v, w FROM t ORDER BY v LIMIT 2", "SELECT v, w FROM t ORDER BY v, 2 LIMIT 2"),
        ("SELECT v AS x, w + 1, 5 FROM t LIMIT 2", "SELECT v AS x, w + 1, 5 FROM t ORDER BY 1, 2 LIMIT 2"),
        ("SELECT v FROM t ORDER BY t.v LIMIT 2 OFFSET 1", "SELECT v FROM t ORDER BY t.v, 1 LIMIT 2 OFFSET 1"),
        ("SELECT v AS x, w FROM t ORDER BY X, 2 LIMIT 1", None),
        ("SELECT v, w FROM t ORDER BY ALL LIMIT 1", None),
        ("SELECT v, w FROM t ORDER BY v", None),
        ("SELECT a FROM t UNION SELECT 1 ORDER BY 1 LIMIT 1", None),
        ("SELECT 1 UNION SELECT a FROM t LIMIT 1", "SELECT 1 UNION SELECT a FROM t ORDER BY 1 LIMIT 1"),
        ("SELECT v FROM t WHERE EXISTS(SELECT w FROM u LIMIT 1)", None),
        (
            "SELECT v FROM t JOIN (SELECT * FROM u LIMIT 1) AS q ON q.c1 = t.v",
            "SELECT v FROM t JOIN (SELECT * FROM u ORDER BY 1, 2 LIMIT 1) AS q ON q.c1 = t.v",
        ),
        ("SELECT * FROM unknown LIMIT 1", None),
        (
            f"SELECT a, b + 1 AS c, 5, ROW_NUMBER() OVER ({WINDOW}) AS n FROM t",
            f"SELECT a, b + 1 AS c, 5, ROW_NUMBER() OVER ({WINDOW}, a, b + 1) AS n FROM t",
        ),
        (
            f"SELECT k, LAG(x) OVER ({WINDOW}) AS n, RANK() OVER (ORDER BY y DESC) AS r FROM t",
            f"SELECT k, LAG(x) OVER ({WINDOW}, x, y) AS n, RANK() OVER (ORDER BY y DESC) AS r FROM t",
        ),
        (
            "SELECT k, COUNT(*) AS c, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS n FROM t GROUP BY k",
            "SELECT k, COUNT(*) AS c, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, k) AS n FROM t GROUP BY k",
        ),
        (
            f"SELECT k, SUM(x) FILTER(WHERE y > 0) OVER (ORDER BY v {BEFORE}) FROM t",
            f"SELECT k, SUM(x) FILTER(WHERE y > 0) OVER (ORDER BY v, k, x, y > 0 {BEFORE}) FROM t",
        ),
        (
            f"SELECT a FROM (SELECT *, ROW_NUMBER() OVER ({WINDOW}) AS n FROM t) WHERE n = 1",
            f"SELECT a FROM (SELECT *, ROW_NUMBER() OVER ({WINDOW}, c1, c2) AS n FROM t) WHERE n = 1",
        ),
        (
            "SELECT a, FIRST_VALUE(x) OVER (PARTITION BY k) FROM t",
            "SELECT a, FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY a, x) FROM t",
        ),
        (
            "SELECT MAX_BY(a, b + 1) FILTER(WHERE c) FROM t",
            "SELECT MAX_BY(a, CASE WHEN NOT b + 1 IS NULL THEN STRUCT(b + 1, a) END) FILTER(WHERE c) FROM t",
        ),
        (
            "SELECT MIN_BY(a, STRUCT(b AS x)) OVER (PARTITION BY k) FROM t",
            "SELECT MIN_BY(a, STRUCT(b AS x, a)) OVER (PARTITION BY k) FROM t",
        ),
        (
            "SELECT LISTAGG(a, ',') WITHIN GROUP (ORDER BY b) FROM t",
            "SELECT LISTAGG(a, ',') WITHIN GROUP (ORDER BY b, a) FROM t",
        ),
        ("SELECT LISTAGG(a, ',') WITHIN GROUP (ORDER BY b, a DESC) FROM t", None),
        ("SELECT LISTAGG(DISTINCT a, ',') WITHIN GROUP (ORDER BY a) FROM t", None),
        # What the rows of a frame by RANGE are hangs on which are alike.
        (f"SELECT a, SUM(x) OVER ({WINDOW}) FROM t", None),
        (f"SELECT a, LAST_VALUE(x) OVER ({WINDOW}) FROM t", None),
        (f"SELECT a, FIRST_VALUE(x) IGNORE NULLS OVER ({WINDOW}) FROM t", None),
        (f"SELECT a, SUM(x) OVER ({WINDOW} {ALL}) FROM t", None),
        ("SELECT a, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ALL) FROM t", None),
    ],
)
def test_orders_go_on_with_what_is_shown(written: str, completed: str | None) -> None:
    query = parse_one(written, dialect="spark")
    assert isinstance(query, exp.Query)
    complete_orders(query, _shown)
    assert query.sql("spark") == (completed or written)


def _shown(select: exp.Select) -> Sequence[exp.Expr] | None:
    if "unknown" in select.sql():
        return None
    stars = {True: [exp.column("c1"), exp.column("c2")]}
    return [one for item in select.selects for one in stars.get(item.is_star, [item])]
