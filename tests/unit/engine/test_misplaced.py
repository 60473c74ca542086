"""What Spark refuses of a query's shape has a sentence of our own and the place of the part at fault."""

from __future__ import annotations

import pytest

from lakestream.engine.base.misplaced import misplaced, part_of, plain_sentence
from lakestream.language.expressions.parsing import parse_query, place_in
from lakestream.language.model import Fragment


@pytest.mark.parametrize(
    ("query", "condition", "parameters", "sentence", "column"),
    [
        ("SELECT sum(v), v FROM t", "MISSING_GROUP_BY", {}, "v is neither", 16),
        ("SELECT _twstart, %%1, v, count(*) FROM %%trows", "MISSING_GROUP_BY", {}, "v is neither", 23),
        ("SELECT ts, count(*) FROM t", "MISSING_GROUP_BY", {}, "ts is neither", 8),
        ("SELECT a, b, sum(v) FROM t GROUP BY a", "MISSING_AGGREGATION", {}, "b is neither", 11),
        ("SELECT sum(1 + max(v)) FROM t", "NESTED_AGGREGATE_FUNCTION", {}, "within another", 16),
        ("SELECT v FROM t WHERE sum(v) > 1", "INVALID_WHERE_CONDITION", {}, "an aggregate cannot", 23),
        (
            "SELECT v FROM t WHERE row_number() OVER (ORDER BY v) > 1",
            "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
            {},
            "a window function cannot",
            23,
        ),
        (
            "SELECT a.v FROM t a JOIN t b ON v = 1",
            "AMBIGUOUS_REFERENCE",
            {"name": "`v`"},
            "v may be a column of several tables",
            33,
        ),
        (
            "SELECT 1, lag(v) FROM t",
            "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE",
            {"funcName": '"lag(v, 1)"'},
            "lag",
            11,
        ),
        ("SELECT v FROM t UNION SELECT v, s FROM t", "NUM_COLUMNS_MISMATCH", {}, "UNION have 1 and 2", 30),
        (
            "SELECT ts FROM t WHERE ts",
            "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
            {"sqlExpr": '"ts"', "type": '"TIMESTAMP"'},
            "of type timestamp",
            24,
        ),
        ("SELECT count(*) FROM t GROUP BY 5", "GROUP_BY_POS_OUT_OF_RANGE", {"index": "5"}, "GROUP BY 5", 33),
        ("SELECT (SELECT v FROM t) FROM t", "SCALAR_SUBQUERY_TOO_MANY_ROWS", {}, "several rows", 16),
    ],
)
def test_the_part_at_fault(
    query: str, condition: str, parameters: dict[str, str], sentence: str, column: int
) -> None:
    fragment = Fragment(query)
    found = misplaced(condition, parameters, parse_query(fragment))
    assert found is not None
    assert sentence in found[0]
    assert found[1] is not None
    assert place_in(fragment, found[1]).column == column


def test_what_no_rule_knows_keeps_the_sentence_without_codes_and_own_names() -> None:
    said = "[CANNOT_DO] Cannot do `_ls_w`.`x` of ls_query_0 with SQLSTATE: 42K09 (line 1, pos 62)"
    assert misplaced("CANNOT_DO", {}, parse_query(Fragment("SELECT 1"))) is None
    assert plain_sentence(said) == "Cannot do `x` of  with"


def test_a_part_is_found_by_the_text_that_spark_quotes() -> None:
    fragment = Fragment("SELECT 1, explode(v) FROM t")
    part = part_of(parse_query(fragment), {"sqlExpr": '"explode(v)"'})
    assert part is not None
    assert place_in(fragment, part).column == 11
    assert part_of(parse_query(fragment), {"sqlExpr": '"other(v)"'}) is None


def test_a_part_is_found_in_a_query_with_clauses_that_spark_has_not() -> None:
    fragment = Fragment("SELECT count(*) FROM t WHERE v > d INTERVAL(1m) FILL(NULL)")
    part = part_of(parse_query(fragment), {"sqlExpr": '"(v > d)"'})
    assert part is None or part.sql("spark") == "v > d"
