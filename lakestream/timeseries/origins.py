"""Which tables a continuous query reads and writes, and of which series what it writes is made.

It goes by the series that there are now: placeholders and patterns may stand for others later. Devices of
mapped databases are known to those only who read their tables, so of these the tables are told alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.tree.targets import by_time
from lakestream.engine.streams.origins import ColumnLineage, Origin
from lakestream.errors import LakestreamError
from lakestream.language.iotdb.paths import ROOT, Path, has_placeholder, name_of
from lakestream.storage.names.tree import Snapshot, table_name
from lakestream.timeseries.series import device_targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.compute.tree.expand import Output
    from lakestream.compute.tree.series import SeriesQuery
    from lakestream.language.iotdb.values import CreateContinuousQuery, Select
    from lakestream.storage.names.tree import Tree
    from lakestream.timeseries.series import SeriesReader

_ANY_RANGE = (0, 1)
"""A range of a query's windows, where only its columns are asked for."""


@dataclass(frozen=True)
class WrittenTable:
    """A table (``database.name``) that a continuous query writes, and what its columns there are made of.

    ``columns`` is empty where that cannot be told.
    """

    table: str
    columns: tuple[ColumnLineage, ...]


@dataclass(frozen=True)
class QueryOrigins:
    """The tables (``database.name``) that a continuous query reads, and those that it writes."""

    reads: tuple[str, ...]
    writes: tuple[WrittenTable, ...]


def find_origins(statement: CreateContinuousQuery, reader: SeriesReader) -> QueryOrigins:
    """Return the tables of a continuous query; reads none of their rows."""
    select, tree = statement.select, reader.tree
    try:
        mapped = [f"{one.info.database}.{one.info.name}" for one in reader.mapped.reached(select.sources)]
    except LakestreamError:
        mapped = []  # of a table that has gone; the query says so itself
    own = [f"{ROOT}.{name}" for name in tree.own_tables(select.sources)]
    made = {} if mapped else _made(select, reader)
    columns: dict[str, list[ColumnLineage]] = {table: [] for table in _tables(select, tree)}
    for (table, column), (origins, copied) in made.items():
        plain = copied and len(origins) == 1
        columns.setdefault(table, []).append(ColumnLineage(column, tuple(sorted(origins)), plain))
    written = tuple(WrittenTable(table, tuple(found)) for table, found in columns.items())
    return QueryOrigins((*own, *mapped), written)


def _made(select: Select, reader: SeriesReader) -> dict[tuple[str, str], tuple[set[Origin], bool]]:
    """Return by table and column that are written of what these are, and whether they are only copied."""
    found: dict[tuple[str, str], tuple[set[Origin], bool]] = {}
    try:
        query = reader.resolve(select, 0, Snapshot(reader.tree.newest, {}), _ANY_RANGE)
        pairs = [*_pairs(query)] if query.outputs else []
    except LakestreamError:
        return found  # what the series do not go with; the query says so itself
    for output, device, target in pairs:
        series = reader.tree.find(target)
        table = _table_of(reader.tree, target) if series is None else f"{ROOT}.{series.table}"
        column = name_of(target.measurement) if series is None else series.column
        origins, copied = found.get((table, column), (set(), True))
        origins |= {
            Origin(f"{ROOT}.{one.table}", one.column)
            for operand in output.operands
            for one in operand.series
            if device is None or one.path.device == device
        }
        found[table, column] = (origins, copied and output.expression.text == "_p0")
    return found


def _pairs(query: SeriesQuery) -> Iterator[tuple[Output, Path | None, Path]]:
    """Give each column with the device that it is taken of (None: of all) and the series it goes into."""
    if not query.select.by_device:
        targets = by_time(query.select, [output.source for output in query.outputs])
        yield from ((output, None, target) for output, target in zip(query.outputs, targets, strict=True))
        return
    for device, paths in device_targets(query).items():
        yield from ((output, device, path) for output, path in zip(query.outputs, paths, strict=True))


def _tables(select: Select, tree: Tree) -> list[str]:
    """Return the tables of the targets that are known without a source's path."""
    found: dict[str, None] = {}
    for target in select.into:
        nodes = target.device.nodes
        known = next((place for place, node in enumerate(nodes) if has_placeholder(node)), len(nodes))
        if known > 1:
            found[_table_of(tree, Path((*nodes[:known], "")))] = None
    return list(found)


def _table_of(tree: Tree, series: Path) -> str:
    return f"{ROOT}.{table_name(tree.database_of(series))}"
