"""Outputs that earlier versions made, written anew in the layout that new ones have.

Such an output says in three columns which window a row is of, and its groups by columns have a name in
``tbname`` that is made of a hash. What a table's columns are for stands in its description. Three commits
change that, and after each of them the output is read as it is:

1. the description tells of both layouts; which one holds, the table's columns say;
2. the rows, with the new columns: the commit that counts, which says that it changes no row;
3. the description tells of the new layout alone.

A crash in between leaves the old layout or the new one, and the next migration goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakestream.engine.base.faults import crash_point
from lakestream.engine.creation.compile import compile_record
from lakestream.engine.creation.create import open_target
from lakestream.engine.rounds.runtime import mark_of
from lakestream.engine.streams.target import columns_of, output_shape
from lakestream.errors import LakestreamError
from lakestream.language.quoting import quoted
from lakestream.output.columns import FLAT, TBNAME
from lakestream.storage.delta import read_spark, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.output.columns import OutputShape
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Registry, StreamRecord

Verdict = Literal["migrated", "to migrate", "current", "left out", "failed"]


@dataclass(frozen=True)
class Migrated:
    """What became of a stream's output, with a dry run what would; ``why`` it was left out or failed.

    ``dropped`` and ``added`` are the columns that went and came, ``rows`` the number of rows written anew.
    """

    stream: str
    output: str | None
    verdict: Verdict
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    rows: int = 0
    why: str | None = None


@dataclass(frozen=True)
class _Move:
    """An output in the old layout, as it is and as it is to be."""

    info: TableInfo
    following: TableInfo
    shape: OutputShape

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that go."""
        kept = {column.name for column in self.following.columns}
        return tuple(column.name for column in self.info.columns if column.name not in kept)

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that come."""
        return self.following.hidden

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that would be lost, or that the new layout has under another name."""
        known = {*FLAT.types, TBNAME, *(tag.name for tag in self.info.tags)}
        there = {column.name for column in self.info.columns}
        named = [column.name for column in self.shape.columns if column.name not in there]
        return (*(name for name in self.dropped if name not in known), *named)

    @property
    def selected(self) -> list[str]:
        """The new columns as Spark SQL over the old ones."""
        own = [quoted(column.name) for column in self.shape.columns]
        return [*own, self.shape.places.taken_from(FLAT)]


@dataclass(frozen=True)
class Migration:
    """Migrates outputs of one lake, one after the other.

    ``claiming`` keeps others from a stream and its output, ``writing`` takes the lake's lock for a moment.
    """

    catalog: Catalog
    registry: Registry
    spark: Callable[[], SparkSession]
    claiming: Callable[[StreamRecord], AbstractContextManager[None]]
    writing: Callable[[], AbstractContextManager[None]]
    dry_run: bool

    def run(self, records: Iterable[StreamRecord]) -> Iterator[Migrated]:
        """Yield what became of the output of each stream; one that fails does not stop the others."""
        for record in records:
            name = f"{record.database}.{record.name}"
            try:
                with self.claiming(record):
                    yield self._of(record)
            except LakestreamError as error:
                yield Migrated(name, record.table, "failed", why=str(error))

    def _of(self, record: StreamRecord) -> Migrated:
        name = f"{record.database}.{record.name}"
        if record.table is None:
            return Migrated(name, None, "current", why="it stores no rows")
        stream = compile_record(record, self.catalog)
        mark = mark_of(record, self.registry.last(record.uuid)[1])
        target = open_target(stream, record, self.catalog, self.spark, mark)
        move = self._move(stream, record, target)
        if move is None:
            return Migrated(name, record.table, "current")
        listed = Migrated(name, record.table, "to migrate", move.dropped, move.added)
        if not self.dry_run:
            self.spark()  # nobody waits for its start
        with self.writing():
            obstacle = self._obstacle(record, move)
            if obstacle is not None:
                return replace(listed, verdict="left out", why=obstacle)
            if self.dry_run:
                return listed
            # Whoever runs the stream reads it anew, and so what its output is like.
            self.registry.update(record.uuid, migrated=tuple(move.added))
            self.catalog.describe(move.info, following=move.following)
        # No stream that reads it is created meanwhile.
        crash_point("G1")
        return replace(listed, verdict="migrated", rows=self._migrate(move))

    def _move(self, stream: Stream, record: StreamRecord, target: Target) -> _Move | None:
        """Return how an output is to change, None for one that is as new ones are, or the user's."""
        info = target.info
        if target.shape.provenance is not FLAT or info.writer is None:
            return None
        types = (record.compiled.result_types, record.compiled.group_types)
        shape = output_shape(stream.definition, stream.calculation.names, *types, stream.zone)
        hidden = tuple(shape.places.types)
        following = replace(info, columns=tuple(columns_of(shape)), key=shape.key, hidden=hidden)
        return _Move(info, following, shape)

    def _obstacle(self, record: StreamRecord, move: _Move) -> str | None:
        """Return why an output stays as it is, None where nothing stands in the way."""
        if move.info.external:
            return "it lies outside the lake"
        if move.others:
            return f"it has columns beside the stream's: {', '.join(move.others)}"
        if TBNAME not in move.dropped:
            return None
        readers = [
            f"{one.database}.{one.name}" for one in self.registry.streams() if record.output in one.sources
        ]
        if readers:
            return f"{', '.join(readers)} reads its tbname, or may: drop that stream and create it again"
        return None

    def _migrate(self, move: _Move) -> int:
        """Write an output anew, and return its number of rows."""
        table = self.catalog.handles.latest(move.info.path)
        rows = read_spark(self.spark(), table, table.version).selectExpr(*move.selected)
        count = rewrite(table, rows)
        crash_point("G2")
        self.catalog.describe(move.following)
        crash_point("G3")
        return count
