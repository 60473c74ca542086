"""However the input was cut into commits and ticks, the output is that of the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.properties.driving import check
from tests.properties.histories import Example, examples
from tests.properties.profiles import few, several, some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@some
@given(example=examples(disorder=False))
def test_in_order_by_arrow(spark: SparkSession, example: Example) -> None:
    check(replace(example, transport="arrow"), spark)


@pytest.mark.long
@few
@given(example=examples(disorder=False))
def test_in_order_by_spark(spark: SparkSession, example: Example) -> None:
    check(replace(example, transport="spark"), spark)


@several
@given(example=examples(disorder=True))
def test_late_rows_and_updates(spark: SparkSession, example: Example) -> None:
    check(replace(example, transport="auto"), spark)


@pytest.mark.long
@some
@given(example=examples(disorder=True))
def test_more_late_rows_and_updates(spark: SparkSession, example: Example) -> None:
    check(replace(example, transport="auto"), spark)
