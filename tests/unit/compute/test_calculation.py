"""Calculations are read once: the way they are evaluated, the bounds of their scans, their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakestream.compute.windows.calculation import (
    ALIAS,
    Calculation,
    Relation,
    Scope,
    compile_calculation,
    compile_query,
)
from lakestream.compute.windows.evaluate import Evaluation, Way, choose_way
from lakestream.compute.windows.hoist import hoist
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.model import Duration, Fragment, IntervalTrigger
from lakestream.triggers.grid import grid_of

if TYPE_CHECKING:
    from lakestream.language.expressions.versions import AsOf

TIMED = {"ts": "timestamp"}
METERS = Relation("main.meters", ("ts", "v", "tbname", "loc"), "ts", is_super=True, types=TIMED)
TABLES = {"meters": METERS, "ref": Relation("main.ref", ("ts", "p"), "ts", types=TIMED)}
PLACEHOLDERS = frozenset({"_twstart", "_twend", "_twduration", "_twrownum", "_tgrpid", "_tlocaltime"})
HOPPING = grid_of(IntervalTrigger(Duration(10, "s"), Duration(0, "s"), Duration(5, "s")), "UTC")
CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("ways.yaml").read_text("utf-8"))


def resolve(database: str | None, name: str, version: AsOf | None) -> Relation:
    del database, version
    if name not in TABLES:
        raise StatementError("TABLE_NOT_FOUND", f"there is no table {name}")
    return TABLES[name]


def compiled(query: str) -> Calculation:
    scope = Scope(METERS, ("_ls_g1",), 1, PLACEHOLDERS, "UTC", resolve)
    return compile_calculation(Fragment(query, statement=query), scope)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"][:60])
def test_way_and_bounds(case: dict[str, Any]) -> None:
    calculation = compiled(case["query"])
    way = choose_way(calculation, HOPPING)
    bounds = [
        [bound.offset if bound else None for bound in (read.lower, read.upper)] for read in calculation.reads
    ]
    assert way == case["way"]
    assert bounds == case.get("reads", [])
    if way is Way.GROUPED:
        evaluation = Evaluation(calculation, HOPPING, way, by_commit=False, only_with_rows=False)
        assert evaluation.by_panes is case["panes"]


@pytest.mark.parametrize("result", ["count(*)", "sum(v)", "approx_count_distinct(v)", "collect_set(v)"])
@pytest.mark.parametrize("only_with_rows", [False, True])
def test_windows_without_rows_are_joined_where_there_may_be_any(result: str, only_with_rows: bool) -> None:
    calculation = compiled(f"SELECT _twstart AS ws, {result} AS n FROM %%trows")
    sql = Evaluation(calculation, HOPPING, Way.GROUPED, by_commit=False, only_with_rows=only_with_rows).sql()
    assert ("e.a0" in sql) is (") e" in sql)
    assert (only_with_rows and "e.a0" in sql) is False


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ("count(*)", "COUNT(*) AS `count(*)`"),
        ("v", "v"),
        ("explode(array(v, 1))", "EXPLODE(ARRAY(v, 1))"),
        ("posexplode(array(v))", "POSEXPLODE(ARRAY(v))"),
        ("explode(map('a', v)) AS (k, w)", "EXPLODE(MAP('a', v)) AS (k, w)"),
        ("stack(1, v, 2)", "STACK(1, v, 2)"),
        ("json_tuple('{}', 'a', 'b')", "JSON_TUPLE('{}', 'a', 'b')"),
        ("struct(v).v", "STRUCT(v AS v).v AS `struct(v as v).v`"),
    ],
)
def test_a_result_is_named_as_it_is_written_but_where_it_may_be_several(result: str, named: str) -> None:
    text = f"SELECT {result} FROM meters"
    query = compile_query(Fragment(text, statement=text), resolve, "UTC", now_us=0, views="q_").query
    assert query.selects[0].sql("spark") == named


def test_names_are_those_the_query_gives_or_made_of_the_text() -> None:
    calculation = compiled("SELECT _twstart AS ws, v, sum(v), upper(%%tbname) AS name FROM meters GROUP BY v")
    assert calculation.names == ("ws", "v", "sum_v", "name")


def test_a_star_is_the_columns_of_the_one_table() -> None:
    assert compiled("SELECT _twend AS at, * FROM ref WHERE ts < _twend").names == ("at", "ts", "p")
    assert compiled("SELECT r.* FROM ref r").names == ("ts", "p")
    assert compiled("SELECT * FROM %%tbname").names == ("ts", "v", "loc")
    with pytest.raises(StatementError, match="name the columns") as refused:
        compiled("SELECT * FROM meters m JOIN range(3) r ON m.v = r.id")
    assert refused.value.code == "COLUMN_NAME_MISSING"


SPARKS = {
    "stddev(v)": "STDDEV(v)",
    "variance(v)": "VARIANCE(v)",
    "percentile(v, 0.5)": "PERCENTILE(v, 0.5)",
    "mode(v)": "MODE(v, TRUE)",
    "mode() WITHIN GROUP (ORDER BY v DESC)": "MODE() WITHIN GROUP (ORDER BY v DESC)",
    "any_value(v)": "MIN(v)",
    "any_value(v, true)": "MIN(v)",
    "first(v)": "MIN_BY(v, STRUCT(`ts`, v)) FILTER(WHERE NOT v IS NULL)",
    "last_value(v, true)": "MAX_BY(v, STRUCT(`ts`, v)) FILTER(WHERE NOT v IS NULL)",
    "first(v) IGNORE NULLS": "MIN_BY(v, STRUCT(`ts`, v)) FILTER(WHERE NOT v IS NULL)",
    "first(v) FILTER (WHERE v > 1)": "MIN_BY(v, STRUCT(`ts`, v)) FILTER(WHERE v > 1 AND NOT v IS NULL)",
    "first(v) OVER (PARTITION BY loc ORDER BY v DESC)": "FIRST(v) OVER (PARTITION BY loc ORDER BY v DESC)",
    "last(v) IGNORE NULLS OVER (ORDER BY v)": "LAST(v) IGNORE NULLS OVER (ORDER BY v)",
}
"""Spark's functions in a query in Spark's SQL, and what they become."""


@pytest.mark.parametrize("written", SPARKS)
def test_functions_of_a_query_in_sparks_sql_are_sparks(written: str) -> None:
    scope = Scope(METERS, (), None, frozenset(), "UTC", lambda *_: METERS)
    query = f"SELECT {written} AS x FROM meters"
    item = compile_calculation(Fragment(query, statement=query, spark=True), scope).query.selects[0]
    assert item.unalias().sql("spark") == SPARKS[written]


def test_an_opening_has_no_end_to_join_by() -> None:
    calculation = compiled("SELECT _twstart, count(*) FROM ref WHERE ts >= _twstart AND ts < _twend")
    assert choose_way(calculation, HOPPING) is Way.JOINED
    assert choose_way(calculation, HOPPING, at_open=True) is Way.LATERAL


def test_only_spark_knows_whether_a_column_counts_milliseconds() -> None:
    sql = compiled("SELECT CAST(v AS TIMESTAMP), CAST('2025-01-01' AS TIMESTAMP) FROM meters").query.sql(
        "spark"
    )
    assert "THEN TIMESTAMP_MILLIS(CAST(v AS BIGINT)) ELSE CAST(v AS TIMESTAMP) END" in sql
    assert "CAST('2025-01-01' AS TIMESTAMP)" in sql


def test_a_forced_row_keeps_what_is_made_of_placeholders_and_constants() -> None:
    calculation = compiled("SELECT _twstart + 1s AS ws, 1 + 2 AS three, v + 1 AS w FROM meters WHERE v > 5")
    evaluation = Evaluation(
        calculation, HOPPING, Way.LATERAL, by_commit=False, only_with_rows=False, forces=True
    )
    kept = re.findall(r"ELSE (.+?) END AS", evaluation.sql())
    assert kept == ["_ls_w._twstart + MAKE_DT_INTERVAL(0, 0, 0, 1.000000)", "1 + 2", "NULL"]


def test_placeholders_become_columns_of_the_windows() -> None:
    sql = compiled("SELECT _twstart + 1m, %%1, '_twend' FROM %%trows").query.sql("spark")
    assert "_ls_w._twstart" in sql
    assert "_ls_w._ls_g1" in sql
    assert "'_twend'" in sql


def test_a_number_cast_to_timestamp_counts_milliseconds() -> None:
    sql = compiled(
        "SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP), CAST('2025-01-01' AS TIMESTAMP) FROM ref"
    )
    assert "TIMESTAMP_MILLIS(CAST((_ls_w._tlocaltime DIV 1000000) AS BIGINT))" in sql.query.sql("spark")
    assert "CAST('2025-01-01' AS TIMESTAMP)" in sql.query.sql("spark")


@pytest.mark.parametrize("name", ["fill_forward", "cols", "forecast"])
def test_functions_that_do_not_fit_a_window_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupportedError, match=name) as refused:
        compiled(f"SELECT _twstart,\n  {name}(v, 1) FROM %%trows")
    assert refused.value.place is not None
    assert (refused.value.place.line, refused.value.place.column) == (2, 3)


def test_slices_group_what_aggregates_and_leave_other_rows_as_they_are() -> None:
    rows = compiled("SELECT _twstart, v FROM %%trows PARTITION BY v").query
    assert rows.args.get("group") is None
    query = compiled("SELECT _twstart, v, count(*) FROM %%trows PARTITION BY v").query
    assert [key.sql("spark") for key in query.args["group"].expressions] == ["v"]


def test_first_without_one_table_has_no_order() -> None:
    with pytest.raises(StatementError) as refused:
        compiled("SELECT _twstart, first(a.v) FROM meters a JOIN ref b ON a.ts = b.ts")
    assert refused.value.code == "NO_ROW_ORDER"


def test_an_unknown_table_is_named_at_its_place() -> None:
    with pytest.raises(StatementError, match="nosuch") as refused:
        compiled("SELECT _twstart, count(*) FROM nosuch")
    assert refused.value.place is not None
    assert refused.value.place.column == 32


def test_aggregates_beside_placeholders_become_a_select_of_their_own() -> None:
    calculation = compiled(
        "SELECT _twstart AS day, a.loc, count(*) AS n, sum(b.p) / 2 AS half "
        "FROM meters a JOIN ref b ON a.ts = b.ts WHERE a.ts >= _twstart GROUP BY a.loc"
    )
    query = calculation.query.copy()
    hoist(query, ALIAS)
    sql = query.sql("spark")
    assert sql.startswith(
        "SELECT _ls_w._twstart AS day, _ls_inner._ls_b0 AS `loc`, "
        "_ls_inner._ls_a0 AS n, _ls_inner._ls_a1 / 2 AS half"
    )
    assert sql.endswith("GROUP BY a.loc) AS _ls_inner")


BESIDE_TIMES = {
    "ts >= 5000": "ts >= TIMESTAMP_MILLIS(CAST(5000 AS BIGINT))",
    "m.ts BETWEEN -1 AND 5000 - 1s": "m.ts BETWEEN TIMESTAMP_MILLIS(CAST((-1) AS BIGINT)) "
    "AND TIMESTAMP_MILLIS(CAST(5000 AS BIGINT)) - MAKE_DT_INTERVAL(0, 0, 0, 1.000000)",
    "5000 < _twstart + 1": "TIMESTAMP_MILLIS(CAST(5000 AS BIGINT)) "
    "< _ls_w._twstart + MAKE_DT_INTERVAL(0, 0, 0, 0.001000)",
    "ts IN ('2025-01-01 09:00:00', 5000)": "ts IN (TIMESTAMP_MICROS(CAST(1735689600000000 AS BIGINT)), "
    "TIMESTAMP_MILLIS(CAST(5000 AS BIGINT)))",
    "ts > '1969-12-31 08:59:59.5'": "ts > TIMESTAMP_MICROS(-CAST(86400500000 AS BIGINT))",
    "v > 5000 AND loc = '2025-01-01'": "v > 5000 AND loc = '2025-01-01'",
}
"""Conditions in a lake in Tokyo, and what Spark is asked."""


@pytest.mark.parametrize("written", BESIDE_TIMES)
def test_constants_beside_times_are_times(written: str) -> None:
    scope = Scope(METERS, (), None, PLACEHOLDERS, "Asia/Tokyo", resolve)
    query = f"SELECT count(*) FROM meters m WHERE {written}"
    found = compile_calculation(Fragment(query, statement=query), scope).query
    assert found.args["where"].this.sql("spark") == BESIDE_TIMES[written]


def test_a_time_is_looked_for_among_texts_as_a_time() -> None:
    found = compiled("SELECT count(*) FROM meters WHERE ts IN ('2025-01-01')").query.args["where"].this
    assert found.sql("spark") == "ts IN (TIMESTAMP_MICROS(CAST(1735689600000000 AS BIGINT)))"
