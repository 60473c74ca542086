"""Sliding windows by panes: each row is aggregated once, windows combine the panes they consist of.

"No pane, no gain" (Li et al., SIGMOD Record 2005). Only aggregates that can be combined qualify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Partial:
    """An aggregate in two steps: columns to aggregate per pane, and how a window combines them."""

    per_pane: tuple[tuple[str, str], ...]
    combined: str


def partials(aggregates: Sequence[exp.Expr]) -> list[Partial] | None:
    """Return each aggregate in two steps, or None when one of them cannot be combined."""
    found = [_partial(node, f"p{number}") for number, node in enumerate(aggregates)]
    return None if any(part is None for part in found) else [part for part in found if part]


def _partial(node: exp.Expr, name: str) -> Partial | None:
    filtered = ""
    if isinstance(node, exp.Filter):
        filtered = f" FILTER ({node.expression.sql('spark')})"
        node = node.this
    if any(isinstance(child, exp.Distinct) for child in node.iter_expressions()):
        return None
    text = node.sql("spark") + filtered
    if isinstance(node, (exp.Count, exp.CountIf)):
        return Partial(((name, text),), f"coalesce(sum({name}), 0L)")
    if isinstance(node, (exp.Sum, exp.Min, exp.Max)):
        return Partial(((name, text),), f"{node.key}({name})")
    if isinstance(node, exp.Avg):
        # Spark adds doubles for avg() of anything but decimals, whose sum and quotient have other types.
        value = node.this.sql("spark")
        total, count = f"{name}s", f"{name}c"
        return Partial(
            ((total, f"sum({value}){filtered}"), (count, f"count({value}){filtered}")),
            f"CAST(sum({total}) AS DOUBLE) / sum({count})",
        )
    return _picked(node, name, filtered)


def _picked(node: exp.Expr, name: str, filtered: str) -> Partial | None:
    """min_by and max_by keep the pair of key and value."""
    kind = (
        {"min_by": "min", "max_by": "max"}.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    )
    if kind is None:
        return None
    value, key = (argument.sql("spark") for argument in node.expressions)
    pair = f"{kind}(struct({key} AS o, {value} AS x)){filtered}"
    return Partial(((name, pair),), f"{kind}({name}).x")
