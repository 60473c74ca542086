"""The property can fail: with a rule of the product broken on purpose, it is seen red."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings

from lakestream.triggers.detect import Detection
from tests.properties.driving import check
from tests.properties.histories import Example, examples
from tests.properties.profiles import many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("broken", "disorder"),
    [
        pytest.param({"watermark": 0}, False, id="WATERMARK is ignored"),
        pytest.param({"refires": False}, True, id="late rows are ignored"),
    ],
)
def test_a_broken_rule_is_seen(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any], disorder: bool
) -> None:
    rule = Detection.sql
    monkeypatch.setattr(
        Detection, "sql", lambda self, changes, state: rule(replace(self, **broken), changes, state)
    )

    @settings(many, phases=(Phase.generate,))
    @given(example=examples(disorder=disorder))
    def the_property(example: Example) -> None:
        check(replace(example, transport="arrow"), spark)

    with pytest.raises(AssertionError, match=r"only (expected|got)"):
        the_property()
