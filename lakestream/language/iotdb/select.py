"""The reader of SELECT over the tree of time series."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from lakestream.language.iotdb.checks import check_select
from lakestream.language.iotdb.expressions import read_expression
from lakestream.language.iotdb.literals import read_instant, read_node, read_path, read_span
from lakestream.language.iotdb.paths import Path
from lakestream.language.iotdb.values import Fill, Item, RowGroup, Select, Target, TimeGroup
from lakestream.language.reading.identifiers import take_identifier
from lakestream.language.reading.literals import take_value
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.model import Fragment
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

_CLAUSES = (
    ("WHERE",),
    ("GROUP", "BY"),
    ("HAVING",),
    ("FILL",),
    ("ORDER", "BY"),
    ("LIMIT",),
    ("OFFSET",),
    ("SLIMIT",),
    ("SOFFSET",),
    ("ALIGN", "BY"),
    ("WITHOUT",),
    ("DISABLE",),
    ("END",),
)
_KEEPS = (">", "<", "=", "!")


@dataclass
class _Draft:
    """What the clauses behind FROM said so far."""

    where: Expression | None = None
    group: TimeGroup | None = None
    cut: RowGroup | None = None
    levels: tuple[int, ...] = ()
    having: Expression | None = None
    fill: Fill | None = None
    by_time: bool = False
    descending: bool = False
    limit: int | None = None
    offset: int = 0
    slices: list[str] = field(default_factory=list)
    by_device: bool = False
    latest: bool = False
    by_series: bool = False
    device_order: Word | None = None
    device_descending: bool = False
    columns_from: int = 0
    columns: int | None = None


def read_select(reader: Reader) -> Select:
    """Take a SELECT, up to the end of the statement or to END.

    Raises StatementError with the place: SYNTAX, SERIES_PATH, and what
    :func:`lakestream.language.iotdb.checks.check_select` refuses.
    """
    first = reader.at
    reader.expect("SELECT")
    draft = _Draft(latest=_sees_last(reader))
    if draft.latest:
        reader.take()
    items = [_item(reader)]
    while reader.accept_symbol(","):
        items.append(_item(reader))
    into = _targets(reader) if reader.accept("INTO") else ()
    reader.expect("FROM")
    sources = [_source(reader)]
    while reader.accept_symbol(","):
        sources.append(_source(reader))
    _read_clauses(reader, draft)
    if draft.device_order is not None and not draft.by_device:
        message = "Sorting by device is only supported in ALIGN BY DEVICE queries."
        raise reader.error("ALIGN_BY_DEVICE", message, word=draft.device_order)
    select = Select(
        items=tuple(items),
        into=into,
        sources=tuple(sources),
        where=draft.where,
        group=draft.group,
        cut=draft.cut,
        levels=draft.levels,
        having=draft.having,
        fill=draft.fill,
        by_time=draft.by_time,
        descending=draft.descending,
        limit=draft.limit,
        offset=draft.offset,
        by_device=draft.by_device,
        text=reader.fragment(first, reader.at),
        latest=draft.latest,
        by_series=draft.by_series,
        device_descending=draft.device_descending,
        columns_from=draft.columns_from,
        columns=draft.columns,
    )
    check_select(select, draft.slices)
    return select


def _source(reader: Reader) -> Path:
    return read_path(reader, "a path such as root.ln.*", wildcards=True, least=1)


def _sees_last(reader: Reader) -> bool:
    """Tell whether LAST follows as the word, not as the name of a series."""
    if not reader.sees("LAST"):
        return False
    following = reader.peek(1)
    if following.kind is Kind.SYMBOL and set(following.text) == {"*"}:
        behind = reader.peek(2)
        return behind.is_word("FROM") or behind.text in (",", ".", "*")
    return following.kind in (Kind.WORD, Kind.NAME) and not (
        following.is_word("INTO") or following.is_word("FROM") or following.is_word("AS")
    )


def _item(reader: Reader) -> Item:
    def ends() -> bool:
        return reader.sees_symbol(",") or any(reader.sees(word) for word in ("INTO", "FROM", "AS"))

    expression = read_expression(reader.until(ends, "an expression"))
    alias = None
    if reader.accept("AS"):
        alias, _ = take_identifier(reader, "an alias")
    return Item(expression, alias)


# --- INTO -----------------------------------------------------------------------------------------


def _targets(reader: Reader) -> tuple[Target, ...]:
    targets = [_target(reader)]
    while reader.accept_symbol(","):
        targets.append(_target(reader))
    return tuple(targets)


def _target(reader: Reader) -> Target:
    reader.accept("ALIGNED")  # a hint for IoTDB's storage
    device = read_path(reader, "a target such as root.out.d(m)", placeholders=True)
    if reader.sees_symbol("("):
        names = reader.list_of(lambda: read_node(reader, "a measurement", placeholders=True))
        return Target(device, tuple(names))
    if len(device.nodes) < 3:
        raise reader.unexpected("( and the measurements of the target")
    return Target(Path(device.nodes[:-1]), (device.measurement,))


# --- the clauses behind FROM ----------------------------------------------------------------------


def _read_clauses(reader: Reader, draft: _Draft) -> None:
    seen: set[str] = set()
    while not reader.done and not reader.sees("END"):
        word = reader.peek()
        clause = word.text.upper()
        if clause in seen:
            raise reader.error("CLAUSE_TWICE", f"{clause} is given twice", word=word)
        seen.add(clause)
        read = _READERS.get(clause) if word.kind is Kind.WORD else None
        if read is None:
            raise reader.unexpected("a clause of SELECT", [words[0] for words in _CLAUSES])
        read(reader, draft)


def _condition(reader: Reader) -> Fragment:
    first = reader.at

    def ends() -> bool:
        taken = reader.words[first : reader.at]
        cases = sum(word.is_word("CASE") for word in taken) - sum(word.is_word("END") for word in taken)
        return cases <= 0 and any(reader.sees(*words) for words in _CLAUSES)

    return reader.until(ends, "a condition")


def _where(reader: Reader, draft: _Draft) -> None:
    reader.expect("WHERE")
    draft.where = read_expression(_condition(reader))


def _having(reader: Reader, draft: _Draft) -> None:
    reader.expect("HAVING")
    draft.having = read_expression(_condition(reader))


def _group_by(reader: Reader, draft: _Draft) -> None:
    reader.expect("GROUP", "BY")
    if reader.sees("TAGS"):
        raise reader.unsupported("GROUP BY TAGS")
    for window, read in _ROW_WINDOWS.items():
        if reader.accept(window):
            reader.expect_symbol("(")
            draft.cut = read(reader)
            reader.expect_symbol(")")
            if reader.sees_symbol(","):
                raise reader.error("LEVEL_INVALID", f"LEVEL does not go with GROUP BY {window}")
            return
    if not reader.sees("LEVEL"):
        draft.group = _time_group(reader)
        if not reader.accept_symbol(","):
            return
    reader.expect("LEVEL")
    reader.expect_symbol("=")
    levels = [read_number(reader, "a level")]
    while reader.accept_symbol(","):
        levels.append(read_number(reader, "a level"))
    draft.levels = tuple(sorted(set(levels)))


def _session(reader: Reader) -> RowGroup:
    word = reader.peek()
    gap = read_span(reader, "SESSION")
    if gap.months or not gap.micros:
        raise reader.error("BAD_DURATION", "SESSION takes a positive gap without months or years", word=word)
    return RowGroup("SESSION", None, gap.micros)


def _variation(reader: Reader) -> RowGroup:
    expression, delta = _controlled(reader), 0.0
    if reader.sees_symbol(",") and reader.peek(1).kind is not Kind.WORD:
        reader.take()
        delta = _positive(reader, "the delta of VARIATION", zero=True)
    return RowGroup("VARIATION", expression, delta, ignores_null=_ignores_null(reader))


def _condition_group(reader: Reader) -> RowGroup:
    expression = _controlled(reader)
    reader.expect_symbol(",")
    keep = ""
    if reader.accept("KEEP"):
        while reader.peek().kind is Kind.SYMBOL and reader.peek().text[0] in _KEEPS:
            keep += reader.take().text
    keep = "=" if keep in ("", "==") else keep
    if keep not in ("=", ">", "<", ">=", "<="):
        raise reader.unexpected("KEEP and =, >, >=, < or <=")
    number = _positive(reader, "KEEP of CONDITION", zero=True)
    return RowGroup("CONDITION", expression, number, keep, _ignores_null(reader))


def _count_group(reader: Reader) -> RowGroup:
    expression = _controlled(reader)
    reader.expect_symbol(",")
    size = _positive(reader, "the size of COUNT")
    return RowGroup("COUNT", expression, size, ignores_null=_ignores_null(reader))


def _controlled(reader: Reader) -> Expression:
    """Take the expression that cuts the windows."""
    fragment = reader.until(lambda: reader.sees_symbol(",") or reader.sees_symbol(")"), "an expression")
    return read_expression(fragment)


def _positive(reader: Reader, what: str, *, zero: bool = False) -> float:
    word = reader.peek()
    found = take_value(reader) if word.kind is Kind.NUMBER else None
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal) or (not found and not zero):
        raise reader.error("BAD_NUMBER", f"{what} is a {'' if zero else 'positive '}number", word=word)
    if what.startswith(("KEEP", "the size")) and not isinstance(found, int):
        raise reader.error("BAD_NUMBER", f"{what} is a whole number", word=word)
    return found if isinstance(found, int) else float(found)


def _ignores_null(reader: Reader) -> bool:
    """Take ``, ignoreNull=true|false``."""
    if not reader.accept_symbol(","):
        return True
    if not (reader.accept("IGNORENULL") or reader.accept("IGNORINGNULL")):
        raise reader.unexpected("ignoreNull")
    reader.expect_symbol("=")
    if reader.accept("FALSE"):
        return False
    reader.expect("TRUE")
    return True


_ROW_WINDOWS: dict[str, Callable[[Reader], RowGroup]] = {
    "SESSION": _session,
    "VARIATION": _variation,
    "CONDITION": _condition_group,
    "COUNT": _count_group,
}


def _time_group(reader: Reader) -> TimeGroup:
    reader.expect_symbol("(")
    bounds = None
    if reader.sees_symbol("("):
        raise reader.unsupported("a range ( start, end ] in GROUP BY", hint="[start, end)")
    if reader.accept_symbol("["):
        start = read_instant(reader, "the start of GROUP BY")
        reader.expect_symbol(",")
        end = read_instant(reader, "the end of GROUP BY")
        reader.expect_symbol(")")
        reader.expect_symbol(",")
        bounds = (start, end)
    word = reader.peek()
    interval = read_span(reader, "GROUP BY")
    step = read_span(reader, "GROUP BY") if reader.accept_symbol(",") else interval
    if not (interval.micros or interval.months) or not (step.micros or step.months):
        raise reader.error("BAD_DURATION", "GROUP BY: interval and step are positive", word=word)
    for span in (interval, step):
        if span.micros and span.months:
            raise reader.unsupported(f"the mixed duration {span} in GROUP BY", word=word)
    reader.expect_symbol(")")
    return TimeGroup(bounds, interval, step)


def _fill(reader: Reader, draft: _Draft) -> None:
    reader.expect("FILL")
    reader.expect_symbol("(")
    word = reader.peek()
    if reader.accept("PREVIOUS") or reader.accept("LINEAR"):
        draft.fill = Fill("PREVIOUS" if word.is_word("PREVIOUS") else "LINEAR")
    else:
        draft.fill = Fill("CONSTANT", take_value(reader))
    if reader.accept_symbol(","):
        if draft.fill.method != "PREVIOUS":
            raise reader.error(
                "FILL_INVALID",
                f"FILL({word.text.upper()}, …): only PREVIOUS takes a second parameter",
                word=word,
                hint="FILL(PREVIOUS, 2m)",
            )
        if reader.accept("INTERVAL"):
            reader.expect_symbol("=")
        span_at = reader.peek()
        within = read_span(reader, "FILL")
        if within.months:
            raise reader.error("BAD_DURATION", "FILL takes no months or years", word=span_at)
        draft.fill = Fill("PREVIOUS", None, within)
    reader.expect_symbol(")")


def _order_by(reader: Reader, draft: _Draft) -> None:
    """Take ``TIME | DEVICE [ASC | DESC], …``, or of SELECT LAST ``TIMESERIES [ASC | DESC]``."""
    reader.expect("ORDER", "BY")
    known = ("TIMESERIES",) if draft.latest else ("TIME", "DEVICE")
    descending: dict[str, bool] = {}
    while not descending or reader.accept_symbol(","):
        word = reader.peek()
        key = word.text.upper()
        if key not in known:
            raise reader.unsupported(f"ORDER BY {word.text}", hint=f"ORDER BY {known[0]} [DESC]")
        if key in descending:
            raise reader.error("CLAUSE_TWICE", f"{key} is given twice", word=word)
        reader.take()
        draft.device_order = word if key == "DEVICE" else draft.device_order
        descending[key] = reader.accept("DESC")
        if not descending[key]:
            reader.accept("ASC")
    draft.by_time, draft.by_series = next(iter(descending)) == "TIME", draft.latest
    draft.descending = descending.get("TIME", False) or descending.get("TIMESERIES", False)
    draft.device_descending = descending.get("DEVICE", False)


def _limit(reader: Reader, draft: _Draft) -> None:
    reader.expect("LIMIT")
    word = reader.peek()
    draft.limit = read_number(reader, "LIMIT")
    if not draft.limit:
        raise reader.error("BAD_NUMBER", "LIMIT takes a number greater than 0", word=word)


def _offset(reader: Reader, draft: _Draft) -> None:
    reader.expect("OFFSET")
    draft.offset = read_number(reader, "OFFSET")


def _columns(reader: Reader, draft: _Draft) -> None:
    reader.expect("SLIMIT")
    word = reader.peek()
    draft.slices.append("SLIMIT")
    draft.columns = read_number(reader, "SLIMIT")
    if not draft.columns:
        raise reader.error("BAD_NUMBER", "SLIMIT takes a number greater than 0", word=word)


def _columns_from(reader: Reader, draft: _Draft) -> None:
    reader.expect("SOFFSET")
    draft.slices.append("SOFFSET")
    draft.columns_from = read_number(reader, "SOFFSET")


def _align(reader: Reader, draft: _Draft) -> None:
    reader.expect("ALIGN", "BY")
    draft.by_device = reader.accept("DEVICE")
    if not draft.by_device:
        reader.expect("TIME")


def read_number(reader: Reader, what: str) -> int:
    """Take a whole number. Raises StatementError(SYNTAX) that names what it is."""
    word = reader.peek()
    if word.kind is not Kind.NUMBER or not word.text.isdigit() or len(word.text) > 18:
        raise reader.unexpected(f"a whole number in {what}")
    return int(reader.take().text)


_READERS: dict[str, Callable[[Reader, _Draft], None]] = {
    "WHERE": _where,
    "GROUP": _group_by,
    "HAVING": _having,
    "FILL": _fill,
    "ORDER": _order_by,
    "LIMIT": _limit,
    "OFFSET": _offset,
    "SLIMIT": _columns,
    "SOFFSET": _columns_from,
    "ALIGN": _align,
}
