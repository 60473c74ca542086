"""Queries of which no more than some rows are wanted."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.storage.small.session import SmallSession
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

ROWS = 40
HEADS = (
    "SELECT v, s FROM t ORDER BY v DESC",
    "SELECT v % 7 AS k, count(*) AS n FROM t GROUP BY v % 7 ORDER BY k",
    "SELECT DISTINCT v % 5 AS k FROM t ORDER BY k DESC",
    "WITH a AS (SELECT v FROM t WHERE v > 3) SELECT v FROM a ORDER BY v",
    "SELECT v FROM t WHERE v < 9 UNION ALL SELECT -v FROM t WHERE v < 9 ORDER BY v",
    "(SELECT v FROM t ORDER BY v)",
    "SELECT a.v, b.v AS w, c.v AS x FROM t a, t b, t c ORDER BY a.v, b.v, c.v",
)
TAILS = ("", " LIMIT 3", " LIMIT 1000", " LIMIT 4 OFFSET 2", " OFFSET 5", " LIMIT 2 + 9")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return a lake with a table of some rows."""
    root: Path = tmp_path_factory.mktemp("limited") / "lake"
    with without_spark(), Lake(root) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, s STRING)")
        rows = (f"('2026-01-01 00:00:{v:02}', {v}, 's{v}')" for v in range(ROWS))
        lake.sql(f"INSERT INTO t VALUES {', '.join(rows)}")
        yield lake


@pytest.mark.parametrize(("head", "tail"), list(product(HEADS, TAILS)))
def test_a_limit_cuts_what_a_query_gives_and_no_more_is_computed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, head: str, tail: str
) -> None:
    """Of the whole result come the first rows, and a word that there are more; the rest is held nowhere."""
    whole = lake.sql(head + tail).fetchall()
    given: list[int] = []
    answered = SmallSession.answered

    def noted(self: SmallSession, *args: Any, **named: Any) -> pa.Table:
        rows = answered(self, *args, **named)
        given.append(rows.num_rows)
        return rows

    monkeypatch.setattr(SmallSession, "answered", noted)
    for limit in (0, 1, 3, 10, 10_000_000):
        given.clear()
        found = lake.sql(head + tail, limit=limit)
        assert found.fetchall() == whole[:limit]
        if "+" not in tail:
            assert max(given) <= limit + 1
