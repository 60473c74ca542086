"""Whatever happens to a source and to the process, a stream's output is that of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.properties.machine import ExactMachine, Machine, PolicyMachine, run_histories
from tests.properties.profiles import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("machine", [ExactMachine, PolicyMachine])
def test_random_histories(spark: SparkSession, machine: type[Machine]) -> None:
    run_histories(machine, spark, settings(some, stateful_step_count=8))
