"""Functions of the events before in whole ticks: windows hold events that functions look at too."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakestream import Lake, Settings
from tests.reference.analytic import AccSum, HadChanged, Lag

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
FIGURES = (
    "ts, k, x, lag(x, 2) OVER (PARTITION BY k) AS two, had_changed(true, x) OVER (WHEN x > 2) AS changed, "
    "acc_sum(x, x > 4, x < 2) OVER (PARTITION BY k) AS total"
)


def value(event: Mapping[str, Any]) -> int | None:
    found: int | None = event["x"]
    return found


def key(event: Mapping[str, Any]) -> str:
    return str(event["k"])


def is_over(event: Mapping[str, Any], least: int) -> bool | None:
    return None if event["x"] is None else event["x"] > least


def test_results_do_not_depend_on_ticks_windows_and_restarts(tmp_path: Path) -> None:
    rng = random.Random(1)
    events = [
        {"ts": BEGIN + timedelta(seconds=at), "k": rng.choice("pq"), "x": rng.choice([None, *range(7)])}
        for at in range(16)
    ]
    functions = (
        Lag((value,), key, offset=2),
        HadChanged((value,), when=lambda event: is_over(event, 2)),
        AccSum((value, lambda event: is_over(event, 4), lambda event: is_over(event, 1) is False), key),
    )
    expected = Counter((*event.values(), *(one(event) for one in functions)) for event in events)
    settings = Settings(checkpoint_ticks=2)
    with Lake(tmp_path / "lake", settings=settings) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, k STRING, x INT)", dialect="ekuiper")
        for name, window in {"a": "", "b": " GROUP BY TUMBLINGWINDOW(ss, 9)"}.items():
            lake.sql(
                f"CREATE STREAM {name} WITH (TIMESTAMP='ts', LATE_TOLERANCE='1s') INTO o{name} "
                f"AS SELECT {FIGURES} FROM ev{window}"
            )
    for start in range(0, len(events), 4):
        with Lake(tmp_path / "lake", settings=settings) as lake:
            for part in (events[start : start + 1], events[start + 1 : start + 4]):
                lake.insert("ev", part)
                assert not lake.run().failed
    with Lake(tmp_path / "lake", settings=settings) as lake:
        for name in "ab":
            lake.sql(f"FLUSH STREAM {name}")
            assert Counter(lake.sql(f"SELECT * FROM o{name}").fetchall()) == expected, name
