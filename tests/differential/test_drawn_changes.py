"""UPDATE and DELETE of drawn expressions: what they make of rows is what a query makes of them."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake
from lakestream.errors import StatementError
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.model import Fragment
from lakestream.statements.changes import RowChanges
from lakestream.statements.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

NAN, INF = math.nan, math.inf
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "v": (pa.int32(), [None, -3, 0, 1, 2, 7, 2147483, -2147483]),
    "w": (pa.int32(), [1, None, 0, -1, 3, 2, 7, 5]),
    "big": (pa.int64(), [5, None, -1, 0, 9223372036854775, 12, 100, 3]),
    "d": (pa.float64(), [None, NAN, -2.5, 0.0, 2.5, 1e300, -0.0, 0.1]),
    "f": (pa.float32(), [-0.0, 0.5, -2.5, 1.5, INF, 0.1, -0.0, NAN]),
    "c": (
        pa.decimal128(10, 2),
        [*map(Decimal, ("0.10", "5.75", "-1.50")), None, *map(Decimal, ("10", "2.5", "-2.5", "3.35"))],
    ),
    "s": (pa.string(), [None, "abc", "", "Ünï", "a,b,c", " x ", "12", "2026-01-31 10:00:00"]),
    "u": (pa.string(), ["b", "abc", None, "", "a", "x", "-3", "2026-02-28"]),
    "b": (pa.bool_(), [True, False, None, True, False, None, True, False]),
    "day": (
        pa.date32(),
        [date(2024, 2, 29), date(1969, 12, 31), None, *(date(2026, 1, n) for n in range(1, 6))],
    ),
}
ROWS = 8
TABLE = """
CREATE TABLE t (ts TIMESTAMP, v INT, w INT, big BIGINT, d DOUBLE, f FLOAT, c DECIMAL(10, 2), s STRING,
  u STRING, b BOOLEAN, day DATE, hit INT, number DOUBLE, text STRING, truth BOOLEAN)
"""
NUMBERS = ["v", "w", "big", "d", "f", "c", "1", "-3", "2.5", "0", "7", "0.1", "1e3", "0.0", "-0.0"]
TEXTS = ["s", "u", "'abc'", "''", "'12'", "'x'", "'2026-02-28'"]
SAYS = ["=", "<>", "<", ">", "<=", ">=", "<=>"]
OTHERS = [
    *("b", "b = TRUE", "b IS NULL", "NOT b", "b = 1", "day > '2026-01-01'", "day = DATE '2026-01-01'"),
    *("ts > '2026-01-01 00:00:03'", "ts <= NOW", "ts IN ('2026-01-01 00:00:03', '2026-01-01 00:00:05')"),
    *("ts BETWEEN '2026-01-01' AND '2026-01-01 00:00:04'", "day IN ('2026-01-01', '2024-02-29')"),
]


class BySparkError(Exception):
    """A statement is left to Spark."""


class Drawn:
    """Draws expressions of so many levels."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def number(self, levels: int) -> str:
        """Draw a number."""
        one = self._random.choice
        if levels <= 0 or self._random.random() < 0.3:
            return one(NUMBERS)
        left, right = self.number(levels - 1), self.number(levels - 1)
        return one(
            [
                *(f"({left} {says} {right})" for says in "+-*/%"),
                *(f"coalesce({left}, {right})", f"CAST({left} AS DOUBLE)", f"floor({left})", f"(- {left})"),
                f"CASE WHEN {self.condition(levels - 1)} THEN {left} ELSE {right} END",
            ]
        )

    def text(self, levels: int) -> str:
        """Draw a text."""
        if levels <= 0 or self._random.random() < 0.4:
            return self._random.choice(TEXTS)
        left, right = self.text(levels - 1), self.text(levels - 1)
        return self._random.choice(
            [
                *(f"upper({left})", f"lower({left})", f"concat({left}, {right})", f"({left} || {right})"),
                *(f"coalesce({left}, {right})", f"CASE WHEN {self.condition(levels - 1)} THEN {left} END"),
            ]
        )

    def change(self, number: int) -> tuple[str, str]:
        """Draw a column, and what it is set to; of ``hit`` the condition under which it is."""
        return [
            *(("number", self.number(3)), ("text", self.text(3)), ("truth", self.condition(3))),
            ("hit", self.condition(2)),
        ][number]

    def condition(self, levels: int) -> str:
        """Draw a condition."""
        one, below = self._random.choice, levels - 1
        plain = [
            *(f"{self.number(below)} {one(SAYS)} {self.number(below)}" for _ in range(3)),
            *(f"{self.text(below)} {one(SAYS)} {self.text(below)}" for _ in range(2)),
            *(one(OTHERS), f"{self.number(below)} IS {one(['', 'NOT '])}NULL"),
            f"{one(NUMBERS[:6])} {one(['', 'NOT '])}IN ({one(NUMBERS[6:])}, {one(NUMBERS)})",
            f"{one([*COLUMNS])} = {one([*COLUMNS])}",
        ]
        if levels <= 0:
            return one(plain)
        pattern = one(["'%b%'", "'_b_'", "'a%'", "''"])
        return one(
            [
                *plain,
                f"{self.number(below)} BETWEEN {self.number(below)} AND {self.number(below)}",
                f"{self.text(below)} IN ({one(TEXTS)}, {one(TEXTS[2:])})",
                f"{self.text(below)} {one(['', 'NOT '])}LIKE {pattern}",
                f"NOT ({self.condition(below)})",
                *(f"({self.condition(below)} {says} {self.condition(below)})" for says in ("AND", "OR")),
            ]
        )


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake of rows as others write them: with NaN, -0.0 and infinity."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    root = tmp_path_factory.mktemp("lake")
    with Lake(root) as lake:
        lake.sql(TABLE)
        times = pa.array([start + timedelta(seconds=n) for n in range(ROWS)], pa.timestamp("us", "UTC"))
        columns = {name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()}
        columns |= {"hit": pa.nulls(ROWS, pa.int32()), "number": pa.nulls(ROWS, pa.float64())}
        columns |= {"text": pa.nulls(ROWS, pa.string()), "truth": pa.nulls(ROWS, pa.bool_())}
        write_deltalake(f"{root}/main/t", pa.table({"ts": times, **columns}), mode="append")
        yield lake


def same(one: Any, other: Any) -> bool:
    """Return whether two values are one, but for the last digit of a fraction."""
    if one is None or other is None or not isinstance(one, int | float):
        return bool(one == other)
    one, other = float(one), float(other)
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 40))]
)
def test_what_delta_rs_computes_is_what_a_query_computes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What is left to Spark is not asked here."""

    def left(*_: object) -> int:
        raise BySparkError

    monkeypatch.setattr(RowChanges, "_by_spark", left)
    monkeypatch.setattr(Workspace, "shared", property(left))
    drawn = Drawn(str(seed))
    done = [found for number in range(60) if (found := changed(lake, *drawn.change(number % 4))) is not None]
    assert len(done) > 5
    for column, value, rows in done:
        assert all(same(y, x) for x, y in rows), (column, value, rows)


def changed(lake: Lake, column: str, value: str) -> tuple[str, str, list[tuple[Any, Any]]] | None:
    """Return what a query makes of an expression, and an UPDATE; None where Spark or nobody computes it."""
    try:
        if column == "hit":
            lake.sql("UPDATE t SET hit = NULL")
            lake.sql(f"UPDATE t SET hit = 1 WHERE {value}")
            value = f"CASE WHEN {value} THEN 1 END"
        else:
            lake.sql(f"UPDATE t SET {column} = {value}")
        rows = lake.sql(f"SELECT {value} AS x, {column} AS y FROM t ORDER BY ts").fetchall()
    except BySparkError:
        return None
    except StatementError as refused:
        if refused.code != "BAD_VALUE":
            raise
        return None
    return column, value, rows


BY_SPARK = [
    *(("number", text) for text in ("ln(d)", "log10(v)", "c / 3", "length(s)", "instr(s, 'b')", "w * c")),
    *(
        ("text", text)
        for text in ("left(s, -1)", "initcap(s)", "concat(v, ts)", "string(ts)", "repeat(u, 2)")
    ),
    *(("truth", text) for text in ("s > v", "s RLIKE 'b|c'", "d IS NOT DISTINCT FROM f", "(-d) >= v * 0")),
    *(("day", text) for text in ("date_add(day, 1)", "last_day(ts)", "trunc(day, 'month')")),
]


@pytest.mark.spark
def test_what_spark_computes_is_what_a_query_computes(lake: Lake) -> None:
    for column, value in BY_SPARK:
        expected = lake.sql(f"SELECT {value} AS x FROM t ORDER BY ts").fetchall()
        assert lake.sql(f"UPDATE t SET {column} = {value}").message == f"updated {ROWS} rows"
        found = lake.sql(f"SELECT {column} AS y FROM t ORDER BY ts").fetchall()
        assert all(same(y, x) for (x,), (y,) in zip(expected, found, strict=True)), (value, expected, found)


@pytest.mark.spark
def test_spark_deletes_the_rows_that_a_query_gives(lake: Lake) -> None:
    """A stream follows, and VERIFY agrees."""
    lake.sql(
        "CREATE STREAM n INTERVAL(4s) SLIDING(4s) FROM t STREAM_OPTIONS(EXACT | FILL_HISTORY) "
        "INTO o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
    )
    lake.run()
    conditions = (
        "initcap(s) = 'Abc'",
        "length(u) = 0 OR day < to_date('2025-01-01')",
        "second(ts) >= 6",
        "true",
    )
    for condition in conditions:
        ((gone, there),) = lake.sql(
            f"SELECT count(CASE WHEN {condition} THEN 1 END), count(*) FROM t"
        ).fetchall()
        deleted = lake.sql(f"DELETE FROM t WHERE {condition}").message
        assert deleted.startswith(f"deleted {gone} row"), condition
        assert lake.sql("SELECT count(*) FROM t").fetchall() == [(there - gone,)]
        lake.run()
        assert lake.verify("n").holds
    assert lake.sql("DELETE FROM t WHERE initcap(s) = 'Abc'").message == "deleted 0 rows"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE t SET v = day()", "takes 1 argument"),
        ("UPDATE t SET v = levenshtein(s)", "levenshtein"),
        ("UPDATE t SET v = to_json(s)", "to_json"),
        ("UPDATE t SET day = hex(v)", "cannot be cast to"),
        ("DELETE FROM t WHERE initcap(s)", "WHERE takes a condition"),
        ("DELETE FROM t WHERE CAST(raise_error('wrong') AS INT) = 1", "wrong"),
    ],
)
def test_what_spark_refuses_is_refused_by_name(lake: Lake, statement: str, says: str) -> None:
    before = lake.sql("SELECT * FROM t ORDER BY ts").fetchall()
    with pytest.raises(StatementError, match=re.escape(says)) as refused:
        lake.sql(statement)
    assert refused.value.place is not None
    assert str(lake.sql("SELECT * FROM t ORDER BY ts").fetchall()) == str(before)


@pytest.mark.spark
def test_results_that_arrow_or_python_lack_are_texts_or_refused_by_name(lake: Lake) -> None:
    for nothing in ("array()", "map()", "array(array())"):
        with pytest.raises(StatementError, match="of no type"):
            lake.sql(f"SELECT {nothing} AS x")
    assert lake.sql("SELECT make_date(20000, 1, 1) AS x, X'4142' AS y").fetchall() == [
        ("+20000-01-01", b"AB")
    ]
    assert lake.sql("SELECT CAST('0001-01-01' AS DATE) - 10 AS x").fetchall() == [("0000-12-22",)]


def test_functions_are_sent_to_spark_as_they_are_written(lake: Lake) -> None:
    """sqlglot writes size(), log(10, x) and others for them, which come to other values."""
    calls = ("array_size(a)", "log10(a)", "log2(a)", "unix_date(a)", "get_json_object(a, 'x')", "size(a)")
    for call in calls:
        assert parse_expression(Fragment(call)).sql("spark").lower() == call
    sized = "SELECT size(CASE WHEN v > 100000 THEN array(v) END) AS n FROM t WHERE v < 1 ORDER BY ts"
    assert lake.sql(sized).fetchall() == [(-1,)] * 3


@pytest.mark.spark
def test_functions_come_to_what_they_do_in_spark(lake: Lake) -> None:
    found = lake.sql(
        "SELECT log10(1000), log10(1e15), array_size(CAST(NULL AS ARRAY<INT>)), typeof(unix_date(day)), "
        """get_json_object('{"x": 1}', 'x'), get_json_object('{"x": [{"y": 2}]}', '$.x[0].y') """
        "FROM t LIMIT 1"
    ).fetchall()
    assert found == [(3.0, 15.0, None, "int", None, "2")]
