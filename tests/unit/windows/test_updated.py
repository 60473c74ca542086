"""What partial aggregates gave: which groups are late, how many windows pass, which spans are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.base.rows import Rows
from lakestream.engine.windows.grid.updated import (
    are_in_order,
    is_flagged,
    late_spans,
    most_windows,
    picked,
    updated_of,
    windows_opened,
    windows_passed,
    with_groups,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table(*rows: dict[str, Any]) -> pa.Table:
    """Return rows of whole numbers, flags and NULLs."""
    kinds = {
        name: pa.bool_() if any(isinstance(row[name], bool) for row in rows) else pa.int64()
        for name in rows[0]
    }
    return pa.Table.from_pylist([*rows], schema=pa.schema(kinds))


def slot(name: int, **flags: bool) -> dict[str, Any]:
    unflagged = {"_ls_open": False, "_ls_late": False, "_ls_ignored": False}
    return {"_ls_gid": name, **unflagged, **{f"_ls_{flag}": value for flag, value in flags.items()}}


SLOTS = table(slot(1), slot(2, open=True), slot(3, late=True), slot(4, ignored=True), slot(5, open=True))


def test_windows_are_flagged_that_go_on_or_had_fired() -> None:
    assert SLOTS.filter(is_flagged(SLOTS))["_ls_gid"].to_pylist() == [2, 3, 4, 5]


def test_some_of_them_are_picked_under_other_names() -> None:
    assert picked(SLOTS, "_ls_open", {"_ls_gid": "gid"}).to_pydict() == {"gid": [2, 5]}


def test_windows_have_what_their_group_says() -> None:
    groups = table({"gid": 5, "start": 50}, {"gid": 2, "start": 20})
    found = with_groups(SLOTS.filter(SLOTS["_ls_open"]), groups, {"start": "_ls_base"})
    assert found["_ls_base"].to_pylist() == [20, 50]


@pytest.mark.parametrize(
    ("refired", "base", "base_before", "closed_before", "is_late"),
    [
        (0, 3, 3, 9, False),
        (1, 3, 3, 9, True),
        # An earlier first row opens windows that would have fired by now.
        (0, 2, 3, 9, True),
        # None of those has been due yet.
        (0, 2, 3, 2, False),
        # A group that is new has nothing before.
        (0, 3, None, None, False),
    ],
)
def test_groups_are_late_that_have_windows_to_fire_again_or_earlier_ones(
    refired: int, base: int, base_before: int | None, closed_before: int | None, is_late: bool
) -> None:
    of = {
        "gid": 1,
        "refired": refired,
        "base": base,
        "base_before": base_before,
        "closed_before": closed_before,
        **dict.fromkeys(("first", "newest", "rows", "late", "ignored"), 0),
    }
    summary = table(of, {**of, "gid": 2, "refired": 1})
    assert updated_of((), 0, SLOTS, SLOTS, summary, ()).late["gid"].to_pylist() == (
        [1, 2] if is_late else [2]
    )
    assert updated_of((), 0, SLOTS, None, summary, ()).late.num_rows == 0


@pytest.mark.parametrize(("flags", "in_order"), [([True, True], True), ([True, False], False)])
def test_rows_are_in_order_where_those_of_all_groups_are(flags: list[bool], in_order: bool) -> None:
    assert are_in_order(table(*({"in_order": flag} for flag in flags))) is in_order


def test_windows_pass_between_what_had_fired_and_what_is_closed() -> None:
    groups = table({"closed": 9, "done": 4}, {"closed": 4, "done": 4}, {"closed": 2, "done": 4})
    assert windows_passed(groups).to_pylist() == [5, 0, 0]


@pytest.mark.parametrize(
    ("start", "before", "closed_before", "opens"),
    [(2, 5, 9, 3), (2, 5, 4, 2), (5, 5, 9, 0), (2, 5, 1, 0)],
)
def test_an_earlier_row_opens_the_windows_up_to_the_first_one_there_was_as_far_as_they_are_over(
    start: int, before: int, closed_before: int, opens: int
) -> None:
    groups = table({"start": start, "start_before": before, "closed_before": closed_before})
    assert windows_opened(groups, "start").to_pylist() == [opens]


@pytest.mark.parametrize(
    ("rows", "lowest", "highest", "overlap", "most"),
    [
        # Many rows close together: as many windows as their time spans, and those at both ends.
        (1_000, 500, 595, 1, 9 + 2),
        (1_000, 500, 595, 3, 9 + 4),
        # Few rows far apart: each is in so many.
        (2, 0, 1_000_000, 1, 2),
        (2, 0, 1_000_000, 3, 6),
    ],
)
def test_rows_are_in_so_many_windows_at_most(
    rows: int, lowest: int, highest: int, overlap: int, most: int
) -> None:
    of = {"rows": rows, "lowest": lowest, "highest": highest}
    assert most_windows(table(of), 10, overlap) == most
    assert most_windows(table(of, of), 10, overlap) == 2 * most


def test_no_rows_are_in_no_windows() -> None:
    assert most_windows(table({"rows": 1, "lowest": 0, "highest": 0}).slice(0, 0), 10, 1) == 0


@pytest.mark.parametrize(
    ("low", "high", "first", "first_before", "spans"),
    [
        (None, None, 5, 5, []),
        (10, 30, 5, 5, [(10, 30)]),
        (None, None, 3, 5, [(3, 5)]),
        (10, 30, 3, 5, [(3, 5), (10, 30)]),
        (None, None, 3, None, []),
    ],
)
def test_late_windows_are_read_and_all_from_an_earlier_first_row_on(
    low: int | None, high: int | None, first: int, first_before: int | None, spans: list[tuple[int, int]]
) -> None:
    row = {"low": low, "high": high, "first": first, "first_before": first_before}
    assert late_spans(table(row)) == spans


def test_what_is_asked_of_rows_that_are_here() -> None:
    rows = Rows(cast("SparkSession", None), SLOTS)
    assert rows.count() == 5
    assert rows.select(["_ls_late", "_ls_gid"]).to_arrow().column_names == ["_ls_late", "_ls_gid"]
