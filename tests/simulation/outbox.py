"""The dispatcher of the outbox, killed, followed by another one, with targets that are away.

What must hold: a target gets every event of every stream in order, one again only after a kill, and a message
that comes again has the text that it had.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa

from lakestream.language.model import WINDOW_CLOSE, Notification
from lakestream.notify.connection import DeliveryFailed
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.dispatcher import Dispatcher, Rules
from lakestream.notify.outbox import Batch
from tests.simulation.ground import START, Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.simulation.ground import Ground

_URLS = ("wss://a.example", "wss://b.example")
_STREAMS = ("s0", "s1", "s2")
_SCHEMA = pa.schema(
    [("stream", pa.string()), ("event", pa.string()), ("event_time", pa.timestamp("us", "UTC"))]
)


class _Killed(Exception):  # noqa: N818 - no error
    """The process has ended."""


class _Rows:
    """A table of rows by key, in the place of Delta's."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def rows(self) -> dict[str, dict[str, Any]]:
        return self.kept

    def put(self, rows: Iterable[dict[str, Any]]) -> None:
        self.kept = {**self.kept, **{str(row["id"]): row for row in rows}}


class _Thread:
    """A thread that is run when the simulation says so."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass

    def join(self, _timeout: float) -> None:
        pass


class _Outbox:
    """Commits of events, in the place of the table's."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.tables: list[pa.Table] = []

    @property
    def version(self) -> int:
        return len(self.batches) - 1

    def since(self, version: int) -> list[Batch]:
        return self.batches[max(0, version + 1) :]

    def events(self, batch: Batch) -> pa.Table:
        return self.tables[batch.version]

    def forget_sent(self, until: Mapping[str, int]) -> None:
        """Nothing is kept beside the table, which is never damaged here; no version is one to come."""
        assert all(version <= len(self.batches) for version in until.values()), until

    def put(self, stream: str, number: int, events: int) -> None:
        version = len(self.batches)
        self.batches.append(Batch(version, f"lakestream:{stream}", number, events))
        rows = [[stream] * events, [json.dumps([stream, number, n]) for n in range(events)], [START] * events]
        self.tables.append(pa.table(rows, schema=_SCHEMA))


class _World:
    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.outbox, self.rows = _Outbox(), _Rows()
        self.notified = {name: Notification(_URLS, (WINDOW_CLOSE,)) for name in _STREAMS}
        self.ticks = dict.fromkeys(_STREAMS, 0)
        self.committed: set[tuple[str, int]] = set()
        self.never: set[tuple[str, int]] = set()
        self.got: dict[str, list[str]] = {url: [] for url in _URLS}
        self.texts: dict[tuple[str, str], str] = {}
        self.away: set[str] = set()
        self.kills = 0
        self.is_wild = True
        made = self._deliveries()
        made.move([made.of(name, url) for name in _STREAMS for url in _URLS], 0)  # as who makes a stream does
        self.begin()

    def _deliveries(self) -> Deliveries:
        deliveries = Deliveries("nowhere")
        deliveries._table = self.rows  # type: ignore[assignment]
        return deliveries

    def begin(self) -> None:
        """Begin a process, which knows what was recorded."""
        self.deliveries = self._deliveries()
        rules = Rules(lambda url: _Sender(self, url), self.ground, float("inf"), self._reach)
        self.dispatcher = Dispatcher(self.outbox, self.deliveries, rules)  # type: ignore[arg-type]
        self.follow()

    def _reach(self, _point: str) -> None:
        if self.is_wild and self.ground.chance(3):
            raise _Killed

    def follow(self) -> None:
        self.dispatcher.follow(self.notified, self._has_happened)
        for target in self.dispatcher._targets.values():
            if not isinstance(target._stop, Signal):
                target._stop = Signal(self.waited)  # type: ignore[assignment]

    def _has_happened(self, batch: Batch) -> bool | None:
        tick = batch.stream_id, batch.number
        return None if tick in self.never else tick in self.committed

    def waited(self, seconds: float) -> None:
        """Let time go by between two attempts; a target comes back some time."""
        self.ground.steps += 1
        self.ground.pass_time(seconds)
        if self.ground.chance(30):
            self.away.clear()
        elif self.is_wild and self.ground.chance(5):
            raise _Killed

    def step(self) -> None:
        """Let something happen."""
        self.ground.steps += 1
        what = self.ground.random.random()
        try:
            if what < 0.25:
                self._tick(self.ground.random.choice(_STREAMS))
            elif what < 0.3 and self.is_wild:
                self.away ^= {self.ground.random.choice(_URLS)}
            elif what < 0.32 and self.is_wild:
                self._kill()
            elif what < 0.5:
                self.ground.pass_time(self.ground.random.random())
                self.follow()
            else:
                self._send()
        except _Killed:
            self.kills += 1
            self.begin()

    def _kill(self) -> None:
        raise _Killed

    def _tick(self, stream: str) -> None:
        """Put a tick's events into the outbox, then commit it, later, or never."""
        self.ticks[stream] += 1
        tick = stream, self.ticks[stream]
        self.outbox.put(*tick, self.ground.random.randint(1, 4))
        if self.is_wild and self.ground.chance(10):
            self.never.add(tick)
        else:
            self.committed.add(tick)

    def _send(self) -> None:
        for target in self.dispatcher._targets.values():
            if target._queue:
                target._take(*target._queue[0])

    def check(self) -> None:
        """Let all be well, and see what targets got."""
        self.is_wild = False
        self.away.clear()
        self.follow()
        while any(target._queue for target in self.dispatcher._targets.values()):
            self._send()
        wanted: list[str] = []
        for batch, events in zip(self.outbox.batches, self.outbox.tables, strict=True):
            if (batch.stream_id, batch.number) in self.committed:
                wanted += events["event"].to_pylist()
        for url, got in self.got.items():
            for stream in _STREAMS:
                own = [event for event in dict.fromkeys(got) if json.loads(event)[0] == stream]
                assert own == [event for event in wanted if json.loads(event)[0] == stream], (url, stream)
            assert self.kills or len(got) == len(set(got)), "something came twice without a kill"


class _Sender:
    """A target: it may be away, or take a message and not say so."""

    def __init__(self, world: _World, url: str) -> None:
        self.world, self.url = world, url

    def send(self, message: str) -> None:
        world = self.world
        world.ground.steps += 1
        if self.url in world.away:
            raise DeliveryFailed("away")
        said = json.loads(message)
        assert world.texts.setdefault((self.url, said["messageId"]), message) == message
        events = [json.dumps(event) for event in said["streams"][0]["events"]]
        world.got[self.url] += events

    def close(self) -> None:
        pass


def run(ground: Ground, steps: int) -> None:
    """Take steps, then let all be well."""
    with patch("lakestream.notify.dispatcher.threading.Thread", _Thread):
        world = _World(ground)
        for _ in range(steps):
            world.step()
        world.check()
