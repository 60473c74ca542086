"""Statements that a daemon runs: each ends, by itself or interrupted, and leaves room for the next."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, LakestreamError, StatementError
from lakestream.lake import Lake
from lakestream.observation.queries import Queries
from lakestream.server.api.permits import ANYONE, is_about_queries, sees_as
from lakestream.server.process.statements import WORKERS, Sent, Statements
from lakestream.settings import Settings
from lakestream.storage.records.tokens import Principal, Scope
from lakestream.storage.sessions.shared import SharedSpark

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient


class Slow:
    """A lake whose statements run until they are interrupted."""

    def __init__(self, confirm: Callable[[str], bool]) -> None:
        self.confirm = confirm
        self.interrupted = threading.Event()
        self.shared_spark = SharedSpark(None, None, SystemClock())

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        pass


def open_slow(confirm: Callable[[str], bool]) -> Lake:
    return cast("Lake", Slow(confirm))


def slow(seconds: float, most: int = 0) -> Statements:
    return Statements(open_slow, seconds, Queries(SystemClock()), most)


def sent(user: str = "", sql: str = "SELECT 1", *, at_once: bool = False) -> Sent:
    return Sent(sql, user, "127.0.0.1", at_once)


def until_interrupted(lake: Lake) -> str:
    slow = cast("Slow", lake)
    assert slow.interrupted.wait(20)
    slow.interrupted.clear()
    return "ended"


async def never() -> None:
    await asyncio.Event().wait()


async def at_once() -> None:
    await asyncio.sleep(0)


async def ended(
    statements: Statements, gone: Callable[[], Awaitable[None]] = never, who: str = "", **more: Any
) -> str:
    """Return what an endless statement ends with, and wait until its worker is free."""
    try:
        return await statements.run(until_interrupted, gone, sent(who), **more)
    except BusyError as error:
        return error.code
    finally:
        await asyncio.gather(*statements._interrupting)


def test_a_statement_that_takes_too_long_is_interrupted() -> None:
    with closing(slow(0.05)) as statements:
        assert asyncio.run(ended(statements)) == "STATEMENT_TIMEOUT"
        assert asyncio.run(statements.run(lambda _: "next", never, sent())) == "next"


def test_a_statement_whose_client_has_gone_is_interrupted() -> None:
    with closing(slow(0)) as statements:
        assert asyncio.run(ended(statements, at_once)) == "STATEMENT_INTERRUPTED"


def test_what_comes_of_a_statement_that_nobody_waits_for_is_no_defect() -> None:
    told: list[object] = []

    def work(lake: Lake) -> None:
        until_interrupted(lake)
        raise BusyError("INTERRUPTED", "the statement was interrupted")

    async def left(statements: Statements) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: told.append(said))
        with pytest.raises(BusyError, match="STATEMENT_INTERRUPTED"):
            await statements.run(work, at_once, sent())
        await asyncio.gather(*statements._interrupting)
        await asyncio.sleep(0)
        gc.collect()

    with closing(slow(0)) as statements:
        asyncio.run(left(statements))
    assert told == []


def test_what_is_not_limited_takes_as_long_as_it_does() -> None:
    def work(_: Lake) -> str:
        threading.Event().wait(0.2)
        return "done"

    with closing(slow(0.01)) as statements:
        assert asyncio.run(statements.run(work, never, sent(), limited=False)) == "done"


def test_a_statement_that_never_has_its_turn_is_not_run_later() -> None:
    ran: list[Lake] = []

    async def crowd(statements: Statements) -> list[str]:
        running = [asyncio.ensure_future(ended(statements, limited=False)) for _ in range(WORKERS)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError) as caught:
            await statements.run(ran.append, never, sent())
        for lake in statements._lakes:
            lake.interrupt()
        return [caught.value.code, *await asyncio.gather(*running)]

    with closing(slow(0.1)) as statements:
        assert asyncio.run(crowd(statements)) == ["SERVER_BUSY", *["ended"] * WORKERS]
    assert ran == []


def test_an_error_of_a_statement_is_the_answer() -> None:
    def refuse(_: Lake) -> None:
        raise LakestreamError("CODE", "message")

    with closing(slow(5)) as statements, pytest.raises(LakestreamError) as caught:
        asyncio.run(statements.run(refuse, never, sent()))
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
            await statements.run(until_interrupted, never, sent("one"))
        other = await ended(statements, who="other")
        return [await one for one in of_one], other

    with closing(slow(0.2, most=2)) as statements:
        of_one, other = asyncio.run(crowd(statements))
    assert sorted(of_one) == ["STATEMENT_TIMEOUT", "STATEMENT_TIMEOUT", "TOO_MANY_STATEMENTS"]
    assert other == "STATEMENT_TIMEOUT"


async def _listed(queries: Queries, count: int) -> list[str]:
    """Wait until so many statements are listed, and return their ids."""
    for _ in range(1_000):
        if len(queries.of(None)) == count:
            break
        await asyncio.sleep(0.01)
    return [query.id for query in queries.of(None)]


def _kill(queries: Queries, query: str, _: Lake) -> None:
    queries.kill(query, None)


def test_a_statement_that_runs_or_waits_is_listed_and_ended() -> None:
    async def kill(statements: Statements) -> list[str]:
        queries, count = statements.queries, WORKERS + 1
        running = [asyncio.ensure_future(ended(statements, who=str(n))) for n in range(count)]
        ids = await _listed(queries, count)
        await asyncio.sleep(0.05)
        assert [query.waits for query in queries.of(None)] == [False] * WORKERS + [True]
        assert [query.user for query in queries.of("2")] == ["2"]
        with pytest.raises(StatementError) as caught:
            queries.kill(ids[0], asker="2")
        assert caught.value.code == "QUERY_NOT_FOUND"
        queries.kill(ids[WORKERS], asker=str(WORKERS))
        # By a statement, which waits for none of those that run.
        for one in ids[:WORKERS]:
            by = sent(sql=f"KILL QUERY '{one}'", at_once=True)
            await statements.run(partial(_kill, queries, one), never, by)
        return list(await asyncio.gather(*running))

    with closing(slow(0, most=1)) as statements:
        assert asyncio.run(kill(statements)) == ["STATEMENT_KILLED"] * (WORKERS + 1)
        assert statements.queries.of(None) == []


def test_queries_over_http(serve: Callable[..., AbstractContextManager[TestClient]]) -> None:
    with serve() as client:
        shown = client.post("/api/statements", json={"sql": "SHOW QUERIES"}).json()
        assert shown["columns"] == ["kill_id", "user", "end_point", "create_time", "exec_usec", "sql"]
        assert [row[-1] for row in shown["rows"]] == ["SHOW QUERIES"]
        assert client.get("/api/statements").json() == []
        refused = client.post("/api/statements", json={"sql": "KILL QUERY 'x'"})
        gone = client.delete("/api/statements/x")
        for answer in (refused, gone):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")


def test_who_may_see_and_end_what() -> None:
    assert sees_as(ANYONE, "127.0.0.1") is None
    assert sees_as(Principal("root", Scope.ADMIN), "127.0.0.1") is None
    assert sees_as(Principal("ann", Scope.WRITE), "127.0.0.1") == "ann"
    assert sees_as(Principal("bob", Scope.ADMIN, ("plant",)), "127.0.0.1") == "bob"
    assert is_about_queries("show queries; KILL QUERY 'a'", "tdengine")
    assert not is_about_queries("SHOW QUERIES; SELECT 1", "tdengine")
    assert not is_about_queries("SHOW QUERIES; nonsense", "tdengine")
