"""Materialized views of drawn queries: one of the histories of ``tests.properties.wide``, without Spark."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.properties.followed import without_spark
from tests.properties.wide import History


def test_random_histories_equal_the_query() -> None:
    seen: Counter[str] = Counter()
    with without_spark():
        assert History("few 1", views=3, steps=2, seen=seen).differences() == []
        assert History("few 7", views=3, steps=2, seen=seen).differences() == []
    assert seen["incremental, by the"] + seen["moved"] > 0


@pytest.mark.long
def test_many_random_histories_equal_the_query() -> None:
    with without_spark():
        for seed in range(50):
            assert History(f"many {seed}").differences() == []
