"""Registered streams are analysed again by the way that was found for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from lakestream.compute.windows.evaluate import Way
from lakestream.engine.planning import analysis
from tests.unit.windows.streams import new

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_a_stream_that_spark_computes_window_by_window_is_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_types_of_each", lambda *_: {"c1": "bigint"})
    stream = replace(new("INTERVAL(1s) SLIDING(1s)"), way=Way.EACH)
    assert analysis._types_at_once(cast("SparkSession", None), stream, stream) == (stream, {"c1": "bigint"})
