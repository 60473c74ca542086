"""A recorder below the engine: what a process, and those it starts, do to the files of a folder.

It is a library that stands before C's own, which Python, delta-rs, DuckDB and the JVM all call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILER = shutil.which("cc") or ""
"""What the recorder is compiled by; empty where there is none, and nothing can be recorded."""
_SOURCE = Path(__file__).with_name("recorder.c")
_FILE = "POWER_TRACE"


@dataclass(frozen=True)
class Event:
    """Something that was done: to the file or folder of an inode, or to names; in the order it was done.

    ``create``, ``mkdir``, ``link``, ``rename``, ``unlink``: of ``path`` (and ``other``, the second name).
    ``write``: ``content`` at a place; ``truncate``: to a length; ``force``: fsync of a file or a folder.
    ``told``: that somebody was told of what was done so far (``path`` says of what).
    """

    kind: str
    inode: int
    at: int
    path: str
    other: str
    content: bytes


def record(root: Path, command: Sequence[str]) -> list[Event]:
    """Run a Python module with arguments that fills a folder, and return what it did to it, in order.

    Raises CalledProcessError when it fails.
    """
    trace = root.with_name(f"{root.name}.trace")
    trace.write_bytes(b"")
    library = root.with_name("recorder.so")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
    given = {_FILE: str(trace), "POWER_ROOT": str(root), "LD_PRELOAD": str(library)}
    subprocess.run([sys.executable, "-m", *command], env={**os.environ, **given}, check=True)
    return read(trace)


def tell(what: str) -> None:
    """Note, in a process that is recorded, that somebody was told of what was done so far."""
    with Path(os.environ[_FILE]).open("ab") as trace:
        trace.write(f"told\t0\t0\t0\t{what}\t\n".encode())


def read(trace: Path) -> list[Event]:
    """Return the events of a file that the recorder wrote."""
    events = []
    with trace.open("rb") as file:
        for line in file:
            kind, inode, count, at, path, other = line[:-1].decode(errors="surrogateescape").split("\t")
            content = file.read(int(count))
            events.append(Event(kind, int(inode), int(at), _normal(path), _normal(other), content))
    return events


def _normal(path: str) -> str:
    return path and os.path.normpath(path)
