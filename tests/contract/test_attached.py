"""Delta tables of others: what a name for one needs, and what is left when there is to be none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2025, 1, 1, tzinfo=UTC)
FEED = {"delta.enableChangeDataFeed": "true"}
STREAM = (
    "CREATE STREAM {name} INTERVAL(10s) SLIDING(10s) FROM {table} "
    "STREAM_OPTIONS(FILL_HISTORY | EXACT) INTO {name}_out AS "
    "SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows"
)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", clock=ManualClock(START), spark=spark) as lake:
        yield lake


def readings(*seconds: float, **more: pa.Array) -> pa.Table:
    """Return rows of (at, v): the value is the second."""
    at = pa.array([START + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "v": pa.array([int(second) for second in seconds], pa.int64()), **more})


def written(path: Path, rows: pa.Table, *, feed: bool = True) -> Path:
    write_deltalake(path, rows, mode="append", configuration=FEED if feed else None)
    return path


def refused(code: str, act: Callable[[], Any]) -> LakestreamError:
    with pytest.raises(LakestreamError) as caught:
        act()
    assert caught.value.code == code, caught.value
    return caught.value


# --- all or nothing ---


def test_a_refused_feed_leaves_no_name(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path / "t", readings(1), feed=False)
    statement = f"CREATE TABLE t LOCATION '{path}'"
    for answer in (None, lambda _: False):
        lake._at.confirm = answer
        refused("CONFIRMATION_NEEDED", lambda: lake.sql(statement))
        assert lake.sql("SHOW TABLES").fetchall() == []
        assert DeltaTable(path).version() == 0

    def nobody(question: str) -> bool:
        raise LakestreamError("CONFIRMATION_NEEDED", question)

    lake._at.confirm = nobody
    refused("CONFIRMATION_NEEDED", lambda: lake.sql(statement))
    lake._at.confirm = lambda _: True
    lake.sql(statement)
    assert DeltaTable(path).metadata().configuration == FEED


def test_a_feed_that_cannot_be_switched_on_leaves_no_name(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t", readings(1), feed=False)
    lake._at.confirm = lambda _: True

    def failing(*_: object) -> None:
        raise OSError("no permission")

    monkeypatch.setattr("lakestream.storage.writes.feed._by_arrow", failing)
    error = refused("FEED_NOT_SWITCHED", lambda: lake.sql(f"CREATE TABLE t LOCATION '{path}'"))
    assert "no permission" in error.message
    assert lake.sql("SHOW TABLES").fetchall() == []


def test_the_hint_of_a_missing_feed_leads_to_one(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path / "t", readings(1, 12))
    lake.sql(f"CREATE TABLE t LOCATION '{path}'")
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    stream = STREAM.format(name="s", table="t")
    hint = refused("CHANGE_FEED_OFF", lambda: lake.sql(stream)).hint
    lake._at.confirm = lambda _: True
    lake.sql(hint.rpartition(" switches ")[0])
    lake.sql(stream)
    lake.run()
    assert lake.sql("SELECT n, s FROM s_out").fetchall() == [(1, 1)]


def test_if_not_exists_means_the_same_table(lake: Lake, tmp_path: Path) -> None:
    one, other = (written(tmp_path / name, readings(1)) for name in ("one", "other"))
    lake.sql(f"CREATE TABLE t LOCATION '{one}'")
    lake.sql(f"CREATE TABLE IF NOT EXISTS t LOCATION '{one}/'")
    error = refused("TABLE_EXISTS", lambda: lake.sql(f"CREATE TABLE IF NOT EXISTS t LOCATION '{other}'"))
    assert str(one) in error.message
    lake.sql("CREATE TABLE own (ts TIMESTAMP, v INT)")
    refused("TABLE_EXISTS", lambda: lake.sql(f"CREATE TABLE IF NOT EXISTS own LOCATION '{other}'"))


SAME_TIME = ("", "TIMESTAMP BY at MILLISECONDS")
OTHER_TIME = {
    "TIMESTAMP BY at SECONDS": "at in milliseconds, not at in seconds",
    "TIMESTAMP BY seen": "at in milliseconds, not seen",
}


def test_if_not_exists_means_the_same_time(lake: Lake, tmp_path: Path) -> None:
    seen = readings(1).column("at")
    path = written(tmp_path / "t", pa.table({"at": pa.array([1_000], pa.int64()), "seen": seen}))
    statement = f"CREATE TABLE IF NOT EXISTS t LOCATION '{path}'"
    for by in ("TIMESTAMP BY at MILLISECONDS", *SAME_TIME):
        lake.sql(f"{statement} {by}")
    for by, differs in OTHER_TIME.items():
        error = refused("TABLE_EXISTS", lambda clause=by: lake.sql(f"{statement} {clause}"))  # type: ignore[misc]
        assert f"the event time of main.t is {differs}" in error.message
        assert "DROP TABLE" in error.hint
        assert error.place is not None
        assert error.place.column == f"{statement} {by}".index(" BY ") + 5
    refused("TIME_COLUMN_TYPE", lambda: lake.sql(f"{statement} TIMESTAMP BY at"))
    assert lake.sql("SELECT at FROM t").fetchall() == [(START.replace(year=1970) + timedelta(seconds=1),)]


def test_a_resynchronisation_is_refused_while_its_source_does_not_fit(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path / "t", readings(1, 12))
    lake.sql(f"CREATE TABLE t LOCATION '{path}'")
    lake.sql(STREAM.format(name="s", table="t"))
    lake.run()

    def rewritten(rows: pa.Table) -> None:
        write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", configuration=FEED)

    rewritten(readings(1, 12, w=pa.array([1, 2])).drop_columns("v"))
    lake.run()
    assert lake.streams()[0].status == "Failed"
    error = refused("SOURCE_SCHEMA_CHANGED", lambda: lake.sql("RECALCULATE STREAM s RESYNC"))
    assert "v" in error.message
    rewritten(readings(1, 12).set_column(1, "v", pa.array(["1", "2"])))
    assert "double" in refused("SOURCE_SCHEMA_CHANGED", lambda: lake.recalculate("s", resync=True)).message
    rewritten(readings(3, 14))
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    refused("CHANGE_FEED_OFF", lambda: lake.sql("RECALCULATE STREAM s RESYNC"))
    assert lake.recalculations("s") == []
    DeltaTable(path).alter.set_table_properties(FEED)
    lake.sql("RECALCULATE STREAM s RESYNC")
    lake.run()
    assert lake.sql("SELECT n, s FROM s_out ORDER BY w").fetchall() == [(1, 3)]


# --- places ---


def test_a_location_has_one_name(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path / "t", readings(1))
    lake.sql(f"CREATE TABLE t LOCATION '{path}'")
    lake.sql("CREATE DATABASE d")
    (tmp_path / "link").symlink_to(path)
    for place in (path, f"{path}/", f"{tmp_path}/x/../t", tmp_path / "link", path.as_uri()):
        error = refused("LOCATION_TAKEN", lambda p=place: lake.sql(f"CREATE TABLE d.u LOCATION '{p}'"))  # type: ignore[misc]
        assert "main.t" in error.message
    lake.sql("DROP TABLE t")
    lake.sql(f"CREATE TABLE d.u LOCATION '{path}'")


def test_what_lies_in_the_lake_has_no_other_name(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE own (ts TIMESTAMP, v INT)")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    for place in ("lake/main/own", "lake/_lakestream/outbox", "lake", "link/main/own", ""):
        refused("LOCATION_IN_LAKE", lambda p=place: lake.sql(f"CREATE TABLE o LOCATION '{tmp_path / p}'"))  # type: ignore[misc]
    assert lake.sql("SHOW TABLES").fetchall() == [("own", None)]


WRONG_PLACES = {
    "{}/nowhere": "TABLE_NOT_FOUND",
    "{}/lake/main/own": "LOCATION_IN_LAKE",
    "{}/t": "LOCATION_TAKEN",
    "{}/100%": "BAD_PATH",
    "dbfs:/t": "BAD_PATH",
    "s3:/bucket/t": "BAD_PATH",
}


@pytest.mark.parametrize(("place", "code"), WRONG_PLACES.items())
def test_an_error_of_a_location_points_at_it(lake: Lake, tmp_path: Path, place: str, code: str) -> None:
    path = written(tmp_path / "t", readings(1))
    lake.sql(f"CREATE TABLE own (ts TIMESTAMP, v INT); CREATE TABLE t LOCATION '{path}'")
    located = f"LOCATION '{place.format(tmp_path)}'"
    made = f"CREATE TABLE u\n  {located} TIMESTAMP BY at"
    stream = STREAM.format(name="s", table="t").replace("s_out", f"s_out\n  {located}")
    for statement in (made, stream):
        if (statement, code) == (stream, "TABLE_NOT_FOUND"):
            continue  # where nothing is, the output is made
        error = refused(code, lambda one=statement: lake.sql(one))  # type: ignore[misc]
        assert error.place is not None
        assert (error.place.line, error.place.column) == (2, 12)
        assert "^" in error.render()
    assert lake.sql("SHOW TABLES").fetchall() == [("own", None), ("t", None)]
    assert lake.streams() == []


@pytest.mark.parametrize(("place", "hint"), [("dbfs:/t", "s3://bucket/table"), ("data:/t", "./data:/t")])
def test_a_scheme_alone_is_no_folder(tmp_path: Path, place: str, hint: str) -> None:
    assert hint in refused("BAD_PATH", lambda: Lake(place)).hint
    assert not (tmp_path / place).exists()


def test_a_relative_location_is_kept_as_what_it_was(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "t", readings(1))
    monkeypatch.chdir(tmp_path)
    assert lake.sql("CREATE TABLE t LOCATION './t'").message == f"attached {tmp_path / 't'} as main.t"
    assert lake.sql("DESCRIBE t").message == f"main.t is the Delta table at {tmp_path / 't'}"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert lake.sql("SELECT v FROM t").fetchall() == [(1,)]


# --- tables without a time ---


def test_a_table_without_a_time_is_joined_and_triggers_nothing(lake: Lake, tmp_path: Path) -> None:
    rows = pa.table({"v": pa.array([1, 2], pa.int64()), "name": ["one", "two"]})
    sites = written(tmp_path / "sites", rows)
    path = written(tmp_path / "t", readings(1, 2, 12))
    lake.sql(f"CREATE TABLE sites LOCATION '{sites}'")
    lake.sql(f"CREATE TABLE t LOCATION '{path}'")
    assert lake.sql("SELECT name FROM sites ORDER BY v").fetchall() == [("one",), ("two",)]
    assert lake.sql("DESCRIBE sites").fetchall()
    error = refused("NO_TIME_COLUMN", lambda: lake.sql(STREAM.format(name="x", table="sites")))
    assert error.place is not None
    assert (error.place.line, error.place.column) == (1, STREAM.index("{table}") - len("{name}") + 2)
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS(FILL_HISTORY) INTO s_out AS "
        "SELECT _twstart AS w, min(s.name) AS a, max(s.name) AS z, count(*) AS n "
        "FROM t r JOIN sites s ON r.v = s.v WHERE r.at >= _twstart AND r.at < _twend"
    )
    lake.run()
    assert lake.sql("SELECT a, z, n FROM s_out").fetchall() == [("one", "two", 2)]
    lake.sql("INSERT INTO sites VALUES (12, 'twelve')")
    lake.sql("UPDATE sites SET name = 'II' WHERE v = 2")
    lake.sql("DELETE FROM sites WHERE v = 1")
    assert lake.sql("SELECT name FROM sites ORDER BY v").fetchall() == [("II",), ("twelve",)]


# --- times of other kinds ---

ZONE = ZoneInfo("Europe/Berlin")
KINDS: dict[str, tuple[str, pa.DataType, Callable[[datetime], object]]] = {
    "date": ("", pa.date32(), lambda at: at.date()),
    "timestamp_ntz": ("", pa.timestamp("us"), lambda at: at.astimezone(ZONE).replace(tzinfo=None)),
    "seconds": ("SECONDS", pa.int32(), lambda at: int(at.timestamp())),
    "milliseconds": ("MILLISECONDS", pa.int64(), lambda at: int(at.timestamp() * 1_000)),
}


@pytest.mark.parametrize(
    ("kind", "transport"),
    [("date", "arrow"), ("timestamp_ntz", "arrow"), ("seconds", "spark"), ("milliseconds", "spark")],
)
def test_times_of_other_kinds_work_to_the_end(
    tmp_path: Path, spark: SparkSession, kind: str, transport: Literal["arrow", "spark"]
) -> None:
    unit, arrow, of = KINDS[kind]
    hours = timedelta(hours=13)

    def rows(*numbers: int) -> pa.Table:
        at = pa.array([of(START + number * hours) for number in numbers], arrow)
        return pa.table({"at": at, "v": pa.array(numbers, pa.int64())})

    path = written(tmp_path / "t", rows(0, 1, 2, 3))
    settings = Settings(transport=transport, max_commits_per_tick=1, timezone=ZONE.key)
    with Lake(tmp_path / "lake", clock=ManualClock(START), spark=spark, settings=settings) as lake:
        lake.sql(f"CREATE TABLE t LOCATION '{path}' TIMESTAMP BY at {unit}")
        lake.sql(STREAM.format(name="s", table="t").replace("10s", "1d"))
        lake.run()
        written(path, rows(4, 5, 6, 1))
        DeltaTable(path).delete("v = 2")
        DeltaTable(path).update(predicate="v = 3", new_values={"v": 30})
        written(path, rows(40))
        lake.run()
        by_day: dict[date, list[int]] = {}
        for number, value in ((0, 0), (1, 1), (3, 30), (4, 4), (5, 5), (6, 6), (1, 1)):
            at = START + number * hours
            day = at.date() if kind == "date" else at.astimezone(ZONE).date()
            by_day.setdefault(day, []).append(value)
        expected = [
            (datetime(day.year, day.month, day.day, tzinfo=ZONE).astimezone(UTC), len(values), sum(values))
            for day, values in sorted(by_day.items())
        ]
        assert lake.sql("SELECT w, n, s FROM s_out WHERE n > 0 ORDER BY w").fetchall() == expected
        assert lake.verify("s").holds
        asked = "SELECT v FROM t WHERE at >= '2025-01-01 23:00:00' AND at < '2025-01-02 23:00:00' ORDER BY v"
        first = lake.sql(asked).fetchall()
        assert first == [(value,) for value in sorted(by_day[date(2025, 1, 2)])]
        for statement in (
            "DELETE FROM t WHERE v = 1",
            "UPDATE t SET v = 2 WHERE v = 1",
            "INSERT INTO t VALUES ('2025-01-01', 1)",
            "INSERT INTO t SELECT at, v FROM t",
        ):
            refused("NOT_SUPPORTED", lambda one=statement: lake.sql(one))  # type: ignore[misc]
        refused("NOT_SUPPORTED", lambda: lake.insert("t", [{"at": 0, "v": 1}]))


@pytest.mark.parametrize(
    ("kind", "transport"),
    [("date", "arrow"), ("date", "spark"), ("timestamp_ntz", "spark"), ("milliseconds", "arrow")],
)
def test_windows_and_joins_go_by_times_of_other_kinds(
    tmp_path: Path, spark: SparkSession, kind: str, transport: Literal["arrow", "spark"]
) -> None:
    unit, arrow, of = KINDS[kind]

    def rows(*days: int) -> pa.Table:
        at = pa.array([of(START + timedelta(days=day)) for day in days], arrow)
        return pa.table({"at": at, "v": pa.array(days, pa.int64())})

    def put(name: str, *days: int) -> Path:
        # Tables are mostly partitioned by a date, which the files do not hold.
        parts = ["at"] if kind == "date" else None
        path = tmp_path / name
        write_deltalake(path, rows(*days), mode="append", configuration=FEED, partition_by=parts)
        return path

    settings = Settings(transport=transport, timezone=ZONE.key)
    with Lake(tmp_path / "lake", clock=ManualClock(START), spark=spark, settings=settings) as lake:
        for name, days in (("t", (0, 1, 4)), ("u", (0, 4, 5, 9))):
            lake.sql(f"CREATE TABLE {name} LOCATION '{put(name, *days)}' TIMESTAMP BY at {unit}")
        shown = "STREAM_OPTIONS(FILL_HISTORY | EXACT) INTO {0}_out AS SELECT _twstart AS w, {1}"
        lake.sql("CREATE STREAM a SESSION(at, 1d) FROM t " + shown.format("a", "count(*) AS n FROM %%trows"))
        joined = "sum(u.v) AS s FROM t r JOIN u ON r.at = u.at WHERE r.at >= _twstart AND r.at < _twend"
        lake.sql("CREATE STREAM b INTERVAL(1d) SLIDING(1d) FROM t " + shown.format("b", joined))
        lake.run()
        put("t", 5, 9, 20)
        DeltaTable(tmp_path / "t").delete("v = 1")
        lake.run()
        put("u", 20)
        lake.sql("RECALCULATE STREAM b FROM '2025-01-01' TO '2025-01-09'; RECALCULATE STREAM a RESYNC")
        put("t", 40)
        lake.run()

        def output(name: str) -> list[tuple[int, int]]:
            found = lake.sql(f"SELECT w, {'n' if name == 'a' else 's'} FROM {name}_out ORDER BY w").fetchall()
            return [(round((w - START) / timedelta(days=1)), value) for w, value in found if value]

        assert output("a") == [(0, 1), (4, 2), (9, 1), (20, 1)]
        assert output("b") == [(4, 4), (5, 5), (9, 9), (20, 20)]
        assert lake.verify("a").holds
        assert lake.verify("b").holds
        into = STREAM.format(name="c", table="t").replace("c_out", "u")
        refused("OUTPUT_MISMATCH", lambda: lake.sql(into))


def test_a_time_that_its_owner_made_something_else_is_none(lake: Lake, tmp_path: Path) -> None:
    rows = readings(1, 12)
    days = rows.set_column(0, "at", pa.array([date(2025, 1, 1), date(2025, 1, 2)]))
    path, other = written(tmp_path / "t", days), written(tmp_path / "other", rows)
    lake.sql(f"CREATE TABLE t LOCATION '{path}' TIMESTAMP BY at; CREATE TABLE other LOCATION '{other}'")
    for name in ("t", "other"):
        lake.sql(STREAM.format(name=f"{name}s", table=name).replace("10s", "1d"))
    lake.run()
    changed = rows.set_column(0, "at", pa.array(["x", "y"]))
    write_deltalake(path, changed, mode="overwrite", schema_mode="overwrite", configuration=FEED)
    written(other, readings(86_400 * 2))
    lake.run()
    assert [(one.name, one.status) for one in lake.streams()] == [("others", "Running"), ("ts", "Failed")]
    assert lake.sql("SELECT n FROM others_out WHERE n > 0").fetchall() == [(2,)]
    assert lake.sql("SELECT at FROM t ORDER BY at").fetchall() == [("x",), ("y",)]
    write_deltalake(path, days, mode="overwrite", schema_mode="overwrite", configuration=FEED)
    lake.sql("RECALCULATE STREAM ts RESYNC")
    lake.run()
    assert lake.sql("SELECT n FROM ts_out").fetchall() == [(1,)]


def test_what_is_no_time_is_refused_where_it_stands(lake: Lake, tmp_path: Path) -> None:
    path = written(tmp_path / "t", readings(1, name=pa.array(["x"])))
    for column, unit in (("name", ""), ("v", ""), ("at", "SECONDS")):
        statement = f"CREATE TABLE t LOCATION '{path}' TIMESTAMP BY {column} {unit}"
        error = refused("TIME_COLUMN_TYPE", lambda s=statement: lake.sql(s))  # type: ignore[misc]
        assert error.place is not None
        assert error.place.column == statement.index(f"BY {column}") + 4
    assert lake.sql("SHOW TABLES").fetchall() == []
