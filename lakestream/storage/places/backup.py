"""A copy of a lake as it was at one moment, beside the processes that go on writing to it.

What a lake consists of is listed while its writer's lock is held: no tick is recorded then. Files of rows
and commits are never changed, so they are copied after that, beside the next ticks. The list is written last,
and so is the mark of a lake that is restored, when all else was forced to the disk: what was cut short is
neither a backup nor a lake.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.errors import LakeError, NotSupportedError, StorageError
from lakestream.storage.places import files
from lakestream.storage.places.attempts import attempted
from lakestream.storage.places.layout import HANDED, MARKER, SYSTEM_FOLDER, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

LIST = "backup.json"
_FILES = "files"
_FORMAT = 1
_ATTEMPTS = 3
_CHANGING = ("_last_checkpoint", MARKER)
"""The files that are written anew under their names: the list has what is in them."""
_LEFT_OUT = ("set_aside", "dropped", "claims", "members", "copies", HANDED)
"""What there is no more of in a lake, what is for running processes, and what is there twice."""


@dataclass(frozen=True)
class Backup:
    """What a backup holds: files and their bytes, of which so many were not there from an earlier one.

    ``outside`` are tables of the lake that lie elsewhere: their owners keep them.
    """

    files: int
    bytes: int
    copied: int
    outside: tuple[str, ...] = ()


def back_up(
    layout: Layout,
    to: str,
    lock: Callable[[], AbstractContextManager[object]],
    outside: Mapping[str, str],
) -> Backup:
    """Copy a lake to a folder or an object store, as of one moment; ``outside`` are its tables elsewhere.

    A backup that is there is brought up to date: files that it has are not copied again, and those that the
    lake no longer has are named no longer. Raises NotSupportedError for a lake in an object store, LakeError
    BAD_PATH for a place within the lake, StorageError BACKUP_INCOMPLETE when files went meanwhile.
    """
    if not layout.is_local:
        raise NotSupportedError(
            "backup of a lake in an object store", hint="let the store keep versions of its objects"
        )
    to = _place(layout, to)
    try:
        return attempted(
            lambda: _copied(layout, to, lock, outside),
            FileNotFoundError,
            attempts=_ATTEMPTS,
            jitter_seconds=0,
        )
    except FileNotFoundError as error:
        raise StorageError(
            "BACKUP_INCOMPLETE",
            f"{error.filename} went while it was to be copied, at each of {_ATTEMPTS} attempts",
            hint="`lakestream backup` again: what was copied stays",
        ) from error


def _copied(
    layout: Layout, to: str, lock: Callable[[], AbstractContextManager[object]], outside: Mapping[str, str]
) -> Backup:
    """Copy once; FileNotFoundError for a file that upkeep took away meanwhile."""
    known = _listed(to) if files.exists(to, LIST) else {}
    with lock():
        contents = {name: Path(layout.root, name).read_text(encoding="utf-8") for name in _changing(layout)}
        stamps = dict(_files_of(Path(layout.root)))
    stamps = {name: stamp for name, stamp in stamps.items() if Path(name).name not in _CHANGING}
    copied = [name for name, stamp in stamps.items() if known.get(name) != stamp]
    for name in copied:
        _copy(Path(layout.root, name), to, f"{_FILES}/{name}")
    _force_names(to, (f"{_FILES}/{name}" for name in copied))
    said = {"format": _FORMAT, "files": stamps, "contents": contents, "outside": dict(outside)}
    files.write_bytes(to, LIST, json.dumps(said).encode())
    total = sum(size for size, _ in stamps.values())
    return Backup(len(stamps), total, len(copied), tuple(sorted(outside)))


def restore(backup: str, to: str) -> Backup:
    """Make a lake of a backup, in a folder where there is none, and return what it has.

    One that was cut short is begun anew. Raises LakeError NO_BACKUP where none is, LAKE_EXISTS,
    StorageError BACKUP_INCOMPLETE for a backup that lacks a file.
    """
    if not files.exists(backup, LIST):
        raise LakeError("NO_BACKUP", f"{backup} is no backup that was completed", hint="`lakestream backup`")
    layout = Layout(to)
    if not layout.is_local:
        raise NotSupportedError("restore to an object store", hint="restore to a folder")
    if layout.exists():
        raise LakeError("LAKE_EXISTS", f"there is a lake at {layout.root}", hint="name another folder")
    sizes = {name: size for name, (size, _) in _listed(backup).items()}
    for name, size in sizes.items():
        _fetch(backup, f"{_FILES}/{name}", Path(layout.root, name), size)
    _force_names(layout.root, sizes)
    said = json.loads(files.read_bytes(backup, LIST))
    for name in sorted(said["contents"], key=lambda one: Path(one).name == MARKER):
        files.write_bytes(layout.root, name, said["contents"][name].encode())
    layout.copy_marker()
    return Backup(len(sizes), sum(sizes.values()), len(sizes), tuple(sorted(said["outside"])))


def _place(layout: Layout, to: str) -> str:
    if files.is_uri(to):
        return to.rstrip("/")
    place = str(Path(to).expanduser().resolve())
    if Path(place).is_relative_to(layout.root) or Path(layout.root).is_relative_to(place):
        raise LakeError("BAD_PATH", f"{place} lies in the lake, or around it", hint="name another folder")
    return place


def _listed(backup: str) -> dict[str, tuple[int, int]]:
    """Return the size of each file, and when it was written (ns since 1970)."""
    said = json.loads(files.read_bytes(backup, LIST))
    if said.get("format") != _FORMAT:
        raise LakeError("NO_BACKUP", f"{backup} was made by a later lakestream", hint="install a newer one")
    return {name: (size, written) for name, (size, written) in said["files"].items()}


def _files_of(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the files of a lake with their sizes and times: logs first, whose rows are there by then."""
    found = [*root.rglob("_delta_log/*")]
    found += [file for file in root.rglob("*") if file.parent.name != "_delta_log"]
    for file in found:
        name = file.relative_to(root)
        if file.is_file() and not _is_left_out(name):
            stamp = file.stat()
            yield str(name), (stamp.st_size, stamp.st_mtime_ns)


def _changing(layout: Layout) -> Iterator[str]:
    """Yield the files that are written anew: what they name is there before they are, and listed after."""
    for known in _CHANGING:
        for file in Path(layout.root).rglob(known):
            if not _is_left_out(name := file.relative_to(layout.root)):
                yield str(name)


def _is_left_out(name: Path) -> bool:
    """Return whether a file is for running processes, or of what there was once."""
    if name.parts[0] != SYSTEM_FOLDER:
        return False
    return (len(name.parts) == 2 and name.name != MARKER) or name.parts[1] in _LEFT_OUT


def _copy(source: Path, folder: str, name: str) -> None:
    if files.is_uri(folder):
        with files.store_answers(folder) as store:
            store.put(name, source)
        return
    _copy_file(source, Path(folder, name))


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file, whose content is on the disk then; its name is once :func:`_force_names` was called."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    files.force(target)


def _force_names(root: str, names: Iterable[str]) -> None:
    """Have the names of files in a local folder, and of the folders they are in, last a power cut."""
    if files.is_uri(root):
        return
    top = Path(root)
    parents = {folder for name in names for folder in (top / name).parents if folder.is_relative_to(top)}
    for folder in sorted({*parents, top.parent}, reverse=True):
        files.force(folder)


def _fetch(backup: str, name: str, target: Path, size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if files.is_uri(backup):
            with files.store_answers(backup) as store, target.open("wb") as file:
                file.writelines(bytes(part) for part in store.get(name).stream())
            files.force(target)
        else:
            _copy_file(Path(backup, name), target)
        whole = target.stat().st_size == size
    except FileNotFoundError:
        whole = False
    if not whole:
        raise StorageError("BACKUP_INCOMPLETE", f"{backup} lacks {name}, or has another file of that name")
