"""VERIFY is red for a row that is there twice, is missing, is too much or is another, in every output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from tests.spoilt import sides, spoilt
from tests.tiers import every_other

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

FIGURES = "count(*) AS n, avg(v) AS a"
TDENGINE = {
    "by_window": "INTERVAL(10s) SLIDING(10s) FROM m INTO by_window AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "by_subtable": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname, loc INTO by_subtable "
    "OUTPUT_SUBTABLE(concat('o_', tbname)) TAGS (place INT AS loc) AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "composite": "INTERVAL(10s) SLIDING(10s) FROM m INTO composite (ws, v COMPOSITE KEY, n, a) AS "
    f"SELECT _twstart, v, {FIGURES} FROM %%trows GROUP BY v",
    "mine": f"INTERVAL(10s) SLIDING(10s) FROM m INTO mine AS SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "exact": "SESSION(ts, 3s) FROM m PARTITION BY tbname STREAM_OPTIONS(EXACT) INTO exact AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "sliding": f"SLIDING(5s) FROM m INTO sliding AS SELECT _tcurrent_ts AS ws, {FIGURES} FROM %%trows",
    "session": "SESSION(ts, 3s) FROM m PARTITION BY tbname INTO session AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "state": "STATE_WINDOW(v) FROM m PARTITION BY tbname INTO state AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "event": "EVENT_WINDOW(START WITH v > 1 END WITH v < 2) FROM m PARTITION BY tbname INTO event AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "counted": "COUNT_WINDOW(2) FROM m PARTITION BY tbname INTO counted AS "
    f"SELECT _twstart AS ws, {FIGURES} FROM %%trows",
    "rows": "COUNT_WINDOW(1) FROM m PARTITION BY tbname INTO rows AS "
    "SELECT _twstart AS ws, 1 AS n, v / 3 AS a FROM %%trows",
    "classic": "TRIGGER AT_ONCE IGNORE EXPIRED 0 INTO classic AS "
    f"SELECT _wstart AS ws, {FIGURES} FROM m PARTITION BY tbname INTERVAL(10s)",
}
EKUIPER = {
    "fire_once_exact": f"WITH (TIMESTAMP='ts', EXACT=true) INTO fire_once_exact AS SELECT g, {FIGURES} "
    "FROM e GROUP BY g, TUMBLINGWINDOW(ss, 10)",
}


AGAIN = "INTERVAL(10s) SLIDING(10s) FROM m INTO again AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"


class World:
    """A lake with streams of all kinds of output, and a way to spoil the rows of one."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.lake = path, Lake(path, spark=spark, settings=Settings())
        lake = self.lake
        lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        lake.sql("CREATE TABLE e (ts TIMESTAMP, g VARCHAR(9), v INT)")
        lake.sql("CREATE TABLE mine (ws TIMESTAMP, n BIGINT, a DOUBLE)")
        for name, text in TDENGINE.items():
            lake.sql(f"CREATE STREAM {name} {text}")
        lake.sql(f"CREATE STREAM again {AGAIN}")
        for name, text in EKUIPER.items():
            lake.sql(f"CREATE STREAM {name} {text}", dialect="ekuiper")
        for first in (0, 20, 40):
            rows = [(g, first + second, v) for g in "ab" for second, v in ((1, 1), (2, 2), (3, 1), (12, 3))]
            lake.insert("m", [{"tbname": g, "loc": 1, "ts": instant(s), "v": v} for g, s, v in rows])
            lake.insert("e", [{"ts": instant(s), "g": g, "v": v} for g, s, v in rows])
            lake.run()

    def output(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.path / "main" / name))

    def rows(self, name: str) -> pa.Table:
        return pa.table(self.output(name).to_pyarrow_table())

    def spoil(self, name: str, defect: Callable[[pa.Table], pa.Table]) -> None:
        rows = self.rows(name)
        write_deltalake(self.output(name), defect(rows), mode="overwrite")


def instant(second: int) -> str:
    return f"2025-01-01 00:00:{second:02}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("verify") / "lake", spark)
    yield world
    world.lake.close()


@pytest.mark.parametrize("name", every_other([*TDENGINE, *EKUIPER]))
def test_each_defect_is_seen(world: World, name: str) -> None:
    sound = world.lake.verify(name)
    n = world.rows(name).num_rows
    assert (sound.holds, sound.differing) == (True, ())
    assert sound.equal_rows == sound.expected_rows == sound.found_rows == n > 2
    world.spoil(name, spoilt)
    seen = world.lake.verify(name)
    assert not seen.holds
    # Whoever wrote a row of no window into a table of the user's, it was not the stream.
    theirs = 1 if name == "mine" else 0
    counts = (seen.equal_rows, seen.expected_rows, seen.found_rows, seen.differing_rows, seen.others_rows)
    assert counts == (n - 2, n, n + 1 - theirs, 4 - theirs, theirs)
    assert sides(seen) == {(False, True): 2 - theirs, (True, False): 1, (True, True): 1}


def test_an_output_of_which_every_row_is_there_twice_is_half_wrong(world: World) -> None:
    n = world.rows("again").num_rows
    world.spoil("again", lambda rows: pa.concat_tables([rows, rows]))
    seen = world.lake.verify("again")
    assert (seen.equal_rows, seen.expected_rows, seen.found_rows, seen.differing_rows) == (n, n, 2 * n, n)
