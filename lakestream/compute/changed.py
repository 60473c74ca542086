"""Expressions of UPDATE and DELETE, put so that delta-rs computes what Spark does.

delta-rs makes a number beside a column one of the column's type, whatever is lost by it (``v = 5.7`` holds
where an INT is 5), and divides integers to integers; texts beside numbers end in an error of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.language.expressions.parsing import TURNED, place_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.language.model import Fragment

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGERS = frozenset(_BITS)
NUMBERS = frozenset({*INTEGERS, "decimal", "float", "double"})
"""The kinds of columns of numbers."""
_LONGEST = 40
"""Digits that are written out."""
_INT, _REAL = "bigint", "double"
"""What computed numbers are."""


@dataclass(frozen=True)
class _Grid:
    """The numbers that a column can hold: each a step from the next, between two of them."""

    least: Decimal
    most: Decimal
    step: Decimal

    @classmethod
    def of(cls, kind: str) -> _Grid | None:
        """Return the numbers of integers and decimals, None for others."""
        name, _, more = kind.partition("(")
        if name in _BITS:
            most = Decimal(2) ** (_BITS[name] - 1)
            return cls(-most, most - 1, Decimal(1))
        if name != "decimal":
            return None
        precision, scale = map(int, more.rstrip(")").split(","))
        step = Decimal(1).scaleb(-scale)
        most = Decimal(10) ** (precision - scale) - step
        return cls(-most, most, step)


def as_spark(tree: exp.Expr, fragment: Fragment, kinds: Mapping[str, str]) -> exp.Expr:
    """Return an expression that delta-rs computes as Spark does the one that is given.

    ``kinds`` are the types of the columns, by their names in lower case. Raises StatementError BAD_VALUE for
    a constant that a column is not compared with.
    """
    return _Changed(fragment, kinds).put(tree.copy())


@dataclass(frozen=True)
class _Changed:
    fragment: Fragment
    kinds: Mapping[str, str]

    def put(self, node: exp.Expr) -> exp.Expr:
        """Return a node with all that is in it, put for delta-rs."""
        if isinstance(node, exp.Between) and self._is_number(node.this):
            low, high = node.args["low"], node.args["high"]
            both = exp.and_(
                exp.GTE(this=node.this, expression=low), exp.LTE(this=node.this.copy(), expression=high)
            )
            return self.put(exp.paren(both, copy=False))
        if isinstance(node, exp.In) and node.expressions and self._is_number(node.this):
            each = [exp.EQ(this=node.this.copy(), expression=one) for one in node.expressions]
            return self.put(exp.paren(exp.or_(*each), copy=False))
        if type(node) in TURNED:
            return self._comparison(node)
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(name, self.put(value))
            elif isinstance(value, list):
                node.set(name, [self.put(one) if isinstance(one, exp.Expr) else one for one in value])
        return self._computed(node)

    def _computed(self, node: exp.Expr) -> exp.Expr:
        """Divide as Spark does: to fractions, and by nothing to NULL."""
        if not isinstance(node, exp.Div | exp.Mod):
            return node
        left: exp.Expr = node.left
        right: exp.Expr = exp.Nullif(this=self._without_sign(node.right), expression=exp.Literal.number(0))
        if isinstance(node, exp.Div):
            left, right = exp.cast(left, _REAL), exp.cast(right, _REAL)
        return exp.paren(type(node)(this=left, expression=right), copy=False)

    def _comparison(self, node: exp.Expr) -> exp.Expr:
        says: type[exp.Expr] = type(node)
        side, other = node.this, node.expression
        if _is_constant(side) and not _is_constant(other):
            says, side, other = TURNED[says], other, side
        if not _is_constant(side):
            if (number := _number(other)) is not None:
                return self._beside_number(node, says, side, number)
            if _is_text(other):
                return self._beside_text(node, says, side, other)
        kinds = {self._kind(side), self._kind(other)}
        sides = [self._without_sign(self.put(side), of=side), self._without_sign(self.put(other), of=other)]
        if "decimal" in kinds and kinds & {"float", _REAL}:
            sides = [exp.cast(one, _REAL) for one in sides]
        return says(this=sides[0], expression=sides[1])

    def _without_sign(self, node: exp.Expr, of: exp.Expr | None = None) -> exp.Expr:
        """Return a fraction of which -0.0 is 0.0: to delta-rs that is another number, and less."""
        is_real = self._kind(node if of is None else of) in {"float", _REAL}
        return (
            exp.paren(exp.Add(this=node, expression=exp.Literal.number("0.0")), copy=False)
            if is_real
            else node
        )

    def _beside_number(
        self, node: exp.Expr, says: type[exp.Expr], side: exp.Expr, number: Decimal
    ) -> exp.Expr:
        kind, column = self._kind(side), side.unnest()
        if kind == "boolean" and number in (0, 1):
            return says(this=self.put(side), expression=exp.Boolean(this=bool(number)))
        if kind and kind not in NUMBERS:
            raise self._unfit(node, side, f"{number}", "texts, dates and times stand in quotes")
        grid = _Grid.of(self.kinds[column.name.lower()]) if isinstance(column, exp.Column) and kind else None
        if grid is not None:
            return _on_grid(says, self.put(side), number, grid)
        put = self._without_sign(self.put(side), of=side) if number == 0 else self.put(side)
        is_whole = number == int(number)
        if is_whole and kind in _BITS:  # computed: a larger one would not be one of its type
            put = exp.cast(put, _INT)
        elif not is_whole and not (kind == _REAL and column is side):
            put = exp.cast(put, _REAL)
        return says(this=put, expression=_literal(number))

    def _beside_text(self, node: exp.Expr, says: type[exp.Expr], side: exp.Expr, text: exp.Expr) -> exp.Expr:
        """Compare with a text: it is read as what the other side is."""
        kind = self._kind(side)
        if kind in NUMBERS and (number := _number_of(text.name, kind)) is not None:
            return self._beside_number(node, says, side, number)
        if kind == "boolean" and text.name.lower() in ("true", "false"):
            return says(this=self.put(side), expression=exp.Boolean(this=text.name.lower() == "true"))
        if kind == "date" and not _is_day(text.name):
            raise self._unfit(node, side, f"'{text.name[:40]}'", "write '2025-01-31'")
        if kind in {*NUMBERS, "boolean"}:
            raise self._unfit(node, side, f"'{text.name[:40]}'", "it is none of its values")
        return says(this=self.put(side), expression=text)

    def _is_number(self, node: exp.Expr) -> bool:
        return self._kind(node) in NUMBERS

    def _kind(self, node: exp.Expr) -> str:
        return kind_of(node, self.kinds)

    def _unfit(self, node: exp.Expr, side: exp.Expr, said: str, hint: str) -> StatementError:
        name = side.unnest()
        column = f"the column {name.name} ({self._kind(side)})" if isinstance(name, exp.Column) else "it"
        place = place_in(self.fragment, node)
        return StatementError("BAD_VALUE", f"{column} is not compared with {said}", hint=hint, place=place)


def kind_of(node: exp.Expr, kinds: Mapping[str, str]) -> str:
    """Return the kind of what is computed, without its length; empty for what is not known."""
    node, kind = node.unnest(), ""
    match node:
        case exp.Column():
            kind = kinds.get(node.name.lower(), "").partition("(")[0]
        case exp.Neg() | exp.Ceil() | exp.Floor():
            kind = kind_of(node.this, kinds)
        case exp.Div():
            kind = _REAL
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            kind = _common(node.left, node.right, kinds=kinds)
        case exp.Coalesce():
            kind = _common(node.this, *node.expressions, kinds=kinds)
        case exp.Case():
            results = [case.args["true"] for case in node.args["ifs"]]
            kind = _common(*results, *filter(None, [node.args.get("default")]), kinds=kinds)
        case exp.Cast() if node.to.is_type(exp.DType.DOUBLE):
            kind = _REAL
        case exp.Literal() if not node.is_string:
            kind = _INT if node.is_int else _REAL
    return kind


def _common(*nodes: exp.Expr, kinds: Mapping[str, str]) -> str:
    found = {kind_of(node, kinds) for node in nodes if not isinstance(node, exp.Null)}
    return next((one for one in ("", "decimal", "float", _REAL) if one in found), _INT)


def _on_grid(says: type[exp.Expr], side: exp.Expr, number: Decimal, grid: _Grid) -> exp.Expr:
    """Compare what is on a grid with a number that may lie beside it; NULL stays NULL."""
    below = (number / grid.step).to_integral_value(ROUND_FLOOR) * grid.step
    if below == number and grid.least <= number <= grid.most:
        return says(this=side, expression=_literal(number))
    if says is exp.NullSafeEQ:
        return exp.false()
    if says in (exp.EQ, exp.NEQ):
        return (exp.LT if says is exp.EQ else exp.GTE)(this=side, expression=_literal(grid.least))
    is_less = says in (exp.LT, exp.LTE)
    if grid.least <= below < grid.most:
        return (exp.LTE if is_less else exp.GT)(this=side, expression=_literal(below))
    holds = is_less == (number > 0)
    return (exp.GTE if holds else exp.LT)(this=side, expression=_literal(grid.least))


def _literal(number: Decimal) -> exp.Expr:
    text = f"{abs(number):f}"
    literal = exp.Literal.number(text if len(text) <= _LONGEST else repr(abs(float(number))))
    return exp.Neg(this=literal) if number < 0 else literal


def _is_constant(node: exp.Expr) -> bool:
    return _is_text(node) or _number(node) is not None


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _number(node: exp.Expr) -> Decimal | None:
    """Return the number that is written, with a sign or in brackets; None for something else."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        number = _number(node.this)
        return None if number is None else -number
    return Decimal(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _number_of(text: str, kind: str) -> Decimal | None:
    """Return the number that a text is beside a column of a kind, None where Spark makes another of it."""
    try:
        number = Decimal(text) if text.isascii() and text == text.strip() and "_" not in text else None
    except ArithmeticError:
        return None
    if number is None or not number.is_finite() or (kind in _BITS and not text.lstrip("+-").isdigit()):
        return None
    return number


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
