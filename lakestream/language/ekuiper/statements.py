"""Reader of eKuiper's streams: ``CREATE STREAM s WITH (…) INTO out AS SELECT … GROUP BY …WINDOW(…)``.

It compiles to the same definition as the others: the window becomes the trigger, FILTER the rows that it
sees, and what is left of the SELECT the calculation over the rows of a window. ``window_start()`` stands
for ``_twstart`` there, ``window_end()`` for ``_twend``; ``event_time()`` of a group is the window's end, of
a row the row's own time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import did_you_mean
from lakestream.language.common.aggregates import is_aggregate
from lakestream.language.ekuiper.analytic import (
    CHANGED_COLS,
    FORMS,
    AnalyticCalls,
    flag,
    is_star,
    read_call,
)
from lakestream.language.ekuiper.functions import (
    OF_WINDOWS,
    ORDER,
    REFUSED,
    query_as_written,
    translated,
)
from lakestream.language.ekuiper.options import SourceOptions, read_source_options
from lakestream.language.expressions.checks import (
    COMMON_PLACEHOLDERS,
    WINDOW_PLACEHOLDERS,
    check_expression,
    check_row_expression,
)
from lakestream.language.expressions.parsing import parse_expression, parse_query
from lakestream.language.model import (
    MICROS,
    BoundedSessionTrigger,
    Duration,
    EventFunction,
    Fragment,
    GroupKey,
    IntervalTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    Trigger,
)
from lakestream.language.reading.identifiers import refuse_duplicate, take_identifier, take_table_name
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.clauses import read_into, read_layout
from lakestream.language.tdengine.draft import Draft
from lakestream.language.tdengine.expectations import read_expectation
from lakestream.language.tdengine.triggers import ReadTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.language.ekuiper.analytic import Call
    from lakestream.language.model import Expectation, TableName
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

_UNITS = {"DD": "d", "HH": "h", "MI": "m", "SS": "s", "MS": "a"}
_MAX_MICROS = 36_500 * MICROS["d"]
_MAX_COUNT = 2**31 - 1
_MAX_OVERLAP = 10_000
_PSEUDO = {"WINDOW_START": "_twstart", "WINDOW_END": "_twend", "EVENT_TIME": "_tevent"}

_PLACEHOLDERS = WINDOW_PLACEHOLDERS | COMMON_PLACEHOLDERS
_EVENT_TIME = "_tevent"
"""What stands for ``event_time()`` until it is known whether rows or groups are output."""


def is_ekuiper(reader: Reader) -> bool:
    """Tell by what follows the stream's name: WITH, columns, or one of eKuiper's windows further on."""
    if reader.sees("WITH") or reader.sees_symbol("("):
        return True
    return any(map(reader.sees, ("INTO", "AS", "EXPECT"))) and window_called(reader) is not None


def window_called(reader: Reader) -> Word | None:
    """Return the first word of what is still to be read that calls one of eKuiper's windows."""
    for word, then in pairwise(reader.words[reader.at :]):
        if word.kind is Kind.WORD and then.is_symbol("(") and word.text.upper() in _WINDOWS:
            return word
    return None


def read_ekuiper(reader: Reader, name: TableName) -> Draft:
    """Take what follows the stream's name. Raises StatementError and NotSupportedError."""
    reader.source = reader.source.with_spark_functions()
    draft = Draft(ReadTrigger("", reader.peek()))
    if reader.sees_symbol("("):
        raise reader.unsupported("a stream of messages", hint="CREATE TABLE name (column type, …)")
    source = read_source_options(reader) if reader.sees("WITH") else SourceOptions()
    draft.options.values = source.applied(reader, draft.options.values)
    while reader.sees("EXPECT"):
        read_expectation(reader, draft)
    draft.words["INTO"] = reader.peek()
    if reader.sees("AS"):
        raise reader.error("INTO_MISSING", "INTO with the output table is missing", hint="… INTO table AS …")
    read_into(reader, draft)
    while read_layout(reader, draft) or reader.sees("EXPECT"):
        if reader.sees("EXPECT"):
            read_expectation(reader, draft)
    reader.expect("AS")
    query = _read_query(reader, draft, name)
    draft.expectations = [_over_table(reader, draft, query, one) for one in draft.expectations]
    draft.calculation = _calculation(reader, draft, query)
    draft.tags = ()
    return draft


# --- the query -----------------------------------------------------------------------------------


@dataclass
class _Query:
    """The parts of the SELECT that the calculation is made of."""

    start: Word
    listed: Fragment
    stream: TableName
    alias: str = ""
    where: Fragment | None = None
    keys: list[Fragment] = field(default_factory=list)
    having: Fragment | None = None
    rest: Fragment | None = None
    invisible: dict[str, int] = field(default_factory=dict)
    """Names (in lower case) that others are made of and that are not output, and where INVISIBLE stands."""
    row_by_row: bool = False
    """Whether there is no window: each event is output by itself."""
    calls: AnalyticCalls = field(default_factory=lambda: AnalyticCalls([]))
    changed: dict[int, str] = field(default_factory=dict)
    """By where a changed_cols() of the list begins, the column that says whether anything has changed."""


_AFTER_KEYS = ("FILTER", "OVER", "HAVING", "ORDER", "LIMIT")


def _read_query(reader: Reader, draft: Draft, name: TableName) -> _Query:
    start = reader.peek()
    reader.expect("SELECT")
    if reader.sees("DISTINCT"):
        raise reader.unsupported("SELECT DISTINCT in a stream with a window")
    listed = reader.until(lambda: reader.sees("FROM"), "the columns of the query")
    query = _Query(start, listed, name, calls=AnalyticCalls(draft.functions))
    _take_invisible(reader, query)
    draft.words["FROM"] = reader.peek()
    reader.expect("FROM")
    if reader.sees_symbol("("):
        raise reader.error("TRIGGER_TABLE", "the query reads a table by name", hint="not another query")
    draft.source = take_table_name(reader, "the table of events")
    query.alias = _alias(reader)
    if reader.sees_symbol(",") or reader.sees("JOIN") or reader.sees("INNER") or reader.sees("LEFT"):
        raise reader.unsupported(
            "a join within a window", hint="a materialized view that joins, and the window over it"
        )
    _note_meanings(reader, draft, query)
    if reader.accept("WHERE"):
        query.where = reader.until(
            lambda: reader.sees("GROUP") or reader.sees("PARTITION"), "a condition of WHERE"
        )
        check_expression(_without_calls(reader, draft, query, query.where), "WHERE")
    if reader.done:
        query.row_by_row = True
        draft.trigger = ReadTrigger("COUNTWINDOW", start, LatestTrigger(1, 1))
        return query
    if reader.accept("PARTITION", "BY"):
        _partition(reader, draft, query, lambda: reader.sees_symbol(",") or reader.sees("GROUP"))
    if not reader.accept("GROUP", "BY"):
        if reader.done or any(map(reader.sees, _AFTER_KEYS)):
            raise _window_missing(reader)
        raise reader.unexpected("GROUP BY", ("WHERE", "PARTITION", "GROUP"))
    _group_items(reader, draft, query)
    _behind_groups(reader, draft, query)
    return query


def _note_meanings(reader: Reader, draft: Draft, query: _Query) -> None:
    """Note what the names of columns of the query stand for, where functions over events may name them."""
    if not any(word.text.lower() in FORMS for word in reader.words):
        return
    for item in _listed_items(reader, query):
        words = _words_of(reader, item)
        if len(words) < 3 or not words[-2].is_word("AS"):
            continue
        name, *written = words[-1].text.lower(), *(word.text.lower() for word in words[:-2])
        expression = reader.source.fragment(words[0].start, words[-3].end)
        sql = _names_translated(reader, draft, query, expression)
        if name in written:
            continue  # the table's own column is meant
        meant = translated(replace(expression, sql=sql), draft.options.values.zone)
        tree = parse_expression(meant)
        query.calls.meanings[name] = _inlined(tree, query.calls.meanings)


def _listed_items(reader: Reader, query: _Query) -> list[Fragment]:
    """Return the columns of the query as they are written, without INVISIBLE."""

    def ends() -> bool:
        hidden = reader.peek().start in query.invisible.values()
        return hidden or reader.sees_symbol(",") or reader.sees("FROM")

    items: list[Fragment] = []
    back = reader.at
    reader.at = reader.words.index(_words_of(reader, query.listed)[0])
    while not items or reader.accept_symbol(","):
        items.append(reader.until(ends, "a column"))
        reader.accept("INVISIBLE")
    reader.at = back
    return items


def _take_invisible(reader: Reader, query: _Query) -> None:
    """Note the names behind which INVISIBLE stands, and leave blanks in the place of that word."""
    words = _words_of(reader, query.listed)
    for number, word in enumerate(words):
        if number >= 2 and word.is_word("INVISIBLE") and words[number - 2].is_word("AS"):
            query.invisible[words[number - 1].text.lower()] = word.start
            at, text = word.start - words[0].start, query.listed.sql
            blank = " " * len(word.text)
            query.listed = replace(query.listed, sql=f"{text[:at]}{blank}{text[at + len(blank) :]}")


_BEHIND_TABLE = ("WHERE", "PARTITION", "GROUP", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS")


def _alias(reader: Reader) -> str:
    """Take ``[AS] alias`` behind the table; empty for none."""
    if reader.accept("AS"):
        return take_identifier(reader, "an alias of the table")[0]
    word = reader.peek()
    behind = (*_BEHIND_TABLE, *_AFTER_KEYS)
    if word.kind not in (Kind.WORD, Kind.NAME) or any(map(reader.sees, behind)):
        return ""
    return take_identifier(reader, "an alias of the table")[0]


def _behind_groups(reader: Reader, draft: Draft, query: _Query) -> None:
    """Take ``[HAVING …] [ORDER BY …] [LIMIT …]``."""
    if reader.accept("HAVING"):
        query.having = reader.until(lambda: reader.sees("ORDER") or reader.sees("LIMIT"), "a condition")
        parse_expression(_without_calls(reader, draft, query, query.having))
    if not reader.done:
        if not (reader.sees("ORDER") or reader.sees("LIMIT")):
            raise _misplaced(reader)
        query.rest = reader.rest("ORDER BY or LIMIT")


def _window_missing(reader: Reader) -> Exception:
    return reader.error(
        "WINDOW_MISSING",
        "the query groups by no window",
        hint="GROUP BY TUMBLINGWINDOW(ss, 10), for example",
    )


def _misplaced(reader: Reader) -> Exception:
    if reader.sees("FILTER") or reader.sees("OVER"):
        return reader.error(
            "SYNTAX",
            "FILTER stands directly behind the window, and OVER behind FILTER",
            hint="SLIDINGWINDOW(…) FILTER (WHERE …) OVER (WHEN …)",
        )
    return reader.unexpected("the end of the query", _AFTER_KEYS)


def _partition(reader: Reader, draft: Draft, query: _Query, ends: Callable[[], bool]) -> None:
    if draft.partition_by:
        raise reader.error("CLAUSE_TWICE", "PARTITION BY is given twice")
    draft.words["PARTITION BY"] = reader.peek()
    keys: list[GroupKey] = []
    while not keys or reader.accept_symbol(","):
        key = reader.until(ends, "a column of PARTITION BY")
        expression = _over_event(reader, draft, query, key, "PARTITION BY", _OF_EVENTS)
        keys.append(GroupKey(expression, f"key_{len(keys) + 1}"))
    draft.partition_by = tuple(keys)


def _group_items(reader: Reader, draft: Draft, query: _Query) -> None:
    """Take the items of GROUP BY, of which one is the window."""
    found: Word | None = None
    while True:
        word = reader.peek()
        if _is_window(reader):
            if found is not None:
                raise reader.error("TWO_WINDOWS", "GROUP BY names two windows", hint="one window a stream")
            found = word
            draft.trigger = _window(reader)
            _translate_states(reader, draft, query)
            _behind_window(reader, draft, query)
        else:
            query.keys.append(reader.until(lambda: _ends_key(reader), "a column of GROUP BY"))
            check_expression(_without_calls(reader, draft, query, query.keys[-1]), "GROUP BY")
        if not reader.accept_symbol(","):
            break
    if found is None:
        raise _window_missing(reader)


def _ends_key(reader: Reader) -> bool:
    return reader.sees_symbol(",") or any(reader.sees(word) for word in _AFTER_KEYS)


def _is_window(reader: Reader) -> bool:
    word = reader.peek()
    if word.kind is not Kind.WORD or not reader.peek(1).is_symbol("("):
        return False
    name = word.text.upper()
    if "WINDOW" in name and name not in _WINDOWS:
        raise reader.error(
            "UNKNOWN_TRIGGER", f"there is no window {word.text}", hint=did_you_mean(name, _WINDOWS)
        )
    return name in _WINDOWS


def _translate_states(reader: Reader, draft: Draft, query: _Query) -> None:
    """Give the conditions of a STATEWINDOW their meaning over the table's columns."""
    states = draft.trigger.value
    if isinstance(states, SpanTrigger):
        conditions = [states.begin, *([states.end] if states.end else [])]
        meant = [_over_event(reader, draft, query, one, draft.trigger.name) for one in conditions]
        draft.trigger.value = SpanTrigger(*meant)


def _behind_window(reader: Reader, draft: Draft, query: _Query) -> None:
    """Take ``[FILTER (WHERE …)] [OVER ([PARTITION BY …] [WHEN …])]``."""
    if reader.accept("FILTER"):
        reader.expect_symbol("(")
        reader.expect("WHERE")
        condition = reader.until(lambda: reader.sees_symbol(")"), "a condition")
        reader.expect_symbol(")")
        condition = _over_event(reader, draft, query, condition, "FILTER")
        draft.options.values = replace(draft.options.values, pre_filter=condition)
    if reader.sees("OVER"):
        _over(reader, draft, query)
    if reader.sees("FILTER") or reader.sees("OVER"):
        raise _misplaced(reader)


def _over(reader: Reader, draft: Draft, query: _Query) -> None:
    word = reader.peek()
    reader.expect("OVER")
    reader.expect_symbol("(")
    if reader.accept("PARTITION", "BY"):
        _partition(reader, draft, query, lambda: any((*map(reader.sees_symbol, ",)"), reader.sees("WHEN"))))
    elif not reader.sees("WHEN"):
        raise reader.unexpected("WHEN or PARTITION BY", ("WHEN", "PARTITION"))
    if reader.accept("WHEN"):
        if not isinstance(draft.trigger.value, SlideTrigger):
            raise reader.error(
                "OVER_WITHOUT_SLIDING",
                f"OVER (WHEN …) says which rows trigger, {draft.trigger.name} is triggered by none",
                word=word,
                hint="only SLIDINGWINDOW is triggered by rows; FILTER (WHERE …) filters what a window holds",
            )
        when = reader.until(lambda: reader.sees_symbol(")"), "a condition")
        when = _over_event(reader, draft, query, when, "OVER (WHEN …)")
        draft.trigger.value = replace(draft.trigger.value, when=when)
    reader.expect_symbol(")")


# --- windows -------------------------------------------------------------------------------------


def _window(reader: Reader) -> ReadTrigger:
    word = reader.take()
    name = word.text.upper()
    reader.expect_symbol("(")
    value = _WINDOWS[name](reader, name, word)
    reader.expect_symbol(")")
    return ReadTrigger(name, word, value)


def _units(reader: Reader, name: str, word: Word, least: int, most: int) -> tuple[str, list[int], list[Word]]:
    """Take ``unit, number, …`` with as many numbers as the window has."""
    unit = _unit(reader, name)
    numbers, words = [], []
    while reader.accept_symbol(","):
        words.append(reader.peek())
        numbers.append(_integer(reader, name))
    if not least <= len(numbers) <= most:
        raise _argument_count(reader, name, word)
    for number, at in zip(numbers, words, strict=True):
        if number * MICROS[unit] > _MAX_MICROS:
            raise reader.error("BAD_DURATION", f"{name}: {at.text} is too long", word=at, hint="100 years")
    return unit, numbers, words


def _unit(reader: Reader, name: str) -> str:
    word = reader.peek()
    if word.kind is not Kind.WORD or word.text.upper() not in _UNITS:
        raise reader.error(
            "BAD_UNIT",
            f"{name} takes a unit first, {word.text!r} is none",
            hint="a bare word: dd days, hh hours, mi minutes, ss seconds, ms milliseconds",
        )
    return _UNITS[reader.take().text.upper()]


def _integer(reader: Reader, name: str) -> int:
    word = reader.peek()
    # More digits are beyond every limit; int() of a huge text would be slow.
    if word.kind is not Kind.NUMBER or not word.text.isdigit() or len(word.text) > 15:
        raise reader.error("BAD_NUMBER", f"{name} takes integers, {word.text!r} is none")
    return int(reader.take().text)


def _argument_count(reader: Reader, name: str, word: Word) -> Exception:
    return reader.error("WRONG_ARGUMENTS", f"{name} has other arguments", word=word, hint=_FORMS[name])


def _positive(reader: Reader, name: str, number: int, word: Word) -> None:
    if number < 1:
        raise reader.error("BAD_DURATION", f"{name}: {number} must be positive", word=word, hint="at least 1")


def _tumbling(reader: Reader, name: str, word: Word) -> Trigger:
    unit, (length,), (at,) = _units(reader, name, word, 1, 1)
    _positive(reader, name, length, at)
    return _interval(unit, length, length)


def _hopping(reader: Reader, name: str, word: Word) -> Trigger:
    unit, numbers, words = _units(reader, name, word, 2, 2)
    for number, at in zip(numbers, words, strict=True):
        _positive(reader, name, number, at)
    if numbers[0] > numbers[1] * _MAX_OVERLAP:
        raise reader.error(
            "BAD_DURATION",
            f"{name}: each event would be in more than {_MAX_OVERLAP:,} windows",
            word=words[1],
            hint="a longer hop",
        )
    return _interval(unit, *numbers)


def _interval(unit: str, length: int, step: int) -> IntervalTrigger:
    return IntervalTrigger(Duration(length, unit), Duration(0, unit), Duration(step, unit), local=True)


def _sliding(reader: Reader, name: str, word: Word) -> Trigger:
    unit, numbers, words = _units(reader, name, word, 1, 2)
    _positive(reader, name, numbers[0], words[0])
    delay = numbers[1] if len(numbers) > 1 else 0
    return SlideTrigger(Duration(numbers[0], unit), Duration(delay, unit))


def _session(reader: Reader, name: str, word: Word) -> Trigger:
    unit, numbers, words = _units(reader, name, word, 2, 2)
    for number, at in zip(numbers, words, strict=True):
        _positive(reader, name, number, at)
    return BoundedSessionTrigger(Duration(numbers[0], unit), Duration(numbers[1], unit))


def _count(reader: Reader, name: str, word: Word) -> Trigger:
    words = [reader.peek()]
    numbers = [_integer(reader, name)]
    while reader.accept_symbol(","):
        words.append(reader.peek())
        numbers.append(_integer(reader, name))
    if len(numbers) > 2:
        raise _argument_count(reader, name, word)
    for number, at in zip(numbers, words, strict=True):
        if not 1 <= number <= _MAX_COUNT:
            raise reader.error(
                "BAD_COUNT",
                f"{name}: {number} is no count of rows",
                word=at,
                hint=f"a positive count, at most {_MAX_COUNT}",
            )
    if numbers[-1] > numbers[0]:
        raise reader.error(
            "BAD_COUNT",
            f"{name}({numbers[0]}, {numbers[1]}): the second number, how often it is looked at, is larger",
            word=words[1],
            hint=f"at most {numbers[0]}",
        )
    return LatestTrigger(numbers[0], numbers[-1])


def _state(reader: Reader, name: str, word: Word) -> Trigger:
    conditions = [_condition(reader, name)]
    while reader.accept_symbol(","):
        conditions.append(_condition(reader, name))
    if len(conditions) > 2:
        raise _argument_count(reader, name, word)
    return SpanTrigger(*conditions)


def _condition(reader: Reader, name: str) -> Fragment:
    del name
    return reader.until(lambda: reader.sees_symbol(",") or reader.sees_symbol(")"), "a condition")


_OF_EVENTS = OF_WINDOWS | FORMS.keys()
"""Functions that have no place in what tells keys apart, and in what is expected of events."""


def _over_event(
    reader: Reader,
    draft: Draft,
    query: _Query,
    f: Fragment,
    clause: str,
    unknown: frozenset[str] = OF_WINDOWS,
) -> Fragment:
    """Return an expression over one event as it is over the table's columns, and results of functions.

    Raises StatementError; NotSupportedError for functions that are not built, or ``unknown`` to the clause.
    """
    for word, following in pairwise(_words_of(reader, f)):
        if word.kind is Kind.WORD and following.is_symbol("("):
            _refuse_unbuilt(reader, word, clause, unknown)
    written = replace(f, sql=_names_translated(reader, draft, query, f))
    if _EVENT_TIME in written.sql:
        written = replace(written, sql=written.sql.replace(_EVENT_TIME, _time_of_event(reader, draft, f)))
    meant = translated(written, draft.options.values.zone)
    check_row_expression(meant, clause)
    return meant


def _over_table(reader: Reader, draft: Draft, query: _Query, expectation: Expectation) -> Expectation:
    """Return an expectation of events as it is over the table's columns; one of results is so already."""
    if expectation.of_results:
        return expectation
    clause = f"EXPECT {expectation.name}"
    condition = _over_event(reader, draft, query, expectation.condition, clause, _OF_EVENTS)
    return replace(expectation, condition=condition)


def _time_of_event(reader: Reader, draft: Draft, f: Fragment) -> str:
    """Return what event_time() is over the table's columns."""
    options = draft.options.values
    if options.late.by_arrival:
        raise reader.unsupported(
            "event_time() in a condition over events in processing time", word=_words_of(reader, f)[0]
        )
    column = "_rowts" if options.late.time_column is None else options.late.time_column.sql
    return f"CAST({column} AS TIMESTAMP)"


def _refuse_unbuilt(reader: Reader, call: Word, where: str, more: frozenset[str] = frozenset()) -> None:
    name = call.text.lower()
    if name in REFUSED or name in more:
        raise reader.unsupported(f"the function {name}() in {where}", word=call)


_WINDOWS: dict[str, Callable[[Reader, str, Word], Trigger]] = {
    "TUMBLINGWINDOW": _tumbling,
    "HOPPINGWINDOW": _hopping,
    "SLIDINGWINDOW": _sliding,
    "SESSIONWINDOW": _session,
    "COUNTWINDOW": _count,
    "STATEWINDOW": _state,
}
"""eKuiper's windows and their readers."""

_FORMS = {
    "TUMBLINGWINDOW": "TUMBLINGWINDOW(unit, length)",
    "HOPPINGWINDOW": "HOPPINGWINDOW(unit, length, hop)",
    "SLIDINGWINDOW": "SLIDINGWINDOW(unit, length[, delay])",
    "SESSIONWINDOW": "SESSIONWINDOW(unit, maximum duration, timeout)",
    "COUNTWINDOW": "COUNTWINDOW(count[, every])",
    "STATEWINDOW": "STATEWINDOW(begin[, end])",
}


# --- the calculation -----------------------------------------------------------------------------


def _calculation(reader: Reader, draft: Draft, query: _Query) -> Fragment:
    """Return the query over the rows of a window, with the names of its columns in the draft."""
    place = reader.source.fragment(query.start.start, query.start.end)
    head = reader.source.text[query.start.start : _offset(reader, query.start)]
    written = replace(
        place, sql=f"{head}{_without_calls(reader, draft, query, query.listed).sql} FROM %%trows"
    )
    names = _column_names(reader, query, query_as_written(written).selects)
    listed = _listed(reader, draft, query, place, head)
    items = _items(place, f"{head}{listed}")
    keys = [_key(reader, draft, query, key, items) for key in query.keys]
    of_rows = not keys and not any(map(_aggregates, items))
    if query.row_by_row and not of_rows:
        raise _window_missing(reader)
    listed = _with_event_time(listed, of_rows=of_rows)
    items = _items(place, f"{head}{listed}")
    _refuse_row_number(reader, query, of_rows=of_rows)
    shown, names = _visible(reader, query, items, names)
    picked = [item.sql("spark") for item in shown]
    if not of_rows:
        picked = [_of_first_row(item, keys) for item in shown]
    if any(map(_is_star, shown)):
        listed = ", ".join(map(_called, shown, picked, names))
    else:
        draft.columns = names
        # What need not be written anew keeps its place, for errors to point at.
        if query.invisible or picked != [item.sql("spark") for item in items]:
            listed = ", ".join(picked)
    text = f"{head}{listed} FROM %%trows"
    text += _where(reader, draft, query, items)
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    text += _thinned(reader, draft, query, keys, items)
    text += _rest(reader, draft, query, items, keys, of_rows=of_rows)
    return replace(place, sql=text)


def _visible(
    reader: Reader, query: _Query, items: list[exp.Expr], names: tuple[str, ...]
) -> tuple[list[exp.Expr], tuple[str, ...]]:
    """Return the columns that are output, with their names; invisible ones stand where others name them.

    That is so in ``items`` too, for the other clauses.
    """
    meanings: dict[str, exp.Expr] = {}
    for number, item in enumerate(items):
        items[number] = _inlined(item, meanings)
        meanings |= _hidden(query, [items[number]])
    shown = [number for number, name in enumerate(names) if name.lower() not in meanings]
    if not shown:
        raise reader.error("SYNTAX", "every column of the query is INVISIBLE", word=query.start)
    return [items[number] for number in shown], tuple(names[number] for number in shown)


def _hidden(query: _Query, items: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """Return what the query's invisible names stand for."""
    return {name: meant for name, meant in _meanings(items).items() if name in query.invisible}


def _inlined(item: exp.Expr, meanings: dict[str, exp.Expr]) -> exp.Expr:
    """Return an expression in which some names are what they stand for."""

    def meant(node: exp.Expr) -> exp.Expr:
        stands = isinstance(node, exp.Column) and not node.table and node.name.lower() in meanings
        return exp.paren(meanings[node.name.lower()].copy()) if stands else node

    return item.transform(meant) if meanings else item


def _items(place: Fragment, select: str) -> list[exp.Expr]:
    """Return the columns of a SELECT without its FROM."""
    return list(parse_query(replace(place, sql=f"{select} FROM %%trows")).selects)


def _listed(reader: Reader, draft: Draft, query: _Query, place: Fragment, head: str) -> str:
    """Return the list of results with eKuiper's functions as Spark's, as it was written if there are none."""
    listed = _names_translated(reader, draft, query, query.listed)
    written = replace(place, sql=f"{head}{listed} FROM %%trows")
    meant = translated(written, draft.options.values.zone, is_list=True)
    if meant is written:
        return listed
    return ", ".join(item.sql("spark") for item in parse_query(meant).selects)


def _key(reader: Reader, draft: Draft, query: _Query, key: Fragment, items: Sequence[exp.Expr]) -> str:
    """Return what a key of GROUP BY is over the rows: an alias stands for its column."""
    written = _translated(reader, draft, query, key)
    node = parse_expression(replace(key, sql=written))
    meanings = _meanings(items)
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in meanings:
        return str(meanings[node.name.lower()].sql("spark"))
    return written


def _meanings(items: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """Return what the query's own names stand for."""
    return {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}


def _where(reader: Reader, draft: Draft, query: _Query, items: Sequence[exp.Expr]) -> str:
    """Return the WHERE over the rows of a window; empty for none. Names that it gives to columns count."""
    where = _with_event_time(_translated(reader, draft, query, query.where), of_rows=True)
    if query.changed and len(query.changed) == len(_listed_items(reader, query)):
        # Nothing else is output: an event in which nothing has changed gives no row.
        where = " AND ".join([*([f"({where})"] if where else []), f"({' OR '.join(query.changed.values())})"])
    if not where:
        return ""
    meanings = {
        name: meant
        for name, meant in _meanings(items).items()
        if not _aggregates(meant) and name not in {c.name.lower() for c in meant.find_all(exp.Column)}
    }
    condition = parse_expression(_made(where))
    meant = _with_meanings(condition.copy(), meanings)
    return f" WHERE {where if meant == condition else meant.sql('spark')}"


def _with_event_time(text: str, *, of_rows: bool) -> str:
    """Return a text in which event_time() is the row's own time, or of a group the end of the window."""
    return text.replace(_EVENT_TIME, f"timestamp_micros({ORDER}['_ls_ts'])" if of_rows else "_twend")


def _refuse_row_number(reader: Reader, query: _Query, *, of_rows: bool) -> None:
    if of_rows:
        return
    for word, following in pairwise(_words_of(reader, query.listed)):
        if word.is_word("ROW_NUMBER") and following.is_symbol("("):
            raise reader.unsupported("row_number() of groups", word=word, hint="it numbers a window's rows")


_BEFORE_REST = "SELECT 1 FROM %%trows "


def _rest(
    reader: Reader, draft: Draft, query: _Query, items: Sequence[exp.Expr], keys: list[str], *, of_rows: bool
) -> str:
    """Return ORDER BY and LIMIT, in which rows that are alike come in the order of the window."""
    if query.rest is None:
        return ""
    rest = _with_event_time(_names_translated(reader, draft, query, query.rest), of_rows=of_rows)
    written = replace(query.rest, sql=f"{_BEFORE_REST}{rest}")
    tree = parse_query(translated(written, draft.options.values.zone, is_list=True))
    if not of_rows and not keys:
        return f" {rest}"
    came = ORDER if of_rows else f"min({ORDER})"
    order, limit = tree.args.get("order"), tree.args.get("limit")
    listed = []
    for item in order.expressions if order else ():
        meant = _inlined(item, _hidden(query, items))
        # An invisible name stands for a value of the group's first row, as plain columns do.
        plain = of_rows or meant == item
        listed.append(meant.sql("spark") if plain else _of_first_row(meant, keys))
    ends = f" {limit.sql('spark').strip()}" if limit else ""
    return f" ORDER BY {', '.join([*listed, came])}{ends}"


def _thinned(reader: Reader, draft: Draft, query: _Query, keys: list[str], items: list[exp.Expr]) -> str:
    """Return the clause that HAVING becomes: it judges groups, or without any the window as a whole."""
    having = _with_event_time(_translated(reader, draft, query, query.having), of_rows=False)
    aggregated = any(map(_aggregates, items))
    if having:
        condition = parse_expression(_made(having))
        plain = _inlined(condition.copy(), _hidden(query, items))
        judged = _of_first_row(_with_meanings(plain, _meanings(items)), keys)
        having = having if judged == condition.sql("spark") else judged
    if having and not keys and not aggregated:
        return f" QUALIFY {_over_window(having)}"
    # A window of which WHERE leaves no row gives nothing.
    conditions = [*([having] if having else []), *(["count(1) > 0"] if aggregated and not keys else [])]
    return f" HAVING {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def _with_meanings(condition: exp.Expr, meanings: dict[str, exp.Expr]) -> exp.Expr:
    """Return a condition with what the query's own names stand for, outside of aggregates."""
    if is_aggregate(condition) or isinstance(condition, exp.Filter):
        return condition
    if isinstance(condition, exp.Column) and condition.name.lower() in meanings:
        return exp.paren(meanings[condition.name.lower()])
    for child in list(condition.iter_expressions()):
        child.replace(_with_meanings(child, meanings))
    return condition


def _over_window(condition: str) -> str:
    """Return a condition whose aggregates are those of all rows of the window."""

    def over(node: exp.Expr) -> exp.Expr:
        call = node.this if isinstance(node, exp.Filter) else node
        is_first = isinstance(call, exp.Anonymous) and call.name.lower() == "first_row"
        return exp.Window(this=node) if is_first or is_aggregate(call) else node

    judged = parse_expression(_made(condition)).transform(over)
    if judged.find(exp.Window) is None:
        # Spark takes no QUALIFY without a window function: here is one that holds for every row.
        return f"({judged.sql('spark')}) AND count(1) OVER () > 0"
    return str(judged.sql("spark"))


def _offset(reader: Reader, start: Word) -> int:
    """Return where the select list begins."""
    return reader.words[reader.words.index(start) + 1].start


def _translated(reader: Reader, draft: Draft, query: _Query, fragment: Fragment | None) -> str:
    """Return an expression as the calculation has it; empty for none."""
    if fragment is None:
        return ""
    written = replace(fragment, sql=_names_translated(reader, draft, query, fragment))
    return translated(written, draft.options.values.zone).sql


def _names_translated(reader: Reader, draft: Draft, query: _Query, fragment: Fragment) -> str:
    """Return a fragment in which columns are those of the window's rows, each at its place.

    Blanks stand in the place of the table's own name before a column, a placeholder in that of a function
    of the window. Raises NotSupportedError for functions that are not built.
    """

    def meaning(words: list[Word]) -> tuple[str | None, int]:
        called = _call_meaning(reader, draft, query, words)
        return _meaning(reader, draft, query, words) if called[0] is None else called

    return _in_place(reader, query, fragment, meaning)


def _without_calls(reader: Reader, draft: Draft, query: _Query, fragment: Fragment) -> Fragment:
    """Return a fragment in which columns stand for functions over events, all else as it is written."""
    meaning = partial(_call_meaning, reader, draft, query)
    return replace(fragment, sql=_in_place(reader, query, fragment, meaning))


def _in_place(
    reader: Reader, query: _Query, fragment: Fragment, meaning: Callable[[list[Word]], tuple[str | None, int]]
) -> str:
    """Return a fragment with what stands for some of its words in their place; INVISIBLE goes."""
    words = _words_of(reader, fragment)
    parts, at = [], words[0].start
    for number, word in enumerate(words):
        if word.start < at:
            continue
        meant, end = meaning(words[number : number + 3])
        if word.start in query.invisible.values():
            meant = ""
        if meant is not None:
            parts += [reader.source.text[at : word.start], meant.ljust(end - word.start)]
            at = end
    return "".join([*parts, reader.source.text[at : words[-1].end]])


def _meaning(reader: Reader, draft: Draft, query: _Query, words: list[Word]) -> tuple[str | None, int]:
    """Return what stands for the first of some words, None for itself, and where that ends."""
    word, following = words[0], words[1] if len(words) > 1 else None
    if word.kind not in (Kind.WORD, Kind.NAME) or following is None:
        return None, word.end
    tables = {query.alias.lower(), draft.source.name.lower() if draft.source else ""}
    if following.is_symbol(".") and word.text.lower() in tables:
        return "", following.end
    if word.kind is Kind.NAME or not following.is_symbol("("):
        return None, word.end
    _refuse_unbuilt(reader, word, "a rule without a window" if query.row_by_row else "a window")
    name = word.text.upper()
    if len(words) > 2 and words[2].is_symbol(")"):
        if name in _PSEUDO:
            return _PSEUDO[name], words[2].end
        if name == "RULE_ID":
            return exp.Literal.string(query.stream.name).sql("spark"), words[2].end
    return None, word.end


def _call_meaning(reader: Reader, draft: Draft, query: _Query, words: list[Word]) -> tuple[str | None, int]:
    """Return what stands for a function over events that the first of some words calls, and where it ends."""
    word = words[0]
    name = word.text.lower()
    if word.kind is not Kind.WORD or name not in FORMS or len(words) < 2 or not words[1].is_symbol("("):
        return None, word.end
    if name == CHANGED_COLS:
        return _changed_columns(reader, draft, query, word)
    return query.calls.meaning(reader, word, partial(_over_event, reader, draft, query))


def _changed_columns(reader: Reader, draft: Draft, query: _Query, word: Word) -> tuple[str, int]:
    """Return the columns that a changed_cols() of the query's list gives, and where it ends.

    A value has changed since the last event that was output: only those that WHERE admits count.
    """
    call = read_call(reader, word)
    items = {
        (words[0].start, words[-1].end)
        for words in map(partial(_words_of, reader), _listed_items(reader, query))
    }
    if (word.start, call.end) not in items or call.partition_by or call.when:
        raise reader.error(
            "SYNTAX",
            f"{CHANGED_COLS}() gives several columns: it stands by itself in the list of the query",
            word=word,
            hint="changed_col() and had_changed() stand anywhere",
        )
    if not query.row_by_row:
        raise reader.unsupported(
            f"{CHANGED_COLS}() in a stream with a window", word=word, hint="changed_col()"
        )
    over_event = partial(_over_event, reader, draft, query)
    admitted = query.calls.over_events(query.where, "WHERE", over_event) if query.where else None
    prefix, null, *values = call.arguments
    text = reader.source.text[word.start : call.end]
    ignores_null, listed, looked_at = flag(reader, call, null), [], []
    for number, value in enumerate(values):
        if is_star(value):
            raise reader.unsupported(f"{CHANGED_COLS}(*)", word=word, hint="name the columns")
        meant = query.calls.over_events(value, f"{CHANGED_COLS}()", over_event)
        function = EventFunction("changed_col", "", (meant,), (), admitted, ignores_null, written=text)
        name = f"{_prefix(reader, call, prefix)}{_name(parse_expression(value)) or f'kuiper_field_{number}'}"
        named = exp.to_identifier(name, quoted=True).sql("spark")
        listed.append(f"{query.calls.column_of(function)} AS {named}")
        looked_at.append(meant)
    any_changed = EventFunction("had_changed", "", tuple(looked_at), (), admitted, ignores_null, written=text)
    query.changed[word.start] = query.calls.column_of(any_changed)
    return ", ".join(listed), call.end


def _prefix(reader: Reader, call: Call, fragment: Fragment) -> str:
    node = parse_expression(fragment)
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise reader.error(
            "WRONG_ARGUMENTS", f"{CHANGED_COLS}(): the prefix is a text in quotes", word=call.word, hint="''"
        )
    return node.name


def _words_of(reader: Reader, fragment: Fragment) -> list[Word]:
    """Return the words that a fragment was cut from."""
    where = (fragment.line, fragment.column)
    first = next(n for n, w in enumerate(reader.words) if reader.source.position(w.start) == where)
    end = reader.words[first].start + len(fragment.sql)
    return [word for word in reader.words[first:] if word.end <= end]


def _column_names(reader: Reader, query: _Query, items: list[exp.Expr]) -> tuple[str, ...]:
    """Return the output's columns as eKuiper names them: alias, column, or function; a star as such."""
    taken: set[str] = set()
    names = []
    for number, item in enumerate(items):
        name = query.calls.named.get(item.name) or _name(item) or f"kuiper_field_{number}"
        refuse_duplicate(reader, name, taken, query.start)
        names.append(name)
    return tuple(names)


def _made(sql: str) -> Fragment:
    """Return a fragment of SQL that was made here, in which functions are Spark's."""
    return Fragment(sql, spark=True)


def _is_star(item: exp.Expr) -> bool:
    return item.is_star and not isinstance(item, exp.Count)


def _called(item: exp.Expr, sql: str, name: str) -> str:
    """Return a column beside a star with its name."""
    has_name = _is_star(item) or isinstance(item, exp.Alias)
    return sql if has_name else f"{sql} AS {exp.to_identifier(name, quoted=True).sql('spark')}"


def _name(item: exp.Expr) -> str:
    if _is_star(item):
        return "*"
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Alias):
        return item.alias
    if isinstance(item, exp.Func):
        called = item.name if isinstance(item, exp.Anonymous) else item.sql_name()
        return called.lower()
    return ""


def _aggregates(node: exp.Expr) -> bool:
    return any(map(is_aggregate, node.walk()))


def _of_first_row(item: exp.Expr, keys: list[str]) -> str:
    """Return an item in which a plain column has the value of the group's first row."""
    known = {parse_expression(_made(key)) for key in keys}

    def first(node: exp.Expr) -> exp.Expr:
        if node in known or is_aggregate(node) or isinstance(node, exp.Literal | exp.Star):
            return node
        if isinstance(node, exp.Column):
            return node if node.name in _PLACEHOLDERS else exp.func("first_row", node.copy())
        if isinstance(node, exp.Alias | exp.Filter | exp.Identifier | exp.DataType):
            for name, child in list(node.args.items()):
                if name == "this" and isinstance(child, exp.Expr):
                    node.set("this", first(child))
            return node
        for name, child in list(node.args.items()):
            if isinstance(child, exp.Expr):
                node.set(name, first(child))
            elif isinstance(child, list):
                node.set(name, [first(c) if isinstance(c, exp.Expr) else c for c in child])
        return node

    return str(first(item.copy()).sql("spark"))
