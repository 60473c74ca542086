"""The tables of a lake by name in Spark's own catalog, for whoever works with Spark beside the statements.

Only where that catalog is kept in memory and by Delta: in a metastore, names are its owner's to give.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from lakestream.language.quoting import quoted_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_KEPT_HERE = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_GUARD = threading.Lock()
_PUBLISHED: dict[str, dict[tuple[str, str], str]] = {}
"""By the id of a Spark, which has one catalog, where the tables that have a name in it lie."""


def publish(spark: SparkSession, tables: Mapping[tuple[str, str], str]) -> None:
    """Give tables, by database and name, the names ``database.name`` in Spark's catalog, and no others.

    All sessions of this Spark see them, clients of Spark Connect too; with several lakes in a process the
    names are those of the last one. A name that somebody else has given stays theirs, and there is none
    for a table that Spark cannot read, or whose name is of other characters than letters, digits and ``_``.
    """
    from pyspark.errors import PySparkException

    if any(spark.conf.get(key, None) != value for key, value in _KEPT_HERE.items()):
        return
    with _GUARD:
        published = _PUBLISHED.setdefault(spark.conf.get("spark.app.id") or "", {})
        for name in [name for name, path in published.items() if tables.get(name) != path]:
            spark.sql(f"DROP TABLE IF EXISTS {quoted_path(*name)}")  # the name alone: the table is external
            del published[name]
        for name in tables.keys() - published.keys():
            with suppress(PySparkException):
                spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted_path(name[0])}")
                spark.catalog.createTable(quoted_path(*name), path=tables[name], source="delta")
                published[name] = tables[name]
