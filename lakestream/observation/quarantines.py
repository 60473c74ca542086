"""The quarantines of a stream held against what the batch evaluation puts there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.reading.relations import Relations, history_of
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.streams.expectations import quarantined_sql, reason_sql, stays_sql
from lakestream.engine.streams.quarantine import AT, REASON, TICK
from lakestream.engine.ticks.expecting import SourceQuarantine
from lakestream.language.quoting import quoted
from lakestream.observation.comparison import Comparison
from lakestream.storage.delta import read_spark
from lakestream.storage.records.registry import TickPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.observation.comparison import Kind
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord


@dataclass(frozen=True)
class QuarantineVerification:
    """How rows of a quarantine compare with those that are to be there; since when they are is left out."""

    table: str
    equal_rows: int
    expected_rows: int
    found_rows: int
    differing_rows: int


def parted(target: Target, computed: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Return what stays in an output of rows that were computed, and what goes into its quarantine."""
    stays, quarantined = stays_sql(target.checks), quarantined_sql(target.checks)
    refused = None
    if quarantined:
        refused = computed.where(quarantined).selectExpr("*", f"{reason_sql(target.checks)} AS {REASON}")
    return (computed.where(stays) if stays else computed), refused


@dataclass(frozen=True)
class Quarantines:
    """Compares the quarantines of a stream; ``position`` is the version of the source that it stands at."""

    spark: SparkSession
    catalog: Catalog
    record: StreamRecord
    stream: Stream
    target: Target
    position: int | None

    def of_source(self, within: Callable[[str, str], str]) -> tuple[QuarantineVerification, ...]:
        """Compare source rows; ``within`` makes of SQL of a start and an end what holds within a range."""
        info = self.target.quarantine
        if info is None:
            return ()
        found, columns = self._found(info), self.stream.changed_columns
        expected = found.limit(0)
        if self.position is not None:
            expected = self.spark.sql(self._at(self.position, info).expected(self.position))
        types = {name: self.stream.source.info.column(name).type for name in columns}
        time = info.time_column
        span = within(quoted(time), f"{quoted(time)} + INTERVAL 1 MICROSECOND") if time else ""
        return (self._compared(info, {**types, REASON: "string"}, expected, found, span),)

    def _at(self, version: int, info: TableInfo) -> SourceQuarantine:
        plan = TickPlan(self.record.uuid, 0, "recalculation", version, version, 0, transport=SPARK)
        stream = replace(self.stream, floor_us=self.record.floor_us)
        history = history_of(self.record, stream.definition)
        return SourceQuarantine(Relations.of(self.spark, self.catalog.handles, stream, plan, history), info)

    def of_results(
        self,
        expected: DataFrame | None,
        span: str,
        without: Collection[str],
        left_out: frozenset[Kind],
    ) -> tuple[QuarantineVerification, ...]:
        """Compare computed rows but for columns ``without``; kinds of differences may be ``left_out``."""
        refused = self.target.refused
        if refused is None:
            return ()
        found = self._found(refused.info)
        ignored = {*without, AT, TICK}
        types = {column.name: column.type for column in refused.shape.columns if column.name not in ignored}
        expected = found.limit(0) if expected is None else expected
        return (self._compared(refused.info, types, expected, found, span, left_out),)

    def _found(self, info: TableInfo) -> DataFrame:
        return read_spark(self.spark, info.path, self.catalog.handles.latest(info.path).version)

    def _compared(
        self,
        info: TableInfo,
        types: dict[str, str],
        expected: DataFrame,
        found: DataFrame,
        span: str,
        left_out: frozenset[Kind] = frozenset(),
    ) -> QuarantineVerification:
        if span:
            expected, found = expected.where(span), found.where(span)
        # Nothing tells rows of a source apart but what they hold.
        compared = Comparison(self.spark, types, (*types,)).run(expected, found, left_out)
        return QuarantineVerification(
            f"{info.database}.{info.name}",
            compared.equal,
            compared.expected,
            compared.found,
            compared.differing,
        )
