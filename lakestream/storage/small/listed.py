"""Rows of numbers from the first to the last: DuckDB makes a list of them before it makes rows of it."""

from __future__ import annotations

from sqlglot import exp

_ENDS, _PART = ("_ls_listed_first", "_ls_listed_last"), "_ls_listed_part"


def in_parts(select: exp.Expr) -> exp.Expr:
    """Have a rewritten query make rows of numbers by parts: a list of all may be too long to be held.

    ``SELECT x, UNNEST(LS_SEQUENCE(a, b)) AS k FROM r`` has first a row for each part, then one for each
    number. What else the query does is done before, as it is.
    """
    listed = _listed(select)
    if listed is None:
        return select
    item, ends = listed
    within = exp.Select()
    for name in [*select.args]:
        if name != "distinct":
            within.set(name, select.args[name])
            select.set(name, None)
    hidden = [exp.alias_(end, name, quoted=True) for end, name in zip(ends, _ENDS, strict=True)]
    parts = exp.alias_(_rows("ls_stretches", *(end.copy() for end in ends)), _PART, quoted=True)
    within.set("expressions", [*within.expressions[:-1], *hidden, parts])
    numbers = _rows("ls_stretch", *_columns())
    named = exp.alias_(numbers, item.alias, quoted=True) if item.alias else numbers
    select.set("expressions", [exp.Star(except_=_columns()), named])
    alias = exp.TableAlias(this=exp.to_identifier("ls_within"))
    select.set("from_", exp.From(this=exp.Subquery(this=within, alias=alias)))
    return select


def _listed(select: exp.Expr) -> tuple[exp.Expr, list[exp.Expr]] | None:
    """Return the last item of a query, where it makes rows of numbers, with their ends."""
    *others, item = select.expressions or [None]
    rows = item.unalias() if item is not None else None
    sequence = rows.this if isinstance(rows, exp.Explode) else None
    if not isinstance(sequence, exp.Anonymous) or sequence.name != "ls_sequence":
        return None
    group = select.args.get("group")
    by_all = group is not None and group.args.get("all")
    ordered = any(select.args.get(name) for name in ("order", "limit", "offset", "qualify"))
    return (
        None
        if by_all or ordered or any(one.find(exp.Window) for one in others)
        else (item, sequence.expressions)
    )


def _rows(function: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Explode(this=exp.Anonymous(this=function, expressions=[*arguments]))


def _columns() -> list[exp.Expr]:
    return [exp.column(name, quoted=True) for name in (*_ENDS, _PART)]
