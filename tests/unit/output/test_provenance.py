"""What rows of an output say of where they come from is read in one place, whichever form it has."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakestream.output.columns import FLAT, Provenance, provenance_beside, provenance_of

TIME = pa.timestamp("us", "UTC")
AT = datetime(2025, 1, 1, tzinfo=UTC)
MICROS = 1_735_689_600_000_000
STRUCT = Provenance("window")
FORMS = pytest.mark.parametrize("places", [FLAT, STRUCT], ids=["flat", "struct"])


def rows_of(places: Provenance, group: Any, start: Any, end: Any, time: pa.DataType = TIME) -> pa.Table:
    """One row of an output in either form."""
    if places.column is None:
        kinds = {"_ls_group": pa.int64(), "_ls_start": time, "_ls_end": time}
        values = zip(kinds.items(), (group, start, end), strict=True)
        return pa.table({name: pa.array([value], kind) for (name, kind), value in values})
    kind = pa.struct([("start", time), ("end", time), ("group", pa.int64())])
    value = None if group is None else {"start": start, "end": end, "group": group}
    return pa.table({places.column: pa.array([value], kind)})


@FORMS
def test_rows_say_their_group_and_window(places: Provenance) -> None:
    rows = rows_of(places, 7, AT, AT.replace(second=10))
    assert places.windows(rows).to_pylist() == [{"gid": 7, "low": MICROS, "high": MICROS + 10_000_000}]
    assert places.extents(rows) == [(7, MICROS, MICROS + 10_000_000)]
    assert rows.column_names == [*places.types]


@FORMS
def test_times_of_other_units_are_microseconds(places: Provenance) -> None:
    assert places.extents(rows_of(places, 7, AT, AT, pa.timestamp("ns", "UTC"))) == [(7, MICROS, MICROS)]


@FORMS
def test_a_row_of_no_window_says_none(places: Provenance) -> None:
    found: list[object] = [*places.extents(rows_of(places, None, None, None))]
    assert found == [(None, None, None)]


@FORMS
def test_no_rows_are_of_no_windows(places: Provenance) -> None:
    assert places.extents(rows_of(places, None, None, None).slice(1)) == []


@pytest.mark.parametrize(
    ("names", "column"),
    [(["ts", "n"], "window"), (["ts", "Window"], "window_1"), (["window", "WINDOW_1"], "window_2")],
)
def test_a_new_output_says_it_in_a_column_of_a_name_that_is_free(names: list[str], column: str) -> None:
    assert provenance_beside(names) == Provenance(column)


@pytest.mark.parametrize(
    ("names", "hidden", "places"),
    [
        (["ts", "_ls_group", "_ls_start", "_ls_end"], ["_ls_group", "_ls_start", "_ls_end"], FLAT),
        (["ts", "window", "window_1"], ["window_1"], Provenance("window_1")),
        (["ts", "window"], [], None),
    ],
)
def test_a_table_that_is_there_says_it_where_its_description_does(
    names: list[str], hidden: list[str], places: Provenance | None
) -> None:
    assert provenance_of(names, hidden) == places
