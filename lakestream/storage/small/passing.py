"""DECIMAL and FLOAT columns that a query only passes on, where DuckDB has Spark's values and types.

What is computed of them has types, and roundings, that differ: they may be given, filtered by comparison with
what is written, put in order, and be the extremes of their groups. Columns are told by their names, so that
a name that may mean another value as well is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakestream.storage.small.exact import NotExactError

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOAT = "float"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WRITTEN = re.compile(r"(\d*)(?:\.(\d*))?")
_MOST_DIGITS = 38
_EXACT_DIGITS = 15
"""Digits of a number that is a quotient of two doubles, and so the double that is nearest to it."""
_EXACT_WHOLE = 2**24
"""Up to which a FLOAT has each whole number."""
_GIVE = (exp.Max, exp.Min, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.FirstValue, exp.LastValue)
_BESIDE = (exp.Lag, exp.Lead)
_AROUND = (exp.Paren, exp.Filter, exp.Window, exp.IgnoreNulls, *_GIVE, *_BESIDE)
"""What gives one of the values that its first operand has."""
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)


@dataclass(frozen=True)
class Passed:
    """A query, and the columns of it that may be DECIMAL or FLOAT: names in lower case, with their types."""

    text: str
    columns: frozenset[tuple[str, str]]


@lru_cache(maxsize=2_000)
def passed_on(text: str, views: tuple[tuple[str, frozenset[tuple[str, str]], frozenset[str]], ...]) -> Passed:
    """Return a query in Spark's SQL with what it passes on of views; raises NotExactError where it does more.

    Of each view its name is given, its columns of these types, and the names of its others.
    """
    try:
        query = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise NotExactError(f"not understood: {error}") from error
    read = {table.name.lower() for table in query.find_all(exp.Table)}
    known: dict[str, str] = {}
    for name, passed, _ in views:
        for column, kind in passed if name.lower() in read else ():
            if known.setdefault(column, kind) != kind:
                raise NotExactError(f"{column} of two types")
    others = {column for name, _, plain in views if name.lower() in read for column in plain}
    query_of = _Query(query, known)
    if not known:
        return Passed(text, frozenset())
    if others & known.keys():
        raise NotExactError("a name of columns of two types")
    is_changed = query_of.check()
    return Passed(query.sql("spark") if is_changed else text, frozenset(known.items()))


class _Query:
    """A query whose columns of some names, ``known`` with their types, are looked after."""

    def __init__(self, query: exp.Expr, known: dict[str, str]) -> None:
        self._query, self._known = query, known
        self._learn()

    def _learn(self) -> None:
        """Add the names that these columns are given."""
        aliases, before = [*self._query.find_all(exp.Alias)], -1
        while before < len(self._known):
            before = len(self._known)
            for alias in aliases:
                kind = self._kind(alias.this)
                if kind is not None and self._known.setdefault(alias.alias.lower(), kind) != kind:
                    raise NotExactError(f"{alias.alias} of two types")
        for alias in aliases:
            if alias.alias.lower() in self._known and self._kind(alias.this) is None:
                raise NotExactError(f"{alias.alias} of two types")

    def _kind(self, node: exp.Expr) -> str | None:
        """Return the type of an expression that is one of these values; None for others."""
        while isinstance(node, _AROUND):
            node = node.this
        if isinstance(node, exp.Cast):
            kind = _spelled(node.to)
            of = self._kind(node.this)
            return kind if kind is not None and (of == kind or isinstance(node.this, exp.Null)) else None
        return self._known.get(node.name.lower()) if isinstance(node, exp.Column) else None

    def check(self) -> bool:
        """Return whether the query had to be changed. Raises NotExactError."""
        self._check_names()
        self._check_tables()
        is_changed = False
        for node in [*self._query.find_all(exp.Column, exp.Star, exp.Cast)]:
            if isinstance(node, exp.Star):
                self._check_star(node)
            elif self._kind(node) is not None:
                is_changed |= self._check_value(node)
        return is_changed

    def _check_names(self) -> None:
        """Refuse what tells columns otherwise than by names that stay theirs."""
        for alias in self._query.find_all(exp.TableAlias):
            names = [one.name.lower() for one in alias.args.get("columns") or ()]
            if self._known.keys() & names or (names and not isinstance(alias.parent, exp.Lateral)):
                raise NotExactError("names of columns beside their table")
        for aliases in self._query.find_all(exp.Aliases):
            if self._known.keys() & {one.name.lower() for one in aliases.expressions}:
                raise NotExactError("names of columns beside their table")
        tables = {one.alias_or_name.lower() for one in self._query.find_all(exp.Table, exp.Subquery, exp.CTE)}
        for column in self._query.find_all(exp.Column):
            if column.name.lower() in self._known and column.table and column.table.lower() not in tables:
                raise NotExactError("a field that has the name of a column")

    def _check_tables(self) -> None:
        """Refuse tables joined by names of columns, and unions, which have types of their own."""
        for join in self._query.find_all(exp.Join):
            if join.args.get("using") or join.method:
                raise NotExactError("a join by names")
        for one in self._query.find_all(exp.SetOperation):
            if any(self._gives(select) for select in _members(one)):
                raise NotExactError("a union of decimals or floats")

    def _gives(self, select: exp.Expr) -> bool:
        return not isinstance(select, exp.Select) or any(
            item.find(exp.Star) or self._kind(item.unalias()) for item in select.expressions
        )

    def _check_star(self, star: exp.Star) -> None:
        place = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
        if isinstance(place, exp.Count):
            return
        if star.args.get("replace") or star.args.get("rename"):
            raise NotExactError("columns in the place of others")
        if not isinstance(place, exp.Select):
            raise NotExactError("a row of decimals or floats")
        self._check_item(place, any(kind == FLOAT for kind in self._known.values()))

    def _check_value(self, value: exp.Expr) -> bool:
        """Check where a value goes; return whether the query had to be changed for it."""
        kind = self._kind(value)
        around = value.parent
        while isinstance(around, _AROUND) and value.arg_key == "this" and around.args.get("default") is None:
            value, around = around, around.parent
        if isinstance(around, exp.Cast) and value.arg_key == "this":
            return self._check_cast(value, around)
        if isinstance(around, _COMPARED):
            return self._check_compared(value, around, kind or "")
        self._check_place(value, around, kind == FLOAT)
        return False

    def _check_cast(self, value: exp.Expr, cast: exp.Cast) -> bool:
        """Take a cast to the type that a value has away."""
        if self._kind(value) == FLOAT and cast.to.this is exp.DataType.Type.DOUBLE:
            return False
        if self._kind(cast) is None or not isinstance(cast.parent, exp.Alias):
            raise NotExactError("a decimal or float that is cast")
        self._check_place(cast, cast.parent, self._kind(cast) == FLOAT)
        cast.replace(value.copy())
        return True

    def _check_place(self, value: exp.Expr, around: exp.Expr | None, is_float: bool) -> None:
        if isinstance(around, exp.Alias):
            value, around = around, around.parent
        if isinstance(around, exp.Select) and value.arg_key == "expressions":
            self._check_item(around, is_float)
            return
        if isinstance(around, exp.PropertyEQ):
            around = around.parent
        by = around.parent if isinstance(around, exp.Struct) else None
        told = (
            isinstance(around, (exp.Ordered, exp.Count)),
            isinstance(around, exp.Is) and isinstance(around.expression, exp.Null),
            isinstance(by, (exp.ArgMax, exp.ArgMin)) and around is by.expression,
            isinstance(around, (exp.Group, exp.Window)) and not is_float,
        )
        if not any(told):
            raise NotExactError(f"a decimal or float in {type(around).__name__}")

    def _check_item(self, select: exp.Select, is_float: bool) -> None:
        """Refuse what a SELECT gives where that is a value of an expression, or told apart from others."""
        place: exp.Expr = select
        while isinstance(place.parent, (exp.Subquery, exp.SetOperation)):
            place = place.parent
        if not isinstance(place.parent, (exp.From, exp.Join, exp.CTE, exp.Exists, type(None))):
            raise NotExactError("a query of a decimal or float as a value")
        group = select.args.get("group")
        by_number = group is not None and (group.args.get("all") or group.find(exp.Literal))
        if is_float and (select.args.get("distinct") or by_number):
            raise NotExactError("floats that are told apart")

    def _check_compared(self, value: exp.Expr, around: exp.Expr, kind: str) -> bool:
        sides = [side for side in around.iter_expressions() if side is not value]
        if len(sides) == 1 and self._kind(sides[0]) == kind:
            return False
        numbers = [_number(side) for side in sides]
        if isinstance(around, exp.In) and (value is not around.this or around.args.get("query")):
            raise NotExactError("a decimal or float among others")
        if kind != FLOAT:
            _check_decimals(kind, [one for one in numbers if one])
            return False
        _check_floats([one for one in numbers if one])
        value.replace(exp.cast(value.copy(), "DOUBLE"))
        return True


def _members(one: exp.Expr) -> Iterator[exp.Expr]:
    for side in (one.this, one.expression):
        inner = side.unnest()
        if isinstance(inner, exp.SetOperation):
            yield from _members(inner)
        else:
            yield inner


def _number(side: exp.Expr) -> str:
    """Return the digits of a number that is written, nothing for NULL; raises NotExactError for all else."""
    while isinstance(side, (exp.Paren, exp.Neg)):
        side = side.this
    if isinstance(side, exp.Null):
        return ""
    if isinstance(side, exp.Literal) and not side.is_string and _WRITTEN.fullmatch(side.name):
        return side.name
    raise NotExactError("a decimal or float that is compared with no number that is written")


def _check_decimals(kind: str, numbers: list[str]) -> None:
    """Refuse numbers that have no type with these decimals: Spark then rounds them."""
    precision, scale = (int(part) for part in _DECIMAL.fullmatch(kind).groups())  # type: ignore[union-attr]
    whole = precision - scale
    for number in numbers:
        before, point, after = number.partition(".")
        whole = max(whole, len(before) if point else 10 if len(before) < 10 else 20)
        scale = max(scale, len(after))
    if whole + scale > _MOST_DIGITS:
        raise NotExactError("a number of too many digits")


def _check_floats(numbers: list[str]) -> None:
    """Refuse numbers that are another FLOAT, or that two ways of reading give another DOUBLE."""
    for number in numbers:
        if len(number) > _EXACT_DIGITS or ("." not in number and int(number) > _EXACT_WHOLE):
            raise NotExactError("a number of too many digits")


def _spelled(kind: exp.DataType) -> str | None:
    if kind.this is exp.DataType.Type.FLOAT:
        return FLOAT
    if kind.this is exp.DataType.Type.DECIMAL:
        precision, scale = ([one.name for one in kind.expressions] + ["10", "0"][len(kind.expressions) :])[:2]
        return f"decimal({precision},{scale})"
    return None
