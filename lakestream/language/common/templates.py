"""Expressions put in the place of others, and made of a text of Spark SQL in which ``_1``, ``_2``, … are."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Parser(SparkParser):
    """Spark's parser, to which every function but CAST is a name: it is written out as it was read."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name == "CAST"
    }


class _Template(Spark):
    """Spark SQL whose functions keep their names."""

    Parser = _Parser


_DIALECT = _Template()


def made(sql: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return the expression of a text, with copies of the parts in the place of the columns so named."""

    def filled(node: exp.Expr) -> exp.Expr:
        part = parts.get(node.name) if isinstance(node, exp.Column) else None
        return node if part is None else _closed(part.copy())

    return _closed(_read(sql).copy().transform(filled, copy=False))


def put_in_place(node: exp.Expr, new: exp.Expr) -> None:
    """Put an expression in the place of another one.

    sqlglot's ``replace`` goes over all that stand beside it, which costs the square of their number.
    """
    above, place = node.parent, node.index
    if above is None or above is new or place is None:
        node.replace(new)
        return
    above.args[str(node.arg_key)][place] = new
    new.parent, new.arg_key, new.index = above, node.arg_key, place
    node.parent = node.arg_key = node.index = None
    while above is not None and above._hash is not None:  # noqa: SLF001 (nothing else forgets it)
        above._hash, above = None, above.parent  # noqa: SLF001


@lru_cache(maxsize=1024)
def _read(sql: str) -> exp.Expr:
    tree = _DIALECT.parse(sql)[0]
    assert tree is not None  # a text of lakestream's own
    return tree


def _closed(node: exp.Expr) -> exp.Expr:
    """Return what may stand anywhere in an expression."""
    is_open = isinstance(node, (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In, exp.BitwiseNot))
    return exp.paren(node, copy=False) if is_open else node
