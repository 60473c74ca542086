"""Messages to clients, and clients that do not keep up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from lakestream.clock import ManualClock
from lakestream.server.news.live import QUEUED, Live, Rates


def _any(database: str) -> bool:
    del database
    return True


def test_a_client_hears_of_the_databases_that_it_may_see() -> None:
    async def listen() -> None:
        live = Live()
        one = live.subscribe(None, "plant".__eq__)
        for name in ("main.a", "plant.b", "a_continuous_query"):
            live.publish({"stream": name})
        await asyncio.sleep(0)
        assert (one.queue.qsize(), one.queue.get_nowait()) == (1, {"stream": "plant.b"})

    asyncio.run(listen())


def test_a_client_hears_of_the_stream_that_it_asked_for() -> None:
    async def listen() -> None:
        live = Live()
        one, every = live.subscribe("main.a", _any), live.subscribe(None, _any)
        for name in ("main.a", "main.b"):
            await asyncio.to_thread(live.publish, {"stream": name})
        await asyncio.sleep(0)
        assert (one.queue.qsize(), every.queue.qsize()) == (1, 2)
        live.unsubscribe(one)
        live.unsubscribe(every)
        assert not live.has_listeners

    asyncio.run(listen())


def test_a_client_that_does_not_keep_up_is_dropped() -> None:
    async def listen() -> None:
        live = Live()
        slow = live.subscribe(None, _any)
        for _ in range(QUEUED + 1):
            live.publish({"stream": "main.a"})
        await asyncio.sleep(0)
        assert not live.has_listeners
        assert (slow.queue.get_nowait(), slow.queue.empty()) == (None, True)

    asyncio.run(listen())


def test_rates_are_those_of_the_last_minute() -> None:
    clock = ManualClock(datetime(2025, 1, 1, tzinfo=UTC))
    rates = Rates(clock.monotonic)
    rates.add("main.a", 600)
    clock.advance(timedelta(seconds=30))
    rates.add("main.a", 60)
    assert (rates.of("main.a"), rates.of("main.b")) == (11.0, 0.0)
    clock.advance(timedelta(seconds=31))
    assert rates.of("main.a") == 1.0
