"""Which tables streams read and write, and how the columns of their outputs come about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.creation.compile import compile_record
from lakestream.engine.streams.origins import columns_of_stream
from lakestream.engine.streams.target import output_shape
from lakestream.sorting import natural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.origins import ColumnLineage
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.records.registry import Registry, StreamRecord


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
class Lineage:
    """The tables, as (name, kind), and the streams between them."""

    tables: tuple[tuple[str, str], ...]
    streams: tuple[StreamLineage, ...]


_KINDS = {"table": "table", "stable": "super table", "output": "output", "quarantine": "quarantine"}


def lineage(
    registry: Registry, catalog: Catalog, around: StreamRecord | None = None, *, columns: bool = False
) -> Lineage:
    """Return the lineage of all streams, or of one with those that lead to it and go on from it.

    Raises StatementError where ``columns`` are asked for and a table or column that a stream reads has gone.
    """
    records = registry.streams()
    if around is not None:
        near = _reached(records, around, down=True) | _reached(records, around, down=False)
        records = [record for record in records if record.uuid in near]
    kinds: dict[str, str] = {}
    for record in records:
        for name in (*record.sources, *([record.table] if record.table else [])):
            kinds.setdefault(name, _kind_of(catalog, name))
    streams = tuple(
        StreamLineage(
            f"{record.database}.{record.name}",
            record.sources,
            record.table,
            column_lineage(record, catalog) if columns and record.table is not None else (),
        )
        for record in records
    )
    return Lineage(tuple(sorted(kinds.items(), key=lambda kind: natural(kind[0]))), streams)


def _kind_of(catalog: Catalog, name: str) -> str:
    info = catalog.find_table(*name.split(".", 1))
    return _KINDS[info.kind] if info is not None else "table"


def _reached(records: Sequence[StreamRecord], start: StreamRecord, *, down: bool) -> set[str]:
    """Return the streams (ids) that one leads to, or that lead to it."""
    found, new = {start.uuid}, [start]
    while new:
        one = new.pop()
        for record in records:
            ends = (one.table, record.sources) if down else (record.table, one.sources)
            if record.uuid not in found and ends[0] in ends[1]:
                found.add(record.uuid)
                new.append(record)
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
