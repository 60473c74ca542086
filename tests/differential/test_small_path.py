"""What DuckDB answers of Spark's SQL, held against Spark: by drawn expressions over values at the edges.

The small session may refuse. What it answers is what Spark answers, fractions but for their last bits.
"""

from __future__ import annotations

import math
import random
from datetime import date, datetime
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INSTANTS = (
    "0001-01-01T00:00:00+00:00",
    "1969-12-31T23:59:59.999999+00:00",
    "1970-01-01T00:00:00+00:00",
    "2026-03-01T00:00:00+00:00",
    "9999-12-31T23:59:59.999999+00:00",
)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "l": (pa.int64(), [None, 0, 1, -1, 7, -13, 2**62, -(2**63), 2**63 - 1]),
    "i": (pa.int32(), [None, 0, 1, -1, 12, 2**31 - 1, -(2**31)]),
    "h": (pa.int16(), [None, 0, 3, -3, 2**15 - 1]),
    "y": (pa.int8(), [None, 0, 1, -128, 127]),
    "d": (pa.float64(), [None, 0.0, -0.0, 1.5, -2.25, 0.1, 1e300, math.inf, -math.inf, math.nan]),
    "s": (pa.string(), [None, "", "a", "A", "ä", "10", "1.5", " a", "true", "𝄞", "a\u0308", "\uffff"]),
    "k": (pa.bool_(), [None, True, False]),
    "t": (pa.timestamp("us", "UTC"), [None, *map(datetime.fromisoformat, INSTANTS)]),
    "e": (pa.date32(), [None, date(1, 1, 1), date(1970, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
}
"""By the first letter of a column's name: its type, and what is in it."""
NUMBERS = "lihyd"
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")
LENGTHS = ("DAY", "HOUR", "MINUTE")
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


@pytest.fixture(scope="module")
def small() -> Iterator[SmallSession]:
    session = SmallSession()
    yield session
    session.clear()


def rows_of(seed: int, count: int = 60) -> pa.Table:
    """Return rows of which each column has each value, in an order of its own, twice over."""
    chance = random.Random(seed)
    columns = {
        "n": pa.array(range(count), pa.int64()),
        "g": pa.array([n % 7 for n in range(count)], pa.int64()),
    }
    for letter, (kind, values) in VALUES.items():
        for number in "12":
            drawn = [*values, *(chance.choice(values) for _ in range(count - len(values)))]
            chance.shuffle(drawn)
            columns[letter + number] = pa.array(drawn, kind)
    return pa.table(columns)


class Drawer:
    """Draws expressions of a type, from the list of what the small session answers and from beside it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def number(self, depth: int) -> str:
        """Return SQL of a number."""
        pick, one = self.chance.choice, self.number
        if depth == 0:
            return pick(
                [pick(NUMBERS) + pick("12"), str(pick([0, 1, -1, 3, 100])), f"{pick([2, 5])}L", "1.5", "0.1"]
            )
        forms = [
            lambda: f"({one(depth - 1)} {pick(['+', '-', '*', '/', '%'])} {one(depth - 1)})",
            lambda: f"({pick('lihy')}{pick('12')} div {pick('lihy')}{pick('12')})",
            lambda: f"coalesce({one(depth - 1)}, {one(depth - 1)})",
            lambda: f"if({self.truth(depth - 1)}, {one(depth - 1)}, {one(depth - 1)})",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {one(depth - 1)} END",
            lambda: f"{pick(['greatest', 'least', 'pmod', 'nullif'])}({one(depth - 1)}, {one(depth - 1)})",
            lambda: f"abs({one(depth - 1)})",
            lambda: f"(- {one(depth - 1)})",
            lambda: f"CAST({one(depth - 1)} AS {pick(['BIGINT', 'INT', 'SMALLINT', 'DOUBLE'])})",
            lambda: f"CAST({self.truth(0)} AS INT)",
            lambda: f"unix_micros(t{pick('12')})",
            lambda: f"unix_millis(t{pick('12')})",
            lambda: f"unix_micros(timestamp_{pick(['millis', 'micros'])}({pick('ihy')}{pick('12')}))",
            lambda: f"{pick(['floor', 'ceil', 'sqrt'])}({one(depth - 1)})",
            lambda: f"{pick(['year', 'month', 'day'])}({pick('te')}{pick('12')})",
            lambda: f"{pick(['hour', 'minute', 'second'])}(t{pick('12')})",
            lambda: f"unix_micros(date_trunc('{pick(UNITS)}', t{pick('12')}))",
            lambda: f"unix_micros(t1 {pick('+-')} make_dt_interval(0, 0, 0, {pick([0, 7, 90_000])}.000001))",
            lambda: f"unix_micros({pick(['from', 'to'])}_utc_timestamp(t{pick('12')}, '{pick(ZONES)}'))",
            lambda: f"unix_micros(t{pick('12')} {pick('+-')} INTERVAL '{pick('129')}' {pick(LENGTHS)})",
            lambda: f"extract({pick(UNITS)} FROM {pick('te')}{pick('12')})",
            lambda: f"unix_date(CAST({pick('te')}{pick('12')} AS DATE))",
            lambda: f"length(s{pick('12')})",
            lambda: f"unix_date(e{pick('12')})",
            lambda: f"unix_date(add_months(DATE '1970-01-01', CAST({pick('lihy')}1 % 23000 AS INT)))",
        ]
        return pick(forms)()

    def truth(self, depth: int) -> str:
        """Return SQL of a condition."""
        pick, letter = self.chance.choice, self.chance.choice("lidstek")
        sides = [letter + pick("12"), letter + pick("12")]
        if depth and letter in NUMBERS:
            sides = [self.number(depth - 1), self.number(depth - 1)]
        compared = f"({sides[0]} {pick(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {sides[1]})"
        if depth == 0:
            return pick([compared, f"k{pick('12')}", f"({sides[0]} IS NULL)"])
        forms = [
            lambda: compared,
            lambda: f"({self.truth(depth - 1)} {pick(['AND', 'OR'])} {self.truth(depth - 1)})",
            lambda: f"(NOT {self.truth(depth - 1)})",
            lambda: f"({sides[0]} BETWEEN {sides[1]} AND {sides[0]})",
            lambda: f"({sides[0]} IN ({sides[1]}, {sides[0]}))",
            lambda: f"(s{pick('12')} = '{pick(['a', '10', '1.5', ''])}')",
            lambda: f"(s1 {pick(['LIKE', 'NOT LIKE'])} '{pick(['a%', '%', '_', ''])}')",
            lambda: f"{pick(['startswith', 'endswith', 'contains'])}(s1, '{pick(['a', '', '5'])}')",
            lambda: f"({pick(NUMBERS)}1 = '{pick(['a', '10', '1.5'])}')",
        ]
        return pick(forms)()

    def text(self) -> str:
        """Return SQL of a text."""
        pick = self.chance.choice
        return pick(
            [
                f"concat(s{pick('12')}, s{pick('12')})",
                f"(s{pick('12')} || 'x')",
                f"coalesce(s{pick('12')}, 'none')",
                f"CAST({pick('lihkte')}{pick('12')} AS STRING)",
                f"if({self.truth(1)}, s1, s2)",
                f"substring(s1, {pick('12')}, {pick('12')})",
                f"left(s{pick('12')}, 1)",
                f"greatest(s1, s2, '{pick(['', 'b'])}')",
                f"md5(s{pick('12')})",
                f"to_json(struct({pick([*VALUES])}1, {self.truth(0)} AS b))",
                f"to_json(named_struct('a \"', {self.number(1)}, 'b', s1), map('ignoreNullFields', 'false'))",
            ]
        )

    def any(self) -> str:
        """Return SQL of anything."""
        return self.chance.choice([lambda: self.number(2), lambda: self.truth(2), self.text])()


def same(one: Any, other: Any) -> bool:
    """Return whether values are equal, NaN to itself; fractions but for the last bits of a sum."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
    if type(one) is not type(other):
        return not isinstance(one, bool) and not isinstance(other, bool) and one == other
    return bool(one == other)


def check(spark: SparkSession, small: SmallSession, rows: pa.Table, queries: Sequence[str]) -> int:
    """Hold each query's answers against Spark's; return how many the small session has answered."""
    view_of(arrow_frame(spark, rows), "edges")
    small.register("edges", rows)
    answered = 0
    for query in queries:
        try:
            found = small.sql(query).toArrow()
        except NotExactError:
            continue
        answered += 1
        expected = spark.sql(query).toArrow()
        assert found.column_names == expected.column_names
        for name in found.column_names:
            assert found[name].type == expected[name].type, query
            pairs = zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True)
            for at, (one, other) in enumerate(pairs):
                assert same(one, other), f"{query}\nrow {at}: DuckDB {one!r}, Spark {other!r}"
    return answered


@pytest.mark.parametrize("seed", range(5))
def test_drawn_expressions_are_what_spark_makes_of_them(
    spark: SparkSession, small: SmallSession, seed: int
) -> None:
    drawer, rows = Drawer(seed), rows_of(seed)
    view_of(arrow_frame(spark, rows), "edges")
    expressions = [drawer.any() for _ in range(250)]
    listed = ", ".join(f"({expression}) AS x{number}" for number, expression in enumerate(expressions))
    expected = spark.sql(f"SELECT n, {listed} FROM edges ORDER BY n").toArrow()
    answered = 0
    for number, expression in enumerate(expressions):
        for row in range(rows.num_rows):
            small.register("edges", rows.slice(row, 1))
            try:
                answer = small.sql(f"SELECT ({expression}) AS x FROM edges").toArrow()["x"]
            except NotExactError as why:
                if why.always:
                    break
                continue
            answered += 1
            assert answer.type == expected[f"x{number}"].type, expression
            found, other = answer[0].as_py(), expected[f"x{number}"][row].as_py()
            assert same(found, other), (
                f"{expression}\n{rows.slice(row, 1).to_pylist()}\n{found!r}, Spark {other!r}"
            )
    assert answered > 1_000


AGGREGATES = [
    "count(*)",
    "count({x})",
    "count(DISTINCT {x})",
    "sum({n})",
    "avg({n})",
    "min({x})",
    "max({x})",
    "count_if({k})",
    "bool_or({k})",
    "bool_and({k})",
    "sum({n}) FILTER (WHERE {k})",
    "max_by({x}, struct(n))",
    "min_by({x}, struct(t1, n))",
    "max_by({x}, struct({x}, n))",
    "max(struct(n, {x})).{x}",
    "max({n}) - min({n})",
    "sum({n}) / count(*)",
    "size(collect_set({x}))",
    "sum(if({k}, 1, 0))",
    "max(CASE WHEN {k} THEN {n} END)",
]


@pytest.mark.parametrize("seed", range(2))
def test_aggregates_are_what_spark_makes_of_them(spark: SparkSession, small: SmallSession, seed: int) -> None:
    rows, queries = rows_of(seed), []
    for form, (letter, number) in product(AGGREGATES, product(VALUES, NUMBERS)):
        if ("{x}" in form and number != "l") or ("{x}" not in form and letter != "l"):
            continue  # only one of the two is in it
        call = form.format(x=f"{letter}1", n=f"{number}1", k="k1")
        queries.append(f"SELECT g, {call} AS x FROM edges GROUP BY g ORDER BY g")
        queries.append(f"SELECT {call} AS x FROM edges WHERE n < 0")
    assert check(spark, small, rows, list(dict.fromkeys(queries))) > 100


def test_calls_over_windows_are_what_spark_makes_of_them(spark: SparkSession, small: SmallSession) -> None:
    over = "OVER (PARTITION BY g ORDER BY {by}{frame})"
    frames = [
        "",
        " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
        " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    ]
    queries = []
    for call, by, frame in product(
        ["max(l1)", "min(d1)", "last_value(s1, true)", "first_value(i1)", "sum(i1)", "count(*)"],
        ["n", "n DESC"],
        frames,
    ):
        queries.append(f"SELECT n, {call} {over.format(by=by, frame=frame)} AS x FROM edges ORDER BY n")
    for call, by in product(
        ["row_number()", "rank()", "dense_rank()", "lag(s1)", "lead(d1)", "lag(l1, 2)"],
        ["n", "s2, n", "d2 DESC, n", "t2, n"],
    ):
        queries.append(f"SELECT n, {call} {over.format(by=by, frame='')} AS x FROM edges ORDER BY n")
    for call, by in product(["rank()", "dense_rank()"], [f"{letter}2" for letter in VALUES]):
        queries.append(f"SELECT n, {call} {over.format(by=by, frame='')} AS x FROM edges ORDER BY n")
    assert check(spark, small, rows_of(5), queries) > 60


@pytest.mark.parametrize("letter", VALUES)
def test_groups_have_sparks_numbers(spark: SparkSession, small: SmallSession, letter: str) -> None:
    hashed = f"xxhash64(({letter}1) IS NULL, {letter}1, (s2) IS NULL, s2)"
    assert check(spark, small, rows_of(3), [f"SELECT n, {hashed} AS x FROM edges ORDER BY n"]) == 1


def test_fields_and_rows_are_what_spark_takes_for_them(spark: SparkSession, small: SmallSession) -> None:
    structs = ", ".join(f"struct({letter}1 AS x, n) AS {letter}" for letter in VALUES)
    found = [
        *(
            f"SELECT n, q.{letter}['x'] AS x FROM (SELECT n, {structs} FROM edges) q ORDER BY n"
            for letter in VALUES
        ),
        "SELECT held.* FROM (SELECT struct(_ls_r.*) AS held FROM edges _ls_r) ORDER BY held.n",
        "SELECT get(array_sort(collect_list(concat(s1, 'NULL'))), 1) AS x FROM edges GROUP BY g ORDER BY g",
    ]
    assert check(spark, small, rows_of(9), found) == len(found)


SQL_TYPES = dict(
    zip(
        VALUES,
        ["BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "DATE"],
        strict=True,
    )
)


@pytest.mark.parametrize("letter", VALUES)
def test_structs_that_are_compared_keep_their_type(
    spark: SparkSession, small: SmallSession, letter: str
) -> None:
    kind = SQL_TYPES[letter]
    pair = f"struct(struct(n AS ts, {letter}1 AS v) AS o, {letter}1 AS x)"
    pair = f"CASE WHEN {letter}1 IS NOT NULL THEN {pair} END"
    typed = f"STRUCT<o: STRUCT<ts: BIGINT, v: {kind}>, x: {kind}>"
    queries = [
        f"SELECT g, q.x AS x FROM (SELECT g, CAST({function}({pair}) AS {typed}) AS q FROM edges GROUP BY g) "
        "ORDER BY g"
        for function in ("max", "min")
    ]
    assert check(spark, small, rows_of(11), queries) == len(queries)
    # A cast that changes values is not a struct of the same type.
    other = "STRUCT<o: STRUCT<ts: DOUBLE, v: STRING>, x: STRING>"
    changing = f"SELECT CAST(max({pair}) AS {other}).x AS x FROM edges"
    assert check(spark, small, rows_of(11), [changing]) == 0


def test_rows_that_are_taken_from_others_go_one_for_one(spark: SparkSession, small: SmallSession) -> None:
    columns = ", ".join(f"{letter}1" for letter in VALUES)
    some = f"SELECT {columns} FROM edges WHERE n % 3 = 0"
    twice = f"SELECT {columns} FROM edges UNION ALL {some}"
    one = [
        f"SELECT {letter}1 FROM edges EXCEPT ALL SELECT {letter}1 FROM edges WHERE n < 20"
        for letter in VALUES
    ]
    queries = [
        f"SELECT {columns} FROM ({twice} EXCEPT ALL {some}) ORDER BY {columns}",
        *(f"SELECT {q.split()[1]} AS x FROM ({q}) ORDER BY x" for q in one),
    ]
    assert check(spark, small, rows_of(5), queries) == len(queries)


def test_what_decides_on_rows_does_so_as_with_spark(spark: SparkSession, small: SmallSession) -> None:
    queries = []
    for letter, operator in product(VALUES, ("INTERSECT", "INTERSECT ALL", "EXCEPT")):
        sets = f"SELECT {letter}1 AS x FROM edges {operator} SELECT {letter}2 FROM edges WHERE n % 3 < 2"
        queries.append(f"SELECT x FROM ({sets}) ORDER BY x")
    for letter, word, same in product(VALUES, ("EXISTS", "NOT EXISTS"), ("=", "<=>")):
        asked = f"SELECT 1 FROM edges q WHERE q.{letter}2 {same} p.{letter}1 AND q.g > 2"
        queries.append(f"SELECT p.n AS x FROM edges p WHERE {word} ({asked}) ORDER BY x")
    assert check(spark, small, rows_of(5), queries) == len(queries)


@pytest.mark.parametrize("letter", VALUES)
def test_lists_are_sorted_as_spark_does(spark: SparkSession, small: SmallSession, letter: str) -> None:
    forms = ((f"{letter}1", ""), (f"struct({letter}1, n)", ".n"), (f"struct({letter}1 AS o, n AS x)", ".x"))
    there = (f"{letter}1 IS NOT NULL AND s2 IS NOT NULL", "n < 0", "n > 0")
    queries = []
    for (form, field), condition, place in product(forms, there, (0, 1, 5)):
        listed = f"array_sort(collect_list({form}) FILTER (WHERE {condition}))"
        queries.append(f"SELECT g, get({listed}, {place}){field} AS x FROM edges GROUP BY g ORDER BY g")
    assert check(spark, small, rows_of(7), queries) >= 18


def test_texts_and_json_are_what_spark_writes(spark: SparkSession, small: SmallSession) -> None:
    chance, count = random.Random(11), 3_000
    signs = [chr(n) for n in range(1, count + 1)]
    micros = [chance.randrange(-12_000_000_000_000_000, 250_000_000_000_000_000) for _ in range(count)]
    numbers = [round(chance.uniform(-1, 1) * 10 ** chance.randint(1, 7), 8) for _ in range(count)]
    rows = pa.table(
        {
            "n": pa.array(range(count), pa.int64()),
            "s": [f"\\u00e{sign}\\{sign}u001f" for sign in signs],
            "d": numbers,
            "t": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "e": pa.array([n // 86_400_000_000 for n in micros], pa.int32()).cast(pa.date32()),
        }
    )
    kept = [abs(d) >= 1e-3 and len(repr(abs(d)).replace(".", "").strip("0")) <= 15 for d in numbers]
    rows = rows.filter(pa.array(kept))
    all_fields = "map('ignoreNullFields', 'false')"
    forms = [
        "concat(CAST(t AS STRING), CAST(e AS STRING))",
        "to_json(struct(n, s, d, t, e))",
        "to_json(struct(struct(if(n % 2 = 0, n, NULL) AS a, s) AS b, n > 1 AS c))",
        f"to_json(named_struct('a\\n', named_struct('ü', if(n % 2 = 0, n, NULL)), 'c', s), {all_fields})",
        f"to_json(named_struct('c', if(n % 3 = 0, s, NULL), 'g', n), {all_fields})",
    ]
    queries = [f"SELECT {form} AS x FROM edges ORDER BY n" for form in forms]
    totals = f"to_json(named_struct('s', sum(n), 'a', max(n) / 4, 'c', count(*)), {all_fields})"
    queries += [f"SELECT {totals} AS x FROM edges WHERE n < {limit}" for limit in (0, 500)]
    assert check(spark, small, rows, queries) == len(queries)
