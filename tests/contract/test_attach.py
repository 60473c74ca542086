"""A Delta table of others becomes one of the lake by ``attach``, and its first stream runs as it stands."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.cli import cli
from lakestream.engine.planning.planner import table_size
from lakestream.storage.delta import Table

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result as Outcome
    from pyspark.sql import SparkSession

START = datetime(2025, 1, 1, tzinfo=UTC)


def write(path: Path, times: list[datetime | None] | None = None, **columns: list[Any]) -> None:
    count = len(next(iter(columns.values())))
    at = [START + timedelta(minutes=20 * row) for row in range(count)] if times is None else times
    write_deltalake(
        str(path), pa.table({**columns, "at": pa.array(at, pa.timestamp("us", "UTC"))}), mode="append"
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def call(lake: Lake, *arguments: str) -> Outcome:
    return CliRunner().invoke(cli, ["--lake", lake.root, *arguments])


def attached(lake: Lake, path: Path, *arguments: str) -> dict[str, Any]:
    outcome = call(lake, "--yes", "--output", "json", "attach", str(path), *arguments)
    assert outcome.exit_code == 0, outcome.output
    answer: dict[str, Any] = json.loads(outcome.stdout)
    return answer


def test_nothing_is_done_without_a_yes(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "sensors", site=["a", "b"])
    outcome = call(lake, "attach", str(tmp_path / "sensors"))
    assert outcome.exit_code == 2
    assert "time     at\n" in outcome.stdout
    assert "CONFIRMATION_NEEDED" in outcome.stderr
    assert "switch its change data feed on" in outcome.stderr
    assert DeltaTable(str(tmp_path / "sensors")).version() == 0
    assert lake.sql("SHOW TABLES").fetchall() == []


@pytest.mark.parametrize("name", ["sensors", "sen'sors 1", "größe"])
def test_a_yes_attaches_the_table(lake: Lake, tmp_path: Path, name: str) -> None:
    write(tmp_path / name, site=["a", "b"] * 3, celsius=[0.5 * row for row in range(6)])
    outcome = call(lake, "--yes", "attach", str(tmp_path / name))
    assert outcome.exit_code == 0, outcome.output
    assert "A first stream, which can be run as it stands:" in outcome.stdout
    assert len(lake.sql("SHOW TABLES").fetchall()) == 1
    assert DeltaTable(str(tmp_path / name)).metadata().configuration["delta.enableChangeDataFeed"] == "true"


def test_what_is_no_delta_table_is_refused(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in ("folder", "nowhere"):
        outcome = call(lake, "--yes", "attach", str(tmp_path / path))
        assert (outcome.exit_code, "error[TABLE_NOT_FOUND]" in outcome.stderr) == (74, True)


COLUMNS: dict[str, tuple[dict[str, list[Any]], str | None, str | None]] = {
    "a site and a measure": ({"site": ["a", "b", "a", "b"], "v": [1.0, 2.0, 3.0, 4.0]}, "site", "v"),
    "a column of names is no group": ({"id": ["a", "b", "c", "d"], "v": [1.0, 2.0, 3.0, 4.0]}, None, "v"),
    "numbers of rows are no measure": ({"id": [1, 2, 3, 4], "n": [5, 5, 6, 6]}, None, "n"),
    "a fraction before a whole number": ({"n": [1, 1, 2, 2], "v": [1.5, 2.5, 3.5, 4.5]}, None, "v"),
    "nothing but times": ({"flag": [True, False, True, False]}, None, None),
    "odd names": ({"my `site`": ["a", "b", "a", "b"], "°C": [1.0, 2.0, 3.0, 4.0]}, "my `site`", "°C"),
}


@pytest.mark.parametrize(("columns", "group", "number"), COLUMNS.values(), ids=COLUMNS)
def test_columns_of_the_first_stream_are_chosen_by_looking(
    lake: Lake, tmp_path: Path, columns: dict[str, list[Any]], group: str | None, number: str | None
) -> None:
    write(tmp_path / "t", **columns)
    answer = attached(lake, tmp_path / "t")
    assert (answer["table"]["group"], answer["table"]["number"]) == (group, number)


def test_a_time_without_nulls_is_taken_first(lake: Lake, tmp_path: Path) -> None:
    zone = pa.timestamp("us", "UTC")
    some, every = pa.array([None, START], zone), pa.array([START, START], zone)
    write_deltalake(str(tmp_path / "t"), pa.table({"shipped": some, "ordered": every}))
    assert attached(lake, tmp_path / "t")["table"]["times"] == ["ordered", "shipped"]


NAIVE = [datetime(2025, 1, 1), datetime(2025, 1, 2)]  # noqa: DTZ001 - what has no zone
KINDS: dict[str, tuple[pa.Array, str | None, str]] = {
    "no zone": (pa.array(NAIVE, pa.timestamp("us")), None, "1h"),
    "days": (pa.array([at.date() for at in NAIVE]), None, "1d"),
    "seconds": (pa.array([1_735_689_600, 1_735_776_000], pa.int32()), "SECONDS", "1h"),
    "milliseconds": (pa.array([1_735_689_600_000, 1_735_776_000_000]), "MILLISECONDS", "1h"),
    "microseconds": (pa.array([1_735_689_600_000_000, 1_735_776_000_000_000]), "MICROSECONDS", "1h"),
}


@pytest.mark.parametrize(("values", "unit", "window"), KINDS.values(), ids=KINDS)
def test_a_time_of_another_kind_is_found(
    lake: Lake, tmp_path: Path, values: pa.Array, unit: str | None, window: str
) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": pa.array([7, 8]), "at": values}))
    answer = attached(lake, tmp_path / "t")
    assert (answer["table"]["times"], answer["table"]["unit"]) == (["at"], unit)
    assert f"INTERVAL({window})" in answer["stream"]
    assert lake.sql("DESCRIBE t").fetchall()[1][1].upper() == "TIMESTAMP"


def test_a_number_is_a_time_where_that_is_said(lake: Lake, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"n": pa.array([7, 8])}))
    assert attached(lake, tmp_path / "t", "--name", "u")["stream"] is None
    lake.sql("DROP TABLE u")
    outcome = call(lake, "--yes", "attach", str(tmp_path / "t"), "--time", "n")
    assert (outcome.exit_code, "error[TIME_COLUMN_TYPE]" in outcome.stderr) == (2, True)
    assert "FROM `t`" in attached(lake, tmp_path / "t", "--time", "n", "--unit", "seconds")["stream"]


TIMES: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    "a field": (("--time", "meta.at"), "meta.at", "at by meta.at", "1h"),
    "a date in a struct": (("--time", "meta.day AS d"), "meta.day AS d", "d by meta.day", "1d"),
    "a number": (
        ("--time", "meta.ms", "--unit", "milliseconds"),
        "meta.ms MILLISECONDS",
        "ms by meta.ms MILLISECONDS",
        "1m",
    ),
    "a text": (
        ("--time", "it's day", "--format", "dd.mm.yyyy"),
        "`it's day` FORMAT 'dd.mm.yyyy'",
        "it's day by `it's day` FORMAT 'dd.mm.yyyy'",
        "1d",
    ),
    "a text of the standard": (
        ("--time", "iso", "--format", "iso8601"),
        "`iso` FORMAT ISO8601",
        "iso by `iso` FORMAT ISO8601",
        "1d",
    ),
}


def write_texts(path: Path) -> None:
    times = (START, START + timedelta(hours=8))
    rows = [{"at": at, "day": START.date(), "ms": 1_735_689_600_000} for at in times]
    texts = {"it's day": ["01.01.2025", "02.01.2025"], "iso": ["2025-01-01", "2025-01-02T08:00:00Z"]}
    kind = pa.struct({"at": pa.timestamp("us", "UTC"), "day": pa.date32(), "ms": pa.int64()})
    write_deltalake(str(path), pa.table({"meta": pa.array(rows, kind), **texts}))


@pytest.mark.parametrize(("options", "by", "said", "window"), TIMES.values(), ids=TIMES)
def test_a_time_is_what_timestamp_by_knows(
    lake: Lake, tmp_path: Path, options: tuple[str, ...], by: str, said: str, window: str
) -> None:
    write_texts(tmp_path / "t")
    answer = attached(lake, tmp_path / "t", *options)
    statement = f"CREATE TABLE `t` LOCATION '{tmp_path / 't'}' TIMESTAMP BY {by}"
    assert answer["statement"] == statement
    assert f"INTERVAL({window})" in answer["stream"]
    status, found = checks(lake, "t")
    assert (status, found["time"][1].partition(";")[0]) == (0, said)
    lake.sql("DROP TABLE t")
    shown = call(lake, "--yes", "attach", str(tmp_path / "t"), *options)
    assert f"time     {said}" in shown.stdout
    assert f"\nruns     {statement}\nattached" in shown.stdout


@pytest.mark.spark
def test_a_time_is_what_an_expression_gives(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    write_texts(tmp_path / "t")
    answer = attached(lake, tmp_path / "t", "--time", "(to_timestamp(iso, 'yyyy-mm-dd'))")
    assert answer["table"]["times"] == ["ts"]
    assert checks(lake, "t")[1]["time"][1].startswith("ts by (to_timestamp(iso, 'yyyy-mm-dd'));")
    with Lake(lake.root, spark=spark) as opened:
        opened.sql(answer["stream"])
        assert not opened.run().failed
        assert opened.verify("t_per_day_stream").holds


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("TIME_FORMAT", ("--time", "iso", "--format", "yyyy-MM")),
        ("TIME_COLUMN_TYPE", ("--time", "meta.ms")),
        ("COLUMN_NOT_FOUND", ("--time", "meta.no")),
        ("STATEMENT_COUNT", ("--time", "iso; DROP TABLE t")),
        ("SYNTAX", ("--time", "meta.at LOCATION 'x'")),
    ],
)
def test_a_wrong_time_is_refused_where_the_statement_has_it(
    lake: Lake, tmp_path: Path, code: str, options: tuple[str, ...]
) -> None:
    write_texts(tmp_path / "t")
    outcome = call(lake, "--yes", "attach", str(tmp_path / "t"), *options)
    assert (outcome.exit_code, f"error[{code}]" in outcome.stderr) == (2, True), outcome.stderr
    assert lake.sql("SHOW TABLES").fetchall() == []


def test_a_path_or_a_name_is_wanted(lake: Lake, tmp_path: Path) -> None:
    wrong = {
        (): "--using-table",
        (str(tmp_path), "--using-table", "a.b.c"): "--using-table",
        (str(tmp_path), "--format", "ISO8601"): "--time",
    }
    for arguments, said in wrong.items():
        outcome = call(lake, "attach", *arguments)
        assert (outcome.exit_code, said in outcome.stderr) == (2, True)


@pytest.mark.spark
def test_a_table_is_attached_by_its_name_in_a_catalog(
    lake: Lake, tmp_path: Path, spark: SparkSession
) -> None:
    path, name = tmp_path / "readings", "spark_catalog.default.`2025_readings`"
    write(path, site=["a", "b"] * 3, celsius=[0.5 * row for row in range(6)])
    spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    try:
        outcome = call(lake, "--yes", "--output", "json", "attach", "--using-table", name)
        assert outcome.exit_code == 0, outcome.output
        answer = json.loads(outcome.stdout)
        assert answer["statement"] == f"CREATE TABLE `2025_readings` USING TABLE {name} TIMESTAMP BY `at`"
        assert answer["table"]["path"] == str(path)
        assert answer["message"] == f"attached {path} as main.2025_readings"
        found = checks(lake, "2025_readings")[1]
        assert found["name"][1].startswith(name)
        assert found["time"] == ("ok", "at")
        outcome = call(lake, "--yes", "attach", "--using-table", "default.nosuch")
        assert "error[CATALOG_TABLE_NOT_FOUND]" in outcome.stderr
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_a_table_whose_files_are_gone_is_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "t", site=["a", "b"])
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    outcome = call(lake, "--yes", "attach", str(tmp_path / "t"))
    assert (outcome.exit_code, "error[READ_FAILED]" in outcome.stderr) == (74, True), outcome.stderr


def test_what_the_statement_would_refuse_is_not_asked_about(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "t", v=[1.0])
    lake.sql("CREATE TABLE u (ts TIMESTAMP, n INT)")
    for code, arguments in (
        ("TABLE_EXISTS", ("--name", "u")),
        ("COLUMN_NOT_FOUND", ("--time", "no")),
        ("TIME_COLUMN_TYPE", ("--time", "v")),
    ):
        outcome = call(lake, "attach", str(tmp_path / "t"), *arguments)
        assert (outcome.exit_code, f"error[{code}]" in outcome.stderr) == (2, True), outcome.stderr
    outcome = call(lake, "attach", f"{lake.root}/main/u", "--name", "v")
    assert "error[LOCATION_IN_LAKE]" in outcome.stderr


@pytest.mark.parametrize(("days", "window"), [(0.1, "1m"), (0.5, "1h"), (8, "1h"), (9, "1d"), (4_000, "1d")])
def test_windows_are_some_hundred_at_most(lake: Lake, tmp_path: Path, days: float, window: str) -> None:
    write(tmp_path / "t", [START, START + timedelta(days=days)], v=[1.0, 2.0])
    assert f"INTERVAL({window})" in attached(lake, tmp_path / "t")["stream"]


@pytest.mark.spark
def test_the_first_stream_runs_as_it_stands(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "sensors", site=["a", "b"] * 6, celsius=[0.5 * row for row in range(12)])
    stream = attached(lake, tmp_path / "sensors")["stream"]
    with Lake(lake.root, spark=spark) as opened:
        opened.sql(stream)
        assert not opened.run().failed
        verification = opened.verify("sensors_per_hour_stream")
        assert verification.holds
        assert verification.equal_rows > 0


ODD = [
    "a b", " a", "a ", "a.b", "a,b", "a;b", "a{b}", "a(b)", "a=b", "`a`", "a'b", 'a"b', "Temp °C", "größe",
    "order", "select", "from", "n", "N", "minute_begin", "Minute_Begin", "mean_v",
    "_ls_a", "a/b", "a\\b", "--a", "/*a*/", "1", "1a", "mean v", "ts", "x" * 128, "😀", "true", "null",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_the_first_stream_runs_whatever_columns_are_called(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    site, value, at, table = draw.sample(ODD, 4)
    name = {"n": "at", "N": "at"}.get(at, at)
    times = pa.array([START + timedelta(seconds=20 * row) for row in range(12)], pa.timestamp("us", "UTC"))
    columns = {site: ["a", "b"] * 6, value: [0.5 * row for row in range(12)], name: times}
    path = tmp_path / re.sub(r"[/\\%]|^ | $", "_", table)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr("pyspark.sql.SparkSession.builder")
        write_deltalake(str(path), pa.table(columns))
        with Lake(tmp_path / "lake") as opened:
            opened.sql(attached(opened, path, "--name", f"t_{seed}")["stream"])
            assert not opened.run().failed, columns.keys()
            assert len(opened.sql(f"SELECT * FROM t_{seed}_per_minute").fetchall()) == 6


# --- doctor TABLE ---


def checks(lake: Lake, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    outcome = call(lake, "--output", "json", "doctor", *arguments)
    answer = json.loads(outcome.stdout)["checks"]
    return outcome.exit_code, {check["name"]: (check["verdict"], check["found"]) for check in answer}


def test_the_doctor_says_what_a_table_can_be_used_for(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "t", site=["a", "a", "b", "b"], v=[1.0, 1.0, 2.0, 3.0])
    write(tmp_path / "t", [START, None], site=["a", "a"], v=[1.0, 1.0])
    attached(lake, tmp_path / "t")
    status, found = checks(lake, "t")
    assert status == 0
    assert found["time"] == ("warning", "at is NULL in 1 row")
    assert found["feed"][0] == found["reads"][0] == found["writes"][0] == "ok"
    assert "6 rows to read, 61 windows of 1m for each site" in found["history"][1]
    assert found["repeated"] == ("warning", "1 rows are there more than once")
    assert "repeated" not in checks(lake, "main.t", "--skip-keys")[1]


def test_the_doctor_says_what_a_made_time_costs(lake: Lake, tmp_path: Path) -> None:
    text = [f"2025-01-0{day}" for day in (1, 2)]
    inner = pa.array([{"at": START}, {"at": None}], pa.struct({"at": pa.timestamp("us", "UTC")}))
    feed = {"delta.enableChangeDataFeed": "true"}
    for name in ("t", "u"):
        write_deltalake(str(tmp_path / name), pa.table({"day": text, "meta": inner}), configuration=feed)
    lake.sql(f"CREATE TABLE t LOCATION '{tmp_path / 't'}' TIMESTAMP BY day FORMAT 'yyyy-mm-dd'")
    lake.sql(f"CREATE TABLE u LOCATION '{tmp_path / 'u'}' TIMESTAMP BY meta.at")
    status, found = checks(lake, "t")
    assert status == 0
    cost = "no statistics tell it: what is computed again reads all files"
    assert found["time"] == ("ok", f"day by day FORMAT 'yyyy-mm-dd'; {cost}")
    assert found["reads"] == ("ok", "by Spark, for its time")
    assert found["history"] == ("ok", "2 rows to read; no statistics tell their times")
    status, found = checks(lake, "u")
    assert found["time"] == ("warning", "at by meta.at is NULL in 1 row")
    assert found["reads"][1].startswith("without Spark")
    assert "1 window" in found["history"][1]


def test_the_doctor_finds_a_feed_that_is_off(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "t", v=[1.0])
    attached(lake, tmp_path / "t")
    off = {"delta.enableChangeDataFeed": "false"}
    DeltaTable(str(tmp_path / "t")).alter.set_table_properties(off)
    status, found = checks(lake, "t")
    assert (status, found["feed"][0]) == (1, "wrong")


def test_the_doctor_looks_at_keys_of_tables_of_the_lake(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT)")
    lake.insert("t", [{"ts": 0, "n": 1}])
    assert checks(lake, "t")[1]["repeated"] == ("ok", "no keys (ts) in more than one row")


def test_the_doctor_knows_no_such_table(lake: Lake) -> None:
    outcome = call(lake, "doctor", "t")
    assert (outcome.exit_code, "error[TABLE_NOT_FOUND]" in outcome.stderr) == (2, True)


def test_rows_that_no_statistics_count_are_not_said_to_be_none(lake: Lake, tmp_path: Path) -> None:
    write(tmp_path / "t", v=[1.0, 2.0])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)))
    assert attached(lake, tmp_path / "t")["table"]["rows"] is None
    found = checks(lake, "t")[1]
    assert "version 1: rows that no statistics count, " in found["table"][1]
    assert found["history"] == ("ok", "rows that no statistics count to read; no statistics tell their times")
    assert table_size(Table.open(str(tmp_path / "t")), 1).rows > 0
