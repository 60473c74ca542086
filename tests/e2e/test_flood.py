"""A daemon asked by hundreds of clients at once, and flooded over websockets."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from lakestream.clock import SystemClock
from lakestream.lake import Lake
from tests.e2e.test_serve import TABLES, Serving, get, lakestream

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.slow]

CLIENTS, STATEMENTS = 500, 1_000
FLOODING, MESSAGES = 100, 200
MOST_GROWTH = 300 * 1024
"""KiB that the daemon's memory may grow by."""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    root = str(tmp_path / "lake")
    assert lakestream(root, "init").returncode == 0
    assert lakestream(root, "sql", TABLES).returncode == 0
    daemon = Serving(root, tmp_path / "log", CLIENT_STATEMENTS="0")
    yield daemon
    daemon.process.kill()
    daemon.process.wait()


def asked(url: str, statement: str) -> int:
    """Return the status of a statement's answer, 0 where the connection was refused."""
    body = json.dumps({"sql": statement}).encode()
    request = Request(f"{url}/api/statements", body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def memory(serving: Serving) -> int:
    """Return the KiB that the daemon has in memory."""
    status = Path(f"/proc/{serving.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def goes_on(serving: Serving, url: str, hour: int) -> None:
    """See that the daemon is well, and that a commit still gets its tick."""
    assert get(f"{url}/healthz") == {"status": "ok"}
    with connect(url.replace("http", "ws") + "/api/live?stream=main.hourly") as live:
        with Lake(serving.root) as lake:
            lake.insert("power", [{"ts": f"2025-01-01 {hour:02}:00:00", "watts": 1.0}])
        assert json.loads(live.recv(timeout=120))["rows_in"] == 1


def test_hundreds_of_clients_are_answered(serving: Serving) -> None:
    url = serving.url()
    goes_on(serving, url, 1)
    before = memory(serving)
    with ThreadPoolExecutor(CLIENTS) as clients:
        found = list(clients.map(lambda _: asked(url, "SHOW STREAMS"), range(STATEMENTS)))
    assert found.count(200) == STATEMENTS, {status: found.count(status) for status in {*found}}
    assert memory(serving) - before < MOST_GROWTH
    goes_on(serving, url, 2)


def test_a_flood_over_websockets_holds_nobody_up(serving: Serving) -> None:
    url = serving.url()
    goes_on(serving, url, 1)
    before, clock = memory(serving), SystemClock()

    async def flood(number: int) -> None:
        try:
            async with connect_async(url.replace("http", "ws") + "/api/live") as live:
                for _ in range(MESSAGES):
                    # Of every four one says too much at once, and one what is no text.
                    size = 100_000 if number % 4 == 0 else 10_000
                    await live.send(b"x" * size if number % 4 == 1 else "x" * size)
        except (ConnectionClosed, OSError):
            pass

    async def all_at_once() -> None:
        await asyncio.gather(*(flood(number) for number in range(FLOODING)))

    begun = clock.monotonic()
    with ThreadPoolExecutor(1) as flooding:
        done = flooding.submit(asyncio.run, all_at_once())
        assert asked(url, "SHOW STREAMS") == 200
        done.result(timeout=300)
    assert memory(serving) - before < MOST_GROWTH
    goes_on(serving, url, 2)
    assert clock.monotonic() - begun < 600
