"""Whatever happens to a source and to the process, a stream's output is that of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.properties.definitions import Definition
from tests.properties.machine import ExactMachine, Machine, PolicyMachine, run_histories
from tests.properties.profiles import some
from tests.properties.world import Setup, World
from tests.reference.grid import Interval, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("machine", [ExactMachine, PolicyMachine])
def test_random_histories(spark: SparkSession, machine: type[Machine]) -> None:
    run_histories(machine, spark, settings(some, stateful_step_count=8))


def test_a_first_row_that_moves_to_another_group_after_it_has_expired_takes_no_window(
    spark: SparkSession,
) -> None:
    """Found by seed 11: under DELETE_RECALC the row had its group's first windows taken back."""
    hours = Interval(length=Span(5, "h"), step=Span(2, "h"), offset=Span(1, "h"))
    definition = Definition(
        trigger=hours, grouping="tag", ignore_nodata=True, expired_time=Span(6, "h"), delete_recalc=True
    )
    with World(Setup(definition=definition, tick=Span(30, "m")), spark) as world:
        world.insert(("t2", "B", 0, None, 0.5), ("t2", "B", 3, None, 0.5))
        world.insert(("t2", "B", 35, None, 0.5), ("t3", "A", 43, 99, -3.25))
        world.run()
        world.merge((("t2", "A", 35, 17, 0.5), ("t2", "A", 0, 10, 1e6), ("t3", "A", 40, 10, None)), ())
        world.delete(("t3", 40))
        world.run()
