"""Folders of the machine: what a process needs while it runs, and what is kept for a user's next ones.

What killed processes have left is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from lakestream.forked import at_exit

_PREFIX = "lakestream-"
_LOCK = "lock"


@cache
def scratch_folder() -> Path:
    """Return this process's folder, made in the machine's folder for temporary files on first need.

    It goes with the process. What a process that was killed has left goes when the next one makes its own.
    """
    remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # Open as long as the process lives: the kernel gives the lock back whatever ends it.
    fcntl.flock(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    at_exit(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


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
