"""VERIFY STREAM: the output held against the batch evaluation of the definition, row by row.

The batch evaluation takes everything the stream has taken as one tick from an empty state: history as
one commit, then the changes of every commit, by the same policies (architecture of the stream: which
rows count, which windows fire, what they hold), and compares with the output table as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NotRequired, TypedDict

from lakestream.compute.windows.calculation import WINDOWS
from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.compile import compile_record
from lakestream.engine.creation.create import open_target
from lakestream.engine.creation.others import own_rows, without_theirs, written_by_others
from lakestream.engine.reading.relations import (
    history_of,
)
from lakestream.engine.recalculation.recalculate import range_of
from lakestream.engine.rounds.replay import RecordedTicks, Replay
from lakestream.engine.rounds.runtime import mark_of
from lakestream.engine.streams.stream import opens_once
from lakestream.engine.ticks.evaluating import evaluated_sql
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Snapshot
from lakestream.language.quoting import SPARK, quoted
from lakestream.observation.comparison import Comparison, Difference
from lakestream.observation.quarantines import Quarantines, parted
from lakestream.observation.standing import EVENT_KEY, EVENT_TYPES, standing_events
from lakestream.storage.delta import read_commits, read_spark
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.rows.views import view_of, view_of_sql
from lakestream.storage.sessions.session import few_partitions
from lakestream.storage.tables.datafiles import rows_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Unpack

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.rounds.replay import Replayed
    from lakestream.engine.rounds.runtime import StreamRuntime
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.notify.outbox import Outbox
    from lakestream.observation.comparison import Compared, Kind
    from lakestream.observation.quarantines import QuarantineVerification
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.records.registry import StreamRecord, TablePosition

_RAW, _DETECTED, _RECALCULATED = "ls_raw", "ls_before_recalculation", "ls_recalculated"
OTHERS = "other tables changed"
_WALL_CLOCK = "the wall clock decides on rows"
_UNRECORDED = "of ticks that are no longer recorded"
_CLEARED = "events were cleared"
_WAITING = "of groups that wait"
_EVALUATION = "the batch evaluation"
_REPLAY = "a replay of the admitted changes"
_UNTOLD = "not told apart"
_EVENTS = "the events of a replay of the admitted changes"


_CLOCK = "_tlocaltime"
"""The wall clock in a calculation; NOW and TODAY are made of it."""


@dataclass(frozen=True)
class Verification:
    """The result of VERIFY: rows that are equal, rows that should be there, rows there, differences.

    ``differing_rows`` counts them, ``differing`` lists the first 100; ``late_ignored`` counts rows of the
    source that were left out by policy, ``left_out_columns`` names result columns that come from the
    wall clock, ``compared_with`` says what the rows were held against. ``left_out_rows`` counts rows of which
    that cannot be said, ``left_out_reason`` says why. ``others_rows`` counts the rows of the output that
    others wrote, which are not compared; None: nothing tells them from the stream's, and they differ.
    ``quarantines`` are those of the stream, held against what is to be there.
    """

    stream: str
    columns: tuple[str, ...]
    equal_rows: int
    expected_rows: int
    found_rows: int
    differing_rows: int
    differing: tuple[Difference, ...]
    late_ignored: int
    left_out_columns: tuple[str, ...]
    left_out_rows: int
    left_out_reason: str
    others_rows: int | None
    compared_with: str
    quarantines: tuple[QuarantineVerification, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether no row differs."""
        return self.differing_rows == 0 and not any(one.differing_rows for one in self.quarantines)

    @property
    def by_replay(self) -> bool:
        """Return whether it was compared with something else than the batch evaluation."""
        return self.compared_with != _EVALUATION

    def summary(self) -> list[tuple[str, str]]:
        """Return the counts as (what, figure)."""
        return [
            ("compared with", self.compared_with),
            ("equal rows", str(self.equal_rows)),
            ("expected rows", str(self.expected_rows)),
            ("rows in the output", str(self.found_rows)),
            ("differing rows", str(self.differing_rows)),
            ("late rows ignored by policy", str(self.late_ignored)),
            ("columns left out (wall clock)", ", ".join(self.left_out_columns) or "none"),
            (f"rows left out ({self.left_out_reason or OTHERS})", str(self.left_out_rows)),
            ("rows of others", _UNTOLD if self.others_rows is None else str(self.others_rows)),
            *((f"differing rows in {one.table}", str(one.differing_rows)) for one in self.quarantines),
        ]


class _Remarks(TypedDict):
    """What a verification says beside the counts of rows."""

    late_ignored: int
    left_out_columns: tuple[str, ...]
    left_out_rows: int
    left_out_reason: str
    others_rows: int | None
    compared_with: str
    quarantines: NotRequired[tuple[QuarantineVerification, ...]]


@dataclass
class Verifier:
    """Compares one stream's output as it was between two ticks; what comes meanwhile is not looked at.

    ``position`` is the source's version that the stream stood at, ``followed`` where it stood in tables that
    it follows, ``late`` its late rows since creation,
    ``recalculated`` are the parts of recalculations that were done, with the source's version of each.
    ``state`` gives the state that follows from the whole history: where deletes count, only commit by
    commit can it be said which row of a group is its first one. ``replay`` makes a replay in a folder.
    """

    spark: SparkSession
    catalog: Catalog
    record: StreamRecord
    stream: Stream
    target: Target
    position: int | None
    followed: Mapping[str, TablePosition]
    output_version: int
    late: int
    recalculated: list[tuple[EventRange, int]]
    state: Callable[[], GroupState]
    outbox: Outbox
    replay: Callable[[str], Replay]
    _first_rows: pa.Table | None = None

    @classmethod
    def of(
        cls, engine: Engine, record: StreamRecord, loaded: Callable[[StreamRecord], StreamRuntime]
    ) -> Verifier:
        """Return what compares a stream's output as it is now; to be asked for between two ticks.

        ``loaded`` gives the stream with its state, where that counts: it may take long.
        """
        services = engine.services
        catalog, registry = services.catalog, services.registry
        stream = compile_record(record, catalog)
        _, progress = registry.last(record.uuid)
        totals = progress.totals if progress is not None else None
        taken = progress is not None and progress.next_slice is None
        target = open_target(stream, record, catalog, services.spark, mark_of(record, progress))
        jobs = registry.recalculations(record.uuid)
        position = progress.version if progress is not None and taken else None
        output_version = catalog.handles.latest(target.info.path).version
        return cls(
            spark=services.spark(),
            catalog=catalog,
            record=record,
            stream=stream,
            target=target,
            position=position,
            followed={} if progress is None else progress.followed,
            output_version=output_version,
            late=totals.late if totals is not None else 0,
            recalculated=[(range_of(job, n), job.versions[n]) for job in jobs for n in range(job.part)],
            state=engine.state_of(loaded(record)) if family_of(stream).batch_needs_state else GroupState,
            outbox=services.outbox,
            replay=partial(
                Replay,
                services.spark(),
                record,
                stream,
                target,
                services.planner_of(record, stream),
                services.settings.max_windows_per_tick,
                RecordedTicks.of(engine, record, stream, position or 0, output_version),
            ),
        )

    def run(self, lower_us: int | None = None, upper_us: int | None = None) -> Verification:
        """Compare the windows that overlap ``[lower_us, upper_us)``, all of them by default."""
        with few_partitions(self.spark, self._rows()):
            source = self._quarantines.of_source(partial(_overlap, lower_us=lower_us, upper_us=upper_us))
            found = self._run(lower_us, upper_us)
        return replace(found, quarantines=(*source, *found.quarantines)) if source else found

    def _rows(self) -> int:
        """Return about how many rows source and output have."""
        paths = {self.stream.source.info.path, self.target.info.path}
        return sum(rows_in(self.catalog.handles.latest(path)) for path in paths)

    def _run(self, lower_us: int | None, upper_us: int | None) -> Verification:
        span = self._overlap(lower_us, upper_us)
        if self.position is None:
            return self._compare(self._found().limit(0), self._found(), span)
        if not self._by_replay:
            computed, late = self._evaluated()
            expected, refused = parted(self.target, computed)
            return self._compare(expected, self._found(), span, late=late, refused=refused)
        with TemporaryDirectory(prefix="verify-", dir=scratch_folder(), ignore_cleanup_errors=True) as folder:
            replayed = self.replay(folder).run()
            if not self.stream.definition.stores:
                return self._compare_events(replayed, lower_us, upper_us)
            return self._compare(
                replayed.rows,
                self._found(),
                span,
                late=replayed.late,
                replayed=replayed,
                refused=replayed.refused,
            )

    @property
    def _quarantines(self) -> Quarantines:
        given = (self.spark, self.catalog, self.record, self.stream, self.target, self.position)
        return Quarantines(*given)

    @property
    def _by_replay(self) -> bool:
        """Whether what the stream writes depends on what came when, and not on its source alone."""
        emission = self.stream.definition.options.emission
        if opens_once(self.stream) or emission.max_delay is not None or not self.stream.definition.stores:
            return True
        if self.stream.goes_by_ticks:
            return True
        return not family_of(self.stream).follows_from_source(self.late, self._only_added)

    # --- the batch evaluation ---

    def _evaluated(self) -> tuple[DataFrame, int]:
        """Return the rows that should be there, and how many late rows count for nothing."""
        assert self.position is not None  # by run
        batch = family_of(self.stream).batch(
            Snapshot(
                self.spark,
                self.catalog.handles,
                self.record,
                self.target,
                history_of(self.record, self.stream.definition),
                self.position,
                recalculated=self.recalculated,
                known=self.state,
            )
        )
        if batch.windows is not None:
            view_of_sql(self.spark, batch.windows, WINDOWS)
        self._register_tables()
        sql = evaluated_sql(self.spark, self.stream, retracts=batch.retracts, settled=batch.settled)
        return self.spark.sql(self.target.shape.select(sql, unique=False)), batch.late

    def _only_added(self) -> bool:
        """Return whether rows were only added to the source since the stream's creation."""
        assert self.position is not None
        commits = read_commits(self.stream.source.info.path, self.record.start_version, self.position)
        return all(commit.append_only or not commit.data_change for commit in commits)

    def _register_tables(self) -> None:
        """Register the tables that the calculation reads: as they are, or as the stream has followed them."""
        for read in self.stream.calculation.reads:
            info = self.stream.tables[read.relation.key]
            own = info.path == self.stream.source.info.path
            table = self.catalog.handles.latest(info.path)
            at = self.followed.get(info.path)
            version = self.position if own else table.version if at is None else at.version
            version = version if read.relation.version is None else read.relation.version
            view_of(read_spark(self.spark, table, version or 0, columns=read.relation.columns), read.view)

    def _found(self) -> DataFrame:
        return read_spark(self.spark, self.target.info.path, self.output_version)

    @property
    def _of_others(self) -> str:
        """SQL that holds for rows of the output of groups that do not wait; empty where no row tells."""
        provenance, waiting = self.target.shape.provenance, self.stream.waiting_groups
        if not provenance or not waiting:
            return ""
        return f"coalesce({provenance.group} NOT IN ({', '.join(map(str, waiting))}), true)"

    def _overlap(self, lower_us: int | None, upper_us: int | None) -> str:
        """Return SQL that holds for rows of the windows to compare; without provenance, by their own time."""
        provenance = self.target.shape.provenance
        if provenance:
            return _overlap(provenance.start, provenance.end, lower_us, upper_us)
        time = quoted(self.target.info.time_column)
        return _overlap(time, f"{time} + INTERVAL 1 MICROSECOND", lower_us, upper_us)

    # --- comparison ---

    def _compare(
        self,
        expected: DataFrame,
        found: DataFrame,
        span: str,
        *,
        late: int = 0,
        replayed: Replayed | None = None,
        refused: DataFrame | None = None,
    ) -> Verification:
        without = self._wall_clock_columns()
        shape = self.target.shape
        types = {column.name: column.type for column in shape.columns if column.name not in without}
        key = shape.key
        if not key:
            types = {**shape.provenance.types, **types} if shape.provenance else types
            key = (*types,)  # a window has several rows, which nothing else tells apart
        found, others = self._own(expected, found, types, key)
        if span:
            expected, found = expected.where(span), found.where(span)
        left_out, reason = self._left_out(replayed)
        waiting = 0
        if self.stream.waiting_groups:
            reason = ", ".join(filter(None, [reason, _WAITING]))
            # Rows that do not tell of which group they are may be theirs.
            left_out = left_out if self._of_others else left_out | {"extra"}
        if self._of_others:
            waiting = found.where(f"NOT {self._of_others}").count()
            expected, found = expected.where(self._of_others), found.where(self._of_others)
        compared = Comparison(self.spark, types, key).run(expected, found, left_out)
        taken_over = 0 if replayed is None else replayed.taken_over
        spans = " AND ".join(filter(None, [span, self._of_others]))
        quarantines = self._quarantines.of_results(refused, spans, without, left_out)
        return self._verification(
            compared,
            (*types,),
            late_ignored=late,
            left_out_columns=tuple(without),
            left_out_rows=compared.left_out + taken_over + waiting,
            left_out_reason=reason,
            others_rows=others,
            compared_with=_EVALUATION if replayed is None else _REPLAY,
            quarantines=quarantines,
        )

    def _own(
        self, expected: DataFrame, found: DataFrame, types: Collection[str], key: Sequence[str]
    ) -> tuple[DataFrame, int | None]:
        """Return the rows that the stream answers for, and how many are others'; None: nothing tells."""
        provenance, info = self.target.shape.provenance, self.target.info
        if provenance:
            return own_rows(found, provenance, self.target.shape.own(SPARK))
        columns = [*dict.fromkeys([*types, info.time_column])]
        if any("map<" in info.column(name).type for name in columns):
            return found, None  # Spark holds no maps against one another
        output = self.catalog.handles.open(info.path)
        theirs = written_by_others(self.spark, self.record, output, self.output_version, columns)
        if theirs is None or theirs.isEmpty():
            return found, None if theirs is None else 0
        return without_theirs(found.select(*map(quoted, columns)), expected, theirs, key)

    def _left_out(self, replayed: Replayed | None) -> tuple[frozenset[Kind], str]:
        """Return the kinds of differences of which it cannot be said whether they are some, and why."""
        if replayed is not None and replayed.taken_over:
            return frozenset(), _UNRECORDED
        if replayed is not None and replayed.unknown:
            return frozenset({"extra"}), _UNRECORDED
        if self.stream.goes_by_ticks:
            return frozenset(), ""
        reason = OTHERS if self._others_changed() else _WALL_CLOCK if self._rows_are_of_the_clock() else ""
        if not reason:
            return frozenset(), ""
        # A row that is there twice under one key is wrong whatever the other tables held.
        keyed: frozenset[Kind] = frozenset({"changed", "missing", "extra"})
        return keyed if self.target.shape.key else keyed | {"doubled"}, reason

    def _compare_events(self, replayed: Replayed, lower_us: int | None, upper_us: int | None) -> Verification:
        """Compare what the outbox tells of windows in the end with what it should."""
        waiting = ", ".join(f"'{gid}'" for gid in self.stream.waiting_groups)
        others = f"coalesce(group_id NOT IN ({waiting}), true)" if waiting else "true"
        expected = standing_events(replayed.outbox.frame(self.spark).where(others), self.record.uuid)
        found = standing_events(self.outbox.frame(self.spark).where(others), self.record.uuid)
        span = _overlap("window_start", "window_end", lower_us, upper_us)
        if span:
            expected, found = expected.where(span), found.where(span)
        reasons: dict[Kind, str] = {}
        if self.outbox.was_cleared():
            reasons["missing"] = _CLEARED
        if replayed.unrecorded:
            reasons["extra"] = _UNRECORDED
        left_out = frozenset(reasons)
        compared = Comparison(self.spark, EVENT_TYPES, EVENT_KEY).run(expected, found, left_out)
        return self._verification(
            compared,
            (*EVENT_TYPES,),
            late_ignored=replayed.late,
            left_out_columns=(),
            left_out_rows=compared.left_out,
            left_out_reason=", ".join(reasons.values()),
            others_rows=0,
            compared_with=_EVENTS,
        )

    def _verification(
        self, compared: Compared, columns: tuple[str, ...], **remarks: Unpack[_Remarks]
    ) -> Verification:
        return Verification(
            stream=f"{self.record.database}.{self.record.name}",
            columns=columns,
            equal_rows=compared.equal,
            expected_rows=compared.expected,
            found_rows=compared.found,
            differing_rows=compared.differing,
            differing=compared.listed,
            **remarks,
        )

    def _wall_clock_columns(self) -> list[str]:
        """Return the result columns that are made of the wall clock, unless its ticks are recorded."""
        if self.stream.goes_by_ticks:
            return []
        return [
            column.name
            for column, projection in zip(
                self.target.shape.columns, self.stream.calculation.query.selects, strict=False
            )
            if _CLOCK in projection.sql("spark")
        ]

    def _rows_are_of_the_clock(self) -> bool:
        """Return whether the wall clock decides which rows there are, not only what stands in a column."""
        query = self.stream.calculation.query
        in_columns = sum(item.sql("spark").count(_CLOCK) for item in query.selects)
        return query.sql("spark").count(_CLOCK) > in_columns

    def _others_changed(self) -> bool:
        """Return whether a table that is read beside the source has changed since creation."""
        versions = self.record.compiled.read_versions
        paths = () if self._by_replay else self.stream.followed
        followed = {path.read.relation.key for path in paths}
        if not family_of(self.stream).is_whole:
            followed -= {path.read.relation.key for path in paths if not path.leads}
        for read in self.stream.calculation.reads:
            info = self.stream.tables[read.relation.key]
            if info.path == self.stream.source.info.path or read.relation.version is not None:
                continue
            if read.relation.key in followed:
                continue
            if self.catalog.handles.latest(info.path).version != versions.get(read.relation.key):
                return True
        return False


def _overlap(start: str, end: str, lower_us: int | None, upper_us: int | None) -> str:
    parts = [] if lower_us is None else [f"unix_micros({end}) > {lower_us}L"]
    parts += [] if upper_us is None else [f"unix_micros({start}) < {upper_us}L"]
    return " AND ".join(parts)
