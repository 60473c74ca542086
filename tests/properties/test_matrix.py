"""Streams by pairs of the dimensions' values: each is refused where it is to be, or its output is right.

These histories are short, and have nearly every pair; longer and other ones go by ``make matrix``, which
asks VERIFY too.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from yaml import safe_load

from tests.properties.dimensions import Combination
from tests.properties.drawn import Drawn
from tests.properties.many_streams import World
from tests.properties.matrix import HISTORIES, PAIRWISE, reds_shown, tried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RED = Path(__file__).with_name("red.yaml")
SHORT = 4
"""Commits of a history: a late row and a change, before and behind a run."""


@pytest.mark.parametrize("history", range(HISTORIES))
def test_no_stream_is_red(spark: SparkSession, history: int) -> None:
    for name, steps, verdicts in tried(
        spark, PAIRWISE, range(history, history + 1), commits=SHORT, verifies=False
    ):
        assert not reds_shown(name, steps, verdicts), reds_shown(name, steps, verdicts)


@pytest.mark.long
@pytest.mark.parametrize("case", safe_load(RED.read_text()), ids=lambda case: case["steps"])
def test_what_was_red_is_so_no_more(spark: SparkSession, case: dict[str, Any]) -> None:
    """Groups that begin before a part, rows within the watermark, windows of one start, emptied openings."""
    history, of = case["history"], Combination({**case["history"], **case["stream"]})
    steps = Drawn(Random(case["steps"]), history).draw()
    verdicts = World(spark, history, steps).run([of])
    assert not reds_shown(case["steps"], steps, verdicts), reds_shown(case["steps"], steps, verdicts)
