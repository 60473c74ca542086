"""Aggregates in two steps: partial aggregates of parts of a window, and how a window combines them.

Sliding windows aggregate each row once, into its pane, and combine panes ("No pane, no gain", Li et
al., SIGMOD Record 2005); an open window keeps what it has so far. Only aggregates that can be combined
qualify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class PartialColumn:
    """A column of partial aggregates: its value for one row, and the aggregate that merges values.

    ``counts``: the value of a row is 1 or 0.
    """

    name: str
    of_row: str
    merge: str
    counts: bool = False

    @property
    def over_rows(self) -> str:
        """SQL of the aggregate over rows."""
        return f"{self.merge}({self.of_row})"

    @property
    def over_column(self) -> str:
        """SQL of the aggregate over the column with a row's value in each; to count is quicker than a sum."""
        return f"count(nullif({self.name}, 0L))" if self.counts else self.merged

    @property
    def merged(self) -> str:
        """SQL of the aggregate over several values of the column."""
        return f"{self.merge}({self.name})"


@dataclass(frozen=True)
class Partial:
    """An aggregate as partial columns, and SQL of its value over the merged columns (NULL: no rows)."""

    columns: tuple[PartialColumn, ...]
    result: str


def partials(aggregates: Sequence[exp.Expr]) -> list[Partial] | None:
    """Return each aggregate in two steps, or None when one of them cannot be combined."""
    found = [_partial(node, f"_ls_p{number}") for number, node in enumerate(aggregates)]
    return None if any(part is None for part in found) else [part for part in found if part]


def averaged(aggregates: Sequence[exp.Expr]) -> list[str]:
    """Return SQL of what is averaged: the mean of decimals is a decimal, and cannot be combined."""
    inner = [node.this if isinstance(node, exp.Filter) else node for node in aggregates]
    return [node.this.sql("spark") for node in inner if isinstance(node, exp.Avg)]


def _partial(node: exp.Expr, name: str) -> Partial | None:
    condition = ""
    if isinstance(node, exp.Filter):
        condition = str(node.expression.this.sql("spark"))
        node = node.this
    if any(isinstance(child, exp.Distinct) for child in node.iter_expressions()):
        return None
    if isinstance(node, (exp.Count, exp.CountIf)):
        return Partial((_counted(name, _counts(node), condition),), f"coalesce({name}, 0L)")
    value = node.this.sql("spark") if isinstance(node.this, exp.Expr) else ""
    if isinstance(node, (exp.Sum, exp.Min, exp.Max)):
        return Partial((PartialColumn(name, _where(value, condition), node.key),), name)
    if isinstance(node, exp.Avg):
        total = PartialColumn(f"{name}s", _where(f"CAST({value} AS DOUBLE)", condition), "sum")
        count = _counted(f"{name}c", f"({value}) IS NOT NULL", condition)
        return Partial((total, count), f"{total.name} / nullif({count.name}, 0L)")
    return _picked(node, name, condition)


def _where(value: str, condition: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END" if condition else value


def _counts(node: exp.Count | exp.CountIf) -> str:
    """Return the condition on which a row counts; an empty text for all rows."""
    if isinstance(node, exp.CountIf):
        return str(node.this.sql("spark"))
    values = [node.this, *node.expressions]
    parts = [f"({v.sql('spark')}) IS NOT NULL" for v in values if not isinstance(v, (exp.Star, exp.Literal))]
    return " AND ".join(parts)


def _counted(name: str, counts: str, condition: str) -> PartialColumn:
    parts = [f"({part})" for part in (counts, condition) if part]
    value = f"CASE WHEN {' AND '.join(parts)} THEN 1L ELSE 0L END" if parts else "1L"
    return PartialColumn(name, value, "sum", counts=True)


def _picked(node: exp.Expr, name: str, condition: str) -> Partial | None:
    """min_by and max_by keep the pair of key and value."""
    kind = (
        {"min_by": "min", "max_by": "max"}.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    )
    if kind is None:
        return None
    value, key = (argument.sql("spark") for argument in node.expressions)
    pair = _where(f"struct({key} AS o, {value} AS x)", condition)
    return Partial((PartialColumn(name, pair, kind),), f"{name}.x")
