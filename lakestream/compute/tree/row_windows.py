"""Windows that rows cut themselves, as Spark SQL: SESSION, VARIATION, CONDITION and COUNT (IoTDB A3).

Each gives the rows that lie in a window, with the number ``k`` of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.language.iotdb.values import RowGroup


def cut(group: RowGroup, rows: str, control: str, partition: str) -> str:
    """Return rows with the number of their window; those that lie in none are left out.

    ``rows`` is a relation with ``ts``, ``control`` what the windows are cut by, and ``partition`` empty or
    ``device``: each device is cut on its own.
    """
    order = f"({f'PARTITION BY {partition} ' if partition else ''}ORDER BY ts)"
    controlled = f"(SELECT *, {control} AS c FROM {rows})"
    if group.ignores_null and group.expression is not None:
        controlled = f"(SELECT * FROM {controlled} WHERE c IS NOT NULL)"
    if group.kind == "SESSION":
        gap = f"unix_micros(ts) - unix_micros(lag(ts) OVER {order}) <= {group.number:.0f}"
        return _numbered(f"(SELECT *, NOT coalesce({gap}, false) AS begins FROM {controlled})", order)
    if group.kind == "COUNT":
        return f"(SELECT *, (row_number() OVER {order} - 1) div {group.number:.0f} AS k FROM {controlled})"
    if group.kind == "CONDITION":
        numbered = f"(SELECT *, row_number() OVER {order} AS n FROM {controlled})"
        return f"(SELECT *, n - row_number() OVER {order} AS k FROM {numbered} WHERE coalesce(c, false))"
    return _numbered(_variations(group, controlled, partition), order)


def kept(group: RowGroup) -> str:
    """Return the condition on the rows of a window that is in the result; empty where all are."""
    if group.kind == "COUNT":
        return f"count(1) = {group.number:.0f}"
    return f"count(1) {group.keep} {group.number:.0f}" if group.kind == "CONDITION" else ""


def _numbered(rows: str, order: str) -> str:
    """Return rows with the number of the window that began last."""
    return f"(SELECT *, sum(IF(begins, 1L, 0L)) OVER {order} AS k FROM {rows})"


def _variations(group: RowGroup, rows: str, partition: str) -> str:
    """Tell which rows begin a window: those too far from the first row of the one before.

    That is known one row after the other: the rows are folded, which gives the times of the beginnings.
    """
    near = "e.c <=> s.base"
    if group.number:
        distance = f"abs(CAST(e.c AS DOUBLE) - CAST(s.base AS DOUBLE)) <= {float(group.number)!r}D"
        near = f"coalesce({distance}, {near})"
    empty = "named_struct('some', false, 'base', l[0].c, 'begins', slice(transform(l, e -> e.ts), 1, 0))"
    begin = "named_struct('some', true, 'base', e.c, 'begins', array_append(s.begins, e.ts))"
    fold = f"aggregate(l, {empty}, (s, e) -> IF(s.some AND ({near}), s, {begin}), s -> s.begins)"
    keys, device = ("device", "device, ") if partition else ("", "")
    lists = f"SELECT {device}array_sort(collect_list(struct(ts, c))) AS l FROM {rows}"
    lists += f" GROUP BY {keys}" if keys else ""
    begins = f"(SELECT {device}explode({fold}) AS at FROM ({lists}) WHERE size(l) > 0)"
    same = "r.ts = b.at" + (" AND r.device = b.device" if partition else "")
    return f"(SELECT r.*, b.at IS NOT NULL AS begins FROM {rows} r LEFT JOIN {begins} b ON {same})"
