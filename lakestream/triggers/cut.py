"""Windows that are cut by what rows there are: SESSION, STATE, EVENT and COUNT (TDengine A4).

A cut goes over the rows of a group from one instant on, in order of time; rows of equal time in the order
of the rest of the key, and then of what the cut looks at: rows that agree in that are interchangeable. It
begins either where an open window begins, or at the start of a window that no change has touched: both
give the windows that a cut over all rows gives. Windows are ``[low, high)`` in microseconds, ``high`` one
after the last row, and are numbered by ``low``: of those that begin at one instant the last one counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.language.model import CountTrigger, SessionTrigger, StateRule, StateTrigger
from lakestream.triggers.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.model import RowTrigger, TrueFor

DETAILS = ("opens_with", "closes_with")
"""What the events of a window carry, as JSON objects: columns of the windows of a cut that ``emits``."""

_BESIDE = "OVER (PARTITION BY gid ORDER BY run)"
"""SQL of the windows of a group in order, over windows (gid, run)."""

FORWARDS, BACKWARDS = 1, 2
"""EXTEND(1), and EXTEND(2)."""

APART_US = 1_000
"""How far apart the end of a window and the start of the next one are that reach to each other: TDengine's
millisecond."""

NO_SEEDS = "SELECT 0L AS gid, 0L AS counted, array(0L) AS starts, 0L AS safe WHERE false"
"""SQL of the seeds of a cut that begins with nothing open."""


@dataclass(frozen=True)
class Cut(ABC):
    """How the rows of a group are cut into windows; ``true_for`` is what they are at least to fire.

    ``expressions`` are SQL over a source row, which the relations to cut have as _ls_x1, _ls_x2, …;
    ``ties`` is SQL over one that puts rows of equal time in order, there as _ls_o1, _ls_o2, ….
    ``emits``: the windows come with what events of them say beside their times.
    """

    expressions: tuple[str, ...] = ()
    true_for: TrueFor | None = None
    emits: bool = False
    ties: tuple[str, ...] = ()

    counts = False
    """True where a cut goes on by what was counted; else it begins again where an open window began."""
    looks_inside = False
    """True where a row between a window's first and last may end it."""
    ends_by_row = False
    """True where a row of its own is the last of a window; else the first row of the next one tells."""
    begins_apart = False
    """True where what an open window began with is not told by rows from there on: it is known, or counted.

    A row behind the watermark then always counts as late, since earlier windows may be others with it.
    """
    size = 1
    """After how many counted rows a window begins anew."""

    @property
    def is_disjoint(self) -> bool:
        """Whether no row is in two windows."""
        return True

    @abstractmethod
    def runs_sql(self, rows: str) -> str:
        """Return the SQL of the rows, each with the number of its window.

        ``rows`` is SQL of (_ls_gid BIGINT, _ls_ts BIGINT µs, _ls_x1, …, _ls_counted BIGINT: what the open
        window of a counting cut has had, _ls_is_new BOOLEAN: not one of those), and any other column. Added
        are _ls_run BIGINT (NULL: in no window), _ls_ends BOOLEAN, _ls_count BIGINT (rows counted so far)
        and _ls_tied BOOLEAN (another row has its time).
        """

    def sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of all windows: gid, low, high, behind BIGINT, closed, shows, fires, counts BOOLEAN.

        ``rows`` is SQL of (_ls_gid BIGINT, _ls_ts BIGINT µs, _ls_mark BIGINT µs, _ls_known BIGINT µs: where
        the first window begins, NULL: with its first row, _ls_x1, …), ``seeds`` of (gid, counted BIGINT,
        starts ARRAY<BIGINT>, safe BIGINT µs): what the open windows of a counting cut have had up to
        ``safe``: no row up to there is counted again. A window has closed when the row that closes it is not
        beyond the group's watermark.
        ``behind`` is how many rows were counted since the window began (NULL where nothing is counted),
        ``shows`` whether the window may be computed before it closes, ``counts`` whether it may when it
        closes, ``fires`` whether it ever may.
        """
        del seeds
        first = f"SELECT *, 0L AS _ls_counted, true AS _ls_is_new FROM ({rows})"
        looked_at = self.looked_at if self.emits else ""
        windows = (
            f"SELECT _ls_gid AS gid, _ls_run AS run, min(_ls_ts) AS low, max(_ls_ts) + 1 AS high, "
            f"bool_or(_ls_ends) AS ended, any_value(_ls_mark) AS mark, any_value(_ls_known) AS known, "
            f"count(*) AS held{self.told}{looked_at} "
            f"FROM ({self.runs_sql(first)}) WHERE _ls_run IS NOT NULL GROUP BY _ls_gid, _ls_run"
        )
        windows = self.placed(windows, "known")
        following = f"lead(low) {_BESIDE} AS following, lead({self.begun}) {_BESIDE} AS next"
        details = f", {', '.join(DETAILS)}" if self.emits else ""
        closed, shows = "coalesce(next <= mark, false)", "true"
        if self.ends_by_row:
            closed, shows = "ended AND high - 1 <= mark", "ended"
        return (
            f"SELECT gid, low, high, {closed} AS closed, {shows} AS shows, {self.fires} AS fires, "
            f"CAST(NULL AS BIGINT) AS behind, {self.lasts} AS counts{details} "
            f"FROM (SELECT *, {following}{self.details()} FROM ({windows})) "
            f"WHERE following IS NULL OR following > low"
        )

    fires = "true"
    """SQL of whether a window ever fires, over windows (what ``told`` names)."""
    begun = "low"
    """SQL of the instant that closes the window before, over windows (low, and what ``told`` names)."""
    told = ""
    """Aggregates over a window's rows that :attr:`fires` and :attr:`begun` need."""

    def placed(self, windows: str, known: str) -> str:
        """Return the SQL of windows (gid, run, low, high, …) with the bounds that they have by their rule.

        ``known`` is SQL over one of where a group's first window begins, NULL where its rows tell.
        """
        bounds = dict(self.bounds)
        if self.begins_apart:
            low = bounds.get("low", "low")
            bounds["low"] = f"CASE WHEN run = 0 THEN coalesce({known}, low) ELSE {low} END"
        listed = ", ".join(f"{sql} AS {name}" for name, sql in bounds.items())
        return f"SELECT * EXCEPT ({', '.join(bounds)}), {listed} FROM ({windows})" if bounds else windows

    @property
    def bounds(self) -> dict[str, str]:
        """SQL of the bounds, low or high, that are others than those of a window's rows."""
        return {}

    looked_at = ""
    """Aggregates over a window's rows that :meth:`details` need."""

    def details(self) -> str:
        """Return the select items of what a window's events carry (NULL: nothing), none without events."""
        none = "CAST(NULL AS STRING)"
        return self._details(none, none)

    def _details(self, opening: str, closing: str) -> str:
        listed = "".join(f", {sql} AS {name}" for sql, name in zip((opening, closing), DETAILS, strict=True))
        return listed if self.emits else ""

    @property
    def closed(self) -> str:
        """SQL of whether a window has closed, over (gid, run BIGINT, ended BOOLEAN), of rows up to it."""
        return "ended" if self.ends_by_row else "run < max(run) OVER (PARTITION BY gid)"

    @property
    def lasts(self) -> str:
        """SQL of whether a window may fire, by TRUE_FOR too, over windows (low, high, held: its rows)."""
        lasts = self.true_for.holds("high - 1 - low", "held") if self.true_for is not None else "true"
        return lasts if self.fires == "true" else f"{lasts} AND {self.fires}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the expressions in the relations to cut."""
        return tuple(f"_ls_x{number}" for number, _ in enumerate(self.expressions, 1))

    @property
    def looked_up(self) -> dict[str, str]:
        """SQL over a source row of the columns that relations to cut have besides, by their names there."""
        ties = {f"_ls_o{number}": sql for number, sql in enumerate(self.ties, 1)}
        return ties | dict(zip(self.columns, self.expressions, strict=True))

    @property
    def order(self) -> str:
        """SQL of the window in which a group's rows are in order, with no frame."""
        return f"PARTITION BY _ls_gid ORDER BY {', '.join(['_ls_ts', *self.looked_up])}"

    @property
    def by_order(self) -> str:
        """SQL of the same for functions that look at other rows."""
        return f"OVER ({self.order})"

    @property
    def so_far(self) -> str:
        """SQL of the same up to the row itself."""
        return f"OVER ({self.order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"

    @property
    def tied(self) -> str:
        """SQL of whether another row of the group has a row's time."""
        return f"_ls_ts IN (lag(_ls_ts) {self.by_order}, lead(_ls_ts) {self.by_order}) AS _ls_tied"

    def _runs(self, rows: str, begins: str, *, inside: str = "true", later: str = "", more: str = "") -> str:
        """Return SQL of runs of rows; ``begins`` is true for the first row of each but a group's first.

        ``later`` is SQL of what moves a row on to the next run, ``more`` are further select items.
        """
        number = f"count_if({begins}) {self.so_far}{later}"
        run = number if inside == "true" else f"CASE WHEN {inside} THEN {number} END"
        return f"SELECT *, {run} AS _ls_run, false AS _ls_ends, 0L AS _ls_count{more} FROM ({rows})"


def _json(**fields: str) -> str:
    """Return SQL of a JSON object with a field of each SQL, NULL ones too."""
    listed = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    return f"to_json(named_struct({listed}), map('ignoreNullFields', 'false'))"


@dataclass(frozen=True)
class SessionCut(Cut):
    """Rows at most ``gap`` (µs) apart; a row further on closes the session."""

    gap: int = 0

    def runs_sql(self, rows: str) -> str:
        """Return the SQL of the rows with their sessions."""
        found = f"SELECT *, lag(_ls_ts) {self.by_order} AS _ls_last, false AS _ls_tied FROM ({rows})"
        return self._runs(found, f"_ls_ts - _ls_last > {self.gap}L")


@dataclass(frozen=True)
class StateCut(Cut):
    """Runs of equal x1, x2, …, all of which are not NULL; other rows lie between two states.

    EXTEND(0): such rows belong to a run that goes on behind them. EXTEND(1): to the run before them, which
    ends just before the next one. EXTEND(2): to the run behind them, which begins just behind the last one.
    Runs of the zeroth state never fire.
    """

    rule: StateRule = field(default_factory=StateRule)

    looks_inside = True

    @property
    def begins_apart(self) -> bool:  # type: ignore[override]
        """Whether a window's start is told by the end of the one before."""
        return self.rule.extend == BACKWARDS

    @property
    def told(self) -> str:  # type: ignore[override]
        """Whether a window's state fires, and its first row that has one."""
        fires = ", bool_or(_ls_fires) AS may_fire" if self._tells_what_fires else ""
        return fires + (", min(_ls_stated) AS stated" if self.begins_apart else "")

    @property
    def begun(self) -> str:  # type: ignore[override]
        """Its first row that has a state."""
        return "stated" if self.begins_apart else "low"

    @property
    def fires(self) -> str:  # type: ignore[override]
        """Whether a window has a state, and not the zeroth."""
        return "may_fire" if self._tells_what_fires else "true"

    @property
    def _tells_what_fires(self) -> bool:
        """Whether there may be windows that never fire: of the zeroth state, or of none so far."""
        return self.begins_apart or self.rule.is_zeroth(self.columns) is not None

    @property
    def bounds(self) -> dict[str, str]:
        """Windows reach to each other, and no less far than their rows."""
        if self.rule.extend == FORWARDS:
            return {"high": f"greatest(high, coalesce(lead(low) {_BESIDE} - {APART_US - 1}L, high))"}
        if self.rule.extend == BACKWARDS:
            return {"low": f"least(low, coalesce(lag(high) {_BESIDE} + {APART_US - 1}L, low))"}
        return {}

    @property
    def looked_at(self) -> str:  # type: ignore[override]
        """The state of a window, as JSON where it has several."""
        values = [f"any_value({name}) FILTER (WHERE {self._is_stated})" for name in self.columns]
        return f", {values[0] if len(values) == 1 else _json_list(values)} AS state"

    def details(self) -> str:
        """Return the states before and after the border."""
        beside = f"(state) {_BESIDE}"
        write = _json if len(self.columns) == 1 else _json_of_lists
        opening = write(prevState=f"lag{beside}", curState="state")
        return self._details(opening, write(curState="state", nextState=f"lead{beside}"))

    @property
    def _is_stated(self) -> str:
        return " AND ".join(f"{name} IS NOT NULL" for name in self.columns)

    def runs_sql(self, rows: str) -> str:
        """Return the SQL of the rows with their runs, which are numbered by the changes up to them."""
        states = [f"_ls_s{number}" for number, _ in enumerate(self.columns, 1)]
        lasts, nexts = [f"{name}_last" for name in states], [f"{name}_next" for name in states]
        value = "{0}" if len(states) == 1 else f"CASE WHEN {self._is_stated} THEN {{0}} END"
        stated = ", ".join(
            f"{value.format(column)} AS {name}" for column, name in zip(self.columns, states, strict=True)
        )
        around = ", ".join(
            f"lag({name}) IGNORE NULLS {self.by_order} AS {last}, "
            f"lead({name}) IGNORE NULLS {self.by_order} AS {following}"
            for name, last, following in zip(states, lasts, nexts, strict=True)
        )
        found = f"SELECT *, {around}, {self.tied} FROM (SELECT *, {stated} FROM ({rows}))"
        changes, has_state = _differ(lasts, nexts), f"{states[0]} IS NOT NULL"
        inside = {
            0: f"{has_state} OR NOT coalesce({changes}, true)",
            FORWARDS: f"{has_state} OR {lasts[0]} IS NOT NULL",
            BACKWARDS: f"{has_state} OR {nexts[0]} IS NOT NULL OR {lasts[0]} IS NULL",
        }[self.rule.extend]
        more, later = "", ""
        if self.begins_apart:
            later = f" + CASE WHEN {has_state} OR NOT coalesce({changes}, false) THEN 0L ELSE 1L END"
            more = f", CASE WHEN {has_state} THEN _ls_ts END AS _ls_stated"
        if self._tells_what_fires:
            is_zeroth = self.rule.is_zeroth(states)
            fires = f"{has_state} AND NOT ({is_zeroth})" if is_zeroth else has_state
            more += f", coalesce({fires}, false) AS _ls_fires"
        return self._runs(found, _differ(lasts, states), inside=inside, later=later, more=more)


def _differ(some: Sequence[str], others: Sequence[str]) -> str:
    """Return SQL of whether states differ; NULL where one of them is none."""
    return " OR ".join(f"{one} <> {other}" for one, other in zip(some, others, strict=True))


def _json_list(values: Sequence[str]) -> str:
    """Return SQL of a JSON array of values, each of a type of its own; NULL where these are."""
    # Of {"a":value} what stands between the colon and the bracket.
    written = [f"to_json(named_struct('a', {value}))" for value in values]
    parts = ", ',', ".join(f"substring({sql}, 6, length({sql}) - 6)" for sql in written)
    return f"CASE WHEN {values[0]} IS NOT NULL THEN concat('[', {parts}, ']') END"


def _json_of_lists(**fields: str) -> str:
    """Return SQL of a JSON object with a field of each SQL of JSON."""
    listed = ", ',', ".join(f"'\"{name}\":', coalesce({sql}, 'null')" for name, sql in fields.items())
    return f"concat('{{', {listed}, '}}')"


@dataclass(frozen=True)
class EventCut(Cut):
    """From the first row with x1 to the first one from there on with x2, both included.

    Where events are emitted, x3 and x4 are JSON objects of what the conditions look at in a row.
    """

    looks_inside = True
    ends_by_row = True
    looked_at = (
        ", min_by(_ls_x3, struct(_ls_n)) AS opens, any_value(_ls_x4) FILTER (WHERE _ls_ends) AS closes"
    )

    def details(self) -> str:
        """Return the values that met the conditions."""
        return self._details(_condition("opens"), _condition("closes"))

    def runs_sql(self, rows: str) -> str:
        """Return the SQL of the rows with their windows, which are numbered by the last end before them.

        A row is in a window when no end lies between the last row with x1, or itself, and it.
        """
        numbered = f"SELECT *, row_number() {self.by_order} AS _ls_n, {self.tied} FROM ({rows})"
        start, end = (
            f"lag(CASE WHEN {name} THEN _ls_n END) IGNORE NULLS {self.by_order}" for name in self.columns[:2]
        )
        found = (
            f"SELECT *, CASE WHEN _ls_x1 THEN _ls_n ELSE {start} END AS _ls_start, "
            f"coalesce({end}, 0) AS _ls_end FROM ({numbered})"
        )
        return (
            f"SELECT *, CASE WHEN _ls_start > _ls_end THEN CAST(_ls_end AS BIGINT) END AS _ls_run, "
            f"_ls_x2 AS _ls_ends, 0L AS _ls_count FROM ({found})"
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
    begins_apart = True
    ends_by_row = True

    @property
    def size(self) -> int:  # type: ignore[override]
        """Every step of them."""
        return self.step

    @property
    def is_disjoint(self) -> bool:
        """Whether a window begins where one has ended."""
        return self.step == self.count

    def runs_sql(self, rows: str) -> str:
        """Return the SQL of the rows with their windows, of which no two overlap."""
        counted = f"SELECT *, _ls_x1 AND _ls_is_new AS _ls_counts, {self.tied} FROM ({rows})"
        found = f"SELECT *, _ls_counted + count_if(_ls_counts) {self.so_far} AS _ls_count FROM ({counted})"
        place = f"CASE WHEN _ls_counts THEN (_ls_count - 1) % {self.step} ELSE _ls_count % {self.step} END"
        inside = f"({place}) < {self.count} AND (_ls_counts OR _ls_count % {self.step} <> 0)"
        number = f"(_ls_count - CASE WHEN _ls_counts THEN 1L ELSE 0L END) div {self.step}"
        return (
            f"SELECT *, CASE WHEN {inside} THEN {number} END AS _ls_run, "
            f"_ls_counts AND ({place}) = {self.count - 1} AS _ls_ends FROM ({found})"
        )

    def _windows_sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the windows; the first row begins one."""
        so_far = "OVER (PARTITION BY gid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        there = (
            f"SELECT gid, ts, mark, is_new, known + count_if(is_new) {so_far} - 1 AS rank FROM ("
            f"SELECT r._ls_gid AS gid, r._ls_ts AS ts, r._ls_mark AS mark, coalesce(s.counted, 0L) AS known, "
            f"coalesce(r._ls_ts > s.safe, true) AS is_new "
            f"FROM ({rows}) r LEFT JOIN ({seeds}) s ON s.gid = r._ls_gid WHERE r._ls_x1)"
        )
        ranked = f"SELECT * FROM ({there}) WHERE is_new"
        starts = (
            f"SELECT gid, rank, ts AS low FROM ({ranked}) WHERE rank % {self.step} = 0 UNION ALL "
            f"SELECT gid, {self.step}L * (row_number() OVER (PARTITION BY gid ORDER BY low) - 1), low "
            f"FROM (SELECT gid, explode(starts) AS low FROM ({seeds}))"
        )
        totals = (
            f"SELECT gid, max(rank) + 1 AS total, max(ts) AS newest, max(mark) AS mark "
            f"FROM (SELECT gid, rank, ts, mark FROM ({there}) "
            f"UNION ALL SELECT gid, counted - 1, NULL, NULL FROM ({seeds})) GROUP BY gid"
        )
        return (
            f"SELECT b.gid, b.low, coalesce(e.ts, greatest(t.newest, b.low)) + 1 AS high, "
            f"coalesce(e.ts <= t.mark, false) AS closed, true AS shows, true AS fires, "
            f"t.total - b.rank AS behind{self.details()} "
            f"FROM ({starts}) b JOIN ({totals}) t ON t.gid = b.gid "
            f"LEFT JOIN ({ranked}) e ON e.gid = b.gid AND e.rank = b.rank + {self.count - 1}"
        )

    def sql(self, rows: str, seeds: str) -> str:
        """Return the SQL of the windows; those count that no later one begins at the same instant with.

        The others stay among the windows, since those that are open are counted on.
        """
        following = "lead(low) OVER (PARTITION BY gid ORDER BY low, behind DESC)"
        windows = self._windows_sql(rows, seeds)
        return f"SELECT *, coalesce({following} > low, true) AS counts FROM ({windows})"


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


def cut_of(
    trigger: RowTrigger, expressions: Sequence[str], ties: Sequence[str] = (), *, emits: bool = False
) -> Cut:
    """Return the cut of a trigger; ``expressions`` are SQL of what it looks at in a row, in its order.

    ``ties`` is SQL of what puts rows of equal time in order before that.
    """
    listed = tuple(expressions)
    if isinstance(trigger, SessionTrigger):
        return SessionCut(gap=trigger.gap.micros, emits=emits)
    if isinstance(trigger, CountTrigger):
        return CountCut(listed, emits=emits, count=trigger.count, step=trigger.step)
    if isinstance(trigger, StateTrigger):
        return StateCut(listed, trigger.true_for, emits, tuple(ties), trigger.rule)
    return EventCut(listed, trigger.true_for, emits, tuple(ties))
