"""EXPLAIN STREAM prints what the next tick does: for every kind of stream and of tick."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.engine.ticks import stages as engine_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)
GROUPED = "FROM m PARTITION BY tbname"
AS = "INTO o AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"

# Dialect and statement, what is done before EXPLAIN (a row at a second, all that is new taken, the clock
# moved), and a stage that it must name.
KINDS: dict[str, tuple[str, str, list[int | timedelta | None], str]] = {
    "interval": (
        "tdengine",
        f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) {GROUPED} {AS}",
        [1, 12],
        "update windows",
    ),
    "updates judged": (
        "tdengine",
        f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) {GROUPED} STREAM_OPTIONS(EXPIRED_TIME(1h)) {AS}",
        [1, 12],
        "detect windows",
    ),
    "history": (
        "tdengine",
        f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) {GROUPED} STREAM_OPTIONS(FILL_HISTORY) {AS}",
        [],
        "update windows",
    ),
    "session": ("tdengine", f"CREATE STREAM s SESSION(ts, 5s) {GROUPED} {AS}", [1, 12], "detect windows"),
    "count": ("tdengine", f"CREATE STREAM s COUNT_WINDOW(2, 1) {GROUPED} {AS}", [1, 12], "detect windows"),
    "at once": (
        "tdengine",
        (
            "CREATE STREAM s TRIGGER AT_ONCE INTO o AS SELECT _wstart, count(*) FROM m PARTITION BY tbname "
            "SESSION(ts, 5s)"
        ),
        [1],
        "detect windows",
    ),
    "period": (
        "tdengine",
        (
            f"CREATE STREAM s PERIOD(10s) {GROUPED} INTO o AS "
            "SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at, count(*) AS n FROM %%trows"
        ),
        [1, timedelta(seconds=11)],
        "fire",
    ),
    "delay": (
        "tdengine",
        f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) {GROUPED} STREAM_OPTIONS(MAX_DELAY(3s)) {AS}",
        [1, None, timedelta(seconds=4)],
        "fire by the clock",
    ),
    "by the clock": (
        "tdengine",
        (
            "CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS SELECT _wstart, count(*) FROM m "
            "PARTITION BY tbname INTERVAL(10s)"
        ),
        [1, None, timedelta(seconds=30)],
        "fire by the clock",
    ),
    "admitted": (
        "ekuiper",
        (
            "CREATE STREAM s WITH (TIMESTAMP = 'ts') INTO o AS SELECT window_start() AS ws, count(*) AS n "
            "FROM m GROUP BY TUMBLINGWINDOW(ss, 10)"
        ),
        [1, 12],
        "write errors",
    ),
    "processing time": (
        "ekuiper",
        (
            "CREATE STREAM s INTO o AS SELECT window_start() AS ws, count(*) AS n FROM m "
            "GROUP BY TUMBLINGWINDOW(ss, 10)"
        ),
        [1, None, timedelta(seconds=30)],
        "admit rows",
    ),
}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", spark=spark, clock=ManualClock(START)) as opened:
        opened.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        yield opened


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, str]]]:
    """Return the stages of the ticks that are run, as they are run."""
    ticks: list[list[tuple[str, str]]] = []
    run: Callable[..., tuple[Any, ...]] = engine_stages.stages

    def watched(*given: Any) -> tuple[Any, ...]:
        found = run(*given)
        ticks.append([(stage.title, str(stage)) for stage in found])
        return found

    monkeypatch.setattr("lakestream.engine.ticks.tick.stages", watched)
    return ticks


def explained(lake: Lake) -> list[list[tuple[str, str]]]:
    """Return the stages that EXPLAIN says, of each tick that it names."""
    ticks: list[list[tuple[str, str]]] = []
    for stage, what in lake.explain("s").fetchall():
        if stage == "tick":
            ticks.append([])
        elif stage not in ("bytes move by", "computed by", "calculation"):
            ticks[-1].append((stage, what))
    return ticks


def write(lake: Lake, second: int) -> None:
    lake.insert("m", [{"tbname": "a", "loc": 1, "ts": START + timedelta(seconds=second), "v": second}])


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_tick_runs_the_stages_that_explain_says(
    lake: Lake, done: list[list[tuple[str, str]]], kind: str
) -> None:
    dialect, statement, steps, named = KINDS[kind]
    write(lake, 0)
    lake.sql(statement, dialect=dialect)
    assert isinstance(lake.clock, ManualClock)
    for step in steps:
        if isinstance(step, int):
            write(lake, step)
        elif step is None:
            lake.run()
        else:
            lake.clock.advance(step)
    said = explained(lake)[0]
    assert named in dict(said)
    done.clear()
    assert lake.tick_once()
    assert said == done[0]


def test_what_comes_when_time_passes_and_what_is_recalculated_is_said_too(
    lake: Lake, done: list[list[tuple[str, str]]]
) -> None:
    lake.sql(f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) {GROUPED} STREAM_OPTIONS(MAX_DELAY(3s)) {AS}")
    write(lake, 1)
    write(lake, 25)
    lake.run()
    append, delayed = explained(lake)
    assert "update windows" in dict(append)
    assert "fire by the clock" in dict(delayed)
    lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00' TO '2025-01-01 00:00:10'")
    _, again, _ = explained(lake)
    assert "before 2025-01-01T00:00:10" in dict(again)["fire again"]
    done.clear()
    lake.run()
    assert again in done


def test_a_tick_of_an_instant_is_said_before_it_is_due(lake: Lake, done: list[list[tuple[str, str]]]) -> None:
    dialect, statement, _, _ = KINDS["period"]
    lake.sql(statement, dialect=dialect)
    assert isinstance(lake.clock, ManualClock)
    ((name, heading), *_) = lake.explain("s").fetchall()
    assert (name, heading) == ("tick", "nothing is due; at 2025-01-01T00:00:10+00:00")
    said = [stage for stage, _ in explained(lake)[0]]
    lake.clock.advance(timedelta(seconds=10))
    done.clear()
    lake.run()
    assert said == [stage for stage, _ in done[-1]]


def test_admitted_rows_made_anew_are_said_too(lake: Lake, done: list[list[tuple[str, str]]]) -> None:
    dialect, statement, _, _ = KINDS["admitted"]
    lake.sql(statement, dialect=dialect)
    write(lake, 1)
    write(lake, 25)
    lake.run()
    lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00' TO '2025-01-01 00:00:10'")
    _, again = explained(lake)
    assert "before 2025-01-01T00:00:10" in dict(again)["admit again"]
    done.clear()
    lake.run()
    assert again in done
    lake.sql(statement.replace("CREATE", "CREATE OR REPLACE").replace("(ss, 10)", "(ss, 5)"), dialect=dialect)
    _, anew = explained(lake)
    assert "all windows anew" in dict(anew)["admit rows"]
    done.clear()
    lake.run()
    assert anew in done
