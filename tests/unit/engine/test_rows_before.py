"""Rows from before a stream are never taken, and a window that holds some needs no Spark for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.statements.workspace import Workspace
from lakestream.storage.sessions.jobs import OwnSession
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

    Row = tuple[int, int | None]

START = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE: list[Row] = [(1, 7), (1, 7), (2, None), (12, 5)]
LATER: list[list[Row]] = [[(1, 7), (3, 1)], [(14, 2), (2, None)], [(21, 4)], [(4, 9), (12, 5)], [(45, 1)]]
RESULTS = {"sum(v)": "total", "count(DISTINCT v)": "kinds", "last(v)": "newest"}


def append(lake: Lake, rows: list[Row]) -> None:
    """Append rows as another tool does, for which rows of one time are several."""
    times = pa.array([START + timedelta(seconds=second) for second, _ in rows], pa.timestamp("us", "UTC"))
    found = pa.table({"ts": times, "v": pa.array([v for _, v in rows], pa.int64())})
    write_deltalake(f"{lake.root}/main/m", found, mode="append")


def expected() -> dict[int, tuple[Any, ...]]:
    """Return what each window of ten seconds that has closed holds of the later rows."""
    windows: dict[int, list[Row]] = defaultdict(list)
    for row in sorted((row for rows in LATER for row in rows), key=lambda row: row[0]):
        windows[row[0] // 10].append(row)
    return {
        10 * number: (
            sum(v for _, v in rows if v is not None),
            len({v for _, v in rows if v is not None}),
            [v for _, v in rows if v is not None][-1],
        )
        for number, rows in windows.items()
        if number < max(windows)
    }


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)"])
def test_alike_rows_from_before_are_not_taken(tmp_path: Path, options: str) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v BIGINT)")
        append(lake, BEFORE)
        with without_spark():
            for calculated, name in RESULTS.items():
                lake.sql(
                    f"CREATE STREAM s_{name} INTERVAL(10s) SLIDING(10s) FROM m {options} INTO o_{name} AS "
                    f"SELECT _twstart AS at, {calculated} AS x FROM %%trows"
                )
        for rows in LATER:
            append(lake, rows)
            assert not lake.run().failed
        found: dict[int, list[Any]] = defaultdict(list)
        for name in RESULTS.values():
            output = lake.sql(f"SELECT at, x FROM o_{name} WHERE x <> 0").arrow
            assert output is not None
            for row in output.to_pylist():
                found[int((row["at"] - START).total_seconds())].append(row["x"])
    assert {at: tuple(results) for at, results in found.items()} == expected()


def changed(lake: Lake, random: Random, there: Counter[Row]) -> None:
    """Append some rows, or delete all that are alike, and count what is there."""
    pool: list[Row] = [(second, v) for second in (1, 2, 12, 13) for v in (1, 2, None)]
    if there and random.random() < 0.4:
        second, v = random.choice(sorted(there, key=str))
        at = f"ts = '{START + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}'"
        gone = f"{at} AND v IS NULL" if v is None else f"{at} AND v = {v}"
        DeltaTable(f"{lake.root}/main/m").delete(gone)
        del there[second, v]
    else:
        rows = random.choices(pool, k=random.randint(1, 4))
        append(lake, rows)
        there.update(rows)


@pytest.mark.parametrize("seed", range(12))
def test_of_alike_rows_those_beyond_the_ones_from_before_are_taken(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    there: Counter[Row] = Counter()
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v BIGINT)")
        for _ in range(3):
            changed(lake, random, there)
        before = Counter(there)
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(EXACT) INTO o AS "
            "SELECT _twstart AS at, count(*) AS n, sum(v) AS total FROM %%trows"
        )
        for _ in range(8):
            changed(lake, random, there)
            if random.random() < 0.6:
                assert not lake.run().failed
        append(lake, [(40, 1)])
        assert not lake.run().failed
        found = lake.sql("SELECT at, n, total FROM o WHERE n > 0").arrow
    assert found is not None
    taken = list((there - before).elements())
    expected = {
        (START + timedelta(seconds=10 * window), len(rows), sum(known) if known else None)
        for window in (0, 1)
        if (rows := [v for second, v in taken if second // 10 == window])
        for known in [[v for v in rows if v is not None]]
    }
    assert {(row["at"], row["n"], row["total"]) for row in found.to_pylist()} == expected


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, `v%s%%` BIGINT)")

        def write(second: int) -> None:
            ts = pa.array([START + timedelta(seconds=second)], pa.timestamp("us", "UTC"))
            found = pa.table({"ts": ts, "v%s%%": pa.array([7], pa.int64())})
            write_deltalake(f"{lake.root}/main/m", found, mode="append")

        write(1)
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o AS "
            "SELECT _twstart AS at, sum(`v%s%%`) AS total FROM %%trows"
        )
        for second in (1, 12):
            write(second)
            assert not lake.run().failed
        found = lake.sql("SELECT total FROM o").arrow
    assert found is not None
    assert found.to_pylist() == [{"total": 7}]
