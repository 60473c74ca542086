"""What rows of an output say of where they come from is read in one place."""

from datetime import UTC, datetime

import pyarrow as pa

from lakestream.output.columns import FLAT

TIME = pa.timestamp("us", "UTC")
AT = datetime(2025, 1, 1, tzinfo=UTC)
MICROS = 1_735_689_600_000_000


def test_rows_say_their_group_and_window() -> None:
    rows = pa.table(
        {
            FLAT.group: pa.array([7], pa.int64()),
            FLAT.start: pa.array([AT], TIME),
            FLAT.end: pa.array([AT.replace(second=10)], TIME),
        }
    )
    assert FLAT.windows(rows) == [(7, MICROS)]
    assert FLAT.extents(rows) == [(7, MICROS, MICROS + 10_000_000)]


def test_times_of_other_units_are_microseconds() -> None:
    rows = pa.table(
        {FLAT.group: pa.array([7], pa.int64()), FLAT.start: pa.array([AT], pa.timestamp("ns", "UTC"))}
    )
    assert FLAT.windows(rows) == [(7, MICROS)]


def test_a_row_of_no_window_says_none() -> None:
    rows = pa.table({FLAT.group: pa.array([None], pa.int64()), FLAT.start: pa.array([None], TIME)})
    found: list[object] = [*FLAT.windows(rows)]
    assert found == [(None, None)]
