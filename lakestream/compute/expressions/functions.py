"""TDengine's functions with TDengine's meaning, written in Spark SQL; Spark's own pass as they are.

Where rows have an order, it is that of time; among rows of equal time the smaller (first) or larger
(last) tbname and then value decides, so that a result never depends on how rows lie in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.aggregates import is_aggregate
from lakestream.language.common.functions import wrong_number
from lakestream.language.common.query_clauses import SLICES, group_keys
from lakestream.language.common.templates import made, put_in_place
from lakestream.language.expressions.parsing import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REFUSED = frozenset(
    {
        "forecast", "fill_forward", "cols",
    }
)  # fmt: skip
"""Functions of TDengine that give several rows, or need rows outside the window."""


@dataclass(frozen=True)
class RowOrder:
    """What puts the rows of a table in order: its time column, and what decides between equal times."""

    time: exp.Expr
    ties: tuple[exp.Expr, ...]
    unordered: frozenset[str] = frozenset()
    """The columns (in lower case) whose values Spark cannot order, such as maps; their texts decide."""

    def key(self, value: exp.Expr) -> exp.Expr:
        """Return the expression by which rows with this value are ordered."""
        parts = [self.time.copy(), *(tie.copy() for tie in self.ties)]
        name = value.name.lower() if isinstance(value, exp.Column) else None
        if name in self.unordered:
            return call("struct", *parts, _as_text(value))
        # Arrow takes no struct with two fields of one name.
        is_there = name in {p.name.lower() for p in parts}
        return call("struct", *parts, exp.alias_(value.copy(), "_ls_v") if is_there else value.copy())


def _as_text(value: exp.Expr) -> exp.Expr:
    options = call("map", exp.Literal.string("ignoreNullFields"), exp.Literal.string("false"))
    return exp.alias_(call("to_json", value.copy(), options), "_ls_v")


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call of a Spark function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def is_aggregate_call(node: exp.Expr) -> bool:
    """Return whether it is an aggregate, with its FILTER where it has one."""
    return is_aggregate(node) or (isinstance(node, exp.Filter) and is_aggregate(node.this))


def aggregates(projections: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the outermost aggregates of projections, with their FILTER; not those of queries inside."""
    return [
        node
        for projection in projections
        for node in projection.walk(prune=lambda n: is_aggregate_call(n) or isinstance(n, exp.Query))
        if is_aggregate_call(node)
    ]


def translate(node: exp.Expr, order: RowOrder | None, *, spark: bool = False) -> exp.Expr:
    """Return the Spark expression of a function call; other nodes come back as they are.

    ``order`` is that of the rows the call aggregates, None where they come from no single table; ``spark``:
    it means what Spark calls so, whatever TDengine does.
    Raises NotSupportedError for functions of TDengine that do not fit a window, StatementError for a
    wrong number of arguments or an order that is needed and not there.
    """
    name = _name(node)
    if (spark and name in _OTHERWISE) or isinstance(node.parent, exp.WithinGroup):
        return node
    if name in REFUSED:
        raise NotSupportedError(f"the function {name}() in a stream")
    rule = _RULES.get(name)
    if rule is None:
        return node
    return rule(name, _arguments(node), order)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return _CLASSES.get(type(node), "")


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    given = (node.this, node.args.get("quantile"), *node.expressions)
    return [value for value in given if isinstance(value, exp.Expr)]


def _expect(name: str, arguments: list[exp.Expr], low: int, high: int) -> None:
    if said := wrong_number(f"{name}()", len(arguments), low, high):
        raise StatementError("WRONG_ARGUMENTS", said)


def _ordered(name: str, order: RowOrder | None) -> RowOrder:
    if order is None:
        raise StatementError(
            "NO_ROW_ORDER",
            f"{name}() needs rows in time order, and this query reads no single table with a time column",
            hint="use min_by(value, time) or max_by(value, time)",
        )
    return order


def _not_null(aggregate: exp.Expr, value: exp.Expr) -> exp.Expr:
    condition = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition))


def _extreme(name: str, arguments: list[exp.Expr], order: RowOrder | None) -> exp.Expr:
    """first/last: the value of the earliest/latest row that has one; *_row: of the row itself."""
    _expect(name, arguments, 1, 1)
    value = arguments[0]
    picked = call(
        "min_by" if name.startswith("first") else "max_by", value.copy(), _ordered(name, order).key(value)
    )
    return picked if name.endswith("_row") else _not_null(picked, value)


def pick_beside(select: exp.Select, order: RowOrder, columns: frozenset[str]) -> None:
    """Give plain columns beside a selection the values of the row that it selects (TDengine).

    There must be one selection only: ``max``, ``min``, ``first``, ``last`` and their like. Of rows with
    equal values the earliest counts. Only ``columns`` of the rows are meant, and the names of their time,
    unless they are grouped by; beside several selections a column would be of no one row.
    """
    keys = group_keys(select)
    calls = {text_of(node): node for node in aggregates(select.selects) if _selection(node) is not None}
    if keys is None or len(calls) != 1 or any(item.find(exp.Window) for item in select.selects):
        return
    slices = select.args.get(SLICES)
    grouped = {text_of(key).lower() for key in [*keys, *(slices.expressions if slices else [])]}
    known = {name.lower() for name in columns} | TIME_PSEUDO_COLUMNS
    (selected,) = calls.values()
    for number, item in enumerate(select.selects, 1):
        if grouped & {str(number), item.alias_or_name.lower(), text_of(item.unalias()).lower()}:
            continue
        own = list(item.walk(prune=lambda n: is_aggregate_call(n) or isinstance(n, _OF_OTHERS)))
        for column in (node for node in own if isinstance(node, exp.Column)):
            is_known = known & {part.name.lower() for part in column.parts}
            if is_known and text_of(column).lower() not in grouped:
                picked = _of_row_of(selected, column, order)
                put_in_place(
                    column, exp.alias_(picked, column.name, quoted=True) if column is item else picked
                )


_OF_OTHERS = (exp.Query, exp.Window)


def _selection(node: exp.Expr) -> exp.Expr | None:
    """Return the call that selects a row, without its FILTER; None for another aggregate."""
    node = node.this if isinstance(node, exp.Filter) else node
    return node if _name(node) in _SELECTIONS and len(_arguments(node)) == 1 else None


def _of_row_of(selected: exp.Expr, column: exp.Column, order: RowOrder) -> exp.Expr:
    """Return the aggregate that is the column's value in the row that another aggregate selects."""
    call_ = cast("exp.Expr", _selection(selected))
    (value,), name = _arguments(call_), _name(call_)
    key = order.key(order.time if column.name.lower() in TIME_PSEUDO_COLUMNS else column)
    if name in ("max", "min"):
        sign = "-" if name == "max" else ""
        at = made(f"{sign}unix_micros(CAST(_1 AS TIMESTAMP))", {"_1": order.time})
        ranks = enumerate((value.copy(), at, key))
        key = call("struct", *(exp.alias_(part, f"_ls_k{number}") for number, part in ranks))
    picked = call("min_by" if name in ("min", "first", "first_row") else "max_by", column.copy(), key)
    found = picked if name.endswith("_row") else _not_null(picked, value)
    if isinstance(selected, exp.Filter):
        within = selected.expression.this.copy()
        both = exp.and_(found.expression.this, within) if isinstance(found, exp.Filter) else within
        found = exp.Filter(this=picked, expression=exp.Where(this=both))
    return found


def _any(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
    """any_value(x): one of the values, the same each time: the smallest."""
    _expect(name, arguments, 1, 1)
    return exp.Min(this=arguments[0].copy())


def _spread(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
    """spread(x): the largest less the smallest value; of times in milliseconds."""
    _expect(name, arguments, 1, 1)
    value = arguments[0]
    ends = {"_1": exp.Max(this=value.copy()), "_2": exp.Min(this=value.copy())}
    micros = "unix_micros(CAST({} AS TIMESTAMP))"
    return made(
        f"CASE WHEN typeof(_1) = 'timestamp' THEN ({micros.format('_1')} - {micros.format('_2')}) / 1000D "
        "ELSE CAST(_1 AS DOUBLE) - CAST(_2 AS DOUBLE) END",
        ends,
    )


def _of_one(kind: type[exp.AggFunc], **options: exp.Expr) -> _Rule:
    """Return the rule of an aggregate over one value that Spark has under another name."""

    def rule(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
        _expect(name, arguments, 1, 1)
        return kind(this=arguments[0].copy(), **options)

    return rule


def _group_concat(name: str, arguments: list[exp.Expr], order: RowOrder | None) -> exp.Expr:
    """group_concat(x, …, separator): the texts of the rows in time order, rows with a NULL left out."""
    _expect(name, arguments, 2, 9)
    text = call("concat", *(argument.copy() for argument in arguments[:-1])).sql("spark")
    key = _ordered(name, order).key(arguments[0]).sql("spark")
    rows = f"array_sort(collect_list(struct({key} AS o, {text} AS x)) FILTER (WHERE {text} IS NOT NULL))"
    joined = f"array_join(transform({rows}, p -> p.x), {arguments[-1].sql('spark')})"
    return _raw(f"CASE WHEN count({text}) > 0 THEN {joined} END")


def _elapsed(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
    """elapsed(ts[, unit]): from the first to the last time, in the unit (default: milliseconds)."""
    _expect(name, arguments, 1, 2)
    unit = _unit_micros(arguments[1]) if len(arguments) == 2 else "1000"
    time = arguments[0]
    span = exp.Sub(
        this=call("unix_micros", exp.Max(this=time.copy())),
        expression=call("unix_micros", exp.Min(this=time.copy())),
    )
    return exp.Div(this=exp.Paren(this=span), expression=exp.Literal.number(f"{unit}D"))


def _unit_micros(node: exp.Expr) -> str:
    """Return the microseconds of a unit of time as a number of SQL; a nanosecond, 1b, is a part of one."""
    text = node.expressions[0].name if isinstance(node, exp.Anonymous) and node.expressions else ""
    return f"{text[:-1]}e-3" if text[-1:] == "b" else str(duration_micros(node))


def duration_micros(node: exp.Expr) -> int:
    """Return the microseconds of a duration literal (``5m``), or of a plain number of milliseconds."""
    from lakestream.language.model import MICROS

    text = node.expressions[0].name if isinstance(node, exp.Anonymous) and node.expressions else node.name
    if text.isdigit():
        return int(text) * 1_000
    if text[:-1].isdigit() and text[-1:] in MICROS:
        return int(text[:-1]) * MICROS[text[-1]]
    raise StatementError("BAD_DURATION", f"{text or node.sql()} is not a duration of fixed length")


def _apercentile(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
    """apercentile(x, p[, algorithm]): p of 0 to 100, as DOUBLE; both algorithms are Spark's one."""
    _expect(name, arguments, 2, 3)
    known = ("default", "t-digest")
    if len(arguments) == 3 and arguments[2].name.lower() not in known:
        raise StatementError("WRONG_ARGUMENTS", f"{name}() knows the algorithms {' and '.join(known)}")
    return _double(call("percentile_approx", arguments[0].copy(), _share(name, arguments[1])))


def _percentile(name: str, arguments: list[exp.Expr], _order: RowOrder | None) -> exp.Expr:
    """percentile(x, p, …): p of 0 to 100; of several p a text, a JSON array of the percentiles."""
    _expect(name, arguments, 2, 11)
    found = [call("percentile", arguments[0].copy(), _share(name, p)) for p in arguments[1:]]
    if len(found) == 1:
        return found[0]
    form = exp.Literal.string(f"[{', '.join(['%.6f'] * len(found))}]")
    known = exp.Not(this=exp.Is(this=found[0].copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=call("format_string", form, *found))])


def _share(name: str, node: exp.Expr) -> exp.Expr:
    """Return a percentage as a share of one."""
    is_number = isinstance(node, exp.Literal) and not node.is_string
    if is_number and not 0 <= float(node.name) <= 100:
        raise StatementError("WRONG_ARGUMENTS", f"{name}() takes percentages from 0 to 100, not {node.name}")
    return exp.Div(this=exp.paren(node), expression=exp.Literal.number("100.0D"))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("double"))


def _points(value: exp.Expr, order: RowOrder) -> str:
    """Return SQL for the array of (t µs, …, v double), in the order of rows, of those that have a value."""
    ties = "".join(f"{tie.sql('spark')} AS o{number}, " for number, tie in enumerate(order.ties))
    time = f"unix_micros({order.time.sql('spark')}) AS t"
    point = f"struct({time}, {ties}CAST({value.sql('spark')} AS DOUBLE) AS v)"
    return f"array_sort(collect_list({point}) FILTER (WHERE {value.sql('spark')} IS NOT NULL))"


def _over_points(points: str, result: str) -> exp.Expr:
    """Return an aggregate of an array of points ``p``, of each time the first (the smallest key)."""
    firsts = f"transform(array({points}), p -> filter(p, (q, i) -> NOT q.t <=> get(p, i - 1).t))"
    return _raw(f"element_at(transform({firsts}, p -> {result}), 1)")


def _twa(name: str, arguments: list[exp.Expr], order: RowOrder | None) -> exp.Expr:
    """twa(x): the mean over time of the straight lines between the rows; of one row, its value."""
    _expect(name, arguments, 1, 1)
    points = _points(arguments[0], _ordered(name, order))
    area = (
        "aggregate(sequence(1, size(p) - 1), 0.0D, (s, i) -> "
        "s + (p[i - 1].v + p[i].v) / 2 * (p[i].t - p[i - 1].t))"
    )
    span = "(p[size(p) - 1].t - p[0].t)"
    mean = f"CASE WHEN size(p) = 0 THEN NULL WHEN {span} = 0 THEN p[0].v ELSE {area} / {span} END"
    return _over_points(points, mean)


def _irate(name: str, arguments: list[exp.Expr], order: RowOrder | None) -> exp.Expr:
    """irate(x): the change a second between the last two values; a counter that fell began anew from 0."""
    _expect(name, arguments, 1, 1)
    points = _points(arguments[0], _ordered(name, order))
    last, before = "p[size(p) - 1]", "p[size(p) - 2]"
    change = f"IF({last}.v < {before}.v, {last}.v, {last}.v - {before}.v)"
    rate = f"{change} * 1e6D / ({last}.t - {before}.t)"
    return _over_points(points, f"CASE size(p) WHEN 0 THEN NULL WHEN 1 THEN 0D ELSE {rate} END")


def _leastsquares(name: str, arguments: list[exp.Expr], order: RowOrder | None) -> exp.Expr:
    """leastsquares(x, start, step): the line through the rows numbered start, start + step, …, as text."""
    _expect(name, arguments, 3, 3)
    points = _points(arguments[0], _ordered(name, order))
    start, step = (argument.sql("spark") for argument in arguments[1:])
    # Rows are numbered from 0; the line over start + i * step follows from the one over i.
    n, index = "CAST(size(p) AS DOUBLE)", "sequence(0, size(p) - 1)"
    sum_y = "aggregate(p, 0.0D, (s, q) -> s + q.v)"
    sum_iy = f"aggregate({index}, 0.0D, (s, i) -> s + i * p[i].v)"
    slope = f"(({n} * {sum_iy} - {n} * ({n} - 1) / 2 * {sum_y}) / ({n} * {n} * ({n} * {n} - 1) / 12))"
    at_zero = f"({sum_y} / {n} - {slope} * ({n} - 1) / 2)"
    per_step = f"({slope} / ({step}))"
    text = f"format_string('{{slop:%.6f, intercept:%.6f}}', {per_step}, {at_zero} - {per_step} * ({start}))"
    return _raw(
        f"element_at(transform(array({points}), p -> CASE WHEN size(p) < 2 THEN NULL ELSE {text} END), 1)"
    )


def _raw(sql: str) -> exp.Expr:
    """Return an aggregate expression that sqlglot need not understand, only carry."""
    node = exp.Var(this=sql)
    node.meta["aggregate"] = True
    return node


if TYPE_CHECKING:
    _Rule = Callable[[str, list[exp.Expr], RowOrder | None], exp.Expr]

_SELECTIONS = frozenset({"max", "min", "first", "last", "first_row", "last_row"})

_CLASSES: dict[type[exp.Expr], str] = {
    exp.Max: "max",
    exp.Min: "min",
    exp.First: "first",
    exp.Last: "last",
    exp.FirstValue: "first",
    exp.LastValue: "last",
    exp.AnyValue: "any_value",
    exp.Stddev: "stddev",
    exp.Quantile: "percentile",
    exp.Mode: "mode",
}

_OTHERWISE = frozenset(
    {"std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "percentile"}
)
"""Functions that Spark has too, some with another meaning: its ``stddev`` is that of a sample."""

_RULES: dict[str, _Rule] = {
    "any_value": _any,
    "first": _extreme,
    "last": _extreme,
    "first_row": _extreme,
    "last_row": _extreme,
    "spread": _spread,
    **dict.fromkeys(("std", "stddev", "stddev_pop"), _of_one(exp.StddevPop)),
    "stddev_samp": _of_one(exp.StddevSamp),
    **dict.fromkeys(("variance", "var_pop"), _of_one(exp.VariancePop)),
    "var_samp": _of_one(exp.Variance),
    # Of values that are there equally often the smallest: a stream must say the same each time.
    "mode": _of_one(exp.Mode, deterministic=exp.true()),
    "elapsed": _elapsed,
    "apercentile": _apercentile,
    "percentile": _percentile,
    "hyperloglog": _of_one(exp.ApproxDistinct),
    "group_concat": _group_concat,
    "twa": _twa,
    "irate": _irate,
    "leastsquares": _leastsquares,
}
