"""DECIMAL and FLOAT columns that are passed on, and added up, held against Spark by drawn queries."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession, large_room

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]
PRICES = [None, *map(Decimal, ["0.00", "0.50", "-0.50", "1.25", "99999999.99", "-99999999.99"])]
WIDE = [None, *map(Decimal, ["0", "1E-18", "-1E-18", "12345678901234567890.5", "-99999999999999999999"])]
FLOATS = [None, 0.0, -0.0, TENTH, 0.5, -2.5, 16777216.0, 3e38, 1e-45, math.inf, -math.inf, math.nan]
COLUMNS = {
    "p": (pa.decimal128(10, 2), PRICES),
    "w": (pa.decimal128(38, 18), WIDE),
    "f": (pa.float32(), FLOATS),
    "b": (pa.binary(), [None, b"", b"a", b"\x00", b"\xff\x00", b"\x7f"]),
}
NUMBERS = ["0", "1", "-1", "0.5", "-0.5", "0.1", "1.25", "1.250", ".1", "16777216", "99999999.99", "NULL"]


def rows_of(seed: int, count: int = 48) -> pa.Table:
    """Return rows with each value of each column, in an order of its own."""
    chance = random.Random(seed)
    columns = {
        "n": pa.array(range(count), pa.int64()),
        "g": pa.array([n % 5 for n in range(count)], pa.int64()),
        "i": pa.array([n % 7 - 3 for n in range(count)], pa.int32()),
        "d": pa.array([n / 4 for n in range(count)]),
    }
    for name, (kind, values) in COLUMNS.items():
        drawn = [*values, *(chance.choice(values) for _ in range(count - len(values)))]
        chance.shuffle(drawn)
        columns[name] = pa.array(drawn, kind)
    return pa.table(columns)


class Drawer:
    """Draws queries that pass these columns on."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def condition(self) -> str:
        """Return SQL of a condition on one of the columns."""
        pick = self.chance.choice
        column, one, other = pick([*COLUMNS]), pick(NUMBERS), pick(NUMBERS)
        return pick(
            [
                f"{column} {pick(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {one}",
                f"{one} {pick(['=', '<', '>='])} {column}",
                f"{column} BETWEEN {one} AND {other}",
                f"{column} {pick(['IN', 'NOT IN'])} ({one}, {other})",
                f"{column} IS {pick(['', 'NOT '])}NULL",
                f"NOT ({column} > {one} OR {column} IS NULL)",
                f"CAST(f AS DOUBLE) {pick('<>=')} {one}",
            ]
        )

    def value(self, depth: int = 2) -> str:
        """Return SQL of a value computed of these columns."""
        pick = self.chance.choice
        if depth == 0:
            return pick([*COLUMNS, *COLUMNS, "p", "i", "2", "0.25", "10.5", "NULL"])
        one, other = (self.value(depth - 1) for _ in range(2))
        return pick(
            [
                *[f"({one} {pick('+-*')} {other})"] * 3,
                f"(-{one})",
                f"abs({one})",
                f"(f / {pick(['2', 'i', 'f', 'd'])})",
                f"coalesce({one}, {other})",
                f"CASE WHEN {self.condition()} THEN {one} ELSE {other} END",
                f"if({self.condition()}, {one}, NULL)",
                f"nullif({one}, {other})",
                f"greatest({one}, {other})",
                f"struct({one} AS a, {other} AS b).{pick('ab')}",
                f"CAST({one} AS {pick(['DECIMAL(20, 4)', 'DECIMAL(38, 18)', 'DECIMAL(12, 2)', 'DOUBLE'])})",
            ]
        )

    def total(self) -> str:
        """Return SQL of an aggregate of such values."""
        pick, of = self.chance.choice, self.value(self.chance.randint(0, 1))
        call = pick(["sum", "sum", "sum", "avg", "max", "min", "count"])
        return pick(
            [
                f"{call}({of})",
                f"{pick(['sum', 'count'])}(DISTINCT {of})",
                f"sum({of}) FILTER (WHERE {self.condition()})",
                f"max(struct(n, {of} AS v)).v",
            ]
        )

    def query(self) -> str:
        """Return a query whose rows come in one order."""
        pick = self.chance.choice
        column, where, call = pick([*COLUMNS]), self.condition(), pick(["min", "max", "count"])
        by = pick(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
        key = pick(["g", "p", "w", "f", "b"])
        parts = f"SELECT g, sum({column}) AS x FROM edges GROUP BY g, i"
        best = f"WITH e AS (SELECT g, max({column}) AS x FROM edges GROUP BY g)"
        ordered = f"SELECT g, max_by({column}, struct(n)) AS x, count_if({where}) AS c FROM edges"
        return pick(
            [
                f"SELECT n, p, w, f FROM edges WHERE {where} ORDER BY {column}{by}, n",
                f"SELECT * FROM (SELECT *, {column} AS x FROM edges) AS e WHERE {where} ORDER BY x{by}, n",
                f"SELECT g, {call}({column}) AS x FROM edges WHERE {where} GROUP BY g ORDER BY g",
                f"SELECT g, {call}({column}) AS x FROM edges GROUP BY g HAVING {call}({column}) > 1",
                f"SELECT {key}, count(*) AS c, max({column}) AS x FROM edges GROUP BY {key} ORDER BY {key}",
                f"{ordered} GROUP BY g ORDER BY g",
                *[f"SELECT n, {self.value()} AS v FROM edges ORDER BY n"] * 3,
                *[f"SELECT g, {self.total()} AS v FROM edges GROUP BY g ORDER BY g"] * 3,
                f"SELECT g, sum(x) AS v FROM ({parts}) AS s GROUP BY g ORDER BY g",
                f"SELECT n, sum({column}) OVER (PARTITION BY g ORDER BY n) AS v FROM edges ORDER BY n",
                f"SELECT n, {column} AS v FROM edges UNION ALL SELECT n, {self.value(1)} FROM edges",
                f"SELECT e.b FROM (SELECT n, {self.value(1)} FROM edges) AS e(a, b) ORDER BY e.a",
                f"SELECT n, xxhash64({column}, n) AS v, xxhash64(p IS NULL, p) AS w FROM edges ORDER BY n",
                "SELECT e.s.* FROM (SELECT n, struct(q.*) AS s FROM edges AS q) AS e ORDER BY e.n",
                f"SELECT g, min_by({column}, struct(f, n)) AS x FROM edges GROUP BY g ORDER BY g",
                f"SELECT n, max({column}) OVER (PARTITION BY {key}) AS x FROM edges ORDER BY n",
                f"SELECT n, lag({column}) OVER (ORDER BY {column}{by}, n) AS x FROM edges ORDER BY n",
                f"{best} SELECT d.n, e.x FROM edges AS d JOIN e ON d.g = e.g ORDER BY d.n",
            ]
        )


def in_order(table: pa.Table, query: str) -> list[dict[str, object]]:
    """Return the rows, in an order where the query gives them in none."""
    rows: list[dict[str, object]] = table.to_pylist()
    return rows if "ORDER BY" in query else sorted(rows, key=str)


def as_bits(value: object) -> object:
    """Return a value that is equal to those that are the same in all bits."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return (value, str(value)) if isinstance(value, Decimal) else value


@pytest.mark.spark
@pytest.mark.parametrize("many", [False, True])
def test_drawn_queries_give_what_spark_gives(spark: SparkSession, *, many: bool) -> None:
    rows, drawer = rows_of(7), Drawer(11 + many)
    small = SmallSession(large_room(1 << 30)) if many else SmallSession()
    view_of(arrow_frame(spark, rows), "edges")
    answered = 0
    for query in dict.fromkeys(drawer.query() for _ in range(150)):
        small.register("edges", rows)
        try:
            found = small.sql(query).toArrow()
        except NotExactError:
            continue
        finally:
            small.clear()
        answered += 1
        expected = spark.sql(query).toArrow()
        assert found.schema.types == expected.schema.types, query
        assert found.column_names == expected.column_names, query
        ordered = [in_order(table, query) for table in (found, expected)]
        for mine, other in zip(*ordered, strict=True):
            zeros = "f" in query and any(one in query for one in ("min(", "max(", "greatest(", "GROUP BY f"))
            same = mine == other if zeros else False
            assert same or [*map(as_bits, mine.values())] == [*map(as_bits, other.values())], query
    small.close()
    assert answered > 60
