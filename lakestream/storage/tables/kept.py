"""What this process has read or written of tables in stores, each file with its tag.

Files of logs are kept, and the small data files that are written here, which are put together later. A store
that is asked what a log has tells the tags: files that have the same ones need not be asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from lakestream.storage.places import files

_MOST_BYTES = 32 << 20
_LARGEST = 1 << 20
"""Files of more bytes are not kept: few of them would take the place of all others."""

_File = tuple[str, str]


class _Kept:
    """Files by table and name; those that were asked for longest ago go first."""

    def __init__(self) -> None:
        self._files: OrderedDict[_File, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0
        self._guard = threading.Lock()

    def keep(self, file: _File, tag: str, content: bytes) -> None:
        """Keep a file; without a tag nothing tells it from another one later."""
        with self._guard:
            self._bytes -= len(self._files.pop(file, ("", b""))[1])
            if tag and len(content) <= _LARGEST:
                self._files[file] = tag, content
                self._bytes += len(content)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._files.popitem(last=False)[1][1])

    def get(self, file: _File) -> tuple[str, bytes] | None:
        """Return a file with its tag, None for one that is not kept."""
        with self._guard:
            if file in self._files:
                self._files.move_to_end(file)
            return self._files.get(file)


_KEPT = _Kept()


def read(path: str, name: str) -> bytes:
    """Read a file of a table in a store anew, and keep it; FileNotFoundError where there is none."""
    content, tag = files.read_tagged(path, name)
    _KEPT.keep((path, name), tag, content)
    return content


def read_as(path: str, name: str, tag: str) -> bytes:
    """Return a file of which the store says that it has this tag: as it is kept, else read."""
    known = _KEPT.get((path, name))
    return known[1] if known is not None and known[0] == tag else read(path, name)


def held(path: str, name: str) -> bytes | None:
    """Return a file as it was when it was read or written last; None for one that is not kept."""
    found = _KEPT.get((path, name))
    return None if found is None else found[1]


def known(path: str, name: str) -> bytes | None:
    """Return a file as it was when it was read or written last, else read it; None where there is none."""
    found = held(path, name)
    try:
        return read(path, name) if found is None else found
    except FileNotFoundError:
        return None


def written(path: str, name: str) -> bytes:
    """Return a data file of a table in a store, which is written once: as it is kept, else read."""
    found = held(path, name)
    return files.read_bytes(path, name) if found is None else found


def write(path: str, name: str, content: bytes) -> None:
    """Write a file of a table in a store, and keep it."""
    _KEPT.keep((path, name), files.write_tagged(path, name, content), content)


def write_new(path: str, name: str, content: bytes) -> bool:
    """Write a file of a table in a store where there is none of its name, and keep it; return whether so."""
    tag = files.write_new(path, name, content)
    if tag is not None:
        _KEPT.keep((path, name), tag, content)
    return tag is not None
