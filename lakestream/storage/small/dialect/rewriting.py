"""What is on the list in DuckDB's words: a rewriting for each kind of node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.common.templates import put_in_place
from lakestream.storage.small.dialect import casts, groups, lists, numbers, texts, times
from lakestream.storage.small.dialect.durations import is_duration
from lakestream.storage.small.dialect.known import MACROS, macro
from lakestream.storage.small.dialect.numbers import cycle, spark_hash
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import checked
from lakestream.storage.small.listed import in_parts

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites


def in_words_of_duckdb(query: exp.Expr) -> exp.Expr:
    """Rewrite a query from its leaves up, so that each rewriting finds its operands rewritten."""
    for node in reversed([*query.walk()]):
        rewrite = _REWRITES.get(type(node))
        if rewrite is None:
            continue
        new = rewrite(node)
        if new is not node and node.parent is not None:
            put_in_place(node, new)
    return query


def _named(select: exp.Expr) -> exp.Expr:
    """Have columns named as they are written, which Spark does, not as their table has them."""
    _qualify_conditions(select)
    for item in select.expressions:
        if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            put_in_place(item, exp.alias_(item.copy(), item.name, quoted=True))
        elif isinstance(item, exp.Explode):
            put_in_place(item, exp.alias_(item.copy(), "col"))
    return in_parts(select)


def _qualify_conditions(select: exp.Expr) -> None:
    """Have WHERE mean columns of rows: DuckDB would take a name of a result too, Spark does not."""
    where, source = select.args.get("where"), select.args.get("from_")
    results = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    if where is None or not results:
        return
    for column in where.find_all(exp.Column):
        if (
            column.table
            or column.name.lower() not in results
            or column.find_ancestor(exp.Select) is not select
        ):
            continue
        if source is None or select.args.get("joins") or select.args.get("laterals"):
            raise NotExactError("a name of a result in WHERE")
        if not source.this.alias:
            source.this.set("alias", exp.TableAlias(this=exp.to_identifier("ls_from")))
        column.set("table", exp.to_identifier(source.this.alias, quoted=True))


def _numbered(values: exp.Expr) -> exp.Expr:
    """Have columns of VALUES without names be col1, col2, …: DuckDB counts from col0."""
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("ls_values"))
    if not alias.columns:
        count = len(values.expressions[0].expressions)
        alias.set("columns", [exp.to_identifier(f"col{at}") for at in range(1, count + 1)])
    values.set("alias", alias)
    return values


def _conditioned(node: exp.Expr) -> exp.Expr:
    """Have a condition be a BOOLEAN: DuckDB takes others for one, Spark does not."""
    for name in ("this", "expression"):
        condition = node.args.get(name)
        if isinstance(condition, exp.Expr):
            node.set(name, checked(condition, "ls_truth"))
    return node


def _anonymous(node: exp.Expr) -> exp.Expr:
    if is_duration(node):
        return node  # what it is added to takes it along
    name = node.name.lower()
    if name == "xxhash64":
        return spark_hash(node.expressions)
    if name == "pmod":
        return cycle(*node.expressions)
    if name == "timestamp_millis":
        return macro("ls_of_millis", *(checked(one, "ls_whole") for one in node.expressions))
    return macro(MACROS[name], *node.expressions)


_REWRITES: Rewrites = {
    **casts.REWRITES,
    **groups.REWRITES,
    **lists.REWRITES,
    **numbers.REWRITES,
    **texts.REWRITES,
    **times.REWRITES,
    exp.Anonymous: _anonymous,
    exp.Select: _named,
    exp.Values: _numbered,
    **dict.fromkeys((exp.Where, exp.Having, exp.And, exp.Or, exp.Not), _conditioned),
}
