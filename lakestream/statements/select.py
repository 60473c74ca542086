"""SELECT over the lake's tables and over information_schema, and what is filled by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.result import Result
from lakestream.errors import LakestreamError, StatementError
from lakestream.statements.status import stream_statuses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.language import model
    from lakestream.statements.query import Reader
    from lakestream.statements.workspace import Workspace


@dataclass
class SelectStatements:
    """Runs queries; ``limit`` is how many rows of a result are wanted, None for all.

    ``in_parts``: those that Spark computes are computed while they are read.
    """

    at: Workspace
    limit: int | None = None
    in_parts: bool = False

    def query(self, statement: model.Query) -> Result:
        """SELECT, of at most the wanted rows and one more, which tells whether there are more."""
        from lakestream.statements.query import in_parts
        from lakestream.storage.small.session import SmallSession

        limit = None if self.limit is None else self.limit + 1

        def ask(spark: SparkSession) -> Result:
            # What is computed here is so whole: what does not come to its end is asked of Spark.
            if not self.in_parts or isinstance(spark, SmallSession):
                return Result(arrow=self._computed(spark, statement.query, limit))
            frame = self._query_frame(spark, statement.query, limit)
            return Result(reader=in_parts(frame, statement.query))

        self.at.spark.check()
        return self.at.small.ask(ask)

    def explain(self, statement: model.ExplainQuery) -> Result:
        """EXPLAIN of a query: who computes it, where that does not depend on its rows, and what is read."""
        said: list[tuple[str, str]] = []

        def ask(spark: SparkSession) -> None:
            reader = self._reader(spark, 0)
            said[:] = reader.explained(statement.query)
            reader.frame(statement.query)

        self.at.spark.check()
        why = self.at.small.why_spark(ask, small=True)
        if not said:
            self.at.small.ask(ask)
        who = "DuckDB, in this process" if why is None else f"Spark: {why}"
        return Result(("stage", "what"), [("computed by", who), *said])

    def create_table(self, statement: model.CreateTableAs) -> Result:
        """CREATE TABLE … AS SELECT; nobody waits for the query. What is not filled is not made."""
        database, name = self.at.in_database(statement.name), statement.name.name
        if statement.if_not_exists and self.at.catalog.find_table(database, name) is not None:
            return Result(message=f"{database}.{name} is there already, and stays as it is")
        rows = self.computed(statement.query)
        with self.at.writing("CREATE TABLE"):
            self.at.editor().create_like(replace(statement, if_not_exists=False), database, rows.schema)
            info = self.at.catalog.table(database, name)
        try:
            with self.at.changing("INSERT", [info]):
                self.at.editor().insert_arrow(info, rows)
        except LakestreamError:
            with self.at.writing("DROP TABLE"):
                self.at.catalog.drop_table(database, name)
            raise
        filled = Result.of_rows("inserted", rows.num_rows)
        return Result(message=f"created table {database}.{name}, {filled.message}", written=filled.written)

    def insert(self, statement: model.InsertQuery) -> Result:
        """INSERT INTO … SELECT; nobody waits for the query."""
        info = self.at.catalog.table(self.at.in_database(statement.table), statement.table.name)
        for name in statement.columns:
            info.column(name)
        rows = self.computed(statement.query)
        names = list(statement.columns) or [
            column.name for column in info.columns if column.name not in info.hidden
        ]
        if len(names) != rows.num_columns:
            raise StatementError(
                "VALUE_COUNT", f"{len(names)} columns are filled, and the query gives {rows.num_columns}"
            )
        with self.at.changing("INSERT", [info]):
            self.at.editor().insert_arrow(info, rows.rename_columns(names))
        return Result.of_rows("inserted", rows.num_rows)

    def computed(self, fragment: model.Fragment) -> pa.Table:
        """Return all rows of a query."""
        self.at.spark.check()
        return self.at.small.ask(lambda spark: self._computed(spark, fragment, None))

    def _computed(self, spark: SparkSession, fragment: model.Fragment, limit: int | None) -> pa.Table:
        from lakestream.statements.query import computed

        return computed(self._query_frame(spark, fragment, limit), fragment).slice(0, limit)

    def _query_frame(self, spark: SparkSession, fragment: model.Fragment, limit: int | None) -> DataFrame:
        return self._reader(spark, limit).frame(fragment)

    def _reader(self, spark: SparkSession, limit: int | None) -> Reader:
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
        )

    def _system_frame(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table of information_schema; the outbox may be large and stays where it is."""
        from lakestream.observation.information import EVENTS, Known, information
        from lakestream.storage.records.audit import Audit
        from lakestream.storage.rows.reading import arrow_frame

        if self.at.catalog.reach.databases is not None:
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
