"""Claims: who works on which stream, or table, so that what takes long need not keep others from writing.

A tick is made by whoever has the claim of its stream, and the rows of a table are changed by whoever has that
of the table. What takes long holds those alone, and the lake's lock
(:mod:`lakestream.storage.places.lock`) only while it records something. The kernel takes a claim back
when its process ends. In an object store claims tell the threads of a process apart: leases do the rest.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lakestream.errors import BusyError
from lakestream.forked import closed_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    Told = Callable[[str], AbstractContextManager[object]]
    """What is told for as long as something is waited for."""

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_FOLDER = "claims"
_OF_TABLES = "table-"
MIGRATING = "migrate"
"""What is done to a table whose columns are being made others."""
_POLL_SECONDS = 0.02
_QUIET_SECONDS = 1.0
"""How long is waited for before it is told."""
_LOCKS = Path("/proc/locks")
"""All locks of files, with the processes that hold them (it is Linux's)."""

_guard = threading.Lock()
_taken: dict[tuple[str, str], Work | None] = {}
"""By lake in an object store and stream: what this process has claimed."""
_given_back: Counter[str] = Counter()
"""By lake: how many claims of streams this process has given back."""


@dataclass(frozen=True)
class Work:
    """What is done to a stream, by which process, since when (seconds since 1970 UTC).

    ``waits``: it has not begun, and waits for its turn.
    """

    pid: int
    doing: str
    since: float
    waits: bool = False

    def __str__(self) -> str:
        """Return what is done, in words."""
        return f"{'waits for its turn: ' if self.waits else ''}{self.doing}"


class Claim:
    """The right to work on a stream, until it is released or the process ends."""

    def __init__(self, layout: Layout, uuid: str, file: IO[bytes] | None) -> None:
        self._key = (layout.root, uuid)
        self._file = file
        self._said = False

    def say(self, doing: str, since: float, *, waits: bool = False) -> None:
        """Let others know what is done with it: of a stream as far as the disk lets that be."""
        work = Work(os.getpid(), doing, since, waits)
        self._said = True
        if self._file is None:
            _taken[self._key] = work
            return
        text = json.dumps(asdict(work)).encode()
        try:
            os.pwrite(self._file.fileno(), text, 0)
            os.ftruncate(self._file.fileno(), len(text))
        except OSError:
            if self._key[1].startswith(_OF_TABLES):
                raise  # who makes a stream of it goes by this

    def release(self) -> None:
        """Let others work on the stream."""
        root, uuid = self._key
        with _guard:
            _given_back[root] += not uuid.startswith(_OF_TABLES)
            if self._file is None:
                _taken.pop(self._key, None)
                return
        with self._file:
            if self._said:
                os.ftruncate(self._file.fileno(), 0)


def claim_of_table(path: str) -> str:
    """Return the id by which a table, at a path or URI, is claimed."""
    return _OF_TABLES + hashlib.sha256(path.encode()).hexdigest()[:32]


def given_back(layout: Layout) -> int:
    """Return how many claims of streams this process has given back: what was done under them is recorded."""
    return _given_back[layout.root]


def try_claim(layout: Layout, uuid: str) -> Claim | None:
    """Claim a stream, or a table, by its id; None where somebody works on it."""
    if not layout.is_local:
        with _guard:
            if (layout.root, uuid) in _taken:
                return None
            _taken[layout.root, uuid] = None
        return Claim(layout, uuid, None)
    file = _opened(Path(layout.system_root, _FOLDER, uuid))
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return Claim(layout, uuid, closed_in_forks(file))


@dataclass
class Patience:
    """Waits for what others work on, for so many seconds of the clock since something was done."""

    clock: Clock
    seconds: float
    _until: float | None = None

    def begin(self) -> None:
        """Have the time begin anew: something was done."""
        self._until = None

    def waits(self) -> bool:
        """Wait a moment and return whether it did; the time may be over."""
        now = self.clock.monotonic()
        if self._until is None:
            self._until = now + self.seconds
        if now >= self._until:
            return False
        self.clock.sleep(_POLL_SECONDS)
        return True


def wait_for_claim(
    layout: Layout, uuid: str, name: str, *, wait_seconds: float, clock: Clock, told: Told
) -> Claim:
    """Claim a stream, or a table, once nobody works on it; ``told`` what is waited for.

    Raises BusyError STREAM_BUSY, TABLE_BUSY after ``wait_seconds`` of the clock.
    """
    if (claim := try_claim(layout, uuid)) is not None:
        return claim
    began = clock.monotonic()
    quiet, deadline = began + min(_QUIET_SECONDS, wait_seconds), began + wait_seconds
    while clock.monotonic() < quiet:
        clock.sleep(_POLL_SECONDS)
        if (claim := try_claim(layout, uuid)) is not None:
            return claim
    with told(f"waiting for {name}: {_doing(layout, uuid)}"):
        return _claim_until(layout, uuid, name, deadline, clock)


def _doing(layout: Layout, uuid: str) -> str:
    work = work_on(layout, uuid)
    return _who_holds(layout, uuid) if work is None else f"process {work.pid} does {work}"


def _claim_until(layout: Layout, uuid: str, name: str, deadline: float, clock: Clock) -> Claim:
    while (claim := try_claim(layout, uuid)) is None:
        if clock.monotonic() >= deadline:
            code = "TABLE_BUSY" if uuid.startswith(_OF_TABLES) else "STREAM_BUSY"
            raise BusyError(
                code,
                f"{name} is not to be changed now: {_doing(layout, uuid)}",
                hint="try again when that has ended; lock_wait_seconds says how long to wait",
            )
        clock.sleep(_POLL_SECONDS)
    return claim


@contextmanager
def claimed(
    layout: Layout,
    doing: str,
    names: Mapping[str, str],
    *,
    wait_seconds: float,
    clock: Clock,
    now: float,
    told: Told,
) -> Iterator[None]:
    """Hold the claims of streams and tables, whose names are given by their ids; taken in one order by all.

    Of a table others are told what is done since ``now`` (seconds since 1970 UTC). Raises what
    :func:`wait_for_claim` does.
    """
    with ExitStack() as held:
        for one, name in sorted(names.items()):
            claim = wait_for_claim(layout, one, name, wait_seconds=wait_seconds, clock=clock, told=told)
            held.callback(claim.release)
            if one.startswith(_OF_TABLES):
                claim.say(doing, now)
        yield


def work_on(layout: Layout, uuid: str) -> Work | None:
    """Return what is done to a stream, or a table, as whoever has claimed it says; None for nothing."""
    if not layout.is_local:
        return _taken.get((layout.root, uuid))
    path = Path(layout.system_root, _FOLDER, uuid)
    with suppress(OSError, ValueError, TypeError):
        if path.stat().st_size:
            with path.open("rb") as file:
                return Work(**json.loads(file.read())) if _is_held(file) else None
    return None


def works(layout: Layout) -> dict[str, Work]:
    """Return what is done for long to the streams of a lake, by their ids."""
    if layout.is_local:
        try:
            found = [entry.name for entry in os.scandir(Path(layout.system_root, _FOLDER))]
        except FileNotFoundError:
            return {}
    else:
        found = [uuid for root, uuid in [*_taken] if root == layout.root]
    done = ((uuid, work_on(layout, uuid)) for uuid in found if not uuid.startswith(_OF_TABLES))
    return {uuid: work for uuid, work in done if work is not None}


def forget_claim(layout: Layout, uuid: str) -> None:
    """Remove what is left of the claims of a stream that is no more."""
    if layout.is_local:
        Path(layout.system_root, _FOLDER, uuid).unlink(missing_ok=True)


def _is_held(file: IO[bytes]) -> bool:
    """Return whether somebody has a claim: what a process said that was killed stands there still."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _who_holds(layout: Layout, uuid: str) -> str:
    """Say who has a claim and has not said what for: for a moment's work. The kernel knows the process."""
    pid: int | str | None = os.getpid()
    if layout.is_local:
        try:
            inode = Path(layout.system_root, _FOLDER, uuid).stat().st_ino
            locks = (line.split() for line in _LOCKS.read_text().splitlines())
            pid = next((fields[4] for fields in locks if fields[5].endswith(f":{inode}")), None)
        except (OSError, IndexError):
            pid = None
    return "somebody works on it" if pid is None else f"process {pid} works on it"


def _opened(path: Path) -> IO[bytes]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    return os.fdopen(descriptor, "r+b", buffering=0)
