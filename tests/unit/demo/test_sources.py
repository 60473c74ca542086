from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from jobs.demo import sources
from lakestream.errors import PrerequisiteError

if TYPE_CHECKING:
    import pyarrow as pa

LAST_OF_JANUARY = date(2013, 1, 31)
END = date(2013, 12, 31)


@pytest.fixture(scope="module")
def weather() -> pa.Table:
    return sources.read_weather(sources.find_files())


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return sources.read_flights(sources.find_files())


@pytest.fixture(scope="module")
def arrivals(weather: pa.Table, flights: pa.Table) -> list[sources.Arrival]:
    return list(sources.arrivals(weather, flights, LAST_OF_JANUARY, END))


def test_all_rows_are_read(weather: pa.Table, flights: pa.Table) -> None:
    assert (weather.num_rows, flights.num_rows) == (26_115, 336_776)


def test_no_two_rows_share_a_key(weather: pa.Table, flights: pa.Table) -> None:
    for rows, key in ((weather, ["tbname", "ts"]), (flights, ["tbname", "ts", "flight"])):
        assert rows.select(key).group_by(key).aggregate([]).num_rows == rows.num_rows


def test_the_first_flight_is_the_files_first_line(flights: pa.Table) -> None:
    assert flights.slice(0, 1).to_pylist() == [
        {
            "date": date(2013, 1, 1),
            "tbname": "flights_ewr_ua",
            "ts": datetime(2013, 1, 1, 10, 15, tzinfo=UTC),
            "flight": 1545,
            "dest": "IAH",
            "tailnum": "N14228",
            "departed": datetime(2013, 1, 1, 10, 17, tzinfo=UTC),
            "dep_delay": 2,
            "arr_delay": 11,
            "air_time": 227,
            "distance": 1400,
            "origin": "EWR",
            "carrier": "UA",
        }
    ]


def test_a_cancelled_flight_has_a_time_but_no_departure(flights: pa.Table) -> None:
    assert flights["ts"].null_count == 0
    assert flights["departed"].null_count == flights["dep_delay"].null_count == 8_255


def test_january_comes_at_once_and_then_each_day(arrivals: list[sources.Arrival]) -> None:
    assert (arrivals[0].first, arrivals[0].last) == (date(2013, 1, 1), LAST_OF_JANUARY)
    assert [arrival.first for arrival in arrivals[1:3]] == [date(2013, 2, 1), date(2013, 2, 2)]
    assert len(arrivals) == 1 + 334
    assert sum(arrival.rows for arrival in arrivals) == 26_115 + 336_776


@pytest.mark.parametrize("table", ["weather", "flights"])
def test_no_row_arrives_behind_an_earlier_arrival(arrivals: list[sources.Arrival], table: str) -> None:
    newest = datetime.min.replace(tzinfo=UTC)
    for arrival in arrivals:
        times = sorted(getattr(arrival, table)["ts"].to_pylist())
        if times:
            assert newest < times[0]
            newest = times[-1]


def test_the_last_day_cuts_the_arrivals(weather: pa.Table, flights: pa.Table) -> None:
    cut = list(sources.arrivals(weather, flights, LAST_OF_JANUARY, date(2013, 2, 2)))
    assert [arrival.last for arrival in cut] == [LAST_OF_JANUARY, date(2013, 2, 1), date(2013, 2, 2)]


def test_a_day_without_weather_has_an_empty_table(arrivals: list[sources.Arrival]) -> None:
    assert arrivals[-1].weather.num_rows == 0
    assert arrivals[-1].weather.schema == arrivals[0].weather.schema


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(PrerequisiteError) as caught:
        sources.find_files()
    assert caught.value.code == "DATA_NOT_FOUND"
    assert "make demo" in caught.value.hint
