"""How a changed row of a table that a select joins leads to keys: by the rows that it is joined with, or was.

So does one of a table that a query within the select reads: to what tells the rows of that query apart, and
by the conditions on that to rows that are joined with them, or that ask for them in a subquery.

What is not understood is left out of the conditions: then more keys are touched, never fewer.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from lakestream.compute.windows.calculation import COLUMNS, READ
from lakestream.compute.windows.reach import join_kind, uncast, with_columns
from lakestream.compute.windows.stars import name_queries
from lakestream.language.expressions.parsing import conjuncts
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lakestream.compute.windows.calculation import Read

OF_A_VIEW = "a view of the inner query, and this one over that view"
"""What to write instead of a query that is put together of others."""

COMPARED = re.compile(r"(?:tiny|small|big)?int\b|boolean|date|timestamp|string|varchar|char|decimal")
"""What begins the types whose equal values are written the same: not those of 0.0 and -0.0."""

_FLAG, _WITHIN, _IS_NULL = "ls_there_", "ls_within_", "is_null"
_SAID_OF_JOINS = ("kind", "side", "method", "on", "using")
_NO_VALUES = ("map<", "variant")
"""What a type holds of which no values can be held against each other."""


class NotKeyedError(Exception):
    """A query whose rows do not fall apart by keys; its text says why, and what to write ``instead``."""

    def __init__(self, why: str, instead: str = "") -> None:
        super().__init__(f"{why} (instead: {instead})" if instead else why)


@dataclass(frozen=True)
class Key:
    """An expression of rows: as it stands in its select, and with its columns under their tables' names."""

    written: exp.Expr
    resolved: exp.Expr

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables whose columns it is made of."""
        return _tables_of(self.resolved)


@dataclass(frozen=True)
class Within:
    """How changed rows of a read within a query lead to values of its columns, which are the lead's keys."""

    columns: tuple[str, ...]
    lead: Lead

    def over(self, changed: str, beside: Callable[[Read], str], moved: Collection[str], name: str) -> str:
        """Return SQL of the values that changes may touch, under a name; see :meth:`Lead.sql`."""
        pairs = zip(names_of(self.lead.keys), self.columns, strict=True)
        listed = ", ".join(f"{key} AS {quoted(column)}" for key, column in pairs)
        return f"(SELECT {listed} FROM ({self.lead.sql(changed, beside, moved)})) AS {quoted(name)}"


class Inner(Protocol):
    """A query within a select: its ``names``, and the ``columns`` of these that tell its rows apart.

    ``types`` has those of columns that are columns of tables.
    """

    @property
    def names(self) -> frozenset[str]:
        """The names of all its results."""

    @property
    def columns(self) -> frozenset[str]:
        """The names of those that tell its rows apart."""

    @property
    def types(self) -> Mapping[str, str]:
        """The types of columns of these, where they are known."""

    def within(self, columns: Sequence[str]) -> list[Within]:
        """Return how changes of each table that it reads lead to columns; none of a table that does not."""


@dataclass(eq=False)
class Source:
    """What stands in FROM or a JOIN under a name: rows of a read, or of a query within the select.

    ``names`` are those of all its columns, None where they are not known, ``columns`` those of which
    something follows. ``is_optional``: rows may be without one of it; ``is_filter``: it only decides on rows
    (SEMI, ANTI, a subquery). ``is_understood``: all that is said of the rows that it joins is known;
    ``full`` is the source that a FULL JOIN joins it with: either may be without the other. What it
    ``completes`` is another source, whose leads alone do not find all.
    """

    name: str
    read: Read | None
    columns: frozenset[str]
    on: list[exp.Expr]
    is_optional: bool = False
    is_filter: bool = False
    is_understood: bool = True
    full: Source | None = None
    inner: Inner | None = None
    completes: str = ""

    @property
    def is_beside(self) -> bool:
        """Whether rows of the select are there without one of it, or only decided on by it."""
        return self.is_optional or self.is_filter

    @property
    def decided_by(self) -> frozenset[str]:
        """The sources of which a row may be missing where what is said of joining it does not hold."""
        joined = (self,) if self.full is None else (self.full, self)
        return frozenset(one.name for one in joined if one.is_beside)

    def doubt(self) -> None:
        """Note that not all is known of the rows that it joins."""
        self.is_understood = False
        if self.full is not None:
            self.full.is_understood = False

    @property
    def names(self) -> frozenset[str] | None:
        """The names of all its columns; None: not known."""
        if self.inner is not None:
            return self.inner.names
        return None if self.read is None else self.columns

    @property
    def types(self) -> Mapping[str, str]:
        """The types of its columns, where they are known."""
        if self.inner is not None:
            return self.inner.types
        return {} if self.read is None else self.read.relation.types

    def type_of(self, column: exp.Column) -> str:
        """Return the type of a column of its; "" where it is not known."""
        return self.types.get(column.name.lower(), "")

    def over(self, view: str) -> str:
        """Return SQL of its rows as a view has them, under its name."""
        assert self.read is not None  # others are on no way
        relation = self.read.relation
        only = "" if relation.only is None else f" WHERE tbname = {quoted_text(relation.only)}"
        listed = ", ".join(map(quoted, relation.columns))
        return f"(SELECT {listed} FROM {view}{only}) AS {quoted(self.name)}"


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition that rows meet: always, or where there is a row of each table that it is ``of``.

    ``needs`` are the tables that it is about, ``columns`` their columns; of ``links`` there is a row wherever
    it holds; ``equal`` are the columns of which it says that they are equal.
    """

    sql: str
    needs: frozenset[str]
    links: frozenset[str]
    of: frozenset[str] = frozenset()
    equal: frozenset[exp.Column] = frozenset()
    columns: frozenset[exp.Column] = frozenset()


@dataclass(frozen=True)
class Joined:
    """A table on a way; not ``is_sure``: rows may be without one of it."""

    source: Source
    conditions: tuple[Condition, ...]
    is_sure: bool


@dataclass(frozen=True)
class Lead:
    """How changed rows of a source lead to ``keys``: by tables that are joined to them, in order.

    ``within``: the source is a query, in which a read has changed. ``is_more``: another one of the same read
    is beside it.
    """

    source: Source
    keys: tuple[exp.Expr, ...]
    where: tuple[Condition, ...] = ()
    joined: tuple[Joined, ...] = ()
    within: Within | None = None
    is_more: bool = False

    @property
    def read(self) -> Read:
        """The read whose rows have changed."""
        if self.within is not None:
            return self.within.lead.read
        assert self.source.read is not None  # by leads
        return self.source.read

    def sql(self, changed: str, beside: Callable[[Read], str], moved: Collection[str]) -> str:
        """Return SQL of the keys that changed rows touch, under :func:`names_of`.

        ``changed`` names the view of rows that came or went, ``beside`` gives that of a table's rows as they
        are and as they were; ``moved`` are the keys of the tables that have changed.
        """
        named = {name for key in self.keys for name in _tables_of(key)}
        varied = [name for name in self._varied(moved) if name in named]
        if self.within is None:
            begin = self.source.over(changed)
        else:
            begin = self.within.over(changed, beside, moved, self.source.name)
        sql = f"FROM {begin}"
        for one in self.joined:
            assert one.source.read is not None  # others are on no way
            kind = "JOIN" if one.is_sure else "LEFT JOIN"
            sql += f" {kind} {one.source.over(beside(one.source.read))} ON {_and(one.conditions)}"
        for name in varied:
            there = quoted(f"{_FLAG}{name}")
            sql += f" CROSS JOIN (SELECT true AS t UNION ALL SELECT false AS t) AS {there}"
        values = zip(self.keys, names_of(self.keys), strict=True)
        listed = ", ".join(f"{_flagged(key, varied)} AS {name}" for key, name in values)
        return f"SELECT DISTINCT {listed} {sql} WHERE {_and(self.where)}"

    def _varied(self, moved: Collection[str]) -> list[str]:
        """Return the sources of which a row may have had another one, or none, than it is joined with now."""
        found = [self.source.name] if self.source.is_optional else []
        for one in self.joined:
            read, above = one.source.read, frozenset(name for c in one.conditions for name in c.needs)
            assert read is not None  # others are on no way
            moves = read.relation.key in moved or not one.source.is_understood or above & {*found}
            if not one.is_sure and moves:
                found.append(one.source.name)
        return found


def names_of(keys: Sequence[object]) -> list[str]:
    """Return the names of the columns with the values of keys."""
    return [f"_ls_k{number}" for number, _ in enumerate(keys, 1)]


def _and(conditions: Sequence[Condition]) -> str:
    return " AND ".join(f"({one.sql})" for one in conditions) or "true"


def _flagged(key: exp.Expr, varied: Sequence[str]) -> str:
    """Return SQL of a key with and without the rows of some sources, as their flags say."""

    def put(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or part.table not in varied:
            return part
        return exp.Var(this=f"CASE WHEN {quoted(f'{_FLAG}{part.table}')}.t THEN {part.sql('spark')} END")

    return str(key.copy().transform(put).sql("spark"))


class Equalities:
    """Which columns of sources are equal, where equal values are written the same."""

    def __init__(self, sources: Mapping[str, Source], conditions: Sequence[Condition]) -> None:
        self._sources = sources
        self._known = [one for one in conditions if one.equal and is_one_type(map(self._type, one.equal))]

    def implied(self) -> list[Condition]:
        """Note and return what follows of two columns that equal one of a query, over which no way leads."""
        given, known = len(self._known), {(one.equal, one.of) for one in self._known}
        for one in self._known:  # it grows meanwhile
            for other in [*self._known]:
                found = self._following(one, other)
                if found is not None and (found.equal, found.of) not in known:
                    known.add((found.equal, found.of))
                    self._known.append(found)
        return self._known[given:]

    def _following(self, one: Condition, other: Condition) -> Condition | None:
        """Return what follows of two equalities with a column of a query in common; None for nothing."""
        shared, ends = one.equal & other.equal, one.equal ^ other.equal
        tables = frozenset(column.table for column in ends)
        over_query = any(self._sources[column.table].read is None for column in shared)
        is_either = one.of and other.of and one.of != other.of
        if len(shared) != 1 or len(tables) != 2 or not over_query or is_either:
            return None
        left, right = sorted(ends, key=str)
        sql = exp.EQ(this=left, expression=right).sql("spark")
        return Condition(sql, tables, tables, one.of or other.of, ends, ends)

    def tying(self, source: Source) -> list[exp.Column]:
        """Return the columns of a query by which rows of most of the others are joined to it."""
        found = Counter(column for one in self._known for column in one.equal if column.table == source.name)
        most = max(found.values(), default=0)
        return sorted((column for column, count in found.items() if count == most), key=str)

    def either(self) -> list[exp.Expr]:
        """Return what a FULL JOIN goes by: of two equal columns the one that is there; none: it has no such.

        No row of either table is found by rows with another value there.
        """
        found = next((one for one in self._known if len(one.of) > 1), None)
        if found is None:
            return []
        # In the order of the tables, as it would be written.
        first, *others = (c for name in self._sources for c in found.equal if c.table == name)
        return [exp.Coalesce(this=first.copy(), expressions=[one.copy() for one in others])]

    def instead(self, key: exp.Expr, source: Source, reached: Collection[str]) -> exp.Expr:
        """Return a key over rows that are reached: with their columns in place of equal ones of queries.

        One of the source itself is the first choice.
        """
        equal: dict[exp.Expr, exp.Column] = {}
        for one in (one for one in self._known if one.of <= {source.name}):
            for column in one.equal:
                owner, (other,) = self._sources[column.table], one.equal - {column}
                if owner.read is None and not owner.is_beside and other.table in reached:
                    equal[column] = other if other.table == source.name else equal.get(column, other)

        def put(node: exp.Expr) -> exp.Expr:
            is_far = isinstance(node, exp.Column) and node.table not in reached and node in equal
            return equal[node].copy() if is_far else node

        return key.copy().transform(put)

    def _type(self, column: exp.Column) -> str:
        return self._sources[column.table].type_of(column)


class Core:
    """A select over rows of tables, and of queries as far as ``inner_of`` sees through these."""

    def __init__(
        self, select: exp.Select, inner_of: Callable[[exp.Query], Inner | None] = lambda _: None
    ) -> None:
        self.select = select
        self._inner_of = inner_of
        self.sources: list[Source] = []
        self.conditions: list[Condition] = []
        name_queries(select)
        parts = [part for part in (select.args.get("from_"), *(select.args.get("joins") or [])) if part]
        for part in parts:
            self._take(part)
        for number, asked in enumerate(_asked(select)):
            self.sources += self._deciding(asked, f"{_WITHIN}{number}")
        self._by_name = {source.name: source for source in self.sources}
        if len(self._by_name) < len(self.sources):
            raise NotKeyedError("two tables of one name", "an alias for each")
        self._tell()

    def _take(self, part: exp.Expr) -> None:
        join, node = "FROM" if isinstance(part, exp.From) else join_kind(part), part.this
        if isinstance(part, exp.Join) and not any(part.args.get(name) for name in _SAID_OF_JOINS):
            part.set("kind", "CROSS")  # a comma would bind less than the join behind it
        full = self.sources[0] if len(self.sources) == 1 and _is_full(part) else None
        is_other = join == "" and full is None
        if is_other or any(node.args.get(name) for name in ("pivots", "sample", "joins")):
            raise NotKeyedError(*refused_source(node, part))
        read = node.meta.get(READ) or None
        renamed = node.args["alias"].args.get("columns") if node.args.get("alias") else None
        if read is not None and (read.relation.version is not None or renamed):
            read = None
        columns = frozenset() if read is None else frozenset(name.lower() for name in node.meta[COLUMNS])
        inner = None
        if isinstance(node, exp.Subquery) and READ not in node.meta and not renamed:
            inner = self._inner_of(node.this)
            columns = columns if inner is None else inner.columns
        on = conjuncts(part.args["on"]) if part.args.get("on") is not None else []
        name = node.alias_or_name.lower()
        for column in part.args.get("using") or ():
            theirs = next((one for one in self.sources if column.name.lower() in one.columns), None)
            if theirs is not None:
                sides = (exp.column(column.name, table=one, quoted=True) for one in (theirs.name, name))
                on.append(exp.EQ(this=next(sides), expression=next(sides)))
        if full is not None:
            full.is_optional = True
        optional, filters = join == "LEFT" or full is not None, join in ("SEMI", "ANTI")
        self.sources.append(Source(name, read, columns, on, optional, filters, full=full, inner=inner))

    def _deciding(self, node: exp.Expr, name: str) -> list[Source]:
        """Return a subquery of WHERE or of a result as what decides on rows, or their values.

        Nothing where neither what is in it, nor what IN compares with it, ties it to a row.
        """
        query = (node.args["query"] if isinstance(node, exp.In) else node).unnest()
        if not isinstance(query, exp.Query):
            return []  # VALUES, which are of no table
        tied = self._tied(query, name) if isinstance(query, exp.Select) else None
        if tied is not None:
            return [tied]
        inner = self._inner_of(query) if isinstance(node, exp.In) else None
        first = query.selects[0].alias_or_name.lower()
        if inner is None or first not in inner.columns or isinstance(node.this, exp.Tuple):
            return []
        positive = any(part is node for part in _of_where(self.select))
        return _compared(node.this, inner, first, name, tells_null=not positive)

    def _tied(self, query: exp.Select, name: str) -> Source | None:
        try:
            core = Core(query, self._inner_of)
        except NotKeyedError:
            return None
        tied = Tied(core, {})
        on = [found for node in core.said() if (found := tied.condition(node, name)) is not None]
        return Source(name, None, tied.columns, on, is_filter=True, inner=tied) if on else None

    def said(self) -> list[exp.Expr]:
        """Return the conditions that all rows of the select meet."""
        return [
            *_of_where(self.select),
            *(node for one in self.sources if not one.decided_by for node in one.on),
        ]

    def _tell(self) -> None:
        """Note what is known of the rows of the select, and of those that its tables join."""
        always = [(node, "") for node in _of_where(self.select)]
        said = [(node, one.name) for one in self.sources for node in one.on]
        found = []
        for node, name in [*always, *said]:
            source = self._by_name.get(name)
            told = self._condition(node, source.decided_by if source is not None else frozenset())
            if told is not None:
                found.append(told)
            elif source is not None:
                source.doubt()
        self.conditions = self._without_doubtful(self._with_sure(found))
        self._equalities = Equalities(self._by_name, self.conditions)
        self.conditions += self._equalities.implied()

    def _with_sure(self, conditions: list[Condition]) -> list[Condition]:
        """Have no table be optional of which a condition that always holds needs a row."""
        while True:
            sure = {name for one in conditions if not one.of for name in one.links}
            found = [source for source in self.sources if source.is_optional and source.name in sure]
            if not found:
                return conditions
            for source in found:
                source.is_optional = False
            names = {source.name for source in found}
            conditions = [replace(one, of=one.of - names) for one in conditions]

    def _without_doubtful(self, conditions: list[Condition]) -> list[Condition]:
        """Leave out what may hold for rows without one of a table that it is about."""
        found = []
        for one in conditions:
            doubtful = {name for name in one.needs - one.of if self._by_name[name].is_optional} - one.links
            if not doubtful and not (not one.of and one.needs & self._optional):
                found.append(one)
                continue
            for name in one.of:
                self._by_name[name].is_understood = False
        return found

    @property
    def _optional(self) -> frozenset[str]:
        return frozenset(source.name for source in self.sources if source.is_optional)

    def _condition(self, node: exp.Expr, of: frozenset[str]) -> Condition | None:
        found = self.key(node, of_queries=True)
        if found is None:
            return None
        node = found.resolved
        sides = (node.left, node.right) if isinstance(node, exp.EQ) else ()
        equal = frozenset(side for side in sides if isinstance(side, exp.Column))
        return Condition(
            node.sql("spark"),
            found.tables,
            _links(node),
            of,
            equal if len(equal) > 1 else frozenset(),
            frozenset(node.find_all(exp.Column)),
        )

    # --- keys ---

    def keys_of_rows(self) -> tuple[list[Key], Read | None]:
        """Return what tells rows apart where nothing groups them, and the read of which each has one row.

        Its time and key, or all its columns that are read; of a query what the others are joined by: what
        stands there once is found again together. Raises NotKeyedError.
        """
        sure = [source for source in self.sources if not source.is_beside]
        found = next((source for source in sure if source.read is not None), None)
        if found is not None:
            return _keys_of(found), found.read
        tying = (tied for one in sure if (tied := self._equalities.tying(one)))
        keys = next(tying, None) or self._equalities.either()
        if not keys:
            why = "no table of which each of its rows has a row"
            raise NotKeyedError(why, f"queries joined by a.x = b.x, a table first in FROM, or {OF_A_VIEW}")
        return [Key(key, key) for key in keys], None

    def key(self, node: exp.Expr, *, of_queries: bool = False) -> Key | None:
        """Return an expression of rows of the select's tables; None where it is more, or not all is seen.

        ``of_queries``: what tells rows of a query in FROM apart is seen too; it is where that stands alone.
        """
        hidden = not of_queries and len(self.sources) > 1
        queries = [one for one in self.sources if one.read is None and not one.name.startswith(_WITHIN)]

        def sourced(column: exp.Column) -> exp.Expr | None:
            source = self.source_of(column)
            # Names of a view's keys stay what they were: a column that may be a query's is none beside one.
            if source is None or (hidden and (source.read is None or (queries and not column.table))):
                return None
            return exp.column(column.name, table=source.name, quoted=True)

        resolved = with_columns(node, sourced)
        return None if resolved is None or not _tables_of(resolved) else Key(node.copy(), resolved)

    def read_of(self, key: Key) -> Read | None:
        """Return the read of which a key is a column; None where it is more than that."""
        return self._by_name[key.resolved.table].read if isinstance(key.resolved, exp.Column) else None

    def type_of(self, key: Key) -> str:
        """Return the type of a key that is a column; "" where it is none, or it is not known."""
        column = key.resolved
        return self._by_name[column.table].type_of(column) if isinstance(column, exp.Column) else ""

    def narrowed(self, key: Key) -> list[tuple[Read, str]]:
        """Return columns of reads of which only rows count that have the key's value there.

        They are equal to it wherever the rows are joined.
        """
        column = key.resolved
        if not isinstance(column, exp.Column) or self._by_name[column.table].is_optional:
            return []
        equal, grows = {column}, True
        while grows:
            known = len(equal)
            for one in self.conditions:
                kinds = {self._by_name[column.table].type_of(column) for column in one.equal}
                if one.equal & equal and len(kinds) == 1:
                    # What is asked of a table that rows may be without says nothing of the others.
                    equal.update(column for column in one.equal if one.of <= {column.table})
            grows = len(equal) > known
        found = ((self._by_name[one.table].read, one.name) for one in sorted(equal, key=str))
        return [(read, _spelled(read, name)) for read, name in found if read is not None]

    def source_of(self, column: exp.Column) -> Source | None:
        """Return the source that a column is of; None where it is another one, or nothing follows from it."""
        if len(column.parts) > 2:
            return None
        name = column.name.lower()
        if column.table:
            source = self._by_name.get(column.table.lower())
            return source if source is not None and name in source.columns else None
        if self.is_unknown(column):
            return None
        found = [one for one in self.sources if name in (one.names or ()) and not one.is_filter]
        one = found[0] if len(found) == 1 or (found and name in _shared(self.select)) else None
        return one if one is not None and name in one.columns else None

    def is_unknown(self, column: exp.Column) -> bool:
        """Return whether a column may be one of rows of which the columns are not known."""
        unknown = any(source.names is None for source in self.sources) or self.select.args.get("laterals")
        return not column.table and bool(unknown)

    def has(self, column: exp.Column) -> bool:
        """Return whether a column is named as one of the sources has it: none around the query is meant."""
        if column.table:
            return column.table.lower() in self._by_name
        return any(column.name.lower() in (one.names or ()) for one in self.sources if not one.is_filter)

    # --- from a changed row to keys ---

    def led(self, keys: Sequence[Key]) -> list[Lead]:
        """Return how changed rows of all sources lead to keys."""
        found = {source.name: self._leads(source, keys) for source in self.sources}
        for source in self.sources:
            if source.completes:
                both = found[source.name] and found[source.completes]
                found[source.completes] = found[source.completes] if both else []
                found[source.name] = [replace(lead, is_more=True) for lead in found[source.name] if both]
        return [lead for leads in found.values() for lead in leads]

    def _leads(self, source: Source, keys: Sequence[Key]) -> list[Lead]:
        """Return how changed rows of a source lead to keys.

        A query leads by each table that it reads. None: no conditions lead there.
        """
        lead = self._lead(source, keys)
        if lead is None or source.read is not None:
            return [lead] if lead is not None else []
        if source.inner is None:
            return []
        told = {one for condition in self.conditions for one in condition.columns if one.table == source.name}
        columns = sorted(
            {one.name.lower() for one in told}
            | {one.name.lower() for key in lead.keys for one in _columns_of(key, source.name)}
        )
        return [
            replace(lead, within=one, is_more=one.lead.is_more)
            for one in (source.inner.within(columns) if columns else [])
        ]

    def _lead(self, source: Source, keys: Sequence[Key]) -> Lead | None:
        ways = self._ways(source)
        reached = {source.name, *ways}
        values = tuple(self._equalities.instead(key.resolved, source, reached) for key in keys)
        named = frozenset(name for value in values for name in _tables_of(value))
        asked = self._beside(named, ways, {source.name})
        if asked is None:
            return None
        on_way, optional = asked
        there = {source.name}
        known = [one for one in self.conditions if one.of <= {source.name, *on_way}]
        where, joined = _met(known, there), []
        for name in (one for one in ways if one in on_way):
            there.add(name)
            joined.append(Joined(self._by_name[name], _met(known, there), is_sure=True))
        for one in (one for one in self.sources if one.name in optional):
            own = tuple(condition for condition in self.conditions if one.name in condition.of)
            joined.append(Joined(one, own, is_sure=False))
        return Lead(source, values, where, tuple(joined))

    def _ways(self, source: Source) -> dict[str, list[str]]:
        """Return the sources of which there is a row with a changed one, nearest first, and over which."""
        ways: dict[str, list[str]] = {source.name: []}
        waiting = [source.name]
        while waiting:
            at = waiting.pop(0)
            for name in self._next(at, {source.name, *ways}):
                ways[name] = [*ways[at], name]
                waiting.append(name)
        return ways

    def _next(self, at: str, known: set[str]) -> Iterator[str]:
        seen = set(known)
        for one in self.conditions:
            ahead = one.needs - {at}
            if at not in one.needs or len(ahead) != 1 or not one.of <= seen:
                continue
            name = next(iter(ahead))
            source = self._by_name[name]
            if (
                name in known
                or source.is_filter
                or source.read is None
                or (source.is_optional and name not in one.links)
            ):
                continue
            known.add(name)
            yield name

    def _beside(
        self, named: frozenset[str], ways: Mapping[str, list[str]], there: set[str]
    ) -> tuple[set[str], set[str]] | None:
        """Return the sources that the ``named`` need: those on ways, and those that rows may be without."""
        on_way: set[str] = set()
        optional: set[str] = set()
        waiting = [*named]
        while waiting:
            name = waiting.pop()
            if name in there or name in on_way or name in optional:
                continue
            if name in ways:
                on_way.update(ways[name])
            elif self._by_name[name].is_optional and self._by_name[name].read is not None:
                needs = [other for one in self.conditions if name in one.of for other in one.needs]
                if not needs:
                    return None
                optional.add(name)
                waiting += needs
            else:
                return None
        reached = there | on_way
        for name in (one.name for one in self.sources if one.name in optional):
            reached.add(name)
            if any(name in one.of and not one.needs <= reached for one in self.conditions):
                return None
        return on_way, optional


@dataclass(frozen=True)
class Tied:
    """A subquery by its columns that conditions tie to rows of the select around it."""

    core: Core
    keys: dict[str, Key]

    @property
    def names(self) -> frozenset[str]:
        """The names that these columns have outside."""
        return frozenset(self.keys)

    @property
    def columns(self) -> frozenset[str]:
        """The same: nothing else is seen of it."""
        return self.names

    @property
    def types(self) -> Mapping[str, str]:
        """Those of the columns that are columns, where they are known."""
        return {name: self.core.type_of(key) for name, key in self.keys.items()}

    def condition(self, node: exp.Expr, name: str) -> exp.Expr | None:
        """Return a condition of the subquery over its columns, under a name, and those around it.

        None: it is about one side alone, or not all is seen.
        """
        own: list[str] = []

        def put(column: exp.Column) -> exp.Expr | None:
            if not self.core.has(column):
                return None if self.core.is_unknown(column) else column
            key = self.core.key(column, of_queries=True)
            if key is None:
                return None
            own.append(f"c{len(self.keys) + 1}")
            self.keys[own[-1]] = key
            return exp.column(own[-1], table=name, quoted=True)

        found = with_columns(node, put)
        around = found is not None and any(one.table != name for one in found.find_all(exp.Column))
        return found if own and around else None

    def within(self, columns: Sequence[str]) -> list[Within]:
        """Return how changes of each table that it reads lead to these columns."""
        keys = [self.keys[column] for column in columns]
        return [Within(tuple(columns), lead) for lead in self.core.led(keys)]


@dataclass(frozen=True)
class _Nulls:
    """The rows of a query by whether a column of theirs is NULL, which is of one or of the other."""

    inner: Inner
    column: str

    @property
    def names(self) -> frozenset[str]:
        """The name of what says so."""
        return frozenset({_IS_NULL})

    @property
    def columns(self) -> frozenset[str]:
        """The same."""
        return self.names

    @property
    def types(self) -> Mapping[str, str]:
        """None: it is no column of a table."""
        return {}

    def within(self, columns: Sequence[str]) -> list[Within]:
        """Return how changes of each table that it reads lead to that."""
        return [
            Within(tuple(columns), replace(one.lead, keys=tuple(map(_is_null, one.lead.keys))))
            for one in self.inner.within([self.column])
        ]


def _is_null(key: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())


def _compared(operand: exp.Expr, inner: Inner, column: str, name: str, *, tells_null: bool) -> list[Source]:
    """Return a query that IN compares an operand with: by equal values, and by NULL where that counts too.

    Apart, so that rows find each other by equal values, and not each of them is held against each.
    """
    values = exp.column(column, table=name, quoted=True)
    same: exp.Expr = exp.EQ(this=operand.copy(), expression=values)
    found = [Source(name, None, inner.columns, [same], is_filter=True, inner=inner)]
    if not tells_null:
        return found
    nulls, other = _Nulls(inner, column), f"{name}_{_IS_NULL}"
    of_row = exp.Is(this=exp.Paren(this=operand.copy()), expression=exp.Null())
    either = exp.Or(this=of_row, expression=exp.column(_IS_NULL, table=other, quoted=True))
    more = Source(other, None, nulls.columns, [either], is_filter=True, inner=nulls, completes=name)
    return [*found, more]


def _asked(select: exp.Select) -> Iterator[exp.Expr]:
    """Give what holds a subquery in WHERE and the results of a select: IN with what it compares."""
    where = select.args.get("where")
    for part in [*select.selects, *([where.this] if where is not None else [])]:
        for node in part.walk(prune=lambda one: isinstance(one, exp.Query)):
            is_compared = isinstance(node, exp.In) and node.args.get("query") is not None
            if is_compared or (isinstance(node, exp.Query) and not isinstance(node.parent, exp.In)):
                yield node


def _keys_of(source: Source) -> list[Key]:
    """Return what tells rows of a table apart: its time and key, or all columns that are read."""
    assert source.read is not None  # by the way here
    relation = source.read.relation
    names = [name for name in (relation.time_column, *relation.ties) if name] or [*relation.columns]
    columns = [
        exp.column(name, table=source.name, quoted=True)
        for name in names
        if not any(word in relation.types.get(name.lower(), "") for word in _NO_VALUES)
    ]
    return [Key(column, column) for column in columns]


def _is_full(join: exp.Expr) -> bool:
    """Return whether a join is a FULL JOIN by a condition: a column of USING is one of either table."""
    said = (str(join.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    return (*said,) in (("FULL", "", ""), ("FULL", "OUTER", "")) and not join.args.get("using")


def refused_source(node: exp.Expr, part: exp.Expr | None = None) -> tuple[str, str]:
    """Return why what stands in FROM, or in a JOIN, leads to no keys, and what to write instead."""
    if node.args.get("pivots"):
        return "PIVOT", "an aggregate with FILTER (WHERE …) for each of its columns, and GROUP BY"
    if node.args.get("sample"):
        return "TABLESAMPLE", "a condition in WHERE, such as one of a hash"
    kind = "" if part is None else str(part.args.get("side") or part.args.get("method") or "").upper()
    return {
        "RIGHT": ("a RIGHT JOIN", "LEFT JOIN with the tables the other way round"),
        "FULL": ("a FULL JOIN", f"a FULL JOIN … ON of two tables, first in FROM, or {OF_A_VIEW}"),
        "NATURAL": ("a NATURAL JOIN", "JOIN … USING (…)"),
    }.get(kind, ("a join within a join", OF_A_VIEW))


def _of_where(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return conjuncts(where.this) if where is not None else []


def _shared(select: exp.Select) -> set[str]:
    """Return the columns of USING, which are those of the first table."""
    joins = select.args.get("joins") or []
    return {column.name.lower() for join in joins for column in join.args.get("using") or ()}


def _spelled(read: Read, name: str) -> str:
    """Return the name of a column as its table spells it."""
    return next(column for column in read.relation.columns if column.lower() == name.lower())


def _met(conditions: list[Condition], there: Collection[str]) -> tuple[Condition, ...]:
    """Take out and return the conditions that are about these tables alone."""
    found = tuple(one for one in conditions if one.needs <= set(there))
    conditions[:] = [one for one in conditions if one not in found]
    return found


def is_one_type(kinds: Iterable[str]) -> bool:
    """Return whether there is one type among some, of which equal values are written the same."""
    found = {re.sub(r"varchar\(\d+\)", "string", kind) for kind in kinds}
    return len(found) == 1 and COMPARED.match(found.pop()) is not None


def _columns_of(node: exp.Expr, table: str) -> list[exp.Column]:
    return [column for column in node.find_all(exp.Column) if column.table == table]


def _tables_of(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.table for column in node.find_all(exp.Column))


def _links(node: exp.Expr) -> frozenset[str]:
    """Return the tables whose rows are there where a comparison holds: it is about a column of theirs."""
    if not isinstance(node, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return frozenset()
    sides = (uncast(node.left), uncast(node.right))
    return frozenset(side.table for side in sides if isinstance(side, exp.Column))
