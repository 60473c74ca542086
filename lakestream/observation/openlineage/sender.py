"""Events on their way to a receiver: in a thread of its own, so that no tick waits for it or fails of it."""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

from lakestream.errors import StatementError
from lakestream.observation.lineage import column_lineage
from lakestream.observation.openlineage.events import Told, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport import Transport

    from lakestream.clock import Clock
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.settings import Settings
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Registry, StreamRecord
    from lakestream.timeseries.continuous import ContinuousQueries

_MOST_WAITING = 1_000
_PATIENCE = 5.0
"""How long the end of a lake waits for events that are under way, in seconds."""
_RETRIES = {
    "total": 2,
    "backoff_factor": 0.3,
    "status_forcelist": [502, 503, 504],
    "allowed_methods": ["POST"],
}
_logger = logging.getLogger("lakestream.openlineage")


def transport_of(settings: Settings) -> Transport:
    """Return what takes events to ``openlineage_url``: a server, by its address, or else a file."""
    url = settings.openlineage_url or ""
    if not url.startswith(("http://", "https://")):
        return FileTransport(FileConfig(url, append=True))
    token = settings.openlineage_token
    key = TokenProvider({}) if token is None else ApiKeyTokenProvider({"apiKey": token.get_secret_value()})
    return HttpTransport(HttpConfig(url, auth=key, retry=_RETRIES))


class Sender:
    """Tells a receiver of ticks. What it does not take is lost, and the log says so.

    ``queries`` gives the continuous queries where one has been executed.
    """

    def __init__(
        self,
        registry: Registry,
        catalog: Catalog,
        queries: Callable[[], ContinuousQueries],
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._registry, self._catalog, self._queries, self._clock = registry, catalog, queries, clock
        self._namespace = settings.openlineage_namespace
        self._known: dict[str, Told] = {}
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        emit = transport_of(settings).emit
        self._thread = threading.Thread(target=self._send, args=(emit,), name="openlineage", daemon=True)
        self._thread.start()

    def tell(self, report: TickReport) -> None:
        """Have a tick of a stream told of; raises nothing."""
        try:
            told = self._told(report)
            events = [] if told is None else events_of(told, report, self._clock.now(), self._namespace)
            for event in events:
                self._waiting.put_nowait(event)
        except queue.Full:
            self._has_lost("too many events wait")
        except Exception as error:  # noqa: BLE001 (a tick does not fail of who hears of it)
            self._has_lost(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_PATIENCE)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            _logger.warning("about %d OpenLineage events have not been taken", self._waiting.qsize())

    def _told(self, report: TickReport) -> Told | None:
        """Return what ticked as events tell of it, None for what is neither a stream nor a query."""
        if report.kind == "cq":
            return self._query(report.stream)
        record = next((one for one in self._registry.streams() if one.full_name == report.stream), None)
        if record is None:
            return None
        known = self._known.get(record.uuid)
        if known is None or known.sql != record.sql or not known.writes:
            known = self._known[record.uuid] = self._read(record)
        return known

    def _read(self, record: StreamRecord) -> Told:
        writes = self._tables([record.table] if record.table is not None else [])
        try:
            columns = {name: column_lineage(record, self._catalog) for name in writes}
        except StatementError:
            columns = {}  # of a table that has gone; the stream says so itself
        reads = self._tables(record.sources)
        return Told(record.uuid, record.full_name, "STREAM", record.sql, reads, writes, columns)

    def _query(self, name: str) -> Told | None:
        queries = self._queries()
        record = queries.definitions.query(name)
        if record is None:
            return None
        found = queries.origins_of(record)
        reads, writes = self._tables(found.reads), self._tables([one.table for one in found.writes])
        columns = {one.table: one.columns for one in found.writes}
        return Told(record.uuid, record.name, "QUERY", record.sql, reads, writes, columns)

    def _tables(self, names: Iterable[str]) -> dict[str, TableInfo]:
        """Return those of some tables (``database.name``) that are there."""
        found = {name: self._catalog.find_table(*name.split(".", 1)) for name in names}
        return {name: info for name, info in found.items() if info is not None}

    def _send(self, emit: Callable[[RunEvent], object]) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                emit(event)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next event may be taken)
                self._has_lost(f"{type(error).__name__}: {error}")
            else:
                self._is_taken()

    def _has_lost(self, why: str) -> None:
        self._lost += 1
        if self._lost == 1:
            _logger.warning("an OpenLineage event was not taken, and is lost: %s", why)

    def _is_taken(self) -> None:
        if self._lost:
            _logger.warning("OpenLineage events are taken again; %d were lost", self._lost)
            self._lost = 0
