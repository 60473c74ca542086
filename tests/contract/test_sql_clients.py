"""Queries as tools make them for PostgreSQL, answered by Spark: the rows are those that PostgreSQL gives."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.errors import StatementError
from lakestream.lake import Lake
from lakestream.server.postgres.forms import in_lakes_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakestream.settings import Settings

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE t (ts TIMESTAMP, g VARCHAR(10), v INT, day DATE);
INSERT INTO t VALUES ('2025-01-05 00:00:00', 'a', 1, '2025-01-05'), ('2025-01-05 00:04:59.5', 'b', 2, NULL),
  ('2025-01-05 01:07:00', 'a', 4, '2025-01-06')
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings) -> Iterator[Lake]:
    with Lake(str(tmp_path_factory.mktemp("clients") / "lake"), spark=spark, settings=settings) as lake:
        lake.sql(TABLES)
        yield lake


def at(hour: int, minute: int = 0, second: float = 0) -> datetime:
    return datetime(2025, 1, 5, hour, minute, int(second), int(second % 1 * 1_000_000), tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        # $__timeGroup, $__timeEpoch, $__timeGroup with TimescaleDB
        (
            'SELECT floor(extract(epoch from ts)/300)*300 AS "time", sum(v) FROM t GROUP BY 1 ORDER BY 1',
            [(1736035200, 3), (1736039100, 4)],
        ),
        ("SELECT max(extract(epoch from ts)) FROM t WHERE v = 2", [(1736035499.5,)]),
        ("SELECT extract(epoch from max(ts) - min(ts)) FROM t", [(4020.0,)]),
        ("SELECT extract(epoch from day) FROM t WHERE v = 1", [(1736035200.0,)]),
        (
            "SELECT time_bucket('300.000s',ts) AS time, count(*) FROM t GROUP BY 1 ORDER BY 1",
            [(at(0), 2), (at(1, 5), 1)],
        ),
        # time grains of Superset
        (
            "SELECT DATE_TRUNC('hour', ts) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM ts)/5) FROM t",
            [(at(0),), (at(0),), (at(1, 5),)],
        ),
        ("SELECT (timestamp 'epoch' + 1736035200 * interval '1 second')::timestamptz", [(at(0),)]),
        (
            "SELECT v FROM t WHERE ts >= TO_TIMESTAMP('2025-01-05 01:00:00.000', 'YYYY-MM-DD HH24:MI:SS.MS')",
            [(4,)],
        ),
        ("SELECT v FROM t WHERE day > TO_DATE('2025-01-05', 'YYYY-MM-DD')", [(4,)]),
        # Metabase's days of the week (a Sunday), weeks, and columns with their database and table
        ("SELECT extract(dow from ts)::int, extract(isodow from ts)::int FROM t WHERE v = 1", [(0, 7)]),
        (
            "SELECT (DATE_TRUNC('week', ts + INTERVAL '1 day') + INTERVAL '-1 day')::date FROM t LIMIT 1",
            [(date(2025, 1, 5),)],
        ),
        (
            'SELECT CAST("main"."t"."ts" AS date) FROM "main"."t" GROUP BY CAST("main"."t"."ts" AS date)',
            [(date(2025, 1, 5),)],
        ),
        ("SELECT min(ts AT TIME ZONE 'Asia/Tokyo') FROM t", [(at(9),)]),
        (
            "SELECT count(*) FROM t WHERE ts = timestamp '2025-01-05 09:00:00' AT TIME ZONE 'Asia/Tokyo'",
            [(1,)],
        ),
        # lengths of time as PostgreSQL writes them, and those that have months
        (
            "SELECT min(ts) + interval '1 day 02:03:04.5', max(ts) - '01:07:00'::interval FROM t",
            [(at(0) + timedelta(days=1, hours=2, minutes=3, seconds=4.5), at(0))],
        ),
        (
            "SELECT interval '1 year 2 mons' a, interval '-1 mon' a, make_interval(0, 1), '1h'::interval",
            [("1 years 2 months", "-1 months", "1 months", timedelta(hours=1))],
        ),
        # and by hand
        ("SELECT round(avg(v)::numeric, 2)::text FROM t", [("2.33",)]),
        (
            "SELECT g, v FROM (SELECT DISTINCT ON (g) g, v FROM t ORDER BY g, ts DESC) q ORDER BY g",
            [("a", 4), ("b", 2)],
        ),
        ("SELECT v FROM t WHERE g ~* '^A' AND g <> ALL('{b,c}'::text[]) AND v = ANY(ARRAY[4, 5])", [(4,)]),
        (
            """SELECT s, count(v) FROM generate_series('2025-01-05'::timestamp,
            '2025-01-05 02:00'::timestamp, '1 hour') AS s LEFT JOIN t ON date_trunc('hour', ts) = s
            GROUP BY s ORDER BY s""",
            [(at(0), 2), (at(1), 1), (at(2), 0)],
        ),
    ],
)
def test_rows_are_postgresqls(lake: Lake, asked: str, given: list[tuple[Any, ...]]) -> None:
    assert lake.sql(in_lakes_words(asked, "main") or asked).fetchall() == given


MANY = "SELECT id, id / 7 AS v, CAST(id AS STRING) AS s, TIMESTAMP_SECONDS(id) AS ts FROM range(300000)"


@pytest.mark.parametrize(
    "asked",
    [
        MANY,
        f"{MANY} ORDER BY v DESC",
        f"SELECT s, count(*) AS n, max(ts) AS ts FROM ({MANY}) GROUP BY s",
        "SELECT id AS a, array(id) AS a, make_interval(0, 1) FROM range(3)",
        "SELECT id FROM range(3) WHERE id > 5",
    ],
)
def test_rows_that_come_in_parts_are_those_of_the_whole(lake: Lake, asked: str) -> None:
    reader, whole = lake.sql(asked, in_parts=True).to_reader(), lake.sql(asked).to_arrow()
    parts = reader.read_all()
    assert parts.schema == whole.schema
    assert parts.equals(whole) or sorted(map(str, parts.to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_what_fails_behind_rows_that_were_given_is_told(lake: Lake) -> None:
    asked = "SELECT assert_true(id < 299999), id FROM range(0, 300000, 1, 8)"
    reader = lake.sql(asked, in_parts=True).to_reader()
    assert reader.read_next_batch().num_rows > 0
    with pytest.raises(StatementError, match="QUERY_INVALID"):
        reader.read_all()
    assert lake.sql("SELECT count(*) FROM range(10)").fetchall() == [(10,)]
