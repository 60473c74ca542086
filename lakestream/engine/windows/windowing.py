"""How a trigger makes windows of a table's rows: its grid, its cut, or how rows are assigned to windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS
from lakestream.engine.base.names import TBNAME
from lakestream.engine.streams.source import path_of, row_expression
from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.expressions.checks import (
    IDLE_PLACEHOLDERS,
    PERIOD_PLACEHOLDERS,
    SLIDING_PLACEHOLDERS,
    WINDOW_PLACEHOLDERS,
)
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.model import (
    AdmittedTrigger,
    CountTrigger,
    EventTrigger,
    GridTrigger,
    IdleTrigger,
    PeriodTrigger,
    RowTrigger,
    SessionTrigger,
    SlidingTrigger,
    WholeTrigger,
)
from lakestream.language.quoting import quoted, quoted_text
from lakestream.triggers.analytic import FUNCTIONS, Analytic
from lakestream.triggers.assign import PlacedGrid, assigner_of
from lakestream.triggers.cut import SpanGrid, cut_of
from lakestream.triggers.grid import grid_of
from lakestream.triggers.kinds import fragments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.source import Source
    from lakestream.language.model import EventFunction, Fragment, StreamDefinition, Trigger
    from lakestream.triggers.analytic import AnalyticFunction
    from lakestream.triggers.assign import Assigner
    from lakestream.triggers.cut import Cut
    from lakestream.triggers.grid import Grid


@dataclass(frozen=True)
class Windowing:
    """What makes windows: always a grid that says where they lie, and what else tells rows their window."""

    grid: Grid
    cut: Cut | None = None
    assigner: Assigner | None = None


def windowing_of(definition: StreamDefinition, source: Source, zone: str) -> Windowing:
    """Return how the trigger of a stream makes windows of its source.

    Raises StatementError SESSION_COLUMN (not the time), COLUMN_NOT_FOUND, COUNT_COLUMN (a tag).
    """
    trigger = definition.trigger
    if definition.options.late.drops:
        assigner = _assigner(definition, source, zone)
        return Windowing(PlacedGrid(assigner.reach), assigner=assigner)
    if isinstance(trigger, IdleTrigger):
        windowing_of(replace(definition, trigger=trigger.windows), source, zone)  # they are to be some
        return Windowing(SpanGrid(disjoint=True))
    if isinstance(trigger, WholeTrigger):
        return Windowing(SpanGrid(disjoint=True))
    if isinstance(trigger, GridTrigger):
        return Windowing(grid_of(trigger, zone))
    overlaps = isinstance(trigger, CountTrigger) and trigger.step < trigger.count
    grid = SpanGrid(disjoint=not overlaps)
    if not isinstance(trigger, RowTrigger):
        return Windowing(grid)
    return Windowing(grid, _cut(trigger, source, zone, emits=definition.notification is not None))


def analytic_of(
    definition: StreamDefinition, source: Source, zone: str, columns: Sequence[str]
) -> Analytic | None:
    """Return the functions of a stream over events, and its FILTER behind them; None where it has none.

    ``columns`` are those that a star stands for. Raises StatementError COLUMN_NOT_FOUND.
    """
    condition = definition.options.pre_filter
    found = tuple(_function(one, source, zone, columns) for one in definition.functions)
    return Analytic(found, row_expression(condition, source, zone) if condition else "") if found else None


def _function(function: EventFunction, source: Source, zone: str, columns: Sequence[str]) -> AnalyticFunction:
    when = row_expression(function.when, source, zone) if function.when else ""
    return FUNCTIONS[function.name](
        function.column,
        tuple(sql for one in function.arguments for sql in _argument(one, source, zone, columns)),
        tuple(row_expression(key, source, zone) for key in function.partition_by),
        when,
        function.ignores_null,
        function.offset,
    )


def _argument(fragment: Fragment, source: Source, zone: str, columns: Sequence[str]) -> list[str]:
    """Return SQL of an argument; a star is all columns."""
    tree = parse_expression(fragment)
    if not isinstance(tree, exp.Star):
        return [row_expression(fragment, source, zone)]
    left_out = {column.name.lower() for column in tree.args.get("except_") or ()}
    return [quoted(name) for name in columns if name.lower() not in left_out]


def placeholders_of(trigger: Trigger) -> frozenset[str]:
    """Return the placeholders that only windows of this trigger have."""
    if isinstance(trigger, SlidingTrigger):
        return SLIDING_PLACEHOLDERS
    if isinstance(trigger, IdleTrigger):
        return IDLE_PLACEHOLDERS
    return PERIOD_PLACEHOLDERS if isinstance(trigger, PeriodTrigger) else WINDOW_PLACEHOLDERS


def _assigner(definition: StreamDefinition, source: Source, zone: str) -> Assigner:
    trigger = definition.trigger
    assert isinstance(trigger, AdmittedTrigger)  # no statement combines it with others
    found = [row_expression(fragment, source, zone) for fragment in fragments_of(trigger)]
    return assigner_of(trigger, zone, found, by_arrival=definition.options.late.by_arrival)


def _cut(trigger: RowTrigger, source: Source, zone: str, *, emits: bool) -> Cut:
    """Return the cut of a trigger over a table.

    Raises StatementError SESSION_COLUMN (not the time), COLUMN_NOT_FOUND, COUNT_COLUMN (a tag).
    """
    if isinstance(trigger, SessionTrigger):
        known = {source.info.time_column.lower(), *TIME_PSEUDO_COLUMNS}
        if trigger.column.lower() not in known:
            raise StatementError(
                "SESSION_COLUMN",
                f"SESSION goes by the event time, {trigger.column} is another column",
                hint=f"SESSION({source.info.time_column}, {trigger.gap})",
            )
    if isinstance(trigger, CountTrigger):
        tags = {column.name.lower() for column in source.info.columns if column.is_tag} | {TBNAME}
        for fragment in trigger.columns:
            if parse_expression(fragment).name.lower() in tags:
                raise StatementError(
                    "COUNT_COLUMN",
                    f"COUNT_WINDOW counts by columns, {fragment.sql} is a tag",
                    place=place_of(fragment),
                )
    found = [row_expression(fragment, source, zone) for fragment in fragments_of(trigger)]
    if isinstance(trigger, CountTrigger) and found:
        found = [" OR ".join(f"({sql}) IS NOT NULL" for sql in found)]
    if isinstance(trigger, EventTrigger):
        seen = [_columns_seen(fragment, source) for fragment in fragments_of(trigger)] if emits else []
        found = [*(f"coalesce({sql}, false)" for sql in found), *seen]
    ties = [quoted(name) for name in source.info.key if name != source.info.time_column]
    return cut_of(trigger, found, ties, emits=emits)


def _columns_seen(fragment: Fragment, source: Source) -> str:
    """Return SQL of the columns that a condition looks at in a row, as a JSON object."""
    known = {name.lower(): name for name in source.columns}
    seen = [path_of(column, source)[1][0] for column in parse_expression(fragment).find_all(exp.Column)]
    names = dict.fromkeys(known[name.lower()] for name in seen if name.lower() in known)
    listed = ", ".join(f"{quoted_text(name)}, {quoted(name)}" for name in names)
    return f"to_json(named_struct({listed}), map('ignoreNullFields', 'false'))" if names else "'{}'"
