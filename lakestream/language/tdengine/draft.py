"""A CREATE STREAM as far as it has been read, and the definition that comes of it in every syntax."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.language.expressions.checks import IDLE_TIMEOUT, StreamFacts, check_stream
from lakestream.language.expressions.parsing import given_name, parse_query, text_of
from lakestream.language.model import (
    CLOCK,
    LAYOUT_CLAUSES,
    RESULTS,
    EventFunction,
    Expectation,
    Fragment,
    GroupKey,
    Notification,
    OutputLayout,
    StreamDefinition,
    TableName,
    TagDefinition,
)
from lakestream.language.names import FreeNames, name_of_text
from lakestream.language.tdengine.idle import idle_trigger
from lakestream.language.tdengine.options import Options

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError, StatementError
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word
    from lakestream.language.tdengine.triggers import ReadTrigger


@dataclass
class Draft:
    """What has been read of a CREATE STREAM so far; ``words`` holds the first word of each clause."""

    trigger: ReadTrigger
    source: TableName | None = None
    partition_by: tuple[GroupKey, ...] = ()
    options: Options = field(default_factory=Options)
    output: TableName | None = None
    subtable: Fragment | None = None
    columns: tuple[str, ...] = ()
    composite_key: bool = False
    tags: tuple[TagDefinition, ...] | None = None
    layout: OutputLayout = field(default_factory=OutputLayout)
    calculation: Fragment | None = None
    notification: Notification | None = None
    expectations: list[Expectation] = field(default_factory=list)
    functions: list[EventFunction] = field(default_factory=list)
    words: dict[str, Word] = field(default_factory=dict)
    unbuilt: list[NotSupportedError] = field(default_factory=list)


def definition(reader: Reader, name: TableName, draft: Draft) -> StreamDefinition:
    """Return the definition of a draft; raises StatementError and NotSupportedError."""
    _check_clauses(reader, draft)
    _check_notification(reader, draft)
    idle = idle_trigger(reader, draft)
    labels = _name_results(draft)
    facts = StreamFacts(
        trigger=IDLE_TIMEOUT if idle else draft.trigger.name,
        output=draft.output,
        partition_by=draft.partition_by,
        columns=draft.columns,
        tags=draft.tags or (),
        subtable=draft.subtable,
        calculation=draft.calculation,
        pre_filter=draft.options.values.pre_filter,
        notify_where=draft.notification.where if draft.notification else None,
        expectations=tuple(draft.expectations),
        labels=labels,
        has_source=draft.source is not None,
        fires_at_open=draft.options.values.emission.at_open,
        filters_rows=draft.options.values.late.drops,
    )
    check_stream(facts)
    unbuilt = draft.trigger.unbuilt + draft.unbuilt
    if unbuilt:
        raise min(unbuilt, key=lambda e: (e.place.line, e.place.column) if e.place else (0, 0))
    calculation = draft.calculation or _no_calculation(reader, draft)
    assert draft.trigger.value is not None  # every kind that is read has a value
    first, last = reader.words[0], reader.words[-1]
    return StreamDefinition(
        name=name,
        trigger=idle or draft.trigger.value,
        source=draft.source or CLOCK,
        partition_by=draft.partition_by,
        options=replace(draft.options.values),
        output=draft.output or RESULTS,
        subtable=draft.subtable,
        columns=draft.columns,
        composite_key=draft.composite_key,
        tags=draft.tags,
        calculation=calculation,
        text=reader.source.text[first.start : last.end],
        notification=replace(draft.notification, labels=labels) if draft.notification else None,
        calculates=draft.calculation is not None,
        layout=draft.layout,
        expectations=tuple(draft.expectations),
        functions=tuple(draft.functions),
    )


def _no_calculation(reader: Reader, draft: Draft) -> Fragment:
    """Return what stands for the calculation of a stream that only tells of its events."""
    if draft.notification is None or draft.output is not None:
        raise _missing(reader, "INTO" if draft.output is None else "AS")
    place = draft.words["NOTIFY"]
    line, column = reader.source.position(place.start)
    return Fragment("SELECT _tgrpid AS fired", line, column, reader.source.text)


def _name_results(draft: Draft) -> tuple[str, ...]:
    """Return the names of the results in messages, where a column without one is called by its text.

    What is stored nowhere is held under names made of those.
    """
    if draft.calculation is None or draft.notification is None:
        return ()
    items = parse_query(draft.calculation).selects
    if draft.columns or any(item.is_star for item in items):
        return draft.columns
    labels = tuple(given_name(item) or text_of(item) for item in items)
    if draft.output is None:
        free = FreeNames(())
        draft.columns = tuple(free.take(name_of_text(label)) for label in labels)
    return labels


def _missing(reader: Reader, clause: str) -> StatementError:
    what = {"INTO": "INTO with the output table is missing", "AS": "AS with the query is missing"}[clause]
    return reader.error(f"{clause}_MISSING", what, hint="… INTO table AS SELECT …")


_NEED_SOURCE = ("PRE_FILTER", "IGNORE_NODATA_TRIGGER", "IGNORE_DISORDER", "EXPIRED_TIME")
_NEED_CALCULATION = ("CALC_NOTIFY_ONLY", "EVENT_TYPE", "MAX_DELAY", "FORCE_OUTPUT", "LOW_LATENCY_CALC")


def _check_notification(reader: Reader, draft: Draft) -> None:
    """Hold NOTIFY, INTO and AS against one another."""
    if "CALC_NOTIFY_ONLY" in draft.options.words:
        _check_notify_only(reader, draft, draft.options.words["CALC_NOTIFY_ONLY"])
    if draft.calculation is None:
        for name in _NEED_CALCULATION:
            if name in draft.options.words:
                raise reader.error(
                    "OPTION_WITHOUT_EFFECT",
                    f"{name} is about a calculation, and there is none",
                    word=draft.options.words[name],
                    hint="AS SELECT …",
                )
    if draft.output is None:
        _check_without_output(reader, draft)


def _check_notify_only(reader: Reader, draft: Draft, word: Word) -> None:
    if draft.notification is None:
        raise reader.error("NOTIFY_MISSING", "CALC_NOTIFY_ONLY sends results: NOTIFY is missing", word=word)
    if draft.output is not None:
        raise reader.error(
            "OPTIONS_EXCLUDE",
            f"CALC_NOTIFY_ONLY stores nothing, INTO {draft.output} does",
            word=draft.words["INTO"],
            hint="leave one of them out",
        )


def _check_without_output(reader: Reader, draft: Draft) -> None:
    if draft.calculation is not None and not draft.options.values.notify_only:
        error = _missing(reader, "INTO")
        error.hint += ", or STREAM_OPTIONS(CALC_NOTIFY_ONLY) NOTIFY(…) to send the results only"
        raise error
    words = {**draft.words, **draft.options.words}
    for clause in (*LAYOUT_CLAUSES, "OUTPUT_SUBTABLE", "TAGS", "DELETE_OUTPUT_TABLE"):
        if clause in words:
            raise reader.error(
                "INTO_MISSING", f"{clause} is about the output table: INTO is missing", word=words[clause]
            )


def _check_clauses(reader: Reader, draft: Draft) -> None:
    if draft.source is None and draft.trigger.name != "PERIOD":
        raise reader.error(
            "TRIGGER_TABLE",
            f"FROM with the trigger table is missing: {draft.trigger.name} needs one",
            word=draft.words.get("INTO") or draft.words.get("AS"),
            hint=f"{draft.trigger.name}(…) FROM table",
        )
    if draft.source is None and draft.partition_by:
        raise reader.error(
            "TRIGGER_TABLE",
            "PARTITION BY needs a trigger table",
            word=draft.words["PARTITION BY"],
            hint="PERIOD(…) FROM table PARTITION BY …",
        )
    if draft.source is None and not all(one.of_results for one in draft.expectations):
        raise reader.error(
            "TRIGGER_TABLE",
            "EXPECT before INTO is about rows of the trigger table, and there is none",
            word=draft.words["EXPECT"],
            hint="behind INTO it is about rows of the output",
        )
    for name in _NEED_SOURCE:
        if draft.source is None and name in draft.options.words:
            raise reader.error(
                "TRIGGER_TABLE",
                f"{name} needs a trigger table",
                word=draft.options.words[name],
                hint="PERIOD(…) FROM table",
            )
    for clause in ("OUTPUT_SUBTABLE", "TAGS"):
        if clause in draft.words and not draft.partition_by:
            raise reader.error(
                f"{clause}_WITHOUT_GROUPS",
                f"{clause} needs groups",
                word=draft.words[clause],
                hint="add PARTITION BY, for example PARTITION BY tbname",
            )
    if draft.options.values.delete_output and not any(key.is_tbname for key in draft.partition_by):
        raise reader.error(
            "DELETE_OUTPUT_WITHOUT_TBNAME",
            "DELETE_OUTPUT_TABLE needs a stream that is grouped by table",
            word=draft.options.words["DELETE_OUTPUT_TABLE"],
            hint="PARTITION BY tbname",
        )
    _check_output(reader, draft)


def _check_output(reader: Reader, draft: Draft) -> None:
    if draft.output is None:
        return
    into = draft.words.get("INTO")  # of a view its query is looked at
    if into is not None and draft.source is not None and _same(draft.output, draft.source):
        raise reader.error(
            "OUTPUT_IS_SOURCE", f"INTO {draft.output}: the output cannot be the trigger table", word=into
        )
    tags = [t.name for t in draft.tags] if draft.tags is not None else [k.name for k in draft.partition_by]
    taken = {column.lower() for column in draft.columns}
    for tag in tags:
        if tag.lower() in taken:
            raise reader.error(
                "DUPLICATE_COLUMN",
                f"{tag} is both an output column and a tag",
                word=draft.words.get("columns"),
                hint="rename the column, or the tag with TAGS (…)",
            )


def _same(one: TableName, other: TableName) -> bool:
    # Without a database both stand in the current one; other mixtures are for the lake to compare.
    return str(one).lower() == str(other).lower()
