"""Every function of the IoTDB dialect has its meaning, by figures, and the type that it is said to give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.compute.tree.expand import outputs
from lakestream.compute.tree.series_types import type_of
from lakestream.language import parse_statement
from lakestream.language.iotdb.functions import AGGREGATES, SCALARS
from lakestream.language.iotdb.values import QueryTree
from lakestream.storage.names.tree import Tree
from lakestream.timeseries.points import type_of_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# At 1, 2, 3 and 5 s.
A = (3.25, -2.5, None, 0.25)
I = (1, 5, 5, -2)  # noqa: E741
T = ("abc", "Hello ", None, "b")
U = ("abd", None, "x", "b")
B = (True, False, None, True)
C = (0.5, -0.25, None, 1.0)


def of(values: tuple[Any, ...], function: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else function(value) for value in values]


def log(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return a logarithm that is NaN below 0."""
    return lambda x: function(x) if x > 0 else math.nan


SMOOTH = {
    "exp": math.exp,
    "ln": log(math.log),
    "log10": log(math.log10),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "degrees": math.degrees,
    "radians": math.radians,
    "sign": lambda x: math.copysign(1.0, x),
    "ceil": lambda x: float(math.ceil(x)),
    "floor": lambda x: float(math.floor(x)),
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
}

SCALAR: list[tuple[str, list[Any]]] = [
    *((f"{name}(a)", of(A, function)) for name, function in SMOOTH.items()),
    ("asin(c)", of(C, math.asin)),
    ("acos(c)", of(C, math.acos)),
    ("abs(a)", [3.25, 2.5, None, 0.25]),
    ("abs(i)", [1, 5, 5, 2]),
    ("round(a)", [3.0, -2.0, None, 0.0]),
    ("round(a, 1)", [3.2, -2.5, None, 0.2]),
    ("round(i, -1)", [0.0, 0.0, 0.0, -0.0]),
    ("on_off(a, 'threshold'='0.25')", [True, False, None, True]),
    ("in_range(a, 'lower'='-2.5', 'upper'='1')", [False, True, None, True]),
    ("string_contains(t, 's'='b')", [True, False, None, True]),
    ("string_matches(t, 'regex'='[a-c]+')", [True, False, None, True]),
    ("string_matches(t, 'regex'='ab|b')", [False, False, None, True]),
    ("length(t)", [3, 6, None, 1]),
    ("locate(t, 'target'='l')", [-1, 2, None, -1]),
    ("locate(t, 'target'='l', 'reverse'='true')", [-1, 3, None, -1]),
    ("startswith(t, 'target'='a')", [True, False, None, False]),
    ("endswith(t, 'target'='c')", [True, False, None, False]),
    ("concat(t, u, 'target1'='-', 'target2'='!')", ["abcabd-!", "Hello -!", "x-!", "bb-!"]),
    ("concat(t, 'target1'='-', 'series_behind'='true')", ["-abc", "-Hello ", None, "-b"]),
    ("substring(t, 2)", ["bc", "ello ", None, ""]),
    ("substring(t FROM 2 FOR 2)", ["bc", "el", None, ""]),
    ("replace(t, 'l', 'L')", ["abc", "HeLLo ", None, "b"]),
    ("upper(t)", ["ABC", "HELLO ", None, "B"]),
    ("lower(t)", ["abc", "hello ", None, "b"]),
    ("trim(t)", ["abc", "Hello", None, "b"]),
    ("strcmp(t, u)", [-1, None, None, 0]),
    ("strcmp(u, t)", [1, None, None, 0]),
    ("cast(a AS INT32)", [3, -2, None, 0]),
    ("cast(a AS INT64)", [3, -2, None, 0]),
    ("cast(i AS FLOAT)", [1.0, 5.0, 5.0, -2.0]),
    ("cast(a AS BOOLEAN)", [True, True, None, True]),
    ("cast(b AS DOUBLE)", [1.0, 0.0, None, 1.0]),
    ("cast(a AS TEXT)", ["3.25", "-2.5", None, "0.25"]),
    ("const(t, 'value'='7', 'type'='INT64')", [7, 7, None, 7]),
    ("pi(a)", [math.pi, math.pi, None, math.pi]),
    ("e(a)", [math.e, math.e, None, math.e]),
    ("diff(a)", [None, -5.75, None, 2.75]),
    ("diff(a, 'ignoreNull'='false')", [None, -5.75, None, None]),
    ("difference(i)", [None, 4, 0, -7]),
    ("difference(a)", [None, -5.75, None, 2.75]),
    ("non_negative_difference(i)", [None, 4, 0, 7]),
    ("derivative(a)", [None, -0.00575, None, 2.75 / 3000]),
    ("non_negative_derivative(a)", [None, 0.00575, None, 2.75 / 3000]),
    ("time_difference(t)", [None, 1000, None, 3000]),
    ("top_k(i, 'k'='1')", [None, 5, None, None]),
    ("top_k(t, 'k'='2')", ["abc", None, None, "b"]),
    ("bottom_k(i, 'k'='2')", [1, None, None, -2]),
    ("change_points(i)", [1, 5, None, -2]),
    ("CASE WHEN i = 5 THEN i ELSE a END", [3.25, 5.0, 5.0, 0.25]),
    ("CASE i WHEN 1 THEN t END", ["abc", None, None, None]),
    ("i + 1", [2.0, 6.0, 6.0, -1.0]),
    ("- i", [-1, -5, -5, 2]),
    ("i > 1", [False, True, True, False]),
]

AGGREGATE: list[tuple[str, Any]] = [
    ("count(a)", 3),
    ("sum(a)", 1.0),
    ("avg(i)", 2.25),
    ("min_value(i)", -2),
    ("max_value(a)", 3.25),
    ("first_value(t)", "abc"),
    ("last_value(t)", "b"),
    ("extreme(i)", 5),
    ("min_time(u)", 1000),
    ("max_time(a)", 5000),
    ("max_by(t, i)", "Hello "),
    ("min_by(time, i)", 5000),
    ("mode(i)", 5),
    ("mode(t)", "abc"),
    ("stddev(i)", math.sqrt(11.583333333333334)),
    ("stddev_samp(i)", math.sqrt(11.583333333333334)),
    ("stddev_pop(i)", math.sqrt(8.6875)),
    ("variance(i)", 11.583333333333334),
    ("var_samp(i)", 11.583333333333334),
    ("var_pop(i)", 8.6875),
    ("time_duration(a)", 4000),
    ("count_if(i = 5, 2)", 1),
    ("count_if(i = 5, keep > 2)", 0),
    ("count_if(b, 1)", 2),
    ("sum(a) / count(a)", 1.0 / 3),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark) as lake:
        series = "a DOUBLE, i INT32, t TEXT, u TEXT, b BOOLEAN, c DOUBLE"
        lake.sql(f"CREATE ALIGNED TIMESERIES root.sg.d({series})", dialect="iotdb")
        columns = zip((1000, 2000, 3000, 5000), A, I, T, U, B, C, strict=True)
        rows = [dict(zip(("ts", *"aitubc"), row, strict=True)) for row in columns]
        lake.insert("root.sg.d", rows)
        yield lake


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(wanted)) or found == pytest.approx(wanted, rel=1e-12)
    return type(found) is type(wanted) and bool(found == wanted)


def check_types(lake: Lake, text: str, schema: Any) -> None:
    """Hold the types that a query is said to give against those it gives."""
    statement = parse_statement(text, dialect="iotdb")
    assert isinstance(statement, QueryTree)
    tree = lake._at.tree.tree
    assert isinstance(tree, Tree)
    said = [type_of(output) for output in outputs(statement.select, tree.series())]
    given = [type_of_arrow(field.type) for field in schema][-len(said) :]
    assert dict(zip(schema.names[-len(said) :], said, strict=True)) == dict(
        zip(schema.names[-len(said) :], given, strict=True)
    )


def test_functions_of_points(lake: Lake) -> None:
    text = f"SELECT {', '.join(f'{sql} AS x{n}' for n, (sql, _) in enumerate(SCALAR))}, i FROM root.sg.d"
    result = lake.sql(text, dialect="iotdb").to_arrow()
    for number, (sql, wanted) in enumerate(SCALAR):
        found = result[f"x{number}"].to_pylist()
        assert all(map(same, found, wanted)), f"{sql}: {found}, not {wanted}"
    check_types(lake, text, result.schema)


def test_aggregates(lake: Lake) -> None:
    text = f"SELECT {', '.join(f'{sql} AS x{n}' for n, (sql, _) in enumerate(AGGREGATE))} FROM root.sg.d"
    result = lake.sql(text, dialect="iotdb").to_arrow()
    for number, (sql, wanted) in enumerate(AGGREGATE):
        [found] = result[f"x{number}"].to_pylist()
        assert same(found, wanted), f"{sql}: {found}, not {wanted}"
    check_types(lake, text, result.schema)


def test_no_function_is_left_out() -> None:
    tried = {sql.split("(")[0].lower() for sql, _ in SCALAR}
    assert SCALARS.keys() - tried == set()
    assert AGGREGATES.keys() - {"count_time"} - {sql.split("(")[0] for sql, _ in AGGREGATE} == set()
