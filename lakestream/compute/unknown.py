"""Names in a query that nothing has which it reads: told before Spark is asked, which takes seconds to start.

Only what Spark refuses for certain is found. What a query reads of which the columns are not known here (a
function's rows, a pivot) may have any column, and no name that could be one of it is doubted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope, walk_in_scope

from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS
from lakestream.compute.expressions.row_calls import FORMS
from lakestream.language.common.aggregates import OWN_AGGREGATES
from lakestream.language.common.allowed import HARMLESS, foreign_calls
from lakestream.language.common.functions import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    Columns = Callable[[exp.Table], Collection[str] | None]
    """The columns of a table that a query names, None where they are not known."""
    _Known = frozenset[str] | None
    """The columns of something that is read, None where they are not known."""

_WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "localtime", "now", "user"}
    | {"current_user", "session_user", "current_catalog", "current_database", "current_schema"}
    | {"grouping__id", "_metadata", "all", "default"}
)
"""What Spark takes for a function or a word of its own where no column has the name."""

FUNCTIONS = HARMLESS | OWN | OWN_AGGREGATES | FORMS.keys()
"""The functions that a query may call."""

_OF_CLAUSES = frozenset(
    {"_wstart", "_wend", "_wduration", "_irowts", "_isfilled", "_irowts_origin", "tbname"}
)


_WINDOWS = ("window", "session_window")
"""The functions whose windows have their name where a query groups by them."""


@dataclass(frozen=True)
class Unknown:
    """A column that nothing has (``kind``) or a function that there is not, and the names that there are."""

    kind: str
    name: str
    node: exp.Expr
    known: frozenset[str]


def unknown_column(query: exp.Query, columns_of: Columns, placeholders: Collection[str]) -> Unknown | None:
    """Return the first column in the text that nothing has which the query reads, None for none.

    ``placeholders`` are the names that stand for something else than a column.
    """
    if query.find(exp.Pivot, exp.MatchRecognize) is not None:
        return None  # they make columns of values
    try:
        found = list(_Names(columns_of, placeholders).unknown(query))
    except (SqlglotError, RecursionError):
        return None  # Spark says what is wrong with it
    return min(found, key=lambda one: _start(one.node), default=None)


def unknown_function(query: exp.Expr, rewritten: exp.Expr) -> Unknown | None:
    """Return the first function in the text that is not Spark's and stays what it is when rewritten."""
    left = {name for name, _ in foreign_calls(rewritten)}
    found = (Unknown("function", name, call, FUNCTIONS) for name, call in foreign_calls(query))
    return min((one for one in found if one.name in left), key=lambda one: _start(one.node), default=None)


def _start(node: exp.Expr) -> int:
    return min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=0)


class _Names:
    """The names of what a query and those within it read."""

    def __init__(self, columns_of: Columns, placeholders: Collection[str]) -> None:
        self._columns_of = columns_of
        self._always = {*placeholders, *TIME_PSEUDO_COLUMNS, *_WITHOUT_BRACKETS, *_OF_CLAUSES}
        self._results: dict[int, _Known] = {}

    def unknown(self, query: exp.Query) -> Iterator[Unknown]:
        """Yield the columns that nothing has."""
        hides = query.find(exp.Lateral) is None
        for scope in traverse_scope(query):
            around = [*_around(scope, hides=hides)]
            read = [self._results_of_union(scope), *(self._read(one) for one in around)]
            listed = [(table, columns) for one in read for table, columns in one.items()]
            aliases = {name for one in around for name in _aliases(one)}
            for column in _columns_in(scope.expression):
                if (known := self._missing(column, listed, aliases)) is not None:
                    name = ".".join(part.name for part in column.parts)
                    yield Unknown("column", name, _wrong_part(column, listed), frozenset(known))
            yield from self._unshared(scope)

    def _missing(
        self, column: exp.Column, listed: list[tuple[str, _Known]], aliases: set[str]
    ) -> set[str] | None:
        """Return the names there are, where a column is certainly none of them; None for any other."""
        first, *others = (part.name.lower() for part in column.parts)
        # What statements of other dialects become may ask for hidden columns.
        is_known = first in self._always or first.startswith("_ls_")
        if column.is_star or not first.isidentifier() or is_known:
            return None
        if any(columns is None for _, columns in listed):
            return None
        names = {name for _, columns in listed for name in columns or ()} | aliases
        if first in _lower(names):
            return None  # it, or a field of it
        for table, name in zip((first, *others), others, strict=False):
            if any(table == known.lower() and name in _lower(columns or ()) for known, columns in listed):
                return None
        if others:
            return {f"{table}.{name}" for table, columns in listed for name in columns or ()}
        return names | self._always if first.startswith("_") else names

    def _unshared(self, scope: Scope) -> Iterator[Unknown]:
        """Yield the columns of USING that what is joined has not."""
        read = self._read(scope)
        for join in scope.expression.args.get("joins") or ():
            columns = read.get(join.this.alias_or_name.lstrip("%"))
            for name in join.args.get("using") or ():
                if columns is not None and name.name.lower() not in _lower(columns):
                    yield Unknown("column", name.name, name, columns)

    def _read(self, scope: Scope) -> dict[str, _Known]:
        """Return what a query reads by the name it has there, each with its columns."""
        named = scope.selected_sources
        found = {name.lstrip("%"): self._columns(node, source) for name, (node, source) in named.items()}
        if len(named) < len(scope.references):
            found[""] = None  # of two with one name, only one is there
        return found

    def _columns(self, node: exp.Expr, source: exp.Expr | Scope) -> _Known:
        renamed = node.alias_column_names if isinstance(node, (exp.Table, exp.DerivedTable)) else []
        if renamed:
            return frozenset(renamed)
        if isinstance(source, Scope):
            return self._of_scope(source)
        if not isinstance(source, exp.Table) or isinstance(source.this, exp.Func):
            return None
        columns = self._columns_of(source)
        return None if columns is None else frozenset(columns)

    def _of_scope(self, scope: Scope) -> _Known:
        """Return the columns of a query in FROM or WITH; None for what is computed from itself."""
        if id(scope) not in self._results:
            self._results[id(scope)] = None
            self._results[id(scope)] = self._named(scope)
        return self._results[id(scope)]

    def _named(self, scope: Scope) -> _Known:
        node = scope.expression
        if scope.outer_columns:
            return frozenset(scope.outer_columns)
        if isinstance(node, exp.SetOperation):
            return None if {"*", ""} & {*node.named_selects} else frozenset(node.named_selects)
        if not isinstance(node, exp.Select):
            return None
        items = [self._of_item(item.unnest(), scope) for item in node.selects]
        known = [names for names in items if names is not None]
        return None if len(known) < len(items) else frozenset(name for names in known for name in names)

    def _of_item(self, item: exp.Expr, scope: Scope) -> _Known:
        """Return the names of a result, of which one that Spark makes of its text is no word."""
        if item.is_star:
            read = self._read(scope)
            tables = [item.table] if isinstance(item, exp.Column) else [*read]
            known = [columns for table in tables if (columns := read.get(table)) is not None]
            return None if len(known) < len(tables) else frozenset(name for names in known for name in names)
        if isinstance(item, (exp.Alias, exp.Column)):
            return frozenset((item.alias_or_name,))
        if isinstance(item, exp.Aliases):
            return frozenset(one.name for one in item.aliases)
        return frozenset() if isinstance(item, _WITHOUT_NAME) else None

    def _results_of_union(self, scope: Scope) -> dict[str, _Known]:
        return {"": self._of_scope(scope)} if isinstance(scope.expression, exp.SetOperation) else {}


_WITHOUT_NAME = (exp.AggFunc, exp.Binary, exp.Case, exp.Window, exp.Subquery)
"""Results that Spark names by a text with signs in it."""


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _wrong_part(column: exp.Column, listed: Iterable[tuple[str, object]]) -> exp.Expr:
    """Return what is wrong of ``table.name``: the name where there is such a table."""
    tables = _lower(table for table, _ in listed)
    parts = column.parts
    at = next((at for at, part in enumerate(parts[:-1], 1) if part.name.lower() in tables), 0)
    return parts[at]


def _columns_in(query: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns of a query, not those of queries within it nor what hints name."""
    for node in walk_in_scope(query, prune=lambda node: isinstance(node, exp.Hint)):
        if isinstance(node, exp.Column):
            yield node


def _around(scope: Scope, *, hides: bool) -> Iterator[Scope]:
    """Yield a query and those that it stands in; one in FROM or WITH does not see what is beside it.

    Without ``hides`` it does: there are queries in FROM that do.
    """
    inner: Scope | None = scope
    while inner is not None:
        yield inner
        hidden = hides and (inner.is_derived_table or inner.is_cte)
        inner = inner.parent
        while hidden and inner is not None:
            hidden = inner.is_derived_table or inner.is_cte
            inner = inner.parent


def _aliases(scope: Scope) -> list[str]:
    """Return the names that results and windows have, which Spark takes in most places of the same query."""
    node = scope.expression
    items = node.selects if isinstance(node, exp.Select) else []
    named = [item.alias for item in items if isinstance(item, exp.Alias)]
    calls = (call.name.lower() for call in node.find_all(exp.Anonymous))
    named += [name for name in calls if name in _WINDOWS]
    return named + [one.name for item in items if isinstance(item, exp.Aliases) for one in item.aliases]
