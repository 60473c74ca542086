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

from lakestream.compute.expressions.functions import duration_micros
from lakestream.compute.expressions.histogram import rewrite_histogram
from lakestream.compute.expressions.interpolation import rewrite_interp
from lakestream.compute.expressions.row_calls import (
    SOURCE,
    TIME,
    UP_TO,
    Slice,
    first_of_each_time,
    from_,
    hide,
    inside_of,
    order_columns,
    put_results,
    raw,
    read_call,
    ties_of,
    with_columns,
)
from lakestream.errors import LakestreamError
from lakestream.language.expressions.parsing import place_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.compute.expressions.functions import RowOrder
    from lakestream.compute.expressions.row_calls import Call, Rows
    from lakestream.language.model import Fragment

EARLIER = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_COMPARISONS = {"LT": "<", "GT": ">", "LE": "<=", "GE": ">=", "NE": "<>", "EQ": "="}


@dataclass(frozen=True)
class _Answer:
    """What a call gives: SQL of its value and of whether a row has one, over the columns ``before``.

    ``before`` are (name, SQL of a window function) that these look at.
    """

    value: str
    keeps: str | None
    before: tuple[tuple[str, str], ...] = ()


def rewrite_calls(
    select: exp.Select, calls: Sequence[exp.Anonymous], keys: Sequence[exp.Expr], rows: Rows
) -> None:
    """Rewrite a select with calls of functions that give several rows; ``keys`` are what slices rows.

    The calls are those that :func:`~lakestream.compute.expressions.row_calls.check_calls` lets pass. Raises
    StatementError WRONG_ARGUMENTS, and what :mod:`~lakestream.compute.expressions.histogram` and
    :mod:`~lakestream.compute.expressions.interpolation` raise.
    """
    name = calls[0].name.lower()
    if name == "histogram":
        rewrite_histogram(select, calls[0], keys, rows)
    elif name == "interp":
        rewrite_interp(select, calls, keys, rows)
    else:
        _rewrite_rows(select, calls, keys, rows)


def _rewrite_rows(
    select: exp.Select, calls: Sequence[exp.Anonymous], keys: Sequence[exp.Expr], rows: Rows
) -> None:
    assert rows.order is not None  # by check_calls
    found = [read_call(node, number, rows) for number, node in enumerate(calls)]
    name = select.args["from_"].this.alias_or_name.lstrip("%") or SOURCE
    columns = _columns(found, keys, rows.order)
    rows_of = Slice(tuple(f"_ls_p{number}" for number, _ in enumerate(keys)), ties_of(rows.order))
    answers = [_answer(call, rows_of, rows.fragment) for call in found]
    inside = inside_of(select, columns)
    if any(call.name in _ONE_OF_A_TIME for call in found):
        inside = first_of_each_time(inside, rows_of)
    before = [pair for answer in answers for pair in answer.before]
    if before:
        inside = with_columns(inside, before)
    values = [(f"_ls_r{n}", answer.value) for n, answer in enumerate(answers)]
    kept = [(f"_ls_k{n}", answer.keeps) for n, answer in enumerate(answers) if answer.keeps]
    inside = with_columns(inside, [*values, *kept])
    put_results(select, found)
    hide(select, [*(column.alias for column in columns), *(name for name, _ in [*before, *values, *kept])])
    select.set("from_", from_(inside, name))
    select.set("group", None)
    if len(kept) == len(answers):
        select.where(raw(" OR ".join(name for name, _ in kept)), copy=False)


def _answer(call: Call, rows: Slice, f: Fragment) -> _Answer:
    try:
        return _FUNCTIONS[call.name](call, rows)
    except LakestreamError as error:
        raise error.at(place_in(f, call.node)) from None


def _columns(calls: Sequence[Call], keys: Sequence[exp.Expr], order: RowOrder) -> list[exp.Expr]:
    """Return the columns that the window functions look at."""
    return [
        *order_columns(order),
        *(exp.alias_(key.copy(), f"_ls_p{number}") for number, key in enumerate(keys)),
        *(exp.alias_(call.arguments[0].copy(), call.x) for call in calls),
    ]


# --- each function ---


def _diff(call: Call, rows: Slice) -> _Answer:
    # Less the last value before that is not NULL; nothing for the first row.
    ignore = call.whole(1, 0, 3, 0)
    x, before = call.x, f"{call.x}_before"
    known = {"boolean": f"CAST({x} AS BIGINT)", "timestamp": f"unix_millis({x})"}
    value = known.get(call.kind, f"({x} + 0L)")
    less = f"({value} - {before})"
    if ignore in (1, 3):
        less = f"IF({less} < 0, NULL, {less})"
    earlier = f"last_value({value}, true) OVER {rows.ordered(EARLIER)}"
    first = f"row_number() OVER {rows.ordered()} = 1"
    keeps = f"{less} IS NOT NULL" if ignore > 1 else f"NOT {call.x}_first"
    return _Answer(less, keeps, ((before, earlier), (f"{x}_first", first)))


def _derivative(call: Call, rows: Slice) -> _Answer:
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


def _csum(call: Call, rows: Slice) -> _Answer:
    # The sum of the values so far; nothing for a NULL.
    total = f"sum({call.x}) OVER {rows.ordered(UP_TO)}"
    return _Answer(f"IF({call.x} IS NULL, NULL, {total})", f"{call.x} IS NOT NULL")


def _mavg(call: Call, rows: Slice) -> _Answer:
    # The mean of the last k values, from the k-th on; NULL is none.
    size = call.whole(1, 1, 1000)
    window = rows.ordered(f"ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW", (f"{call.x} IS NULL",))
    mean = f"avg(CAST({call.x} AS DOUBLE)) OVER {window}"
    return _Answer(mean, f"({call.x} IS NOT NULL AND count({call.x}) OVER {window} = {size})")


def _extremes(order: str) -> Callable[[Call, Slice], _Answer]:
    def answer(call: Call, rows: Slice) -> _Answer:
        # The k largest or smallest values; of equal ones the earliest.
        size = call.whole(1, 1, 100)
        place = f"row_number() OVER {rows.sorted(f'{call.x} {order} NULLS LAST')}"
        return _Answer(call.x, f"({call.x} IS NOT NULL AND {place} <= {size})")

    return answer


def _tail(call: Call, rows: Slice) -> _Answer:
    # The last k rows before the last few, NULL or not.
    size, skipped = call.whole(1, 1, 100), call.whole(2, 0, 100, 0)
    place = f"row_number() OVER {rows.backwards()}"
    return _Answer(call.x, f"{place} BETWEEN {skipped + 1} AND {skipped + size}")


def _unique(call: Call, rows: Slice) -> _Answer:
    # The earliest row of each value; NULL is one.
    return _Answer(call.x, f"row_number() OVER {rows.ordered(apart=(call.x,))} = 1")


def _sample(call: Call, rows: Slice) -> _Answer:
    # The first k values by a hash of time, key and value: the same rows give the same sample.
    size = call.whole(1, 1, 1000)
    seed = f"xxhash64({', '.join((TIME, *rows.ties[:-1], call.x))})"
    place = f"row_number() OVER {rows.sorted(f'{call.x} IS NULL, {seed}')}"
    return _Answer(call.x, f"({call.x} IS NOT NULL AND {place} <= {size})")


def _holds(call: Call) -> str:
    """Return SQL of the condition of STATECOUNT and STATEDURATION, NULL for a NULL."""
    operator, value = call.arguments[1], call.arguments[2]
    sign = _COMPARISONS.get(operator.name.upper()) if isinstance(operator, exp.Literal) else None
    if sign is None:
        raise call.wrong(f"argument 2 is one of {', '.join(_COMPARISONS)}, as text")
    number = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(number, exp.Literal) or number.is_string:
        raise call.wrong("argument 3 is a number")
    return f"({call.x} {sign} {value.sql('spark')})"


def _runs(call: Call, rows: Slice) -> tuple[str, str]:
    """Return a column that numbers the runs of rows with the condition, and its SQL."""
    return f"{call.x}_run", f"count_if(NOT {_holds(call)}) OVER {rows.ordered(UP_TO)}"


def _statecount(call: Call, rows: Slice) -> _Answer:
    # How many rows in a row meet the condition, -1 where one does not.
    run, holds = _runs(call, rows), _holds(call)
    count = f"count_if({holds}) OVER {rows.ordered(UP_TO, (run[0],))}"
    return _Answer(f"CASE WHEN {holds} THEN {count} WHEN NOT {holds} THEN -1L END", None, (run,))


def _stateduration(call: Call, rows: Slice) -> _Answer:
    # How long rows in a row have met the condition, in whole units; -1 where one does not.
    unit = duration_micros(call.arguments[3]) if len(call.arguments) > 3 else 1000
    if unit <= 0:
        raise call.wrong("argument 4 is a time longer than nothing, such as 1s")
    run, holds = _runs(call, rows), _holds(call)
    began = f"min(IF({holds}, {TIME}, NULL)) OVER {rows.ordered(UP_TO, (run[0],))}"
    lasted = f"({TIME} - {began}) div {unit}L"
    return _Answer(f"CASE WHEN {holds} THEN {lasted} WHEN NOT {holds} THEN -1L END", None, (run,))


_FUNCTIONS: dict[str, Callable[[Call, Slice], _Answer]] = {
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
_ONE_OF_A_TIME = frozenset({"diff", "derivative"})
