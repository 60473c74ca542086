"""Who serves a lake: a lock held for the daemon's life, in a file that says where it listens."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from lakestream.storage.places.leases import read_roll
from lakestream.storage.places.lock import try_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_FILE = "daemon.lock"
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Owner:
    """A daemon: its process, where it listens, and since when (ISO 8601, UTC)."""

    pid: int
    host: str
    url: str
    since: str


class Ownership:
    """The right to serve a lake; the kernel takes it back when the process ends, however that happens."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @classmethod
    def wait(
        cls,
        layout: Layout,
        clock: Clock,
        waiting: Callable[[Owner | None], None],
        *,
        shared: bool = False,
    ) -> Ownership:
        """Take the right to serve a lake, after the daemon that has it; ``waiting`` hears of that one.

        Only for a local lake; ``shared``: beside others who share its streams
        (see :mod:`lakestream.storage.places.leases`).
        """
        file = try_lock(layout, _FILE, shared=shared)
        if file is None:
            waiting(_written(layout))
        while file is None:
            clock.sleep(_LOOK_SECONDS)
            file = try_lock(layout, _FILE, shared=shared)
        return cls(file)

    def announce(self, url: str, clock: Clock) -> Owner:
        """Say in the file who serves the lake, and where."""
        owner = Owner(os.getpid(), socket.gethostname(), url, clock.now().isoformat())
        self._file.truncate(0)
        self._file.write(json.dumps(asdict(owner)).encode())
        self._file.flush()
        return owner

    def __enter__(self) -> Self:
        """Return the right."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next daemon serve the lake."""
        self._file.truncate(0)
        self._file.close()


def find_owner(layout: Layout) -> Owner | None:
    """Return the daemon that serves a lake, None when there is none or it is not ready yet.

    Of those that share a lake, one on this machine.
    """
    if not layout.is_local:
        return _member_here(layout)
    if not Path(layout.system_root, _FILE).exists():
        return None
    file = try_lock(layout, _FILE)
    if file is not None:
        file.close()
        return None
    return _written(layout) or _member_here(layout)


def _member_here(layout: Layout) -> Owner | None:
    members = read_roll(layout.system_root).members.values()
    here = [member for member in members if member.host == socket.gethostname() and _lives(member.pid)]
    return Owner(here[0].pid, here[0].host, here[0].url, here[0].since) if here else None


def _lives(pid: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _written(layout: Layout) -> Owner | None:
    try:
        return Owner(**json.loads(Path(layout.system_root, _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None  # it is being written at this very moment
