"""Windows that are cut by what rows there are: SESSION, STATE, EVENT and COUNT (TDengine A4).

A cut goes over the rows of a group from one instant on, in order of time. It begins either where an
open window begins, or at the start of a window that no change has touched: both give the windows that a
cut over all rows gives. Windows are ``[low, high)`` in microseconds, ``high`` one after the last row, and
are numbered by ``low``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.language.model import CountTrigger, SessionTrigger, StateTrigger
from lakestream.triggers.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.model import RowTrigger

_BY_TIME = "OVER (PARTITION BY gid ORDER BY ts)"
_SO_FAR = "OVER (PARTITION BY gid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
_FROM_HERE = "OVER (PARTITION BY gid ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"


DETAILS = ("opens_with", "closes_with")
"""What a window is told of with, as JSON objects: columns of the windows of a cut that ``tells``."""

NO_SEEDS = "SELECT 0L AS gid, 0L AS counted, array(0L) AS starts WHERE false"
"""SQL of the seeds of a cut that begins with nothing open."""


@dataclass(frozen=True)
class Cut(ABC):
    """How the rows of a group are cut into windows; ``true_for`` is the least length (µs) to fire.

    ``tells``: the windows come with what events of them say beside their times.
    ``expressions`` are SQL over a source row, which the relations to cut have as x1, x2, ….
    """

    expressions: tuple[str, ...] = ()
    true_for: int = 0
    tells: bool = False

    counts = False
    """True where a cut goes on by what was counted; else it begins again where an open window began."""

    @abstractmethod
    def windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of all windows: gid, low, high, closed BOOLEAN, behind BIGINT.

        ``rows`` is SQL of (gid BIGINT, ts BIGINT µs, x1, x2, …), ``seeds`` of (gid, counted BIGINT,
        starts ARRAY<BIGINT>): what the open windows of a counting cut have had before these rows.
        ``behind`` is how many rows were counted since the window began (NULL where nothing is counted).
        """

    def details(self, of_opening: str = "", of_closing: str = "") -> str:
        """Return the select items of what is told of a window, NULL for nothing; none where nothing is."""
        if not self.tells:
            return ""
        told = (sql or "CAST(NULL AS STRING)" for sql in (of_opening, of_closing))
        return "".join(f", {sql} AS {name}" for sql, name in zip(told, DETAILS, strict=True))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the expressions in the relations to cut."""
        return tuple(f"x{number}" for number, _ in enumerate(self.expressions, 1))

    def sql(self, rows: str, seeds: str) -> str:
        """Return :meth:`windows_sql` with counts BOOLEAN: it is as long as TRUE_FOR asks for."""
        return (
            f"SELECT *, high - 1 - low >= {self.true_for}L AS counts FROM ({self.windows_sql(rows, seeds)})"
        )


def _runs(rows: str, begins: str, value: str = "", details: str = "") -> str:
    """Return SQL of runs of rows; ``begins`` is true for the first row of each but a group's first.

    ``details`` are select items over the runs, in which the ``value`` of a run's rows is called ``state``.
    """
    carried, state = (f", {value} AS state", ", any_value(state) AS state") if value else ("", "")
    name = ", state" if value else ""
    marked = f"SELECT gid, ts{carried}, CASE WHEN {begins} THEN 1L ELSE 0L END AS cut FROM ({rows})"
    numbered = f"SELECT gid, ts{name}, sum(cut) {_SO_FAR} AS run FROM ({marked})"
    runs = f"SELECT gid, run, min(ts) AS low, max(ts) + 1 AS high{state} FROM ({numbered}) GROUP BY gid, run"
    closed = "run < max(run) OVER (PARTITION BY gid)"
    return f"SELECT gid, low, high, {closed} AS closed, CAST(NULL AS BIGINT) AS behind{details} FROM ({runs})"


def _json(**fields: str) -> str:
    """Return SQL of a JSON object with a field of each SQL, NULL ones too."""
    listed = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    return f"to_json(named_struct({listed}), map('ignoreNullFields', 'false'))"


@dataclass(frozen=True)
class SessionCut(Cut):
    """Rows at most ``gap`` (µs) apart; a row further on closes the session."""

    gap: int = 0

    def windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the sessions."""
        del seeds
        return _runs(rows, f"ts - lag(ts) {_BY_TIME} > {self.gap}L", details=self.details())


@dataclass(frozen=True)
class StateCut(Cut):
    """Runs of equal x1; NULL between equal values is part of the run, elsewhere of none."""

    def windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the runs."""
        del seeds
        known = f"SELECT gid, ts, x1 FROM ({rows}) WHERE x1 IS NOT NULL"
        beside = "(state) OVER (PARTITION BY gid ORDER BY low)"
        opening = _json(prevState=f"lag{beside}", curState="state")
        closing = _json(curState="state", nextState=f"lead{beside}")
        value = "x1" if self.tells else ""
        return _runs(known, f"x1 <> lag(x1) {_BY_TIME}", value, self.details(opening, closing))


@dataclass(frozen=True)
class EventCut(Cut):
    """From the first row with x1 to the first one from there on with x2, both included.

    Where windows are told of, x3 and x4 are JSON objects of what the conditions look at in a row.
    """

    def windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the windows: starts that share their end are one."""
        del seeds
        seen = first = ""
        if self.tells:
            seen = f", x3, min(CASE WHEN x2 THEN struct(ts, x4) END) {_FROM_HERE} AS met"
            first = ", min_by(x3, ts) AS opens, any_value(met.x4) AS closes"
        ends = f"SELECT gid, ts, x1, min(CASE WHEN x2 THEN ts END) {_FROM_HERE} AS end{seen} FROM ({rows})"
        bounds = "min(ts) AS low, end, max(ts) AS last"
        starts = f"SELECT gid, {bounds}{first} FROM ({ends}) WHERE x1 GROUP BY gid, end"
        return (
            f"SELECT gid, low, coalesce(end, last) + 1 AS high, end IS NOT NULL AS closed, "
            f"CAST(NULL AS BIGINT) AS behind{self.details(_condition('opens'), _condition('closes'))} "
            f"FROM ({starts})"
        )


def _condition(values: str) -> str:
    """Return SQL of the condition that a row met; there is one, which has the number 0."""
    opening = '{"triggerCondition":{"conditionIndex":0,"fieldValue":'
    return f"concat('{opening}', {values}, '}}}}')"


@dataclass(frozen=True)
class CountCut(Cut):
    """``count`` rows with x1, a window every ``step`` of them."""

    count: int = 1
    step: int = 1

    counts = True

    def windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the windows; the first row begins one."""
        ranked = (
            f"SELECT r.gid, r.ts, coalesce(s.counted, 0L) + row_number() OVER (PARTITION BY r.gid "
            f"ORDER BY r.ts) - 1 AS rank FROM ({rows}) r LEFT JOIN ({seeds}) s ON s.gid = r.gid WHERE r.x1"
        )
        starts = (
            f"SELECT gid, rank, ts AS low FROM ({ranked}) WHERE rank % {self.step} = 0 UNION ALL "
            f"SELECT gid, {self.step}L * at, low FROM "
            f"(SELECT gid, posexplode(starts) AS (at, low) FROM ({seeds}))"
        )
        totals = (
            f"SELECT gid, max(rank) + 1 AS total, max(ts) AS newest "
            f"FROM (SELECT gid, rank, ts FROM ({ranked}) "
            f"UNION ALL SELECT gid, counted - 1, NULL FROM ({seeds})) GROUP BY gid"
        )
        return (
            f"SELECT b.gid, b.low, coalesce(e.ts, greatest(t.newest, b.low)) + 1 AS high, "
            f"e.ts IS NOT NULL AS closed, t.total - b.rank AS behind{self.details()} FROM ({starts}) b "
            f"JOIN ({totals}) t ON t.gid = b.gid "
            f"LEFT JOIN ({ranked}) e ON e.gid = b.gid AND e.rank = b.rank + {self.count - 1}"
        )


class SpanGrid(Grid):
    """The place of a grid for windows that time alone does not give: they are numbered by their start."""

    depends_on_first = True

    def __init__(self, *, disjoint: bool) -> None:
        self.disjoint_spans = disjoint

    def low(self, k: str, first: str) -> str:
        """Return the number."""
        del first
        return k

    def high(self, k: str, first: str) -> str:
        """Not known by the number."""
        raise NotImplementedError(f"the end of {k} from {first}")

    def ended(self, x: str, first: str) -> str:
        """Not known by an instant."""
        raise NotImplementedError(f"the windows before {x} from {first}")

    def begun(self, x: str, first: str) -> str:
        """Not known by an instant."""
        raise NotImplementedError(f"the windows from {x} from {first}")

    def placeholders(self, k: str, first: str) -> dict[str, str]:
        """Not known by the number."""
        raise NotImplementedError(f"the placeholders of {k} from {first}")


def cut_of(trigger: RowTrigger, expressions: Sequence[str], *, tells: bool = False) -> Cut:
    """Return the cut of a trigger; ``expressions`` are SQL of what it looks at in a row, in its order."""
    listed = tuple(expressions)
    if isinstance(trigger, SessionTrigger):
        return SessionCut(gap=trigger.gap.micros, tells=tells)
    if isinstance(trigger, CountTrigger):
        return CountCut(listed, tells=tells, count=trigger.count, step=trigger.step)
    true_for = trigger.true_for.micros if trigger.true_for else 0
    return (StateCut if isinstance(trigger, StateTrigger) else EventCut)(listed, true_for, tells)
