"""Notifications of a lake: who is told of what, and the dispatcher that one process at a time runs."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from lakestream.covered import redacted
from lakestream.engine.base.faults import crash_point
from lakestream.engine.creation.compile import definition_of
from lakestream.engine.rounds.soundness import has_happened
from lakestream.errors import Place, StatementError, StorageError
from lakestream.notify.alerts import ALERTS, told_of_alerts
from lakestream.storage.places.leases import MAINTENANCE
from lakestream.storage.places.lock import try_lock
from lakestream.targets import WEBHOOKS, HostPolicy, first_refusal, read_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakestream.clock import Clock
    from lakestream.language.model import Notification
    from lakestream.notify.deliveries import Deliveries
    from lakestream.notify.dispatcher import Dispatcher, Rules, Sender
    from lakestream.notify.outbox import Batch, Outbox
    from lakestream.settings import Settings
    from lakestream.storage.places.layout import Layout
    from lakestream.storage.records.registry import Registry, StreamRecord

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often a process that ticks nothing looks for events of others."""

_LOCK = "notify.lock"


def sending_lock(layout: Layout, *, shared: bool = False) -> IO[bytes] | None:
    """Take the right to send a lake's events: a file to close, None while somebody has it.

    ``shared``: those of a part of the streams, beside others who do.
    """
    return try_lock(layout, _LOCK, shared=shared)


def check_targets(notification: Notification | None, hosts: Sequence[str]) -> None:
    """Raise StatementError NOTIFY_HOST for a url that may not be sent to, as far as its text tells."""
    refused = first_refusal(notification.urls, hosts) if notification else None
    if notification is None or refused is None:
        return
    number, why = refused
    url = notification.urls[number]
    line, column = notification.places[number]
    host = read_target(url).host
    raise StatementError(
        "NOTIFY_HOST",
        f"NOTIFY may not send to {redacted(url)}: {why}",
        hint=f"where streams run, say --set notify_hosts={host}, LAKESTREAM_NOTIFY_HOSTS={host}, or "
        f'notify_hosts = ["{host}"] in a profile; commas stand between several hosts',
        place=Place(line, column, len(url) + 2),
    )


@dataclass
class Notifier:
    """Sends the events of a lake's streams, while this process holds the right to."""

    layout: Layout
    registry: Registry
    outbox: Outbox
    deliveries: Deliveries
    settings: Settings
    system_clock: Clock
    only: frozenset[str] | None = None
    """The streams whose events this process sends, where daemons share them; None: all."""
    _definitions: dict[str, tuple[str, Notification | None]] = field(default_factory=dict)
    _dispatcher: Dispatcher | None = None
    _lock: IO[bytes] | None = None
    _looked: float = float("-inf")
    _said: str = ""
    _nobody_as_of: object = None
    """What was recorded when no stream had anybody to tell."""

    def begin(self, record: StreamRecord, notification: Notification | None) -> None:
        """Have a new stream's targets, or new targets of a stream, told of what comes from now on."""
        if notification is not None:
            self._begin(record.uuid, notification.urls)

    def _begin(self, stream_id: str, urls: Sequence[str]) -> None:
        if not urls:
            return
        self.outbox.since(self.outbox.version)
        known = {delivery.id for delivery in self.deliveries.all()}
        new = [self.deliveries.of(stream_id, url) for url in urls]
        self.deliveries.move([d for d in new if d.id not in known], self.outbox.version + 1)

    def end(self, uuid: str) -> None:
        """Forget a stream that was dropped; what was not sent of it is not sent any more."""
        self.deliveries.remove(uuid)
        self.outbox.forget_sent({uuid: sys.maxsize})

    def is_waiting(self) -> bool:
        """Return whether it is too early to look for new events again, or nobody is to be told of any."""
        is_early = self.system_clock.monotonic() - self._looked < LOOK_SECONDS
        return is_early or self._nobody_as_of == self.registry.seen()

    def follow(self, *, at_once: bool) -> None:
        """Hand new events to the threads that send them; starts no thread while nobody is to be told."""
        if not at_once and self.is_waiting():
            return
        self._looked = self.system_clock.monotonic()
        notified = self._notified()
        has_nobody = not notified and self._dispatcher is None
        self._nobody_as_of = self.registry.seen() if has_nobody else None

        def can_be_told(batch: Batch) -> bool | None:
            return batch.stream_id == ALERTS or has_happened(self.registry, batch.app, batch.number)

        with self._said_once():
            if notified and self._dispatcher is None:
                self._start()
            if self._dispatcher is not None:
                self._dispatcher.follow(notified, can_be_told)

    def _start(self) -> None:
        """Take the right to send, unless another process has it."""
        from lakestream.notify.dispatcher import Dispatcher

        self._lock = self._lock or sending_lock(self.layout, shared=self.only is not None)
        if self._lock is not None:
            self._begin(ALERTS, self.settings.alert_urls)
            self._dispatcher = Dispatcher(self.outbox, self.deliveries, self._rules())

    @contextmanager
    def _said_once(self) -> Iterator[None]:
        """Say once what keeps events from being sent: streams go on, and events wait.

        What is damaged is let go of, for another process to repair, and opened anew the next time.
        """
        try:
            yield
        except StorageError as error:
            if error.code == "REGISTRY_DAMAGED":
                with suppress(StorageError):
                    self._stop()
                self.outbox.let_go()
            problem = f"events are not sent: {error}"
            if problem != self._said:
                self._said = problem
                _log.error("%s", problem)

    def is_blocked(self, uuid: str) -> bool:
        """Return whether a stream waits until its events have been sent."""
        return self._dispatcher is not None and self._dispatcher.is_blocked(uuid)

    def drain(self) -> None:
        """Wait until targets have everything, or could not be reached."""
        if self._dispatcher is not None:
            with self._said_once():
                self._dispatcher.drain()

    def close(self) -> None:
        """Stop sending, and let another process do it."""
        self._nobody_as_of = None
        with self._said_once():
            self._stop()

    def _stop(self) -> None:
        dispatcher, self._dispatcher = self._dispatcher, None
        try:
            if dispatcher is not None:
                dispatcher.close()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _notified(self) -> dict[str, Notification]:
        records = [r for r in self.registry.streams() if self.only is None or r.uuid in self.only]
        found = {record.uuid: self._notification(record) for record in records}
        if self.settings.alert_urls and (self.only is None or MAINTENANCE in self.only):
            found[ALERTS] = told_of_alerts(self.settings.alert_urls)
        return {uuid: notification for uuid, notification in found.items() if notification is not None}

    def _notification(self, record: StreamRecord) -> Notification | None:
        known = self._definitions.get(record.uuid)
        if known is None or known[0] != record.sql:
            known = self._definitions[record.uuid] = (record.sql, definition_of(record).notification)
        return known[1]

    def _rules(self) -> Rules:
        from lakestream.notify.connection import Connection
        from lakestream.notify.dispatcher import Rules
        from lakestream.notify.secrets import Named
        from lakestream.notify.webhook import Webhook

        sockets = HostPolicy(self.settings.notify_hosts)
        webhooks = HostPolicy(self.settings.notify_hosts, WEBHOOKS)

        def connect(url: str) -> Sender:
            if url.lower().startswith("http"):
                return Webhook(url, webhooks)
            return Connection(url, sockets, self.system_clock)

        return Rules(
            connect=lambda url: Named(url, self.settings.secrets, connect),
            clock=self.system_clock,
            keep_seconds=self.settings.notify_keep_seconds,
            reach=crash_point,
        )
