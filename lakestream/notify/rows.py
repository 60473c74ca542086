"""Events as rows of the outbox: their identity, and the JSON that is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lakestream.language.model import IDLE, ON_TIME, RESUME, WINDOW_CLOSE, WINDOW_OPEN
from lakestream.notify.events import PASSES, ROW, TABLE, WINDOW_INVALIDATION, EventRules
from lakestream.notify.outbox import COLUMNS
from lakestream.triggers.kinds import type_in_messages

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT_FIELDS = ("gid", "low", "high", "kind", "table_name", "extra", "has_result", "has_rows", "passing")
_CLASSIC = {"Interval": "Time"}
"""What the classic syntax calls a kind of window, where that differs."""

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
        pa.RecordBatch.from_pydict(writer.columns(batch), schema)
        for batch in found.to_batches(max_chunksize=_AT_ONCE)
    ]
    return pa.Table.from_batches(batches, schema)


def closings(rules: EventRules, rows: pa.Table) -> pa.Table:
    """Return the events of rows that ``closings_sql`` gave, as ``outbox_rows`` takes them."""
    import pyarrow as pa

    order = [(name, "ascending") for name in ("_ls_high", "_ls_gid", "_ls_low")]
    passing = rows.filter(rows[PASSES]).sort_by(order)
    count = passing.num_rows
    values = passing[ROW].combine_chunks()
    return pa.table(
        {
            "seq": pa.array(range(count), pa.int64()),
            "gid": passing["_ls_gid"],
            "low": passing["_ls_low"],
            "high": passing["_ls_high"],
            "kind": pa.array([WINDOW_CLOSE] * count, pa.string()),
            "extra": pa.nulls(count, pa.string()),
            "table_name": passing[TABLE],
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

    def columns(self, found: pa.RecordBatch) -> dict[str, Any]:
        """Return the columns of the outbox for some events."""
        import pyarrow.compute as pc

        count = found.num_rows
        events = zip(*(found[name].to_pylist() for name in _EVENT_FIELDS), strict=True)
        texts = list(zip(*(self._text(*event) for event in events), strict=True)) or [(), (), ()]
        return {
            "stream": [self.rules.stream] * count,
            "stream_id": [self.rules.uuid] * count,
            "tick": [self.tag] * count,
            "seq": found["seq"].cast("int64"),
            "event_id": texts[0],
            "trigger_id": texts[1],
            "event_type": found["kind"],
            "group_id": found["gid"].cast("string"),
            "window_start": found["low"],
            "window_end": pc.subtract(found["high"], self._behind),
            "event_time": [self.now_ms * 1_000] * count,
            "event": texts[2],
        }

    def _text(
        self,
        gid: int,
        low: int,
        high: int,
        kind: str,
        table: str | None,
        extra: str | None,
        *result: Any,  # noqa: ANN401 (as _result has them)
    ) -> tuple[str, str, str]:
        """Return the id of an event, that of what triggered it, and its text."""
        trigger_id = _identity(self.rules.uuid, gid, high if kind == ON_TIME else low)
        named = "" if table is None else f'"tableName":{json.dumps(table, ensure_ascii=False)},'
        event = (
            f'{{{named}"eventType":"{kind}","eventTime":{self.now_ms},"triggerId":"{trigger_id}",'
            f'"triggerType":"{type_in_messages(self.rules.trigger)}","groupId":"{gid}"'
            f"{self._window(trigger_id, low, high, kind)}"
            f"{'' if extra is None else f',{extra[1:-1]}'}{_result(kind, *result)}}}"
        )
        return _identity(trigger_id, kind, self.tag), trigger_id, event

    def _window(self, trigger_id: str, low: int, high: int, kind: str) -> str:
        """Return the fields of an event that are of its window, or of its silence: ns, and ms that it is."""
        if kind in {IDLE, RESUME}:
            ends = f'"idleStart":{low * 1_000},"idleEnd":{high * 1_000}'
            return f',{ends},"idleDurationMs":{(high - low) // 1_000}'
        fields = "" if kind == ON_TIME else f',"windowStart":{low // 1_000}'
        if kind not in {ON_TIME, WINDOW_OPEN}:
            fields += f',"windowEnd":{(high - self._behind) // 1_000}'
        if not self.rules.classic:
            return fields
        named = type_in_messages(self.rules.trigger)
        return f'{fields},"windowId":"{trigger_id}","windowType":"{_CLASSIC.get(named, named)}"'

    @property
    def _behind(self) -> int:
        """How far the end that is sent lies before the first instant after the window."""
        return 1 if self.rules.by_rows else 0


def _result(kind: str, has_result: bool, has_rows: bool, passing: list[str]) -> str:
    """Return the field with the result of an event, if it carries one."""
    if not has_result or kind == WINDOW_INVALIDATION:
        return ""
    if not has_rows:
        return ',"result":{}'
    if len(passing) == 1:
        return f',"result":{passing[0]}'
    data = f'{{"data":[{",".join(passing)}],"curSize":{len(passing)},"curOffset":0,"finish":true}}'
    return f',"result":{data}'


def _identity(*parts: object) -> str:
    return sha256(":".join(map(str, parts)).encode()).hexdigest()[:32]
