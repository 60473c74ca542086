"""The change feed of a table that others made, switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import StorageError
from lakestream.storage.sessions.altering import alter
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.table import capabilities, first_line
from lakestream.storage.writes.edits import retried

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakestream.storage.tables.table import Table

FEED = {"delta.enableChangeDataFeed": "true"}


def switch_feed_on(table: Table, spark: Callable[[], SparkSession]) -> None:
    """Switch a table's change feed on, by Spark where delta-rs cannot write a table of its features.

    Raises StorageError FEED_NOT_SWITCHED, which names the features that stood in the way.
    """
    able = capabilities(table)
    with committing(table):
        try:
            if able.arrow_writes:
                _by_arrow(table)
            else:
                properties = ", ".join(f"'{name}' = '{value}'" for name, value in FEED.items())
                alter(spark(), table.path, f"SET TBLPROPERTIES ({properties})")
        except Exception as error:
            # Spark and delta-rs have no common kind of error, and raise bare ones of their own beside.
            features = f" (it has {', '.join(able.reasons)})" if able.reasons else ""
            raise StorageError(
                "FEED_NOT_SWITCHED",
                f"the change feed of {table.path}{features} was not switched on: {first_line(error)}",
                hint="whoever writes the table can: SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
            ) from error
        table.refresh()


@retried
def _by_arrow(table: Table) -> None:
    table.refresh()
    table.handle.alter.set_table_properties(FEED)
