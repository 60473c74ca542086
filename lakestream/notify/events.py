"""Events as SQL over what a tick found out: their order, their identity and their JSON, set-wise.

Source of the rules: TDengine, "Stream processing: notifications". The relations:

* ``events``: gid BIGINT, group columns, low and high BIGINT µs (the window), kind STRING, again BOOLEAN
  (the window was told of before), extra STRING (further fields as a JSON object, or NULL);
* ``results`` and ``were``: rows of the stream's output with their provenance, as they are now and as they
  were before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.language.model import (
    ON_TIME,
    WINDOW_CLOSE,
    WINDOW_OPEN,
    CountTrigger,
    EventTrigger,
    IntervalTrigger,
    PeriodTrigger,
    SessionTrigger,
    SlidingTrigger,
    StateTrigger,
)
from lakestream.notify.outbox import COLUMNS
from lakestream.output.columns import END, GROUP, START

if TYPE_CHECKING:
    from lakestream.language.model import Trigger

WINDOW_INVALIDATION = "WINDOW_INVALIDATION"
EVENT = "_ls_event"
"""The column of rows of the output that has their event: what goes into the outbox, NULL for none."""

_WITH_NULLS = "map('ignoreNullFields', 'false')"
_TYPES: dict[type[Trigger], str] = {
    IntervalTrigger: "Interval",
    SlidingTrigger: "Sliding",
    SessionTrigger: "Session",
    StateTrigger: "State",
    EventTrigger: "Event",
    CountTrigger: "Count",
    PeriodTrigger: "Period",
}


def trigger_type(trigger: Trigger) -> str:
    """Return what messages call a kind of trigger."""
    return _TYPES[type(trigger)]


def text(value: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result: its name in the output, its label in messages, its Spark type."""

    name: str
    label: str
    type: str

    @property
    def json_sql(self) -> str:
        """The value as messages have it: times are milliseconds since 1970 UTC."""
        quoted = "`" + self.name.replace("`", "``") + "`"
        return f"unix_millis({quoted})" if self.type == "timestamp" else quoted


@dataclass(frozen=True)
class EventRules:
    """What a stream tells of, as far as SQL needs to know it.

    ``table`` is SQL of the output table's name over the group columns (NULL for a stream that stores
    nothing); ``at_open`` and ``at_close``: the events that carry a result; ``only_with_rows``: windows
    without rows do not count; ``where`` and ``where_nothing`` are SQL of the condition over a result's
    columns and for an event without a result.
    """

    uuid: str
    stream: str
    trigger: Trigger
    wanted: tuple[str, ...]
    columns: tuple[ResultColumn, ...]
    table: str
    subtables: bool
    calculates: bool
    at_open: bool
    at_close: bool
    only_with_rows: bool
    classic: bool = False
    where: str = "true"
    where_nothing: str = "true"

    @property
    def _by_rows(self) -> bool:
        return isinstance(self.trigger, SessionTrigger | StateTrigger | EventTrigger | CountTrigger)

    def sql(
        self, events: str, results: str, were: str | None, *, now_ms: int, tag: str, recalculates: bool
    ) -> str:
        """Return SQL of the rows of the outbox; ``tag`` names the commit that they belong to.

        ``were`` is None where no window was told of before; ``recalculates``: windows of it that are not
        among the events are no more.
        """
        found = "SELECT * FROM told"
        was = f"was AS ({self._rows(were, all_rows=True)}), " if were else ""
        if were and recalculates and not isinstance(self.trigger, SlidingTrigger):
            found += (
                f" UNION ALL SELECT w.gid, w.low, w.high, '{WINDOW_INVALIDATION}', true, "
                f"CAST(NULL AS STRING), w.table_name FROM was w "
                f"LEFT ANTI JOIN told t ON t.gid = w.gid AND t.low = w.low"
            )
        return (
            f"WITH told AS (SELECT gid, low, high, kind, again, extra, {self.table} AS table_name "
            f"FROM (SELECT *, gid AS _ls_gid FROM {events})), "
            f"{was}now AS ({self._rows(results)}), found AS ({found}), "
            f"judged AS ({self._judged(known=were is not None)}), sent AS ({self._sent()}), "
            f"placed AS ({self._placed()}) {self._written(now_ms, tag)}"
        )

    def closings_sql(self, rows: str, due: str, *, now_ms: int, tag: str) -> str:
        """Return SQL of rows of the output with ``EVENT``: of windows that close for the first time.

        ``rows`` is SQL of the output's columns, the group columns, _ls_gid, _ls_low and _ls_high (BIGINT
        µs), a row for each window, and ``due``: false where there is nothing to tell. The events lack
        their number (``seq``); they are in the order of _ls_high, _ls_gid, _ls_low.
        """
        row = self._row
        judged = (
            f"SELECT struct(*) AS ls_row, {due} AS due, _ls_gid AS gid, _ls_low AS low, _ls_high AS high, "
            f"'{WINDOW_CLOSE}' AS kind, CAST(NULL AS STRING) AS extra, {self.table} AS table_name, "
            f"{str(self.calculates and self.at_close).lower()} AS has_result, array({row}) AS rows, "
            f"CASE WHEN {self.where} THEN array({row}) ELSE array() END AS passing FROM ({rows})"
        )
        columns = self._outbox(now_ms, tag)
        event = f"named_struct({', '.join(f'{text(name)}, {sql}' for name, sql in columns.items())})"
        # The cast makes the fields nullable: Arrow takes no NULL for a struct with others.
        typed = f"CAST({event} AS STRUCT<{', '.join(f'{name}: {COLUMNS[name]}' for name in columns)}>)"
        return (
            f"SELECT ls_row.*, CASE WHEN due AND {self._passes} THEN {typed} END AS {EVENT} "
            f"FROM (SELECT *, {self._base(now_ms)} AS base FROM "
            f"(SELECT *, {self._identity} AS trigger_id FROM ({judged})))"
        )

    @property
    def _row(self) -> str:
        """SQL of a row of the output as JSON."""
        fields = ", ".join(f"{text(c.label)}, {c.json_sql}" for c in self.columns)
        return f"to_json(named_struct({fields}), {_WITH_NULLS})"

    @property
    def _passes(self) -> str:
        """SQL of the condition over an event's rows."""
        return (
            f"CASE WHEN kind = '{WINDOW_INVALIDATION}' THEN true "
            f"WHEN has_result AND rows IS NOT NULL THEN size(passing) > 0 ELSE {self.where_nothing} END"
        )

    @property
    def _identity(self) -> str:
        """SQL of the id of what triggered."""
        key = f"CASE WHEN kind = '{ON_TIME}' THEN high ELSE low END"
        return f"substring(sha2(concat_ws(':', {text(self.uuid)}, gid, {key}), 256), 1, 32)"

    def _rows(self, view: str, *, all_rows: bool = False) -> str:
        """Return SQL of the results of each window: (gid, low, high, table_name, rows, passing)."""
        row = self._row
        passing = (
            "" if all_rows else f", array_sort(collect_list({row}) FILTER (WHERE {self.where})) AS passing"
        )
        name = "any_value(tbname)" if self.subtables else "CAST(NULL AS STRING)"
        return (
            f"SELECT {GROUP} AS gid, unix_micros({START}) AS low, max(unix_micros({END})) AS high, "
            f"{name} AS table_name, array_sort(collect_list({row})) AS rows{passing} "
            f"FROM {view} GROUP BY {GROUP}, {START}"
        )

    def _judged(self, *, known: bool) -> str:
        """Return SQL of the events with their results before and now, and what kind they turn out to be."""
        carries = [f"f.kind = '{ON_TIME}'"]
        carries += [f"f.kind = '{WINDOW_CLOSE}'"] if self.at_close else []
        if self.at_open:
            closing = "max(f.kind = 'WINDOW_CLOSE') OVER (PARTITION BY f.gid, f.low)"
            carries.append(f"f.kind = '{WINDOW_OPEN}'" + (f" AND NOT {closing}" if self.at_close else ""))
        has = " OR ".join(f"({case})" for case in carries) if self.calculates else "false"
        kind, was = "f.kind", ""
        old = "CAST(NULL AS ARRAY<STRING>) AS old_rows, CAST(NULL AS BIGINT) AS old_high"
        if known:
            old = "w.rows AS old_rows, w.high AS old_high"
            was = " LEFT JOIN was w ON w.gid = f.gid AND w.low = f.low"
        if self.only_with_rows:
            emptied = f"f.kind = '{WINDOW_CLOSE}' AND f.again AND n.rows IS NULL"
            kind = f"CASE WHEN {emptied} THEN '{WINDOW_INVALIDATION}' ELSE f.kind END"
        return (
            f"SELECT f.gid, f.low, f.high, {kind} AS kind, f.again, f.extra, f.table_name, "
            f"({has}) AS has_result, n.rows, n.passing, {old} "
            f"FROM found f LEFT JOIN now n ON n.gid = f.gid AND n.low = f.low{was}"
        )

    def _sent(self) -> str:
        """Return SQL of the events that are sent: what was told of before only where it has changed."""
        changed = "NOT (rows <=> old_rows) OR NOT (high <=> old_high)"
        wanted = ", ".join(text(kind) for kind in (*self.wanted, WINDOW_INVALIDATION))
        news = [
            f"kind = '{WINDOW_INVALIDATION}'",
            "NOT again",
            f"kind = '{WINDOW_OPEN}' AND old_rows IS NULL",
            f"kind IN ('{WINDOW_CLOSE}', '{ON_TIME}') AND ({changed})",
        ]
        known = ""
        if self.only_with_rows:
            known = (
                f" AND (kind NOT IN ('{WINDOW_CLOSE}', '{ON_TIME}') OR rows IS NOT NULL) "
                f"AND (kind <> '{WINDOW_INVALIDATION}' OR old_rows IS NOT NULL)"
            )
        return (
            f"SELECT * FROM judged WHERE kind IN ({wanted}) AND ({' OR '.join(f'({n})' for n in news)}) "
            f"AND {self._passes}{known}"
        )

    def _placed(self) -> str:
        """Return SQL of the events with their number: what is no more first, then in order of time.

        Of what happens at one instant a closing comes before an opening, but not before its own.
        """
        ends = f"CASE WHEN kind = '{ON_TIME}' THEN high ELSE {self._last} END"
        at = f"CASE WHEN kind = '{WINDOW_OPEN}' THEN low ELSE {ends} END"
        rank = f"CASE WHEN kind = '{WINDOW_OPEN}' THEN 1 WHEN low < at THEN 0 ELSE 2 END"
        order = f"kind <> '{WINDOW_INVALIDATION}', at, rank, gid, low"
        return (
            f"SELECT *, row_number() OVER (ORDER BY {order}) - 1 AS seq FROM (SELECT *, {rank} AS rank "
            f"FROM (SELECT *, {at} AS at, {self._identity} AS trigger_id FROM sent))"
        )

    def _written(self, now_ms: int, tag: str) -> str:
        """Return SQL of the outbox's rows."""
        listed = ", ".join(f"{sql} AS {name}" for name, sql in self._outbox(now_ms, tag).items())
        return f"SELECT seq, {listed} FROM (SELECT *, {self._base(now_ms)} AS base FROM placed)"

    def _base(self, now_ms: int) -> str:
        """Return SQL of what an event's JSON begins with."""
        is_window = f"kind <> '{ON_TIME}'"
        ends = f"{is_window} AND kind <> '{WINDOW_OPEN}'"
        named = trigger_type(self.trigger)
        fields = {
            "tableName": "table_name",
            "eventType": "kind",
            "eventTime": f"{now_ms}L",
            "triggerId": "trigger_id",
            "triggerType": text(named),
            "groupId": "CAST(gid AS STRING)",
            "windowStart": f"CASE WHEN {is_window} THEN floor(low / 1000) END",
            "windowEnd": f"CASE WHEN {ends} THEN floor(({self._last}) / 1000) END",
        }
        if self.classic:
            fields |= {"windowId": "trigger_id", "windowType": text("Time" if named == "Interval" else named)}
        listed = ", ".join(f"{text(name)}, {sql}" for name, sql in fields.items())
        return f"to_json(named_struct({listed}))"

    @property
    def _last(self) -> str:
        """SQL of the end of a window as messages have it."""
        return "high - 1" if self._by_rows else "high"

    def _outbox(self, now_ms: int, tag: str) -> dict[str, str]:
        """Return SQL of the outbox's columns but ``seq``, over an event with its ``base``."""
        data = "concat('{\"data\":[', array_join(passing, ','), '],\"curSize\":', size(passing), "
        result = (
            f"CASE WHEN NOT has_result OR kind = '{WINDOW_INVALIDATION}' THEN '' "
            f"WHEN rows IS NULL THEN ',\"result\":{{}}' "
            f"WHEN size(passing) = 1 THEN concat(',\"result\":', passing[0]) "
            f'ELSE concat(\',"result":\', {data}\',"curOffset":0,"finish":true}}\')) END'
        )
        return {
            "stream": text(self.stream),
            "stream_id": text(self.uuid),
            "tick": text(tag),
            "event_id": f"substring(sha2(concat_ws(':', trigger_id, kind, {text(tag)}), 256), 1, 32)",
            "trigger_id": "trigger_id",
            "event_type": "kind",
            "group_id": "CAST(gid AS STRING)",
            "window_start": "timestamp_micros(low)",
            "window_end": f"timestamp_micros({self._last})",
            "event_time": f"timestamp_millis({now_ms}L)",
            "event": (
                "concat(left(base, length(base) - 1), "
                "coalesce(concat(',', substring(extra, 2, length(extra) - 2)), ''), "
                f"{result}, '}}')"
            ),
        }
