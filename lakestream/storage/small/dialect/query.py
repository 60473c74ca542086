"""Spark's SQL as DuckDB's: what means the same, by a list; all else is refused, for Spark to answer.

Spark stays what defines a result. A construct is on the list when DuckDB gives Spark's value for every value
of the types that it may meet; where that holds for some types or values only, a macro of
:mod:`lakestream.storage.small.macros` stands in its place, which raises an error for the others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError, UnsupportedError

from lakestream.language.expressions.parsing import is_of_a_column
from lakestream.storage.small.dialect.casts import INSTANTS
from lakestream.storage.small.dialect.checks import check, no_cast_to_decimals, of_one_order
from lakestream.storage.small.dialect.rewriting import in_words_of_duckdb
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import refuse_growth, refuse_long_values
from lakestream.storage.small.macros import USES
from lakestream.storage.small.ordering import order_windows, sort_once
from lakestream.storage.small.rewritten import DuckQuery, marked

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMATS = re.compile(r"date_format", re.IGNORECASE)
_WEEK_YEAR = re.compile(r"YY|[^A-Z]Y[^A-Z]|[dMHms]Y")
"""What may be a format with the year of a week, which is read as the year is."""
_ARRAY_SIZE = re.compile(r"\barray_size\b", re.IGNORECASE)


def duckdb_sql(text: str, *, many: bool = False, decimals: bool = False) -> DuckQuery:
    """Return a query in Spark's SQL as DuckDB's; raises NotExactError for what may not mean the same.

    ``many`` rows are parted by their groups, which several threads can do; few are put in one order. Without
    ``decimals`` nothing but NULL is cast to one.
    """
    if _ARRAY_SIZE.search(text):
        raise NotExactError("array_size(), which is read as size() is, and is NULL of no list")
    if _FORMATS.search(text) and _WEEK_YEAR.search(text):
        raise NotExactError("a format that may have years of weeks")
    try:
        query = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise NotExactError(f"not understood: {error}") from error
    for select in query.find_all(exp.Select):
        select.set("hint", None)  # says how Spark is to do it, not what
    _take_for_instants(query)
    _list_ranges(query)
    for window in query.find_all(exp.Window):
        of_one_order(window)  # which is sorted away
    sort_once(query)
    nodes = [*query.walk()]
    for node in nodes:
        check(node)
        if not decimals:
            no_cast_to_decimals(node)
    _refuse_unnamed(query)
    refuse_long_values(query)
    views = _mark_views(nodes)
    _name_no_rows(nodes)
    if not many:
        order_windows(nodes)
    rewritten = in_words_of_duckdb(query)
    refuse_growth(rewritten, USES)
    try:
        said = rewritten.sql(
            dialect="duckdb", identify=True, copy=False, unsupported_level=ErrorLevel.IMMEDIATE
        )
    except UnsupportedError as error:
        raise NotExactError(f"not in DuckDB's words: {error}") from error
    return DuckQuery(said, views)


def _list_ranges(query: exp.Expr) -> None:
    """Put lists in the place of range(…) in FROM; raises NotExactError where it has many numbers."""
    for table in [*query.find_all(exp.Table)]:
        call = table.this
        if not isinstance(call, exp.Anonymous) or call.name.lower() != "range":
            continue
        written = [one.sql() for one in call.expressions]
        if not 0 < len(written) < 4 or not all(map(_WHOLE.fullmatch, written)) or "0" in written[2:]:
            raise NotExactError("range() of other than whole numbers that are written")
        numbers = range(*map(int, written))
        if len(numbers) > _MOST_NUMBERS:
            raise NotExactError("range() of many numbers")
        listed = "SELECT 0L AS id WHERE false"
        if numbers:
            steps = f"SELECT explode(sequence(0L, {len(numbers) - 1}L)) AS k"
            listed = f"SELECT {numbers.start}L + {numbers.step}L * k AS id FROM ({steps})"  # noqa: S608 (numbers)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier("ls_range"))
        table.replace(exp.Subquery(this=parse_one(listed, dialect="spark"), alias=alias))


_WHOLE = re.compile("-?[0-9]{1,18}")
_MOST_NUMBERS = 100_000
"""Of a range() that becomes a list."""


def _take_for_instants(query: exp.Expr) -> None:
    """Take for an instant what is asked whether it is a number: where it is one, Spark is asked."""
    for case in [*query.find_all(exp.Case)]:
        [first, *others], default = case.args["ifs"], case.args.get("default")
        asks = isinstance(first.this, exp.RegexpLike) and isinstance(first.this.this, exp.Typeof)
        # A cast to TIMESTAMP makes sure of an instant.
        if asks and not others and isinstance(default, exp.Cast) and default.to.this in INSTANTS:
            case.replace(default)


def _refuse_unnamed(query: exp.Expr) -> None:
    """Refuse names to be seen that are not written at their result: Spark has them in words of its own.

    They are seen where nothing is above, or a star.
    """
    if isinstance(query, exp.Query) and not all(map(_keeps_names, query.selects)):
        raise NotExactError("several names of one result")
    shared = {one.alias.lower(): one for one in query.find_all(exp.CTE)}
    for select in query.find_all(exp.Select):
        if not any(item.is_star for item in select.expressions):
            continue
        for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
            read = shared.get(part.this.name.lower(), part.this) if part is not None else None
            if isinstance(read, (exp.CTE, exp.Subquery)) and not read.alias_column_names:
                first = next(read.this.find_all(exp.Select, bfs=False), None)
                if first is not None and not _tells_names(first):
                    raise NotExactError("* over results without names of their own")


def _tells_names(select: exp.Select) -> bool:
    """Return whether each result of a select has a name, and no two the same, as far as the text tells."""
    names = _names(select)
    is_once = names is not None and len(set(names)) == len(names)
    return is_once and all(map(_is_named, select.expressions))


def _names(select: exp.Select) -> list[str] | None:
    """Return the names of results; None where a star is of several tables whose columns no text tells.

    Those of a star over a single table are left out: they are the table's, each there once.
    """
    found: list[str] = []
    for item in select.expressions:
        if isinstance(item, exp.Star) and (joins := _joined(select)):
            below = [_names_below(part.this) for part in (select.args["from_"], *joins)]
            if any(names is None for names in below):
                return None
            found += [name for names in below for name in names or ()]
        elif not item.is_star:
            found.append(item.alias_or_name.lower())
    return found


def _joined(select: exp.Select) -> list[exp.Expr]:
    joins = select.args.get("joins") or ()
    return [one for one in joins if not (one.kind in _HALF or one.args.get("using"))]


def _names_below(source: exp.Expr) -> list[str] | None:
    """Return the names that a query in FROM gives; None for tables, and where it takes them from one."""
    below = source.this if isinstance(source, exp.Subquery) else None
    if not isinstance(below, exp.Select) or any(item.is_star for item in below.expressions):
        return None
    return _names(below)


_HALF = ("SEMI", "ANTI")
"""Joins of which the table that is joined has no columns among the results."""


def _is_named(item: exp.Expr) -> bool:
    is_one = is_of_a_column(item) or isinstance(item, (exp.Alias, exp.Star, exp.Explode))
    return is_one or (isinstance(item, exp.Aliases) and _keeps_names(item))


def _keeps_names(item: exp.Expr) -> bool:
    """Return whether structs that become rows have the names of the columns: DuckDB keeps the structs'."""
    if not isinstance(item, exp.Aliases):
        return True
    struct = item.this.find(exp.Struct)
    fields = struct.expressions if struct is not None else []
    names = [field.this.name for field in fields if isinstance(field, exp.PropertyEQ)]
    return names == [name.name for name in item.aliases]


def _mark_views(nodes: Sequence[exp.Expr]) -> tuple[str, ...]:
    """Mark the names of views, which common table expressions are not, and return them."""
    own = {one.alias.lower() for one in nodes if isinstance(one, exp.CTE)}
    tables = [one for one in nodes if isinstance(one, exp.Table)]
    for table in tables:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    views = [table for table in tables if table.name.lower() not in own]
    names = [table.name for table in views]
    for table in views:
        table.set("this", exp.to_identifier(marked(table.name), quoted=True))
    return tuple(dict.fromkeys(names))


def _name_no_rows(nodes: Sequence[exp.Expr]) -> None:
    """Call what is in FROM otherwise where a column alone is named like it.

    Where there is no such column, DuckDB takes the name for whole rows, as structs; in Spark's SQL it means
    nothing.
    """
    alone = {one.name.lower() for one in nodes if isinstance(one, exp.Column) and not one.table}
    aliases = [one.args.get("alias") for one in nodes if isinstance(one, _IN_FROM)]
    doubtful = [one for one in aliases if one is not None and one.name.lower() in alone]
    named = {one.name.lower() for one in doubtful}
    for alias in doubtful:
        alias.set("this", _of_rows(alias.name))
    for column in nodes:
        if isinstance(column, exp.Column) and column.table and column.parts[0].name.lower() in named:
            column.parts[0].replace(_of_rows(column.parts[0].name))


_IN_FROM = (exp.Table, exp.Subquery, exp.Lateral, exp.Values)


def _of_rows(name: str) -> exp.Identifier:
    return exp.to_identifier(f"{name} ls_rows", quoted=True)
