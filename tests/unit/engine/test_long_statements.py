"""What takes long stands in nobody's way: each long statement beside each of the others. No Spark.

A stand-in makes the long one wait in the middle of its work, and DuckDB plays Spark's part.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.rounds.following import Following
from lakestream.engine.rounds.loading import Loader
from lakestream.engine.rounds.ticking import Ticking
from lakestream.errors import BusyError
from lakestream.observation.verify import Verifier
from lakestream.statements import maintenance
from lakestream.statements.select import SelectStatements
from lakestream.statements.workspace import Workspace
from lakestream.storage.names.subtables import Subtables
from lakestream.storage.sessions.jobs import OwnSession
from lakestream.storage.small.session import SmallSession
from lakestream.storage.writes import edits
from lakestream.timeseries.series import SeriesReader
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

WAIT_SECONDS = 60
SETTINGS = Settings(lock_wait_seconds=0, trigger_modules=("tests.triggers",))
BEGIN = datetime(2025, 1, 1, 0, 30, tzinfo=UTC)

RESULT = pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "c0": [1.0]})
"""What a query of the tree gives."""

CQ = """CREATE CQ c RESAMPLE EVERY 1h BOUNDARY 0 BEGIN
    SELECT max_value(s) INTO root.sg.d(n) FROM root.sg.d GROUP BY (1h) END"""


class Gate:
    """Where the first one that comes waits until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self._open, self._came, self._is_first = threading.Event(), threading.Event(), True
        self._pool = ThreadPoolExecutor(1)

    def stand_at(self, place: Any, name: str, of: str = "") -> None:
        """Stand before a function of a module or a class, where its first argument is of such a table."""
        function = getattr(place, name)

        def gone_through(*arguments: Any, **named: Any) -> Any:
            if not of or arguments[0].path.endswith(of):
                self.wait()
            return function(*arguments, **named)

        self.patch.setattr(place, name, gone_through)

    def wait(self) -> None:
        """Wait, if nobody came before."""
        if self._is_first:
            self._is_first = False
            self._came.set()
            assert self._open.wait(WAIT_SECONDS)

    def reached(self, work: Callable[[], Any]) -> Future[Any]:
        """Return work that goes on in a thread, and waits at the gate."""
        future = self._pool.submit(work)
        while not self._came.wait(0.01):
            assert not future.done(), future.result()
        return future

    def open(self) -> None:
        """Let through who waits."""
        self._open.set()

    def close(self) -> None:
        """Let everybody come to the end."""
        self.open()
        self._pool.shutdown()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, is_small = Gate(monkeypatch), Loader._is_small

    def small(loader: Loader, runtime: Any, plan: Any) -> bool:
        return is_small(loader, runtime, plan) and runtime.record.name != "slow"

    def session(*_: object) -> SmallSession:
        return SmallSession()

    monkeypatch.setattr(Loader, "_is_small", small)
    monkeypatch.setattr(OwnSession, "get", session)
    monkeypatch.setattr(OwnSession, "close", lambda _: None)
    monkeypatch.setattr(Workspace, "session", property(session))
    monkeypatch.setattr(Verifier, "run", lambda *_: "verified")
    monkeypatch.setattr(SeriesReader, "result", lambda *_: RESULT)
    monkeypatch.setattr(SeriesReader, "rows", lambda *_: RESULT)
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a lake once, of which each test has a copy."""
    root = tmp_path_factory.mktemp("made") / "lake"
    with Lake(root, settings=SETTINGS, clock=ManualClock(BEGIN)) as lake:
        for name in ("quick", "slow", "other"):
            lake.sql(f"CREATE TABLE m_{name} (ts TIMESTAMP, v INT)")
        for name in ("quick", "slow"):
            lake.sql(
                f"CREATE STREAM {name} INTERVAL(10s) SLIDING(10s) FROM m_{name} INTO o_{name} "
                "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
            )
            lake.insert(f"m_{name}", [{"ts": f"2025-01-01 00:00:{at:02}", "v": 1} for at in range(0, 60, 5)])
        lake.insert("m_other", [{"ts": "2025-01-01 00:00:00", "v": 1}])
        lake.insert("root.sg.d", [{"ts": 1_000, "s": 1.0}])
        lake.run()
    return root


@pytest.fixture
def lake(tmp_path: Path, made: Path, gate: Gate) -> Iterator[Lake]:
    del gate
    root = Path(shutil.copytree(made, tmp_path / "lake"))
    with Lake(root, settings=SETTINGS, clock=ManualClock(BEGIN)) as lake:
        yield lake


def selecting(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(SelectStatements, "_computed")
    return lambda: lake.sql("SELECT * FROM m_slow").fetchall()


def inserting_a_query(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(SelectStatements, "_computed")
    return lambda: lake.sql("INSERT INTO m_slow SELECT ts, v + 1 FROM m_slow")


def writing_a_query(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(edits, "_merge_once")
    return lambda: lake.sql("INSERT INTO m_slow SELECT ts, v + 1 FROM m_slow")


def inserting(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(edits, "_merge_once")
    return lambda: lake.sql("INSERT INTO m_slow VALUES ('2025-01-01 00:00:00', 5)")


def updating(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(edits, "_update")
    return lambda: lake.sql("UPDATE m_slow SET v = 2")


def deleting(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(edits, "_delete")
    return lambda: lake.sql("DELETE FROM m_slow WHERE v = 1")


def verifying(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(Verifier, "run")
    return lambda: lake.verify("slow")


def recalculating(lake: Lake, gate: Gate) -> Any:

    def session(*_: object) -> SmallSession:
        gate.wait()
        return SmallSession()

    gate.patch.setattr(Workspace, "session", property(session))
    lake.sql("RECALCULATE STREAM slow FROM '2025-01-01 00:00:00'")
    return lake.run


def ticking(lake: Lake, gate: Gate) -> Any:
    with_a_small_stream(lake)
    gate.stand_at(Ticking, "_ticked")
    return lake.run


def planning(lake: Lake, gate: Gate) -> Any:
    with_a_small_stream(lake)
    gate.stand_at(Following, "next")
    return lake.run


def with_a_small_stream(lake: Lake) -> None:
    lake.sql("CREATE TABLE m_small (ts TIMESTAMP, v INT)")
    lake.sql(
        "CREATE STREAM a_small INTERVAL(1m) SLIDING(1m) FROM m_small INTO o_small "
        "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
    )
    lake.insert("m_small", [{"ts": "2025-01-01 00:00:00", "v": 1}])


def flushing(lake: Lake, gate: Gate) -> Any:
    lake.sql("CREATE TABLE ev (ts TIMESTAMP, size INT)", dialect="ekuiper")
    select = "SELECT count(*) AS c, sum(size) AS s FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)"
    lake.sql(f"CREATE STREAM rule WITH (TIMESTAMP='ts') INTO o_rule AS {select}", dialect="ekuiper")
    lake.insert("ev", [{"ts": "2025-01-01 00:00:00", "size": 1}])
    gate.stand_at(Ticking, "_ticked")
    return lambda: lake.sql("FLUSH STREAM rule")


def refreshing(lake: Lake, gate: Gate) -> Any:
    lake.sql("CREATE MATERIALIZED VIEW view AS SELECT count(*) AS c, sum(v) AS s FROM m_slow")
    gate.stand_at(Ticking, "_ticked")
    return lambda: lake.sql("REFRESH MATERIALIZED VIEW view")


def resampling(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(SeriesReader, "result")
    lake.sql(CQ, dialect="iotdb")
    cast("ManualClock", lake.clock).advance(timedelta(hours=1))
    return lake.run


def writing_into(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(SeriesReader, "rows")
    return lambda: lake.sql("SELECT s INTO root.sg.d(t) FROM root.sg.d", dialect="iotdb")


def maintaining(lake: Lake, gate: Gate) -> Any:
    gate.stand_at(maintenance, "keep_up", of="m_slow")
    return lake.maintain


LONG = [
    selecting,
    inserting_a_query,
    writing_a_query,
    inserting,
    updating,
    deleting,
    verifying,
    recalculating,
    ticking,
    planning,
    flushing,
    refreshing,
    resampling,
    writing_into,
    maintaining,
]


@pytest.mark.parametrize("long", LONG, ids=lambda long: long.__name__)
def test_nothing_waits_for_what_takes_long(lake: Lake, gate: Gate, long: Any) -> None:
    beside = gate.reached(long(lake, gate))
    with Lake(lake.root, settings=SETTINGS, clock=lake.clock) as other:
        other.insert("m_quick", [{"ts": "2025-01-01 00:01:00", "v": 1}])
        assert "main.quick" in [report.stream for report in other.run().ticks]
        assert len(other.newest_results("quick")) == 6

        other.sql("CREATE TABLE made (ts TIMESTAMP, v INT)")
        other.sql("ALTER TABLE m_other ADD COLUMN w INT")
        other.sql(
            "CREATE STREAM new INTERVAL(1m) SLIDING(1m) FROM made INTO o_new "
            "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
        )
        other.sql("DROP STREAM new")
        other.sql("DROP TABLE made")

        other.sql("INSERT INTO m_other (ts, v) VALUES ('2025-01-01 00:00:00', 7)")
        other.sql("INSERT INTO root.sg.d(time, s) VALUES (2000, 2)", dialect="iotdb")

        assert other.sql("SELECT v FROM m_other").fetchall() == [(7,)]
        assert cast("object", other.verify("quick")) == "verified"
    gate.open()
    beside.result(WAIT_SECONDS)
    lake.insert("m_quick", [{"ts": "2025-01-01 00:01:10", "v": 1}])
    assert not lake.run().failed
    assert sorted(row["n"] for row in lake.newest_results("quick").to_pylist()) == [1, *[2] * 6]


def test_a_continuous_query_stands_in_no_streams_way(lake: Lake, gate: Gate) -> None:
    """In a daemon both are of one lake, and it goes on beside the rounds."""
    resampling(lake, gate)
    ended = threading.Event()
    assert lake.tick_once(ended=ended.set) == []
    for minute in (1, 2):
        lake.insert("m_quick", [{"ts": f"2025-01-01 00:0{minute}:00", "v": 1}])
        assert [report.stream for report in lake.tick_once(ended=ended.set)] == ["main.quick"]
    with Lake(lake.root, settings=SETTINGS, clock=lake.clock) as other:
        assert other.run().ticks == []  # it is nobody else's to run meanwhile
        other.sql(CQ.replace("CQ c", "CQ d"), dialect="iotdb")
        other.sql("DROP CQ c", dialect="iotdb")
    assert not ended.is_set()
    gate.open()
    assert ended.wait(WAIT_SECONDS)
    assert [report.kind for report in lake.tick_once()] == ["cq"]
    assert [row[0] for row in lake.sql("SHOW CQS", dialect="iotdb").fetchall()] == ["d"]


def test_one_changes_the_rows_of_a_table_at_a_time(lake: Lake, gate: Gate) -> None:
    update = gate.reached(updating(lake, gate))
    with Lake(lake.root, settings=SETTINGS) as other:
        for statement in (
            "INSERT INTO m_slow VALUES ('2025-01-01 00:00:00', 5)",
            "DELETE FROM m_slow",
            "ALTER TABLE m_slow ADD COLUMN w INT",
            "DROP TABLE m_slow",
            "DROP DATABASE main FORCE",
        ):
            with pytest.raises(BusyError, match=r"TABLE_BUSY: main.m_slow .*process \d+ does UPDATE"):
                other.sql(statement)
        left_out = {done.table for done in other.maintain() if done.error}
    assert left_out == {"main.m_slow"}
    gate.open()
    assert update.result(WAIT_SECONDS).message == "updated 12 rows"
    lake.sql("DELETE FROM m_slow")


def test_a_stream_is_created_without_a_look_at_the_rows_of_other_tables(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path, settings=SETTINGS) as lake:
        lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (g INT); CREATE TABLE a USING m TAGS (1)")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Subtables, "_from_rows", lambda *_: pytest.fail("rows are searched for a subtable"))
            lake.sql(
                "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM m INTO o "
                "AS SELECT _twstart, sum(v) FROM %%trows"
            )
        assert [stream.name for stream in lake.streams()] == ["s"]
