"""Functions of an event and of those before it (eKuiper's analytic ones), as SQL over the events of a tick.

Of the events before the tick it needs those alone that a function may still look at: the last ones of each
key that count for it. Each has the results that it had, and what functions have summed up by then.

Events come as :mod:`lakestream.triggers.assign` has them; ``_ls_waited`` is false for one of those before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, parse_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEPT = "_ls_kept"
"""The column that says whether a function may still look at an event."""

_ORDERED = "ORDER BY _ls_waited, _ls_c, _ls_ts, _ls_v, _ls_p, _ls_h"
"""How events follow one another: by when they were released, then by time, then as they came."""

_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


@dataclass(frozen=True)
class AnalyticFunction(ABC):
    """One call: SQL of what it looks at in an event, and the column of its results."""

    column: str
    arguments: tuple[str, ...]
    keys: tuple[str, ...] = ()
    when: str = ""
    ignores_null: bool = True
    offset: int = 1

    @abstractmethod
    def steps(self, *, remembers: bool) -> list[dict[str, str]]:
        """Return SQL by column, in steps of which each may use the columns of those before it.

        The last one gives the columns that a new event has of it. ``remembers``: there are events before.
        """

    @property
    @abstractmethod
    def kept(self) -> str:
        """SQL that holds for an event that the function may still look at, over its steps."""

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns of what it has summed up, beside its result."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an event keeps of it; the last one says whether the function may need it again."""
        return (self.column, *self.summed, self.own("kept"))

    gives: ClassVar[str] = ""
    """The type of its results; empty where it is that of its values."""
    adds: ClassVar[bool] = False
    """Whether its values are to be numbers."""

    @property
    def values(self) -> tuple[str, ...]:
        """SQL of the values that it looks at in an event."""
        return self.arguments

    @property
    def conditions(self) -> tuple[str, ...]:
        """SQL of the conditions that it looks at in an event."""
        return (self.when,) if self.when else ()

    # --- words of its SQL ---

    @property
    def counts(self) -> str:
        """SQL that holds for an event that counts for it."""
        return f"coalesce({self.when}, false)" if self.when else "true"

    def own(self, name: str) -> str:
        """Return a column of its own."""
        return f"{self.column}_{name}"

    def over(self, frame: str = "", *more: str, ordered: bool = True) -> str:
        """Return OVER by its key, and what else events are told apart by."""
        by = ", ".join([*(f"({key})" for key in self.keys), *more])
        parts = [f"PARTITION BY {by}" if by else "", _ORDERED if ordered else "", frame]
        return f"OVER ({' '.join(filter(None, parts))})"

    def among_last(self, value: str, count: int) -> tuple[dict[str, str], str]:
        """Return the step and the condition that tell the last events of each key that have some value."""
        before, all_there = self.own(f"{value}_before"), self.own(f"{value}_there")
        column = self.own(value)
        step = {
            before: f"count({column}) {self.over(_SO_FAR)}",
            all_there: f"count({column}) {self.over(ordered=False)}",
        }
        return step, f"({column} IS NOT NULL AND {all_there} - {before} < {count}L)"


class _Compared(AnalyticFunction):
    """A function that holds each argument against the last one that counted."""

    @property
    def _values(self) -> dict[str, str]:
        """Names of what is held against the last one, and SQL of it."""
        return {f"v{number}": sql for number, sql in enumerate(self.arguments, 1)}

    @property
    def _read(self) -> list[dict[str, str]]:
        has = [f"({sql}) IS NOT NULL" if self.ignores_null else "true" for sql in self._values.values()]
        values = {
            self.own(name): f"CASE WHEN {self.counts} AND {one} THEN struct(({sql}) AS v) END"
            for one, (name, sql) in zip(has, self._values.items(), strict=True)
        }
        before = {
            self.own(f"{name}_last"): f"last_value({self.own(name)}) IGNORE NULLS {self.over(_BEFORE)}"
            for name in self._values
        }
        for name in self._values:
            before |= self.among_last(name, 1)[0]
        return [values, before]

    @property
    def kept(self) -> str:
        """SQL that holds for the last event of each argument."""
        return " OR ".join(self.among_last(name, 1)[1] for name in self._values)

    def _differs(self, name: str) -> str:
        now, last = self.own(name), self.own(f"{name}_last")
        return f"({now} IS NOT NULL AND NOT ({now}.v <=> {last}.v))"


class ChangedCol(_Compared):
    """``changed_col(ignoreNull, x)``: x where it is another one than before, else NULL."""

    def steps(self, *, remembers: bool) -> list[dict[str, str]]:  # noqa: ARG002
        """Return them: the result is the value where it differs."""
        return [*self._read, {self.column: f"CASE WHEN {self._differs('v1')} THEN {self.arguments[0]} END"}]


class HadChanged(_Compared):
    """``had_changed(ignoreNull, x, …)``: whether one of its arguments is another one than before."""

    gives = "boolean"

    def steps(self, *, remembers: bool) -> list[dict[str, str]]:  # noqa: ARG002
        """Return them: the result is whether one differs."""
        return [*self._read, {self.column: " OR ".join(map(self._differs, self._values))}]


class Latest(AnalyticFunction):
    """``latest(x[, default])``: the last value that is not NULL, with the event's own."""

    def steps(self, *, remembers: bool) -> list[dict[str, str]]:  # noqa: ARG002
        """Return them: the result is the last value so far."""
        value, *default = self.arguments
        read = {self.own("v"): f"CASE WHEN {self.counts} THEN {value} END"}
        so_far = f"last_value({self.own('v')}) IGNORE NULLS {self.over(_SO_FAR)}"
        last = {self.own("last"): so_far, **self.among_last("v", 1)[0]}
        found = f"coalesce({self.own('last')}, {default[0]})" if default else self.own("last")
        return [read, last, {self.column: found}]

    @property
    def kept(self) -> str:
        """SQL that holds for the last event with a value."""
        return self.among_last("v", 1)[1]


class Lag(AnalyticFunction):
    """``lag(x[, offset[, default[, ignoreNull]]])``: x of so many events before; its first default."""

    @property
    def _default(self) -> str:
        return self.arguments[1] if len(self.arguments) > 1 else "NULL"

    @property
    def _has_first(self) -> bool:
        return not isinstance(parse_one(self._default, dialect="spark"), exp.Literal | exp.Null | exp.Boolean)

    def steps(self, *, remembers: bool) -> list[dict[str, str]]:  # noqa: ARG002
        """Return them: of the last event that counted, the result is the one so many before it."""
        value, own = self.arguments[0], self.own("v")
        has = f" AND ({value}) IS NOT NULL" if self.ignores_null else ""
        read = {own: f"CASE WHEN {self.counts}{has} THEN struct(({value}) AS v) END"}
        back = f"lag({own}, {self.offset - 1}) {self.over('', f'{own} IS NULL')}" if self.offset > 1 else own
        found = {self.own("back"): f"CASE WHEN {own} IS NOT NULL THEN struct({back} AS v) END"}
        last = {
            self.own("last"): f"last_value({self.own('back')}) IGNORE NULLS {self.over(_BEFORE)}",
            **self.among_last("v", self.offset)[0],
        }
        default = self._default
        if self._has_first:
            last[self.own("number")] = f"row_number() {self.over()}"
            last[self.own("first")] = f"first_value({default}) {self.over(_SO_FAR)}"
            default = self.own("first")
        there = f"{self.own('last')}.v"
        result = f"CASE WHEN {there} IS NULL THEN {default} ELSE {there}.v END"
        return [read, found, last, {self.column: result}]

    @property
    def kept(self) -> str:
        """SQL that holds for the last events with a value, and the first one for its default."""
        first = f" OR {self.own('number')} = 1" if self._has_first else ""
        return f"{self.among_last('v', self.offset)[1]}{first}"


class _Summed(AnalyticFunction):
    """``acc_…(x[, begin, reset])``: an aggregate of all values so far.

    With conditions from an event with ``begin`` up to one with ``reset``, which counts too; outside of that
    it is 0, and so it is before the first value. NULL counts for nothing.
    """

    sums: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """What is summed up: a name, the aggregate, and SQL of a value of ``{x}``."""
    result: ClassVar[str] = "coalesce({s}, 0D)"
    none: ClassVar[str] = "0D"
    gives = "double"
    adds = True

    @property
    def values(self) -> tuple[str, ...]:
        """The value that is summed up."""
        return self.arguments[:1]

    @property
    def conditions(self) -> tuple[str, ...]:
        """WHEN, where it begins and where it is reset."""
        return (*super().conditions, *self.arguments[1:])

    @property
    def summed(self) -> tuple[str, ...]:
        """The sums, and whether it has begun."""
        return (*(self.own(name) for name, _, _ in self.sums), *([self.own("open")] if self._begins else []))

    @property
    def _begins(self) -> bool:
        return len(self.arguments) > 1

    def steps(self, *, remembers: bool) -> list[dict[str, str]]:
        """Return them: the sums go on from those of the last event before."""
        ends = {self.own("ends"): f"lead(_ls_v) {self.over()} IS NULL"}
        if remembers:
            ends[self.own("base")] = f"NOT _ls_waited AND coalesce(lead(_ls_waited) {self.over()}, true)"
        return [ends, *(self._spans(remembers) if self._begins else []), *self._sums(remembers)]

    def _known(self, name: str, new: str, *, remembers: bool) -> str:
        """Return SQL of what was summed up, at the last event before, and of what a new one brings."""
        return f"CASE WHEN {self.own('base')} THEN {self.own(name)} ELSE {new} END" if remembers else new

    def _spans(self, remembers: bool) -> list[dict[str, str]]:
        """Return the steps that find out where it begins and is reset: a span of events has a number."""
        begin, reset = (f"_ls_waited AND coalesce({sql}, false)" for sql in self.arguments[1:])
        turn, was = self.own("turn"), self.own("was")
        turns = f"CASE WHEN {reset} THEN false WHEN {begin} THEN true END"
        left = f"coalesce(last_value({turn}) IGNORE NULLS {self.over(_SO_FAR)}, false)"
        return [
            {turn: self._known("open", turns, remembers=remembers)},
            {was: f"coalesce(last_value({turn}) IGNORE NULLS {self.over(_BEFORE)}, false)"},
            {
                self.own("number"): f"count_if({begin} AND NOT {was}) {self.over(_SO_FAR)}",
                self.own("on"): f"(_ls_waited AND {was}) OR ({begin})",
                self.own("left"): left,
            },
        ]

    def _sums(self, remembers: bool) -> list[dict[str, str]]:
        on, spans = (self.own("on"), [self.own("number")]) if self._begins else ("_ls_waited", [])
        values, sums = {}, {}
        for name, function, value in self.sums:
            new = f"CASE WHEN {on} AND {self.counts} THEN {value.format(x=f'({self.arguments[0]})')} END"
            values[self.own(f"{name}_of")] = self._known(name, new, remembers=remembers)
            sums[self.own(f"{name}_now")] = (
                f"{function}({self.own(f'{name}_of')}) {self.over(_SO_FAR, *spans)}"
            )
        now = {name: self.own(f"{name}_now") for name, _, _ in self.sums}
        last = {self.column: f"CASE WHEN {on} THEN {self.result.format(**now)} ELSE {self.none} END"}
        last |= {self.own(name): sql for name, sql in now.items()}
        if self._begins:
            last[self.own("open")] = self.own("left")
        return [values, sums, last]

    @property
    def kept(self) -> str:
        """SQL that holds for the last event."""
        return self.own("ends")


class AccCount(_Summed):
    """``acc_count(x)``: how many values there were."""

    sums = (("n", "sum", "CASE WHEN {x} IS NOT NULL THEN 1L END"),)
    result = "coalesce({n}, 0L)"
    none = "0L"
    gives = "bigint"
    adds = False


class AccSum(_Summed):
    """``acc_sum(x)``: their sum, a double."""

    sums = (("s", "sum", "CAST({x} AS DOUBLE)"),)


class AccMax(_Summed):
    """``acc_max(x)``: the largest one, a double."""

    sums = (("s", "max", "CAST({x} AS DOUBLE)"),)


class AccMin(_Summed):
    """``acc_min(x)``: the smallest one, a double."""

    sums = (("s", "min", "CAST({x} AS DOUBLE)"),)


class AccAvg(_Summed):
    """``acc_avg(x)``: their mean."""

    sums = (AccSum.sums[0], AccCount.sums[0])
    result = "CASE WHEN {n} > 0L THEN {s} / {n} ELSE 0D END"


FUNCTIONS: dict[str, type[AnalyticFunction]] = {
    "lag": Lag,
    "latest": Latest,
    "changed_col": ChangedCol,
    "had_changed": HadChanged,
    "acc_count": AccCount,
    "acc_sum": AccSum,
    "acc_max": AccMax,
    "acc_min": AccMin,
    "acc_avg": AccAvg,
}
"""The functions that there are, by their names."""


@dataclass(frozen=True)
class Analytic:
    """The functions of a stream, each behind those that it is made of; ``condition`` is SQL of FILTER."""

    functions: tuple[AnalyticFunction, ...]
    condition: str = ""

    @property
    def results(self) -> tuple[str, ...]:
        """The columns of their results."""
        return tuple(function.column for function in self.functions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an event keeps of them."""
        return tuple(name for function in self.functions for name in function.columns)

    @cached_property
    def _levels(self) -> list[list[AnalyticFunction]]:
        """The functions, each in a level behind those whose results it looks at."""
        levels: list[list[AnalyticFunction]] = []
        for function in self.functions:
            names = _columns_in((*function.arguments, *function.keys, *function.conditions))
            below = [
                number for number, level in enumerate(levels, 1) if names & {one.column for one in level}
            ]
            number = max(below, default=0)
            levels += [[]] if number == len(levels) else []
            levels[number].append(function)
        return levels

    def sql(self, events: str, columns: Sequence[str], *, remembers: bool) -> str:
        """Return SQL of events with the results, and whether functions may still look at them.

        ``columns`` are those of the events beside what they keep of the functions; ``remembers``: some of
        them were before, and have that.
        """
        has = [*columns, *(self.columns if remembers else ())]
        for level in self._levels:
            for step in _in_step([_results_named(one, remembers=remembers) for one in level]):
                events = (
                    f"SELECT *, {', '.join(f'{sql} AS {name}' for name, sql in step.items())} FROM ({events})"
                )
            own = [name for one in level for name in one.columns]
            left = [name for name in has if name not in own]
            found = [f"{name}_is AS {name}" for name in own]
            events = f"SELECT {', '.join([*left, *found])} FROM ({events})"
            has = [*left, *own]
        kept = " OR ".join(one.own("kept") for one in self.functions)
        return f"SELECT {', '.join(has)}, ({kept}) AS {KEPT} FROM ({events})"

    def touched(self, events: str, new: str) -> str:
        """Return SQL of events with ``_ls_touched``: whether functions look at them, as new ones come.

        ``new`` is the condition of these. Of those before they need the ones that they keep of the same keys,
        where a key is made of results of all keys.
        """
        by_keys: dict[tuple[str, ...], list[str]] = {}
        for one in self.functions:
            keys = () if _columns_in(one.keys) & {*self.results} else one.keys
            by_keys.setdefault(keys, []).append(one.own("kept"))
        joins, found = "", [f"({new})"]
        for keys, kept in by_keys.items():
            has = f"({' OR '.join(f'coalesce(e.{name}, false)' for name in kept)})"
            if keys:
                other = f"t{len(found)}"
                named = {f"_ls_key{len(found)}_{number}": key for number, key in enumerate(keys)}
                listed = ", ".join(f"{key} AS {name}" for name, key in named.items())
                events = f"SELECT *, {listed} FROM ({events})"
                of_new = f"SELECT DISTINCT {', '.join(named)}, true AS _ls_there FROM ({events}) WHERE {new}"
                equal = " AND ".join(f"e.{name} <=> {other}.{name}" for name in named)
                joins += f" LEFT JOIN ({of_new}) {other} ON {equal}"
                has += f" AND {other}._ls_there IS NOT NULL"
            found.append(f"({has})")
        return f"SELECT e.*, {' OR '.join(found)} AS _ls_touched FROM ({events}) e{joins}"


def _columns_in(expressions: Iterable[str]) -> set[str]:
    trees = [parse_one(sql, dialect="spark") for sql in expressions]
    return {column.name for tree in trees for column in tree.find_all(exp.Column)}


def _results_named(function: AnalyticFunction, *, remembers: bool) -> list[dict[str, str]]:
    """Return the steps of a function, its results under names of their own; those of before stay.

    What it did not need of them any more it does not need again.
    """
    *steps, last = function.steps(remembers=remembers)
    now = {
        name: f"CASE WHEN _ls_waited THEN {sql} ELSE {name} END" if remembers else sql
        for name, sql in last.items()
    }
    kept = function.own("kept")
    now[kept] = f"(_ls_waited OR {kept}) AND ({function.kept})" if remembers else function.kept
    return [*steps, {f"{name}_is": sql for name, sql in now.items()}]


def _in_step(functions: list[list[dict[str, str]]]) -> list[dict[str, str]]:
    """Return the steps of several functions as one list, in which all end together."""
    longest = max(map(len, functions))
    padded = [[*[{}] * (longest - len(steps)), *steps] for steps in functions]
    return [{name: sql for step in side for name, sql in step.items()} for side in zip(*padded, strict=True)]
