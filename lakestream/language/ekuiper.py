"""Reader of eKuiper's streams: ``CREATE STREAM s WITH (…) INTO out AS SELECT … GROUP BY …WINDOW(…)``.

It compiles to the same definition as the others: the window becomes the trigger, FILTER the rows that it
sees, and what is left of the SELECT the calculation over the rows of a window. ``window_start()`` stands
for ``_twstart`` there, ``window_end()`` and ``event_time()`` for ``_twend``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import did_you_mean
from lakestream.language.aggregates import is_aggregate
from lakestream.language.checks import check_expression, check_row_expression
from lakestream.language.clauses import read_into
from lakestream.language.draft import Draft
from lakestream.language.ekuiper_options import SourceOptions, read_source_options
from lakestream.language.expressions import parse_expression, parse_query
from lakestream.language.model import (
    MICROS,
    BoundedSessionTrigger,
    Duration,
    Fragment,
    GroupKey,
    IntervalTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    Trigger,
)
from lakestream.language.triggers import ReadTrigger
from lakestream.language.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.reader import Reader
    from lakestream.language.words import Word

_UNITS = {"DD": "d", "HH": "h", "MI": "m", "SS": "s", "MS": "a"}
_MAX_MICROS = 36_500 * MICROS["d"]
_MAX_COUNT = 2**31 - 1
_MAX_OVERLAP = 10_000
_PSEUDO = {"WINDOW_START": "_twstart", "WINDOW_END": "_twend", "EVENT_TIME": "_twend"}
_FUNCTIONS = {
    "STDDEV": "stddev_pop",
    "STDDEVS": "stddev_samp",
    "VAR": "var_pop",
    "VARS": "var_samp",
}
"""Functions of eKuiper that have another name in the calculation."""

_UNBUILT = frozenset(
    {"collect", "merge_agg", "deduplicate", "last_value", "lag", "latest", "changed_col", "changed_cols"}
    | {"had_changed", "acc_sum", "acc_max", "acc_min", "acc_count", "acc_avg", "last_hit_time"}
    | {"last_hit_count", "last_agg_hit_time", "last_agg_hit_count", "row_number", "unnest"}
    | {"percentile", "percentile_cont", "percentile_disc", "rule_id", "rule_start", "window_trigger"}
)
"""Functions that lakestream knows of and does not have in a window."""


def is_ekuiper(reader: Reader) -> bool:
    """Tell by what follows the stream's name: WITH, columns, or one of eKuiper's windows further on."""
    if reader.sees("WITH") or reader.sees_symbol("("):
        return True
    pairs = zip(reader.words[reader.at :], reader.words[reader.at + 1 :], strict=False)
    calls = {word.text.upper() for word, then in pairs if word.kind is Kind.WORD and then.is_symbol("(")}
    return reader.sees("INTO") and not calls.isdisjoint(_WINDOWS)


def read_ekuiper(reader: Reader) -> Draft:
    """Take what follows the stream's name. Raises StatementError and NotSupportedError."""
    reader.source.spark = True
    draft = Draft(ReadTrigger("", reader.peek()))
    if reader.sees_symbol("("):
        raise reader.unsupported("a stream of messages", hint="CREATE TABLE name (column type, …)")
    source = read_source_options(reader) if reader.sees("WITH") else SourceOptions()
    draft.words["INTO"] = reader.peek()
    read_into(reader, draft)
    reader.expect("AS")
    query = _read_query(reader, draft)
    draft.options.values = source.applied(reader, draft.options.values)
    draft.calculation = _calculation(reader, draft, query)
    draft.tags = ()
    return draft


# --- the query -----------------------------------------------------------------------------------


@dataclass
class _Query:
    """The parts of the SELECT that the calculation is made of."""

    start: Word
    listed: Fragment
    where: Fragment | None = None
    keys: list[Fragment] = field(default_factory=list)
    having: Fragment | None = None
    rest: Fragment | None = None


_AFTER_KEYS = ("FILTER", "OVER", "HAVING", "ORDER", "LIMIT")


def _read_query(reader: Reader, draft: Draft) -> _Query:
    start = reader.peek()
    reader.expect("SELECT")
    if reader.sees("DISTINCT"):
        raise reader.unsupported("SELECT DISTINCT in a stream with a window")
    query = _Query(start, reader.until(lambda: reader.sees("FROM"), "the columns of the query"))
    draft.words["FROM"] = reader.peek()
    reader.expect("FROM")
    if reader.sees_symbol("("):
        raise reader.error("TRIGGER_TABLE", "the query reads a table by name", hint="not another query")
    draft.source = reader.table_name("the table of events")
    if reader.sees_symbol(",") or reader.sees("JOIN") or reader.sees("INNER") or reader.sees("LEFT"):
        raise reader.unsupported("a join within a window")
    if reader.accept("WHERE"):
        query.where = reader.until(
            lambda: reader.sees("GROUP") or reader.sees("PARTITION"), "a condition of WHERE"
        )
        check_expression(query.where, "WHERE")
    if reader.accept("PARTITION", "BY"):
        _partition(reader, draft, lambda: reader.sees_symbol(",") or reader.sees("GROUP"))
    if not reader.accept("GROUP", "BY"):
        if reader.done or any(map(reader.sees, _AFTER_KEYS)):
            raise _window_missing(reader)
        raise reader.unexpected("GROUP BY", ("WHERE", "PARTITION", "GROUP"))
    _group_items(reader, draft, query)
    _behind_groups(reader, query)
    return query


def _behind_groups(reader: Reader, query: _Query) -> None:
    """Take ``[HAVING …] [ORDER BY …] [LIMIT …]``."""
    if reader.accept("HAVING"):
        query.having = reader.until(lambda: reader.sees("ORDER") or reader.sees("LIMIT"), "a condition")
        parse_expression(query.having)
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


def _partition(reader: Reader, draft: Draft, ends: Callable[[], bool]) -> None:
    if draft.partition_by:
        raise reader.error("CLAUSE_TWICE", "PARTITION BY is given twice")
    draft.words["PARTITION BY"] = reader.peek()
    keys: list[GroupKey] = []
    while not keys or reader.accept_symbol(","):
        expression = reader.until(ends, "a column of PARTITION BY")
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
            _behind_window(reader, draft)
        else:
            query.keys.append(reader.until(lambda: _ends_key(reader), "a column of GROUP BY"))
            check_expression(query.keys[-1], "GROUP BY")
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
    if name.endswith("WINDOW") and name not in _WINDOWS:
        raise reader.error(
            "UNKNOWN_TRIGGER", f"there is no window {word.text}", hint=did_you_mean(name, _WINDOWS)
        )
    return name in _WINDOWS


def _behind_window(reader: Reader, draft: Draft) -> None:
    """Take ``[FILTER (WHERE …)] [OVER ([PARTITION BY …] [WHEN …])]``."""
    if reader.accept("FILTER"):
        reader.expect_symbol("(")
        reader.expect("WHERE")
        condition = reader.until(lambda: reader.sees_symbol(")"), "a condition")
        reader.expect_symbol(")")
        _check_condition(reader, condition, "FILTER")
        draft.options.values = replace(draft.options.values, pre_filter=condition)
    if reader.sees("OVER"):
        _over(reader, draft)
    if reader.sees("FILTER") or reader.sees("OVER"):
        raise _misplaced(reader)


def _over(reader: Reader, draft: Draft) -> None:
    word = reader.peek()
    reader.expect("OVER")
    reader.expect_symbol("(")
    if reader.accept("PARTITION", "BY"):
        _partition(reader, draft, lambda: any((*map(reader.sees_symbol, ",)"), reader.sees("WHEN"))))
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
        _check_condition(reader, when, "OVER (WHEN …)")
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
    condition = reader.until(lambda: reader.sees_symbol(",") or reader.sees_symbol(")"), "a condition")
    _check_condition(reader, condition, name)
    return condition


def _check_condition(reader: Reader, condition: Fragment, clause: str) -> None:
    """Check a condition over one event. Raises StatementError; NotSupportedError for what is not built."""
    words = _words_of(reader, condition)
    for word, following in pairwise(words):
        if word.kind is Kind.WORD and following.is_symbol("("):
            _refuse_unbuilt(reader, word, clause)
    check_row_expression(condition, clause)


def _refuse_unbuilt(reader: Reader, call: Word, where: str) -> None:
    name = call.text.lower()
    if name in _UNBUILT:
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
    names = _column_names(reader, query, _items(place, f"{head}{query.listed.sql}"))
    listed = _translated(reader, draft, query.listed)
    items = _items(place, f"{head}{listed}")
    keys = [_translated(reader, draft, key) for key in query.keys]
    picked = [item.sql("spark") for item in items]
    if keys or any(map(_aggregates, items)):
        picked = [_of_first_row(item, keys) for item in items]
    if any(map(_is_star, items)):
        listed = ", ".join(map(_called, items, picked, names))
    else:
        draft.columns = names
        # What need not be written anew keeps its place, for errors to point at.
        if picked != [item.sql("spark") for item in items]:
            listed = ", ".join(picked)
    text = f"{head}{listed} FROM %%trows"
    text += f" WHERE {_translated(reader, draft, query.where)}" if query.where else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    text += _thinned(reader, draft, query, keys, items)
    text += f" {_translated(reader, draft, query.rest)}" if query.rest else ""
    return replace(place, sql=text)


def _items(place: Fragment, select: str) -> list[exp.Expr]:
    """Return the columns of a SELECT without its FROM."""
    return list(parse_query(replace(place, sql=f"{select} FROM %%trows")).selects)


def _thinned(reader: Reader, draft: Draft, query: _Query, keys: list[str], items: list[exp.Expr]) -> str:
    """Return the clause that HAVING becomes: it judges groups, or without any the window as a whole."""
    having = _translated(reader, draft, query.having)
    aggregated = any(map(_aggregates, items))
    if having:
        condition = parse_expression(Fragment(having))
        meanings = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        judged = _of_first_row(_with_meanings(condition.copy(), meanings), keys)
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

    judged = parse_expression(Fragment(condition)).transform(over)
    if judged.find(exp.Window) is None:
        # Spark takes no QUALIFY without a window function: here is one that holds for every row.
        return f"({judged.sql('spark')}) AND count(1) OVER () > 0"
    return str(judged.sql("spark"))


def _offset(reader: Reader, start: Word) -> int:
    """Return where the select list begins."""
    return reader.words[reader.words.index(start) + 1].start


def _translated(reader: Reader, draft: Draft, fragment: Fragment | None) -> str:
    """Return a fragment as the calculation has it, in which columns are those of the window's rows.

    eKuiper's functions stand there under lakestream's names, as long as they were if that fits, and blanks
    in the place of the table's own name before a column. Raises NotSupportedError for functions that are
    not built.
    """
    if fragment is None:
        return ""
    words = _words_of(reader, fragment)
    parts, at = [], words[0].start
    for number, word in enumerate(words):
        if word.start < at:
            continue
        meant, end = _meaning(reader, draft, words[number : number + 3])
        if meant is not None:
            parts += [reader.source.text[at : word.start], meant.ljust(end - word.start)]
            at = end
    return "".join([*parts, reader.source.text[at : words[-1].end]])


def _meaning(reader: Reader, draft: Draft, words: list[Word]) -> tuple[str | None, int]:
    """Return what stands for the first of some words, None for itself, and where that ends."""
    word, following = words[0], words[1] if len(words) > 1 else None
    if word.kind not in (Kind.WORD, Kind.NAME) or following is None:
        return None, word.end
    if following.is_symbol(".") and draft.source and word.text.lower() == draft.source.name.lower():
        return "", following.end
    if word.kind is Kind.NAME or not following.is_symbol("("):
        return None, word.end
    _refuse_unbuilt(reader, word, "a window")
    name = word.text.upper()
    if name in _PSEUDO and len(words) > 2 and words[2].is_symbol(")"):
        return _PSEUDO[name], words[2].end
    return _FUNCTIONS.get(name), word.end


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
        name = _name(item) or f"kuiper_field_{number}"
        reader.refuse_duplicate(name, taken, query.start)
        names.append(name)
    return tuple(names)


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
    known = {parse_expression(Fragment(key)) for key in keys}

    def first(node: exp.Expr) -> exp.Expr:
        if node in known or is_aggregate(node) or isinstance(node, exp.Literal | exp.Star):
            return node
        if isinstance(node, exp.Column):
            return node if node.name.startswith("_tw") else exp.func("first_row", node.copy())
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
