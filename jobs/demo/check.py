"""What the streams must have written, computed by DuckDB from the raw CSV files alone.

Each file of ``expected/`` is one query, written by hand; its first two columns are the key of a row. It
reads ``airlines``, and ``weather`` and ``flights``, the files up to the last day fed, with ``date`` (the
local day the file states) and, for a flight, ``scheduled`` (the instant). Which windows are closed follows
from the data: those that end at or before the airport's newest row.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from jobs.demo.sources import RawFiles

Row = tuple[Any, ...]

_EXPECTED = Path(__file__).parent / "expected"
_KEY_COLUMNS = 2
_RELATIVE_TOLERANCE = 1e-9

_MIDNIGHT = """
CREATE MACRO local_midnight(d) AS
  make_timestamptz(year(d), month(d), day(d), 0, 0, 0, 'America/New_York')
"""
_WEATHER = """
CREATE TABLE weather AS
SELECT *, make_date(year, month, day) AS date FROM read_csv($path, nullstr = 'NA')
WHERE make_date(year, month, day) <= $last
"""
_FLIGHTS = """
CREATE TABLE flights AS
SELECT *, make_date(year, month, day) AS date, time_hour + to_minutes(minute) AS scheduled
FROM read_csv($path, nullstr = 'NA')
WHERE make_date(year, month, day) <= $last
"""

_AIRLINES = "CREATE TABLE airlines AS SELECT * FROM read_csv($path)"


@dataclass(frozen=True)
class Difference:
    """A row that is not as expected: ``expected`` or ``actual`` is None where there is none."""

    expected: Row | None
    actual: Row | None


@dataclass(frozen=True)
class Comparison:
    """How many of the rows on either side are there on both and equal, and those that are not."""

    columns: tuple[str, ...]
    equal: int
    differences: tuple[Difference, ...]

    @property
    def total(self) -> int:
        """Rows compared: those of both sides, a row on both sides once."""
        return self.equal + len(self.differences)

    def __str__(self) -> str:
        return f"{self.equal} of {self.total} rows equal"


def expected_outputs(files: RawFiles, last: date) -> dict[str, pa.Table]:
    """Return the expected rows of each output by name, from the files' rows up to the local day ``last``."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(_MIDNIGHT)
        connection.execute(_WEATHER, {"path": str(files.weather), "last": last})
        connection.execute(_FLIGHTS, {"path": str(files.unzip_flights(Path(folder))), "last": last})
        connection.execute(_AIRLINES, {"path": str(files.airlines)})
        return {
            query.stem: connection.sql(query.read_text(encoding="utf-8")).to_arrow_table()
            for query in sorted(_EXPECTED.glob("*.sql"))
        }


def compare(expected: pa.Table, actual: pa.Table) -> Comparison:
    """Compare rows by the key, whatever their order; further columns of ``actual`` are left out.

    Integers, texts and instants must be the same, floating-point numbers within a relative 1e-9, because
    sums depend on their order. Of several rows with one key each needs its own counterpart.
    """
    columns = tuple(expected.column_names)
    left, right = _by_key(_rows(expected, columns)), _by_key(_rows(actual, columns))
    equal = 0
    differences: list[Difference] = []
    for key in sorted(left.keys() | right.keys(), key=str):
        matched, unmatched = _match(left.get(key, []), right.get(key, []))
        equal += matched
        differences.extend(unmatched)
    return Comparison(columns, equal, tuple(differences))


def _rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """Return the rows as Python values; instants in UTC, where any two of them compare."""
    return list(zip(*(_in_utc(table[name]).to_pylist() for name in columns), strict=True))


def _in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _by_key(rows: Sequence[Row]) -> Mapping[Row, list[Row]]:
    keyed: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        keyed[row[:_KEY_COLUMNS]].append(row)
    return keyed


def _match(expected: list[Row], actual: list[Row]) -> tuple[int, list[Difference]]:
    """Pair the rows of one key; count the equal pairs and list what is left of either side."""
    open_rows, missing = list(actual), []
    for row in expected:
        found = next((other for other in open_rows if _same_row(row, other)), None)
        if found is None:
            missing.append(row)
        else:
            open_rows.remove(found)
    shared = min(len(missing), len(open_rows))
    pairs = [Difference(missing[i], open_rows[i]) for i in range(shared)]
    pairs += [Difference(row, None) for row in missing[shared:]]
    pairs += [Difference(None, row) for row in open_rows[shared:]]
    return len(expected) - len(missing), pairs


def _same_row(left: Row, right: Row) -> bool:
    return all(_same(a, b) for a, b in zip(left, right, strict=True))


def _same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=_RELATIVE_TOLERANCE)
    return type(left) is type(right) and left == right
