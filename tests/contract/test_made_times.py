"""Event times that are made of a table's columns: texts, fields of structs, expressions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2025, 3, 30, 0, 59, tzinfo=UTC)
"""A minute before the clock of the zone goes forward."""
FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class Form:
    """A form of ``TIMESTAMP BY``, how its columns hold an instant, and Spark's own way to it.

    ``of`` gives the columns of rows at instants, None for one that is no time.
    """

    by: str
    name: str
    of: Callable[[list[datetime | None]], dict[str, pa.Array]]
    own: str


def local(at: datetime, form: str) -> str:
    return at.astimezone(ZONE).strftime(form)


def texts(form: str) -> Callable[[list[datetime | None]], dict[str, pa.Array]]:
    return lambda times: {"at": pa.array(["none" if t is None else local(t, form) for t in times])}


def iso(times: list[datetime | None]) -> dict[str, pa.Array]:
    """Return texts in ISO 8601: with Z, without an offset, with one, and a time without a date for none."""
    forms = (
        lambda t: f"{t:%Y-%m-%dT%H:%M:%S.%f}Z",
        lambda t: local(t, "%Y-%m-%d %H:%M:%S.%f"),
        lambda t: f"{t + timedelta(hours=5, minutes=30):%Y-%m-%dT%H:%M:%S.%f}+0530",
    )
    return {"at": pa.array(["12:30" if t is None else forms[n % 3](t) for n, t in enumerate(times)])}


def nested(name: str, kind: pa.DataType, of: Callable[[datetime], Any]) -> Callable[..., dict[str, pa.Array]]:
    """Return a struct whose first row without a time has no struct either."""

    def columns(times: list[datetime | None]) -> dict[str, pa.Array]:
        rows = [None if t is None else {"id": n, "in": {name: of(t)}} for n, t in enumerate(times)]
        inner = pa.struct({name: kind})
        return {"meta": pa.array(rows, pa.struct({"id": pa.int64(), "in": inner}))}

    return columns


def parts(times: list[datetime | None]) -> dict[str, pa.Array]:
    return {
        "day": pa.array([None if t is None else local(t, "%Y-%m-%d") for t in times], pa.string()),
        "Clock": pa.array([None if t is None else local(t, "%H%M%S") for t in times], pa.string()),
    }


BERLIN = f"to_utc_timestamp({{0}}, '{ZONE.key}')"
HAS_ZONE = "at LIKE '%Z' OR at LIKE '%+0530'"
FORMS = {
    "pattern": Form(
        "at FORMAT 'dd/mm/yyyy hh24:mi:ss'",
        "at",
        texts("%d/%m/%Y %H:%M:%S"),
        BERLIN.format("to_timestamp(at, 'dd/MM/yyyy HH:mm:ss')"),
    ),
    "iso": Form(
        "at FORMAT ISO8601",
        "at",
        iso,
        f"CASE WHEN at LIKE '%-%' THEN IF({HAS_ZONE}, CAST(at AS TIMESTAMP), "
        f"{BERLIN.format('CAST(at AS TIMESTAMP)')}) END",
    ),
    "field": Form("meta.in.ts", "ts", nested("ts", pa.timestamp("us", "UTC"), lambda t: t), "meta.in.ts"),
    "count": Form(
        "meta.in.`n o` MILLISECONDS AS at",
        "at",
        nested("n o", pa.int64(), lambda t: int(t.timestamp() * 1_000)),
        "timestamp_millis(meta.in.`n o`)",
    ),
    "naive": Form(
        "meta.in.l AS `o'clock`",
        "o'clock",
        nested("l", pa.timestamp("us"), lambda t: t.astimezone(ZONE).replace(tzinfo=None)),
        BERLIN.format("CAST(meta.in.l AS TIMESTAMP)"),
    ),
    "expression": Form(
        "(to_timestamp(concat(day, CLOCK), 'yyyy-mm-ddhh24miss'))",
        "ts",
        parts,
        BERLIN.format("to_timestamp(concat(day, Clock), 'yyyy-MM-ddHHmmss')"),
    ),
    "counted": Form(
        "(meta.in.n + 0 * meta.id) SECONDS",
        "ts",
        nested("n", pa.int32(), lambda t: int(t.timestamp())),
        "timestamp_seconds(meta.in.n)",
    ),
}


class World:
    """A lake with a table of others whose event time is made by a form."""

    def __init__(
        self, root: Path, spark: SparkSession, form: Form, transport: Literal["arrow", "spark"]
    ) -> None:
        self.form, self.path, self.spark = form, str(root / "theirs"), spark
        self.name = f"`{form.name}`"
        settings = Settings(transport=transport, timezone=ZONE.key, max_commits_per_tick=2)
        self.lake = Lake(root / "lake", spark=spark, settings=settings)
        self.write(0, 1, None, 12, 13, 47)
        self.lake.sql(f"CREATE TABLE t LOCATION '{self.path}' TIMESTAMP BY {form.by}")

    def write(self, *seconds: float | None) -> None:
        """Append rows at seconds, whose value is the second (-1: no time)."""
        times = [None if s is None else START + timedelta(seconds=s) for s in seconds]
        values = pa.array([-1 if s is None else int(s) for s in seconds], pa.int64())
        write_deltalake(
            self.path, pa.table({"v": values, **self.form.of(times)}), mode="append", configuration=FEED
        )

    def expected(self) -> list[tuple[Any, ...]]:
        """Return Spark's own GROUP BY of the table as it is, for the windows that are done."""
        rows = self.spark.read.format("delta").load(self.path)
        rows.selectExpr(f"{self.form.own} AS t", "v").where("t IS NOT NULL").createOrReplaceTempView("own")
        found = self.spark.sql(
            "SELECT timestamp_seconds(unix_seconds(t) div 10 * 10) AS w, count(*) AS n, sum(v) AS s "
            "FROM own GROUP BY 1 HAVING w + INTERVAL 10 SECONDS <= (SELECT max(t) FROM own) ORDER BY w"
        )
        return [tuple(row.values()) for row in found.toArrow().to_pylist()]

    def output(self, name: str) -> list[tuple[Any, ...]]:
        self.lake.run()
        assert [one.last_error for one in self.lake.streams() if one.last_error] == []
        return self.lake.sql(f"SELECT w, n, s FROM {name} ORDER BY w").fetchall()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    form, transport = request.param
    made = World(tmp_path, spark, FORMS[form], transport)
    yield made
    made.lake.close()


def each(*forms: str, both: tuple[str, ...]) -> pytest.MarkDecorator:
    """Return forms by the way that a small table takes, and those that have two by the other one."""
    cases = [(form, "arrow") for form in forms] + [(form, "spark") for form in both]
    return pytest.mark.parametrize("world", cases, indirect=True, ids=["-".join(case) for case in cases])


STREAM = (
    "CREATE STREAM {0} INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS({1} | IGNORE_NODATA_TRIGGER) "
    "INTO {0}_o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows"
)


@each(*FORMS, both=("field", "count", "naive"))
def test_a_stream_equals_sparks_own_group_by(world: World) -> None:
    world.lake.sql(STREAM.format("s", "FILL_HISTORY | EXACT"))
    assert world.output("s_o") == world.expected()
    world.write(3, 48, 59.5, None, 60)
    world.write(71, 125)
    first = world.output("s_o")
    assert first == world.expected()
    DeltaTable(world.path).delete("v = 12 OR v = 59")
    DeltaTable(world.path).update({"v": "700"}, predicate="v = 71")
    world.write(90)
    assert world.output("s_o") == world.expected() != first
    verified = world.lake.verify("s")
    assert verified.holds
    assert verified.equal_rows == len(world.expected())


@each("pattern", "naive", "counted", both=("field",))
def test_queries_see_the_time_and_statements_tell_of_it(world: World) -> None:
    lake, name = world.lake, world.name
    described = {row[0]: row[1:3] for row in lake.sql("DESCRIBE t").fetchall()}
    by = world.form.by.partition(" AS ")[0]
    assert described[world.form.name] == ("TIMESTAMP", f"EVENT TIME BY {by}")
    asked = f"{name} >= '2025-03-30 00:59:01Z' AND {name} < '2025-03-30 01:00:00Z'"
    assert lake.sql(f"SELECT v FROM t WHERE {asked} ORDER BY v").fetchall() == [(1,), (12,), (13,), (47,)]
    assert lake.sql(f"SELECT min({name}) AS t, count(*) AS n FROM t").fetchall() == [(START, 6)]
    assert lake.sql(f"SELECT v FROM t WHERE {name} IS NULL").fetchall() == [(-1,)]
    world.write(99)
    assert lake.sql(f"SELECT count({name}) AS n FROM t VERSION AS OF 0").fetchall() == [(5,)]
    assert lake.table("t").toArrow().schema.field(world.form.name).type == pa.timestamp("us", "UTC")
    into = STREAM.format("s", "EXACT").replace("INTO s_o", "INTO t").replace("FROM t", "FROM u")
    lake.sql("CREATE TABLE u (ts TIMESTAMP, v BIGINT)")
    for statement, code in (
        ("DELETE FROM t WHERE v = 1", "NOT_SUPPORTED"),
        ("UPDATE t SET v = 2 WHERE v = 1", "NOT_SUPPORTED"),
        (f"INSERT INTO t ({name}, v) VALUES ('2025-01-01', 1)", "NOT_SUPPORTED"),
        (f"INSERT INTO t ({name}, v) SELECT ts, v FROM u", "NOT_SUPPORTED"),
        (into, "OUTPUT_MISMATCH"),
    ):
        with pytest.raises(LakestreamError) as refused:
            lake.sql(statement)
        assert refused.value.code == code
        assert by in refused.value.message


def test_streams_of_every_kind_go_by_a_made_time(tmp_path: Path, spark: SparkSession) -> None:
    world = World(tmp_path, spark, FORMS["expression"], "arrow")
    lake = world.lake
    other = str(tmp_path / "other")
    rows = pa.table({"at": pa.array([START, START + timedelta(seconds=12)], pa.timestamp("us", "UTC"))})
    write_deltalake(other, rows, configuration=FEED)
    lake.sql(f"CREATE TABLE u LOCATION '{other}'")
    shown = "INTO {0}_o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM "
    options = "STREAM_OPTIONS(FILL_HISTORY | EXACT)"
    lake.sql(f"CREATE STREAM gaps SESSION(ts, 5s) FROM t {options} {shown.format('gaps')} %%trows")
    lake.sql(f"CREATE STREAM counts COUNT_WINDOW(2) FROM t {options} {shown.format('counts')} %%trows")
    lake.sql(STREAM.format("late", "IGNORE_DISORDER"))
    lake.sql(
        f"CREATE STREAM joined INTERVAL(10s) SLIDING(10s) FROM u {options} {shown.format('joined')} t "
        "WHERE ts >= _twstart AND ts < _twend"
    )
    lake.run()
    world.write(60, 61, 80)
    world.write(79, 95)
    assert world.output("gaps_o") == [
        (START, 2, 1),
        (START + timedelta(seconds=12), 2, 25),
        (START + timedelta(seconds=47), 1, 47),
        (START + timedelta(seconds=60), 2, 121),
        (START + timedelta(seconds=79), 2, 159),
    ]
    assert [row[1:] for row in world.output("counts_o")] == [(2, 1), (2, 25), (2, 107), (2, 140), (2, 175)]
    assert world.output("late_o")[:1] == [(START + timedelta(seconds=60), 2, 121)]
    assert world.output("joined_o") == [(START, 2, 1)]
    DeltaTable(world.path).delete("v = 60")
    lake.sql("RECALCULATE STREAM late FROM '2025-03-30 00:00:00Z' TO '2025-03-30 02:00:00Z'")
    lake.run()
    assert world.output("gaps_o")[3:] == [
        (START + timedelta(seconds=61), 1, 61),
        (START + timedelta(seconds=79), 2, 159),
    ]
    assert [lake.verify(name).holds for name in ("gaps", "counts", "joined")] == [True, True, True]
    lake.close()


@pytest.mark.parametrize(
    ("form", "transport"), [("field", "arrow"), ("field", "spark"), ("counted", "spark")]
)
def test_events_and_points_go_by_a_made_time(
    tmp_path: Path, spark: SparkSession, form: str, transport: Literal["arrow", "spark"]
) -> None:
    world = World(tmp_path, spark, FORMS[form], transport)
    lake, other = world.lake, str(tmp_path / "other")

    def write(*seconds: int) -> None:
        """Append rows to the table, and to one that has their times as they are."""
        world.write(*seconds)
        times = pa.array([START + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC"))
        write_deltalake(other, pa.table({"ts": times, "v": seconds}), mode="append", configuration=FEED)

    write(59)
    lake.sql(f"CREATE TABLE u LOCATION '{other}'")
    for name in ("t", "u"):
        for suffix, options in (("c", ""), ("x", ", EXACT=true")):
            lake.sql(
                f"CREATE STREAM {name}{suffix} WITH (TIMESTAMP='ts'{options}) INTO {name}{suffix}_o AS "
                f"SELECT count(*) AS n, sum(v) AS s FROM {name} GROUP BY COUNTWINDOW(2)",
                dialect="ekuiper",
            )
    for seconds in ((60, 60, 62), (61, 65, 64), (80, 81, 90)):
        write(*seconds)
        lake.run()
    for path in (world.path, other):
        DeltaTable(path).delete("v = 81")
    write(99, 120)
    lake.run()
    found = {
        name: lake.sql(f"SELECT n, s FROM {name}_o ORDER BY s").fetchall()
        for name in ("tc", "tx", "uc", "ux")
    }
    assert found["tc"] == found["uc"] != []
    assert found["tx"] == found["ux"] != []
    device = "device = concat('root.d.d', meta.id), time = ts"
    lake.sql(f"CREATE DATABASE root.d USING TABLE t ({device})", dialect="iotdb")
    last = lake.sql("SELECT v FROM root.d.d0 WHERE time > 2025-03-30T01:00:20Z", dialect="iotdb").fetchall()
    assert last == [(START + timedelta(seconds=99), 99)]
    lake.close()


def test_a_history_of_such_a_table_is_taken_in_parts(tmp_path: Path, spark: SparkSession) -> None:
    made = World(tmp_path, spark, FORMS["pattern"], "arrow")
    made.lake.close()
    settings = Settings(timezone=ZONE.key, max_rows_per_tick=2)
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        made.lake = lake
        lake.sql(STREAM.format("s", "FILL_HISTORY | EXACT"))
        assert made.output("s_o") == made.expected()
        assert lake.verify("s").holds


def test_a_field_more_is_no_change_of_the_time(tmp_path: Path, spark: SparkSession) -> None:
    world = World(tmp_path, spark, FORMS["field"], "arrow")
    world.lake.sql(STREAM.format("s", "FILL_HISTORY | EXACT"))
    assert world.output("s_o") == world.expected()
    more = pa.struct({"id": pa.int64(), "in": pa.struct({"ts": pa.timestamp("us", "UTC"), "x": pa.int32()})})
    rows = [{"id": 1, "in": {"ts": START + timedelta(seconds=55), "x": 1}}]
    table = pa.table({"v": pa.array([55]), "meta": pa.array(rows, more)})
    for _ in range(2):
        write_deltalake(world.path, table, mode="append", schema_mode="merge")
    assert world.output("s_o") == world.expected()
    DeltaTable(world.path).delete("v = 0")
    assert world.output("s_o") == world.expected()
    gone = table.set_column(1, "meta", pa.array([{"id": 1}], pa.struct({"id": pa.int64()})))
    write_deltalake(world.path, gone, mode="overwrite", schema_mode="overwrite", configuration=FEED)
    world.lake.run()
    [stream] = world.lake.streams()
    assert (stream.status, (stream.last_error or "").partition(":")[0]) == ("Failed", "SOURCE_SCHEMA_CHANGED")
    assert world.lake.sql("SELECT v FROM t").fetchall() == [(55,)]
    world.lake.close()


TEXTS = {
    "2025-01-01": "2024-12-31 23:00",
    " 2025-07-01T10:00 ": "2025-07-01 08:00",
    "2025-07-01 10:00:00": "2025-07-01 08:00",
    "2025-07-01T10:00:00.1234567Z": "2025-07-01 10:00:00.123456",
    "2025-07-01T10:00:00z": "2025-07-01 10:00",
    "2025-07-01T10:00:00 -0830": "2025-07-01 18:30",
    "2025-07-01T10:00+05": "2025-07-01 05:00",
    "0001-01-01T00:00:00Z": "0001-01-01 00:00",
    **dict.fromkeys(("12:30", "T12:30Z", "now", "2025", "2025-02-30", "2025-13-01", "2025-01-01T25:00", "")),
    **dict.fromkeys(("2025-01-01T00:00:00+99:00", "2025-01-01T00:00:00 CET", "2025-01-01 and more")),
}
"""Texts, and the instant of ISO 8601 that they are where the zone is that of Berlin (None: no time)."""
PATTERNED = {
    "2025-07-01 1 pm +05": "2025-07-01 08:00",
    "2025-07-01 1 am": "2025-06-30 23:00",
    "2025-07-01": "2025-06-30 22:00",
    **dict.fromkeys(("2025-07-01 1 pm +99", "2025-02-30 1 am +01", "2025-07-01 13 pm", "soon", "")),
}
"""The same, of the format yyyy-mm-dd hh am tzh."""


def test_texts_that_are_no_times_are_none(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(timezone=ZONE.key)) as lake:
        for name, form, known in (("i", "ISO8601", TEXTS), ("p", "'yyyy-mm-dd hh am tzh'", PATTERNED)):
            path = str(tmp_path / name)
            write_deltalake(path, pa.table({"text": [*known, None]}), configuration=FEED)
            lake.sql(f"CREATE TABLE {name} LOCATION '{path}' TIMESTAMP BY text FORMAT {form} AS at")
            found = dict(lake.sql(f"SELECT text, CAST(at AS STRING) FROM {name}").fetchall())
            expected = {text: at and str(datetime.fromisoformat(at)) for text, at in known.items()}
            assert found == expected | {None: None}


REFUSED = {
    "name FORMAT ISO8601 AS v": ("DUPLICATE_COLUMN", "AS another_name", "name"),
    "meta.V": ("COLUMN_NOT_FOUND", "did you mean v", "meta"),
    "meta.v SECONDS": ("DUPLICATE_COLUMN", "column v", "meta"),
    "meta.day FORMAT ISO8601": ("TIME_COLUMN_TYPE", "no text", "meta"),
    "meta.v AS at": ("TIME_COLUMN_TYPE", "field meta.v of type bigint", "meta"),
    "meta.day SECONDS": ("TIME_COLUMN_TYPE", "in SECONDS", "meta"),
    "v.x": ("COLUMN_NOT_FOUND", "of type bigint has no field x", "v"),
    "meta": ("TIME_COLUMN_TYPE", "(expression)", "meta"),
    "name": ("TIME_COLUMN_TYPE", "FORMAT", "name"),
    "(v + 1)": ("TIME_COLUMN_TYPE", "MILLISECONDS", "v + 1"),
    "(meta.day) SECONDS": ("TIME_COLUMN_TYPE", "in SECONDS", "meta"),
    "(name)": ("TIME_COLUMN_TYPE", "of type string", "name"),
    "(NULL)": ("TIME_COLUMN_TYPE", "no column", "NULL"),
    "(timestamp_seconds(nosuch))": ("COLUMN_NOT_FOUND", "no column nosuch", "nosuch"),
    "(timestamp_seconds(name))": ("EXPRESSION_INVALID", "", "timestamp"),
    "(timestamp_seconds(meta.nosuch))": ("EXPRESSION_INVALID", "nosuch", ""),
    "(nosuch(v))": ("EXPRESSION_INVALID", "no function nosuch", "nosuch"),
    "(explode(array(timestamp_seconds(v))))": ("EXPRESSION_INVALID", "", ""),
    "(bit_and(v)) SECONDS": ("NOT_SCALAR", "", "bit_and"),
    "(timestamp_seconds(v)) AS V": ("DUPLICATE_COLUMN", "column v", ""),
}
"""What stands behind TIMESTAMP BY: the code, a part of what is said, and of the text at its place."""


def test_what_makes_no_time_is_refused_where_it_stands(tmp_path: Path, spark: SparkSession) -> None:
    inner = pa.struct({"v": pa.int64(), "day": pa.date32()})
    rows = {"v": pa.array([1]), "name": pa.array(["x"]), "meta": pa.array([{"v": 1}], inner)}
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table(rows))  # without a change feed, which is asked for last
    with Lake(tmp_path / "lake", spark=spark) as lake:
        for by, (code, said, at) in REFUSED.items():
            statement = f"CREATE TABLE t LOCATION '{path}' TIMESTAMP BY {by}"
            with pytest.raises(LakestreamError) as caught:
                lake.sql(statement)
            error = caught.value
            assert error.code == code, (by, error)
            assert said in error.render(), (by, error)
            assert error.place is not None, by
            assert statement[error.place.column - 1 :].startswith(at), (by, error.place)
        assert lake.sql("SHOW TABLES").fetchall() == []
        assert DeltaTable(path).version() == 0
