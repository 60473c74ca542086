"""Trees of expressions and queries, and the places of their nodes."""

from __future__ import annotations

import pytest
from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.language import parse_expression, parse_query
from lakestream.language.expressions.inner_windows import Clause, clause_of
from lakestream.language.expressions.parsing import place_in
from lakestream.language.model import Duration, Fragment, StateRule, TrueFor


def test_a_duration_is_a_call_over_its_text() -> None:
    tree = parse_expression(Fragment("ts - 5m"))
    call = tree.find(exp.Anonymous)
    assert call is not None
    assert call.name == "_ls_duration"
    assert [argument.name for argument in call.expressions] == ["5m"]


def test_placeholders_are_unquoted_names() -> None:
    tree = parse_query(Fragment("SELECT %%1, upper(%%tbname), '%%2' FROM %%trows"))
    assert [column.name for column in tree.find_all(exp.Column)] == ["%%1", "%%tbname"]
    assert [table.name for table in tree.find_all(exp.Table)] == ["%%trows"]
    assert not any(name.quoted for name in tree.find_all(exp.Identifier))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("VALUES (3), (1) ORDER BY col1 LIMIT 1", "SELECT * FROM VALUES (3), (1) ORDER BY col1 LIMIT 1"),
        ("SELECT v IN (VALUES (1)) FROM t", "SELECT v IN (SELECT * FROM VALUES (1)) FROM t"),
    ],
)
def test_values_are_a_query(text: str, meant: str) -> None:
    tree = parse_query(Fragment(text))
    assert tree.sql("spark") == meant
    assert tree.args.get("order") is None or tree.args["limit"].expression.name == "1"


def test_a_tree_is_its_callers_own() -> None:
    fragment = Fragment("SELECT v AS x FROM t WHERE v > 1")
    tree = parse_query(fragment)
    place = place_in(fragment, tree.selects[0])
    tree.set("where", None)
    tree.selects[0].set("alias", None)
    again = parse_query(fragment)
    assert again.sql("spark") == "SELECT v AS x FROM t WHERE v > 1"
    assert place_in(fragment, again.selects[0]) == place


def test_a_window_at_the_end_of_a_query() -> None:
    text = "SELECT _wstart FROM t PARTITION BY tbname INTERVAL(10s, 1s) SLIDING(5s) ORDER BY 1"
    tree = parse_query(Fragment(text))
    assert inner(tree) == Clause(
        "INTERVAL", length=Duration(10, "s"), offset=Duration(1, "s"), every=Duration(5, "s")
    )
    assert [column.name for column in tree.args["slices"].expressions] == ["tbname"]
    assert tree.args["order"] is not None


def test_a_window_without_slices_may_be_limited() -> None:
    tree = parse_query(Fragment("SELECT _wstart FROM t INTERVAL(10s, 1s) SLIDING(5s) ORDER BY 1 LIMIT 9"))
    assert inner(tree) is not None
    assert tree.args["order"] is not None
    assert tree.args["limit"] is not None


def test_a_window_of_a_subquery_belongs_to_it() -> None:
    tree = parse_query(Fragment("SELECT max(c) FROM (SELECT count(*) AS c FROM t INTERVAL(1m))"))
    minute = Duration(1, "m")
    assert [inner(select) for select in tree.find_all(exp.Select)] == [
        None,
        Clause("INTERVAL", length=minute, every=minute),
    ]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("SESSION(ts, 5s)", Clause("SESSION", gap=Duration(5, "s"))),
        ("SESSION(ts, '5s')", Clause("SESSION", gap=Duration(5, "s"))),
        ("STATE_WINDOW(v)", Clause("STATE_WINDOW")),
        ("x STATE_WINDOW(v) TRUE_FOR(3s)", Clause("STATE_WINDOW", least=TrueFor(Duration(3, "s")))),
        (
            "STATE_WINDOW(v, w) EXTEND(2) ZEROTH_STATE(-1, NO_ZEROTH)",
            Clause("STATE_WINDOW", rule=StateRule(2, (-1, None))),
        ),
        ("STATE_WINDOW(v, 1, 'a')", Clause("STATE_WINDOW", rule=StateRule(1, ("a",)))),
        ("STATE_WINDOW(v) TRUE_FOR(COUNT 3)", Clause("STATE_WINDOW", least=TrueFor(rows=3))),
        (
            "EVENT_WINDOW START WITH v > 1 END WITH v < 1 TRUE_FOR(3s OR COUNT 2)",
            Clause("EVENT_WINDOW", least=TrueFor(Duration(3, "s"), 2, either=True)),
        ),
        ("EVENT_WINDOW START WITH v > 1 END WITH v < 1", Clause("EVENT_WINDOW")),
        ("EVENT_WINDOW(START WITH v > 1 END WITH v < 1)", Clause("EVENT_WINDOW")),
        ("WHERE v > 1 COUNT_WINDOW(3)", Clause("COUNT_WINDOW", rows=3, step=3)),
        ("COUNT_WINDOW(3, 2, v)", Clause("COUNT_WINDOW", rows=3, step=2)),
        ("INTERVAL(1000)", Clause("INTERVAL", length=Duration(1000, "a"), every=Duration(1000, "a"))),
    ],
)
def test_what_a_window_clause_says(text: str, clause: Clause) -> None:
    assert inner(parse_query(Fragment(f"SELECT count(*) FROM t {text}"))) == clause


def test_limits_of_slices_and_fill() -> None:
    text = "SELECT count(*) FROM t PARTITION BY v INTERVAL(1s) FILL(VALUE, -1) ORDER BY 1 SLIMIT 2, 3 LIMIT 4"
    tree = parse_query(Fragment(text))
    window, limit = tree.args["inner_window"], tree.args["slice_limit"]
    assert (window.args["fill"], window.args["values"][0].sql("spark")) == ("VALUE", "-1")
    assert (limit.this.name, limit.args["offset"].name) == ("3", "2")
    assert tree.args["limit"].expression.name == "4"


def test_strings_are_what_they_say() -> None:
    tree = parse_query(Fragment(r"""SELECT 'it''s', "a''b", 'a\'b', "x""y", 'a\nb', '50\%'"""))
    assert [item.name for item in tree.selects] == ["it's", "a''b", "a'b", 'x"y', "a\nb", r"50\%"]


def test_places_are_those_of_the_statement() -> None:
    fragment = Fragment("SELECT a,\n  bad FROM t", line=3, column=10, statement="…")
    column = list(parse_query(fragment).find_all(exp.Column))[1]
    place = place_in(fragment, column)
    assert (place.line, place.column, place.length) == (4, 3, 3)


def test_only_a_query_is_a_query() -> None:
    for text in ("DROP TABLE t", "INSERT INTO t SELECT 1", "SHOW TABLES", "SELECT 1; SELECT 2", "a > 1"):
        with pytest.raises(StatementError):
            parse_query(Fragment(text))


@pytest.mark.parametrize(
    ("window", "code", "column"),
    [
        ("INTERVAL(0s)", "BAD_DURATION", 32),
        ("INTERVAL(10s) SLIDING(0s)", "BAD_DURATION", 45),
        ("INTERVAL(500b)", "BAD_DURATION", 32),
        ("INTERVAL(1n) SLIDING(1d)", "BAD_DURATION", 44),
        ("INTERVAL(5s) SLIDING(10s)", "BAD_DURATION", 44),
        ("INTERVAL(1n) SLIDING(2n)", "BAD_DURATION", 44),
        ("INTERVAL(10s, 10s)", "BAD_OFFSET", 37),
        ("INTERVAL(10s, 1s, 1s)", "SYNTAX", 23),
        ("INTERVAL(10s, AUTO)", "NOT_SUPPORTED", 37),
        ("INTERVAL(10s) FILL(NEAR)", "NOT_SUPPORTED", 23),
        ("INTERVAL(10s) FILL(LATER)", "SYNTAX", 23),
        ("INTERVAL(10s) FILL(VALUE)", "FILL_VALUE", 23),
        ("INTERVAL(10s) FILL(PREV, 1)", "FILL_VALUE", 23),
        ("INTERVAL(10s) FILL(VALUE, v)", "FILL_VALUE", 49),
        ("SESSION(ts)", "SYNTAX", 23),
        ("SESSION(ts, 1n)", "BAD_DURATION", 35),
        ("SESSION(ts, 0s)", "BAD_DURATION", 35),
        ("SESSION(ts, 5s) FILL(NULL)", "SYNTAX", 23),
        ("COUNT_WINDOW(3) SLIDING(1s)", "SYNTAX", 23),
        ("COUNT_WINDOW(0)", "BAD_COUNT", 36),
        ("COUNT_WINDOW(2, 3)", "BAD_COUNT", 39),
        ("COUNT_WINDOW(v)", "SYNTAX", 23),
        ("STATE_WINDOW(v, 3)", "EXTEND", 39),
        ("STATE_WINDOW(v, w, x, 1)", "EXTEND", 45),
        ("STATE_WINDOW(v) EXTEND(v)", "EXTEND", 46),
        ("STATE_WINDOW(v) ZEROTH_STATE(1, 2)", "ZEROTH_STATE", 23),
        ("STATE_WINDOW(v) ZEROTH_STATE(1.5)", "ZEROTH_STATE", 52),
        ("SESSION(ts, 5s) EXTEND(1)", "SYNTAX", 23),
        ("STATE_WINDOW(v) TRUE_FOR(COUNT 0)", "BAD_COUNT", 54),
        ("SESSION(ts, 5s) TRUE_FOR(COUNT 3)", "SYNTAX", 23),
        ("INTERVAL(10s) GROUP BY v", "NOT_SUPPORTED", 23),
        ("EVENT_WINDOW(START WITH v > 1)", "SYNTAX", 52),
        ("SLIMIT 1", "SYNTAX", 30),
    ],
)
def test_a_window_of_a_query_that_cannot_be_is_refused(window: str, code: str, column: int) -> None:
    with pytest.raises(StatementError) as refused:
        parse_query(Fragment(f"SELECT _wstart FROM t {window}"))
    place = refused.value.place
    assert (refused.value.code, place and place.column) == (code, column)


def inner(select: exp.Expr) -> Clause | None:
    window = select.args.get("inner_window")
    return None if window is None else clause_of(window)


def test_names_of_clauses_may_be_names() -> None:
    tree = parse_query(Fragment("SELECT session, fill.range FROM t fill JOIN every ON fill.x = every.x"))
    assert tree.sql("spark") == "SELECT session, fill.range FROM t AS fill JOIN every ON fill.x = every.x"


def test_comments_do_not_reach_the_tree() -> None:
    tree = parse_query(Fragment("SELECT /* x */ /*+ BROADCAST(t) */ a -- y\n FROM t"))
    assert tree.sql("spark") == "SELECT a FROM t"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("(SELECT v FROM t ORDER BY w) LIMIT 2 OFFSET 1", "(SELECT v FROM t ORDER BY w LIMIT 2 OFFSET 1)"),
        ("((SELECT v FROM t)) ORDER BY v LIMIT 2", "((SELECT v FROM t ORDER BY v LIMIT 2))"),
        (
            "(SELECT v FROM t ORDER BY v LIMIT 3) ORDER BY v DESC LIMIT 2",
            "(SELECT * FROM (SELECT v FROM t ORDER BY v LIMIT 3) ORDER BY v DESC LIMIT 2)",
        ),
    ],
)
def test_what_stands_behind_brackets_is_said_of_the_query(said: str, meant: str) -> None:
    assert parse_query(Fragment(said)).sql("spark") == meant
