"""``lakestream serve``: one process that keeps a lake's streams current and answers for them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import ssl
import sys
import threading
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, ConfigError, LakestreamError, extra
from lakestream.lake import Lake
from lakestream.server.api.app import create_app
from lakestream.server.api.asking import Service
from lakestream.server.api.guard import Keys
from lakestream.server.news.feed import Feed
from lakestream.server.news.listener import Listener
from lakestream.server.news.live import Live, Rates
from lakestream.server.news.metrics import Metrics
from lakestream.server.process.connect import connect_conf, naming
from lakestream.server.process.connections import Connection
from lakestream.server.process.owner import Ownership
from lakestream.server.process.sharing import sharing
from lakestream.server.process.statements import Statements
from lakestream.server.shown.reader import Reader
from lakestream.statements.rounds import check_settings
from lakestream.storage.places.claims import works
from lakestream.storage.places.leases import MAINTENANCE
from lakestream.storage.places.versions import has_links
from lakestream.storage.records.audit import Audit
from lakestream.storage.records.tokens import Tokens
from lakestream.storage.sessions.jobs import hand_over_slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import FrameType

    from lakestream.server.process.owner import Owner
    from lakestream.settings import Settings
    from lakestream.storage.places.layout import Layout
    from lakestream.storage.places.leases import Leases
    from lakestream.storage.sessions.jars import Watch

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MESSAGE_LIMIT = 64 * 1024
"""Most bytes of a message that a websocket's client sends."""

_DRAIN_SECONDS = 2
_SLOT_SECONDS = 1
"""How often a look shows whether a tick waits for a statement's slots."""


def serve(layout: Layout, settings: Settings, say: Callable[[str], None]) -> None:
    """Serve a lake until SIGTERM or SIGINT; ``say`` hears what happens. Called in the main thread.

    Waits for a daemon that serves the lake already; in an object store, and on a file system where
    ``share_streams`` says so, it shares the streams with others.
    Where its Spark dies, another one is started. Raises ConfigError TOKEN_NEEDED or TLS_UNUSABLE, BusyError
    PORT_IN_USE, what check_settings raises, all before anything is served, and what ends the rounds
    (SPARK_DIED, where each Spark dies soon).
    """
    check_token(settings, layout)
    check_tls(settings)
    check_settings(settings)
    clock = SystemClock()
    with ended_by_signals() as is_told, ExitStack() as held:
        ownership = None
        shares = not layout.is_local or _may_share(layout, settings, say)
        if layout.is_local:
            own = Ownership.wait(layout, clock, lambda owner: say(_waits(owner)), shared=shares)
            ownership = held.enter_context(own)
        listening = held.enter_context(closing(listen(settings.server_host, settings.server_port)))
        if settings.connect_port:
            listen(LOOPBACK[0], settings.connect_port).close()
        sockets = Sockets(listening, _for_postgres(settings, held))
        _run(layout, settings, say, None if shares else ownership, sockets, is_told)


def _may_share(layout: Layout, settings: Settings, say: Callable[[str], None]) -> bool:
    """Return whether a local lake is to be shared, and its file system lets that be."""
    if settings.share_streams and not has_links(layout.system_root):
        say("the file system does not keep to links: one daemon at a time serves the lake")
        return False
    return settings.share_streams


@dataclass(frozen=True)
class Sockets:
    """Where the daemon listens: for HTTP, and for PostgreSQL's clients where it does."""

    http: socket.socket
    postgres: socket.socket | None = None


def _for_postgres(settings: Settings, held: ExitStack) -> socket.socket | None:
    """Take the port for PostgreSQL's clients, if there is to be one. Raises EXTRA_MISSING, as listen does."""
    if not settings.postgres_port:
        return None
    with extra("postgres"):
        import pg_mimic  # noqa: F401 (before the lake is opened)
    return held.enter_context(closing(listen(settings.server_host, settings.postgres_port)))


def check_token(settings: Settings, layout: Layout) -> None:
    """Raise ConfigError TOKEN_NEEDED for a server that others than this machine reach, without a token."""
    if settings.server_host in LOOPBACK or settings.server_token is not None:
        return
    if not Tokens(layout).every():
        raise ConfigError(
            "TOKEN_NEEDED",
            f"server_host is {settings.server_host}: whoever reaches it could change the lake",
            hint="`lakestream token create` makes one, LAKESTREAM_SERVER_TOKEN gives one of at least 16 "
            "characters; or listen on 127.0.0.1",
        )


def check_tls(settings: Settings) -> None:
    """Raise ConfigError TLS_UNUSABLE for a certificate without its key, or files that are not these."""
    cert, key = settings.server_tls_cert, settings.server_tls_key
    if cert is None and key is None:
        return
    if cert is None or key is None:
        raise ConfigError("TLS_UNUSABLE", "of server_tls_cert and server_tls_key there is only one")
    try:
        # With no password to give, an encrypted key is refused instead of asked about on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except OSError as error:
        why = getattr(error, "reason", None) or error.strerror or error
        raise ConfigError(
            "TLS_UNUSABLE", f"{cert} with {key} is no certificate with its key: {why}"
        ) from None


def listen(host: str, port: int) -> socket.socket:
    """Take a port of an address (0: any that is free).

    Raises BusyError PORT_IN_USE, ConfigError ADDRESS_UNUSABLE.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise ConfigError("ADDRESS_UNUSABLE", f"{host} is no address: {error.strerror}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                "PORT_IN_USE",
                f"port {port} of {host} is in use",
                hint="take another one (server_port, connect_port), or stop what uses it",
            ) from None
        raise ConfigError(
            "ADDRESS_UNUSABLE", f"{host}:{port} cannot be listened on: {error.strerror}"
        ) from None
    # Its connections inherit this; without it an answer waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _waits(owner: Owner | None) -> str:
    by = f"process {owner.pid} on {owner.host} ({owner.url})" if owner else "another process"
    return f"the lake is served by {by}; waiting to take over"


@contextmanager
def ended_by_signals() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM and SIGINT end the process with status 0 while it waits or starts.

    Gives whether one has come: what runs just then may keep the exception to itself.
    """
    told = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal told  # an event has a lock, which a second signal would wait for
        told = True
        sys.exit(0)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(
    layout: Layout,
    settings: Settings,
    say: Callable[[str], None],
    ownership: Ownership | None,
    sockets: Sockets,
    is_told: Callable[[], bool],
) -> None:
    """Start the server, then run rounds until told to stop; without ownership, a part of them.

    Spark starts when something needs it, and for its clients at once.
    """
    from lakestream.scheduler.daily import daily
    from lakestream.scheduler.regular import regularly
    from lakestream.scheduler.watch import watch

    clock, live = SystemClock(), Live()
    rates, url = Rates(clock.monotonic), _url(sockets.http, settings)
    settings = settings.with_spark_conf(connect_conf(settings))
    lake = Lake(layout.root, settings=settings, create=False, watch=_saying(say))
    with ExitStack() as after, lake:
        reader, feed = Reader(lake.another(), rates, lambda: lake.alarms), Feed(lake.another(), live)
        deaths = lake.shared_spark.deaths
        metrics = Metrics(reader.statuses, reader.waiting, lambda: deaths.count)
        serving = f"serving {layout.root} at {url}"
        stuck = lake.settings.stuck_seconds

        def begun() -> list[float]:
            return [one.since for one in works(layout).values() if not one.waits and one.pid == os.getpid()]

        def rests() -> bool:
            return deaths.rests

        listener = Listener(serving, say, clock, live, rates, metrics, feed, begun, rests, stuck)
        after.callback(listener.close)
        with (
            closing(_statements(lake)) as statements,
            regularly(_SLOT_SECONDS, lambda: hand_over_slots(clock)),
        ):
            audit = Audit(layout, clock)
            service = Service(reader, statements, live, audit, metrics.text, listener.health)
            with ExitStack() as held:
                tokens = Tokens(layout)
                held.enter_context(_answering(service, settings, tokens, sockets, feed))
                if settings.connect_port:
                    beside = lake.another()
                    beside.spark  # noqa: B018 - to ask for it starts it
                    held.enter_context(naming(beside, lake.settings.poll_seconds))
                leases = None
                if ownership is not None:
                    ownership.announce(url, clock)
                else:
                    leases = held.enter_context(sharing(layout, url, clock, say))
                    lake.share(leases)
                held.enter_context(
                    daily(settings.maintenance_at, lake.timezone, lambda: maintain(lake.another, leases, say))
                )
                if not is_told():
                    watch(lake, listener, poll_seconds=lake.settings.poll_seconds)


def _saying(say: Callable[[str], None]) -> Watch:
    """Return what says in the log what Spark is waited for."""

    def watch(what: str, _fetched: Callable[[], int] | None) -> AbstractContextManager[object]:
        say(what)
        return nullcontext()

    return watch


def _statements(lake: Lake) -> Statements:
    """Return what runs statements; one that writes waits for a long tick as long as it may take."""
    seconds = lake.settings.statement_seconds
    patience = max(lake.settings.lock_wait_seconds, seconds or threading.TIMEOUT_MAX)
    return Statements(
        partial(lake.another, lock_wait_seconds=patience),
        seconds,
        lake.queries,
        lake.settings.client_statements,
    )


def maintain(open_lake: Callable[[], Lake], leases: Leases | None, say: Callable[[str], None]) -> None:
    """Maintain a lake beside its rounds, and say what came of it; an error is said too, not raised.

    Does nothing where another daemon has that lease.
    """
    if leases is not None and not leases.has(MAINTENANCE):
        return
    try:
        with open_lake() as lake:
            done = lake.maintain()
    except LakestreamError as error:
        say(f"maintenance failed: {error}")
        return
    failed = [f"{table.table}: {table.error}" for table in done if table.error]
    freed = sum(table.bytes_freed for table in done)
    said = [f"maintained {len(done) - len(failed)} tables, {freed:,} bytes freed", *failed]
    say("; ".join(said))


@contextmanager
def _answering(
    service: Service, settings: Settings, tokens: Tokens, sockets: Sockets, feed: Feed
) -> Iterator[None]:
    """Answer requests in a thread of its own."""
    token = settings.server_token
    names = frozenset({"localhost", settings.server_host, *settings.server_names})
    text = token.get_secret_value() if token else None
    keys = Keys(text, tokens)
    app = create_app(service, names=names, keys=keys)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="websockets-sansio",
            limit_concurrency=settings.server_connections,
            ws_max_size=MESSAGE_LIMIT,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            ssl_certfile=settings.server_tls_cert,
            ssl_keyfile=settings.server_tls_key,
        )
    )

    async def answer() -> None:
        following = asyncio.ensure_future(feed.run())
        async with _answering_postgres(service, settings, keys, sockets.postgres):
            await server.serve(sockets=[sockets.http])
        following.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(answer()), name="server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_DRAIN_SECONDS * 2)


def _answering_postgres(
    service: Service, settings: Settings, keys: Keys, listening: socket.socket | None
) -> AbstractAsyncContextManager[None]:
    """Return what answers PostgreSQL's clients meanwhile, where there is a socket for them."""
    if listening is None:
        return nullcontext()
    from lakestream.server.postgres.listener import Terms, answering

    tls = None
    if settings.server_tls_cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(settings.server_tls_cert, settings.server_tls_key)
    terms = Terms(keys, settings.server_connections, settings.postgres_rows, settings.statement_seconds, tls)
    return answering(service, terms, listening)


def _url(listening: socket.socket, settings: Settings) -> str:
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.server_tls_cert is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
