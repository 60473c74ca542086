"""The calculation of a stream, read once: its tables, placeholders and functions in Spark SQL.

A calculation is rewritten so that it can be evaluated for all windows at once: placeholders become
columns of the relation of windows (alias ``w``), ``%%trows`` the rows of that window, and every other
table a view of itself at the tick's version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from lakestream.compute.expressions.functions import (
    RowOrder,
    aggregates,
    call,
    duration_micros,
    pick_beside,
    translate,
)
from lakestream.compute.expressions.inner_windows import cut_rows, has_clauses, rewrite_clauses
from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS, Timeline
from lakestream.compute.expressions.row_calls import Rows, check_calls, row_calls
from lakestream.compute.expressions.row_functions import rewrite_calls
from lakestream.compute.qualified import without_databases
from lakestream.compute.windows.orders import complete_orders
from lakestream.compute.windows.stars import (
    NoSuchError,
    UnknownColumnsError,
    columns_of_star,
    leaves,
    star_of,
)
from lakestream.errors import LakestreamError, NotSupportedError, StatementError, did_you_mean
from lakestream.language.common.dialect import DURATION_FUNCTION
from lakestream.language.common.functions import Meaning
from lakestream.language.common.interpolation import INTERPOLATION
from lakestream.language.common.query_clauses import INNER_WINDOW, SLICE_LIMIT
from lakestream.language.common.templates import made, put_in_place
from lakestream.language.expressions.checks import CLOCK_PLACEHOLDERS, TIME_PLACEHOLDERS
from lakestream.language.expressions.instants import nanoseconds_beside, times_beside
from lakestream.language.expressions.meaning import functions_in_spark, intervals_in_spark
from lakestream.language.expressions.parsing import (
    column_names,
    conjuncts,
    is_of_a_column,
    is_star_over_shared,
    own_nodes,
    parse_query,
    place_in,
    stands_for_columns,
    starred,
    text_of,
)
from lakestream.language.expressions.versions import as_of
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakestream.language.expressions.versions import AsOf
    from lakestream.language.model import Fragment

    Resolve = Callable[[str | None, str, AsOf | None], "Relation"]
    """Finds a table by database, name and version."""

WINDOWS, ROWS = "ls_windows", "ls_rows"
"""The relations of every evaluation: the windows to compute, and the rows they may hold."""

ALIAS = "_ls_w"
"""The alias of the windows in a rewritten calculation."""

READ, OF_GROUP, COLUMNS = "read", "of_group", "columns"
"""What a rewritten calculation notes where it reads a table: the read (an empty text for the windows' own
rows), the group column that its ``tbname`` is equal to, and its columns."""


@dataclass(frozen=True)
class Relation:
    """A table as a calculation sees it: ``key`` tells tables apart, columns in order.

    ``time_column`` is the event time, ``is_super`` says whether it has a ``tbname``, ``only`` is the
    subtable that the name stands for, None for the whole table; ``ties`` are the columns that put rows
    of equal time in order, ``order`` one that the rows of a window have for all of their order; ``types``
    are the columns' Spark types by the lower-case name, ``tags`` the columns that are the same for all rows
    of a subtable; ``version`` is that of the table which the query asks for, None for the newest one;
    ``computed`` are columns that rows have beside those, which no star stands for.
    """

    key: str
    columns: tuple[str, ...]
    time_column: str
    is_super: bool = False
    only: str | None = None
    ties: tuple[str, ...] = ()
    order: str | None = None
    types: Mapping[str, str] = field(default_factory=dict, compare=False)
    tags: frozenset[str] = frozenset()
    version: int | None = None
    computed: tuple[str, ...] = ()

    @property
    def has_instants(self) -> bool:
        """Whether its times are instants, and not the wall clock's without a zone, or days."""
        return self.types.get(self.time_column.lower(), "timestamp") == "timestamp"

    @property
    def instants(self) -> frozenset[str]:
        """Its columns that are instants, by their names in lower case."""
        times = {name for name, kind in self.types.items() if kind == "timestamp"}
        return frozenset({*times, self.time_column.lower()} if self.has_instants else times)


@dataclass(frozen=True)
class Bound:
    """An end of the time range that a read needs: a placeholder and microseconds added to it."""

    placeholder: str
    offset: int = 0


@dataclass(frozen=True)
class Read:
    """A table that the calculation reads by name: the view it is to be found under, and its range.

    ``lower``/``upper`` are None where the calculation does not bound the time column by placeholders;
    they always include their instant.
    """

    view: str
    relation: Relation
    lower: Bound | None = None
    upper: Bound | None = None


@dataclass(frozen=True)
class Scope:
    """What a calculation may refer to.

    ``groups`` are the group columns of the windows, ``tbname_group`` the number (from 1) of tbname
    among them; ``resolve`` finds a table by database, name and version; ``placeholders`` are the names that
    the trigger kind has. ``whole_orders``: no order of the query leaves open which of its rows comes first.
    """

    source: Relation
    groups: tuple[str, ...]
    tbname_group: int | None
    placeholders: frozenset[str]
    zone: str
    resolve: Resolve = field(compare=False)
    whole_orders: bool = False


@dataclass
class Calculation:
    """A rewritten calculation: ``query`` in Spark's terms, and what it was found to need.

    ``names`` are those that the query's columns are stored under; an empty text for a star.
    ``orders_rows``: some function may ask for the order of the rows. ``carried`` are the numbers (from 1)
    of the results that a window without rows takes over from the one before it: what changes one changes
    both. ``equal_to_groups`` are columns of reads of which only rows count that have their group's value
    there: view, column and group column.
    """

    query: exp.Query
    names: tuple[str, ...]
    scope: Scope
    reads: tuple[Read, ...] = ()
    reads_rows: bool = False
    used: frozenset[str] = field(default_factory=frozenset)
    orders_rows: bool = False
    carried: tuple[int, ...] = ()
    equal_to_groups: tuple[tuple[str, str, str], ...] = ()

    @cached_property
    def reads_of_groups(self) -> tuple[tuple[str, str, str], ...]:
        """The views of reads of which a group has its own rows, each with their column and the group's."""
        reads = self.query.find_all(exp.Subquery)
        metas = (node.meta for node in reads if node.meta.get(OF_GROUP) and node.meta.get(READ))
        own = ((meta[READ].view, "tbname", meta[OF_GROUP]) for meta in metas)
        return (*own, *self.equal_to_groups)


def compile_calculation(fragment: Fragment, scope: Scope) -> Calculation:
    """Return the calculation rewritten for evaluation over many windows.

    Raises StatementError with the place: unknown tables, functions that do not fit.
    """
    rewriter = _Rewriter(fragment, scope)
    query = rewriter.with_columns(parse_query(fragment))
    ordered = rewriter.with_whole_orders(query) if scope.whole_orders else query
    rewritten = rewriter.query(ordered)
    return Calculation(
        rewritten,
        column_names(query.selects),
        scope,
        tuple(rewriter.reads),
        rewriter.reads_rows,
        frozenset(rewriter.used),
        rewriter.orders_rows,
    )


_PRESERVING = ("RIGHT", "FULL")
"""Joins that keep all rows of the table they add, whatever they are joined by."""

_NOW = "timestamp_micros(_tlocaltime div 1000)"
"""What NOW is in a stream: the wall clock of its trigger, which the tick's plan holds."""


def compile_query(fragment: Fragment, resolve: Resolve, zone: str, *, now_us: int, views: str) -> Calculation:
    """Return a query outside of a stream rewritten; its reads are views whose names begin with ``views``.

    ``now_us`` is what NOW is, in microseconds since 1970 UTC. Raises StatementError as
    :func:`compile_calculation`.
    """
    scope = Scope(Relation("", (), ""), (), None, frozenset(), zone, resolve)
    rewriter = _Rewriter(fragment, scope, views, f"timestamp_micros({now_us}L)")
    query = parse_query(fragment)
    if any(starred(item) for item in query.selects):
        query = rewriter.with_columns(query)
    rewritten = rewriter.query(query)
    _keep_names(query, rewritten)
    return Calculation(rewritten, column_names(query.selects), scope, tuple(rewriter.reads))


def _keep_names(written: exp.Query, rewritten: exp.Query) -> None:
    """Name results without a name by what was written: Spark says ``count(1)`` of a ``count(*)``.

    What a function gives that may have several columns, Spark names.
    """
    if len(written.selects) != len(rewritten.selects):
        return
    for before, after in zip(written.selects, rewritten.selects, strict=True):
        if not (_has_a_name(after) or _is_generator(after)):
            put_in_place(after, exp.alias_(after.copy(), text_of(before), quoted=True))


def _has_a_name(item: exp.Expr) -> bool:
    return is_of_a_column(item) or isinstance(item, (exp.Alias, exp.Aliases, exp.Star))


def _is_generator(item: exp.Expr) -> bool:
    """Return whether a result is of a function of Spark's that gives rows of several columns."""
    return isinstance(item, (exp.Explode, exp.Inline, exp.Stack)) or (
        isinstance(item, exp.Anonymous) and item.name.lower() in _GENERATORS
    )


_GENERATORS = ("json_tuple", "inline_outer")


class _Rewriter:
    """One pass over a calculation; collects what it reads."""

    def __init__(self, fragment: Fragment, scope: Scope, views: str = "", now: str = "") -> None:
        self.fragment = fragment
        self.scope = scope
        self.views = views or "ls_read_"
        self.orders_windows = bool(views)
        self.now = now or (_NOW if "_tlocaltime" in scope.placeholders else "")
        self.reads: list[Read] = []
        self.reads_rows = False
        self.used: set[str] = set()
        self._common: set[str] = set()
        self.orders_rows = False
        self._computed: set[str] = set()

    def with_columns(self, query: exp.Query) -> exp.Query:
        """Return a query in which a star is the columns that it stands for.

        Where an output has subtables, it has a ``tbname`` of its own. Of groups of rows with an order of
        their own, it is the columns of a group's first row. Raises StatementError COLUMN_NAME_MISSING for
        a star over what has unknown columns, COLUMN_NOT_FOUND for one of no table.
        """
        self._common = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
        for select in leaves(query):
            if any(stands_for_columns(item) for item in select.selects):
                select.set("expressions", [item.copy() for item in self._results(select)])
        return query

    def with_whole_orders(self, query: exp.Query) -> exp.Query:
        """Return a query whose orders go on with what it shows, unless that may be what has no order."""
        tables = [self._relation(table) for table in query.find_all(exp.Table)]
        kinds = [kind for relation in tables if relation is not None for kind in relation.types.values()]
        if any(map(_UNORDERED.search, kinds)) or any(map(_makes_unordered, query.walk())):
            return query
        completed = query.copy()
        complete_orders(completed, self._shown)
        return completed

    def _shown(self, select: exp.Select) -> list[exp.Expr] | None:
        """Return the results of a select with those of its stars; None where Spark alone knows them."""
        try:
            return self._results(select)
        except StatementError:
            return None

    def _results(self, select: exp.Select) -> list[exp.Expr]:
        relation = self._rows_of(_only_source(select))
        return [one for item in select.selects for one in self._expanded(select, item, relation)]

    def _expanded(self, select: exp.Select, item: exp.Expr, relation: Relation | None) -> list[exp.Expr]:
        """Return what a result stands for; ``relation`` is the only one that the select reads."""
        if starred(item) is not None:
            if relation is None:
                raise _star_unknown(
                    self.fragment, item, "* of a function stands for the columns of one table"
                )
            return _of_columns(item, relation)
        if star_of(item) is None:
            return [item]
        try:
            shown = columns_of_star(select, item, self._columns_of)
        except UnknownColumnsError as unknown:
            raise _star_unknown(
                self.fragment, item, f"the columns that * stands for are not known: {unknown}"
            ) from None
        except NoSuchError as error:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{error.name} is nothing that the query reads",
                hint=did_you_mean(error.name, error.known),
                place=place_in(self.fragment, item),
            ) from None
        own = [one for one in shown if one.name != "tbname" or not self.scope.groups]
        columns: list[exp.Expr] = [one.column(qualified=relation is None) for one in own]
        is_group = relation is not None and relation.order is not None
        if is_group and (select.args.get("group") or aggregates(select.selects)):
            return [exp.alias_(call("first_row", column), column.name, quoted=True) for column in columns]
        return columns

    def _columns_of(self, node: exp.Expr) -> tuple[str, ...] | None:
        """Return the columns of a table that a query names; None where it is none of the lake's."""
        relation = self._relation(node) if isinstance(node, exp.Table) else None
        return None if relation is None else relation.columns

    def query(self, query: exp.Query) -> exp.Query:
        """Rewrite functions first (they need the tables), then tables, then names."""
        self._common = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
        meaning = Meaning(self.scope.zone, made(self.now, {}) if self.now else None)
        query = without_databases(query.copy())
        query = cast("exp.Query", functions_in_spark(query, meaning, self.fragment))
        for select in list(query.find_all(exp.Select)):
            if any(starred(item) for item in select.selects):
                self.with_columns(select)
            elif is_star_over_shared(select):
                select.set("expressions", self._shown(select) or select.selects)
            self._select(select)
        for table in list(query.find_all(exp.Table)):
            self._table(table)
        return cast("exp.Query", intervals_in_spark(query.transform(self._placeholder)))

    # --- selects: time column, row order, inner windows ---

    def _select(self, select: exp.Select) -> None:
        relation = self._rows_of(_only_source(select))
        if not self.fragment.spark:
            times = _times_in(select, self._rows_of, self.scope.placeholders)
            times_beside(own_nodes(select), times.__contains__, Meaning(self.scope.zone))
            clock = _OF_THE_CLOCK & self.scope.placeholders
            nanoseconds_beside(own_nodes(select), clock, Meaning(self.scope.zone))
        order = _row_order(relation) if relation else None
        if relation is not None and order is not None and relation.order is None and not self.fragment.spark:
            pick_beside(select, order, frozenset(relation.columns))
        for node in list(own_nodes(select)):
            self._pseudo_column(node, relation)
        # Innermost first: what is put in a function's place is made of its arguments.
        for node in reversed(list(own_nodes(select))):
            self._function(node, order)
        self._bounds(select)
        if calls := row_calls(own_nodes(select)):
            self._row_functions(select, relation, calls)
        elif clause := select.args.get(INTERPOLATION):
            raise StatementError(
                "SYNTAX", "RANGE and EVERY belong to interp()", place=place_in(self.fragment, clause)
            )
        elif has_clauses(select):
            self._clauses(select, relation)

    def _row_functions(
        self, select: exp.Select, relation: Relation | None, calls: list[exp.Anonymous]
    ) -> None:
        """Functions that give several rows: of each slice and window of the query by itself."""
        if relation is not None and relation.order is not None:
            raise NotSupportedError(
                f"the function {calls[0].name.lower()}() in this stream",
                place=place_in(self.fragment, calls[0]),
            )
        known = self.scope.placeholders
        if relation is not None:
            rows = Rows(_row_order(relation), relation.types, known, self.fragment)
        else:
            rows = Rows(_query_order(select), {}, known, self.fragment)
        group = select.args.get("group")
        check_calls(select, calls, rows)
        keys = cut_rows(self.fragment, select, self._timeline(select, relation))
        rewrite_calls(select, calls, [*keys, *(group.expressions if group else [])], rows)

    def _rows_of(self, source: exp.Expr | None) -> Relation | None:
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            return self._derived(source.this)
        return self._relation(source) if isinstance(source, exp.Table) else None

    def _derived(self, select: exp.Select) -> Relation | None:
        """Return the rows of a query as a relation, where the first time among its results is known."""
        below = self._rows_of(_only_source(select))
        if below is None:
            return None
        if any(item.is_star for item in select.selects):
            return Relation("", below.columns, below.time_column)
        times = (
            TIME_PSEUDO_COLUMNS | self.scope.placeholders | {"_wstart", "_wend", below.time_column.lower()}
        )
        time = next(
            (
                item.alias_or_name
                for item in select.selects
                if isinstance(item.unalias(), exp.Column) and item.unalias().name.lower() in times
            ),
            None,
        )
        return None if time is None else Relation("", column_names(select.selects), time)

    def _relation(self, table: exp.Table) -> Relation | None:
        if isinstance(table.this, exp.Func):
            return None  # Spark knows what rows a function gives
        version = as_of(table, partial(place_in, self.fragment))
        if not table.db and (table.name.startswith("%%") or table.name.lower() in self._common):
            return self._without_version(table, version)
        try:
            return self.scope.resolve(table.db or None, table.name, version)
        except LakestreamError as error:
            raise error.at(place_in(self.fragment, table)) from None

    def _without_version(self, table: exp.Table, version: AsOf | None) -> Relation | None:
        """Return what a placeholder or a WITH stands for, which has no versions."""
        if version is not None:
            raise NotSupportedError(
                f"a version of {table.name}",
                hint="tables of the lake have versions",
                place=place_in(self.fragment, table),
            )
        return self.scope.source if table.name.startswith("%%") else None

    def _function(self, node: exp.Expr, order: RowOrder | None) -> None:
        if not isinstance(node, exp.Func) or (isinstance(node, _OF_ROWS) and _is_windowed(node)):
            return  # OVER says what the order of the rows is
        try:
            replaced = translate(node, order, spark=self.fragment.spark)
        except LakestreamError as error:
            raise error.at(place_in(self.fragment, node)) from None
        if replaced is not node:
            self.orders_rows = True
            written = node.parent if isinstance(node.parent, _OF_NULLS) else node
            if isinstance(written.parent, exp.Select) and written.arg_key == "expressions":
                replaced = exp.alias_(replaced, written.sql("spark").lower(), quoted=True)
            _put(written, replaced)

    def _pseudo_column(self, node: exp.Expr, relation: Relation | None) -> None:
        if not isinstance(node, exp.Column) or relation is None:
            return
        if relation.order is not None and node.name == relation.order:
            self.orders_rows = True
        if node.name in relation.computed:
            self._computed.add(node.name)
        if node.name.lower() in TIME_PSEUDO_COLUMNS:
            node.set("this", exp.to_identifier(relation.time_column, quoted=True))

    def _bounds(self, select: exp.Select) -> None:
        """Remember on each table which range of its time WHERE and ON leave, for the scan."""
        where = select.args.get("where")
        source = select.args.get("from_")
        joins = select.args.get("joins") or []
        for part in [source, *joins]:
            table = part.this if part is not None else None
            if not isinstance(table, exp.Table) or (relation := self._relation(table)) is None:
                continue
            conditions = [where.this] if where is not None else []
            if (
                isinstance(part, exp.Join)
                and part.side not in _PRESERVING
                and part.args.get("on") is not None
            ):
                conditions.append(part.args["on"])
            names = {table.alias_or_name.lower()} if joins else {"", table.alias_or_name.lower()}
            time = _TimeColumn(relation.time_column.lower(), frozenset(names))
            table.meta["bounds"] = time_bounds(conditions, time, self.scope.placeholders)

    def _clauses(self, select: exp.Select, relation: Relation | None) -> None:
        """Rewrite TDengine's own clauses: slices, a window, FILL, and limits of slices."""
        top = self.orders_windows and select.parent is None
        rewrite_clauses(self.fragment, select, self._timeline(select, relation), ordered=top)

    def _timeline(self, select: exp.Select, relation: Relation | None) -> Timeline:
        """Return what the clauses of a select need to know of its rows."""
        window, limit = select.args.get(INNER_WINDOW), select.args.get(SLICE_LIMIT)
        if relation is None and (window is not None or limit is not None):
            what = window.args["kind"] if window is not None else "SLIMIT"
            raise StatementError(
                "NO_ROW_ORDER",
                f"{what} in a query needs a single table with a time column",
                place=place_in(self.fragment, window or limit or select),
            )
        source = select.args["from_"].this if select.args.get("from_") else None
        return Timeline(
            source.alias_or_name.lstrip("%") if source is not None else "",
            relation.time_column if relation else "",
            relation.ties if relation else (),
            self.scope.placeholders | {"now"},
            self.scope.zone,
            self._span(source, relation),
        )

    def _span(self, source: exp.Expr | None, relation: Relation | None) -> tuple[exp.Expr, ...]:
        """Return the range of time that the rows of a trigger are of, as conditions on their time."""
        if not isinstance(source, exp.Table) or source.name.lower() != "%%trows" or relation is None:
            return ()
        time = exp.column(relation.time_column, quoted=True)
        has = self.scope.placeholders.__contains__
        if has("_twstart"):
            return (
                exp.GTE(this=time, expression=exp.column("_twstart")),
                exp.LT(this=time.copy(), expression=exp.column("_twend")),
            )
        if has("_tcurrent_ts"):
            return (
                exp.GT(this=time, expression=exp.column("_tprev_ts")),
                exp.LTE(this=time.copy(), expression=exp.column("_tcurrent_ts")),
            )
        return ()

    # --- tables ---

    def _table(self, table: exp.Table) -> None:
        relation = self._relation(table)
        if relation is None:
            return
        is_rows = table.name.lower() == "%%trows"
        body = self._window_rows(relation) if is_rows else self._read(table, relation)
        alias = table.alias or table.name.lstrip("%")
        if table.name.lower() == "%%tbname" and relation.is_super:
            body = self._restrict_to_group(table, alias, body)
        subquery = exp.Subquery(this=spark_sql(body), alias=_alias(table, alias))
        subquery.meta[READ] = "" if is_rows else self.reads[-1]
        subquery.meta[COLUMNS] = relation.columns
        if table.name.lower() == "%%tbname" and relation.is_super:
            subquery.meta[OF_GROUP] = f"_ls_g{self.scope.tbname_group}"
        for name in ("joins", "laterals", "pivots", "sample"):
            subquery.set(name, table.args.get(name))
        table.replace(subquery)

    def _window_rows(self, relation: Relation) -> str:
        self.reads_rows = True
        # Only where it is asked for: a star means the table's own columns.
        ordered = [relation.order] if relation.order and self.orders_rows else []
        computed = [name for name in relation.computed if name in self._computed]
        columns = ", ".join(map(quoted, (*relation.columns, *ordered, *computed)))
        own = f"ls_trows._ls_gid = {ALIAS}._ls_gid AND ls_trows._ls_k = {ALIAS}._ls_k"
        return f"SELECT {columns} FROM ls_trows WHERE {own}"

    def _read(self, table: exp.Table, relation: Relation) -> str:
        lower, upper = table.meta.get("bounds", (None, None))
        read = Read(f"{self.views}{len(self.reads)}", relation, lower, upper)
        self.reads.append(read)
        columns = ", ".join(map(quoted, relation.columns))
        body = f"SELECT {columns} FROM {read.view}"
        if table.name.lower() != "%%tbname" and relation.only is not None:
            body += f" WHERE tbname = {exp.Literal.string(relation.only).sql('spark')}"
        return body

    def _restrict_to_group(self, table: exp.Table, alias: str, body: str) -> str:
        """Keep the rows of the group's own table: by a condition of the select, else at the source."""
        group, select, part = f"_ls_g{self.scope.tbname_group}", table.parent_select, table.parent
        own = exp.EQ(this=exp.column("tbname", alias, quoted=True), expression=exp.column(group, ALIAS))
        joins = select.args.get("joins") or [] if select is not None else []
        if isinstance(part, exp.From) and not any(join.side in _PRESERVING for join in joins):
            cast("exp.Select", select).where(own, copy=False)
            return body
        if isinstance(part, exp.Join) and part.args.get("on") is not None and part.side not in _PRESERVING:
            part.on(own, copy=False)
            return body
        return f"{body} WHERE tbname = {ALIAS}.{group}"

    # --- names ---

    def _placeholder(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table:
            return node
        name = node.name.lower()
        if name.startswith("%%"):
            number = self.scope.tbname_group if name == "%%tbname" else int(name[2:])
            return exp.column(f"_ls_g{number}", table=ALIAS)
        if name in self.scope.placeholders:
            self.used.add(name)
            return exp.column(name, table=ALIAS)
        return node


_OF_ROWS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)
"""Functions of Spark that give the value of one row of several."""

_OF_NULLS = (exp.IgnoreNulls, exp.RespectNulls)


def _is_windowed(node: exp.Expr) -> bool:
    """Return whether a function is one over a window of rows, OVER (…)."""
    above = node.parent
    while isinstance(above, (exp.Filter, *_OF_NULLS)):
        above = above.parent
    return isinstance(above, exp.Window)


def _put(node: exp.Expr, replaced: exp.Expr) -> None:
    """Put an aggregate in the place of another one; of two FILTERs both count."""
    around = node.parent
    if isinstance(replaced, exp.Filter) and isinstance(around, exp.Filter) and node.arg_key == "this":
        both = exp.and_(around.expression.this.copy(), replaced.expression.this.copy())
        around.expression.set("this", both)
        replaced = replaced.this
    put_in_place(node, replaced)


def _of_columns(item: exp.Expr, relation: Relation) -> list[exp.Expr]:
    """Return ``last(*)`` and its like as one function a column: those that are no tags (TDengine)."""
    columns = [name for name in relation.columns if name != "tbname" and name not in relation.tags]
    return [call(starred(item) or "", exp.column(name, quoted=True)) for name in columns]


def _alias(table: exp.Table, name: str) -> exp.TableAlias:
    """Return the alias of a table, with the names that it gives the columns."""
    columns = table.args["alias"].args.get("columns") if table.args.get("alias") else None
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=columns)


def spark_sql(text: str) -> exp.Var:
    """Return Spark SQL made by lakestream itself as a node that is carried through a tree as it is."""
    return exp.Var(this=text)


_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3_600 * 10**6,
}
"""Units of INTERVAL that are of one length (µs): a day is one of the calendar."""
_WHOLE = re.compile(r"-?[0-9]{1,12}")
_UNORDERED = re.compile(r"\bmap<|\bvariant\b")
"""What a type holds that Spark cannot order values by."""
_MAKES_UNORDERED = re.compile(r"map|variant|parse_json|from_(json|xml|avro|protobuf)", re.IGNORECASE)
"""Functions that may give what Spark cannot order."""


def _makes_unordered(node: exp.Expr) -> bool:
    if isinstance(node, exp.DataType):
        return node.is_type(exp.DType.MAP, exp.DType.VARIANT)
    name = (
        node.name
        if isinstance(node, exp.Anonymous)
        else node.sql_name()
        if isinstance(node, exp.Func)
        else ""
    )
    return _MAKES_UNORDERED.search(name) is not None


def _row_order(relation: Relation) -> RowOrder:
    ties = () if relation.order is not None else relation.ties
    return RowOrder(
        exp.column(relation.order or relation.time_column, quoted=True),
        tuple(exp.column(name, quoted=True) for name in ties),
        frozenset(name for name, kind in relation.types.items() if _UNORDERED.search(kind)),
    )


def _query_order(select: exp.Select) -> RowOrder | None:
    """Return the order of the rows of another query: its first column is their time (TDengine)."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins"):
        return None
    inner = source.this.this if isinstance(source.this, exp.Subquery) else None
    if isinstance(source.this, exp.Table):
        named = [
            cte for cte in select.root().find_all(exp.CTE) if cte.alias.lower() == source.this.name.lower()
        ]
        inner = named[0].this if named else None
    if not isinstance(inner, exp.Query) or not inner.selects:
        return None
    first = inner.selects[0].alias_or_name
    return RowOrder(exp.column(first, quoted=True), ()) if first and first != "*" else None


def _star_unknown(fragment: Fragment, item: exp.Expr, message: str) -> StatementError:
    place = place_in(fragment, item)
    return StatementError("COLUMN_NAME_MISSING", message, hint="name the columns", place=place)


def _only_source(select: exp.Select) -> exp.Expr | None:
    """Return what a select reads, None where that is not one table or query."""
    source = select.args.get("from_")
    return None if source is None or select.args.get("joins") else source.this


def _times_in(
    select: exp.Select, rows_of: Callable[[exp.Expr], Relation | None], placeholders: frozenset[str]
) -> _Times:
    """Return the columns that are instants, of all that a select reads."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or [])]
    sources = [part.this for part in parts if part is not None]
    read = {source.alias_or_name.lower(): rows_of(source) for source in sources}
    columns = {name: relation.instants for name, relation in read.items() if relation is not None}
    bounds = _WINDOW_BOUNDS if select.args.get(INNER_WINDOW) else frozenset()
    return _Times(columns, TIME_PSEUDO_COLUMNS | (TIME_PLACEHOLDERS & placeholders) | bounds)


_WINDOW_BOUNDS = frozenset({"_wstart", "_wend"})
_OF_THE_CLOCK = frozenset({"_tlocaltime", *CLOCK_PLACEHOLDERS})


@dataclass(frozen=True)
class _Times:
    """The columns of a select that are instants: those of each table by its alias, and names of no table."""

    columns: Mapping[str, frozenset[str]]
    free: frozenset[str]

    def __contains__(self, column: exp.Column) -> bool:
        name, table = column.name.lower(), column.table.lower()
        if table:
            return name in self.columns.get(table, ())
        return name in self.free or any(name in names for names in self.columns.values())


@dataclass(frozen=True)
class _TimeColumn:
    """The time column of a table in a select: its name, and the qualifiers that mean this table."""

    name: str
    qualifiers: frozenset[str]

    def matches(self, node: exp.Expr) -> bool:
        if not isinstance(node, exp.Column) or node.table.lower() not in self.qualifiers:
            return False
        return node.name.lower() in {self.name, *TIME_PSEUDO_COLUMNS}


def time_bounds(
    conditions: list[exp.Expr], time: _TimeColumn, placeholders: frozenset[str]
) -> tuple[Bound | None, Bound | None]:
    """Return the bounds that the AND-ed parts of conditions put on a time column by placeholders."""
    lower: Bound | None = None
    upper: Bound | None = None
    for part in (part for condition in conditions for part in conjuncts(condition)):
        found = _comparison(part, time, placeholders)
        if found is None:
            continue
        is_lower, bound = found
        lower, upper = (bound, upper) if is_lower else (lower, bound)
    return lower, upper


def _comparison(part: exp.Expr, time: _TimeColumn, placeholders: frozenset[str]) -> tuple[bool, Bound] | None:
    if not isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return None
    left, right = part.left, part.right
    greater = isinstance(part, (exp.GT, exp.GTE))
    if not time.matches(left):
        left, right, greater = right, left, not greater
    if not time.matches(left):
        return None
    bound = _bound(right, placeholders)
    return (greater, bound) if bound else None


def _bound(node: exp.Expr, placeholders: frozenset[str]) -> Bound | None:
    """Return placeholder ± duration as a bound, None for anything else."""
    node = node.unnest()
    if isinstance(node, exp.Column) and node.name.lower() in placeholders:
        return Bound(node.name.lower())
    if isinstance(node, (exp.Add, exp.Sub)):
        base, micros = _bound(node.left, placeholders), _fixed_micros(node.right.unnest())
        if base is not None and micros is not None:
            return Bound(base.placeholder, base.offset + (micros if isinstance(node, exp.Add) else -micros))
    return None


def _fixed_micros(node: exp.Expr) -> int | None:
    """Return the length of a duration or of an INTERVAL of one unit; None for what has no fixed one."""
    if isinstance(node, exp.Interval):
        number, unit = node.this, node.args.get("unit")
        micros = _UNITS.get(unit.name.lower().removesuffix("s")) if isinstance(unit, exp.Var) else None
        is_whole = isinstance(number, exp.Literal) and _WHOLE.fullmatch(number.name)
        return int(number.name) * micros if micros is not None and is_whole else None
    if not isinstance(node, exp.Anonymous) or node.name != DURATION_FUNCTION:
        return None
    try:
        return duration_micros(node)
    except StatementError:
        return None
