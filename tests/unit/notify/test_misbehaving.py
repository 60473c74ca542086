"""Whatever a target does, its events come in their order, none is lost, and each keeps its id."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed

from lakestream.clock import ManualClock, SystemClock
from lakestream.language.model import Notification
from lakestream.notify import connection as connection_module
from lakestream.notify import dispatcher as module
from lakestream.notify.connection import Connection, DeliveryFailed
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.dispatcher import Dispatcher, Rules
from lakestream.notify.outbox import Outbox
from lakestream.targets import HostPolicy
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from websockets.sync.server import ServerConnection

CLOCK = SystemClock()
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
NOW = pa.scalar(BEGIN, pa.timestamp("us", "UTC"))


def put(outbox: Outbox, tick: int, numbers: list[int]) -> None:
    """Write a tick's events of the stream ``s``."""
    count = len(numbers)
    columns: dict[str, Any] = {
        "stream": ["s"] * count,
        "stream_id": ["s"] * count,
        "tick": [f"changes:{tick}"] * count,
        "seq": list(range(count)),
        "event_id": [str(n) for n in numbers],
        "trigger_id": [str(n) for n in numbers],
        "event_type": ["WINDOW_CLOSE"] * count,
        "group_id": ["0"] * count,
        **{name: pa.array([NOW] * count) for name in ("window_start", "window_end", "event_time")},
        "event": [json.dumps({"n": n}) for n in numbers],
    }
    outbox.put(pa.table(columns), "lakestream:s:output", tick, epoch=1)


class Sending:
    """An outbox, and what sends it to a url."""

    def __init__(self, folder: Path, *urls: str, pauses: bool = False) -> None:
        self.folder = folder
        self.outbox = Outbox(str(folder / "outbox"))
        self.notified = {"s": Notification(urls, ("WINDOW_CLOSE",), pauses=pauses)}
        self.deliveries = Deliveries(str(folder / "deliveries"))

    def dispatcher(self, rules: Rules) -> Dispatcher:
        return Dispatcher(self.outbox, self.deliveries, rules)

    def follow(self, dispatcher: Dispatcher) -> None:
        dispatcher.follow(self.notified, lambda _: True)


def events(catcher: Catcher) -> list[int]:
    """Return the numbers of the events, each message once, as they came first."""
    once = {message["messageId"]: message for message in catcher.messages}
    return [e["n"] for message in once.values() for s in message["streams"] for e in s["events"]]


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = CLOCK.monotonic() + seconds
    while not holds():
        assert CLOCK.monotonic() < deadline
        CLOCK.sleep(0.01)


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    catcher = Catcher()
    yield catcher
    catcher.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_wait", lambda _state: 0.001)


def closes(peer: ServerConnection) -> None:
    peer.close()


def cuts(peer: ServerConnection) -> None:
    """Break the connection in the middle of what comes."""
    peer.socket.shutdown(socket.SHUT_RDWR)


def says_too_much(peer: ServerConnection) -> None:
    peer.send(b"\x00" * 10_000_000)


def talks(peer: ServerConnection) -> None:
    for _ in range(200):
        peer.send(b"\xff\x00 and nothing that is text")
    peer.close()


def test_a_target_that_misbehaves_gets_everything_in_the_end(catcher: Catcher, tmp_path: Path) -> None:
    def then_keeps(behave: Callable[[ServerConnection], None]) -> Callable[[ServerConnection], None]:
        """Keep what the library had taken off the wire, which it may have confirmed."""

        def behaves(peer: ServerConnection) -> None:
            with suppress(ConnectionClosed):
                behave(peer)
            with suppress(ConnectionClosed):
                catcher.messages.extend(json.loads(message) for message in peer)

        return behaves

    behaviours = [closes, cuts, says_too_much, talks, cuts, closes]
    catcher.behaves.extend(map(then_keeps, behaviours))
    redirect = [HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT]
    catcher.statuses.extend([*redirect, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY])
    sending = Sending(tmp_path, catcher.url)
    rules = Rules(
        lambda url: Connection(url, HostPolicy(("localhost",)), CLOCK), CLOCK, 1_000, lambda _: None
    )
    dispatcher = sending.dispatcher(rules)
    for tick in range(1, 21):
        put(sending.outbox, tick, [2 * tick, 2 * tick + 1])
        sending.follow(dispatcher)
    until(lambda: len(events(catcher)) == 40)
    until(lambda: sending.deliveries.of("s", catcher.url).sent == 40)
    dispatcher.close()
    assert events(catcher) == [*range(2, 42)]
    by_id: dict[str, list[Any]] = {}
    for message in catcher.messages:
        by_id.setdefault(message["messageId"], []).append(message["streams"])
    assert all(found == [found[0]] * len(found) for found in by_id.values())
    assert len(catcher.messages) - len(by_id) <= len(behaviours)
    assert not catcher.behaves
    assert not catcher.statuses


def test_a_redirect_is_not_followed(catcher: Catcher) -> None:
    """To wherever it leads: also to a place that would be allowed."""
    elsewhere = Catcher()
    try:
        catcher.leads_to = elsewhere.url
        with pytest.raises(DeliveryFailed) as failed:
            Connection(catcher.url, HostPolicy(("localhost",)), CLOCK).send("x")
        assert failed.value.lasting
        assert elsewhere.url not in str(failed.value)
        assert (len(catcher.paths), elsewhere.paths) == (1, [])
    finally:
        elsewhere.close()


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "127.0.0.1", "::1", "10.0.0.1", "64:ff9b::7f00:1"],
)
def test_a_name_that_leads_elsewhere_the_next_time_is_judged_anew(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    looked_up: list[str] = []
    reached: list[str] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        looked_up.append(host)
        found = "8.8.8.8" if len(looked_up) == 1 else address
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]

    def create_connection(place: tuple[str, int], **_: object) -> socket.socket:
        reached.append(place[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    connection = Connection("wss://target.example:443/in", HostPolicy(()), CLOCK)
    for lasting in (False, True):
        with pytest.raises(DeliveryFailed) as failed:
            connection.send("x")
        assert failed.value.lasting is lasting
    # One look-up for each connection, and it went to what was judged.
    assert (len(looked_up), reached) == (2, ["8.8.8.8"])


def test_an_answer_that_comes_late_is_one_and_what_comes_too_late_is_sent_again(
    catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, speaks = threading.Event(), threading.Event()

    def keep(peer: ServerConnection) -> None:
        with peer.protocol_mutex:  # nothing that comes in is looked at
            silent.set()
            speaks.wait(60)
        with suppress(ConnectionClosed):
            catcher.messages.extend(json.loads(message) for message in peer)

    monkeypatch.setattr(connection_module, "CONFIRM_SECONDS", 60.0)
    connection = Connection(catcher.url, HostPolicy(("localhost",)), CLOCK)
    catcher.behaves.append(keep)
    late = threading.Timer(0.4, speaks.set)
    late.start()
    connection.send('{"messageId": "1"}')
    late.join()
    connection.close()
    silent.clear()
    speaks.clear()
    monkeypatch.setattr(connection_module, "CONFIRM_SECONDS", 0.5)
    catcher.behaves.append(keep)
    number = 2
    with suppress(DeliveryFailed):
        while number < 4:  # the first one may be confirmed before the peer falls silent
            connection.send(f'{{"messageId": "{number}"}}')
            assert silent.wait(60)
            number += 1
    assert number < 4
    speaks.set()
    monkeypatch.setattr(connection_module, "CONFIRM_SECONDS", 60.0)
    connection.send(f'{{"messageId": "{number}"}}')
    connection.close()
    until(lambda: str(number) in [m["messageId"] for m in catcher.messages])
    ids = [m["messageId"] for m in catcher.messages]
    assert ids.count("1") == 1
    assert ids.count(str(number)) in (1, 2)


class Away:
    """A target that is away for some hours, of which each attempt takes one."""

    def __init__(self, hours: int) -> None:
        self.clock, self.back_at = ManualClock(BEGIN), BEGIN + timedelta(hours=hours)
        self.messages: list[dict[str, Any]] = []

    def send(self, message: str) -> None:
        if self.clock.now() < self.back_at:
            self.clock.advance(timedelta(hours=1))
            raise DeliveryFailed("away")
        self.messages.append(json.loads(message))

    def close(self) -> None: ...

    def events(self) -> list[int]:
        return [e["n"] for m in self.messages for s in m["streams"] for e in s["events"]]


@pytest.mark.parametrize(
    ("hours", "pauses", "kept"),
    [(23, False, True), (23, True, True), (100, True, True), (26, False, False)],
)
def test_a_target_that_is_down_for_a_day(tmp_path: Path, hours: int, *, pauses: bool, kept: bool) -> None:
    """Events are kept for a day, and for ever where the stream pauses."""
    target = Away(hours)
    sending = Sending(tmp_path, "ws://a:1", pauses=pauses)
    rules = Rules(lambda _: target, target.clock, 24 * 3600, lambda _: None)
    dispatcher = sending.dispatcher(rules)
    put(sending.outbox, 1, [1, 2])
    sending.follow(dispatcher)
    until(lambda: bool(target.events()) if kept else sending.deliveries.of("s", "ws://a:1").dropped > 0)
    target.back_at = BEGIN
    put(sending.outbox, 2, [3])
    sending.follow(dispatcher)
    until(lambda: target.events()[-1:] == [3])
    dispatcher.close()
    assert target.events() == ([1, 2, 3] if kept else [3])
    assert sending.deliveries.of("s", "ws://a:1").dropped == (0 if kept else 2)


def test_a_target_that_takes_one_message_now_and_then_holds_nobody_up(tmp_path: Path) -> None:
    slow, quick = threading.Semaphore(0), Away(0)
    took: list[dict[str, Any]] = []

    class Slow(Away):
        def send(self, message: str) -> None:
            slow.acquire()
            took.append(json.loads(message))

    sending = Sending(tmp_path, "ws://slow:1", "ws://quick:1")
    behind = Slow(0)
    rules = Rules(lambda url: behind if "slow" in url else quick, CLOCK, 1_000, lambda _: None)
    dispatcher = sending.dispatcher(rules)
    for tick in range(1, 51):
        put(sending.outbox, tick, [tick])
    sending.follow(dispatcher)
    until(lambda: len(quick.messages) == 50)
    assert took == []
    for _ in range(50):
        slow.release()
    until(lambda: len(took) == 50)
    dispatcher.close()
    numbers = [e["n"] for m in took for s in m["streams"] for e in s["events"]]
    assert numbers == quick.events() == [*range(1, 51)]
