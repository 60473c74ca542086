"""IoTDB's functions in Spark SQL (IoTDB A3); a NULL is a time without a point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.iotdb.types import SPARK_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Attributes = Mapping[str, str]


def _timed(x: str, order: str) -> str:
    """Return what puts the points of ``x`` in order: nothing where there is none."""
    return f"IF({x} IS NULL, NULL, {order})"


def _ranked(arguments: Sequence[str], earlier: str) -> str:
    """Return what max_by and min_by look at: of equal values the earlier one counts."""
    value, by = arguments
    return f"IF({by} IS NULL, NULL, struct({by} AS v, {earlier} AS t, {value} AS x))"


def runs(condition: str, keep: str, order: str, *, ignores_null: bool) -> str:
    """Count the runs of points for which a condition holds and whose length is ``keep``, such as ``>= 3``.

    A point without a value of the condition ends a run, or is left out.
    """
    point = f"struct({order} AS o, coalesce({condition}, false) AS p)"
    points = f"IF(({condition}) IS NULL, NULL, {point})" if ignores_null else point
    ended = f"IF(s.run > 0L AND s.run {keep}, 1L, 0L)"
    return (
        f"aggregate(array_sort(collect_list({points})), named_struct('run', 0L, 'n', 0L), "
        f"(s, e) -> IF(e.p, named_struct('run', s.run + 1L, 'n', s.n), "
        f"named_struct('run', 0L, 'n', s.n + {ended})), s -> s.n + {ended})"
    )


def _mode(x: str, order: str) -> str:
    """Return the value that most points have; of several that with the earliest point.

    Points are put in order by their value, then counted value by value.
    """
    points = f"array_sort(collect_list(IF({x} IS NULL, NULL, struct({x} AS x, {order} AS o))))"
    start = "named_struct('x', l[0].x, 'o', l[0].o, 'n', 0L, 'bx', l[0].x, 'bo', l[0].o, 'bn', 0L)"
    first, count = "IF(e.x <=> s.x, s.o, e.o)", "IF(e.x <=> s.x, s.n, 0L) + 1L"
    better = f"{count} > s.bn OR ({count} = s.bn AND {first} < s.bo)"
    best = ", ".join(
        f"'b{name}', IF({better}, {new}, s.b{name})"
        for name, new in (("x", "e.x"), ("o", first), ("n", count))
    )
    step = f"named_struct('x', e.x, 'o', {first}, 'n', {count}, {best})"
    most = f"IF(size(l) = 0, NULL, aggregate(l, {start}, (s, e) -> {step}, s -> s.bx))"
    return f"get(transform(array({points}), l -> {most}), 0)"


AGGREGATES: dict[str, Callable[[Sequence[str], str], str]] = {
    "count": lambda a, _: f"count({a[0]})",
    "sum": lambda a, _: f"sum(CAST({a[0]} AS DOUBLE))",
    "avg": lambda a, _: f"avg(CAST({a[0]} AS DOUBLE))",
    "min_value": lambda a, _: f"min({a[0]})",
    "max_value": lambda a, _: f"max({a[0]})",
    "first_value": lambda a, order: f"min_by({a[0]}, {_timed(a[0], order)})",
    "last_value": lambda a, order: f"max_by({a[0]}, {_timed(a[0], order)})",
    "extreme": lambda a, _: (
        f"max_by({a[0]}, {_timed(a[0], f'struct(abs(CAST({a[0]} AS DOUBLE)) AS a, {a[0]} AS v)')})"
    ),
    "min_time": lambda a, _: f"unix_millis(min({_timed(a[0], 'ts')}))",
    "max_time": lambda a, _: f"unix_millis(max({_timed(a[0], 'ts')}))",
    "max_by": lambda a, _: f"max_by({a[0]}, {_ranked(a, '- unix_micros(ts)')})",
    "min_by": lambda a, _: f"min_by({a[0]}, {_ranked(a, 'unix_micros(ts)')})",
    "mode": lambda a, order: _mode(a[0], order),
    "stddev": lambda a, _: f"stddev_samp(CAST({a[0]} AS DOUBLE))",
    "stddev_pop": lambda a, _: f"stddev_pop(CAST({a[0]} AS DOUBLE))",
    "stddev_samp": lambda a, _: f"stddev_samp(CAST({a[0]} AS DOUBLE))",
    "variance": lambda a, _: f"var_samp(CAST({a[0]} AS DOUBLE))",
    "var_pop": lambda a, _: f"var_pop(CAST({a[0]} AS DOUBLE))",
    "var_samp": lambda a, _: f"var_samp(CAST({a[0]} AS DOUBLE))",
    "time_duration": lambda a, _: (
        f"unix_millis(max({_timed(a[0], 'ts')})) - unix_millis(min({_timed(a[0], 'ts')}))"
    ),
    "count_time": lambda a, _: f"count(DISTINCT {_timed(a[0], 'ts')})",
}
"""Each aggregate but count_if from its arguments and from what orders the points (the time, and more where
pooled)."""


# --- functions of a point -------------------------------------------------------------------------

_NAN, _LOWEST = "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"
_WHOLE = "9.0E15D"
"""From here on every DOUBLE is a whole number, beyond what Spark's functions of whole numbers hold."""


def text(value: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return exp.Literal.string(value).sql("spark")


def _double(x: str) -> str:
    return f"CAST({x} AS DOUBLE)"


def _whole(name: str, x: str) -> str:
    """Return a whole number next to a number, as a DOUBLE."""
    return f"IF(abs({_double(x)}) < {_WHOLE}, CAST({name}({_double(x)}) AS DOUBLE), {_double(x)})"


def _logarithm(name: str, x: str) -> str:
    """Return a logarithm as Java has it: of 0 and below Spark gives NULL."""
    d = _double(x)
    return f"CASE WHEN {d} > 0 THEN {name}({d}) WHEN {d} = 0 THEN {_LOWEST} WHEN {d} < 0 THEN {_NAN} END"


def _round(arguments: Sequence[str]) -> str:
    """Round half to even, as Java's Math.rint: ``rint(x * 10^places) / 10^places``."""
    if len(arguments) == 1:
        return f"rint({_double(arguments[0])})"
    scale = f"pow(10D, {arguments[1]})"
    return f"(rint({_double(arguments[0])} * {scale}) / {scale})"


def _whole_text(pattern: str) -> str:
    """Return a regular expression for the whole of a text, as a literal."""
    return text(rf"\A(?:{pattern})\z")


def _locate(arguments: Sequence[str], attributes: Attributes) -> str:
    x, wanted = arguments[0], text(attributes["target"])
    if attributes.get("reverse", "false").lower() != "true":
        return f"instr({x}, {wanted}) - 1"
    back = f"instr(reverse({x}), reverse({wanted}))"
    return f"IF({back} = 0, -1, length({x}) - length({wanted}) - {back} + 1)"


def _concat(arguments: Sequence[str], attributes: Attributes) -> str:
    """Put texts together, the targets behind (or before); where no series has a point there is none."""
    targets = [text(value) for name, value in attributes.items() if name.startswith("target")]
    behind = attributes.get("series_behind", "false").lower() == "true"
    parts = [*targets, *arguments] if behind else [*arguments, *targets]
    none = " AND ".join(f"{argument} IS NULL" for argument in arguments)
    return f"IF({none}, NULL, concat_ws('', {', '.join(parts)}))"


def _strcmp(a: str, b: str) -> str:
    """Compare as Java's compareTo: by the first characters that differ, or by the lengths."""
    shorter = f"least(length({a}), length({b}))"
    places = f"IF({shorter} > 0, sequence(1, {shorter}), array())"
    differ = f"get(filter({places}, i -> substr({a}, i, 1) <> substr({b}, i, 1)), 0)"
    codes = f"transform(array({differ}), i -> ascii(substr({a}, i, 1)) - ascii(substr({b}, i, 1)))"
    return f"coalesce(get({codes}, 0), length({a}) - length({b}))"


def cast(x: str, source: str, wanted: str) -> str:
    """Return a value of one IoTDB type as one of another, as CAST has it: whole numbers are rounded to."""
    if wanted == "BOOLEAN" and source in ("INT32", "INT64", "FLOAT", "DOUBLE"):
        return f"({x} <> 0)"
    if wanted == "BOOLEAN" and source != "BOOLEAN":
        refused = f"CAST(raise_error({text('only true and false can be cast to BOOLEAN')}) AS BOOLEAN)"
        known = f"lower({x}) IN ('true', 'false')"
        return f"CASE WHEN {known} THEN lower({x}) = 'true' WHEN {x} IS NOT NULL THEN {refused} END"
    if wanted in ("INT32", "INT64") and source in ("FLOAT", "DOUBLE"):
        return f"CAST(floor({_double(x)} + 0.5D) AS {SPARK_TYPES[wanted]})"
    return f"CAST({x} AS {SPARK_TYPES[wanted]})"


def _const(x: str, attributes: Attributes) -> str:
    kind = SPARK_TYPES[attributes["type"].upper()]
    return f"IF({x} IS NULL, NULL, CAST({text(attributes['value'])} AS {kind}))"


_SCALARS: dict[str, Callable[[Sequence[str], Attributes], str]] = {
    "abs": lambda a, _: f"abs({a[0]})",
    "ceil": lambda a, _: _whole("ceil", a[0]),
    "floor": lambda a, _: _whole("floor", a[0]),
    "ln": lambda a, _: _logarithm("ln", a[0]),
    "log10": lambda a, _: _logarithm("log10", a[0]),
    "round": lambda a, _: _round(a),
    "on_off": lambda a, named: f"({_double(a[0])} >= {float(named['threshold'])!r}D)",
    "in_range": lambda a, named: (
        f"({_double(a[0])} BETWEEN {float(named['lower'])!r}D AND {float(named['upper'])!r}D)"
    ),
    "string_contains": lambda a, named: f"contains({a[0]}, {text(named['s'])})",
    "string_matches": lambda a, named: f"({a[0]} RLIKE {_whole_text(named['regex'])})",
    "length": lambda a, _: f"length({a[0]})",
    "locate": _locate,
    "startswith": lambda a, named: f"startswith({a[0]}, {text(named['target'])})",
    "endswith": lambda a, named: f"endswith({a[0]}, {text(named['target'])})",
    "concat": _concat,
    "substring": lambda a, _: f"substring({', '.join(a)})",
    "replace": lambda a, _: f"replace({', '.join(a)})",
    "upper": lambda a, _: f"upper({a[0]})",
    "lower": lambda a, _: f"lower({a[0]})",
    "trim": lambda a, _: f"trim({a[0]})",
    "strcmp": lambda a, _: _strcmp(*a),
    "const": lambda a, named: _const(a[0], named),
    "pi": lambda a, _: f"IF({a[0]} IS NULL, NULL, pi())",
    "e": lambda a, _: f"IF({a[0]} IS NULL, NULL, e())",
}
"""Each function of a point but CAST that is not Spark's function of its name over a DOUBLE."""


def scalar(name: str, arguments: Sequence[str], attributes: Attributes) -> str:
    """Return the call of a function of a point, but not of CAST."""
    if name in _SCALARS:
        return _SCALARS[name](arguments, attributes)
    return f"{name}({_double(arguments[0])})"


# --- functions of the points around ---------------------------------------------------------------


def _before(x: str, over: str) -> str:
    return f"lag({x}) IGNORE NULLS OVER {over}"


def _since(x: str, over: str) -> str:
    """Return the milliseconds since the point before."""
    return f"(unix_millis(ts) - {_before(_timed(x, 'unix_millis(ts)'), over)})"


def _diff(x: str, attributes: Attributes, over: str) -> str:
    """Return the difference to the last row with a point, or to the last row, whether it has one or not."""
    is_plain = attributes.get("ignoreNull", "true").lower() == "false"
    before = f"lag({x}) OVER {over}" if is_plain else _before(x, over)
    return f"({_double(x)} - {_double(before)})"


def _first_of_all(x: str, attributes: Attributes, over: str, way: str) -> str:
    """Return the k points with the greatest (least) values, the earlier ones where they are equal."""
    ordered = over.replace("ORDER BY ts", f"ORDER BY {x} {way} NULLS LAST, ts")
    return f"IF(row_number() OVER {ordered} <= {int(attributes['k'])}, {x}, NULL)"


_AROUND: dict[str, Callable[[str, Attributes, str], str]] = {
    "diff": _diff,
    "difference": lambda x, _, over: f"({x} - {_before(x, over)})",
    "non_negative_difference": lambda x, _, over: f"abs({x} - {_before(x, over)})",
    "derivative": lambda x, named, over: f"({_diff(x, named, over)} / {_since(x, over)})",
    "non_negative_derivative": lambda x, named, over: f"abs({_diff(x, named, over)} / {_since(x, over)})",
    "time_difference": lambda x, _, over: f"IF({x} IS NULL, NULL, {_since(x, over)})",
    "top_k": lambda x, named, over: _first_of_all(x, named, over, "DESC"),
    "bottom_k": lambda x, named, over: _first_of_all(x, named, over, "ASC"),
    "change_points": lambda x, _, over: f"IF({x} <=> {_before(x, over)}, NULL, {x})",
}


def around(name: str, x: str, attributes: Attributes, partition: str) -> str:
    """Return the call of a function that looks at the rows around, those of each ``partition`` alone."""
    over = f"({f'PARTITION BY {partition} ' if partition else ''}ORDER BY ts)"
    return _AROUND[name](x, attributes, over)
