"""Processes that are forked off have their parent's lakes, locks and folders, and leave them alone.

The threads of the storage, of DuckDB and of Spark's connections stay with the parent; a lock on a file that
both have open is held until both have closed it.
"""

from __future__ import annotations

import atexit
import os
from typing import IO, TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

from lakestream.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

_locked: WeakSet[IO[bytes]] = WeakSet()
_opened: WeakSet[Any] = WeakSet()
_has_opened = _is_forked = False


def opening(lake: object) -> None:
    """Note that a lake is being opened: its parts are out of reach in processes forked from this one.

    Raises StorageError FORKED in a process that was itself forked from one that had opened a lake.
    """
    global _has_opened  # noqa: PLW0603 - of the process
    if _is_forked:
        raise _forked()
    _has_opened = True
    _opened.add(lake)


class _LeftToParent:
    """Stands for each part of a lake in a process that was forked from the one that had opened it."""

    def close(self) -> None:
        """Leave it open: it is the parent's to close."""

    def __enter__(self) -> NoReturn:
        raise _forked()

    def __exit__(self, *_: object) -> None:
        raise _forked()

    def __getattr__(self, name: str) -> NoReturn:
        raise _forked()


def _forked() -> StorageError:
    return StorageError(
        "FORKED",
        f"the process {os.getpid()} was forked from one that had opened a lake, whose threads it has not",
        hint='begin it by "spawn" or "forkserver" (multiprocessing), or open the first lake in it',
    )


def closed_in_forks(file: IO[bytes]) -> IO[bytes]:
    """Have a file that carries a lock closed in forked processes, which would hold the lock on; return it."""
    _locked.add(file)
    return file


def at_exit(do: Callable[[], object]) -> None:
    """Have something done when this process ends, and not when one does that was forked from it."""
    process = os.getpid()
    atexit.register(lambda: do() if os.getpid() == process else None)


def _leave_to_parent() -> None:
    global _is_forked  # noqa: PLW0603 - of the process
    _is_forked = _has_opened
    for lake in list(_opened):
        vars(lake).update(dict.fromkeys(vars(lake), _LeftToParent()))
    for file in list(_locked):
        file.close()


os.register_at_fork(after_in_child=_leave_to_parent)
