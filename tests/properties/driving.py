"""Tells an example to a Lake and reads back what its stream wrote."""

from __future__ import annotations

import math
import shutil
from contextlib import contextmanager
from datetime import UTC, datetime
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from lakestream import Lake, ManualClock, Settings
from tests.properties.histories import Example, expected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]
NOW = datetime(2025, 6, 1, tzinfo=UTC)


@contextmanager
def fresh_folder() -> Iterator[str]:
    """Give a folder that is gone afterwards: a run of the property makes hundreds of lakes."""
    path = mkdtemp(prefix="lakestream-property-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def produced(example: Example, spark: SparkSession) -> Rows:
    """Run the example on a new lake; return the output's rows: group, start, end, figures."""
    settings = Settings(transport=example.transport, timezone=example.definition.zone)

    def opened() -> Lake:
        return Lake(f"{path}/lake", clock=ManualClock(NOW), spark=spark, settings=settings)

    with fresh_folder() as path:
        lake = opened()
        try:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT, x DOUBLE) TAGS (loc VARCHAR(16))")
            for number, commit in enumerate(example.commits):
                if number == example.before:
                    lake.sql(example.definition.statement())
                lake.insert("meters", [{**row, "ts": row["ts"].isoformat()} for row in commit])
                if number in example.ticks:
                    run(lake)
                if number in example.reopens:
                    lake.close()
                    lake = opened()
            if example.before == len(example.commits):
                lake.sql(example.definition.statement())
            run(lake)
            return [tuple(row) for row in lake.sql(example.definition.query()).fetchall()]
        finally:
            lake.close()


def run(lake: Lake) -> None:
    """Run to idle; a stream that fails is an error here."""
    failed = lake.run(until="idle").failed
    assert not failed, failed[0].error


def check(example: Example, spark: SparkSession) -> None:
    """Hold the output to the reference; the message shows the rows that only one side has."""
    differing = differences(produced(example, spark), expected(example))
    assert not differing, "\n".join([str(example), *differing])


def differences(got: Rows, wanted: Rows) -> list[str]:
    """Return a line for every row that only one side has, and nothing when both are the same."""
    got, wanted = tidy(got), tidy(wanted)
    if len(got) == len(wanted) and all(map(same_row, got, wanted)):
        return []
    return [
        *(f"only expected: {shown(row)}" for row in wanted if not any(same_row(row, g) for g in got)),
        *(f"only got: {shown(row)}" for row in got if not any(same_row(row, w) for w in wanted)),
        f"{len(wanted)} rows expected, {len(got)} got",
    ]


def shown(row: tuple[Any, ...]) -> str:
    """Return a row with its instants as ISO 8601."""
    return ", ".join(value.isoformat() if isinstance(value, datetime) else str(value) for value in row)


def tidy(rows: Rows) -> Rows:
    """Put rows into one order, instants in UTC."""
    instants = [tuple(in_utc(value) for value in row) for row in rows]
    return sorted(instants, key=lambda row: [(value is not None, str(value)) for value in row])


def in_utc(value: Any) -> Any:
    """Return an instant in UTC (one without a zone is UTC), anything else as it is."""
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def same_row(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Compare rows: floats to a relative 1e-9, everything else exactly."""
    return len(left) == len(right) and all(map(same_value, left, right))


def same_value(left: Any, right: Any) -> bool:
    """Compare two values."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(left == right)
