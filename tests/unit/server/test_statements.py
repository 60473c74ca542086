"""Statements that a daemon runs: each ends, by itself or interrupted, and leaves room for the next."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream.errors import BusyError, LakestreamError
from lakestream.lake import Lake
from lakestream.server.process.statements import WORKERS, Statements
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient


class Slow:
    """A lake whose statements run until they are interrupted."""

    def __init__(self, confirm: Callable[[str], bool]) -> None:
        self.confirm = confirm
        self.interrupted = threading.Event()

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        pass


def open_slow(confirm: Callable[[str], bool]) -> Lake:
    return cast("Lake", Slow(confirm))


def until_interrupted(lake: Lake) -> str:
    slow = cast("Slow", lake)
    assert slow.interrupted.wait(20)
    slow.interrupted.clear()
    return "ended"


async def never() -> None:
    await asyncio.Event().wait()


async def at_once() -> None:
    await asyncio.sleep(0)


async def ended(statements: Statements, gone: Callable[[], Awaitable[None]] = never, **more: Any) -> str:
    """Return what an endless statement ends with, and wait until its worker is free."""
    try:
        return await statements.run(until_interrupted, gone, **more)
    except BusyError as error:
        return error.code
    finally:
        await asyncio.gather(*statements._interrupting)


def test_a_statement_that_takes_too_long_is_interrupted() -> None:
    with closing(Statements(open_slow, 0.05)) as statements:
        assert asyncio.run(ended(statements)) == "STATEMENT_TIMEOUT"
        assert asyncio.run(statements.run(lambda _: "next", never)) == "next"


def test_a_statement_whose_client_has_gone_is_interrupted() -> None:
    with closing(Statements(open_slow, 0)) as statements:
        assert asyncio.run(ended(statements, at_once)) == "STATEMENT_INTERRUPTED"


def test_what_is_not_limited_takes_as_long_as_it_does() -> None:
    def work(_: Lake) -> str:
        threading.Event().wait(0.2)
        return "done"

    with closing(Statements(open_slow, 0.01)) as statements:
        assert asyncio.run(statements.run(work, never, limited=False)) == "done"


def test_a_statement_that_never_has_its_turn_is_not_run_later() -> None:
    ran: list[Lake] = []

    async def crowd(statements: Statements) -> list[str]:
        running = [asyncio.ensure_future(ended(statements, limited=False)) for _ in range(WORKERS)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError) as caught:
            await statements.run(ran.append, never)
        for lake in statements._lakes:
            lake.interrupt()
        return [caught.value.code, *await asyncio.gather(*running)]

    with closing(Statements(open_slow, 0.1)) as statements:
        assert asyncio.run(crowd(statements)) == ["SERVER_BUSY", *["ended"] * WORKERS]
    assert ran == []


def test_an_error_of_a_statement_is_the_answer() -> None:
    def refuse(_: Lake) -> None:
        raise LakestreamError("CODE", "message")

    with closing(Statements(open_slow, 5)) as statements, pytest.raises(LakestreamError) as caught:
        asyncio.run(statements.run(refuse, never))
    assert caught.value.code == "CODE"


def test_a_join_of_everything_with_everything_ends(
    root: str, serve: Callable[..., AbstractContextManager[TestClient]]
) -> None:
    with Lake(root, settings=Settings()) as lake:
        lake.insert("power", [{"ts": n, "watts": n} for n in range(50_000)])
    join = "SELECT sum(a.watts * b.watts) AS x FROM power a JOIN power b ON a.watts <> b.watts + 1"
    with serve(seconds=1) as client:
        answer = client.post("/api/statements", json={"sql": join})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STATEMENT_TIMEOUT")
        counted = client.post("/api/statements", json={"sql": "SELECT count(*) AS n FROM power"})
        assert counted.json()["rows"] == [[50_002]]


def test_one_client_does_not_take_all_turns() -> None:
    async def crowd(statements: Statements) -> tuple[list[str], str]:
        of_one = [asyncio.ensure_future(ended(statements, who="one")) for _ in range(3)]
        await asyncio.sleep(0.02)
        with pytest.raises(BusyError, match="2 statements of one"):
            await statements.run(until_interrupted, never, who="one")
        other = await ended(statements, who="other")
        return [await one for one in of_one], other

    with closing(Statements(open_slow, 0.2, most=2)) as statements:
        of_one, other = asyncio.run(crowd(statements))
    assert sorted(of_one) == ["STATEMENT_TIMEOUT", "STATEMENT_TIMEOUT", "TOO_MANY_STATEMENTS"]
    assert other == "STATEMENT_TIMEOUT"
