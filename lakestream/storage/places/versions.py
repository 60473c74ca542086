"""A small file that several machines change on a file system of theirs: each version under its own number.

A version is put in its place by a link, which fails where there is a file (POSIX, and NFS keeps to it): of
two that write the next version one is told that it comes too late.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

_KEPT = 10
"""Old versions that stay for those who are just about to read them."""


class Version(NamedTuple):
    """A version's number, 0 where there is none yet, and what is in it."""

    number: int
    content: bytes


def newest(folder: str, name: str) -> Version:
    """Return the newest version of a file; FileNotFoundError where it goes before it is read."""
    there = [entry.name for entry in os.scandir(folder)] if Path(folder).is_dir() else []
    numbers = [int(one.removeprefix(f"{name}.")) for one in there if _is_version(one, name)]
    found = Version(0, b"")
    number = max(numbers, default=0)
    while number:
        try:
            found = Version(number, _path(folder, name, number).read_bytes())
        except FileNotFoundError:
            if not found.number:
                raise
            break
        number += 1  # what the list of the folder did not show yet
    return found


def put_next(folder: str, name: str, after: Version, content: bytes) -> None:
    """Put the version that follows one in its place; FileExistsError where somebody else has."""
    number = after.number + 1
    _link(Path(folder), _path(folder, name, number), content)
    _path(folder, name, number - _KEPT).unlink(missing_ok=True)


def has_links(folder: str) -> bool:
    """Return whether a link on the file system of a folder fails where there is a file; leaves nothing."""
    place = Path(folder, f"probe-{uuid4().hex}")
    try:
        _link(Path(folder), place, b"")
        try:
            _link(Path(folder), place, b"")
        except FileExistsError:
            return True
    except OSError:
        return False
    finally:
        place.unlink(missing_ok=True)
    return False


def _link(folder: Path, place: Path, content: bytes) -> None:
    """Put a file in its place whole, where there is none."""
    draft = folder / f".{uuid4().hex}"
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, place)
        except FileExistsError:
            if draft.stat().st_nlink != 2:  # else it was made, and the answer was lost
                raise
    finally:
        draft.unlink(missing_ok=True)


def _is_version(file: str, name: str) -> bool:
    return file.startswith(f"{name}.") and file.removeprefix(f"{name}.").isdigit()


def _path(folder: str, name: str, number: int) -> Path:
    return Path(folder, f"{name}.{number:020}")
