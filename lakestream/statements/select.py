"""SELECT over the lake's tables and over information_schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.result import Result
from lakestream.statements.status import stream_statuses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.language import model
    from lakestream.statements.workspace import Workspace


@dataclass
class SelectStatements:
    """Runs queries; ``limit`` is how many rows of a result are wanted, None for all."""

    at: Workspace
    limit: int | None = None

    def query(self, statement: model.Query) -> Result:
        """SELECT, of at most the wanted rows and one more, which tells whether there are more."""
        from lakestream.statements.query import computed

        frame = self._query_frame(statement.query)
        # One row more tells whether there are more.
        few = frame if self.limit is None else frame.limit(self.limit + 1)
        return Result(arrow=computed(few, statement.query))

    def _query_frame(self, fragment: model.Fragment) -> DataFrame:
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.query import Reader

        return Reader(
            self.at.session,
            self.at.catalog,
            self.at.database,
            self.at.settings.small_bytes,
            self.at.timezone,
            to_micros(self.at.clock.now()),
            self._system_frame,
        ).frame(fragment)

    def _system_frame(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table of information_schema; the outbox may be large and stays where it is."""
        from lakestream.observation.information import EVENTS, Known, information
        from lakestream.storage.sessions.session import frame_of

        if name.lower() == EVENTS:
            return self.at.outbox.frame(spark)
        return frame_of(spark, information(Known(self.at.registry, self.at.deliveries, self._lags), name))

    def _lags(self) -> dict[str, int]:
        """Return how many commits of its source each stream has still to take."""
        ids = {(record.database, record.name): record.uuid for record in self.at.registry.streams()}
        return {ids[status.database, status.name]: status.lag for status in stream_statuses(self.at)}

    def computed(self, fragment: model.Fragment) -> pa.Table:
        """Return all rows of a query."""
        from lakestream.statements.query import computed

        return computed(self._query_frame(fragment), fragment)
