"""Reader of STREAM_OPTIONS: each option at most once, and only where it has an effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.errors import did_you_mean
from lakestream.language.expressions.checks import IDLE_TIMEOUT
from lakestream.language.model import (
    IDLE,
    RESUME,
    WINDOW_CLOSE,
    WINDOW_OPEN,
    Duration,
    StateTrigger,
    StreamOptions,
)
from lakestream.language.policies import ByArrival, Delayed, Exact, Follow, Ignore, OnClose, OnOpen, Refire
from lakestream.language.reading.identifiers import take_table_name
from lakestream.language.reading.literals import refuse_unit, take_duration, take_instant
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.policies import Emission, LatePolicy
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word
    from lakestream.language.tdengine.triggers import ReadTrigger

_EVENT_TYPES = (WINDOW_OPEN, WINDOW_CLOSE, IDLE, RESUME)


@dataclass
class Options:
    """The options as read, with the words they stand at."""

    values: StreamOptions = field(default_factory=StreamOptions)
    durations: dict[str, Duration] = field(default_factory=dict)
    events: frozenset[str] = frozenset({WINDOW_CLOSE})
    words: dict[str, Word] = field(default_factory=dict)
    follow: Follow | None = None


def read_options(reader: Reader, trigger: ReadTrigger) -> Options:
    """Take ``( option | option … )``. Raises StatementError naming the option at fault."""
    options = Options()
    reader.expect_symbol("(")
    first = reader.at
    _option(reader, options)
    while reader.accept_symbol("|"):
        _option(reader, options)
    if reader.sees_symbol(","):
        raise reader.error("SYNTAX", "options are separated by |", hint="STREAM_OPTIONS(A | B)")
    said = reader.fragment(first, reader.at)
    reader.expect_symbol(")")
    _check_together(reader, options)
    _check_trigger(reader, options, trigger)
    options.values = replace(
        options.values,
        watermark=options.durations.get("WATERMARK"),
        emission=_emission(options),
        late=_late_policy(options),
        said=said,
    )
    return options


def _option(reader: Reader, options: Options) -> None:
    word = reader.peek()
    name = word.text.upper() if word.kind is Kind.WORD else ""
    if not name:
        raise reader.unexpected("an option", _OPTIONS)
    if name in _UNBUILT:
        raise reader.unsupported(f"the option {name}", hint=_UNBUILT[name])
    if name not in _OPTIONS:
        hint = did_you_mean(name, _OPTIONS)
        raise reader.error("UNKNOWN_OPTION", f"there is no option {word.text} of a stream", hint=hint)
    if name in options.words:
        raise reader.error("OPTION_TWICE", f"{name} is given twice")
    reader.take()
    options.words[name] = word
    _OPTIONS[name](reader, options, name)


def _duration(
    units: str, least: Duration | None = None, most: Duration | None = None
) -> Callable[[Reader, Options, str], None]:
    """Return the reader of ``NAME(duration)`` for an option that takes these units, within bounds."""
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)

    def read(reader: Reader, options: Options, name: str) -> None:
        reader.expect_symbol("(")
        duration, word = take_duration(reader, name)
        refuse_unit(reader, name, duration, units, word)
        is_short = least is not None and duration.micros < least.micros
        if is_short or (most is not None and duration.micros > most.micros):
            wrong = f"{name}({duration}) is too {'short' if is_short else 'long'}"
            raise reader.error("BAD_DURATION", wrong, word=word, hint=", ".join(bounds))
        reader.expect_symbol(")")
        options.durations[name] = duration

    return read


def _history(reader: Reader, options: Options, name: str) -> None:
    start = None
    if reader.accept_symbol("("):
        start = take_instant(reader, f"the start of {name}")
        reader.expect_symbol(")")
    first = name == "FILL_HISTORY_FIRST"
    options.values = replace(
        options.values,
        fill_history=options.values.fill_history or not first,
        fill_history_first=options.values.fill_history_first or first,
        history_start=start,
    )


def _pre_filter(reader: Reader, options: Options, _name: str) -> None:
    options.values = replace(options.values, pre_filter=reader.in_brackets("a condition"))


def _flag(_reader: Reader, options: Options, name: str) -> None:
    """Take an option that is only named."""
    values = options.values
    options.values = replace(
        values,
        ignore_nodata=values.ignore_nodata or name == "IGNORE_NODATA_TRIGGER",
        force_output=values.force_output or name == "FORCE_OUTPUT",
        low_latency=values.low_latency or name == "LOW_LATENCY_CALC",
        delete_output=values.delete_output or name == "DELETE_OUTPUT_TABLE",
        notify_only=values.notify_only or name == "CALC_NOTIFY_ONLY",
    )


def _exact(reader: Reader, options: Options, _name: str) -> None:
    """Take ``EXACT [(ALL | table, … [, WITHIN duration])]``."""
    if not reader.accept_symbol("("):
        return
    tables, within = [], None
    every = reader.accept("ALL")
    if not every:
        tables.append(take_table_name(reader, "a table"))
    while reader.accept_symbol(","):
        if reader.accept("WITHIN"):
            within, word = take_duration(reader, "WITHIN")
            refuse_unit(reader, "WITHIN", within, "asmhdw", word)
            break
        if every:
            raise reader.unexpected("WITHIN", ("WITHIN",))
        tables.append(take_table_name(reader, "a table"))
    reader.expect_symbol(")")
    options.follow = Follow(None if every else tuple(tables), within)


def _event_type(reader: Reader, options: Options, name: str) -> None:
    events: set[str] = set()
    reader.expect_symbol("(")
    while True:
        word = reader.take()
        event = word.text.upper()
        if event not in _EVENT_TYPES:
            hint = did_you_mean(word.text, _EVENT_TYPES)
            raise reader.error(
                "UNKNOWN_EVENT", f"{name} takes no {word.text or 'empty list'}", word=word, hint=hint
            )
        events.add(event)
        if not reader.accept_symbol("|"):
            break
    reader.expect_symbol(")")
    options.events = frozenset(events)


_UNBUILT = {"NODELAY_CREATE_SUBTABLE": "a subtable is there with its first row"}
"""Options of TDengine that lakestream knows of and does not have, and what to write instead."""

_OPTIONS: dict[str, Callable[[Reader, Options, str], None]] = {
    "WATERMARK": _duration("buasmhdw"),
    "EXPIRED_TIME": _duration("asmhd"),
    "MAX_DELAY": _duration("smhd", Duration(3, "s")),
    IDLE_TIMEOUT: _duration("asmhd", Duration(1, "s"), Duration(10, "d")),
    "FILL_HISTORY": _history,
    "FILL_HISTORY_FIRST": _history,
    "PRE_FILTER": _pre_filter,
    "IGNORE_NODATA_TRIGGER": _flag,
    "EVENT_TYPE": _event_type,
    "IGNORE_DISORDER": _flag,
    "DELETE_RECALC": _flag,
    "DELETE_OUTPUT_TABLE": _flag,
    "CALC_NOTIFY_ONLY": _flag,
    "LOW_LATENCY_CALC": _flag,
    "FORCE_OUTPUT": _flag,
    "EXACT": _exact,
}


def _emission(options: Options) -> Emission:
    on = OnOpen(closes=WINDOW_CLOSE in options.events) if WINDOW_OPEN in options.events else OnClose()
    delay = options.durations.get("MAX_DELAY")
    return on if delay is None else Delayed(delay, on)


def _late_policy(options: Options) -> LatePolicy:
    if "EXACT" in options.words:
        return Exact(options.follow)
    if IDLE_TIMEOUT in options.words:
        return ByArrival()
    policy = Ignore if "IGNORE_DISORDER" in options.words else Refire
    return policy(options.durations.get("EXPIRED_TIME"), "DELETE_RECALC" in options.words)


def _check_together(reader: Reader, options: Options) -> None:
    words, durations = options.words, options.durations
    if "FILL_HISTORY" in words and "FILL_HISTORY_FIRST" in words:
        later = max(words["FILL_HISTORY"], words["FILL_HISTORY_FIRST"], key=lambda w: w.start)
        raise reader.error(
            "OPTIONS_EXCLUDE", "FILL_HISTORY and FILL_HISTORY_FIRST exclude each other", word=later
        )
    for name in ("IGNORE_DISORDER", "EXPIRED_TIME"):
        if "EXACT" in words and name in words:
            raise reader.error(
                "OPTIONS_EXCLUDE",
                f"EXACT follows every change, {name} ignores some",
                word=max(words["EXACT"], words[name], key=lambda w: w.start),
                hint="leave one of them out",
            )
    watermark, expired = durations.get("WATERMARK"), durations.get("EXPIRED_TIME")
    if watermark and expired and watermark.micros > expired.micros:
        raise reader.error(
            "WATERMARK_BEYOND_EXPIRY",
            f"WATERMARK({watermark}) is longer than EXPIRED_TIME({expired})",
            word=words["WATERMARK"],
            hint=f"make WATERMARK at most {expired}",
        )


_WITHOUT_EFFECT = {
    "PERIOD": (
        "FILL_HISTORY",
        "FILL_HISTORY_FIRST",
        "WATERMARK",
        "EVENT_TYPE",
        "MAX_DELAY",
        "DELETE_RECALC",
        "EXACT",
        IDLE_TIMEOUT,
    ),
    "SLIDING": ("EVENT_TYPE", "MAX_DELAY", "DELETE_RECALC"),
    "SESSION": ("IGNORE_NODATA_TRIGGER",),
    "STATE_WINDOW": ("IGNORE_NODATA_TRIGGER",),
    "EVENT_WINDOW": ("IGNORE_NODATA_TRIGGER",),
    "COUNT_WINDOW": ("IGNORE_NODATA_TRIGGER",),
}
_WITHOUT_EFFECT_IDLE = (
    *("WATERMARK", "EXPIRED_TIME", "IGNORE_DISORDER", "DELETE_RECALC", "EXACT", "MAX_DELAY"),
    *("FILL_HISTORY", "FILL_HISTORY_FIRST", "IGNORE_NODATA_TRIGGER", "DELETE_OUTPUT_TABLE"),
)
"""Options about windows and event time: of groups that fall idle only counts when rows come."""


def _refuse_early(reader: Reader, options: Options, trigger: ReadTrigger) -> None:
    """Refuse windows that are computed before they close, where the next one tells what they reach to."""
    extend = trigger.value.rule.extend if isinstance(trigger.value, StateTrigger) else 0
    asks = [name for name in ("MAX_DELAY", "EVENT_TYPE") if name in options.words]
    if extend and (options.events & {WINDOW_OPEN} or "MAX_DELAY" in asks):
        hint = "EXTEND(0); or leave it out: a window that reaches to its neighbour is computed as it closes"
        word = options.words[asks[0]]
        raise reader.unsupported(f"{asks[0]} with EXTEND({extend}) of a stream", word=word, hint=hint)


def _check_trigger(reader: Reader, options: Options, trigger: ReadTrigger) -> None:
    _refuse_early(reader, options, trigger)
    asks = IDLE_TIMEOUT in options.words or not options.events.isdisjoint((IDLE, RESUME))
    is_idle = asks and trigger.name != "PERIOD"
    what = IDLE_TIMEOUT if is_idle else trigger.name
    for name in _WITHOUT_EFFECT_IDLE if is_idle else _WITHOUT_EFFECT.get(trigger.name, ()):
        if name in options.words:
            raise reader.error(
                "OPTION_WITHOUT_EFFECT", f"{name} does not go with {what}", word=options.words[name]
            )
    if trigger.name == "COUNT_WINDOW" and trigger.count_step != 1 and "DELETE_RECALC" in options.words:
        raise reader.error(
            "OPTION_WITHOUT_EFFECT",
            "DELETE_RECALC goes only with a COUNT_WINDOW that slides by one row",
            word=options.words["DELETE_RECALC"],
        )
