"""Statements with their values, and the rows they give, which a client takes when it likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pg_mimic import PgError, Statement

from lakestream.server.postgres.failing import refusal
from lakestream.server.postgres.rows.values import result_columns
from lakestream.server.postgres.wording import filled

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

    import pyarrow as pa
    from pg_mimic import ResultColumn

    from lakestream.server.postgres.rows.spool import Spool
    from lakestream.server.postgres.wording import Value

    Ask = Callable[[str, Sequence[Value], Sequence[int]], Awaitable["Answer"]]


class Rows(Protocol):
    """Rows that are taken once, in their order."""

    async def take(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows, ``most`` of them at most; None where there are no more. Raises PgError."""
        ...

    def close(self) -> None:
        """Let go of the rows, and end what computes them."""
        ...


@dataclass
class Table:
    """Rows that are all there."""

    rows: pa.Table

    async def take(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows, None where there are no more."""
        pieces = self.rows.slice(0, most).to_batches()
        if not pieces:
            return None
        self.rows = self.rows.slice(pieces[0].num_rows)
        return pieces[0]

    def close(self) -> None:
        """Let go of the rows."""
        self.rows = self.rows.schema.empty_table()


class Coming:
    """Rows that another thread computes meanwhile, ``filling`` a spool with them."""

    def __init__(self, spool: Spool, filling: asyncio.Task[Any]) -> None:
        self._spool, self._filling = spool, filling
        self._rest: pa.RecordBatch | None = None
        filling.add_done_callback(lambda _: spool.end())

    async def schema(self) -> pa.Schema | None:
        """Wait for the columns and return them, None where there are none. Raises PgError."""
        while self._spool.schema is None and not self._filling.done():
            await self._spool.changed()
        if self._spool.schema is None:
            self._filling.result()
        return self._spool.schema

    async def take(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows as they come, None where there are no more. Raises PgError."""
        found, self._rest = self._rest, None
        while found is None:
            is_last = self._filling.done()
            found = self._spool.take()
            if found is None and is_last:
                self._filling.result()
                return None
            if found is None:
                await self._spool.changed()
        if found.num_rows > most:
            self._rest = found.slice(most)
        return found.slice(0, most)

    def close(self) -> None:
        """Let go of the rows, and end what computes them."""
        self._rest = None
        self._spool.close()
        if not self._filling.cancel() and not self._filling.cancelled():
            self._filling.exception()  # nobody else asks, and asyncio logs what is not taken


@dataclass
class Part:
    """As many of other rows as are ``left``, which go on behind them."""

    rows: Rows
    left: int

    async def take(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows, None where there are no more. Raises PgError."""
        found = await self.rows.take(min(most, self.left)) if self.left else None
        self.left -= found.num_rows if found is not None else 0
        return found

    def close(self) -> None:
        """Leave the rows to those that they are of."""
        self.left = 0


class _Nothing:
    """No rows."""

    async def take(self, most: int) -> pa.RecordBatch | None:  # noqa: ARG002 - there are none
        """Return None."""
        return None

    def close(self) -> None:
        """Do nothing."""


NONE = _Nothing()
NOT_READ = ("34000", "55000")
"""Of a cursor that is not there, and of one that is in use."""


@dataclass(frozen=True)
class Answer:
    """What a statement gave: rows with columns; without these, how many were written."""

    columns: list[ResultColumn] | None = None
    rows: Rows | None = None
    written: int = 0

    @classmethod
    def of(cls, table: pa.Table) -> Answer:
        """Return the answer that rows are which are all there."""
        return cls(result_columns(table.schema), Table(table))


class Prepared(Statement):
    """A statement with its parameters; ``ask`` runs it with values; ``has_rows``: it gives some.

    A client may ask for the columns first, of which only running it tells: those rows are the first portal's.
    """

    def __init__(self, sql: str, kinds: list[int], ask: Ask, *, has_rows: bool) -> None:
        self.sql, self.param_oids = sql, [*kinds]
        self._kinds, self._ask, self.has_rows = kinds, ask, has_rows
        self._looked: Asked | None = None

    async def describe(self) -> list[ResultColumn] | None:
        """Return the columns of the rows."""
        if not self.has_rows:
            return None
        self._looked = self._looked or self._portal([None] * len(self.param_oids))
        return await self._looked.columns()

    def bind(self, params: list[str | None]) -> Asked:  # type: ignore[override]
        """Return what runs the statement with values. Raises PgError for one that is none of its type."""
        filled(self.sql, params, self._kinds)
        looked, self._looked = self._looked, None
        if looked is not None and not params:
            return looked
        if looked is not None:
            looked.close()
        return self._portal(params)

    def close(self) -> None:
        """Let go of the rows that were looked at."""
        if self._looked is not None:
            self._looked.close()

    def _portal(self, params: list[str | None]) -> Asked:
        return Asked(lambda: self._ask(self.sql, params, self._kinds), has_rows=self.has_rows)


def drop_statement(statements: dict[str, Statement], name: str) -> None:
    """Forget a prepared statement of a connection, if there is one of the name."""
    prepared = statements.pop(name, None)
    if isinstance(prepared, Prepared):
        prepared.close()


def deallocate(statements: dict[str, Statement], written: str) -> None:
    """Forget a prepared statement by its name as it is written, or (``""``) all. Raises PgError."""
    name = written.strip('"') if written.startswith('"') else written.lower()
    if name and name not in statements:
        raise refusal("26000", f'there is no prepared statement "{name}"')
    for one in [name] if name else [one for one in statements if one]:
        drop_statement(statements, one)


class Asked:
    """A statement that runs once, when its columns or its rows are asked for."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], *, has_rows: bool) -> None:
        self._ask, self.has_rows = ask, has_rows
        self._answer: Answer | None = None
        self._is_done = False

    async def columns(self) -> list[ResultColumn] | None:
        """Return the columns of the rows; a statement that gives none is not run for it. Raises PgError.

        Of a cursor that is not there, or in use, PostgreSQL tells none, and fails once it is read.
        """
        try:
            return (await self._answered()).columns if self.has_rows else None
        except PgError as error:
            if error.sqlstate in NOT_READ:
                return None
            raise

    async def written(self) -> int:
        """Run a statement that gives no rows, and return how many it has written. Raises PgError."""
        if self._is_done:
            raise refusal("55000", "the portal cannot be run once more")
        self._is_done = True
        return (await self._answered()).written

    async def take(self, most: int) -> pa.RecordBatch | None:
        """Return the next rows, ``most`` of them at most; None where there are no more. Raises PgError."""
        rows = (await self._answered()).rows
        assert rows is not None
        try:
            return await rows.take(most)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the rows, and end what computes them."""
        answer, self._answer = self._answer, Answer(None, NONE)
        if answer is not None and answer.rows is not None:
            answer.rows.close()

    async def _answered(self) -> Answer:
        if self._answer is None:
            self._answer = await self._ask()
        return self._answer
