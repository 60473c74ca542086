"""Forms of a query that mean the same as a plainer one, which alone tells by what keys rows fall apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import READ
from lakestream.compute.windows.stars import leaves
from lakestream.language.expressions.parsing import own_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

_BY_NAMES = ("group", "having", "qualify", "order")
"""The clauses in which the name of a result may stand for it."""


def plain_forms(query: exp.Query) -> None:
    """Turn RIGHT JOINs round, and name the columns of queries in FROM in their own lists, where that can be.

    What stars stand for has been put in their place: it goes by the order of tables.
    """
    for select in query.find_all(exp.Select):
        _turn_round(select)
    for inner in query.find_all(exp.Subquery):
        names = inner.alias_column_names
        first = next(leaves(inner.this), None) if READ not in inner.meta else None
        if names and first is not None and _can_be_named(first, names):
            items = zip(first.selects, names, strict=True)
            first.set("expressions", [exp.alias_(item.unalias(), name, quoted=True) for item, name in items])
            inner.args["alias"].set("columns", None)


def _turn_round(select: exp.Select) -> None:
    """Make ``b LEFT JOIN a`` of ``a RIGHT JOIN b``, whose rows each have one of b; joins behind it stay."""
    source, join = select.args.get("from_"), next(iter(select.args.get("joins") or ()), None)
    if source is not None and join is not None and join.side.upper() == "RIGHT":
        kept, added = join.this, source.this
        source.set("this", kept)
        join.set("this", added)
        join.set("side", "LEFT")


def _can_be_named(select: exp.Select, names: Sequence[str]) -> bool:
    """Return whether results may have other names: nothing in the select goes by the old ones, or the new."""
    items = select.selects
    if len(items) != len(names) or any(item.is_star for item in items):
        return False
    columns = [node for node in own_nodes(select) if isinstance(node, exp.Column) and not node.table]
    old = {item.alias.lower() for item in items if item.alias_or_name.lower() != item.unalias().name.lower()}
    clauses = [select.args[name] for name in _BY_NAMES if select.args.get(name) is not None]
    by_name = {column.name.lower() for clause in clauses for column in clause.find_all(exp.Column)}
    given = old | {name.lower() for name in names}
    return not (by_name & given or {column.name.lower() for column in columns} & old)
