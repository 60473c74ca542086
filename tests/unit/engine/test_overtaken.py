"""A round whose streams others tick, or change, between its look at them and its claim of them. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.engine.base.turns import Turns
from tests.properties.followed import without_spark
from tests.store_server import BUCKET, StoreServer, store_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETTINGS = Settings(lock_wait_seconds=0)
STREAM = "INTERVAL(10s) SLIDING(10s) FROM m INTO o AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    with store_server() as server:
        yield server


@pytest.fixture(params=["folder", pytest.param("store", marks=pytest.mark.long)])
def root(
    request: pytest.FixtureRequest, tmp_path: Path, server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> str:
    if request.param == "folder":
        return str(tmp_path / "lake")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


def write(lake: Lake, second: int) -> None:
    lake.insert("m", [{"ts": f"2025-01-01 00:00:{second:02}", "v": 1}])


def once_before_a_claim(patch: pytest.MonkeyPatch, of: Turns, work: Callable[[], object]) -> list[str]:
    """Have work done before the next claim that a round takes; return the streams that it was done before."""
    take, done = Turns.take, list[str]()

    def overtaken(turns: Turns, uuid: str) -> bool:
        if turns is of and not done:
            done.append(uuid)
            work()
        return take(turns, uuid)

    patch.setattr(Turns, "take", overtaken)
    return done


def ticked(other: Lake) -> None:
    assert not other.run().failed


def ticked_twice(other: Lake) -> None:
    ticked(other)
    write(other, 21)
    ticked(other)


def stopped(other: Lake) -> None:
    other.sql("STOP STREAM s")


def dropped(other: Lake) -> None:
    other.sql("DROP STREAM s")
    other.sql("DROP TABLE o")


def recalculated(other: Lake) -> None:
    other.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00'")
    ticked(other)


OVERTAKEN = [ticked, ticked_twice, stopped, dropped, recalculated]


@pytest.mark.parametrize("overtake", OVERTAKEN, ids=lambda work: work.__name__)
@pytest.mark.parametrize("recalculates", [False, True], ids=["tick", "part"])
def test_what_was_read_before_a_claim_does_not_count(
    root: str, monkeypatch: pytest.MonkeyPatch, overtake: Callable[[Lake], None], recalculates: bool
) -> None:
    with without_spark(), Lake(root, settings=SETTINGS) as lake, Lake(root, settings=SETTINGS) as other:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s {STREAM}")
        write(lake, 0)
        write(lake, 1)
        assert not lake.run().failed
        other.run()
        if recalculates:
            lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00'")
        write(lake, 12)
        with monkeypatch.context() as patch:
            done = once_before_a_claim(patch, lake._at.engine.services.turns, lambda: overtake(other))
            reports = lake.tick_once()
        assert done
        assert not [report.error for report in reports if report.error]
        if overtake is dropped:
            assert lake.streams() == []
            assert [row[0] for row in lake.sql("SHOW TABLES").fetchall()] == ["m"]
            return
        if overtake is stopped:
            assert reports == []
            lake.sql("START STREAM s")
        for one in (lake, other, lake):
            assert not one.run().failed
        assert [stream.status for stream in lake.streams()] == ["Running"]
        progress = [one.tick for one in lake._at.registry.history(lake._at.registry.streams()[0].uuid)]
        assert progress == sorted(set(progress))
        expected = [2, 1] if overtake is ticked_twice else [2]
        assert [n for (n,) in lake.sql("SELECT n FROM o ORDER BY w").fetchall()] == expected
