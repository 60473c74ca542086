"""What goes wrong while the year is fed, and how it is put right: a late record, a correction, a deletion.

:func:`spoil` makes the rows as they were first reported out of those of the files. The statements of
``tables/changes/`` put each of them right, so that in the end the lake holds the rows of the files and
nothing else, and the check needs to know nothing of what happened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from jobs.demo.check import compare
from jobs.demo.feed import VIEW, run_streams
from jobs.demo.outputs import read_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobs.demo.check import Comparison
    from jobs.demo.sources import Arrival
    from lakestream.lake import Lake

_STATEMENTS = Path(__file__).parents[2] / "tables" / "changes"

LATE_HOUR = datetime(2013, 1, 31, 8, tzinfo=UTC)
"""3 o'clock in New York: no flight leaves then, so no join of flights and weather looks at the record."""

MISREPORTED = ("flights_jfk_ha", datetime(2013, 1, 9, 14, tzinfo=UTC), 51)
ENTERED_TWICE = ("flights_lga_us", datetime(2013, 1, 31, 14, tzinfo=UTC), 2120)
WRONG_NUMBER = 2210
MISNAMED, WRONG_NAME = "OO", "Sky West Airlines Inc."


@dataclass(frozen=True)
class Change:
    """A statement that puts something right, and the output whose changed rows tell most."""

    title: str
    file: str
    shown: str

    @property
    def statement(self) -> str:
        """The text of the statement, with the comment that says what it is for."""
        return (_STATEMENTS / self.file).read_text(encoding="utf-8").strip()


CHANGES = (
    Change("A late record", "late_record.sql", "wind_6h"),
    Change("A correction", "correction.sql", "departures_hourly"),
    Change("A deletion", "deletion.sql", "departures_hourly"),
    Change("An airline's record", "airline.sql", VIEW),
)


@dataclass(frozen=True)
class Effect:
    """What a change did to the rows of each output: expected are those before it, found those after it."""

    change: Change
    outputs: Mapping[str, Comparison]


def spoil(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the arrivals as they were first reported; only the first one, January, differs.

    A weather record is missing, a flight has a wrong delay, and another flight is there twice.
    """
    first, *others = arrivals
    flights = _with_wrong_delay(first.flights)
    twice = flights.filter(_is_flight(flights, *ENTERED_TWICE))
    wrong = _with_column(twice, "flight", pa.scalar(WRONG_NUMBER, pa.int32()))
    late = _is_row(first.weather, "weather_lga", LATE_HOUR)
    spoilt = replace(
        first, weather=first.weather.filter(pc.invert(late)), flights=pa.concat_tables([flights, wrong])
    )
    return [spoilt, *others]


def misname(airlines: pa.Table) -> pa.Table:
    """Return the airlines as they were first recorded: one has another name."""
    misnamed = pc.equal(airlines["carrier"], MISNAMED)
    return _with_column(airlines, "name", pc.if_else(misnamed, WRONG_NAME, airlines["name"]))


def _with_wrong_delay(flights: pa.Table) -> pa.Table:
    """Say of one flight that it left a minute after its time."""
    wrong = _is_flight(flights, *MISREPORTED)
    minute = pa.scalar(60_000_000, pa.duration("us"))
    departed = pc.if_else(wrong, pc.add(flights["ts"], minute), flights["departed"])
    delay = pc.if_else(wrong, pa.scalar(1, pa.int32()), flights["dep_delay"])
    return _with_column(_with_column(flights, "departed", departed), "dep_delay", delay)


def _with_column(rows: pa.Table, name: str, values: pa.ChunkedArray | pa.Scalar) -> pa.Table:
    filled = pa.repeat(values, rows.num_rows) if isinstance(values, pa.Scalar) else values
    return rows.set_column(rows.column_names.index(name), name, filled)


def _is_flight(flights: pa.Table, subtable: str, scheduled: datetime, flight: int) -> pa.ChunkedArray:
    return pc.and_(_is_row(flights, subtable, scheduled), pc.equal(flights["flight"], flight))


def _is_row(rows: pa.Table, subtable: str, ts: datetime) -> pa.ChunkedArray:
    return pc.and_(pc.equal(rows["tbname"], subtable), pc.equal(rows["ts"], pa.scalar(ts, rows["ts"].type)))


def make_changes(lake: Lake) -> Iterator[Effect]:
    """Run each statement, then the streams, and compare the outputs before and after."""
    before = read_outputs(Path(lake.root))
    for change in CHANGES:
        lake.sql(change.statement)
        run_streams(lake)
        after = read_outputs(Path(lake.root))
        yield Effect(change, {name: differences(before[name], rows) for name, rows in after.items()})
        before = after


def differences(before: pa.Table, after: pa.Table) -> Comparison:
    """Compare the rows that are not on both sides: nearly all are, and need no closer look."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("before", before)
        connection.register("after", after)
        sides = [
            connection.sql(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}").to_arrow_table()  # noqa: S608
            for one, other in (("before", "after"), ("after", "before"))
        ]
    return compare(*sides)
