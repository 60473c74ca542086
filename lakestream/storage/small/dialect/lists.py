"""Lists and structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.dialect.known import macro
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import kind_of
from lakestream.storage.small.objects import json_object

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites

_OWN = "_ls_"
"""What no column of a user's begins with."""


def _size(node: exp.Expr) -> exp.Expr:
    """Return the number of items: -1 of no list, as Spark has it."""
    return exp.cast(exp.Coalesce(this=macro("len", node.this), expressions=[exp.Literal.number(-1)]), "INT")


def _sorted(node: exp.Expr) -> exp.Expr:
    if node.expression:
        raise NotExactError("an order that is a function")
    if node.args.get("asc") is not None and node.args["asc"] != exp.true():
        raise NotExactError("a descending order")
    if _is_list_of_plain(node.this):
        return macro("list_sort", node.this, exp.Literal.string("ASC"), exp.Literal.string("NULLS LAST"))
    return macro("ls_sorted", node.this)


def _is_list_of_plain(node: exp.Expr) -> bool:
    """Return whether a rewritten expression lists values, without NULL, of a kind that the text tells."""
    listed = node.this.this if isinstance(node, exp.Coalesce) and isinstance(node.this, exp.Filter) else None
    return (
        isinstance(listed, exp.Anonymous)
        and listed.name == "list"
        and kind_of(*listed.expressions) is not None
    )


def _sequence(node: exp.Expr) -> exp.Expr:
    if node.args.get("step") is not None:
        raise NotExactError("a sequence by steps")
    return macro("ls_sequence", node.args["start"], node.args["end"])


def _inlined(node: exp.Expr) -> exp.Expr:
    """Return structs as rows; their columns are named as the structs' fields, or DuckDB finds them not."""
    if not isinstance(node.this, exp.Inline):
        raise NotExactError("several names of one column")
    depth = exp.Kwarg(this=exp.var("max_depth"), expression=exp.Literal.number(2))
    return macro("unnest", node.this.this, depth)


def _field(node: exp.Expr) -> exp.Expr:
    [key] = node.expressions
    if _is_first_made(node):
        return macro("list_extract", node.this, key)
    if not (isinstance(key, exp.Literal) and key.is_string):
        raise NotExactError("brackets round something that is no name of a field")
    return macro("struct_extract", node.this, key)


def _is_first_made(node: exp.Expr) -> bool:
    """Return whether element_at gives the first element that is made of those of an array, which has some."""
    made, [key] = node.this, node.expressions
    listed = made.this if isinstance(made, exp.Transform) else None
    number = key.this if isinstance(key, exp.Cast) else key
    is_first = node.args.get("offset") == 1 and number == exp.Literal.number(1)
    return is_first and isinstance(listed, exp.Array) and bool(listed.expressions)


def _whole_row(node: exp.Expr) -> exp.Expr:
    """Return struct(r.*) as DuckDB has it, by the row's own name, which no column of a user's has."""
    stars = [
        one for one in node.expressions if isinstance(one, exp.Column) and isinstance(one.this, exp.Star)
    ]
    if not stars:
        return node
    if len(node.expressions) > 1 or not stars[0].table.startswith(_OWN):
        raise NotExactError("a struct of all columns and others")
    return exp.column(stars[0].table)


REWRITES: Rewrites = {
    exp.JSONFormat: json_object,
    exp.Bracket: _field,
    exp.Struct: _whole_row,
    exp.ArraySize: _size,
    exp.ArraySort: _sorted,
    exp.Flatten: lambda node: macro("ls_flattened", node.this),
    exp.GenerateSeries: _sequence,
    exp.Aliases: _inlined,
}
