"""Tables by their names in the catalogs of a Spark session, Unity Catalog or a metastore: where they lie."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakestream.errors import StatementError, StorageError
from lakestream.language.model import CatalogName
from lakestream.language.quoting import quoted, quoted_path, quoted_text
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakestream.storage.names.table_info import Column

_DETAILS = "# Detailed Table Information"
"""The row of DESCRIBE TABLE EXTENDED behind which a table's own facts stand; columns stand before it."""

_UNKNOWN = "[TABLE_OR_VIEW_NOT_FOUND]"
"""How Spark's message begins that says nothing more than that there is no such table."""


@dataclass(frozen=True)
class CatalogTable:
    """A Delta table as a catalog has it: its name in full, and where it lies."""

    name: str
    location: str


@dataclass(frozen=True)
class NewCatalogTable:
    """A Delta table to be made in a catalog: by which session, under which name, clustered by what."""

    spark: SparkSession
    name: CatalogName
    clustered_by: tuple[str, ...] = ()

    @contextmanager
    def made(
        self,
        columns: Sequence[Column],
        properties: Mapping[str, str],
        partitioned_by: Sequence[str],
        comment: str | None,
    ) -> Iterator[CatalogTable]:
        """Make the table, empty; it is dropped again where what is done with it fails.

        Raises at the name StatementError TABLE_EXISTS, CATALOG_TABLE_IS_VIEW or CATALOG_TABLE_NOT_DELTA for
        what is there, CATALOG_TABLE_NOT_FOUND for a catalog or schema that is not; and StorageError
        CREATE_FAILED.
        """
        self._refuse_taken()
        self._create(columns, properties, partitioned_by, comment)
        try:
            yield find_catalog_table(self.spark, self.name)
        except BaseException:
            self.spark.sql(f"DROP TABLE IF EXISTS {quoted_path(*self.name.parts)}")
            raise

    def _refuse_taken(self) -> None:
        try:
            find_catalog_table(self.spark, self.name)
        except StatementError as error:
            if error.code != "CATALOG_TABLE_NOT_FOUND":
                raise
        else:
            raise _is_there(self.name)

    def _create(
        self,
        columns: Sequence[Column],
        properties: Mapping[str, str],
        partitioned_by: Sequence[str],
        comment: str | None,
    ) -> None:
        from pyspark.errors import AnalysisException

        listed = ", ".join(map(_column, columns))
        said = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in properties.items())
        about = f" COMMENT {_text(comment)}" if comment else ""
        layout = _by("PARTITIONED BY", partitioned_by) + _by("CLUSTER BY", self.clustered_by)
        name = quoted_path(*self.name.parts)
        create = f"CREATE TABLE {name} ({listed}) USING delta{layout}{about} TBLPROPERTIES ({said})"
        try:
            self.spark.sql(create)
        except Exception as error:
            # Spark and Delta have no common kind of error.
            condition = str(error.getCondition()) if isinstance(error, AnalysisException) else ""
            if condition.endswith("ALREADY_EXISTS"):
                raise _is_there(self.name) from error
            if condition in _NO_PLACE:
                raise _not_found(self.name, error) from error
            raise StorageError(
                "CREATE_FAILED", f"no table was made as {self.name}: {first_line(error)}"
            ) from error


_NO_PLACE = ("CATALOG_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")
"""How Spark says that it has no such catalog or schema to make a table in."""


def _column(column: Column) -> str:
    comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
    return f"{quoted(column.name)} {column.type}{comment}"


def _by(clause: str, names: Sequence[str]) -> str:
    return f" {clause} ({', '.join(map(quoted, names))})" if names else ""


def _text(text: str) -> str:
    """Return a literal; a session of the user's may put the values of variables in the place of ``${…}``."""
    return quoted_text(text).replace("$", "\\u0024")


def find_catalog_table(spark: SparkSession, name: CatalogName) -> CatalogTable:
    """Return the Delta table that a Spark session knows by a name.

    A name of fewer than three parts is completed by the session's current catalog and schema. Raises
    StatementError CATALOG_TABLE_NOT_FOUND, CATALOG_TABLE_IS_VIEW or CATALOG_TABLE_NOT_DELTA at the name.
    """
    from pyspark.errors import AnalysisException

    written = quoted_path(*name.parts)
    try:
        known = spark.catalog.getTable(written)
        if known.isTemporary or "VIEW" in known.tableType:
            raise _is_view(name)
        facts = _facts(spark, written)
    except AnalysisException as error:
        raise _not_found(name, error) from error
    provider = facts.get("Provider", "")
    if provider.lower() != "delta" or "Location" not in facts:
        raise _not_delta(name, provider)
    full = CatalogName(tuple(filter(None, (known.catalog, *(known.namespace or ()), known.name))))
    return CatalogTable(str(full), _location(facts["Location"]))


def _facts(spark: SparkSession, written: str) -> dict[str, str]:
    """Return what a catalog says of a table beside its columns."""
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {written}").collect()
    names = [row["col_name"] for row in rows]
    own = len(names) - names[::-1].index(_DETAILS) if _DETAILS in names else len(names)
    return {row["col_name"]: row["data_type"] for row in rows[own:]}


def _location(location: str) -> str:
    """Return the URI of a location that Spark tells, which does not encode the paths of files."""
    return f"file:{quote(location.removeprefix('file:'))}" if location.startswith("file:") else location


def _is_there(name: CatalogName) -> StatementError:
    return StatementError(
        "TABLE_EXISTS",
        f"there is a table {name}",
        hint=f"CREATE TABLE … USING TABLE {name} gives it a name here, and INTO that name writes there",
        place=name.place,
    )


def _is_view(name: CatalogName) -> StatementError:
    return StatementError(
        "CATALOG_TABLE_IS_VIEW",
        f"{name} is a view: it keeps no rows, whose changes could be read",
        hint="name the Delta table that it is over",
        place=name.place,
    )


def _not_delta(name: CatalogName, provider: str) -> StatementError:
    return StatementError(
        "CATALOG_TABLE_NOT_DELTA",
        f"{name} is no Delta table with a location: its provider is {provider or 'not known'}",
        hint="lakestream reads tables of Delta Lake; CONVERT TO DELTA makes one of a table of Parquet files",
        place=name.place,
    )


def _not_found(name: CatalogName, error: Exception) -> StatementError:
    said = str(error).strip().splitlines()[0]
    why = "" if said.startswith(_UNKNOWN) else f": {said}"
    return StatementError(
        "CATALOG_TABLE_NOT_FOUND",
        f"the Spark session knows no table {name}{why}",
        hint="give Lake(spark=…) a session that does, have spark_conf name the catalog, "
        "or say where the table lies: LOCATION '…'",
        place=name.place,
    )
