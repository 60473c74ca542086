"""VERIFY STREAM: the output held against the batch evaluation of the definition, row by row.

The batch evaluation takes everything the stream has taken as one tick from an empty state: history as
one commit, then the changes of every commit, by the same policies (architecture of the stream: which
rows count, which windows fire, what they hold), and compares with the output table as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.create import open_target
from lakestream.engine.creation.others import without_theirs, without_window, written_by_others
from lakestream.engine.reading.relations import (
    CHANGED,
    CHANGES,
    EXTREMES,
    FIRED,
    GROUPS,
    STATE,
    Relations,
    history_of,
    skipped_of,
)
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.recalculation.recalculate import part_of
from lakestream.engine.rounds.engine import compile_record
from lakestream.engine.rounds.replay import Recorded, Replay
from lakestream.engine.ticks.stages import needs_rows
from lakestream.engine.ticks.tick import evaluated_sql
from lakestream.engine.windows.admission import FLUSH, mark_of_state
from lakestream.engine.windows.cutting import CUTS
from lakestream.engine.windows.extremes import NO_EXTREMES
from lakestream.engine.windows.readmission import ANEW, Readmission
from lakestream.language.quoting import quoted
from lakestream.observation.comparison import Comparison, Difference
from lakestream.observation.standing import EVENT_KEY, EVENT_TYPES, standing_events
from lakestream.storage.delta import changes_spark, read_commits, read_spark
from lakestream.storage.reading import arrow_frame
from lakestream.storage.registry import TickPlan
from lakestream.storage.session import checkpointed
from lakestream.triggers.cut import NO_SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Unpack

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.relations import FirstWindow
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.rounds.replay import Replayed
    from lakestream.engine.streams.stream import Part, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.notify.outbox import Outbox
    from lakestream.observation.comparison import Compared, Kind
    from lakestream.storage.catalog import Catalog
    from lakestream.storage.registry import StreamRecord

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

    @property
    def holds(self) -> bool:
        """Return whether no row differs."""
        return self.differing_rows == 0

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
        ]


class _Told(TypedDict):
    """What a verification says beside the counts of rows."""

    late_ignored: int
    left_out_columns: tuple[str, ...]
    left_out_rows: int
    left_out_reason: str
    others_rows: int | None
    compared_with: str


@dataclass
class Verifier:
    """Compares one stream's output as it was between two ticks; what comes meanwhile is not looked at.

    ``position`` is the source's version that the stream stood at, ``late`` its late rows since creation,
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
    output_version: int
    late: int
    recalculated: list[tuple[Part, int]]
    state: Callable[[], GroupState]
    outbox: Outbox
    replay: Callable[[str], Replay]
    _first_rows: pa.Table | None = None

    @classmethod
    def of(cls, engine: Engine, record: StreamRecord) -> Verifier:
        """Return what compares a stream's output as it is now; to be asked for between two ticks."""
        catalog, registry = engine.catalog, engine.registry
        stream = compile_record(record, catalog)
        _, progress = registry.last(record.uuid)
        extra = progress.extra if progress is not None else {}
        taken = progress is not None and "next_slice" not in extra
        target = open_target(stream, record, catalog, engine.spark)
        jobs = registry.recalculations(record.uuid)
        position = progress.version if progress is not None and taken else None
        output_version = catalog.handles.latest(target.info.path).version
        return cls(
            spark=engine.spark(),
            catalog=catalog,
            record=record,
            stream=stream,
            target=target,
            position=position,
            output_version=output_version,
            late=extra.get("total_late", 0),
            recalculated=[
                (part_of(job, n), job.extra["versions"][n]) for job in jobs for n in range(job.part)
            ],
            state=engine.state_of(record) if _needs_state(stream) else GroupState,
            outbox=engine.outbox,
            replay=partial(
                Replay,
                engine.spark(),
                record,
                stream,
                target,
                engine.planner_of(record, stream),
                engine.settings.max_windows_per_tick,
                Recorded.of(engine, record, stream, position or 0, output_version),
            ),
        )

    def run(self, lower_us: int | None = None, upper_us: int | None = None) -> Verification:
        """Compare the windows that overlap ``[lower_us, upper_us)``, all of them by default."""
        span = self._overlap(lower_us, upper_us)
        if self.position is None:
            return self._compare(self._found().limit(0), self._found(), span)
        if not self._by_replay:
            expected, late = self._evaluated()
            return self._compare(expected, self._found(), span, late=late)
        with TemporaryDirectory(prefix="lakestream-verify-", ignore_cleanup_errors=True) as folder:
            replayed = self.replay(folder).run()
            if not self.stream.definition.stores:
                return self._compare_events(replayed, lower_us, upper_us)
            return self._compare(replayed.rows, self._found(), span, late=replayed.late, replayed=replayed)

    @property
    def _by_replay(self) -> bool:
        """Whether what the stream writes depends on what came when, and not on its source alone."""
        options = self.stream.definition.options
        if options.at_open or options.max_delay is not None or not self.stream.definition.stores:
            return True
        if self.stream.goes_by_ticks or (self.stream.assigner is not None and not self.stream.exact):
            return True
        if self.stream.exact:
            return False
        if self.stream.cut is not None:
            return not self._only_followed()
        # What a row was counts on, or goes from windows that are open, by what came when.
        return (options.at_once or self.stream.counts_rewritten) and not self._only_added()

    # --- the batch evaluation ---

    def _evaluated(self) -> tuple[DataFrame, int]:
        """Return the rows that should be there, and how many late rows count for nothing."""
        if self.stream.cut is not None:
            self._cut()
            return self._expected(), 0
        if self.stream.assigner is not None:
            self._admit()
            return self._results(retracts=False), 0
        if self.stream.deletes and not self.stream.exact:
            self._first_rows = self.state().rows  # before anything is registered: it is found out by ticks
        late = self._detect_exact() if self.stream.exact else self._detect()
        if self.stream.definition.options.at_once:
            self.spark.sql(self.stream.early_sql(FIRED, STATE)).createOrReplaceTempView(FIRED)
        return self._expected(), late

    def _cut(self) -> None:
        """Register the windows of the source as it is, for streams that follow it."""
        assert self.stream.cut is not None and self.position is not None  # noqa: PT018 - by _evaluated
        self._as_changes()
        self.spark.sql(self.stream.rows_sql(CHANGED, None, None)).createOrReplaceTempView(ROWS)
        options = self.stream.definition.options
        ahead, shows = str(options.opens_ahead).lower(), str(options.at_once).lower()
        self.spark.sql(
            f"SELECT *, IF({ahead}, newest, mark) AS upto FROM (SELECT _ls_gid AS gid, "
            f"min(_ls_ts) AS from_us, max(_ls_ts) AS newest, "
            f"max(_ls_ts) - {self.stream.watermark_delay}L AS mark FROM {ROWS} GROUP BY _ls_gid)"
        ).createOrReplaceTempView(CUTS)
        windows = self.stream.cut.sql(self.stream.cut_rows_sql(CUTS), NO_SEEDS)
        names = "".join(f", any_value({name}) AS {name}" for name in self.stream.group_columns)
        groups = f"SELECT gid{names} FROM {CHANGES} GROUP BY gid"
        listed = "".join(f", g.{name}" for name in self.stream.group_columns)
        self.spark.sql(
            f"SELECT w.gid{listed}, w.low AS k, CAST({self.position} AS BIGINT) AS c, w.low, w.high, "
            f"false AS opening FROM ({windows}) w JOIN ({groups}) g ON g.gid = w.gid "
            f"WHERE w.counts AND (w.closed OR w.shows AND {shows})"
        ).createOrReplaceTempView(FIRED)

    def _admit(self) -> None:
        """Register the windows of admitted rows, over the source as it is."""
        assert self.position is not None  # by run
        relations = self._relations(FLUSH if mark_of_state(self.state()) == FLUSH else ANEW)
        again = Readmission(self.spark, relations, self.stream, relations.plan, GroupState(), everything=True)
        again.run()

    def _relations(self, kind: str) -> Relations:
        """Return the relations of a tick at the stream's place."""
        assert self.position is not None  # by run
        extra = {"transport": SPARK}
        plan = TickPlan(self.stream.uuid, 0, kind, self.position, self.position, 0, {}, extra=extra)
        history = history_of(self.record, self.stream.definition)
        return Relations.of(self.spark, self.catalog.handles, self.stream, plan, history)

    def _only_followed(self) -> bool:
        """Return whether the stream left nothing out: every late row counted, and none was taken back."""
        assert self.position is not None
        if not self.stream.follows_source and (self.late or self.stream.expiry is not None):
            return False
        return self.stream.deletes or self._only_added()

    def _only_added(self) -> bool:
        """Return whether rows were only added to the source since the stream's creation."""
        assert self.position is not None
        commits = read_commits(self.stream.source.info.path, self.record.start_version, self.position)
        return all(commit.append_only or not commit.data_change for commit in commits)

    def _at_creation(self, *, taken: bool) -> DataFrame:
        """Return the rows that were there at creation and are the stream's, or those that are not."""
        info, history = self.stream.source.info, history_of(self.record, self.stream.definition)
        rows = read_spark(
            self.spark,
            self.catalog.handles.open(info.path),
            self.record.start_version,
            columns=self.stream.changed_columns,
            lower=history.start_us if taken else None,
            upper=None if taken else history.until_us,
            time_column=info.time_column,
        )
        return rows if history.taken or not taken else rows.limit(0)

    def _detect(self) -> int:
        """Register what fires over the whole history, commit by commit."""
        assert self.position is not None
        version = f"CAST({self.record.start_version} AS BIGINT) AS _commit_version"
        rows = self._at_creation(taken=True).selectExpr(
            "*", version, "1L AS _ls_sign", "'insert' AS _change_type"
        )
        if self.position > self.record.start_version:
            source = self.catalog.handles.open(self.stream.source.info.path)
            changes_spark(
                self.spark, source, self.record.start_version, self.position, self.stream.changed_columns
            ).where(self._not_skipped()).createOrReplaceTempView(_RAW)
            rows = rows.unionByName(
                self.spark.sql(self.stream.net_sql(_RAW, self.position, self.stream.changed_columns))
            )
        rows.createOrReplaceTempView(CHANGED)
        self.spark.sql(self.stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)
        self.spark.sql(self.stream.empty_state_sql(CHANGES)).createOrReplaceTempView(STATE)
        detected = self.spark.sql(self.stream.detection.sql(CHANGES, STATE))
        if self.recalculated:
            # Read once per part: without a checkpoint the whole detection would be planned as often.
            # Where deletes count it is joined to itself below, which Spark cannot plan of a checkpoint.
            by_arrow = self.stream.deletes
            kept = arrow_frame(self.spark, detected.toArrow()) if by_arrow else None
            detected = checkpointed(self.spark, detected) if kept is None else kept
        detected.createOrReplaceTempView(_DETECTED)
        late = 0 if self.stream.refires else self._count(f"SELECT coalesce(sum(late), 0) FROM {_DETECTED}")
        recalculated = detected.limit(0)
        for part, at in self.recalculated:
            state = self._state_of_part(part, at)
            again = self.spark.sql(self.stream.recalculated_sql(f"({state})", at, part))
            recalculated = recalculated.unionByName(again)
            if self.stream.begins_again:
                recalculated = checkpointed(self.spark, recalculated)
                detected.unionByName(recalculated).createOrReplaceTempView(_DETECTED)
        recalculated.createOrReplaceTempView(_RECALCULATED)
        detected.unionByName(recalculated).createOrReplaceTempView(FIRED)
        return late

    def _state_of_part(self, part: Part, at: int) -> str:
        """Return SQL of the state that a part was recalculated by: groups may have begun earlier."""
        state = _state_at(self.stream, at)
        if not self.stream.begins_again:
            return state

        def begun(first: FirstWindow) -> str:
            fired = f"r -> {first.number - 1}L BETWEEN r.a AND r.b"
            return f"SELECT gid FROM {_DETECTED} WHERE v <= {at} AND exists(concat(fires, again), {fired})"

        return self._relations("recalculation").begun_sql(at, f"({state})", part, begun)

    def _not_skipped(self) -> str:
        skipped = skipped_of(self.record)
        ranges = (f"_commit_version > {after} AND _commit_version <= {upto}" for after, upto in skipped)
        return " AND ".join(f"NOT ({part})" for part in ranges) or "true"

    def _count(self, sql: str) -> int:
        row = self.spark.sql(sql).head()
        return int(row[0]) if row else 0

    def _as_changes(self) -> None:
        """Register the stream's rows of the source as it is at the stream's place as if they were new."""
        assert self.position is not None
        info = self.stream.source.info
        source = self.catalog.handles.open(info.path)
        rows = read_spark(self.spark, source, self.position, columns=self.stream.changed_columns)
        history = history_of(self.record, self.stream.definition)
        for after, upto in history.skipped:
            written = changes_spark(self.spark, source, after, upto, self.stream.changed_columns)
            written = written.where("_change_type IN ('insert', 'update_postimage')")
            rows = rows.exceptAll(written.select(*rows.columns))
        if not history.taken and history.until_us is not None:
            rows = rows.exceptAll(self._at_creation(taken=False))
        if history.taken and history.start_us is not None and "floor_us" not in self.record.extra:
            early = self._at_creation(taken=False)
            rows = rows.exceptAll(early)
        rows.selectExpr(
            "*",
            f"CAST({self.position} AS BIGINT) AS _commit_version",
            "1L AS _ls_sign",
            "'insert' AS _change_type",
        ).createOrReplaceTempView(CHANGED)
        self.spark.sql(self.stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)

    def _detect_exact(self) -> int:
        """Register the windows of the source as it is at the stream's place."""
        self._as_changes()
        self.spark.sql(self.stream.empty_state_sql(CHANGES)).createOrReplaceTempView(STATE)
        self.spark.sql(NO_EXTREMES).createOrReplaceTempView(EXTREMES)
        sql = self.stream.net_detection.sql(CHANGES, STATE, EXTREMES)
        self.spark.sql(sql).createOrReplaceTempView(FIRED)
        return 0

    def _expected(self) -> DataFrame:
        if needs_rows(self.stream):
            self.spark.sql(self.stream.rows_sql(CHANGED, None, None)).createOrReplaceTempView(ROWS)
        windows = self.stream.windows_sql(FIRED, 0)
        if self._first_rows is not None:
            # Deletes may have moved a group's first row: windows before it are gone, unless recalculated.
            arrow_frame(self.spark, self._first_rows).coalesce(1).createOrReplaceTempView(GROUPS)
            again = self.stream.detection.windows_sql(_RECALCULATED, rows=self.stream.counting_rows)
            windows = (
                f"SELECT w.* FROM ({windows}) w JOIN {GROUPS} g ON g.gid = w._ls_gid "
                f"LEFT JOIN ({again}) r ON r.gid = w._ls_gid AND r.k = w._ls_k "
                f"WHERE w._ls_high > g.first OR r.k IS NOT NULL"
            )
        self.spark.sql(windows).createOrReplaceTempView(WINDOWS)
        for read in self.stream.calculation.reads:
            info = self.stream.tables[read.relation.key]
            own = info.path == self.stream.source.info.path
            table = self.catalog.handles.latest(info.path)
            version = self.position if own else table.version
            version = version if read.relation.version is None else read.relation.version
            rows = read_spark(self.spark, table, version or 0, columns=read.relation.columns)
            rows.createOrReplaceTempView(read.view)
        return self._results(retracts=True)

    def _results(self, *, retracts: bool) -> DataFrame:
        settled = self.stream.exact or self.stream.cut is not None
        sql = evaluated_sql(self.spark, self.stream, retracts=retracts, settled=settled)
        return self.spark.sql(self.target.shape.select(sql, unique=False))

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
        return self._verification(
            compared,
            (*types,),
            late_ignored=late,
            left_out_columns=tuple(without),
            left_out_rows=compared.left_out + taken_over + waiting,
            left_out_reason=reason,
            others_rows=others,
            compared_with=_EVALUATION if replayed is None else _REPLAY,
        )

    def _own(
        self, expected: DataFrame, found: DataFrame, types: Collection[str], key: Sequence[str]
    ) -> tuple[DataFrame, int | None]:
        """Return the rows that the stream answers for, and how many are others'; None: nothing tells."""
        provenance, info = self.target.shape.provenance, self.target.info
        if provenance:
            return without_window(found, provenance)
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
        if replayed.untold:
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
        self, compared: Compared, columns: tuple[str, ...], **told: Unpack[_Told]
    ) -> Verification:
        return Verification(
            stream=f"{self.record.database}.{self.record.name}",
            columns=columns,
            equal_rows=compared.equal,
            expected_rows=compared.expected,
            found_rows=compared.found,
            differing_rows=compared.differing,
            differing=compared.listed,
            **told,
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
        versions = self.record.extra.get("read_versions", {})
        for read in self.stream.calculation.reads:
            info = self.stream.tables[read.relation.key]
            if info.path == self.stream.source.info.path or read.relation.version is not None:
                continue
            if self.catalog.handles.latest(info.path).version != versions.get(read.relation.key):
                return True
        return False


def _needs_state(stream: Stream) -> bool:
    if stream.exact:
        return stream.assigner is not None
    return stream.assigner is None and stream.cut is None and stream.deletes


def _state_at(stream: Stream, version: int) -> str:
    """Return SQL of the groups' state after a commit, from a detection result."""
    groups = "".join(f", any_value({name}) AS {name}" for name in stream.group_columns)
    return (
        f"SELECT gid{groups}, min(first) AS first, max(newest) AS newest FROM {_DETECTED} "
        f"WHERE v <= {version} GROUP BY gid"
    )


def _overlap(start: str, end: str, lower_us: int | None, upper_us: int | None) -> str:
    parts = [] if lower_us is None else [f"unix_micros({end}) > {lower_us}L"]
    parts += [] if upper_us is None else [f"unix_micros({start}) < {upper_us}L"]
    return " AND ".join(parts)
