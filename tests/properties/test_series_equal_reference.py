"""Queries over the tree equal a plain reading of their rules, on random points, windows and fills."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEVICES = ("root.sg.a", "root.sg.b")
Points = dict[str, dict[int, float]]
Row = tuple[object, ...]


@dataclass(frozen=True)
class Windowed:
    """A query with windows; all times are seconds."""

    start: int
    end: int
    interval: int
    step: int
    fill: str

    @property
    def clauses(self) -> str:
        return (
            f"GROUP BY([{self.start * 1000}, {self.end * 1000}), {self.interval}s, {self.step}s) {self.fill}"
        )

    def windows(self) -> list[tuple[int, int]]:
        starts = range(self.start, self.end, self.step)
        return [(at, min(at + self.interval, self.end)) for at in starts]


queries = st.builds(
    lambda start, length, interval, step, fill: Windowed(start, start + length, interval, step, fill),
    st.integers(0, 10),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from(["", "FILL(PREVIOUS)", "FILL(PREVIOUS, 9s)", "FILL(LINEAR)", "FILL(7)", "FILL('x')"]),
)
points = st.fixed_dictionaries(
    {
        name: st.dictionaries(st.integers(0, 45), st.integers(-5, 5).map(float), max_size=12)
        for name in DEVICES
    }
)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[list[Lake]]:
    """One lake for all examples: each takes devices of its own."""
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark, settings=Settings()) as lake:
        yield [lake]


numbers = iter(range(1_000_000))


def written(lake: Lake, found: Points) -> str:
    """Write points below a database of their own; return its path."""
    root = f"root.e{next(numbers)}"
    for name in DEVICES:
        own = found[name]
        device = f"{root}.{name.rsplit('.', 1)[1]}"
        lake.sql(f"CREATE TIMESERIES {device}.s DOUBLE", dialect="iotdb")
        lake.insert(device, [{"ts": at * 1000, "s": value} for at, value in own.items()])
    return root


def at(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def aggregated(own: dict[int, float], start: int, end: int) -> list[float | None]:
    """Return count, sum, first, last and extreme of the points of a window."""
    inside = [own[time] for time in sorted(own) if start <= time < end]
    if not inside:
        return [0, None, None, None, None]
    extreme = max(inside, key=lambda value: (abs(value), value))
    return [len(inside), sum(inside), inside[0], inside[-1], extreme]


def filled(query: Windowed, times: list[int], column: list[float | None]) -> list[float | None]:
    known = [i for i, value in enumerate(column) if value is not None]

    def one(place: int) -> float | None:
        value = column[place]
        before = max((i for i in known if i <= place), default=None)
        after = min((i for i in known if i >= place), default=None)
        if value is not None or not query.fill or "'x'" in query.fill:
            return value
        if query.fill == "FILL(7)":
            return 7.0
        if before is None:
            return None
        old = column[before]
        if "PREVIOUS" in query.fill:
            return old if "9s" not in query.fill or times[place] - times[before] <= 9 else None
        if after is None:
            return None
        new = column[after]
        assert old is not None
        assert new is not None
        return old + (new - old) * (times[place] - times[before]) / (times[after] - times[before])

    return [one(place) for place in range(len(column))]


def expected(query: Windowed, own: dict[int, float]) -> list[Row]:
    times = [start for start, _ in query.windows()]
    columns = [*zip(*(aggregated(own, *window) for window in query.windows()), strict=True)]
    done = [filled(query, times, list(column)) for column in columns]
    return [(at(time), *row) for time, *row in zip(times, *done, strict=True)]


def close(found: list[Row], wanted: list[Row]) -> None:
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for value, other_value in zip(row, other, strict=True):
            is_number = isinstance(value, float) and isinstance(other_value, float)
            assert value == (pytest.approx(other_value) if is_number else other_value)


FUNCTIONS = "count(s), sum(s), first_value(s), last_value(s), extreme(s)"


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(points, queries)
def test_windows_and_fills(lakes: list[Lake], found: Points, query: Windowed) -> None:
    lake = lakes[0]
    root = written(lake, found)
    rows = lake.sql(f"SELECT {FUNCTIONS} FROM {root}.a {query.clauses}", dialect="iotdb").fetchall()
    close(rows, expected(query, found[DEVICES[0]]))
    rows = lake.sql(
        f"SELECT {FUNCTIONS} FROM {root}.* {query.clauses} ALIGN BY DEVICE", dialect="iotdb"
    ).fetchall()
    by_device = [
        (row[0], f"{root}.{name[-1]}", *row[1:]) for name in DEVICES for row in expected(query, found[name])
    ]
    close(rows, by_device)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(points, st.integers(-5, 5), st.integers(0, 45))
def test_raw_rows_side_by_side(lakes: list[Lake], found: Points, least: int, since: int) -> None:
    lake = lakes[0]
    root = written(lake, found)
    text = f"SELECT s, s * 2 FROM {root}.* WHERE s >= {least} AND time > {since * 1000}"
    kept = {name: {t: v for t, v in found[name].items() if v >= least and t > since} for name in DEVICES}
    times = sorted({time for own in kept.values() for time in own})
    values = [[kept[name].get(time) for name in DEVICES] for time in times]
    wanted = [
        (at(time), *row, *(None if value is None else value * 2 for value in row))
        for time, row in zip(times, values, strict=True)
    ]
    assert lake.sql(text, dialect="iotdb").fetchall() == wanted


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(points, st.integers(0, 45), st.booleans())
def test_latest_points(lakes: list[Lake], found: Points, since: int, descending: bool) -> None:
    lake = lakes[0]
    root = written(lake, found)
    order = " ORDER BY TIMESERIES DESC" if descending else ""
    rows = lake.sql(f"SELECT LAST s FROM {root}.* WHERE time > {since * 1000}{order}", dialect="iotdb")
    kept = {name: {t: v for t, v in found[name].items() if t > since} for name in DEVICES}
    wanted = [
        (at(max(own)), f"{root}.{name[-1]}.s", str(own[max(own)]), "DOUBLE")
        for name, own in kept.items()
        if own
    ]
    assert rows.fetchall() == (wanted[::-1] if descending else wanted)
