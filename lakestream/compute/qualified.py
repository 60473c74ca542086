"""Columns that are named with the database of their table: ``main.t.c``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterator


def without_databases(query: exp.Query) -> exp.Query:
    """Return a query, changed in place, whose columns are named by their table alone.

    That is the name of what is read in the table's place. A name of three parts that is of no table in its
    own select, nor in one around it, stays: it may be a field of a struct.
    """
    for column in query.find_all(exp.Column):
        if column.db and not column.catalog and (column.db.lower(), column.table.lower()) in _tables(column):
            column.set("db", None)
    return query


def _tables(node: exp.Expr) -> set[tuple[str, str]]:
    """Return the database and name of the tables without an alias that a column may be of."""
    return {
        (table.db.lower(), table.name.lower())
        for select in _selects_around(node)
        for part in (select.args.get("from_"), *(select.args.get("joins") or ()))
        if part is not None and isinstance(table := part.this, exp.Table) and not table.alias
    }


def _selects_around(node: exp.Expr) -> Iterator[exp.Select]:
    select = node.find_ancestor(exp.Select)
    while select is not None:
        yield select
        select = select.find_ancestor(exp.Select)
