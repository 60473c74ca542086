"""Rows for the benchmarks: devices that send a value every second, in Delta tables made by delta-rs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

if TYPE_CHECKING:
    from pathlib import Path

START_US = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("v", pa.float64()), ("tbname", pa.string()), ("g", pa.int32())]
)
CONFIGURATION = {"delta.enableChangeDataFeed": "true"}


def rows(first: int, count: int, devices: int) -> pa.Table:
    """Return ``count`` rows in time order, numbered from ``first``: every device once a second."""
    number = np.arange(first, first + count)
    device = number % devices
    names = np.array([f"d{n}" for n in range(devices)])
    return pa.table(
        [
            pa.array(START_US + (number // devices) * 1_000_000, pa.timestamp("us", "UTC")),
            pa.array(np.sin(number) * 10),
            pa.array(names[device]),
            pa.array(device % 7, pa.int32()),
        ],
        schema=SCHEMA,
    )


def write(path: Path, table: pa.Table) -> None:
    """Append rows as one commit; a table that is not there yet is made with a change feed."""
    write_deltalake(str(path), table, mode="append", configuration=CONFIGURATION)
