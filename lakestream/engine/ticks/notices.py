"""What a tick emits: the windows that opened, closed or went, with their results, into the outbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.engine.base.faults import crash_point
from lakestream.engine.streams.write import rows_in_range, rows_of_windows
from lakestream.language.common.functions import Meaning
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.quoting import quoted_text
from lakestream.notify.events import EventRules, ResultColumn
from lakestream.notify.rows import outbox_rows
from lakestream.output.columns import subtable_sql
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Advance
    from lakestream.notify.outbox import Outbox
    from lakestream.output.columns import OutputShape
    from lakestream.storage.delta import Table
    from lakestream.storage.rows.views import View

RESULTS, WERE = "ls_results", "ls_were"


def event_rules(stream: Stream, shape: OutputShape) -> EventRules:
    """Return the events that a stream that notifies emits."""
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
        at_open=options.emission.at_open,
        at_close=options.emission.at_close or options.emission.by_clock,
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
    times = {name for name, column in known.items() if column.type == "timestamp"}

    def over(value: str) -> str:
        def resolve(node: exp.Expr) -> exp.Expr:
            column = known.get(node.name.lower()) if isinstance(node, exp.Column) else None
            if column is None:
                return node
            if value == "columns":
                return exp.column(column.name, quoted=True)
            return exp.Var(this=f"CAST(NULL AS {column.type})")

        tree = in_spark(parse_expression(fragment), meaning, fragment, times)
        return str(tree.transform(resolve).sql("spark"))

    return f"coalesce({over('columns')}, false)", f"coalesce({over('nothing')}, false)"


@dataclass(frozen=True)
class Notices:
    """The events of one tick, from what happened to windows to rows of the outbox."""

    relations: Relations
    target: Target
    rules: EventRules
    outbox: Outbox
    epoch: int

    def write(
        self, output: Table, app: str, advance: Advance, *, results: View | None, retracted: pa.Table | None
    ) -> None:
        """Write the events under the number of the output's commit, before that; no events write nothing.

        ``results`` are the output's rows that the tick computed, ``retracted`` lists (gid, low µs) of windows
        whose old rows go.
        """
        found = advance.closings
        if found is None and advance.events is not None:
            found = self._found(output, advance.events, results, retracted, advance.event_range)
        if found is None:
            return
        plan, event_range = self.relations.plan, advance.event_range
        job = plan.kind if event_range is None else app.rpartition(":")[2]
        now_ms = plan.clock_us // 1_000
        events = outbox_rows(self.rules, found, now_ms=now_ms, tag=f"{job}:{plan.tick}")
        if events.num_rows:
            self.outbox.put(events, app, plan.tick, self.epoch)
        crash_point("C5")

    def _found(
        self,
        output: Table,
        events: View,
        results: View | None,
        retracted: pa.Table | None,
        event_range: EventRange | None,
    ) -> pa.Table:
        """Return the events with the results of their windows, and what these were."""
        spark = self.relations.spark
        there = results or view_of_sql(spark, f"{self.target.shape.nothing} WHERE false", RESULTS)
        were = self._were(output, retracted, event_range)
        named = None if were is None else str(were)
        sql = self.rules.sql(str(events), str(there), named, recalculates=event_range is not None)
        return spark.sql(sql).toArrow()

    def _were(self, output: Table, retracted: pa.Table | None, event_range: EventRange | None) -> View | None:
        """Register the output's rows of the windows that may have emitted events before; None for none."""
        if event_range is not None:
            rows = rows_in_range(output, self.target, event_range)
        elif retracted is not None and retracted.num_rows:
            rows = rows_of_windows(output, self.target, retracted)
        else:
            return None
        rows = rows.select(list(self.target.shape.names))
        return view_of(arrow_frame(self.relations.spark, rows), WERE)
