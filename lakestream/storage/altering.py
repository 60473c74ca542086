"""What only Spark can change of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.names import quoted
from lakestream.storage.session import child_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def alter(spark: SparkSession, path: str, change: str) -> None:
    """Run ``ALTER TABLE`` on a table by its path, in a session of its own: no other takes one by its path.

    ``change`` is Spark SQL, with names and literals quoted.
    """
    session = child_session(spark, {"spark.sql.variable.substitute": "false"})
    session.sql(f"ALTER TABLE delta.{quoted(path)} {change}")
