"""Small file operations on a local folder or an object store, by the path's form."""

from __future__ import annotations

import os
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore.store import ObjectStore

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(path: str) -> bool:
    """Return whether the path names an object store (``s3://…``) and not a local folder."""
    return _URI.match(path) is not None


def join(root: str, *segments: str) -> str:
    """Append path segments to a local folder or a URI."""
    return "/".join([root.rstrip("/") or "/", *segments]) if root != "/" else "/" + "/".join(segments)


@lru_cache(maxsize=256)
def store_of(folder: str) -> ObjectStore:
    """Return the object store of a URI, its root being the URI; credentials are the environment's."""
    # Imported here: a local lake needs none of it.
    from obstore.store import from_url

    return from_url(folder)


def read_bytes(folder: str, name: str) -> bytes:
    """Return the content of ``folder/name``; FileNotFoundError when it is not there."""
    if not is_uri(folder):
        return Path(folder, name).read_bytes()
    return bytes(store_of(folder).get(name).bytes())


def write_bytes(folder: str, name: str, content: bytes) -> None:
    """Write ``folder/name`` whole: on a local disk readers see the old or the new content only."""
    if is_uri(folder):
        store_of(folder).put(name, content)
        return
    target = Path(folder, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    draft.write_bytes(content)
    draft.replace(target)


def exists(folder: str, name: str) -> bool:
    """Return whether the file ``folder/name`` is there."""
    if not is_uri(folder):
        return os.path.isfile(f"{folder}/{name}")  # noqa: PTH113 - a Path takes five times as long
    try:
        store_of(folder).head(name)
    except FileNotFoundError:
        return False
    return True


def may_be_folder(path: str) -> bool:
    """Return whether the folder is there; True in an object store, which would have to be asked."""
    return is_uri(path) or os.path.isdir(path)  # noqa: PTH112 - as above


def stamp(folder: str, name: str) -> tuple[int, int] | None:
    """Return what tells a local file from another of its name (inode, change in ns); None elsewhere."""
    if is_uri(folder):
        return None
    try:
        found = os.stat(f"{folder}/{name}")  # noqa: PTH116 - as above
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def size(folder: str, names: Sequence[str]) -> int:
    """Return the bytes of files in ``folder`` together; one that is gone counts as none."""
    if is_uri(folder):
        sizes = {found["path"]: found["size"] for batch in store_of(folder).list() for found in batch}
        return sum(sizes.get(name, 0) for name in names)
    return sum(file.stat().st_size for file in (Path(folder, name) for name in names) if file.exists())


def folders(path: str) -> list[str]:
    """Return the names of the folders directly in ``path``, sorted; none when it is not there."""
    if not is_uri(path):
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []
    found = store_of(path).list_with_delimiter()["common_prefixes"]
    return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)


def remove_folder(path: str, holding: str) -> None:
    """Remove a folder and all in it; a local one moves into ``holding`` first, so it goes at once."""
    if is_uri(path):
        store = store_of(path)
        for batch in store.list():
            store.delete([found["path"] for found in batch])
        return
    aside = Path(holding, uuid4().hex)
    aside.parent.mkdir(parents=True, exist_ok=True)
    Path(path).rename(aside)
    shutil.rmtree(aside)
