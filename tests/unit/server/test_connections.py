"""Clients that are slow, or very many, on purpose: others are answered."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
import uvicorn
from websockets.sync.client import connect

from lakestream.clock import SystemClock
from lakestream.server.api import guard
from lakestream.server.daemon import listen
from lakestream.server.process import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient

MOST = 40


@pytest.fixture
def port(
    serve: Callable[..., AbstractContextManager[TestClient]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Serve the API on a port as the daemon does, with less patience."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    with serve() as client, answering(client.app) as number:
        yield number


@contextmanager
def answering(app: object) -> Iterator[int]:
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=connections.Connection,
        ws="websockets-sansio",
        lifespan="off",
        log_level="error",
        limit_concurrency=MOST,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(10)


def half_open(port: int, text: bytes) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=10)
    opened.sendall(text)
    return opened


def health(port: int) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as asked:
        asked.request("GET", "/healthz")
        return asked.getresponse().status


HEAD = b"POST /api/statements HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("text", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127", HEAD])
def test_who_does_not_ask_is_not_waited_for(port: int, text: bytes) -> None:
    with closing(half_open(port, text)) as opened:
        try:
            said = opened.recv(1)
        except ConnectionResetError:
            said = b""
        assert said == b""


def test_a_body_that_does_not_come_is_not_waited_for(port: int) -> None:
    with closing(half_open(port, HEAD + b"Content-Length: 100\r\n\r\n{")) as opened:
        answer = opened.recv(4096)
        assert b"408" in answer.splitlines()[0]
        assert b"TOO_SLOW" in answer + opened.recv(4096)


def test_those_beyond_the_most_are_closed_and_the_others_answered(port: int) -> None:
    crowd = [half_open(port, b"") for _ in range(3 * MOST)]
    clock = SystemClock()
    deadline = clock.monotonic() + 10
    statuses: list[int] = []
    while clock.monotonic() < deadline and 200 not in statuses:
        try:
            statuses.append(health(port))
        except OSError:
            clock.sleep(0.05)
    for one in crowd:
        one.close()
    assert statuses[-1:] == [200]


def test_a_websocket_that_says_nothing_stays(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/api/live") as live:
        SystemClock().sleep(1.0)
        live.ping().wait(5)
        assert live.state.name == "OPEN"
    assert health(port) == 200
