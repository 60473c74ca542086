"""The dispatcher: takes events from the outbox to their targets, in order and at least once.

Every url has a thread of its own, so that no target waits for another one. It takes the batches of its
streams in the order of the outbox, a message at a time, and records how far it has come: when it has nothing
more to send, and every ``RECORD_SECONDS`` until then.
What cannot be handed over stays in the outbox; only the names of batches wait in memory.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    wait_exponential,
    wait_random,
)

from lakestream.covered import redacted
from lakestream.errors import StreamError
from lakestream.notify.connection import DeliveryFailed
from lakestream.notify.messages import messages
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tenacity import RetryCallState

    from lakestream.clock import Clock
    from lakestream.language.model import Notification
    from lakestream.notify.deliveries import Deliveries, Delivery
    from lakestream.notify.messages import Message
    from lakestream.notify.outbox import Batch, Outbox

RETRY_SECONDS = 30.0
LASTING_SECONDS = 300.0
"""Longest waits between attempts: after what passes, and after what lasts until somebody mends it."""

RECORD_SECONDS = 0.25
"""A crash sends again what was sent for so long: a commit for each message would take most of the time."""

_JOIN_SECONDS = 5.0
_FIRST_WAIT = 0.2
_log = logging.getLogger(__name__)
_backing_off = wait_exponential(multiplier=_FIRST_WAIT, max=RETRY_SECONDS) + wait_random(0, _FIRST_WAIT)


class Sender(Protocol):
    """What a target's thread needs of a connection."""

    def send(self, message: str) -> None:
        """Hand a message over; raises DeliveryFailed."""
        ...

    def close(self) -> None:
        """Let go of the target."""
        ...


class _Stopped(Exception):  # noqa: N818 - no error
    """The dispatcher was closed in the midst of a batch."""


@dataclass(frozen=True)
class Rules:
    """What the dispatcher goes by: how to reach a url, and how long events wait for one that is away.

    ``keep_seconds`` counts from the first failed attempt, for streams that do not pause; ``reach`` is
    called at the crash points C8 (sent) and C9 (recorded), ``clock`` gives real seconds.
    """

    connect: Callable[[str], Sender]
    clock: Clock
    keep_seconds: float
    reach: Callable[[str], None]


class Dispatcher:
    """Sends what the outbox of a lake holds; :meth:`follow` tells it to look."""

    def __init__(self, outbox: Outbox, deliveries: Deliveries, rules: Rules) -> None:
        self._outbox = outbox
        self._deliveries = deliveries
        self._rules = rules
        self._notified: Mapping[str, Notification] = {}
        self._targets: dict[str, _Target] = {}
        self._waiting: dict[str, deque[Batch]] = defaultdict(deque)
        self._seen: int | None = None

    def follow(
        self, notified: Mapping[str, Notification], has_happened: Callable[[Batch], bool | None]
    ) -> None:
        """Hand new batches of the outbox to the threads of their targets.

        ``notified`` are the streams that there are, by id. A batch is sent once ``has_happened``: the
        output that it tells of is there. None says that it never will. Batches of one stream wait for
        one another.
        """
        self._notified = notified
        for batch in self._new():
            self._waiting[batch.stream_id].append(batch)
        for stream_id in list(self._waiting):
            queue = self._waiting[stream_id]
            while queue and stream_id in notified and (happened := has_happened(queue[0])) is not False:
                if happened:
                    self._hand_on(queue[0], notified[stream_id])
                queue.popleft()  # not before: where handing on fails, the batch is not lost
            if not queue or stream_id not in notified:
                del self._waiting[stream_id]

    def _new(self) -> list[Batch]:
        seen = self._seen
        if seen is None:
            known = [d.version for d in self._deliveries.all() if d.stream_id in self._notified]
            seen = min(known, default=0) - 1
        try:
            batches = self._outbox.since(seen)
        except StreamError:
            # Nothing that is left can bring them back; streams and later events must go on.
            _log.exception("events that were not sent are no longer in the outbox's log")
            self._seen = self._outbox.version
            return []
        if batches:
            self._forget_sent()
        self._seen = max(seen, self._outbox.version)  # not before: where that fails, they are seen again
        return batches

    def _forget_sent(self) -> None:
        delivered: dict[str, int] = {}
        for one in self._deliveries.all():
            delivered[one.stream_id] = min(one.version, delivered.get(one.stream_id, one.version))
        self._outbox.forget_sent(delivered)

    def _hand_on(self, batch: Batch, notification: Notification) -> None:
        for url in notification.urls:
            target = self._targets.get(url)
            if target is None:
                target = _Target(url, self._outbox, self._deliveries, self._rules, self._is_subscribed)
                self._targets[url] = target
            target.put(batch, pauses=notification.pauses)

    def _is_subscribed(self, stream_id: str, url: str) -> bool:
        """Return whether a stream is there and still names a url."""
        notification = self._notified.get(stream_id)
        return notification is not None and url in notification.urls

    def is_blocked(self, stream_id: str) -> bool:
        """Return whether a stream that pauses has events for a target that could not be reached."""
        notification = self._notified.get(stream_id)
        if notification is None or not notification.pauses:
            return False
        targets = [self._targets[url] for url in notification.urls if url in self._targets]
        return any(target.holds(stream_id) for target in targets)

    def drain(self) -> None:
        """Wait until every target has taken what there is for it, or could not be reached."""
        for target in self._targets.values():
            target.settle()

    def close(self) -> None:
        """Stop sending, and let targets that have everything begin behind it the next time."""
        for target in self._targets.values():
            target.stop()
        if self._seen is None:
            return
        busy = {target.url for target in self._targets.values() if not target.is_empty}
        waiting = {stream_id for stream_id, queue in self._waiting.items() if queue}
        behind = [
            self._deliveries.of(stream_id, url)
            for stream_id, notification in self._notified.items()
            for url in notification.urls
            if url not in busy and stream_id not in waiting
        ]
        self._deliveries.move([d for d in behind if d.version <= self._seen], self._seen + 1)
        self._forget_sent()


@dataclass
class _Target:
    """One url: its queue of batches, and the thread that empties it."""

    url: str
    outbox: Outbox
    deliveries: Deliveries
    rules: Rules
    is_subscribed: Callable[[str, str], bool]
    _queue: deque[tuple[Batch, bool]] = field(default_factory=deque, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _failing_since: float | None = field(default=None, init=False)
    _failed: bool = field(default=False, init=False)
    _settled: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _recorded_at: float = field(default=float("-inf"), init=False)
    _broken: BaseException | None = field(default=None, init=False)
    _sender: Sender = field(init=False)

    def __post_init__(self) -> None:
        self._sender = self.rules.connect(self.url)
        shown = redacted(self.url)
        self._failed = any(d.error for d in self.deliveries.all() if d.target == shown)
        self._thread = threading.Thread(target=self._run, name=f"notify {shown}", daemon=True)
        self._thread.start()

    # --- asked by other threads ---

    def put(self, batch: Batch, *, pauses: bool) -> None:
        """Add a batch; ``pauses``: it is never given up."""
        with self._changed:
            self._settled = self._settled and bool(self._queue)
            self._queue.append((batch, pauses))
            self._changed.notify_all()

    def holds(self, stream_id: str) -> bool:
        """Return whether an attempt has failed, and a stream's batch waits for another one."""
        with self._changed:
            return self._failed and any(batch.stream_id == stream_id for batch, _ in self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken."""
        with self._changed:
            return not self._queue

    def settle(self) -> None:
        """Wait until the queue is empty or its first message could not be sent."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue or self._settled or self._over)
        if self._broken is not None:
            raise self._broken

    def stop(self) -> None:
        """End the thread; a message under way is finished, or sent again the next time."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(_JOIN_SECONDS)

    # --- the thread ---

    def _run(self) -> None:
        try:
            with suppress(_Stopped):
                while (first := self._first()) is not None:
                    self._take(*first)
            self._record()
        except BaseException as error:  # noqa: BLE001 (handed to who waits, as the end of the process would be)
            self._broken = error
        finally:
            self._sender.close()
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _take(self, batch: Batch, pauses: bool) -> None:
        """Deliver the first batch; what is no fault of the target's is tried again too."""
        try:
            self._deliver(batch, pauses=pauses)
            if self._is_last():
                self._record()
        except _Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - a target that fails must not stop its neighbours
            _log.exception("a batch for %s was not sent", redacted(self.url))
            self._note_problem(batch, f"its events cannot be sent: {first_line(error)}")
            self._fail()
            self._stop.wait(RETRY_SECONDS)
            return
        with self._changed:
            self._queue.popleft()
            self._settled = False
            self._changed.notify_all()

    def _note_problem(self, batch: Batch, problem: str) -> None:
        with suppress(Exception):  # what cannot be noted is in the log
            self.deliveries.put(self.deliveries.of(batch.stream_id, self.url), error=problem)

    def _is_last(self) -> bool:
        with self._changed:
            return len(self._queue) == 1

    def _fail(self) -> None:
        with self._changed:
            self._failed = self._settled = True
            self._changed.notify_all()

    def _first(self) -> tuple[Batch, bool] | None:
        """Return the next batch once there is one, None when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stop.is_set())
            return None if self._stop.is_set() else self._queue[0]

    def _deliver(self, batch: Batch, *, pauses: bool) -> None:
        delivery = self.deliveries.of(batch.stream_id, self.url)
        if batch.version < delivery.version or not self.is_subscribed(batch.stream_id, self.url):
            return
        begin = delivery.seq if batch.version == delivery.version else 0
        events = self.outbox.events(batch)
        for message in messages(events, batch.app, batch.number):
            if message.first < begin:
                continue
            if self._stop.is_set():
                raise _Stopped
            sent = self._hand_over(message, delivery, pauses=pauses)
            if not sent and not self.is_subscribed(batch.stream_id, self.url):
                return
            is_last = message.last + 1 == events.num_rows
            delivery = self.deliveries.keep(
                delivery,
                version=batch.version + 1 if is_last else batch.version,
                seq=0 if is_last else message.last + 1,
                sent=delivery.sent + (message.events if sent else 0),
                dropped=delivery.dropped + (0 if sent else message.events),
                error=None,
                holds=False,
                updated_us=self._now_us(),
            )
            if self.rules.clock.monotonic() - self._recorded_at >= RECORD_SECONDS:
                self._record()

    def _record(self) -> None:
        """Write down what has been delivered to the target."""
        if self.deliveries.save():
            self._recorded_at = self.rules.clock.monotonic()
            self.rules.reach("C9")

    def _hand_over(self, message: Message, delivery: Delivery, *, pauses: bool) -> bool:
        """Send a message until the target has taken it; False when it was given up."""
        if message.text is None:
            _log.error("an event of %s is too large to be sent", delivery.stream_id)
            return False
        retrying = Retrying(
            retry=retry_if_exception_type(DeliveryFailed),
            stop=lambda _: self._stop.is_set() or self._gives_up(delivery, pauses=pauses),
            wait=_wait,
            sleep=sleep_using_event(self._stop),
            before_sleep=lambda state: self._note(state, delivery, pauses=pauses),
        )
        try:
            retrying(self._sender.send, message.text)
        except RetryError:
            if self._stop.is_set():
                raise _Stopped from None
            _log.warning("%d events for %s are dropped", message.events, redacted(self.url))
            return False
        self._failing_since = None
        with self._changed:
            self._failed = self._settled = False
        self.rules.reach("C8")
        return True

    def _gives_up(self, delivery: Delivery, *, pauses: bool) -> bool:
        """Return whether nobody is subscribed any more, or has been away for longer than events wait."""
        if not self.is_subscribed(delivery.stream_id, self.url):
            return True
        now = self.rules.clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        return not pauses and now - self._failing_since >= self.rules.keep_seconds

    def _note(self, state: RetryCallState, delivery: Delivery, *, pauses: bool) -> None:
        """Say that an attempt has failed: in the log, in the table, and to those who wait."""
        problem = str(state.outcome.exception() if state.outcome else "")
        if not self._failed:
            _log.warning("%s cannot be told of events: %s", redacted(self.url), problem)
        if self.deliveries.of(delivery.stream_id, self.url).error != problem:
            self.deliveries.put(delivery, error=problem, holds=pauses, updated_us=self._now_us())
        self._fail()

    def _now_us(self) -> int:
        return int(self.rules.clock.now().timestamp() * 1_000_000)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, DeliveryFailed) and error.lasting:
        return LASTING_SECONDS
    return float(_backing_off(state))
