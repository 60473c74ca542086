"""The tree of time series on Delta tables: its databases, and which series lie in which column.

A database ``root.a.b`` is the table ``root.`a.b` `` of the lake: a row per device and time (the key), a
nullable column per measurement and type. Which series there are, in the order of their creation, stands
in ``_lakestream/timeseries``: a column that is NULL throughout does not tell. A database may have its points
in a table that others write instead: ``_lakestream/tree`` says which, and how its rows are points.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.iotdb.paths import ROOT, Path, Series, name_of
from lakestream.language.iotdb.types import SPARK_TYPES
from lakestream.language.iotdb.values import TableMapping
from lakestream.language.model import Fragment, TableName
from lakestream.storage.names.table_info import Column
from lakestream.storage.records.keyed import KeyedTable, Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.places.layout import Layout

DEVICE, TIME = "device", "ts"

_UNSTORABLE = re.compile(r"[^A-Za-z0-9_]")
"""What the names of columns do not get: not every reader of a change feed takes it."""
_RESERVED = frozenset({DEVICE, TIME, "_change_type", "_commit_version", "_commit_timestamp"})


@dataclass(frozen=True)
class Snapshot:
    """The tree at a moment: its series up to a number, and the versions of tables by their paths."""

    series: int
    versions: dict[str, int]


class Tree:
    """The databases and time series of one lake."""

    def __init__(self, layout: Layout, catalog: Catalog) -> None:
        self.catalog = catalog
        self._databases = KeyedTable(
            layout.system_path("tree"),
            {"path": "string", "nodes": "string", "mapping": "string"},
            "path",
        )
        self._known_databases = Known(_database, lambda known: str(known[0]))
        columns = {
            "path": "string",
            "nodes": "string",
            "type": "string",
            "table": "string",
            "column": "string",
            "order": "bigint",
        }
        self._series = KeyedTable(layout.system_path("timeseries"), columns, "path")
        self._known: tuple[dict[str, Any], dict[str, Series]] = ({}, {})

    # --- databases ------------------------------------------------------------------------------

    def databases(self) -> list[Path]:
        """Return the databases, by name."""
        return [path for path, _ in self._known_databases.of(self._databases.rows())]

    def mappings(self) -> dict[Path, TableMapping]:
        """Return the tables that databases are mapped to, by the databases' paths, sorted by name."""
        known = self._known_databases.of(self._databases.rows())
        return {path: mapping for path, mapping in known if mapping is not None}

    def check_free(self, path: Path) -> None:
        """Raise StatementError DATABASE_EXISTS where a database may not lie: none lies in another."""
        for known in self.databases():
            shorter = min(len(known.nodes), len(path.nodes))
            if _share_a_table(known, path) or known.nodes[:shorter] == path.nodes[:shorter]:
                raise StatementError("DATABASE_EXISTS", f"there is a database {known}")

    def create_database(self, path: Path) -> None:
        """Make a database of series of its own. Raises StatementError DATABASE_EXISTS."""
        self.check_free(path)
        self._make(path)

    def map_database(self, path: Path, mapping: TableMapping) -> None:
        """Make a database of the rows of a table of the lake. Raises StatementError DATABASE_EXISTS."""
        self.check_free(path)
        self._databases.put([{**_database_row(path), "mapping": _mapping_text(mapping)}])

    def unmap_database(self, path: Path) -> TableName:
        """Remove a mapped database and return its table, which stays as it is.

        Raises StatementError DATABASE_NOT_FOUND, or NotSupportedError for one of series of its own.
        """
        if path not in self.databases():
            known = map(str, self.databases())
            hint = did_you_mean(str(path), known)
            raise StatementError("DATABASE_NOT_FOUND", f"there is no database {path}", hint=hint)
        mapping = self.mappings().get(path)
        if mapping is None:
            raise NotSupportedError(
                f"DELETE DATABASE of {path}, which has series of its own", hint="DELETE FROM takes its rows"
            )
        self._databases.remove([str(path)])
        return mapping.table

    def check_writable(self, path: Path) -> None:
        """Raise StatementError DATABASE_MAPPED where a path lies in a mapped database."""
        for database, mapping in self.mappings().items():
            if path.is_below(database):
                raise StatementError(
                    "DATABASE_MAPPED",
                    f"the points of {database} are the rows of {mapping.table}: it takes none here",
                    hint=f"write to {mapping.table}",
                )

    def _make(self, path: Path) -> None:
        self.catalog.databases.create(ROOT, if_not_exists=True)
        self.catalog.create_table(
            ROOT,
            table_name(path),
            [Column(DEVICE, "string"), Column(TIME, "timestamp")],
            time_column=TIME,
            key=(DEVICE, TIME),
            if_not_exists=True,
        )
        self._databases.put([{**_database_row(path), "mapping": None}])

    def database_of(self, path: Path) -> Path:
        """Return the database of a series; by default, and made on need, the first level below root."""
        for known in self.databases():
            if path.is_below(known):
                return known
        return Path(path.nodes[:2])

    def version_of(self, device: Path) -> int:
        """Return the version of the table that holds a device; 0 when there is none yet."""
        info = self.catalog.find_table(ROOT, table_name(self.database_of(Path((*device.nodes, "")))))
        return 0 if info is None else self.catalog.handles.latest(info.path).version

    def own_tables(self, sources: Sequence[Path] = (Path((ROOT,)),)) -> list[str]:
        """Return the names of the tables of databases that patterns reach; not those of mapped ones."""
        mapped = self.mappings()
        return [
            table_name(path)
            for path in self.databases()
            if path not in mapped and any(source.reaches(path) for source in sources)
        ]

    def tables(self) -> list[TableInfo]:
        """Return the tables of all databases that are not mapped."""
        return [self.catalog.table(ROOT, name) for name in self.own_tables()]

    # --- series ---------------------------------------------------------------------------------

    def series(self) -> list[Series]:
        """Return all series in the order of their creation; not those of mapped databases."""
        return list(self._by_path().values())

    @property
    def newest(self) -> int:
        """The number of the series that was created last; 0 when there is none."""
        series = self.series()
        return series[-1].order if series else 0

    def find(self, path: Path) -> Series | None:
        """Return a series, None when there is none of that path (or it lies in a mapped database)."""
        return self._by_path().get(str(path))

    def _by_path(self) -> dict[str, Series]:
        rows = self._series.rows()
        if self._known[0] is not rows:
            found = sorted(map(_series, rows.values()), key=lambda series: series.order)
            self._known = (rows, {str(series.path): series for series in found})
        return self._known[1]

    def add(self, wanted: Sequence[tuple[Path, str]]) -> list[Series]:
        """Create series of IoTDB types, their databases and columns too, and return them in order.

        Raises StatementError SERIES_EXISTS for a path that is there, SERIES_PATH where a database would lie
        in another, DATABASE_EXISTS where its name differs from another's in case only, DATABASE_MAPPED in a
        mapped one; nothing is made then.
        """
        known = self._by_path()
        for path, _ in wanted:
            self.check_writable(path)
            if str(path) in known:
                raise StatementError("SERIES_EXISTS", f"there is a series {path}")
        made: list[Series] = []
        for number, (path, kind) in enumerate(wanted, self.newest + 1):
            database = self.database_of(path)
            self._check_database(path, database)
            table = table_name(database)
            if database not in self.databases():
                self._make(database)
            column = self._column(table, path.measurement, kind, [*known.values(), *made])
            made.append(Series(path, kind, table, column, number))
        self._series.put(map(_row, made))
        return made

    def _check_database(self, path: Path, database: Path) -> None:
        for known in self.databases():
            if known != database and _share_a_table(known, database):
                raise StatementError(
                    "DATABASE_EXISTS", f"there is a database {known}: {database} differs from it in case only"
                )
            if known != database and known.nodes[: len(database.nodes)] == database.nodes:
                raise StatementError(
                    "SERIES_PATH",
                    f"{path} belongs to no database: {database} would hold the database {known}",
                    hint="CREATE DATABASE a longer path for it",
                )

    def _column(self, table: str, measurement: str, kind: str, known: Iterable[Series]) -> str:
        """Return the column for a measurement and type, made when there is none yet.

        The second type of a measurement, and names that differ in case only, get a column of their own.
        """
        own = [series for series in known if series.table == table]
        for series in own:
            if series.path.measurement == measurement and series.type == kind:
                return series.column
        there = {column.name.lower(): column for column in self.catalog.table(ROOT, table).columns}
        used = {series.column for series in own} | _RESERVED
        for name in _names(measurement, kind, len(there)):
            column = there.get(name.lower())
            if column is None and name.lower() not in _RESERVED:
                self.catalog.add_column(ROOT, table, Column(name, SPARK_TYPES[kind]))
                return name
            # A column that no series uses was made just before a crash.
            if column == Column(name, SPARK_TYPES[kind]) and name not in used:
                return name
        raise AssertionError(measurement)


def _names(measurement: str, kind: str, taken: int) -> list[str]:
    """Return names for the column of a measurement, the best first: more than can be taken."""
    base = _UNSTORABLE.sub("_", name_of(measurement)) or "_"
    base = f"_{base}" if base.lower().startswith("_ls_") else base
    return [base, f"{base}_{kind.lower()}", *(f"{base}_{n}" for n in range(2, taken + 4))]


def table_name(database: Path) -> str:
    """Return the name that a database's table has in the lake's database ``root``."""
    return ".".join(map(name_of, database.nodes[1:]))


def _database(row: dict[str, Any]) -> tuple[Path, TableMapping | None]:
    mapping = row["mapping"]
    return Path(tuple(json.loads(row["nodes"]))), None if mapping is None else _mapping(mapping)


def _database_row(path: Path) -> dict[str, Any]:
    return {"path": str(path), "nodes": json.dumps(path.nodes)}


def _mapping_text(mapping: TableMapping) -> str:
    table = mapping.table
    return json.dumps(
        {
            "database": table.database,
            "table": table.name,
            "device": mapping.device.sql,
            "time": mapping.time.sql,
        }
    )


def _mapping(text: str) -> TableMapping:
    data = json.loads(text)
    table = TableName(data["database"], data["table"])
    return TableMapping(table, Fragment(data["device"], spark=True), Fragment(data["time"]))


def _series(row: dict[str, Any]) -> Series:
    return Series(
        Path(tuple(json.loads(row["nodes"]))), row["type"], row["table"], row["column"], row["order"]
    )


def _row(series: Series) -> dict[str, Any]:
    return {
        "path": str(series.path),
        "nodes": json.dumps(series.path.nodes),
        "type": series.type,
        "table": series.table,
        "column": series.column,
        "order": series.order,
    }


def _share_a_table(one: Path, other: Path) -> bool:
    """Return whether databases would lie in one table: its name does not tell case apart."""
    return str(one).lower() == str(other).lower()
