"""eKuiper's analytic functions: calls that look at the events before, whatever window these are in.

Wherever one is called, a column stands for its results: the engine computes it before all else, over each
event that is admitted. Sources: eKuiper's manual (sqls/functions/analytic_functions), and the engine where
the manual is silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.expressions.checks import check_row_expression
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.model import EventFunction, Fragment

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

    OverEvent = Callable[[Fragment, str], Fragment]
    """Gives an expression of a clause its meaning over one event."""

CHANGED_COLS = "changed_cols"
"""The function that gives several columns."""

FORMS = {
    "lag": "lag(x[, offset[, default[, ignoreNull]]])",
    "latest": "latest(x[, default])",
    "changed_col": "changed_col(ignoreNull, x)",
    "had_changed": "had_changed(ignoreNull, x, …)",
    CHANGED_COLS: "changed_cols(prefix, ignoreNull, x, …)",
    **{f"acc_{name}": f"acc_{name}(x[, begin, reset])" for name in ("avg", "count", "max", "min", "sum")},
}
"""How each is called."""

_COUNTS = {
    "lag": range(1, 5),
    "latest": range(1, 3),
    "changed_col": range(2, 3),
    "had_changed": range(2, 1_000),
    CHANGED_COLS: range(3, 1_000),
}
_ACC = (1, 3)
_MAX_OFFSET = 10_000


@dataclass(frozen=True)
class Call:
    """A call as it is written: its name, its arguments, what OVER says, and where it ends."""

    word: Word
    arguments: list[Fragment]
    partition_by: list[Fragment]
    when: Fragment | None
    end: int

    @property
    def name(self) -> str:
        """The function, in small letters."""
        return self.word.text.lower()


def read_call(reader: Reader, word: Word) -> Call:
    """Read the call that begins with a word, wherever the reader stands, which stays there.

    Raises StatementError WRONG_ARGUMENTS, SYNTAX.
    """
    back, reader.at = reader.at, reader.words.index(word) + 1
    try:
        return _read_call(reader, word)
    finally:
        reader.at = back


def _read_call(reader: Reader, word: Word) -> Call:
    def ends() -> bool:
        return reader.sees_symbol(",") or reader.sees_symbol(")")

    arguments: list[Fragment] = []
    keys: list[Fragment] = []
    when = None
    reader.expect_symbol("(")
    while not reader.sees_symbol(")"):
        arguments.append(reader.until(ends, "an argument"))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    if reader.sees("OVER"):
        reader.expect("OVER")
        reader.expect_symbol("(")
        if reader.accept("PARTITION", "BY"):
            while not keys or reader.accept_symbol(","):
                keys.append(reader.until(lambda: ends() or reader.sees("WHEN"), "a column of PARTITION BY"))
        elif not reader.sees("WHEN"):
            raise reader.unexpected("WHEN or PARTITION BY", ("WHEN", "PARTITION"))
        if reader.accept("WHEN"):
            when = reader.until(lambda: reader.sees_symbol(")"), "a condition")
        reader.expect_symbol(")")
    call = Call(word, arguments, keys, when, reader.words[reader.at - 1].end)
    if len(arguments) not in _COUNTS.get(call.name, _ACC):
        raise _wrong(reader, call, f"{call.name}() does not take {len(arguments)} arguments")
    return call


def _wrong(reader: Reader, call: Call, message: str) -> Exception:
    return reader.error("WRONG_ARGUMENTS", message, word=call.word, hint=FORMS[call.name])


@dataclass
class AnalyticCalls:
    """The calls of a statement: the functions, and what stands in the place of each by where it begins.

    ``meanings`` are the names (in small letters) of columns that arguments may name, and what they stand for.
    """

    functions: list[EventFunction]
    meanings: dict[str, exp.Expr] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    _found: dict[int, tuple[str, int]] = field(default_factory=dict)

    def meaning(self, reader: Reader, word: Word, over_event: OverEvent) -> tuple[str, int]:
        """Return the column that stands for the call that begins with a word, and where the call ends.

        Raises StatementError.
        """
        if word.start not in self._found:
            call = read_call(reader, word)
            function = self._function(reader, call, over_event)
            text = reader.source.text[word.start : call.end]
            column = self.column_of(replace(function, written=text))
            self.named[column] = call.name
            self._found[word.start] = column, call.end
        return self._found[word.start]

    def column_of(self, function: EventFunction) -> str:
        """Return the column of a function; one that is written twice has one."""
        known = next((one for one in self.functions if replace(one, column="") == function), None)
        if known is not None:
            return known.column
        column = f"_ls_f{len(self.functions) + 1}"
        self.functions.append(replace(function, column=column))
        return column

    def over_events(self, fragment: Fragment, clause: str, over_event: OverEvent) -> Fragment:
        """Return an expression over an event that may name columns of the query."""
        return self._with_meanings(over_event(fragment, clause), clause)

    def _function(self, reader: Reader, call: Call, over_event: OverEvent) -> EventFunction:
        def read(fragment: Fragment) -> Fragment:
            return self.over_events(fragment, f"{call.name}()", over_event)

        looked_at, ignores_null, offset = list(call.arguments), True, 1
        if call.name in ("changed_col", "had_changed"):
            ignores_null = flag(reader, call, looked_at.pop(0))
        elif call.name == "lag":
            if len(looked_at) > 3:
                ignores_null = flag(reader, call, looked_at.pop(3))
            if len(looked_at) > 1:
                offset = _offset(reader, call, looked_at.pop(1))
        if call.name in ("lag", "latest") and looked_at[1:] and looked_at[1].sql.upper() == "NULL":
            looked_at.pop()  # there is none
        stars = call.name == "had_changed"
        arguments = tuple(one if stars and is_star(one) else read(one) for one in looked_at)
        keys = tuple(map(read, call.partition_by))
        when = read(call.when) if call.when else None
        return EventFunction(call.name, "", arguments, keys, when, ignores_null, offset)

    def _with_meanings(self, fragment: Fragment, clause: str) -> Fragment:
        """Return an expression in which the names of columns of the query are what these are."""
        tree = parse_expression(fragment)
        names = {column.name.lower() for column in tree.find_all(exp.Column) if not column.table}
        if not names & self.meanings.keys():
            return fragment

        def meant(node: exp.Expr) -> exp.Expr:
            stands = isinstance(node, exp.Column) and not node.table and node.name.lower() in self.meanings
            return exp.paren(self.meanings[node.name.lower()].copy()) if stands else node

        return check_row_expression(replace(fragment, sql=tree.transform(meant).sql("spark")), clause)


def is_star(fragment: Fragment) -> bool:
    """Return whether an argument is all columns."""
    return fragment.sql.lstrip().startswith("*")


def flag(reader: Reader, call: Call, fragment: Fragment) -> bool:
    """Return an argument that is true or false; raises StatementError WRONG_ARGUMENTS."""
    if fragment.sql.lower() not in ("true", "false"):
        raise _wrong(reader, call, f"{call.name}(): ignoreNull is true or false, not {fragment.sql}")
    return fragment.sql.lower() == "true"


def _offset(reader: Reader, call: Call, fragment: Fragment) -> int:
    text = fragment.sql
    if not (text.isdecimal() and len(text) < 9 and 1 <= int(text) <= _MAX_OFFSET):
        what = f"lag(): the offset is a whole number from 1 to {_MAX_OFFSET}, not {text}"
        raise _wrong(reader, call, what)
    return int(text)
