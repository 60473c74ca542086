"""What the tests of storage share: a lake in a fresh folder, on a manual clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream.clock import ManualClock
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.names.table_info import Column, TableInfo
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2025, 1, 1, tzinfo=UTC))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path / "lake"))
    found.initialise()
    return found


@pytest.fixture
def catalog(layout: Layout, clock: ManualClock) -> Catalog:
    found = Catalog(layout, clock)
    found.databases.create("main")
    return found


METERS = (
    Column("ts", "timestamp"),
    Column("v", "double", "volts"),
    Column("n", "int"),
    Column("tbname", "string"),
    Column("loc", "string", is_tag=True),
)


@pytest.fixture
def meters(catalog: Catalog) -> TableInfo:
    return catalog.create_table(
        "main", "meters", METERS, kind="stable", time_column="ts", key=("tbname", "ts")
    )


@pytest.fixture
def rows() -> Callable[..., pa.Table]:
    """Rows of ``meters`` from (time in seconds, v[, tbname])."""

    def made(*items: tuple[float, float] | tuple[float, float, str]) -> pa.Table:
        return pa.table(
            {
                "ts": pa.array([int(item[0] * 1_000_000) for item in items], pa.timestamp("us", "UTC")),
                "v": pa.array([item[1] for item in items], pa.float64()),
                "tbname": pa.array([item[2] if len(item) > 2 else "d1" for item in items], pa.string()),
            }
        )

    return made
