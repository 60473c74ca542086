"""Which tables streams and continuous queries read and write, and of what the columns there are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.creation.compile import compile_record
from lakestream.engine.streams.origins import columns_of_stream
from lakestream.engine.streams.target import output_shape
from lakestream.sorting import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakestream.engine.streams.origins import ColumnLineage
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.records.registry import Registry, StreamRecord
    from lakestream.timeseries.origins import QueryOrigins, WrittenTable


@dataclass(frozen=True)
class StreamLineage:
    """A stream, the tables that it reads and writes (None: it only notifies), and the columns of its output.

    ``columns`` is empty where it was not asked for.
    """

    stream: str
    reads: tuple[str, ...]
    writes: str | None
    columns: tuple[ColumnLineage, ...]


@dataclass(frozen=True)
class QueryLineage:
    """A continuous query, the tables that it reads, and those that it writes with their columns."""

    query: str
    reads: tuple[str, ...]
    writes: tuple[WrittenTable, ...]


@dataclass(frozen=True)
class Lineage:
    """The tables, as (name, kind), and the streams and continuous queries between them."""

    tables: tuple[tuple[str, str], ...]
    streams: tuple[StreamLineage, ...]
    queries: tuple[QueryLineage, ...] = ()


_KINDS = {"table": "table", "stable": "super table", "output": "output", "quarantine": "quarantine"}


def lineage(
    registry: Registry,
    catalog: Catalog,
    queries: Mapping[str, QueryOrigins],
    around: StreamRecord | None = None,
    *,
    columns: bool = False,
) -> Lineage:
    """Return the lineage of all streams and continuous queries (by name), or of what one stream is among.

    Around a stream is all that leads to it and that goes on from it. Raises StatementError where ``columns``
    are asked for and a table or column that a stream reads has gone.
    """
    records = registry.streams()
    streams = {record.uuid: _of_stream(record) for record in records}
    asked = [QueryLineage(name, found.reads, found.writes) for name, found in queries.items()]
    near: set[StreamLineage | QueryLineage] = {*streams.values(), *asked}
    if around is not None:
        start = streams[around.uuid]
        near = _reached(near, start, down=True) | _reached(near, start, down=False)
    names = {name for one in near for name in (*one.reads, *_written(one))}
    return Lineage(
        tuple((name, _kind_of(catalog, name)) for name in sorted(names, key=natural)),
        tuple(
            replace(one, columns=column_lineage(record, catalog)) if columns and one.writes else one
            for record, one in zip(records, streams.values(), strict=True)
            if one in near
        ),
        tuple(one for one in asked if one in near),
    )


def _of_stream(record: StreamRecord) -> StreamLineage:
    return StreamLineage(f"{record.database}.{record.name}", record.sources, record.table, ())


def _written(one: StreamLineage | QueryLineage) -> tuple[str, ...]:
    if isinstance(one, QueryLineage):
        return tuple(table.table for table in one.writes)
    return () if one.writes is None else (one.writes,)


def _kind_of(catalog: Catalog, name: str) -> str:
    info = catalog.find_table(*name.split(".", 1))
    return _KINDS[info.kind] if info is not None else "table"


def _reached(
    all_of_them: Iterable[StreamLineage | QueryLineage], start: StreamLineage, *, down: bool
) -> set[StreamLineage | QueryLineage]:
    """Return a stream with what it leads to, or with what leads to it."""
    found: set[StreamLineage | QueryLineage] = {start}
    new: list[StreamLineage | QueryLineage] = [start]
    while new:
        one = new.pop()
        for other in all_of_them:
            ends = (_written(one), other.reads) if down else (_written(other), one.reads)
            if other not in found and set(ends[0]) & set(ends[1]):
                found.add(other)
                new.append(other)
    return found


def column_lineage(record: StreamRecord, catalog: Catalog) -> tuple[ColumnLineage, ...]:
    """Return what each column of a registered stream's output is made of, in the output's order.

    Raises StatementError where a table or column that the stream reads has gone.
    """
    stream = compile_record(record, catalog)
    compiled = record.compiled
    shape = output_shape(
        stream.definition,
        stream.calculation.names,
        compiled.result_types,
        compiled.group_types,
        stream.zone,
    )
    return columns_of_stream(stream, shape)
