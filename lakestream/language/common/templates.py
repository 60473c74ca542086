"""Expressions made of a text of Spark SQL in which ``_1``, ``_2``, … stand for others."""

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


@lru_cache(maxsize=1024)
def _read(sql: str) -> exp.Expr:
    tree = _DIALECT.parse(sql)[0]
    assert tree is not None  # a text of lakestream's own
    return tree


def _closed(node: exp.Expr) -> exp.Expr:
    """Return what may stand anywhere in an expression."""
    is_open = isinstance(node, (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In, exp.BitwiseNot))
    return exp.paren(node, copy=False) if is_open else node
