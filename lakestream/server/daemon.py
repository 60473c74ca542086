"""``lakestream serve``: one process that keeps a lake's streams current and answers for them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, ConfigError, LakestreamError
from lakestream.lake import Lake
from lakestream.server.app import Service, create_app
from lakestream.server.connect import with_connect
from lakestream.server.feed import Feed
from lakestream.server.live import Live, Rates
from lakestream.server.metrics import Metrics
from lakestream.server.owner import Ownership
from lakestream.server.reader import Reader, tick_document
from lakestream.server.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyspark.sql import SparkSession

    from lakestream.engine.engine import TickReport
    from lakestream.server.owner import Owner
    from lakestream.settings import Settings
    from lakestream.storage.layout import Layout

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MESSAGE_LIMIT = 64 * 1024
"""Most bytes of a message that a websocket's client sends."""

_STOP_SECONDS = 8.0
"""How long a stop waits for the running tick; the next daemon takes up one that takes longer."""

_DRAIN_SECONDS = 2
_WELL_SECONDS = 5.0
"""How long after a round that failed the daemon counts as failing."""

_SAID_SECONDS = 60.0
"""How long a reason is not said again."""


def serve(layout: Layout, settings: Settings, say: Callable[[str], None]) -> None:
    """Serve a lake until SIGTERM or SIGINT; ``say`` hears what happens. Called in the main thread.

    Waits for a daemon that serves the lake already. Raises ConfigError TOKEN_NEEDED, BusyError PORT_IN_USE,
    NotSupportedError for a lake in an object store, and what ends the rounds (SPARK_DIED).
    """
    check_token(settings)
    clock = SystemClock()
    with _ended_by_signals():
        ownership = Ownership.wait(layout, clock, lambda owner: say(_waits(owner)))
        with ownership, closing(listen(settings)) as listening:
            _Daemon(layout, settings, say, ownership, listening).run()


def check_token(settings: Settings) -> None:
    """Raise ConfigError TOKEN_NEEDED for a server that others than this machine reach, without a token."""
    if settings.server_host not in LOOPBACK and settings.server_token is None:
        raise ConfigError(
            "TOKEN_NEEDED",
            f"server_host is {settings.server_host}: whoever reaches it could change the lake",
            hint="set LAKESTREAM_SERVER_TOKEN to a secret of at least 16 characters, or listen on 127.0.0.1",
        )


def listen(settings: Settings) -> socket.socket:
    """Take the server's port. Raises BusyError PORT_IN_USE, ConfigError ADDRESS_UNUSABLE."""
    host, port = settings.server_host, settings.server_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise ConfigError("ADDRESS_UNUSABLE", f"server_host is {host}: {error.strerror}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                "PORT_IN_USE",
                f"port {port} of {host} is in use",
                hint="take another one with --port, or stop what uses it",
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
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT end the process with status 0 while it waits or starts."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Daemon:
    """The parts of a running daemon; it is the listener of the rounds."""

    layout: Layout
    settings: Settings
    say: Callable[[str], None]
    ownership: Ownership
    listening: socket.socket
    clock: SystemClock = field(default_factory=SystemClock)
    live: Live = field(default_factory=Live)
    _failed_at: float = float("-inf")
    _said: tuple[str, float] = ("", float("-inf"))

    def run(self) -> None:
        """Start Spark and the server, then run rounds until told to stop."""
        from scheduler.watch import watch

        self.rates = Rates(self.clock.monotonic)
        with Lake(self.layout.root, settings=with_connect(self.settings), create=False) as lake:
            spark = lake.spark
            self.reader = Reader(self._lake(spark), self.rates)
            self.metrics = Metrics(
                self.reader.statuses, self.reader.waiting, lambda: self.clock.now().timestamp()
            )
            self.feed = Feed(self._lake(spark), self.live)
            with self._statements(spark) as statements, self._server(statements):
                self.ownership.announce(self.url, self.clock)
                watch(lake, self, poll_seconds=self.settings.poll_seconds)

    def _lake(self, spark: SparkSession, confirm: Callable[[str], bool] | None = None) -> Lake:
        """Return another lake at the same place, with a Spark session of its own."""
        session = spark.newSession()
        return Lake(self.layout.root, settings=self.settings, create=False, spark=session, confirm=confirm)

    @contextmanager
    def _statements(self, spark: SparkSession) -> Iterator[Statements]:
        statements = Statements(lambda confirm: self._lake(spark, confirm))
        try:
            yield statements
        finally:
            statements.close()

    @contextmanager
    def _server(self, statements: Statements) -> Iterator[None]:
        """Answer requests in a thread of their own."""
        token = self.settings.server_token
        names = frozenset({"localhost", self.settings.server_host, *self.settings.server_names})
        service = Service(self.reader, statements, self.live, self.metrics.text, self._is_well)
        app = create_app(service, names=names, token=token.get_secret_value() if token else None)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                ws="websockets-sansio",
                ws_max_size=MESSAGE_LIMIT,
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_DRAIN_SECONDS,
            )
        )

        async def answer() -> None:
            following = asyncio.ensure_future(self.feed.run())
            await server.serve(sockets=[self.listening])
            following.cancel()

        thread = threading.Thread(target=lambda: asyncio.run(answer()), name="server", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(_DRAIN_SECONDS * 2)

    @property
    def url(self) -> str:
        """Where the server listens."""
        host, port = self.listening.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    # --- what the rounds tell ---

    def started(self) -> None:
        """Say where the lake is served."""
        self.say(f"serving {self.layout.root} at {self.url}; Ctrl-C stops")

    def ticked(self, report: TickReport) -> None:
        """Count a tick, and tell of it."""
        self.metrics.count(report)
        self.rates.add(report.stream, report.rows_in)
        run = tick_document(report, self.clock.now()).model_dump(mode="json")
        self.live.publish({"type": "tick", "stream": report.stream, **run})
        self.feed.look()

    def failed(self, error: LakestreamError) -> None:
        """Say why a round ended early, once while it lasts."""
        now = self._failed_at = self.clock.monotonic()
        if error.message != self._said[0] or now > self._said[1]:
            self._said = error.message, now + _SAID_SECONDS
            self.say(error.render())

    def _is_well(self) -> bool:
        return self.clock.monotonic() - self._failed_at > _WELL_SECONDS

    def stopping(self) -> None:
        """Leave a tick that takes long to the next daemon."""
        self.say("stopping after the running tick")
        timer = threading.Timer(_STOP_SECONDS, self._leave)
        timer.daemon = True
        timer.start()

    def _leave(self) -> None:
        self.say("the running tick is left to the next daemon")
        os._exit(0)
