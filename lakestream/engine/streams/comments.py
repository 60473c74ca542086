"""Comments of the tables that a stream reads, carried into its outputs.

A result that is a column as it is has that column's comment, and the output says what its source is; both
unless the statement gives comments of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.errors import StreamError
from lakestream.storage.delta import read_commits
from lakestream.storage.names.comments import OF_TABLE, comments_of, set_comments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.output.columns import OutputShape
    from lakestream.storage.delta import Tables
    from lakestream.storage.names.table_info import TableInfo


def commented(stream: Stream, shape: OutputShape) -> OutputShape:
    """Return the columns of an output with the comments of what they are, where they have none."""
    read = {f"{info.database}.{info.name}": info for info in (stream.source.info, *stream.tables.values())}
    texts = {(name, one.name): one.comment for name, info in read.items() for one in info.columns}
    if not any(texts.values()):
        return shape
    found = {column: texts.get(origin) for column, origin in _copies(stream, shape).items()}
    columns = (replace(one, comment=one.comment or found.get(one.name)) for one in shape.columns)
    return replace(shape, columns=tuple(columns))


def comment_of_output(stream: Stream) -> str | None:
    """Return the comment of an output: that of a view's statement, or what its source is."""
    view, source = stream.definition.options.view, stream.source.info
    return (view.comment if view is not None else None) or _of_source(source, source.comment) or None


def _of_source(source: TableInfo, text: str | None) -> str:
    return f"from {source.database}.{source.name}: {text}" if text else ""


def _copies(stream: Stream, shape: OutputShape) -> dict[str, tuple[str, str]]:
    """Return the columns that are one of a table as it is, and which: (table, column)."""
    from lakestream.engine.streams.origins import columns_of_stream

    return {
        column.column: (column.origins[0].table, column.origins[0].column)
        for column in columns_of_stream(stream, shape)
        if column.copied and column.origins
    }


def follow_comments(
    stream: Stream,
    target: Target,
    tables: Tables,
    versions: Mapping[str, tuple[int, int]],
    spark: Callable[[], SparkSession],
) -> None:
    """Have the outputs say what tables say now that have said something else.

    ``versions`` are those of the tables, by path, that comments are as of, and that they are to be as of. A
    comment that is another than the one carried is its owner's, and stays. ``spark`` gives the session for
    an output that delta-rs does not write. What is done is done again without harm.
    """
    changed = {path: _changed(tables, path, *span) for path, span in versions.items()}
    if not any(changed.values()):
        return
    for info, texts in _carried(stream, target, changed):
        table = tables.latest(info.path)
        there = comments_of(table.handle)
        new = {name: now for name, (old, now) in texts.items() if there.get(name, "") == old and now != old}
        set_comments(table, new, spark)


_Changed = dict[str, tuple[str, str]]
"""Comments by column: the one that was, and the one that is."""


def _changed(tables: Tables, path: str, after: int, upto: int) -> _Changed:
    """Return the comments that differ between two versions of a table; none where its log lacks them."""
    try:
        if not any(commit.schema_changed for commit in read_commits(path, after, upto)):
            return {}
        old, now = (comments_of(tables.open(path).at(version)) for version in (after, upto))
    except StreamError:
        return {}
    names = [name for name in {**old, **now} if old.get(name) != now.get(name)]
    return {name: (old.get(name, ""), now.get(name, "")) for name in names}


def _carried(
    stream: Stream, target: Target, changed: Mapping[str, _Changed]
) -> Iterator[tuple[TableInfo, _Changed]]:
    """Give the tables that a stream writes, with the comments of theirs that are to be others."""
    source = stream.source.info
    read = {f"{info.database}.{info.name}": info.path for info in (source, *stream.tables.values())}
    texts: _Changed = {}
    for column, (table, name) in _copies(stream, target.shape).items():
        of_table = changed.get(read[table], {})
        if name in of_table:
            texts[column] = of_table[name]
    if target.refused is not None:
        yield target.refused.info, texts
    of_source = changed.get(source.path, {})
    if OF_TABLE in of_source:
        old, now = of_source[OF_TABLE]
        texts = {**texts, OF_TABLE: (_of_source(source, old), _of_source(source, now))}
    if target.info.writer == stream.uuid:
        yield target.info, texts
    if target.quarantine is not None:
        yield target.quarantine, {name: text for name, text in of_source.items() if name != OF_TABLE}
