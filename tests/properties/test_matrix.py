"""Streams by pairs of the dimensions' values: each is refused where it is to be, or its output is right.

These histories are short, and have nearly every pair; longer and other ones go by ``make matrix``, which
asks VERIFY too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.properties.matrix import HISTORIES, PAIRWISE, told, tried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHORT = 4
"""Commits of a history: a late row and a change, before and behind a run."""


@pytest.mark.parametrize("history", range(HISTORIES))
def test_no_stream_is_red(spark: SparkSession, history: int) -> None:
    for name, steps, verdicts in tried(
        spark, PAIRWISE, range(history, history + 1), commits=SHORT, verifies=False
    ):
        assert not told(name, steps, verdicts), told(name, steps, verdicts)


@pytest.mark.long
@pytest.mark.parametrize(("history", "stream"), [(1, 8), (4, 5), (6, 0), (7, 7), (7, 11)])
def test_what_was_red_is_so_no_more(spark: SparkSession, history: int, stream: int) -> None:
    """Groups that begin before a recalculated part, rows within the watermark, windows of one start."""
    for name, steps, verdicts in tried(spark, PAIRWISE, range(history, history + 1), (stream,)):
        assert not told(name, steps, verdicts), told(name, steps, verdicts)
