"""What is wrong with a lake, and its remedies: lakestream's own tables, those of users, and the streams."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakestream.engine.planning.checks import named_state
from lakestream.engine.rounds.notifier import sending_lock
from lakestream.engine.rounds.soundness import refuse_unsound
from lakestream.engine.streams.quarantine import RESULTS_SUFFIX, SOURCE_SUFFIX
from lakestream.errors import BusyError, LakestreamError, NotSupportedError, StorageError, StreamError
from lakestream.storage.names.moved import found_again
from lakestream.storage.places.backup import back_up
from lakestream.storage.places.layout import SYSTEM_FOLDER
from lakestream.storage.places.lock import note_boot, try_lock
from lakestream.storage.records.keyed import is_behind_copies, put_back, renew_copies
from lakestream.storage.tables.copies import Batches, Copies, copied_tables
from lakestream.storage.tables.own import last_said
from lakestream.storage.tables.table import Table, is_table
from lakestream.storage.writes.mending import can_mend, damage_of, go_back, mend, put_aside
from lakestream.storage.writes.mending import recover as recover_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.observation.verify import Verification
    from lakestream.statements.streams import StreamStatements
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.places.backup import Backup
    from lakestream.storage.records.registry import StreamRecord

_log = logging.getLogger(__name__)

Remedy = Literal[
    "mend", "rewind", "files", "events", "copies", "anew", "undo", "accept", "resync", "reattach", ""
]

_ASIDE, _OUTBOX, _STREAMS = "set_aside", "outbox", "streams"
_OF_TABLES = ("REGISTRY_DAMAGED", "TABLE_UNREADABLE", "READ_FAILED")
"""What a stream may be found in because of a table that was found damaged."""
_OTHERS = ("REGISTRY_REWOUND", "REGISTRY_TOUCHED")
"""What a list of streams is found as that is another one than there was; others cannot be read now."""
_GONE = "TABLE_NOT_FOUND"
_REMEDIES: dict[Remedy, str] = {
    "mend": "put aside what is damaged; rows in it are given up",
    "rewind": "go back to the newest version that is whole",
    "files": "write it anew of its files that can be read",
    "events": "make it anew, with all events that have not been sent",
    "copies": "write it anew of the copies of its rows that lakestream keeps",
    "anew": "put it aside whole, and have its stream compute it anew",
    "undo": "go back to what lakestream wrote last",
    "accept": "take it as it is, and compute all streams anew",
    "reattach": "take it from there: back into the lake, or under its name where that is of a table outside",
    "resync": "RECALCULATE STREAM … RESYNC: everything from the source as it is",
    "": "",
}


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: where, by which code, and what :meth:`Repair.repair` would do about it.

    ``remedy`` is empty where there is nothing that it could do; ``hint`` then says what can be done.
    """

    where: str
    code: str
    found: str
    remedy: Remedy
    hint: str

    @property
    def does(self) -> str:
        """What the remedy does."""
        return _REMEDIES[self.remedy] or self.hint


@dataclass(frozen=True)
class Repair:
    """Checks one lake, and repairs what it finds; between the ticks of other processes."""

    at: Workspace
    streams: StreamStatements
    verify: Callable[[str], Verification]

    def check(self, *, deep: bool = False) -> Iterator[Finding]:
        """Yield what is wrong: with lakestream's own tables, those of the databases, then the streams.

        Reads logs and records, and looks at the sizes of data files. ``deep`` reads these too, and compares
        every output with the batch evaluation of its stream (which needs Spark).
        """
        damaged = [*self._own_tables()]
        damaged = damaged or [*self._rewound()]
        yield from damaged
        if damaged:
            return  # what follows is read from them
        outputs = {table for record in self.at.registry.streams() for table in _computed(record)}
        for name, path in self._paths():
            found = [*_damage_of(name, path, "mend", deep=deep)]
            if found and name in outputs and not can_mend(path):
                found = [replace(one, remedy="anew") for one in found]
            damaged += found
            yield from found
        moved = self._moved()
        yield from moved.values()
        for record in self.at.registry.streams():
            for one in self._stream(record, deep=deep):
                known = damaged if one.code in _OF_TABLES else one.code == _GONE and record.source in moved
                if not known:
                    yield one

    def repair(self, finding: Finding) -> list[str]:
        """Do the remedy of a finding, and return what was done.

        Raises StorageError NOT_REPAIRABLE; NotSupportedError in an object store, whose versions do instead.
        """
        if not finding.remedy:
            return []
        with self.at.writing("repair", self._streams(), self._tables(finding.where)):
            if finding.remedy == "resync":
                record = self.streams.named(finding.where)
                self.streams.request(record, None)
                return [f"queued: the next round computes {finding.where} anew"]
            if finding.remedy == "accept":
                return [*self._accept()]
            if finding.remedy == "reattach":
                return self._reattach(finding.where)
            if not self.at.layout.is_local:
                raise NotSupportedError(
                    "to repair tables of a lake in an object store", hint="restore the objects"
                )
            return [*self._mend(finding), *self._write_anew(finding.where)]

    def _streams(self) -> list[StreamRecord]:
        """Return the streams, none where that cannot be said: then none ticks either."""
        try:
            return self.at.registry.streams()
        except StorageError:
            return []

    def _tables(self, where: str) -> list[TableInfo]:
        """Return the table of users that a finding is about; none where it is not known, or about others."""
        try:
            return [self.at.named(where)]
        except LakestreamError:
            return []

    def back_up(self, to: str) -> Backup:
        """Copy the lake as it is at one moment to a folder or a URI, while other processes go on.

        Only the list of its files is made between two ticks; ``restore`` makes a lake of the copy. Raises
        what :func:`lakestream.storage.places.backup.back_up` does.
        """
        root = Path(self.at.layout.root)
        outside = {
            f"{database}.{name}": path
            for (database, name), path in self.at.catalog.paths().items()
            if not Path(path).is_relative_to(root)
        }
        return back_up(self.at.layout, to, lambda: self.at.writing("backup"), outside)

    def _accept(self) -> Iterator[str]:
        """Take the streams as they are listed, and have each computed anew; yield what was done."""
        for record in self.at.registry.accept_streams():
            with suppress(LakestreamError):  # one that cannot be says so when it ticks
                yield self._compute_anew(record)

    def _compute_anew(self, record: StreamRecord) -> str:
        self.streams.request(record, None)
        return f"queued: the next round computes {record.full_name} anew"

    def _mend(self, finding: Finding) -> list[str]:
        aside = self.at.layout.system_path(f"{_ASIDE}/{finding.where}")
        path = self._path(finding.where)
        self.at.catalog.handles.forget(path)
        if finding.remedy == "anew":
            return [put_aside(Path(path), Path(aside))]
        if finding.remedy == "undo":
            return go_back(path)
        if finding.remedy == "events":
            return self._write_outbox(aside)
        if finding.remedy == "files":
            return self.at.registry.tick_logs()[Path(path).name].write_anew(aside)
        if finding.remedy == "copies":
            return self._put_back(path, aside)
        is_history_lost = finding.remedy == "mend" and not can_mend(path)
        done = mend(path, aside, rewinds=finding.remedy == "rewind")
        return [*done, *self._read_anew(finding.where)] if is_history_lost else done

    def _read_anew(self, table: str) -> Iterator[str]:
        """Have the streams that read a table go by what it has now; yield what was done."""
        for record in self._streams():
            if table in record.sources:
                yield self._compute_anew(record)

    def _write_outbox(self, aside: str) -> list[str]:
        """Make the outbox anew, and return what was done. Raises BusyError while another process sends."""
        self.at.notifier.close()
        lock = sending_lock(self.at.layout)
        if lock is None:
            raise BusyError("LAKE_LOCKED", "another process sends the lake's events", hint="stop it first")
        with lock:
            done, moved = self.at.outbox.write_anew(aside)
            self.at.deliveries.renumber(moved, self.at.outbox.version)
            self.at.outbox.was_written_anew()
        self._go_on("REGISTRY_DAMAGED", self._streams())
        return done

    def _go_on(self, code: str, streams: list[StreamRecord]) -> None:
        """Have streams run again that stand still by an error whose reason is gone."""
        for record in streams:
            if (record.last_error or "").startswith(f"{code}: "):
                self.at.registry.update(record.uuid, status="Running", last_error=None)

    def _put_back(self, path: str, aside: str) -> list[str]:
        """Write a table of lakestream's own anew, and return what was done."""
        done = put_back(path, aside)
        if Path(path).name == _STREAMS:
            with suppress(StorageError):  # the ticks' own records are damaged, too
                self.at.registry.accept_streams()
        return done

    def _write_anew(self, table: str) -> list[str]:
        """Have the streams compute a table anew whose output it is, and return what was done."""
        done: list[str] = []
        if table.startswith(f"{SYSTEM_FOLDER}/"):
            return done
        for record in self.at.registry.streams():
            if table in _computed(record):
                self.streams.request(record, None)
                done.append(f"queued: the next round computes {table} anew")
        return done

    def _path(self, where: str) -> str:
        name = where.removeprefix(f"{SYSTEM_FOLDER}/")
        if name != where:
            return self.at.layout.system_path(name)
        return self.at.layout.table_path(*where.split(".", 1))

    def _own_tables(self) -> Iterator[Finding]:
        root = Path(self.at.layout.system_root)
        copied = {*copied_tables(self.at.layout.system_root)}
        unsent = Batches(str(root / _OUTBOX))
        noted = {_OUTBOX} if unsent.are_in_use or unsent.noted() >= 0 else set()
        begun = {log.parent.name for log in root.glob("*/_delta_log") if _is_begun(log.parent)}
        for name in sorted(begun | copied | noted):
            where, path = f"{SYSTEM_FOLDER}/{name}", str(root / name)
            found = [*_damage_of(where, path, "mend", deep=True)] or [*_touched(where, path)]
            if not found and name in noted and _is_behind_batches(path):
                found = [_older(where, path, "REGISTRY_DAMAGED")]
            if not found and name in copied and is_behind_copies(path):
                found = [_older(where, path, "REGISTRY_REWOUND")]
            for one in found:
                yield replace(one, remedy=self._remedy(name)) if one.remedy == "mend" else one

    def _remedy(self, name: str) -> Remedy:
        """Return what would be done about damage of a table of lakestream's own."""
        if name in self.at.registry.tick_logs():
            return "mend" if can_mend(self.at.layout.system_path(name)) else "files"
        if name == _OUTBOX:
            return "events"
        return "copies" if Copies(self.at.layout.system_path(name)).are_kept() else "rewind"

    def _rewound(self) -> Iterator[Finding]:
        """Yield the list of streams where it was put back from an older copy, or is gone."""
        try:
            self.at.registry.streams()
        except StorageError as error:
            remedy: Remedy = "accept" if error.code in _OTHERS else ""
            yield Finding(f"{SYSTEM_FOLDER}/streams", error.code, error.message, remedy, error.hint)

    def _paths(self) -> list[tuple[str, str]]:
        """Return the tables in the lake, by name and path; those outside are for their owners to check."""
        names = [
            (base, name)
            for base in self.at.catalog.databases.names()
            for name in self.at.catalog.table_names(base)
        ]
        paths = [(f"{base}.{name}", self.at.layout.table_path(base, name)) for base, name in names]
        return [(name, path) for name, path in paths if _is_begun(Path(path))]

    def _moved(self) -> dict[str, Finding]:
        """Return the sources of streams that lie elsewhere than they did, by their names."""
        findings = {}
        for record in self.at.registry.streams():
            found = self._found_again(record)
            what = (
                f"there is no Delta table at {self._place(record.source)}; its own lies at {', '.join(found)}"
            )
            if len(found) == 1:
                findings[record.source] = Finding(record.source, _GONE, what, "reattach", "")
            elif found:
                hint = "several are of its id: put back the one that is it"
                findings[record.source] = Finding(record.source, _GONE, what, "", hint)
        return findings

    def _found_again(self, record: StreamRecord) -> list[str]:
        """Return where the source of a stream lies that is gone from its place; nothing where it is not."""
        if record.source.startswith(f"{SYSTEM_FOLDER}."):
            return []
        with suppress(LakestreamError):  # what else is wrong with it is found beside
            if self.at.catalog.find_table(*record.source.split(".", 1)) is None:
                place = self._place(record.source)
                is_own = place == self.at.layout.table_path(*record.source.split(".", 1))
                return found_again(
                    place, record.source_id, [path for _, path in self._paths()] if is_own else []
                )
        return []

    def _place(self, table: str) -> str:
        """Return where a table lies, or was, by its name."""
        database, name = table.split(".", 1)
        return self.at.catalog.paths().get((database, name)) or self.at.layout.table_path(database, name)

    def _reattach(self, table: str) -> list[str]:
        """Have a source be what was found elsewhere, and its streams go on."""
        readers = [record for record in self.at.registry.streams() if record.source == table]
        [path] = self._found_again(readers[0])
        database, name = table.split(".", 1)
        try:
            self.at.catalog.reattach(database, name, path)
        except OSError as error:
            raise StorageError(
                "NOT_REPAIRABLE",
                f"{path} cannot be moved to {self._place(table)}: {error}",
                hint="move it there by hand",
            ) from error
        self._go_on(_GONE, readers)
        return [f"{table} is what lay at {path}: it lies at {self._place(table)}"]

    def _stream(self, record: StreamRecord, *, deep: bool) -> Iterator[Finding]:
        name = f"{record.database}.{record.name}"
        if any(job.resync and job.status != "Done" for job in self.at.registry.recalculations(record.uuid)):
            return  # the next round computes it anew
        try:
            refuse_unsound(self.at.engine.services, record)
        except LakestreamError as error:
            yield _named(name, named_state(record, error))
            return
        if record.status == "Failed":
            code, _, why = (record.last_error or "").partition(": ")
            yield _named(name, named_state(record, StreamError(code, why)))
            return
        if not deep:
            return
        found = self.verify(name)
        if not found.holds:
            rows = f"{found.differing_rows:,} rows of the output differ from {found.compared_with}"
            yield Finding(name, "OUTPUT_DIFFERS", rows, "resync", f"VERIFY STREAM {name} lists them")


def recover(at: Workspace) -> None:
    """Put aside the commits that a power cut tore, where the machine was started anew since the last look.

    They are those that nobody was told of: what is recorded as done was forced to the disk before. Where
    another process writes to the lake, that one has looked, or does so now: it is waited for.
    """
    if (lock := try_lock(at.layout)) is None:
        with suppress(BusyError), at.writing("recover"):
            pass  # who had the lock may have been at this very work
        return
    with lock:
        own = [log.parent for log in Path(at.layout.system_root).rglob("_delta_log")]
        torn = [line for path in sorted(own) for line in _recovered(at, path, known=-1)]
        with suppress(LakestreamError):  # what is damaged is named when it is read
            for path, known in _known_versions(at).items():
                torn += _recovered(at, Path(path), known)
            at.layout.copy_marker()
            for name in copied_tables(at.layout.system_root):
                renew_copies(at.layout.system_path(name))
            outbox = at.layout.system_path(_OUTBOX)
            Batches(outbox).note(Table.open(outbox).version if is_table(outbox) else -1)
        note_boot(at.layout)
    for line in torn:
        _log.warning("the power was cut while %s", line)


def _recovered(at: Workspace, path: Path, known: int) -> list[str]:
    name = str(path.relative_to(at.layout.root)).replace(os.sep, ".")
    return recover_table(str(path), at.layout.system_path(f"{_ASIDE}/{name}"), known)


def _known_versions(at: Workspace) -> dict[str, int]:
    """Return the tables of the lake's own folders by path, each with the last version that streams know."""
    known = {
        at.layout.table_path(base, name): -1
        for base in at.catalog.databases.names()
        for name in at.catalog.table_names(base)
    }
    for record in at.registry.streams():
        plan, progress = at.registry.last(record.uuid)
        taken = [record.start_version, *(one.upto for one in (plan,) if one)]
        taken += [progress.version] if progress else []
        wrote = [progress.output.version] if progress and progress.output else []
        for name, versions in ((record.source, taken), (record.output, wrote)):
            path = at.layout.table_path(*name.split(".", 1))
            if path in known:
                known[path] = max([known[path], *versions])
    return known


def _computed(record: StreamRecord) -> tuple[str, ...]:
    """Return the tables of a stream that a RESYNC puts together anew, by name; some need not be there."""
    return record.output, *(f"{record.full_name}{suffix}" for suffix in (SOURCE_SUFFIX, RESULTS_SUFFIX))


def _named(stream: str, error: LakestreamError) -> Finding:
    remedy: Remedy = "resync" if "RESYNC" in error.hint else ""
    return Finding(stream, error.code, error.message, remedy, error.hint)


def _is_behind_batches(path: str) -> bool:
    """Return whether more was appended to a table than it has, or it was not made anew to the end."""
    batches = Batches(path)
    return batches.are_in_use or batches.noted() > Table.open(path).version


def _older(where: str, path: str, code: str) -> Finding:
    found = f"{path} was put back from an older copy: there are later ones of its rows"
    return Finding(where, code, found, "mend", "")


def _touched(where: str, path: str) -> Iterator[Finding]:
    """Yield what others changed in a table of lakestream's own."""
    try:
        last_said(path, -1, Table.open(path).version)
    except StorageError as error:
        if error.code == "REGISTRY_TOUCHED":
            yield Finding(where, error.code, error.message, "undo", error.hint)
        else:
            yield Finding(where, "REGISTRY_DAMAGED", error.message, "mend", "")


def _is_begun(table: Path) -> bool:
    """Return whether a table is there, or what is left of one: who died as one was made leaves folders."""
    return (table / "_delta_log").is_dir() and any(found.is_file() for found in table.rglob("*"))


def _damage_of(where: str, path: str, remedy: Remedy, *, deep: bool) -> Iterator[Finding]:
    try:
        why = damage_of(path, deep=deep)
    except (LakestreamError, OSError) as error:
        yield Finding(
            where, "IO_ERROR", str(error), "", "the storage refuses: nothing is known to be damaged"
        )
        return
    if why is not None:
        code = "REGISTRY_DAMAGED" if where.startswith(SYSTEM_FOLDER) else "TABLE_DAMAGED"
        yield Finding(where, code, why, remedy, "")
