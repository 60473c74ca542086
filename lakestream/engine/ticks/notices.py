"""What a tick tells of: the windows that opened, closed or went, with their results, into the outbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.faults import reach
from lakestream.engine.reading.relations import FIRED, STATE
from lakestream.engine.streams.write import rows_of_part, rows_of_windows
from lakestream.language.common.functions import Meaning
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.model import ON_TIME, WINDOW_CLOSE, WINDOW_OPEN, SlidingTrigger
from lakestream.language.quoting import quoted_text
from lakestream.notify.events import WINDOW_INVALIDATION, EventRules, ResultColumn
from lakestream.notify.rows import closings, outbox_rows
from lakestream.output.columns import subtable_sql
from lakestream.storage.reading import arrow_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Part, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.notify.outbox import Outbox
    from lakestream.output.columns import OutputShape
    from lakestream.storage.delta import Table
    from lakestream.storage.registry import TickPlan

EVENTS, RESULTS, WERE = "ls_events", "ls_results", "ls_were"
_OPEN_BEFORE, _BEGUN = "ls_open_before", "ls_begun"


def event_rules(stream: Stream, shape: OutputShape) -> EventRules:
    """Return what a stream that notifies tells of."""
    definition, options = stream.definition, stream.definition.options
    notification = definition.notification
    assert notification is not None
    own = [column for column in shape.columns if not column.of_group and not column.name.startswith("_ls_")]
    labels = notification.labels or tuple(column.name for column in own)
    columns = tuple(
        ResultColumn(column.name, label, column.type) for column, label in zip(own, labels, strict=True)
    )
    table = "CAST(NULL AS STRING)"
    if definition.stores:
        by_group = shape.has_subtables
        table = subtable_sql(definition, stream.zone) if by_group else quoted_text(definition.output.name)
    where, where_nothing = _conditions(stream, columns)
    return EventRules(
        uuid=stream.uuid,
        stream=definition.name.name,
        trigger=definition.trigger,
        wanted=notification.events,
        columns=columns,
        table=table,
        subtables=shape.has_subtables,
        places=shape.places,
        calculates=definition.calculates,
        at_open=options.at_open,
        at_close=options.at_close or options.by_clock,
        only_with_rows=options.ignore_nodata,
        classic=notification.classic,
        where=where,
        where_nothing=where_nothing,
    )


def _conditions(stream: Stream, columns: tuple[ResultColumn, ...]) -> tuple[str, str]:
    """Return SQL of the condition over the output's columns, and for an event without a result."""
    notification = stream.definition.notification
    if notification is None or notification.where is None:
        return "true", "true"
    fragment, meaning = notification.where, Meaning(stream.zone)
    known = {column.label.lower(): column for column in columns}

    def over(value: str) -> str:
        def resolve(node: exp.Expr) -> exp.Expr:
            column = known.get(node.name.lower()) if isinstance(node, exp.Column) else None
            if column is None:
                return node
            if value == "columns":
                return exp.column(column.name, quoted=True)
            return exp.Var(this=f"CAST(NULL AS {column.type})")

        tree = in_spark(parse_expression(fragment), meaning, fragment)
        return str(tree.transform(resolve).sql("spark"))

    return f"coalesce({over('columns')}, false)", f"coalesce({over('nothing')}, false)"


@dataclass
class Notices:
    """The events of one tick, from what it found out about windows to rows of the outbox."""

    spark: SparkSession
    stream: Stream
    target: Target
    plan: TickPlan
    relations: Relations
    outbox: Outbox
    epoch: int
    _events: bool = field(default=False, init=False)
    _results: bool = field(default=False, init=False)
    _updated: pa.Table | None = field(default=None, init=False)

    @cached_property
    def rules(self) -> EventRules:
        """What the stream tells of."""
        return event_rules(self.stream, self.target.shape)

    @property
    def _wants_openings(self) -> bool:
        return WINDOW_OPEN in self.rules.wanted

    # --- what happened ---

    def take(self, events: pa.Table) -> None:
        """Take events that were found out one by one."""
        self._register(arrow_frame(self.spark, events))

    def updated(self, rows: pa.Table) -> None:
        """Take windows that close for the first time, as the rules' ``closings_sql`` gives them."""
        self._updated = closings(self.rules, rows)

    def detected(self) -> None:
        """Take what a detection result says: windows that closed, again or for the first time, or went."""
        found = []
        if not self.stream.definition.options.by_clock:
            found.append(self._closings())
        if not isinstance(self.stream.definition.trigger, SlidingTrigger):
            found += [self._gone(), *self._opened_and_left()]
        if found:
            self._register(self.spark.sql(" UNION ALL ".join(found)))

    def closed(self, *, again: bool = False) -> None:
        """Take the windows of a detection result that the clock, or a recalculation, has let fire."""
        self._register(self.spark.sql(self._closings(closed_only=again)))

    def fired(self, fired: str) -> None:
        """Take instants of PERIOD, from (gid, group columns, low, high)."""
        told = f"SELECT gid{self._groups()}, low, high, {_kind(ON_TIME)} FROM {fired}"
        self._register(self.spark.sql(told))

    def results(self, rows: DataFrame) -> None:
        """Take the rows of the output that the tick computed."""
        rows.createOrReplaceTempView(RESULTS)
        self._results = True

    def _register(self, events: DataFrame) -> None:
        events.createOrReplaceTempView(EVENTS)
        self._events = True

    def _groups(self) -> str:
        return "".join(f", {name}" for name in self.stream.group_columns)

    def _closings(self, *, closed_only: bool = False) -> str:
        """Return SQL of the windows that a detection result lets fire."""
        grid, k, first = self.stream.grid, "k", "first"
        kind = ON_TIME if isinstance(self.stream.definition.trigger, SlidingTrigger) else WINDOW_CLOSE
        windows = self.stream.detection.windows_sql(FIRED, newest=closed_only)
        still = ""
        if closed_only:
            still = f" WHERE k <= {grid.closed(f'(newest - {self.stream.watermark_delay}L)', first)}"
        return (
            f"SELECT gid{self._groups()}, {grid.low(k, first)} AS low, {grid.high(k, first)} AS high, "
            f"{_kind(kind, 'again')} FROM ({windows}){still}"
        )

    def _gone(self) -> str:
        """Return SQL of the windows that are no more by a detection result."""
        grid, k, first = self.stream.grid, "k", "first_gone"
        gone = "explode(flatten(transform(gone, r -> sequence(r.a, r.b))))"
        return (
            f"SELECT gid{self._groups()}, {grid.low(k, first)} AS low, {grid.high(k, first)} AS high, "
            f"{_kind(WINDOW_INVALIDATION, 'true')} "
            f"FROM (SELECT gid{self._groups()}, first_gone, {gone} AS k FROM {FIRED})"
        )

    def _opened_and_left(self) -> list[str]:
        """Return SQL of the windows that opened, and of those that were open and are no more."""
        if self.stream.definition.options.ignore_nodata:
            return self._by_their_rows() if self._wants_openings else []
        found = [self._openings()] if self._wants_openings else []
        if self.stream.deletes:
            found.append(self._left())
        if self.stream.exact and self._wants_openings:
            found.append(self._reopened())
        return found

    def _openings(self) -> str:
        """Return SQL of the windows whose start the mark has reached in the tick.

        So do those that an earlier first row of a group brings.
        """
        base, base_before, begun, begun_before, *_ = self._bounds()
        ranges = (
            f"CASE WHEN first_before IS NULL THEN array(struct({base} + 1 AS a, {begun} AS b)) ELSE array("
            f"struct(greatest({base}, {begun_before}) + 1 AS a, {begun} AS b), "
            f"struct({base} + 1 AS a, least({base_before}, {begun}) AS b)) END"
        )
        return self._happening(WINDOW_OPEN, self._ranged(ranges))

    def _left(self) -> str:
        """Return SQL of open windows that are no more: the mark, or a group's first row, passed them by."""
        return self._happening(WINDOW_INVALIDATION, self._ranged(self.stream.left_open_ranges(), "_before"))

    def _reopened(self) -> str:
        """Return SQL of the windows that had closed and are open again: the mark went back."""
        base, _, begun, _, closed, closed_before = self._bounds()
        ranges = (
            f"array(struct(greatest({base}, {closed}) + 1 AS a, "
            f"CASE WHEN first_before IS NOT NULL THEN least({begun}, {closed_before}) END AS b))"
        )
        return self._happening(WINDOW_OPEN, self._ranged(ranges))

    def _by_their_rows(self) -> list[str]:
        """Return SQL of what opened and what is no more, where windows without rows do not count.

        A window opens when the mark has reached a row of it, or by a late row; it goes with its last row.
        """
        base, base_before, begun, begun_before, closed, closed_before = self._bounds()
        were = f"array(struct(greatest({base_before}, {closed_before}) + 1 AS a, {begun_before} AS b))"
        stays_closed = f"CASE WHEN {closed_before} IS NOT NULL THEN least({closed}, {closed_before}) END"
        begins = (
            f"array(struct(greatest({base}, {stays_closed}) + 1 AS a, {begun} AS b), "
            f"struct({base} + 1 AS a, least({base_before}, {begun}) AS b))"
        )
        before = self.plan.upto if self.plan.kind == "history" else self.plan.after
        self._keep_with_rows(_OPEN_BEFORE, self._ranged(were, "_before"), before)
        self._keep_with_rows(_BEGUN, self._ranged(begins), self.plan.upto)
        late = f"SELECT * FROM ({self._closings()}) WHERE again"
        return [
            self._happening(WINDOW_OPEN, _without(_BEGUN, _OPEN_BEFORE)),
            self._happening(WINDOW_OPEN, _without(f"({late})", _BEGUN), "true"),
            self._happening(WINDOW_INVALIDATION, _without(_OPEN_BEFORE, _BEGUN)),
        ]

    def _happening(self, kind: str, windows: str, again: str = "false") -> str:
        return f"SELECT gid{self._groups()}, low, high, {_kind(kind, again)} FROM ({windows})"

    def _bounds(self) -> tuple[str, ...]:
        """Return SQL of window numbers, each now and before: before the first, last begun, last closed."""
        grid, watermark = self.stream.grid, self.stream.watermark_delay
        marks = [(f"(newest{when} - {watermark}L)", f"first{when}") for when in ("", "_before")]
        bases = [grid.ended(first, first) for _, first in marks]
        begun = [grid.begun(mark, first) for mark, first in marks]
        return (*bases, *begun, *(grid.closed(mark, first) for mark, first in marks))

    def _ranged(self, ranges: str, when: str = "") -> str:
        """Return SQL of the windows of ranges over groups as they are now and were before the tick.

        They are (gid, group columns, low, high, mark); ``when``: of the groups now, or "_before".
        """
        groups = "".join(f", any_value(f.{name}) AS {name}" for name in self.stream.group_columns)
        moved = (
            f"SELECT f.gid{groups}, min(f.first) AS first, max(f.newest) AS newest, "
            f"any_value(s.first) AS first_before, any_value(s.newest) AS newest_before "
            f"FROM {FIRED} f LEFT JOIN {STATE} s ON s.gid = f.gid GROUP BY f.gid"
        )
        numbers = f"flatten(transform(filter({ranges}, r -> r.a <= r.b), r -> sequence(r.a, r.b)))"
        grid, first = self.stream.grid, f"first{when}"
        return (
            f"SELECT gid{self._groups()}, {grid.low('k', first)} AS low, {grid.high('k', first)} AS high, "
            f"newest{when} - {self.stream.watermark_delay}L AS mark "
            f"FROM (SELECT DISTINCT *, explode({numbers}) AS k FROM ({moved}) WHERE {first} IS NOT NULL)"
        )

    def _keep_with_rows(self, view: str, windows: str, version: int) -> None:
        """Register those of the windows that have a row up to the mark at a version of the source."""
        span = self.spark.sql(f"SELECT min(low) AS low, max(high) AS high FROM ({windows})").head()
        low, high = (0, 0) if span is None or span["low"] is None else (span["low"], span["high"])
        self.relations.rows_at(version, [(low, high)])
        within = "r._ls_gid = w.gid AND r._ls_ts >= w.low AND r._ls_ts < w.high AND r._ls_ts <= w.mark"
        kept = self.spark.sql(f"SELECT w.* FROM ({windows}) w LEFT SEMI JOIN {ROWS} r ON {within}")
        arrow_frame(self.spark, kept.toArrow()).coalesce(1).createOrReplaceTempView(view)

    # --- into the outbox ---

    def write(self, output: Table, app: str, *, again: pa.Table | None, part: Part | None = None) -> None:
        """Write the events under the number of the output's commit, before that; no events write nothing.

        ``again`` lists (gid, low µs) of the windows whose old rows go, ``part`` is what a recalculation
        computes anew.
        """
        found = self._found(output, again, part) if self._updated is None else self._updated
        if found is None:
            return
        job = self.plan.kind if part is None else app.rpartition(":")[2]
        now_ms = self.plan.clock_us // 1_000
        events = outbox_rows(self.rules, found, now_ms=now_ms, tag=f"{job}:{self.plan.tick}")
        if events.num_rows:
            self.outbox.put(events, app, self.plan.tick, self.epoch)
        reach("C5")

    def _found(self, output: Table, again: pa.Table | None, part: Part | None) -> pa.Table | None:
        """Return the events among what was registered; None for nothing."""
        if not self._events:
            return None
        if not self._results:
            self._no_rows().createOrReplaceTempView(RESULTS)
        were = self._were(output, again, part)
        sql = self.rules.sql(EVENTS, RESULTS, were, recalculates=part is not None)
        return self.spark.sql(sql).toArrow()

    def _were(self, output: Table, again: pa.Table | None, part: Part | None) -> str | None:
        """Register the output's rows of the windows that may have been told of before; None for no such."""
        if part is not None:
            rows = rows_of_part(output, self.target, part)
        elif again is not None and again.num_rows:
            rows = rows_of_windows(output, self.target, again)
        else:
            return None
        rows = rows.select(list(self.target.shape.names))
        arrow_frame(self.spark, rows).createOrReplaceTempView(WERE)
        return WERE

    def _no_rows(self) -> DataFrame:
        return self.spark.sql(f"{self.target.shape.nothing} WHERE false")


def _without(windows: str, others: str) -> str:
    """Return SQL of windows that are none of the others."""
    return f"SELECT a.* FROM {windows} a LEFT ANTI JOIN {others} b ON b.gid = a.gid AND b.low = a.low"


def _kind(kind: str, again: str = "false") -> str:
    """Return the columns of an event that say what it is."""
    return f"'{kind}' AS kind, {again} AS again, CAST(NULL AS STRING) AS extra"
