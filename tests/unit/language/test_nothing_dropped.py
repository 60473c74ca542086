"""Whatever a query can say arrives in its Spark SQL, or is refused by name: over all that sqlglot reads.

What is enumerated here are sqlglot's own classes, arguments, functions and types: a newer sqlglot that reads
more turns a test red until it is said what Spark SQL has of it.
"""

from __future__ import annotations

import logging
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from sqlglot import ParseError, exp, parse_one
from sqlglot.parsers.spark import SparkParser

from lakestream.errors import LakestreamError, NotSupportedError
from lakestream.language.common.dialect import SparkFunctions
from lakestream.language.expressions.checks import check_query
from lakestream.language.expressions.kept import CLAUSES, PARTS, refuse_dropped
from lakestream.language.expressions.parsing import parse_query
from lakestream.language.model import Fragment

if TYPE_CHECKING:
    from collections.abc import Iterator


def figures(name: str) -> Any:
    """Return the cases of functions that are computed in Spark elsewhere."""
    return yaml.safe_load((Path(__file__).parents[2] / "contract" / name).read_text())


SAMPLES: dict[str, str] = {
    "Select.with_": "WITH mark AS (SELECT 1 AS a) SELECT a FROM mark",
    "Select.expressions": "SELECT mark FROM t",
    "Select.distinct": "SELECT DISTINCT v FROM t",
    "Select.from_": "SELECT v FROM mark",
    "Select.laterals": "SELECT v FROM t LATERAL VIEW explode(mark) e AS c",
    "Select.joins": "SELECT t.v FROM t JOIN mark ON t.v = mark.v",
    "Select.where": "SELECT v FROM t WHERE mark = 1",
    "Select.group": "SELECT count(*) FROM t GROUP BY mark",
    "Select.having": "SELECT count(*) FROM t HAVING max(mark) > 1",
    "Select.qualify": "SELECT v FROM t QUALIFY row_number() OVER (ORDER BY mark) = 1",
    "Select.windows": "SELECT sum(v) OVER w FROM t WINDOW w AS (ORDER BY mark)",
    "Select.order": "SELECT v FROM t ORDER BY mark",
    "Select.limit": "SELECT v FROM t LIMIT 7771",
    "Select.offset": "SELECT v FROM t LIMIT 1 OFFSET 7771",
    "Select.sort": "SELECT v FROM t SORT BY mark",
    "Select.distribute": "SELECT v FROM t DISTRIBUTE BY mark",
    "Select.cluster": "SELECT v FROM t CLUSTER BY mark",
    "Subquery.this": "SELECT v FROM (SELECT mark AS v FROM t) x",
    "Subquery.alias": "SELECT v FROM (SELECT v FROM t) mark",
    "Subquery.joins": "SELECT v FROM ((SELECT v FROM t) x JOIN mark ON x.v = mark.v)",
    "Subquery.pivots": "SELECT * FROM (SELECT v, c FROM t) PIVOT (sum(v) FOR c IN (7771))",
    "Subquery.sample": "SELECT v FROM (SELECT v FROM t) TABLESAMPLE (77 PERCENT)",
    "Union.with_": "WITH mark AS (SELECT 1 AS v) SELECT v FROM mark UNION SELECT v FROM t",
    "Union.this": "SELECT mark FROM t UNION SELECT v FROM t",
    "Union.expression": "SELECT v FROM t UNION SELECT mark FROM t",
    "Union.distinct": "SELECT v FROM t UNION SELECT v FROM u",
    "Union.order": "SELECT v FROM t UNION SELECT v FROM u ORDER BY mark",
    "Union.limit": "SELECT v FROM t UNION SELECT v FROM u LIMIT 7771",
    "Union.offset": "SELECT v FROM t UNION SELECT v FROM u LIMIT 1 OFFSET 7771",
    "Intersect.this": "SELECT mark FROM t INTERSECT SELECT v FROM t",
    "Intersect.expression": "SELECT v FROM t INTERSECT SELECT mark FROM t",
    "Intersect.distinct": "SELECT v FROM t INTERSECT SELECT v FROM t",
    "Except.this": "SELECT mark FROM t EXCEPT SELECT v FROM t",
    "Except.expression": "SELECT v FROM t EXCEPT SELECT mark FROM t",
    "Except.distinct": "SELECT v FROM t EXCEPT SELECT v FROM t",
    "Values.expressions": "SELECT a FROM VALUES (7771) AS x(a)",
    "Values.alias": "SELECT a FROM VALUES (1) AS x(mark)",
    "From.this": "SELECT v FROM mark",
    "Table.this": "SELECT v FROM mark",
    "Table.db": "SELECT v FROM mark.t",
    "Table.alias": "SELECT v FROM t AS mark",
    "Table.joins": "SELECT v FROM (t JOIN mark ON t.v = mark.v)",
    "Table.pivots": "SELECT * FROM t PIVOT (sum(v) FOR c IN (7771))",
    "Table.sample": "SELECT v FROM t TABLESAMPLE (77 PERCENT)",
    "Table.version": "SELECT v FROM t VERSION AS OF 7771",
    "TableAlias.this": "SELECT v FROM t AS mark",
    "TableAlias.columns": "SELECT mark FROM t AS x(mark)",
    "Version.this": "SELECT v FROM t TIMESTAMP AS OF '2025-01-01'",
    "Version.kind": "SELECT v FROM t VERSION AS OF 1",
    "Version.expression": "SELECT v FROM t VERSION AS OF 7771",
    "Join.this": "SELECT t.v FROM t JOIN mark ON t.v = mark.v",
    "Join.on": "SELECT t.v FROM t JOIN u ON t.v = u.mark",
    "Join.side": "SELECT t.v FROM t LEFT JOIN u ON t.v = u.v",
    "Join.kind": "SELECT t.v FROM t LEFT ANTI JOIN u ON t.v = u.v",
    "Join.using": "SELECT t.v FROM t JOIN u USING (mark)",
    "Join.method": "SELECT t.v FROM t NATURAL JOIN u",
    "Lateral.this": "SELECT v FROM t LATERAL VIEW explode(mark) e AS c",
    "Lateral.view": "SELECT v FROM t LATERAL VIEW explode(v) e AS c",
    "Lateral.outer": "SELECT v FROM t LATERAL VIEW OUTER explode(v) e AS c",
    "Lateral.alias": "SELECT v FROM t LATERAL VIEW explode(v) e AS mark",
    "Unnest.expressions": "SELECT x FROM unnest(mark) AS x",
    "Unnest.alias": "SELECT mark FROM unnest(array(1)) AS mark",
    "With.expressions": "WITH mark AS (SELECT 1 AS a) SELECT a FROM mark",
    "With.recursive": "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a FROM x) SELECT a FROM x",
    "CTE.this": "WITH x AS (SELECT mark FROM t) SELECT 1 FROM x",
    "CTE.alias": "WITH x(mark) AS (SELECT 1) SELECT 1 FROM x",
    "Pivot.alias": "SELECT * FROM t PIVOT (sum(v) FOR c IN (1)) AS mark",
    "Pivot.expressions": "SELECT * FROM t PIVOT (sum(mark) FOR c IN (1))",
    "Pivot.fields": "SELECT * FROM t PIVOT (sum(v) FOR mark IN (1))",
    "Pivot.unpivot": "SELECT * FROM t UNPIVOT (v FOR c IN (mark, b))",
    "Pivot.include_nulls": "SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR c IN (a, b))",
    "TableSample.bucket_numerator": "SELECT v FROM t TABLESAMPLE (BUCKET 77 OUT OF 100)",
    "TableSample.bucket_denominator": "SELECT v FROM t TABLESAMPLE (BUCKET 1 OUT OF 7771)",
    "TableSample.bucket_field": "SELECT v FROM t TABLESAMPLE (BUCKET 1 OUT OF 4 ON mark)",
    "TableSample.percent": "SELECT v FROM t TABLESAMPLE (77 PERCENT)",
    "TableSample.size": "SELECT v FROM t TABLESAMPLE (7771 ROWS)",
    "Where.this": "SELECT v FROM t WHERE mark",
    "Having.this": "SELECT count(*) FROM t HAVING max(mark)",
    "Qualify.this": "SELECT v FROM t QUALIFY row_number() OVER (ORDER BY mark) = 1",
    "Group.expressions": "SELECT count(*) FROM t GROUP BY mark",
    "Group.grouping_sets": "SELECT count(*) FROM t GROUP BY mark GROUPING SETS ((mark), ())",
    "Group.cube": "SELECT count(*) FROM t GROUP BY mark WITH CUBE",
    "Group.rollup": "SELECT count(*) FROM t GROUP BY mark WITH ROLLUP",
    "Group.all": "SELECT v, count(*) FROM t GROUP BY ALL",
    "Cube.expressions": "SELECT count(*) FROM t GROUP BY CUBE (mark)",
    "Rollup.expressions": "SELECT count(*) FROM t GROUP BY ROLLUP (mark)",
    "GroupingSets.expressions": "SELECT count(*) FROM t GROUP BY GROUPING SETS ((mark), ())",
    "Order.expressions": "SELECT v FROM t ORDER BY mark",
    "Sort.expressions": "SELECT v FROM t SORT BY mark",
    "Distribute.expressions": "SELECT v FROM t DISTRIBUTE BY mark",
    "Cluster.expressions": "SELECT v FROM t CLUSTER BY mark",
    "Ordered.this": "SELECT v FROM t ORDER BY mark",
    "Ordered.desc": "SELECT v FROM t ORDER BY v DESC",
    "Ordered.nulls_first": "SELECT v FROM t ORDER BY v DESC NULLS FIRST",
    "Limit.expression": "SELECT v FROM t LIMIT 7771",
    "Offset.expression": "SELECT v FROM t LIMIT 1 OFFSET 7771",
    "Fetch.count": "SELECT v FROM t FETCH FIRST 7771 ROWS ONLY",
    "Window.this": "SELECT sum(mark) OVER (ORDER BY ts) FROM t",
    "Window.partition_by": "SELECT sum(v) OVER (PARTITION BY mark) FROM t",
    "Window.order": "SELECT sum(v) OVER (ORDER BY mark) FROM t",
    "Window.spec": "SELECT sum(v) OVER (ORDER BY ts ROWS 7771 PRECEDING) FROM t",
    "Window.alias": "SELECT sum(v) OVER (mark ORDER BY ts) FROM t WINDOW mark AS (PARTITION BY v)",
    "WindowSpec.kind": "SELECT sum(v) OVER (ORDER BY v RANGE 3 PRECEDING) FROM t",
    "WindowSpec.start": "SELECT sum(v) OVER (ORDER BY v ROWS 7771 PRECEDING) FROM t",
    "WindowSpec.start_side": "SELECT sum(v) OVER (ORDER BY v ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)",
    "WindowSpec.end": "SELECT sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND 7771 FOLLOWING)",
    "WindowSpec.end_side": "SELECT sum(v) OVER (ORDER BY v ROWS BETWEEN 9 PRECEDING AND 3 PRECEDING)",
    "Filter.this": "SELECT sum(mark) FILTER (WHERE v > 1) FROM t",
    "Filter.expression": "SELECT sum(v) FILTER (WHERE mark > 1) FROM t",
    "WithinGroup.this": "SELECT percentile_cont(0.7771) WITHIN GROUP (ORDER BY v) FROM t",
    "WithinGroup.expression": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY mark DESC) FROM t",
    "IgnoreNulls.this": "SELECT lag(mark) IGNORE NULLS OVER (ORDER BY ts) FROM t",
    "RespectNulls.this": "SELECT lag(mark) RESPECT NULLS OVER (ORDER BY ts) FROM t",
    "Distinct.expressions": "SELECT count(DISTINCT mark) FROM t",
    "Star.except_": "SELECT * EXCEPT (mark) FROM t",
    "Alias.this": "SELECT mark AS x FROM t",
    "Alias.alias": "SELECT v AS mark FROM t",
    "Aliases.this": "SELECT stack(2, mark, 2) AS (a, b) FROM t",
    "Aliases.expressions": "SELECT stack(2, 1, 2) AS (a, mark) FROM t",
    "Column.this": "SELECT mark FROM t",
    "Column.table": "SELECT mark.v FROM t mark",
    "Column.db": "SELECT mark.a.b FROM t",
    "Column.catalog": "SELECT mark.a.b.c FROM t",
    "Identifier.this": "SELECT mark FROM t",
    "Identifier.quoted": "SELECT `a b` FROM t",
    "Cast.this": "SELECT DATE 'mark' FROM t",
    "TryCast.this": "SELECT TRY_CAST(mark AS INT) FROM t",
    "TryCast.to": "SELECT TRY_CAST(v AS CHAR(7771)) FROM t",
    "In.this": "SELECT v FROM t WHERE mark IN (1)",
    "In.expressions": "SELECT v FROM t WHERE v IN (7771)",
    "In.query": "SELECT v FROM t WHERE v IN (SELECT mark FROM u)",
    "Between.this": "SELECT v FROM t WHERE mark BETWEEN 1 AND 2",
    "Between.low": "SELECT v FROM t WHERE v BETWEEN mark AND 2",
    "Between.high": "SELECT v FROM t WHERE v BETWEEN 1 AND mark",
    "Between.symmetric": "SELECT v FROM t WHERE v BETWEEN SYMMETRIC 3 AND 1",
    "AtTimeZone.this": "SELECT from_utc_timestamp(mark, 'UTC') FROM t",
    "AtTimeZone.zone": "SELECT from_utc_timestamp(v, 'mark') FROM t",
    "FromTimeZone.this": "SELECT to_utc_timestamp(mark, 'UTC') FROM t",
    "FromTimeZone.zone": "SELECT to_utc_timestamp(v, 'mark') FROM t",
    "GroupConcat.this": "SELECT listagg(mark, ',') FROM t",
    "GroupConcat.separator": "SELECT listagg(v, 'mark') FROM t",
    "Max.this": "SELECT max(mark) FROM t",
    "Min.this": "SELECT min(mark) FROM t",
    "ArrayAgg.this": "SELECT array_agg(mark) FROM t",
}
"""A query for each argument that a clause of Spark SQL has; ``mark``, ``77`` and ``7771`` are to arrive."""

OF_TDENGINE = {"Select.slices", "Select.inner_window", "Select.interpolation", "Select.slice_limit"}
"""Clauses that Spark's generator passes by: they are rewritten, which tests of their own see to."""

UNSAID = {
    "Subquery.with_",
    "Subquery.laterals",
    "Subquery.order",
    "Subquery.limit",
    "Subquery.offset",
    "Subquery.sort",
    "Subquery.distribute",
    "Subquery.cluster",
    *(f"{kind}.{name}" for kind in ("Union", "Intersect", "Except") for name in ("sort", "distribute")),
    *(f"{kind}.cluster" for kind in ("Union", "Intersect", "Except")),
    *(f"{kind}.{name}" for kind in ("Intersect", "Except") for name in ("with_", "order", "limit", "offset")),
    "Table.catalog",
    "Table.laterals",
    "Unnest.explode_array",
    "Pivot.this",
    "Pivot.columns",
    "Pivot.pivot_column_naming",
    "TableSample.rows",
    "Order.this",
    "Sort.this",
    "Distribute.this",
    "Limit.this",
    "Limit.offset",
    "Offset.this",
    "Fetch.direction",
    "Fetch.limit_options",
    "LimitOptions.rows",
    "Window.over",
    "Cast.to",
    "Cast.format",
    "TryCast.format",
    "TryCast.safe",
    "Max.expressions",
    "Min.expressions",
    "ArrayAgg.nulls_excluded",
}
"""Arguments with nothing to say of their own: as others are said, or made by the parser for itself."""


def clauses() -> Iterator[tuple[str, type[exp.Expr], str]]:
    """Yield every argument of every clause that a query may have, as sqlglot knows them."""
    for kind in CLAUSES:
        for argument in kind.arg_types:
            yield f"{kind.__name__}.{argument}", kind, argument


def checked(query: str) -> str:
    fragment = Fragment(query, statement=query)
    check_query(fragment)
    return parse_query(fragment).sql("spark")


def test_every_argument_that_spark_sql_has_is_tried() -> None:
    kept = {name for name, kind, argument in clauses() if argument in CLAUSES[kind]} | OF_TDENGINE
    assert kept - set(SAMPLES) - UNSAID == OF_TDENGINE
    assert set(SAMPLES) <= kept


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_what_spark_sql_has_arrives(name: str) -> None:
    kind, argument = name.split(".")
    query = SAMPLES[name]
    nodes = [node for node in parse_query(Fragment(query)).walk() if type(node).__name__ == kind]
    assert any(node.args.get(argument) for node in nodes), "the query does not say it"
    written = checked(query)
    for mark in ("mark", "7771"):
        assert written.count(mark) >= query.count(mark)
    if not any(mark in query for mark in ("mark", "77")):
        assert said_without(query, kind, argument) != written


def said_without(query: str, kind: str, argument: str) -> str:
    """Return the Spark SQL of a query in which an argument is left out."""
    tree = parse_query(Fragment(query))
    for node in list(tree.walk()):
        if type(node).__name__ == kind and node.args.get(argument):
            node.set(argument, False if node.args[argument] is True else None)
    return tree.sql("spark")


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        pytest.param(kind, argument, id=name)
        for name, kind, argument in clauses()
        if argument not in CLAUSES[kind]
    ],
)
def test_what_spark_sql_has_not_is_refused(kind: type[exp.Expr], argument: str) -> None:
    with pytest.raises(NotSupportedError):
        refuse_dropped(kind(**{argument: exp.column("mark")}), lambda _: None)  # type: ignore[arg-type,return-value]


def test_a_part_that_is_no_clause_known_is_refused() -> None:
    own = [kind for kind in vars(exp).values() if isinstance(kind, type) and issubclass(kind, exp.Expr)]
    made = [kind for kind in own if issubclass(kind, exp.Expression)]
    others = [kind for kind in made if kind not in CLAUSES and not issubclass(kind, PARTS)]
    assert len(others) > 100
    for kind in others:
        with pytest.raises(NotSupportedError):
            refuse_dropped(kind(), lambda _: None)  # type: ignore[arg-type,return-value]


PARSER = SparkFunctions.Parser
NAMES = sorted({*PARSER.FUNCTIONS, *PARSER.FUNCTION_PARSERS, *PARSER.NO_PAREN_FUNCTION_PARSERS})


@pytest.mark.parametrize("first", sorted({name[0] for name in NAMES}))
@pytest.mark.parametrize("form", ["mark{}x", "'mark{}x'"], ids=["columns", "texts"])
def test_every_argument_of_every_function_arrives(
    first: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "sqlglot"):
        for name in (name for name in NAMES if name[0] == first):
            for count in range(1, 6):
                said = [form.format(number) for number in range(count)]
                call = f"{name}({', '.join(said)})"
                try:
                    written = checked(f"SELECT {call} FROM t").lower()
                except LakestreamError:
                    continue
                assert not [text for text in said if text.strip("'") not in written], f"{call}: {written}"
    # Whatever else runs in this process may have something to say meanwhile.
    assert not [record for record in caplog.records if record.name.startswith("sqlglot")]


_SAME_TYPE = {
    **dict.fromkeys(("CHAR", "NCHAR", "NVARCHAR", "TEXT", "VARCHAR"), "STRING"),
    **dict.fromkeys(("BLOB", "VARBINARY"), "BINARY"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), "TIMESTAMP"),
    **{f"TIMESTAMP{zone}": f"TIMESTAMP_{zone}" for zone in ("NTZ", "LTZ")},
    **{f"{size}BLOB": "BLOB" for size in ("LONG", "MEDIUM", "TINY")},
    **{f"{size}TEXT": "TEXT" for size in ("LONG", "MEDIUM", "TINY")},
}
"""Types under another name of Spark's; some of those Spark refuses by itself."""


@pytest.mark.parametrize("name", [kind.name for kind in exp.DType])
def test_every_type_arrives(name: str) -> None:
    for size in ("", "(5)", "(5, 2)"):
        try:
            written = checked(f"SELECT CAST(v AS {name}{size}) FROM t")
        except LakestreamError:
            continue
        if size:
            assert all(number in written for number in size.strip("()").split(", "))
        else:
            assert written == f"SELECT CAST(v AS {_SAME_TYPE.get(name, name)}) FROM t"


@pytest.mark.parametrize(
    ("query", "match", "column"),
    [
        ("SELECT /*+ BROADCAST(t) */ v FROM t", "a hint", 8),
        ("SELECT v FROM t TABLESAMPLE SYSTEM (10)", "method of TABLESAMPLE", None),
        ("SELECT max_by(v, ts, 3) FROM t", r"max_by\(\) of this form", None),
        ("SELECT array_sort(v, a, 'mark') FROM t", "'mark' in this place", 25),
        ("SELECT trunc(v, month) FROM t", "month in this place", 17),
        ("SELECT v AT TIME ZONE 'UTC' FROM t", "AT in this place", 10),
        ("SELECT TIME '10:00' FROM t", "the type TIME", None),
        ("SELECT CAST(v AS FLOAT(5)) FROM t", "5 in this place", 24),
        ("SELECT listagg(v, ',' ON OVERFLOW TRUNCATE) FROM t", "OVERFLOW", None),
        ("SELECT v, count(*) FROM t GROUP BY DISTINCT v", "GROUP BY DISTINCT", None),
        ("WITH x AS NOT MATERIALIZED (SELECT 1 AS a) SELECT a FROM x", "MATERIALIZED", None),
        ("SELECT v FROM t OUTER APPLY (SELECT 1) x", "APPLY", None),
    ],
)
def test_what_is_left_out_is_named_at_its_place(query: str, match: str, column: int | None) -> None:
    with pytest.raises(LakestreamError, match=match) as refused:
        check_query(Fragment(query, statement=query))
    place = refused.value.place
    assert place is not None
    assert column in (None, place.column)


@pytest.mark.parametrize(
    "text",
    [
        *(case[0] for part in ("cases", "shanghai") for case in figures("functions.yaml")[part]),
        "regexp_extract(s, '(a)', 1)",
        "v BETWEEN ASYMMETRIC 2 AND 1",
        "trim(LEADING 'x' FROM s)",
    ],
)
def test_what_has_figures_is_accepted_in_plain_queries(text: str) -> None:
    for query in (f"SELECT {text} AS r FROM t", f"SELECT 1 AS r FROM t WHERE ({text}) IS NULL"):
        check_query(Fragment(query, statement=query))


@pytest.mark.parametrize("case", figures("row_functions.yaml"), ids=lambda case: str(case["query"]))
def test_what_has_rows_is_accepted_in_plain_queries(case: dict[str, object]) -> None:
    query = f"SELECT {case['query']}"
    check_query(Fragment(query, statement=query))


def test_the_group_of_an_expression_is_written() -> None:
    (call,) = parse_query(Fragment(checked("SELECT regexp_extract(v, '(a)', 1) FROM t"))).find_all(exp.Func)
    assert len(call.expressions or list(call.args)) == 3


def test_formats_of_times_are_as_they_are_written() -> None:
    query = "SELECT date_format(ts, 'E d M y'), to_date(v, 'd/M/y'), unix_timestamp(v, 'y') FROM t"
    assert [text.this for text in parse_query(Fragment(checked(query))).find_all(exp.Literal)] == [
        "E d M y",
        "d/M/y",
        "y",
    ]


def test_json_is_read_and_no_text_of_it() -> None:
    assert checked("SELECT parse_json(v) FROM t") == "SELECT PARSE_JSON(v) FROM t"


def test_what_spark_reads_of_a_function_is_read_here() -> None:
    """With each number of arguments: not all of sqlglot's readers take them in the same way."""
    refused = []
    for name, number in product(sorted(SparkParser.FUNCTIONS), range(4)):
        query = f"SELECT {name}({', '.join('abc'[:number])}) FROM t"
        try:
            parse_one(query, dialect="spark")
        except (ParseError, ValueError, IndexError):
            continue
        try:
            parse_query(Fragment(query))
        except LakestreamError as error:
            if error.code == "SYNTAX":
                refused.append(query)
    assert not refused


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("INTERVAL '1 hour'", "INTERVAL '1' HOUR"),
        ("interval '-3000 day' * 2", "INTERVAL '-3000' DAY * 2"),
        ("INTERVAL '7 days 2 hours'", "INTERVAL '7 days 2 hours'"),
        ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
    ],
)
def test_an_interval_may_have_its_unit_in_the_text(said: str, meant: str) -> None:
    fragment = check_query(Fragment(f"SELECT v + {said} AS x FROM t"))
    assert parse_query(fragment).sql("spark") == f"SELECT v + {meant} AS x FROM t"
