"""Which IoTDB type the columns of a query over the tree are of, and what its operators and functions take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakestream.language.iotdb.expressions import END_TIME, KEEP, TIME, arguments_of, call_of, number_of
from lakestream.language.iotdb.functions import AGGREGATES, ONE_TYPE, SAME, SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.compute.tree.expand import Output
    from lakestream.errors import StatementError
    from lakestream.language.iotdb.functions import Function

NUMBERS = frozenset({"INT32", "INT64", "FLOAT", "DOUBLE"})
"""The types of numbers."""
_TEXTS = frozenset({"TEXT", "STRING"})
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_KINDS = {"numbers": NUMBERS, "texts": _TEXTS, "truth": frozenset({"BOOLEAN"})}
_WANTED = {"numbers": "numbers", "texts": "texts", "truth": "a condition"}


def type_of(output: Output) -> str:
    """Return the IoTDB type of a column of the result.

    Raises StatementError SERIES_TYPE where an operator or a function cannot take what it is given.
    """
    return Typing(output).of(output.expression.tree())


def _type_of_results(types: Sequence[str]) -> str | None:
    """Return the type of a CASE from those of its results, None where they do not go together.

    Numbers of several types become DOUBLE (IoTDB).
    """
    found = set(types)
    if len(found) <= 1:
        return found.pop() if found else "DOUBLE"
    return "DOUBLE" if found <= NUMBERS else None


class Typing:
    """The types of the parts of one expression; ``mixed`` is that of series of several types at once."""

    def __init__(self, output: Output, mixed: str = "TEXT") -> None:
        self.output = output
        self.mixed = mixed

    def of(self, node: exp.Expr) -> str:
        """Return the IoTDB type of a part of the tree. Raises StatementError SERIES_TYPE."""
        kind = next((kind for kind in self._rules if isinstance(node, kind)), None)
        return "BOOLEAN" if kind is None else self._rules[kind](node)

    @property
    def _rules(self) -> dict[type[exp.Expr], Callable[[Any], str]]:
        return {
            exp.Column: self._column,
            exp.Literal: lambda node: "TEXT" if node.is_string else "DOUBLE",
            exp.Paren: lambda node: self.of(node.this),
            exp.Neg: lambda node: self._number(node.this, "-"),
            exp.Case: self._case,
            exp.Anonymous: self._call,
            exp.Between: lambda node: self._comparison([node.this, node.args["low"], node.args["high"]]),
            exp.In: lambda node: self._comparison([node.this, *node.expressions]),
            exp.Not: lambda node: self._condition([node.this]),
            **dict.fromkeys(_SIGNS, self._arithmetic),
            **dict.fromkeys(_COMPARISONS, lambda node: self._comparison([node.this, node.expression])),
            **dict.fromkeys((exp.And, exp.Or), lambda node: self._condition([node.this, node.expression])),
            **dict.fromkeys((exp.Like, exp.RegexpLike), lambda node: self._match(node.this)),
        }

    def _comparison(self, parts: list[exp.Expr]) -> str:
        """Hold the sides of a comparison to one kind; times are compared with instants, however written."""
        if any(column.name in (TIME, KEEP) for part in parts for column in part.find_all(exp.Column)):
            return "BOOLEAN"
        kinds = [self.of(part) for part in parts if not isinstance(part, exp.Null)]
        sides = {next((side for side, types in _KINDS.items() if kind in types), "") for kind in kinds} - {""}
        if len(sides) > 1:
            raise self._refused(f"{' and '.join(dict.fromkeys(kinds))} cannot be compared")
        return "BOOLEAN"

    def _condition(self, parts: list[exp.Expr]) -> str:
        for part in parts:
            kind = self.of(part)
            if kind != "BOOLEAN" and not isinstance(part, exp.Null):
                raise self._refused(f"AND, OR and NOT take conditions, not {kind}")
        return "BOOLEAN"

    def _match(self, part: exp.Expr) -> str:
        kind = self.of(part)
        if kind not in _TEXTS:
            raise self._refused(f"LIKE and REGEXP take texts, not {kind}")
        return "BOOLEAN"

    def _arithmetic(self, node: exp.Binary) -> str:
        for part in (node.this, node.expression):
            self._number(part, _SIGNS[type(node)])
        return "DOUBLE"

    def _column(self, node: exp.Column) -> str:
        number = number_of(node)
        if number is None:
            return "INT64" if node.name == TIME else "TIMESTAMP" if node.name == END_TIME else "BOOLEAN"
        types = self.output.operands[number].types
        return next(iter(types)) if len(types) == 1 else self.mixed

    def _number(self, node: exp.Expr, sign: str) -> str:
        kind = self.of(node)
        if kind not in NUMBERS and not isinstance(node, exp.Null):
            raise self._refused(f"{sign} takes numbers, not {kind}")
        return kind

    def _case(self, node: exp.Case) -> str:
        results = [branch.args["true"] for branch in node.args["ifs"]]
        if node.args.get("default") is not None:
            results.append(node.args["default"])
        types = [self.of(result) for result in results if not isinstance(result, exp.Null)]
        found = _type_of_results(types)
        if found is None:
            raise self._refused(f"the results of CASE are of the types {', '.join(sorted(set(types)))}")
        return found

    def _call(self, node: exp.Anonymous) -> str:
        name = call_of(self.output.expression, node)
        if name is None:
            return "TIMESTAMP"
        function = AGGREGATES.get(name) or SCALARS[name]
        arguments, attributes = arguments_of(node)
        if name in ONE_TYPE:
            self._check_one_type(name, node)
        first = self._checked(name, function, arguments)
        if function.gives == SAME:
            return first
        return function.gives or attributes["type"].upper()

    def _checked(self, name: str, function: Function, arguments: list[exp.Expr]) -> str:
        """Check the first arguments of a function, and return the type of the first."""
        kinds = [self.of(argument) for argument in arguments]
        if function.takes == "any":
            return kinds[0]
        checked = 1 if function.takes in ("numbers", "truth") else len(kinds)
        if name == "substring":
            checked = 1
        for argument, kind in zip(arguments[:checked], kinds, strict=False):
            if kind not in _KINDS[function.takes]:
                shown = self._shown(argument, kind)
                raise self._refused(f"{name} takes {_WANTED[function.takes]}, {shown}")
        return kinds[0]

    def _shown(self, argument: exp.Expr, kind: str) -> str:
        number = number_of(argument) if isinstance(argument, exp.Column) else None
        if number is None:
            return f"not {kind}"
        operand = self.output.operands[number]
        return f"{operand.shown} is {' and '.join(sorted(operand.types))}"

    def _check_one_type(self, name: str, call: exp.Expr) -> None:
        for number in self.output.expression.path_numbers(call):
            operand = self.output.operands[number]
            if len(operand.types) > 1:
                raise self._refused(f"{name} over {operand.shown}: its series have several types")

    def _refused(self, message: str) -> StatementError:
        return self.output.expression.error("SERIES_TYPE", message)


def check_condition(condition: Output, kind: str, clause: str) -> None:
    """Raise StatementError SERIES_TYPE where a clause has something else than a condition."""
    if kind != "BOOLEAN":
        raise condition.expression.error("SERIES_TYPE", f"{clause} takes a condition, not {kind}")
