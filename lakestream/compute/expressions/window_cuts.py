"""Rows of a select cut into the windows of its window clause: each row with the number of its window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import call
from lakestream.compute.expressions.levels import (
    AFTER,
    BEFORE,
    FROM_HERE,
    HIGH,
    LOW,
    SO_FAR,
    TIME_PSEUDO_COLUMNS,
    N,
    raw,
    states_of,
)
from lakestream.errors import StatementError
from lakestream.triggers.cut import APART_US, BACKWARDS, FORWARDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakestream.compute.expressions.levels import Levels
    from lakestream.errors import Place
    from lakestream.language.common.query_clauses import InnerWindow
    from lakestream.language.expressions.inner_windows import Clause
    from lakestream.triggers.grid import Grid


@dataclass(frozen=True)
class WindowCut:
    """How rows are cut by a window clause; ``grid`` is that of an INTERVAL.

    ``with_bounds``: rows of an INTERVAL get the bounds of their window too.
    """

    levels: Levels
    window: InnerWindow
    clause: Clause
    grid: Grid | None
    with_bounds: bool
    place: Callable[[exp.Expr], Place]

    def numbered(self, rows: exp.Select) -> exp.Select:
        """Return the rows with the number of their window; those in none are gone.

        Raises StatementError SESSION_COLUMN.
        """
        cut: dict[str, Callable[[exp.Select], exp.Select]] = {
            "INTERVAL": self._by_interval,
            "SESSION": self._by_session,
            "STATE_WINDOW": self._by_state,
            "EVENT_WINDOW": self._by_event,
            "COUNT_WINDOW": self._by_count,
        }
        return cut[self.clause.kind](rows)

    def _by_interval(self, rows: exp.Select) -> exp.Select:
        assert self.grid is not None  # by its kind
        micros = self.levels.micros
        numbered = self.levels.level(rows, _ls_n=raw(self.grid.holding(micros, micros)))
        if not self.with_bounds:
            return numbered
        low, high = window_bounds(self.grid, N)
        return self.levels.level(numbered, _ls_low=raw(low), _ls_high=raw(high))

    def _by_session(self, rows: exp.Select) -> exp.Select:
        column = self.window.expressions[0]
        if column.name.lower() not in {self.levels.rows.time.lower(), *TIME_PSEUDO_COLUMNS}:
            raise StatementError(
                "SESSION_COLUMN",
                f"SESSION takes the event time {self.levels.rows.time}, not {column.name}",
                place=self.place(column),
            )
        before = self.levels.level(rows, _ls_before=self.levels.over(f"lag({self.levels.micros})"))
        within = f"{self.levels.micros} - _ls_before <= {self.clause.gap.micros}L"
        begins = self.levels.level(before, _ls_begins=raw(f"CASE WHEN {within} THEN 0L ELSE 1L END"))
        return self.levels.level(begins, _ls_n=self.levels.over("sum(_ls_begins)", SO_FAR))

    def _by_state(self, rows: exp.Select) -> exp.Select:
        """Cut rows into runs of equal states, by EXTEND up to each other; leave those of the zeroth out."""
        rule, names = self.clause.rule, [*states_of(self.window)]
        placed = self.levels.level(self._placed(rows)).where(raw("_ls_state1 IS NOT NULL"), copy=False)
        before = {f"_ls_before{n}": self.levels.over(f"lag({name})") for n, name in enumerate(names, 1)}
        goes_on = _all(f"_ls_before{n} = {name}" for n, name in enumerate(names, 1))
        compared = self.levels.level(placed, **before)
        begins = self.levels.level(compared, _ls_begins=raw(f"CASE WHEN {goes_on} THEN 0L ELSE 1L END"))
        found = self.levels.level(begins, _ls_n=self.levels.over("sum(_ls_begins)", SO_FAR))
        if rule.extend:
            found = self._reaching(found)
        zeroth = rule.is_zeroth(names)
        return found if zeroth is None else self.levels.level(found).where(raw(f"NOT ({zeroth})"), copy=False)

    def _placed(self, rows: exp.Select) -> exp.Select:
        """Give a row without a state to the window around it, or by EXTEND to the one before or behind it.

        EXTEND(0): to none between two states.
        """
        states = states_of(self.window)
        numbers = range(1, len(states) + 1)
        given = {f"_ls_x{n}": node.copy() for n, node in enumerate(states.values(), 1)}
        is_stated = _all(f"_ls_x{n} IS NOT NULL" for n in numbers)
        known = {f"_ls_v{n}": raw(f"CASE WHEN {is_stated} THEN _ls_x{n} END") for n in numbers}
        around = {}
        for n in numbers:
            around[f"_ls_last{n}"] = self.levels.over(f"last_value(_ls_v{n}, true)", SO_FAR)
            around[f"_ls_next{n}"] = self.levels.over(f"first_value(_ls_v{n}, true)", FROM_HERE)
        same = _all(f"_ls_last{n} = _ls_next{n}" for n in numbers)
        same = f"_ls_last1 IS NULL OR _ls_next1 IS NULL OR ({same})"
        of_row = {
            0: f"CASE WHEN {same} THEN coalesce(_ls_last{{0}}, _ls_next{{0}}) END",
            FORWARDS: "coalesce(_ls_last{0}, _ls_next{0})",
            BACKWARDS: "coalesce(_ls_next{0}, _ls_last{0})",
        }[self.clause.rule.extend]
        placed = {name: raw(of_row.format(n)) for n, name in enumerate(states, 1)}
        for columns in (given, known, around, placed):
            rows = self.levels.level(rows, **columns)
        return rows

    def _reaching(self, rows: exp.Select) -> exp.Select:
        """Give rows the bounds of their window, which reaches to the next or from the last one."""
        micros, keys = self.levels.micros, [*self.levels.keys, exp.column(N)]
        first = "CASE WHEN _ls_begins = 1L THEN {} END"
        beside = self.levels.level(
            rows,
            _ls_behind=self.levels.over(f"min({first.format(micros)})", AFTER),
            _ls_ahead=self.levels.over(f"lag({micros})"),
        )
        within = partial(self.levels.over, keys=keys, order=[])
        ends = self.levels.level(
            beside,
            _ls_first=within(f"min({micros})"),
            _ls_end=within(f"max({micros})"),
            _ls_ahead_of_it=within(f"max({first.format('_ls_ahead')})"),
        )
        low, high = "_ls_first", "_ls_end"
        if self.clause.rule.extend == FORWARDS:
            high = f"greatest(_ls_end, coalesce(_ls_behind - {APART_US}L, _ls_end))"
        else:
            low = f"least(_ls_first, coalesce(_ls_ahead_of_it + {APART_US}L, _ls_first))"
        bounds = {LOW: raw(f"timestamp_micros({low})"), HIGH: raw(f"timestamp_micros({high})")}
        return self.levels.level(ends, **bounds)

    def _by_event(self, rows: exp.Select) -> exp.Select:
        """Each row that ends a window leaves none open: from there on the next start is looked for."""
        conditions = {
            name: call("coalesce", self.window.args[arg].copy(), exp.false())
            for name, arg in (("_ls_starts", "this"), ("_ls_ends", "until"))
        }
        judged = self.levels.level(rows, **conditions)
        parts = self.levels.level(judged, _ls_n=self.levels.over("count_if(_ls_ends)", BEFORE))
        keys = [*self.levels.keys, exp.column(N)]
        opened = self.levels.level(
            parts,
            _ls_open=self.levels.over("bool_or(_ls_starts)", SO_FAR, keys=keys),
            _ls_closed=self.levels.over("bool_or(_ls_ends)", keys=keys, order=[]),
        )
        return self.levels.level(opened).where(raw("_ls_open AND _ls_closed"), copy=False)

    def _by_count(self, rows: exp.Select) -> exp.Select:
        """Windows of so many rows, one each so many; the last ones have what rows there are (TDengine)."""
        size, step = self.clause.rows, self.clause.step
        columns = [node for node in self.window.expressions if isinstance(node, exp.Column)]
        if columns:
            counts = call("coalesce", *(call("if", _is_null(c), exp.null(), exp.true()) for c in columns))
            rows = self.levels.level(rows).where(counts, copy=False)
        counted = self.levels.level(rows, _ls_i=self.levels.over("row_number()"))
        first = f"CASE WHEN _ls_i <= {size} THEN 0L ELSE (_ls_i - 1 - {size}) div {step}L + 1 END"
        return self.levels.level(counted, _ls_n=raw(f"explode(sequence({first}, (_ls_i - 1) div {step}L))"))


def window_bounds(grid: Grid, number: str) -> tuple[str, str]:
    """Return SQL of the start and the end of a window of an INTERVAL, by its number."""
    low, high = grid.low(number, number), grid.high(number, number)
    return f"timestamp_micros({low})", f"timestamp_micros({high})"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions)


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.null())
