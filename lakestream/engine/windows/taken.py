"""The rows of its source that a stream has taken, for the batch evaluation over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.reading.queries import changes_sql, empty_state_sql, net_sql
from lakestream.engine.reading.relations import CHANGED, CHANGES, STATE
from lakestream.storage.delta import changes_spark, read_spark
from lakestream.storage.rows.views import view_of, view_of_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Snapshot
    from lakestream.storage.rows.views import View

_RAW = "ls_raw"


@dataclass(frozen=True)
class Taken:
    """What a stream has taken of its source up to a snapshot's version."""

    stream: Stream
    snapshot: Snapshot

    def as_it_is(self) -> View:
        """Register the rows there are as if they were new, and return what detection takes of them."""
        snapshot, columns, history = self.snapshot, self.stream.changed_columns, self.snapshot.history
        source = snapshot.tables.open(self.stream.source.info.path)
        rows = read_spark(snapshot.spark, source, snapshot.version, columns=columns)
        for after, upto in history.skipped:
            written = changes_spark(snapshot.spark, source, after, upto, columns)
            written = written.where("_change_type IN ('insert', 'update_postimage')")
            rows = rows.exceptAll(written.select(*rows.columns))
        begins_later = history.start_us is not None and snapshot.record.resynced is None
        if begins_later if history.taken else history.until_us is not None:
            rows = rows.exceptAll(self._at_creation(taken=False))
        return self._registered(_as_new(rows, snapshot.version))

    def as_they_came(self) -> View:
        """Register history as one commit and the changes of every commit since, as detection takes them."""
        snapshot, start = self.snapshot, self.snapshot.record.start_version
        rows = _as_new(self._at_creation(taken=True), start)
        if snapshot.version > start:
            columns = self.stream.changed_columns
            source = snapshot.tables.open(self.stream.source.info.path)
            changes = changes_spark(snapshot.spark, source, start, snapshot.version, columns)
            raw = view_of(changes.where(self._not_skipped()), _RAW)
            net = net_sql(self.stream, str(raw), snapshot.version, columns)
            rows = rows.unionByName(snapshot.spark.sql(net))
        return self._registered(rows)

    def nothing_before(self) -> View:
        """Register no groups, as before the first row."""
        return view_of_sql(self.snapshot.spark, empty_state_sql(self.stream, CHANGES), STATE)

    def _registered(self, rows: DataFrame) -> View:
        changed = view_of(rows, CHANGED)
        return view_of_sql(self.snapshot.spark, changes_sql(self.stream, str(changed)), CHANGES)

    def _at_creation(self, *, taken: bool) -> DataFrame:
        """Return the rows that were there at creation and are the stream's, or those that are not."""
        info, history = self.stream.source.info, self.snapshot.history
        rows = read_spark(
            self.snapshot.spark,
            self.snapshot.tables.open(info.path),
            self.snapshot.record.start_version,
            columns=self.stream.changed_columns,
            lower=history.start_us if taken else None,
            upper=None if taken else history.until_us,
            time_column=info.time_column,
        )
        return rows if history.taken or not taken else rows.limit(0)

    def _not_skipped(self) -> str:
        skipped = self.snapshot.history.skipped
        ranges = (f"_commit_version > {after} AND _commit_version <= {upto}" for after, upto in skipped)
        return " AND ".join(f"NOT ({one})" for one in ranges) or "true"


def _as_new(rows: DataFrame, version: int) -> DataFrame:
    """Return rows as a commit that has inserted them."""
    known = f"CAST({version} AS BIGINT) AS _commit_version"
    return rows.selectExpr("*", known, "1L AS _ls_sign", "'insert' AS _change_type")
