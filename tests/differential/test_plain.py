"""What is accepted without Spark, held against Spark: by drawn queries, most of which have wrong types.

What is plain and has a type in the small session is accepted by Spark, and of the same type.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.errors import PySparkException
from sqlglot import parse_one
from sqlglot.errors import ParseError

from lakestream.compute.expressions.plain import is_plain, kinds_of
from lakestream.storage.columns.types import types_of
from lakestream.storage.rows.views import view_of_sql
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "l": "bigint",
    "i": "int",
    "h": "smallint",
    "y": "tinyint",
    "d": "double",
    "s": "string",
    "k": "boolean",
    "t": "timestamp",
    "e": "date",
    "a": "array<int>",
    "r": "struct<a: int, b: string>",
    "p": "decimal(10,2)",
    "w": "decimal(38,18)",
    "f": "float",
}
COLUMNS = {f"{letter}{number}": kind for letter, kind in TYPES.items() for number in "12"}
LITERALS = (
    *("0", "1", "-1", "3L", "1.5", "0.1", "-1.5", "2e0", "1.5D", "3000000000"),
    *("'a'", "'10'", "''", "NULL", "TRUE", "FALSE", "'2026-01-01'", "array()"),
    *("TIMESTAMP '2026-01-01 00:00:00'", "DATE '2026-01-01'"),
)
CASTS = (
    "BIGINT",
    "INT",
    "SMALLINT",
    "TINYINT",
    "DOUBLE",
    "BOOLEAN",
    "STRING",
    "TIMESTAMP",
    "DATE",
    "DECIMAL(12,4)",
    "FLOAT",
)
OPERATORS = ["+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "<=>", "AND", "OR", "||"]
OF_ONE = [
    "abs",
    "floor",
    "ceil",
    "sqrt",
    "unix_micros",
    "unix_millis",
    "unix_date",
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "length",
    "md5",
    "upper",
    "lower",
    "trim",
    "round",
    "to_date",
    "timestamp_micros",
    "timestamp_millis",
]
OF_TWO = [
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "concat",
    "startswith",
    "endswith",
    "contains",
    "pmod",
    "array",
    "struct",
]
AGGREGATES = [
    "sum",
    "avg",
    "max",
    "min",
    "count",
    "any_value",
    "bool_and",
    "bool_or",
    "count_if",
    "first",
    "last",
    "collect_list",
    "max_by",
    "min_by",
]


class Drawer:
    """Draws expressions without regard to types."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self, depth: int) -> str:
        """Return SQL of a value."""
        pick = self.chance.choice
        if depth == 0:
            return pick([pick([*COLUMNS]), pick([*COLUMNS]), pick(LITERALS)])
        one, other, third = (self.value(depth - 1) for _ in range(3))
        forms: list[Callable[[], str]] = [
            lambda: f"({one} {pick(OPERATORS)} {other})",
            lambda: f"({one} {pick(OPERATORS)} {other})",
            lambda: f"{pick(OF_ONE)}({one})",
            lambda: f"{pick(OF_TWO)}({one}, {other})",
            lambda: f"(NOT {one})",
            lambda: f"(- {one})",
            lambda: f"if({one}, {other}, {third})",
            lambda: f"CASE WHEN {one} THEN {other} ELSE {third} END",
            lambda: f"{pick(['CAST', 'TRY_CAST'])}({one} AS {pick(CASTS)})",
            lambda: f"date_trunc('{pick(['SECOND', 'DAY', 'MONTH'])}', {one})",
            lambda: f"({one} BETWEEN {other} AND {third})",
            lambda: f"({one} IN ({other}, {third}))",
            lambda: f"({one} IS {pick(['', 'NOT '])}NULL)",
            lambda: f"({one} LIKE 'a%')",
            lambda: f"left({one}, 2)",
            lambda: f"substring({one}, 1, 2)",
            lambda: f"round({one}, {pick(['2', '0', '-1', other])})",
            lambda: f"replace({one}, {other}, 'x')",
            lambda: f"date_format({one}, {pick(['yyyy-MM-dd', 'HH', 'EEE'])!r})",
            lambda: f"({one} {pick('+-')} INTERVAL {pick(['1 HOUR', '2 DAYS', '3 MONTHS', '1.5 SECONDS'])})",
        ]
        return pick(forms)()

    def total(self, depth: int) -> str:
        """Return SQL of an aggregate."""
        pick = self.chance.choice
        function, one, other = pick(AGGREGATES), self.value(depth), self.value(depth)
        if function.endswith("_by"):
            call = f"{function}({one}, {pick([f'struct({other})', other])})"
        else:
            call = f"{function}({pick(['', '', 'DISTINCT '])}{one})"
        return call + pick(["", "", "", f" FILTER (WHERE {self.value(depth)})"])

    def query(self) -> str:
        """Return a query of one column or two."""
        pick, depth = self.chance.choice, self.chance.randint(0, 2)
        column = pick([*COLUMNS])
        # Also one that is a column's.
        name = pick(["c", "c", pick([*COLUMNS])])
        forms: list[Callable[[], str]] = [
            lambda: f"SELECT {self.value(depth)} AS {name}, {self.value(0)} AS other FROM rows",
            lambda: f"SELECT {self.value(depth)} AS {name} FROM rows WHERE {self.value(1)}",
            lambda: f"SELECT {self.total(min(depth, 1))} AS {name} FROM rows",
            lambda: (
                f"SELECT {column}, {self.total(1)} AS {name} FROM rows GROUP BY {pick([column, '1', 'c'])}"
            ),
            lambda: (
                f"SELECT {self.total(0)} AS {name} FROM rows GROUP BY {column} HAVING {self.total(0)} > 1"
            ),
            lambda: f"SELECT {self.total(0)} + {self.total(0)} AS {name} FROM rows HAVING {self.value(1)}",
            lambda: f"SELECT if({self.value(1)}, {self.total(0)}, {self.total(0)}) AS {name} FROM rows",
        ]
        return pick(forms)()


@pytest.mark.parametrize("seed", range(2))
def test_what_is_plain_is_what_spark_accepts(spark: SparkSession, seed: int) -> None:
    small, drawer, known = SmallSession(), Drawer(seed), kinds_of(COLUMNS)
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    for session in (spark, small):
        view_of_sql(cast("SparkSession", session), f"SELECT {nothing} WHERE false", "rows")
    accepted = 0
    for sql in (drawer.query() for _ in range(4_000)):
        try:
            if not is_plain(parse_one(sql, dialect="spark"), known):
                continue
            found = types_of(cast("DataFrame", small.sql(sql)))
        except (NotExactError, ParseError):
            continue
        accepted += 1
        try:
            said = types_of(spark.sql(sql))
        except PySparkException as error:
            pytest.fail(f"{sql}\n{error}")
        assert found == said, sql
    small.close()
    assert accepted > 150
