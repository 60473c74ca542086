"""Programs that are measured from outside, and what processes took of time, processors and memory."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

CLOCK = SystemClock()
_GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Spent:
    """What a piece of work took, of the wall's and the processors' seconds, and the peak of its memory."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def spent(work: Callable[[], object], pid: int | None = None) -> Spent:
    """Have a process do work, this one or another, and return what it and those it started took."""
    pid = os.getpid() if pid is None else pid
    before, started = cpu_seconds(pid), CLOCK.monotonic()
    work()
    seconds = CLOCK.monotonic() - started
    return Spent(seconds, cpu_seconds(pid) - before, peak_mib(pid))


def called(command: Sequence[str]) -> Spent:
    """Run a command to its end and return what it took; its memory is that of its largest process.

    Raises RuntimeError when it fails.
    """
    started = CLOCK.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = CLOCK.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with status {process.returncode}")
    return Spent(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process and of those it started that still run, added up."""
    peaks = (_status(member).get("VmHWM", "0 kB") for member in _family(pid))
    return sum(int(peak.split()[0]) for peak in peaks) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of those it started that still run, added up."""
    ticks = sum(_cpu_ticks(member) for member in _family(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cpu_ticks(pid: int) -> int:
    try:
        line = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return 0
    user, system = line.rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def _family(pid: int) -> list[int]:
    parents = {
        int(entry.name): _status(int(entry.name)).get("PPid") for entry in Path("/proc").glob("[0-9]*")
    }
    family = [pid]
    for member in family:
        family.extend(child for child, parent in parents.items() if parent == str(member))
    return family


def _status(pid: int) -> dict[str, str]:
    """Return what the kernel says of a process, nothing when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Program:
    """A program that runs while the block is open; what it says goes into a file."""

    def __init__(self, command: Sequence[str], said: Path) -> None:
        self._command = list(command)
        self._said = said

    def __enter__(self) -> Self:
        with self._said.open("wb") as sink:
            self._process = self._start(sink)
        return self

    def _start(self, sink: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=sink, stderr=sink)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        family = _family(self._process.pid)
        self._process.terminate()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for member in self._left(family[1:]):
            os.kill(member, signal.SIGKILL)

    def _left(self, members: Sequence[int]) -> Iterator[int]:
        """Yield those of the processes that have not ended by themselves after a while."""
        for member in members:
            until = CLOCK.monotonic() + _GRACE_SECONDS
            while _status(member).get("State", "Z")[0] != "Z" and CLOCK.monotonic() < until:
                CLOCK.sleep(0.05)
            if _status(member).get("State", "Z")[0] != "Z":
                yield member

    def kill(self) -> None:
        """Kill it with those that it started, its JVM too: none of them can put anything in order."""
        for member in _family(self._process.pid):
            os.kill(member, signal.SIGKILL)
        self._process.wait()

    def wait_until_it_says(self, words: str, seconds: float = 600.0) -> None:
        """Wait for words in what it says. Raises RuntimeError when it ends, TimeoutError where none come."""
        until = CLOCK.monotonic() + seconds
        while words not in self._said.read_text("utf-8", errors="replace"):
            self.check()
            if CLOCK.monotonic() > until:
                raise TimeoutError(f"{self._command} has not said {words!r} after {seconds:.0f} s")
            CLOCK.sleep(0.05)

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def peak_mib(self) -> float:
        """Return the peak memory of the program and of those it started."""
        return peak_mib(self._process.pid)

    def cpu_seconds(self) -> float:
        """Return the processor time so far of the program and of those it started."""
        return cpu_seconds(self._process.pid)

    def check(self) -> None:
        """Raise RuntimeError with its last words when the program has ended."""
        if self._process.poll() is not None:
            words = self._said.read_text("utf-8", errors="replace")[-2_000:]
            raise RuntimeError(f"{self._command} ended with status {self._process.returncode}:\n{words}")


class Worker(Program):
    """A program that is told what to do line by line, and says ``done`` for each."""

    def ask(self, line: str) -> None:
        """Have it do something. Raises RuntimeError when it ends instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        for answer in self._process.stdout:
            if answer == b"done\n":
                return
        self._process.wait()
        self.check()

    def _start(self, sink: BinaryIO) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=sink)
