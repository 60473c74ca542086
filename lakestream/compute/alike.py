"""Expressions of which delta-rs makes what Spark does: others of UPDATE and DELETE are Spark's to compute.

Names that both have mean different things (``left``, ``initcap``, ``ln`` of what has none), numbers and times
become other texts, and types are put alike in other ways. What is named here was held against Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.changed import INTEGERS, NUMBERS, kind_of
from lakestream.language.expressions.parsing import TURNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOMENT = "timestamp_micros"
"""The function by which expressions say an instant."""
_TEXTS = frozenset({"string", "varchar", "char"})
_NUMBER, _TEXT, _TRUTH, _TIME, _NOTHING = "number", "text", "boolean", "timestamp", "null"
_JOINED = (exp.And, exp.Or)
_REAL = frozenset({"double", "float"})
_MIXED = ({"double", "float", *INTEGERS}, {"decimal", *INTEGERS})
"""Kinds of numbers that make others of the same kind in both."""


def is_alike(tree: exp.Expr, kinds: Mapping[str, str], column: str | None = None) -> bool:
    """Return whether delta-rs computes an expression as Spark does.

    ``kinds`` are the types of the columns, by their names in lower case. It is set for a ``column``, or else
    a condition. Instants are calls of :data:`MOMENT`.
    """
    found = _Alike(kinds).sort(tree)
    if column is None:
        return found in (_TRUTH, _NOTHING)
    kind = kinds[column.lower()].partition("(")[0]
    is_cut = kind in INTEGERS and kind_of(tree, kinds) not in INTEGERS
    return found == _NOTHING or (found == _sort_of(kind) and not (found == _NUMBER and is_cut))


class _Alike:
    """Tells what sort of value a node is where both compute it alike; empty where they may not."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds

    def sort(self, node: exp.Expr) -> str:
        """Return the sort of a node."""
        node = node.unnest()
        return self._plain(node) or self._said(node) or self._computed(node)

    def _plain(self, node: exp.Expr) -> str:
        """Return the sort of a column or a constant, if it is one."""
        if isinstance(node, exp.Column):
            return _sort_of(self._kinds.get(node.name.lower(), "").partition("(")[0])
        if isinstance(node, exp.Literal):
            return _TEXT if node.is_string else _NUMBER
        if isinstance(node, exp.Anonymous) and node.name == MOMENT:
            return _TIME
        return _TRUTH if isinstance(node, exp.Boolean) else _NOTHING if isinstance(node, exp.Null) else ""

    def _said(self, node: exp.Expr) -> str:
        """Return the sort of a condition, if it is one."""
        if isinstance(node, _JOINED):
            holds = self._are(_TRUTH, (node.left, node.right))
        elif isinstance(node, exp.Not):
            holds = self._are(_TRUTH, (node.this,))
        elif isinstance(node, exp.Is):
            holds = isinstance(node.expression, exp.Null) and bool(self.sort(node.this))
        elif isinstance(node, exp.In):
            holds = bool(node.expressions) and self._are_compared(node.this, *node.expressions)
        elif isinstance(node, exp.Between):
            holds = self._are_compared(node.this, node.args["low"], node.args["high"])
        elif isinstance(node, exp.Like):
            holds = self._are(_TEXT, (node.this, node.expression)) and _is_plain(node.expression)
        else:
            holds = type(node) in TURNED and self._are_two(node)
        return _TRUTH if holds else ""

    def _are_two(self, node: exp.Expr) -> bool:
        """Return whether two values are compared alike, on whichever side a constant is."""
        first, other = sorted((node.this, node.expression), key=_is_constant)
        if isinstance(node, exp.NullSafeEQ) and _NUMBER in self._sorts((first, other)):
            return False
        is_read = self.sort(first) == _TRUTH and _is_column(first) and _is_constant(other)
        return self._are_compared(first, other) or (is_read and self.sort(other) in (_NUMBER, _TEXT))

    def _computed(self, node: exp.Expr) -> str:
        """Return the sort of what is computed."""
        found = ""
        match node:
            case exp.Neg() if self._are(_NUMBER, (node.this,)):
                found = _NUMBER
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                found = (
                    _NUMBER if self._are(_NUMBER, (node.left, node.right)) and self._is_exact(node) else ""
                )
            case exp.Cast() if node.to.is_type(exp.DType.DOUBLE) and not _is_constant(node):
                found = _NUMBER if self._kind(node.this) in {*_REAL, *INTEGERS} else ""
            case exp.Ceil() | exp.Floor() if len(node.args) == 1:
                found = _NUMBER if self._kind(node.this) == "double" else ""
            case exp.Coalesce() if not _is_constant(node.this):
                found = self._one_sort((node.this, *node.expressions))
            case exp.Case() if node.this is None:
                found = self._chosen(node.args["ifs"], node.args.get("default"))
            case exp.Upper() | exp.Lower() | exp.Concat():
                found = _TEXT if self._are(_TEXT, _arguments(node)) else ""
        return found

    def _chosen(self, cases: list[exp.If], otherwise: exp.Expr | None) -> str:
        """Return the sort of a CASE, whose conditions are such."""
        results = [*(case.args["true"] for case in cases), otherwise or exp.null()]
        return self._one_sort(results) if self._are(_TRUTH, (case.this for case in cases)) else ""

    def _is_exact(self, node: exp.Binary) -> bool:
        """Return whether a sum, product or quotient with decimals is that of integers beside them."""
        kinds = [self._kind(one) for one in (node.left, node.right)]
        return "decimal" not in kinds or (
            not isinstance(node, exp.Div | exp.Mod) and all(one in {"decimal", *INTEGERS} for one in kinds)
        )

    def _are(self, sort: str, nodes: Iterable[exp.Expr]) -> bool:
        return all(self.sort(node) == sort for node in nodes)

    def _are_compared(self, first: exp.Expr, *others: exp.Expr) -> bool:
        """Return whether values are compared alike: of one sort, or a column with constants that are read."""
        sorts = self._sorts((first, *others))
        # delta-rs takes a NULL for a type of its own, and a NaN that is computed may be less than all.
        if _is_constant(first) or sorts & {"", _NOTHING} or any(map(self._may_be_none, (first, *others))):
            return False
        are_read = _is_column(first) and all(map(_is_constant, others)) and self.sort(first) != _TRUTH
        return len(sorts) == 1 or are_read

    def _sorts(self, nodes: Iterable[exp.Expr]) -> set[str]:
        return {self.sort(node) for node in nodes}

    def _may_be_none(self, node: exp.Expr) -> bool:
        """Return whether a fraction is computed of others, which may come to NaN."""
        return not _is_column(node) and any(self._kind(one) in _REAL for one in node.find_all(exp.Column))

    def _one_sort(self, nodes: Iterable[exp.Expr]) -> str:
        nodes = [node for node in nodes if self.sort(node) != _NOTHING]
        sorts, kinds = {self.sort(node) for node in nodes}, {self._kind(node) for node in nodes}
        is_one = len(sorts) == 1 and (sorts != {_NUMBER} or any(kinds <= mixed for mixed in _MIXED))
        return sorts.pop() if is_one else ""

    def _kind(self, node: exp.Expr) -> str:
        return kind_of(node, self._kinds)


def _sort_of(kind: str) -> str:
    if kind in NUMBERS:
        return _NUMBER
    return _TEXT if kind in _TEXTS else kind if kind in (_TRUTH, _TIME, "date") else ""


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None and not any(
        call.name == MOMENT for call in node.find_all(exp.Anonymous)
    )


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Column)


def _is_plain(pattern: exp.Expr) -> bool:
    return isinstance(pattern, exp.Literal) and "\\" not in pattern.name


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [*node.expressions] or [node.this]
