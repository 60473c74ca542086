"""TDengine's functions that give several rows, or look at the rows before: DIFF, TOP, MAVG and their like.

A select with such calls becomes three, one inside the other: the innermost reads the rows with the calls'
arguments, the next numbers and compares them by window functions, within each slice of PARTITION BY and in
the order of time, and the outermost keeps the rows that the calls give something for. It is evaluated for
each window of a stream as any other query is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.functions import aggregates, duration_micros
from lakestream.errors import LakestreamError, StatementError
from lakestream.language.expressions import place_in, text_of
from lakestream.language.query_clauses import INNER_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakestream.compute.functions import RowOrder
    from lakestream.language.model import Fragment

TIME, HASH = "_ls_t", "_ls_h"
"""The columns of a row's time (BIGINT µs) and of a number that tells rows of one time apart."""

SOURCE = "_ls_s"
"""The alias of a select inside that has no name of its own."""

EARLIER = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
UP_TO = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

_COMPARISONS = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}
_NO_NUMBERS = ("string", "binary", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True)
class Rows:
    """The rows that a select reads: their order, the types of the columns, and the text they stand in.

    ``order`` is None where they have none; ``types`` are Spark's, by the lower-case name.
    """

    order: RowOrder | None
    types: Mapping[str, str]
    fragment: Fragment


@dataclass(frozen=True)
class _Slice:
    """Window specifications over the rows of one slice."""

    keys: tuple[str, ...]
    ties: tuple[str, ...]

    def ordered(self, frame: str = "", apart: Sequence[str] = ()) -> str:
        """Return the window of rows in the order of time, apart by more expressions."""
        return f"({self._by(apart)}{self._order()}{f' {frame}' if frame else ''})"

    def backwards(self) -> str:
        """Return the window of rows, latest first."""
        order = ", ".join(f"{name} DESC" for name in (TIME, *self.ties))
        return f"({self._by(())}ORDER BY {order})"

    def sorted(self, first: str, apart: Sequence[str] = ()) -> str:
        """Return the window of rows by an expression, rows with the same in the order of time."""
        return f"({self._by(apart)}ORDER BY {first}, {', '.join((TIME, *self.ties))})"

    def _by(self, apart: Sequence[str]) -> str:
        keys = [*self.keys, *apart]
        return f"PARTITION BY {', '.join(keys)} " if keys else ""

    def _order(self) -> str:
        return f"ORDER BY {', '.join((TIME, *self.ties))}"


@dataclass(frozen=True)
class _Answer:
    """What a call gives: SQL of its value and of whether a row has one, over the columns ``before``.

    ``before`` are (name, SQL of a window function) that these look at.
    """

    value: str
    keeps: str | None
    before: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Call:
    """A call in a select list: its number, its arguments, and the column of the first one."""

    name: str
    node: exp.Expr
    number: int
    kind: str

    @property
    def arguments(self) -> list[exp.Expr]:
        return list(self.node.expressions)

    @property
    def x(self) -> str:
        """The column of the argument."""
        return f"_ls_x{self.number}"

    def whole(self, at: int, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number given as an argument. Raises StatementError WRONG_ARGUMENTS."""
        if at >= len(self.arguments) and default is not None:
            return default
        node = self.arguments[at]
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            number = int(node.name)
            if low <= number <= high:
                return number
        raise self.wrong(f"argument {at + 1} is a whole number from {low} to {high}")

    def wrong(self, message: str) -> StatementError:
        """Return the error of an argument."""
        return StatementError("WRONG_ARGUMENTS", f"{self.name}(): {message}")


# --- which calls there are ---


def row_calls(nodes: Iterator[exp.Expr]) -> list[exp.Anonymous]:
    """Return the calls of such functions among the nodes of a select."""
    return [node for node in nodes if isinstance(node, exp.Anonymous) and node.name.lower() in _FUNCTIONS]


def check_calls(select: exp.Select, calls: Sequence[exp.Anonymous], rows: Rows) -> None:
    """Refuse calls where TDengine has none, or not beside each other.

    Raises StatementError FUNCTION_NOT_ALLOWED, NO_ROW_ORDER, each with the place.
    """
    for call in calls:
        _check_place(select, call, rows.fragment)
    beside = aggregates(select.selects)
    if beside:
        _refuse(rows.fragment, calls[0], f"beside the aggregate {text_of(beside[0])}")
    for other in calls[1:]:
        if not _stand_together(calls[0], other):
            _refuse(rows.fragment, other, f"beside {text_of(calls[0])}: they give other rows")
    if select.args.get("having"):
        _refuse(rows.fragment, calls[0], "in a query with HAVING")
    in_windows = select.args.get("group") or select.args.get(INNER_WINDOW)
    outside = next((call for call in calls if call.name.lower() not in _OF_GROUPS), None)
    if in_windows and outside is not None:
        _refuse(rows.fragment, outside, "in a query with a window or GROUP BY")
    if rows.order is None:
        raise StatementError(
            "NO_ROW_ORDER",
            f"{calls[0].name.lower()}() needs rows in time order, of a single table or of a query",
            hint="in a query around another one, the first column of that one is the time",
            place=place_in(rows.fragment, calls[0]),
        )


def _check_place(select: exp.Select, call: exp.Anonymous, f: Fragment) -> None:
    node: exp.Expr = call
    while node.parent is not select and node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Window):
            _refuse(f, call, "with OVER")
        if isinstance(node, exp.Anonymous) and node.name.lower() in _FUNCTIONS:
            _refuse(f, call, f"inside {node.name.lower()}()")
    if node.arg_key != "expressions":
        _refuse(f, call, "outside the select list")


def _refuse(f: Fragment, call: exp.Expr, where: str) -> None:
    raise StatementError(
        "FUNCTION_NOT_ALLOWED",
        f"{call.name.lower()}() cannot stand {where}",
        hint="a query around this one can take its rows",
        place=place_in(f, call),
    )


def _stand_together(one: exp.Anonymous, other: exp.Anonymous) -> bool:
    """Return whether two calls may stand in one list (TDengine): DIFF twice, or those with the same rows."""
    if one.name.lower() == other.name.lower() == "diff":
        return True
    return _rows_given(one) is not None and _rows_given(one) == _rows_given(other)


def _rows_given(call: exp.Anonymous) -> str | None:
    """Return which rows a call gives, None where that follows from its values."""
    name = call.name.lower()
    if name in ("csum", "statecount", "stateduration"):
        return "all"
    last = call.expressions[-1]
    plain = name == "diff" and len(call.expressions) == 1
    if name in ("diff", "derivative") and (plain or last.name == "0"):
        return "all but the first"
    return None


# --- the select around the rows ---


def rewrite_rows(
    select: exp.Select, calls: Sequence[exp.Anonymous], keys: Sequence[exp.Expr], rows: Rows
) -> None:
    """Rewrite a select with calls of these functions in its list; ``keys`` are what slices rows.

    Raises StatementError as :func:`check_calls`, and WRONG_ARGUMENTS.
    """
    check_calls(select, calls, rows)
    assert rows.order is not None  # by check_calls
    found = [_call(node, number, rows) for number, node in enumerate(calls)]
    name = select.args["from_"].this.alias_or_name.lstrip("%") or SOURCE
    columns = _columns(found, keys, rows.order)
    ties = tuple(f"_ls_o{number}" for number, _ in enumerate(rows.order.ties))
    rows_of = _Slice(tuple(f"_ls_p{number}" for number, _ in enumerate(keys)), (*ties, HASH))
    answers = [_answer(call, rows_of, rows.fragment) for call in found]
    inside = _inside(select, columns)
    if any(call.name in _ONE_OF_A_TIME for call in found):
        inside = _first_of_each_time(inside, rows_of)
    before = [pair for answer in answers for pair in answer.before]
    if before:
        inside = _with_columns(inside, before)
    values = [(f"_ls_r{n}", answer.value) for n, answer in enumerate(answers)]
    kept = [(f"_ls_k{n}", answer.keeps) for n, answer in enumerate(answers) if answer.keeps]
    inside = _with_columns(inside, [*values, *kept])
    _put_results(select, found)
    _hide(select, [*(column.alias for column in columns), *(name for name, _ in [*before, *values, *kept])])
    select.set("from_", _from(inside, name))
    select.set("group", None)
    if len(kept) == len(answers):
        select.where(_raw(" OR ".join(name for name, _ in kept)), copy=False)


def _call(node: exp.Anonymous, number: int, rows: Rows) -> _Call:
    """Return a call whose argument's type and number of arguments fit."""
    name = node.name.lower()
    low, high = _ARGUMENTS[name]
    place = place_in(rows.fragment, node)
    if not low <= len(node.expressions) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise StatementError(
            "WRONG_ARGUMENTS", f"{name}() takes {wanted} arguments, not {len(node.expressions)}", place=place
        )
    argument = node.expressions[0]
    kind = rows.types.get(argument.name.lower(), "") if isinstance(argument, exp.Column) else ""
    refused = _NO_NUMBERS[:3] if name == "diff" else _NO_NUMBERS if name not in _OF_ANY_TYPE else ()
    if kind in refused:
        raise StatementError(
            "WRONG_ARGUMENTS", f"{name}() takes numbers, {argument.name} is of type {kind}", place=place
        )
    return _Call(name, node, number, kind)


def _answer(call: _Call, rows: _Slice, f: Fragment) -> _Answer:
    try:
        return _FUNCTIONS[call.name](call, rows)
    except LakestreamError as error:
        raise error.at(place_in(f, call.node)) from None


def _columns(calls: Sequence[_Call], keys: Sequence[exp.Expr], order: RowOrder) -> list[exp.Expr]:
    """Return the columns that the window functions look at."""
    time = exp.Anonymous(this="unix_micros", expressions=[order.time.copy()])
    return [
        exp.alias_(time, TIME),
        exp.alias_(_raw("xxhash64(*)"), HASH),
        *(exp.alias_(tie.copy(), f"_ls_o{number}") for number, tie in enumerate(order.ties)),
        *(exp.alias_(key.copy(), f"_ls_p{number}") for number, key in enumerate(keys)),
        *(exp.alias_(call.arguments[0].copy(), call.x) for call in calls),
    ]


def _inside(select: exp.Select, columns: Sequence[exp.Expr]) -> exp.Select:
    """Move FROM and WHERE of a select inside, beside more columns."""
    inside = exp.Select(expressions=[exp.Star(), *columns])
    for part in ("from_", "where"):
        moved = select.args.get(part)
        select.set(part, None)
        inside.set(part, moved)
    return inside


def _first_of_each_time(inside: exp.Select, rows: _Slice) -> exp.Select:
    """Leave out rows of a time that another row of the slice has: the smallest key counts (TDengine)."""
    listed = _with_columns(inside, [("_ls_before", f"lag({TIME}) OVER {rows.ordered()}")])
    kept = exp.Select(expressions=[_raw("* EXCEPT (_ls_before)")], from_=_from(listed))
    return kept.where(_raw(f"_ls_before IS NULL OR _ls_before <> {TIME}"), copy=False)


def _with_columns(inside: exp.Select, columns: Sequence[tuple[str, str]]) -> exp.Select:
    listed = [exp.alias_(_raw(sql), name) for name, sql in columns]
    return exp.Select(expressions=[exp.Star(), *listed], from_=_from(inside))


def _from(query: exp.Query, name: str = SOURCE) -> exp.From:
    """Return FROM a query, which is not copied: selects inside of it are still to be rewritten."""
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.From(this=exp.Subquery(this=query, alias=alias))


def _put_results(select: exp.Select, calls: Sequence[_Call]) -> None:
    """Put the columns with the results in the place of the calls; unnamed results keep their text as name."""
    for item in list(select.selects):
        names_it = not isinstance(item, exp.Alias | exp.Column | exp.Star)
        if names_it and any(call.node is node for node in item.walk() for call in calls):
            item.replace(exp.alias_(item.copy(), text_of(item), quoted=True))
    written = {call.node: call for call in calls}
    for item in select.selects:
        for node in list(item.walk()):
            if isinstance(node, exp.Anonymous) and node in written:
                node.replace(exp.column(f"_ls_r{written[node].number}"))


def _hide(select: exp.Select, names: Sequence[str]) -> None:
    """Leave columns out of the stars of a select list."""
    for item in select.selects:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            hidden = [exp.column(name) for name in names]
            star.set("except_", [*(star.args.get("except_") or []), *hidden])


def _raw(sql: str) -> exp.Var:
    return exp.Var(this=sql)


# --- each function ---


def _diff(call: _Call, rows: _Slice) -> _Answer:
    # Less the last value before that is not NULL; nothing for the first row.
    ignore = call.whole(1, 0, 3, 0)
    x, before = call.x, f"{call.x}_before"
    value = {"boolean": f"CAST({x} AS BIGINT)", "timestamp": f"unix_millis({x})"}.get(
        call.kind, f"({x} + 0L)"
    )
    less = f"({value} - {before})"
    if ignore in (1, 3):
        less = f"IF({less} < 0, NULL, {less})"
    earlier = f"last_value({value}, true) OVER {rows.ordered(EARLIER)}"
    first = f"row_number() OVER {rows.ordered()} = 1"
    keeps = f"{less} IS NOT NULL" if ignore > 1 else f"NOT {call.x}_first"
    return _Answer(less, keeps, ((before, earlier), (f"{x}_first", first)))


def _derivative(call: _Call, rows: _Slice) -> _Answer:
    # The change since the last value before, over a unit of time.
    unit = duration_micros(call.arguments[1])
    if unit <= 0:
        raise call.wrong("argument 2 is a time longer than nothing, such as 1s")
    ignores = call.whole(2, 0, 1)
    x, before = f"CAST({call.x} AS DOUBLE)", f"{call.x}_before"
    point = f"IF({call.x} IS NULL, NULL, struct({TIME} AS t, {x} AS v))"
    rate = f"(({x} - {before}.v) * {unit} / ({TIME} - {before}.t))"
    keeps = f"({rate} >= 0)" if ignores else f"({rate} IS NOT NULL)"
    return _Answer(
        rate,
        f"coalesce({keeps}, false)",
        ((before, f"last_value({point}, true) OVER {rows.ordered(EARLIER)}"),),
    )


def _csum(call: _Call, rows: _Slice) -> _Answer:
    # The sum of the values so far; nothing for a NULL.
    total = f"sum({call.x}) OVER {rows.ordered(UP_TO)}"
    return _Answer(f"IF({call.x} IS NULL, NULL, {total})", f"{call.x} IS NOT NULL")


def _mavg(call: _Call, rows: _Slice) -> _Answer:
    # The mean of the last k values, from the k-th on; NULL is none.
    size = call.whole(1, 1, 1000)
    window = rows.ordered(f"ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW", (f"{call.x} IS NULL",))
    mean = f"avg(CAST({call.x} AS DOUBLE)) OVER {window}"
    return _Answer(mean, f"({call.x} IS NOT NULL AND count({call.x}) OVER {window} = {size})")


def _extremes(order: str) -> Callable[[_Call, _Slice], _Answer]:
    def answer(call: _Call, rows: _Slice) -> _Answer:
        # The k largest or smallest values; of equal ones the earliest.
        size = call.whole(1, 1, 100)
        place = f"row_number() OVER {rows.sorted(f'{call.x} {order} NULLS LAST')}"
        return _Answer(call.x, f"({call.x} IS NOT NULL AND {place} <= {size})")

    return answer


def _tail(call: _Call, rows: _Slice) -> _Answer:
    # The last k rows before the last few, NULL or not.
    size, skipped = call.whole(1, 1, 100), call.whole(2, 0, 100, 0)
    place = f"row_number() OVER {rows.backwards()}"
    return _Answer(call.x, f"{place} BETWEEN {skipped + 1} AND {skipped + size}")


def _unique(call: _Call, rows: _Slice) -> _Answer:
    # The earliest row of each value; NULL is one.
    return _Answer(call.x, f"row_number() OVER {rows.ordered(apart=(call.x,))} = 1")


def _sample(call: _Call, rows: _Slice) -> _Answer:
    # The first k values by a hash of time, key and value: the same rows give the same sample.
    size = call.whole(1, 1, 1000)
    seed = f"xxhash64({', '.join((TIME, *rows.ties[:-1], call.x))})"
    place = f"row_number() OVER {rows.sorted(f'{call.x} IS NULL, {seed}')}"
    return _Answer(call.x, f"({call.x} IS NOT NULL AND {place} <= {size})")


def _holds(call: _Call) -> str:
    """Return SQL of the condition of STATECOUNT and STATEDURATION, NULL for a NULL."""
    operator, value = call.arguments[1], call.arguments[2]
    sign = _COMPARISONS.get(operator.name.upper()) if isinstance(operator, exp.Literal) else None
    if sign is None:
        raise call.wrong(f"argument 2 is one of {', '.join(_COMPARISONS)}, as text")
    number = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(number, exp.Literal) or number.is_string:
        raise call.wrong("argument 3 is a number")
    return f"({call.x} {sign} {value.sql('spark')})"


def _runs(call: _Call, rows: _Slice) -> tuple[str, str]:
    """Return a column that numbers the runs of rows with the condition, and its SQL."""
    return f"{call.x}_run", f"count_if(NOT {_holds(call)}) OVER {rows.ordered(UP_TO)}"


def _statecount(call: _Call, rows: _Slice) -> _Answer:
    # How many rows in a row meet the condition, -1 where one does not.
    run, holds = _runs(call, rows), _holds(call)
    count = f"count_if({holds}) OVER {rows.ordered(UP_TO, (run[0],))}"
    return _Answer(f"CASE WHEN {holds} THEN {count} WHEN NOT {holds} THEN -1L END", None, (run,))


def _stateduration(call: _Call, rows: _Slice) -> _Answer:
    # How long rows in a row have met the condition, in whole units; -1 where one does not.
    unit = duration_micros(call.arguments[3]) if len(call.arguments) > 3 else 1000
    if unit <= 0:
        raise call.wrong("argument 4 is a time longer than nothing, such as 1s")
    run, holds = _runs(call, rows), _holds(call)
    began = f"min(IF({holds}, {TIME}, NULL)) OVER {rows.ordered(UP_TO, (run[0],))}"
    lasted = f"({TIME} - {began}) div {unit}L"
    return _Answer(f"CASE WHEN {holds} THEN {lasted} WHEN NOT {holds} THEN -1L END", None, (run,))


_FUNCTIONS: dict[str, Callable[[_Call, _Slice], _Answer]] = {
    "diff": _diff,
    "derivative": _derivative,
    "csum": _csum,
    "mavg": _mavg,
    "top": _extremes("DESC"),
    "bottom": _extremes("ASC"),
    "tail": _tail,
    "unique": _unique,
    "sample": _sample,
    "statecount": _statecount,
    "stateduration": _stateduration,
}
_ARGUMENTS = {
    "diff": (1, 2),
    "derivative": (3, 3),
    "csum": (1, 1),
    "mavg": (2, 2),
    "top": (2, 2),
    "bottom": (2, 2),
    "tail": (2, 3),
    "unique": (1, 1),
    "sample": (2, 2),
    "statecount": (3, 3),
    "stateduration": (3, 4),
}
ROW_FUNCTIONS = frozenset(_FUNCTIONS)
_OF_GROUPS = frozenset({"top", "bottom", "sample"})
"""Those that TDengine has in windows and with GROUP BY."""
_OF_ANY_TYPE = frozenset({"tail", "unique", "sample"})
_ONE_OF_A_TIME = frozenset({"diff", "derivative"})
