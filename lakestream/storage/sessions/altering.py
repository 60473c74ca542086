"""What only Spark can change of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.quoting import quoted
from lakestream.storage.sessions.session import child_session, end_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def alter(spark: SparkSession, path: str, change: str) -> None:
    """Run ``ALTER TABLE`` on a table by its path. ``change`` is Spark SQL, names and literals quoted."""
    run_on(spark, "ALTER TABLE", path, change)


def run_on(spark: SparkSession, command: str, path: str, rest: str = "") -> None:
    """Run a command on a table by its path, in a session of its own: no other takes one by its path."""
    session = child_session(spark, {"spark.sql.variable.substitute": "false"})
    try:
        session.sql(f"{command} delta.{quoted(path)} {rest}".rstrip())
    finally:
        end_session(session)
