"""What a client of PostgreSQL asks, statement by statement: answered by the lake, or by its catalog."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakSet

import pyarrow as pa
from pg_mimic import TEXT, BaseSession, PgError
from pg_mimic.messages import make_notice_response
from pg_mimic.middleware import MiddlewareContext, transaction_control

from lakestream.engine.base.names import TBNAME
from lakestream.errors import LakestreamError, StatementError
from lakestream.lake import statements_of, workspace_of
from lakestream.language import model, parse_script
from lakestream.server.api.asking import permit, run_permitted
from lakestream.server.api.guard import RequestRefused
from lakestream.server.postgres.catalog.answers import Catalog, State
from lakestream.server.postgres.catalog.queries import is_about_catalog, parsed
from lakestream.server.postgres.catalog.relations import columns_told
from lakestream.server.postgres.catalog.tables import VERSION, Visit, seen
from lakestream.server.postgres.copying import CopyIn, copy_statement
from lakestream.server.postgres.cursors import Closed, Cursors, Declared, Step, cursor_statement
from lakestream.server.postgres.failing import placed, problem_told, refusal, told
from lakestream.server.postgres.forms import in_lakes_words, types_told
from lakestream.server.postgres.rows.portals import Answer, Coming, Prepared, deallocate
from lakestream.server.postgres.rows.spool import Spool
from lakestream.server.postgres.rows.values import result_columns
from lakestream.server.postgres.settings import SEARCH_PATH, require_reading, set_in
from lakestream.server.postgres.wording import (
    filled,
    in_plain_words,
    parameters,
    split,
    with_plain_texts,
    worded,
)
from lakestream.server.shown.documents import StatementRequest
from lakestream.statements.changes import table_of
from lakestream.storage.writes.values import named_columns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from pg_mimic.connection import Connection

    from lakestream.lake import Lake
    from lakestream.server.api.asking import Asker, Service
    from lakestream.server.postgres.catalog.tables import Seen
    from lakestream.server.postgres.settings import Change, SessionSettings
    from lakestream.server.postgres.wording import Value

_LOOK_SECONDS = 0.5
_WITH_ROWS = (
    model.Query,
    model.ShowDatabases,
    model.ShowTables,
    model.ShowSnodes,
    model.ShowStreams,
    model.ShowCreateStream,
    model.ShowQueries,
    model.Describe,
    model.DescribeHistory,
    model.ShowProperties,
    model.VerifyStream,
    model.ExplainStream,
    model.ExplainQuery,
)
_NOTHING_TO_DO = re.compile(r"(unlisten|savepoint|release)\b", re.IGNORECASE)
"""What is about a session's state where a lake has none."""
_DEALLOCATE = re.compile(
    r"(deallocate\s+(prepare\s+)?(?P<name>(?!all\b)\w+|\"[^\"]+\")|deallocate\s+(prepare\s+)?all|discard\s+all)\s*",
    re.IGNORECASE,
)
_NOT_OF_A_LAKE = re.compile(
    r"(listen|notify|lock|prepare|do|create\s+((local|global)\s+)?temp(orary)?|create\s+unlogged|create\s+unique\s+index)\b",
    re.IGNORECASE,
)
"""How statements of PostgreSQL's begin that a lake has nothing for, and no word of."""
_INDEX = re.compile(r"create\s+index\b", re.IGNORECASE)
"""What makes an index, of which results do not depend: pandas and others make one with each table."""
_SHOW = re.compile(r"show\s+(?P<name>transaction\s+isolation\s+level|time\s+zone|[\w.]+)\s*$", re.IGNORECASE)
_SHOWN_AS = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}
_SCHEMAS_OF_ALL = ("$user", "public", "pg_catalog")
"""What a search path may have that is no database of a lake."""
_SETTINGS = {
    "application_name": "",
    "extra_float_digits": "1",
    "jit": "on",
    "lc_collate": "C",
    "lc_ctype": "C",
    "password_encryption": "scram-sha-256",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "max_index_keys": "32",
    "max_identifier_length": "128",
    "is_superuser": "off",
    "server_version_num": f"{VERSION.partition('.')[0]}0000",
}
"""What a session has beside what the protocol tells of it and what is SET; none of it has an effect."""
_logger = logging.getLogger("lakestream.postgres")

_T = TypeVar("_T")


class LakeSession(BaseSession):
    """One connection's statements; ``rows`` are the most of a result (0: any), ``seconds`` the most of time.

    ``database`` is the current one, as statements without a name of one mean it; ``kept`` is what is set.
    """

    cursors: Cursors
    """The connection's cursors, and portals."""

    def __init__(
        self,
        service: Service,
        asker: Asker,
        database: str,
        kept: SessionSettings,
        rows: int,
        seconds: float,
    ) -> None:
        self._service, self._asker, self._rows, self._seconds = service, asker, rows, seconds
        self.database, self._home = database, database
        self._written = 0
        self._connection: Connection | None = None
        self._catalog: Catalog | None = None
        self._kept = kept
        self._open = WeakSet[Coming]()
        self._use(kept.given.get(SEARCH_PATH, database))

    async def init(self, connection: Connection) -> None:
        """Take the connection that the session is of."""
        self._connection = connection
        self.cursors = Cursors(connection)
        visit = Visit(self._home, connection.username, connection.pid)
        self._catalog = Catalog(visit, self._seconds)

    async def close(self) -> None:
        """Forget what the session has seen, and end what it still computes."""
        for rows in [*self._open]:
            rows.close()
        if self._catalog is not None:
            self._catalog.close()

    async def prepare(self, sql: str, param_oids: list[int | None]) -> Prepared:
        """Return a statement that can be asked for its columns and its rows. Raises PgError."""
        parts = split(sql)
        if len(parts) > 1:
            raise refusal("42601", "several statements cannot be prepared as one")
        text = with_plain_texts(in_plain_words(parts[0])).strip() if parts else ""
        own = await self._of_connection(text) if text else _doing("")
        if own is not None:
            return own
        count = parameters(text)
        given = [*param_oids, *[None] * count][:count]
        tree = parsed(text)
        if tree is not None and is_about_catalog(tree):
            known: Mapping[int, int] = types_told(text, columns_told())
        else:
            known = await self._types_told(text, given)
        kinds = [kind or known.get(number, TEXT) for number, kind in enumerate(given, 1)]
        if copy_statement(text) is not None:
            raise refusal(
                "0A000", "NOT_SUPPORTED: COPY with parameters, or prepared", "COPY as a plain query"
            )
        foreign = _NOT_OF_A_LAKE.match(text)
        if foreign:
            raise refusal("0A000", f"NOT_SUPPORTED: {foreign[0].upper()} is not supported")
        asked = cursor_statement(text)
        if asked is not None:
            return self._of_cursor(asked, text, kinds)
        if tree is not None and is_about_catalog(tree):
            return Prepared(text, kinds, self._ask_catalog, has_rows=True)
        asks = partial(self._ask_lake, written=sql)
        return Prepared(text, kinds, asks, has_rows=self._gives_rows(text, kinds, sql))

    async def _types_told(self, sql: str, given: Sequence[int | None]) -> Mapping[int, int]:
        """Return the types of parameters that a client leaves open, by the columns they stand beside too."""
        missing = {number for number, kind in enumerate(given, 1) if not kind}
        known = types_told(sql) if missing else {}
        if not missing - known.keys():
            return known
        found = await self._seen("the types of parameters")
        columns = {}
        for table in found.tables:
            listed = [(column.name, column.type) for column in table.columns]
            columns[table.database, table.name] = listed
            if table.database == self.database:
                columns["", table.name] = listed
        return types_told(sql, columns)

    # --- COPY FROM STDIN ------------------------------------------------------------------------

    async def width(self, copied: CopyIn) -> int:
        """Return how many values a line has. Raises PgError for what may not be written, or is not there."""
        asked, target = self._insertion(copied)
        if self._kept.is_read_only:
            require_reading(asked)

        def columns(lake: Lake) -> int:
            permit(self._service, self._asker, asked, copied.said)
            lake.restrict(self._asker.principal.databases, self._asker.sees)
            try:
                info, subtable = table_of(workspace_of(lake).catalog, target.table, self.database)
                fixed = (TBNAME, *(tag.name for tag in info.tags)) if subtable else ()
                return len(named_columns(info, target.columns, dict.fromkeys(fixed)))
            except LakestreamError as error:
                error.place = error.place and replace(error.place, text=asked.sql)
                raise

        sent = self._asker.sent(copied.said)
        return await self._told(self._service.statements.run(columns, self._gone, sent), copied.written)

    async def take(self, copied: CopyIn, width: int, lines: bytes) -> int:
        """Write the rows of lines, all in one commit, and return how many they are. Raises PgError."""
        asked, target = self._insertion(copied)
        rows = await asyncio.to_thread(copied.form.rows, width, lines)
        statement = model.Insert((replace(target, rows=tuple(rows)),))

        def write(lake: Lake) -> tuple[int, str]:
            result = statements_of(lake).run(statement)
            return result.written or 0, result.message

        written, message = await self._told(
            run_permitted(self._service, self._asker, asked, self._gone, write, copied.said), copied.written
        )
        self._count(message)
        return written

    def _insertion(self, copied: CopyIn) -> tuple[StatementRequest, model.InsertTarget]:
        """Return the INSERT that a COPY stands for, without its rows."""
        named = f"{copied.table} ({copied.columns})" if copied.columns else copied.table
        nulls = ", ".join(["NULL"] * (copied.columns.count(",") + 1))
        sql = worded(f"INSERT INTO {named} VALUES ({nulls})", [], [], self._home)  # noqa: S608 (it is read)
        asked = StatementRequest(sql=sql, database=self.database)
        try:
            [statement] = parse_script(asked.sql)
        except StatementError as error:
            raise told(error, copied.written) from None
        assert isinstance(statement, model.Insert)
        return asked, statement.targets[0]

    # --- what is about the connection -----------------------------------------------------------

    async def _of_connection(self, sql: str) -> Prepared | None:
        """Return what sets or shows the state of the connection, None for a statement of the lake."""
        if _NOTHING_TO_DO.match(sql):
            return _doing(sql)
        if _INDEX.match(sql):
            said = "a lake has no indexes: none is made, and queries give the same without it"
            return _doing(sql, lambda: self._notice(said))
        assert self._connection is not None
        context = MiddlewareContext(self._connection, sql, [])
        transaction, changed = await transaction_control(context), self._kept.changed_by(sql)
        if (dropped := _DEALLOCATE.fullmatch(sql)) is not None:
            statements, name = self._connection.statements, dropped["name"] or ""
            return _doing(sql, lambda: deallocate(statements, name), lambda: self._set(changed or ()))
        if transaction is not None:
            return _doing(transaction.sql, lambda: self._transaction(transaction.sql, changed or ()))
        if changed is not None:
            return _doing(sql, lambda: self._set(changed))
        shown = _SHOW.match(sql)
        return None if shown is None or _is_read(sql) else self._shown(sql, shown["name"])

    def _shown(self, sql: str, asked: str) -> Prepared | None:
        """Return what shows a setting, or all; None where none has the name."""
        settings = self._settings()
        if asked.lower() == "all":
            listed = sorted(settings.items())
            return _showing(
                sql,
                {
                    "name": [name for name, _ in listed],
                    "setting": [value for _, value in listed],
                    "description": [""] * len(listed),
                },
            )
        name = " ".join(asked.lower().split())
        name = _SHOWN_AS.get(name, name)
        return _showing(sql, {name: [settings[name]]}) if name in settings else None

    def _settings(self) -> dict[str, str]:
        """Return the settings of the connection, as they were set, by name."""
        assert self._connection is not None
        told = {name.lower(): value for name, value in self._connection.server.parameter_status.items()}
        return {**_SETTINGS, **told, **self._kept.given, SEARCH_PATH: self.database}

    def _of_cursor(self, asked: Declared | Step | Closed, sql: str, kinds: list[int]) -> Prepared:
        cursors = self.cursors

        async def answer(sql: str, values: Sequence[Value], kinds: Sequence[int]) -> Answer:
            match asked:
                case Declared():
                    cursors.require_place(asked)
                    with placed(len(sql) - len(asked.query)):
                        query = await self.prepare(asked.query, [*kinds])
                        portal = query.bind(list(cast("Sequence[str | None]", values)))
                        columns = await portal.columns()
                    if columns is None:
                        raise refusal("42P11", "a cursor is of a query")
                    cursors.open(asked, portal, columns)
                case Step():
                    return await cursors.read(asked)
                case Closed():
                    cursors.close(asked)
            return Answer()

        return Prepared(sql, kinds, answer, has_rows=isinstance(asked, Step) and asked.gives_rows)

    def _use(self, path: str) -> None:
        """Make the first database of a path the current one; with those of PostgreSQL alone it stays."""
        names = (part.strip().strip("'\"") for part in path.split(","))
        self.database = next((name for name in names if name not in _SCHEMAS_OF_ALL), self.database)

    def _set(self, changed: Sequence[Change]) -> None:
        assert self._connection is not None
        for change in changed:
            if change.is_local and self._connection.tx_status == b"I":
                self._notice(f"{change.name} is set for a transaction, and there is none: it has no effect")
                continue
            self._notice(self._kept.set(change))
            if change.name == SEARCH_PATH:
                self._use(change.value or self._home)

    def _transaction(self, word: str, changed: Sequence[Change]) -> None:
        """Begin or end a transaction, which changes only settings: each statement stands on its own.

        Raises PgError for a ROLLBACK of what was written.
        """
        written, self._written = self._written, 0
        assert self._connection is not None
        if word == "COMMIT" and self._connection.tx_status == b"E":
            word = "ROLLBACK"
        self._connection.tx_status = b"T" if word == "BEGIN" else b"I"
        if word != "BEGIN":
            self.cursors.end_transaction(failed=word == "ROLLBACK")
            self._set(self._kept.end_transaction())
        self._set(changed)
        if word == "ROLLBACK" and written:
            said = "1 statement" if written == 1 else f"{written} statements"
            raise refusal(
                "0A000",
                f"NOT_SUPPORTED: {said} since BEGIN cannot be rolled back: each statement stands on its own",
                "connect with autocommit",
            )

    # --- what is asked of the lake --------------------------------------------------------------

    def _gives_rows(self, sql: str, kinds: Sequence[int], written: str) -> bool:
        """Return whether a statement gives rows, and so may be run to learn their columns."""
        try:
            script = parse_script(self._worded(sql, [None] * len(kinds), kinds))
        except StatementError as error:
            raise told(error, written) from None
        return all(isinstance(one, _WITH_ROWS) for one in script)

    def _worded(self, sql: str, values: Sequence[Value], kinds: Sequence[int]) -> str:
        """Return a statement with its values as a lake reads it."""
        meant = in_lakes_words(filled(sql, values, kinds), self._home)
        return worded(sql, values, kinds, self._home) if meant is None else meant

    async def _ask_lake(
        self, sql: str, values: Sequence[Value], kinds: Sequence[int], *, written: str
    ) -> Answer:
        asked = StatementRequest(sql=self._worded(sql, values, kinds), database=self.database)
        if self._kept.is_read_only:
            require_reading(asked)

        spool, said = Spool(), [""]

        def answer(lake: Lake) -> tuple[int, str, str]:
            result = lake.sql(asked.sql, asked.dialect, limit=self._rows or None, in_parts=True)
            said[0] = result.message
            if result.columns:
                spool.fill(result.to_reader(), self._rows)
            return result.written or 0, result.message, lake.database

        running = run_permitted(self._service, self._asker, asked, self._gone, answer)
        filling = asyncio.ensure_future(_with_places(running, written))
        coming = Coming(spool, filling)
        try:
            async with self.limited():
                schema = await coming.schema()
        except BaseException:
            coming.close()
            raise
        if schema is not None:
            self._notice(said[0])
            self._open.add(coming)
            return Answer(result_columns(schema), coming)
        count, message, self.database = filling.result()
        self._count(message)
        return Answer(written=count)

    def _count(self, message: str) -> None:
        """Count a statement that gives no rows, and tell what it says."""
        assert self._connection is not None
        if self._connection.tx_status == b"T":
            self._written += 1
        self._notice(message)

    def _notice(self, said: str) -> None:
        assert self._connection is not None
        if not said:
            return
        notice = {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": said}
        self._connection.stream.write(make_notice_response(notice))

    async def _ask_catalog(self, sql: str, values: Sequence[Value], kinds: Sequence[int]) -> Answer:
        tree = parsed(filled(sql, values, kinds))
        assert tree is not None
        before, changed = self._settings(), set_in(tree)
        assert self._catalog is not None
        found = await self._seen("the system tables")
        state = State(self.database, before, self.cursors.rows())
        async with self.limited():
            rows = await self._catalog.ask(tree, state, found)
        if rows.num_rows:
            self._set(changed)
        return Answer.of(rows)

    async def _seen(self, what: str) -> Seen:
        """Return what the client sees of the lake."""
        principal = self._asker.principal
        return await self._told(
            self._service.statements.run(
                lambda lake: seen(lake, principal), self._gone, self._asker.sent(what)
            )
        )

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Raise PgError where what is done takes longer than the client has set."""
        seconds = self._kept.seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            said = f"STATEMENT_TIMEOUT: the statement has not ended in {seconds:g} s and was interrupted"
            raise refusal("57014", said, "the setting statement_timeout of this session") from None

    async def _told(self, asked: Awaitable[_T], written: str = "") -> _T:
        """Return what :func:`_with_places` does, in no more time than the client has set."""
        async with self.limited():
            return await _with_places(asked, written)

    async def _gone(self) -> None:
        """Wait until the client hangs up."""
        assert self._connection is not None
        while not self._connection.stream.reader.at_eof():  # noqa: ASYNC110 (it tells of no event)
            await asyncio.sleep(_LOOK_SECONDS)


async def _with_places(asked: Awaitable[_T], written: str) -> _T:
    """Return what comes of asking the lake; errors are told with their places in what was written."""
    try:
        return await asked
    except LakestreamError as error:
        raise told(error, written) from None
    except RequestRefused as error:
        raise problem_told(error.problem) from None
    except PgError:
        raise
    except Exception as error:
        _logger.exception("a statement has failed")
        said = f"INTERNAL: {type(error).__name__}: this is a defect of lakestream"
        raise refusal("XX000", said) from None


def _doing(sql: str, *does: Callable[[], None]) -> Prepared:
    """Return a statement that gives no rows, and does something of the connection."""

    async def answer(*_: object) -> Answer:
        for do in does:
            do()
        return Answer()

    return Prepared(sql, [], answer, has_rows=False)


def _showing(sql: str, columns: Mapping[str, list[str]]) -> Prepared:
    """Return a statement that shows texts."""

    async def answer(*_: object) -> Answer:
        return Answer.of(pa.table(dict(columns)))

    return Prepared(sql, [], answer, has_rows=True)


def _is_read(sql: str) -> bool:
    """Return whether a lake reads a statement: SHOW of its own things, not of a connection's setting."""
    try:
        return bool(parse_script(sql))
    except StatementError:
        return False
