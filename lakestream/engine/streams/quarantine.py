"""The quarantine of a stream: the rows of its source, and those of its output, that expectations put there.

A row is there as long as it does not meet them: rows of the source as it is at the stream's version, rows of
the output as its windows give them. They are in tables of their own, with all columns, so that what is
mended can be inserted from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.names import visible_columns
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.source import place_of
from lakestream.language.model import DROP, QUARANTINE
from lakestream.output.columns import OutputColumn
from lakestream.storage.names.table_info import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakestream.engine.streams.source import Source
    from lakestream.engine.streams.target import Target
    from lakestream.language.model import StreamDefinition
    from lakestream.output.columns import OutputShape
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import TickPlan

SOURCE_SUFFIX, RESULTS_SUFFIX = "__quarantine", "__quarantine_results"
AT, TICK, REASON = "quarantine_at", "quarantine_tick", "quarantine_reason"
COLUMNS = {AT: "timestamp", TICK: "bigint", REASON: "string"}
"""What a quarantine says of a row, behind its columns: since when, by which tick, and why it is there."""


def said_sql(plan: TickPlan, reason: str) -> str:
    """Return select items of what a tick says of rows that it puts into a quarantine."""
    return f"timestamp_micros({plan.clock_us}L) AS {AT}, {plan.tick}L AS {TICK}, {reason} AS {REASON}"


@dataclass(frozen=True)
class Quarantine:
    """The quarantines that a stream has, as they are to be: columns by table."""

    definition: StreamDefinition
    writer: str

    def _has(self, *, of_results: bool) -> bool:
        return any(one.action == QUARANTINE for one in self.definition.expected(of_results=of_results))

    def of_source(self, catalog: Catalog, source: Source) -> TableInfo | None:
        """Return the table of source rows, made where it is missing; None: the stream has none."""
        if not self._has(of_results=False):
            return None
        info = source.info
        columns = [replace(info.column(name), is_tag=False) for name in visible_columns(info)]
        columns += [Column(name, kind) for name, kind in COLUMNS.items()]
        return self._table(catalog, SOURCE_SUFFIX, columns, info.time_column)

    def of_results(self, catalog: Catalog, target: Target) -> Target | None:
        """Return what rows of the output are written to that are put there, made where it is missing."""
        if not self._has(of_results=True):
            return None
        shape = quarantine_shape(target.shape)
        said = {column.name: column.comment for column in target.info.columns}
        columns = [Column(column.name, column.type, said.get(column.name)) for column in shape.columns]
        columns += [Column(name, kind) for name, kind in shape.places.types.items()]
        hidden = tuple(shape.places.types)
        info = self._table(catalog, RESULTS_SUFFIX, columns, target.info.time_column, shape.key, hidden)
        return replace(target, info=info, shape=shape, errors=None)

    def _table(
        self,
        catalog: Catalog,
        suffix: str,
        columns: Sequence[Column],
        time: str,
        key: Sequence[str] = (),
        hidden: Sequence[str] = (),
    ) -> TableInfo:
        database, name = _name(self.definition, suffix)
        there = catalog.find_table(database, name)
        if there is None:
            return catalog.create_table(
                *(database, name, columns),
                kind="quarantine",
                time_column=time,
                key=key,
                hidden=hidden,
                writer=self.writer,
            )
        known = {column.name for column in there.columns}
        for column in columns:
            if column.name not in known:
                there = catalog.add_column(database, name, column)
        return there

    def refuse_taken(self, catalog: Catalog) -> None:
        """Raise StatementError TABLE_EXISTS where a quarantine's name is that of another table."""
        for suffix, of_results in ((SOURCE_SUFFIX, False), (RESULTS_SUFFIX, True)):
            database, name = _name(self.definition, suffix)
            there = catalog.find_table(database, name) if self._has(of_results=of_results) else None
            if there is not None and (there.kind, there.writer) != ("quarantine", self.writer):
                raise StatementError(
                    "TABLE_EXISTS",
                    f"there is a table {database}.{name}, where rows of the stream would be put",
                    hint="DROP TABLE it, or give the stream another name",
                )

    def missing(self, catalog: Catalog) -> Iterator[str]:
        """Yield the names of those that are to be there and are not."""
        for suffix, of_results in ((SOURCE_SUFFIX, False), (RESULTS_SUFFIX, True)):
            database, name = _name(self.definition, suffix)
            if self._has(of_results=of_results) and catalog.find_table(database, name) is None:
                yield f"{database}.{name}"

    def drop(self, catalog: Catalog) -> None:
        """Drop the stream's quarantines: another definition puts other rows, or others' columns, there."""
        for suffix in (SOURCE_SUFFIX, RESULTS_SUFFIX):
            database, name = _name(self.definition, suffix)
            there = catalog.find_table(database, name)
            if there is not None and (there.kind, there.writer) == ("quarantine", self.writer):
                catalog.drop_table(database, name)


def _name(definition: StreamDefinition, suffix: str) -> tuple[str, str]:
    return definition.name.database or "", f"{definition.name.name}{suffix}"


def quarantine_shape(shape: OutputShape) -> OutputShape:
    """Return the shape of an output's rows in the quarantine: with why they are there, and their windows."""
    said = [OutputColumn(name, kind, name) for name, kind in COLUMNS.items()]
    plain = (replace(column, is_tag=False) for column in shape.columns)
    return replace(shape, columns=(*plain, *said))


def refuse_unfit(definition: StreamDefinition, source: Source, target: OutputShape, table: str) -> None:
    """Refuse expectations that cannot be followed to the end, by name.

    Raises NotSupportedError, StatementError DUPLICATE_COLUMN.
    """
    for one in definition.expectations:
        place = place_of(one.condition)
        what = f"ON VIOLATION {one.action} of result rows"
        if one.of_results and one.action in (DROP, QUARANTINE):
            if definition.notification is not None:
                raise NotSupportedError(
                    f"{what} of a stream that notifies",
                    hint="NOTIFY … ON (…) WHERE (condition) says which results are told",
                    place=place,
                )
            if definition.options.fill is not None and definition.options.fill.mode == "PREV":
                raise NotSupportedError(
                    f"{what} with FILL(PREV), which carries on what the output has", place=place
                )
        if one.action != QUARANTINE:
            continue
        if one.of_results and not target.provenance:
            raise NotSupportedError(
                f"{what} into {table}, whose rows do not say which window they are of",
                hint="write into a new table",
                place=place,
            )
        columns = [column.name for column in target.columns] if one.of_results else source.columns
        taken = sorted({name.lower() for name in columns} & {*COLUMNS})
        if taken:
            raise StatementError(
                "DUPLICATE_COLUMN",
                f"a row with a column {taken[0]} cannot be put into quarantine",
                place=place,
            )
        nested = [column.name for column in source.info.columns if "map<" in column.type]
        if nested and not one.of_results:
            raise NotSupportedError(
                f"QUARANTINE of rows with the map {nested[0]}, which cannot be told from one another",
                hint="ON VIOLATION DROP",
                place=place,
            )
