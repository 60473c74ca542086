"""Functions of a row over drawn values, held against Spark: what DuckDB answers is what Spark answers."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 4_000
LETTERS = "abzAZ 019_-\t.,"
BEYOND = "äß€İıǅ\u00a0\u3000"
EXPRESSIONS = """
round(x) | round(x, 0) | round(x, 1) | round(x, 2) | round(x, 3) | round(x, 10) | round(x, 18)
round(i / 7, 2) | round(x / 3, 2) + 1 | round(x, 2) = x | upper(a) | lower(a) | upper(trim(a)) = 'A'
coalesce(upper(a), 'none')
CASE WHEN upper(a) > 'M' THEN lower(a) END | trim(s) | ltrim(s) | rtrim(s) | length(trim(s)) | octet_length(s)
replace(s, 'a', 'bb') | replace(s, 'a') | replace(s, ' ', '') | replace(s, 'ab', 'a') | substring(s, 2, 3)
s || a | a || 'x' || i | CASE WHEN i > 0 THEN a END || s
date_format(ts, 'yyyy-MM-dd HH:mm:ss') | date_format(ts, 'yyyyMMdd')
date_format(d, 'dd.MM.yyyy') | date_format(ts, 'HH:mm') || a | to_date(ts) | to_date(d) | year(to_date(ts))
to_date('2025-01-01') | ts > TIMESTAMP '2025-01-01 00:00:00' | ts > TIMESTAMP '2025-01-01'
ts > TIMESTAMP '2025-01-01 10:00' | ts > TIMESTAMP '2025-01-01T10:00:00.123456'
TIMESTAMP '2025-01-01 10:00:00-11:30' | TIMESTAMP '2025-01-01 10:00:00.5' | TIMESTAMP '1600-01-01'
CAST('2025-01-01 23:59:59.999999' AS TIMESTAMP) | date_trunc('DAY', TIMESTAMP '2025-01-02 03:00:00')
ts BETWEEN TIMESTAMP '2025-01-01 00:00:00' AND TIMESTAMP '2026-01-01'
"""


def drawn(seed: int) -> pa.Table:
    """Return rows: numbers of all sizes and at the middle of digits, texts, times of four centuries."""
    draw = random.Random(seed)
    numbers: list[Callable[[], float]] = [
        lambda: draw.uniform(-10, 10),
        lambda: draw.randint(-(10**6), 10**6) / 10 ** draw.randint(0, 8),
        lambda: draw.randint(-(10**9), 10**9) / 2 ** draw.randint(0, 20),
        lambda: draw.uniform(-1, 1) * 10.0 ** draw.randint(-300, 300),
        lambda: draw.uniform(-1e16, 1e16),
    ]
    many: list[float | None] = [draw.choice(numbers)() for _ in range(ROWS)]
    many[:9] = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.5, -0.5, None, 2.675]

    def texts(letters: str) -> list[str | None]:
        return [None, *("".join(draw.choices(letters, k=draw.randint(0, 8))) for _ in range(ROWS - 1))]

    first = datetime(2025, 1, 1, tzinfo=UTC)
    times = [first + timedelta(microseconds=draw.randint(-(10**16), 10**16)) for _ in range(ROWS)]
    return pa.table(
        {
            "x": pa.array(many, pa.float64()),
            "i": pa.array([draw.randint(-(10**6), 10**6) for _ in range(ROWS)], pa.int32()),
            "a": texts(LETTERS),
            "s": texts(LETTERS + BEYOND),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "d": pa.array([None, *(time.date() for time in times[1:])], pa.date32()),
        }
    )


def test_functions_of_a_row(spark: SparkSession) -> None:
    small, rows = SmallSession(), drawn(5)
    small.register("t", rows)
    view_of(arrow_frame(spark, rows), "t")
    expressions = [one.strip() for line in EXPRESSIONS.strip().splitlines() for one in line.split(" | ")]
    query = "SELECT " + ", ".join(f"{one} AS c{at}" for at, one in enumerate(expressions)) + " FROM t"
    expected, found = spark.sql(query).toArrow(), small.sql(query).toArrow()
    assert found.schema.types == expected.schema.types
    for one, ours, theirs in zip(expressions, found.columns, expected.columns, strict=True):
        differing = [
            pair for pair in zip(ours.to_pylist(), theirs.to_pylist(), strict=True) if pair[0] != pair[1]
        ]
        assert [pair for pair in differing if repr(pair[0]) != repr(pair[1])] == [], one
