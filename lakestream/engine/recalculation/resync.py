"""RESYNC: a stream's place and state taken from the source as it is, when changes were lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.state import GroupState, gids_sql
from lakestream.engine.creation.create import REPLACED, open_target
from lakestream.engine.reading.relations import CHANGED, CHANGES, EVER, STATE, History, Relations
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.windows.admission import stale_state
from lakestream.engine.windows.cutting import Cutting
from lakestream.engine.windows.waiting import WAITING, far_groups, registered
from lakestream.storage.registry import Progress, TickPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.waiting import WaitingGroup
    from lakestream.storage.catalog import Catalog
    from lakestream.storage.delta import Tables
    from lakestream.storage.registry import Registry, StreamRecord


@dataclass
class Resync:
    """Puts a stream at the latest version of its source; its windows are then recalculated.

    Groups that wait are taken up again, but for those of which still far more windows would fire than there
    are rows, and more than ``max_windows``.

    What a stream without FILL_HISTORY must leave out is no longer known row by row: from here on it takes
    the rows that are later than the newest one there was when it was created. One that leaves late rows out
    and has another definition now goes on from nothing: its next tick makes all windows anew, of the rows
    that came since its creation; by arrival there are only those that come.
    """

    spark: SparkSession
    catalog: Catalog
    registry: Registry
    record: StreamRecord
    stream: Stream
    max_windows: int
    _waiting: list[WaitingGroup] = field(default_factory=list, init=False)

    def run(self, now_us: int) -> int:
        """Rewrite state, registration and progress, and return the source's version."""
        source = self.catalog.handles.latest(self.stream.source.info.path)
        version = source.version
        plan, progress = self.registry.last(self.record.uuid)
        tick = max(plan.tick if plan else 0, progress.tick if progress else 0) + 1
        state = self._state(version)
        if len(state):
            self.registry.write_state(self.record.uuid, tick, state.saved(version))
        else:
            self.registry.remove_state(self.record.uuid)
        self.registry.update(
            self.record.uuid,
            status="Running",
            last_error=None,
            source_id=source.table_id,
            **self._begun(tick, version, source.table_id),
        )
        known = progress.extra if progress else {}
        totals = {name: value for name, value in known.items() if name.startswith("total_")}
        self.registry.write_progress(
            [Progress(self.record.uuid, tick, version, finished_us=now_us, extra=totals)]
        )
        return version

    def _begun(self, tick: int, version: int, source_id: str) -> dict[str, Any]:
        """Return what the registration says from now on of where the stream's rows begin."""
        known = {name: value for name, value in self.record.extra.items() if name not in (REPLACED, WAITING)}
        extra = {**known, **registered(self._waiting)}
        if self._is_replaced:
            output = self.catalog.find_table(*self.record.output.split(".", 1))
            parts = {job.id: job.part for job in self.registry.recalculations(self.record.uuid)}
            there = self.catalog.handles.latest(output.path).version if output is not None else 0
            extra[REPLACED] = {"tick": tick, "version": version, "output": there, "parts": parts}
            if source_id == self.record.source_id and not self.stream.definition.options.by_arrival:
                return {"extra": extra}
        return {"start_version": version, "extra": {**extra, "floor_us": self._floor}}

    @property
    def _is_replaced(self) -> bool:
        """Whether it leaves late rows out, and another definition is to be begun with."""
        return self.record.extra.get(REPLACED) == {}

    @property
    def _floor(self) -> int | None:
        known: int | None = self.record.extra.get("floor_us", self.record.extra.get("until_us"))
        return known

    def _state(self, version: int) -> GroupState:
        if self._is_replaced and self.stream.definition.options.by_arrival:
            return GroupState()
        if self.stream.assigner is not None and (self.stream.exact or self._is_replaced):
            return stale_state()
        if self.stream.assigner is not None:
            # It goes on with the rows it holds: they are those of no version of the source.
            saved = self.registry.read_state(self.record.uuid)
            return GroupState.loaded(saved[1])[1] if saved else GroupState()
        return self._state_by_time(version) if self.stream.cut is None else self._state_by_cut(version)

    def _state_by_cut(self, version: int) -> GroupState:
        """Cut all rows there are as if they had come in one commit."""
        history = History(version, taken=True, start_us=self._floor, until_us=None)
        extra = {"transport": SPARK}
        plan = TickPlan(self.record.uuid, 0, "history", -1, version, 0, {}, self._floor, None, extra)
        relations = Relations.of(self.spark, self.catalog.handles, self.stream, plan, history)
        relations.changes(self.stream.changed_columns)
        self.spark.sql(self.stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)
        self.spark.sql(self.stream.empty_state_sql(CHANGES)).createOrReplaceTempView(STATE)
        target = open_target(self.stream, self.record, self.catalog, lambda: self.spark)
        tables = self.catalog.handles
        cutting = Cutting(self.spark, tables, relations, self.stream, target, GroupState(), version)
        found = cutting.run(cutting.summed()).groups
        return GroupState(found if found.num_rows else None)

    def _state_by_time(self, version: int) -> GroupState:
        history = History(version, taken=True, start_us=self._floor, until_us=None)
        found = groups_at(self.spark, self.catalog.handles, self.stream, history, version)
        if not self.stream.is_periodic:
            self._waiting = far_groups(self.spark, self.stream, found, self.max_windows)
        state = GroupState(found.drop_columns(["rows"]) if found.num_rows else None)
        return state.without([group.gid for group in self._waiting])


def groups_at(
    spark: SparkSession,
    tables: Tables,
    stream: Stream,
    history: History,
    version: int,
    only: Sequence[int] = (),
) -> pa.Table:
    """Return the groups of rows of a version of the source: gid, group columns, first, newest, rows.

    ``only`` are those that are looked for, none for all. The rows are registered.
    """
    plan = TickPlan(stream.uuid, 0, "changes", version, version, 0, extra={"transport": SPARK})
    relations = Relations.of(spark, tables, stream, plan, history)
    low, high = EVER
    # Rows of before its start are not those of the history alone: others came after the stream's creation.
    start = history.start_us if history.until_us is None else None
    relations.rows_at(version, [(low if start is None else start, high)])
    where = f" WHERE _ls_gid IN ({gids_sql(only)})" if only else ""
    groups = "".join(
        f", any_value({sql}) AS {name}" for sql, name in zip(stream.groups, stream.group_columns, strict=True)
    )
    return spark.sql(
        f"SELECT _ls_gid AS gid{groups}, min(_ls_ts) AS first, max(_ls_ts) AS newest, count(1) AS rows "
        f"FROM {ROWS}{where} GROUP BY _ls_gid"
    ).toArrow()
