"""Reader of the classic CREATE STREAM: one query is trigger and calculation (TDengine before 3.3.7).

It compiles to the same definition: the window clause becomes the trigger, WHERE the PRE_FILTER, and the
select list the calculation over the rows of the window, in which ``_wstart`` stands for ``_twstart``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.expressions.checks import refuse_functions
from lakestream.language.expressions.intervals import check_no_gaps
from lakestream.language.expressions.parsing import given_name, parse_query
from lakestream.language.model import (
    GROUP_ID,
    MICROS,
    CalendarTrigger,
    CountTrigger,
    Duration,
    Fill,
    Fragment,
    GroupKey,
    IntervalTrigger,
    Now,
    SessionTrigger,
    StreamOptions,
    TagDefinition,
)
from lakestream.language.names import free_name, name_of_text
from lakestream.language.policies import (
    AtOnce,
    ByClock,
    Corrected,
    Delayed,
    DelayedFromFirstRow,
    IgnoreClosed,
    OnClose,
    Refire,
    RefireClosed,
    Rewritten,
)
from lakestream.language.reading.identifiers import refuse_duplicate, take_column_name, take_table_name
from lakestream.language.reading.literals import take_duration, take_string, take_value
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.clauses import read_group_keys, read_into, read_layout, read_output_columns
from lakestream.language.tdengine.draft import Draft
from lakestream.language.tdengine.expectations import read_expectation
from lakestream.language.tdengine.notification import read_classic_notify
from lakestream.language.tdengine.tables import type_name
from lakestream.language.tdengine.triggers import ReadTrigger, read_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.language.policies import Emission, LatePolicy
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word
    from lakestream.language.tdengine.options import Options

CLASSIC_WORDS = ("TRIGGER", "WATERMARK", "IGNORE", "DELETE_MARK", "FILL_HISTORY", "EXPECT", "INTO", "AS")
"""The words of which one follows the stream's name in the classic syntax."""

_WINDOWS = ("INTERVAL", "SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW")
_MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY", "FORCE_WINDOW_CLOSE", "CONTINUOUS_WINDOW_CLOSE")
_FILLING_MODES = ("FORCE_WINDOW_CLOSE", "CONTINUOUS_WINDOW_CLOSE")
_FILLS = ("NONE", "NULL", "VALUE", "PREV")
_SHORTEST_DELAY = 5 * MICROS["s"]
_SHORTEST_RECALCULATION = MICROS["s"]
_OPERATORS = frozenset(
    {"AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "MATCH", "NMATCH", "REGEXP", "RLIKE"}
)
_AGGREGATES = frozenset({"apercentile", "first_row", "hyperloglog", "last_row", "spread"})
"""TDengine's aggregates that sqlglot has no class of its own for."""

_NOT_ALLOWED = frozenset(
    {
        "leastsquares",
        "percentile",
        "top",
        "bottom",
        "elapsed",
        "interp",
        "derivative",
        "irate",
        "twa",
        "histogram",
        "diff",
        "statecount",
        "stateduration",
        "csum",
        "mavg",
        "sample",
        "tail",
        "unique",
        "mode",
    }
)
"""Aggregates and selections that the classic documentation refuses in a stream."""


def read_classic(reader: Reader) -> Draft:
    """Take what follows the stream's name. Raises StatementError and NotSupportedError."""
    draft = Draft(ReadTrigger("", reader.peek()))
    first = reader.at
    switches = _read_options(reader, draft)
    if reader.at > first:
        said = reader.fragment(first, reader.at)
        draft.options.values = replace(draft.options.values, said=said)
    if reader.sees("INTO"):
        _read_output(reader, draft)
    draft.words["AS"] = reader.peek()
    reader.expect("AS")
    _read_query(reader, draft)
    _settle(reader, draft, switches)
    return draft


# --- options -------------------------------------------------------------------------------------


@dataclass
class _Switches:
    """The trigger mode, and IGNORE EXPIRED, IGNORE UPDATE and FILL_HISTORY as they are by default.

    ``delay`` is that of MAX_DELAY, ``every`` RECALCULATE, ``kept`` DELETE_MARK.
    """

    mode: str = "WINDOW_CLOSE"
    delay: Duration | None = None
    every: Duration | None = None
    kept: Duration | None = None
    expired: bool = True
    update: bool = True
    history: bool = False


def _read_options(reader: Reader, draft: Draft) -> _Switches:
    switches = _Switches()
    readers: dict[tuple[str, ...], Callable[[], None]] = {
        ("TRIGGER",): lambda: _mode(reader, switches),
        ("WATERMARK",): lambda: _watermark(reader, draft.options),
        ("IGNORE", "EXPIRED"): lambda: setattr(switches, "expired", _switch(reader, "IGNORE EXPIRED")),
        ("IGNORE", "UPDATE"): lambda: setattr(switches, "update", _switch(reader, "IGNORE UPDATE")),
        ("DELETE_MARK",): lambda: _delete_mark(reader, switches),
        ("FILL_HISTORY",): lambda: _history(reader, switches),
    }
    while not (reader.sees("INTO") or reader.sees("AS")):
        if reader.sees("EXPECT"):
            read_expectation(reader, draft)
            continue
        words = next((words for words in readers if reader.sees(*words)), None)
        if words is None:
            raise reader.unexpected("an option or INTO", [*(words[0] for words in readers), "INTO"])
        name = " ".join(words)
        if name in draft.options.words:
            raise reader.error("OPTION_TWICE", f"{name} is given twice")
        draft.options.words[name] = reader.peek()
        reader.expect(*words)
        readers[words]()
    return switches


def _switch(reader: Reader, name: str) -> bool:
    word = reader.peek()
    if word.kind is not Kind.NUMBER or word.text not in ("0", "1"):
        raise reader.error("BAD_NUMBER", f"{name} takes 0 or 1")
    return reader.take().text == "1"


def _history(reader: Reader, switches: _Switches) -> None:
    switches.history = _switch(reader, "FILL_HISTORY")
    # A stream is always made at once here, and its history is taken by ticks: that is what ASYNC asks for.
    reader.accept("ASYNC")


def _mode(reader: Reader, switches: _Switches) -> None:
    word = reader.peek()
    name = word.text.upper()
    if word.kind is not Kind.WORD or name not in _MODES:
        raise reader.unexpected("a trigger mode", _MODES)
    reader.take()
    switches.mode = name
    if name == "MAX_DELAY":
        delay, given = take_duration(reader, "MAX_DELAY")
        if delay.months or delay.micros < _SHORTEST_DELAY:
            raise reader.error(
                "BAD_DURATION", f"MAX_DELAY {delay} is too short", word=given, hint="at least 5s"
            )
        switches.delay = delay
    if name == "CONTINUOUS_WINDOW_CLOSE":
        switches.every = _recalculate(reader)


def _recalculate(reader: Reader) -> Duration:
    if not reader.accept("RECALCULATE"):
        return Duration(60, "m")
    every, word = take_duration(reader, "RECALCULATE")
    _refuse_calendar(reader, "RECALCULATE", every, word)
    if every.micros < _SHORTEST_RECALCULATION:
        raise reader.error("BAD_DURATION", f"RECALCULATE {every} is too short", word=word, hint="at least 1s")
    return every


def _watermark(reader: Reader, options: Options) -> None:
    duration, word = take_duration(reader, "WATERMARK")
    _refuse_calendar(reader, "WATERMARK", duration, word)
    options.values = replace(options.values, watermark=duration)


def _delete_mark(reader: Reader, switches: _Switches) -> None:
    """State older than this is gone, so rows older than this find no window: they have expired."""
    duration, word = take_duration(reader, "DELETE_MARK")
    _refuse_calendar(reader, "DELETE_MARK", duration, word)
    switches.kept = duration


def _refuse_calendar(reader: Reader, name: str, duration: Duration, word: Word) -> None:
    if duration.months:
        raise reader.error(
            "BAD_DURATION", f"{name} {duration} counts months", word=word, hint="at most weeks (w)"
        )


# --- output --------------------------------------------------------------------------------------


def _read_output(reader: Reader, draft: Draft) -> None:
    draft.words["INTO"] = reader.peek()
    read_into(reader, draft)
    if reader.sees_symbol("("):
        draft.words["columns"] = reader.peek()
        read_output_columns(reader, draft)
    while not reader.sees("AS"):
        if read_layout(reader, draft):
            continue
        if reader.sees("EXPECT"):
            read_expectation(reader, draft)
            continue
        word = reader.peek()
        name = word.text.upper()
        if name not in ("TAGS", "SUBTABLE"):
            raise reader.unexpected("TAGS, SUBTABLE or AS", ("TAGS", "SUBTABLE", "AS"))
        if name in draft.words:
            raise reader.error("CLAUSE_TWICE", f"{name} is given twice")
        draft.words[name] = reader.take()
        if name == "TAGS":
            _tags(reader, draft)
        else:
            draft.words["OUTPUT_SUBTABLE"] = word
            draft.subtable = reader.in_brackets("the name of the output subtable")


def _tags(reader: Reader, draft: Draft) -> None:
    """Take tags that are named like what the query is partitioned by; a table that is there has the types."""
    taken: set[str] = set()

    def one() -> TagDefinition:
        word = reader.peek()
        name = take_column_name(reader, "a tag's name")
        refuse_duplicate(reader, name, taken, word)
        named_only = reader.sees_symbol(",") or reader.sees_symbol(")") or reader.sees("COMMENT")
        kind = None if named_only else type_name(reader)
        comment = take_string(reader, "a comment") if reader.accept("COMMENT") else None
        return TagDefinition(name, kind, comment, reader.source.fragment(word.start, word.end))

    draft.tags = tuple(reader.list_of(one))


# --- the query -----------------------------------------------------------------------------------


def _read_query(reader: Reader, draft: Draft) -> None:
    first = reader.peek()
    reader.expect("SELECT")
    listed = reader.until(lambda: reader.sees("FROM"), "the columns of the query")
    draft.words["FROM"] = reader.peek()
    reader.expect("FROM")
    if reader.sees_symbol("("):
        raise reader.error("TRIGGER_TABLE", "the query reads a table by name", hint="not another query")
    draft.source = take_table_name(reader, "the trigger table")
    if reader.accept("WHERE"):
        condition = reader.until(lambda: _ends(reader, "PARTITION"), "a condition")
        draft.options.values = replace(draft.options.values, pre_filter=condition)
    if reader.accept("PARTITION", "BY"):
        read_group_keys(reader, draft, _group_key)
    draft.trigger = _window(reader)
    if reader.sees("FILL"):
        draft.words["FILL"] = reader.peek()
        draft.options.values = replace(draft.options.values, fill=_fill(reader))
    if reader.sees("NOTIFY"):
        draft.words["NOTIFY"] = reader.peek()
        read_classic_notify(reader, draft)
    if not reader.done:
        raise reader.unexpected("the end of the query", ("WHERE", "PARTITION", *_WINDOWS))
    draft.calculation = _calculation(reader, draft, first, listed)


def _ends(reader: Reader, *more: str) -> bool:
    return _at_calendar(reader) or any(reader.sees(word) for word in (*_WINDOWS, "NOTIFY", *more))


def _at_calendar(reader: Reader) -> bool:
    """Return whether CALENDAR(…) follows, and no column of that name."""
    return reader.sees("CALENDAR") and reader.peek(1).is_symbol("(")


def _group_key(reader: Reader) -> GroupKey:
    """Take an expression with an alias, with or without AS; a name is made of it where there is none."""
    begin = reader.at
    expression = reader.until(
        lambda: reader.sees_symbol(",") or _ends(reader, "AS"), "a column of PARTITION BY"
    )
    words = reader.words[begin : reader.at]
    alias: str | None = None
    if reader.accept("AS"):
        alias = take_column_name(reader, "an alias")
    elif _has_alias(words):
        alias, words = words[-1].text, words[:-1]
        expression = reader.fragment(begin, begin + len(words))
    is_tbname = len(words) == 1 and words[0].is_word("TBNAME")
    return GroupKey(expression, alias or name_of_text(expression.sql), is_tbname=is_tbname)


def _has_alias(words: list[Word]) -> bool:
    if len(words) < 2 or words[-1].kind not in (Kind.WORD, Kind.NAME):
        return False
    before = words[-2]
    plain = before.kind in (Kind.WORD, Kind.NAME) and before.text.upper() not in _OPERATORS
    return plain or before.is_symbol(")")


def _window(reader: Reader) -> ReadTrigger:
    """Take the window clause; without one every row is computed by itself, at once."""
    if not _ends(reader) or reader.sees("NOTIFY"):
        return ReadTrigger("COUNT_WINDOW", reader.peek(), CountTrigger(1, 1), count_step=1)
    word = reader.peek()
    trigger = read_trigger(reader, classic=True)
    value = trigger.value
    if isinstance(value, CalendarTrigger):
        hint = "the syntax with the trigger before FROM has it"
        raise reader.unsupported("CALENDAR in the classic syntax", word=word, hint=hint)
    if isinstance(value, IntervalTrigger):
        hint = "the syntax with the trigger before FROM has windows with gaps between them"
        check_no_gaps(value.length, value.step, reader.place(word), hint)
    if isinstance(value, CountTrigger) and value.count < 2:
        raise reader.error("BAD_COUNT", "COUNT_WINDOW counts at least 2 rows", word=word)
    return trigger


def _fill(reader: Reader) -> Fill | None:
    """Take ``FILL(mode[, value, …])``; None for NONE: windows without rows give no row."""
    reader.expect("FILL")
    reader.expect_symbol("(")
    word = reader.peek()
    mode = word.text.upper()
    if word.kind is not Kind.WORD:
        raise reader.unexpected("how to fill", _FILLS)
    if mode not in _FILLS:
        raise reader.unsupported(f"FILL({mode}) in a stream", hint=f"FILL({' | '.join(_FILLS)})")
    reader.take()
    values: list[Fragment] = []
    while mode == "VALUE" and reader.accept_symbol(","):
        values.append(_constant(reader))
    if mode == "VALUE" and not values:
        raise reader.unexpected("a comma, and a constant for each aggregate: FILL(VALUE, 0)")
    reader.expect_symbol(")")
    return None if mode == "NONE" else Fill(mode, tuple(values))


def _constant(reader: Reader) -> Fragment:
    word, begin = reader.peek(), reader.at
    if isinstance(take_value(reader), Now):
        raise reader.error("FILL_VALUE", "FILL(VALUE, …) takes constants, and NOW is none", word=word)
    return reader.fragment(begin, reader.at)


def _calculation(reader: Reader, draft: Draft, first: Word, listed: Fragment) -> Fragment:
    """Return the select list over the rows of a window, with what its names stand for."""
    begin = reader.words.index(first)
    select = reader.fragment(begin, begin + 1)
    until_list = reader.source.text[first.start : reader.words[begin + 1].start]
    calculation = replace(
        select, sql=f"{until_list}{listed.sql} FROM %%trows", stands_for=tuple(_stands_for(draft))
    )
    items = parse_query(calculation).selects
    if not _is_by_row(draft) and _is_no_time(items[0]) and len(draft.columns) != len(items):
        # The key of the output is a time: without one it is the window's start (TDengine).
        name = free_name("_wstart", [given_name(item) for item in items])
        key = "_wstart" if name == "_wstart" else f"_wstart AS {name}"
        calculation = replace(calculation, sql=f"{until_list}{key}, {listed.sql} FROM %%trows")
    refuse_functions(calculation, _NOT_ALLOWED, "a stream in the classic syntax")
    return calculation


def _is_no_time(item: exp.Expr) -> bool:
    """Return whether a result is known to be no time: made of aggregates, a literal, a group's value."""
    value = item.unalias()
    # What the query is partitioned by is a placeholder here.
    if isinstance(value, exp.Literal) or (isinstance(value, exp.Column) and value.name.startswith("%%")):
        return True
    return any(_aggregates(node) for node in value.walk())


def _aggregates(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _AGGREGATES
    )


def _stands_for(draft: Draft) -> Iterator[tuple[str, str]]:
    trigger = draft.trigger.value
    if not _is_by_row(draft):
        gap = f" + {trigger.gap}" if isinstance(trigger, SessionTrigger) else ""
        yield "_wstart", "_twstart"
        yield "_wend", f"_twend{gap}"
        millis = f" + {trigger.gap.micros // 1_000}" if isinstance(trigger, SessionTrigger) else ""
        yield "_wduration", f"_twduration{millis}"
    for number, key in enumerate(draft.partition_by, 1):
        yield key.name, f"%%{number}"
        if re.fullmatch(r"\w+", key.expression.sql):
            yield key.expression.sql, f"%%{number}"


def _is_by_row(draft: Draft) -> bool:
    return isinstance(draft.trigger.value, CountTrigger) and draft.trigger.value.count == 1


# --- together ------------------------------------------------------------------------------------


def _settle(reader: Reader, draft: Draft, switches: _Switches) -> None:
    """Turn the switches into options, and hold them against the mode."""
    if draft.output is None and draft.notification is None:
        raise reader.error(
            "INTO_MISSING",
            "INTO with the output table is missing",
            word=draft.words["AS"],
            hint="INTO table AS SELECT …, or NOTIFY(…) behind the window to send the results only",
        )
    if draft.tags is not None:
        _check_tags(reader, draft)
    elif draft.partition_by:
        place = draft.partition_by[0].expression
        tag = Fragment("_tgrpid", place.line, place.column, place.statement)
        draft.tags = (TagDefinition(GROUP_ID, "BIGINT", None, tag),)
    if switches.mode == "FORCE_WINDOW_CLOSE":
        _check_force(reader, draft, switches)
    if switches.mode == "CONTINUOUS_WINDOW_CLOSE" and not isinstance(draft.trigger.value, IntervalTrigger):
        word = draft.options.words["TRIGGER"]
        raise reader.error(
            "OPTION_WITHOUT_EFFECT", "CONTINUOUS_WINDOW_CLOSE: only INTERVAL goes with it", word=word
        )
    if "FILL" in draft.words:
        _check_fill(reader, draft, switches)
    draft.options.values = _policies(draft.options.values, switches, draft)


def _check_fill(reader: Reader, draft: Draft, switches: _Switches) -> None:
    """Hold FILL against the trigger and its mode (TDengine)."""
    word = draft.words["FILL"]
    if not isinstance(draft.trigger.value, IntervalTrigger):
        raise reader.error("OPTION_WITHOUT_EFFECT", "FILL: only INTERVAL goes with it", word=word)
    if switches.mode not in _FILLING_MODES:
        hint = f"TRIGGER {' or '.join(_FILLING_MODES)}"
        raise reader.unsupported(f"FILL with TRIGGER {switches.mode}", word=word, hint=hint)


def _check_force(reader: Reader, draft: Draft, switches: _Switches) -> None:
    """Hold the options against FORCE_WINDOW_CLOSE: windows are computed once, when the clock closes them."""
    word, trigger = draft.options.words["TRIGGER"], draft.trigger.value
    wrong = {
        "FILL_HISTORY must be 0": switches.history,
        "IGNORE EXPIRED must be 1": not switches.expired,
        "IGNORE UPDATE must be 1": not switches.update,
        "only INTERVAL without SLIDING goes with it": not isinstance(trigger, IntervalTrigger)
        or trigger.step != trigger.length,
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise reader.error("OPTION_WITHOUT_EFFECT", f"FORCE_WINDOW_CLOSE: {what}", word=word)
    if isinstance(trigger, IntervalTrigger) and trigger.length.is_calendar:
        raise reader.unsupported("FORCE_WINDOW_CLOSE of windows of a day or longer", word=word)


def _check_tags(reader: Reader, draft: Draft) -> None:
    known = {key.name.lower() for key in draft.partition_by}
    known |= {key.expression.sql.lower() for key in draft.partition_by}
    for tag in draft.tags or ():
        if tag.name.lower() not in known:
            raise reader.error(
                "TAG_WITHOUT_PARTITION",
                f"TAGS names {tag.name}, which nothing in PARTITION BY is called",
                word=draft.words["TAGS"],
                hint=f"PARTITION BY … AS {tag.name}",
            )


def _policies(values: StreamOptions, switches: _Switches, draft: Draft) -> StreamOptions:
    by_row = _is_by_row(draft)
    return replace(
        values,
        # A row by itself is computed when it comes: there is nothing to wait for.
        watermark=None if by_row else values.watermark,
        emission=_emission_by_row(switches) if by_row else _emission(switches),
        # Nothing closes by row, so nothing has expired.
        late=Refire(switches.kept) if by_row else _late_policy(switches),
        fill_history=switches.history,
        ignore_nodata=isinstance(draft.trigger.value, IntervalTrigger) and values.fill is None,
        converts=True,
        names_apart=True,
        one_table=by_row and not draft.partition_by,
        notify_only=draft.output is None,
        unique_times=not by_row and not isinstance(draft.trigger.value, IntervalTrigger | SessionTrigger),
    )


def _emission(switches: _Switches) -> Emission:
    if switches.mode == "AT_ONCE":
        return AtOnce()
    if switches.mode == "FORCE_WINDOW_CLOSE":
        return ByClock()
    if switches.delay is not None:
        return DelayedFromFirstRow(switches.delay)
    return OnClose() if switches.every is None else Corrected(switches.every)


def _emission_by_row(switches: _Switches) -> Emission:
    return OnClose() if switches.delay is None else Delayed(switches.delay)


def _late_policy(switches: _Switches) -> LatePolicy:
    if switches.every is not None:
        # What CONTINUOUS_WINDOW_CLOSE does about changes it does from time to time (TDengine).
        return IgnoreClosed(Rewritten.IGNORED, switches.kept)
    if switches.expired:
        return IgnoreClosed(Rewritten.COUNTED if switches.update else Rewritten.FOLLOWED, switches.kept)
    return RefireClosed(switches.kept, switches.update)
