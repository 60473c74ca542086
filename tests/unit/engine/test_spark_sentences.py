"""What is told of an error of Spark's, and of values that are collected in an order."""

from __future__ import annotations

import pytest

from lakestream.engine.base.refused import spark_message
from lakestream.engine.streams.unsorted import refuse_unsorted
from lakestream.language.model import Fragment

WAITED = """org.apache.spark.SparkException: Exception thrown in awaitResult:

JVM stacktrace:
org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkRuntimeException: [SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.multipleRowScalarSubqueryError"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero; line 1 pos 7\n at x", "[DIVIDE_BY_ZERO] Division by zero"),
        (WAITED, "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row"),
        ("java.lang.IllegalStateException: none named\n at x", "java.lang.IllegalStateException: none named"),
    ],
)
def test_what_a_part_failed_of_is_told(text: str, sentence: str) -> None:
    assert spark_message(Exception(text)) == sentence


@pytest.mark.parametrize("order", ["v", "v DESC NULLS LAST, w"])
@pytest.mark.parametrize("call", ["listagg(v)", "string_agg(v, ', ')", "listagg(DISTINCT v, ', ')"])
def test_texts_in_an_order_are_taken(call: str, order: str) -> None:
    query = f"SELECT {call} WITHIN GROUP (ORDER BY {order}) AS x FROM t"
    refuse_unsorted(Fragment(query, 1, 1, query, spark=True))
