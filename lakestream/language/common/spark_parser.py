"""Spark's SQL where sqlglot reads it otherwise: operators, intervals, and functions of other names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from lakestream.errors import refuse_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot.dialects.dialect import Dialect

refuse_compiled(SparkParser)

WRITTEN = "written"
"""The key of an identifier's meta that holds the name which a statement has for it."""

_LONGEST_INTERVAL = 200
_WITH_DEFAULTS = {"REGEXP_EXTRACT": 3, "REGEXP_EXTRACT_ALL": 3} | dict.fromkeys(
    ("DATE_FORMAT", "FROM_UNIXTIME", "TO_DATE", "TO_TIMESTAMP", "UNIX_TIMESTAMP"), 2
)
"""Functions of which sqlglot drops or changes a last argument, and how many they have with it."""
_OTHERS = ("ARRAY_SIZE", "GET_JSON_OBJECT", "LOG10", "LOG2", "NAMED_STRUCT", "PARSE_JSON", "UNIX_DATE")
"""Functions for which sqlglot writes others, that come to other values or types."""


class ShortIntervals(Parser):
    """A parser that looks into no interval of more characters than one is written with.

    What sqlglot finds in one takes the square of its length.
    """

    def _parse_interval_span(self, this, *args, **named):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN003, ANN202
        if isinstance(this, exp.Literal) and len(this.name) > _LONGEST_INTERVAL:
            self.raise_error("an interval of so many characters", self._prev)
        return super()._parse_interval_span(this, *args, **named)


def _as_written(name: str) -> Callable[..., exp.Expr]:
    """Return what reads a call with its last argument, which is Spark's and stays as it is written."""
    read = SparkParser.FUNCTIONS[name]

    def call(arguments: list[exp.Expr], **dialect: Dialect) -> exp.Expr:
        is_whole = len(arguments) == _WITH_DEFAULTS[name]
        # Without a dialect, what reads it raises TypeError where it needs one: sqlglot then gives it.
        return exp.Anonymous(this=name, expressions=arguments) if is_whole else read(arguments, **dialect)

    return call


def _itself(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return what reads a call that stays as it is written."""
    return lambda arguments: exp.Anonymous(this=name, expressions=arguments)


class ExactSparkParser(ShortIntervals, SparkParser):
    """Spark's parser, whose trees are written out as what Spark reads in their text."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = SparkParser.FUNCTIONS | {
        **{name: _as_written(name) for name in _WITH_DEFAULTS},
        **{name: _itself(name) for name in _OTHERS},
        "JSON_PARSE": _itself("PARSE_JSON"),
    }
    # Spark joins texts as it adds, from left to right.
    TERM: ClassVar[dict[TokenType, type[exp.Binary]]] = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}

    def _parse_term(self, *args, **named):  # type: ignore[no-untyped-def] # noqa: ANN002, ANN003, ANN202
        """Read a sum, and shifts, which bind closer than ``&``, ``^`` and ``|`` do."""
        this = super()._parse_term(*args, **named)
        while shift := next((found for pair, found in _SHIFTS.items() if self._match_pair(*pair)), None):
            if shift is exp.BitwiseRightShift and self._match(TokenType.GT):
                amount = super()._parse_term(*args, **named)
                this = exp.Anonymous(this="SHIFTRIGHTUNSIGNED", expressions=[this, amount])
            else:
                this = self.expression(shift(this=this, expression=super()._parse_term(*args, **named)))
        return this

    def _parse_interval(self, *args, **named):  # type: ignore[no-untyped-def] # noqa: ANN002, ANN003, ANN202
        """Read an interval; one of several units is one value, of which sqlglot makes a sum."""
        interval: exp.Expr | None = super()._parse_interval(*args, **named)
        if not isinstance(interval, exp.Add):
            return interval
        parts = " ".join(_said(part) for part in (interval.this, interval.expression))
        return exp.Interval(this=exp.Literal.string(parts))


def _said(interval: exp.Expr) -> str:
    """Return the text of an interval's numbers and units."""
    unit = interval.args.get("unit")
    return f"{interval.name} {unit.name}" if unit is not None else interval.name


_SHIFTS: Mapping[tuple[TokenType, TokenType], type[exp.Binary]] = {
    (TokenType.LT, TokenType.LT): exp.BitwiseLeftShift,
    (TokenType.GT, TokenType.GT): exp.BitwiseRightShift,
}


def tell_tables_apart(tree: exp.Expr) -> None:
    """Give common table expressions names of their own where one name means two tables.

    A name means the expression that was named before it in the WITH of a query around it, else a table of
    the lake (Spark); sqlglot writes all of these expressions at the top of a text, where one hides another.
    """
    named, meant = _common_tables(tree)
    uses = Counter(one.alias.lower() for one in named)
    uses.update({table.name.lower() for table, one in meant if one is None})
    new = {id(one): f"_ls_cte_{at}" for at, one in enumerate(named) if uses[one.alias.lower()] > 1}
    for table, one in meant:
        if one is not None and id(one) in new:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            _rename(table.this, new[id(one)])
    for one in named:
        if id(one) in new:
            _rename(one.args["alias"].this, new[id(one)])


@dataclass(frozen=True)
class _Named:
    """What the WITH of a query has named, as far as its first expressions, and what is named around it."""

    places: Mapping[str, int]
    expressions: Sequence[exp.CTE]
    first: int
    around: _Named | None

    def find(self, name: str) -> exp.CTE | None:
        """Return the expression of a name, None where it is a table's."""
        within: _Named | None = self
        while within is not None:
            at = within.places.get(name)
            if at is not None and at < within.first:
                return within.expressions[at]
            within = within.around
        return None


def _common_tables(tree: exp.Expr) -> tuple[list[exp.CTE], list[tuple[exp.Table, exp.CTE | None]]]:
    """Return the common table expressions, and which of them each table is, None for none."""
    named: list[exp.CTE] = []
    meant: list[tuple[exp.Table, exp.CTE | None]] = []
    left: list[tuple[exp.Expr, _Named]] = [(tree, _Named({}, [], 0, None))]
    while left:
        node, seen = left.pop()
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            own = with_.expressions
            places = {one.alias.lower(): at for at, one in enumerate(own)}
            of_itself = bool(with_.recursive)
            left.extend((one.this, _Named(places, own, at + of_itself, seen)) for at, one in enumerate(own))
            seen = _Named(places, own, len(own), seen)
            named += own
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.db:
            meant.append((node, seen.find(node.name.lower())))
        left.extend((part, seen) for part in node.iter_expressions() if part is not with_)
    return named, meant


def _rename(identifier: exp.Expr, name: str) -> None:
    identifier.meta[WRITTEN] = identifier.name
    identifier.set("this", name)
