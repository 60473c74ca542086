"""The examples are what they claim to be: checked without a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings

from tests.properties.definitions import GROUPINGS, elapsed
from tests.properties.histories import Example, examples, expected

if TYPE_CHECKING:
    from datetime import datetime


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(example=examples(disorder=False))
def test_no_row_is_late(example: Example) -> None:
    watermark = elapsed(example.definition.watermark)
    newest: dict[tuple[object, ...], datetime] = {}
    for commit in example.commits:
        for row in commit:
            group = GROUPINGS[example.definition.grouping][2](row)
            before = newest.get(group)
            assert before is None or row["ts"] >= before - watermark
        for row in commit:
            group = GROUPINGS[example.definition.grouping][2](row)
            newest[group] = max(newest.get(group, row["ts"]), row["ts"])


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(example=examples(disorder=True))
def test_examples_are_small_and_can_be_told(example: Example) -> None:
    assert len(expected(example)) < 20_000
    assert "FROM %%trows" in str(example)
    assert all(len({(r["tbname"], r["ts"]) for r in c}) == len(c) for c in example.commits)
