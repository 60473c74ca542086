"""Types of expressions over DECIMAL and FLOAT values, where DuckDB has Spark's, or is given them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.typed.families import (
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    MixedError,
    check_compared,
    check_conditions,
    check_family,
    family_of,
    one_of,
)
from lakestream.storage.small.typed.scopes import (
    BINARY,
    DECIMAL,
    FLOAT,
    MOST_DIGITS,
    NOTHING,
    TYPES,
    Columns,
    Kind,
    Listed,
    Scope,
    Struct,
    are_alike,
    common,
    is_passed,
    kind_named,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WRITTEN = re.compile(r"(\d*)(?:\.(\d*))?")
_SUM_DIGITS = 10
"""Digits that a sum of decimals has more than these."""
_EXACT_DIGITS = 15
"""Digits of a number that is a quotient of two doubles, and so the double that is nearest to it."""
_EXACT_WHOLE = 2**24
"""Up to which a FLOAT has each whole number."""
_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Digits of the decimals that Spark takes whole numbers for."""


class Look(Protocol):
    """What goes over a query."""

    def kind(self, node: exp.Expr, scope: Scope) -> Kind:
        """Return the type of an expression; raises NotExactError where DuckDB may have another one."""
        ...

    def query(
        self, node: exp.Expr, views: Mapping[str, Columns | None], outer: Scope | None
    ) -> Columns | None:
        """Return the columns of a query."""
        ...

    def change(self, node: exp.Expr, kind: str | exp.Expr) -> None:
        """Have an expression be cast to a type, a cast without one be undone, or another take its place."""
        ...


def refuse_all(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Refuse an expression that such values are a part of."""
    for part in [*node.iter_expressions()]:
        if is_passed(look.kind(part, scope)):
            raise NotExactError(f"a decimal or float in {type(node).__name__}")
    return None


def _column(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    assert isinstance(node, exp.Column)  # by the rules
    around = node.find_ancestor(exp.Lambda, exp.Select)
    if isinstance(around, exp.Lambda) and node.parts[0] in around.expressions:
        return None
    return scope.find(node, look.kind)


def _grouped(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    for part in node.iter_expressions():
        look.kind(part, scope)
    return None


def _same(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    return look.kind(node.this, scope)


def _null(_look: Look, _node: exp.Expr, _scope: Scope) -> Kind:
    return NOTHING


def _written(_look: Look, node: exp.Expr, _scope: Scope) -> Kind:
    return TEXT if isinstance(node, exp.Literal) and node.is_string else NUMBER


def _of(gives: Kind, *takes: str) -> Callable[[Look, exp.Expr, Scope], Kind]:
    """Return the rule of what takes values of some families, none that is passed on among them."""

    def rule(look: Look, node: exp.Expr, scope: Scope) -> Kind:
        refuse_all(look, node, scope)
        check_family([look.kind(part, scope) for part in node.iter_expressions()], *takes)
        return gives

    return rule


_of_truths = _of(TRUTH, TRUTH)


def _condition(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of a clause that is a condition."""
    refuse_all(look, node, scope)
    check_conditions([look.kind(node.this, scope)])
    return TRUTH


def _bound(_look: Look, node: exp.Expr, _scope: Scope) -> Kind:
    """Refuse a LIMIT or OFFSET that is more than whole numbers that are written."""
    for part in node.expression.walk() if node.expression.name != "ALL" else ():
        is_whole = isinstance(part, exp.Literal) and not part.is_string and part.name.isdigit()
        if not is_whole and not isinstance(part, (exp.Paren, exp.Add, exp.Mul)):
            raise MixedError("a bound that is no whole number")
    return None


def _is(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of IS: anything may be NULL, and truths may be true."""
    if not isinstance(node.expression, exp.Null):
        return _of_truths(look, node, scope)
    look.kind(node.this, scope)
    return TRUTH


def _connected(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of AND and OR: thousands of them stand in one another, each within the one before."""
    kinds = [look.kind(part, scope) for part in node.flatten()]
    if any(map(is_passed, kinds)):
        raise NotExactError("a decimal or float as a condition")
    check_family(kinds, TRUTH)
    return TRUTH


def _subquery(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    columns = look.query(node, scope.views, scope)
    if any(is_passed(kind) for _, kind in columns or ()):
        raise NotExactError("a query of a decimal or float as a value")
    return columns[0][1] if columns and len(columns) == 1 else None


def _exists(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    if not isinstance(node.this, exp.Query):
        return refuse_all(look, node, scope)
    look.query(node.this, scope.views, scope)
    return TRUTH


def _chosen(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    if isinstance(node, exp.Case) and (found := _by_type(look, node, scope)) is not node:
        look.change(node, found)
        return look.kind(found, scope)
    if isinstance(node, exp.Case):
        branches = node.args["ifs"]
        conditions = [node.this, *(one.this for one in branches)]
        values = [*(one.args["true"] for one in branches), node.args.get("default")]
    elif isinstance(node, exp.If):
        conditions, values = [node.this], [node.args["true"], node.args.get("false")]
    else:
        conditions, values = [], [node.this, node.args.get("expression"), *node.expressions]
    asked = [look.kind(one, scope) for one in conditions if one is not None]
    if any(map(is_passed, asked)):
        raise NotExactError("a decimal or float as a condition")
    if isinstance(node, exp.Case) and node.this is not None:
        check_compared(asked, equal=True)
    else:
        check_conditions(asked)
    return one_of([look.kind(value, scope) for value in values if value is not None])


def _by_type(look: Look, case: exp.Case, scope: Scope) -> exp.Expr:
    """Return what a choice by typeof() comes to where that is known, else itself."""
    if case.this is not None:
        return case
    for branch in case.args["ifs"]:
        fits = _is_of_type(look, branch.this, scope)
        if fits is None:
            return case
        if fits:
            found: exp.Expr = branch.args["true"]
            return found
    return case.args.get("default") or exp.Null()


def _is_of_type(look: Look, condition: exp.Expr, scope: Scope) -> bool | None:
    """Return whether a value is of the type that is asked for; None where it is not known."""
    if not isinstance(condition, (exp.EQ, exp.RegexpLike)) or not isinstance(condition.this, exp.Typeof):
        return None
    kind, asked = look.kind(condition.this.this, scope), condition.expression
    if not isinstance(kind, str) or kind not in TYPES or not isinstance(asked, exp.Literal):
        return None
    return kind == asked.name if isinstance(condition, exp.EQ) else re.search(asked.name, kind) is not None


def _unless(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of nullif(), which gives one value and compares it with the other."""
    kinds = [look.kind(side, scope) for side in (node.this, node.expression)]
    check_compared(kinds, equal=True)
    return common(kinds) if any(map(is_passed, kinds)) else kinds[0]


def _struct(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    fields: list[tuple[str, Kind]] = []
    for item in node.expressions:
        if is_star(item):
            columns = scope.all_of(item)
            if columns is None:
                return None
            fields += columns
        else:
            value = item.expression if isinstance(item, exp.PropertyEQ) else item.unalias()
            name = item.name if isinstance(item, exp.PropertyEQ) else item.alias_or_name
            fields.append((name.lower(), look.kind(value, scope)))
    return Struct(tuple(fields))


def _array(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    return Listed(one_of([look.kind(one, scope) for one in node.expressions]))


def _collected(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    return Listed(look.kind(node.this, scope))


def _exploded(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of what a list has, which becomes rows."""
    kind = look.kind(node.this, scope)
    return kind.item if isinstance(kind, Listed) else None


def _field(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    kind = look.kind(node.this, scope)
    key = node.expression if isinstance(node, exp.Dot) else node.expressions[0]
    if not is_passed(kind):
        return None
    if not isinstance(kind, Struct) or not (isinstance(node, exp.Dot) or key.is_string):
        raise NotExactError("a part of decimals or floats")
    return common([its for name, its in kind.fields if name == key.name.lower()])


def _beside(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of lag() and lead(), whose other value may be none of these."""
    kind, default = look.kind(node.this, scope), node.args.get("default")
    if (offset := node.args.get("offset")) is not None and look.kind(offset, scope) == NOTHING:
        raise MixedError("NULL as a distance")
    return kind if default is None else one_of([kind, look.kind(default, scope)])


def _extreme_by(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    look.kind(node.expression, scope)
    return look.kind(node.this, scope)


def _filtered(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    look.kind(node.expression, scope)
    return look.kind(node.this, scope)


def _windowed(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    for part in node.args.get("partition_by") or ():
        look.kind(part, scope)
    for name in ("order", "spec"):
        if (clause := node.args.get(name)) is not None:
            look.kind(clause, scope)
    return look.kind(node.this, scope)


def _ordered(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    kind = look.kind(node.this, scope)
    if is_passed(kind) and not isinstance(kind, str):
        raise NotExactError("an order of structs or lists")
    return None


def _counted(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    if not is_star(node.this):
        look.kind(node.this, scope)
    return "bigint"


def _distinct(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    kinds = [look.kind(one, scope) for one in node.expressions]
    return kinds[0] if len(kinds) == 1 else None


def _hashed(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    if node.name.lower() != "xxhash64":
        return refuse_all(look, node, scope)
    if any(
        is_passed(kind) and not _is_decimal(kind)
        for kind in (look.kind(one, scope) for one in node.expressions)
    ):
        raise NotExactError("the hash of a float")
    return "bigint"


def _summed(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of a sum or mean: Spark adds floats up as doubles."""
    kind = look.kind(node.this, scope)
    if kind == NOTHING:
        raise NotExactError("what is computed of NULL")
    check_family([kind], NUMBER, TEXT)
    if kind == FLOAT:
        of = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        look.change(of, "double")
        return "double"
    if not is_passed(kind):
        return NUMBER
    precision, scale = _digits(kind)
    if isinstance(node, exp.Avg):
        raise NotExactError("the mean of decimals")
    call = node
    while isinstance(call.parent, (exp.Filter, exp.Window)) and call.arg_key == "this":
        call = call.parent
    found = f"decimal({min(precision + _SUM_DIGITS, MOST_DIGITS)},{scale})"
    look.change(call, found)
    return found


def _computed(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of a sum, difference or product of two values."""
    sides = (node.this, node.expression)
    kinds = [look.kind(side, scope) for side in sides]
    if not any(map(is_passed, kinds)):
        if kinds == [NOTHING, NOTHING]:
            raise NotExactError("what is computed of NULL")
        return NUMBER if [family_of(kind) for kind in kinds] == [NUMBER, NUMBER] else None
    if NOTHING in kinds:
        raise NotExactError("what is computed of NULL")
    if kinds == [FLOAT, FLOAT]:
        return FLOAT
    if FLOAT in kinds:
        raise NotExactError("a float beside another number")
    (one, its), (other, also) = (_digits(kind, side) for kind, side in zip(kinds, sides, strict=True))
    if isinstance(node, exp.Mul):
        precision, scale = one + other + 1, its + also
    else:
        scale = max(its, also)
        precision = max(one - its, other - also) + scale + 1
    if precision > MOST_DIGITS:
        raise NotExactError("a decimal of too many digits")
    found = f"decimal({precision},{scale})"
    if not isinstance(node, exp.Mul):
        for side in sides:
            look.change(side, found)
    look.change(node, found)
    return found


def _quotient(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    """Return the type of a quotient: Spark divides floats as doubles."""
    for side in (node.this, node.expression):
        kind = look.kind(side, scope)
        check_family([kind], NUMBER, TEXT)
        if kind == FLOAT:
            look.change(side, "double")
        elif is_passed(kind):
            raise NotExactError("a quotient of decimals")
    return "double"


def _cast(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    value, kind = look.kind(node.this, scope), kind_named(node.args["to"])
    if kind == "date":
        check_family([value], TIME, TEXT)
    if value == NOTHING or not (is_passed(value) or is_passed(kind)):
        return kind
    if are_alike(value, kind):
        look.change(node, "")
        return value
    if value == FLOAT and kind == "double":
        return kind
    if _is_decimal(value) and _is_decimal(kind) and _digits(value)[1] <= _digits(kind)[1]:
        return kind
    raise NotExactError("a decimal or float that is cast")


def _compared(look: Look, node: exp.Expr, scope: Scope) -> Kind:
    sides = [*node.iter_expressions()]
    kinds = [look.kind(side, scope) for side in sides]
    check_compared(kinds, equal=isinstance(node, (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)))
    if not any(map(is_passed, kinds)):
        return TRUTH
    first = next(kind for kind in kinds if is_passed(kind))
    if not isinstance(first, str) or node.args.get("query"):
        raise NotExactError("decimals or floats among others")
    passed = [side for side, kind in zip(sides, kinds, strict=True) if is_passed(kind)]
    numbers = [_number(side) for side, kind in zip(sides, kinds, strict=True) if not is_passed(kind)]
    if any(kind != first for kind in kinds if is_passed(kind)):
        raise NotExactError("decimals or floats of two types")
    if first == BINARY and not any(numbers):
        return TRUTH
    if first != FLOAT:
        _check_decimals(first, [one for one in numbers if one])
    elif numbers:
        _check_floats([one for one in numbers if one])
        for side in passed:
            look.change(side, "double")
    return TRUTH


def is_star(item: exp.Expr) -> bool:
    """Return whether an item stands for columns; raises NotExactError where it has others in their place."""
    if isinstance(item, exp.Column):
        item = item.this
    if isinstance(item, exp.Star) and (item.args.get("replace") or item.args.get("rename")):
        raise NotExactError("columns in the place of others")
    return isinstance(item, exp.Star)


def _is_decimal(kind: Kind) -> bool:
    return isinstance(kind, str) and DECIMAL.fullmatch(kind) is not None


def _digits(kind: Kind, value: exp.Expr | None = None) -> tuple[int, int]:
    """Return the precision and the scale of a type, or of a number that is written."""
    if isinstance(kind, str) and (found := DECIMAL.fullmatch(kind)):
        return int(found[1]), int(found[2])
    if isinstance(kind, str) and kind in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind], 0
    if value is not None:
        before, _, after = _number(value).partition(".")
        if (digits := len(before.lstrip("0")) + len(after)) or before:
            return max(digits, 1), len(after)
    raise NotExactError("a decimal beside a value of another type")


def _number(side: exp.Expr) -> str:
    """Return the digits of a number that is written, nothing for NULL; raises NotExactError for all else."""
    while isinstance(side, (exp.Paren, exp.Neg)):
        side = side.this
    if isinstance(side, exp.Null):
        return ""
    if isinstance(side, exp.Literal) and not side.is_string and _WRITTEN.fullmatch(side.name):
        return side.name
    raise NotExactError("a decimal or float beside no number that is written")


def _check_decimals(kind: str, numbers: list[str]) -> None:
    """Refuse numbers that have no type with these decimals: Spark then rounds them."""
    precision, scale = _digits(kind)
    whole = precision - scale
    for number in numbers:
        before, point, after = number.partition(".")
        whole = max(whole, len(before) if point else 10 if len(before) < 10 else 20)
        scale = max(scale, len(after))
    if whole + scale > MOST_DIGITS:
        raise NotExactError("a number of too many digits")


def _check_floats(numbers: list[str]) -> None:
    """Refuse numbers that are another FLOAT, or that two ways of reading give another DOUBLE."""
    for number in numbers:
        if len(number) > _EXACT_DIGITS or ("." not in number and int(number) > _EXACT_WHOLE):
            raise NotExactError("a number of too many digits")


RULES: dict[type[exp.Expr], Callable[[Look, exp.Expr, Scope], Kind]] = {
    exp.Column: _column,
    exp.Null: _null,
    exp.Literal: _written,
    exp.Boolean: _of(TRUTH),
    exp.Is: _is,
    exp.Exists: _exists,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Struct: _struct,
    exp.Array: _array,
    exp.Window: _windowed,
    exp.Filter: _filtered,
    exp.Ordered: _ordered,
    exp.Count: _counted,
    exp.Group: _grouped,
    exp.Distinct: _distinct,
    exp.Anonymous: _hashed,
    exp.Div: _quotient,
    **dict.fromkeys((exp.Mod, exp.IntDiv, exp.Sqrt), _of(NUMBER, NUMBER, TEXT)),
    exp.Round: _of(None, NUMBER, TEXT),
    **dict.fromkeys((exp.And, exp.Or), _connected),
    **dict.fromkeys((exp.Where, exp.Having, exp.Qualify), _condition),
    **dict.fromkeys((exp.Not, exp.LogicalAnd, exp.LogicalOr), _of_truths),
    **dict.fromkeys((exp.Limit, exp.Offset), _bound),
    exp.CountIf: _of("bigint", TRUTH),
    **dict.fromkeys((exp.TsOrDsToDate, exp.Date), _of("date", TIME, TEXT)),
    exp.ArraySize: _of("int"),
    **dict.fromkeys((exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect), _subquery),
    **dict.fromkeys((exp.Alias, exp.Paren, exp.Neg, exp.Abs, exp.IgnoreNulls), _same),
    **dict.fromkeys((exp.Max, exp.Min, exp.AnyValue, exp.FirstValue, exp.LastValue), _same),
    **dict.fromkeys((exp.Explode, exp.Inline), _exploded),
    **dict.fromkeys((exp.Lag, exp.Lead), _beside),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), _extreme_by),
    **dict.fromkeys((exp.Case, exp.If, exp.Coalesce, exp.Greatest, exp.Least), _chosen),
    exp.Nullif: _unless,
    **dict.fromkeys((exp.Dot, exp.Bracket), _field),
    **dict.fromkeys((exp.ArrayAgg, exp.ArrayUniqueAgg), _collected),
    **dict.fromkeys((exp.Sum, exp.Avg), _summed),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _computed),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compared),
    **dict.fromkeys((exp.NullSafeEQ, exp.Between, exp.In), _compared),
}
"""What gives, or takes, values that are passed on; all else takes none."""
