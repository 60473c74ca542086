"""However a stream's calculation is evaluated, each clause of it is in the SQL, or it is refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from lakestream.compute.windows.calculation import (
    Calculation,
    Relation,
    Scope,
    compile_calculation,
    compile_query,
)
from lakestream.compute.windows.evaluate import Evaluation, choose_way
from lakestream.errors import StatementError
from lakestream.language.model import Duration, Fragment, IntervalTrigger
from lakestream.triggers.assign import PlacedGrid
from lakestream.triggers.grid import Grid, grid_of

if TYPE_CHECKING:
    from lakestream.language.expressions.versions import AsOf

COLUMNS = ("ts", "v", "mark1", "mark2", "tbname")
METERS = Relation("main.meters", COLUMNS, "ts", is_super=True)
PLACEHOLDERS = frozenset({"_twstart", "_twend", "_twduration", "_twrownum", "_tgrpid", "_tlocaltime"})
GRIDS: dict[str, Grid] = {
    "tumbling": grid_of(IntervalTrigger(Duration(5, "s"), Duration(0, "s"), Duration(5, "s")), "UTC"),
    "hopping": grid_of(IntervalTrigger(Duration(10, "s"), Duration(0, "s"), Duration(5, "s")), "UTC"),
    "placed": PlacedGrid(),
}

HEADS = {
    "aggregate": "count(*), max(v)",
    "of the window": "_twstart, count(*)",
    "rows": "v",
}
TAILS = [
    "WHERE {a} > 7771",
    "WHERE {a} > 7771 ORDER BY {b}",
    "GROUP BY {a}",
    "GROUP BY {a} HAVING max({b}) > 7771",
    "GROUP BY {a} WITH ROLLUP",
    "GROUP BY ROLLUP ({a})",
    "GROUP BY CUBE ({a})",
    "GROUP BY GROUPING SETS (({a}), ())",
    "GROUP BY {a} GROUPING SETS (({a}), ())",
    "HAVING max({a}) > 7771",
    "QUALIFY max({a}) OVER () > 7771",
    "QUALIFY row_number() OVER (ORDER BY {a}) = 7771",
    "ORDER BY {a}",
    "SORT BY {a}",
    "DISTRIBUTE BY {a}",
    "CLUSTER BY {a}",
    "LIMIT 7771",
    "LIMIT 7771 OFFSET 7772",
    "WINDOW mark1 AS (ORDER BY ts)",
    "LATERAL VIEW explode({a}) mark2 AS z",
    "PARTITION BY {a}",
    "PARTITION BY {a} INTERVAL(2s)",
    "PARTITION BY {a} LIMIT 7771",
    "PARTITION BY {a} SLIMIT 7771",
    "SESSION(ts, 7771s)",
    "COUNT_WINDOW(7772, 7771, {a})",
    "STATE_WINDOW({a})",
    "EVENT_WINDOW START WITH {a} > 7771 END WITH {b} > 7772",
    "INTERVAL(7s) FILL(VALUE, 7771, 7772)",
    "PIVOT (sum(v) FOR {a} IN (7771, 7772))",
    "UNPIVOT ({a} FOR z IN (v, {b}))",
]
SAYS_MORE = {"GROUP BY {a} WITH ROLLUP": "ROLLUP", "GROUP BY {a} GROUPING SETS (({a}), ())": "GROUPING SETS"}

WITHOUT_EFFECT = {("rows", "PARTITION BY {a}")}
"""Rows are the same in slices or not (TDengine)."""


def resolve(database: str | None, name: str, version: AsOf | None) -> Relation:
    del database, name, version
    return METERS


def compiled(query: str) -> Calculation:
    scope = Scope(METERS, ("_ls_g1",), 1, PLACEHOLDERS, "UTC", resolve)
    return compile_calculation(Fragment(query, statement=query), scope)


def marks_of(query: str) -> list[str]:
    return [mark for mark in ("mark1", "mark2", "7771", "7772") if mark in query]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("source", ["%%trows", "meters"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_clause_of_a_calculation_arrives(grid: str, head: str, source: str, tail: str) -> None:
    if (head, tail) in WITHOUT_EFFECT:
        return
    query = f"SELECT {HEADS[head]} FROM {source} {tail.format(a='mark1', b='mark2')}"
    with suppress(StatementError):
        calculation = compiled(query)
        way = choose_way(calculation, GRIDS[grid])
        sql = Evaluation(calculation, GRIDS[grid], way, by_commit=False, only_with_rows=False).sql()
        assert not [mark for mark in marks_of(query) if not says(sql, mark)], sql
        assert SAYS_MORE.get(tail, "") in sql


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("head", HEADS)
def test_every_clause_of_a_plain_query_arrives(head: str, tail: str) -> None:
    if (head, tail) in WITHOUT_EFFECT:
        return
    listed = HEADS[head].replace("_twstart", "v")
    query = f"SELECT {listed} FROM meters {tail.format(a='mark1', b='mark2')}"
    with suppress(StatementError):
        fragment = Fragment(query, statement=query)
        sql = compile_query(fragment, resolve, "UTC", now_us=0, views="q_").query.sql("spark")
        assert not [mark for mark in marks_of(query) if not says(sql, mark)], sql


def says(sql: str, mark: str) -> bool:
    """Return whether a mark is there beyond the columns that are read; durations are in microseconds."""
    inside = sql.replace("`ts`, `v`, `mark1`, `mark2`, `tbname`", "")
    return mark in inside or f"{mark}000000" in inside


def test_a_star_leaves_out_what_the_query_and_its_slices_leave_out() -> None:
    query = "SELECT * EXCEPT (mark1) FROM meters PARTITION BY v LIMIT 2"
    sql = compile_query(Fragment(query), resolve, "UTC", now_us=0, views="q_").query.sql("spark")
    assert "* EXCEPT (mark1, _ls_r" in sql


@pytest.mark.parametrize("group", ["ROLLUP (v)", "v WITH CUBE", "ALL"])
def test_slices_of_several_groupings_are_refused(group: str) -> None:
    for query in (
        f"SELECT v, count(*) FROM meters PARTITION BY mark1 GROUP BY {group}",
        f"SELECT v, diff(mark2) FROM meters GROUP BY {group}",
    ):
        with pytest.raises(StatementError, match="CUBE"):
            compile_query(Fragment(query, statement=query), resolve, "UTC", now_us=0, views="q_")


@pytest.mark.parametrize(
    "function", ["range(10)", "explode(array(1, 2))", "json_tuple('a', 'b')", "range(1, 9) r"]
)
def test_what_a_function_gives_as_a_table_is_no_table_of_the_lake(function: str) -> None:
    query = f"SELECT * FROM {function} JOIN meters ON true"
    compiled_query = compile_query(Fragment(query, statement=query), resolve, "UTC", now_us=0, views="q_")
    assert function.partition("(")[0] in compiled_query.query.sql("spark").lower()
    assert [read.relation.key for read in compiled_query.reads] == [resolve(None, "meters", None).key]
