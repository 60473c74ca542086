"""The dispatcher over a real outbox: order, at least once, what is kept and what is given up."""

from __future__ import annotations

import errno
import json
import threading
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.clock import SystemClock
from lakestream.engine.base.faults import SimulatedCrash
from lakestream.errors import StatementError
from lakestream.language.model import Notification
from lakestream.notify import dispatcher as module
from lakestream.notify.connection import DeliveryFailed
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.dispatcher import Dispatcher, Rules
from lakestream.notify.messages import MAX_EVENT_BYTES, cuts, messages
from lakestream.notify.outbox import Outbox
from lakestream.observation.observe import events, waiting

if TYPE_CHECKING:
    from pathlib import Path

URL, OTHER = "ws://a:1", "ws://b:2"
APP = "lakestream:{}:output"


class Peer:
    """What is behind a url: it keeps messages, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.failures = 0
        self.lasting = False
        self.gate = threading.Event()
        self.gate.set()

    def send(self, message: str) -> None:
        self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise DeliveryFailed("away", lasting=self.lasting)
        self.messages.append(json.loads(message))

    def close(self) -> None:
        pass

    @property
    def events(self) -> list[int]:
        return [e["n"] for m in self.messages for s in m["streams"] for e in s["events"]]


class World:
    """A lake's outbox and deliveries, and dispatchers over them one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outbox = Outbox(str(folder / "outbox"))
        self.peers: dict[str, Peer] = defaultdict(Peer)
        self.notified = {"s": Notification((URL,), ("WINDOW_CLOSE",))}
        self.done: dict[tuple[str, int], bool | None] = {}
        self.reached: list[str] = []
        self.dispatcher = self.opened()

    def opened(self, keep: float = 1_000) -> Dispatcher:
        deliveries = Deliveries(str(self.folder / "deliveries"))
        rules = Rules(lambda url: self.peers[url], SystemClock(), keep, self.reach)
        self.dispatcher = Dispatcher(Outbox(str(self.folder / "outbox")), deliveries, rules)
        return self.dispatcher

    def reach(self, point: str) -> None:
        self.reached.append(point)

    @property
    def deliveries(self) -> Deliveries:
        return Deliveries(str(self.folder / "deliveries"))

    def put(self, numbers: list[int], tick: int, stream: str = "s", size: int = 0) -> None:
        now = datetime(2025, 1, 1, tzinfo=UTC)
        rows = [
            {
                "stream": stream,
                "stream_id": stream,
                "tick": f"changes:{tick}",
                "seq": at,
                "event_id": f"{n}",
                "trigger_id": f"{n}",
                "event_type": "WINDOW_CLOSE",
                "group_id": "0",
                "window_start": now,
                "window_end": now,
                "event_time": now,
                "event": json.dumps({"n": n, "text": "x" * size}),
            }
            for at, n in enumerate(numbers)
        ]
        times = {name: pa.timestamp("us", "UTC") for name in ("window_start", "window_end", "event_time")}
        table = pa.Table.from_pylist(rows)
        for name, kind in times.items():
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
        self.outbox.put(table, APP.format(stream), tick, epoch=1)

    def send(self) -> None:
        self.dispatcher.follow(self.notified, lambda b: self.done.get((b.stream_id, b.number), True))
        self.dispatcher.drain()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "_wait", lambda _state: 0.01)
    return World(tmp_path)


def test_events_are_sent_in_order_once(world: World) -> None:
    world.put([1, 2, 3], 1)
    world.put([4], 2)
    world.send()
    world.put([5], 3)
    world.send()
    world.send()
    assert world.peers[URL].events == [1, 2, 3, 4, 5]
    assert world.reached == ["C8", "C9"] * 3


def test_many_messages_are_recorded_now_and_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORD_SECONDS", 1_000)
    for tick in range(1, 21):
        world.put([tick], tick)
    world.send()
    assert world.peers[URL].events == [*range(1, 21)]
    assert world.reached.count("C9") == 2  # the first one, and when nothing was left
    assert world.deliveries.of("s", URL).sent == 20


def test_what_was_not_recorded_before_a_crash_is_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORD_SECONDS", 1_000)
    for tick in range(1, 6):
        world.put([tick], tick)

    def end(point: str) -> None:
        world.reached.append(point)
        if world.reached.count("C8") == 4:
            raise SimulatedCrash(point)

    monkeypatch.setattr(world, "reach", end)
    world.opened()
    with pytest.raises(SimulatedCrash):
        world.send()
    monkeypatch.undo()
    monkeypatch.setattr(module, "_wait", lambda _state: 0.01)
    world.opened()
    world.send()
    assert world.peers[URL].events == [1, 2, 3, 4, 2, 3, 4, 5]
    ids = [message["messageId"] for message in world.peers[URL].messages]
    assert ids[1:4] == ids[4:7]


def test_a_commit_that_is_asked_for_twice_is_there_once(world: World) -> None:
    world.put([1], 1)
    world.put([1], 1)
    world.send()
    assert world.peers[URL].events == [1]


def test_the_next_process_goes_on_where_the_last_one_stopped(world: World) -> None:
    world.put([1], 1)
    world.send()
    world.dispatcher.close()
    world.put([2], 2)
    world.opened()
    world.send()
    assert world.peers[URL].events == [1, 2]


@pytest.mark.parametrize("urls", [(OTHER,), (URL, OTHER)])
def test_events_of_a_target_that_could_not_be_followed_are_sent_the_next_time(
    world: World, urls: tuple[str, ...]
) -> None:
    def refused(url: str) -> Peer:
        if url == OTHER:
            raise OSError(errno.EIO, "Input/output error")
        return Peer()

    world.notified["s"] = Notification(urls, ("WINDOW_CLOSE",))
    world.put([1], 1)
    world.dispatcher._rules = replace(world.dispatcher._rules, connect=refused)
    with pytest.raises(OSError, match="Input/output"):
        world.send()
    world.dispatcher.close()
    world.put([2], 2)
    world.opened()
    world.send()
    assert world.peers[OTHER].events == [1, 2]


def test_events_wait_for_their_output(world: World) -> None:
    world.done["s", 1] = False
    world.put([1], 1)
    world.put([2], 2)
    world.send()
    assert world.peers[URL].events == []
    world.done["s", 1] = True
    world.send()
    assert world.peers[URL].events == [1, 2]


def test_events_of_what_never_happened_are_not_sent(world: World) -> None:
    world.done["s", 1] = None
    world.put([1], 1)
    world.put([2], 2)
    world.send()
    assert world.peers[URL].events == [2]


def test_a_stream_that_is_no_more_sends_nothing(world: World) -> None:
    world.put([1], 1, stream="dropped")
    world.put([2], 1)
    world.send()
    assert world.peers[URL].events == [2]


def test_a_message_that_failed_is_sent_again_as_it_was(world: World) -> None:
    world.put(list(range(2_500)), 1)
    world.peers[URL].failures = 3
    world.send()
    while len(world.peers[URL].events) < 2_500:
        world.dispatcher.drain()
    assert world.peers[URL].events == list(range(2_500))
    batch = world.outbox.since(-1)[-1]
    again = [m.id for m in messages(world.outbox.events(batch), batch.app, batch.number)]
    assert [m["messageId"] for m in world.peers[URL].messages] == again
    assert len(set(again)) == 3


def test_a_process_that_ends_within_a_batch_goes_on_behind_the_last_message(world: World) -> None:
    world.put(list(range(2_500)), 1)
    delivery = world.deliveries.of("s", URL)
    version = world.outbox.since(-1)[-1].version
    world.deliveries.put(delivery, version=version, seq=1_000)
    world.send()
    assert world.peers[URL].events == list(range(1_000, 2_500))


def test_a_target_that_is_away_holds_no_other_one(world: World) -> None:
    world.notified = {"s": Notification((URL, OTHER), ("WINDOW_CLOSE",))}
    world.peers[URL].failures = 10**6
    world.put([1], 1)
    world.send()
    assert world.peers[OTHER].events == [1]
    found = {d.target: d.error for d in world.deliveries.all()}
    assert found == {URL: "away", OTHER: None}
    assert not world.dispatcher.is_blocked("s")
    world.dispatcher.close()


def test_a_stream_that_pauses_is_held_until_its_events_are_sent(world: World) -> None:
    world.notified = {"s": Notification((URL,), ("WINDOW_CLOSE",), pauses=True)}
    world.opened(keep=0)
    world.peers[URL].failures = 10**6
    world.put([1], 1)
    world.send()
    assert world.dispatcher.is_blocked("s")
    assert [d.holds for d in world.deliveries.all()] == [True]
    world.dispatcher.close()
    world.opened(keep=0)
    world.peers[URL].gate.clear()
    world.dispatcher.follow(world.notified, lambda _: True)
    assert world.dispatcher.is_blocked("s"), "a new process knows that the target was away"
    world.peers[URL].failures = 0
    world.peers[URL].gate.set()
    world.dispatcher.drain()
    assert world.peers[URL].events == [1]
    assert not world.dispatcher.is_blocked("s")
    assert [d.holds for d in world.deliveries.all()] == [False]


def test_a_stream_that_is_dropped_while_its_target_is_away_is_given_up(world: World) -> None:
    world.notified = {"s": Notification((URL,), ("WINDOW_CLOSE",), pauses=True)}
    world.peers[URL].failures = 10**6
    world.put([1], 1)
    world.send()
    world.notified = {"t": Notification((URL,), ("WINDOW_CLOSE",))}
    world.dispatcher.follow(world.notified, lambda _: True)
    world.deliveries.remove("s")
    world.peers[URL].failures = 0
    world.put([2], 1, stream="t")
    world.send()
    assert world.peers[URL].events in ([2], [1, 2]), "the attempt under way may still succeed"


def test_events_are_given_up_and_counted_where_they_are_not_kept(world: World) -> None:
    world.opened(keep=0)
    world.peers[URL].failures = 1
    world.put([1, 2], 1)
    world.put([3], 2)
    world.send()
    assert world.peers[URL].events == [3]
    (delivery,) = world.deliveries.all()
    assert (delivery.sent, delivery.dropped, delivery.error) == (1, 2, None)


def test_an_event_that_no_peer_takes_holds_nothing(world: World) -> None:
    world.put([1], 1)
    world.put([2], 2, size=MAX_EVENT_BYTES)
    world.put([3], 3)
    world.send()
    assert world.peers[URL].events == [1, 3]
    assert world.deliveries.all()[0].dropped == 1


def test_a_target_that_has_everything_begins_behind_it(world: World) -> None:
    world.notified["quiet"] = Notification((OTHER,), ("WINDOW_CLOSE",))
    world.put([1], 1)
    world.send()
    for tick in range(1, 4):
        world.put([1], tick, stream="other")
    world.send()
    world.dispatcher.close()
    behind = world.outbox.since(-1)[-1].version + 1
    assert world.deliveries.of("s", URL).version == world.deliveries.of("quiet", OTHER).version == behind


@pytest.mark.parametrize("sizes", [[], [1], [1] * 1_000, [1] * 1_001, [200_000] * 5, [10**6, 1, 10**6]])
def test_messages_hold_every_event_once_in_order(sizes: list[int]) -> None:
    found = cuts(sizes)
    assert [at for first, end in found for at in range(first, end)] == list(range(len(sizes)))
    assert all(end > first for first, end in found)


def test_events_are_read_from_the_newest_or_behind_an_id(world: World) -> None:
    world.put([1, 2, 3], 1)
    world.put([4], 2, stream="other")
    world.put([5], 3)

    def read(stream: str | None, after: str | None, limit: int) -> list[int]:
        return [json.loads(event.row["event"])["n"] for event in world.outbox.read(stream, after, limit)]

    assert read(None, None, 3) == [3, 4, 5]
    assert read("s", None, 10) == [1, 2, 3, 5]
    first = world.outbox.read(None, "0-0", 2)
    assert [json.loads(event.row["event"])["n"] for event in first] == [1, 2]
    assert read(None, first[-1].id, 10) == [3, 4, 5]
    assert read(None, world.outbox.read(None, None, 1)[0].id, 10) == []
    for wrong in ("x", "1", "1-", "-1-2"):
        with pytest.raises(StatementError, match="BAD_VALUE"):
            world.outbox.read(None, wrong, 1)


def test_events_tell_whether_each_target_has_them(world: World) -> None:
    def states() -> list[str]:
        found = events(world.outbox, world.deliveries, {"s": "main.s"}, "s", None, 10)
        assert {event.stream for event in found} <= {"main.s"}
        return [state for event in found for _, state in event.deliveries]

    world.put([1, 2], 1)
    world.send()
    assert states() == ["sent", "sent"]
    assert list(waiting(world.outbox, world.deliveries).values()) == [0]
    world.done["s", 2] = False
    world.put([3], 2)
    world.send()
    assert states() == ["sent", "sent", "waiting"]
    assert list(waiting(world.outbox, world.deliveries).values()) == [1]
