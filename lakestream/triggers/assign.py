"""Which windows admitted rows belong to, for streams that leave late rows out (eKuiper's windows).

The rows of a tick are those that were held back and those that have come. The watermark moves from ``before``
to ``watermark``: no admitted row that is still to come lies before it, so a window that is over by the
watermark is final. It fires once; its rows go unless a later window needs them.

Rows come with their group (_ls_gid), time (_ls_ts, BIGINT µs), commit (_ls_v), the commit that moved the mark
to or past them (_ls_c, NULL: none yet), whether none had before this tick (_ls_waited), a hash (_ls_h), and
what the trigger looks at (_ls_x1, _ls_x2). Rows of equal time are taken in the order in which they came, by
commit and place in it (_ls_p, NULL: not known): it does not depend on how commits were taken together into
ticks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.language.model import (
    BoundedSessionTrigger,
    Duration,
    IntervalTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
)
from lakestream.triggers.cut import SpanGrid
from lakestream.triggers.grid import Grid, grid_of
from lakestream.triggers.sqltime import floor_div

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.model import AdmittedTrigger

ORDER = "_ls_order"
"""The name under which a calculation finds what puts the rows of a window in order."""

ORDER_OF_ROWS = "_ls_ts, _ls_c, _ls_v, _ls_p, _ls_h"
"""The columns that put the rows of a group in order."""

_ORDERED = f"ORDER BY {ORDER_OF_ROWS}"
_RELEASED = "PARTITION BY _ls_gid, _ls_c IS NULL"
_IN_ORDER = f"OVER ({_RELEASED} {_ORDERED})"
_SO_FAR = f"OVER ({_RELEASED} {_ORDERED} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
_BY_TIME = "OVER (PARTITION BY _ls_gid ORDER BY _ls_ts)"
_OF_WINDOW = "OVER (PARTITION BY _ls_gid, _ls_k)"
_RUNNING = "OVER (PARTITION BY _ls_gid ORDER BY _ls_ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"


@dataclass(frozen=True)
class Move:
    """Where the watermark was (None: there was none) and is, in µs; ``ends``: no row is to come any more."""

    before: int | None
    watermark: int
    ends: bool = False

    def passed(self, instant: str) -> str:
        """Return SQL that is true for an instant that the watermark has reached by now."""
        return "true" if self.ends else f"({instant}) <= {self.watermark}L"

    def new(self, instant: str) -> str:
        """Return SQL that is true for an instant that the watermark had not reached before."""
        return "true" if self.before is None else f"({instant}) > {self.before}L"


@dataclass(frozen=True)
class Reach:
    """How far windows reach around their row, in µs; without ``delay`` the row's instant is the last one.

    ``by_order``: of the rows of that instant, it holds those that came before its own.
    """

    length: int
    delay: int
    by_order: bool = False

    @property
    def span(self) -> int:
        """Microseconds from the first to the last instant of a window, both included."""
        return self.length + (self.delay or 1)


class PlacedGrid(SpanGrid):
    """The place of a grid for windows whose rows are found by an :class:`Assigner`.

    ``reach`` is how far windows reach around a row, None where they are made in another way.
    """

    rows_are_placed = True

    def __init__(self, reach: Reach | None = None) -> None:
        super().__init__(disjoint=False)
        self.reach = reach


@dataclass(frozen=True)
class Assigner(ABC):
    """How rows are assigned to windows; ``expressions`` are SQL over a source row, _ls_x1, _ls_x2, …."""

    expressions: tuple[str, ...] = ()

    @abstractmethod
    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL of all rows with what becomes of them.

        Beside columns of its own: _ls_stays BOOLEAN (a later window may need it), _ls_due BIGINT (µs, the
        instant at which its next window is over; NULL where time alone ends none), _ls_n BIGINT.
        """

    @abstractmethod
    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL of the rows of each window that is over now, once for every window.

        ``marked`` is a relation of :meth:`marked_sql`. Adds _ls_k (the window, unique within its group and
        tick), _ls_low and _ls_high (its first and last instant as its functions tell them, BIGINT µs).
        """

    @property
    def goes_by_order(self) -> bool:
        """Whether the order of rows of equal time tells what windows hold."""
        return False

    def needed_from(self, before: int) -> str | None:
        """Return SQL of the first instant of the rows that windows may hold that are over after ``before``.

        Both in µs; None: where a window begins depends on all rows before it.
        """
        del before
        return None

    @property
    def reach(self) -> Reach | None:
        """How far windows reach around the rows that trigger them, None where no row does."""
        return None

    @property
    def includes_end(self) -> bool:
        """Whether a window may hold rows of its last instant."""
        return False

    @property
    def is_cut_by_rows(self) -> bool:
        """Whether one more row may make a window longer, or one of two."""
        return False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the expressions in the relations of rows."""
        return tuple(f"_ls_x{number}" for number, _ in enumerate(self.expressions, 1))


@dataclass(frozen=True)
class GridAssigner(Assigner):
    """Windows of a grid (TUMBLINGWINDOW, HOPPINGWINDOW): over when the watermark has reached their end."""

    grid: Grid | None = None

    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL; the windows of a row that are over are those from _ls_a to _ls_b."""
        assert self.grid is not None
        first = f"{self.grid.ended('_ls_ts', '_ls_ts')} + 1"
        last = self.grid.begun("_ls_ts", "_ls_ts")
        over = "_ls_last" if move.ends else self.grid.ended(f"{move.watermark}L", "0L")
        known = "_ls_first" if move.before is None else f"{self.grid.ended(f'{move.before}L', '0L')} + 1"
        numbered = f"SELECT *, {first} AS _ls_first, {last} AS _ls_last FROM ({rows})"
        bounded = (
            f"SELECT *, greatest(_ls_first, {known}) AS _ls_a, least(_ls_last, {over}) AS _ls_b, "
            f"greatest(_ls_first, {over} + 1) AS _ls_next FROM ({numbered})"
        )
        due = self.grid.high("_ls_next", "0L")
        return (
            f"SELECT * EXCEPT (_ls_first, _ls_last, _ls_next), _ls_next <= _ls_last AS _ls_stays, "
            f"CASE WHEN _ls_next <= _ls_last THEN {due} END AS _ls_due FROM ({bounded})"
        )

    def needed_from(self, before: int) -> str:
        """Return SQL of the start of the first window that ends later."""
        assert self.grid is not None
        return self.grid.low(f"({self.grid.ended(f'{before}L', '0L')} + 1)", "0L")

    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL: a row once for each of its windows."""
        del move
        assert self.grid is not None
        placed = f"SELECT *, explode(sequence(_ls_a, _ls_b)) AS _ls_k FROM {marked} WHERE _ls_a <= _ls_b"
        low, high = self.grid.low("_ls_k", "0L"), self.grid.high("_ls_k", "0L")
        return f"SELECT *, {low} AS _ls_low, {high} AS _ls_high FROM ({placed})"


@dataclass(frozen=True)
class SlideAssigner(Assigner):
    """A window for each row with x1: the rows of ``[t - length, t]``, or up to before ``t + delay``.

    A window without delay holds of the rows of its own instant those that were there when it fired;
    ``by_arrival``: a row fires when it comes, before those that come behind it.
    """

    length: int = 0
    delay: int = 0
    by_arrival: bool = False

    @property
    def reach(self) -> Reach:
        """From the length before a row to the delay after it."""
        return Reach(self.length, self.delay, self.goes_by_order)

    @property
    def includes_end(self) -> bool:
        """Without a delay its row's instant is the last one."""
        return not self.delay

    @property
    def goes_by_order(self) -> bool:
        """Whether rows of one instant fire one after the other."""
        return self.by_arrival and not self.delay

    def needed_from(self, before: int) -> str:
        """Return SQL of the start of a window that would end just then."""
        return f"{before - self.delay - self.length}L"

    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL; _ls_fires marks the rows whose window is over now."""
        over = f"_ls_ts + {self.delay}L"
        # Without a delay a row fires with its release, which may be after the watermark has reached its time.
        released = "_ls_c IS NOT NULL AND _ls_waited"
        fires = f"_ls_x1 AND {f'{move.passed(over)} AND {move.new(over)}' if self.delay else released}"
        stays = "false" if move.ends else f"_ls_ts >= {move.watermark - self.length - self.delay}L"
        due = f"CASE WHEN _ls_x1 AND NOT ({move.passed(over)}) THEN {over} END"
        return f"SELECT *, {fires} AS _ls_fires, {stays} AS _ls_stays, {due} AS _ls_due FROM ({rows})"

    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL: windows and rows meet in stretches of time as long as a window."""
        del move
        last = f"_ls_ts + {self.delay - 1}L" if self.delay else "_ls_ts"
        came = f"struct({ORDER_OF_ROWS})" if self.goes_by_order else "_ls_c"
        windows = (
            f"SELECT _ls_gid, row_number() OVER (PARTITION BY _ls_gid {_ORDERED}) AS _ls_k, _ls_ts, "
            f"{came} AS came, _ls_ts - {self.length}L AS low, {last} AS last FROM {marked} WHERE _ls_fires"
        )
        span = self.reach.span
        stretched = (
            f"SELECT *, explode(sequence({floor_div('low', span)}, {floor_div('last', span)})) "
            f"AS stretch FROM ({windows})"
        )
        rows = f"SELECT *, {floor_div('_ls_ts', span)} AS _ls_stretch, {came} AS _ls_came FROM {marked}"
        known = "" if self.delay else " AND (r._ls_ts < w._ls_ts OR r._ls_came <= w.came)"
        return (
            f"SELECT r.* EXCEPT (_ls_stretch, _ls_came), w._ls_k, w.low AS _ls_low, "
            f"w._ls_ts + {self.delay}L AS _ls_high FROM ({stretched}) w JOIN ({rows}) r "
            f"ON r._ls_gid = w._ls_gid AND r._ls_stretch = w.stretch "
            f"WHERE r._ls_ts BETWEEN w.low AND w.last{known}"
        )


@dataclass(frozen=True)
class SessionAssigner(Assigner):
    """Rows at most ``gap`` apart; over ``timeout`` after the last one, or cut by the grid ``longest``.

    A session is cut at the first instant of the grid at which it is more than a step old: so it takes the
    rest of the step it begins in, and the next one. ``gap`` is the timeout itself or just below it.
    """

    gap: int = 0
    timeout: int = 0
    longest: Grid | None = None

    @property
    def is_cut_by_rows(self) -> bool:
        """A row in a gap joins what was on both sides of it."""
        return True

    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL; the steps of a run of rows are taken two at a time, from its first one on."""
        assert self.longest is not None
        stepped = f"SELECT *, {self.longest.begun('_ls_ts', '_ls_ts')} AS _ls_step FROM ({rows})"
        begins = f"_ls_ts - lag(_ls_ts) {_BY_TIME} > {self.gap}L OR _ls_step - lag(_ls_step) {_BY_TIME} > 1"
        cut = f"SELECT *, CASE WHEN {begins} THEN 1L ELSE 0L END AS _ls_cut FROM ({stepped})"
        runs = f"SELECT * EXCEPT (_ls_cut), sum(_ls_cut) {_RUNNING} AS _ls_run FROM ({cut})"
        pair = "(_ls_step - min(_ls_step) OVER (PARTITION BY _ls_gid, _ls_run)) div 2"
        paired = f"SELECT *, {pair} AS _ls_pair FROM ({runs})"
        own = "OVER (PARTITION BY _ls_gid, _ls_run, _ls_pair)"
        bounded = (
            f"SELECT * EXCEPT (_ls_step, _ls_run, _ls_pair), min(_ls_ts) {own} AS _ls_k, "
            f"max(_ls_ts) {own} AS _ls_last, min(_ls_step) {own} + 2 AS _ls_cut FROM ({paired})"
        )
        limited = (
            f"SELECT * EXCEPT (_ls_cut), {self.longest.low('_ls_cut', '0L')} AS _ls_limit FROM ({bounded})"
        )
        over = f"{move.passed(f'_ls_last + {self.gap + 1}L')} OR {move.passed('_ls_limit')}"
        return (
            f"SELECT * EXCEPT (_ls_last, _ls_limit), NOT ({over}) AS _ls_stays, "
            f"least(_ls_last + {self.timeout}L, _ls_limit) AS _ls_due FROM ({limited})"
        )

    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL: what does not stay is the content of a session that is over."""
        del move
        return f"SELECT *, _ls_k AS _ls_low, _ls_due AS _ls_high FROM {marked} WHERE NOT _ls_stays"


@dataclass(frozen=True)
class LatestAssigner(Assigner):
    """Every ``step`` rows the latest ``count``, once there are so many; rows are numbered in _ls_n.

    At the end, the rows since the last window make one with those before them, up to ``count``. A window
    is of the instant of its last row (eKuiper: start and end are when it is output).
    """

    count: int = 1
    step: int = 1

    @property
    def goes_by_order(self) -> bool:
        """Rows are counted one after the other."""
        return True

    @property
    def includes_end(self) -> bool:
        """It is of its last row's instant."""
        return True

    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL; a row's windows that are over end with the rows _ls_a * step to _ls_b * step."""
        base = "coalesce(max(_ls_n) OVER (PARTITION BY _ls_gid), 0L)"
        more = f"CASE WHEN _ls_c IS NOT NULL THEN count_if(_ls_n IS NULL) {_SO_FAR} END"
        based = f"SELECT *, {base} AS _ls_base, {more} AS _ls_more FROM ({rows})"
        numbered = (
            f"SELECT * EXCEPT (_ls_n, _ls_more), coalesce(_ls_n, _ls_base + _ls_more) AS _ls_n FROM ({based})"
        )
        totalled = f"SELECT *, max(_ls_n) OVER (PARTITION BY _ls_gid) AS _ls_total FROM ({numbered})"
        least = -(-self.count // self.step)
        following = f"greatest(_ls_total div {self.step} + 1, {least}L)"
        over = f"_ls_total div {self.step}"
        if move.ends:
            rest = f"_ls_total % {self.step} <> 0 OR _ls_total < {self.count}L"
            over = f"CASE WHEN {rest} THEN {following} ELSE {over} END"
        # The last row stays in any case: it holds the number to go on from.
        needed = f"_ls_n > {following} * {self.step}L - {self.count}L"
        stays = f"_ls_c IS NULL OR {needed} OR _ls_n = _ls_total"
        return (
            f"SELECT * EXCEPT (_ls_base, _ls_total), {'false' if move.ends else stays} AS _ls_stays, "
            f"CAST(NULL AS BIGINT) AS _ls_due, "
            f"greatest((_ls_n + {self.step - 1}L) div {self.step}, {least}L, _ls_base div {self.step} + 1) "
            f"AS _ls_a, "
            f"least((_ls_n + {self.count - 1}L) div {self.step}, {over}) AS _ls_b FROM ({totalled})"
        )

    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL: a row once for each of its windows."""
        del move
        # Of a row without a number, greatest and least would leave the number out.
        over = "_ls_n IS NOT NULL AND _ls_a <= _ls_b"
        placed = f"SELECT *, explode(sequence(_ls_a, _ls_b)) AS _ls_k FROM {marked} WHERE {over}"
        ended = f"SELECT *, max(_ls_ts) {_OF_WINDOW} AS _ls_high FROM ({placed})"
        return f"SELECT *, _ls_high AS _ls_low FROM ({ended})"


@dataclass(frozen=True)
class SpanAssigner(Assigner):
    """From a row with x1 to the first later one with x2; without x2, up to before the next one with x1."""

    @property
    def goes_by_order(self) -> bool:
        """Rows are looked at one after the other."""
        return True

    @property
    def includes_end(self) -> bool:
        """The row with x2 is the last one; without x2 it ends where the next span begins."""
        return len(self.expressions) > 1

    @property
    def is_cut_by_rows(self) -> bool:
        """A row with x1 or x2 ends or begins one."""
        return True

    def marked_sql(self, rows: str, move: Move) -> str:
        """Return the SQL; spans are numbered in _ls_k, NULL for rows of none."""
        numbered = self._closing(rows) if len(self.expressions) > 1 else self._beginning(rows)
        over = "true" if move.ends else "_ls_over"
        return (
            f"SELECT * EXCEPT (_ls_over), CAST(NULL AS BIGINT) AS _ls_due, "
            f"_ls_c IS NULL OR (_ls_k IS NOT NULL AND NOT ({over})) AS _ls_stays FROM ({numbered})"
        )

    def _beginning(self, rows: str) -> str:
        number = f"nullif(count_if(_ls_x1) {_SO_FAR}, 0L) AS _ls_k"
        counted = f"SELECT *, {number}, lead(_ls_ts) {_IN_ORDER} AS _ls_then FROM ({rows})"
        over = f"coalesce(_ls_k < max(_ls_k) OVER ({_RELEASED}), false)"
        return f"SELECT *, {over} AS _ls_over FROM ({counted})"

    def _closing(self, rows: str) -> str:
        """Return SQL by what each row does to a span: only x1 opens it, only x2 closes it, both turn it over.

        So it is open where the last row of the former kinds left it so, turned over by the rows since.
        """
        turned = f"SELECT *, count_if(_ls_x1 AND _ls_x2) {_SO_FAR} AS _ls_turns FROM ({rows})"
        settled = "CASE WHEN _ls_x1 <> _ls_x2 THEN struct(_ls_x1 AS open, _ls_turns AS turns) END"
        latest = f"SELECT *, last_value({settled}) IGNORE NULLS {_SO_FAR} AS _ls_from FROM ({turned})"
        odd = "(_ls_turns - coalesce(_ls_from.turns, 0L)) % 2 = 1"
        state = (
            f"SELECT * EXCEPT (_ls_turns, _ls_from), coalesce(_ls_from.open, false) <> ({odd}) AS _ls_open "
            f"FROM ({latest})"
        )
        before = f"SELECT *, lag(_ls_open, 1, false) {_IN_ORDER} AS _ls_was FROM ({state})"
        number = f"count_if(_ls_open AND NOT _ls_was) {_SO_FAR}"
        spans = f"SELECT *, CASE WHEN _ls_open OR _ls_was THEN {number} END AS _ls_k FROM ({before})"
        over = f"coalesce(max(_ls_was AND NOT _ls_open) OVER ({_RELEASED}, _ls_k), false)"
        return f"SELECT * EXCEPT (_ls_open, _ls_was), {over} AS _ls_over FROM ({spans})"

    def members_sql(self, marked: str, move: Move) -> str:
        """Return the SQL: the released rows of a span that do not stay.

        It lasts from its first row to the one that ends it: its last, or the first of the next one.
        """
        del move
        last = "_ls_ts" if len(self.expressions) > 1 else "coalesce(_ls_then, _ls_ts)"
        return (
            f"SELECT *, min(_ls_ts) {_OF_WINDOW} AS _ls_low, max({last}) {_OF_WINDOW} AS _ls_high "
            f"FROM {marked} WHERE NOT _ls_stays AND _ls_k IS NOT NULL"
        )


def assigner_of(
    trigger: AdmittedTrigger, zone: str, expressions: Sequence[str], *, by_arrival: bool
) -> Assigner:
    """Return the assigner of a trigger; ``expressions`` are SQL of what it looks at in a row, in its order.

    ``zone`` is the time zone that windows and sessions are aligned in. ``by_arrival``: the clock ends a
    session, so a row that arrives just when it does is one of the next session; a row of a sliding window
    triggers when it arrives.
    """
    listed = tuple(f"coalesce({sql}, false)" for sql in expressions)
    if isinstance(trigger, SlideTrigger):
        return SlideAssigner(
            listed or ("true",), trigger.length.micros, trigger.delay.micros, by_arrival=by_arrival
        )
    if isinstance(trigger, LatestTrigger):
        return LatestAssigner(count=trigger.count, step=trigger.step)
    if isinstance(trigger, SpanTrigger):
        return SpanAssigner(listed)
    if isinstance(trigger, BoundedSessionTrigger):
        timeout, none = trigger.gap.micros, Duration(0, trigger.longest.unit)
        steps = IntervalTrigger(trigger.longest, none, trigger.longest, local=True)
        gap = timeout - 1 if by_arrival else timeout
        return SessionAssigner(gap=gap, timeout=timeout, longest=grid_of(steps, zone))
    return GridAssigner(grid=grid_of(trigger, zone))
