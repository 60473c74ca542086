"""A soak: a daemon under load and random faults for some minutes; at the end every output is as it should be.

Usage: ``python -m tests.faults.soak SEED MINUTES [--small] [--resume FOLDER]``. The daemon is killed, stopped
for a while, ended and started again, and its Spark killed where it has one, while rows are written, a third
of them by a tool that knows no lake; one harm of two is done to a daemon that has taken all there is. With
``small`` there is no Spark before VERIFY at the end. What ticks take and how much memory the daemon has is
told of the first and of the last third. ``--resume`` goes on with what a soak left that was cut off, whenever
that was.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from lakestream.clock import SystemClock
from tests.faults.attach import CHECKOUT, jvm_of
from tests.faults.killer import CURRENT_SECONDS, KINDS, Workload, await_current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream import Lake

_T = TypeVar("_T")

CHECKED_EVERY = 12
"""After so many faults the daemon is ended, and the outputs are held against the reference."""
_SETTINGS = {
    "LAKESTREAM_SERVER_PORT": "0",
    "LAKESTREAM_CONNECT_PORT": "0",
    "LAKESTREAM_MASTER": "local[1]",
    "LAKESTREAM_DRIVER_MEMORY": "1g",
    "LAKESTREAM_HISTORY_TICKS": "100000",
}


@dataclass
class Soak:
    """The daemon of a lake, and what was ``seen`` of it: resident MiB, open files."""

    load: Workload
    drawn: random.Random
    log: Path
    paths: Sequence[str] = ("auto", "auto", "auto", "spark")
    clock: SystemClock = field(default_factory=SystemClock)
    seen: list[tuple[float, int]] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    _daemon: subprocess.Popen[bytes] | None = None

    def run(self, minutes: float, tell: Callable[[str], None]) -> None:
        """Write and do harm for so many minutes; raises AssertionError when an output is wrong."""
        end = self.clock.monotonic() + 60 * minutes
        count = 0
        self._start()
        with self.load.opened() as lake:
            while self.clock.monotonic() < end:
                self._write(lake)
                self._harm(lake)
                count += 1
                if count % CHECKED_EVERY == 0:
                    self._check(tell)
        self._end(signal.SIGTERM)
        self.load.check()
        self.load.verify()

    def _write(self, lake: Lake) -> None:
        for _ in range(self.drawn.randint(2, 8)):
            self.load.write(lake)
            self.clock.sleep(self.drawn.uniform(0, 0.5))
            self._look()

    def _look(self) -> None:
        if self._daemon is None:
            return
        with suppress(OSError):
            process = Path(f"/proc/{self._daemon.pid}")
            resident = next(
                line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS")
            )
            files = len(list((process / "fd").iterdir()))
            self.seen.append((int(resident.split()[1]) / 1024, files))

    def _harm(self, lake: Lake) -> None:
        if self.drawn.random() < 0.5:
            assert self._daemon is not None
            await_current(lake, self._daemon)
        harm = self.drawn.choice((self._kill, self._kill, self._pause, self._restart, self._kill_spark))
        name = harm.__name__.strip("_")
        self.faults[name] = self.faults.get(name, 0) + bool(harm())

    def _kill(self) -> bool:
        self._end(signal.SIGKILL)
        self._start()
        return True

    def _restart(self) -> bool:
        self._end(signal.SIGTERM)
        self._start()
        return True

    def _pause(self) -> bool:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGSTOP)
        self.clock.sleep(self.drawn.uniform(0.5, 3))
        self._daemon.send_signal(signal.SIGCONT)
        return True

    def _kill_spark(self) -> bool:
        """Kill Spark's JVM; return whether there was one: not every daemon computes by Spark."""
        assert self._daemon is not None
        try:
            os.kill(jvm_of(self._daemon.pid), signal.SIGKILL)
        except subprocess.CalledProcessError:
            return False
        return True

    def _check(self, tell: Callable[[str], None]) -> None:
        self._end(signal.SIGTERM)
        self.load.check()
        tell(f"{sum(self.faults.values())} faults, {len(self.load.commits)} commits, all is well")
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "lakestream", "--lake", str(self.load.root), "serve"]
        path = self.drawn.choice(self.paths)
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), **_SETTINGS, "LAKESTREAM_SMALL_PATH": path}
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _end(self, number: int) -> None:
        """End the daemon by a signal; by its own before it hears any."""
        assert self._daemon is not None
        assert self._daemon.poll() is None, self.log.read_text()[-4_000:]
        self._daemon.send_signal(number)
        status = self._daemon.wait(CURRENT_SECONDS)
        assert status in (0, -number), (status, self.log.read_text()[-4_000:])
        self._daemon = None

    def close(self) -> None:
        """Leave no daemon behind."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()

    def report(self) -> Table:
        """Return what ticks took, and the daemon's memory and open files, in the first and the last third."""
        with self.load.opened() as lake:
            runs = [run for name in KINDS for run in lake.runs(name, limit=100_000) if run.error is None]
        ticks = [run.seconds for run in sorted(runs, key=lambda run: run.at_us)]
        shown = Table("", "first third", "last third")
        for name, values in (
            ("ticks", [len(part) for part in _ends(ticks)]),
            ("p50 of a tick, s", [_quantile(part, 50) for part in _ends(ticks)]),
            ("p99 of a tick, s", [_quantile(part, 99) for part in _ends(ticks)]),
            ("most resident memory, MiB", [max(mib for mib, _ in part) for part in _ends(self.seen)]),
            ("most open files", [max(files for _, files in part) for part in _ends(self.seen)]),
        ):
            shown.add_row(name, *(f"{value:,.4g}" for value in values))
        return shown


def _ends(values: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    third = max(1, len(values) // 3)
    return values[:third], values[-third:]


def _quantile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else values[0]


def main() -> int:
    """Run a soak; exit status 1 when an output was not what it should be, and its lake stays."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument("seed")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--small", action="store_true", help="no Spark before VERIFY at the end")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with the lake in this folder")
    options = parser.parse_args()
    drawn = random.Random(options.seed)
    folder = options.resume or Path(tempfile.mkdtemp(prefix="lakestream-soak-"))
    load = Workload(drawn, folder / "lake")
    soak = Soak(load.resumed() if options.resume else load.begin(), drawn, folder / "daemon.log")
    if options.small:
        soak.paths = ("auto",)

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {options.seed}: {text}\n")
        sys.stdout.flush()

    tell(f"in {folder}, {len(load.commits)} commits at first")
    try:
        soak.run(options.minutes, tell)
        Console().print(soak.report())
    except (AssertionError, subprocess.TimeoutExpired) as error:
        tell(f"{error}\nthe lake is in {folder}")
        return 1
    finally:
        soak.close()
    tell(", ".join(f"{name} {count}" for name, count in sorted(soak.faults.items())))
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
