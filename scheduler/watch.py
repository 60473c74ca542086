"""Keep the streams of a lake current until told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from lakestream.clock import Clock
    from lakestream.engine.engine import TickReport
    from lakestream.errors import LakestreamError
    from lakestream.lake import Lake

PASSING = (BusyError, StorageError)
"""Errors that may be gone at the next round: they are reported and the watch goes on."""


class Listener(Protocol):
    """Who is told what happens; only ``ticked`` and ``failed`` are called from another thread."""

    def started(self) -> None:
        """Hear that the first round is about to begin; from now on a signal stops the watch."""

    def ticked(self, report: TickReport) -> None:
        """Hear what a tick did."""

    def failed(self, error: LakestreamError) -> None:
        """Hear of an error that may be gone at the next round (see :data:`PASSING`)."""

    def stopping(self) -> None:
        """Hear that a signal came; the running tick is finished first."""


def watch(lake: Lake, listener: Listener, *, poll_seconds: float, clock: Clock | None = None) -> None:
    """Run rounds over all streams, ``poll_seconds`` apart, until SIGTERM or SIGINT.

    A round ticks until nothing is left to do. Rounds never overlap, and a due round that a long one
    covers is not made up for: what is due is decided by the lake's own state. A signal lets the
    running tick finish; a second SIGINT ends the process at once. Has to be called in the main
    thread. Raises what a round raised, except the errors in :data:`PASSING`.
    """
    rounds = _Rounds(lake, listener)
    # The skipped rounds of a long one are meant, not worth a warning each.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(
        rounds.run,
        IntervalTrigger(seconds=poll_seconds, timezone="UTC"),
        next_run_time=(clock or SystemClock()).now(),
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    with _stopped_by_signals(rounds.stop, listener):
        listener.started()
        scheduler.start()
        try:
            rounds.stop.wait()
        finally:
            scheduler.shutdown(wait=True)
    if rounds.failure is not None:
        raise rounds.failure


class _Rounds:
    """The scheduler's job, and what it has to tell the thread that waits for it."""

    def __init__(self, lake: Lake, listener: Listener) -> None:
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._lake = lake
        self._listener = listener

    def run(self) -> None:
        """Tick until no stream has anything to do or the watch is told to stop."""
        try:
            while not self.stop.is_set() and self._tick_once():
                pass
        except BaseException as error:  # noqa: BLE001 (handed to the waiting thread, which raises it)
            self.failure = error
            self.stop.set()

    def _tick_once(self) -> bool:
        try:
            reports = self._lake.tick_once()
        except PASSING as error:
            self._listener.failed(error)
            return False
        for report in reports:
            self._listener.ticked(report)
        return bool(reports)


@contextmanager
def _stopped_by_signals(stop: threading.Event, listener: Listener) -> Iterator[None]:
    """Let SIGTERM and SIGINT set ``stop``; the handlers that were there come back afterwards."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            # Ticks survive a kill; a Python exception would still wait for the running one.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()
        listener.stopping()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
