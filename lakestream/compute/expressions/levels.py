"""Relations over the rows of a select, one upon the other, in Spark's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.common.query_clauses import InnerWindow

    Frame = tuple[tuple[str, str | None], tuple[str, str | None]]
    """From where to where rows around one are taken: (how many, on which side)."""

TIME_PSEUDO_COLUMNS = frozenset({"_c0", "_rowts"})

N, LOW, HIGH = "_ls_n", "_ls_low", "_ls_high"
"""Columns of rows that know their window: its number, and its bounds."""

_FIRST, _LAST = ("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING")
_HERE = ("CURRENT ROW", None)
SO_FAR, BEFORE = (_FIRST, _HERE), (_FIRST, ("1", "PRECEDING"))
FROM_HERE, AFTER = (_HERE, _LAST), (("1", "FOLLOWING"), _LAST)


def states_of(window: InnerWindow) -> dict[str, exp.Expr]:
    """Return what STATE_WINDOW has in its brackets, by the columns that rows have of their window's state."""
    listed = window.expressions if window.args["kind"] == "STATE_WINDOW" else []
    return {f"_ls_state{number}": node for number, node in enumerate(listed, 1)}


@dataclass(frozen=True)
class Timeline:
    """The rows that a select reads: the alias they have, their time, and what orders those of equal time.

    ``known`` are the names that stand for constants of the evaluation (placeholders); ``span`` is the range
    of time that the rows are of, where they are those of a trigger: two conditions on the time.
    """

    alias: str
    time: str
    ties: tuple[str, ...]
    known: frozenset[str]
    zone: str
    span: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Levels:
    """Makes relations over the rows of a select; ``keys`` are what its slices are cut by."""

    rows: Timeline
    keys: Sequence[exp.Expr]

    def level(self, below: exp.Query, **columns: exp.Expr) -> exp.Select:
        """Return the rows of a relation with more columns."""
        listed = [exp.Star(), *(exp.alias_(node, name) for name, node in columns.items())]
        return exp.Select(
            expressions=listed, from_=exp.From(this=below.subquery(self.rows.alias, copy=False))
        )

    def over(
        self,
        function: str,
        frame: Frame | None = None,
        *,
        keys: Sequence[exp.Expr] | None = None,
        order: Sequence[exp.Expr] | None = None,
    ) -> exp.Expr:
        """Return a function over the rows of a slice, by default in order of time."""
        keys = self.keys if keys is None else keys
        order = self.time_order if order is None else order
        window = exp.Window(this=raw(function), partition_by=[key.copy() for key in keys])
        if order:
            window.set("order", exp.Order(expressions=[in_order(node) for node in order]))
        if frame:
            (start, start_side), (end, end_side) = frame
            bounds = {"start": start, "start_side": start_side, "end": end, "end_side": end_side}
            window.set("spec", exp.WindowSpec(kind="ROWS", **bounds))
        return window

    @property
    def time_order(self) -> list[exp.Expr]:
        """What orders the rows by time."""
        return [exp.column(name, quoted=True) for name in (self.rows.time, *self.rows.ties)]

    @property
    def micros(self) -> str:
        """SQL of a row's time in microseconds."""
        return f"unix_micros({quoted(self.rows.time)})"


def in_order(node: exp.Expr) -> exp.Ordered:
    """Return a node as a part of an ORDER BY, by default with NULL first."""
    return node.copy() if isinstance(node, exp.Ordered) else exp.Ordered(this=node.copy(), nulls_first=True)


def raw(text: str) -> exp.Expr:
    """Return SQL that was made here as a node that is carried through a tree as it is."""
    return exp.Var(this=text)
