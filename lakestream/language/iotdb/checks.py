"""What of a query over the tree, or of a continuous query, is refused by its text alone (IoTDB A2)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.expressions import aggregate_calls
from lakestream.language.iotdb.paths import has_placeholder
from lakestream.language.model import MICROS

if TYPE_CHECKING:
    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.values import CreateContinuousQuery, Select, Span, Target


def check_select(select: Select, slices: list[str]) -> None:
    """Check the clauses against each other. Raises StatementError with the place.

    ``slices`` are the words SLIMIT and SOFFSET as far as they were given.
    """
    _check_slices(select, slices)
    if select.latest:
        _check_latest(select)
    _check_aggregates(select)
    _check_items(select)
    _check_conditions(select)
    _check_cut(select)
    _check_levels(select)
    if select.by_device:
        _check_by_device(select)
    if select.into:
        _check_into(select)
        _check_number(select)


def _check_latest(select: Select) -> None:
    """Refuse what does not go with LAST: it takes series as they are, and conditions on their times."""
    for item in select.items:
        if not _is_plain(item.expression) or item.alias is not None:
            message = "SELECT LAST takes series, without functions and aliases"
            raise item.expression.error("LAST_INVALID", message)
    if select.where is not None and select.where.paths:
        raise select.where.error(
            "LAST_INVALID",
            "WHERE of SELECT LAST looks at times, not at values",
            hint="WHERE time > now() - 1h",
        )
    clauses = {
        "INTO": select.into,
        "GROUP BY": select.group or select.cut or select.levels,
        "HAVING": select.having,
        "FILL": select.fill,
        "ALIGN BY DEVICE": select.by_device,
    }
    for clause, is_there in clauses.items():
        if is_there:
            raise _refused(select, "LAST_INVALID", f"SELECT LAST does not go with {clause}")


def _check_slices(select: Select, slices: list[str]) -> None:
    if slices and select.into:
        raise _refused(select, "INTO_INVALID", f"INTO does not go with {slices[0]}")


def _check_aggregates(select: Select) -> None:
    items = [item.expression for item in select.items if not item.expression.is_end_time]
    aggregated = [item.aggregates for item in items]
    if any(aggregated) and not all(aggregated):
        raw = items[aggregated.index(False)]
        raise raw.error("RAW_AND_AGGREGATE", "raw series and aggregates cannot be selected together")
    for item in items:
        if item.aggregates and item.around:
            raise item.error("FUNCTION_NESTED", f"{item.around} looks at points, not at aggregates")
        if item.uses_time:
            raise item.error("TIME_SELECTED", "the time of a row is its Time column, not an item of SELECT")
        if item.aggregates and _has_raw_part(item):
            raise item.error("RAW_AND_AGGREGATE", "an expression holds either aggregates or raw series")
    if (select.group or select.cut or select.levels) and not any(aggregated):
        raise items[0].error(
            "GROUP_BY_RAW", "GROUP BY needs aggregates, not raw series", hint=f"avg({items[0].fragment.sql})"
        )


def _check_items(select: Select) -> None:
    if not any(item.expression.paths for item in select.items):
        raise select.items[0].expression.error("NO_SERIES", "SELECT names no series")


def _has_raw_part(expression: Expression) -> bool:
    """Tell whether a path stands outside of every aggregate."""
    tree = expression.tree()
    inside = {id(node) for call in aggregate_calls(expression, tree) for node in call.walk()}
    return any(id(column) not in inside for column in tree.find_all(exp.Column))


def _check_conditions(select: Select) -> None:
    if select.where is not None and select.where.aggregates:
        raise select.where.error("AGGREGATE_IN_WHERE", "WHERE looks at points: it takes no aggregate")
    if select.having is None:
        return
    if not any(item.expression.aggregates for item in select.items):
        raise select.having.error("HAVING_INVALID", "HAVING needs a query of aggregates")
    if not select.having.aggregates or _has_raw_part(select.having):
        raise select.having.error("HAVING_INVALID", "HAVING takes a condition on aggregates, not on points")


def _check_cut(select: Select) -> None:
    conditions = [select.where, select.having, None if select.cut is None else select.cut.expression]
    for condition in conditions:
        if condition is not None and condition.around:
            raise condition.error("FUNCTION_NESTED", "a function of the points around stands in SELECT alone")
    ends = [item.expression for item in select.items if item.expression.is_end_time]
    if ends and (select.cut is None or select.into):
        raise ends[0].error("ARGUMENT_KIND", "__endTime is shown by windows of rows: GROUP BY SESSION(…)")
    control = None if select.cut is None else select.cut.expression
    if control is None:
        return
    if control.aggregates or control.uses_time:
        raise control.error("ARGUMENT_KIND", "windows are cut by a value of the points")
    if not control.paths:
        raise control.error("NO_SERIES", "windows are cut by a series")


def _check_levels(select: Select) -> None:
    if not select.levels:
        return
    if select.by_device:
        raise _refused(select, "LEVEL_INVALID", "LEVEL does not go with ALIGN BY DEVICE")
    for item in select.items:
        if item.expression.counts_times:
            raise item.expression.error("LEVEL_INVALID", "count_time counts for all series: it has no LEVEL")
    if select.having is not None:
        expressions = [*(item.expression for item in select.items), select.having]
        for expression in expressions:
            if any(len(path.nodes) > 1 for path in expression.paths):
                raise expression.error("LEVEL_INVALID", "with LEVEL and HAVING, measurements stand alone")


def _check_by_device(select: Select) -> None:
    expressions = [item.expression for item in select.items]
    control = None if select.cut is None else select.cut.expression
    expressions += [one for one in (select.where, select.having, control) if one is not None]
    for expression in expressions:
        for path in expression.paths:
            if len(path.nodes) > 1:
                raise expression.error(
                    "ALIGN_BY_DEVICE",
                    f"with ALIGN BY DEVICE only measurements may be named, not {path}",
                    hint="the devices stand in FROM",
                )


# --- INTO -----------------------------------------------------------------------------------------


def _check_into(select: Select) -> None:
    if any(len(target.device.nodes) < 2 and str(target.device) != "::" for target in select.into):
        raise _refused(select, "INTO_INVALID", "a target's device is a path such as root.out.d")
    in_device = any(has_placeholder(node) for target in select.into for node in target.device.nodes)
    in_measurement = any(has_placeholder(name) for target in select.into for name in target.measurements)
    plain = all(_is_plain(item.expression) for item in select.items)
    if select.by_device:
        if in_device and len(select.into) > 1:
            raise _refused(select, "INTO_INVALID", "a device with placeholders is the one target of INTO")
        if in_measurement and not plain:
            raise _refused(
                select, "INTO_INVALID", "a placeholder for the measurement needs plain series in SELECT"
            )
        return
    if (in_device or in_measurement) and not plain:
        raise _refused(
            select,
            "INTO_INVALID",
            "placeholders in INTO need plain series in SELECT, or ALIGN BY DEVICE",
        )
    if in_measurement and any(len(target.measurements) != 1 for target in select.into):
        raise _refused(
            select, "INTO_INVALID", "where the measurement is a placeholder, every target has just that one"
        )
    if not (in_device or in_measurement):
        _check_distinct(select, select.into)


def _check_number(select: Select) -> None:
    """Refuse a number of targets that no series could pair with."""
    patterns = any(path.is_pattern for item in select.items for path in item.expression.paths)
    placed = any(has_placeholder(name) for target in select.into for name in target.measurements)
    if patterns or placed or select.levels:
        return
    given = [len(target.measurements) for target in select.into]
    if select.by_device:
        if any(number != len(select.items) for number in given):
            raise _refused(select, "INTO_INVALID", "every device of INTO has a measurement for each item")
    elif not any(source.is_pattern for source in select.sources):
        sources = len(set(select.sources))
        most = sum(sources ** len(item.expression.paths) for item in select.items)
        # Of several devices some may lack a measurement.
        if sum(given) > most or (sources == 1 and sum(given) < most):
            raise _refused(
                select, "INTO_INVALID", f"INTO names {sum(given)} targets for {most} columns of the result"
            )


def _check_distinct(select: Select, targets: tuple[Target, ...]) -> None:
    named = [(str(target.device), name) for target in targets for name in target.measurements]
    for device, name in named:
        if named.count((device, name)) > 1:
            raise _refused(select, "INTO_INVALID", f"{device}.{name} is a target twice")


def _is_plain(expression: Expression) -> bool:
    return expression.text == "_p0"


def _refused(select: Select, code: str, message: str) -> StatementError:
    return StatementError(code, message, place=place_of(select.text))


# --- continuous queries ---------------------------------------------------------------------------


def check_continuous_query(query: CreateContinuousQuery) -> None:
    """Check a CREATE CQ: all but :func:`check_reach`, and its EVERY, which the lake's settings limit.

    Raises StatementError CQ_INVALID with IoTDB's messages, BAD_DURATION for durations that cannot be
    compared.
    """
    select = query.select
    if select.group is not None and select.group.range is not None:
        raise _refused(select, "CQ_INVALID", "Specifying time range in GROUP BY TIME clause is prohibited.")
    if select.where is not None and select.where.uses_time:
        raise select.where.error("CQ_INVALID", "Specifying time filters in the query body is prohibited.")
    if query.every is None and select.group is None:
        raise _refused(
            select,
            "CQ_INVALID",
            "At least one of the parameters `every_interval` and `group_by_interval` needs to be specified.",
        )
    if not select.into:
        raise _refused(select, "CQ_INVALID", "The query body misses an INTO clause.")
    _check_range(query)


def _check_range(query: CreateContinuousQuery) -> None:
    every, start, end = query.distance, query.reach, query.end_offset
    months, micros = _comparable(query, "months"), _comparable(query, "micros")
    if months and micros:
        raise StatementError(
            "BAD_DURATION",
            "months and years cannot be compared with durations of fixed length: "
            + ", ".join(str(span) for span in (every, start, end) if span is not None),
            hint="write EVERY and RANGE both in months, or both without",
            place=place_of(query.place),
        )
    size = operator.attrgetter("months" if months else "micros")
    if size(start) <= 0:
        raise _cq(query, "The start time offset should be greater than 0.")
    if end is not None and size(start) <= size(end):
        raise _cq(query, "The start time offset should be greater than end time offset.")


def check_reach(query: CreateContinuousQuery) -> None:
    """Raise StatementError CQ_INVALID where the range of an execution holds no whole window."""
    group = query.select.group
    if group is not None and not _reaches(query.reach, group.interval):
        raise _cq(query, "The start time offset should be greater than or equal to the group_by_interval.")


def _reaches(start: Span, interval: Span) -> bool:
    """Tell whether a duration is at least as long as another, however long its months are."""
    if start.months and interval.months:
        return (start.months, start.micros) >= (interval.months, interval.micros)
    return _least(start) >= _greatest(interval)


def _least(span: Span) -> int:
    """Return the least length of a duration in microseconds: months of 28 days, years of 365."""
    years, months = divmod(span.months, 12)
    return span.micros + (years * 365 + months * 28) * MICROS["d"]


def _greatest(span: Span) -> int:
    years, months = divmod(span.months, 12)
    return span.micros + (years * 366 + months * 31) * MICROS["d"]


def _comparable(query: CreateContinuousQuery, unit: str) -> bool:
    spans = (query.distance, query.reach, query.end_offset)
    return any(getattr(span, unit) for span in spans if span is not None)


def _cq(query: CreateContinuousQuery, message: str) -> StatementError:
    return StatementError("CQ_INVALID", message, place=place_of(query.place))
