"""Reader of STREAM_OPTIONS: each option at most once, and only where it has an effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.errors import did_you_mean
from lakestream.language.model import MICROS, WINDOW_CLOSE, WINDOW_OPEN, Duration, StreamOptions
from lakestream.language.policies import Delayed, Exact, Follow, Ignore, OnClose, OnOpen, Refire
from lakestream.language.reading.identifiers import take_table_name
from lakestream.language.reading.literals import refuse_unit, take_duration, take_instant
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.policies import Emission, LatePolicy
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word
    from lakestream.language.tdengine.triggers import ReadTrigger

_EVENT_TYPES = (WINDOW_OPEN, WINDOW_CLOSE)
_MIN_DELAY = 3 * MICROS["s"]
_SILENT = (
    "PERIOD(1m) … AS SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at, max(ts) AS newest FROM %%tbname "
    "HAVING max(ts) < CAST(_tlocaltime / 1000000 AS TIMESTAMP) - 10m"
)
"""How a stream tells of groups that have been silent."""


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
    _option(reader, options)
    while reader.accept_symbol("|"):
        _option(reader, options)
    if reader.sees_symbol(","):
        raise reader.error("SYNTAX", "options are separated by |", hint="STREAM_OPTIONS(A | B)")
    reader.expect_symbol(")")
    _check_together(reader, options)
    _check_trigger(reader, options, trigger)
    options.values = replace(
        options.values,
        watermark=options.durations.get("WATERMARK"),
        emission=_emission(options),
        late=_late_policy(options),
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


def _duration(units: str, least: int = 0) -> Callable[[Reader, Options, str], None]:
    """Return the reader of ``NAME(duration)`` for an option that takes these units."""

    def read(reader: Reader, options: Options, name: str) -> None:
        reader.expect_symbol("(")
        duration, word = take_duration(reader, name)
        refuse_unit(reader, name, duration, units, word)
        if duration.micros < least:
            shown = f"{least // MICROS['s']}s"
            raise reader.error(
                "BAD_DURATION", f"{name}({duration}) is too short", word=word, hint=f"at least {shown}"
            )
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
        refuse_idle(reader, word)
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


_UNBUILT = {"IDLE_TIMEOUT": _SILENT, "NODELAY_CREATE_SUBTABLE": "a subtable is there with its first row"}
"""Options of TDengine that lakestream knows of and does not have, and what to write instead."""


def refuse_idle(reader: Reader, word: Word) -> None:
    """Refuse the events of groups that are silent, by their names."""
    if word.text.upper() in ("IDLE", "RESUME"):
        raise reader.unsupported(f"the event {word.text.upper()}", word=word, hint=_SILENT)


_OPTIONS: dict[str, Callable[[Reader, Options, str], None]] = {
    "WATERMARK": _duration("buasmhdw"),
    "EXPIRED_TIME": _duration("asmhd"),
    "MAX_DELAY": _duration("smhd", _MIN_DELAY),
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
    ),
    "SLIDING": ("EVENT_TYPE", "MAX_DELAY", "DELETE_RECALC"),
    "SESSION": ("IGNORE_NODATA_TRIGGER",),
    "STATE_WINDOW": ("IGNORE_NODATA_TRIGGER",),
    "EVENT_WINDOW": ("IGNORE_NODATA_TRIGGER",),
    "COUNT_WINDOW": ("IGNORE_NODATA_TRIGGER",),
}


def _check_trigger(reader: Reader, options: Options, trigger: ReadTrigger) -> None:
    for name in _WITHOUT_EFFECT.get(trigger.name, ()):
        if name in options.words:
            raise reader.error(
                "OPTION_WITHOUT_EFFECT", f"{name} does not go with {trigger.name}", word=options.words[name]
            )
    if trigger.name == "COUNT_WINDOW" and trigger.count_step != 1 and "DELETE_RECALC" in options.words:
        raise reader.error(
            "OPTION_WITHOUT_EFFECT",
            "DELETE_RECALC goes only with a COUNT_WINDOW that slides by one row",
            word=options.words["DELETE_RECALC"],
        )
