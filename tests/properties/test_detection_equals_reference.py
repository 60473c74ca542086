"""The set-wise detection of windows against the reference, without a lake: many histories in one query.

Every history is a group of its own; all histories of a trigger are cut into two ticks at one commit.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream.language import parse_statement
from lakestream.language.model import CreateStream
from lakestream.triggers.detect import Detection
from lakestream.triggers.grid import grid_of
from tests.properties.definitions import (
    DAYS,
    HOURS,
    SECONDS,
    START,
    ZONES,
    Definition,
    Scale,
    clause,
    elapsed,
)
from tests.reference.fold import Change, evaluate
from tests.reference.grid import NOTHING, Sliding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakestream.language.model import GridTrigger
    from lakestream.triggers.grid import Grid
    from tests.reference.grid import Trigger

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HISTORIES = 40
COMMITS = 6
NAMES = ("g1", "g2")
SPLIT = 3

Commits = list[list[datetime]]
Fired = set[tuple[int, int, int, int]]
"""(group, first and last+1 microsecond of a window, the commit that fired it last)"""

TRIGGERS = [(scale, trigger) for scale in (SECONDS, HOURS, DAYS) for trigger in scale.triggers]


@pytest.mark.parametrize(("scale", "trigger"), TRIGGERS, ids=[clause(trigger) for _, trigger in TRIGGERS])
def test_windows_fire_when_the_reference_says(spark: SparkSession, scale: Scale, trigger: Trigger) -> None:
    chance = random.Random(clause(trigger))
    definition = Definition(
        trigger,
        zone=chance.choice(ZONES),
        watermark=chance.choice(scale.watermarks),
        ignore_disorder=chance.choice((False, False, True)),
        expired_time=chance.choice((NOTHING, NOTHING, max(scale.watermarks, key=elapsed))),
    )
    histories = [history(chance, scale) for _ in range(HISTORIES)]
    expected = {
        (group, *bounds)
        for group, commits in enumerate(histories)
        for bounds in reference(definition, commits)
    }
    detection = Detection(
        grid_of(as_written(trigger), definition.zone),
        NAMES[: chance.randint(0, 2)],
        elapsed(definition.watermark) // MICROSECOND,
        refires=definition.stream().recalculates,
        expiry=elapsed(definition.expired_time) // MICROSECOND or None,
    )
    assert expected
    assert detected(spark, detection, histories) == expected


def history(chance: random.Random, scale: Scale) -> Commits:
    """Return commits of instants: mostly in order, some rows late or at equal times."""
    at = START + scale.tick * chance.randint(-200, 200)
    commits: Commits = []
    for _ in range(COMMITS):
        commit = []
        for _ in range(chance.randint(0, 4)):
            at += scale.tick * chance.choice((0, 1, 2, scale.steps // 2, scale.steps, 4 * scale.steps))
            behind = chance.choice((0, 0, 0, 1, 3, scale.steps))
            commit.append(at - behind * scale.tick)
        commits.append(commit)
    return commits


def reference(definition: Definition, commits: Commits) -> list[tuple[int, int, int]]:
    """Return the windows that have fired, with the commit that fired them last."""
    current = -1

    def numbered() -> Iterator[list[Change]]:
        nonlocal current
        for current, times in enumerate(commits):
            yield [Change({"tbname": f"{current}-{n}", "ts": at}) for n, at in enumerate(times)]

    stream = replace(definition.stream(), calculate=lambda _rows: (current,))
    # A SLIDING window is (start, end]: one microsecond later on both sides it is written [start, end).
    shift = 1 if isinstance(definition.trigger, Sliding) else 0
    return [
        (micros(start) + shift, micros(end) + shift, commit)
        for start, end, commit in evaluate(stream, numbered())
    ]


def micros(at: datetime) -> int:
    """Return microseconds since 1970 UTC."""
    return (at - EPOCH) // MICROSECOND


def as_written(trigger: Trigger) -> GridTrigger:
    """Return a trigger as the product's language gives it."""
    statement = parse_statement(Definition(trigger).statement())
    assert isinstance(statement, CreateStream)
    return cast("GridTrigger", statement.definition.trigger)


def detected(spark: SparkSession, detection: Detection, histories: list[Commits]) -> Fired:
    """Run two ticks; a window that both fire counts by the later commit."""
    fired: dict[tuple[int, int, int], int] = {}
    state: list[tuple[Any, ...]] = []
    names = "".join(f"{name} STRING, " for name in detection.groups)
    for ticks_commits in (range(SPLIT), range(SPLIT, COMMITS)):
        changes = [
            (
                group,
                *(str(group) for _ in detection.groups),
                micros(at),
                number,
                True,
                detection.refires,
                True,
            )
            for group, commits in enumerate(histories)
            for number in ticks_commits
            for at in commits[number]
        ]
        columns = f"gid BIGINT, {names}ts BIGINT, v BIGINT, kept BOOLEAN, touches BOOLEAN, expires BOOLEAN"
        relation(spark, "detect_changes", changes, columns)
        relation(spark, "detect_state", state, f"gid BIGINT, {names}first BIGINT, newest BIGINT")
        rows = spark.sql(detection.sql("detect_changes", "detect_state")).localCheckpoint()
        rows.createOrReplaceTempView("detect_fired")
        for group, low, high, commit in windows(spark, detection, detection.grid):
            fired[group, low, high] = commit
        state = next_state(state, rows.collect())
    return {(*window, commit) for window, commit in fired.items()}


def windows(spark: SparkSession, detection: Detection, grid: Grid) -> list[tuple[int, int, int, int]]:
    """Return the windows of a detection's result with their bounds."""
    low, high = grid.low("k", "first"), grid.high("k", "first")
    query = f"SELECT gid, {low}, {high}, c FROM ({detection.windows_sql('detect_fired')})"
    return [tuple(row) for row in spark.sql(query).collect()]


def relation(spark: SparkSession, name: str, rows: list[tuple[Any, ...]], schema: str) -> None:
    """Make rows a temporary view."""
    spark.createDataFrame(rows, schema).createOrReplaceTempView(name)


def next_state(state: list[tuple[Any, ...]], rows: list[Any]) -> list[tuple[Any, ...]]:
    """Return the state after a tick: what the last commit of each group left."""
    latest = {known[0]: known for known in state}
    for row in sorted(rows, key=lambda row: row["v"]):
        groups = (row[name] for name in NAMES if name in row)
        latest[row["gid"]] = (row["gid"], *groups, row["first"], row["newest"])
    return list(latest.values())
