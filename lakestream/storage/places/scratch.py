"""Folders of the machine: what a process needs while it runs, and what is kept for a user's next ones.

What killed processes have left is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.forked import at_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "lakestream-"
_LOCK = "lock"


@cache
def scratch_folder() -> Path:
    """Return this process's folder, made in the machine's folder for temporary files on first need.

    It goes with the process. What a process that was killed has left goes when the next one makes its own.
    """
    folder, _ = _made(Path(tempfile.gettempdir()))
    at_exit(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


@contextmanager
def held_folder(within: Path) -> Iterator[Path]:
    """Give a folder for a while; what processes that were killed have left beside it goes."""
    folder, lock = _made(within)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made(within: Path) -> tuple[Path, int]:
    """Make a folder, and its lock: held while it is open, as the kernel gives it back whatever ends us."""
    remove_abandoned(within)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


os.register_at_fork(after_in_child=scratch_folder.cache_clear)


def remove_abandoned(within: Path) -> None:
    """Remove the folders of processes that have ended; others' folders, and links, are left alone."""
    for folder in within.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def user_folder() -> Path:
    """Return the per-user folder of lakestream; it need not be there."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakestream"
