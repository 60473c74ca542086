"""Statements that tick a stream hold it alone: the lake is free for everybody else meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.engine.rounds.ticking import Ticking
from lakestream.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
AT_ONCE = Settings(lock_wait_seconds=0)


def flushed(lake: Lake) -> str:
    lake.sql("CREATE TABLE ev (ts TIMESTAMP, size INT)", dialect="ekuiper")
    select = "SELECT count(*) AS c, sum(size) AS s FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)"
    lake.sql(f"CREATE STREAM o WITH (TIMESTAMP='ts') INTO o AS {select}", dialect="ekuiper")
    return "FLUSH STREAM o"


def refreshed(lake: Lake) -> str:
    lake.sql("CREATE TABLE ev (ts TIMESTAMP, size INT)")
    lake.sql("CREATE MATERIALIZED VIEW o AS SELECT count(*) AS c, sum(size) AS s FROM ev")
    return "REFRESH MATERIALIZED VIEW o"


@pytest.mark.spark
@pytest.mark.parametrize("made", [flushed, refreshed])
def test_the_lake_is_free_while_a_statement_ticks_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Lake], str], spark: Any
) -> None:
    ticked = Ticking._ticked
    seen: list[object] = []

    def looked_on(self: Ticking, *arguments: Any) -> Any:
        with Lake(tmp_path, settings=AT_ONCE, create=False) as other:
            other.sql(f"CREATE TABLE beside_{len(seen)} (ts TIMESTAMP, v INT)")
            with pytest.raises(BusyError, match=r"STREAM_BUSY.*(FLUSH|REFRESH)"):
                other.sql("DROP STREAM o")
        seen.append(arguments)
        return ticked(self, *arguments)

    with Lake(tmp_path, spark=spark, settings=AT_ONCE) as lake:
        statement = made(lake)
        lake.insert("ev", [{"ts": BEGIN + timedelta(seconds=second), "size": second} for second in (1, 2)])
        with monkeypatch.context() as patch:
            patch.setattr(Ticking, "_ticked", looked_on)
            lake.sql(statement)
        assert seen
        assert lake.sql("SELECT c, s FROM o").fetchall() == [(2, 3)]
        # What runs on in this lake goes on from there, and nothing of the stream is held.
        lake.insert("ev", [{"ts": BEGIN + timedelta(seconds=25), "size": 4}])
        assert not lake.run().failed
        lake.sql(statement)
        assert sum(row[0] for row in lake.sql("SELECT c FROM o").fetchall()) == 3
        lake.sql("DROP STREAM o")


def test_a_statement_that_fails_lets_its_stream_go(tmp_path: Path) -> None:
    with Lake(tmp_path, settings=AT_ONCE) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o "
            "AS SELECT _twstart AS at, sum(v) AS v FROM %%trows"
        )
        with pytest.raises(Exception, match="FLUSH_WITHOUT_EFFECT"):
            lake.sql("FLUSH STREAM s")
        assert not lake.run().failed
        lake.sql("DROP STREAM s")
