"""Alerts: events of streams that fail and recover, which lie in the outbox as those of windows do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.language.model import Notification
from lakestream.notify.outbox import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.notify.outbox import Outbox

ALERTS = "alerts"
"""Whose events they are, in the place of a stream's id: all go to the same targets."""

EVENT_TYPE = "STREAM_STATE"


def put_alert(outbox: Outbox, stream: str, status: str, why: str | None, now_us: int) -> None:
    """Put into the outbox that a stream gets another status, before it has it: so it is told at least once.

    ``why`` is what it has failed of, None for a stream that runs again; ``now_us`` are µs since 1970 UTC.
    """
    identity = str(uuid4())
    outbox.put(_rows(stream, status, why, now_us, identity), f"lakestream:{ALERTS}:{identity}", 0, now_us)


def told_of_alerts(urls: tuple[str, ...]) -> Notification:
    """Return who is told of alerts, as a stream says it of its events."""
    return Notification(urls=urls, events=(EVENT_TYPE,))


def _rows(stream: str, status: str, why: str | None, now_us: int, identity: str) -> pa.Table:
    import pyarrow as pa

    what = "runs again" if why is None else {"Failed": "has failed", "Retrying": "is tried again"}[status]
    event = {
        "eventType": EVENT_TYPE,
        "eventTime": now_us // 1_000,
        "status": status,
        "lastError": why,
        "text": f"{stream} {what}{'' if why is None else f': {why}'}",
    }
    at = datetime.fromtimestamp(now_us // 1_000 / 1_000, UTC)  # messages tell milliseconds
    row = {
        "stream": stream,
        "stream_id": ALERTS,
        "tick": identity,
        "seq": 0,
        "event_id": identity,
        "trigger_id": identity,
        "event_type": EVENT_TYPE,
        "event_time": at,
        "event": json.dumps(event),
    }
    kinds = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    return pa.Table.from_pylist([row], schema)
