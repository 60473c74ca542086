"""Tables by their names in the catalogs of a Spark session, Unity Catalog or a metastore: where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakestream.errors import StatementError
from lakestream.language.model import CatalogName
from lakestream.language.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DETAILS = "# Detailed Table Information"
"""The row of DESCRIBE TABLE EXTENDED behind which a table's own facts stand; columns stand before it."""

_UNKNOWN = "[TABLE_OR_VIEW_NOT_FOUND]"
"""How Spark's message begins that says nothing more than that there is no such table."""


@dataclass(frozen=True)
class CatalogTable:
    """A Delta table as a catalog has it: its name in full, and where it lies."""

    name: str
    location: str


def find_catalog_table(spark: SparkSession, name: CatalogName) -> CatalogTable:
    """Return the Delta table that a Spark session knows by a name.

    A name of fewer than three parts is completed by the session's current catalog and schema. Raises
    StatementError CATALOG_TABLE_NOT_FOUND, CATALOG_TABLE_IS_VIEW or CATALOG_TABLE_NOT_DELTA at the name.
    """
    from pyspark.errors import AnalysisException

    written = ".".join(map(quoted, name.parts))
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


def _location(told: str) -> str:
    """Return the URI of a location that Spark tells, which does not encode the paths of files."""
    return f"file:{quote(told.removeprefix('file:'))}" if told.startswith("file:") else told


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
