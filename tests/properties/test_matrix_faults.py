"""The matrix can fail: with a rule of the product broken on purpose, one of each class, it is seen red."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.engine.streams.stream import Stream
from lakestream.engine.windows.rows.comparing import Comparing
from lakestream.engine.windows.rows.cutting import Cutting
from lakestream.storage.delta import commit
from tests.properties.dimensions import OF_HISTORIES, Combination, draw
from tests.properties.drawn import Drawn
from tests.properties.many_streams import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

STREAMS, HISTORIES = 4, 6
AT_ONCE = {"syntax": "classic", "emission": "at once", "source": "child", "groups": "none", "key": "time"}

LATE = {
    "arrival": "late",
    "change": "none",
    "source": "super",
    "groups": "none",
    "filter": "none",
    "key": "time",
}


def _doubled(*given: Any, **named: Any) -> Any:
    table, rows, *rest = given
    return commit(table, pa.concat_tables([rows, rows]), *rest, **named)


def _nothing_goes(*given: Any) -> Any:
    fired, _gone = COMPARED(*given)
    return fired, []


COMPARED = Comparing.compared

FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Mapping[str, str]]] = {
    "AT_ONCE holds back the rows within the watermark": (
        lambda patch: patch.setattr(Cutting, "_upto", Cutting._mark),
        {**AT_ONCE, "trigger": "session", "watermark": "4s", "policy": "ignore 00"},
    ),
    "a row that an update takes out of an open window leaves its old row": (
        lambda patch: patch.setattr(Comparing, "compared", _nothing_goes),
        {**AT_ONCE, "trigger": "state", "policy": "ignore 10", "change": "update"},
    ),
    "a late row before the open session is dropped": (
        lambda patch: patch.setattr(Cutting, "_joined", lambda *_: {}),
        {**LATE, "syntax": "classic", "emission": "close", "trigger": "session", "policy": "ignore 11"},
    ),
    "rows are written twice": (
        lambda patch: patch.setattr("lakestream.engine.streams.write.commit", _doubled),
        {"syntax": "new", "trigger": "tumbling", "policy": "default", "emission": "close"},
    ),
    "EXPIRED_TIME is ignored": (
        lambda patch: patch.setattr(Stream, "expiry", None),
        {**LATE, "syntax": "new", "emission": "close", "trigger": "tumbling", "policy": "expired time"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_matrix_sees_a_planted_fault(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    plant, given = FAULTS[fault]
    plant(monkeypatch)
    assert _is_seen(spark, fault, {"process": "steady", "output": "new", **given})


def _is_seen(spark: SparkSession, seed: str, given: Mapping[str, str]) -> bool:
    """Return whether a stream with the given values differs from the reference in one of some histories."""
    random = Random(seed)
    for _ in range(HISTORIES):
        history = {name: given.get(name) or random.choice(values) for name, values in OF_HISTORIES.items()}
        steps = Drawn(random, history).draw()
        verdicts = World(spark, history, steps).run(
            [_drawn(random, {**given, **history}) for _ in range(STREAMS)]
        )
        if any(verdict.outcome == "red" and "only" in verdict.detail for verdict in verdicts):
            return True
    return False


def _drawn(random: Random, given: Mapping[str, str]) -> Combination:
    """Draw a combination with the given values that is not refused."""
    while (of := draw(random, given)).refused is not None:
        pass
    return of
