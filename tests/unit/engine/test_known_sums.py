"""Added rows that are summed up by group without a query."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.state import GroupState
from lakestream.engine.windows.rows.in_order import known_sums

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

SECOND = 1_000_000
BY_TABLE_AND_SITE: dict[str, Any] = {
    "cut": object(),
    "refires": True,
    "groups": ("`tbname`", "`site`"),
    "changed_columns": ("ts", "tbname", "site", "v"),
    "condition": None,
    "floor_us": None,
    "source": SimpleNamespace(subtable=None),
    "checks": (),
    "expiry": None,
    "group_columns": ("_ls_g1", "_ls_g2"),
    "time_name": "ts",
}


def _stream(**changes: Any) -> Stream:
    return cast("Stream", SimpleNamespace(**{**BY_TABLE_AND_SITE, **changes}))


def _added(*rows: tuple[str, int | None, int | None]) -> pa.Table:
    schema = pa.schema(
        {"tbname": pa.large_string(), "site": pa.int64(), "ts": pa.timestamp("us", "UTC"), "v": pa.int32()}
    )
    return pa.Table.from_pylist(
        [
            {
                "tbname": name,
                "site": site,
                "ts": None if us is None else datetime.fromtimestamp(us, UTC),
                "v": 1,
            }
            for name, site, us in rows
        ],
        schema=schema,
    )


def _state(*groups: tuple[int, str, int]) -> GroupState:
    schema = pa.schema({"gid": pa.int64(), "_ls_g1": pa.string(), "_ls_g2": pa.int32(), "safe": pa.int64()})
    rows = [dict(zip(schema.names, (*group, 2 * SECOND), strict=True)) for group in groups]
    return GroupState(pa.Table.from_pylist(rows, schema=schema))


def test_groups_that_are_known_have_their_number_and_their_ends() -> None:
    added = _added(("a", 1, 7), ("b", 2, 5), ("a", 1, 3), ("a", 1, None))
    sums = known_sums(_stream(), _state((11, "a", 1), (12, "b", 2), (13, "c", 1)), added)
    assert sums is not None
    assert sums.sort_by("gid").to_pylist() == [
        {
            "_ls_g1": "a",
            "_ls_g2": 1,
            "n": 2,
            "low": 3 * SECOND,
            "high": 7 * SECOND,
            "gid": 11,
            "late": 0,
            "high_removed": None,
            "low_kept": 3 * SECOND,
        },
        {
            "_ls_g1": "b",
            "_ls_g2": 2,
            "n": 1,
            "low": 5 * SECOND,
            "high": 5 * SECOND,
            "gid": 12,
            "late": 0,
            "high_removed": None,
            "low_kept": 5 * SECOND,
        },
    ]


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, ("new", 1, 7)),
        ({}, ("a", None, 7)),
        ({"condition": "v > 1"}, ("a", 1, 7)),
        ({"groups": ("`tbname`", "site + 1")}, ("a", 1, 7)),
        ({}, ("a", 1, 2)),
        ({"cut": None}, ("a", 1, 7)),
    ],
)
def test_what_takes_a_query_is_left_to_one(changes: dict[str, Any], row: tuple[str, int | None, int]) -> None:
    assert known_sums(_stream(**changes), _state((11, "a", 1)), _added(row)) is None


def test_late_rows_that_count_for_nothing_have_no_first_instant() -> None:
    sums = known_sums(_stream(refires=False), _state((11, "a", 1)), _added(("a", 1, 7)))
    assert sums is not None
    assert (sums["low"].to_pylist(), sums["low_kept"].to_pylist()) == ([None], [7 * SECOND])
