"""Events as SQL over what a tick found out: which are sent, with which results, in which order.

Source of the rules: TDengine, "Stream processing: notifications". The relations:

* ``events``: gid BIGINT, group columns, low and high BIGINT µs (the window), kind STRING, refired BOOLEAN
  (the window had fired before), extra STRING (further fields as a JSON object, or NULL);
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
)
from lakestream.language.quoting import quoted, quoted_text
from lakestream.triggers.kinds import idle_events, is_cut_by_rows, is_of_instants

if TYPE_CHECKING:
    from lakestream.language.model import Trigger
    from lakestream.output.columns import Provenance

WINDOW_INVALIDATION = "WINDOW_INVALIDATION"
TABLE, ROW, PASSES = "_ls_table", "_ls_row", "_ls_passes"
"""Columns of the output's rows for their events: their table, themselves as JSON, the condition."""

_WITH_NULLS = "map('ignoreNullFields', 'false')"


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result: its name in the output, its label in messages, its Spark type."""

    name: str
    label: str
    type: str

    @property
    def json_sql(self) -> str:
        """The value as messages have it: times are milliseconds since 1970 UTC."""
        value = quoted(self.name)
        return f"unix_millis({value})" if self.type == "timestamp" else value


@dataclass(frozen=True)
class EventRules:
    """What events a stream emits, as far as SQL needs to know it.

    ``places`` says how rows of the output hold their windows; ``table`` is SQL of the output table's name
    over the group columns (NULL for a stream that stores nothing); ``at_open`` and ``at_close``: the events
    that carry a result; ``only_with_rows``: windows without rows do not count; ``where`` and
    ``where_nothing`` are SQL of the condition over a result's columns and for an event without a result.
    """

    uuid: str
    stream: str
    trigger: Trigger
    wanted: tuple[str, ...]
    columns: tuple[ResultColumn, ...]
    table: str
    subtables: bool
    places: Provenance
    calculates: bool
    at_open: bool
    at_close: bool
    only_with_rows: bool
    classic: bool = False
    where: str = "true"
    where_nothing: str = "true"

    @property
    def by_rows(self) -> bool:
        """Whether windows end with a row: their end is the last instant in them."""
        return is_cut_by_rows(self.trigger)

    def sql(self, events: str, results: str, were: str | None, *, recalculates: bool) -> str:
        """Return SQL of the events that are sent, as ``outbox_rows`` takes them.

        ``were`` is None where no window has emitted before; ``recalculates``: windows of it that are not
        among the events are no more.
        """
        found = "SELECT * FROM happened"
        was = f"was AS ({self._rows(were, all_rows=True)}), " if were else ""
        if were and recalculates and not is_of_instants(self.trigger):
            found += (
                f" UNION ALL SELECT w.gid, w.low, w.high, '{WINDOW_INVALIDATION}', true, "
                f"CAST(NULL AS STRING), w.table_name FROM was w "
                f"LEFT ANTI JOIN happened t ON t.gid = w.gid AND t.low = w.low"
            )
        return (
            f"WITH happened AS (SELECT gid, low, high, kind, refired, extra, {self.table} AS table_name "
            f"FROM (SELECT *, gid AS _ls_gid FROM {events})), "
            f"{was}now AS ({self._rows(results)}), found AS ({found}), "
            f"judged AS ({self._judged(known=were is not None)}), sent AS ({self._sent()}), "
            f"placed AS ({self._placed()}) SELECT seq, gid, low, high, kind, extra, table_name, has_result, "
            f"rows IS NOT NULL AS has_rows, passing FROM placed"
        )

    def closings_sql(self, rows: str) -> str:
        """Return SQL of rows of the output with what their events are made of: TABLE, ROW and PASSES.

        ``rows`` is SQL of the output's columns, the group columns and _ls_gid: a row for each window, as it
        closes for the first time.
        """
        passes = self.where if self.closing_carries else self.where_nothing
        return f"SELECT *, {self.table} AS {TABLE}, {self._row} AS {ROW}, {passes} AS {PASSES} FROM ({rows})"

    @property
    def closing_carries(self) -> bool:
        """Whether the closing of a window carries a result."""
        return self.calculates and self.at_close

    @property
    def _row(self) -> str:
        """SQL of a row of the output as JSON."""
        fields = ", ".join(f"{quoted_text(c.label)}, {c.json_sql}" for c in self.columns)
        return f"to_json(named_struct({fields}), {_WITH_NULLS})"

    def _rows(self, view: str, *, all_rows: bool = False) -> str:
        """Return SQL of the results of each window: (gid, low, high, table_name, rows, passing)."""
        row = self._row
        passing = (
            "" if all_rows else f", array_sort(collect_list({row}) FILTER (WHERE {self.where})) AS passing"
        )
        group, start, end = self.places.group, self.places.start, self.places.end
        name = "any_value(tbname)" if self.subtables else "CAST(NULL AS STRING)"
        placed = (
            f"SELECT *, {group} AS _ls_gid, unix_micros({start}) AS _ls_low, unix_micros({end}) AS _ls_high "
            f"FROM {view}"
        )
        return (
            f"SELECT _ls_gid AS gid, _ls_low AS low, max(_ls_high) AS high, "
            f"{name} AS table_name, array_sort(collect_list({row})) AS rows{passing} "
            f"FROM ({placed}) GROUP BY _ls_gid, _ls_low"
        )

    def _judged(self, *, known: bool) -> str:
        """Return SQL of the events with their results before and now, and what kind they turn out to be."""
        carries = [f"f.kind = '{kind}'" for kind in (ON_TIME, *idle_events(self.trigger))]
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
            emptied = f"f.kind = '{WINDOW_CLOSE}' AND f.refired AND n.rows IS NULL"
            kind = f"CASE WHEN {emptied} THEN '{WINDOW_INVALIDATION}' ELSE f.kind END"
        return (
            f"SELECT f.gid, f.low, f.high, {kind} AS kind, f.refired, f.extra, f.table_name, "
            f"({has}) AS has_result, n.rows, n.passing, {old} "
            f"FROM found f LEFT JOIN now n ON n.gid = f.gid AND n.low = f.low{was}"
        )

    def _sent(self) -> str:
        """Return SQL of the events that are sent: what was emitted before only where it has changed."""
        changed = "NOT (rows <=> old_rows) OR NOT (high <=> old_high)"
        wanted = ", ".join(quoted_text(kind) for kind in (*self.wanted, WINDOW_INVALIDATION))
        condition = (
            f"CASE WHEN kind = '{WINDOW_INVALIDATION}' THEN true "
            f"WHEN has_result AND rows IS NOT NULL THEN size(passing) > 0 ELSE {self.where_nothing} END"
        )
        news = [
            f"kind = '{WINDOW_INVALIDATION}'",
            "NOT refired",
            f"kind = '{WINDOW_OPEN}' AND old_rows IS NULL",
            f"kind IN ('{WINDOW_CLOSE}', '{ON_TIME}') AND ({changed})",
        ]
        known = ""
        if self.only_with_rows:
            known = (
                f" AND (kind NOT IN ('{WINDOW_CLOSE}', '{ON_TIME}') OR rows IS NOT NULL) "
                f"AND (kind <> '{WINDOW_INVALIDATION}' OR NOT refired OR old_rows IS NOT NULL)"
            )
        return (
            f"SELECT * FROM judged WHERE kind IN ({wanted}) AND ({' OR '.join(f'({n})' for n in news)}) "
            f"AND {condition}{known}"
        )

    def _placed(self) -> str:
        """Return SQL of the events with their number: what is no more first, then in order of time.

        Of what happens at one instant a closing comes before an opening, but not before its own.
        """
        last = "high - 1" if self.by_rows else "high"
        ends = f"CASE WHEN kind = '{ON_TIME}' THEN high ELSE {last} END"
        at = f"CASE WHEN kind = '{WINDOW_OPEN}' THEN low ELSE {ends} END"
        rank = f"CASE WHEN kind = '{WINDOW_OPEN}' THEN 1 WHEN low < at THEN 0 ELSE 2 END"
        is_there = f"kind <> '{WINDOW_INVALIDATION}'"
        return (
            f"SELECT *, row_number() OVER (ORDER BY is_there, at, rank, gid, low) - 1 AS seq "
            f"FROM (SELECT *, {is_there} AS is_there, {rank} AS rank FROM (SELECT *, {at} AS at FROM sent))"
        )
