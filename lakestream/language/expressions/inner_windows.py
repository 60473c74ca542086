"""The values of the window clauses inside a query: durations, counts and fills, once they are known to fit.

Source of the rules: TDengine, "Window Partitioning Queries" of the query manual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.common.dialect import DURATION_FUNCTION
from lakestream.language.common.query_clauses import INNER_WINDOW, SLICES, InnerWindow, group_keys
from lakestream.language.expressions.intervals import check_no_gaps, check_offset, check_positive, check_step
from lakestream.language.model import Duration, StateRule, TrueFor
from lakestream.language.reading.durations import read_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.errors import Place

    PlaceOf = Callable[[exp.Expr], Place]
    """Gives the place of a node in the statement."""

EXTENDS = ("0", "1", "2")
"""What EXTEND takes."""

FILLS = ("NONE", "NULL", "NULL_F", "VALUE", "VALUE_F", "PREV", "NEXT", "LINEAR")
_MAX_ROWS = 2**31 - 1
_NONE = Duration(0, "s")
_PLAIN = StateRule()


@dataclass(frozen=True)
class Clause:
    """What a window clause says: the values of its kind, those of others stay as they are here.

    ``length``, ``offset``, ``every`` are INTERVAL's; ``gap`` SESSION's; ``rows`` and ``step`` those of
    COUNT_WINDOW; ``rule`` is that of STATE_WINDOW; ``least`` is TRUE_FOR.
    """

    kind: str
    length: Duration = _NONE
    offset: Duration = _NONE
    every: Duration = _NONE
    gap: Duration = _NONE
    rows: int = 0
    step: int = 0
    rule: StateRule = _PLAIN
    least: TrueFor | None = None


def clause_of(window: InnerWindow) -> Clause:
    """Return what :func:`read_window` found a window clause to say."""
    clause = window.args["clause"]
    assert isinstance(clause, Clause)
    return clause


def read_window(select: exp.Select, place: PlaceOf) -> None:
    """Read the window clause of a select, which then carries its :class:`Clause`.

    Raises StatementError BAD_DURATION, BAD_OFFSET, BAD_COUNT, FILL_VALUE or SYNTAX at the part at fault, and
    NOT_SUPPORTED for the parts of newer versions that are not built.
    """
    window = select.args.get(INNER_WINDOW)
    if window is None:
        return
    kind = window.args["kind"]
    _check_followers(window, place)
    window.set("clause", _CLAUSES[kind](window, place))
    _check_select(select, window, place)


def _interval(window: InnerWindow, place: PlaceOf) -> Clause:
    given = window.expressions
    if not 1 <= len(given) <= 2:
        raise _syntax("INTERVAL takes a length and an offset", window, place)
    if len(given) == 2 and isinstance(given[1], exp.Column) and given[1].name.upper() == "AUTO":
        raise NotSupportedError("INTERVAL(…, AUTO)", hint="name the offset", place=place(given[1]))
    step = window.args.get("sliding")
    length = duration_of(given[0], "INTERVAL", place)
    offset = duration_of(given[1], "INTERVAL", place) if len(given) > 1 else Duration(0, "s")
    every = duration_of(step, "SLIDING", place) if step is not None else length
    steps = place(step if step is not None else given[0])
    check_positive(length, "INTERVAL", place(given[0]))
    check_positive(every, "SLIDING", steps)
    check_step(length, every, steps)
    check_no_gaps(length, every, steps)
    check_offset(length, every, offset, place(given[-1]))
    return Clause("INTERVAL", length=length, offset=offset, every=every)


def _session(window: InnerWindow, place: PlaceOf) -> Clause:
    given = window.expressions
    if len(given) != 2 or not isinstance(given[0], exp.Column):
        raise _syntax("SESSION takes the time column and a gap, SESSION(ts, 10s)", window, place)
    gap = duration_of(given[1], "SESSION", place)
    if gap.months:
        raise StatementError("BAD_DURATION", "SESSION takes no months or years", place=place(given[1]))
    check_positive(gap, "SESSION", place(given[1]))
    return Clause("SESSION", gap=gap)


def _count(window: InnerWindow, place: PlaceOf) -> Clause:
    given = window.expressions
    sizes = [node for node in given[:2] if isinstance(node, exp.Literal)]
    columns = given[len(sizes) :]
    if not sizes or not all(isinstance(node, exp.Column) for node in columns):
        raise _syntax("COUNT_WINDOW takes a number of rows, a step, and columns", window, place)
    rows, *rest = (_rows(node, place) for node in sizes)
    step = rest[0] if rest else rows
    if step > rows:
        raise StatementError(
            "BAD_COUNT", f"the step {step} is longer than the window of {rows} rows", place=place(sizes[-1])
        )
    return Clause("COUNT_WINDOW", rows=rows, step=step)


def _rows(node: exp.Expr, place: PlaceOf) -> int:
    # More digits than that are out of range anyway; int() of a huge text would be slow.
    if node.is_string or not node.name.isdigit() or len(node.name) > 10:
        raise StatementError("BAD_COUNT", f"{node.name} is no number of rows", place=place(node))
    if not 1 <= int(node.name) <= _MAX_ROWS:
        raise StatementError("BAD_COUNT", f"{node.name} rows: at least 1", place=place(node))
    return int(node.name)


def _event(window: InnerWindow, place: PlaceOf) -> Clause:
    return Clause("EVENT_WINDOW", least=_least(window, place))


def _state(window: InnerWindow, place: PlaceOf) -> Clause:
    """Read a STATE_WINDOW, which then has its states alone in its brackets."""
    states, extend, zeroth = window.expressions, window.args.get("extend"), window.args.get("zeroth")
    if not states:
        raise _syntax("STATE_WINDOW takes columns or expressions", window, place)
    if (
        not (extend or zeroth) and len(states) in (2, 3) and _is_number(states[1])
    ):  # how TDengine 3.3.8 has it
        extend, zeroth = states[1:2], states[2:]
        for name, nodes in (("expressions", states[:1]), ("extend", extend), ("zeroth", zeroth)):
            window.set(name, nodes)
    values = [_zeroth(node, place) for node in zeroth or []]
    if values:
        check_zeroth(len(values), len(window.expressions), place(window))
    number = [node for node in window.expressions[1:] if _is_number(node)]
    if number:
        hint = "STATE_WINDOW(a, b) EXTEND(1)"
        raise StatementError(
            "EXTEND", f"{number[0].name} is no state of several", hint=hint, place=place(number[0])
        )
    rule = StateRule(_extend(extend, place) if extend else 0, tuple(values))
    return Clause("STATE_WINDOW", rule=rule, least=_least(window, place))


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _extend(given: list[exp.Expr], place: PlaceOf) -> int:
    if len(given) != 1 or not _is_number(given[0]) or given[0].name not in EXTENDS:
        said = given[-1].sql("spark")
        hint = "EXTEND(0), (1) or (2)"
        raise StatementError("EXTEND", f"EXTEND takes no {said}", hint=hint, place=place(given[-1]))
    return int(given[0].name)


def _zeroth(node: exp.Expr, place: PlaceOf) -> int | bool | str | None:
    if isinstance(node, exp.Column) and node.name.upper() == "NO_ZEROTH":
        node.replace(exp.Var(this=node.name))  # no column, whatever columns there are
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    inner = node.this if isinstance(node, exp.Neg) else node
    if isinstance(inner, exp.Literal) and (inner.is_int or (inner.is_string and inner is node)):
        return inner.name if inner.is_string else int(node.sql("spark").replace(" ", ""))
    hint = "an integer, a boolean or a text"
    raise StatementError(
        "ZEROTH_STATE", f"ZEROTH_STATE takes no {node.sql('spark')}", hint=hint, place=place(node)
    )


_CLAUSES = {
    "INTERVAL": _interval,
    "SESSION": _session,
    "COUNT_WINDOW": _count,
    "EVENT_WINDOW": _event,
    "STATE_WINDOW": _state,
}


def check_zeroth(values: int, states: int, place: Place) -> None:
    """Raise StatementError ZEROTH_STATE at a place where there is not a value for each of the states."""
    if values != states:
        hint = f"{states} of them, NO_ZEROTH for a state of which none is the zeroth"
        message = f"ZEROTH_STATE has {values} values for {states} states"
        raise StatementError("ZEROTH_STATE", message, hint=hint, place=place)


def _least(window: InnerWindow, place: PlaceOf) -> TrueFor | None:
    node, rows = window.args.get("least"), window.args.get("rows")
    if node is None and rows is None:
        return None
    return TrueFor(
        duration_of(node, "TRUE_FOR", place) if node is not None else None,
        _rows(rows, place) if rows is not None else None,
        bool(window.args.get("either")),
    )


def _check_followers(window: InnerWindow, place: PlaceOf) -> None:
    """Refuse SLIDING, FILL, EXTEND, ZEROTH_STATE and TRUE_FOR behind windows that have no such thing."""
    kind = window.args["kind"]
    for name, clause, kinds in (
        ("sliding", "SLIDING", ("INTERVAL",)),
        ("fill", "FILL", ("INTERVAL",)),
        ("extend", "EXTEND", ("STATE_WINDOW",)),
        ("zeroth", "ZEROTH_STATE", ("STATE_WINDOW",)),
        ("least", "TRUE_FOR", ("STATE_WINDOW", "EVENT_WINDOW")),
        ("rows", "TRUE_FOR", ("STATE_WINDOW", "EVENT_WINDOW")),
    ):
        if window.args.get(name) is not None and kind not in kinds:
            hint = f"{clause} belongs to {' and '.join(kinds)}"
            raise StatementError("SYNTAX", f"{kind} takes no {clause}", hint=hint, place=place(window))
    _check_fill(window, place)


def _check_fill(window: InnerWindow, place: PlaceOf) -> None:
    fill, values = window.args.get("fill"), window.args.get("values") or []
    if fill is None:
        return
    if fill in ("NEAR", "SURROUND"):
        raise NotSupportedError(f"FILL({fill})", place=place(window))
    if fill not in FILLS:
        raise StatementError(
            "SYNTAX", f"there is no FILL({fill})", hint=did_you_mean(fill, FILLS), place=place(window)
        )
    takes = fill.startswith("VALUE")
    if takes != bool(values):
        wanted = "takes constants" if takes else "takes no constants"
        raise StatementError("FILL_VALUE", f"FILL({fill}) {wanted}", place=place(window))
    for value in values:
        inner = value.this if isinstance(value, exp.Neg) else value
        if not isinstance(inner, (exp.Literal, exp.Boolean, exp.Null)):
            raise StatementError("FILL_VALUE", "FILL(VALUE, …) takes constants", place=place(value))


def _check_select(select: exp.Select, window: InnerWindow, place: PlaceOf) -> None:
    """Refuse what cannot stand beside a window (TDengine: "Rules for Window Clause")."""
    kind = window.args["kind"]
    star = next((item for item in select.expressions if item.is_star), None)
    if star is not None:
        raise StatementError(
            "NOT_AGGREGATED", f"* beside {kind}: a window gives aggregates of its rows", place=place(star)
        )
    for name, clause in (("group", "GROUP BY"), ("qualify", "QUALIFY"), ("joins", "a join")):
        if select.args.get(name):
            hint = "PARTITION BY" if name == "group" else "a query around it"
            raise NotSupportedError(f"{clause} beside {kind}", hint=hint, place=place(window))
    if select.args.get("having") and _fills(window):
        raise NotSupportedError("HAVING beside FILL", hint="WHERE in a query around it", place=place(window))


def _fills(window: InnerWindow) -> bool:
    return window.args.get("fill") not in (None, "NONE")


def check_slices(select: exp.Select, place: PlaceOf) -> None:
    """Refuse SLIMIT without slices, and a limit of slices that are grouped once more."""
    limit, slices = select.args.get("slice_limit"), select.args.get(SLICES)
    if limit is not None and slices is None:
        raise StatementError(
            "SYNTAX", "SLIMIT counts the slices of PARTITION BY, and there are none", place=place(limit)
        )
    if slices is None or not select.args.get("group"):
        return
    if group_keys(select) is None:
        raise NotSupportedError(
            "ROLLUP, CUBE, GROUPING SETS and GROUP BY ALL behind PARTITION BY",
            hint="a query around it",
            place=place(slices),
        )
    node = limit or select.args.get("limit") or select.args.get("offset")
    if node is not None:
        raise NotSupportedError(
            "LIMIT behind PARTITION BY and GROUP BY", hint="LIMIT in a query around it", place=place(node)
        )


def duration_of(node: exp.Expr, clause: str, place: PlaceOf) -> Duration:
    """Return the duration that a node is: ``10s``, ``'10s'`` or a number of milliseconds; BAD_DURATION."""
    if isinstance(node, exp.Anonymous) and node.name == DURATION_FUNCTION and node.expressions:
        return read_duration(node.expressions[0].name, place(node))
    if isinstance(node, exp.Literal):
        return read_duration(node.name, place(node))
    raise StatementError("BAD_DURATION", f"{clause} takes a duration such as 10s", place=place(node))


def _syntax(message: str, window: InnerWindow, place: PlaceOf) -> StatementError:
    return StatementError("SYNTAX", message, place=place(window))
