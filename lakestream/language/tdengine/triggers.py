"""Readers of CREATE STREAM's triggers, with the documented bounds of each kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.language.expressions.checks import check_row_expression
from lakestream.language.expressions.inner_windows import EXTENDS, check_zeroth
from lakestream.language.expressions.intervals import (
    SHORTEST_MONTH,
    check_offset,
    check_positive,
    check_step,
)
from lakestream.language.model import (
    MICROS,
    CountTrigger,
    Duration,
    EventTrigger,
    IntervalTrigger,
    PeriodTrigger,
    SessionTrigger,
    SlidingTrigger,
    StateRule,
    StateTrigger,
    Trigger,
    TrueFor,
)
from lakestream.language.reading.identifiers import refuse_duplicate, take_column_name
from lakestream.language.reading.literals import refuse_unit, take_duration, take_value
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.calendar import read_calendar

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError
    from lakestream.language.model import Fragment
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

_DAY = MICROS["d"]
_PERIOD_UNITS = "asmhdwnqy"
_OFFSET_UNITS = "asmhd"
_PERIOD_BOUNDS = (10 * MICROS["a"], 3650 * _DAY)
_MAX_COUNT = 2**31 - 1


@dataclass
class ReadTrigger:
    """A trigger as read: its kind, and its value unless that kind is not built."""

    name: str
    word: Word
    value: Trigger | None = None
    unbuilt: list[NotSupportedError] = field(default_factory=list)
    count_step: int = 0
    classic: bool = False

    @property
    def is_window(self) -> bool:
        """True for the kinds that open and close windows."""
        return self.name not in ("SLIDING", "PERIOD")


def read_trigger(reader: Reader, *, classic: bool = False) -> ReadTrigger:
    """Take a trigger, or a window clause as the ``classic`` syntax writes it.

    Raises StatementError(UNKNOWN_TRIGGER) with a hint for an unknown word.
    """
    word = reader.peek()
    name = word.text.upper() if word.kind is Kind.WORD else ""
    if name == "WINDOW":
        hint = "one window; a stream over the output of another has windows within windows"
        raise reader.unsupported("a window within a window, WINDOW(…)", hint=hint)
    if name not in TRIGGERS:
        error = reader.unexpected("a trigger", TRIGGERS)
        if word.kind is Kind.WORD:
            error.code = "UNKNOWN_TRIGGER"
        error.hint = error.hint or f"one of {', '.join(TRIGGERS)}"
        raise error
    reader.take()
    trigger = ReadTrigger(name, word, classic=classic)
    if classic and name == "EVENT_WINDOW":
        _bare_event_window(reader, trigger)
        return trigger
    reader.expect_symbol("(")
    TRIGGERS[name](reader, trigger)
    return trigger


def _durations(reader: Reader, clause: str) -> tuple[Duration, Duration, Word, Word | None]:
    """Take ``length[, offset])``: the first positive."""
    length, word = take_duration(reader, clause)
    check_positive(length, clause, reader.place(word))
    offset, offset_word = Duration(0, "s"), None
    if reader.accept_symbol(","):
        offset, offset_word = take_duration(reader, f"the offset of {clause}")
    reader.expect_symbol(")")
    return length, offset, word, offset_word


def _interval(reader: Reader, trigger: ReadTrigger) -> None:
    length, offset, word, offset_word = _durations(reader, "INTERVAL")
    step, shift, step_word, shift_word = length, offset, word, None
    if reader.accept("SLIDING"):
        reader.expect_symbol("(")
        step, shift, step_word, shift_word = _durations(reader, "SLIDING")
    elif not trigger.classic:
        raise reader.unexpected("SLIDING(step) behind INTERVAL(…)", ("SLIDING",))
    if shift_word is not None:
        if offset_word is not None and offset != shift:
            raise reader.error("BAD_OFFSET", "INTERVAL and SLIDING name different offsets", word=shift_word)
        offset, offset_word = shift, shift_word
    check_step(length, step, reader.place(step_word))
    check_offset(length, step, offset, reader.place(offset_word or word))
    trigger.value = IntervalTrigger(length, offset, step)


def _calendar(reader: Reader, trigger: ReadTrigger) -> None:
    trigger.value = read_calendar(reader)


def _sliding(reader: Reader, trigger: ReadTrigger) -> None:
    step, offset, word, offset_word = _durations(reader, "SLIDING")
    if step.months:
        raise reader.error(
            "BAD_DURATION", f"SLIDING({step}) counts months", word=word, hint="at most weeks (w)"
        )
    _check_day_offset(reader, "SLIDING", offset, offset_word)
    if reader.sees("INTERVAL"):
        raise reader.error("SYNTAX", "INTERVAL stands before SLIDING", hint="INTERVAL(length) SLIDING(step)")
    trigger.value = SlidingTrigger(step, offset)


def _check_day_offset(reader: Reader, clause: str, offset: Duration, word: Word | None) -> None:
    if word is None:
        return
    if offset.is_of_months or offset.micros >= _DAY:
        raise reader.error("BAD_OFFSET", f"the offset {offset} of {clause} is not below one day", word=word)
    refuse_unit(reader, f"the offset of {clause}", offset, _OFFSET_UNITS, word, code="BAD_OFFSET")


def _period(reader: Reader, trigger: ReadTrigger) -> None:
    period, offset, word, offset_word = _durations(reader, "PERIOD")
    refuse_unit(reader, "PERIOD", period, _PERIOD_UNITS, word)
    shortest, longest = _PERIOD_BOUNDS
    if not period.months and not shortest <= period.micros <= longest:
        raise reader.error(
            "BAD_DURATION", f"PERIOD({period}) is out of range", word=word, hint="between 10a and 3650d"
        )
    _check_period_offset(reader, period, offset, offset_word)
    trigger.value = PeriodTrigger(period, offset)


def _check_period_offset(reader: Reader, period: Duration, offset: Duration, word: Word | None) -> None:
    """Refuse an offset that leads out of a week, or out of the shortest month, quarter or year there is."""
    shortest = period.months * SHORTEST_MONTH if period.months else period.micros
    if word is None or not (period.months or period.unit == "w"):
        _check_day_offset(reader, "PERIOD", offset, word)
        return
    refuse_unit(reader, "the offset of PERIOD", offset, _OFFSET_UNITS, word, code="BAD_OFFSET")
    if offset.micros >= shortest:
        message = f"the offset {offset} of PERIOD is not below {period}"
        hint = f"below {shortest // _DAY}d"
        raise reader.error("BAD_OFFSET", message, word=word, hint=hint)


def _session(reader: Reader, trigger: ReadTrigger) -> None:
    column = take_column_name(reader, "the time column of SESSION")
    reader.expect_symbol(",")
    gap, word = take_duration(reader, "SESSION")
    check_positive(gap, "SESSION", reader.place(word))
    _refuse_months(reader, gap, "SESSION", word)
    reader.expect_symbol(")")
    trigger.value = SessionTrigger(column, gap)


def _refuse_months(reader: Reader, duration: Duration, clause: str, word: Word) -> None:
    if duration.months:
        raise reader.error(
            "BAD_DURATION", f"{clause}({duration}) counts months", word=word, hint="at most weeks (w)"
        )


def _state_window(reader: Reader, trigger: ReadTrigger) -> None:
    """Take ``state, …)`` and what follows it, or the older ``state, extend[, zeroth])``."""
    states = [_state(reader)]
    extend: int | None = None
    zeroth: tuple[int | bool | str | None, ...] = ()
    while reader.accept_symbol(","):
        if reader.peek().kind is Kind.NUMBER and len(states) == 1:
            extend = _extend(reader)
            zeroth = (_zeroth(reader),) if reader.accept_symbol(",") else ()
            break
        states.append(_further_state(reader))
    reader.expect_symbol(")")
    if extend is None:
        extend, zeroth = _extend_clause(reader), _zeroth_clause(reader, len(states))
    if extend and trigger.classic:
        hint = "the syntax since 3.3.7: CREATE STREAM s STATE_WINDOW(…) EXTEND(1) FROM …"
        raise reader.unsupported(
            f"EXTEND({extend}) in the classic syntax of streams", word=trigger.word, hint=hint
        )
    trigger.value = StateTrigger(tuple(states), _true_for(reader), StateRule(extend, zeroth))


def _state(reader: Reader) -> Fragment:
    state = reader.until(lambda: reader.sees_symbol(")") or reader.sees_symbol(","), "a state column")
    return check_row_expression(state, "STATE_WINDOW")


def _further_state(reader: Reader) -> Fragment:
    word, begin = reader.peek(), reader.at
    state = _state(reader)
    if word.kind is Kind.NUMBER and reader.at == begin + 1:
        hint = "STATE_WINDOW(a, b) EXTEND(1)"
        raise reader.error("EXTEND", f"{word.text} is no state of several", word=word, hint=hint)
    return state


def _extend_clause(reader: Reader) -> int:
    if not reader.accept("EXTEND"):
        return 0
    reader.expect_symbol("(")
    extend = _extend(reader)
    reader.expect_symbol(")")
    return extend


def _extend(reader: Reader) -> int:
    word = reader.peek()
    if word.text not in EXTENDS:
        raise reader.error("EXTEND", f"EXTEND takes no {word.text}", word=word, hint="EXTEND(0), (1) or (2)")
    return int(reader.take().text)


def _zeroth_clause(reader: Reader, states: int) -> tuple[int | bool | str | None, ...]:
    word = reader.peek()
    if not reader.accept("ZEROTH_STATE"):
        return ()
    values = reader.list_of(lambda: _zeroth(reader))
    check_zeroth(len(values), states, reader.place(word))
    return tuple(values)


def _zeroth(reader: Reader) -> int | bool | str | None:
    word = reader.peek()
    if reader.accept("NO_ZEROTH"):
        return None
    value = take_value(reader)
    if not isinstance(value, int | str):
        hint = "an integer, a boolean or a text"
        raise reader.error("ZEROTH_STATE", f"ZEROTH_STATE takes no {word.text}", word=word, hint=hint)
    return value


def _event_window(reader: Reader, trigger: ReadTrigger) -> None:
    reader.expect("START", "WITH")
    _refuse_list(reader)
    start = reader.until(lambda: reader.sees("END", "WITH") or reader.sees_symbol(")"), "a condition")
    check_row_expression(start, "EVENT_WINDOW")
    reader.expect("END", "WITH")
    end = reader.until(lambda: reader.sees_symbol(")"), "a condition")
    check_row_expression(end, "EVENT_WINDOW")
    reader.expect_symbol(")")
    trigger.value = EventTrigger(start, end, _true_for(reader))


def _bare_event_window(reader: Reader, trigger: ReadTrigger) -> None:
    """Take the classic ``START WITH … END WITH …``, which stands without brackets."""
    if reader.sees_symbol("("):
        reader.take()
        _event_window(reader, trigger)
        return
    reader.expect("START", "WITH")
    start = reader.until(lambda: reader.sees("END", "WITH"), "a condition")
    check_row_expression(start, "EVENT_WINDOW")
    reader.expect("END", "WITH")
    end = reader.until(lambda: reader.sees("TRUE_FOR") or reader.sees("NOTIFY"), "a condition")
    check_row_expression(end, "EVENT_WINDOW")
    trigger.value = EventTrigger(start, end, _true_for(reader))


def _refuse_list(reader: Reader) -> None:
    """Refuse ``START WITH (a, b, …)``, windows within a window, by its name."""
    begin = reader.at
    if reader.accept_symbol("("):
        reader.until(lambda: reader.sees_symbol(")") or reader.sees_symbol(","), "a condition")
        if reader.sees_symbol(","):
            hint = "one condition: a OR b"
            raise reader.unsupported("EVENT_WINDOW with several conditions to start", hint=hint)
        reader.at = begin


def _true_for(reader: Reader) -> TrueFor | None:
    if not reader.accept("TRUE_FOR"):
        return None
    reader.expect_symbol("(")
    duration, either, rows = None, False, None
    if not reader.sees("COUNT"):
        duration, word = take_duration(reader, "TRUE_FOR")
        _refuse_months(reader, duration, "TRUE_FOR", word)
        either = reader.sees("OR")
    if duration is None or reader.accept("AND") or reader.accept("OR"):
        reader.expect("COUNT")
        rows = _count(reader, "TRUE_FOR")
    reader.expect_symbol(")")
    return TrueFor(duration, rows, either)


def _count_window(reader: Reader, trigger: ReadTrigger) -> None:
    count = _count(reader, "COUNT_WINDOW")
    step = count
    if reader.sees_symbol(",") and reader.peek(1).kind is Kind.NUMBER:
        reader.take()
        word = reader.peek()
        step = _count(reader, "the step of COUNT_WINDOW")
        if step > count:
            raise reader.error(
                "BAD_COUNT", f"COUNT_WINDOW({count}, {step}): the step is beyond the count", word=word
            )
    trigger.count_step = step
    trigger.value = CountTrigger(count, step, _counted_columns(reader))
    reader.expect_symbol(")")


def _counted_columns(reader: Reader) -> tuple[Fragment, ...]:
    """Take ``[, column …]``, no column twice."""
    columns: list[Fragment] = []
    taken: set[str] = set()
    while reader.accept_symbol(","):
        word = reader.peek()
        name = take_column_name(reader, "a column of COUNT_WINDOW")
        refuse_duplicate(reader, name, taken, word)
        columns.append(reader.source.fragment(word.start, word.end))
    return tuple(columns)


def _count(reader: Reader, clause: str) -> int:
    word = reader.peek()
    if word.kind is not Kind.NUMBER or not word.text.isdigit():
        raise reader.unexpected(f"a number of rows in {clause}")
    reader.take()
    # Ten digits hold every number allowed; int() of a huge text would be slow.
    number = int(word.text) if len(word.text) <= 10 else _MAX_COUNT + 1
    if not 1 <= number <= _MAX_COUNT:
        raise reader.error(
            "BAD_COUNT", f"{clause} is out of range", word=word, hint=f"between 1 and {_MAX_COUNT}"
        )
    return number


TRIGGERS = {
    "INTERVAL": _interval,
    "CALENDAR": _calendar,
    "SLIDING": _sliding,
    "PERIOD": _period,
    "SESSION": _session,
    "STATE_WINDOW": _state_window,
    "EVENT_WINDOW": _event_window,
    "COUNT_WINDOW": _count_window,
}
"""The triggers of CREATE STREAM and their readers."""
