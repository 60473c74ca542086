"""Rows of numbers from the first to the last: as many as there are, whatever else their query does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import FEW_ROWS, Room, SmallSession, large_room

SIZES = (1, 2, 4095, 4096, 4097, 8192, 9_999, 10_000, 10_001, 100_000)
QUERIES = (
    "SELECT g, b, explode(sequence(a, b)) AS k FROM t",
    "SELECT *, explode(sequence(a, b)) AS k FROM (SELECT g, b, a FROM t) WHERE g < 9",
    "SELECT t.g, t.b, explode(sequence(u.a, t.b)) AS k FROM t JOIN t u ON t.g = u.g",
    "SELECT g, max(b) AS b, explode(sequence(min(a), max(b))) AS k FROM t GROUP BY g",
    "SELECT DISTINCT g, b, explode(sequence(a, b)) AS k FROM (SELECT * FROM t UNION ALL SELECT * FROM t)",
    "WITH u AS (SELECT g, b, a FROM t) SELECT u.*, explode(sequence(a, b)) FROM u WHERE a IS NOT NULL",
    (
        "SELECT g, b, k FROM (SELECT g, b, explode(sequence(c, b)) AS k FROM "
        "(SELECT g, b, explode(sequence(a, a)) AS c FROM t))"
    ),
)
"""Of g, b (and others), and last of each number from a to b."""


@pytest.mark.parametrize("room", [FEW_ROWS, large_room(1 << 30)], ids=["few", "many"])
@pytest.mark.parametrize("size", SIZES)
def test_numbers_are_rows(size: int, room: Room) -> None:
    ends = [(1, 5, size + 4), (2, -3, -2 - size), (3, 7, None), (4, None, 7), (5, size, size)]
    wanted = {
        (g, b, k)
        for g, a, b in ends
        if a is not None and b is not None
        for k in range(a, b + (1 if a <= b else -1), 1 if a <= b else -1)
    }
    session = SmallSession(room)
    columns = [pa.array(column, pa.int64()) for column in zip(*ends, strict=True)]
    for query in QUERIES:
        session.register("t", pa.table(columns, ["g", "a", "b"]))
        found = session.sql(query).toArrow()
        rows = [found[0], found[1], found[found.num_columns - 1]]
        assert found.num_rows == len(wanted), query
        assert set(zip(*(column.to_pylist() for column in rows), strict=True)) == wanted, query
        session.clear()
    session.close()


def test_very_many_numbers_are_left_to_others() -> None:
    session = SmallSession()
    for ends in ("1, 1000000000", "-9223372036854775808, 9223372036854775807"):
        with pytest.raises(NotExactError):
            session.sql(f"SELECT explode(sequence({ends})) AS k")
    session.close()
