"""The statements of the IoTDB dialect on one lake, and what is due of its continuous queries and triggers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.instants import instant_micros, to_micros
from lakestream.engine.base.result import Result
from lakestream.errors import LakestreamError, StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb import values
from lakestream.language.iotdb.literals import device_path, measurement_node
from lakestream.language.iotdb.paths import ROOT, Path
from lakestream.storage.names.tree import TIME, Tree, table_name
from lakestream.storage.records.definitions import Definitions
from lakestream.storage.rows.reading import plain
from lakestream.timeseries.continuous import ContinuousQueries
from lakestream.timeseries.firing import Triggers
from lakestream.timeseries.mapped import MappedTables
from lakestream.timeseries.points import AT, Writer, block_of, block_of_values, type_of_arrow
from lakestream.timeseries.series import SeriesReader, blocks_into, latest, shown, written_into

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from lakestream.clock import Clock
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.language.iotdb.paths import Series
    from lakestream.language.iotdb.values import Instant, TreeStatement
    from lakestream.language.model import Now
    from lakestream.settings import Settings
    from lakestream.storage.names.catalog import Catalog
    from lakestream.timeseries.points import Block, Guards

READING = (
    values.ShowTreeDatabases,
    values.ShowTimeseries,
    values.ShowDevices,
    values.CountTree,
    values.ShowContinuousQueries,
    values.ShowTriggers,
)
"""Statements that change nothing (a SELECT without INTO is one too)."""


POINTS = (values.InsertPoints, values.QueryTree)
"""Statements that write points, or none: by the guards of who writes them, so that a query holds none."""


def changes_the_lake(statement: TreeStatement) -> bool:
    """Tell whether a statement writes."""
    if isinstance(statement, values.QueryTree):
        return bool(statement.select.into)
    return not isinstance(statement, READING)


class TreeEngine:
    """The tree of one lake. ``current`` gives the database that tables named without one stand in."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        system_clock: Clock,
        settings: Settings,
        small: Callable[[], SmallPath],
        zone: str,
        *,
        current: Callable[[], str],
        guards: Guards,
    ) -> None:
        self.clock = clock
        self.current = current
        self.zone = zone
        self.tree = Tree(catalog.layout, catalog)
        definitions = Definitions(catalog.layout)
        self._apart = guards.apart
        self.mapped = MappedTables(self.tree, lambda: small().spark(), settings, guards.apart)
        self.reader = SeriesReader(self.tree, self.mapped, small, settings, zone)
        self.triggers = Triggers(definitions, self.tree, self.mapped, clock, settings)
        self.writer = Writer(self.tree, self.triggers, guards)
        self.queries = ContinuousQueries(
            definitions,
            self.reader,
            self.writer,
            clock,
            system_clock,
            settings,
            zone,
            epoch=to_micros(system_clock.now()),
        )

    def run(self, statement: TreeStatement) -> Result:
        """Run a statement. Raises StatementError with the place."""
        return self._handlers[type(statement)](statement)

    def round(self) -> list[TickReport]:
        """Run what is due of continuous queries, then fire AFTER triggers with what was committed."""
        return [*self.queries.round(), *self.triggers.round()]

    def is_idle(self) -> bool:
        """Return whether a round would find nothing to do; needs no lock."""
        return self.queries.is_idle() and self.triggers.is_idle()

    # --- databases and series ---

    def _create_database(self, statement: values.CreateTreeDatabase) -> Result:
        try:
            if statement.mapping is not None:
                return self._map_database(statement.path, statement.mapping)
            self.tree.create_database(statement.path)
        except LakestreamError as error:
            raise error.at(place_of(statement.place)) from None
        return Result(message=f"created database {statement.path}")

    def _map_database(self, path: Path, written: values.TableMapping) -> Result:
        self.tree.check_free(path)
        mapping = replace(written, table=written.table.within(self.current()))
        mapped = self.mapped.checked(path, mapping)
        table = self.tree.catalog.handles.latest(mapped.info.path)

        def counted() -> tuple[int, int]:
            version = self.tree.catalog.handles.latest(mapped.info.path).version
            return version, len(self.mapped.devices(mapped, version))

        about = ("devices", mapped.origin, mapped.info.columns, table.table_id)
        version, devices = self._apart.ask(about, counted)
        self.triggers.begin(mapped, version)
        self.tree.map_database(path, mapping)
        found = f"{devices} device{'s' if devices != 1 else ''}"
        return Result(message=f"created database {path} of {mapping.table}: {found}")

    def _drop_database(self, statement: values.DropTreeDatabase) -> Result:
        try:
            table = self.tree.unmap_database(statement.path)
        except LakestreamError as error:
            raise error.at(place_of(statement.place)) from None
        self.triggers.end(table)
        return Result(message=f"deleted database {statement.path}")

    def _create_timeseries(self, statement: values.CreateTimeseries) -> Result:
        try:
            made = self.tree.add(statement.series)
        except LakestreamError as error:
            raise error.at(place_of(statement.place)) from None
        return Result(message=f"created {', '.join(str(series.path) for series in made)}")

    def _show_databases(self, _: values.ShowTreeDatabases) -> Result:
        return Result(("Database",), [(str(path),) for path in self.tree.databases()])

    def _show_timeseries(self, statement: values.ShowTimeseries) -> Result:
        tables = {table_name(path): str(one.table) for path, one in self.tree.mappings().items()}
        rows = [
            (str(series.path), series.type, tables.get(series.table, f"{ROOT}.{series.table}"), series.column)
            for series in self._series(statement.pattern)
            if statement.pattern is None or statement.pattern.matches(series.path)
        ]
        return Result(("Timeseries", "DataType", "Table", "Column"), rows)

    def _show_devices(self, statement: values.ShowDevices) -> Result:
        return Result(("Device",), [(str(device),) for device in self._devices(statement.pattern)])

    def _count(self, statement: values.CountTree) -> Result:
        """Return how many devices or series there are; by the nodes down to a level, where that is asked."""
        pattern, level = statement.pattern, statement.level
        if statement.of_devices:
            return Result(("count(devices)",), [(len(self._devices(pattern)),)])
        paths = [one.path for one in self._series(pattern) if pattern is None or pattern.matches(one.path)]
        if level is None:
            return Result(("count(timeseries)",), [(len(paths),)])
        nodes = Counter(Path(path.nodes[: level + 1]) for path in paths if len(path.nodes) > level)
        rows = [(str(node), count) for node, count in sorted(nodes.items(), key=lambda one: one[0].nodes)]
        return Result(("column", "count(timeseries)"), rows)

    def _devices(self, pattern: Path | None) -> list[Path]:
        """Return the devices of a pattern, each once, in the order of their first series."""
        found = dict.fromkeys(series.path.device for series in self._series(pattern))
        return [device for device in found if pattern is None or pattern.matches(device)]

    def _series(self, pattern: Path | None) -> list[Series]:
        """Return the series of the tables that a pattern, or what is below it, may reach."""
        sources = [Path((ROOT,)) if pattern is None else pattern]
        return self.reader.series(sources, self.reader.snapshot(sources))

    # --- points ---

    def _insert(self, statement: values.InsertPoints) -> Result:
        try:
            block = block_of_values(
                self.tree,
                statement.device,
                statement.measurements,
                [self._micros(at) for at in statement.times],
                statement.rows,
                now_us=self._now_us,
                zone=self.zone,
            )
            count = self.writer.write([replace(block, row_by_row=True)])
        except LakestreamError as error:
            raise error.at(place_of(statement.place)) from None
        return Result.of_rows("inserted", count)

    def insert(self, device: str, rows: Sequence[Mapping[str, Any]] | pa.Table) -> int:
        """Insert points of a device, given as mappings or as an Arrow table with ``ts``, in one commit.

        Returns the version of its database's table. Raises StatementError SERIES_PATH, BAD_VALUE, SERIES_TYPE
        or TRIGGER_FAILED.
        """
        path = device_path(device)
        if hasattr(rows, "num_rows"):
            table = plain(rows)
            if TIME not in table.column_names:
                raise StatementError("BAD_VALUE", f"the rows lack {TIME}, the time of a point")
            fields = [field for field in table.schema if field.name != TIME]
            types = {measurement_node(field.name): type_of_arrow(field.type) for field in fields}
            names = [AT if name == TIME else measurement_node(name) for name in table.column_names]
            table = table.rename_columns(names)
            return self._written([block_of(path, table, types)], path)
        names = [name for name in dict.fromkeys(n for row in rows for n in row) if name != TIME]
        times = [self._time_of(row.get(TIME)) for row in rows]
        found = [[_as_text(row.get(name)) for name in names] for row in rows]
        nodes = [measurement_node(name) for name in names]
        block = block_of_values(self.tree, path, nodes, times, found, now_us=self._now_us, zone=self.zone)
        return self._written([block], path)

    def _written(self, blocks: Sequence[Block], device: Path) -> int:
        self.writer.write(blocks)
        return self.tree.version_of(device)

    def _time_of(self, time: object) -> int:
        """Return the time of a row given to Python."""
        if isinstance(time, bool) or time is None:
            raise StatementError("BAD_VALUE", f"a point has a time in {TIME}, not {time}")
        return self._micros(time if isinstance(time, int) else str(_as_text(time)))

    @property
    def _now_us(self) -> int:
        return to_micros(self.clock.now())

    def _micros(self, at: Instant | Now) -> int:
        return instant_micros(at, self._now_us, self.zone)

    def _query(self, statement: values.QueryTree) -> Result:
        select = statement.select
        snapshot = self.reader.snapshot(select.sources)
        query = self.reader.resolve(select, self._now_us, snapshot)
        rows = self.reader.rows(query, snapshot)
        if select.latest:
            return Result(arrow=latest(query, rows))
        if not select.into:
            return Result(arrow=shown(query, rows))
        try:
            self.writer.write(blocks_into(query, rows))
        except LakestreamError as error:
            raise error.at(place_of(select.text)) from None
        return Result(arrow=written_into(query, rows))

    @cached_property
    def _handlers(self) -> dict[type, Callable[[Any], Result]]:
        return {
            values.CreateTreeDatabase: self._create_database,
            values.DropTreeDatabase: self._drop_database,
            values.CreateTimeseries: self._create_timeseries,
            values.ShowTreeDatabases: self._show_databases,
            values.ShowTimeseries: self._show_timeseries,
            values.ShowDevices: self._show_devices,
            values.CountTree: self._count,
            values.InsertPoints: self._insert,
            values.QueryTree: self._query,
            values.CreateContinuousQuery: self.queries.create,
            values.DropContinuousQuery: self.queries.drop,
            values.BackfillContinuousQuery: self.queries.backfill,
            values.ShowContinuousQueries: lambda _: self.queries.show(),
            values.CreateTrigger: self.triggers.create,
            values.DropTrigger: self.triggers.drop,
            values.ShowTriggers: lambda _: self.triggers.show(),
        }


def _as_text(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    return value.isoformat() if isinstance(value, date) else value
