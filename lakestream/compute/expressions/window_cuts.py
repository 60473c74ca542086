"""Rows of a select cut into the windows of its window clause: each row with the number of its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import call
from lakestream.compute.expressions.levels import (
    BEFORE,
    FROM_HERE,
    SO_FAR,
    STATE,
    TIME_PSEUDO_COLUMNS,
    N,
    raw,
)
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Give a row without a state to the window around it, to none between two states (EXTEND 0)."""
        stated = self.levels.level(rows, _ls_v=self.window.expressions[0].copy())
        around = self.levels.level(
            stated,
            _ls_last=self.levels.over("last_value(_ls_v, true)", SO_FAR),
            _ls_next=self.levels.over("first_value(_ls_v, true)", FROM_HERE),
        )
        same = "_ls_last IS NULL OR _ls_next IS NULL OR _ls_last = _ls_next"
        state = f"CASE WHEN {same} THEN coalesce(_ls_last, _ls_next) END"
        known = self.levels.level(around, _ls_state=raw(state))
        inside = self.levels.level(known).where(raw(f"{STATE} IS NOT NULL"), copy=False)
        changes = self.levels.level(inside, _ls_before=self.levels.over(f"lag({STATE})"))
        first = f"CASE WHEN _ls_before = {STATE} THEN 0L ELSE 1L END"
        begins = self.levels.level(changes, _ls_begins=raw(first))
        return self.levels.level(begins, _ls_n=self.levels.over("sum(_ls_begins)", SO_FAR))

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


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.null())
