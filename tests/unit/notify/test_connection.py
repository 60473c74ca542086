"""A connection against servers on this machine, good ones and bad ones."""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from lakestream.clock import SystemClock
from lakestream.notify import connection as module
from lakestream.notify.connection import Connection, DeliveryFailed
from lakestream.targets import HostPolicy
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.server import ServerConnection


CLOCK = SystemClock()


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    catcher = Catcher()
    yield catcher
    catcher.close()


def connected(url: str, *listed: str) -> Connection:
    return Connection(url, HostPolicy(listed or ("localhost",)), CLOCK)


def message(number: int) -> str:
    return json.dumps({"messageId": str(number), "streams": []})


def send_all(connection: Connection, count: int) -> None:
    """Send a message as often: what is wrong with a connection may show at a later one."""
    for _ in range(count):
        connection.send(message(1))
        CLOCK.sleep(0.01)


def received(catcher: Catcher, count: int) -> list[str]:
    """Return the ids of the messages, once the server's thread has kept as many."""
    deadline = CLOCK.monotonic() + 10
    while len(catcher.messages) < count and CLOCK.monotonic() < deadline:
        CLOCK.sleep(0.01)
    return [m["messageId"] for m in catcher.messages]


def test_messages_arrive_in_order_over_one_connection(catcher: Catcher) -> None:
    connection = connected(f"{catcher.url}/in?key=1")
    for number in range(50):
        connection.send(message(number))
    connection.close()
    assert received(catcher, 50) == [str(number) for number in range(50)]
    assert catcher.paths == ["/in?key=1"]


def test_a_connection_is_opened_again_after_a_failure(catcher: Catcher) -> None:
    catcher.behaves.append(lambda peer: peer.close(1011))
    connection = connected(catcher.url)
    with pytest.raises(DeliveryFailed):
        send_all(connection, 2)
    connection.send(message(2))
    assert received(catcher, 1) == ["2"]


@pytest.mark.parametrize(
    ("status", "lasting"),
    [
        (HTTPStatus.UNAUTHORIZED, True),
        (HTTPStatus.FORBIDDEN, True),
        (HTTPStatus.NOT_FOUND, True),
        (HTTPStatus.FOUND, True),
        (HTTPStatus.INTERNAL_SERVER_ERROR, False),
        (HTTPStatus.SERVICE_UNAVAILABLE, False),
    ],
)
def test_an_answer_is_lasting_or_passes(catcher: Catcher, status: HTTPStatus, lasting: bool) -> None:
    catcher.statuses.append(status)
    with pytest.raises(DeliveryFailed, match=str(status.value)) as failed:
        connected(f"{catcher.url}/x?secret").send(message(1))
    assert failed.value.lasting is lasting
    assert "secret" not in str(failed.value)


def test_a_peer_that_says_too_much_is_closed(catcher: Catcher) -> None:
    def flood(peer: ServerConnection) -> None:
        peer.send("x" * 10_000_000)
        peer.recv()

    catcher.behaves.append(flood)
    connection = connected(catcher.url)
    with pytest.raises(DeliveryFailed):
        send_all(connection, 100)


def test_a_peer_that_talks_without_end_still_takes_messages(catcher: Catcher) -> None:
    def chatter(peer: ServerConnection) -> None:
        for _ in range(500):
            peer.send("and another thing")
        peer.recv()
        peer.recv()

    catcher.behaves.append(chatter)
    connection = connected(catcher.url)
    connection.send(message(1))
    connection.close()


def test_a_peer_that_never_answers_is_taken_for_dead(
    catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONFIRM_SECONDS", 1.0)

    over = threading.Event()

    def sleep(peer: ServerConnection) -> None:
        with peer.protocol_mutex:  # nothing that comes in is looked at
            over.wait(30)

    catcher.behaves.append(sleep)
    try:
        with pytest.raises(DeliveryFailed, match=r"no answer|keepalive"):
            send_all(connected(catcher.url), 100)
    finally:
        over.set()


def test_what_the_policy_refuses_is_not_connected_to(catcher: Catcher) -> None:
    with pytest.raises(DeliveryFailed) as failed:
        connected(catcher.url, "elsewhere").send(message(1))
    assert failed.value.lasting
    assert catcher.paths == []


def test_proxies_of_the_environment_are_not_used(catcher: Catcher, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://localhost:1")
    connected(catcher.url).send(message(1))
    assert received(catcher, 1) == ["1"]


def test_nobody_there_passes() -> None:
    catcher = Catcher()
    catcher.close()
    with pytest.raises(DeliveryFailed) as failed:
        connected(catcher.url).send(message(1))
    assert not failed.value.lasting
