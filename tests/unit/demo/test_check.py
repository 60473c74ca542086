from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from jobs.demo import check, sources

NOON = datetime(2013, 11, 3, 17, tzinfo=UTC)
Rows = list[dict[str, Any]]


def table(rows: Rows, zone: str = "UTC") -> pa.Table:
    fields = [
        ("origin", pa.string()),
        ("ts", pa.timestamp("us", zone)),
        ("n", pa.int64()),
        ("mean", pa.float64()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def row(**changes: Any) -> dict[str, Any]:
    return {"origin": "JFK", "ts": NOON, "n": 3, "mean": 1.5} | changes


@pytest.mark.parametrize(
    "actual",
    [
        pytest.param([row()], id="the same"),
        pytest.param([row(mean=1.5 * (1 + 1e-12))], id="a sum taken in another order"),
        pytest.param([row(ts=NOON.astimezone(ZoneInfo("America/New_York")))], id="another zone"),
    ],
)
def test_equal_rows(actual: Rows) -> None:
    compared = check.compare(table([row()]), table(actual))
    assert str(compared) == "1 of 1 rows equal"
    assert compared.differences == ()


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        pytest.param([], "0 of 1 rows equal", id="missing"),
        pytest.param([row(), row(origin="LGA")], "1 of 2 rows equal", id="not expected"),
        pytest.param([row(), row()], "1 of 2 rows equal", id="twice"),
        pytest.param([row(n=4)], "0 of 1 rows equal", id="another integer"),
        pytest.param([row(mean=1.5 + 1e-6)], "0 of 1 rows equal", id="another float"),
        pytest.param([row(mean=None)], "0 of 1 rows equal", id="null"),
    ],
)
def test_differing_rows(actual: Rows, text: str) -> None:
    compared = check.compare(table([row()]), table(actual))
    assert str(compared) == text
    assert len(compared.differences) == compared.total - compared.equal


def test_a_difference_shows_both_sides() -> None:
    [difference] = check.compare(table([row()]), table([row(n=4)])).differences
    assert difference == check.Difference(("JFK", NOON, 3, 1.5), ("JFK", NOON, 4, 1.5))


def test_columns_that_are_not_expected_are_left_out() -> None:
    wider = table([row()]).append_column("tbname", pa.array(["t"]))
    assert str(check.compare(table([row()]), wider)) == "1 of 1 rows equal"


def test_the_hour_that_comes_twice_has_two_rows() -> None:
    first, second = (datetime(2013, 11, 3, hour, 30, tzinfo=UTC) for hour in (5, 6))
    expected = table([row(ts=first), row(ts=second)])
    local = expected.set_column(1, "ts", expected["ts"].cast(pa.timestamp("us", "America/New_York")))
    assert str(check.compare(expected, local)) == "2 of 2 rows equal"


@pytest.fixture(scope="module")
def expected() -> dict[str, pa.Table]:
    return check.expected_outputs(sources.find_files(), date(2013, 12, 31))


def test_there_is_a_query_for_each_output(expected: dict[str, pa.Table]) -> None:
    counts = {name: rows.num_rows for name, rows in expected.items()}
    assert counts == {
        "delays_and_weather": 3 * 364,
        "departures_hourly": 19_483,
        "weather_daily": 3 * 363,
        "wind_6h": 26_187,
        "airline_days": 5_442,
        "bulletin": 3 * 4,
        "mean": 3 * 4,
    }


@pytest.mark.parametrize(("day", "hours"), [(date(2013, 3, 10), 23), (date(2013, 11, 3), 25)])
def test_days_follow_new_york_through_a_change_of_clocks(
    expected: dict[str, pa.Table], day: date, hours: int
) -> None:
    starts = sorted({start.astimezone(ZoneInfo("America/New_York")) for start in days(expected)})
    place = next(i for i, start in enumerate(starts) if start.date() == day)
    elapsed = starts[place + 1].astimezone(UTC) - starts[place].astimezone(UTC)
    assert elapsed.total_seconds() == hours * 3600


def days(expected: dict[str, pa.Table]) -> list[datetime]:
    return expected["delays_and_weather"]["day"].to_pylist()  # type: ignore[no-any-return]
