"""How a change of a table that a calculation reads leads to the windows whose results it may change.

A row counts in a window only where the query lets it: where it meets the conditions of its select, and those
of the queries around it on what it becomes there. So a changed row leads, by equal keys, to rows that lie in
windows (the windows' own, or those of a table that the query bounds by the window), by its own time to
windows, or by the columns of groups to these. What is not understood is left out of the conditions: then more
windows are found than have changed, and never fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, is_aggregate_call
from lakestream.compute.windows.calculation import ALIAS, COLUMNS, OF_GROUP, READ
from lakestream.language.expressions.parsing import conjuncts
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakestream.compute.windows.calculation import Calculation, Read

GROUPS = "ls_s"
"""The alias of the groups in a path's conditions: gid, group columns, first and newest (µs)."""

_ANY = "LEFT", "SEMI", "ANTI"
"""Joins that may leave a row of their right side out without leaving one of their left side out."""


@dataclass(frozen=True)
class Node:
    """Rows on a path, under an alias: of a read, or of the windows themselves (``read`` is None)."""

    alias: str
    read: Read | None

    @property
    def time(self) -> str:
        """SQL of a row's time in microseconds."""
        if self.read is None:
            return f"{self.alias}._ls_ts"
        return f"unix_micros(CAST({self.alias}.{quoted(self.read.relation.time_column)} AS TIMESTAMP))"

    @property
    def low(self) -> str | None:
        """SQL of an instant (µs) that the windows of a row end after; None: of none."""
        if self.read is None:
            return self.time
        upper = self.read.upper
        return (
            None
            if upper is None or upper.placeholder == "_tnext_ts"
            else f"{self.time} - {upper.offset + 2}L"
        )

    @property
    def high(self) -> str | None:
        """SQL of an instant (µs) at or before which the windows of a row begin; None: of none."""
        if self.read is None:
            return self.time
        lower = self.read.lower
        return None if lower is None else f"{self.time} - {lower.offset - 1}L"


@dataclass(frozen=True)
class Condition:
    """A condition as SQL over aliases, those of nodes that it ``needs``, and as it was written."""

    sql: str
    needs: frozenset[str]
    by_group: bool
    said: str


@dataclass(frozen=True)
class Path:
    """How changed rows of a read lead to windows: over ``nodes``, the changed rows first.

    The windows end after ``low`` and begin at or before ``high`` (SQL of µs; None: no bound), and are of the
    groups that the conditions name. Not ``leads``: any window may have changed.
    """

    read: Read
    nodes: tuple[Node, ...]
    conditions: tuple[Condition, ...] = ()
    leads: bool = True

    @property
    def low(self) -> str | None:
        """SQL of the latest instant of those that windows end after."""
        return _most("greatest", [node.low for node in self.nodes])

    @property
    def high(self) -> str | None:
        """SQL of the earliest instant of those that windows begin at or before."""
        return _most("least", [node.high for node in self.nodes])

    @property
    def by_group(self) -> bool:
        """Whether conditions lead to groups."""
        return any(condition.by_group and condition.needs for condition in self.conditions)

    @property
    def said(self) -> str:
        """What EXPLAIN says of it."""
        parts = [f"where {' AND '.join(one.said for one in self.conditions)}"] if self.conditions else []
        parts += ["in the time of the window"] if self.low or self.high else []
        return " ".join(parts)


def _most(function: str, instants: Sequence[str | None]) -> str | None:
    known = [instant for instant in instants if instant is not None]
    return known[0] if len(known) == 1 else f"{function}({', '.join(known)})" if known else None


def paths_of(calculation: Calculation) -> tuple[Path, ...]:
    """Return how each read of a calculation leads to windows: one path or several of each."""
    survey = _Survey()
    survey.query(calculation.query, _Place())
    found = [survey.path(leaf) for leaf in survey.leaves if leaf.read is not None]
    if survey.is_whole(calculation.query):
        return tuple(found)
    return paths_anywhere(calculation)  # something of the query was not understood


def paths_anywhere(calculation: Calculation) -> tuple[Path, ...]:
    """Return a path of each read of a calculation whose changes may count in any window."""
    return tuple(Path(read, (Node("n0", read),), leads=False) for read in calculation.reads)


# --- what stands where ---


@dataclass(eq=False)
class _Leaf:
    """A table of a select: rows of a read or of the windows, with the columns that are known of it."""

    alias: str
    read: Read | None
    columns: frozenset[str]
    of_group: str | None
    place: tuple[_Scope, int]


@dataclass(eq=False)
class _Source:
    """What stands in FROM or a JOIN: a table, or queries whose rows it has (several of a set operation).

    ``join`` is the kind of its join, ``on`` what is AND-ed there, ``using`` the columns of USING.
    """

    name: str
    join: str
    on: list[exp.Expr]
    using: tuple[str, ...] = ()
    leaf: _Leaf | None = None
    selects: list[_Scope] = field(default_factory=list)
    columns: tuple[str, ...] | None = None

    @property
    def is_solid(self) -> bool:
        """Whether no row of the select is without one of its rows."""
        return self.join in ("FROM", "INNER")


@dataclass(frozen=True)
class _Place:
    """Where a select stands: in another one, as its source of a number, or in an expression of it.

    ``operand`` is what IN compares with the select's result. Not ``leads``: nothing that is said around it
    is about its rows one by one.
    """

    outer: _Scope | None = None
    source: int | None = None
    operand: exp.Expr | None = None
    leads: bool = True


@dataclass(eq=False)
class _Scope:
    """A select: its sources in order, and where it stands."""

    select: exp.Select
    place: _Place
    sources: list[_Source] = field(default_factory=list)
    is_opaque: bool = False
    """Whether its joins are of kinds of which nothing follows for single rows."""


class _Survey:
    """All selects of a query, and the tables in them."""

    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self._seen: set[int] = set()
        self._ctes: list[Mapping[str, exp.Expr]] = []
        self._open: list[str] = []
        self._refused = False

    def is_whole(self, query: exp.Query) -> bool:
        """Return whether every select, and every table, of a query has been looked at."""
        selects = all(id(select) in self._seen for select in query.find_all(exp.Select))
        return selects and not self._refused

    # --- reading the tree ---

    def query(self, query: exp.Expr, place: _Place) -> list[_Scope]:
        """Look at a query; return its selects: several of a set operation."""
        while isinstance(query, exp.Subquery) and not query.meta.get(READ):
            place = _within(place, query)
            query = query.this
        named = query.args.get("with_")
        if named is not None:
            self._refused |= bool(named.args.get("recursive"))
            self._ctes.append({cte.alias.lower(): cte for cte in named.expressions})
        try:
            if isinstance(query, exp.SetOperation):
                place = _within(place, query)
                return [*self.query(query.left, place), *self.query(query.right, place)]
            if not isinstance(query, exp.Select):
                self._refused = True
                return []
            return [self._select(query, place)]
        finally:
            if named is not None:
                self._ctes.pop()

    def _select(self, select: exp.Select, place: _Place) -> _Scope:
        self._seen.add(id(select))
        scope = _Scope(select, place)
        parts = [part for part in (select.args.get("from_"), *(select.args.get("joins") or [])) if part]
        for number, part in enumerate(parts):
            scope.sources.append(self._source(scope, number, part))
        scope.is_opaque = any(source.join == "" for source in scope.sources)
        for node in _expressions_within(select):
            self._expression(node, scope)
        return scope

    def _expression(self, node: exp.Query, scope: _Scope) -> None:
        """Look at a query in an expression of a select."""
        parent, operand = node.parent, None
        if isinstance(parent, exp.In) and parent.args.get("query") is node:
            operand = parent.this
        self.query(
            node, _Place(scope, None, operand, leads=node.find_ancestor(exp.Join, exp.Select) is scope.select)
        )

    def _source(self, scope: _Scope, number: int, part: exp.Expr) -> _Source:
        join = "FROM" if isinstance(part, exp.From) else join_kind(part)
        on = conjuncts(part.args["on"]) if part.args.get("on") is not None else []
        using = tuple(name.name.lower() for name in part.args.get("using") or ())
        node = part.this
        source = _Source(node.alias_or_name.lower(), join, on, using)
        if node.args.get("pivots") or node.args.get("sample"):
            source.join = ""
        if READ in node.meta:
            source.leaf = self._leaf(scope, number, node)
            source.columns = (*source.leaf.columns,)
        elif isinstance(node, exp.Subquery):
            place = _Place(scope, number)
            source.selects = self.query(node, place)
            source.columns = _names(source.selects, node)
        elif isinstance(node, exp.Table):
            source.selects = self._common(scope, number, node)
            source.columns = _names(source.selects, node)
        else:
            self._refused = True
        return source

    def _leaf(self, scope: _Scope, number: int, node: exp.Expr) -> _Leaf:
        read, group = node.meta[READ], node.meta.get(OF_GROUP)
        read = None if read == "" else read
        columns = node.meta[COLUMNS]
        renamed = node.args["alias"].args.get("columns") if node.args.get("alias") else None
        known = frozenset() if renamed else frozenset(name.lower() for name in columns)
        leaf = _Leaf(f"n{len(self.leaves)}", read, known, group, (scope, number))
        self.leaves.append(leaf)
        return leaf

    def _common(self, scope: _Scope, number: int, node: exp.Table) -> list[_Scope]:
        """Look at what WITH names, once for each place in which it is named."""
        name = node.name.lower()
        for depth in range(len(self._ctes) - 1, -1, -1):
            if name in self._ctes[depth] and name not in self._open:
                cte = self._ctes[depth][name]
                self._refused |= bool(cte.args["alias"].args.get("columns"))
                below, self._ctes = self._ctes, self._ctes[: depth + 1]
                self._open.append(name)
                found = self.query(cte.this, _Place(scope, number))
                self._open.pop()
                self._ctes = below
                return found
        self._refused = True
        return []

    # --- from a changed row to windows ---

    def path(self, leaf: _Leaf) -> Path:
        """Return the path of a table's rows."""
        around = _Around(leaf)
        nodes = around.chain()
        renamed = {found.alias: f"n{number}" for number, found in enumerate(nodes)}
        conditions = [
            Condition(
                _renamed(one.node, renamed),
                frozenset(renamed[alias] for alias in one.needs),
                any(column.table == GROUPS for column in one.node.find_all(exp.Column)),
                one.said,
            )
            for one in around.conditions
            if one.holds(nodes)
        ]
        assert leaf.read is not None  # by paths_of
        named = tuple(Node(renamed[found.alias], found.read) for found in nodes)
        path = Path(leaf.read, named, tuple(dict.fromkeys(conditions)))
        opaque = leaf.place[0].is_opaque  # there its bounds may say nothing
        leads = path.by_group or bool(path.low or path.high)
        return replace(path, leads=leads and not opaque)


def _within(place: _Place, query: exp.Expr) -> _Place:
    """Return the place of what stands in a query that may cut its rows off."""
    cut = any(query.args.get(name) is not None for name in ("limit", "offset", "fetch"))
    return replace(place, leads=False) if cut else place


def join_kind(join: exp.Expr) -> str:
    """Return the kind of a join; an empty text for those of which nothing follows for single rows."""
    side, kind, method = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if method or side in ("RIGHT", "FULL"):
        return ""
    if kind in ("SEMI", "ANTI"):
        return kind
    if side == "LEFT":
        return "LEFT"
    return "INNER" if kind in ("", "INNER", "CROSS") else ""


def _names(selects: Sequence[_Scope], node: exp.Expr) -> tuple[str, ...] | None:
    """Return the names of a query's columns where they are known."""
    alias = node.args.get("alias")
    if not selects or (alias is not None and alias.args.get("columns")):
        return None
    items = selects[0].select.selects
    if any(item.is_star or not item.alias_or_name for item in items):
        return None
    return tuple(item.alias_or_name.lower() for item in items)


def _expressions_within(select: exp.Select) -> Iterator[exp.Query]:
    """Give the queries that stand in expressions of a select: outermost ones, and not its sources."""
    sources = {
        id(part.this) for part in (select.args.get("from_"), *(select.args.get("joins") or [])) if part
    }
    named = select.args.get("with_")
    skipped = {*sources, *([id(named)] if named is not None else [])}

    def stops(node: exp.Expr) -> bool:
        return node is not select and (isinstance(node, exp.Query) or id(node) in skipped)

    for node in select.walk(prune=stops):
        if node is not select and id(node) not in skipped and isinstance(node, exp.Query):
            yield node


# --- conditions ---


@dataclass(frozen=True, eq=False)
class _Told:
    """A condition over leaves, of which it ``needs`` some, and how it was written.

    It holds where a row of one of the leaves ``of`` a LEFT JOIN is there (empty: always). ``links`` are
    leaves of which it can only hold for a row that is there.
    """

    node: exp.Expr
    needs: frozenset[str]
    said: str
    of: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()

    def holds(self, chain: Sequence[_Leaf]) -> bool:
        """Return whether it says something of these leaves alone."""
        there = {leaf.alias for leaf in chain}
        return self.needs <= there and (not self.of or bool(self.of & there))


class _Around:
    """What is known of every row of the result that a table's row counts in."""

    def __init__(self, leaf: _Leaf) -> None:
        self.leaf = leaf
        self.leaves: dict[str, _Leaf] = {}
        self.conditions: list[_Told] = []
        self._seen_through: dict[int, Mapping[str, exp.Expr]] = {}
        self._take_leaf(leaf)
        self._outward(*leaf.place)

    def chain(self) -> list[_Leaf]:
        """Return the leaves from the row to the nearest rows that lie in windows; else the row alone."""
        if _bounded(self.leaf):
            return [self.leaf]
        ways = {self.leaf.alias: [self.leaf]}
        waiting = [self.leaf.alias]
        while waiting:
            chain = ways[waiting.pop(0)]
            for name in self._next(chain):
                if name in ways:
                    continue
                ways[name] = [*chain, self.leaves[name]]
                if _bounded(self.leaves[name]):
                    return ways[name]
                waiting.append(name)
        return [self.leaf]

    def _next(self, chain: Sequence[_Leaf]) -> list[str]:
        there = {leaf.alias for leaf in chain}
        found = []
        for one in self.conditions:
            ahead = one.needs - there
            told = bool(one.needs & there) and (not one.of or bool(one.of & there))
            if told and len(ahead) == 1 and ahead <= {*one.links}:
                found += [*ahead]
        return [name for name in found if name in self.leaves]

    # --- from the inside out ---

    def _outward(self, scope: _Scope, number: int | None) -> None:
        """Take what a select says of its rows with a row of one of its sources, then what is around it."""
        levels: list[tuple[_Scope, int | None]] = []
        while not scope.is_opaque:
            levels.append((scope, number))
            self._take_beside(scope, number)
            outer, source = scope.place.outer, scope.place.source
            if outer is None or not scope.place.leads:
                break
            if source is not None:
                if _is_optional(scope, number):
                    break
                self._seen_through[id(outer.sources[source])] = self._shown(scope, outer.sources[source])
            scope, number = outer, source
        for level in levels:
            self._tell_all(*level)
        inner, at = self.leaf.place
        if inner.place.operand is not None and not _is_optional(inner, at) and _is_plain(inner.select):
            self._operand(inner, inner.place.operand)

    def _take_beside(self, scope: _Scope, number: int | None) -> None:
        """Take the tables beside a row of a select's source ``number``; None: beside an expression of it."""
        upto = number if _is_optional(scope, number) else None
        for position, source in enumerate(scope.sources[:upto]):
            if position != number:
                self._take(source)

    def _take(self, source: _Source) -> None:
        """Take the tables of a source: each of its rows is made of rows of these.

        Of a set operation nothing tells which of its queries a row is from.
        """
        if source.leaf is not None:
            self._take_leaf(source.leaf)
        elif len(source.selects) == 1 and source.columns is not None and not source.selects[0].is_opaque:
            inner = source.selects[0]
            self._take_beside(inner, None)
            self._seen_through[id(source)] = self._columns(inner, source.columns)
            self._tell_all(inner, None)

    def _take_leaf(self, leaf: _Leaf) -> None:
        self.leaves[leaf.alias] = leaf
        if leaf.of_group is not None:
            own = exp.column("tbname", table=leaf.alias, quoted=True)
            node = exp.EQ(this=own, expression=exp.column(leaf.of_group, table=GROUPS))
            self.conditions.append(_Told(node, frozenset({leaf.alias}), "tbname = %%tbname"))

    def _tell_all(self, scope: _Scope, number: int | None) -> None:
        """Take the conditions that every row of a select with a row of source ``number`` meets.

        Where a row of that source is not there, a row of those before it may be there without it: then these
        alone decide whether it is asked for.
        """
        sources, optional = scope.sources, _is_optional(scope, number)
        for position, source in enumerate(sources):
            if optional and number is not None and position > number:
                break
            if source.join == "ANTI" and position != number:
                continue
            of = self._aliases(source) if source.join == "LEFT" and position != number else frozenset()
            for node in [*source.on, *_of_using(source, sources[:position])]:
                self._tell(scope, node, of=of)
        where = scope.select.args.get("where")
        before = frozenset(a for source in sources[:number] for a in self._aliases(source))
        for node in conjuncts(where.this) if where is not None else []:
            self._tell(scope, node, only=before if optional else None)

    def _aliases(self, source: _Source) -> frozenset[str]:
        if source.leaf is not None:
            return frozenset({source.leaf.alias})
        return frozenset(
            a for scope in source.selects for inner in scope.sources for a in self._aliases(inner)
        )

    def _tell(
        self,
        scope: _Scope,
        node: exp.Expr,
        *,
        of: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
    ) -> None:
        found = self._resolved(node, scope)
        if found is None:
            return
        needs = _leaves_of(found)
        if only is None or needs <= only:
            self.conditions.append(_Told(found, needs, _written(node), of, _links(found)))

    def _operand(self, scope: _Scope, operand: exp.Expr) -> None:
        """Take what IN compares: what is NULL on one of its sides may change its result too."""
        outer, items = scope.place.outer, scope.select.selects
        if outer is None or outer.is_opaque or len(items) != 1:
            return
        result, asked = self._resolved(items[0].unalias(), scope), self._resolved(operand, outer)
        if result is None or asked is None:
            return
        needs = _leaves_of(asked)
        solid = {source.leaf.alias for source in outer.sources if source.leaf is not None and source.is_solid}
        if needs <= solid:
            node = exp.Coalesce(
                this=exp.EQ(this=asked, expression=result), expressions=[exp.Boolean(this=True)]
            )
            said = f"{_written(operand)} = {_written(items[0].unalias())}"
            links = tuple(needs)
            self.conditions.append(_Told(node, needs | _leaves_of(result), said, links=links))

    # --- names ---

    def _resolved(self, node: exp.Expr, scope: _Scope) -> exp.Expr | None:
        """Return an expression over the columns of leaves and groups; None where it is more than that."""
        return with_columns(node, lambda column: self._column(column, scope))

    def _column(self, column: exp.Column, scope: _Scope | None) -> exp.Expr | None:
        qualifier, name = column.table.lower(), column.name.lower()
        if qualifier == ALIAS:
            return exp.column(name, table=GROUPS) if name.startswith("_ls_g") and name[5:].isdigit() else None
        if len(column.parts) > 2:
            return None
        while scope is not None:
            found = [one for one in scope.sources if _has(one, qualifier, name)]
            unknown = not qualifier and any(one.columns is None for one in scope.sources)
            if unknown or len(found) > 1:
                return None
            if found:
                return self._of_source(found[0], name)
            if scope.select.args.get("laterals") or scope.place.source is not None:
                return None
            scope = scope.place.outer
        return None

    def _of_source(self, source: _Source, name: str) -> exp.Expr | None:
        if source.leaf is not None:
            return (
                exp.column(name, table=source.leaf.alias, quoted=True)
                if name in source.leaf.columns
                else None
            )
        shown = self._seen_through.get(id(source), {}).get(name)
        return None if shown is None else shown.copy()

    # --- what a query shows of its rows ---

    def _shown(self, scope: _Scope, source: _Source) -> Mapping[str, exp.Expr]:
        """Return the columns of a query by which a row of it tells the rows that it is made of.

        A row changes no row of the query but those that have its values there.
        """
        cut = any(scope.select.args.get(name) is not None for name in ("limit", "offset"))
        return {} if cut or any(_windows_of(scope.select)) else self._columns(scope, source.columns or ())

    def _columns(self, scope: _Scope, names: Sequence[str]) -> Mapping[str, exp.Expr]:
        select = scope.select
        if len(names) != len(select.selects):
            return {}
        group = select.args.get("group")
        if group is not None and {name for name, value in group.args.items() if value} != {"expressions"}:
            return {}
        if group is None and aggregates([*select.selects, *_having(select)]):
            return {}
        keys = None
        if group is not None:
            keys = [self._resolved(_key(key, select), scope) for key in group.expressions]
        found = {}
        for name, item in zip(names, select.selects, strict=True):
            resolved = self._resolved(item.unalias(), scope)
            if resolved is not None and _leaves_of(resolved) and (keys is None or resolved in keys):
                found[name] = resolved
        return found


def _is_optional(scope: _Scope, number: int | None) -> bool:
    """Return whether rows of a select may be there without one of a source; None: that is none of them."""
    return number is not None and scope.sources[number].join in _ANY


def _bounded(leaf: _Leaf) -> bool:
    """Return whether the windows that a row lies in follow from its time; of a trigger's row they do."""
    scope, _ = leaf.place
    node = Node(leaf.alias, leaf.read)
    return not scope.is_opaque and node.low is not None and node.high is not None


def _has(source: _Source, qualifier: str, name: str) -> bool:
    if qualifier:
        return source.name == qualifier
    return source.columns is not None and name in source.columns


def _of_using(source: _Source, before: Sequence[_Source]) -> list[exp.Expr]:
    """Return what USING says as conditions, where a single table before has the column."""
    found: list[exp.Expr] = []
    for name in source.using:
        theirs = [one for one in before if one.columns is None or name in one.columns]
        if len(theirs) == 1 and theirs[0].columns is not None and theirs[0].name and source.name:
            sides = [exp.column(name, table=one.name, quoted=True) for one in (theirs[0], source)]
            found.append(exp.EQ(this=sides[0], expression=sides[1]))
    return found


def is_of_rows(node: exp.Expr) -> bool:
    """Return whether an expression is about single rows, and all of it is seen."""
    return not any(
        isinstance(part, (exp.Query, exp.Window, exp.Star, exp.Lambda, exp.UDTF))
        or (isinstance(part, exp.Var) and not _is_unit(part))
        or is_aggregate_call(part)
        for part in node.walk()
    )


def with_columns(node: exp.Expr, meant: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr | None:
    """Return an expression of rows with what is meant by its columns in their places.

    None where it is about more than single rows, or nothing is meant by one of them.
    """
    if not is_of_rows(node):
        return None
    missing = False

    def put(part: exp.Expr) -> exp.Expr:
        nonlocal missing
        if not isinstance(part, exp.Column):
            return part
        found = meant(part)
        missing = missing or found is None
        return part if found is None else found

    replaced: exp.Expr = node.copy().transform(put)
    return None if missing else replaced


def _is_unit(node: exp.Var) -> bool:
    """Return whether a word is a unit of time, and not SQL that is carried as it is."""
    return node.arg_key == "unit" or isinstance(node.parent, exp.Extract)


def _is_plain(select: exp.Select) -> bool:
    """Return whether a select gives a row for each that it has, and nothing else decides on them."""
    clauses = ("group", "having", "limit", "offset", "qualify", "laterals")
    return not any(select.args.get(name) for name in clauses) and not aggregates(select.selects)


def _windows_of(select: exp.Select) -> Iterator[exp.Expr]:
    """Give the window functions of a select: by these a row may change the others beside it."""
    yield from (node for node in select.walk() if isinstance(node, exp.Window))


def _having(select: exp.Select) -> list[exp.Expr]:
    having = select.args.get("having")
    return [having.this] if having is not None else []


def _key(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return what a key of GROUP BY stands for: itself, or a result by its number or name."""
    if isinstance(key, exp.Literal) and not key.is_string:
        number = int(key.name) - 1
        return select.selects[number].unalias() if 0 <= number < len(select.selects) else key
    return key


def _written(node: exp.Expr) -> str:
    return str(node.sql("spark")).replace(f"{ALIAS}.", "")


def _leaves_of(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.table for column in node.find_all(exp.Column)) - {GROUPS}


def _links(node: exp.Expr) -> tuple[str, ...]:
    """Return the leaves whose rows are there where an equality holds: it is about a column of theirs."""
    if not isinstance(node, exp.EQ):
        return ()
    sides = (node.left.unnest(), node.right.unnest())
    return tuple(
        side.table for side in map(uncast, sides) if isinstance(side, exp.Column) and side.table != GROUPS
    )


def uncast(node: exp.Expr) -> exp.Expr:
    """Return an expression without the casts and brackets around it."""
    while isinstance(node, (exp.Cast, exp.Paren)):
        node = node.this
    return node


def _renamed(node: exp.Expr, names: Mapping[str, str]) -> str:
    """Return a condition as SQL over other aliases."""

    def put(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.table in names:
            return exp.column(part.name, table=names[part.table], quoted=True)
        return part

    return str(node.transform(put).sql("spark"))
