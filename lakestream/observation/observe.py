"""What is seen of a lake's streams from outside: their runs, newest results, events and lineage.

Reads what lies in the lake, through delta-rs; it changes nothing and needs no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.names import visible_columns
from lakestream.engine.creation.compile import definition_of
from lakestream.language.streams import trigger_of
from lakestream.observation.windows import with_windows
from lakestream.storage.delta import capabilities, read_arrow
from lakestream.storage.tables.datafiles import data_files, file_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.notify.deliveries import Deliveries, Delivery
    from lakestream.notify.outbox import Outbox, Sent
    from lakestream.storage.delta import Table
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Failure, Progress, Registry, StreamRecord

_MORE = 4
"""How many times as many rows are asked of the statistics when deleted ones made the result short."""


@dataclass(frozen=True)
class Run:
    """A tick as it is remembered: ``at_us`` its end (µs since 1970 UTC), ``lag`` commits left then.

    One that failed has an ``error`` and counts nothing. ``violated`` counts rows that did not meet an
    expectation.
    """

    stream: str
    tick: int
    kind: str
    at_us: int
    seconds: float
    rows_in: int
    rows_out: int
    windows: int
    late: int
    lag: int
    error: str | None = None
    violated: int = 0


@dataclass(frozen=True)
class Event:
    """An event of the outbox; ``id`` orders events, ``event`` is the JSON that is sent.

    ``deliveries`` has (target, state) of each target: ``sent``, ``waiting`` or why it could not be sent.
    """

    id: str
    stream: str
    at_us: int
    type: str
    group: str | None
    event: str
    deliveries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outline:
    """What triggers a stream, in a line, and when the clock does so next (µs since 1970 UTC), else None."""

    trigger: str
    next_due_us: int | None = None


class Outlines:
    """Outlines of streams; a statement is read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, str]] = {}

    def of(self, record: StreamRecord, alarm: Alarm | None, now_us: int) -> Outline:
        """Return a stream's outline; ``alarm`` is when the clock makes it due, None for never."""
        text = self._trigger(record)
        if alarm is None or record.status != "Running":
            return Outline(text)
        return Outline(text, to_micros(alarm) if isinstance(alarm, datetime) else alarm.after(now_us))

    def _trigger(self, record: StreamRecord) -> str:
        known = self._read.get(record.uuid)
        if known is None or known[0] != record.sql:
            known = self._read[record.uuid] = (record.sql, trigger_of(definition_of(record)))
        return known[1]


def runs(registry: Registry, record: StreamRecord) -> list[Run]:
    """Return what is kept of a stream's ticks and failures, newest first."""
    name = f"{record.database}.{record.name}"
    found = [_run(name, progress) for progress in registry.history(record.uuid)]
    found += [_failed_run(name, failure) for failure in registry.failures(record.uuid)]
    return sorted(found, key=lambda run: (run.at_us, run.tick), reverse=True)


def _run(stream: str, progress: Progress) -> Run:
    return Run(
        stream,
        progress.tick,
        progress.kind or "changes",
        progress.finished_us,
        progress.seconds,
        progress.rows_in,
        progress.rows_out,
        progress.windows or 0,
        progress.late,
        progress.lag or 0,
        violated=progress.violated,
    )


def _failed_run(stream: str, failure: Failure) -> Run:
    error = f"{failure.code}: {failure.message}"
    return Run(stream, failure.tick, "failed", failure.at_us, 0.0, 0, 0, 0, 0, 0, error)


@dataclass(frozen=True)
class Details:
    """What there is to know of one stream beside its status.

    ``errors_table`` is the table of rows that it left out, None when there is none; ``newest_us`` the newest
    event time of its source (µs since 1970 UTC), None where the statistics of its files do not tell one.
    """

    errors_table: str | None
    newest_us: int | None


def details(catalog: Catalog, record: StreamRecord) -> Details:
    """Return what there is to know of a stream beside its status."""
    errors = catalog.find_table(*record.errors_table.split(".", 1))
    source = catalog.find_table(*record.sources[0].split(".", 1)) if record.sources else None
    newest = None
    if source is not None and source.time_column:
        newest = _newest_time(catalog.handles.latest(source.path), source.time_column)
    return Details(record.errors_table if errors is not None and errors.kind == "output" else None, newest)


def _newest_time(table: Table, time: str) -> int | None:
    """Return the newest time (µs since 1970 UTC) that the statistics of a table's files have."""
    files = data_files(table, table.version, time, None, None)
    most = f"max.{table.statistic_of(time)}"
    if files.num_rows == 0 or most not in files.column_names or files[most].null_count:
        return None
    newest: int = max(file_times(table, time, files[most], 1).to_pylist())
    return newest


def newest_rows(
    table: Table, info: TableInfo, limit: int, most_bytes: int, *, windows: bool = False
) -> pa.Table | None:
    """Return the newest rows of a table by its time, newest first.

    With ``windows`` they have a column more, for the window of each (:func:`with_windows`). None where the
    statistics of its files do not tell which files hold them, or these are larger than ``most_bytes``.
    """
    if not info.time_column or not capabilities(table).arrow_reads:
        return None
    asked = limit
    while True:
        lower = _lower_bound(table, info.time_column, asked, most_bytes)
        if lower is None:
            return None
        columns = [*visible_columns(info), *(info.hidden if windows else ())]
        rows = read_arrow(
            table, None, columns=columns, spans=[(lower[0], None)], time_column=info.time_column
        )
        if rows.num_rows >= limit or lower[1]:
            found = rows.sort_by([(info.time_column, "descending")]).slice(0, limit)
            return with_windows(table, info, found, most_bytes) if windows else found
        asked *= _MORE


def _lower_bound(table: Table, time: str, rows: int, most_bytes: int) -> tuple[int, bool] | None:
    """Return a time (µs) behind which at least so many rows lie, and whether these are all there are."""
    files = data_files(table, table.version, time, None, None)
    least = f"min.{table.statistic_of(time)}"
    if files.num_rows == 0:
        return 0, True
    if least not in files.column_names or files[least].null_count or files["num_records"].null_count:
        return None
    files = files.sort_by([(least, "descending")])
    starts = file_times(table, time, files[least], -1).to_pylist()
    count = size = 0
    for number, start in enumerate(starts):
        count += files["num_records"][number].as_py()
        size += files["size_bytes"][number].as_py()
        if size > most_bytes:
            return None
        if count >= rows and starts[number + 1 : number + 2] != [start]:
            return start, number + 1 == len(starts)
    return starts[-1], True


def events(
    outbox: Outbox,
    deliveries: Deliveries,
    names: Mapping[str, str],
    stream_id: str | None,
    after: str | None,
    limit: int,
) -> list[Event]:
    """Return the first ``limit`` events behind the id ``after`` (None: the newest ones), oldest first.

    ``names`` are those of the streams by their ids; an event of a stream that is gone has the name that it
    had. Raises StatementError BAD_VALUE for what is no event's id.
    """
    delivered = deliveries.all()
    return [_event(sent, names, delivered) for sent in outbox.read(stream_id, after, limit)]


def waiting(outbox: Outbox, deliveries: Deliveries) -> dict[str, int]:
    """Return by target how many events wait for it."""
    delivered = deliveries.all()
    found = dict.fromkeys((delivery.target for delivery in delivered), 0)
    first = min((delivery.version for delivery in delivered), default=None)
    for batch in [] if first is None else outbox.since(first - 1):
        for delivery in delivered:
            if delivery.stream_id == batch.stream_id and batch.version >= delivery.version:
                taken = delivery.seq if batch.version == delivery.version else 0
                found[delivery.target] += batch.events - taken
    return found


def _event(sent: Sent, names: Mapping[str, str], deliveries: Sequence[Delivery]) -> Event:
    own = [d for d in deliveries if d.stream_id == sent.row["stream_id"]]
    return Event(
        id=sent.id,
        stream=names.get(sent.row["stream_id"], sent.row["stream"]),
        at_us=sent.at_us,
        type=sent.row["event_type"],
        group=sent.row["group_id"],
        event=sent.row["event"],
        deliveries=tuple((d.target, _state(sent, d)) for d in own),
    )


def _state(sent: Sent, delivery: Delivery) -> str:
    if sent.position < (delivery.version, delivery.seq):
        return "sent"
    return delivery.error or "waiting"
