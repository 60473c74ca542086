"""What the daemon does with what its rounds tell: it counts, passes on, and says what went wrong."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.server.process.supervisor import tell_supervisor
from lakestream.server.shown.reader import tick_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.clock import Clock
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError
    from lakestream.server.news.feed import Feed
    from lakestream.server.news.live import Live, Rates
    from lakestream.server.news.metrics import Metrics
    from lakestream.server.shown.documents import Health

STOP_SECONDS = 8.0
"""How long a stop waits for the running tick; the next daemon takes up one that takes longer."""

_WELL_SECONDS = 5.0
"""How long after a round that failed the daemon counts as failing."""

_log = logging.getLogger("lakestream.ticks")
_SAID_SECONDS = 60.0
"""How long a reason is not said again."""


@dataclass
class Listener:
    """Hears of rounds; ``serving`` says what is served and where, ``say`` talks to who started the daemon.

    A round, or a tick beside, that takes longer than ``stuck_seconds`` is taken for one that is stuck; 0:
    none is. ``begun`` gives when each tick beside has begun, in seconds since 1970 UTC, ``rests`` whether no
    Spark is started for a while, since each dies soon.
    """

    serving: str
    say: Callable[[str], None]
    clock: Clock
    live: Live
    rates: Rates
    metrics: Metrics
    feed: Feed
    begun: Callable[[], list[float]]
    rests: Callable[[], bool]
    stuck_seconds: float = 0
    _failed_at: float = float("-inf")
    _began_at: float = float("inf")
    _said: tuple[str, float] = ("", float("-inf"))
    _timer: threading.Timer | None = None

    def health(self) -> Health:
        """Return whether rounds go on, fail, or one does not end, or a tick beside."""
        now = self.clock.monotonic()
        since = min(self.begun(), default=float("inf"))
        longest = max(now - self._began_at, self.clock.now().timestamp() - since)
        if self.stuck_seconds and longest > self.stuck_seconds:
            return "stuck"
        return "failing" if self.rests() or now - self._failed_at <= _WELL_SECONDS else "ok"

    def began(self) -> None:
        """Note when a round begins."""
        self._began_at = self.clock.monotonic()

    def ended(self) -> None:
        """Note that it has ended."""
        self._began_at = float("inf")

    def started(self) -> None:
        """Say what is served, and where."""
        self.say(f"{self.serving}; Ctrl-C stops")
        tell_supervisor("READY=1")

    def ticked(self, report: TickReport) -> None:
        """Count a tick, and tell of it."""
        self.metrics.count(report)
        self.rates.add(report.stream, report.rows_in)
        run = tick_document(report, self.clock.now()).model_dump(mode="json")
        self.live.publish({"type": "tick", "stream": report.stream, **run})
        self.feed.look()
        facts = {"stream": report.stream, "tick": report.tick}
        if report.error:
            _log.warning("%s tick %d: %s", report.stream, report.tick, report.error, extra=facts)
        else:
            figures = report.kind, report.rows_in, report.rows_out, report.seconds, report.lag
            said = "%s tick %d: %s, %d rows in, %d out, %.3f s, lag %d"
            _log.debug(said, report.stream, report.tick, *figures, extra=facts)

    def failed(self, error: LakestreamError) -> None:
        """Say why a round ended early, once while it lasts."""
        now = self._failed_at = self.clock.monotonic()
        if error.message != self._said[0] or now > self._said[1]:
            self._said = error.message, now + _SAID_SECONDS
            self.say(error.render())

    def stopping(self) -> None:
        """Leave a tick that takes long to the next daemon."""
        self.say("stopping after the running tick")
        tell_supervisor("STOPPING=1")
        self._timer = threading.Timer(STOP_SECONDS, self._leave)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """Leave no tick any more: what waits to would hold all that is here beyond the process' end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def _leave(self) -> None:
        self.say("the running tick is left to the next daemon")
        os._exit(0)
