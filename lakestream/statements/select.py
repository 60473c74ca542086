"""SELECT over the lake's tables and over information_schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.result import Result
from lakestream.errors import StatementError
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
        # One row more tells whether there are more.
        return Result(arrow=self._rows(statement.query, None if self.limit is None else self.limit + 1))

    def computed(self, fragment: model.Fragment) -> pa.Table:
        """Return all rows of a query."""
        return self._rows(fragment, None)

    def _rows(self, fragment: model.Fragment, limit: int | None) -> pa.Table:
        from lakestream.statements.query import computed

        def ask(spark: SparkSession) -> pa.Table:
            return computed(self._query_frame(spark, fragment, limit), fragment).slice(0, limit)

        self.at.spark.check()
        return self.at.small.ask(ask)

    def _query_frame(self, spark: SparkSession, fragment: model.Fragment, limit: int | None) -> DataFrame:
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.query import Reader

        return Reader(
            spark,
            self.at.catalog,
            self.at.database,
            self.at.settings.small_bytes,
            self.at.timezone,
            to_micros(self.at.clock.now()),
            self._system_frame,
            self.at.small.brings_functions,
            limit,
        ).frame(fragment)

    def _system_frame(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table of information_schema; the outbox may be large and stays where it is."""
        from lakestream.observation.information import EVENTS, Known, information
        from lakestream.storage.records.audit import Audit
        from lakestream.storage.rows.reading import arrow_frame

        if self.at.catalog.reach is not None:
            raise StatementError(
                "FORBIDDEN", "information_schema tells of all databases, and some are out of reach"
            )
        if name.lower() == EVENTS:
            return self.at.outbox.frame(spark)
        audit = Audit(self.at.layout, self.at.system_clock)
        known = Known(self.at.registry, self.at.deliveries, self._lags, audit)
        return arrow_frame(spark, information(known, name))

    def _lags(self) -> dict[str, int]:
        """Return how many commits of its source each stream has still to take."""
        ids = {(record.database, record.name): record.uuid for record in self.at.registry.streams()}
        return {ids[status.database, status.name]: status.lag for status in stream_statuses(self.at)}
