"""Nexmark's queries over auctions that are there: what each system writes is held against DuckDB's answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import duckdb
from deltalake import DeltaTable

from tests.benchmarks.nexmark.events import EVENTS_PER_SECOND, TABLES, write
from tests.benchmarks.nexmark.queries import QUERIES
from tests.benchmarks.output import require
from tests.benchmarks.scenarios.lakes import open_lake, run_all
from tests.benchmarks.scenarios.model import processed, scaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.benchmarks.nexmark.queries import Query
    from tests.benchmarks.scenarios.model import Figures, Run

_EVENTS, _WARM = 2_000_000, 2
_DIGEST = "count(*), sum(n)::BIGINT, sum(start % 1000003 * 31 + key * 7 + n)::BIGINT"


def lakestream(name: str) -> Run:
    """Measure a stream that takes all events."""
    query = QUERIES[name]

    def one(folder: Path, count: int) -> Figures:
        with open_lake(folder) as lake:
            figures = processed(count, lambda: run_all(lake))
        written = f"SELECT epoch_us(start) AS start, key, n FROM read_parquet({_files(folder, 'result')})"
        require(_digest(written), _digest(_over(folder, query)), "rows of the output and their checksum")
        return figures

    return partial(_rounds, one, query.stream())


def duck(name: str) -> Run:
    """Measure one query of DuckDB over the files, into a file."""
    query = QUERIES[name]

    def one(folder: Path, count: int) -> Figures:
        target = folder / "result.parquet"
        copy = f"COPY ({_over(folder, query)}) TO '{target}' (FORMAT parquet)"
        figures = processed(count, lambda: _connection().execute(copy))
        written = _digest(f"FROM '{target}'")
        require(written, _digest(_over(folder, query)), "rows of the output and their checksum")
        return figures

    return partial(_rounds, one, "")


def _rounds(one: Callable[[Path, int], Figures], stream: str, folder: Path, scale: float) -> Figures:
    """Do the same in lakes of their own, whose stream is there before the events; the last is measured."""
    count = scaled(_EVENTS, scale, 60 * EVENTS_PER_SECOND)
    figures: Figures = {}
    for number in range(_WARM + 1):
        place = folder / str(number)
        place.mkdir()
        with open_lake(place) as lake:
            tables = (f"CREATE STABLE {name} ({columns})" for name, columns in TABLES.items())
            lake.sql("; ".join([*tables, stream]))
        write(place / "lake" / "main", count)
        figures = one(place, count)
    return figures


def _over(folder: Path, query: Query) -> str:
    """Return DuckDB's query over the files of a lake."""
    tables = (f"{name} AS (FROM read_parquet({_files(folder, name)}))" for name in TABLES)
    return f"WITH {', '.join(tables)} {query.duckdb}"


def _files(folder: Path, name: str) -> list[str]:
    return DeltaTable(folder / "lake" / "main" / name).file_uris()


def _digest(query: str) -> object:
    return _connection().execute(f"SELECT {_DIGEST} FROM ({query})").fetchall()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("SET TimeZone = 'UTC'")
    return connection
