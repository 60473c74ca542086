"""Events as rows of the outbox: their identity, and the JSON that is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lakestream.language.model import ON_TIME, WINDOW_CLOSE, WINDOW_OPEN
from lakestream.notify.events import PASSES, ROW, TABLE, WINDOW_INVALIDATION, EventRules, trigger_type
from lakestream.notify.outbox import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 50_000
"""Events that are Python objects at a time."""


def outbox_rows(rules: EventRules, found: pa.Table, *, now_ms: int, tag: str) -> pa.Table:
    """Return the rows of the outbox for events; ``tag`` names the commit that they belong to.

    ``found`` has seq, gid, low and high (µs) BIGINT, kind, extra (further fields as a JSON object, or NULL)
    and table_name STRING, has_result (it carries one) and has_rows BOOLEAN, and passing: the rows of the
    result that meet the condition, each as JSON. Source of the format: TDengine, "notifications".
    """
    import pyarrow as pa

    writer = _Writer(rules, now_ms, tag)
    schema = pa.schema([(name, _arrow_type(kind)) for name, kind in COLUMNS.items()])
    batches = [
        pa.RecordBatch.from_pylist([writer.row(event) for event in batch.to_pylist()], schema)
        for batch in found.to_batches(max_chunksize=_AT_ONCE)
    ]
    return pa.Table.from_batches(batches, schema)


def closings(rules: EventRules, rows: pa.Table) -> pa.Table:
    """Return the events of rows that ``closings_sql`` gave, as ``outbox_rows`` takes them."""
    import pyarrow as pa

    order = [(name, "ascending") for name in ("_ls_high", "_ls_gid", "_ls_low")]
    told = rows.filter(rows[PASSES]).sort_by(order)
    count = told.num_rows
    values = told[ROW].combine_chunks()
    return pa.table(
        {
            "seq": pa.array(range(count), pa.int64()),
            "gid": told["_ls_gid"],
            "low": told["_ls_low"],
            "high": told["_ls_high"],
            "kind": pa.array([WINDOW_CLOSE] * count, pa.string()),
            "extra": pa.nulls(count, pa.string()),
            "table_name": told[TABLE],
            "has_result": pa.array([rules.closing_carries] * count, pa.bool_()),
            "has_rows": pa.array([True] * count, pa.bool_()),
            "passing": pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), values),
        }
    )


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    return {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}[kind]


@dataclass(frozen=True)
class _Writer:
    """Writes the events of one commit of a stream."""

    rules: EventRules
    now_ms: int
    tag: str

    def row(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the row of the outbox of an event."""
        rules, kind, low, high = self.rules, found["kind"], found["low"], found["high"]
        trigger_id = _identity(rules.uuid, found["gid"], high if kind == ON_TIME else low)
        last = high - 1 if rules.by_rows else high
        return {
            "stream": rules.stream,
            "stream_id": rules.uuid,
            "tick": self.tag,
            "seq": found["seq"],
            "event_id": _identity(trigger_id, kind, self.tag),
            "trigger_id": trigger_id,
            "event_type": kind,
            "group_id": str(found["gid"]),
            "window_start": low,
            "window_end": last,
            "event_time": self.now_ms * 1_000,
            "event": self._json(found, trigger_id, last),
        }

    def _json(self, found: dict[str, Any], trigger_id: str, last: int) -> str:
        """Return the text of an event: its fields, those of its kind of window, and the result."""
        kind, type_ = found["kind"], trigger_type(self.rules.trigger)
        fields = {
            "tableName": found["table_name"],
            "eventType": kind,
            "eventTime": self.now_ms,
            "triggerId": trigger_id,
            "triggerType": type_,
            "groupId": str(found["gid"]),
            "windowStart": None if kind == ON_TIME else found["low"] // 1_000,
            "windowEnd": None if kind in {ON_TIME, WINDOW_OPEN} else last // 1_000,
        }
        if self.rules.classic:
            fields |= {"windowId": trigger_id, "windowType": "Time" if type_ == "Interval" else type_}
        known = {name: value for name, value in fields.items() if value is not None}
        head = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
        extra = "" if found["extra"] is None else f",{found['extra'][1:-1]}"
        return f"{head[:-1]}{extra}{_result(found)}}}"


def _result(found: dict[str, Any]) -> str:
    """Return the field with the result of an event, if it carries one."""
    if not found["has_result"] or found["kind"] == WINDOW_INVALIDATION:
        return ""
    if not found["has_rows"]:
        return ',"result":{}'
    rows = found["passing"]
    if len(rows) == 1:
        return f',"result":{rows[0]}'
    data = f'{{"data":[{",".join(rows)}],"curSize":{len(rows)},"curOffset":0,"finish":true}}'
    return f',"result":{data}'


def _identity(*parts: object) -> str:
    return sha256(":".join(map(str, parts)).encode()).hexdigest()[:32]
