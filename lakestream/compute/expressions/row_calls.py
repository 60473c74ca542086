"""Calls of functions that give several rows of a select, and the pieces of the selects they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates
from lakestream.errors import StatementError
from lakestream.language.common.functions import wrong_number
from lakestream.language.common.interpolation import INTERPOLATION
from lakestream.language.common.query_clauses import INNER_WINDOW, group_keys
from lakestream.language.common.templates import put_in_place
from lakestream.language.expressions.parsing import place_in, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakestream.compute.expressions.functions import RowOrder
    from lakestream.language.model import Fragment

TIME, HASH = "_ls_t", "_ls_h"
"""The columns of a row's time (BIGINT µs) and of a number that tells rows of one time apart."""

SOURCE = "_ls_s"
"""The alias of a select inside that has no name of its own."""

UP_TO = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_TEXTS = frozenset({"string", "binary", "date"})
_NO_NUMBERS = _TEXTS | {"timestamp", "timestamp_ntz", "boolean"}


@dataclass(frozen=True)
class Form:
    """How a function is called: how many arguments it has, and the types that the first one is not of.

    ``in_windows``: it also stands in windows and with GROUP BY; ``needs_order``: rows are to have an order.
    """

    least: int
    most: int
    refused: frozenset[str] = _NO_NUMBERS
    in_windows: bool = False
    needs_order: bool = True


FORMS = {
    "diff": Form(1, 2, _TEXTS),
    "derivative": Form(3, 3),
    "csum": Form(1, 1),
    "mavg": Form(2, 2),
    "top": Form(2, 2, in_windows=True),
    "bottom": Form(2, 2, in_windows=True),
    "tail": Form(2, 3, frozenset()),
    "unique": Form(1, 1, frozenset()),
    "sample": Form(2, 2, frozenset(), in_windows=True),
    "statecount": Form(3, 3),
    "stateduration": Form(3, 4),
    "histogram": Form(4, 4, in_windows=True, needs_order=False),
    "interp": Form(1, 2),
}
"""The functions that give several rows."""


@dataclass(frozen=True)
class Rows:
    """The rows that a select reads: their order, the types of the columns, and the text they stand in.

    ``order`` is None where they have none; ``types`` are Spark's, by the lower-case name; ``known`` are the
    names that stand for values of the window.
    """

    order: RowOrder | None
    types: Mapping[str, str]
    known: frozenset[str]
    fragment: Fragment


@dataclass(frozen=True)
class Slice:
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
class Call:
    """A call in a select list: its number, its arguments, and the column of the first one."""

    name: str
    node: exp.Expr
    number: int
    kind: str

    @property
    def arguments(self) -> list[exp.Expr]:
        """The arguments, as written."""
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
        # More digits than that are out of range anyway; int() of a huge text would be slow.
        if isinstance(node, exp.Literal) and node.is_int and len(node.name) <= 6:
            number = int(node.name)
            if low <= number <= high:
                return number
        raise self.wrong(f"argument {at + 1} is a whole number from {low} to {high}")

    def wrong(self, message: str) -> StatementError:
        """Return the error of an argument."""
        return StatementError("WRONG_ARGUMENTS", f"{self.name}(): {message}")


# --- which calls there are, and whether they may stand there ---


def row_calls(nodes: Iterable[exp.Expr]) -> list[exp.Anonymous]:
    """Return the calls of such functions among the nodes of a select."""
    return [node for node in nodes if isinstance(node, exp.Anonymous) and node.name.lower() in FORMS]


def check_calls(select: exp.Select, calls: Sequence[exp.Anonymous], rows: Rows) -> None:
    """Refuse calls where TDengine has none, or not beside each other.

    Raises StatementError FUNCTION_NOT_ALLOWED, NO_ROW_ORDER, each with the place.
    """
    for call in calls:
        _check_place(select, call, rows.fragment)
    if aggregates(select.selects):
        refuse(rows.fragment, calls[0], "beside an aggregate")
    for other in calls[1:]:
        if not _stand_together(calls[0], other):
            refuse(rows.fragment, other, f"beside {text_of(calls[0])}: they give other rows")
    clause = select.args.get(INTERPOLATION)
    if clause is not None and calls[0].name.lower() != "interp":
        refuse(rows.fragment, calls[0], "in a query with RANGE or EVERY")
    if select.args.get("having"):
        refuse(rows.fragment, calls[0], "in a query with HAVING")
    if group_keys(select) is None:
        refuse(rows.fragment, calls[0], "in a query with ROLLUP, CUBE, GROUPING SETS or GROUP BY ALL")
    in_windows = select.args.get("group") or select.args.get(INNER_WINDOW)
    outside = next((call for call in calls if not FORMS[call.name.lower()].in_windows), None)
    if in_windows and outside is not None:
        refuse(rows.fragment, outside, "in a query with a window or GROUP BY")
    if rows.order is None and FORMS[calls[0].name.lower()].needs_order:
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
            refuse(f, call, "with OVER")
        if isinstance(node, exp.Anonymous) and node.name.lower() in FORMS:
            refuse(f, call, f"inside {node.name.lower()}()")
    if node.arg_key != "expressions":
        refuse(f, call, "outside the select list")


def refuse(f: Fragment, call: exp.Expr, where: str) -> None:
    """Raise StatementError FUNCTION_NOT_ALLOWED for a call where there can be none."""
    raise StatementError(
        "FUNCTION_NOT_ALLOWED",
        f"{call.name.lower()}() cannot stand {where}",
        hint="a query around this one can take its rows",
        place=place_in(f, call),
    )


def _stand_together(one: exp.Anonymous, other: exp.Anonymous) -> bool:
    """Return whether two calls may stand in one list (TDengine): DIFF twice, or those of equal rows."""
    if one.name.lower() == other.name.lower() and one.name.lower() in ("diff", "interp"):
        return True
    return _rows_given(one) is not None and _rows_given(one) == _rows_given(other)


def _rows_given(call: exp.Anonymous) -> str | None:
    """Return which rows a call gives, None where that follows from its values."""
    name = call.name.lower()
    if name in ("csum", "statecount", "stateduration"):
        return "all"
    plain = name == "diff" and len(call.expressions) == 1
    if name in ("diff", "derivative") and (plain or [node.name for node in call.expressions[-1:]] == ["0"]):
        return "all but the first"
    return None


def read_call(node: exp.Anonymous, number: int, rows: Rows) -> Call:
    """Return a call whose number of arguments and type fit. Raises StatementError WRONG_ARGUMENTS."""
    name = node.name.lower()
    form = FORMS[name]
    place = place_in(rows.fragment, node)
    if said := wrong_number(f"{name}()", len(node.expressions), form.least, form.most):
        raise StatementError("WRONG_ARGUMENTS", said, place=place)
    argument = node.expressions[0]
    kind = rows.types.get(argument.name.lower(), "") if isinstance(argument, exp.Column) else ""
    if kind in form.refused:
        raise StatementError(
            "WRONG_ARGUMENTS", f"{name}() takes numbers, {argument.name} is of type {kind}", place=place
        )
    return Call(name, node, number, kind)


# --- pieces of selects ---


def order_columns(order: RowOrder) -> list[exp.Expr]:
    """Return the columns that put rows in order."""
    time = exp.Anonymous(this="unix_micros", expressions=[order.time.copy()])
    ties = (exp.alias_(tie.copy(), f"_ls_o{number}") for number, tie in enumerate(order.ties))
    return [exp.alias_(time, TIME), exp.alias_(raw("xxhash64(*)"), HASH), *ties]


def ties_of(order: RowOrder) -> tuple[str, ...]:
    """Return the names of the columns that tell rows of one time apart."""
    return (*(f"_ls_o{number}" for number, _ in enumerate(order.ties)), HASH)


def inside_of(select: exp.Select, columns: Sequence[exp.Expr], *, star: bool = True) -> exp.Select:
    """Move FROM and WHERE of a select inside, with more columns, beside all that there are or not."""
    inside = exp.Select(expressions=[*([exp.Star()] if star else []), *columns])
    for part in ("from_", "where"):
        moved = select.args.get(part)
        select.set(part, None)
        inside.set(part, moved)
    return inside


def first_of_each_time(inside: exp.Select, rows: Slice) -> exp.Select:
    """Leave out rows of a time that another row of the slice has: the smallest key counts (TDengine)."""
    listed = with_columns(inside, [("_ls_before", f"lag({TIME}) OVER {rows.ordered()}")])
    kept = exp.Select(expressions=[raw("* EXCEPT (_ls_before)")], from_=from_(listed))
    return kept.where(raw(f"_ls_before IS NULL OR _ls_before <> {TIME}"), copy=False)


def with_columns(inside: exp.Select, columns: Sequence[tuple[str, str]]) -> exp.Select:
    """Return all of a query with more columns, (name, SQL)."""
    listed = [exp.alias_(raw(sql), name) for name, sql in columns]
    return exp.Select(expressions=[exp.Star(), *listed], from_=from_(inside))


def from_(query: exp.Query, name: str = SOURCE) -> exp.From:
    """Return FROM a query, which is not copied: selects inside of it are still to be rewritten."""
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.From(this=exp.Subquery(this=query, alias=alias))


def put_results(select: exp.Select, calls: Sequence[Call]) -> None:
    """Put the columns with the results in the place of the calls; the unnamed keep their text as name."""
    for item in list(select.selects):
        names_it = not isinstance(item, exp.Alias | exp.Column | exp.Star)
        if names_it and any(call.node is node for node in item.walk() for call in calls):
            put_in_place(item, exp.alias_(item.copy(), text_of(item), quoted=True))
    written = {call.node: call for call in calls}
    for item in select.selects:
        for node in list(item.walk()):
            if isinstance(node, exp.Anonymous) and node in written:
                put_in_place(node, exp.column(f"_ls_r{written[node].number}"))


def check_items(
    select: exp.Select,
    calls: Sequence[exp.Anonymous],
    keys: Sequence[exp.Expr],
    own: frozenset[str],
    rows: Rows,
) -> None:
    """Put the slices' columns in the place of what they are; refuse columns of single rows beside calls.

    ``own`` are the names of the columns that the calls themselves give. Raises StatementError
    FUNCTION_NOT_ALLOWED.
    """
    known = own | rows.known
    order = select.args.get("order")
    for item in [*select.selects, *([order] if order else [])]:
        named = item.this if isinstance(item, exp.Alias) else item
        for node in list(item.walk(prune=lambda n: n in calls or n in keys)):
            if node in keys:
                column = exp.column(f"_ls_p{list(keys).index(node)}")
                if node is named and item is named and isinstance(node, exp.Column):
                    put_in_place(node, exp.alias_(column, node.name, quoted=True))
                else:
                    put_in_place(node, column)
            elif isinstance(node, exp.Star):
                refuse(rows.fragment, calls[0], "beside *")
            elif isinstance(node, exp.Column) and not _is_known(node, known, select):
                refuse(rows.fragment, calls[0], f"beside {node.name}, which is not what slices the rows")


def _is_known(column: exp.Column, known: frozenset[str], select: exp.Select) -> bool:
    name = column.name.lower()
    named = {item.alias.lower() for item in select.selects if isinstance(item, exp.Alias)}
    ordered = column.find_ancestor(exp.Order) is not None and name in named
    return ordered or name in known or name.startswith(("%%", "_ls_"))


def hide(select: exp.Select, names: Sequence[str]) -> None:
    """Leave columns out of the stars of a select list."""
    for item in select.selects:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            hidden = [exp.column(name) for name in names]
            star.set("except_", [*(star.args.get("except_") or []), *hidden])


def raw(sql: str) -> exp.Var:
    """Return SQL made by lakestream itself as a node that is carried through a tree as it is."""
    return exp.Var(this=sql)
