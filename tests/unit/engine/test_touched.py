"""What Spark and delta-rs are told of the rows that may have touched keys."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from lakestream.engine.reading.narrowed import MAX_LITERALS, OneOf, said

AT = datetime(2025, 1, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "told"),
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
def test_a_column_has_one_of_the_values(values: pa.Array, told: str | None) -> None:
    assert OneOf("k", pa.chunked_array([values])).spark() == told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pa.array([3, 1, None]), '("k" IS NULL OR "k" IN (1, 3))'),
        (pa.array(["x", None]), """("k" IS NULL OR "k" IN ('', '__HIVE_DEFAULT_PARTITION__', 'x'))"""),
        (pa.array(["it's", "a\\b"]), r"""("k" IN ('a\b', 'it''s'))"""),
        (pa.array([AT], pa.timestamp("us", "UTC")), None),
    ],
)
def test_delta_rs_is_told_in_its_own_words(values: pa.Array, told: str | None) -> None:
    assert OneOf("k", pa.chunked_array([values])).delta() == told


def test_what_is_not_said_narrows_nothing() -> None:
    assert said(["(a)", None, "(b)"]) == "(a) AND (b)"
    assert said([None]) is None
