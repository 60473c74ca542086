from __future__ import annotations

import io
from datetime import UTC, date, datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from jobs.demo import changes, report, sources
from jobs.demo.changes import CHANGES, Effect
from jobs.demo.feed import STREAMS
from lakestream.language import model, parse_statement

BACKLOG, LAST = date(2013, 1, 31), date(2013, 2, 2)
NOON = datetime(2013, 1, 9, 17, tzinfo=UTC)


@pytest.fixture(scope="module")
def arrivals() -> list[sources.Arrival]:
    files = sources.find_files()
    return list(sources.arrivals(sources.read_weather(files), sources.read_flights(files), BACKLOG, LAST))


@pytest.fixture(scope="module")
def spoilt(arrivals: list[sources.Arrival]) -> list[sources.Arrival]:
    return changes.spoil(arrivals)


def only_in(rows: pa.Table, others: pa.Table) -> list[dict[str, Any]]:
    """Return the rows that are not among the others, ordered by subtable."""
    left, right = (set(zip(*table.to_pydict().values(), strict=True)) for table in (rows, others))
    missing = [dict(zip(rows.column_names, row, strict=True)) for row in left - right]
    return sorted(missing, key=lambda row: str(row["tbname"]))


def test_january_lacks_one_record_of_the_weather(
    arrivals: list[sources.Arrival], spoilt: list[sources.Arrival]
) -> None:
    [missing] = only_in(arrivals[0].weather, spoilt[0].weather)
    assert missing["wind_gust"] == pytest.approx(62.14212)
    assert spoilt[0].weather.num_rows == arrivals[0].weather.num_rows - 1


def test_no_flight_leaves_in_the_hour_of_the_late_record(arrivals: list[sources.Arrival]) -> None:
    flights = arrivals[0].flights
    hours = pc.floor_temporal(flights["ts"], unit="hour")
    assert not pc.any(pc.equal(hours, pa.scalar(changes.LATE_HOUR, hours.type))).as_py()


def test_january_has_a_wrong_delay_and_a_flight_too_many(
    arrivals: list[sources.Arrival], spoilt: list[sources.Arrival]
) -> None:
    wrong = only_in(spoilt[0].flights, arrivals[0].flights)
    assert [(row["tbname"], row["flight"], row["dep_delay"]) for row in wrong] == [
        ("flights_jfk_ha", 51, 1),
        ("flights_lga_us", 2210, 245),
    ]
    assert spoilt[0].flights.num_rows == arrivals[0].flights.num_rows + 1
    assert spoilt[0].flights.schema == arrivals[0].flights.schema


def test_the_days_after_january_are_as_they_are(
    arrivals: list[sources.Arrival], spoilt: list[sources.Arrival]
) -> None:
    assert spoilt[1:] == arrivals[1:]


def test_the_statements_insert_update_and_delete() -> None:
    kinds = [type(parse_statement(change.statement)) for change in CHANGES]
    assert kinds == [model.Insert, model.Update, model.Delete, model.Update]
    assert {change.shown for change in CHANGES} <= set(STREAMS)


def output(*rows: tuple[str, datetime, int]) -> pa.Table:
    names = ("origin", "hour", "scheduled")
    schema = pa.schema(
        [("origin", pa.string()), ("hour", pa.timestamp("us", "UTC")), ("scheduled", pa.int64())]
    )
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema)


def test_only_rows_that_differ_are_told() -> None:
    before = output(("JFK", NOON, 3), ("LGA", NOON, 4), ("EWR", NOON, 5))
    after = output(("LGA", NOON, 4), ("JFK", NOON, 2))
    changed = changes.differences(before, after)
    assert [(d.expected, d.actual) for d in changed.differences] == [
        (("EWR", NOON, 5), None),
        (("JFK", NOON, 3), ("JFK", NOON, 2)),
    ]


def test_both_rows_of_a_window_are_printed() -> None:
    console = Console(file=io.StringIO(), width=200)
    changed = changes.differences(output(("JFK", NOON, 3)), output(("JFK", NOON, 2)))
    nothing = changes.differences(output(), output())
    report.print_effect(Effect(CHANGES[2], {"departures_hourly": changed, "wind_6h": nothing}), console)
    lines = cast("io.StringIO", console.file).getvalue().splitlines()
    assert [line.split() for line in lines if line.startswith(("before", "after"))] == [
        ["before", "JFK", "2013-01-09", "12:00", "3"],
        ["after", "JFK", "2013-01-09", "12:00", "2"],
    ]
    assert "DELETE FROM nyc.flights_lga_us" in lines
    assert lines[-1] == "changed: 1 row of departures_hourly; all other rows are as before"
