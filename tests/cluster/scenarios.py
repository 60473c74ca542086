"""What is done to a cluster while streams run on it, and what has to come of it."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from tests.cluster.driver import Driver
from tests.cluster.history import GROUPS, History, differing
from tests.cluster.standalone import standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from deltalake import DeltaTable

    from tests.cluster.standalone import Cluster

LOCAL = {"LAKESTREAM_MASTER": "local[2]", "LAKESTREAM_DRIVER_MEMORY": "1g"}
DRIVER_MIB = 1536
"""What a driver, its Python and its JVM, takes at most, however many rows and groups there are."""
TRIES, WAITED = 3, "no executor came"
"""How often streams run for which no executor came in time, and what they say; a daemon tries again."""
EXECUTOR = {"spark.executor.memory": "768m"}


def on_cluster(cluster: Cluster, **more: str) -> dict[str, str]:
    """Return the settings of a driver on a cluster: the profile, as it is for one that is small."""
    conf = {**EXECUTOR, "spark.master.ui.port": str(cluster.page)}
    return {
        "LAKESTREAM_PROFILE": "cluster",
        "LAKESTREAM_MASTER": cluster.master,
        # A heap is filled before it is cleared, and what the JVM has beside it is half a GiB.
        "LAKESTREAM_DRIVER_MEMORY": "512m",
        "LAKESTREAM_SPARK_CONF": json.dumps(conf),
        # What the profile calls small would never come to the cluster.
        "LAKESTREAM_TRANSPORT": "spark",
        **more,
    }


@dataclass(frozen=True)
class Run:
    """One run of the scenarios: where lakes and logs lie, how many rows, which streams, how many groups."""

    folder: Path
    rows: int
    streams: tuple[str, ...]
    groups: int = GROUPS

    @cached_property
    def expected(self) -> dict[str, DeltaTable]:
        """The outputs of a local run, which is made once."""
        history = self.history("local")
        with self.driver(history, LOCAL) as driver:
            self.go(history, driver)
        return history.outputs()

    @cached_property
    def recalculated(self) -> dict[str, DeltaTable]:
        """The outputs of the local run once all of its windows were recalculated."""
        assert self.expected  # it has been made
        history = History(self.folder / "local", self.rows, self.streams, self.groups)
        with self.driver(history, LOCAL) as driver:
            self.recalculate(history, driver)
        return history.outputs()

    def recalculate(self, history: History, driver: Driver) -> list[str]:
        """Have all windows recalculated that can be, and return what failed."""
        for name in history.streams:
            if name in ("once", "beats"):  # which compute nothing again
                continue
            end = f" TO '{history.middle}'" if name == "counted" else ""  # rows are counted up to an end
            driver.ask(f"RECALCULATE STREAM {name} FROM '2025-01-01'{end}")
        return self.run(driver)

    def history(self, name: str) -> History:
        """Return the steps over a lake of that name, which is made."""
        history = History(self.folder / name, self.rows, self.streams, self.groups)
        history.make()
        return history

    @contextmanager
    def driver(self, history: History, settings: Mapping[str, str]) -> Iterator[Driver]:
        """Start a driver, give it, and end it."""
        driver = Driver(history.root, settings)
        try:
            yield driver
            driver.close()
        except BaseException:
            driver.kill()
            raise

    @contextmanager
    def cluster(self, name: str, *, workers: int = 2) -> Iterator[Cluster]:
        """Start a cluster with a folder of its own, give it, and end it."""
        folder = self.folder / f"{name}-cluster"
        folder.mkdir(parents=True)
        with standalone(folder, workers=workers) as cluster:
            yield cluster

    def run(self, driver: Driver) -> list[str]:
        """Have all streams run, and return what failed and was not done when it was tried again."""
        wrong: list[str] = []
        for _ in range(TRIES):
            failed = driver.ask("run")
            waited = [said for said in failed if WAITED in said]
            wrong += [said for said in failed if said not in waited]
            if not waited:
                return wrong
            _say(f"tried again: {'; '.join(waited)}")
            driver.ask("advance 60")
        return wrong + waited

    def go(self, history: History, driver: Driver) -> list[str]:
        """Do all steps, then hold every output against its definition, recalculate, and do so once more."""
        history.create(driver)
        wrong = self.run(driver)
        for name, step in history.steps():
            step()
            driver.ask("advance 3600")
            wrong += self.run(driver)
            _say(f"{name}: {driver.tasks} tasks so far")
        return wrong

    def in_the_middle(self, history: History, driver: Driver, number: int) -> None:
        """Have all streams run, and return some moments after the first tick of them was planned."""
        planned, clock = history.plans(), SystemClock()
        driver.tell("run")
        while history.plans() == planned:
            clock.sleep(0.1)
        clock.sleep(0.5 * number**2)

    def verified(self, history: History, driver: Driver) -> list[str]:
        """Return the streams that VERIFY finds to differ."""
        found = []
        for name in history.streams:
            counts = dict(driver.ask(f"VERIFY STREAM {name}"))
            _say(f"VERIFY {name}: {driver.tasks} tasks so far")
            if int(counts["differing rows"]):
                found.append(f"{name} does not verify: {counts}")
        return found

    def differing(self, history: History, *, recalculated: bool = False) -> list[str]:
        """Return the outputs that are not those of the local run."""
        found = history.outputs()
        wanted = self.recalculated if recalculated else self.expected
        said = {name: differing(wanted[name], found[name]) for name in wanted}
        return [f"o_{name}: {what}" for name, what in said.items() if what]


def same(run: Run) -> list[str]:
    """All streams over all steps, VERIFY, RECALCULATE: as locally, and as the definition says."""
    history = run.history("same")
    with run.cluster("same") as cluster, run.driver(history, on_cluster(cluster)) as driver:
        wrong = run.go(history, driver) + run.differing(history) + run.verified(history, driver)
        wrong += run.recalculate(history, driver)
        return wrong + run.differing(history, recalculated=True) + _too_large(driver)


def many_groups(run: Run) -> list[str]:
    """A group for each four rows: nothing of them passes through the driver."""
    run = Run(run.folder / "many", run.rows, ("tumbling",), max(GROUPS, run.rows // 4))
    history = run.history("groups")
    with run.cluster("groups") as cluster, run.driver(history, on_cluster(cluster)) as driver:
        wrong = run.go(history, driver) + _too_large(driver)
        return wrong + run.differing(history) + run.verified(history, driver) + _too_large(driver)


def small(run: Run) -> list[str]:
    """Small work: no JVM is started for it, though the profile names a cluster."""
    history = History(run.folder / "small", 1_000, ("tumbling", "session"))
    history.make()
    settings = {"LAKESTREAM_PROFILE": "cluster", "LAKESTREAM_MASTER": "spark://127.0.0.1:1"}
    with run.driver(history, settings) as driver:
        wrong = run.go(history, driver)
        return wrong + ["a JVM was started"] * (len(driver.peak) > 1)


def worker_killed(run: Run) -> list[str]:
    """A worker and its executor end while ticks run, and another one comes: nothing is lost or doubled."""
    history = run.history("worker")
    with run.cluster("worker") as cluster, run.driver(history, on_cluster(cluster)) as driver:
        history.create(driver)
        for number, (name, step) in enumerate(history.steps(), 1):
            step()
            driver.ask("advance 3600")
            run.in_the_middle(history, driver, number)
            cluster.kill(f"worker-{number}")
            _say(f"{name}: worker-{number} was killed")
            cluster.start_worker(f"worker-{number + 2}")
            driver.answer()
        wrong = run.run(driver)
        return wrong + run.differing(history) + run.verified(history, driver)


def all_workers_killed(run: Run) -> list[str]:
    """No executor is left: streams say so and go on when there is one again."""
    history = run.history("workers")
    with run.cluster("workers", workers=1) as cluster:
        settings = on_cluster(cluster, LAKESTREAM_EXECUTOR_WAIT_SECONDS="10")
        with run.driver(history, settings) as driver:
            history.create(driver)
            driver.ask("run")
            cluster.kill("worker-1")
            for _, step in history.steps():
                step()
                driver.ask("advance 3600")
            failed = driver.ask("run")
            wrong = [said for said in failed if WAITED not in said]
            wrong += ["no stream said that no executor came"] * (not failed)
            cluster.start_worker("worker-2")
            driver.ask("advance 3600")
            wrong += driver.ask("run")
            return wrong + run.verified(history, driver)


def driver_killed(run: Run) -> list[str]:
    """The driver ends while ticks run, at each second step: nothing is lost or doubled."""
    history = run.history("driver")
    with run.cluster("driver") as cluster:
        driver = Driver(history.root, on_cluster(cluster))
        try:
            history.create(driver)
            wrong = run.run(driver)
            for number, (name, step) in enumerate(history.steps(), 1):
                step()
                driver.ask("advance 3600")
                if number % 2:
                    run.in_the_middle(history, driver, number)
                    driver.kill()
                    _say(f"{name}: the driver was killed")
                    driver = Driver(history.root, on_cluster(cluster))
                    driver.ask(f"advance {3600 * number}")
                wrong += run.run(driver)
                _say(f"{name}: done")
            return wrong + run.differing(history) + run.verified(history, driver)
        finally:
            driver.kill()


def _too_large(driver: Driver) -> list[str]:
    """Return what a driver took, where that is more than it may."""
    said = f"the driver took {driver.peak} MiB"
    _say(said)
    return [said] * (sum(driver.peak) > DRIVER_MIB)


def _say(what: str) -> None:
    sys.stderr.write(f"  {what}\n")


SCENARIOS: dict[str, Callable[[Run], list[str]]] = {
    "same": same,
    "many_groups": many_groups,
    "small": small,
    "worker_killed": worker_killed,
    "all_workers_killed": all_workers_killed,
    "driver_killed": driver_killed,
}
"""What ``make cluster`` runs, by name."""
