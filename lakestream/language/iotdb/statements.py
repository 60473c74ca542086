"""From a script of the IoTDB dialect to statements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.source import Source
from lakestream.language.expressions.checks import check_row_expression
from lakestream.language.iotdb.checks import check_continuous_query
from lakestream.language.iotdb.literals import WORD_CHARACTERS, read_instant, read_node, read_path, read_span
from lakestream.language.iotdb.select import read_number, read_select
from lakestream.language.iotdb.values import (
    BackfillContinuousQuery,
    CountTree,
    CreateContinuousQuery,
    CreateTimeseries,
    CreateTreeDatabase,
    CreateTrigger,
    DropContinuousQuery,
    DropTreeDatabase,
    DropTrigger,
    InsertPoints,
    QueryTree,
    ShowContinuousQueries,
    ShowDevices,
    ShowTimeseries,
    ShowTreeDatabases,
    ShowTriggers,
    TableMapping,
)
from lakestream.language.model import Now
from lakestream.language.reading.identifiers import take_identifier, take_table_name
from lakestream.language.reading.literals import take_string, take_value
from lakestream.language.reading.reader import Reader
from lakestream.language.reading.words import Kind, read_words, split_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.iotdb.paths import Path
    from lakestream.language.iotdb.values import Event, Instant, TimeoutPolicy, TreeStatement
    from lakestream.language.model import Value

TYPES = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "TEXT", "STRING", "BLOB", "TIMESTAMP", "DATE")
_SERIES_OPTIONS = ("ENCODING", "COMPRESSOR", "COMPRESSION")
_MAX_NAME = 128


def parse_script(text: str, *, file: str | None = None) -> list[TreeStatement]:
    """Return the statements of a script; see :func:`lakestream.language.parse_script`."""
    source = Source(text, file=file)
    return [_statement(Reader(source, words)) for words in split_words(read_words(source, WORD_CHARACTERS))]


def read_one(source: Source, number: int) -> TreeStatement:
    """Return one of a script's statements, counted from 0; raises what :func:`parse_script` raises."""
    return _statement(Reader(source, split_words(read_words(source, WORD_CHARACTERS))[number]))


def _statement(reader: Reader) -> TreeStatement:
    if reader.sees("SELECT"):
        select = read_select(reader)
        reader.expect_end()
        return QueryTree(select)
    for words in _UNBUILT:
        if reader.sees(*words):
            raise reader.unsupported(" ".join(words), hint=_PAGE)
    for words, read in _STATEMENTS.items():
        if reader.accept(*words):
            statement = read(reader)
            reader.expect_end()
            return statement
    first = reader.peek().text.upper()
    following = [words[1] for words in _STATEMENTS if words[0] == first and len(words) > 1]
    if following and reader.peek().kind is Kind.WORD:
        reader.take()
        raise reader.unexpected(" or ".join(dict.fromkeys(following)), following)
    raise reader.unexpected("a statement of the IoTDB dialect", {words[0] for words in _STATEMENTS})


# --- databases and series -------------------------------------------------------------------------


def _create_database(reader: Reader) -> CreateTreeDatabase:
    first = reader.at
    path = read_path(reader, "a database such as root.ln")
    place = reader.fragment(first, reader.at)
    if reader.sees("WITH"):
        raise reader.unsupported("CREATE DATABASE … WITH")
    mapping = _mapping(reader) if reader.accept("USING") else None
    return CreateTreeDatabase(path, mapping, place)


def _mapping(reader: Reader) -> TableMapping:
    reader.expect("TABLE")
    table = take_table_name(reader)
    reader.expect_symbol("(")
    reader.expect("DEVICE")
    reader.expect_symbol("=")
    ends = (",", ")")
    written = reader.until(lambda: any(map(reader.sees_symbol, ends)), "an expression of a device's path")
    device = replace(written, spark=True)
    check_row_expression(device, "device")
    reader.expect_symbol(",")
    reader.expect("TIME")
    reader.expect_symbol("=")
    at = reader.at
    column, _ = take_identifier(reader, "the name of the time column")
    time = replace(reader.fragment(at, reader.at), sql=column)
    reader.expect_symbol(")")
    return TableMapping(table, device, time)


def _drop_database(reader: Reader) -> DropTreeDatabase:
    first = reader.at
    path = read_path(reader, "a database such as root.ln")
    return DropTreeDatabase(path, reader.fragment(first, reader.at))


def _create_timeseries(reader: Reader) -> CreateTimeseries:
    first = reader.at
    path = read_path(reader, "a series such as root.ln.d.s")
    end = reader.at
    _check_series(reader, path, first)
    series = ((path, _series_type(reader)),)
    _series_options(reader)
    return CreateTimeseries(series, reader.fragment(first, end))


def _create_aligned(reader: Reader) -> CreateTimeseries:
    first = reader.at
    device = read_path(reader, "a device such as root.ln.d")
    end = reader.at

    def one() -> tuple[Path, str]:
        name = read_node(reader, "a measurement")
        found = (type(device)((*device.nodes, name)), _type(reader))
        _series_options(reader)
        return found

    series = tuple(reader.list_of(one))
    names = [path for path, _ in series]
    if len(set(names)) < len(names):
        raise reader.error("SERIES_EXISTS", "a measurement is named twice")
    return CreateTimeseries(series, reader.fragment(first, end))


def _check_series(reader: Reader, path: Path, first: int) -> None:
    if len(path.nodes) < 3:
        raise reader.error(
            "SERIES_PATH",
            f"{path} is no series: it has no device below root",
            word=reader.words[first],
            hint="such as root.ln.d.s",
        )


def _series_type(reader: Reader) -> str:
    """Take ``[WITH] [DATATYPE =] type``."""
    reader.accept("WITH")
    if reader.accept("DATATYPE"):
        reader.expect_symbol("=")
    elif reader.peek(1).is_symbol("=") or reader.peek(1).is_word("DATATYPE"):
        raise reader.unexpected("DATATYPE")
    return _type(reader)


def _type(reader: Reader) -> str:
    word = reader.peek()
    if word.kind is not Kind.WORD:
        raise reader.unexpected("a type")
    name = reader.take().text.upper()
    if name not in TYPES:
        raise reader.error(
            "UNKNOWN_TYPE", f"there is no type {word.text}", word=word, hint=did_you_mean(name, TYPES)
        )
    return name


def _series_options(reader: Reader) -> None:
    """Take encoding and compression: hints for IoTDB's files, which Delta tables have not."""
    while reader.sees_symbol(",") or any(reader.sees(option) for option in _SERIES_OPTIONS):
        if reader.sees_symbol(",") and not reader.peek(2).is_symbol("="):
            return
        reader.accept_symbol(",")
        if not any(reader.accept(option) for option in _SERIES_OPTIONS):
            raise reader.unexpected(" or ".join(_SERIES_OPTIONS))
        reader.expect_symbol("=")
        take_identifier(reader, "an encoding or compression")


def _pattern(reader: Reader) -> Path | None:
    """Take a pattern, None where there is none."""
    if reader.done or reader.sees("GROUP"):
        return None
    return read_path(reader, "a pattern such as root.ln.**", wildcards=True)


def _count_timeseries(reader: Reader) -> CountTree:
    pattern, level = _pattern(reader), None
    if reader.accept("GROUP", "BY", "LEVEL"):
        reader.expect_symbol("=")
        level = read_number(reader, "a level")
    return CountTree(of_devices=False, pattern=pattern, level=level)


# --- rows -----------------------------------------------------------------------------------------


def _insert(reader: Reader) -> InsertPoints:
    first = reader.at
    device = read_path(reader, "a device such as root.ln.d")
    end = reader.at
    names = reader.list_of(lambda: read_node(reader, "time or a measurement"))
    for name in names:
        if names.count(name) > 1:
            raise reader.error("DUPLICATE_COLUMN", f"{name} is given twice", word=reader.words[first])
    times_at = [place for place, name in enumerate(names) if name.lower() in ("time", "timestamp")]
    if len(times_at) > 1:
        raise reader.error("DUPLICATE_COLUMN", "the time is given twice", word=reader.words[first])
    at = times_at[0] if times_at else None
    reader.accept("ALIGNED")
    if not reader.accept("VALUE"):
        reader.expect("VALUES")
    rows = [_row(reader, len(names), at)]
    while reader.accept_symbol(","):
        rows.append(_row(reader, len(names), at))
    measurements = tuple(name for i, name in enumerate(names) if i != at)
    if not measurements:
        raise reader.error("VALUE_COUNT", "a point has a measurement besides its time")
    if at is None and len(rows) > 1:
        word = reader.words[first]
        hint = f"INSERT INTO {device}(time, …)"
        raise reader.error(
            "TIME_MISSING", "several rows need times: without one a row is of now", word=word, hint=hint
        )
    times, values = zip(*rows, strict=True)
    return InsertPoints(device, measurements, times, values, reader.fragment(first, end))


def _row(reader: Reader, width: int, time: int | None) -> tuple[Instant | Now, tuple[Value, ...]]:
    word = reader.peek()
    at: Instant | Now = Now()
    values: list[Value] = []
    reader.expect_symbol("(")
    for place in range(width):
        if place and reader.sees_symbol(")"):
            raise reader.error("VALUE_COUNT", f"the row has {place} values, {width} are wanted")
        if place:
            reader.expect_symbol(",")
        if place == time:
            at = read_instant(reader, "the time of the point")
        else:
            values.append(take_value(reader))
    if not reader.accept_symbol(")"):
        raise reader.error("VALUE_COUNT", f"the row has more than the {width} values wanted", word=word)
    return at, tuple(values)


# --- continuous queries ---------------------------------------------------------------------------


_CQ_HINT = "SELECT avg(series) INTO root.path(name) FROM root.path GROUP BY(1h)"


def _create_cq(reader: Reader) -> CreateContinuousQuery:
    first = reader.at
    name = _own_name(reader, "the name of a continuous query")
    end = reader.at
    every = boundary = start = stop = None
    if reader.accept("RESAMPLE"):
        every = read_span(reader, "EVERY") if reader.accept("EVERY") else None
        boundary = read_instant(reader, "BOUNDARY") if reader.accept("BOUNDARY") else None
        if reader.accept("RANGE"):
            start = read_span(reader, "the start offset of RANGE")
            stop = read_span(reader, "the end offset of RANGE") if reader.accept_symbol(",") else None
    policy = _policy(reader)
    reader.expect("BEGIN")
    try:
        select = read_select(reader)
    except StatementError as error:
        error.hint = error.hint or _CQ_HINT
        raise
    reader.expect("END")
    query = CreateContinuousQuery(
        name,
        every,
        boundary,
        start,
        stop,
        policy,
        select,
        reader.fragment(0, len(reader.words)).sql,
        reader.fragment(first, end),
    )
    check_continuous_query(query)
    return query


def _policy(reader: Reader) -> TimeoutPolicy:
    if not reader.accept("TIMEOUT"):
        return "BLOCKED"
    reader.expect("POLICY")
    if reader.accept("DISCARD"):
        return "DISCARD"
    if reader.accept("BLOCKED"):
        return "BLOCKED"
    raise reader.unexpected("the policy BLOCKED or DISCARD", ("BLOCKED", "DISCARD"))


def _own_name(reader: Reader, what: str) -> str:
    word = reader.peek()
    # A name may begin with a digit, as a node of a path may.
    name = take_identifier(reader, what)[0] if word.kind is not Kind.NUMBER else read_node(reader, what)
    if len(name) > _MAX_NAME or not name.strip():
        raise reader.error("BAD_NAME", f"{what} has 1 to {_MAX_NAME} characters", word=word)
    return name


def _drop_cq(reader: Reader) -> DropContinuousQuery:
    first = reader.at
    name = _own_name(reader, "the name of a continuous query")
    return DropContinuousQuery(name, reader.fragment(first, reader.at))


def _backfill_cq(reader: Reader) -> BackfillContinuousQuery:
    first = reader.at
    name = _own_name(reader, "the name of a continuous query")
    place = reader.fragment(first, reader.at)
    reader.expect("FROM")
    start = read_instant(reader, "the start")
    end = read_instant(reader, "the end") if reader.accept("TO") else None
    return BackfillContinuousQuery(name, start, end, place)


# --- triggers -------------------------------------------------------------------------------------


def _create_trigger(reader: Reader, *, stateful: bool) -> CreateTrigger:
    first = reader.at
    name = _own_name(reader, "the name of a trigger")
    end = reader.at
    event = _event(reader)
    reader.expect("ON")
    pattern = read_path(reader, "a pattern such as root.ln.**", wildcards=True)
    reader.expect("AS")
    class_name = take_string(reader, "the class in quotes, such as 'package.module.Class'")
    uri = take_string(reader, "a URI in quotes") if reader.accept("USING", "URI") else None
    attributes = tuple(reader.list_of(lambda: _attribute(reader))) if reader.accept("WITH") else ()
    return CreateTrigger(
        name,
        stateful,
        event,
        pattern,
        class_name,
        uri,
        attributes,
        reader.fragment(0, len(reader.words)).sql,
        reader.fragment(first, end),
    )


def _event(reader: Reader) -> Event:
    before = reader.accept("BEFORE")
    if not before and not reader.accept("AFTER"):
        raise reader.unexpected("BEFORE INSERT or AFTER INSERT", ("BEFORE", "AFTER"))
    if not reader.accept("INSERT"):
        raise reader.unexpected("INSERT: only inserts fire triggers", ("INSERT",))
    return "BEFORE_INSERT" if before else "AFTER_INSERT"


def _attribute(reader: Reader) -> tuple[str, str]:
    is_text = reader.peek().kind is Kind.STRING
    key = reader.take().text if is_text else take_identifier(reader, "an attribute's name")[0]
    reader.expect_symbol("=")
    return key, take_string(reader, "an attribute's value in quotes")


def _drop_trigger(reader: Reader) -> DropTrigger:
    first = reader.at
    name = _own_name(reader, "the name of a trigger")
    return DropTrigger(name, reader.fragment(first, reader.at))


_STATEMENTS: dict[tuple[str, ...], Callable[[Reader], TreeStatement]] = {
    ("CREATE", "DATABASE"): _create_database,
    ("CREATE", "TIMESERIES"): _create_timeseries,
    ("CREATE", "ALIGNED", "TIMESERIES"): _create_aligned,
    ("CREATE", "CQ"): _create_cq,
    ("CREATE", "CONTINUOUS", "QUERY"): _create_cq,
    ("CREATE", "STATELESS", "TRIGGER"): lambda reader: _create_trigger(reader, stateful=False),
    ("CREATE", "STATEFUL", "TRIGGER"): lambda reader: _create_trigger(reader, stateful=True),
    ("DELETE", "DATABASE"): _drop_database,
    ("DROP", "DATABASE"): _drop_database,
    ("DROP", "CQ"): _drop_cq,
    ("DROP", "CONTINUOUS", "QUERY"): _drop_cq,
    ("BACKFILL", "CQ"): _backfill_cq,
    ("BACKFILL", "CONTINUOUS", "QUERY"): _backfill_cq,
    ("DROP", "TRIGGER"): _drop_trigger,
    ("INSERT", "INTO"): _insert,
    ("SHOW", "DATABASES"): lambda _: ShowTreeDatabases(),
    ("SHOW", "TIMESERIES"): lambda reader: ShowTimeseries(_pattern(reader)),
    ("SHOW", "DEVICES"): lambda reader: ShowDevices(_pattern(reader)),
    ("COUNT", "TIMESERIES"): _count_timeseries,
    ("COUNT", "DEVICES"): lambda reader: CountTree(of_devices=True, pattern=_pattern(reader)),
    ("SHOW", "CQS"): lambda _: ShowContinuousQueries(),
    ("SHOW", "CONTINUOUS", "QUERIES"): lambda _: ShowContinuousQueries(),
    ("SHOW", "TRIGGERS"): lambda _: ShowTriggers(),
}
_PAGE = "`lakestream docs coming-from/iotdb` has what there is"
_UNBUILT: tuple[tuple[str, ...], ...] = (
    ("ALTER", "CQ"),
    ("ALTER", "CONTINUOUS", "QUERY"),
    ("ALTER", "TIMESERIES"),
    ("DROP", "TIMESERIES"),
    ("DELETE", "TIMESERIES"),
    ("DELETE", "FROM"),
    ("CREATE", "PIPE"),
    ("CREATE", "FUNCTION"),
    ("SET", "TTL"),
)
