"""Which functions are aggregates: those that Spark has for such, and TDengine's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.language.common.aggregates import AGGREGATES, is_aggregate
from lakestream.language.common.allowed import HARMLESS
from lakestream.language.expressions.parsing import parse_query
from lakestream.language.model import Fragment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {2: ("approx_percentile", "corr", "covar", "histogram", "max_by", "min_by", "percentile", "regr")}
"""What the names of functions begin with that take so many arguments."""


def is_told(name: str) -> bool:
    count = next((count for count, begins in VALUES.items() if name.startswith(begins)), 1)
    if name == "count_min_sketch":
        count = 4
    query = f"SELECT {name}({', '.join('vwxy'[:count])}) AS n FROM t"
    return is_aggregate(parse_query(Fragment(query, statement=query, spark=True)).selects[0].unalias())


@pytest.mark.parametrize("name", sorted({*AGGREGATES, "avg", "count_if", "first", "last", "mode", "var_pop"}))
def test_an_aggregate_is_told(name: str) -> None:
    assert is_told(name)


@pytest.mark.parametrize("written", ["true AND any(v)", "v = any(v > 1)", "1 + 1 = 2 OR any(v)"])
def test_any_behind_an_operator_is_one(written: str) -> None:
    query = f"SELECT {written} AS n FROM t"
    tree = parse_query(Fragment(query, statement=query, spark=True))
    assert any(map(is_aggregate, tree.selects[0].walk()))
    assert tree.sql("spark").upper() == query.upper()


@pytest.mark.parametrize(
    "written", ["v LIKE ANY ('a%', 'b')", "upper(v)", "aggregate(v, 0, (a, b) -> a + b)"]
)
def test_what_is_of_one_row_is_none(written: str) -> None:
    query = f"SELECT {written} AS n FROM t"
    tree = parse_query(Fragment(query, statement=query, spark=True))
    assert not any(map(is_aggregate, tree.selects[0].walk()))


def test_all_of_sparks_are_known(spark: SparkSession) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names, aggregates = registry.listFunction().iterator(), set()
    while names.hasNext():
        name = names.next()
        found = registry.lookupFunction(name)
        if found.isDefined() and found.get().getGroup() == "agg_funcs":
            aggregates.add(name.funcName())
    assert {name for name in aggregates & HARMLESS if not is_told(name)} == set()
