"""Rows by group, held against a dict of lists, whatever is replaced in whichever order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.engine.base import keyed
from lakestream.engine.base.keyed import Keyed

GIDS = st.integers(-4, 4)
ROWS = st.lists(st.tuples(GIDS, st.integers(0, 9)), max_size=12)


def table(rows: list[tuple[int, int]]) -> pa.Table:
    gids, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"gid": pa.array(gids, pa.int64()), "v": pa.array(values, pa.int64())})


def listed(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(rows["gid"].to_pylist(), rows["v"].to_pylist(), strict=True))


@settings(max_examples=300, deadline=None)
@given(
    ROWS,
    st.lists(st.tuples(st.sets(GIDS, min_size=1), ROWS), max_size=6),
    st.sets(GIDS),
    st.sampled_from([0, 3, 99]),
)
def test_what_is_replaced_is_found(
    first: list[tuple[int, int]],
    steps: list[tuple[set[int], list[tuple[int, int]]]],
    wanted: set[int],
    most: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "_MOST_APART", most)
        rows, expected = Keyed.of_table(table(first)), list(first)
        for gids, given_rows in steps:
            new = [row for row in given_rows if row[0] in gids]
            before = listed(rows.rows)
            after = rows.replaced(table(new), pa.array(sorted(gids), pa.int64()))
            assert listed(rows.rows) == before  # a value
            rows = after
            expected = [row for row in expected if row[0] not in gids] + new
            assert len(rows) == len(expected)
            assert listed(rows.of(pa.array(wanted, pa.int64()))) == Counter(
                r for r in expected if r[0] in wanted
            )
        assert listed(rows.rows) == Counter(expected)
