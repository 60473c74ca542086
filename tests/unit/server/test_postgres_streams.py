"""Results that are larger than what the server holds of them: sent as they come, ended with their client."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, StatementError
from lakestream.server.api.guard import Keys
from lakestream.server.postgres.rows import spool as spools
from lakestream.server.postgres.rows.spool import Spool
from lakestream.server.postgres.rows.values import encoded
from lakestream.server.process.statements import WORKERS
from tests.unit.server.messages import answer_of, bound, executed, in_short, message, parsed, queried, started
from tests.unit.server.test_postgres import Served, root

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["root"]

ROWS = 90_000
PAD = "." * 100
"""What makes a result more than fits between a server and a client that does not read."""
MANY = f"SELECT id, concat('row ', id, '{PAD}') AS s FROM range({ROWS})"


@pytest.fixture(scope="module")
def served(root: str) -> Iterator[Served]:
    """The lake, with results of any size."""
    served = Served(root, Keys(), 0, None)
    yield served
    served.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[Spool]:
    """Have results wait in a file that holds little of them; give those that were closed."""
    closed: list[Spool] = []
    monkeypatch.setattr(spools, "PIECE_BYTES", 20_000)
    monkeypatch.setattr(spools, "MOST_IN_MEMORY", 50_000)
    monkeypatch.setattr(spools, "MOST_IN_FILE", 200_000)

    def close(self: Spool, of: Any = Spool.close) -> None:
        closed.append(self)
        of(self)

    monkeypatch.setattr(Spool, "close", close)
    return closed


def await_running(served: Served, count: int) -> None:
    """Wait until so many statements run."""
    clock = SystemClock()
    until = clock.monotonic() + 30
    while len(served.statements.queries.of(None)) != count:
        assert clock.monotonic() < until, "other statements run"
        clock.sleep(0.01)


def idle(served: Served) -> None:
    """Wait until no statement runs."""
    await_running(served, 0)


@pytest.mark.usefixtures("small")
def test_a_result_is_whole_and_in_its_order_however_it_is_asked_for(served: Served) -> None:
    with served.connect(autocommit=False) as ada:
        whole = ada.execute(MANY).fetchall()
        assert whole == [(n, f"row {n}{PAD}") for n in range(ROWS)]
        with ada.cursor("c") as cursor:
            cursor.itersize = 20_000
            assert cursor.execute(MANY).fetchall() == whole
        assert list(ada.cursor(binary=True).stream(MANY)) == whole
        with ada.cursor().copy(f"COPY ({MANY}) TO STDOUT") as copied:
            lines = b"".join(map(bytes, copied)).decode().splitlines()
        assert lines == [f"{n}\trow {n}{PAD}" for n in range(ROWS)]


@pytest.mark.usefixtures("small")
def test_a_portal_gives_as_many_rows_as_are_asked_for(served: Served) -> None:
    asked = [queried("BEGIN"), parsed(b"", MANY), bound(b"p", b""), executed(b"p", 10), executed(b"p", 0)]
    sent = [*asked, executed(b"p", 5), message(b"S"), executed(b"p", 1), message(b"S"), message(b"X")]
    told = in_short(answer_of(served.port, sent, "main"))
    assert told == f"ZI <BEGIN> ZT 1 2 10D s {ROWS - 10}D <SELECT {ROWS - 10}> <SELECT 0> ZT <SELECT 0> ZT"


def test_rows_that_nobody_reads_keep_nobody_waiting_and_end_with_their_client(
    served: Served, small: list[Spool]
) -> None:
    with ExitStack() as lines:
        for _ in range(3):
            lines.enter_context(started(served.port, [queried(MANY)], "main"))
        with served.connect() as ada:
            for _ in range(3):
                assert ada.execute("SELECT 1").fetchone() == (1,)
        await_running(served, 3)
    idle(served)
    assert len({*small}) >= 3


def test_a_statement_that_sends_is_cancelled_and_the_next_one_runs(
    served: Served, small: list[Spool]
) -> None:
    with closing(served.connect()) as ada:
        rows = ada.cursor().stream(MANY)
        next(rows)
        ada.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(rows)
        idle(served)
        assert small
        assert ada.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.usefixtures("small")
def test_statements_that_are_killed_leave_room_though_nobody_reads_their_rows(served: Served) -> None:
    with ExitStack() as stack, served.connect() as ada:
        sent = [queried(MANY), message(b"X")]
        lines = [stack.enter_context(started(served.port, sent, "main")) for _ in range(WORKERS)]
        await_running(served, WORKERS)
        *killed, _ = [number for number, *_ in ada.execute("SHOW QUERIES").fetchall()]
        assert len(killed) == WORKERS
        for number in killed:
            ada.execute(f"KILL QUERY '{number}'")
        ada.execute("SET statement_timeout = 5000")
        assert ada.execute("SELECT 1").fetchone() == (1,)
        for line in lines:
            assert in_short(b"".join(iter(partial(line.recv, 65_536), b""))).endswith("E57014 ZI")


@pytest.mark.usefixtures("small")
def test_a_client_that_takes_longer_than_it_says_is_told(served: Served) -> None:
    sent = [queried("SET statement_timeout = 300"), queried(MANY)]
    with started(served.port, sent, "main") as line:
        await_running(served, 1)
        idle(served)
        line.sendall(queried("SELECT 1") + message(b"X"))
        got = b"".join(iter(lambda: line.recv(65_536), b""))
    assert in_short(got).endswith("E57014 ZI T 1D <SELECT 1> ZI")
    idle(served)


@pytest.mark.usefixtures("small")
def test_a_cursor_that_is_closed_ends_its_query(served: Served) -> None:
    with served.connect(autocommit=False) as ada:
        ada.execute(f"DECLARE c CURSOR FOR {MANY}")
        assert ada.execute("FETCH 2 FROM c").fetchall() == [(0, f"row 0{PAD}"), (1, f"row 1{PAD}")]
        assert ada.execute("MOVE 70000 FROM c").rowcount == 70_000
        assert ada.execute("FETCH 1 FROM c").fetchone() == (70_002, f"row 70002{PAD}")
        ada.execute("CLOSE c")
        idle(served)
        ada.execute(f"DECLARE c CURSOR FOR {MANY}")
        ada.rollback()
        idle(served)


def table(rows: int) -> pa.Table:
    return pa.table({"n": range(rows), "s": ["x" * 100] * rows})


def test_what_waits_comes_back_in_its_order(small: list[Spool], monkeypatch: pytest.MonkeyPatch) -> None:
    async def passed() -> None:
        spool = Spool()
        await asyncio.to_thread(spool.fill, table(1_500).to_reader(), 0)
        pieces = list(iter(spool.take, None))
        assert pa.Table.from_batches(pieces) == table(1_500)
        with pytest.raises(StatementError, match="more than 2 rows"):
            await asyncio.to_thread(spool.fill, table(3).to_reader(), 2)
        assert spool.take().num_rows == 2  # type: ignore[union-attr]
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(StatementError, match="No space left on device"):
            await asyncio.to_thread(spool.fill, table(1_500).to_reader(), 0)
        spool.close()
        with pytest.raises(BusyError, match="nobody waits"):
            await asyncio.to_thread(spool.fill, table(1).to_reader(), 0)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    asyncio.run(passed())
    assert len(small) == 1


UTC, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([0, 500_000], UTC, ["1970-01-01 00:00:00+00", "1970-01-01 00:00:00.5+00"]),
        ([-1], UTC, ["1969-12-31 23:59:59.999999+00"]),
        ([0, 60_000_000], LOCAL, ["1970-01-01 00:00:00", "1970-01-01 00:01:00"]),
        ([0, -70 * 10**15], LOCAL, ["1970-01-01 00:00:00", "0250-10-15 19:33:20 BC"]),
        ([0, 3_000_000], pa.date32(), ["1970-01-01", "10183-09-21"]),
        ([1.0, -0.0, 0.1, 1e15, 1e20], pa.float64(), ["1", "-0", "0.1", "1e+15", "1e+20"]),
        ([1.5e-7, float("nan"), float("inf")], pa.float64(), ["1.5e-07", "NaN", "Infinity"]),
        ([0.1, 2.0], pa.float32(), ["0.1", "2"]),
        ([True, False], pa.bool_(), ["t", "f"]),
    ],
)
def test_values_are_written_as_postgresql_writes_them(
    values: list[Any], kind: pa.DataType, texts: list[str]
) -> None:
    counted = {pa.date32(): pa.int32(), UTC: pa.int64(), LOCAL: pa.int64()}.get(kind, kind)
    [told] = encoded(pa.record_batch({"c": pa.array([*values, None], counted).cast(kind)}), [])
    assert told.to_pylist() == [*(text.encode() for text in texts), None]
