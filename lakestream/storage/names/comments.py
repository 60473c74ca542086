"""Comments of tables and columns, as Delta's metadata has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.quoting import quoted, quoted_text
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.table import capabilities
from lakestream.storage.writes.edits import retried

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from lakestream.storage.tables.table import Table

OF_TABLE = ""
"""What stands for the table where comments are told by column."""


def comments_of(handle: DeltaTable) -> dict[str, str]:
    """Return the comments that there are, by column; that of the table by ``OF_TABLE``."""
    found = {field.name: str((field.metadata or {}).get("comment") or "") for field in handle.schema().fields}
    found[OF_TABLE] = handle.metadata().description or ""
    return {name: text for name, text in found.items() if text}


def set_comments(table: Table, texts: Mapping[str, str], spark: Callable[[], SparkSession]) -> None:
    """Give columns and the table (``OF_TABLE``) comments, a commit for each; an empty one takes it away.

    ``spark`` gives the session for a table that delta-rs does not write.
    """
    for name, text in texts.items():
        if capabilities(table).arrow_writes:
            with committing(table):
                _set(table, name, text)
        else:
            _set_by_spark(spark(), table.path, name, text)
            table.refresh()


@retried
def _set(table: Table, name: str, text: str) -> None:
    table.refresh()
    if name == OF_TABLE:
        table.handle.alter.set_table_description(text)
    else:
        table.handle.alter.set_column_metadata(name, {"comment": text})


def _set_by_spark(spark: SparkSession, path: str, name: str, text: str) -> None:
    from lakestream.storage.sessions.altering import alter, run_on

    if name == OF_TABLE:
        run_on(spark, "COMMENT ON TABLE", path, f"IS {quoted_text(text)}")
    else:
        alter(spark, path, f"ALTER COLUMN {quoted(name)} COMMENT {quoted_text(text)}")
