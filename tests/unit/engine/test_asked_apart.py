"""What a statement that changes the lake asks of Spark is asked without the lake's lock. No Spark.

DuckDB plays Spark's part, and a stand-in makes the answer come when the test says so.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.creation import create
from lakestream.engine.reading.apart import Apart
from lakestream.engine.reading.event_times import EventTimes
from lakestream.engine.rounds.loading import Loader
from lakestream.engine.streams import target
from lakestream.engine.windows.grid.family import Grid
from lakestream.errors import LakestreamError
from lakestream.observation.verify import Verifier
from lakestream.output.columns import FLAT
from lakestream.statements import migration
from lakestream.statements.workspace import Workspace
from lakestream.storage.names import comments
from lakestream.storage.records.states import SavedStates
from lakestream.storage.small.session import SmallSession
from lakestream.storage.tables.table import Capabilities
from lakestream.timeseries.mapped import MappedTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_SECONDS = 20
SETTINGS = Settings(lock_wait_seconds=0, durability="process")
BY_SPARK = SETTINGS.but(small_path="spark")
"""With these settings whatever is asked is asked of Spark."""

STREAM = (
    "CREATE STREAM asked INTERVAL(1m) SLIDING(1m) FROM t INTO o_asked {}"
    "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
)


class Slow:
    """Who is asked something and does not answer yet."""

    def __init__(self) -> None:
        self._asked, self._answers = threading.Event(), threading.Event()

    def wait(self, *_: object) -> None:
        """Be asked; only the first time takes long."""
        if self._asked.is_set():
            return
        self._asked.set()
        assert self._answers.wait(WAIT_SECONDS)

    def answering(self, answer: Any) -> Callable[..., Any]:
        """Return a function that waits before it answers."""

        def asked(*_: object, **__: object) -> Any:
            self.wait()
            return answer() if callable(answer) else answer

        return asked

    @contextmanager
    def asked_by(self, work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
        """Have work go on in a thread up to its question; what is given has it answered."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                while not self._asked.wait(0.01):
                    assert not future.done(), f"nothing was asked: {future.exception() or future.result()}"

                def answered() -> Any:
                    self._answers.set()
                    return future.result(WAIT_SECONDS)

                yield answered
            finally:
                self._answers.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(Workspace, "session", property(slow.answering(SmallSession)))
    return slow


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", settings=SETTINGS) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT); CREATE TABLE beside (ts TIMESTAMP, v INT)")
        lake.sql(STREAM.replace("asked", "there").format(""))
        lake.insert("t", [{"ts": "2025-01-01 00:00:00", "v": 1}])
        lake.run()
        yield lake


def says(statement: str, dialect: str = "tdengine", **opened: Any) -> Callable[[Lake], Any]:
    """Return who runs a statement in a lake of its own, that asks Spark whatever there is to ask."""

    def run(lake: Lake) -> Any:
        with Lake(lake.root, settings=BY_SPARK, **opened) as own:
            return own.sql(statement, dialect=dialect)

    return run


def outside(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch, **config: str) -> str:
    del slow, patch
    place = f"{lake.root}-outside"
    rows = pa.table({"at": pa.array(["2025-01-01"]), "v": [1.0]})
    write_deltalake(place, rows, configuration=config)
    return place


def with_a_time(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    place = outside(lake, slow, patch, **{"delta.enableChangeDataFeed": "true"})
    patch.setattr(EventTimes, "_type", slow.answering("timestamp"))
    return says(
        f"CREATE TABLE out LOCATION '{place}' TIMESTAMP BY (to_timestamp(at, 'yyyy-mm-dd')) AS moment"
    )


def without_a_feed(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    place = outside(lake, slow, patch)
    by = "TIMESTAMP BY at FORMAT 'yyyy-mm-dd'"
    return says(f"CREATE TABLE out LOCATION '{place}' {by}", confirm=slow.answering(True))


def a_mapped_database(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    lake.sql("CREATE TABLE readings (ts TIMESTAMP, site STRING, v INT)")
    patch.setattr(MappedTables, "_type_of_device", slow.answering("string"))
    patch.setattr(MappedTables, "devices", lambda *_: ())
    text = "CREATE DATABASE root.ln USING TABLE readings (device = concat('root.ln.', site), time = ts)"
    return says(text, "iotdb")


def devices(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    mapped = a_mapped_database(lake, slow, patch)
    patch.setattr(MappedTables, "_type_of_device", lambda *_: "string")
    patch.setattr(MappedTables, "devices", slow.answering(()))
    return mapped


def a_clustered_output(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    del lake
    patch.setattr(Workspace, "session", property(lambda _: SmallSession()))
    patch.setattr(target, "_cluster", slow.answering(None))
    return says(STREAM.format("CLUSTER BY (w) "))


def rows_without_statistics(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    del lake
    patch.setattr(Workspace, "session", property(lambda _: SmallSession()))
    patch.setattr(create, "tells_newest", lambda *_: False)
    patch.setattr(create, "newest_time", slow.answering(0))
    return says(STREAM.format(""))


def a_comment(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    del lake
    patch.setattr(
        comments,
        "capabilities",
        lambda _: Capabilities(arrow_reads=True, arrow_changes=True, arrow_writes=False),
    )
    patch.setattr(comments, "_set_by_spark", slow.answering(None))
    return says("COMMENT ON TABLE t IS 'readings'")


def a_migration(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    with pytest.MonkeyPatch.context() as before:
        before.setattr(target, "provenance_beside", lambda _names: FLAT)
        lake.sql(STREAM.replace("asked", "old").format(""))

    def migrate(lake: Lake) -> Any:
        with Lake(lake.root, settings=SETTINGS) as own:
            [done] = own.migrate("old")
            assert done.verdict == "migrated"

    patch.setattr(Workspace, "session", property(lambda _: SmallSession()))
    patch.setattr(migration, "read_spark", slow.answering(Rows()))
    patch.setattr(migration, "rewrite", lambda *_: 0)
    return migrate


class Rows:
    """A frame of no matter which columns."""

    def selectExpr(self, *_: str) -> Rows:  # noqa: N802 - PySpark's name
        """Return itself."""
        return self


def a_verification(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    del lake, slow
    patch.setattr(Verifier, "run", lambda *_: "verified")

    def verify(lake: Lake) -> Any:
        with Lake(lake.root, settings=SETTINGS) as own:
            return own.verify("there")

    return verify


def a_verification_that_loads(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
    """Where the state of a stream has to be followed from its source before it can be held against it."""
    patch.setattr(Workspace, "session", property(lambda _: SmallSession()))
    restored = Loader._restored

    def slowly(*given: Any) -> Any:
        slow.wait()
        return restored(*given)

    patch.setattr(Loader, "_restored", slowly)
    patch.setattr(Grid, "batch_needs_state", property(lambda _: True))
    return a_verification(lake, slow, patch)


def saving(by: Callable[[Lake], Any]) -> Callable[..., Callable[[Lake], Any]]:
    """Return a case where a state is saved, which takes long, by what is done to a lake that has ticked."""

    def case(lake: Lake, slow: Slow, patch: pytest.MonkeyPatch) -> Callable[[Lake], Any]:
        del lake
        write, changes = SavedStates.write, SavedStates.write_changes

        def slowly(write: Any) -> Any:
            def written(*given: Any) -> Any:
                slow.wait()
                return write(*given)

            return written

        def ticked(lake: Lake) -> Any:
            with Lake(lake.root, settings=SETTINGS) as own:
                own.insert("t", [{"ts": "2025-01-01 00:01:00", "v": 2}])
                assert not own.run().failed
                patch.setattr(SavedStates, "write", slowly(write))
                patch.setattr(SavedStates, "write_changes", slowly(changes))
                by(own)
            with Lake(lake.root, settings=SETTINGS) as again:
                saved = again._at.registry.states.read(again._at.registry.streams()[0].uuid, 2)
                assert saved is not None
                assert saved[0] == 2

        return ticked

    return case


ASKING = {
    "closing": saving(lambda own: own.close()),
    "maintaining": saving(lambda own: own.maintain(dry_run=True)),
    "stopping": saving(lambda own: own.sql("STOP STREAM there")),
    "dropping": saving(lambda own: own.sql("DROP TABLE beside")),
    "stream": lambda *_: says(STREAM.format("")),
    "expectation": lambda *_: says(STREAM.format("").replace("FROM t", "FROM t EXPECT small CHECK (v < 9)")),
    "view": lambda *_: says("CREATE MATERIALIZED VIEW asked AS SELECT count(*) AS c, sum(v) AS s FROM t"),
    "other definition": lambda *_: says(
        STREAM.replace("asked", "there")
        .replace("CREATE", "CREATE OR REPLACE")
        .replace("sum", "max")
        .format("")
    ),
    "resync": lambda *_: says("RECALCULATE STREAM there RESYNC"),
    "time of a table": with_a_time,
    "change feed": without_a_feed,
    "mapped database": a_mapped_database,
    "devices": devices,
    "clustered output": a_clustered_output,
    "rows without statistics": rows_without_statistics,
    "comment": a_comment,
    "migration": a_migration,
    "verification": a_verification,
    "verification that loads": a_verification_that_loads,
}


@pytest.mark.parametrize("case", ASKING)
def test_nobody_waits_for_an_answer(
    lake: Lake, slow: Slow, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    run = ASKING[case](lake, slow, monkeypatch)
    with slow.asked_by(lambda: run(lake)) as answered:
        lake.sql("CREATE TABLE made (ts TIMESTAMP, v INT); ALTER TABLE made ADD COLUMN w INT")
        lake.insert("beside", [{"ts": "2025-01-01 00:00:00", "v": 1}])
        lake.sql(STREAM.replace("asked", "new").replace("FROM t", "FROM beside").format(""))
        lake.sql("DROP STREAM new; DROP TABLE made")
        answered()


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (STREAM.format(""), "STREAM_ALREADY_EXISTS"),
        ("DROP STREAM there; DROP TABLE t", "TABLE_NOT_FOUND"),
        ("CREATE TABLE o_asked (ts TIMESTAMP, v STRING)", "OUTPUT_MISMATCH"),
        ("DROP DATABASE main FORCE", "DATABASE_NOT_FOUND"),
    ],
)
def test_what_was_changed_meanwhile_counts(lake: Lake, slow: Slow, meanwhile: str, code: str) -> None:
    with slow.asked_by(lambda: says(STREAM.format(""))(lake)) as answered:
        lake.sql(meanwhile)
        with pytest.raises(LakestreamError) as refused:
            answered()
    assert refused.value.code == code


def test_an_answer_about_other_columns_is_no_answer(lake: Lake, slow: Slow) -> None:
    with slow.asked_by(lambda: says(STREAM.format("").replace("sum(v)", "max(v)"))(lake)) as answered:
        lake.sql("DROP STREAM there; DROP TABLE t; CREATE TABLE t (ts TIMESTAMP, v DOUBLE)")
        answered()
    assert ("n", "DOUBLE") in [row[:2] for row in lake.sql("DESCRIBE o_asked").fetchall()]


def test_a_refused_output_is_not_left(lake: Lake, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_clustered_output(lake, slow, monkeypatch)
    with slow.asked_by(lambda: run(lake)) as answered:
        lake.sql(STREAM.replace("o_asked", "another").format(""))
        with pytest.raises(LakestreamError, match="STREAM_ALREADY_EXISTS"):
            answered()
    assert "o_asked" not in [row[0] for row in lake.sql("SHOW TABLES").fetchall()]


def test_an_output_that_is_migrated_is_not_read_by_new_streams(
    lake: Lake, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_migration(lake, slow, monkeypatch)
    reader = STREAM.replace("FROM t", "FROM o_old").replace("sum(v)", "sum(n)").format("")
    with slow.asked_by(lambda: run(lake)) as answered:
        with pytest.raises(LakestreamError, match=r"TABLE_BUSY: process \d+ migrates main.o_old"):
            lake.sql(reader)
        answered()
    lake.sql(reader)


def test_a_question_is_asked_again_where_it_is_about_something_else() -> None:
    apart, asked, tables = Apart(), [], iter("ab")

    def attempt() -> str:
        table = next(tables, "b")

        def question() -> str:
            assert not apart.is_trying
            asked.append(table)
            return f"of {table}"

        return apart.ask(table, question)

    assert apart.run(attempt) == "of b"
    assert asked == ["a", "b"]
