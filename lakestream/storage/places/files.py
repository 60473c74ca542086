"""Small file operations on a local folder or an object store, by the path's form."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from lakestream.errors import LakeError, StorageError, extra
from lakestream.storage.places.refusals import store_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from obstore.store import ObjectStore

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_PAGE = 1_000
"""Names that a store lists in one answer."""


def is_uri(path: str) -> bool:
    """Return whether the path names an object store (``s3://…``) and not a local folder."""
    return _URI.match(path) is not None


def join(root: str, *segments: str) -> str:
    """Append path segments to a local folder or a URI."""
    return "/".join([root.rstrip("/") or "/", *segments]) if root != "/" else "/" + "/".join(segments)


@lru_cache(maxsize=256)
def store_of(folder: str) -> ObjectStore:
    """Return the object store of a URI, its root being the URI; credentials are the environment's.

    Raises LakeError STORE_UNKNOWN for a kind of store that nobody knows, PrerequisiteError EXTRA_MISSING.
    """
    # Imported here: a local lake needs none of it.
    with extra("s3"):
        from obstore.exceptions import BaseError
        from obstore.store import from_url

    try:
        return from_url(folder)
    except (BaseError, ValueError) as error:
        raise LakeError(
            "STORE_UNKNOWN",
            f"{folder} names no object store that lakestream knows: {_reason(error)}",
            hint="a folder, or a URI such as s3://bucket/lake",
        ) from error


@contextmanager
def store_answers(folder: str) -> Iterator[ObjectStore]:
    """Give the store of a URI; what it refuses or leaves without an answer is named (StorageError).

    STORE_UNREACHABLE, STORE_REFUSED, NO_BUCKET, CLOCK_SKEW, else STORE_FAILED. FileNotFoundError goes
    through, and so do the refusals of conditional writes.
    """
    store = store_of(folder)
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield store
    except (AlreadyExistsError, PreconditionError):
        raise
    except (FileNotFoundError, BaseError) as error:
        if (named := store_refusal(error, folder)) is not None:
            raise named from error
        if isinstance(error, FileNotFoundError):
            raise
        raise StorageError(
            "STORE_FAILED",
            f"the object store of {folder} did not do what it was asked: {_reason(error)}",
            hint="docs/object-stores.md says where credentials and address come from",
        ) from error


def _reason(error: Exception) -> str:
    """Return what went wrong in one line, without what the client knows of itself."""
    return str(error).partition("\n")[0][:300]


def read_bytes(folder: str, name: str) -> bytes:
    """Return the content of ``folder/name``; FileNotFoundError when it is not there."""
    if not is_uri(folder):
        return Path(folder, name).read_bytes()
    with store_answers(folder) as store:
        return bytes(store.get(name).bytes())


def read_tagged(folder: str, name: str) -> tuple[bytes, str]:
    """Return what a store has as ``folder/name``, with its tag; FileNotFoundError when it is not there.

    Another content of that name has another tag; of a store without tags they are empty.
    """
    with store_answers(folder) as store:
        found = store.get(name)
        return bytes(found.bytes()), found.meta["e_tag"] or ""


def write_tagged(folder: str, name: str, content: bytes) -> str:
    """Write ``folder/name`` of a store whole, and return its tag."""
    with store_answers(folder) as store:
        return store.put(name, content)["e_tag"] or ""


def tags(folder: str, prefix: str, after: str) -> dict[str, str]:
    """Return the tags of what a store has in ``folder`` by names that begin so and come after another one."""
    with store_answers(folder) as store:
        batches = [*store.list(prefix, offset=after)]
    return {found["path"]: found["e_tag"] or "" for batch in batches for found in batch}


def written_at(
    folder: str, prefix: str = "", after: str = "", most: int | None = None
) -> list[tuple[str, datetime]]:
    """Return what a store has in ``folder`` by names that begin so and come after another one, in order.

    With the moment each was written; ``most`` None: all. A request brings a thousand.
    """
    with store_answers(folder) as store:
        batches = store.list(prefix, offset=after, chunk_size=_PAGE)
        found = chain.from_iterable(batches)
        return [(one["path"], one["last_modified"]) for one in islice(found, most)]


def delete(folder: str, names: Sequence[str]) -> None:
    """Delete files that a store has in ``folder``, a thousand by a request; some may be gone already."""
    if names:
        with store_answers(folder) as store:
            store.delete([*names])


def force(file: Path) -> None:
    """Force a file, or a folder's names, to the disk; one that is gone is passed over."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder where it is not there, with those above it, whose names are on the disk then."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        force(folder.parent)


def write_bytes(folder: str, name: str, content: bytes) -> None:
    """Write ``folder/name`` whole: on a local disk readers see the old or the new content only.

    It is forced to the disk there, with its name.
    """
    if is_uri(folder):
        with store_answers(folder) as store:
            store.put(name, content)
        return
    target = Path(folder, name)
    make_folder(target.parent)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)
    force(target.parent)


def write_new(folder: str, name: str, content: bytes) -> str | None:
    """Write ``folder/name`` of a store where there is none of its name; return its tag, else None."""
    with store_answers(folder) as store:
        from obstore.exceptions import AlreadyExistsError

        try:
            return store.put(name, content, mode="create")["e_tag"] or ""
        except AlreadyExistsError:
            return None


def exists(folder: str, name: str) -> bool:
    """Return whether the file ``folder/name`` is there; OSError where that may not be known."""
    if not is_uri(folder):
        return stat.S_ISREG(_mode(f"{folder}/{name}"))
    with store_answers(folder) as store:
        try:
            store.head(name)
        except FileNotFoundError:
            return False
    return True


def may_be_folder(path: str) -> bool:
    """Return whether the folder is there; True in an object store, which would have to be asked.

    Raises OSError where that may not be known.
    """
    return is_uri(path) or stat.S_ISDIR(_mode(path))


def _mode(path: str) -> int:
    """Return the mode of a local file, 0 where there is none: what may not be looked at may well be there."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - a Path takes five times as long
    except (FileNotFoundError, NotADirectoryError):
        return 0


class Stamp(NamedTuple):
    """What tells a local file from another of its name."""

    inode: int
    changed_ns: int
    size: int


def stamp(folder: str, name: str) -> Stamp | None:
    """Return the stamp of a local file; None where there is none, and elsewhere."""
    if is_uri(folder):
        return None
    try:
        found = os.stat(f"{folder}/{name}")  # noqa: PTH116 - as below
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp(found.st_ino, found.st_mtime_ns, found.st_size)


def size(folder: str, names: Sequence[str]) -> int:
    """Return the bytes of files in ``folder`` together; one that is gone counts as none."""
    if is_uri(folder):
        with store_answers(folder) as store:
            sizes = {found["path"]: found["size"] for batch in store.list() for found in batch}
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
    with store_answers(path) as store:
        found = store.list_with_delimiter()["common_prefixes"]
    return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)


def remove_empty(*paths: str) -> None:
    """Remove those of local folders in which nothing is, in their order; a store has none."""
    for path in paths:
        with suppress(OSError):
            Path(path).rmdir()


def remove_folder(path: str, holding: str) -> None:
    """Remove a folder and all in it; a local one moves into ``holding`` first, so it goes at once.

    That move is forced to the disk before anything in it goes: a power cut leaves all of it, or nothing.
    """
    if is_uri(path):
        with store_answers(path) as store:
            for batch in store.list():
                store.delete([found["path"] for found in batch])
        return
    aside = Path(holding, uuid4().hex)
    make_folder(aside.parent)
    Path(path).rename(aside)
    for parent in (aside.parent, Path(path).parent):
        force(parent)
    shutil.rmtree(aside)
