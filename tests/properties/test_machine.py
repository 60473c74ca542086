"""Whatever happens to a source and to the process, a stream's output is that of the reference."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.properties.definitions import Definition
from tests.properties.machine import ExactMachine, Machine, PolicyMachine, run_histories
from tests.properties.profiles import few, some
from tests.properties.world import Setup, World
from tests.reference.grid import Interval, Span
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("machine", "histories"),
    leaving(product([ExactMachine, PolicyMachine], [few, some]), lambda case: case[1] is some),
)
def test_random_histories(spark: SparkSession, machine: type[Machine], histories: settings) -> None:
    run_histories(machine, spark, settings(histories, stateful_step_count=8))


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


def test_a_row_that_has_expired_when_it_joins_a_group_is_not_its_first_one(spark: SparkSession) -> None:
    """Found by seed 303: under DELETE_RECALC it took the place of the first row, which went."""
    hours = Interval(length=Span(6, "h"), step=Span(6, "h"))
    definition = Definition(
        trigger=hours, grouping="tag", ignore_nodata=True, expired_time=Span(6, "h"), delete_recalc=True
    )
    with World(Setup(definition=definition, tick=Span(30, "m")), spark) as world:
        world.insert(*(("t2", "B", at, None, 0.5) for at in (3, 35, 51)), ("t1", "A", 0, None, 0.5))
        world.delete(("t2", 51))
        world.overwrite(("t1", "B", 0, None, 0.5), ("t2", "A", 35, None, 0.5))
        world.run()


def test_a_recalculation_takes_what_was_there_when_it_was_asked_for(spark: SparkSession) -> None:
    """Found by seed 303: it ran as soon as the history was taken, before the rows written since."""
    tumbling = Interval(length=Span(10, "s"), step=Span(10, "s"))
    definition = Definition(trigger=tumbling, fill_history=True, ignore_disorder=True)
    before = (("t1", "A", 0, 30, 0.5), ("t1", "A", 24, None, 0.5))
    with World(Setup(definition=definition, before=before), spark) as world:
        world.insert(("t1", "A", 0, None, 0.5))
        world.recalculate(0)


def test_a_row_that_comes_and_goes_in_one_tick_is_the_first_of_none(spark: SparkSession) -> None:
    """Found by seed 21: the group was new, so nobody looked at what had gone of it."""
    tumbling = Interval(length=Span(10, "s"), step=Span(10, "s"))
    definition = Definition(trigger=tumbling, delete_recalc=True)
    with World(Setup(definition=definition, before=(("t1", "A", 0, None, 0.5),)), spark) as world:
        world.insert(("t1", "A", 16, None, 0.5))
        world.clear()
        world.run()
        world.insert(("t1", "A", 50, 10, 0.5), ("t2", "B", 51, 11, 0.5))
        world.run()


@pytest.mark.parametrize("exact", [False, True])
def test_a_row_from_before_the_stream_that_is_written_again_is_not_the_streams(
    spark: SparkSession, exact: bool
) -> None:
    tumbling = Interval(length=Span(10, "s"), step=Span(10, "s"))
    definition = Definition(trigger=tumbling, exact=exact)
    before = (("t1", "A", 0, 7, 0.5), ("t1", "A", 30, 7, 0.5))
    with World(Setup(definition=definition, before=before), spark) as world:
        world.delete(("t1", 0))
        world.run()
        world.insert(before[0])
        world.run()
        world.insert(("t1", "A", 60, 8, 0.5), ("t1", "A", 90, 8, 0.5))
        world.run()


def test_a_late_row_that_was_ignored_does_not_become_the_first_one(spark: SparkSession) -> None:
    """Found by seed 77: when the first row went, windows were counted from a late one before it."""
    tumbling = Interval(length=Span(6, "h"), step=Span(6, "h"))
    definition = Definition(
        trigger=tumbling,
        grouping="table and tag",
        fill_history=True,
        ignore_disorder=True,
        delete_recalc=True,
    )
    before = (("t3", "A", 7, None, 0.5),)
    with World(Setup(definition=definition, tick=Span(30, "m"), before=before), spark) as world:
        world.merge((("t3", "A", 2, None, 0.1),), (("t3", 7),))
        world.run()
        world.merge((("t3", "B", 2, 17, 0.5), ("t3", "A", 29, 14, 1e6)), ())
        world.run()


@pytest.mark.parametrize("at_once", [False, True])
def test_the_first_row_that_a_delete_leaves_is_one_that_was_there_then(
    spark: SparkSession, at_once: bool
) -> None:
    tumbling = Interval(length=Span(2, "h"), step=Span(2, "h"))
    definition = Definition(trigger=tumbling, fill_history=True, ignore_disorder=True, delete_recalc=True)
    before = (("t3", "A", 2, None, 0.5), ("t3", "A", 21, None, 0.5))
    with World(Setup(definition=definition, tick=Span(30, "m"), before=before), spark) as world:
        steps: list[Callable[[], None]] = [
            lambda: world.delete(("t3", 2)),
            lambda: world.insert(("t3", "A", 9, 17, 0.5)),
            lambda: world.insert(("t3", "A", 70, 17, 0.5)),
        ]
        for step in steps:
            step()
            if not at_once:
                world.run()
        world.restart("arrow")
        world.run()
        world.verify()


def test_late_rows_beside_a_new_one_do_not_keep_it_from_opening_a_group(spark: SparkSession) -> None:
    """Found by seed 101: with all rows gone, rows of one commit were late or not all together."""
    tumbling = Interval(length=Span(10, "s"), step=Span(10, "s"))
    definition = Definition(trigger=tumbling, ignore_disorder=True, delete_recalc=True)
    with World(Setup(definition=definition), spark) as world:
        world.insert(("t1", "A", 12, 10, 0.5))
        world.run()
        world.delete(("t1", 12))
        world.run()
        world.insert(("t2", "B", 4, 12, 0.5), ("t3", "A", 37, 14, 0.5))
        world.run()
        world.insert(("t3", "A", 64, 15, 0.5))
        world.run()
