"""A CREATE STREAM as far as it has been read, and the definition that comes of it in every syntax."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.language.checks import StreamFacts, check_stream
from lakestream.language.model import (
    CLOCK,
    Fragment,
    GroupKey,
    StreamDefinition,
    TableName,
    TagDefinition,
)
from lakestream.language.options import Options

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError, StatementError
    from lakestream.language.reader import Reader
    from lakestream.language.triggers import ReadTrigger
    from lakestream.language.words import Word


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
    calculation: Fragment | None = None
    notify_where: Fragment | None = None
    words: dict[str, Word] = field(default_factory=dict)
    unbuilt: list[NotSupportedError] = field(default_factory=list)


def definition(reader: Reader, name: TableName, draft: Draft) -> StreamDefinition:
    """Return the definition of a draft; raises StatementError and NotSupportedError."""
    _check_clauses(reader, draft)
    facts = StreamFacts(
        trigger=draft.trigger.name,
        output=draft.output,
        partition_by=draft.partition_by,
        columns=draft.columns,
        tags=draft.tags or (),
        subtable=draft.subtable,
        calculation=draft.calculation,
        pre_filter=draft.options.values.pre_filter,
        notify_where=draft.notify_where,
        has_source=draft.source is not None,
        fires_at_open=draft.options.values.at_open,
        filters_rows=draft.options.values.drops_late,
    )
    check_stream(facts)
    unbuilt = draft.trigger.unbuilt + draft.unbuilt
    if unbuilt:
        raise min(unbuilt, key=lambda e: (e.place.line, e.place.column) if e.place else (0, 0))
    if draft.output is None or draft.calculation is None:
        missing = "INTO" if draft.output is None else "AS"
        raise _missing(reader, missing)
    assert draft.trigger.value is not None  # every kind that is read has a value
    first, last = reader.words[0], reader.words[-1]
    return StreamDefinition(
        name=name,
        trigger=draft.trigger.value,
        source=draft.source or CLOCK,
        partition_by=draft.partition_by,
        options=replace(draft.options.values),
        output=draft.output,
        subtable=draft.subtable,
        columns=draft.columns,
        composite_key=draft.composite_key,
        tags=draft.tags,
        calculation=draft.calculation,
        text=reader.source.text[first.start : last.end],
    )


def _missing(reader: Reader, clause: str) -> StatementError:
    what = {"INTO": "INTO with the output table is missing", "AS": "AS with the query is missing"}[clause]
    return reader.error(f"{clause}_MISSING", what, hint="… INTO table AS SELECT …")


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
    if draft.source is not None and _same(draft.output, draft.source):
        raise reader.error(
            "OUTPUT_IS_SOURCE",
            f"INTO {draft.output}: the output cannot be the trigger table",
            word=draft.words["INTO"],
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
