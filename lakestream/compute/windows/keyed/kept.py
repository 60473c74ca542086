"""What a view keeps of a key, so that changed rows move it and the key's other rows are not read again.

Counts and sums of whole numbers and decimals can be taken back exactly: what came is added, what went is
subtracted. They are kept beside the rows of the view, where these do not show them. The same aggregates over
the changed rows, once of those that came and once of those that went, are what moves them.
"""

from __future__ import annotations

import decimal
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, is_aggregate_call
from lakestream.compute.windows.calculation import COLUMNS, READ, spark_sql
from lakestream.compute.windows.keyed.keys import hidden_types, may_be_text, meant, whole_groups
from lakestream.compute.windows.keyed.leads import COMPARED, Core, NotKeyedError
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakestream.compute.windows.calculation import Read
    from lakestream.compute.windows.keyed.keys import Keys

MOVED = "ls_moved"
"""The relation of keys that have moved: the number of a key, its values, and what is kept of it now."""

SIGN = "_ls_sign"
"""The column of changed rows that says whether they came (1) or went (-1)."""

COUNTED = "n"
"""The column of :meth:`Keeping.typed_sql` that is there whatever is added up."""

_ROWS = "COUNT(1)"
_KEY, _PART, _VALUE, _MEAN = "_ls_k", "_ls_p", "_ls_x", "_ls_m"
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FITS = 1 << 31
"""Whole numbers below this are summed: others are counted, and none may be there."""
_EXACT = 1 << 53
"""Up to this a DOUBLE holds whole numbers, in which Spark adds up what it takes the mean of."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDEST, _WIDENED = 38, 10
"""Digits of decimals, and how many more Spark gives the sum of some: 10^10 rows fit."""
_HALF = decimal.ROUND_HALF_UP
_QUOTIENT = decimal.Decimal(1).scaleb(-39)
"""The last digit of a quotient of decimals that Spark rounds, before it is one of the type of the mean."""


class NotKeptError(Exception):
    """A query of which nothing is kept; its text says why."""


@dataclass(frozen=True)
class Part:
    """Something that is kept of a key: SQL of it over rows, and its type.

    ``shown`` is the number (from 1) of the result column that has it; 0: it stands beside these. Where it is
    more than ``most`` what is made of it would not be exact. ``is_key``: it is a value of the key. ``count``
    names the part that counts what it adds up: of nothing it is NULL.
    """

    name: str
    sql: str
    type: str
    shown: int = 0
    most: int | None = None
    is_key: bool = False
    count: str = ""


@dataclass(frozen=True)
class Mean:
    """A mean of decimals, which is made of two parts: their ``total``, and the ``count`` of them.

    It is a column beside the parts where keys have moved; the view's table does not hold it.
    """

    name: str
    digits: int
    scale: int
    total: str
    count: str

    @property
    def type(self) -> str:
        """The Spark type of the mean."""
        return f"decimal({self.digits},{self.scale})"

    def of(self, row: Mapping[str, Any]) -> decimal.Decimal | None:
        """Return the mean of a key, rounded as Spark does: of its quotient first, and then of its type.

        The context must have the digits of a total beside those of a quotient. None: of nothing.
        """
        if not row[self.count]:
            return None
        quotient = (decimal.Decimal(row[self.total]) / row[self.count]).quantize(_QUOTIENT, _HALF)
        mean: decimal.Decimal = quotient.quantize(decimal.Decimal(1).scaleb(-self.scale), _HALF)
        return mean


@dataclass(frozen=True)
class Keeping:
    """A query that may be kept: what it is over the ``aggregates`` of the rows of each of its keys.

    ``results`` and ``having`` have columns in the place of keys and aggregates; rows of the tables in
    ``movable`` each make a difference of their own, whatever others there are. ``folders`` as
    :class:`Keys` has them.
    """

    select: exp.Select
    number: str
    keys: tuple[str, ...]
    aggregates: tuple[exp.Expr, ...]
    results: tuple[exp.Expr, ...]
    having: exp.Expr | None
    movable: Mapping[str, Read]
    folders: frozenset[int] = frozenset()

    @property
    def values(self) -> dict[str, exp.Expr]:
        """What is added up, by the name under which :meth:`typed_sql` gives it."""
        found = dict.fromkeys(_value(node) for node in self.aggregates if _adds_up(node))
        return {f"{_VALUE}{number}": value for number, value in enumerate(found, 1)}

    def typed_sql(self) -> str:
        """Return SQL whose columns have the types of keys and of what is added up."""
        keys = [f"{key} AS {_KEY}{number}" for number, key in enumerate(self.keys, 1)]
        values = [f"MIN({value.sql('spark')}) AS {name}" for name, value in self.values.items()]
        averaged = {_value(node) for node in self.aggregates if _is_mean(node)}
        values += [
            f"AVG({value.sql('spark')}) AS {_mean_of(name)}"
            for name, value in self.values.items()
            if value in averaged
        ]
        return _over(self.select, [*keys, *values, f"COUNT(1) AS {COUNTED}"], self.keys)

    def changed_sql(self, kept: Kept, read: Read) -> str:
        """Return SQL of what is kept, of the changed rows of a read that came and of those that went.

        Its columns: gid, SIGN, and the kept parts.
        """
        select, source = self.select.copy(), None
        for node in select.find_all(exp.Subquery):
            if node.meta.get(READ) == read:
                source = node
        assert source is not None  # it is one of the query's
        only = read.relation.only
        where = "" if only is None else f" WHERE tbname = {quoted_text(only)}"
        columns = ", ".join(map(quoted, source.meta[COLUMNS]))
        source.set("this", spark_sql(f"SELECT {columns}, {SIGN} FROM {read.view}{where}"))
        sign = f"{quoted(source.alias_or_name)}.{SIGN}"
        parts = [f"{part.sql} AS {part.name}" for part in kept.parts]
        listed = [f"{self.number} AS gid", f"{sign} AS {SIGN}", *parts]
        return _over(select, listed, [*self.keys, sign])

    def kept(self, types: Mapping[str, str]) -> Kept:
        """Return what is kept, by the types that :meth:`typed_sql` has; raises NotKeptError."""
        return _Typing(self, types).kept()


def _over(select: exp.Select, listed: Sequence[str], groups: Sequence[str]) -> str:
    """Return SQL of some items over the rows of a select, which are grouped."""
    found = select.copy()
    found.set("expressions", [exp.Var(this=item) for item in listed])
    found.set("having", None)
    found.set("group", exp.Group(expressions=[exp.Var(this=key) for key in groups]) if groups else None)
    return str(found.sql("spark"))


@dataclass(frozen=True)
class Kept:
    """What a view keeps of its keys: the ``parts``, and results made of these."""

    keeping: Keeping
    parts: tuple[Part, ...]
    results: tuple[str, ...]
    having: str
    means: tuple[Mean, ...] = ()

    @property
    def hidden(self) -> tuple[Part, ...]:
        """The parts that no result column shows."""
        return tuple(part for part in self.parts if not part.shown)

    @property
    def said(self) -> str:
        """The aggregates that are moved, as they were written."""
        return ", ".join(node.sql("spark") for node in self.keeping.aggregates) or "the rows"

    @property
    def rows(self) -> str:
        """The name of the part that counts the rows of a key."""
        return f"{_PART}1"

    @property
    def is_global(self) -> bool:
        """Whether there is one group of all rows, which is there without rows too."""
        return not self.keeping.keys

    def moving(self, changed: Collection[str]) -> Read | None:
        """Return the read whose changed rows move keys, where of all tables that one alone has changed."""
        return self.keeping.movable.get(next(iter(changed))) if len(changed) == 1 else None

    def with_parts(self, query: exp.Query) -> exp.Query:
        """Return the query by keys with the hidden parts behind its last column."""
        found = cast("exp.Select", query.copy())
        found.set("expressions", found.selects[: len(self.results) + 1])
        for part in self.hidden:
            found.append("expressions", exp.Var(this=f"{part.sql} AS {part.name}"))
        return found

    def moved_sql(self) -> str:
        """Return the same columns, made of the relation :data:`MOVED` (gid, all parts, all means)."""
        listed = [*self.results, "gid", *(part.name for part in self.hidden)]
        conditions = [] if self.is_global else [f"{self.rows} > 0L"]
        conditions += [f"({self.having})"] if self.having else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(listed)} FROM {MOVED}{where}"


def with_kept(keys: Keys, types: Mapping[str, str]) -> Keys:
    """Return a query by keys with what is kept of them, by the types that :meth:`Keeping.typed_sql` has.

    ``types`` are also those of the hidden columns; without those of what may be kept nothing is.
    """
    if not types:
        no_sum = "not each of its aggregates can be taken back exactly"
        return replace(keys, kept=None, why_unkept=no_sum if keys.is_total else "it was created without")
    told = replace(keys, told=hidden_types(types, keys), kept=None)
    try:
        keeping = keeping_of(keys)
        if COUNTED not in types:
            return replace(told, why_unkept="Spark does not compute it from what is kept")
        return replace(told, kept=keeping.kept(types), why_unkept="")
    except NotKeptError as why:
        return replace(told, why_unkept=str(why))


def keeping_of(keys: Keys) -> Keeping:
    """Return a query by keys as one of which aggregates may be kept; raises NotKeptError."""
    if len(keys.branches) != 1:
        raise NotKeptError("it is a UNION")
    branch, select = keys.branches[0], keys.query.copy()
    if not isinstance(select, exp.Select):
        raise NotKeptError("it is no SELECT")
    select.set("expressions", select.selects[: -1 - len(keys.hidden)])  # without the number of the key
    try:
        core = Core(select)
        groups = whole_groups(select)
    except NotKeyedError as why:
        raise NotKeptError(str(why)) from None
    if select.args.get("distinct") or select.find(exp.Window) or select.args.get("qualify"):
        raise NotKeptError("DISTINCT and window functions look at the rows of a key")
    if not groups and not aggregates(select.selects):
        raise NotKeptError("it has no aggregates")
    found = [core.key(node) for node in groups]
    if None in found:
        raise NotKeptError("it is grouped by more than columns")
    resolved = [key.resolved for key in found if key is not None]
    if {*resolved} != {key.resolved for key in branch.keys}:
        raise NotKeptError("it is a query of a query")
    results = _Results(select, core, [key.resolved for key in branch.keys])
    listed = tuple(results.over(item.unalias()) for item in select.selects)
    having = select.args.get("having")
    condition = None if having is None else results.over(having.this)
    written = tuple(key.written.sql("spark") for key in branch.keys)
    return Keeping(
        select,
        branch.number_sql(written),
        written,
        tuple(results.aggregates),
        listed,
        condition,
        _movable(keys, core),
        keys.folders,
    )


def _movable(keys: Keys, core: Core) -> dict[str, Read]:
    """Return the reads by table of which each row counts by itself: it is read once, and always joined."""
    there = Counter(read.relation.key for read in keys.reads)
    sure = [one.read for one in core.sources if not one.is_optional and not one.is_filter]
    once = [read for read in keys.reads if there[read.relation.key] == 1]
    return {read.relation.key: read for read in once if read in sure}


@dataclass
class _Results:
    """The results of a select as expressions over its keys and aggregates."""

    select: exp.Select
    core: Core
    keys: Sequence[exp.Expr]
    aggregates: list[exp.Expr] = field(default_factory=list)
    _meant: list[exp.Expr] = field(default_factory=list)

    def over(self, node: exp.Expr) -> exp.Expr:
        """Return an expression with columns in the place of keys and aggregates; raises NotKeptError."""
        if is_aggregate_call(node):
            if node not in self.aggregates:
                self.aggregates.append(node.copy())
            return exp.column(f"_ls_a{self.aggregates.index(node) + 1}")
        key = self.core.key(node)
        if key is not None and key.resolved in self.keys:
            return exp.column(f"{_KEY}{self.keys.index(key.resolved) + 1}")
        if isinstance(node, (exp.Query, exp.Window)):
            raise NotKeptError(f"{node.sql('spark')} is more than keys and aggregates")
        if isinstance(node, exp.Column):
            return self._below(node)
        found = node.copy()
        for child in [*found.iter_expressions()]:
            child.replace(self.over(child))
        return found

    def _below(self, column: exp.Column) -> exp.Expr:
        """Return a column that is the name of a result; what refers to itself is none."""
        item = meant(column, self.select)
        if item is column or column in self._meant:
            raise NotKeptError(f"{column.sql('spark')} is no key")
        self._meant.append(column)
        found = self.over(item)
        self._meant.remove(column)
        return exp.Paren(this=found)


def _inner(node: exp.Expr) -> exp.Expr:
    return cast("exp.Expr", node.this) if isinstance(node, exp.Filter) else node


def _counts(node: exp.Expr) -> bool:
    return isinstance(_inner(node), (exp.Count, exp.CountIf))


def _adds_up(node: exp.Expr) -> bool:
    return isinstance(_inner(node), (exp.Sum, exp.Avg))


def _is_mean(node: exp.Expr) -> bool:
    return isinstance(_inner(node), exp.Avg)


def _value(node: exp.Expr) -> exp.Expr:
    return cast("exp.Expr", _inner(node).this)


def _mean_of(value: str) -> str:
    """Return the name under which :meth:`Keeping.typed_sql` gives the mean of a value, by that one's."""
    return value.replace(_VALUE, _MEAN)


@dataclass
class _Typing:
    """The parts of a query's aggregates, by the types of what is added up."""

    keeping: Keeping
    types: Mapping[str, str]
    parts: dict[str, Part] = field(default_factory=dict)
    means: list[Mean] = field(default_factory=list)

    def kept(self) -> Kept:
        self._part(_ROWS, "bigint")
        for number, key in enumerate(self.keeping.keys, 1):
            kind = self.types.get(f"{_KEY}{number}", "")
            if not COMPARED.match(kind):
                raise NotKeptError(f"{key} is of type {kind}")
            untold = self.keeping.folders if may_be_text(kind) else frozenset[int]()
            self.parts[key] = Part(f"{_KEY}{number}", key, kind, self._shown(key, untold), is_key=True)
        aggregated, others = {}, []
        for number, node in enumerate(self.keeping.aggregates, 1):
            try:
                aggregated[f"_ls_a{number}"] = self._result(node)
            except NotKeptError as why:
                others.append(str(why))
        if others:
            raise NotKeptError(f"{', '.join(others)} cannot be taken back exactly")

        def put(node: exp.Expr) -> exp.Expr:
            known = isinstance(node, exp.Column) and node.name in aggregated
            return exp.Var(this=f"({aggregated[node.name]})") if known else node

        results = tuple(str(node.copy().transform(put).sql("spark")) for node in self.keeping.results)
        having = self.keeping.having
        condition = "" if having is None else str(having.copy().transform(put).sql("spark"))
        return Kept(self.keeping, tuple(self.parts.values()), results, condition, tuple(self.means))

    def _shown(self, sql: str, untold: frozenset[int] = frozenset()) -> int:
        """Return the number of the result column that is just that, none of the ``untold``; 0 for none."""
        items = [item.unalias().sql("spark") for item in self.keeping.select.selects]
        items = [_ROWS if item == "COUNT(*)" else item for item in items]
        same = (number for number, item in enumerate(items, 1) if item == sql and number not in untold)
        return next(same, 0)

    def _part(self, sql: str, kind: str, most: int | None = None, count: str = "") -> str:
        """Have a part kept, and return its name; of two bounds the tighter one counts."""
        number = sum(not part.is_key for part in self.parts.values()) + 1
        known = self.parts.get(sql) or Part(f"{_PART}{number}", sql, kind, self._shown(sql), count=count)
        bounds = [one for one in (known.most, most) if one is not None]
        self.parts[sql] = replace(known, most=min(bounds, default=None))
        return known.name

    def _result(self, node: exp.Expr) -> str:
        """Return SQL of an aggregate made of parts; raises NotKeptError."""
        inner = _inner(node)
        kept = isinstance(inner, (exp.Count, exp.CountIf, exp.Sum, exp.Avg))
        if not kept or inner.find(exp.Distinct) or inner.find(exp.Query):
            raise NotKeptError(str(node.sql("spark")))
        condition = f" FILTER({node.expression.sql('spark').strip()})" if isinstance(node, exp.Filter) else ""
        if _counts(node):
            every = isinstance(inner, exp.Count) and isinstance(inner.this, (exp.Star, exp.Literal))
            counted = _ROWS if every and not inner.expressions else inner.sql("spark")
            return self._part(f"{counted}{condition}", "bigint")
        return self._added(node, condition)

    def _added(self, node: exp.Expr, condition: str) -> str:
        value = _value(node)
        names = {expression: name for name, expression in self.keeping.values.items()}
        kind, sql = self.types.get(names[value], ""), value.sql("spark")
        decimals = _DECIMAL.fullmatch(kind)
        if decimals is not None and int(decimals[1]) + _WIDENED <= _WIDEST:
            count = self._part(f"COUNT({sql}){condition}", "bigint", 10**_WIDENED)
            total = f"decimal({int(decimals[1]) + _WIDENED},{decimals[2]})"
            added = self._part(f"SUM({sql}){condition}", total, count=count)
            if not _is_mean(node):
                return f"CASE WHEN {count} > 0L THEN {added} END"
            return self._mean(node, self.types.get(_mean_of(names[value]), ""), added, count)
        if kind not in _WHOLE:
            raise NotKeptError(f"{node.sql('spark')} of a {kind.upper()}")
        within = f"({sql}) BETWEEN {-_FITS}L AND {_FITS - 1}L"
        fitting = f"CASE WHEN {within} THEN CAST({sql} AS BIGINT) END"
        count = self._part(f"COUNT({sql}){condition}", "bigint", _FITS)
        total = self._part(f"SUM({fitting}){condition}", "bigint", count=count)
        self._part(f"COUNT(CASE WHEN NOT ({within}) THEN 1 END){condition}", "bigint", 0)
        if not _is_mean(node):
            return f"CASE WHEN {count} > 0L THEN {total} END"
        self._part(f"SUM(ABS({fitting})){condition}", "bigint", _EXACT, count)
        return f"CASE WHEN {count} > 0L THEN CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE) END"

    def _mean(self, node: exp.Expr, kind: str, total: str, count: str) -> str:
        """Have a mean of decimals made, and return its name; raises NotKeptError for no known type."""
        found = _DECIMAL.fullmatch(kind)
        if found is None:
            raise NotKeptError(f"{node.sql('spark')}, which was not when the view was created,")
        name = f"{_MEAN}{len(self.means) + 1}"
        self.means.append(Mean(name, int(found[1]), int(found[2]), total, count))
        return name
