"""The small session: what it answers of Spark's SQL, and what it leaves to Spark."""

from __future__ import annotations

import os
import resource
import signal
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.storage.small import session as sessions
from lakestream.storage.small.dialect.query import duckdb_sql
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.macros import _HEADS as HEADS
from lakestream.storage.small.macros import _MACROS, Macros
from lakestream.storage.small.session import FEW_ROWS, Room, SmallSession, large_room

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


BODIES = {name: _MACROS[head] for name, head in HEADS.items()}


@pytest.fixture(scope="module")
def session() -> Iterator[SmallSession]:
    session = SmallSession()
    yield session
    session.close()


def one(session: SmallSession, sql: str) -> Any:
    return session.sql(f"SELECT {sql} AS x").toArrow()["x"][0].as_py()


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ("range(3)", [0, 1, 2]),
        ("range(2, 4) r", [2, 3]),
        ("range(5, 1, -2)", [5, 3]),
        ("range(-3)", []),
        ("range(2) AS r(id)", [0, 1]),
    ],
)
def test_ranges_have_their_numbers(session: SmallSession, said: str, numbers: list[int]) -> None:
    assert session.sql(f"SELECT id FROM {said}").toArrow()["id"].to_pylist() == numbers


@pytest.mark.parametrize("said", ["range(1, 2, 0)", "range(1000000)", "range(v)", "range(0, 2, 1, 4)"])
def test_other_ranges_are_left_to_spark(session: SmallSession, said: str) -> None:
    with pytest.raises(NotExactError):
        session.sql(f"SELECT id FROM {said}").toArrow()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("-7 div 2", -3),
        ("-7 % 3", -1),
        ("pmod(-7, 3)", 2),
        ("pmod(7, -3)", 1),
        ("7 / 2", 3.5),
        ("7 / 0", None),
        ("7 % 0", None),
        ("7 div 0", None),
        ("unix_micros(timestamp_micros(-5L))", -5),
        ("timestamp_micros(0L)", datetime(1970, 1, 1, tzinfo=UTC)),
        ("sequence(1L, 3L)", [1, 2, 3]),
        ("sequence(3L, 1L)", [3, 2, 1]),
        ("array_min(transform(array(struct(1L AS a)), r -> r.a))", 1),
        ("aggregate(array(1L, 2L), 0L, (n, r) -> n + r)", 3),
        ("size(filter(array(1, 2, 3), r -> r > 1))", 2),
        ("element_at(transform(array(4L, 5L), n -> CASE WHEN n > 4 THEN n ELSE n + 9 END), 1)", 13),
        ("flatten(array(array(1), array(2, 3)))", [1, 2, 3]),
        ("get(array(1, 2), 1)", 2),
        ("named_struct('a', 1L)['A']", 1),
        ("get(array(1, 2), -1)", None),
        ("array_repeat(1, 2)", [1, 1]),
        ("named_struct('a', 1L)", {"a": 1}),
        ("concat('a', NULL)", None),
        ("NULL <=> NULL", True),
        ("greatest(1, NULL)", 1),
        ("timestamp_micros(0L) < '2025-01-01 00:00:00'", True),
        ("timestamp_micros(0L) = '1970-01-01 00:00:00+00'", True),
        ("timestamp_micros(5L) = '1970-01-01T00:00:00.000005+00:00'", True),
        ("timestamp_micros(0L) >= '1970-01-01 00:00:00.5+00'", False),
        ("timestamp_micros(0L) < TIMESTAMP '2025-01-01 00:00:00Z'", True),
        ("'a' IN ('b', 'a')", True),
        ("'x \"view' = 'x \"view'", True),
        ("xxhash64(false, 'a')", 8801252947673251782),
        ("md5('ä')", "8419b71c87a225a2c70b50486fbee545"),
        ("CAST(true AS INT)", 1),
        ("CAST(7 / 2 AS BIGINT)", 3),
        ("CAST(-7 / 2 AS SMALLINT)", -3),
        ("(SELECT CAST(max(x) AS BIGINT) FROM (SELECT if(true, 11 / 4, NULL) AS x) t)", 2),
        (
            "to_json(named_struct('a', 7 / 2, 'b', NULL), map('ignoreNullFields', 'false'))",
            '{"a":3.5,"b":null}',
        ),
        (
            "to_json(struct(timestamp_micros(1500L) AS a, CAST(NULL AS INT) AS b))",
            '{"a":"1970-01-01T00:00:00.001Z"}',
        ),
    ],
)
def test_an_expression_is_what_spark_makes_of_it(session: SmallSession, sql: str, value: Any) -> None:
    assert one(session, sql) == value


@pytest.mark.parametrize(
    "sql",
    [
        "rand()",
        "initcap('a')",
        "CAST('1' AS INT)",
        "CAST(1.5 AS INT)",
        "CAST(1 + 1 AS DECIMAL(10, 2))",
        "1 / 1.5",
        "1 = '1'",
        "pmod('1', 2)",
        "sort_array(collect_list(1), false)",
        "max_by(1, struct(2 AS a), 3)",
        "aggregate(array(1L, 2L), 0L, (a, x) -> a + x, a -> a * 10L)",
        "ceil(CAST(1 AS DOUBLE), 1)",
        "max(1, 2)",
        "get('1', 0)",
        "transform(array(5, 6), (x, i) -> i)",
        "filter(array(5, 6), (x, i) -> i > 0)",
        "1 IN (SELECT 1)",
        "CAST(NULL AS INT) NOT IN (SELECT 1 WHERE false)",
        "(SELECT avg(x) FROM (VALUES (1.5), (2.5)) AS r(x))",
        "TIMESTAMP '2025-1-1 00:00:00'",
        "date_trunc('CENTURY', timestamp_micros(0L))",
        "substring('abc', 0, 1)",
        "'a' LIKE concat('a', '%')",
        "length(1)",
        "to_json(array(1))",
        "to_json(struct(array(1) AS a))",
        "to_json(struct(1 AS a), map('timestampFormat', 'yyyy'))",
        "map('a', 1)",
        "array(1)[0]",
        "array(struct(1 AS a))['a']",
        "approx_count_distinct(1)",
        "(SELECT a FROM nowhere)",
        "java_method('java.lang.System', 'exit', 0)",
    ],
)
def test_what_may_mean_something_else_is_left_to_spark(session: SmallSession, sql: str) -> None:
    with pytest.raises(NotExactError) as refused:
        one(session, sql)
    assert refused.value.always


def test_a_type_that_is_not_on_the_list_is_refused_each_time(session: SmallSession) -> None:
    for _ in range(2):
        with pytest.raises(NotExactError, match="a column of decimal"):
            one(session, "1.5")


@pytest.mark.parametrize("sql", ["read_csv('/etc/passwd')", "`/etc/passwd`", "parquet.`/etc/passwd`"])
def test_no_file_is_read(session: SmallSession, sql: str) -> None:
    with pytest.raises(NotExactError):
        session.sql(f"SELECT * FROM {sql}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM v WHERE a",
        "SELECT a FROM v WHERE NOT a",
        "SELECT a FROM v WHERE (a)",
        "SELECT a FROM v WHERE a > 0 AND (a)",
        "SELECT a AS b FROM v WHERE b > 0",
        "SELECT max(a) AS m FROM v HAVING max(a)",
        "SELECT a FROM v WHERE timestamp_micros(a) < 'infinity'",
        "SELECT a FROM v WHERE timestamp_micros(a) IN ('epoch')",
        "SELECT a FROM v WHERE (a > 0) = 'yes'",
        "SELECT CASE WHEN a THEN 1 END FROM v",
        "SELECT if(a, 1, 2) FROM v",
        "SELECT row_number() OVER (PARTITION BY a) FROM v",
        "SELECT lag(a) OVER () FROM v",
        "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN CURRENT ROW AND 2147483648 FOLLOWING) FROM v",
        "SELECT * FROM v GROUP BY a, 1",
        "SELECT sum(a) FROM v GROUP BY -1",
        "SELECT avg(a > 0) FROM v",
        "SELECT a FROM v ORDER BY 2",
        "SELECT 1 AS x FROM v GROUP BY ALL",
        "SELECT a AS b FROM v GROUP BY ALL HAVING b > 0",
        "SELECT a FROM v WHERE NOT (a IN (SELECT a FROM v) OR a > 0)",
        "SELECT (a > 0) IN (1, 2) FROM v",
        "SELECT a, x FROM v LATERAL VIEW OUTER explode(filter(array(a), y -> y > 1)) AS x",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        "SELECT rank() OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS m FROM v",
        "SELECT row_number() OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM v",
        "SELECT lag(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM v",
        "SELECT dense_rank() IGNORE NULLS OVER (ORDER BY a) AS m FROM v",
        "SELECT rank() OVER () AS m FROM v",
        "SELECT v FROM v",
        "SELECT count(W) AS n FROM v AS w",
        "SELECT a FROM v WHERE v IS NOT NULL",
        "SELECT w FROM (SELECT a FROM v) w",
        "WITH w AS (SELECT a FROM v) SELECT max(w) AS m FROM w",
        "SELECT v, b.a FROM v JOIN v b ON v.a = b.a",
        "SELECT w FROM v LATERAL VIEW explode(array(a)) w AS x",
        "SELECT w FROM VALUES (1) AS w(a)",
        "SELECT pmod(a) AS m FROM v",
        "SELECT max(DISTINCT a, a + 1) AS m FROM v",
    ],
)
def test_what_spark_refuses_is_not_answered(session: SmallSession, sql: str) -> None:
    for rows in ([1, 2], []):
        session.register("v", pa.table({"a": pa.array(rows, pa.int64())}))
        with pytest.raises(NotExactError):
            session.sql(sql)


@pytest.mark.parametrize(
    ("sql", "holds"),
    [
        ("s IN (1)", None),
        ("s IN ('a', n)", None),
        ("n IN (s)", None),
        ("n IN (1, 1.5)", True),
        ("s IN ('a', s)", True),
        ("n IN (d, 2)", True),
    ],
)
def test_a_text_is_among_texts_alone(session: SmallSession, sql: str, *, holds: bool | None) -> None:
    session.register("v", pa.table({"s": ["01"], "n": [1], "d": [1.0]}))
    if holds is None:  # to Spark all of them are texts then, and '01' is not '1'
        with pytest.raises(NotExactError):
            one(session, f"(SELECT {sql} FROM v)")
    else:
        assert one(session, f"(SELECT {sql} FROM v)") is holds


def test_a_query_decides_on_rows_as_far_as_it_is_all_that_does(session: SmallSession) -> None:
    session.register("v", pa.table({"n": [1, 2, None]}))
    found = session.sql("SELECT n FROM v WHERE n IN (SELECT 1) OR n IN (SELECT 2)").toArrow()["n"]
    assert sorted(found.to_pylist()) == [1, 2]
    left = session.sql("SELECT n FROM v WHERE n NOT IN (SELECT 1) AND n > 0").toArrow()["n"]
    assert left.to_pylist() == [2]


def test_columns_are_named_as_they_are_written(session: SmallSession) -> None:
    session.register("v", pa.table({"Dev": ["x"], "n": [1]}))
    assert session.sql("SELECT dev, N, v.n AS m FROM v").columns == ["dev", "N", "m"]
    assert session.sql("SELECT * FROM v").columns == ["Dev", "n"]


def test_a_column_may_be_named_like_its_table(session: SmallSession) -> None:
    session.register("v", pa.table({"v": [1], "n": [2]}))
    found = session.sql("SELECT v, V.n, w.m FROM v JOIN (SELECT v AS m FROM v) w ON w.m = v.v WHERE v.n = 2")
    assert found.toArrow().to_pylist() == [{"v": 1, "n": 2, "m": 1}]
    assert session.sql("SELECT w.*, n FROM v, (SELECT n AS w FROM v) w").columns == ["w", "n"]


def test_distinct_values_have_the_extremes_of_all(session: SmallSession) -> None:
    session.register("v", pa.table({"a": [3, None, 3, 4]}))
    asked = "max(DISTINCT a) AS m, min(DISTINCT a) FILTER (WHERE a > 3) AS n, sum(DISTINCT a) AS s"
    assert session.sql(f"SELECT {asked} FROM v").toArrow().to_pylist() == [{"m": 4, "n": 4, "s": 7}]


def test_columns_of_one_name_are_left_to_spark(session: SmallSession) -> None:
    with pytest.raises(NotExactError, match="columns of one name"):
        session.sql("SELECT 1 AS a, 2 AS a")
    assert session.sql("SELECT 1 AS a, 2 AS a_1, 3 AS A").columns == ["a", "a_1", "A"]


_OF_GROUP = "OVER (PARTITION BY g, p ORDER BY k"
_WINDOWS = (
    f"lag(k) {_OF_GROUP}) AS before, lead(k, 2) {_OF_GROUP} DESC) AS second, "
    "min(k) OVER (PARTITION BY g) AS low, "
    f"max(k) {_OF_GROUP} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS high"
)


@settings(deadline=None)
@given(st.sets(st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "a"]), st.integers(0, 9))))
def test_windows_of_groups_are_those_of_an_order(rows: set[tuple[int | None, str | None, int]]) -> None:
    def windows(g: int | None, p: str | None, k: int) -> tuple[object, ...]:
        own = sorted(other for *group, other in rows if group == [g, p])
        earlier = [None, None, *own[: own.index(k)]]
        return (
            g,
            p,
            k,
            earlier[-1],
            earlier[-2],
            min(other for group, _, other in rows if group == g),
            own[-1],
        )

    small = SmallSession()
    small.register(
        "v", pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in _KEYS})
    )
    found = small.sql(f"SELECT g, p, k, {_WINDOWS} FROM v").toArrow()
    assert {tuple(row.values()) for row in found.to_pylist()} == {windows(*row) for row in rows}
    small.close()


_KEYS = [*enumerate({"g": pa.int64(), "p": pa.string(), "k": pa.int64()}.items())]


@pytest.mark.parametrize(
    ("windows", "are_parted"),
    [
        (_WINDOWS, False),
        (f"{_WINDOWS}, row_number() {_OF_GROUP}) AS n", True),
        (f"{_WINDOWS}, sum(k) {_OF_GROUP}) AS total", True),
        (f"{_WINDOWS}, lag(k, 1, 0) {_OF_GROUP}) AS other", True),
        (f"{_WINDOWS}, max(k) {_OF_GROUP}) AS so_far", True),
        (f"{_WINDOWS}, max(k) OVER (PARTITION BY k + 1) AS computed", True),
    ],
)
def test_rows_are_parted_by_group_where_an_order_is_not_enough(windows: str, *, are_parted: bool) -> None:
    assert ("PARTITION BY" in duckdb_sql(f"SELECT *, {windows} FROM v").sql) is are_parted


def test_a_query_reads_the_rows_of_now(session: SmallSession) -> None:
    for values in ([1, 2], [5], []):
        session.register("v", pa.table({"a": pa.array(values, pa.int64())}))
        assert session.sql("SELECT sum(a) AS s FROM v").toArrow()["s"][0].as_py() == (sum(values) or None)


def test_a_view_may_have_other_columns_than_before(session: SmallSession) -> None:
    session.register("v", pa.table({"a": ["x"]}))
    assert session.sql("SELECT max(a) AS a FROM v").toArrow()["a"].to_pylist() == ["x"]
    session.register("v", pa.table({"a": [1.5]}))
    assert session.sql("SELECT max(a) AS a FROM v").toArrow()["a"].to_pylist() == [1.5]


def test_a_name_of_a_query_hides_a_view(session: SmallSession) -> None:
    session.register("v", pa.table({"a": [1]}))
    found = session.sql("WITH v AS (SELECT 2 AS a) SELECT v.a FROM v").toArrow()
    assert found["a"].to_pylist() == [2]


def test_a_row_is_a_struct(session: SmallSession) -> None:
    session.register("v", pa.table({"a": [1], "_ls_r": ["x"]}))
    held = session.sql("SELECT held.*, 2 AS b FROM (SELECT struct(_ls_row.*) AS held FROM v _ls_row)")
    assert held.toArrow().to_pylist() == [{"a": 1, "_ls_r": "x", "b": 2}]
    with pytest.raises(NotExactError):
        session.sql("SELECT struct(a.*) AS held FROM v a")


def test_lists_of_texts_are_sorted_whatever_is_in_them(session: SmallSession) -> None:
    session.register("v", pa.table({"a": ["NULL", "b", None, "B"]}))
    sorted_ = session.sql("SELECT array_sort(collect_list(concat(a, ''))) AS x FROM v").toArrow()["x"]
    assert sorted_[0].as_py() == ["B", "NULL", "b"]


def test_what_is_cleared_is_gone(session: SmallSession) -> None:
    session.register("v", pa.table({"a": [1]}))
    session.clear()
    with pytest.raises(NotExactError):
        session.sql("SELECT a FROM v")


def test_sums_are_spark_s_or_none(session: SmallSession) -> None:
    session.register("v", pa.table({"a": pa.array([2**62, 2**62], pa.int64())}))
    with pytest.raises(NotExactError) as refused:
        session.sql("SELECT sum(a) AS s FROM v")
    assert not refused.value.always
    session.register("v", pa.table({"a": pa.array([2**62, -1], pa.int64())}))
    found = session.sql("SELECT sum(a) AS s, array(sum(a)) AS l FROM v").toArrow()
    assert found.schema.field("s").type == pa.int64()
    assert found.schema.field("l").type == pa.list_(pa.field("element", pa.int64()))
    assert found["l"].to_pylist() == [[2**62 - 1]]


def test_structs_are_ordered_where_no_field_is_null(session: SmallSession) -> None:
    rows = [{"s": {"t": 1, "v": 5}}, {"s": {"t": 2, "v": 1}}]
    session.register("v", pa.Table.from_pylist(rows))
    assert session.sql("SELECT max(s) AS m FROM v").toArrow()["m"].to_pylist() == [{"t": 2, "v": 1}]
    session.register("v", pa.Table.from_pylist([*rows, {"s": {"t": 2, "v": None}}]))
    with pytest.raises(NotExactError) as refused:
        session.sql("SELECT max(s) AS m FROM v")
    assert not refused.value.always


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.time64("us")), pa.decimal256(50, 2), pa.timestamp("us"), pa.large_binary()]
)
def test_types_off_the_list_are_left_to_spark(session: SmallSession, kind: pa.DataType) -> None:
    with pytest.raises(NotExactError):
        session.frame(pa.table({"a": pa.nulls(1, kind)}))


@pytest.fixture
def prices(session: SmallSession) -> Iterator[SmallSession]:
    """A session with a DECIMAL and a FLOAT, beside columns of other tables."""
    values = {
        "p": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "f": pa.array([0.1, 2], pa.float32()),
    }
    session.register("prices", pa.table({"l": pa.array([1, 2], pa.int64()), **values}))
    session.register("others", pa.table({"m": pa.array([1, 2], pa.int64()), "P": pa.array([1.5, 2.5])}))
    session.register("wide", pa.table({"w": pa.array([None], pa.decimal128(38, 30))}))
    yield session
    session.clear()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT p, f FROM prices WHERE p >= 1.5", [(Decimal("1.50"), 0.10000000149011612)]),
        ("SELECT l FROM prices WHERE f = 0.1", []),
        ("SELECT l FROM prices WHERE f > 0.1 ORDER BY f DESC", [(2,), (1,)]),
        ("SELECT max(p) AS x, count(f) AS n FROM prices", [(Decimal("1.50"), 2)]),
        ("SELECT CAST(NULL AS DECIMAL(5, 1)) AS x", [(None,)]),
        ("SELECT CAST(p AS DECIMAL(10, 2)) AS q FROM prices WHERE l = 1", [(Decimal("1.50"),)]),
        ("SELECT x FROM (SELECT p AS x FROM prices) AS e WHERE x IN (1.5, 2)", [(Decimal("1.50"),)]),
        (
            "SELECT sum(p) AS x, sum(p + 1) FILTER (WHERE l = 1) AS y FROM prices",
            [(Decimal("1.50"), Decimal("2.50"))],
        ),
        ("SELECT avg(f) AS x FROM prices WHERE l = 1", [(0.10000000149011612,)]),
        ("SELECT p * l AS x, p + 0.125 AS y FROM prices WHERE l = 1", [(Decimal("1.50"), Decimal("1.625"))]),
        ("SELECT q FROM (SELECT p FROM prices) AS e(q) WHERE q > 1", [(Decimal("1.50"),)]),
        (
            "SELECT a.s.p FROM (SELECT struct(_ls_e.*) AS s FROM prices AS _ls_e) AS a WHERE a.s.l = 1",
            [(Decimal("1.50"),)],
        ),
        ("SELECT prices.p FROM prices JOIN others ON m = l WHERE l = 1", [(Decimal("1.50"),)]),
        ("SELECT p FROM prices WHERE l = 1 UNION SELECT p FROM prices WHERE l = 1", [(Decimal("1.50"),)]),
        ("SELECT collect_list(p) AS x FROM prices", [([Decimal("1.50")],)]),
        ("SELECT if(l > 1, NULL, p) AS x FROM prices ORDER BY l DESC LIMIT 1", [(None,)]),
        ("SELECT p AS x, count(*) AS n FROM prices GROUP BY p ORDER BY x", [(None, 1), (Decimal("1.50"), 1)]),
    ],
)
def test_decimals_and_floats_are_passed_on(prices: SmallSession, sql: str, rows: list[Any]) -> None:
    assert [tuple(row.values()) for row in prices.sql(sql).toArrow().to_pylist()] == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l * 1.5 AS p FROM prices",
        "SELECT coalesce(p, 0.5) AS p FROM prices",
        "SELECT avg(p) AS x FROM prices",
        "SELECT p / 2 AS x FROM prices",
        "SELECT p + f AS x FROM prices",
        "SELECT p * others.p AS x FROM prices JOIN others ON m = l",
        "SELECT f * 2 AS x FROM prices",
        "SELECT w * w AS x FROM wide",
        "SELECT p + NULL AS x FROM prices",
        "SELECT sum(NULL) AS x FROM prices",
        "SELECT - NULL AS x FROM others",
        "SELECT xxhash64(f) AS x FROM prices",
        "SELECT p FROM prices JOIN others ON m = l",
        "SELECT *, f AS p FROM prices ORDER BY p",
        "SELECT x FROM (SELECT *, l AS x, p AS x FROM prices) AS e",
        "SELECT CAST(p AS DECIMAL(10, 1)) AS x FROM prices",
        "SELECT transform(array(p), x -> x + 1) AS x FROM prices",
        "SELECT p FROM prices UNION ALL SELECT m FROM others",
        "SELECT l FROM prices WHERE l > (SELECT max(p) FROM prices)",
        "SELECT l FROM prices WHERE p > f",
        "SELECT l FROM prices WHERE p > 1e0",
        "SELECT l FROM prices WHERE p > l",
        "SELECT l FROM prices WHERE f > 16777217",
        "SELECT w FROM wide WHERE w > 1",
        "SELECT l FROM prices JOIN others USING (p)",
        "SELECT x.p FROM (SELECT struct(1.5 AS p) AS x, f FROM prices) AS e",
        "SELECT CAST(p AS STRING) AS x FROM prices",
        "SELECT 1.5 AS x FROM prices",
        "SELECT lag(p, 1, 0.5) OVER (ORDER BY l) AS x FROM prices",
    ],
)
def test_what_is_computed_of_decimals_and_floats_is_left_to_spark(prices: SmallSession, sql: str) -> None:
    with pytest.raises(NotExactError):
        prices.sql(sql).toArrow()


def test_bytes_are_passed_on(session: SmallSession) -> None:
    session.register("raw", pa.table({"n": [1, 2, 3], "b": pa.array([b"\x00\xff", None, b"a"], pa.binary())}))
    found = session.sql("SELECT max(b) AS most, count(b) AS n, min(b) AS least FROM raw").toArrow()
    assert found.to_pylist() == [{"most": b"a", "n": 2, "least": b"\x00\xff"}]
    assert session.sql("SELECT * FROM raw WHERE b IS NULL").toArrow().to_pylist() == [{"n": 2, "b": None}]
    for sql in ("SELECT length(b) AS x FROM raw", "SELECT CAST(b AS STRING) AS x FROM raw"):
        with pytest.raises(NotExactError):
            session.sql(sql).toArrow()


def test_a_day_that_is_written_is_a_day(session: SmallSession) -> None:
    assert one(session, "DATE '2025-01-31'") == date(2025, 1, 31)
    for text in ("2025-02-30", "2025-1-1", "0001-01-01"):
        with pytest.raises(NotExactError):
            one(session, f"DATE '{text}'")


def test_expressions_in_one_another_do_not_multiply(session: SmallSession) -> None:
    session.register("deep", pa.table({"n": pa.array([86_399_999_999], pa.int64())}))
    sql, value = "n", 86_399_999_999
    for _ in range(5):
        sql, value = f"(({sql}) - pmod(({sql}), 3L)) div 2L", (value - value % 3) // 2
    assert session.sql(f"SELECT {sql} AS x FROM deep").toArrow()["x"].to_pylist() == [value]


def test_what_would_multiply_is_left_to_spark(session: SmallSession) -> None:
    sql = "n"
    for _ in range(12):
        sql = f"pmod({sql}, m)"
    with pytest.raises(NotExactError, match="grow too large"):
        session.sql(f"SELECT {sql} AS x FROM deep")


def test_long_lists_of_values_are_looked_through(session: SmallSession) -> None:
    session.register("few", pa.table({"n": pa.array([7, 30_000], pa.int64())}))
    listed = ", ".join(map(str, range(20_001)))
    assert session.sql(f"SELECT n FROM few WHERE n IN ({listed})").toArrow()["n"].to_pylist() == [7]


LONG_TEXT = "t"
for _ in range(5):
    LONG_TEXT = f"(SELECT concat({', '.join(['x.a'] * 10)}) AS a FROM {LONG_TEXT} AS x)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sequence(1, 1000000000) AS x FROM t",
        "SELECT sequence(1000000000, 1) AS x FROM t",
        "SELECT array_repeat(1, 1000000000) AS x FROM t",
        "SELECT array_repeat(array_repeat(1, 10000), 10000) AS x FROM t",
        "SELECT array_repeat(y.a, 10000) AS x FROM (SELECT array_repeat(1, 10000) AS a FROM t) AS y",
        "SELECT transform(sequence(1, 10000), x -> sequence(1, 10000)) AS x FROM t",
        (
            "WITH made AS (SELECT sequence(1, 10000) AS a FROM t) SELECT a FROM made UNION ALL "
            "SELECT transform(a, x -> sequence(1, 10000)) FROM made"
        ),
        (
            "SELECT transform(a, x -> sequence(1, 10000)) FROM (SELECT sequence(1, 10000) AS a FROM t "
            "UNION ALL SELECT sequence(1, 10000) FROM t)"
        ),
        "SELECT aggregate(sequence(1, 60), 'a', (a, x) -> concat(a, a)) AS x FROM t",
        "SELECT aggregate(sequence(1, 60), sequence(1, 2), (a, x) -> concat(a, a)) AS x FROM t",
        f"SELECT max(length(y.a)) AS x FROM {LONG_TEXT} AS y",
    ],
)
def test_no_short_text_makes_a_value_that_takes_all_memory(session: SmallSession, sql: str) -> None:
    """What values of one row take counts for no limit, and no interruption comes between: Spark is asked."""
    session.register("t", pa.table({"a": ["x"]}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotExactError):
        session.sql(sql)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_the_members_of_a_union_make_lists_of_lists_each_for_itself(session: SmallSession) -> None:
    session.register("t", pa.table({"a": pa.array([[1, 2]], pa.list_(pa.int64()))}))
    one = "SELECT explode(flatten(transform(a, x -> sequence(1, x)))) AS n FROM t"
    assert session.sql(f"{one} UNION ALL {one}").toArrow()["n"].to_pylist() == [1, 1, 2] * 2


def test_lists_and_texts_of_some_length_are_made(session: SmallSession) -> None:
    session.register("t", pa.table({"a": ["x"], "n": pa.array([3], pa.int64())}))
    for sql, value in (
        ("sequence(n, 1L)", [3, 2, 1]),
        ("sequence(n, CAST(NULL AS BIGINT))", None),
        ("array_repeat(a, CAST(NULL AS INT))", None),
        ("array_repeat(a, 2)", ["x", "x"]),
        ("transform(sequence(1L, n), i -> i + n)", [4, 5, 6]),
        ("concat(a, '-', a)", "x-x"),
    ):
        assert session.sql(f"SELECT {sql} AS x FROM t").toArrow()["x"].to_pylist() == [value], sql


@pytest.mark.parametrize("word", ["current_user", "user", "session_user", "current_schema", "current_date"])
def test_no_column_is_a_word_of_duckdbs(session: SmallSession, word: str) -> None:
    session.register("t", pa.table({"a": ["x"]}))
    with pytest.raises(NotExactError):
        session.sql(f"SELECT `{word}` AS x FROM t")
    session.register("u", pa.table({word: ["x"]}))
    assert session.sql(f"SELECT `{word}` AS x FROM u").toArrow()["x"].to_pylist() == ["x"]


def test_brackets_make_no_condition_of_a_number(session: SmallSession) -> None:
    assert one(session, "((1L + 2L)) * ((3L))") == 9
    with pytest.raises(NotExactError):
        one(session, "NOT ((1L))")


def test_nothing_of_a_frame_but_what_ticks_use_is_there(session: SmallSession) -> None:
    frame = session.sql("SELECT 1 AS a")
    for owner, name in ((frame, "write"), (frame, "collect"), (session, "read")):
        with pytest.raises(NotExactError):
            getattr(owner, name)


@pytest.mark.parametrize("column", ["a", "n"])
def test_groups_have_one_number_however_it_is_asked_for(session: SmallSession, column: str) -> None:
    rows = {"a": pa.array(["a", "ä b", "", None] * 600), "n": pa.array([1, None, -5, 2**40] * 600)}
    session.frame(pa.table(rows)).createOrReplaceTempView("numbered")
    # What is not a column by itself is hashed value by value.
    found = session.sql(
        f"SELECT xxhash64(({column}) IS NULL, {column}, (a) IS NULL, a) AS known, "
        f"xxhash64(coalesce({column} IS NULL, true), {column}, (a) IS NULL, a) AS each FROM numbered"
    ).toArrow()
    assert found["known"].equals(found["each"])
    assert len(found["known"].unique()) == 4


def test_a_query_that_fails_leaves_no_memory_taken() -> None:
    small = SmallSession(Room(1, 30_000_000, inlines=True))
    for _ in range(2):
        with pytest.raises(NotExactError, match="Out of Memory"):
            small.answered("SELECT CAST(range AS VARCHAR) AS a, count(*) AS n FROM range(2000000) GROUP BY 1")
        taken = small.connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()
        assert taken[0][0] < 1_000_000
    small.close()


def test_a_disk_that_is_full_leaves_a_query_to_others_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "scratch_folder", lambda: tmp_path)
    small = SmallSession(Room(1, 30_000_001, spills=True, inlines=True))
    small.connection.execute("SET max_temp_directory_size = '4MB'")
    rows = "SELECT CAST(range AS VARCHAR) AS a FROM range({}) ORDER BY hash(range)"
    with pytest.raises(NotExactError, match="offload"):
        small.answered(rows.format(2_000_000))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert small.answered(rows.format(1_000)).num_rows == 1_000
    small.close()


def test_ctrl_c_is_heard_while_a_query_runs(session: SmallSession) -> None:
    # What runs in the background of a shell takes no notice of it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.answered("SELECT sum(range) AS n FROM range(1000000000000)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert one(session, "1 + 1") == 2


@pytest.mark.parametrize(("room", "gives_back"), [(large_room(0), True), (FEW_ROWS, False)])
def test_what_many_rows_took_is_given_back(room: Room, *, gives_back: bool) -> None:
    small = SmallSession(room)
    asked = "SELECT current_setting('allocator_background_threads')"
    assert small.connection.execute(asked).fetchone() == (gives_back,)
    small.close()


def test_a_macro_that_another_one_names_is_defined_once() -> None:
    import duckdb

    called = [(one, other) for one in HEADS for other in HEADS if one != other and f"{other}(" in BODIES[one]]
    assert called
    for one, other in called:
        with duckdb.connect() as connection:
            macros = Macros(connection)
            macros.define(f"SELECT {one}(1), {other}(1)")
            macros.define(f"SELECT {other}(1), {one}(1)")


@pytest.mark.parametrize("inlines", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.v, b.v AS w FROM t a CROSS JOIN t b",
        "WITH c AS (SELECT v FROM t) SELECT c.v, t.v AS w FROM c, t ORDER BY w, c.v DESC",
        "SELECT v, w FROM (SELECT v, explode(sequence(1, 3)) AS w FROM t LIMIT 4)",
        "SELECT v FROM t UNION ALL SELECT v FROM t",
    ],
)
def test_an_answer_of_more_rows_than_there_is_room_for_is_left_to_spark(query: str, *, inlines: bool) -> None:
    rows = pa.table({"v": pa.array([1, 2], pa.int32())})
    for room, fits in ((3, False), (4, True)):
        session = SmallSession(Room(rows=room, inlines=inlines))
        session.register("t", rows)
        if fits:
            assert session.sql(query).count() == 4
            assert session.sql(f"SELECT count(*) AS n FROM ({query})").toArrow()["n"].to_pylist() == [4]
        else:
            with pytest.raises(NotExactError, match="more than 3 rows") as left:
                session.sql(query).count()
            assert not left.value.always
            assert session.sql(f"SELECT count(*) AS n FROM ({query})").toArrow()["n"].to_pylist() == [4]
        session.close()


MIXED = pa.table(
    {
        "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "day": pa.array([datetime(2026, 1, 1, tzinfo=UTC).date()]),
        "x": [1e300],
        "n": pa.array([1], pa.int32()),
        "s": ["a"],
        "listed": [[1]],
    }
)


@pytest.mark.parametrize(
    "sql",
    [
        *(f"concat({part}, s)" for part in ("at", "x", "coalesce(x, 1D)", "CASE WHEN n > 0 THEN at END")),
        *("concat(s, day)", "concat(x)", "concat(concat(s, x), s)", "concat(s, 1.5)", "concat(s, listed)"),
        *("CASE WHEN n > 0 THEN n ELSE '1' END", "if(n > 0, '2.5', x)", "array('1', n)", "'1' % n"),
        *("CASE WHEN n > 0 THEN '1' WHEN n > 1 THEN n END", "coalesce(at, '2026-01-01')", "coalesce('1', n)"),
        *("greatest(day, '2026-01-01')", "if(n > 0, at, '2026-01-01 00:00:00')", "at IN ('2026-01-01')"),
        *("day - day", "day - DATE '2026-01-01'", "CAST(at AS DATE) - day"),
    ],
)
def test_what_is_made_a_text_otherwise_is_left_to_spark(session: SmallSession, sql: str) -> None:
    session.register("mixed", MIXED)
    with pytest.raises(NotExactError):
        session.sql(f"SELECT {sql} AS y FROM mixed").count()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("concat(s, n, n > 0)", "a1true"),
        ("concat(s, CAST(at AS STRING), CAST(day AS STRING))", "a2026-01-01 00:00:002026-01-01"),
        ("concat(s, timestamp_micros(5L))", "a1970-01-01 00:00:00.000005"),
        ("concat(n)", "1"),
        ("concat(s)", "a"),
        ("concat(listed, array(2L), listed)", [1, 2, 1]),
        ("CASE WHEN n > 1 THEN '1' ELSE '0' END", "0"),
        ("CASE WHEN n > 1 THEN '1' WHEN n > 0 THEN s END", "a"),
        ("coalesce(s, '2026-01-01')", "a"),
        ("day IN ('2026-01-01')", True),
        ("at IN ('2026-01-01 00:00:00', '2026-01-02 00:00:00.5')", True),
        ("s NOT IN ('2026-01-01')", True),
        ("x - n", 1e300),
        ("greatest(s, '1', NULL)", "a"),
        ("if(n > 0, '1', '0')", "1"),
        ("array('1', '2')", ["1", "2"]),
    ],
)
def test_texts_are_joined_and_chosen(session: SmallSession, sql: str, value: object) -> None:
    session.register("mixed", MIXED)
    assert session.sql(f"SELECT {sql} AS y FROM mixed").toArrow()["y"].to_pylist() == [value]


@pytest.mark.parametrize(
    "query", ["SELECT v AS a, v AS a FROM t", "SELECT sum(v) * 9000000000000000000L AS x FROM t"]
)
def test_a_result_that_is_not_spark_s_is_let_go_of(query: str) -> None:
    session = SmallSession(large_room(0))
    for _ in range(2):
        session.register("t", pa.table({"v": [1, 2, 3]}))
        with pytest.raises(NotExactError, match=r"columns of one name|beyond BIGINT"):
            session.sql(query).count()
        prepared = session.connection.execute("SELECT count(*) FROM duckdb_prepared_statements()").fetchall()
        assert prepared == [(0,)]
    session.close()


@pytest.mark.parametrize("form", ["YYYY-MM-dd", "Y", "yyyy-ww", "MMM", "SSS", "%Y"])
def test_formats_that_are_read_otherwise_are_left_to_spark(session: SmallSession, form: str) -> None:
    session.register("days", pa.table({"d": pa.array([date(2025, 12, 31)], pa.date32())}))
    plain = session.sql("SELECT date_format(d, 'yyyy-MM-dd') AS x FROM days").toArrow()
    assert plain["x"].to_pylist() == ["2025-12-31"]
    for quote in "'", '"':
        with pytest.raises(NotExactError, match="format"):
            session.sql(f"SELECT date_format(d, {quote}{form}{quote}) AS x FROM days")
