"""``information_schema``: what is known of streams, their ticks and recalculations, as tables for SQL.

Named after TDengine's system tables; the columns are lakestream's.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from lakestream.covered import redacted_text
from lakestream.errors import StatementError, did_you_mean
from lakestream.notify.alerts import ALERTS
from lakestream.observation.expectations import expectations_held
from lakestream.storage.places.layout import SYSTEM_FOLDER
from lakestream.storage.records.registry import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from lakestream.notify.deliveries import Deliveries
    from lakestream.storage.records.audit import Audit
    from lakestream.storage.records.registry import Progress, Recalculation, Registry, StreamRecord

INFORMATION_SCHEMA = "information_schema"
EVENTS = "ins_stream_events"
"""The outbox by its name for SQL: it is read as the table that it is."""


@dataclass(frozen=True)
class Known:
    """What there is to know of a lake's streams: ``lags`` gives commits still to take, by stream id."""

    registry: Registry
    deliveries: Deliveries
    lags: Callable[[], Mapping[str, int]]
    audit: Audit


def information(known: Known, name: str) -> pa.Table:
    """Return a table of ``information_schema``.

    ``ins_streams`` has a row per stream; ``ins_stream_expectations`` one per expectation, with its counts;
    ``ins_stream_tasks`` one per tick that is kept (at least the
    last 100 of each stream); ``ins_stream_recalculates`` one per recalculation; ``ins_stream_targets`` one
    per stream and url that it notifies, and per url that is told of alerts; ``ins_audit`` one per request
    to the server that changed something, or was not let. Times are TIMESTAMP.
    ``ins_stream_events`` is the outbox itself.
    Raises StatementError TABLE_NOT_FOUND.
    """
    registry = known.registry
    tables = {
        "ins_streams": lambda: _streams(registry, known.lags()),
        "ins_stream_expectations": lambda: _expectations(registry),
        "ins_stream_tasks": lambda: _tasks(registry),
        "ins_stream_recalculates": lambda: _recalculates(registry),
        "ins_stream_targets": lambda: _targets(registry, known.deliveries),
        "ins_audit": known.audit.rows,
    }
    found = tables.get(name.lower())
    if found is None:
        raise StatementError(
            "TABLE_NOT_FOUND",
            f"{INFORMATION_SCHEMA} has no table {name}",
            hint=did_you_mean(name, (*tables, EVENTS)) or f"there are {', '.join((*tables, EVENTS))}",
        )
    return found()


def _streams(registry: Registry, lags: Mapping[str, int]) -> pa.Table:
    last = registry.last_of_all()
    rows = [
        _stream(record, last.get(record.uuid, (None, None))[1], lags.get(record.uuid))
        for record in registry.streams()
    ]
    return _table(rows, _STREAMS)


def _stream(record: StreamRecord, progress: Progress | None, lag: int | None) -> tuple[Any, ...]:
    totals = (progress.totals if progress else None) or Totals()
    return (
        record.name,
        record.database,
        record.created_us,
        record.uuid,
        redacted_text(record.sql),
        record.status,
        record.source,
        None if record.output.startswith(f"{SYSTEM_FOLDER}.") else record.output,
        progress.tick if progress else None,
        progress.version if progress else None,
        lag,
        totals.rows_in,
        totals.rows_out,
        totals.late,
        totals.missed,
        record.last_error,
        "; ".join(map(str, record.waiting_groups)) or None,
    )


def _expectations(registry: Registry) -> pa.Table:
    last = registry.last_of_all()
    rows = [
        (record.name, record.database, record.uuid, *astuple(one))
        for record in registry.streams()
        for one in expectations_held(record, last.get(record.uuid, (None, None))[1])
    ]
    return _table(rows, _EXPECTATIONS)


def _tasks(registry: Registry) -> pa.Table:
    rows = [
        (
            record.name,
            record.database,
            record.uuid,
            tick.tick,
            tick.version,
            tick.rows_in,
            tick.rows_out,
            tick.late,
            tick.windows,
            tick.violated,
            tick.seconds,
            tick.finished_us,
        )
        for record in registry.streams()
        for tick in registry.history(record.uuid)
    ]
    return _table(rows, _TASKS)


def _recalculates(registry: Registry) -> pa.Table:
    names = {record.uuid: record for record in registry.streams()}
    rows = [
        (
            names[job.uuid].name,
            names[job.uuid].database,
            job.uuid,
            job.id,
            job.start_us,
            job.end_us,
            job.resync,
            job.status,
            _percent(job),
            job.requested_us,
        )
        for job in registry.recalculations()
        if job.uuid in names
    ]
    return _table(rows, _RECALCULATES)


def _targets(registry: Registry, deliveries: Deliveries) -> pa.Table:
    names: dict[str, tuple[str | None, str | None]] = {
        record.uuid: (record.name, record.database) for record in registry.streams()
    }
    names[ALERTS] = (None, None)
    rows = [
        (
            *names[delivery.stream_id],
            delivery.stream_id,
            delivery.target,
            delivery.sent,
            delivery.dropped,
            delivery.holds,
            delivery.error,
            delivery.updated_us or None,
        )
        for delivery in deliveries.all()
        if delivery.stream_id in names
    ]
    return _table(rows, _TARGETS)


def _percent(job: Recalculation) -> float:
    if not job.is_open:
        return 100.0
    return 100.0 * job.part / job.parts if job.parts else 0.0


_TIME = "time"
_STREAMS = {
    "stream_name": "string",
    "db_name": "string",
    "create_time": _TIME,
    "stream_id": "string",
    "sql": "string",
    "status": "string",
    "source": "string",
    "output": "string",
    "tick": "int64",
    "version": "int64",
    "lag": "int64",
    "rows_in": "int64",
    "rows_out": "int64",
    "late": "int64",
    "missed": "int64",
    "message": "string",
    "waiting_groups": "string",
}
_EXPECTATIONS = {
    "stream_name": "string",
    "db_name": "string",
    "stream_id": "string",
    "expectation": "string",
    "rows_of": "string",
    "condition": "string",
    "action": "string",
    "passed": "int64",
    "violated": "int64",
}
_TASKS = {
    "stream_name": "string",
    "db_name": "string",
    "stream_id": "string",
    "task_id": "int64",
    "version": "int64",
    "rows_in": "int64",
    "rows_out": "int64",
    "late": "int64",
    "windows": "int64",
    "violated": "int64",
    "seconds": "float64",
    "last_update": _TIME,
}
_TARGETS = {
    "stream_name": "string",
    "db_name": "string",
    "stream_id": "string",
    "target": "string",
    "sent": "int64",
    "dropped": "int64",
    "paused": "bool",
    "message": "string",
    "last_update": _TIME,
}
_RECALCULATES = {
    "stream_name": "string",
    "db_name": "string",
    "stream_id": "string",
    "recalculate_id": "string",
    "start_time": _TIME,
    "end_time": _TIME,
    "resync": "bool",
    "status": "string",
    "progress": "float64",
    "request_time": _TIME,
}


def _table(rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> pa.Table:
    """Return rows as a table; times are microseconds since 1970 UTC."""
    import pyarrow as pa

    listed = zip(*rows, strict=True) if rows else [()] * len(columns)
    kinds = {_TIME: pa.timestamp("us", "UTC"), "bool": pa.bool_()}
    arrays = [
        pa.array(list(values), kinds.get(kind) or pa.type_for_alias(kind))
        for values, kind in zip(listed, columns.values(), strict=True)
    ]
    return pa.table(dict(zip(columns, arrays, strict=True)))
