"""Work that is done every few seconds beside the rounds."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from apscheduler.schedulers.background import BackgroundScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def regularly(seconds: float, work: Callable[[], object]) -> Iterator[None]:
    """Do some work every so many seconds, in a thread, until the context ends; that waits for it.

    Work that takes longer is not begun a second time.
    """
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(work, "interval", seconds=seconds, coalesce=True, max_instances=1)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=True)
