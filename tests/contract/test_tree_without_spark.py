"""Queries over few points of the tree, and continuous queries over them, ask no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, ManualClock
from lakestream.engine.reading.small import SmallPath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGIN)


@pytest.fixture
def lake(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(SmallPath, "_of_spark", lambda *_: pytest.fail("Spark is asked"))
    with Lake(tmp_path / "lake", clock=clock) as opened:
        for points in (
            "d1(timestamp, s, n) VALUES (0, 1.5, 1), (1000, 2.5, 2)",
            "d2(timestamp, s) VALUES (1000, 4.0)",
        ):
            opened.sql(f"INSERT INTO root.sg.{points}", dialect="iotdb")
        yield opened


def _at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("s, n FROM root.sg.d1 WHERE time > 0", [(_at(1), 2.5, 2.0)]),
        ("s FROM root.sg.*", [(_at(0), 1.5, None), (_at(1), 2.5, 4.0)]),
        ("s FROM root.sg.* ORDER BY time DESC LIMIT 1 ALIGN BY DEVICE", [(_at(1), "root.sg.d1", 2.5)]),
        ("count(s), sum(n) FROM root.sg.d1", [(2, 3.0)]),
        ("sum(s) FROM root.sg.* GROUP BY LEVEL = 1", [(8.0,)]),
        ("first_value(s), last_value(n), max_value(s), max_time(s) FROM root.sg.d1", [(1.5, 2.0, 2.5, 1000)]),
        ("count(s) FROM root.sg.d1 GROUP BY ([0, 2000), 1s)", [(_at(0), 1), (_at(1), 1)]),
        (
            "avg(s) FROM root.sg.d1 GROUP BY ([0, 1500), 500ms) FILL(LINEAR)",
            [(_at(0), 1.5), (_at(0.5), 2.0), (_at(1), 2.5)],
        ),
        ("s INTO root.o.d1(q) FROM root.sg.d1", [("root.sg.d1.s", "root.o.d1.q", 2)]),
        ("s FROM root.other.d", []),
    ],
)
def test_few_points_are_computed_without_spark(lake: Lake, query: str, rows: list[tuple[Any, ...]]) -> None:
    assert lake.sql(f"SELECT {query}", dialect="iotdb").fetchall() == rows


def test_a_continuous_query_over_few_points_asks_no_spark(lake: Lake, clock: ManualClock) -> None:
    lake.sql(
        "CREATE CQ c RESAMPLE EVERY 2s BEGIN "
        "SELECT sum(s) INTO root.o.d(total) FROM root.sg.d1 GROUP BY(2s) END",
        dialect="iotdb",
    )
    clock.advance(timedelta(seconds=2))
    lake.run()
    found = lake.sql("SELECT total FROM root.o.d", dialect="iotdb").fetchall()
    assert found == [(_at(0), 4.0)]
