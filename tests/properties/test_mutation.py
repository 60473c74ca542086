"""The property can fail: with a rule of the product broken on purpose, it is seen red."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings

from lakestream.engine.streams.stream import Stream
from tests.properties.driving import check
from tests.properties.histories import Example, examples
from tests.properties.machine import ExactMachine, Machine, PolicyMachine, run_histories
from tests.properties.profiles import many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(
    ("rule", "broken", "disorder"),
    [
        pytest.param("watermark", 0, False, id="WATERMARK is ignored"),
        pytest.param("refires", False, True, id="late rows are ignored"),
    ],
)
def test_a_broken_rule_is_seen(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rule: str, broken: int, disorder: bool
) -> None:
    monkeypatch.setattr(Stream, rule, broken)

    @settings(many, phases=(Phase.generate,))
    @given(example=examples(disorder=disorder))
    def the_property(example: Example) -> None:
        check(replace(example, transport="arrow"), spark)

    with pytest.raises(AssertionError, match=r"only (expected|got)"):
        the_property()


@pytest.mark.parametrize(
    ("machine", "rule", "broken"),
    [
        pytest.param(ExactMachine, "deletes", False, id="EXACT ignores deletes"),
        pytest.param(PolicyMachine, "expiry", None, id="EXPIRED_TIME is ignored"),
        pytest.param(PolicyMachine, "refires", True, id="IGNORE_DISORDER is ignored"),
    ],
)
def test_the_machines_see_a_broken_rule(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    machine: type[Machine],
    rule: str,
    broken: bool | None,
) -> None:
    monkeypatch.setattr(Stream, rule, broken)
    with pytest.raises(AssertionError, match=r"only (expected|got)") as failure:
        run_histories(machine, spark, settings(many, stateful_step_count=8))
    assert "with World(" in failure.value.__notes__[-1]
