"""What Spark is told of the rows that may have touched keys."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from lakestream.engine.reading.touched import MAX_LITERALS, one_of

AT = datetime(2025, 1, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([3, 1, 3, None]), "(`k` IS NULL OR `k` IN (1, 3))"),
        (pa.array(["it's"]), r"(`k` IN ('it\'s'))"),
        (pa.array([date(2025, 1, 2)]), "(`k` IN (DATE '2025-01-02'))"),
        (pa.array([AT], pa.timestamp("us", "UTC")), "(`k` IN (timestamp_micros(1735718400000000L)))"),
        (pa.array(range(MAX_LITERALS + 1)), f"(`k` BETWEEN 0 AND {MAX_LITERALS})"),
        (pa.array([], pa.int64()), "(false)"),
        (pa.array([0.5]), None),
        (pa.array([AT.replace(tzinfo=None)]), None),
    ],
)
def test_a_column_has_one_of_the_values(values: pa.Array, said: str | None) -> None:
    assert one_of("k", pa.chunked_array([values])) == said
