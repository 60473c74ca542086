"""Times in zones as PostgreSQL has them, drawn and held against Python's, without Spark."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest

from lakestream import Lake
from lakestream.server.postgres.forms import in_lakes_words
from lakestream.statements.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "UTC",
)
TIMES = [
    *(datetime(2025, 3, 30, hour, 30, tzinfo=UTC) for hour in range(5)),
    *(datetime(2025, 10, 26, hour, 30, tzinfo=UTC) for hour in range(4)),
    *(datetime(2025, 11, 2, hour, 59, 59, 999_999, tzinfo=UTC) for hour in (4, 5, 6)),
    datetime(2025, 4, 5, 15, 15, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, tzinfo=UTC),
]
UNITS = ("hour", "day", "month", "year")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake(tmp_path_factory.mktemp("zones")) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.insert("t", [{"ts": at, "v": number} for number, at in enumerate(TIMES)])
        with patch.object(Workspace, "session", property(_refused)):
            yield lake


def _refused(_: Workspace) -> None:
    raise AssertionError("Spark was asked")


def asked(lake: Lake, item: str) -> list[object]:
    said = f"SELECT {item} AS x FROM t ORDER BY v"
    return [row[0] for row in lake.sql(in_lakes_words(said, "lake") or said).fetchall()]


class Drawn:
    """An expression of PostgreSQL's, and its values: instants with a zone, local times without."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sql, self.values = "ts", list(TIMES)
        for _ in range(self.random.randint(1, 5)):
            self.random.choice([self.zone, self.zone, self.cut, self.moved, self.chosen])()

    @property
    def is_local(self) -> bool:
        return self.values[0].tzinfo is None

    def zone(self) -> None:
        name = self.random.choice(ZONES)
        forms = [f"({self.sql} AT TIME ZONE '{name}')", f"timezone('{name}', {self.sql})"]
        self.sql = self.random.choice(forms)
        self.values = [in_zone(value, ZoneInfo(name)) for value in self.values]

    def cut(self) -> None:
        unit = self.random.choice([*UNITS])
        if not self.is_local and self.random.random() < 0.5:
            zone = self.random.choice(ZONES)
            self.sql = f"date_trunc('{unit}', {self.sql}, '{zone}')"
            local = [cut(in_zone(value, ZoneInfo(zone)), unit) for value in self.values]
            self.values = [in_zone(value, ZoneInfo(zone)) for value in local]
            return
        self.sql = f"date_trunc('{unit}', {self.sql})"
        self.values = [cut(value, unit) for value in self.values]

    def moved(self) -> None:
        hours = self.random.choice([-3, 1, 24])
        self.sql = f"({self.sql} + interval '{hours} hours')"
        self.values = [value + timedelta(hours=hours) for value in self.values]

    def chosen(self) -> None:
        self.sql = self.random.choice(
            [
                f"coalesce({self.sql}, {self.sql})",
                f"greatest({self.sql}, {self.sql})",
                f"CASE WHEN v >= 0 THEN {self.sql} ELSE {self.sql} END",
            ]
        )


def in_zone(value: datetime, zone: ZoneInfo) -> datetime:
    if value.tzinfo is not None:
        return value.astimezone(zone).replace(tzinfo=None, fold=0)
    # The earlier one of two, and one that does not exist is as much later.
    return value.replace(tzinfo=zone).astimezone(UTC)


def cut(value: datetime, unit: str) -> datetime:
    year, month, day, hour = value.year, value.month, value.day, value.hour
    begun = {"hour": (month, day, hour), "day": (month, day, 0), "month": (month, 1, 0), "year": (1, 1, 0)}
    return datetime(year, *begun[unit], tzinfo=value.tzinfo)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_times(lake: Lake, seed: int) -> None:
    for number in range(20):
        drawn = Drawn(1_000 * seed + number)
        found = asked(lake, drawn.sql)
        expected = [value.replace(tzinfo=UTC) if drawn.is_local else value for value in drawn.values]
        assert found == expected, drawn.sql


@pytest.mark.parametrize("zone", ZONES)
def test_days_and_parts_of_a_zone(lake: Lake, zone: str) -> None:
    local = [at.astimezone(ZoneInfo(zone)) for at in TIMES]
    assert asked(lake, f"(ts AT TIME ZONE '{zone}')::date") == [at.date() for at in local]
    assert asked(lake, f"extract(hour from ts AT TIME ZONE '{zone}')") == [at.hour for at in local]
    assert asked(lake, f"date_trunc('day', ts, '{zone}') <= ts") == [True] * len(TIMES)
    assert asked(lake, "ts::date") == [at.date() for at in TIMES]
    assert asked(lake, "CAST(ts AS date) = '2025-03-30'")[0] is True


def test_what_is_now_asks_nobody(lake: Lake) -> None:
    for now in ("now()", "current_timestamp", "transaction_timestamp()", "clock_timestamp()"):
        assert asked(lake, f"max(ts) OVER () < {now}") == [True] * len(TIMES)
    assert asked(lake, "(localtimestamp AT TIME ZONE 'Asia/Tokyo') < now()")[0] is True
    assert isinstance(asked(lake, "current_timestamp::date")[0], date)


def test_offsets_are_counted_west_as_posix_does() -> None:
    for zone, meant in (("+02", "-02:00"), ("UTC-3", "+03:00"), ("-5:30", "+05:30"), ("EST", "EST")):
        said = in_lakes_words(f"SELECT ts AT TIME ZONE '{zone}' FROM t", "lake")
        assert said is not None
        assert f"'{meant}'" in said
