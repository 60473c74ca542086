"""Expressions of a query over the tree, written in Spark SQL (IoTDB A3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.tree import series_functions
from lakestream.compute.tree.series_types import Typing
from lakestream.language.iotdb.expressions import (
    AT,
    END_TIME,
    KEEP,
    NOW,
    SPAN,
    TIME,
    arguments_of,
    call_of,
    number_of,
)
from lakestream.language.iotdb.functions import AGGREGATES, SCALARS
from lakestream.language.iotdb.types import SPARK_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.compute.tree.expand import Output
    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.values import Instant

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Rendering:
    """How the expressions of one query become Spark SQL over rows with ``ts`` and, by device, ``device``.

    ``order`` is what orders the points of an aggregate, ``partition`` what rows are looked at apart by;
    ``instant`` gives a written time in microseconds, ``now_us`` is what ``now()`` stands for.
    """

    order: str
    partition: str
    instant: Callable[[Instant], int]
    now_us: int

    def sql(self, output: Output, node: exp.Expr, operand: Callable[[int], str]) -> str:
        """Return a part of the tree of a column (or condition) as Spark SQL; ``operand`` gives a path's.

        Raises StatementError TIME_CONDITION, ARGUMENT_KIND.
        """
        expression = output.expression

        def sql(part: exp.Expr) -> str:
            return self.sql(output, part, operand)

        if isinstance(node, (*_COMPARISONS, exp.Between, exp.In)) and _names_time(node):
            return self._time_compared(expression, node)
        if isinstance(node, exp.Column):
            if node.name == END_TIME:
                return "max(ts)"
            number = number_of(node)
            if number is None:
                raise expression.error("TIME_CONDITION", "time is compared with an instant")
            return operand(number)
        if isinstance(node, exp.Case):
            return _case(node, SPARK_TYPES[Typing(output).of(node)], sql)
        if isinstance(node, exp.Anonymous):
            return self._call(output, node, sql)
        return _operator(node, sql)

    def _call(self, output: Output, node: exp.Anonymous, sql: Callable[[exp.Expr], str]) -> str:
        expression = output.expression
        name = call_of(expression, node)
        if name is None:
            raise expression.error("TIME_CONDITION", "an instant or duration is compared with time")
        given, attributes = arguments_of(node)
        if name == "count_if":
            ignores_null = attributes.get("ignoreNull", "true").lower() == "true"
            keep = _keep(expression, given[1])
            return series_functions.runs(sql(given[0]), keep, self.order, ignores_null=ignores_null)
        if name in ("max_by", "min_by") and isinstance(given[0], exp.Column) and given[0].name == TIME:
            arguments = ["unix_millis(ts)", sql(given[1])]
        else:
            arguments = [sql(argument) for argument in given]
        if name == "count" and _pools_measurements(output, given[0]):
            return f"coalesce(sum({arguments[0]}), 0)"
        if name in AGGREGATES:
            return series_functions.AGGREGATES[name](arguments, self.order)
        if SCALARS[name].over_rows:
            return series_functions.around(name, arguments[0], attributes, self.partition)
        if name == "cast":
            return series_functions.cast(
                arguments[0], Typing(output).of(given[0]), attributes["type"].upper()
            )
        _check_constants(expression, name, given)
        return series_functions.scalar(name, arguments, attributes)

    def _time_compared(self, expression: Expression, node: exp.Expr) -> str:
        if isinstance(node, exp.Between | exp.In):
            return self._time_among(expression, node)
        left, right = node.this, node.expression
        sign = _BINARY[type(node)]
        if not _is_time(left):
            left, right, sign = right, left, _MIRRORED[sign]
        if not _is_time(left) or _names_time(right):
            raise expression.error("TIME_CONDITION", "time stands alone on one side of a comparison")
        return f"ts {sign} {self._instant(expression, right)}"

    def _time_among(self, expression: Expression, node: exp.Between | exp.In) -> str:
        is_range = isinstance(node, exp.Between)
        others = [node.args["low"], node.args["high"]] if is_range else node.expressions
        if not _is_time(node.this) or any(map(_names_time, others)):
            raise expression.error("TIME_CONDITION", "time stands alone before BETWEEN and IN")
        instants = [self._instant(expression, other) for other in others]
        return f"(ts BETWEEN {' AND '.join(instants)})" if is_range else f"(ts IN ({', '.join(instants)}))"

    def _instant(self, expression: Expression, node: exp.Expr) -> str:
        return f"timestamp_micros({self._micros(expression, node)})"

    def _micros(self, expression: Expression, node: exp.Expr) -> int:
        """Return a constant time in microseconds."""
        if isinstance(node, exp.Paren):
            return self._micros(expression, node.this)
        if isinstance(node, exp.Neg) and node.this.is_int:
            return self.instant(-int(node.this.name))
        if isinstance(node, exp.Literal) and (node.is_int or node.is_string):
            return self.instant(node.name if node.is_string else int(node.name))
        if isinstance(node, exp.Anonymous) and node.name in (AT, NOW):
            return self.now_us if node.name == NOW else self.instant(node.expressions[0].name)
        if isinstance(node, exp.Add | exp.Sub) and _is_span(node.expression):
            shift = int(node.expression.expressions[0].name)
            return self._micros(expression, node.this) + (shift if isinstance(node, exp.Add) else -shift)
        raise expression.error("TIME_CONDITION", "time is compared with an instant, or now() ± a duration")


def _case(node: exp.Case, kind: str, sql: Callable[[exp.Expr], str]) -> str:
    """Return a CASE whose results are all of one Spark type."""
    parts = ["CASE", *([sql(node.this)] if node.this is not None else [])]
    parts += [
        f"WHEN {sql(branch.this)} THEN CAST({sql(branch.args['true'])} AS {kind})"
        for branch in node.args["ifs"]
    ]
    if node.args.get("default") is not None:
        parts.append(f"ELSE CAST({sql(node.args['default'])} AS {kind})")
    return f"({' '.join(parts)} END)"


_FORMS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Paren: ("({})", ("this",)),
    exp.Neg: ("(- {})", ("this",)),
    exp.Not: ("(NOT {})", ("this",)),
    exp.Between: ("({} BETWEEN {} AND {})", ("this", "low", "high")),
    exp.Is: ("({} IS {})", ("this", "expression")),
    exp.Like: ("({} LIKE {})", ("this", "expression")),
    exp.RegexpLike: ("({} RLIKE {})", ("this", "expression")),
    **{kind: (f"({{}} {sign} {{}})", ("this", "expression")) for kind, sign in _BINARY.items()},
}
_ON_DOUBLES: dict[type[exp.Expr], str] = {
    exp.Add: "({} + {})",
    exp.Sub: "({} - {})",
    exp.Mul: "({} * {})",
    exp.Div: "try_divide({}, {})",
    exp.Mod: "try_mod({}, {})",
}
"""Arithmetic is on doubles; a division by zero gives no point."""


def _operator(node: exp.Expr, sql: Callable[[exp.Expr], str]) -> str:
    """Return an operator or a literal as Spark SQL."""
    if type(node) in _ON_DOUBLES:
        return _ON_DOUBLES[type(node)].format(_double(sql(node.this)), _double(sql(node.expression)))
    if type(node) in _FORMS:
        form, parts = _FORMS[type(node)]
        text = form.format(*(sql(node.args[part]) for part in parts))
        # sqlglot reads NOT LIKE as one node.
        return f"(NOT {text})" if node.args.get("negate") else text
    if isinstance(node, exp.In):
        return f"({sql(node.this)} IN ({', '.join(map(sql, node.expressions))}))"
    return node.sql("spark")


def _double(sql: str) -> str:
    return f"CAST({sql} AS DOUBLE)"


def _is_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == TIME


def _names_time(node: exp.Expr) -> bool:
    return any(column.name == TIME for column in node.find_all(exp.Column))


def _is_span(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == SPAN


def _keep(expression: Expression, node: exp.Expr) -> str:
    """Return what count_if holds the length of a run to: ``n`` is ``keep >= n``."""
    if isinstance(node, exp.Literal) and node.is_int and int(node.name) > 0:
        return f">= {node.name}"
    if isinstance(node, _COMPARISONS) and isinstance(node.this, exp.Column) and node.this.name == KEEP:
        number = node.expression
        if isinstance(number, exp.Literal) and number.is_int:
            return f"{_BINARY[type(node)]} {number.name}"
    raise expression.error(
        "ARGUMENT_KIND",
        "count_if takes the least length of a run as a whole number, or keep with a comparison",
        hint="count_if(a > 1, 3)",
    )


def _check_constants(expression: Expression, name: str, arguments: Sequence[exp.Expr]) -> None:
    """Refuse an argument that is to be a constant and is none."""
    for argument in arguments[1:]:
        number = argument.this if isinstance(argument, exp.Neg) and name == "round" else argument
        is_number = isinstance(number, exp.Literal) and number.is_int
        if name == "round" and not is_number:
            raise expression.error("ARGUMENT_KIND", "round takes the number of places as a whole number")
        if name == "substring" and not (is_number and int(number.name) > 0):
            raise expression.error("ARGUMENT_KIND", "substring takes positive whole numbers")
        if name == "replace" and not (isinstance(argument, exp.Literal) and argument.is_string):
            raise expression.error("ARGUMENT_KIND", "replace takes two texts behind the series")


def _pools_measurements(output: Output, node: exp.Expr) -> bool:
    """Return whether a path stands for several measurements: its value is how many points a row has."""
    number = number_of(node) if isinstance(node, exp.Column) else None
    return number is not None and output.operands[number].pools_measurements
