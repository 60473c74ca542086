"""Two daemons and a foreign writer on a lake that they share: daemons are killed, or stopped for a while.

Usage: ``python -m tests.faults.shared SEED ROUNDS [folder]``. The lake lies in the object store of
:mod:`tests.store_server`, or in a folder. Leases are short here, so that daemons take over, and lose what
they had, all the time. No Spark is needed but for VERIFY at the end.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from tests.faults.attach import child
from tests.faults.killer import Workload
from tests.store_server import BUCKET, store_server

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

LEASE_SECONDS = 3.0
CHECKED_EVERY = 10
MAX_SECONDS = 3.0
"""A daemon is killed between nothing and so many seconds after the last one was."""

ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP)
"""What becomes of a daemon: one that is stopped goes on when the other has long taken over."""


@dataclass
class Shared(Workload):
    """The killer's streams over a table of a lake, which a writer that knows no lake writes to as well."""

    lake: str = f"s3://{BUCKET}/lake"

    def opened(self) -> Lake:
        """Open the lake as a process that has just started would, with a Spark of its own on first need."""
        settings = Settings(master="local[2]", driver_memory="1g", checkpoint_ticks=3)
        return Lake(self.lake, settings=settings)

    def path(self, table: str) -> str:
        """Return where a table lies."""
        return f"{self.lake}/main/{table}"


def run(
    rounds: int, seed: str, tell: Callable[[str], None], *, folder: str | None = None, verifies: bool = True
) -> int:
    """Kill daemons while rows are written, and check now and then; return the commits.

    The lake lies in a folder, None: in a store. ``verifies``: by Spark at the end. Raises AssertionError as
    soon as an output is not what it should be.
    """
    drawn = random.Random(seed)
    with _environment_of_a_store() if folder is None else nullcontext():
        load = Shared(random=drawn) if folder is None else Shared(random=drawn, lake=f"{folder}/lake")
        load.begin()
        done = 0
        while done < rounds:
            part = min(CHECKED_EVERY, rounds - done)
            with _Daemons(load.lake) as daemons, load.opened() as lake:
                for _ in range(part):
                    _round(load, lake, daemons, drawn)
            done += part
            load.check()
            tell(f"round {done}: {len(load.commits)} commits, all is well")
        if verifies:
            load.verify()
    return len(load.commits)


def _round(load: Shared, lake: Lake, daemons: _Daemons, drawn: random.Random) -> None:
    """Write for a while, then end one of the daemons, now and then both."""
    clock = SystemClock()
    deadline = clock.monotonic() + drawn.uniform(0, MAX_SECONDS)
    while True:
        load.write(lake)
        if clock.monotonic() >= deadline:
            break
        clock.sleep(drawn.uniform(0, 0.3))
    how = drawn.choice(ENDS)
    for number in drawn.sample([0, 1], drawn.choice([1, 1, 1, 2])):
        daemons.end(number, how)


class _Daemons:
    """Two daemons, each of which has another in its place when it is killed."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._held = ExitStack()
        self._processes = [self._begun(), self._begun()]

    def _begun(self) -> subprocess.Popen[str]:
        arguments = (self._lake, str(LEASE_SECONDS))
        process = self._held.enter_context(child("tests.faults.sharer", *arguments))
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        return process

    def end(self, number: int, how: signal.Signals) -> None:
        """End a daemon; one that is stopped goes on after its leases are over."""
        process = self._processes[number]
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(how)
        if how == signal.SIGSTOP:
            SystemClock().sleep(LEASE_SECONDS * 1.5)
            process.send_signal(signal.SIGCONT)
        else:
            process.wait()
            self._processes[number] = self._begun()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


@contextmanager
def _environment_of_a_store() -> Iterator[None]:
    with store_server() as store:
        os.environ.update(store.environment())
        yield


def main() -> int:
    """Run the rounds; exit status 1 when an output was not what it should be, and the folder stays."""
    seed, rounds, *where = sys.argv[1:]
    folder = tempfile.mkdtemp(prefix="lakestream-shared-") if where else None

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {seed}: {text}\n")
        sys.stdout.flush()

    try:
        run(int(rounds), seed, tell, folder=folder)
    except AssertionError as error:
        tell(f"{error} ({folder})" if folder else str(error))
        return 1
    if folder:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
