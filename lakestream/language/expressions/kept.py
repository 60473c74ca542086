"""What a query says that Spark SQL would be written without, or otherwise: mended, or refused by name.

Nothing that a statement says may be dropped: a clause holds nothing but what Spark SQL has of it
(:data:`CLAUSES`), and :mod:`lakestream.language.expressions.written` holds the words against what is made
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.interpolation import INTERPOLATION, Interpolation
from lakestream.language.common.query_clauses import (
    INNER_WINDOW,
    SLICE_LIMIT,
    SLICES,
    InnerWindow,
    SliceLimit,
    Slices,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakestream.language.expressions.inner_windows import PlaceOf

_ROWS = ("order", "limit", "offset", "sort", "distribute", "cluster")
_OF_TDENGINE = (SLICES, INNER_WINDOW, INTERPOLATION, SLICE_LIMIT)

CLAUSES: Mapping[type[exp.Expr], frozenset[str]] = {
    kind: frozenset(arguments)
    for kind, arguments in {
        exp.Select: (
            *("with_", "expressions", "distinct", "from_", "laterals", "joins", "where", "group", "having"),
            *("qualify", "windows", *_ROWS, *_OF_TDENGINE),
        ),
        exp.Subquery: ("this", "alias", "with_", "laterals", "joins", "pivots", "sample", *_ROWS),
        exp.Union: ("with_", "this", "expression", "distinct", *_ROWS),
        exp.Intersect: ("with_", "this", "expression", "distinct", *_ROWS),
        exp.Except: ("with_", "this", "expression", "distinct", *_ROWS),
        exp.Values: ("expressions", "alias"),
        exp.From: ("this",),
        exp.Table: ("this", "db", "catalog", "alias", "joins", "laterals", "pivots", "sample", "version"),
        exp.TableAlias: ("this", "columns"),
        exp.Version: ("this", "kind", "expression"),
        exp.Join: ("this", "on", "side", "kind", "using", "method"),
        exp.Lateral: ("this", "view", "outer", "alias"),
        exp.Unnest: ("expressions", "alias", "explode_array"),
        exp.With: ("expressions", "recursive"),
        exp.CTE: ("this", "alias"),
        # The last two are how sqlglot names the columns that come out; the Spark SQL has no need of them.
        exp.Pivot: (
            *("this", "alias", "expressions", "fields", "unpivot", "include_nulls"),
            *("columns", "pivot_column_naming"),
        ),
        exp.TableSample: (
            *("bucket_numerator", "bucket_denominator", "bucket_field", "percent", "rows", "size"),
        ),
        exp.Where: ("this",),
        exp.Having: ("this",),
        exp.Qualify: ("this",),
        exp.Group: ("expressions", "grouping_sets", "cube", "rollup", "all"),
        exp.Cube: ("expressions",),
        exp.Rollup: ("expressions",),
        exp.GroupingSets: ("expressions",),
        exp.Order: ("this", "expressions"),
        exp.Sort: ("this", "expressions"),
        exp.Distribute: ("this", "expressions"),
        exp.Cluster: ("expressions",),
        exp.Ordered: ("this", "desc", "nulls_first"),
        exp.Limit: ("this", "expression", "offset"),
        exp.Offset: ("this", "expression"),
        exp.Fetch: ("direction", "count", "limit_options"),
        exp.LimitOptions: ("rows",),
        exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
        exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
        exp.Filter: ("this", "expression"),
        exp.WithinGroup: ("this", "expression"),
        exp.IgnoreNulls: ("this",),
        exp.RespectNulls: ("this",),
        exp.Distinct: ("expressions",),
        exp.Star: ("except_",),
        exp.Alias: ("this", "alias"),
        exp.Aliases: ("this", "expressions"),
        exp.Column: ("this", "table", "db", "catalog"),
        exp.Identifier: ("this", "quoted"),
        exp.Cast: ("this", "to", "format"),
        exp.TryCast: ("this", "to", "format", "safe"),
        exp.In: ("this", "expressions", "query"),
        exp.Between: ("this", "low", "high", "symmetric"),
        # from_utc_timestamp() and to_utc_timestamp().
        exp.AtTimeZone: ("this", "zone"),
        exp.FromTimeZone: ("this", "zone"),
        exp.GroupConcat: ("this", "separator"),
        # max() and min() of several values are told of with what would be right.
        exp.Max: ("this", "expressions"),
        exp.Min: ("this", "expressions"),
        # So do Spark's collect_list() and array_agg().
        exp.ArrayAgg: ("this", "nulls_excluded"),
    }.items()
}
"""The clauses of a query, and of each the arguments of sqlglot's tree that Spark SQL has."""

PARTS: tuple[type[exp.Expr], ...] = (
    # Calls, operators, columns and constants: every word of theirs is held against the Spark SQL.
    *(exp.Func, exp.Condition, exp.Binary, exp.Unary),
    *(exp.Var, exp.Tuple, exp.Lambda, exp.Slice, exp.Interval, exp.IntervalSpan, exp.IntervalOp),
    *(exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.JSONPath, exp.JSONPathPart, exp.PivotAlias),
    *(Slices, InnerWindow, Interpolation, SliceLimit),
)
"""What expressions and clauses are made of besides."""

_FOREIGN: Mapping[type[exp.Expr], str] = {
    exp.HavingMax: "HAVING within a function's brackets",
    exp.Overlaps: "OVERLAPS",
    exp.SimilarTo: "SIMILAR TO",
    exp.JSON: "IS JSON",
    exp.JSONObject: "JSON_OBJECT",
    exp.JSONTable: "JSON_TABLE",
    exp.XMLTable: "XMLTABLE",
    exp.MatchRecognize: "MATCH_RECOGNIZE",
    exp.OverflowTruncateBehavior: "ON OVERFLOW",
    exp.CharacterSet: "CHARACTER SET",
}
"""What sqlglot reads whole, and Spark SQL has not."""

_TYPES = frozenset(
    {
        exp.DType.TIME,
        exp.DType.TIMETZ,
        exp.DType.JSON,
        exp.DType.JSONB,
        exp.DType.BIT,
        exp.DType.UUID,
    }
)
"""Types in whose place sqlglot writes another one of Spark's."""

_WORDS: Mapping[tuple[type[exp.Expr], str], str] = {
    (exp.Select, "kind"): "SELECT AS STRUCT or VALUE",
    (exp.Select, "connect"): "CONNECT BY",
    (exp.Select, "sample"): "a sample behind the alias of a table",
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.LimitOptions, "with_ties"): "WITH TIES",
    (exp.LimitOptions, "percent"): "PERCENT",
    (exp.Limit, "limit_options"): "WITH TIES and PERCENT behind LIMIT",
    (exp.Limit, "expressions"): "LIMIT … BY",
    (exp.Group, "totals"): "WITH TOTALS",
    (exp.Ordered, "with_fill"): "WITH FILL",
    (exp.WindowSpec, "exclude"): "EXCLUDE of a window's rows",
    (exp.TableSample, "seed"): "REPEATABLE",
    (exp.TableSample, "method"): "a method of TABLESAMPLE",
    (exp.Unnest, "offset"): "WITH ORDINALITY",
    (exp.Lateral, "cross_apply"): "APPLY",
    (exp.Column, "join_mark"): "the outer join (+)",
    (exp.With, "search"): "SEARCH and CYCLE of a WITH",
    (exp.CTE, "materialized"): "MATERIALIZED",
    (exp.In, "field"): "IN without brackets",
    **dict.fromkeys(((kind, "by_name") for kind in (exp.Union, exp.Intersect, exp.Except)), "BY NAME"),
    (exp.Union, "side"): "a side of UNION",
    (exp.Union, "kind"): "CORRESPONDING",
    (exp.Cast, "action"): "ON CONVERSION ERROR",
    (exp.Cast, "default"): "ON CONVERSION ERROR",
    (exp.TryCast, "action"): "ON CONVERSION ERROR",
    (exp.TryCast, "default"): "ON CONVERSION ERROR",
    (exp.GroupConcat, "on_overflow"): "ON OVERFLOW",
}
"""How the clauses are called where their arguments' names do not say it."""

_NEGATED = frozenset({"materialized", "cross_apply", "indexed"})
"""Arguments that say something also where they are False: NOT MATERIALIZED, OUTER APPLY."""

_OF_A_QUERY = "ANY, SOME or ALL of a query"
_INSTEAD: Mapping[str, str] = {
    _OF_A_QUERY: "IN (SELECT …), NOT IN (SELECT …), or a comparison with (SELECT min(…) …) or max(…)",
    "BY NAME": "the columns of both queries in the same order",
    "DISTINCT ON": "QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1",
    "SIMILAR TO": "RLIKE, and a regular expression of Java's",
}
"""What to write instead."""

_COUNTS: Mapping[type[exp.Expr], int] = {
    **dict.fromkeys((exp.Count, exp.TsOrDsToDate), 1),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), 2),
}
"""How many arguments functions take that sqlglot reads with fewer."""

_NAMES: Mapping[type[exp.Expr], str] = {exp.ArgMax: "max_by", exp.ArgMin: "min_by"}

_JOINS = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})


def keep_meaning(tree: exp.Expr) -> exp.Expr:
    """Return a tree, changed in place, whose aggregates keep their meaning in Spark SQL.

    What stands behind a query in brackets, such as LIMIT, is said of the query itself.
    """
    for node in list(tree.find_all(exp.PercentileCont, exp.PercentileDisc)):
        # Within a group they are exact; sqlglot writes the approximation.
        name = "percentile_cont" if isinstance(node, exp.PercentileCont) else "percentile_disc"
        node.replace(exp.Anonymous(this=name, expressions=[node.this.copy()]).update_positions(node))
    for node in tree.find_all(exp.GroupConcat):
        if node.args.get("separator") is None:
            node.set("separator", exp.Literal.string(""))
    for compared in list(tree.find_all(exp.Any)):
        if _is_an_aggregate(compared):
            # Behind an operator sqlglot takes it for one of an array, and writes EXISTS.
            call = exp.Anonymous(this="any", expressions=[compared.this.unnest()])
            compared.replace(call.update_positions(compared))
    for query in list(tree.find_all(exp.Subquery)):
        _say_within(query)
    return tree


def _say_within(node: exp.Subquery) -> None:
    """Put the order and the LIMIT behind a query in brackets into it; around one that has them already.

    A LIMIT behind it takes rows in the order that the query has.
    """
    said = {name: node.args[name] for name in _ROWS if node.args.get(name) is not None}
    if not said or not isinstance(node.this, exp.Query):
        return
    own = {name for name in _ROWS if node.this.args.get(name) is not None}
    if own and not (own == {"order"} and said.keys() <= {"limit", "offset"}):
        node.set("this", exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=node.this)))
    for name, value in said.items():
        node.set(name, None)
        node.this.set(name, value)


def _is_an_aggregate(node: exp.Any) -> bool:
    """Return whether ``any(…)`` behind an operator is no list of patterns, or of values."""
    over = node.parent
    is_behind = isinstance(over, exp.Binary) and not isinstance(over, (exp.Like, exp.ILike))
    return is_behind and not isinstance(node.this.unnest(), (exp.Query, exp.Values, exp.Array, exp.Tuple))


def refuse_dropped(tree: exp.Expr, place: PlaceOf) -> None:
    """Raise NotSupportedError for a clause that Spark SQL would be written without, with its place.

    StatementError WRONG_ARGUMENTS for max() and min() of several values, which are aggregates of one, and for
    functions without what they are of.
    """
    for node in tree.walk():
        if what := _foreign(node):
            raise NotSupportedError(what, hint=_INSTEAD.get(what, ""), place=place(node))
        if isinstance(node, (exp.Max, exp.Min)) and node.expressions:
            hint = "greatest(…)" if isinstance(node, exp.Max) else "least(…)"
            raise StatementError(
                "WRONG_ARGUMENTS", f"{node.key}() takes 1 argument", hint=hint, place=place(node)
            )
        if len([*node.iter_expressions()]) < _COUNTS.get(type(node), 0):
            raise _too_few(node, place)


def _too_few(node: exp.Expr, place: PlaceOf) -> StatementError:
    # sqlglot casts what day() and the like are of.
    call = node.parent if isinstance(node, exp.TsOrDsToDate) and node.parent is not None else node
    count = _COUNTS[type(node)]
    said = f"{_NAMES.get(type(call), call.key)}() takes {count} argument{'s' * (count > 1)}"
    hint = "count(*)" if isinstance(node, exp.Count) else ""
    return StatementError("WRONG_ARGUMENTS", said, hint=hint, place=place(call))


def _foreign(node: exp.Expr) -> str:
    """Return what a node holds and Spark SQL has not; empty for nothing."""
    if type(node) in _FOREIGN:
        return _FOREIGN[type(node)]
    has = CLAUSES.get(type(node))
    if has is None and not isinstance(node, PARTS):
        return f"{type(node).__name__.upper()} in a query"
    if has is not None and not (isinstance(node, exp.Table) and isinstance(node.this, exp.Func)):
        unread = next((name for name in _set(node) if name not in has), "")
        if unread:
            return _called(node, unread)
    rule = _RULES.get(type(node))
    return rule(node) if rule is not None else ""


def _set(node: exp.Expr) -> Iterator[str]:
    """Yield the arguments of a node that say something."""
    for name, value in node.args.items():
        if value or (value is False and name in _NEGATED):
            yield name


def _called(node: exp.Expr, argument: str) -> str:
    return _WORDS.get((type(node), argument)) or (
        f"{argument.strip('_').replace('_', ' ').upper()} of a {type(node).__name__.lower()} in a query"
    )


def _join(node: exp.Expr) -> str:
    method, kind = node.args.get("method") or "", node.args.get("kind") or ""
    foreign = method if method not in ("", "NATURAL") else kind if kind not in _JOINS else ""
    return f"{foreign.removesuffix('_JOIN')} JOIN" if foreign else ""


def _array(node: exp.Expr) -> str:
    return "ORDER BY within array_agg()" if isinstance(node.this, (exp.Order, exp.Limit)) else ""


def _arrow(node: exp.Expr) -> str:
    return "the operator ->" if isinstance(node.args["expression"], exp.Column) else ""


def _fetch(node: exp.Expr) -> str:
    options = node.args.get("limit_options")
    unread = next((name for name in ("with_ties", "percent") if options and options.args.get(name)), "")
    return f"FETCH … {_WORDS[exp.LimitOptions, unread]}" if unread else ""


def _compared(node: exp.Expr) -> str:
    return _OF_A_QUERY if isinstance(node.this.unnest(), (exp.Query, exp.Values)) else ""


def _called_so(node: exp.Expr) -> str:
    """Tell SOME and ALL of VALUES, which sqlglot takes for functions."""
    return _OF_A_QUERY if any(isinstance(one, exp.Values) for one in node.expressions) else ""


_RULES: Mapping[type[exp.Expr], Callable[[exp.Expr], str]] = {
    exp.Any: _compared,
    exp.All: _compared,
    exp.Anonymous: _called_so,
    exp.Join: _join,
    exp.Fetch: _fetch,
    exp.ArrayAgg: _array,
    exp.JSONExtract: _arrow,
    exp.Group: lambda node: "GROUP BY DISTINCT" if node.args.get("all") is False else "",
    exp.WindowSpec: lambda node: "GROUPS of a window" if node.args.get("kind") == "GROUPS" else "",
    exp.DataType: lambda node: f"the type {node.this.name}" if node.this in _TYPES else "",
    exp.Window: lambda node: "KEEP" if node.args.get("over") == "KEEP" else "",
}
