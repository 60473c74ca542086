"""A table that is damaged: what is wrong with it, and how it is made readable again.

Nothing is deleted: what is damaged is put aside, into a folder that keeps its name. Local disks only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable

from lakestream.errors import LakestreamError, StorageError
from lakestream.storage.places.files import force
from lakestream.storage.tables.checkpoints import disagreement, newest_checkpoint
from lakestream.storage.tables.durable import checksum_of, data_files
from lakestream.storage.tables.log import is_commit
from lakestream.storage.tables.own import as_before, last_own, own
from lakestream.storage.tables.table import Table, first_line, is_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_LOG, _LAST_CHECKPOINT = "_delta_log", "_last_checkpoint"
_LOOKED_BACK = 50
_NOTHING = '{"commitInfo":{"operation":"REPAIR","operationParameters":{},"engineInfo":"lakestream"}}\n'
"""A commit in the place of one that was lost."""
_TIMES_IN_COMMITS = "delta.enableInCommitTimestamps"
_PARQUET = b"PAR1"
"""What a file of Parquet begins and ends with."""
_CHECKSUM_HEAD = 8
"""Bytes before Hadoop's checksums: `crc`, a zero, and how many bytes of the file each of them is of."""


def damage_of(path: str, *, deep: bool) -> str | None:
    """Return what is wrong with a table, None for nothing.

    Its log is read, and its data files are held against it by their sizes; ``deep`` reads them too, with the
    checksums of their pages where they have some. Raises what the storage refused: that is no damage.
    """
    why = _why_closed(Path(path))
    if why is not None:
        return why
    handle = DeltaTable(path)
    return next((f"{name} {why}" for name, why in _damaged_files(path, handle, deep=deep)), None)


def mend(path: str, aside: str, *, rewinds: bool) -> list[str]:
    """Make a table readable again, and return what was done, in order.

    A damaged end of the log is put into the folder ``aside``, with ``rewinds`` also what follows on damage in
    the middle of it. Without, a commit in the middle that is damaged or gone becomes one that changes
    nothing, where none that follows takes away what it had put in. Of damaged data files the rows are given
    up; with ``rewinds`` the newest version that needs none of them takes the table's place, where there is
    one. Raises StorageError NOT_REPAIRABLE.
    """
    done = [*_mend_log(Path(path), Path(aside), rewinds=rewinds)]
    handle = DeltaTable(path)
    damaged = [name for name, _ in _damaged_files(path, handle, deep=True)]
    if not damaged:
        return done
    whole = _newest_whole(path, handle.version()) if rewinds else None
    if whole is not None:
        handle.restore(whole, commit_properties=as_before(path, handle.version()))
        return [*done, f"version {whole} took the place of version {handle.version()}"]
    done += [put_aside(Path(path, name), Path(aside)) for name in damaged]
    DeltaTable(path).repair(commit_properties=as_before(path, handle.version()))
    return done


def can_mend(path: str) -> bool:
    """Return whether the log of a table can be read, or some of it be put aside so that it can."""
    if _why_closed(Path(path)) is None:
        return True
    log = Path(path, _LOG)
    damaged = {*_damaged_log(log, rewinds=False)}
    return bool(damaged) and not damaged.issuperset(log.glob("*[0-9].json"))


def whole_files(path: str) -> list[pa.Table]:
    """Return the rows of each file in a table's folder that can be read, the oldest first."""
    import pyarrow.parquet as pq

    files = sorted(Path(path).glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    return [pq.read_table(file) for file in files if _damage(file) is None]


def go_back(path: str) -> list[str]:
    """Undo what others changed in a table of lakestream's own since it wrote there last; say what was done.

    Raises StorageError NOT_REPAIRABLE.
    """
    handle = DeltaTable(path)
    whole = last_own(path, handle.version())
    if whole is None:
        raise StorageError(
            "NOT_REPAIRABLE",
            f"the log of {path} has nothing of lakestream's",
            hint="put it back from a backup",
        )
    handle.restore(whole, commit_properties=own())
    return [f"version {whole} took the place of version {handle.version() - 1}"]


def recover(path: str, aside: str, known: int) -> list[str]:
    """Put aside the last commits of a table that a power cut has torn, and return what was done.

    Of several that one call of delta-rs or Spark made, an earlier one may not have come and a later one have:
    what follows on one that is not there can be read by nobody, and goes too. Commits up to the version
    ``known`` were forced to the disk: what is wrong with those is damage, and stays. So does a table
    of which nothing can be said.
    """
    log, done = Path(path, _LOG), []
    done += [put_aside(file, Path(aside)) for file in _torn_checkpoints(log)]
    done += [put_aside(entry, Path(aside)) for entry in _behind_a_gap(log, known)]
    for entry in sorted(log.glob("*[0-9].json"), reverse=True):
        if int(entry.stem) <= known:
            break
        if not _is_torn(entry):
            done += [put_aside(file, Path(aside)) for file in _torn_checksums(entry)]
            break
        done.append(put_aside(entry, Path(aside)))
    if (log.is_dir() and not any(log.glob("*.json"))) or _is_empty(log.parent):
        done.append(put_aside(log.parent, Path(aside)))  # it was being made
    return done


def _behind_a_gap(log: Path, known: int) -> list[Path]:
    """Return the commits, the newest first, from the first one that is gone or torn behind all that is known.

    None where a table does not begin with its first commit or a checkpoint: that is damage.
    """
    entries = {int(entry.stem): entry for entry in sorted(log.glob("*[0-9].json"))}
    lasting = max(known, _lasting(log))
    if lasting < 0 and 0 not in entries:
        return []
    whole = next(at for at in count(lasting + 1) if at not in entries or not _is_commit(entries[at]))
    return [entries[at] for at in sorted(entries, reverse=True) if at >= whole]


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _is_torn(entry: Path) -> bool:
    """Return whether a commit, or a file that it put in, did not come whole to the disk."""
    if not _is_commit(entry):
        return True
    return not all(_is_whole(entry.parent.parent / name) for name in data_files(entry))


def _is_whole(file: Path) -> bool:
    """Return whether a data file is there from its beginning to its end; others than Parquet if not empty."""
    try:
        with file.open("rb") as opened:
            head = opened.read(4)
            opened.seek(-min(4, file.stat().st_size), os.SEEK_END)
            return head == opened.read() == _PARQUET if file.suffix == ".parquet" else bool(head)
    except FileNotFoundError:
        return False


def _torn_checksums(entry: Path) -> list[Path]:
    """Return the checksums of a commit by Spark that did not come whole: Spark could not read it."""
    files = [entry, *(entry.parent.parent / name for name in data_files(entry))]
    return [checksum_of(file) for file in files if _has_torn_checksum(file)]


def _has_torn_checksum(file: Path) -> bool:
    """Return whether the checksums beside a file, four bytes a part, are not those of all parts."""
    try:
        found = checksum_of(file).read_bytes()
    except FileNotFoundError:
        return False
    part = int.from_bytes(found[4:_CHECKSUM_HEAD])
    return not part or len(found) != _CHECKSUM_HEAD + 4 * -(-file.stat().st_size // part)


def _torn_checkpoints(log: Path) -> list[Path]:
    """Return the files of checkpoints that did not come whole, and what names one that is not there whole."""
    checkpoints = _checkpoints(log)
    torn = [version for version, files in checkpoints.items() if not all(map(_is_whole, files))]
    named, there = log / _LAST_CHECKPOINT, checkpoints.keys() - {*torn}
    try:
        stale = [] if int(json.loads(named.read_bytes())["version"]) in there else [named]
    except FileNotFoundError:
        stale = []
    except (ValueError, KeyError, TypeError):
        stale = [named]
    return [*stale, *(file for version in torn for file in checkpoints[version])]


def _checkpoints(log: Path) -> dict[int, list[Path]]:
    """Return the files of each checkpoint by its version."""
    found: dict[int, list[Path]] = {}
    for file in sorted(log.glob("[0-9]*.checkpoint*")):
        if file.suffix in (".parquet", ".json"):  # others are on their way to their names
            found.setdefault(int(file.name.partition(".")[0]), []).append(file)
    return found


# --- the log ---


def _mend_log(table: Path, aside: Path, *, rewinds: bool) -> Iterator[str]:
    """Put damaged files of a log aside until it can be read; yield what was done."""
    while (why := _why_closed(table)) is not None:
        damaged = _damaged_log(table / _LOG, rewinds=rewinds)
        lost = [] if damaged or rewinds else _dispensable(table / _LOG)
        if not damaged and not lost:
            raise StorageError(
                "NOT_REPAIRABLE",
                f"{table} cannot be made readable: {why}",
                hint="put its log back from a backup",
            )
        for file in damaged:
            yield put_aside(file, aside)
        if lost:
            yield from _done_without(lost, aside)


def _done_without(lost: list[Path], aside: Path) -> Iterator[str]:
    """Have commits change nothing, and put aside what Spark sums up of those that follow."""
    log = lost[0].parent
    sums = [file for file in log.glob("[0-9]*.crc") if file.stem >= lost[0].stem]
    for file in (*sums, *(entry for entry in lost if entry.exists())):
        yield put_aside(file, aside)
    for entry in lost:
        entry.write_text(_NOTHING)
        yield f"{entry} changes nothing now: the table is as if that commit had not been made"
    for file in (*lost, log):
        force(file)


def _dispensable(log: Path) -> list[Path]:
    """Return the commits in the middle of a log that are damaged or gone, if the others stand without them.

    That is so where all data files that others take away are known by others to have been put in.
    """
    entries = {int(entry.stem): entry for entry in log.glob("*[0-9].json")}
    lasting = _lasting(log)
    needed = range(lasting + 1, max(entries, default=-1) + 1)
    lost = [at for at in needed if at not in entries or not _is_commit(entries[at])]
    if not lost or lost[0] == 0 or lost[-1] == needed[-1]:
        return []
    known: set[str] = set()
    if lasting >= 0:
        before = DeltaTable(log.parent, version=lasting)
        if before.metadata().configuration.get(_TIMES_IN_COMMITS) == "true":
            return []  # as below
        known = {name for name, _ in _files(before)}
    for at in needed:
        for action in [] if at in lost else map(json.loads, entries[at].read_bytes().splitlines()):
            if "add" in action:
                known.add(unquote(action["add"]["path"]))
            if "remove" in action and unquote(action["remove"]["path"]) not in known:
                return []
            if action.get("metaData", {}).get("configuration", {}).get(_TIMES_IN_COMMITS) == "true":
                return []  # a commit of no time is none there
    return [log / f"{at:020}.json" for at in lost]


def _why_closed(table: Path) -> str | None:
    """Return why a table cannot be opened as its log has it, None where it can.

    Raises what the storage refused.
    """
    try:
        Table.open(str(table))
        lasting = _lasting(table / _LOG)
        entries = [entry for entry in table.glob(f"{_LOG}/*[0-9].json") if int(entry.stem) > lasting]
        broken = next((entry.name for entry in sorted(entries) if not _is_commit(entry)), None)
        return disagreement(str(table)) if broken is None else f"{broken} of its log is damaged"
    except LakestreamError as error:
        if error.__cause__ is not None and is_refusal(error.__cause__):
            raise
        return error.message


def _damaged_log(log: Path, *, rewinds: bool) -> list[Path]:
    """Return the files of a log that stand in the way, the newest first; none where that leads nowhere."""
    commits = sorted(log.glob("*[0-9].json"), reverse=True)
    lasting = _lasting(log)
    if idle := [commit for commit in commits if int(commit.stem) <= lasting and not _is_commit(commit)]:
        return idle
    broken = [number for number, commit in enumerate(commits) if not _is_commit(commit)]
    if broken and (rewinds or broken == [*range(len(broken))]):
        return commits[: broken[-1] + 1]
    last = log / _LAST_CHECKPOINT
    checkpoints = [file for file in sorted(log.glob("*.checkpoint*.parquet"), reverse=True) if _damage(file)]
    if not checkpoints and not broken and disagreement(str(log.parent)):
        checkpoints = newest_checkpoint(str(log.parent))
    return [file for file in (last, *checkpoints) if file.exists()] if not broken else []


def _lasting(log: Path) -> int:
    """Return the version of the newest checkpoint that is whole, and stands for what was before; -1: none."""
    whole = [version for version, files in _checkpoints(log).items() if all(map(_is_whole, files))]
    return max(whole, default=-1)


def _is_commit(file: Path) -> bool:
    return is_commit(file.read_bytes())


# --- the data ---


def _damaged_files(path: str, handle: DeltaTable, *, deep: bool) -> Iterator[tuple[str, str]]:
    """Yield the data files of a version that are not what the log says, and why."""
    for name, size in _files(handle):
        file = Path(path, name)
        try:
            there = file.stat().st_size
        except FileNotFoundError as error:
            yield name, f"cannot be read: {error.strerror}"
            continue
        why = f"has {there:,} bytes instead of {size:,}" if there != size else None
        if why is None and deep:
            why = _damage(file)
        if why is not None:
            yield name, why


def _files(handle: DeltaTable) -> Iterator[tuple[str, int]]:
    """Yield the data files of a version, with the bytes that its log says they have."""
    import pyarrow as pa

    actions = pa.table(handle.get_add_actions(flatten=True)).select(["path", "size_bytes"])
    names, sizes = (actions[name].to_pylist() for name in actions.column_names)
    yield from zip(map(unquote, names), sizes, strict=True)


def _damage(file: Path) -> str | None:
    """Return what is wrong with a Parquet file, None for nothing; reads it whole, batch by batch."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for _ in parquet.iter_batches():
                pass
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system; Arrow's own say what is wrong in the file
        return f"is damaged: {first_line(error)}"
    return None


def _newest_whole(path: str, version: int) -> int | None:
    """Return the newest version before one whose files are all there and whole, None where none is known."""
    for older in range(version - 1, max(-1, version - _LOOKED_BACK), -1):
        with suppress(Exception):  # the log may be gone there: delta-rs says so in several ways
            if not any(_damaged_files(path, DeltaTable(path, version=older), deep=True)):
                return older
    return None


def put_aside(file: Path, aside: Path) -> str:
    """Move a file into a folder, under its name or the next one that is free; its checksums, by Spark, go.

    They would be held against what takes its place.
    """
    checksum_of(file).unlink(missing_ok=True)
    aside.mkdir(parents=True, exist_ok=True)
    free = next(name for number in count() if not (aside / (name := _numbered(file.name, number))).exists())
    if file.exists():
        file.replace(aside / free)
    return f"{file} was put aside as {aside / free}"


def _numbered(name: str, number: int) -> str:
    return f"{name}.{number}" if number else name
