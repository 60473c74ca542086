"""Changes beyond what is small are computed by DuckDB as long as they fit its memory: with the same rows."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.reading.transport import ARROW, DUCKDB
from lakestream.engine.windows.grid import stepping
from lakestream.statements.workspace import Workspace
from lakestream.storage.sessions.jobs import OwnSession
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession, large_room

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)
MANY = {"small_rows": 0, "small_bytes": 0}
"""Settings with which every change is one of many rows."""
WINDOWS = {
    "tumbling": "INTERVAL(10s) SLIDING(10s)",
    "hopping": "INTERVAL(20s) SLIDING(5s)",
    "session": "SESSION(ts, 4s)",
    "state": "STATE_WINDOW(state)",
    "event": "EVENT_WINDOW(START WITH v > 3 END WITH v > 6)",
    "count": "COUNT_WINDOW(3)",
}


def commits(*, late: bool) -> list[pa.Table]:
    """Return rows of groups by a text and a number, of which some are NULL; ``late``: some come late."""
    random = Random(7)
    made = []
    for number in range(6):
        seconds = sorted(random.sample(range(number * 40, number * 40 + 40), 25))
        seconds += [random.randrange(number * 40) for _ in range(3)] if late and number else []
        names = [random.choice(["a", "ä b", "", None]) for _ in seconds]
        rows = {
            "ts": pa.array([START + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
            "name": pa.array(names, pa.string()),
            "g": pa.array([random.choice([1, 2, None]) for _ in seconds], pa.int64()),
            "v": pa.array([random.choice([None, *range(9)]) for _ in seconds], pa.int64()),
            "state": pa.array([random.choice([1, 1, 2]) for _ in seconds], pa.int64()),
        }
        made.append(pa.table(rows))
    return made


def outputs(
    root: Path, given: list[pa.Table], settings: dict[str, Any], ways: str, *, killed: bool = False
) -> dict[str, list[Any]]:
    """Return what streams have written of commits, all taken by one way, with a start in between.

    ``killed``: the process before has saved no state, which follows from the source again.
    """
    seen = set()
    for part, rows in enumerate((given[:3], given[3:])):
        with ExitStack() as stack:
            lake = Lake(root, settings=Settings(**settings))
            if not (killed and part == 0):
                stack.enter_context(lake)
            if not part:
                lake.sql("CREATE TABLE m (ts TIMESTAMP, name STRING, g BIGINT, v BIGINT, state BIGINT)")
                for name, window in WINDOWS.items():
                    lake.sql(
                        f"CREATE STREAM {name} {window} FROM m PARTITION BY name, g INTO out_{name} AS "
                        "SELECT _twstart AS at, sum(v) AS total, count(*) AS n, max(v) AS top FROM %%trows"
                    )
            for content in rows:
                write_deltalake(f"{lake.root}/main/m", content, mode="append")
                report = lake.run()
                assert not report.failed
                seen |= {tick.transport for tick in report.ticks}
    assert seen == {ways}
    found = {name: DeltaTable(f"{root}/main/out_{name}").to_pyarrow_table() for name in WINDOWS}
    return {name: sorted(map(repr, pa.table(rows).to_pylist())) for name, rows in found.items()}


@pytest.mark.parametrize(
    ("late", "killed", "part_rows"),
    [(False, False, 1), (True, False, stepping.PART_ROWS), (True, True, 5)],
)
def test_many_rows_give_what_few_do(
    tmp_path: Path, late: bool, killed: bool, part_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "PART_ROWS", part_rows)
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))
    given = commits(late=late)
    expected = outputs(tmp_path / "few", given, {}, ARROW)
    found = outputs(tmp_path / "many", given, MANY, DUCKDB, killed=killed)
    assert found == expected
    assert all(len(rows) > 5 for rows in found.values())


def test_a_group_may_have_many_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    with Lake(tmp_path / "lake", settings=Settings(**MANY)) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v BIGINT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM m INTO o AS "
            "SELECT _twstart AS at, count(v) AS n FROM %%trows"
        )
        for seconds in ((0, 1, 3), (30_000, 30_001)):
            times = [START + timedelta(seconds=second) for second in seconds]
            rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": pa.array(seconds, pa.int64())}
            write_deltalake(f"{lake.root}/main/m", pa.table(rows), mode="append")
            report = lake.run()
            assert [tick.transport for tick in report.ticks] == [DUCKDB]
        found = DeltaTable(f"{lake.root}/main/o").to_pyarrow_table(columns=["at", "n"]).to_pydict()
    starts = sorted(at for at, n in zip(found["at"], found["n"], strict=True) if n)
    assert starts == [START + timedelta(seconds=second) for second in (0, 1, 3, 30_000)]
    assert len(found["at"]) == len({*found["at"]}) == 30_001


class Standin(SmallSession):
    """What is asked in Spark's place: another session, which knows nothing of the first one."""

    def __init__(self, *_: object) -> None:
        super().__init__(large_room(0))

    @property
    def _frugal(self) -> SmallSession:
        return self


@pytest.mark.parametrize("every", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 4, 5, 7))])
def test_what_is_refused_half_way_is_computed_from_the_start(
    tmp_path: Path, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if every == 3:  # the windows that go by queries of their own do
        monkeypatch.setitem(globals(), "WINDOWS", {name: WINDOWS[name] for name in ("hopping", "session")})
    given, refused, answered = commits(late=True), [0], SmallSession.answered
    expected = outputs(tmp_path / "few", given, {}, ARROW)

    def refusing(session: SmallSession, sql: str, *more: Any, **named: Any) -> pa.Table:
        if session.room.inlines and not isinstance(session, Standin):
            refused[0] += 1
            if refused[0] % every == 0:
                raise NotExactError("half way", always=False)
        return answered(session, sql, *more, **named)

    monkeypatch.setattr(SmallSession, "answered", refusing)
    monkeypatch.setattr(Workspace, "session", property(Standin))
    monkeypatch.setattr(OwnSession, "get", Standin)
    assert outputs(tmp_path / "many", given, MANY, DUCKDB) == expected
    assert refused[0] >= every


def test_explain_says_who_computes(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake", settings=Settings(**MANY)) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, name STRING, g BIGINT, v BIGINT, state BIGINT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o AS "
            "SELECT _twstart AS at, sum(v) AS n FROM %%trows"
        )
        write_deltalake(f"{lake.root}/main/m", commits(late=False)[0], mode="append")
        said = dict(lake.sql("EXPLAIN STREAM s").fetchall())
    assert said["bytes move by"] == DUCKDB
    assert said["computed by"].startswith("DuckDB, in this process, by ")
