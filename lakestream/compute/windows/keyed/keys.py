"""By what keys the rows of a query fall apart.

Rows of a query that are made of rows with equal keys depend on no others: keys are those of GROUP BY, of
DISTINCT and of PARTITION BY; where there are none, columns of a table of which each result row is made of one
row. A change leaves all rows be but those of the keys that
:mod:`lakestream.compute.windows.keyed.leads` finds.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import is_aggregate_call
from lakestream.compute.windows.calculation import ALIAS, COLUMNS, READ, Bound
from lakestream.compute.windows.keyed.forms import plain_forms
from lakestream.compute.windows.keyed.leads import (
    COMPARED,
    OF_A_VIEW,
    Core,
    Key,
    NotKeyedError,
    Within,
    is_one_type,
    names_of,
    refused_source,
)
from lakestream.compute.windows.reach import with_columns
from lakestream.compute.windows.stars import (
    NoSuchError,
    UnknownColumnsError,
    columns_of_star,
    name_shared,
    star_of,
)
from lakestream.language.common.aggregates import number_all_groups
from lakestream.language.expressions.parsing import only_in_order, own_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lakestream.compute.windows.calculation import Calculation, Read
    from lakestream.compute.windows.keyed.kept import Kept
    from lakestream.compute.windows.keyed.leads import Lead

TOUCHED = "ls_touched_"
"""What the relations of touched keys begin with, one a branch: gid, the number of a key, and its values."""

NUMBER = "_ls_key"
"""The column with the number of a row's key: 64 bits of a hash."""

BRANCH = "_ls_branch"
"""The column with the number of the part of a UNION ALL that a row is of, where there are several."""

_NOT_HELD = re.compile(r"interval|void|variant|map<")
"""What the types hold that no column of a table beside a row's number has."""

_TEXT = re.compile(r"$|string|varchar|char")
"""What begins the types whose values may be texts; nothing, where a type is not known."""

_FIRST_ROWS = "row_number() OVER (PARTITION BY key ORDER BY …), and a query around that takes the first ones"
_BY_PARTS = "GROUP BY, or PARTITION BY, a key; what is of all rows can be a view over that view"
_CORE = "core"
_ASKED = "_ls_asked"


class Share(StrEnum):
    """Of which keys there are results.

    Of all; of those that are touched, from their rows; of those that have moved, from what is kept of them.
    """

    ALL = "all"
    TOUCHED = "touched"
    MOVED = "moved"


@dataclass(frozen=True)
class Branch:
    """A query between set operations: its keys, and how changes of tables lead to these.

    Those of other set operations have the same keys. Each part of a UNION ALL has a ``number``, which all
    queries of such an operation within it share: a key of one part is none of another.

    ``narrowed`` are columns of reads of which only rows count that have the value of a key there: the read's
    view, the column, and the key's place. ``shown`` has the number (from 1) of the result column with the
    value of each key, 0 where that stands in a hidden one.
    """

    number: int | None
    keys: tuple[Key, ...]
    leads: tuple[Lead, ...]
    narrowed: tuple[tuple[str, str, int], ...] = ()
    shown: tuple[int, ...] = ()

    @property
    def touched(self) -> str:
        """The relation of its touched keys."""
        return f"{TOUCHED}{self.number or 0}"

    @property
    def hidden(self) -> dict[str, Key]:
        """The keys that no result column shows, by the names of their hidden columns."""
        listed = enumerate(zip(self.keys, self.shown, strict=True), 1)
        return {self._name(number): key for number, (key, shown) in listed if not shown}

    @property
    def telling(self) -> dict[str, int]:
        """The places of all keys, see :attr:`Keys.telling`."""
        return {self._name(number): shown for number, shown in enumerate(self.shown, 1)}

    def same_sql(self, rows: str, touched: str) -> str:
        """Return the condition that a row, with a gid and :attr:`Keys.telling`, is of a touched key."""
        names = enumerate(names_of(self.keys), 1)
        same = [f"{rows}.gid = {touched}.gid"]
        same += [] if self.number is None else [f"{rows}.{BRANCH} = {self.number}"]
        same += [f"{rows}.{self._name(number)} <=> {touched}.{name}" for number, name in names]
        return " AND ".join(same)

    def _name(self, number: int) -> str:
        return f"_ls_k{number}" if self.number is None else f"_ls_k{self.number}_{number}"

    def sql(self, lead: Lead, changed: str, beside: Callable[[Read], str], moved: Collection[str]) -> str:
        """Return SQL of the keys that changed rows touch, as :data:`TOUCHED` has them; see :class:`Lead`."""
        names = names_of(self.keys)
        found = lead.sql(changed, beside, moved)
        return f"SELECT {self.number_sql(names)} AS gid, {', '.join(names)} FROM ({found})"

    def number_sql(self, keys: Sequence[str]) -> str:
        """Return SQL of the number of a key, from SQL of its values."""
        parts = [] if self.number is None else [f"{self.number}L"]
        parts += [part for key in keys for part in (f"({key}) IS NULL", key)]
        return f"xxhash64({', '.join(parts)})" if parts else "0L"


@dataclass(frozen=True)
class Keys:
    """A query by keys: ``query`` gives the number of the key behind its results, and then what is ``hidden``.

    Hidden are the keys that no result shows, and with several branches all, and the branch. ``told`` are the
    types of these, where the view's table has them. ``restricted`` is the same query of the keys in the
    relations :data:`TOUCHED` alone. Changes of the tables
    ``anywhere`` may touch all rows. ``alone``: each result row is made of one row of this read, so that those
    of added rows are added. ``kept`` is what the view keeps of its keys, None where these are computed anew,
    and ``why_unkept`` says why. ``folders`` are the results (from 1) by which its table is partitioned.
    """

    query: exp.Query
    restricted: exp.Query
    branches: tuple[Branch, ...]
    anywhere: frozenset[str]
    alone: Read | None
    hidden: tuple[str, ...] = ()
    told: Mapping[str, str] | None = None
    kept: Kept | None = None
    why_unkept: str = ""
    folders: frozenset[int] = frozenset()

    def sql(self, share: Share) -> str:
        """Return SQL of results with the number of their key behind them, and then what is kept of it."""
        if share is Share.MOVED and self.kept is not None:
            return self.kept.moved_sql()
        query = self.restricted if share is Share.TOUCHED else self.query
        return str((query if self.kept is None else self.kept.with_parts(query)).sql("spark"))

    @property
    def behind(self) -> tuple[str, ...]:
        """The names of what stands behind the number."""
        return self.hidden if self.kept is None else tuple(part.name for part in self.kept.hidden)

    @property
    def stored(self) -> dict[str, str]:
        """The Spark types of what the view's table has of that, by name."""
        if self.kept is None:
            return {**(self.told or {})}
        return {part.name: part.type for part in self.kept.hidden}

    @property
    def by_touched(self) -> dict[str, list[Branch]]:
        """The branches by the relation of their touched keys, which those of a UNION share."""
        found: dict[str, list[Branch]] = {}
        for branch in self.branches:
            found.setdefault(branch.touched, []).append(branch)
        return found

    @property
    def telling(self) -> dict[str, int] | None:
        """The columns of a key, and of its branch: the number (from 1) of a result column; 0: it is hidden.

        None where the view's table does not tell the keys of its rows.
        """
        if self.kept is not None:
            return {part.name: part.shown for part in self.kept.parts if part.is_key}
        if self.hidden and self.told is None:
            return None
        shown = self.branches[0].telling if self.branches[0].number is None else {}
        return {**dict.fromkeys(self.hidden, 0), **shown}

    @property
    def reads(self) -> list[Read]:
        """What the query reads, each time that it does; not what is of a version."""
        return _reads(self.query)

    @property
    def leading_nowhere(self) -> frozenset[str]:
        """The tables of which each change has all keys computed again, if no other table has changed."""
        return self.anywhere if self.kept is None else self.anywhere - self.kept.keeping.movable.keys()

    @property
    def why_no_keys(self) -> str:
        """Why aggregates of all rows are computed as a whole, where nothing is kept of them."""
        return f"it has no keys, and {self.why_unkept} (instead: {_BY_PARTS})"

    @property
    def is_total(self) -> bool:
        """Whether all rows are of one key, which has no values: aggregates of all there is."""
        return not self.branches[0].keys

    @property
    def said(self) -> str:
        """The keys as they were written."""
        listed = [", ".join(key.written.sql("spark") for key in branch.keys) for branch in self.branches]
        return "; ".join(dict.fromkeys(listed))


def keys_of(calculation: Calculation, folders: Collection[int] = ()) -> Keys:
    """Return by what keys the rows of a calculation fall apart; raises NotKeyedError.

    ``folders`` are the numbers (from 1) of the results by which the view's table is partitioned: they do not
    tell each text from NULL.
    """
    query = _inlined(calculation.query.copy())
    _expand_stars(query)
    plain_forms(query)
    for select in query.find_all(exp.Select):
        number_all_groups(select)
    _group_distinct(query)
    parts = [_levels(part, frozenset(folders)) for part in _parts(query)]
    every = [levels for part in parts for levels in part]
    numbers = [number if len(parts) > 1 else None for number, part in enumerate(parts) for _ in part]
    found = [_keyed(*one, number) for one, number in zip(enumerate(every), numbers, strict=True)]
    hidden = _show([(branch, levels) for (branch, _), levels in zip(found, every, strict=True)])
    reads = _reads(query)
    led = Counter(lead.read.view for branch, _ in found for lead in branch.leads if not lead.is_more)
    there = Counter(read.view for read in reads)
    anywhere = frozenset(read.relation.key for read in reads if led[read.view] < there[read.view])
    is_led: Counter[int | None] = Counter()
    for branch, _ in found:
        is_led[branch.number] += len(branch.leads)
    if all(read.relation.key in anywhere for read in reads) or not all(is_led.values()):
        why = "no equal columns lead from a change of its tables to keys"
        raise NotKeyedError(why, f"joins by a.x = b.x, or {OF_A_VIEW}")
    once = {view for view, count in there.items() if count == 1}
    found = [(_narrowing(branch, once), read) for branch, read in found]
    restricted = query.copy()
    for number, (branch, _) in enumerate(found):
        core = next(one for one in restricted.find_all(exp.Select) if one.meta.get(_CORE) == number)
        _restrict(core, branch)
    alone = found[0][1] if len(found) == 1 else None
    if alone is not None and sum(read.relation.key == alone.relation.key for read in reads) > 1:
        alone = None
    branches = tuple(branch for branch, _ in found)
    return Keys(query, restricted, branches, anywhere, alone, hidden, folders=frozenset(folders))


def _show(branches: Sequence[tuple[Branch, _Levels]]) -> tuple[str, ...]:
    """Have all branches show the number of the key, and behind it what is hidden; return its names."""
    by_branch = [{name: key.written.sql("spark") for name, key in one.hidden.items()} for one, _ in branches]
    if branches[0][0].number is not None:
        by_branch = [
            {BRANCH: str(one.number), **own} for own, (one, _) in zip(by_branch, branches, strict=True)
        ]
    names = tuple(dict.fromkeys(name for own in by_branch for name in own))
    for (branch, levels), own in zip(branches, by_branch, strict=True):
        number = branch.number_sql([key.written.sql("spark") for key in branch.keys])
        levels.show({NUMBER: number, **own})
        for name in names:
            if name not in own:  # of a key of another branch
                levels.selects[0].append("expressions", exp.alias_(exp.null(), name))
        _in_order(levels.selects[0], (NUMBER, *names))
    return names


def _in_order(select: exp.Select, names: Sequence[str]) -> None:
    """Put the last result columns of a select into an order."""
    results, others = select.selects[: -len(names)], select.selects[-len(names) :]
    by_name = {item.alias_or_name: item for item in others}
    select.set("expressions", [*results, *(by_name[name] for name in names)])


def hidden_types(types: Mapping[str, str], keys: Keys) -> dict[str, str] | None:
    """Return the types of the hidden columns by those of a result; None where no table has them."""
    found = {name: types[name] for name in keys.hidden if name in types}
    fit = not any(_NOT_HELD.search(kind) for kind in found.values())
    return found if fit and len(found) == len(keys.hidden) else None


def may_be_text(kind: str) -> bool:
    """Return whether values of a type may be texts, of which a column of folders has some as NULL."""
    return _TEXT.match(kind) is not None


def by_groups(calculation: Calculation) -> tuple[Calculation, tuple[str, ...]]:
    """Return a query by windows as one of groups too, and the columns of the trigger table that these are.

    They are those that it groups by as they are: rows of a window with other values there do not count for
    one with these. The time is none, which is another one in each row.
    """
    if not isinstance(calculation.query, exp.Select):
        return calculation, ()
    query, names, equal = calculation.query.copy(), [], []
    for column, reads in _columns_of_groups(calculation.query):
        names.append(column.name)
        group = f"_ls_g{len(names)}"
        own = exp.NullSafeEQ(this=column, expression=exp.column(group, table=ALIAS))
        query.where(own, copy=False)
        equal += [(read.view, name, group) for read, name in reads]
    scope = replace(calculation.scope, groups=tuple(f"_ls_g{number}" for number, _ in enumerate(names, 1)))
    return replace(calculation, query=query, scope=scope, equal_to_groups=tuple(equal)), tuple(names)


def _columns_of_groups(select: exp.Select) -> Iterator[tuple[exp.Column, list[tuple[Read, str]]]]:
    """Give the columns that a select groups by of the read that is bounded by the window, each once.

    With each come columns of reads of which only rows count that have its value there.
    """
    group = select.args.get("group")
    try:
        core = Core(select.copy())
    except NotKeyedError:
        return
    wanted = [meant(key.unnest(), select) for key in (group.expressions if group is not None else [])]
    for key in {key.resolved: key for key in map(core.key, wanted) if key is not None}.values():
        column, read = key.resolved, core.read_of(key)
        if read is None or read.lower != Bound("_twstart") or not isinstance(column, exp.Column):
            continue
        name, relation = column.name.lower(), read.relation
        if name != relation.time_column.lower() and COMPARED.match(relation.types.get(name, "")):
            yield column, core.narrowed(key)


def _narrowing(branch: Branch, views: set[str]) -> Branch:
    """Return a branch that narrows these views alone: others stand elsewhere too."""
    return replace(branch, narrowed=tuple(one for one in branch.narrowed if one[0] in views))


def _reads(query: exp.Query) -> list[Read]:
    found = (node.meta[READ] for node in query.walk() if READ in node.meta)
    return [read for read in found if read.relation.version is None]


def _inlined(query: exp.Query) -> exp.Query:
    """Put what WITH names where it is named; raises NotKeyedError for what refers to itself."""
    named = query.args.get("with_")
    if named is None:
        return query
    if named.args.get("recursive"):
        raise NotKeyedError("WITH RECURSIVE", "a query for each level, joined by UNION ALL")
    query.set("with_", None)
    bodies: dict[str, exp.CTE] = {}
    for cte in named.expressions:
        _put_bodies(cte.this, bodies)
        bodies[cte.alias.lower()] = cte
    _put_bodies(query, bodies)
    return query


def _put_bodies(query: exp.Expr, bodies: Mapping[str, exp.CTE]) -> None:
    for table in list(query.find_all(exp.Table)):
        cte = bodies.get(table.name.lower())
        if cte is None or table.db:
            continue
        columns = map(exp.to_identifier, table.alias_column_names or cte.alias_column_names)
        alias = exp.TableAlias(
            this=exp.to_identifier(table.alias or table.name, quoted=True), columns=[*columns]
        )
        subquery = exp.Subquery(this=cte.this.copy(), alias=alias)
        for name in ("joins", "laterals", "pivots", "sample"):
            subquery.set(name, table.args.get(name))
        table.replace(subquery)


def _expand_stars(query: exp.Query) -> None:
    """Put the columns that it stands for in the place of each star, where what is in FROM tells them."""
    for select in reversed(list(query.find_all(exp.Select))):  # those within others first
        with suppress(UnknownColumnsError, NoSuchError):
            name_shared(select, _columns_of)
            items = [one for item in select.selects for one in _expanded(select, item)]
            select.set("expressions", items)


def _expanded(select: exp.Select, item: exp.Expr) -> list[exp.Expr]:
    if star_of(item) is None:
        return [item]
    return [shown.column() for shown in columns_of_star(select, item, _columns_of)]


def _columns_of(node: exp.Expr) -> Sequence[str] | None:
    found: Sequence[str] | None = node.meta.get(COLUMNS)
    return found


def _group_distinct(query: exp.Query) -> None:
    """Have SELECT DISTINCT group by its columns, which is the same: so the rows of each are counted."""
    if (
        not isinstance(query, exp.Select)
        or not query.args.get("distinct")
        or _single_query(query) is not None
    ):
        return
    if any(query.args.get(name) for name in ("group", "having")) or query.args["distinct"].args.get("on"):
        return
    core = Core(query.copy())
    items = [item.unalias() for item in query.selects if item.find(exp.Column)]  # a number would be a place
    if not items or any(core.key(item) is None or any(map(_is_more, item.walk())) for item in items):
        return
    query.set("distinct", None)
    query.set("group", exp.Group(expressions=[item.copy() for item in items]))


def _is_more(node: exp.Expr) -> bool:
    """Return whether a node is made of more than the columns of a row."""
    return isinstance(node, (exp.Query, exp.Window)) or is_aggregate_call(node)


def _parts(query: exp.Expr) -> list[list[exp.Select]]:
    """Return the selects of the parts that UNION ALL joins: one, or several of other set operations.

    Raises NotKeyedError for what is no query of these. Whether a row is one of the others' result follows
    from equal ones in its selects, in whatever part of them they are.
    """
    if isinstance(query, exp.Subquery) and READ not in query.meta:
        return _parts(query.this)
    if isinstance(query, exp.SetOperation):
        if _cut(query):
            raise NotKeyedError("a LIMIT", _FIRST_ROWS)
        query.set("order", None)
        parts = [*_parts(query.left), *_parts(query.right)]
        is_apart = isinstance(query, exp.Union) and not query.args.get("distinct")
        return parts if is_apart else [[select for part in parts for select in part]]
    if not isinstance(query, exp.Select):
        raise NotKeyedError("a query without SELECT", "SELECT … FROM a table")
    return [[query]]


def _levels(part: Sequence[exp.Select], folders: frozenset[int]) -> list[_Levels]:
    """Return the selects of a part with what they are over; those of a set operation have the same keys."""
    is_distinct = len(part) > 1
    found = [_Levels(select, is_distinct=is_distinct, folders=folders) for select in part]
    if is_distinct:
        _share_keys(found)
    return found


def _share_keys(branches: Sequence[_Levels]) -> None:
    """Have the selects of a set operation go by what is a key in all; raises NotKeyedError where nothing is.

    That are columns at the same place of the same type: their values have the same number.
    """
    columns = [levels.columns() for levels in branches]
    shared = [column for column in zip(*columns, strict=False) if _alike(column)]
    if not shared:
        why = "a set operation without a column that is one of a table, of one type, in each of its queries"
        raise NotKeyedError(why, "such a column in each, or UNION ALL")
    for number, levels in enumerate(branches):
        levels.keys = [key for column in shared if (key := column[number][0]) is not None]


def _alike(column: Sequence[tuple[Key | None, str]]) -> bool:
    """Return whether the keys at one place of several queries are of one type of known values."""
    return is_one_type(kind for _, kind in column)


def _cut(query: exp.Expr) -> bool:
    return any(query.args.get(name) is not None for name in ("limit", "offset", "fetch"))


def _keyed(place: int, levels: _Levels, number: int | None) -> tuple[Branch, Read | None]:
    """Return the branch of a select, which is at a place among others, and of a part with a number.

    With it the read of which each of its rows is made of one row, where it is such a select.
    """
    keys, alone = levels.keys, None
    if keys is None:
        keys, alone = levels.core.keys_of_rows()
    if not keys and (number is not None or not _is_total(levels)):
        raise NotKeyedError("it has no keys by which its rows fall apart", _BY_PARTS)
    core = levels.core
    leads = core.led(keys)
    narrowed = [
        (read.view, name, place) for place, key in enumerate(keys) for read, name in core.narrowed(key)
    ]
    core.select.meta[_CORE] = place
    shown = tuple(levels.place_of(key) if number is None else 0 for key in keys)
    return Branch(number, tuple(keys), tuple(leads), tuple(narrowed), shown), alone


def _is_total(levels: _Levels) -> bool:
    """Return whether a query is aggregates of all rows of its tables, and nothing around that."""
    select = levels.selects[0]
    plain = len(levels.selects) == 1 and not select.args.get("distinct") and not any(_windows(select))
    return plain and select.args.get("group") is None


def _restrict(core: exp.Select, branch: Branch) -> None:
    """Keep the rows of touched keys alone."""
    names = names_of(branch.keys)
    same = (
        f"{_ASKED}.{name} <=> ({key.written.sql('spark')})"
        for name, key in zip(names, branch.keys, strict=True)
    )
    alias = exp.TableAlias(this=exp.to_identifier(_ASKED))
    touched = exp.Table(this=exp.to_identifier(branch.touched), alias=alias)
    join = exp.Join(this=touched, side="LEFT", kind="SEMI", on=exp.Var(this=" AND ".join(same) or "true"))
    core.append("joins", join)


# --- selects over each other ---


class _Levels:
    """A select over rows of tables, and those over it, which have one query each in FROM.

    ``is_distinct``: of rows that are alike one counts; ``folders`` as :func:`keys_of` has them.
    """

    def __init__(
        self, select: exp.Select, *, is_distinct: bool = False, folders: frozenset[int] = frozenset()
    ) -> None:
        self.is_distinct = is_distinct
        self.folders = folders
        self.selects: list[exp.Select] = []
        below: exp.Expr = select
        while True:
            assert isinstance(below, exp.Select)  # by the way here
            _refuse_cut(below)
            self.selects.append(below)
            inner = _single_query(below)
            if not isinstance(inner, exp.Select):
                break
            below = inner
        select.set("order", None)  # a table has no order; a LIMIT, which has one, was refused above
        self.core = Core(self.selects[-1], _inner_of)
        self._results: list[Key | None] = []
        self.keys = self._keys()

    def _keys(self) -> list[Key] | None:
        """Return the keys; None where each select gives a row for one that it has."""
        keys: list[Key] | None = None
        shown: dict[str, Key | None] = {}
        for select in reversed(self.selects):
            is_core = select is self.core.select
            find: Callable[[exp.Expr], Key | None]
            find = self.core.key if is_core else _Shown(select, shown).key
            is_distinct = bool(select.args.get("distinct")) or (
                self.is_distinct and select is self.selects[0]
            )
            asked = _asked(select, is_distinct=is_distinct)
            if asked is not None:
                keys = _found(find, asked)
                if is_core and asked and not keys:  # where there are others, they are what they always were
                    find = partial(self.core.key, of_queries=True)
                    keys = _found(find, asked)
            self._results = [find(item.unalias()) for item in select.selects]
            names = [item.alias_or_name.lower() for item in select.selects]
            results = dict(zip(names, self._results, strict=True))
            # What is no key, or made of keys, tells nothing of the rows of a key.
            shown = {name: key for name, key in results.items() if asked is None or key in (keys or [])}
        return keys

    def telling(self) -> list[Key | None]:
        """Return the results that tell rows apart by the rows that they are made of; None for others."""
        return [key if self.keys is None or key in self.keys else None for key in self._results]

    def typed(self) -> list[tuple[Key | None, str]]:
        """Return the same with the types of those that are columns of tables; "" for others."""
        return [(key, self._type(key)) for key in self.telling()]

    def columns(self) -> list[tuple[Key | None, str]]:
        """Return the results that are keys and columns of tables, and their types; "" where they are none."""
        return [(key, self._type(key) if key in (self.keys or ()) else "") for key in self._results]

    def _type(self, key: Key | None) -> str:
        """Return the type of a key that is a column of a table; "" where it is none."""
        return "" if key is None or self.core.read_of(key) is None else self.core.type_of(key)

    def place_of(self, key: Key) -> int:
        """Return the number (from 1) of the result column that has a key as it is; 0 for none."""
        same = (number for number, one in enumerate(self._results, 1) if one and one.resolved == key.resolved)
        untold = self.folders if may_be_text(self._type(key)) else ()
        return next((number for number in same if number not in untold), 0)

    def show(self, named: Mapping[str, str]) -> None:
        """Have all selects show SQL over the rows of the first one, as their last columns, by these names."""
        for select in reversed(self.selects):
            if any(item.is_star for item in select.selects):
                raise NotKeyedError("a star", "the names of its columns")
            group = select.args.get("group")
            for name, sql in named.items():
                column = exp.column(name)
                if group is not None and select is not self.core.select:
                    group.append("expressions", column.copy())
                shown = exp.Var(this=sql) if select is self.core.select else column
                select.append("expressions", exp.alias_(shown, name))


@dataclass(frozen=True)
class _Inside:
    """A query within another one: its branches, and the places of results that tell rows of it apart.

    ``types`` are those of results that are columns of tables, of one type in each branch.
    """

    branches: tuple[_Levels, ...]
    places: Mapping[str, int]
    names: frozenset[str]
    types: Mapping[str, str]

    @property
    def columns(self) -> frozenset[str]:
        """The names of these results."""
        return frozenset(self.places)

    def within(self, columns: Sequence[str]) -> list[Within]:
        """Return how changes of each table that it reads lead to these columns."""
        return [found for branch in self.branches for found in self._of(branch, columns)]

    def _of(self, branch: _Levels, columns: Sequence[str]) -> Iterator[Within]:
        told = branch.telling()
        keys = [key for column in columns if (key := told[self.places[column]]) is not None]
        for lead in branch.core.led(keys):
            yield Within(tuple(columns), lead)


def _inner_of(query: exp.Query) -> _Inside | None:
    """Return a query within another one as far as it is seen through; None: it is not."""
    try:
        branches = [_Levels(select) for select in _branches(query)]
    except NotKeyedError:
        return None
    names = [item.alias_or_name.lower() for item in branches[0].selects[0].selects]
    told = [branch.telling() for branch in branches]
    if len({len(names), len({*names}), *map(len, told)}) > 1 or "*" in names:
        return None
    typed = [*zip(*(branch.typed() for branch in branches), strict=True)]
    fit = [len(branches) == 1 or _alike(column) for column in typed]
    places = {name: n for n, name in enumerate(names) if name and fit[n] and all(one[n] for one in told)}
    types = {name: typed[n][0][1] for name, n in places.items()}
    return _Inside(tuple(branches), places, frozenset(names), types)


def _branches(query: exp.Expr) -> list[exp.Select]:
    """Return the selects that set operations join: equal rows of theirs are one, or decide on one."""
    if isinstance(query, exp.Subquery) and READ not in query.meta:
        return _branches(query.this)
    if isinstance(query, exp.SetOperation) and not _cut(query):
        return [*_branches(query.left), *_branches(query.right)]
    if not isinstance(query, exp.Select):
        raise NotKeyedError("a set operation that is cut")
    return [query]


def _refuse_cut(select: exp.Select) -> None:
    if _cut(select):
        raise NotKeyedError("a LIMIT", _FIRST_ROWS)
    if select.args.get("with_") is not None:
        raise NotKeyedError("WITH within the query", "WITH before the whole query")
    if select.args.get("laterals") and _single_query(select) is not None:
        raise NotKeyedError("LATERAL VIEW of a query", OF_A_VIEW)
    if only_in_order(select, _aggregates):
        raise NotKeyedError("an aggregate in ORDER BY alone")


def _single_query(select: exp.Select) -> exp.Expr | None:
    """Return the query of which a select has the rows, where it stands alone in FROM."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins"):
        return None
    node = source.this
    if not isinstance(node, exp.Subquery) or READ in node.meta:
        return None
    if node.args["alias"].args.get("columns") if node.args.get("alias") else False:
        raise NotKeyedError("a query whose columns are renamed", "AS in its own list")
    if node.args.get("pivots") or node.args.get("sample") or node.args.get("joins"):
        raise NotKeyedError(*refused_source(node))
    found: exp.Expr = node.this
    return found


@dataclass(frozen=True)
class _Shown:
    """The results of a query as the select over it sees them: expressions of rows, where they are known."""

    select: exp.Select
    results: Mapping[str, Key | None]

    def key(self, node: exp.Expr) -> Key | None:
        """Return an expression of the results as one of the rows below; None where it is more than that."""
        if isinstance(node, exp.Column):
            return self._below(node)
        written = with_columns(node, lambda column: _in_brackets(self._below(column), "written"))
        resolved = with_columns(node, lambda column: _in_brackets(self._below(column), "resolved"))
        return None if written is None or resolved is None else Key(written, resolved)

    def _below(self, column: exp.Column) -> Key | None:
        return self.results.get(column.name.lower())


def _found(find: Callable[[exp.Expr], Key | None], asked: Sequence[exp.Expr]) -> list[Key]:
    """Return what is a key of some expressions, each once."""
    return [*dict.fromkeys(key for key in map(find, asked) if key is not None)]


def _in_brackets(key: Key | None, form: str) -> exp.Expr | None:
    return None if key is None else exp.Paren(this=getattr(key, form).copy())


def _asked(select: exp.Select, *, is_distinct: bool) -> list[exp.Expr] | None:
    """Return the expressions of a select by which its rows fall apart; None where each is one of a row."""
    found = _groups(select)
    if found is None and (select.args.get("having") or any(map(_aggregates, own_nodes(select)))):
        return []
    for window in _windows(select):
        parts = window.args.get("partition_by") or []
        found = [*parts] if found is None else [node for node in found if node in parts]
    if is_distinct:
        items = [item.unalias() for item in select.selects]
        found = items if found is None else [node for node in found if node in items]
    return found


def _groups(select: exp.Select) -> list[exp.Expr] | None:
    """Return what a select groups by: no windows, of which a row may be in several."""
    group = select.args.get("group")
    if group is None:
        return None
    several = any(group.find_all(exp.Cube, exp.Rollup, exp.GroupingSets))
    if several or {name for name, value in group.args.items() if value} != {"expressions"}:
        instead = "a GROUP BY for each of them, joined by UNION ALL"
        raise NotKeyedError("GROUPING SETS, ROLLUP and CUBE", instead)
    return [node for key in group.expressions if not _is_window(node := meant(key.unnest(), select))]


def whole_groups(select: exp.Select) -> list[exp.Expr]:
    """Return all that a select groups by, none where it does not; raises NotKeyedError for windows."""
    found, group = _groups(select) or [], select.args.get("group")
    if group is not None and len(found) < len(group.expressions):
        raise NotKeyedError("windows of joined tables", "a view of the join, and windows of that view")
    return found


def meant(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return what a key of GROUP BY stands for: itself, or a result by its number."""
    if isinstance(key, exp.Literal) and not key.is_string:
        number = int(key.name) - 1
        return select.selects[number].unalias() if 0 <= number < len(select.selects) else key
    if isinstance(key, exp.Column) and not key.table:
        # Spark looks for a column first: where there is one of the name, it is what the result is made of.
        items = [item for item in select.selects if item.alias.lower() == key.name.lower()]
        if len(items) == 1 and not _has_column(select, key.name):
            return items[0].unalias()
    return key


def _has_column(select: exp.Select, name: str) -> bool:
    """Return whether a select may have a column of a name in FROM."""
    for node in _sources_of(select):
        if READ in node.meta:
            if name.lower() in map(str.lower, node.meta[COLUMNS]):
                return True
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            if name.lower() in (item.alias_or_name.lower() for item in node.this.selects):
                return True
        else:
            return True
    return False


def _sources_of(select: exp.Select) -> list[exp.Expr]:
    parts = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return [part.this for part in parts if part is not None]


def _is_window(node: exp.Expr) -> bool:
    names = ("window", "session_window")
    return isinstance(node, exp.Anonymous) and node.name.lower() in names


def _windows(select: exp.Select) -> Iterator[exp.Window]:
    """Give the window functions of a select itself."""
    yield from (node for node in own_nodes(select) if isinstance(node, exp.Window))


def _aggregates(node: exp.Expr) -> bool:
    """Return whether a node makes one value of rows, and is no window function."""
    over = node.parent.parent if isinstance(node.parent, (exp.Filter, exp.IgnoreNulls)) else node.parent
    return is_aggregate_call(node) and not isinstance(over, exp.Window)
