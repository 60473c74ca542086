"""DECIMAL and FLOAT values in a query, where DuckDB has Spark's values and types.

What is computed of them has types, and roundings, that differ: they may be given, compared with what is
written, put in order, told apart, be the extremes of their groups and parts of structs; what is added up and
multiplied is given Spark's type, where no value of it is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.typed.computed import RULES, is_star, refuse_all
from lakestream.storage.small.typed.families import MixedError, check_conditions, one_of
from lakestream.storage.small.typed.scopes import (
    Columns,
    Kind,
    Listed,
    Relation,
    Scope,
    Struct,
    are_alike,
    is_passed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CLAUSES = ("from_", "joins", "laterals", "where", "group", "having", "qualify", "order", "limit", "offset")
_SELECT = {"kind", "expressions", "with_", "distinct", "hint", "windows", *_CLAUSES}


@dataclass(frozen=True)
class Passed:
    """A query in Spark's SQL, and the columns that it gives; None where none of them are passed on."""

    text: str
    columns: Columns | None


def settled(text: str, views: tuple[tuple[str, Columns | None], ...]) -> str:
    """Return a query with what is chosen by types that are known, and no others.

    Raises MixedError where Spark does not let values stand where they do, as far as types are known.
    """
    try:
        return passed_on(text, views).text
    except MixedError:
        raise
    except NotExactError:
        return text  # types are not known where something is in the way


@lru_cache(maxsize=2_000)
def passed_on(text: str, views: tuple[tuple[str, Columns | None], ...]) -> Passed:
    """Return a query with what it passes on of views; raises NotExactError where it does more.

    The columns of a view are None where none of them is passed on.
    """
    try:
        query = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise NotExactError(f"not understood: {error}") from error
    look = _Look()
    try:
        columns = look.query(query, {name.lower(): columns for name, columns in views}, None)
    except RecursionError:
        raise NotExactError("nested too deeply") from None
    return Passed(look.changed(query, text), columns)


class _Look:
    """Goes over a query and finds the type of each expression; what it is to be is noted, and done last."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[exp.Expr, Kind]] = {}
        self._changes: list[tuple[exp.Expr, str | exp.Expr]] = []

    def changed(self, query: exp.Expr, text: str) -> str:
        """Return the query with what had to be changed: values cast, casts taken away, parts replaced."""
        stands: dict[int, exp.Expr] = {}
        for node, kind in self._changes:
            before = stands.get(id(node), node)
            new = kind if isinstance(kind, exp.Expr) else node.this
            if isinstance(kind, str) and kind:
                new = exp.Cast(to=exp.DataType.build(kind, dialect="spark"))
            before.replace(new)
            if isinstance(new, exp.Cast) and new.this is None:
                new.set("this", before)
            stands[id(node)] = new
        return query.sql("spark") if self._changes else text

    def change(self, node: exp.Expr, kind: str | exp.Expr) -> None:
        """Have an expression be cast to a type, a cast without one be undone, or another take its place."""
        self._changes.append((node, kind))

    def query(
        self, node: exp.Expr, views: Mapping[str, Columns | None], outer: Scope | None
    ) -> Columns | None:
        """Return the columns of a query."""
        known = {**views}
        for one in node.args["with_"].expressions if node.args.get("with_") else ():
            known[one.alias.lower()] = _renamed(self.query(one.this, known, outer), one)
        if isinstance(node, exp.Subquery):
            columns = self.query(node.this, known, outer)
        elif isinstance(node, exp.SetOperation):
            columns = self._both(node, known, outer)
        elif isinstance(node, exp.Select):
            return self._select(node, Scope(known, outer))
        elif isinstance(node, exp.Values):
            columns = self._values(node, Scope(known, outer))
        else:
            raise NotExactError(f"decimals or floats beside {type(node).__name__}")
        for clause in filter(None, map(node.args.get, ("order", "limit", "offset"))):
            self.kind(clause, Scope(known, outer, [Relation("", columns)]))
        return columns

    def _values(self, node: exp.Values, scope: Scope) -> Columns:
        refuse_all(self, node, scope)
        row = node.expressions[0]
        count = len(row.expressions) if isinstance(row, exp.Tuple) else 1
        return tuple((f"col{number}", None) for number in range(1, count + 1))

    def _both(
        self, node: exp.SetOperation, views: Mapping[str, Columns | None], outer: Scope | None
    ) -> Columns | None:
        sides = [self.query(side, views, outer) for side in (node.this, node.expression)]
        if None in sides or node.args.get("by_name"):
            if any(is_passed(kind) for side in sides for _, kind in side or ()):
                raise NotExactError("decimals or floats beside columns that are not known")
            return None
        left, right = (side or () for side in sides)
        if len(left) != len(right):
            raise NotExactError("queries of different columns")
        both = zip(left, right, strict=True)
        return tuple((name, one_of([kind, other])) for (name, kind), (_, other) in both)

    def _select(self, select: exp.Select, scope: Scope) -> Columns | None:
        if unknown := {name for name, value in select.args.items() if value} - _SELECT:
            raise NotExactError(f"decimals or floats beside {', '.join(sorted(unknown))}")
        scope.results = {
            one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)
        }
        for source in _sources(select):
            self._join(source, scope)
        self._refuse_two_meanings(select, scope)
        columns = self._given(select, scope)
        clauses = (select.args.get(name) for name in _CLAUSES[3:])
        for clause in (*clauses, *(select.args.get("windows") or ())):
            if clause is not None:
                self.kind(clause, scope)
        return columns

    def _join(self, source: exp.Expr, scope: Scope) -> None:
        if not isinstance(source, exp.Join):
            scope.relations.append(self._relation(source, scope))
            return
        if source.method:
            raise NotExactError("a join by names")
        joined = self._relation(source.this, scope)
        if names := {one.name.lower() for one in source.args.get("using") or ()}:
            joined = _beside(joined, names, scope)
        scope.relations.append(joined)
        if (on := source.args.get("on")) is not None:
            check_conditions([self.kind(on, scope)])
        if source.kind in ("SEMI", "ANTI"):
            scope.relations.pop()

    def _relation(self, source: exp.Expr, scope: Scope) -> Relation:
        name = source.alias_or_name.lower()
        if isinstance(source, exp.Table):
            if source.name.lower() not in scope.views:
                raise NotExactError(f"there is no view {source.name}")
            return Relation(name, _renamed(scope.views[source.name.lower()], source))
        if isinstance(source, exp.Values):
            return Relation(name, _renamed(self._values(source, scope), source))
        if isinstance(source, exp.Subquery):
            return Relation(name, _renamed(self.query(source, scope.views, scope.outer), source))
        if isinstance(source, exp.Lateral) and isinstance(source.this, exp.Subquery):
            return Relation(name, _renamed(self.query(source.this, scope.views, scope), source))
        kind = self.kind(source.this, scope)
        self._refuse_names_too_many(source, scope)
        if isinstance(source.this, exp.Inline) and isinstance(kind, Struct):
            return Relation(name, _renamed(kind.fields, source))
        if is_passed(kind):
            raise NotExactError("decimals or floats of a list")
        return Relation(name, _renamed(None, source))

    def _refuse_names_too_many(self, source: exp.Expr, scope: Scope) -> None:
        """Refuse a list that is to become more columns than its values, and where they stood."""
        alias, call = source.args.get("alias"), source.this
        is_list = isinstance(call, exp.Explode) and isinstance(self.kind(call.this, scope), Listed)
        names = alias.args.get("columns") or () if isinstance(alias, exp.TableAlias) else ()
        if is_list and len(names) > 1 + isinstance(call, exp.Posexplode):
            raise MixedError("names of other columns")

    def _given(self, select: exp.Select, scope: Scope) -> Columns | None:
        columns: list[tuple[str, Kind]] = []
        is_known = True
        for item in select.expressions:
            if is_star(item):
                found = scope.all_of(item)
                is_known &= found is not None
                columns += found or ()
            elif isinstance(item, exp.Aliases):
                refuse_all(self, item.this, scope)
                columns += [(one.name.lower(), None) for one in item.expressions]
            else:
                columns.append((item.alias_or_name.lower(), self.kind(item.unalias(), scope)))
        if not is_known and any(is_passed(kind) for _, kind in columns):
            raise NotExactError("a star of columns that are not known")
        return tuple(columns) if is_known else None

    def _refuse_two_meanings(self, select: exp.Select, scope: Scope) -> None:
        """Refuse a name in a clause that is a column's and a result's of another type."""
        clauses = [select.args[name] for name in ("group", "having", "order") if select.args.get(name)]
        for column in (one for clause in clauses for one in clause.find_all(exp.Column)):
            result = scope.results.get(column.name.lower())
            if result is None or column.table:
                continue
            own = [kind for one in scope.relations for kind in one.find(column.name.lower())]
            if own and not all(are_alike(kind, self.kind(result, scope)) for kind in own):
                raise NotExactError(f"{column.name} of two types")

    def kind(self, node: exp.Expr, scope: Scope) -> Kind:
        """Return the type of an expression; raises NotExactError where DuckDB may have another one."""
        if id(node) not in self._kinds:
            rule = RULES.get(type(node), refuse_all)
            self._kinds[id(node)] = node, rule(self, node, scope)
        return self._kinds[id(node)][1]


def _sources(select: exp.Select) -> Iterable[exp.Expr]:
    if (source := select.args.get("from_")) is not None:
        yield source.this
    for name in ("joins", "laterals"):
        yield from select.args.get(name) or ()


def _beside(joined: Relation, names: set[str], scope: Scope) -> Relation:
    """Return what is joined by names without the columns that stand once."""
    for name in names if joined.columns is not None else ():
        kinds = [kind for one in (*scope.relations, joined) for kind in one.find(name)]
        if not all(are_alike(kinds[0], kind) for kind in kinds):
            raise NotExactError(f"{name} of two types")
    columns = joined.columns and tuple((name, kind) for name, kind in joined.columns if name not in names)
    return Relation(joined.name, columns)


def _renamed(columns: Columns | None, source: exp.Expr) -> Columns | None:
    """Return columns by the names that stand beside a table, where some do."""
    alias = source.args.get("alias")
    names = (
        [one.name.lower() for one in alias.args.get("columns") or ()]
        if isinstance(alias, exp.TableAlias)
        else []
    )
    if len(names) != len({*names}):
        raise MixedError("a name of two columns")
    if columns is None:
        return tuple((name, None) for name in names) or None
    if not names:
        return columns
    if len(names) != len(columns):
        raise MixedError("names of other columns")
    return tuple((name, kind) for name, (_, kind) in zip(names, columns, strict=True))
