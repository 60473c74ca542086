"""The alarm clock of a watch: APScheduler rings at the instants that the lake's definitions name."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from lakestream.scheduler.triggers import trigger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apscheduler.job import Job

    from lakestream.engine.rounds.wakeups import Alarm


class Alarms:
    """Calls ``ring``, from a thread of its own, at each instant that was set; it should return at once.

    Alarms are kept in memory: they follow from the lake and are set anew after a restart.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        # One ring for several instants is meant, not worth a warning each.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._ring = ring
        self._set: Mapping[str, Alarm] = {}
        self._scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )

    @property
    def jobs(self) -> list[Job]:
        """APScheduler's jobs, by the time at which they ring next."""
        jobs: list[Job] = self._scheduler.get_jobs()
        return jobs

    def set(self, alarms: Mapping[str, Alarm]) -> None:
        """Ring at these instants and no others; costs nothing while it is given the same object."""
        if alarms is self._set or alarms == self._set:
            return
        self._scheduler.pause()  # one look at all of them at the end, not one for each
        for name in self._set.keys() - alarms.keys():
            with suppress(JobLookupError):  # a single moment that has rung is gone already
                self._scheduler.remove_job(name)
        for name, alarm in alarms.items():
            if self._set.get(name) != alarm:
                self._scheduler.add_job(self._ring, trigger_of(alarm), id=name, replace_existing=True)
        self._scheduler.resume()
        self._set = alarms

    def start(self) -> None:
        """Begin to ring."""
        self._scheduler.start()

    def close(self) -> None:
        """Stop ringing; returns when the thread has ended."""
        self._scheduler.shutdown(wait=True)
