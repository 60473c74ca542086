"""Whole statements, held against Spark: what DuckDB answers of them is what Spark answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STATEMENTS = Path(__file__).with_name("statements.sql").read_text(encoding="utf-8").split(";\n")[:-1]
INT, TEXT = pa.int32(), pa.string()
TABLES = {
    "t": pa.table(
        {
            "i": pa.array([1, 2, 3, 4, 5], INT),
            "n": pa.array([10, 20, None, 40, 20], INT),
            "s": pa.array(["a", "b", "a", None, "01"], TEXT),
            "d": pa.array([1.5, 2.5, None, -1.0, float("nan")], pa.float64()),
        }
    ),
    "q": pa.table(
        {
            "k": pa.array([1, 2, 3, 4, 2], INT),
            "sym": pa.array(["a", "a", "b", None, "b"], TEXT),
            "p": pa.array([100, None, 300, 400, 250], INT),
        }
    ),
}
MOST_OF_SPARKS = 90
"""Statements that are Spark's to answer; of more of them this shows less than it did."""


def rows(answer: pa.Table, *, in_order: bool) -> list[tuple[str, ...]]:
    """Return rows as text, fractions but for their last bits, lists named alike."""
    columns = [[repr(_plain(value)) for value in column.to_pylist()] for column in answer.columns]
    found = [*zip(*columns, strict=True)]
    return found if in_order else sorted(found)


def _plain(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else value


def kinds(answer: pa.Table) -> list[str]:
    """Return the types of columns; how the items of a list are called, and what may be NULL, is no matter."""
    return [str(kind).replace("<l: ", "<element: ").replace(" not null", "") for kind in answer.schema.types]


def names(answer: pa.Table, statement: str) -> list[str]:
    """Return how the columns are called whose results are; the others are called when a statement is read."""
    read = parse_one(statement, dialect="spark")
    results = read.selects if isinstance(read, exp.Query) else []
    is_told = all(isinstance(item, (exp.Alias, exp.Column, exp.Star, exp.Explode)) for item in results)
    return answer.column_names if is_told else []


def test_statements_are_answered_as_spark_answers_them_or_not_at_all(spark: SparkSession) -> None:
    small = SmallSession()
    for name, table in TABLES.items():
        view_of(arrow_frame(spark, table), name)
        small.register(name, table)
    of_sparks, differ = [], []
    for statement in STATEMENTS:
        try:
            found = small.sql(statement).toArrow()
        except NotExactError:
            of_sparks.append(statement)
            continue
        expected = spark.sql(statement).toArrow()
        in_order = " ORDER BY " in statement.rpartition(")")[2]
        told = [
            (names(answer, statement), kinds(answer), rows(answer, in_order=in_order))
            for answer in (found, expected)
        ]
        if told[0] != told[1]:
            differ.append((statement, *told))
    assert differ == []
    assert len(of_sparks) < MOST_OF_SPARKS, of_sparks
