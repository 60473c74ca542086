"""Tables with each feature that Delta has, changed by their owners: a stream equals Spark's own GROUP BY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.errors import LakestreamError
from lakestream.storage.tables.checkpoints import disagreement, newest_checkpoint
from tests.contract.foreign_tables import FEED, MAKERS, MAPPING, REPLACED, SECOND, THIRD, Maker, Owner
from tests.tiers import leaving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXACT = "STREAM_OPTIONS(FILL_HISTORY | EXACT | IGNORE_NODATA_TRIGGER)"
SOURCE = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY {groups} " + EXACT + " INTO s_out AS "
    "SELECT _twstart AS w, count(*) AS n, sum(v) AS s, {use} AS u FROM %%trows"
)
LOOKUP = (
    "CREATE STREAM l INTERVAL(1m) SLIDING(1m) FROM own INTO l_out AS "
    "SELECT _twstart AS w, count(*) AS n, sum(t.v) AS s FROM own o JOIN t ON o.ts = t.at "
    "WHERE o.ts >= _twstart AND o.ts < _twend"
)
BATCH = (
    "SELECT * EXCEPT (newest) FROM ("
    "SELECT timestamp_seconds(unix_seconds(CAST(at AS TIMESTAMP)) div 10 * 10) AS w, count(*) AS n, "
    "sum(v) AS s, {use} AS u, {names}, any_value(newest) AS newest FROM ("
    "SELECT *, max(at) OVER (PARTITION BY {names}) AS newest FROM (SELECT {all} FROM {{t}}) "
    "WHERE at IS NOT NULL) GROUP BY 1, {names}) WHERE w + INTERVAL 10 SECONDS <= newest"
)


class Table:
    """A table of others under the name ``t`` in a lake, with a stream from it and one that looks it up."""

    def __init__(self, root: Path, spark: SparkSession, maker: Maker, small_rows: int) -> None:
        self.maker = maker
        self.owner = Owner(spark, root / "theirs")
        self.owner.sql(*maker.statements())
        if maker.begins_late:
            self.owner.forget()
        self.lake = Lake(
            root / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
        )
        self.lake.sql(f"CREATE TABLE t LOCATION '{root / 'theirs'}'; CREATE TABLE own (ts TIMESTAMP, k INT)")
        self.lake.sql(LOOKUP)

    def begin(self) -> None:
        """Create the stream from the table."""
        self.lake.sql(SOURCE.format(groups=self.maker.groups, use=self.maker.use))

    def follow(self, *changes: str) -> None:
        """Let the owner change the table, and hold the output against Spark's own GROUP BY over it."""
        self.owner.sql(*changes)
        self.lake.run()
        assert [(s.name, s.last_error) for s in self.lake.streams() if s.last_error] == []
        keys = [key.partition(" AS ") for key in self.maker.groups.split(", ")]
        names = ", ".join(name or sql for sql, _, name in keys)
        everything = ", ".join(["*", *(f"{sql} AS {name}" for sql, _, name in keys if name)])
        batch = BATCH.format(use=self.maker.use, names=names, all=everything)
        found = self.lake.sql(f"SELECT w, n, s, u, {names} FROM s_out").fetchall()
        expected = [tuple(row.values()) for row in self.owner.query(batch).toArrow().to_pylist()]
        assert _sorted(found) == _sorted(expected)
        assert found

    def look_up(self) -> None:
        """Hold the stream that looks the table up against Spark's own rows of it."""
        times = "'2025-01-01 00:00:01', '2025-01-01 00:00:03', '2025-01-01 00:00:25'"
        values = " ".join(f"({time}, 1)" for time in (*times.split(", "), "'2025-01-01 00:02:00'"))
        self.lake.sql(f"INSERT INTO own VALUES {values}")
        self.lake.run()
        assert [(s.name, s.last_error) for s in self.lake.streams() if s.last_error] == []
        batch = f"SELECT count(*), CAST(sum(v) AS BIGINT) FROM {{t}} WHERE at IN ({times})"
        expected = [tuple(row) for row in self.owner.query(batch).collect()]
        assert self.lake.sql("SELECT n, s FROM l_out WHERE n > 0").fetchall() == expected


def _sorted(found: list[tuple[object, ...]]) -> list[str]:
    """Return rows in an order, NaN beside NaN; Spark's SQL fills a CHAR with blanks where it reads one."""
    return sorted(str([one.rstrip(" ") if isinstance(one, str) else one for one in row]) for row in found)


ALWAYS = {
    *("vectors", "by_day", "by_time", "mapping_by_name", "mapping_and_vectors", "widened", "clustered"),
    *("log_begins_late", "generated", "variant_used", "decimals", "char", "no_times", "numbers"),
    *("vacuum_check", "odd_folders", "restored", "evolved", "clone_with_vectors", "year_9999"),
}
CASES = [(name, (1000, 1000, 0, 0)[number % 4]) for number, name in enumerate(MAKERS)]


@pytest.mark.parametrize(("name", "small_rows"), leaving(CASES, lambda case: case[0] not in ALWAYS))
def test_a_stream_equals_sparks_own_group_by(
    name: str, small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    maker = MAKERS[name]
    table = Table(tmp_path, spark, maker, small_rows)
    with table.lake as lake:
        if maker.refused:
            with pytest.raises(LakestreamError) as refused:
                table.begin()
            assert refused.value.code == maker.refused
            return
        table.begin()
        table.follow()
        table.follow(maker.insert(*SECOND))
        table.follow(maker.merged())
        table.follow("UPDATE {t} SET v = v + 1000 WHERE v = 5", "DELETE FROM {t} WHERE v = 2")
        table.follow("OPTIMIZE {t}", "ALTER TABLE {t} ADD COLUMN added INT", maker.insert(*THIRD))
        table.follow(*maker.after)
        table.look_up()
        assert lake.verify("s").holds
        assert lake.sql("SELECT count(v) FROM t").fetchall()


SPARKS = (
    "vectors_restored",
    "mapping_and_vectors",
    "checkpoints",
    "odd_folders",
    "clone_in_folders",
    "v2_checkpoints",
)


@pytest.mark.long
@pytest.mark.parametrize("name", SPARKS)
def test_checkpoints_of_spark_agree_with_their_logs(name: str, tmp_path: Path, spark: SparkSession) -> None:
    maker, owner = MAKERS[name], Owner(spark, tmp_path / "t")
    owner.sql(*maker.statements(), "ALTER TABLE {t} SET TBLPROPERTIES (delta.checkpointInterval = 2)")
    for statement in (maker.insert(*SECOND), maker.merged(), "DELETE FROM {t} WHERE v = 2", *maker.after):
        owner.sql(statement)
        assert disagreement(str(tmp_path / "t")) is None
    assert bool(newest_checkpoint(str(tmp_path / "t"))) == (name != "v2_checkpoints")


def _state(lake: Lake, stream: str) -> tuple[str, str]:
    """Return the status of a stream, and the code of its error."""
    found = next(one for one in lake.streams() if one.name == stream)
    return found.status, (found.last_error or "").partition(":")[0]


def _error(lake: Lake, stream: str) -> str:
    return next(one.last_error or "" for one in lake.streams() if one.name == stream)


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_rows_that_were_written_while_the_feed_was_off_need_a_resync(
    small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    table = Table(tmp_path, spark, maker := Maker(), small_rows)
    with table.lake as lake:
        table.begin()
        table.follow()
        table.owner.sql(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED} = false)",
            maker.insert(*SECOND),
            "DELETE FROM {t} WHERE v = 2",
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED} = true)",
            maker.insert(*THIRD),
        )
        lake.run()
        assert _state(lake, "s") == ("Failed", "CHANGE_FEED_OFF")
        lake.sql("RECALCULATE STREAM s RESYNC")
        table.follow()
        table.follow(maker.merged())
        table.look_up()
        assert lake.verify("s").holds


def test_a_table_that_its_owner_replaces_is_another(tmp_path: Path, spark: SparkSession) -> None:
    table = Table(tmp_path, spark, Maker(), 1000)
    with table.lake as lake:
        table.begin()
        table.follow()
        table.owner.sql(*REPLACED)
        lake.run()
        assert _state(lake, "s") == ("Failed", "SOURCE_REPLACED")
        lake.sql("RECALCULATE STREAM s RESYNC")
        table.follow()
        assert lake.verify("s").holds


def test_a_widened_column_is_taken_by_a_resync_where_results_keep_their_types(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = Table(tmp_path, spark, Maker(v="v SMALLINT", properties="delta.enableTypeWidening = true"), 1000)
    with table.lake as lake:
        table.begin()
        total = SOURCE.format(groups="site", use="count(v)").replace("STREAM s", "STREAM n")
        lake.sql(total.replace("s_out", "n_out"))
        lake.run()
        table.owner.sql("ALTER TABLE {t} ALTER COLUMN v TYPE INT", table.maker.insert(*SECOND))
        lake.run()
        for stream in ("n", "s"):
            assert _state(lake, stream) == ("Failed", "SOURCE_SCHEMA_CHANGED")
        errors = [one.last_error or "" for one in lake.streams() if one.name in ("n", "s")]
        assert all("where the results keep their types" in error for error in errors)
        lake.sql("RECALCULATE STREAM n RESYNC")
        with pytest.raises(LakestreamError, match="SOURCE_SCHEMA_CHANGED"):
            lake.sql("RECALCULATE STREAM s RESYNC")
        lake.run()
        assert _state(lake, "n") == ("Running", "")
        assert lake.verify("n").holds
        assert lake.sql("SELECT sum(s) FROM n_out").fetchall() == [(38,)]


@pytest.mark.parametrize("small_rows", [1000, 0])
@pytest.mark.parametrize("anew", [False, True])
def test_a_column_that_a_looked_up_table_loses_stops_until_it_is_back(
    small_rows: int, anew: bool, tmp_path: Path, spark: SparkSession
) -> None:
    table = Table(tmp_path, spark, Maker(columns="x INT", properties=f"{MAPPING}'name'"), small_rows)
    lake, settings = table.lake, Settings(duckdb_memory=0, small_rows=small_rows)
    own = (
        "CREATE STREAM z INTERVAL(1m) SLIDING(1m) FROM own INTO z_out AS SELECT _twstart AS w, count(*) AS n"
    )
    lake.sql(f"{own} FROM %%trows")
    at = "('2025-01-01 00:0{0}:01', 1) ('2025-01-01 00:0{0}:05', 1)"
    lake.sql(f"INSERT INTO own VALUES {at.format(0)} {at.format(1)}")
    lake.run()
    # What does not use it goes on; what does is stopped before it plans anything that could not be read.
    table.owner.sql("ALTER TABLE {t} RENAME COLUMN v TO w", "ALTER TABLE {t} DROP COLUMN x")
    if anew:
        lake.close()
        lake = Lake(lake.root, spark=spark, settings=settings)
    with lake:
        lake.sql(f"INSERT INTO own VALUES {at.format(2)}")
        lake.run()
        assert _state(lake, "l") == ("Failed", "TABLE_SCHEMA_CHANGED")
        assert _state(lake, "z") == ("Running", "")
        lake.sql("START STREAM l")
        lake.run()
        assert _state(lake, "l") == ("Failed", "TABLE_SCHEMA_CHANGED")
        error = next(one.last_error for one in lake.streams() if one.name == "l")
        assert "the column v" in (error or "")
        assert "START STREAM main.l" in (error or "")
        table.owner.sql("ALTER TABLE {t} RENAME COLUMN w TO v")
        lake.sql("START STREAM l")
        lake.run()
        assert _state(lake, "l") == ("Running", "")
        assert lake.verify("l").holds
        assert lake.sql("SELECT n, s FROM l_out ORDER BY w").fetchall() == [(2, 4), (0, None)]


@pytest.mark.parametrize(("small_rows", "anew"), [(1000, False), (0, True)])
def test_a_looked_up_column_of_another_type_stops_what_it_does_not_go_on_with(
    small_rows: int, anew: bool, tmp_path: Path, spark: SparkSession
) -> None:
    table = Table(
        tmp_path, spark, Maker(v="v SMALLINT", properties="delta.enableTypeWidening = true"), small_rows
    )
    lake, settings = table.lake, Settings(duckdb_memory=0, small_rows=small_rows)
    lake.sql(LOOKUP.replace("STREAM l", "STREAM m").replace("l_out", "m_out").replace("sum(t.v)", "max(t.v)"))

    def write(minute: int) -> None:
        times = (f"'2025-01-01 00:0{minute}:0{second}'" for second in (1, 5))
        lake.sql(f"INSERT INTO own VALUES {' '.join(f'({time}, 1)' for time in times)}")
        lake.run()

    def retype(kind: str) -> None:
        rows = table.owner.query(f"SELECT at, site, CAST(v AS {kind}) AS v FROM {{t}}").collect()
        frame = spark.createDataFrame(rows, f"at TIMESTAMP, site STRING, v {kind}")
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
            str(tmp_path / "theirs")
        )

    write(0)
    write(1)
    assert lake.sql("SELECT s FROM l_out").fetchall() == [(4,)]
    # All values are held still, and the sum is what it was; the greatest value is of the new type.
    table.owner.sql(
        "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
        "INSERT INTO {t} VALUES (TIMESTAMP '2025-01-01 00:01:01', 'a', 70000)",
    )
    if anew:
        lake.close()
        lake = Lake(lake.root, spark=spark, settings=settings)
    with lake:
        write(2)
        assert _state(lake, "l") == ("Running", "")
        assert lake.sql("SELECT s FROM l_out ORDER BY w").fetchall() == [(4,), (70000,)]
        assert _state(lake, "m") == ("Failed", "TABLE_SCHEMA_CHANGED")
        assert "int where the stream has smallint" in _error(lake, "m")
        retype("STRING")
        for _ in range(2):
            write(3)
            assert _state(lake, "l") == ("Failed", "TABLE_SCHEMA_CHANGED")
            assert "the column v, which the stream reads, became string instead of int" in _error(lake, "l")
            lake.sql("START STREAM l")
        retype("INT")
        lake.run()
        assert _state(lake, "l") == ("Running", "")
        assert lake.sql("SELECT count(*) FROM l_out").fetchall() == [(3,)]
