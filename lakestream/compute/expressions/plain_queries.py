"""Whole queries that Spark accepts for certain: over tables whose columns are of known kinds, joined or not.

As :mod:`lakestream.compute.expressions.plain`, by a list: what is not on it is for Spark to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakestream.compute.expressions.plain import (
    DECIMAL,
    DURATION,
    NULL,
    TRUTH,
    WINDOW,
    NotPlainError,
    kind_of,
    said,
    twice_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Columns = tuple[tuple[str, str], ...]
"""Names in small letters, with their kinds, in order."""

_SELECT = {"kind", "expressions", "with_", "from_", "joins", "where", "group", "having", "distinct"}
_SIDES = ("", "LEFT", "RIGHT", "FULL")


def is_plain_query(
    query: exp.Expr, tables: Mapping[str, Mapping[str, str]], groups: Mapping[str, str], *, nested: bool
) -> bool:
    """Return whether Spark accepts a query over tables of these columns for certain, names but for.

    ``groups`` are columns of the windows around it; ``nested``: queries may stand in it. Names that mean
    nothing, and results that are in no group, are refused by DuckDB as well.
    """
    around = {**WINDOW, **groups}
    if any(around.keys() & columns.keys() for columns in tables.values()):
        return False
    known = {name: (*columns.items(),) for name, columns in tables.items()}
    try:
        # What a table stands for may be a text within the tree.
        tree = parse_one(query.sql("spark"), dialect="spark")
        if nested or _is_single(tree):
            _Queries(around).given(tree, known)
            return True
    except (NotPlainError, SqlglotError, RecursionError):
        pass
    return False


def _is_single(query: exp.Expr) -> bool:
    """Return whether nothing but columns of tables, joined to others, is read in a SELECT of its own."""
    inner = [
        one for one in query.find_all(exp.Query) if one is not query and not isinstance(one, exp.Subquery)
    ]
    return (
        isinstance(query, exp.Select)
        and all(said(one) <= {"kind", "expressions", "from_"} for one in inner)
        and query.find(exp.Window) is None
        and not any(join.side for join in query.args.get("joins") or ())
    )


@dataclass(frozen=True)
class _Queries:
    """Queries within columns ``around`` them, by kind."""

    around: Mapping[str, str]

    def given(self, query: exp.Expr, tables: Mapping[str, Columns]) -> Columns:
        """Return the columns of a query; raises NotPlainError."""
        known = dict(tables)
        for one in query.args["with_"].expressions if query.args.get("with_") else ():
            known[one.alias.lower()] = _named(self.given(one.this, known), one)
        if isinstance(query, exp.Subquery):
            return self.given(query.this, known)
        if isinstance(query, exp.SetOperation):
            return self._both(query, known)
        if not isinstance(query, exp.Select) or said(query) - _SELECT:
            raise NotPlainError
        return _Select(query, tuple(self._relations(query, known)), self.around).given()

    def _both(self, query: exp.SetOperation, tables: Mapping[str, Columns]) -> Columns:
        if said(query) - {"this", "expression", "distinct", "with_"}:
            raise NotPlainError
        left, right = (self.given(side, tables) for side in (query.this, query.expression))
        if [kind for _, kind in left] != [kind for _, kind in right]:
            raise NotPlainError
        return left

    def _relations(self, query: exp.Select, tables: Mapping[str, Columns]) -> Iterator[tuple[str, Columns]]:
        """Yield what rows are read from, by name."""
        first, joins = query.args.get("from_"), query.args.get("joins") or ()
        unlisted = any(said(join) - {"this", "on", "using", "side", "kind"} for join in joins)
        if first is None or unlisted or any(join.side not in _SIDES for join in joins):
            raise NotPlainError
        for source in (first.this, *(join.this for join in joins)):
            found = None
            if isinstance(source, exp.Subquery):
                found = self.given(source, tables)
            elif isinstance(source, exp.Table) and not said(source) - {"this", "alias"}:
                found = tables.get(source.name.lower())
            if found is None:
                raise NotPlainError
            yield source.alias_or_name.lower(), _named(found, source)


def _named(columns: Columns, source: exp.Expr) -> Columns:
    """Return columns by the names that stand beside a table, where some do."""
    alias = source.args.get("alias")
    names = alias.args.get("columns") or () if isinstance(alias, exp.TableAlias) else ()
    if not names:
        return columns
    if len(names) != len(columns):
        raise NotPlainError
    return tuple((one.name.lower(), kind) for one, (_, kind) in zip(names, columns, strict=True))


@dataclass(frozen=True)
class _Select:
    """A SELECT over relations."""

    query: exp.Select
    relations: tuple[tuple[str, Columns], ...]
    around: Mapping[str, str]

    def given(self) -> Columns:
        """Return its columns; raises NotPlainError."""
        joins = self.query.args.get("joins") or ()
        self._check_conditions(joins)
        self._check_groups()
        is_named = any(join.args.get("using") for join in joins)
        return tuple(
            column for item in self.query.expressions for column in self._of(item, is_named=is_named)
        )

    def _columns(self) -> dict[str, str]:
        """Return the kinds of names; a name of columns of two kinds has none."""
        kinds: dict[str, set[str]] = {}
        for name, kind in (column for _, columns in self.relations for column in columns):
            kinds.setdefault(name, set()).add(kind)
        return {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}

    def _kind(self, node: exp.Expr, results: Mapping[str, str] | None = None) -> str:
        kind = kind_of(node.sql("spark"), {**self.around, **(results or {}), **self._columns()})
        if kind is None:
            raise NotPlainError
        return kind

    def _value(self, node: exp.Expr) -> str:
        """Return the kind of what may be a column."""
        if (kind := self._kind(node)) in (DECIMAL, DURATION, NULL):
            raise NotPlainError
        return kind

    def _check_conditions(self, joins: Sequence[exp.Expr]) -> None:
        args = self.query.args
        asked = [args["where"].this] if args.get("where") else []
        asked += [join.args["on"] for join in joins if join.args.get("on") is not None]
        if any(self._kind(one) != TRUTH for one in asked):
            raise NotPlainError
        shared = (name for join in joins for name in join.args.get("using") or ())
        if any(one.name.lower() not in self._columns() for one in shared):
            raise NotPlainError

    def _check_groups(self) -> None:
        """Refuse keys that are no values, and names that mean one thing in a clause and another elsewhere."""
        group, having = self.query.args.get("group"), self.query.args.get("having")
        columns = {name: "" for _, own in self.relations for name, _ in own}
        twice = twice_named(self.query, columns)
        for name in (one for clause in (group, having) if clause for one in clause.find_all(exp.Column)):
            if not name.table and name.name.lower() in twice:
                raise NotPlainError
        if group is not None and said(group) - {"expressions"}:
            raise NotPlainError
        results = {one.alias.lower(): one.this for one in self.query.selects if isinstance(one, exp.Alias)}
        for name in columns:
            results.pop(name, None)
        for key in group.expressions if group is not None else ():
            self._check_key(key, results)
        if having is not None:
            kinds = {name: self._kind(one) for name, one in results.items()}
            if self._kind(having.this, kinds) != TRUTH:
                raise NotPlainError

    def _check_key(self, key: exp.Expr, results: Mapping[str, exp.Expr]) -> None:
        """Refuse a key that is no value, or the name or place of a result that is none."""
        items = self.query.expressions
        if isinstance(key, exp.Literal):
            if key.is_string or not key.name.isdigit() or not 0 < int(key.name) <= len(items):
                raise NotPlainError
            key = items[int(key.name) - 1].unalias()
            if isinstance(key, exp.Literal) or key.is_star:
                raise NotPlainError
        elif isinstance(key, exp.Column) and not key.table:
            key = results.get(key.name.lower(), key)
        if key.find(exp.AggFunc, exp.Window):
            raise NotPlainError
        self._value(key)

    def _of(self, item: exp.Expr, *, is_named: bool) -> Sequence[tuple[str, str]]:
        """Return the columns of a result, several of a star."""
        if not item.is_star:
            return [(item.alias_or_name.lower(), self._value(item))]
        star = item.this if isinstance(item, exp.Column) else item
        if is_named or not isinstance(star, exp.Star) or said(star):
            raise NotPlainError
        table = item.args["table"].name.lower() if isinstance(item, exp.Column) else ""
        return [column for name, columns in self.relations if table in ("", name) for column in columns]
