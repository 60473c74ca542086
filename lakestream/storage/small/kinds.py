"""What kind of value an expression gives, where its text tells; and how large its macros make it.

A macro that names an argument several times has it planned several times, and nested macros multiply that:
kinds which the text tells need no macro, and what would grow all the same is refused.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.exact import NotExactError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WHOLE = "a whole number"
DOUBLE = "a double"
TRUTH = "a truth"
TEXT = "a text"
INSTANT = "an instant"
DAY = "a day"
NULL = "no value"

LARGEST = 20_000
"""To plan an expression of so many nodes takes DuckDB less than a tenth of a second."""

_LISTED = 5
"""A value that is looked for among others takes DuckDB as much less than another node."""

_LONGER = 10_000
"""How many times as long as a value what is joined of it may be, through all queries in one another."""

_TYPES: dict[exp.DType, str] = {
    exp.DataType.Type.TINYINT: WHOLE,
    exp.DataType.Type.SMALLINT: WHOLE,
    exp.DataType.Type.INT: WHOLE,
    exp.DataType.Type.BIGINT: WHOLE,
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.BOOLEAN: TRUTH,
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.VARCHAR: TEXT,
    exp.DataType.Type.TIMESTAMPTZ: INSTANT,
    exp.DataType.Type.TIMESTAMP: INSTANT,
    exp.DataType.Type.DATE: DAY,
}
_CALLS = {
    **dict.fromkeys(("ls_whole", "ls_int_div", "ls_floor", "ls_ceil", "ls_millis", "ls_hash"), WHOLE),
    **dict.fromkeys(("epoch_us", "len", "ls_cycle"), WHOLE),
    **dict.fromkeys(("ls_div", "ls_rounded", "sqrt"), DOUBLE),
    "ls_truth": TRUTH,
    **dict.fromkeys(("ls_string", "ls_text", "ls_ascii", "ls_formatted"), TEXT),
    **dict.fromkeys(
        ("ls_instant", "ls_cut", "ls_of_millis", "make_timestamptz", "ls_from_utc", "ls_to_utc"), INSTANT
    ),
    "ls_date": DAY,
}
CHECKS: dict[str, frozenset[str]] = {
    "ls_whole": frozenset({WHOLE}),
    "ls_number": frozenset({WHOLE, DOUBLE}),
    "ls_double": frozenset({DOUBLE}),
    "ls_no_text": frozenset({WHOLE, DOUBLE}),
    "ls_truth": frozenset({TRUTH}),
    "ls_string": frozenset({TEXT}),
    "ls_instant": frozenset({INSTANT}),
    "ls_date": frozenset({DAY}),
    "ls_time": frozenset({INSTANT, DAY}),
    "ls_written": frozenset({TEXT, DAY}),
    "ls_part": frozenset({TEXT, WHOLE, TRUTH}),
}
"""The macros that make sure of a kind, and of which."""
_REMAINDERS = ("ls_mod", "ls_pmod")
_NODES: dict[type[exp.Expr], str] = {
    exp.Null: NULL,
    exp.Boolean: TRUTH,
    exp.Count: WHOLE,
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank), WHOLE),
    exp.Avg: DOUBLE,
    exp.DPipe: TEXT,
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Replace), TEXT),
    exp.MD5: TEXT,
    **dict.fromkeys(
        (
            exp.And,
            exp.Or,
            exp.Not,
            exp.EQ,
            exp.NEQ,
            exp.LT,
            exp.LTE,
            exp.GT,
            exp.GTE,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.Is,
            exp.In,
            exp.Between,
            exp.Like,
            exp.Contains,
            exp.StartsWith,
            exp.EndsWith,
        ),
        TRUTH,
    ),
}
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs)
"""What gives a number of the numbers that it is given."""
_CHOSEN = (exp.Coalesce, exp.Greatest, exp.Least, exp.If, exp.Case, exp.Paren, exp.Nullif)
"""What gives one of several values."""


def kind_of(node: exp.Expr) -> str | None:
    """Return what kind of value a rewritten expression gives; None where the text does not tell."""
    if isinstance(node, exp.Anonymous) and node.name not in _REMAINDERS:
        return _CALLS.get(node.name)
    if isinstance(node, exp.Cast):
        return _TYPES.get(node.to.this)
    if isinstance(node, (exp.Filter, exp.Window)):
        return kind_of(node.this)
    if _is_computed(node) or isinstance(node, _CHOSEN):
        found = {kind_of(operand) for operand in operands(node)} - {NULL}
        if not isinstance(node, _CHOSEN) and found == {WHOLE, DOUBLE}:
            return DOUBLE
        return found.pop() if len(found) == 1 else None
    return _NODES.get(type(node))


def checked(node: exp.Expr, macro: str) -> exp.Expr:
    """Return an expression of the kinds of a macro of CHECKS, as the text tells, or as the macro makes sure.

    What is computed of numbers is a number because they are: they are looked at, not what comes of them.
    Raises NotExactError where the text tells that it is of another kind.
    """
    kind, kinds = kind_of(node), CHECKS[macro]
    if kind in kinds or kind == NULL:
        return node
    if kind is not None:
        raise NotExactError(f"{kind} where another one is due")
    numbers = kinds <= {WHOLE, DOUBLE}
    if isinstance(node, _CHOSEN) or (numbers and _is_computed(node)):
        for operand in operands(node):
            new = checked(operand, macro)
            if new is not operand:
                operand.replace(new)
        return node
    return exp.Anonymous(this=macro, expressions=[node.copy()])


def _is_computed(node: exp.Expr) -> bool:
    return isinstance(node, _COMPUTED) or (isinstance(node, exp.Anonymous) and node.name in _REMAINDERS)


def operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of an expression of which its value is made, without its conditions."""
    if isinstance(node, exp.If):
        parts: Iterable[object] = (node.args["true"], node.args.get("false"))
    elif isinstance(node, exp.Case):
        parts = (*(one.args["true"] for one in node.args["ifs"]), node.args.get("default"))
    elif isinstance(node, exp.Nullif):
        parts = (node.this,)
    else:
        parts = (node.this, node.args.get("expression"), *node.expressions)
    return [part for part in parts if isinstance(part, exp.Expr)]


def refuse_growth(query: exp.Expr, uses: Mapping[str, int]) -> None:
    """Refuse a query that macros, which name arguments as often as ``uses`` says, make too large."""
    size, left = 0.0, [(query, 1)]
    while left:
        node, times = left.pop()
        size += (
            times / _LISTED if isinstance(node.parent, exp.In) and isinstance(node, exp.Literal) else times
        )
        if size > LARGEST:
            raise NotExactError("expressions in one another that grow too large")
        if isinstance(node, exp.Anonymous):
            times *= uses.get(node.name, 1)
        left.extend((part, times) for part in node.iter_expressions())


def refuse_long_values(query: exp.Expr) -> None:
    """Refuse a query in Spark's SQL that makes long values of short ones: they count for no limit of memory.

    That is lists of lists that are made, and texts and lists joined with themselves again and again.
    """
    makers = [node for node in query.find_all(exp.GenerateSeries, exp.Anonymous) if _makes_a_list(node)]
    often = [node for node in makers if _is_made_often(node)]
    if any(node is not other and not _are_apart(node, other) for node in often for other in makers):
        raise NotExactError("lists of lists that are made")
    for fold in query.find_all(exp.Reduce):
        if any(
            _makes_a_list(node) or isinstance(node, (exp.Concat, exp.ArrayConcat))
            for node in fold.args["merge"].walk()
        ):
            raise NotExactError("what is joined again and again")
    if prod(_times_joined(scope) for scope in query.find_all(exp.Select, exp.Lambda)) > _LONGER:
        raise NotExactError("what is joined with itself too often")


def _makes_a_list(node: exp.Expr) -> bool:
    """Return whether a node makes a list which no row is made of, item by item."""
    is_one = isinstance(node, exp.GenerateSeries) or (
        isinstance(node, exp.Anonymous) and node.name.lower() == "array_repeat"
    )
    return is_one and not isinstance(node.parent, exp.Explode)


def _is_made_often(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) or node.find_ancestor(exp.Lambda, exp.Select) is not (
        node.find_ancestor(exp.Select)
    )


def _are_apart(node: exp.Expr, other: exp.Expr) -> bool:
    """Return whether two nodes are of different members of a UNION, which see nothing of each other."""
    parts = {id(whole): part for part, whole in _upwards(node)}
    for part, whole in _upwards(other):
        if id(whole) in parts:
            seen = any(isinstance(one, exp.With) for one in (part, parts[id(whole)]))
            return isinstance(whole, exp.SetOperation) and not seen
    return False


def _upwards(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield each part, from a node on, with what it is a part of."""
    while node.parent is not None:
        yield node, node.parent
        node = node.parent


def _times_joined(scope: exp.Expr) -> int:
    """Return how often one name stands in what a query, or a function over a list, joins."""
    joined = [
        node
        for node in scope.find_all(exp.Concat, exp.ArrayConcat, exp.Array, exp.JSONFormat)
        if node.find_ancestor(exp.Select, exp.Lambda) is scope
        and node.find_ancestor(exp.Concat, exp.ArrayConcat, exp.Array, exp.Select, exp.Lambda) is scope
    ]
    names = Counter(part.name.lower() for node in joined for part in node.find_all(exp.Identifier))
    return max(names.values(), default=1)
