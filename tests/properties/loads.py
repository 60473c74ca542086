"""Views over the tables of a known benchmark, which are loaded, changed and followed, against DuckDB."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from tests.properties.followed import POINTS, evaluator, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

Rows = dict[str, dict[int, tuple[Any, ...]]]
"""Rows of tables by their key."""


@dataclass
class Load(ABC):
    """The tables as they should be: rows by their key."""

    random: Random
    rows: Rows = field(default_factory=dict)

    TABLES: ClassVar[str]
    """The statements that make the tables."""
    QUERIES: ClassVar[Mapping[str, str]]
    """Queries that mean the same to Spark and DuckDB."""

    @abstractmethod
    def load(self) -> Rows:
        """Return the first rows of all tables."""

    @abstractmethod
    def change(self, lake: Lake) -> None:
        """Change the tables once."""

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        """Return what DuckDB gives of a query."""
        with evaluator() as connection:
            connection.execute(self.TABLES.replace(" COMPOSITE KEY", "").replace("TIMESTAMP", "TIMESTAMPTZ"))
            for name, rows in self.rows.items():
                for row in rows.values():
                    connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
            return connection.execute(query).fetchall()


def insert(lake: Lake, tables: Rows) -> None:
    """Write rows of tables, each over one of its key."""
    for name, rows in tables.items():
        if rows:
            schema = lake.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow().schema
            columns = zip(zip(*rows.values(), strict=True), schema, strict=True)
            lake.insert(name, pa.table([pa.array(c, f.type) for c, f in columns], schema=schema))


def differences(load: Load, names: Sequence[str], steps: int, *, crashes: float = 0.3) -> list[str]:
    """Run one history, and return what is other than it should be; ``crashes`` is how likely one is."""
    folder, settings = mkdtemp(prefix="load-"), Settings(checkpoint_ticks=2)
    try:
        with Lake(folder, settings=settings) as lake:
            lake.sql(load.TABLES)
            insert(lake, load.load())
            for name in names:
                lake.sql(f"CREATE MATERIALIZED VIEW {name}_v AS {load.QUERIES[name]}")
            lake.run()
        for _ in range(steps):
            with Lake(folder, settings=settings) as lake:
                for _ in range(load.random.randint(1, 3)):
                    load.change(lake)
                if load.random.random() >= crashes:
                    lake.run()
                    continue
                point = load.random.choice(POINTS)
                with suppress(SimulatedCrash), crash_at(point, load.random.randint(1, 6)):
                    lake.run()
        with Lake(folder, settings=settings) as lake:
            lake.run()
            return [found for name in names if (found := _compared(lake, load, name))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compared(lake: Lake, load: Load, name: str) -> str:
    expected = in_order(load.expected(load.QUERIES[name]))
    found = in_order(lake.sql(f"SELECT * FROM {name}_v").fetchall())
    failed = [stream.last_error for stream in lake.streams() if stream.last_error]
    return "" if found == expected and not failed else f"{name}: {failed}\n  {found}\n  {expected}"
