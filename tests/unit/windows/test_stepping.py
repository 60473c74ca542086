"""Many changed rows are computed by parts of their groups: by the same queries, few of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.base.keyed import Keyed, in_part, parted
from lakestream.engine.windows.grid import stepping
from lakestream.storage.delta import read_arrow
from lakestream.storage.sessions.jobs import OwnSession
from lakestream.storage.small.session import SmallSession
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = 600


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_each_group_is_in_one_part(parts: int) -> None:
    rows = pa.table({"gid": [-(2**63), -9, -8, -1, 0, 1, 2, 7, 8, 2**63 - 1, 1, 3]})
    found = [in_part(rows, part, parts)["gid"].to_pylist() for part in range(parts)]
    assert sorted(gid for part in found for gid in part) == sorted(rows["gid"].to_pylist())
    assert sum(1 in part for part in found) == 1
    batches = [batch for start in (0, 5) for batch in rows.slice(start, 5 + 2 * (start > 0)).to_batches()]
    assert [part["gid"].to_pylist() for part in parted(batches, rows.schema, parts)] == found


@pytest.mark.parametrize("few", [1, 400])
def test_many_rows_are_looked_at_with_those_that_changed(few: int) -> None:
    count = 200_000
    known = pa.table({"gid": pa.array(range(count), pa.int64()), "n": pa.array([0] * count, pa.int64())})
    gids = pa.array([0, 3, count - 1, *range(7, 7 * few, 7)], pa.int64())
    new = pa.table({"gid": gids, "n": pa.array([1] * len(gids), pa.int64())})
    rows = Keyed.of_table(known).replaced(new, gids).rows
    assert sorted(rows["gid"].to_pylist()) == [*range(count)]
    changed = rows.filter(pc.equal(rows["n"], 1))["gid"].to_pylist()
    assert sorted(changed) == sorted(gids.to_pylist())


def test_parts_are_asked_by_the_same_queries_and_hold_their_own_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    answered = SmallSession.answered

    def noted(session: SmallSession, sql: str, *more: Any, **named: Any) -> pa.Table:
        if session.room.inlines:
            asked.append((sql, sum(relation.rows.num_rows for relation in session._relations.values())))
        return answered(session, sql, *more, **named)

    monkeypatch.setattr(SmallSession, "answered", noted)
    monkeypatch.setattr(stepping, "PART_ROWS", 20)
    seconds = [0, 5, 12, 31]
    micros = [second * 1_000_000 for second in seconds for _ in range(GROUPS)]
    rows = pa.table(
        {
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "g": pa.array([*range(GROUPS)] * len(seconds), pa.int64()),
        }
    )
    with without_spark(), Lake(tmp_path, settings=Settings(small_rows=0)) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY g INTO o "
            "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
        )
        write_deltalake(f"{lake.root}/main/m", rows, mode="append")
        assert lake.run().failed == []
        found = read_arrow(f"{lake.root}/main/o", columns=["g", "n"]).to_pylist()
    assert sorted((row["g"], row["n"]) for row in found) == sorted(
        (g, n) for g in range(GROUPS) for n in (2, 1, 0)
    )
    (_, first), *others = asked
    assert first == len(rows)
    # The sums, those that go on, the groups and which windows there are; 64 and more parts.
    assert len(others) > 3 * 64
    assert max(held for _, held in others) < len(rows) // 4
    assert len({sql for sql, _ in others}) <= 4


@pytest.mark.parametrize("pause", [4095, 4096, 4097, 4098, 12_000])
@pytest.mark.parametrize(
    ("trigger", "each"), [("INTERVAL(1s) SLIDING(1s)", 1), ("INTERVAL(2s) SLIDING(1s)", 2)]
)
def test_a_pause_of_very_many_windows_asks_no_spark(
    trigger: str, each: int, pause: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT)")
        lake.sql(
            f"CREATE STREAM s {trigger} FROM m PARTITION BY g INTO o "
            "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
        )
        for seconds in ([10, 11], [11 + pause, 13 + 2 * pause]):
            stamps = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
            rows = pa.table({"ts": stamps, "g": pa.array([1, 1], pa.int64())})
            write_deltalake(f"{lake.root}/main/m", rows, mode="append")
            assert lake.run().failed == []
        found = read_arrow(f"{lake.root}/main/o", columns=["ws", "n"]).sort_by("ws")
    closed = pc.cast(found["ws"], pa.int64()).to_pylist()
    assert closed == [*range(closed[0], closed[-1] + 1, 1_000_000)]
    counted = {
        second * 1_000_000: sum(second <= row < second + each for row in (10, 11, 11 + pause, 13 + 2 * pause))
        for second in range(closed[0] // 1_000_000, 13 + 2 * pause - each + 1)
    }
    assert dict(zip(closed, found["n"].to_pylist(), strict=True)) == counted
