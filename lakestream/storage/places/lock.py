"""One writing process per local lake: an OS lock that the kernel releases on any end of the process.

Hadoop's local file system does not stop two processes from writing one commit (LocalLogStore: "for
testing only"), so the lock is what keeps commits from being lost. Object stores have put-if-absent:
there processes do not wait for one another, only the threads of one do.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakestream.errors import BusyError
from lakestream.forked import closed_in_forks
from lakestream.storage.places.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_LOCK = "lock"
_POLL_SECONDS = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BOOT_NOTE = f"boot-{socket.gethostname()}"
"""Of each machine its own, where several have the disk."""


@dataclass
class _Held:
    """How often one Lake holds its lock, and the open file that carries it."""

    guard: threading.RLock = field(default_factory=threading.RLock)
    count: int = 0
    descriptor: int = -1


_threads: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
"""By lake in an object store: what keeps the threads of this process apart."""
_held: WeakKeyDictionary[Layout, _Held] = WeakKeyDictionary()
_held_guard = threading.Lock()


@contextmanager
def writer_lock(layout: Layout, *, wait_seconds: float, clock: Clock, purpose: str = "") -> Iterator[None]:
    """Hold the right to write to the lake; within one Lake (one Layout object) it nests.

    Waits up to ``wait_seconds`` of the clock. Raises BusyError LAKE_LOCKED with the holder's process
    id and purpose.
    """
    if not layout.is_local:
        with _among_threads(layout, wait_seconds):
            yield
        return
    with _held_guard:
        held = _held.setdefault(layout, _Held())
    with held.guard:
        if held.count == 0:
            held.descriptor = _acquire(layout, wait_seconds, clock, purpose)
        held.count += 1
    try:
        yield
    finally:
        with held.guard:
            held.count -= 1
            if held.count == 0:
                os.close(held.descriptor)


@contextmanager
def _among_threads(layout: Layout, wait_seconds: float) -> Iterator[None]:
    lock = _threads[layout.root]
    if not lock.acquire(timeout=wait_seconds):
        raise BusyError(
            "LAKE_LOCKED",
            f"this process ({os.getpid()}) is writing to the lake {layout.root}",
            hint="try again",
        )
    try:
        yield
    finally:
        lock.release()


def booted_since(layout: Layout) -> bool:
    """Return whether the machine has started anew since :func:`note_boot`, or may have; local disks only."""
    if not layout.is_local or not Path(layout.system_root).is_dir():
        return False
    now = boot_id()
    try:
        return now is None or Path(layout.system_root, _BOOT_NOTE).read_text() != now
    except OSError:
        return True


def note_boot(layout: Layout) -> None:
    """Note that the lake is whole since this start of the machine; local disks only."""
    if layout.is_local and (now := boot_id()) is not None:
        write_bytes(layout.system_root, _BOOT_NOTE, now.encode())


def boot_id() -> str | None:
    """Return the id of the machine's start, None where it has none (it is Linux's)."""
    try:
        return _BOOT.read_text()
    except OSError:
        return None


def try_lock(layout: Layout, name: str = _LOCK, *, shared: bool = False) -> IO[bytes] | None:
    """Take a lock of a lake, its writer's or another one, without waiting; ``shared``: beside others who do.

    Return the file to close, None when it is held.
    A lake in an object store has none: there whoever asks has it.
    """
    if not layout.is_local:
        return Path(os.devnull).open("rb")
    file = Path(layout.system_root, name).open("ab")  # noqa: SIM115 - it carries the lock
    if _try_lock(file.fileno(), fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
        return closed_in_forks(file)
    file.close()
    return None


def _give_back_in_fork() -> None:
    for held in _held.values():
        if held.count:
            os.close(held.descriptor)


os.register_at_fork(after_in_child=_give_back_in_fork)


def _acquire(layout: Layout, wait_seconds: float, clock: Clock, purpose: str) -> int:
    """Take the lock and leave our process id in its file; return the open file."""
    deadline = clock.monotonic() + wait_seconds
    # Whoever waits holds the turn: one that gives the lock back and wants it again comes after that one.
    turn = _wait_for(layout, "lock.turn", deadline, clock)
    try:
        descriptor = _wait_for(layout, _LOCK, deadline, clock)
    finally:
        os.close(turn)
    with suppress(OSError):  # a full disk: the lock is ours without the note, and would be so for ever
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "purpose": purpose}).encode(), 0)
    return descriptor


def _wait_for(layout: Layout, name: str, deadline: float, clock: Clock) -> int:
    """Lock a file and return it; BusyError LAKE_LOCKED at the deadline."""
    descriptor = os.open(Path(layout.system_root, name), os.O_RDWR | os.O_CREAT, 0o644)
    is_ours = False
    try:
        while not (is_ours := _try_lock(descriptor)):
            _pause(layout, deadline, clock)
    finally:
        if not is_ours:
            os.close(descriptor)
    return descriptor


def _pause(layout: Layout, deadline: float, clock: Clock) -> None:
    if clock.monotonic() >= deadline:
        raise _busy(layout)
    clock.sleep(_POLL_SECONDS)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy(layout: Layout) -> BusyError:
    """Name the holder, as far as its file tells (it may be written at this very moment)."""
    try:
        holder = json.loads(Path(layout.system_root, _LOCK).read_text())
    except (OSError, ValueError):
        holder = {}
    purpose = f" ({holder['purpose']})" if holder.get("purpose") else ""
    return BusyError(
        "LAKE_LOCKED",
        f"process {holder.get('pid', 'unknown')}{purpose} is writing to the lake {layout.root}",
        hint="try again when it has finished, or stop it",
    )
