"""Events that wait in an outbox, and a listener that takes them in a process of its own.

``python -m tests.benchmarks.notifying PORT TALLY`` is the listener: it takes events until it is ended, and
then says in the file TALLY how many came in their order, how many once more, and how many too early.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from lakestream.clock import ManualClock
from lakestream.language.model import WINDOW_CLOSE, Notification
from lakestream.notify.connection import Connection
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.dispatcher import Dispatcher, Rules
from lakestream.notify.outbox import COLUMNS, Outbox
from lakestream.settings import Settings
from lakestream.storage.delta import compact
from lakestream.targets import HostPolicy
from tests.benchmarks.output import require
from tests.benchmarks.process import CLOCK, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.server import ServerConnection

COMPACT_COMMITS = Settings().compact_commits
HOST, STREAM = "127.0.0.1", "s"
START, KEEP_SECONDS = datetime(2025, 1, 1, tzinfo=UTC), 86_400.0


class PutOnClock(ManualClock):
    """A clock that is put on by hand, and runs besides."""

    def monotonic(self) -> float:
        """Return seconds, of both together."""
        return super().monotonic() + CLOCK.monotonic()


@dataclass
class Tally:
    """What a listener has taken of events that are numbered from 0 on."""

    taken: int = 0
    again: int = 0
    early: int = 0

    def take(self, number: int) -> None:
        """Count an event."""
        if number == self.taken:
            self.taken += 1
        elif number < self.taken:
            self.again += 1
        else:
            self.early += 1


def listen(port: int, file: Path) -> None:
    """Take events until SIGTERM."""
    tally = Tally()

    def keep(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            for message in connection:
                for stream in json.loads(message)["streams"]:
                    for event in stream["events"]:
                        tally.take(event["result"]["number"])

    with serve(keep, HOST, port, compression=None, max_size=None) as server:
        signal.signal(signal.SIGTERM, lambda *_: Thread(target=server.shutdown).start())
        server.serve_forever()
    file.write_text(json.dumps(vars(tally)), "utf-8")


class Hearing:
    """A websocket server in this process that hears of windows: messages name them as lakestream's do."""

    def __init__(self) -> None:
        self._starts: Queue[int] = Queue()
        self._server = serve(self._hear, HOST, 0, compression=None, max_size=None)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"ws://{HOST}:{self._server.socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()

    def skip(self) -> None:
        """Pass over the messages that are there."""
        while not self._starts.empty():
            self._starts.get()

    def wait_for(self, start_us: int, program: Program, seconds: float = 600.0) -> None:
        """Wait until a message names the window that starts then.

        Raises RuntimeError when the program ends and TimeoutError when no such message comes.
        """
        until = CLOCK.monotonic() + seconds
        while CLOCK.monotonic() < until:
            program.check()
            with suppress(Empty):
                if self._starts.get(timeout=1.0) == start_us:
                    return
        raise TimeoutError(f"no message of window {start_us} after {seconds:.0f} s")

    def _hear(self, connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            for message in connection:
                events = [event for stream in json.loads(message)["streams"] for event in stream["events"]]
                for start in {event["windowStart"] for event in events}:
                    self._starts.put(start * 1_000)


class Notified:
    """An outbox in a folder with a stream's events, and who sends them to a listener."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_port()
        self._clock = PutOnClock(START)
        self._commits = self._events = 0
        url = f"ws://{HOST}:{self._port}"
        self._notified = {STREAM: Notification((url,), (WINDOW_CLOSE,), pauses=True)}
        self._outbox = Outbox(str(folder / "outbox"))
        policy = HostPolicy((HOST,))
        rules = Rules(lambda url: Connection(url, policy, CLOCK), self._clock, KEEP_SECONDS, lambda _: None)
        deliveries = Deliveries(str(folder / "deliveries"))
        self._dispatcher = Dispatcher(Outbox(self._outbox.path), deliveries, rules)

    def put(self, count: int) -> None:
        """Put a commit of events into the outbox; a second passes."""
        self._clock.advance(timedelta(seconds=1))
        self._commits += 1
        events = _events(self._events, count, self._clock.now())
        self._outbox.put(events, f"lakestream:{STREAM}:output", self._commits, epoch=1)
        self._events += count
        table = self._outbox.table
        if table is not None and table.grown >= COMPACT_COMMITS:
            compact(table)  # as rounds do

    def follow(self) -> None:
        """Have the dispatcher take up what is in the outbox."""
        self._dispatcher.follow(self._notified, lambda _: True)

    @contextmanager
    def listening(self) -> Iterator[Program]:
        """Have a listener while the block runs; it must have taken all events, in order, by its end."""
        file = self._folder / "tally.json"
        command = [sys.executable, "-m", "tests.benchmarks.notifying", str(self._port), str(file)]
        with Program(command, self._folder / "listener.log") as program:
            self._wait_for_listener(program)
            yield program
        found = json.loads(file.read_text("utf-8"))
        require((found["taken"], found["early"]), (self._events, 0), "events in order, and out of it")

    def reach(self) -> None:
        """Wait until the target can be reached again."""
        self.follow()
        while self._dispatcher.is_blocked(STREAM):
            CLOCK.sleep(0.001)

    def send(self) -> None:
        """Send all there is."""
        self._dispatcher.drain()

    def close(self) -> None:
        """Stop sending."""
        self._dispatcher.close()

    def _wait_for_listener(self, program: Program) -> None:
        while True:
            program.check()
            with suppress(OSError), socket.create_connection((HOST, self._port), timeout=1):
                return
            CLOCK.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _events(first: int, count: int, now: datetime) -> pa.Table:
    """Return events as a tick puts them into the outbox, numbered from ``first`` on."""
    numbers = range(first, first + count)
    columns: dict[str, list[object]] = {
        "stream": [STREAM] * count,
        "stream_id": [STREAM] * count,
        "tick": ["changes:1"] * count,
        "seq": [*range(count)],
        "event_id": [f"{number:032x}" for number in numbers],
        "trigger_id": [f"{number:032x}" for number in numbers],
        "event_type": [WINDOW_CLOSE] * count,
        "group_id": ["0"] * count,
        "window_start": [now] * count,
        "window_end": [now] * count,
        "event_time": [now] * count,
        "event": [_event(number) for number in numbers],
    }
    times = pa.timestamp("us", "UTC")
    types = {"bigint": pa.int64(), "timestamp": times, "string": pa.string()}
    return pa.table({name: pa.array(columns[name], types[kind]) for name, kind in COLUMNS.items()})


def _event(number: int) -> str:
    """Return an event's JSON, as long as that of a window with a few results."""
    return json.dumps(
        {
            "tableName": f"t_{number % 100:032x}",
            "eventType": WINDOW_CLOSE,
            "eventTime": 1_735_689_600_000 + number,
            "triggerId": f"{number:032x}",
            "triggerType": "Interval",
            "groupId": str(number % 100),
            "windowStart": 1_735_689_600_000,
            "windowEnd": 1_735_689_610_000,
            "result": {"number": number, "mean": number / 7, "top": number / 3},
        },
        separators=(",", ":"),
    )


if __name__ == "__main__":
    listen(int(sys.argv[1]), Path(sys.argv[2]))
