"""What is said of all groups together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakestream.engine.windows.totals import least, spans_of


@pytest.mark.parametrize(
    ("pairs", "spans"),
    [
        ([], []),
        ([(5, 9)], [(5, 9)]),
        ([(None, None), (40, 50), (5, 20), (0, 10)], [(0, 20), (40, 50)]),
        ([(0, 90), (10, 20), (30, 40)], [(0, 90)]),
        ([(0, 10), (10, 20)], [(0, 20)]),
    ],
)
def test_spans_cover_all_groups_and_what_lies_apart_stays_so(
    pairs: list[tuple[int | None, int | None]], spans: list[tuple[int, int]]
) -> None:
    low, high = ([pair[at] for pair in pairs] for at in (0, 1))
    assert spans_of(*(pa.chunked_array([pa.array(ends, pa.int64())]) for ends in (low, high))) == spans


def test_the_least_of_numbers_is_none_where_there_are_none() -> None:
    assert least(pa.chunked_array([[3, None], [2]])) == 2
    assert least(pa.chunked_array([pa.nulls(1, pa.int64())])) is None
