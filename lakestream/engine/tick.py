"""One tick of one stream: the stages of its plan, run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakestream.compute.calculation import ROWS, WINDOWS
from lakestream.compute.evaluate import BATCH, Way
from lakestream.engine.faults import reach
from lakestream.engine.stages import (
    Compute,
    DetectWindows,
    ReadChanges,
    ReadRows,
    Write,
    stages,
)
from lakestream.engine.state import GroupState, summary_of, summary_sql
from lakestream.engine.stream import quoted
from lakestream.engine.transport import ARROW, ArrowTransport, SparkTransport, merge_spans
from lakestream.engine.write import write_result
from lakestream.errors import StreamError
from lakestream.storage.delta import capabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.calculation import Bound, Read
    from lakestream.engine.stages import Stage
    from lakestream.engine.stream import Stream
    from lakestream.engine.target import Target
    from lakestream.engine.transport import Kept, Transport
    from lakestream.storage.delta import Tables
    from lakestream.storage.registry import TickPlan

CHANGED, BEFORE, EXCLUDED, STATE, CHANGES, FIRED = (
    "ls_changed",
    "ls_before",
    "ls_excluded",
    "ls_state",
    "ls_changes",
    "ls_detected",
)


@dataclass(frozen=True)
class History:
    """Rows written before the stream was created: taken from ``start_us`` on, or not at all.

    ``version`` is the source's version at creation; rows before ``until_us`` of that version are not
    the stream's (None: there are none to leave out).
    """

    version: int
    start_us: int | None
    until_us: int | None


@dataclass
class Outcome:
    """What a tick did."""

    state: GroupState
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    windows: int = 0
    output_version: int | None = None


@dataclass
class Tick:
    """A tick under way. ``landed`` says that its output is there already (replay after a crash)."""

    spark: SparkSession
    tables: Tables
    stream: Stream
    target: Target
    plan: TickPlan
    state: GroupState
    history: History
    max_windows: int
    epoch: int
    landed: bool = False
    transport: Transport = field(init=False)
    outcome: Outcome = field(init=False)
    _summary: pa.Table = field(init=False)
    _retracts: bool = False
    _result: DataFrame | None = None

    def __post_init__(self) -> None:
        """Take the plan's way of moving bytes."""
        arrow = self.plan.extra.get("transport") == ARROW
        self.transport = ArrowTransport(self.spark, self.tables) if arrow else SparkTransport(self.spark)
        self.outcome = Outcome(self.state)

    def run(self) -> Outcome:
        """Run the stages of the plan; raises StreamError with the named state of the stream."""
        run: Mapping[type[Stage], Callable[[Any], None]] = {
            ReadChanges: self._read_changes,
            DetectWindows: self._detect,
            ReadRows: self._read_rows,
            Compute: self._compute,
            Write: self._write,
        }
        try:
            for stage in stages(self.stream, self.target, self.plan):
                run[type(stage)](stage)
                if isinstance(stage, DetectWindows) and (self.landed or not self.outcome.windows):
                    break
        finally:
            if isinstance(self.transport, SparkTransport):
                self.transport.release()
        return self.outcome

    # --- stages ---

    def _read_changes(self, stage: ReadChanges) -> None:
        path, plan = self.stream.source.info.path, self.plan
        if stage.history:
            rows = self.transport.rows(
                path,
                plan.upto,
                stage.columns,
                self.stream.source.info.time_column,
                [(plan.lower_us, plan.upper_us)],
            )
            changed = rows.selectExpr(
                "*", f"CAST({plan.upto} AS BIGINT) AS _commit_version", "'insert' AS _change_type"
            )
        else:
            changed = self.transport.changes(path, plan.after, plan.upto, stage.columns)
        changed.createOrReplaceTempView(CHANGED)

    def _detect(self, _stage: DetectWindows) -> None:
        """Detect, and sum up by group: the next state, how much fires, and which span it covers."""
        stream = self.stream
        self.spark.sql(stream.changes_sql(CHANGED)).createOrReplaceTempView(CHANGES)
        self._state_view()
        fired = self.transport.keep(self.spark.sql(stream.detection.sql(CHANGES, STATE)))
        fired.frame.createOrReplaceTempView(FIRED)
        self._summary = self._summed(fired)
        counted = {name: _total(self._summary, name) for name in ("rows", "late", "windows", "again")}
        if counted["windows"] > self.max_windows and not stream.definition.options.ignore_nodata:
            raise StreamError(
                "TOO_MANY_WINDOWS",
                f"one tick would make {counted['windows']:,} windows fire, more than {self.max_windows:,}",
                hint="a row far in the future? delete it, or raise the setting max_windows_per_tick",
            )
        touched = self._summary.select(["gid", *stream.group_columns, "first", "newest"])
        self.outcome = Outcome(
            self.state.updated(touched),
            rows_in=counted["rows"],
            late=counted["late"],
            windows=counted["windows"],
        )

    def _state_view(self) -> None:
        if self.state.rows is not None:
            self.spark.createDataFrame(self.state.rows).coalesce(1).createOrReplaceTempView(STATE)
            return
        self.spark.sql(self.stream.empty_state_sql(CHANGES)).createOrReplaceTempView(STATE)

    def _summed(self, fired: Kept) -> pa.Table:
        groups = self.stream.group_columns
        if fired.rows is not None:
            return summary_of(fired.rows, groups)
        return self.spark.sql(summary_sql(FIRED, groups)).toArrow()

    def _read_rows(self, stage: ReadRows) -> None:
        """Register the rows of the span that fires, and the other tables at the plan's versions."""
        self.spark.sql(self.stream.windows_sql(FIRED, self.plan.clock_us)).createOrReplaceTempView(WINDOWS)
        spans = self._spans()
        if stage.rows is not None:
            before = self._rows_before(spans)
            excluded = self._rows_excluded(spans) if before else None
            self._retracts = not self.plan.extra.get("appends_only", False)
            rows = self.spark.sql(self.stream.rows_sql(CHANGED, before, excluded))
            rows.createOrReplaceTempView(ROWS)
        span = (spans[0][0], spans[-1][1])
        for read in self.stream.calculation.reads:
            self._read_table(read, span)

    def _spans(self) -> list[tuple[int, int]]:
        low, high = self._summary["low"].to_pylist(), self._summary["high"].to_pylist()
        return merge_spans(
            [(a, b) for a, b in zip(low, high, strict=True) if a is not None and b is not None]
        )

    def _rows_before(self, spans: list[tuple[int, int]]) -> str | None:
        """Register the source's rows of the spans as they were before the tick; None for no such rows."""
        plan, info = self.plan, self.stream.source.info
        if plan.kind == "history":
            version, upper = plan.upto, plan.lower_us
            if upper is None or not plan.extra.get("slice"):
                return None
            spans = [(low, min(high, upper)) for low, high in spans if low < upper]
        else:
            version = plan.after
            if version == self.history.version and self.history.until_us is None and not self._has_history:
                return None
        if not spans:
            return None
        start = self.history.start_us if plan.kind == "history" else None
        bounded = [(low if start is None else max(low, start), high) for low, high in spans]
        rows = self.transport.rows(info.path, version, self.stream.changed_columns, info.time_column, bounded)
        rows.createOrReplaceTempView(BEFORE)
        return BEFORE

    @property
    def _has_history(self) -> bool:
        return self.stream.definition.options.wants_history

    def _rows_excluded(self, spans: list[tuple[int, int]]) -> str | None:
        """Register the rows of before the stream's creation that it does not take; None for none."""
        until = self.history.until_us
        overlapping = [(low, min(high, until)) for low, high in spans if until is not None and low < until]
        if not overlapping or self.plan.kind == "history":
            return None
        info = self.stream.source.info
        rows = self.transport.rows(
            info.path, self.history.version, self.stream.changed_columns, info.time_column, overlapping
        )
        rows.createOrReplaceTempView(EXCLUDED)
        return EXCLUDED

    def _read_table(self, read: Read, span: tuple[int, int]) -> None:
        info = self.stream.tables[read.relation.key]
        version = self.plan.table_versions[info.path]
        lower, upper = _edge(read.lower, span, 0), _edge(read.upper, span, 1)
        transport = self.transport
        if (
            lower is None
            and transport.name == ARROW
            and self.plan.extra.get("large_tables", {}).get(info.path)
        ):
            transport = SparkTransport(self.spark)
        rows = transport.rows(info.path, version, read.relation.columns, info.time_column, [(lower, upper)])
        rows.createOrReplaceTempView(read.view)

    def _compute(self, _stage: Compute) -> None:
        sql = evaluated_sql(self.spark, self.stream, retracts=self._retracts)
        self._result = self.spark.sql(self.target.shape.select(sql, unique=self.target.appends))

    def _write(self, _stage: Write) -> None:
        assert self._result is not None
        reach("C3")
        written = write_result(
            self.spark,
            self.tables.open(self.target.info.path),
            self.target,
            self._handed_over(),
            again=self._again(),
            app=output_app(self.stream.uuid),
            plan=self.plan,
            epoch=self.epoch,
        )
        self.outcome.rows_out = written.rows
        self.outcome.output_version = written.version

    def _handed_over(self) -> pa.Table | DataFrame:
        """Return the rows as the output can take them: delta-rs cannot write every table."""
        assert self._result is not None  # the stage before made it
        if capabilities(self.tables.open(self.target.info.path)).arrow_writes:
            return self.transport.hand_over(self._result)
        return self._result

    def _again(self) -> pa.Table | None:
        """Return group and start of the windows that fired before, None when there are none."""
        if not _total(self._summary, "again"):
            return None
        k = self.stream.detection.windows_sql(FIRED)
        low = self.stream.grid.low("k", "first")
        return self.spark.sql(f"SELECT gid, {low} AS low FROM ({k}) WHERE again").toArrow()


def output_app(uuid: str) -> str:
    """Return the transaction application id of a stream's output commits."""
    return f"lakestream:{uuid}:output"


def _total(summary: pa.Table, name: str) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(summary[name]).as_py() or 0)


def _edge(bound: Bound | None, span: tuple[int, int], end: int) -> int | None:
    """Return the microseconds that a read's bound comes to over all windows, a little wide."""
    if bound is None or (bound.placeholder == "_tnext_ts" and end):
        return None
    return span[end] + bound.offset + (2 if end else -1)


def evaluated_sql(spark: SparkSession, stream: Stream, *, retracts: bool) -> str:
    """Return the SQL of the calculation's result for the registered windows, by the stream's way."""
    if stream.way is not Way.EACH:
        return stream.evaluation(retracts=retracts).sql()
    _each_window(spark, stream, retracts=retracts).createOrReplaceTempView("ls_evaluated")
    return "SELECT * FROM ls_evaluated"


def _each_window(spark: SparkSession, stream: Stream, *, retracts: bool) -> DataFrame:
    """Evaluate window by window what Spark cannot for all at once, in batches of a query each."""
    import pyarrow as pa

    evaluation = stream.evaluation(retracts=retracts)
    windows = spark.sql(evaluation.fired_sql())
    names = windows.columns
    listed = ", ".join(_as_literal(name, kind) for name, kind in windows.dtypes)
    windows.createOrReplaceTempView("ls_each")
    literals = [
        dict(zip(names, row, strict=True)) for row in spark.sql(f"SELECT {listed} FROM ls_each").collect()
    ]
    if not literals:
        nothing = {name: f"CAST(NULL AS {kind})" for name, kind in windows.dtypes}
        return spark.sql(evaluation.each_sql([nothing])).limit(0)
    batches = [literals[at : at + BATCH] for at in range(0, len(literals), BATCH)]
    # One batch after the other: joins of all of them at once would hold as many broadcasts in memory.
    results = [spark.sql(evaluation.each_sql(batch)).toArrow() for batch in batches]
    return spark.createDataFrame(pa.concat_tables(results)).coalesce(1)


def _as_literal(name: str, kind: str) -> str:
    """Return SQL that gives a value as a literal of Spark SQL."""
    column = quoted(name)
    if kind == "string":
        escaped = f"replace(replace({column}, '\\\\', '\\\\\\\\'), '\\'', '\\\\\\'')"
        body = f"concat('\\'', {escaped}, '\\'')"
    else:
        body = f"concat('CAST(\\'', CAST({column} AS STRING), '\\' AS {kind})')"
    return f"coalesce({body}, 'CAST(NULL AS {kind})') AS {column}"
