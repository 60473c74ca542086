"""The tree of time series on a lake: types, columns, queries, continuous queries, triggers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.errors import LakestreamError, StatementError, StorageError
from lakestream.language import parse_statement
from lakestream.language.iotdb.values import QueryTree
from lakestream.storage.delta import CommitTag, commit_made
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.definitions import Definitions
from lakestream.timeseries.large import write_large
from lakestream.timeseries.points import Writer
from lakestream.timeseries.series import SeriesReader, blocks_into, of_devices, placements
from tests import triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2025, 1, 1, tzinfo=UTC)
SETTINGS = Settings(trigger_modules=("tests.triggers",))


class World:
    """A lake with a manual clock, which can be left without a word and opened again."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark, self.clock = root, spark, ManualClock(START)
        triggers.log_into(root)
        self.lake = self.open()

    def open(self, settings: Settings = SETTINGS) -> Lake:
        self.lake = Lake(self.root, clock=self.clock, spark=self.spark, settings=settings)
        return self.lake

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.lake.sql(text, dialect="iotdb").fetchall()

    def named(self, text: str) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = self.lake.sql(text, dialect="iotdb").to_arrow().to_pydict()
        return found

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        assert not self.lake.run().failed


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path / "lake", spark)
    yield world
    world.lake.close()


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


# --- series and columns ---------------------------------------------------------------------------


def test_a_measurement_of_two_types_has_two_columns(world: World) -> None:
    world.sql("CREATE TIMESERIES root.sg.d1.s INT32; CREATE TIMESERIES root.sg.d2.s DOUBLE")
    world.sql("CREATE TIMESERIES root.sg.d2.S BOOLEAN; CREATE TIMESERIES root.sg.d1.ts TEXT")
    world.sql("INSERT INTO root.sg.d1(time, s, ts) VALUES (1000, 1, 'now')")
    world.sql("INSERT INTO root.sg.d2(time, s, S) VALUES (1000, 1.5, true)")
    columns = [row[3] for row in world.sql("SHOW TIMESERIES root.sg.**")]
    assert columns == ["s", "s_double", "S_boolean", "ts_text"]
    assert world.sql("SELECT s, S, ts FROM root.sg.*") == [(at(1), 1, 1.5, True, "now")]
    assert world.sql("SELECT count(s) FROM root.sg.* GROUP BY LEVEL = 1") == [(2,)]


def test_a_second_point_replaces_the_first_and_leaves_the_others(world: World) -> None:
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1000, 1, 2), (1000, NULL, 3)")
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (1000, 5)")
    world.sql("INSERT INTO root.sg.d(time, b) VALUES (2000, NULL)")
    assert world.sql("SELECT a, b FROM root.sg.d") == [(at(1), 5.0, 3.0)]


def test_a_database_is_a_table_of_the_lake(world: World) -> None:
    world.sql("CREATE DATABASE root.a.b; INSERT INTO root.a.b.c.d(time, v) VALUES (1000, 1)")
    assert world.lake.sql("SELECT device, v FROM root.`a.b`").fetchall() == [("root.a.b.c.d", 1.0)]
    for path in ("root.a", "root.a.b.c", "root.a.b"):
        with pytest.raises(StatementError, match="DATABASE_EXISTS"):
            world.sql(f"CREATE DATABASE {path}")


def test_rows_come_from_python_too(world: World) -> None:
    world.lake.insert("root.sg.d", [{"ts": START, "v": 1.0}, {"ts": 1000, "v": 2.0}])
    rows = pa.table({"ts": pa.array([at(2)], pa.timestamp("us", "UTC")), "n": [7]})
    assert world.lake.insert("root.sg.d", rows) > 0
    assert world.sql("SELECT v, n FROM root.sg.d") == [
        (at(1), 2.0, None),
        (at(2), None, 7),
        (START, 1.0, None),
    ]
    world.lake.insert("root.sg.e", [{"ts": 1000, "a b": 1.0}])
    world.lake.insert("root.sg.e", [{"ts": 2000, "`a b`": 2.0}])
    assert world.sql("SELECT `a b` FROM root.sg.e") == [(at(1), 1.0), (at(2), 2.0)]


COUNTS = "SELECT count(i) INTO root.o.d(n) FROM root.sg.d"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO root.sg.d(time, i) VALUES (1, 1.5)", "BAD_VALUE"),
        ("SELECT t INTO root.sg.d(i) FROM root.sg.d", "SERIES_TYPE"),
        ("SELECT avg(t) FROM root.sg.d", "SERIES_TYPE"),
        ("SELECT i AS one FROM root.sg.*", "ALIAS_OF_MANY"),
        ("SELECT d.i FROM root.sg WHERE *.i > 1", "SERIES_AMBIGUOUS"),
        ("SELECT i FROM root.sg.d WHERE time > i", "TIME_CONDITION"),
        ("SELECT count(i) FROM root.sg.d GROUP BY(10s)", "GROUP_BY_RANGE"),
        ("SELECT count(i) FROM root.sg.d GROUP BY([0, 2025-01-01), 1ms)", "GROUP_BY_TOO_FINE"),
        ("SELECT i INTO root.o.d(a, b) FROM root.sg.d", "INTO_INVALID"),
        ("SELECT i INTO root.o.d(a) FROM root.sg.* ALIGN BY DEVICE", "INTO_INVALID"),
        ("SELECT i INTO root.o.${7}(a) FROM root.sg.d", "INTO_INVALID"),
        ("SELECT count_if(i > 1, i) FROM root.sg.d", "ARGUMENT_KIND"),
        ("CREATE TIMESERIES root.sg.d.i TEXT", "SERIES_EXISTS"),
        (f"CREATE CQ c BEGIN {COUNTS} GROUP BY(999ms) END", "CQ_INVALID"),
        (f"CREATE CQ c RESAMPLE RANGE 30m BEGIN {COUNTS} GROUP BY(1h) END", "CQ_INVALID"),
        (f"CREATE CQ c RESAMPLE EVERY 29d BEGIN {COUNTS} GROUP BY(1mo) END", "CQ_INVALID"),
        ("CREATE DATABASE root.Sg", "DATABASE_EXISTS"),
        ("INSERT INTO root.SG.d(time, i) VALUES (1, 1)", "DATABASE_EXISTS"),
        ("DROP CQ c", "CQ_NOT_FOUND"),
        ("DROP TRIGGER c", "TRIGGER_NOT_FOUND"),
        ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'os.path.Path'", "TRIGGER_NOT_ALLOWED"),
        ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'Recorder'", "TRIGGER_CLASS"),
        ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'tests.triggers.pa'", "TRIGGER_CLASS"),
        (
            "CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'tests.triggers.Limit' USING URI 'x.zip'",
            "TRIGGER_URI",
        ),
        ("CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'tests.triggers.Limit'", "TRIGGER_REFUSED"),
    ],
)
def test_what_the_lake_refuses(world: World, statement: str, code: str) -> None:
    world.sql("CREATE ALIGNED TIMESERIES root.sg.d(i INT32, t TEXT); CREATE TIMESERIES root.sg.e.i INT32")
    world.sql("INSERT INTO root.sg.d(time, i, t) VALUES (1, 1, 'x')")
    before = world.sql("SHOW TIMESERIES")
    with pytest.raises(LakestreamError) as refused:
        world.sql(statement)
    assert refused.value.code == code, refused.value.render()
    assert refused.value.place is not None
    assert world.sql("SHOW TIMESERIES") == before
    assert world.sql("SHOW CQS") == world.sql("SHOW TRIGGERS") == []


# --- queries --------------------------------------------------------------------------------------


def test_queries(world: World) -> None:
    world.sql("INSERT INTO root.sg.a(time, s) VALUES (1000, 1), (2000, 2), (12000, 4)")
    world.sql("INSERT INTO root.sh.b(time, s) VALUES (2000, 10), (13000, 30)")
    both = "FROM root.sg.a, root.sh.b"
    assert world.named(f"SELECT s {both} WHERE s >= 2") == {
        "Time": [at(2), at(12), at(13)],
        "root.sg.a.s": [2.0, 4.0, None],
        "root.sh.b.s": [10.0, None, 30.0],
    }
    assert world.sql(f"SELECT s {both} ALIGN BY DEVICE LIMIT 2 OFFSET 2") == [
        (at(12), "root.sg.a", 4.0),
        (at(2), "root.sh.b", 10.0),
    ]
    assert world.named("SELECT sg.a.s + sh.b.s AS x FROM root") == {"Time": [at(2)], "x": [12.0]}
    assert world.named("SELECT max_value(sg.a.s + sh.b.s) FROM root GROUP BY([0, 20000), 10s)") == {
        "Time": [at(0), at(10)],
        "max_value(root.sg.a.s + root.sh.b.s)": [12.0, None],
    }
    assert world.sql("SELECT sg.a.s FROM root WHERE sh.b.s = 10") == [(at(2), 2.0)]
    assert world.named("SELECT sum(s), count(s) FROM root.** GROUP BY LEVEL = 0") == {
        "sum(root.*.*.s)": [47.0],
        "count(root.*.*.s)": [5],
    }
    assert world.sql("SELECT count(s), last_value(s) FROM root.sg.a GROUP BY([1000, 13000), 4s, 2s)") == [
        (at(1), 2, 2.0),
        (at(3), 0, None),
        (at(5), 0, None),
        (at(7), 0, None),
        (at(9), 1, 4.0),
        (at(11), 1, 4.0),
    ]
    assert world.sql(
        "SELECT avg(s) FROM root.sg.a GROUP BY([0, 20000), 5s) FILL(LINEAR) ORDER BY TIME DESC"
    ) == [
        (at(15), None),
        (at(10), 4.0),
        (at(5), 2.75),
        (at(0), 1.5),
    ]
    assert world.sql("SELECT count_if(s > 1, 2), time_duration(s), mode(s) FROM root.sg.a") == [
        (1, 11_000, 1.0)
    ]


# --- continuous queries ---------------------------------------------------------------------------

SUMS = "CREATE CQ c BEGIN SELECT sum(s), count(s) INTO root.o.d(total, n) FROM root.sg.d GROUP BY(10s) END"


def points(world: World) -> None:
    world.lake.insert("root.sg.d", [{"ts": START + timedelta(seconds=i), "s": float(i)} for i in range(60)])


@pytest.mark.parametrize("point", ["C6a", "C6b"])
def test_an_execution_that_is_cut_short_is_done_once(world: World, point: str) -> None:
    points(world)
    world.sql(SUMS)
    world.clock.advance(timedelta(seconds=20))
    with crash_at(point, 2), pytest.raises(SimulatedCrash):
        world.lake.run()
    world.open()
    world.advance(10)
    expected = [(START + timedelta(seconds=k), sum(map(float, range(k, k + 10))), 10) for k in (0, 10, 20)]
    rows = world.sql("SELECT total, n FROM root.o.d")
    assert rows[1:] == expected
    [(executions,)] = [(row[4],) for row in world.sql("SHOW CQS")]
    assert executions == START + timedelta(seconds=30)
    log = DeltaTable(str(world.root / "root" / "o")).history()
    # An execution each: at START and at every 10 s since.
    assert len([entry for entry in log if "WRITE" in entry["operation"]]) == 4


@pytest.mark.parametrize("point", ["C2", "C6a", "C6b"])
def test_an_execution_reads_the_same_rows_when_it_is_done_again(world: World, point: str) -> None:
    world.sql("INSERT INTO root.sg.d(time, s) VALUES (2025-01-01T00:00:01, 1)")
    world.sql(SUMS)
    world.advance(0)
    world.clock.advance(timedelta(seconds=10))
    with crash_at(point, 1), pytest.raises(SimulatedCrash):
        world.lake.run()
    world.sql("INSERT INTO root.sg.d(time, s) VALUES (2025-01-01T00:00:02, 5)")
    world.open()
    world.advance(0)
    assert world.sql("SELECT total, n FROM root.o.d WHERE time >= 2025-01-01") == [(START, 1.0, 1)]


BY_DEVICE = """CREATE CQ c BEGIN SELECT sum(s), count(s) INTO root.${2}.x(total, n) FROM root.sg.*
GROUP BY(10s) ALIGN BY DEVICE END"""


def between_two_tables(world: World) -> None:
    """Have an execution of two output tables due."""
    world.sql("INSERT INTO root.sg.a(time, s) VALUES (2025-01-01T00:00:01, 1)")
    world.sql("INSERT INTO root.sg.b(time, s) VALUES (2025-01-01T00:00:01, 1)")
    world.sql(BY_DEVICE)
    world.advance(0)
    world.clock.advance(timedelta(seconds=10))


def more_points(world: World) -> None:
    world.sql("INSERT INTO root.sg.b(time, s) VALUES (2025-01-01T00:00:02, 5)")
    world.sql("INSERT INTO root.sg.c(time, s) VALUES (2025-01-01T00:00:02, 5)")


def assert_tables_agree(world: World) -> None:
    window = "time >= 2025-01-01T00:00:00 AND time < 2025-01-01T00:00:10"
    assert world.sql(f"SELECT total, n FROM root.*.x WHERE {window} ALIGN BY DEVICE") == [
        (START, "root.a.x", 1.0, 1),
        (START, "root.b.x", 1.0, 1),
    ]


def test_output_tables_agree_after_a_crash_between_them(world: World) -> None:
    between_two_tables(world)
    with crash_at("C6b", 1), pytest.raises(SimulatedCrash):
        world.lake.run()
    more_points(world)
    world.open()
    world.advance(0)
    assert_tables_agree(world)


def test_output_tables_agree_after_failures(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    between_two_tables(world)
    failed = StorageError("COMMIT_FAILED", "no space")
    with monkeypatch.context() as patched:
        patched.setattr("lakestream.timeseries.points.commit_made", working_once(commit_made, failed))
        assert world.lake.run().failed
    more_points(world)
    with monkeypatch.context() as patched:
        patched.setattr(SeriesReader, "result", raising(failed))
        world.clock.advance(timedelta(seconds=10))
        assert world.lake.run().failed
    world.open()
    world.advance(10)
    assert_tables_agree(world)


def test_an_execution_that_wrote_nothing_reads_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    between_two_tables(world)
    with monkeypatch.context() as patched:
        patched.setattr(SeriesReader, "result", raising(StorageError("READ_FAILED", "gone")))
        assert world.lake.run().failed
    more_points(world)
    world.advance(10)
    rows = world.sql("SELECT n FROM root.*.x WHERE time = 2025-01-01T00:00:00 ALIGN BY DEVICE")
    assert [n for _, _, n in rows] == [1, 2, 1]


def test_spark_writes_a_large_result_of_a_query(world: World) -> None:
    world.sql("INSERT INTO root.sg.a(time, s) VALUES (2025-01-01T00:00:01, 1), (2025-01-01T00:00:02, 3)")
    world.clock.advance(timedelta(seconds=10))
    world.sql(BY_DEVICE)
    world.open(Settings(duckdb_memory=0, small_rows=0))
    world.advance(0)
    world.open()
    assert world.sql("SELECT total, n FROM root.a.x") == [(START, 4.0, 2)]
    assert "Spark" in DeltaTable(str(world.root / "root" / "a")).history(1)[0]["engineInfo"]


def test_a_large_result_that_a_trigger_watches_is_seen_by_it(world: World) -> None:
    triggers.tablets.clear()
    world.sql("INSERT INTO root.sg.a(time, s) VALUES (2025-01-01T00:00:01, 1), (2025-01-01T00:00:02, 3)")
    world.sql("INSERT INTO root.a.x(time, total, n) VALUES (2025-01-01T00:00:00, 4, 2)")
    world.sql(watch("t", "AFTER", "root.a.**", "Keeper"))
    world.sql(BY_DEVICE)
    world.open(Settings(duckdb_memory=0, small_rows=0, trigger_modules=("tests.triggers",)))
    world.advance(10)
    assert [points for _, points in kept()][-1:] == [[(START, 4.0, 2.0)]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.s, a.i, b.i INTO root.to.a(v, w), root.to.b(at) FROM root.sg",
        "SELECT s, i INTO root.to.a(v, w), root.to.c(x, w) FROM root.sg.* ALIGN BY DEVICE",
    ],
)
def test_spark_writes_what_arrow_writes(world: World, spark: SparkSession, query: str) -> None:
    world.sql("CREATE TIMESERIES root.sg.a.i INT64; CREATE TIMESERIES root.sg.b.i INT64")
    world.sql("INSERT INTO root.sg.a(time, s, i) VALUES (1000, 1, NULL), (2000, 2, 5), (9000, NULL, 6)")
    world.sql("INSERT INTO root.sg.b(time, s, i) VALUES (2000, 3, 7000)")
    engine, seen = world.lake._at.tree, []
    for name in ("small", "large"):
        world.sql(f"CREATE TIMESERIES root.{name}.b.at TIMESTAMP; CREATE TIMESERIES root.{name}.a.w DOUBLE")
        world.sql(f"INSERT INTO root.{name}.a(time, kept, v) VALUES (2000, 'x', 8), (4000, 'y', 9)")
        statement = parse_statement(query.replace("root.to", f"root.{name}"), dialect="iotdb")
        assert isinstance(statement, QueryTree)
        snapshot = engine.reader.snapshot(statement.select.sources)
        found = engine.reader.resolve(statement.select, 0, snapshot)
        rows, tag = engine.reader.rows(found, snapshot), CommitTag("test", 1, {"epoch": 1})
        if name == "small":
            written = engine.writer.write(blocks_into(found, rows), tag)
        else:
            frame = spark.createDataFrame(rows)
            written = write_large(engine.writer, frame, placements(found), tag)
            assert write_large(engine.writer, frame, placements(found), tag) == written
        columns = [row[:2] for row in world.sql(f"SHOW TIMESERIES root.{name}.**")]
        shown = [(path.replace(name, "to"), kind) for path, kind in columns]
        seen.append((written, shown, world.sql(f"SELECT * FROM root.{name}.**")))
    assert seen[0] == seen[1]
    assert len(seen[0][2]) == 4


def raising(error: LakestreamError) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def working_once(function: Callable[..., Any], error: LakestreamError) -> Callable[..., Any]:
    calls = iter([function])

    def called(*arguments: object, **options: object) -> Any:
        return next(calls, raising(error))(*arguments, **options)

    return called


def test_overlapping_ranges_rewrite_their_rows(world: World) -> None:
    world.sql(SUMS.replace("BEGIN", "RESAMPLE RANGE 30s BEGIN"))
    world.sql("CREATE TIMESERIES root.sg.d.s DOUBLE; CREATE TIMESERIES root.o.d.kept INT64")
    world.sql("INSERT INTO root.o.d(time, kept) VALUES (2025-01-01T00:00:00, 9)")
    for second in range(0, 40, 10):
        world.lake.insert("root.sg.d", [{"ts": START + timedelta(milliseconds=second), "s": 1.0}])
        world.advance(10)
    rows = world.sql("SELECT total, n, kept FROM root.o.d WHERE time >= 2025-01-01")
    assert rows[0] == (START, 3.0, 3, 9)  # the fourth row came when no range held it any more
    assert len(rows) == len({row[0] for row in rows}) == 4


def test_queries_of_months_follow_the_calendar(world: World) -> None:
    days = [{"ts": datetime(2025, month, 9, tzinfo=UTC), "s": 1.0} for month in (1, 2, 3)]
    world.lake.insert("root.sg.d", days)
    body = "SELECT count(s) INTO root.o.d(n) FROM root.sg.d GROUP BY(1mo)"
    world.sql(f"CREATE CQ m RESAMPLE EVERY 1mo BEGIN {body} END")
    world.advance(86_400 * 92)
    assert world.sql("SELECT n FROM root.o.d WHERE n > 0") == [
        (datetime(2025, month, 1, tzinfo=UTC), 1) for month in (1, 2, 3)
    ]


def test_a_query_that_fails_says_why_and_is_tried_again(world: World) -> None:
    points(world)
    world.sql(SUMS)
    world.sql("CREATE TIMESERIES root.o.d.n BOOLEAN")
    [report] = world.lake.run().ticks
    assert report.error is not None
    assert "SERIES_TYPE" in report.error
    assert not world.lake.run().ticks
    assert "SERIES_TYPE" in world.named("SHOW CQS")["LastError"][0]
    world.clock.advance(timedelta(seconds=10))
    assert world.lake.run().failed


class PanicException(BaseException):
    """What a panic of delta-rs is in Python."""


@pytest.mark.parametrize(
    ("of", "step"), [(SeriesReader, "resolve"), (SeriesReader, "result"), (Writer, "write")]
)
def test_a_query_that_panics_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, of: type, step: str
) -> None:
    points(world)
    for name in "abc":
        world.sql(SUMS.replace("CREATE CQ c ", f"CREATE CQ {name} ").replace("root.o.", f"root.o{name}."))
    real = getattr(of, step)

    def panics(self: object, asked: Any, *given: Any) -> Any:
        if "ob" in repr(getattr(asked, "select", asked)):
            raise PanicException("index out of bounds")
        return real(self, asked, *given)

    monkeypatch.setattr(of, step, panics)
    found = {report.stream: report.error for report in world.lake.tick_once()}
    assert (found["a"], found["c"]) == (None, None)
    assert "IO_ERROR" in str(found["b"])
    monkeypatch.undo()
    world.advance(20)
    assert world.named("SHOW CQS")["LastError"] == [None, None, None]


def test_a_query_that_cannot_be_read_stops_no_other(world: World) -> None:
    points(world)
    world.sql(SUMS)
    definitions = Definitions(Layout(str(world.root)))
    [record] = definitions.queries()
    definitions.put_queries([replace(record, uuid="of another version", name="a", sql="CREATE CQ a RUN")])
    world.lake.close()
    world.open()
    unread, read = world.lake.run().ticks
    assert unread.stream == "a"
    assert "SYNTAX" in str(unread.error)
    assert read.error is None
    assert not world.lake.run().ticks
    world.sql("DROP CQ a")


def test_a_query_warns_of_what_may_not_be_meant(world: World) -> None:
    said = world.lake.sql(
        "CREATE CQ c RESAMPLE EVERY 20s RANGE 10s BEGIN SELECT count(s) INTO root.o.a(n), root.o.b(n) "
        "FROM root.sg.* GROUP BY(10s) END",
        dialect="iotdb",
    ).message
    assert "never read" in said
    assert "by position" in said


# --- triggers -------------------------------------------------------------------------------------


def fired(name: str) -> list[tuple[object, object, object]]:
    rows = [row for row in triggers.logged() if row["name"] == name and row["call"] == "fire"]
    return [(row["device"], row["measurements"], row["points"]) for row in rows]


def watch(name: str, event: str, pattern: str = "root.**", kind: str = "Recorder") -> str:
    head = f"CREATE STATELESS TRIGGER {name} {event} INSERT ON {pattern}"
    return f'{head} AS \'tests.triggers.{kind}\' WITH ("name" = "{name}")'


def test_an_after_trigger_sees_what_others_write(world: World) -> None:
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1, 1, 1)")
    world.sql(watch("t", "AFTER"))
    table = DeltaTable(str(world.root / "root" / "sg"))
    times = pa.array([START], pa.timestamp("us", "UTC"))
    rows = pa.table({"device": ["root.sg.d"], "ts": times, "a": [1.0], "b": pa.array([None], pa.float64())})
    write_deltalake(table, rows, mode="append")
    world.advance(0)
    assert fired("t") == [("root.sg.d", "a", 1)]
    assert not world.lake.run().ticks


def test_an_after_trigger_sees_the_points_that_were_written_alone(world: World) -> None:
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1, 1, 1), (2, 2, 2)")
    world.sql(watch("t", "AFTER"))
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1, 7, 1)")
    world.sql("INSERT INTO root.sg.d(time, c) VALUES (2, true)")
    world.advance(0)
    assert fired("t") == [("root.sg.d", "a,b", 2), ("root.sg.d", "c", 1)]


def kept(event: str = "AFTER") -> list[tuple[str, list[tuple[object, ...]]]]:
    """Return the ids that triggers of the class Keeper saw, each with its points (time, and values)."""
    found = [tablet for tablet in triggers.tablets if tablet.event == f"{event}_INSERT"]
    return [(tablet.id, [tuple(row.values()) for row in tablet.rows.to_pylist()]) for tablet in found]


def test_rows_of_a_statement_come_again_with_their_ids_after_a_crash(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    triggers.tablets.clear()
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (1000, 1), (3000, 1)")
    world.sql(watch("t", "AFTER", kind="Keeper"))
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (3000, 1), (1000, 2), (1000, 3), (2000, NULL)")
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (1000, 3)")

    def crash(*_: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as broken:
        broken.setattr(Definitions, "renew_triggers", crash)
        with pytest.raises(SimulatedCrash):
            world.lake.run()
    first = kept()
    assert [points for _, points in first] == [[(at(3), 1.0)], [(at(1), 2.0)], [(at(1), 3.0)], [(at(1), 3.0)]]
    assert len({name for name, _ in first}) == 4
    triggers.tablets.clear()
    world.open()
    world.advance(0)
    assert kept() == first


def test_a_row_of_the_other_dialect_fires_for_the_points_it_names(world: World) -> None:
    triggers.tablets.clear()
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1000, 1, 1)")
    world.sql(watch("t", "AFTER", kind="Keeper"))
    world.lake.sql("INSERT INTO root.sg (device, ts, a) VALUES ('root.sg.d', '1970-01-01 00:00:01', 1)")
    world.advance(0)
    assert [points for _, points in kept()] == [[(at(1), 1.0)]]


def test_of_a_write_that_is_too_large_to_be_told_the_changed_points_are_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakestream.storage.writes.written._MOST_BYTES", 10)
    triggers.tablets.clear()
    world.sql("INSERT INTO root.sg.d(time, a, b) VALUES (1000, 1, 1), (2000, 1, 1)")
    world.sql(watch("t", "AFTER", kind="Keeper"))
    world.lake.insert("root.sg.d", [{"ts": 1000, "a": 1.0}, {"ts": 2000, "a": 2.0}, {"ts": 1500, "a": 3.0}])
    world.advance(0)
    assert [points for _, points in kept()] == [[(at(1.5), 3.0), (at(2), 2.0)]]


def test_what_a_continuous_query_writes_fires_triggers(world: World) -> None:
    points(world)
    world.sql(watch("before", "BEFORE", "root.o.**"))
    world.sql(watch("after", "AFTER", "root.o.**"))
    world.sql(SUMS)
    world.advance(10)
    assert fired("before") == fired("after") == [("root.o.d", "n", 1), ("root.o.d", "n,total", 2)]


def test_a_stateful_trigger_goes_on_after_a_restart(world: World) -> None:
    world.sql(watch("t", "AFTER", kind="RunningCount").replace("STATELESS", "STATEFUL"))
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (1, 1)")
    world.advance(0)
    world.open()
    world.advance(0)
    world.sql("INSERT INTO root.sg.d(time, a) VALUES (2, 1)")
    world.advance(0)
    assert [points for _, _, points in fired("t")] == [1, 2]


def test_a_pessimistic_trigger_keeps_the_points_of_a_query_back(world: World) -> None:
    points(world)
    limit = watch("t", "BEFORE", "root.o.**", "Limit")
    world.sql(limit.replace(")", ', "limit" = "1", "strategy" = "pessimistic")'))
    world.sql(SUMS)
    world.clock.advance(timedelta(seconds=10))
    [first, second] = world.lake.run().ticks
    assert first.error is None
    assert second.error is not None
    assert "trigger" in second.error
    assert world.sql("SELECT total FROM root.o.d") == []


@pytest.mark.parametrize("count", [3, 400])
def test_the_points_of_many_devices_are_found_without_a_list_of_them(spark: SparkSession, count: int) -> None:
    points = spark.range(1_000).selectExpr("CAST(id AS STRING) AS device", "id AS v")
    found = of_devices(points, [str(number) for number in range(0, 2 * count, 2)])
    plan: Any = found._jdf.queryExecution().optimizedPlan()
    assert ("LeftSemi" in plan.toString()) == (count == 400)
    assert sorted(row["v"] for row in found.collect()) == [*range(0, 2 * count, 2)]
