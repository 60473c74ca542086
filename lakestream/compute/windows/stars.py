"""The columns that a star stands for: those of what stands in FROM, in Spark's order.

Of tables that are joined by ``USING`` or ``NATURAL`` the shared columns come first, once; ``SEMI`` and
``ANTI`` joins add none; ``LATERAL VIEW`` has those that it names. What is not known here (a function's rows,
a pivot) has any columns, so a star over it stands for what only Spark knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.expressions.parsing import given_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Columns = Callable[[exp.Expr], Sequence[str] | None]
    """The columns of a table that a query names; None where it is none, or they are not known."""


_UNNAMED = "_ls_query_"


class UnknownColumnsError(Exception):
    """A star stands for columns that are not known; its text says of what."""


@dataclass(frozen=True)
class NoSuchError(Exception):
    """What a star names is not there: ``name`` is none of the tables or columns ``known``."""

    name: str
    known: frozenset[str]


@dataclass(frozen=True)
class Shown:
    """A column that a star stands for; ``table`` is the name in FROM that has it, empty where several do."""

    table: str
    name: str

    def column(self, *, qualified: bool = True) -> exp.Column:
        """Return it as a query names it."""
        return exp.column(self.name, table=self.table if qualified and self.table else None, quoted=True)


def leaves(query: exp.Expr) -> Iterator[exp.Select]:
    """Give the selects whose rows a query is made of: itself, or those of its set operations."""
    if isinstance(query, exp.SetOperation):
        yield from leaves(query.left)
        yield from leaves(query.right)
    elif isinstance(query, exp.Subquery):
        yield from leaves(query.this)
    elif isinstance(query, exp.Select):
        yield query


def star_of(item: exp.Expr) -> exp.Star | None:
    """Return the star that a result is, of all columns or of a table's; None for any other result."""
    star = item.this if isinstance(item, exp.Column) else item
    return star if isinstance(star, exp.Star) else None


def columns_of_star(select: exp.Select, item: exp.Expr, columns_of: Columns) -> list[Shown]:
    """Return the columns that a star among the results of a select stands for, less those of its EXCEPT.

    Raises UnknownColumnsError, and NoSuchError for a table or column that is not there.
    """
    sources = _sources(select, columns_of)
    table = item.text("table").lower()
    found = sources.of(table) if table else sources.shown
    if table and table not in sources.names:
        if any(shown.name.lower() == table for shown in sources.shown):
            raise UnknownColumnsError(f"the fields of {table}")
        known = (name for name in sources.names if not name.startswith(_UNNAMED))
        raise NoSuchError(f"{table}.*", frozenset(f"{name}.*" for name in known))
    star = star_of(item)
    assert star is not None  # by the caller
    for column in star.args.get("except_") or ():
        if not any(shown.name.lower() == column.name.lower() for shown in found):
            raise NoSuchError(column.name, frozenset(shown.name for shown in found))
    left_out = {column.name.lower() for column in star.args.get("except_") or ()}
    return [shown for shown in found if shown.name.lower() not in left_out]


def names_of_query(query: exp.Expr, columns_of: Columns) -> list[str]:
    """Return the names of a query's results; raises UnknownColumnsError and NoSuchError."""
    select = next(leaves(query), None)
    if select is None:
        raise UnknownColumnsError("what is no query")
    found: list[str] = []
    for item in select.selects:
        if star_of(item) is not None:
            found += [shown.name for shown in columns_of_star(select, item, columns_of)]
        elif not given_name(item):
            raise UnknownColumnsError(f"{item.sql('spark')}, which has no name")
        else:
            found.append(given_name(item))
    return found


def name_shared(select: exp.Select, columns_of: Columns) -> None:
    """Name the columns by which NATURAL joins tables, as USING does; raises UnknownColumnsError."""
    if any(join.method == "NATURAL" for join in select.args.get("joins") or ()):
        _sources(select, columns_of)


def name_queries(select: exp.Select) -> None:
    """Give each query in FROM or a JOIN that has no name one, so that its columns are told from others."""
    parts = [part for part in (select.args.get("from_"), *(select.args.get("joins") or ())) if part]
    for number, part in enumerate(parts):
        if isinstance(part.this, exp.Subquery) and not part.this.alias:
            alias = part.this.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(f"{_UNNAMED}{number}", quoted=True))
            part.this.set("alias", alias)


@dataclass
class _Sources:
    """What stands in FROM: its names in small letters, and the columns of a star over all of it.

    ``hidden`` are those that only the star of their table has: shared ones, of the side not shown.
    """

    names: set[str] = field(default_factory=set)
    shown: list[Shown] = field(default_factory=list)
    hidden: list[Shown] = field(default_factory=list)

    def of(self, table: str) -> list[Shown]:
        """Return the columns of a table's star."""
        return [one for one in (*self.hidden, *self.shown) if one.table.lower() == table]

    def add(self, name: str, columns: Sequence[str]) -> list[Shown]:
        """Take in a table, and return its columns."""
        if not name or name.lower() in self.names:
            raise UnknownColumnsError("two tables of one name")
        self.names.add(name.lower())
        return [Shown(name, column) for column in columns]

    def join(self, right: list[Shown], shared: Sequence[str], join: exp.Join) -> None:
        """Take in the columns of a table that is joined by some columns that both sides have."""
        left = [_named(name, self.shown) for name in shared]
        ours = [_named(name, right) for name in shared]
        both, hidden = left, ours
        if join.side == "RIGHT":
            both, hidden = ours, left
        elif join.side == "FULL":
            both, hidden = [Shown("", one.name) for one in left], [*left, *ours]
        is_filter = join.kind in ("SEMI", "ANTI")
        rest = [one for one in (*self.shown, *(() if is_filter else right)) if one not in (*left, *ours)]
        self.shown = [*both, *rest]
        self.hidden = [*(() if is_filter else hidden), *self.hidden]


def _named(name: str, columns: Sequence[Shown]) -> Shown:
    """Return the column of a name; raises NoSuchError."""
    for one in columns:
        if one.name.lower() == name.lower():
            return one
    raise NoSuchError(name, frozenset(one.name for one in columns))


def _sources(select: exp.Select, columns_of: Columns) -> _Sources:
    found = _Sources()
    name_queries(select)
    source = select.args.get("from_")
    if source is None:
        raise UnknownColumnsError("a query without FROM")
    found.shown += found.add(_name(source.this), _columns(source.this, columns_of))
    for join in select.args.get("joins") or ():
        own = found.add(_name(join.this), _columns(join.this, columns_of))
        if join.method == "NATURAL":
            _spell_out(join, found.shown, own)
        shared = [column.name for column in join.args.get("using") or ()]
        found.join(own, shared, join)
    for lateral in select.args.get("laterals") or ():
        found.shown += found.add(_name(lateral), _renamed(lateral) or _unknown(lateral))
    return found


def _spell_out(join: exp.Join, left: Sequence[Shown], right: Sequence[Shown]) -> None:
    """Write what NATURAL joins by as USING, where both sides share a column: so it is known of the join."""
    names = {shown.name.lower() for shown in right}
    shared = [exp.to_identifier(shown.name, quoted=True) for shown in left if shown.name.lower() in names]
    if shared:
        join.set("method", None)
        join.set("using", shared)


def _name(node: exp.Expr) -> str:
    return node.alias_or_name.lstrip("%")


def _columns(node: exp.Expr, columns_of: Columns) -> Sequence[str]:
    """Return the columns of what stands in FROM or a JOIN."""
    if any(node.args.get(name) for name in ("pivots", "joins")):
        return _unknown(node)
    renamed = _renamed(node)
    if renamed:
        return renamed
    if isinstance(node, exp.Values):
        return [f"col{number}" for number, _ in enumerate(node.expressions[0].expressions, 1)]
    known = columns_of(node)
    if known is not None:
        return known
    inner = _common(node) if isinstance(node, exp.Table) else node.this
    if isinstance(inner, exp.CTE):
        return _renamed(inner) or names_of_query(inner.this, columns_of)
    return names_of_query(inner, columns_of) if isinstance(inner, exp.Query) else _unknown(node)


def _renamed(node: exp.Expr) -> list[str]:
    """Return the names that an alias gives to columns; none where it gives none."""
    alias = node.args.get("alias")
    return [column.name for column in alias.args.get("columns") or ()] if alias is not None else []


def _unknown(node: exp.Expr) -> Sequence[str]:
    raise UnknownColumnsError(node.sql("spark"))


def _common(table: exp.Table) -> exp.CTE | None:
    """Return what WITH names by a table's name: those before the one it stands in, then those around."""
    at: exp.Expr = table
    while not table.db and at.parent is not None:
        at, below = at.parent, at
        named = at if isinstance(at, exp.With) else at.args.get("with_")
        if named is None or (named is below and named is not at):
            continue
        ctes: list[exp.CTE] = named.expressions
        for cte in ctes:
            if cte is below:
                break  # it sees those before it, and itself where it is RECURSIVE
            if cte.alias.lower() == table.name.lower():
                return cte
    return None
