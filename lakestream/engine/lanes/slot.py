"""What a turn works with: of each thread its own, since tables' handles and Spark's views are for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakestream.engine.reading.small import SmallPath
    from lakestream.storage.names.catalog import Catalog


@dataclass(frozen=True)
class Slot:
    """A catalog with its kept handles, a session of Spark, and what is asked before it.

    ``interrupt`` has what the thread computes fail, and is called in another one.
    """

    catalog: Catalog
    session: Callable[[], SparkSession]
    small: SmallPath
    interrupt: Callable[[], None]
    close: Callable[[], None]
