"""What is equal and what is not: multisets of rows, near figures, numbers that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.observation.comparison import Comparison

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.observation.comparison import Compared

NAN, INFINITY = float("nan"), float("inf")
Row = tuple[str, float | None]


def compared(spark: SparkSession, expected: list[Row], found: list[Row], *key: str) -> Compared:
    def frame(rows: list[Row]) -> DataFrame:
        return spark.createDataFrame(rows, "k string, `a b` double")

    return Comparison(spark, {"k": "string", "a b": "double"}, key).run(frame(expected), frame(found))


@pytest.mark.parametrize("key", [(), ("k",), ("k", "a b")])
def test_of_equal_rows_each_one_counts(spark: SparkSession, key: tuple[str, ...]) -> None:
    once: list[Row] = [("x", 1.0), ("y", 2.0)]
    twice = compared(spark, once, [*once, ("y", 2.0)], *key)
    assert (twice.equal, twice.expected, twice.found, twice.differing) == (2, 2, 3, 1)
    assert [(item.expected, item.found) for item in twice.listed] == [(None, ("y", 2.0))]
    missing = compared(spark, [*once, ("y", 2.0)], once, *key)
    assert (missing.equal, missing.expected, missing.found, missing.differing) == (2, 3, 2, 1)


def test_near_figures_are_equal_in_whatever_order_they_come(spark: SparkSession) -> None:
    found: list[Row] = [("x", 3.0), ("x", 0.1 + 0.2), ("x", None), ("y", NAN), ("y", INFINITY)]
    expected: list[Row] = [("x", None), ("x", 0.3), ("y", INFINITY), ("y", NAN), ("x", 3.0000000001)]
    assert compared(spark, expected, found, "k").differing == 0


@pytest.mark.parametrize(("expected", "found"), [(5.0, NAN), (NAN, INFINITY), (5.0, INFINITY), (0.0, None)])
def test_what_is_no_number_is_near_none(
    spark: SparkSession, expected: float | None, found: float | None
) -> None:
    for one, other in ((expected, found), (found, expected)):
        assert compared(spark, [("x", one)], [("x", other)], "k").differing == 1


def test_times_that_python_does_not_reach_are_told_as_texts(spark: SparkSession) -> None:
    far = spark.sql("SELECT timestamp_micros(253402300800000000L) AS at, 1 AS n")
    seen = Comparison(spark, {"at": "timestamp", "n": "int"}, ("at",)).run(far, far.where("false"))
    assert [(item.expected, item.found) for item in seen.listed] == [(("+10000-01-01 00:00:00", "1"), None)]
