"""Connections of PostgreSQL's clients: who is let in, encrypted or not, and how much they may send."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import sys
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pg_mimic import BaseSession, PgError, PgServer
from pg_mimic import messages as said
from pg_mimic.connection import Connection, PortalEntry, command_tag
from pg_mimic.connection import _field_specs as field_specs
from pg_mimic.middleware import is_transaction_end
from pg_mimic.results import format_code_for
from pg_mimic.stream import ConnectionClosed

from lakestream.errors import LakestreamError
from lakestream.lake import workspace_of
from lakestream.server.api.asking import Asker
from lakestream.server.api.permits import ANYONE
from lakestream.server.postgres.catalog.tables import VERSION
from lakestream.server.postgres.copying import (
    MOST_BYTES,
    CopyIn,
    CopyOut,
    begun,
    copy_statement,
    ended,
)
from lakestream.server.postgres.failing import placed, refusal, told
from lakestream.server.postgres.rows.portals import drop_statement
from lakestream.server.postgres.rows.values import data_rows, encoded
from lakestream.server.postgres.session import LakeSession
from lakestream.server.postgres.settings import SessionSettings
from lakestream.server.postgres.stream import (
    OF_COPYING,
    UNREADABLE,
    Stream,
    agreed,
    not_read,
    startup,
    unreadable,
)
from lakestream.server.postgres.wording import in_plain_words, parameters, split
from lakestream.server.process.connections import HEAD_SECONDS

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    import pyarrow as pa
    from pg_mimic.messages import ParsedBind, ParsedDescribeOrClose, ParsedExecute, ParsedParse

    from lakestream.server.api.asking import Service
    from lakestream.server.api.guard import Keys
    from lakestream.server.postgres.rows.portals import Asked, Prepared

_SYNTAX = "42601"
_logger = logging.getLogger("lakestream.postgres")


class Line(Connection):
    """A connection of somebody who was let in; of a script each statement is taken as it is written."""

    @property
    def _lake(self) -> LakeSession:
        return cast("LakeSession", self.session)

    async def _authenticate(self) -> bool:
        self.stream.write(said.make_authentication_ok())
        return True

    async def _execute_one_simple_statement(self, sql: str) -> None:
        if parameters(sql):
            raise refusal("42P02", "there is no value for parameters of a plain query, as $1", "prepare it")
        sql = in_plain_words(sql)
        await self._require_sound(sql)
        with closing(await self._asked(sql)) as asked:
            sql = self._done_by(sql)
            count, _ = await self._executed(asked, [], 0, described=True)
        self.stream.write(_completed(sql, count))

    async def _asked(self, sql: str) -> Asked:
        """Return a statement without parameters, to be run."""
        return cast("Prepared", await self.session.prepare(sql, [])).bind([])

    def _done_by(self, sql: str) -> str:
        """Return a statement as what it does: to commit what has failed is to roll it back."""
        return "ROLLBACK" if self.tx_status == b"E" else sql

    async def _require_sound(self, sql: str) -> None:
        """Raise PgError in a transaction that has failed, but for what ends it."""
        if self.tx_status == b"E" and not is_transaction_end(sql):
            await self._require_syntax(sql, [sql])
            raise refusal("25P02", "the transaction has failed, ROLLBACK first")

    async def _executed(
        self, asked: Asked, formats: Sequence[int], most: int, *, described: bool = False
    ) -> tuple[int, bool]:
        """Run a statement, and send the next of its rows, ``most`` at most (0: all).

        ``described``: behind their columns. Returns how many rows were sent, or written, and whether there
        may be more.
        """
        async with self._lake.limited():
            columns = await asked.columns()
            if columns is None:
                return await asked.written(), False
            if described:
                self.stream.write(said.make_row_description(field_specs(columns)))
            return await self._sent(
                asked, lambda piece: data_rows(encoded(piece, formats), piece.num_rows), most
            )

    async def _sent(
        self, asked: Asked, form: Callable[[pa.RecordBatch], bytes], most: int = 0
    ) -> tuple[int, bool]:
        """Send the next rows in a form, as fast as the client takes them; as :meth:`_executed`."""
        sent = 0
        while not most or sent < most:
            piece = await asked.take(most - sent if most else sys.maxsize)
            if piece is None:
                return sent, False
            # In a thread: other clients are not to wait meanwhile.
            self.stream.write(await asyncio.to_thread(form, piece))
            await self.stream.drain()
            sent += piece.num_rows
        return sent, True

    async def _handle_parse(self, parsed: ParsedParse) -> None:
        if not (name := parsed.statement_name):
            drop_statement(self.statements, name)
        if parsed.sql.strip():
            await self._require_sound(parsed.sql)
        prepared = await self.session.prepare(parsed.sql, [kind or None for kind in parsed.param_oids])
        if name and name in self.statements:
            raise refusal("42P05", f'the prepared statement "{name}" is there already')
        self.statements[name] = prepared
        self.stream.write(said.make_parse_complete())

    async def _handle_bind(self, parsed: ParsedBind) -> None:
        prepared = cast("Prepared", self._get_statement(parsed.statement_name))
        await self._require_sound(prepared.sql)
        if (given := len(parsed.params)) != (taken := len(prepared.param_oids)):
            raise refusal("08P01", f"BAD_REQUEST: {given} values are given, and the statement takes {taken}")
        if parsed.portal_name and parsed.portal_name in self.portals:
            raise refusal("42P03", f'the cursor "{parsed.portal_name}" is there already')
        values: list[Any] = [
            self._decode_param(value, format_code_for(parsed.param_format_codes, at), prepared.param_oids, at)
            for at, value in enumerate(parsed.params)
        ]
        self._drop_portal(parsed.portal_name)
        portal = PortalEntry(prepared.bind(values), None, prepared.sql, parsed.result_format_codes)
        self.portals[parsed.portal_name] = portal
        self.stream.write(said.make_bind_complete())

    async def _handle_describe(self, parsed: ParsedDescribeOrClose) -> None:
        if parsed.kind == said.TARGET_STATEMENT:
            prepared = cast("Prepared", self._get_statement(parsed.name))
            if prepared.has_rows:
                await self._require_sound(prepared.sql)
        else:
            entry = self._get_portal(parsed.name)
            if entry.portal.has_rows:
                await self._require_sound(entry.sql)
            with self._running(parsed.name):
                entry.columns = await entry.portal.columns()
        await super()._handle_describe(parsed)

    async def _handle_execute(self, parsed: ParsedExecute) -> None:
        entry = self._get_portal(parsed.portal_name)
        await self._require_sound(entry.sql)
        sql, is_suspended, count = self._done_by(entry.sql), False, 0
        if sql.strip():
            with self._running(parsed.portal_name):
                count, is_suspended = await self._executed(
                    entry.portal, entry.result_format_codes, parsed.max_rows
                )
        self.stream.write(said.make_portal_suspended() if is_suspended else _completed(sql, count))

    @contextmanager
    def _running(self, portal: str) -> Iterator[None]:
        self._lake.cursors.running = portal
        try:
            yield
        finally:
            self._lake.cursors.running = ""

    async def _handle_close(self, parsed: ParsedDescribeOrClose) -> None:
        if parsed.kind == said.TARGET_STATEMENT:
            drop_statement(self.statements, parsed.name)
        else:
            self._drop_portal(parsed.name)
        self.stream.write(said.make_close_complete())

    def _get_portal(self, name: str) -> PortalEntry:
        if name not in self.portals:
            raise refusal("34000", f'there is no portal "{name}"')
        return self.portals[name]

    def _drop_portal(self, name: str) -> None:
        if (entry := self.portals.pop(name, None)) is not None:
            entry.portal.close()

    async def _command_loop(self) -> None:
        while True:
            tag, payload = await self.stream.read_message()
            if tag == said.TERMINATE:
                return
            # What comes behind an error is not heard before the client says that it has heard of it.
            is_heard = not self._ignore_until_sync or tag == said.SYNC
            if tag in OF_COPYING or not is_heard:
                continue
            self._current_task = asyncio.ensure_future(self._dispatch(tag, payload))
            try:
                await self._current_task
            except asyncio.CancelledError:
                self._fail(refusal("57014", "STATEMENT_INTERRUPTED: the client had the statement cancelled"))
            finally:
                self._current_task = None
            if tag in (said.QUERY, said.SYNC):
                if self.tx_status == b"I":
                    self._lake.cursors.end_transaction(failed=self._ignore_until_sync)
                self._ignore_until_sync = False
                self.stream.write(said.make_ready_for_query(self.tx_status))
            await self.stream.drain()

    async def _dispatch(self, tag: bytes, payload: bytes) -> None:
        error = unreadable(tag, payload)
        if error is not None:
            self._fail(error)
            return
        await super()._dispatch(tag, payload)

    def _fail(self, error: PgError) -> None:
        """Tell an error, with which what the client has begun has failed."""
        self.stream.write(_response("ERROR", error))
        self._ignore_until_sync = True
        if self.tx_status != b"I":
            self.tx_status = b"E"

    def _decode_param(self, value: bytes | None, code: int, kinds: list[int | None], index: int) -> object:
        try:
            return super()._decode_param(value, code, kinds, index)
        except UNREADABLE as error:
            raise not_read(error, f"the value of ${index + 1}") from None

    async def _handle_simple_query(self, sql: str) -> None:
        statements, done = split(sql), 0
        drop_statement(self.statements, "")
        self._drop_portal("")
        if not statements:
            self.stream.write(said.make_empty_query_response())
        if len(statements) > 1:
            await self._require_syntax(sql, statements)
        for statement in statements:
            start = sql.index(statement, done)
            done = start + len(statement)
            with placed(start):
                copied = copy_statement(statement.strip())
                if copied is None:
                    await self._execute_one_simple_statement(statement)
                    continue
                await self._require_sound(statement)
                if isinstance(copied, CopyIn):
                    with placed(statement.find(copied.written)):
                        await self._copy_in(copied)
                    continue
                with placed(statement.find(copied.query)):
                    await self._copy_out(copied)

    async def _require_syntax(self, sql: str, statements: Sequence[str]) -> None:
        """Raise PgError where a statement of a script is none: nothing of it is run then."""
        done = 0
        for statement in statements:
            start = sql.index(statement, done)
            done = start + len(statement)
            try:
                with placed(start):
                    if copy_statement(statement.strip()) is None:
                        await self.session.prepare(statement, [])
            except PgError as error:
                if error.sqlstate == _SYNTAX:
                    raise

    async def _copy_in(self, copied: CopyIn) -> None:
        """Write the lines that a client sends."""
        width = await self._lake.width(copied)
        self.stream.write(begun(width, inwards=True))
        await self.stream.drain()
        written = await self._lake.take(copied, width, await self._lines())
        self.stream.write(said.make_command_complete(f"COPY {written}"))

    async def _lines(self) -> bytes:
        """Return all lines that a client sends. Raises PgError where there are too many, or it gives up."""
        parts: list[bytes] = []
        size = 0
        while True:
            tag, body = await _whole(self.stream.read_message())
            if tag == said.COPY_DONE:
                return b"".join(parts)
            if tag == said.COPY_FAIL:
                why = body.rstrip(b"\0").decode(errors="replace")
                raise refusal("57014", f"STATEMENT_INTERRUPTED: the client gave up: {why}")
            if tag == said.TERMINATE:
                raise ConnectionClosed
            if tag not in (said.COPY_DATA, said.FLUSH, said.SYNC):
                raise refusal("08P01", f"BAD_REQUEST: a message {tag.decode()} among the lines of COPY")
            if tag == said.COPY_DATA:
                parts.append(body)
                size += len(body)
            if size > MOST_BYTES:
                raise refusal(
                    "54000", f"TOO_LARGE: COPY takes {MOST_BYTES:,} bytes at a time", "several COPY, of parts"
                )

    async def _copy_out(self, copied: CopyOut) -> None:
        """Send the rows of a query as lines."""
        with closing(await self._asked(copied.query)) as asked:
            async with self._lake.limited():
                columns = await asked.columns()
                if columns is None:
                    raise refusal("0A000", "NOT_SUPPORTED: COPY is of a query")
                head = copied.form.head([one.name for one in columns])
                self.stream.write(begun(len(columns), copied.form.code) + head)
                count, _ = await self._sent(asked, copied.form.told)
        self.stream.write(copied.form.foot() + ended() + said.make_command_complete(f"COPY {count}"))


@dataclass(frozen=True)
class Terms:
    """On what clients are served: by which ``keys``, how many ``connections``, ``rows`` of a result (0: any).

    ``seconds`` is how long a statement may take (0: any time); with ``tls`` everything is encrypted.
    """

    keys: Keys
    connections: int
    rows: int
    seconds: float
    tls: ssl.SSLContext | None = None


class Lines:
    """All connections; those that are there by their numbers."""

    def __init__(self, service: Service, terms: Terms) -> None:
        self._service, self._terms = service, terms
        # Only for what connections ask it: the version, and which of them a request to cancel means.
        self._known = PgServer(BaseSession, server_version=VERSION)
        self._numbers = itertools.count(1)
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= self._terms.connections:
            writer.transport.abort()
            return
        self._tasks[task] = writer
        stream = Stream(reader, writer)
        try:
            await self._serve(stream)
        except (ConnectionClosed, ConnectionError, TimeoutError, asyncio.CancelledError):
            pass
        except PgError as error:
            await _refuse(stream, error)
        except Exception:
            _logger.exception("a connection has failed")
        finally:
            del self._tasks[task]
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        for task, writer in self._tasks.items():
            writer.transport.abort()  # a task that is cancelled ends its statement only
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, stream: Stream) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            begun = await self._begun(stream)
            if begun is None:
                return
            asker = await self._let_in(stream)
        database = begun.setdefault("database", begun.get("user", ""))
        await self._require(asker, database)
        kept = SessionSettings()
        kept.begin_with(begun)
        session = LakeSession(self._service, asker, database, kept, self._terms.rows, self._terms.seconds)
        number, secret = next(self._numbers), secrets.randbelow(2**31)
        line = Line(stream, session, self._known, number, secret, begun)
        self._known._connections[number] = line  # noqa: SLF001 (where it looks for one to cancel)
        try:
            await line.run()
        finally:
            del self._known._connections[number]  # noqa: SLF001

    async def _begun(self, stream: Stream) -> dict[str, str] | None:
        """Return what a client says of itself, None for one that only had another's statement cancelled."""
        tls = self._terms.tls
        number, body = await stream.read_startup_packet()
        if number == said.GSSENC_REQUEST_CODE:
            await _answer(stream, b"N")
            number, body = await stream.read_startup_packet()
        is_encrypted = number == said.SSL_REQUEST_CODE and tls is not None
        if number == said.SSL_REQUEST_CODE:
            await _answer(stream, b"S" if tls else b"N")
            if tls is not None:
                await _encrypt(stream, tls)
            number, body = await stream.read_startup_packet()
        if number == said.CANCEL_REQUEST_CODE:
            with suppress(*UNREADABLE):
                self._known.cancel(*said.parse_cancel_request(body))
            return None
        if tls is not None and not is_encrypted:
            raise refusal("28000", "the server takes encrypted connections only", "sslmode=require")
        begun = startup(number, body)
        stream.write(agreed(number, begun))
        return begun

    async def _let_in(self, stream: Stream) -> Asker:
        """Return who a client is: by the token that it gives as password, where there are tokens."""
        address = stream.writer.get_extra_info("peername")[0]
        keys = self._terms.keys
        if not await asyncio.to_thread(keys.are_asked_for):
            return Asker(ANYONE, address)
        await _answer(stream, said.make_authentication_cleartext_password())
        kind, body = await stream.read_message()
        given = body.rstrip(b"\0").decode(errors="replace") if kind == said.PASSWORD else ""
        principal = await asyncio.to_thread(keys.holder, given)
        if principal is None:
            raise refusal(
                "28P01", "TOKEN_NEEDED: the password is no valid token", "`lakestream token create`"
            )
        return Asker(principal, address)

    async def _require(self, asker: Asker, database: str) -> None:
        """Raise PgError for a database that there is none of, or that is out of reach."""

        def names(lake: object) -> list[str]:
            every = workspace_of(lake).catalog.databases.names()  # type: ignore[arg-type]
            return [name for name in every if asker.principal.reaches(name)]

        try:
            known = await self._service.statements.run(
                names, asyncio.get_running_loop().create_future, asker.sent("the databases")
            )
        except LakestreamError as error:
            raise told(error) from None
        if database not in known:
            raise refusal(
                "3D000", f"DATABASE_NOT_FOUND: there is no database {database}", f"known: {', '.join(known)}"
            )


@asynccontextmanager
async def answering(service: Service, terms: Terms, listening: socket.socket) -> AsyncIterator[None]:
    """Serve PostgreSQL's clients at a socket meanwhile."""
    lines = Lines(service, terms)
    server = await asyncio.start_server(lines.take, sock=listening)
    try:
        yield
    finally:
        server.close()
        await lines.close()


def _completed(sql: str, rows: int) -> bytes:
    """Return the message that a statement is done, with how many rows it gave or wrote."""
    if not sql.strip():
        return bytes(said.make_empty_query_response())
    words = [word.upper() for word in sql.split()[:2]]
    of_cursors = {"DECLARE": "DECLARE CURSOR", "CLOSE": "CLOSE CURSOR"}.get(words[0])
    is_all = words[-1].rstrip(";") == "ALL" and words[0] in ("CLOSE", "DEALLOCATE")
    return bytes(said.make_command_complete((of_cursors or command_tag(sql, rows)) + " ALL" * is_all))


async def _whole(message: Coroutine[None, None, tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Return a message of a client; where it is cancelled, once it is there: half of one cannot be told."""
    reading = asyncio.ensure_future(message)
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await reading
        raise


async def _answer(stream: Stream, data: bytes) -> None:
    stream.write(data)
    await stream.drain()


async def _encrypt(stream: Stream, tls: ssl.SSLContext) -> None:
    """Go on encrypted. What came before, in the clear, is nobody's word: the connection ends."""
    if stream.reader._buffer:  # type: ignore[attr-defined]  # noqa: SLF001 (nothing else tells)
        raise ConnectionClosed
    await stream.writer.start_tls(tls)


async def _refuse(stream: Stream, error: PgError) -> None:
    with suppress(ConnectionError):
        await _answer(stream, _response("FATAL", error))


def _response(severity: str, error: PgError) -> bytes:
    fields = {"S": severity, "V": severity, "C": error.sqlstate, "M": error.message, **error.fields}
    response: bytes = said.make_error_response(fields)
    return response
