"""How a changed row of a table that a select joins leads to keys: by the rows that it is joined with, or was.

What is not understood is left out of the conditions: then more keys are touched, never fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import COLUMNS, READ
from lakestream.compute.windows.reach import join_kind, uncast, with_columns
from lakestream.language.expressions.parsing import conjuncts
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lakestream.compute.windows.calculation import Read

OF_A_VIEW = "a view of the inner query, and this one over that view"
"""What to write instead of a query that is put together of others."""

_FLAG = "ls_there_"
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


@dataclass(eq=False)
class Source:
    """What stands in FROM or a JOIN under a name: rows of a read, or others, of which nothing follows.

    ``is_optional``: rows may be without one of it; ``is_filter``: it only decides which rows stay (SEMI,
    ANTI). ``is_understood``: all that is said of the rows that it joins is known.
    """

    name: str
    read: Read | None
    columns: frozenset[str]
    on: list[exp.Expr]
    is_optional: bool = False
    is_filter: bool = False
    is_understood: bool = True

    def over(self, view: str) -> str:
        """Return SQL of its rows as a view has them, under its name."""
        assert self.read is not None  # others are on no way
        relation = self.read.relation
        only = "" if relation.only is None else f" WHERE tbname = {quoted_text(relation.only)}"
        listed = ", ".join(map(quoted, relation.columns))
        return f"(SELECT {listed} FROM {view}{only}) AS {quoted(self.name)}"


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition that rows meet: always, or where there is a row of the table ``of``.

    ``needs`` are the tables that it is about; of ``links`` there is a row wherever it holds; ``equal`` are
    the columns of which it says that they are equal.
    """

    sql: str
    needs: frozenset[str]
    links: frozenset[str]
    of: str = ""
    equal: frozenset[exp.Column] = frozenset()


@dataclass(frozen=True)
class Joined:
    """A table on a way; not ``is_sure``: rows may be without one of it."""

    source: Source
    conditions: tuple[Condition, ...]
    is_sure: bool


@dataclass(frozen=True)
class Lead:
    """How changed rows of a source lead to keys: by tables that are joined to them, in order."""

    source: Source
    where: tuple[Condition, ...] = ()
    joined: tuple[Joined, ...] = ()

    @property
    def read(self) -> Read:
        """The read whose rows have changed."""
        assert self.source.read is not None  # by lead
        return self.source.read

    def sql(
        self, keys: Sequence[Key], changed: str, beside: Callable[[Read], str], moved: Collection[str]
    ) -> str:
        """Return SQL of the keys that changed rows touch, under :func:`names_of`.

        ``changed`` names the view of rows that came or went, ``beside`` gives that of a table's rows as they
        are and as they were; ``moved`` are the keys of the tables that have changed.
        """
        named = {name for key in keys for name in key.tables}
        varied = [name for name in self._varied(moved) if name in named]
        sql = f"FROM {self.source.over(changed)}"
        for one in self.joined:
            assert one.source.read is not None  # others are on no way
            kind = "JOIN" if one.is_sure else "LEFT JOIN"
            sql += f" {kind} {one.source.over(beside(one.source.read))} ON {_and(one.conditions)}"
        for name in varied:
            there = quoted(f"{_FLAG}{name}")
            sql += f" CROSS JOIN (SELECT true AS t UNION ALL SELECT false AS t) AS {there}"
        values = zip(keys, names_of(keys), strict=True)
        listed = ", ".join(f"{_flagged(key.resolved, varied)} AS {name}" for key, name in values)
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


def names_of(keys: Sequence[Key]) -> list[str]:
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


class Core:
    """A select over rows of tables."""

    def __init__(self, select: exp.Select) -> None:
        self.select = select
        self.sources: list[Source] = []
        self.conditions: list[Condition] = []
        parts = [part for part in (select.args.get("from_"), *(select.args.get("joins") or [])) if part]
        for part in parts:
            self._take(part)
        self._by_name = {source.name: source for source in self.sources}
        if len(self._by_name) < len(self.sources):
            raise NotKeyedError("two tables of one name", "an alias for each")
        self._tell()

    def _take(self, part: exp.Expr) -> None:
        join, node = "FROM" if isinstance(part, exp.From) else join_kind(part), part.this
        if isinstance(part, exp.Join) and not any(part.args.get(name) for name in _SAID_OF_JOINS):
            part.set("kind", "CROSS")  # a comma would bind less than the join behind it
        if join == "" or node.args.get("pivots") or node.args.get("sample") or node.args.get("joins"):
            raise NotKeyedError(*refused_source(node, part))
        read = node.meta.get(READ) or None
        renamed = node.args["alias"].args.get("columns") if node.args.get("alias") else None
        if read is not None and (read.relation.version is not None or renamed):
            read = None
        columns = frozenset() if read is None else frozenset(name.lower() for name in node.meta[COLUMNS])
        on = conjuncts(part.args["on"]) if part.args.get("on") is not None else []
        name = node.alias_or_name.lower()
        for column in part.args.get("using") or ():
            theirs = next((one for one in self.sources if column.name.lower() in one.columns), None)
            if theirs is not None:
                sides = (exp.column(column.name, table=one, quoted=True) for one in (theirs.name, name))
                on.append(exp.EQ(this=next(sides), expression=next(sides)))
        optional, filters = join == "LEFT", join in ("SEMI", "ANTI")
        self.sources.append(Source(name, read, columns, on, optional, filters))

    def _tell(self) -> None:
        """Note what is known of the rows of the select, and of those that its tables join."""
        where = self.select.args.get("where")
        always = [(node, "") for node in (conjuncts(where.this) if where is not None else [])]
        said = [(node, one.name) for one in self.sources for node in one.on]
        found = []
        for node, of in [*always, *said]:
            source = self._by_name.get(of)
            depends = source is not None and (source.is_optional or source.is_filter)
            told = self._condition(node, of if depends else "")
            if told is not None:
                found.append(told)
            elif source is not None:
                source.is_understood = False
        self.conditions = self._without_doubtful(self._with_sure(found))

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
            conditions = [replace(one, of="") if one.of in names else one for one in conditions]

    def _without_doubtful(self, conditions: list[Condition]) -> list[Condition]:
        """Leave out what may hold for rows without one of a table that it is about."""
        found = []
        for one in conditions:
            doubtful = {name for name in one.needs - {one.of} if self._by_name[name].is_optional} - one.links
            if not doubtful and not (not one.of and one.needs & self._optional):
                found.append(one)
            elif one.of:
                self._by_name[one.of].is_understood = False
        return found

    @property
    def _optional(self) -> frozenset[str]:
        return frozenset(source.name for source in self.sources if source.is_optional)

    def _condition(self, node: exp.Expr, of: str) -> Condition | None:
        found = self.key(node)
        if found is None:
            return None
        node = found.resolved
        sides = (node.left, node.right) if isinstance(node, exp.EQ) else ()
        equal = frozenset(side for side in sides if isinstance(side, exp.Column))
        return Condition(
            node.sql("spark"), found.tables, _links(node), of, equal if len(equal) > 1 else frozenset()
        )

    # --- keys ---

    def anchor(self) -> Source:
        """Return a source of which each row of the select has a row."""
        for source in self.sources:
            if source.read is not None and not source.is_optional and not source.is_filter:
                return source
        why = "no table of which each of its rows has a row"
        raise NotKeyedError(why, f"a table first in FROM, or {OF_A_VIEW}")

    def keys_of_rows(self, source: Source) -> list[Key]:
        """Return what tells rows of a source apart: its time and key, or all columns that are read."""
        assert source.read is not None  # by anchor
        relation = source.read.relation
        names = [name for name in (relation.time_column, *relation.ties) if name] or [*relation.columns]
        columns = [
            exp.column(name, table=source.name, quoted=True)
            for name in names
            if not any(word in relation.types.get(name.lower(), "") for word in _NO_VALUES)
        ]
        return [Key(column, column) for column in columns]

    def key(self, node: exp.Expr) -> Key | None:
        """Return an expression of rows of the select's tables; None where it is more, or not all is seen."""

        def sourced(column: exp.Column) -> exp.Expr | None:
            name = self._source_of(column)
            return None if name is None else exp.column(column.name, table=name, quoted=True)

        resolved = with_columns(node, sourced)
        return None if resolved is None or not _tables_of(resolved) else Key(node.copy(), resolved)

    def read_of(self, key: Key) -> Read | None:
        """Return the read of which a key is a column; None where it is more than that."""
        return self._by_name[key.resolved.table].read if isinstance(key.resolved, exp.Column) else None

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
                if one.equal & equal and self._same_type(one):
                    # What is asked of a table that rows may be without says nothing of the others.
                    equal.update(column for column in one.equal if one.of in ("", column.table))
            grows = len(equal) > known
        found = ((self._by_name[one.table].read, one.name) for one in sorted(equal, key=str))
        return [(read, _spelled(read, name)) for read, name in found if read is not None]

    def _same_type(self, condition: Condition) -> bool:
        reads = ((self._by_name[column.table].read, column.name.lower()) for column in condition.equal)
        return len({read and read.relation.types.get(name) for read, name in reads}) == 1

    def _source_of(self, column: exp.Column) -> str | None:
        if len(column.parts) > 2:
            return None
        name = column.name.lower()
        if column.table:
            source = self._by_name.get(column.table.lower())
            return source.name if source is not None and name in source.columns else None
        if any(source.read is None for source in self.sources) or self.select.args.get("laterals"):
            return None  # it may be theirs
        found = [one.name for one in self.sources if name in one.columns and not one.is_filter]
        return found[0] if len(found) == 1 or (found and name in self._shared) else None

    @property
    def _shared(self) -> set[str]:
        """The columns of USING, which are those of the first table."""
        joins = self.select.args.get("joins") or []
        return {column.name.lower() for join in joins for column in join.args.get("using") or ()}

    # --- from a changed row to keys ---

    def lead(self, source: Source, named: frozenset[str]) -> Lead | None:
        """Return how changed rows of a source lead to keys of the tables that are ``named``.

        None: no conditions lead there.
        """
        if source.read is None:
            return None
        ways = self._ways(source)
        asked = self._beside(named, ways, {source.name})
        if asked is None:
            return None
        on_way, optional = asked
        there = {source.name}
        known = [one for one in self.conditions if one.of in {"", source.name, *on_way}]
        where, joined = _met(known, there), []
        for name in (one for one in ways if one in on_way):
            there.add(name)
            joined.append(Joined(self._by_name[name], _met(known, there), is_sure=True))
        for one in (one for one in self.sources if one.name in optional):
            own = tuple(condition for condition in self.conditions if condition.of == one.name)
            joined.append(Joined(one, own, is_sure=False))
        return Lead(source, where, tuple(joined))

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
            if at not in one.needs or len(ahead) != 1 or (one.of and one.of not in seen):
                continue
            name = next(iter(ahead))
            source = self._by_name[name]
            if name in known or source.is_filter or (source.is_optional and name not in one.links):
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
            elif self._by_name[name].is_optional:
                needs = [other for one in self.conditions if one.of == name for other in one.needs]
                if not needs:
                    return None
                optional.add(name)
                waiting += needs
            else:
                return None
        return on_way, optional


def refused_source(node: exp.Expr, part: exp.Expr | None = None) -> tuple[str, str]:
    """Return why what stands in FROM, or in a JOIN, leads to no keys, and what to write instead."""
    if node.args.get("pivots"):
        return "PIVOT", "an aggregate with FILTER (WHERE …) for each of its columns, and GROUP BY"
    if node.args.get("sample"):
        return "TABLESAMPLE", "a condition in WHERE, such as one of a hash"
    kind = "" if part is None else str(part.args.get("side") or part.args.get("method") or "").upper()
    return {
        "RIGHT": ("a RIGHT JOIN", "LEFT JOIN with the tables the other way round"),
        "FULL": ("a FULL JOIN", "LEFT JOIN, and the rows of the other table by UNION ALL and ANTI JOIN"),
        "NATURAL": ("a NATURAL JOIN", "JOIN … USING (…)"),
    }.get(kind, ("a join within a join", OF_A_VIEW))


def _spelled(read: Read, name: str) -> str:
    """Return the name of a column as its table spells it."""
    return next(column for column in read.relation.columns if column.lower() == name.lower())


def _met(conditions: list[Condition], there: Collection[str]) -> tuple[Condition, ...]:
    """Take out and return the conditions that are about these tables alone."""
    found = tuple(one for one in conditions if one.needs <= set(there))
    conditions[:] = [one for one in conditions if one not in found]
    return found


def _tables_of(node: exp.Expr) -> frozenset[str]:
    return frozenset(column.table for column in node.find_all(exp.Column))


def _links(node: exp.Expr) -> frozenset[str]:
    """Return the tables whose rows are there where a comparison holds: it is about a column of theirs."""
    if not isinstance(node, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return frozenset()
    sides = (uncast(node.left), uncast(node.right))
    return frozenset(side.table for side in sides if isinstance(side, exp.Column))
