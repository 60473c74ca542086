"""Kept handles on Delta tables, through delta-rs: what a table is, at which version, and what may be done."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from lakestream.errors import LakestreamError, StorageError
from lakestream.storage.columns.types import spark_type_of
from lakestream.storage.places import files
from lakestream.storage.places.refusals import disk_remedy, store_refusal, system_message
from lakestream.storage.tables.ahead import Ahead
from lakestream.storage.tables.checkpoints import exchanged, noted_checkpoint
from lakestream.storage.tables.far_times import has_far_times
from lakestream.storage.tables.log import Checkpoints, Rewrites, commit_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from deltalake import Field

    from lakestream.storage.columns.times import ReadTime
    from lakestream.storage.places.files import Stamp

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_REOPEN_AFTER = 20
"""Commits after which a handle is opened anew: one that follows commit by commit gets slower with
each (a scan of 2,000 files 98 ms against 7 ms on a fresh handle, which costs 10-20 ms to open)."""

_PINNED = 4
"""How many older versions of a table are kept open."""

_LACKS_VERSION = re.compile(
    r"No files in log segment|LogSegment end version|Expected contiguous commit files"
)
"""What delta-rs says where a log has no such version (any more); all else it says of what it cannot read."""
_REFUSAL = re.compile(r"\bGeneric \w+ error: (?!Requested range)|\(os error (?!2\))")
"""What delta-rs says where the storage refused: no file that is not there, or that is too short."""

_GAP = re.compile(
    r'\w[\w ]*: Expected contiguous commit files.*?filename: "0*(\d+)\.\w+".* -> .*?filename: "0*(\d+)\..*',
    re.DOTALL,
)
"""How delta-rs says that commits are gone from the midst of a log, by all that it knows of two files."""

_FOLDER = re.compile(r"/(?P<name>(?P<column>[^/=]+)=[^/]*)")
_LONGEST_FOLDER = 255
"""Bytes of the name of a folder, as all common file systems have it."""

FAR_TIMES = "times before 1678 or after 2261"
_DECIMAL_FOLDERS = "partitions of decimals"
"""Of a negative one delta-rs writes no number."""
"""What stands in the way like a feature: see :mod:`lakestream.storage.tables.far_times`."""

_READABLE = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
    "timestampNtz",
    "v2Checkpoint",
    FAR_TIMES,
    _DECIMAL_FOLDERS,
}
_CHANGES_UNREADABLE = {"columnMapping", FAR_TIMES}
_WRITABLE = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
}
_LEGACY_WRITER = {
    2: {"appendOnly", "invariants"},
    3: {"checkConstraints"},
    4: {"changeDataFeed", "generatedColumns"},
    5: {"columnMapping"},
    6: {"identityColumns"},
}


@dataclass(frozen=True)
class Capabilities:
    """What delta-rs can do with a table; where it cannot, Spark's way is taken.

    ``reasons`` names the table features that stand in the way.
    """

    arrow_reads: bool
    arrow_changes: bool
    arrow_writes: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeptRows:
    """Rows that were read of a table, and of what: they stand for it as long as it is the same."""

    what: tuple[object, ...]
    rows: pa.Table


class CommitFiles:
    """The files of a table's commits, where they can be looked at cheaply."""

    def __init__(self, path: str) -> None:
        self._path = path

    def stamp(self, version: int) -> tuple[int, Stamp | None]:
        """Tell a commit's file from another of its name, where files can be looked at cheaply."""
        with _named_errors(self._path):
            return version, files.stamp(self._path, commit_name(version))

    def may_follow(self, version: int) -> bool:
        """Return whether there are later versions: commits are numbered without gaps."""
        with _named_errors(self._path):
            return files.exists(self._path, commit_name(version + 1))

    def refuse_empty(self, version: int) -> None:
        """Raise TABLE_UNREADABLE where a commit from this version on is an empty file, as power cuts leave.

        delta-rs takes it for a commit without changes, and goes on from there when the file is put back.
        """
        while self._is_there(version):
            version += 1

    def refuse_empty_before(self, version: int) -> None:
        """Raise TABLE_UNREADABLE where one of the commits that a version is read of is an empty file."""
        lasting = noted_checkpoint(self._path)
        while version > lasting and self._is_there(version):
            version -= 1

    def _is_there(self, version: int) -> bool:
        stamp = self.stamp(version)[1]
        if stamp is not None and not stamp.size:
            raise _unreadable(self._path, f"the commit of version {version} is an empty file")
        return stamp is not None


class _OlderVersions:
    """Handles at older versions of a table, a few of them kept open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pinned: dict[int, DeltaTable] = {}

    def at(self, version: int, latest: int) -> DeltaTable:
        """Return a handle at a version; StorageError VERSION_NOT_FOUND, which names the latest one."""
        if version not in self._pinned:
            handle = self._opened(version, latest)
            while len(self._pinned) >= _PINNED:
                self._pinned.pop(next(iter(self._pinned)))
            self._pinned[version] = handle
        return self._pinned[version]

    def _opened(self, version: int, latest: int) -> DeltaTable:
        try:
            return DeltaTable(self._path, version=version)
        except (DeltaError, OSError) as error:
            if is_refusal(error) or not _LACKS_VERSION.search(str(error)):
                raise store_refusal(error, self._path) or _unreadable(
                    self._path, first_line(error)
                ) from error
            raise StorageError(
                "VERSION_NOT_FOUND",
                f"{self._path} has no version {version} that can be read: {first_line(error)}",
                hint=f"the latest version is {latest}",
            ) from error

    def clear(self) -> None:
        """Keep none open: the table may be another now."""
        self._pinned.clear()


class Table:
    """A kept handle: it follows the table's log by itself and is never disturbed by older reads.

    Its methods may be called from several threads.
    """

    def __init__(self, path: str, handle: DeltaTable) -> None:
        self.path = path
        self.guard = threading.RLock()
        self.last_transaction: tuple[object, int | None] | None = None
        """The version and the application id that were asked for or written last, and what is known of it."""
        self.ahead = Ahead(path)
        self.commit_files = CommitFiles(path)
        self._older = _OlderVersions(path)
        self._take(handle)
        self._compacted_at = self._opened_at
        self.checkpoints = Checkpoints(path)
        self._rewrites = ("", Rewrites(path))
        self.time: ReadTime | None = None
        """How the event time is read where the table has it as something else than a timestamp."""
        self.kept_changes: KeptRows | None = None

    def time_of(self, column: str) -> ReadTime | None:
        """Return how a column is read as the event time, None for one that is read as it is."""
        return self.time if self.time is not None and self.time.column == column else None

    def statistic_of(self, column: str) -> str:
        """Return by what name statistics of files have a column, or the value that a time is made of.

        Empty where they tell nothing of it: of an expression's columns nothing follows for what it gives.
        """
        time = self.time_of(column)
        if time is None:
            return column
        first, *fields = time.path
        if time.expression or (fields and _is_dotted(self.fields, first)):
            return ""
        return ".".join(time.path)

    def columns(self, version: int | None) -> list[str]:
        """Return the columns that readers see at a version: the event time that is made of some comes first.

        Raises StorageError VERSION_NOT_FOUND.
        """
        is_alike = version is None or self._handle.version() <= version <= self.version
        handle = self._handle if is_alike else self.at(version)
        names = [field.name for field in handle.schema().fields]
        time = self.time
        if time is None or time.column in names or not {*time.stored} <= {*names}:
            return names
        return [time.column, *names]

    @classmethod
    def open(cls, path: str) -> Table:
        """Open the table at its latest version.

        Raises StorageError TABLE_NOT_FOUND, or TABLE_UNREADABLE with delta-rs's reason.
        """
        return cls(path, _open(path))

    def refresh(self) -> int:
        """Go to the latest version and return it (about 2 ms); TABLE_NOT_FOUND when the table is gone.

        A table that was replaced by another at its path is opened anew: its ``table_id`` is another. On a
        local disk two looks at files say that nothing is new, in a store a request, once in a look.
        """
        with self.guard:
            if files.is_uri(self.path):
                if self._handle.version() > self.ahead.version:
                    self._stand()  # a write of ours has taken the handle there
                if not self.ahead.follow():
                    self._go_on()
                return self.version
            if self._stamp != self.commit_files.stamp(self._stamp[0]):
                return self.reopen()
            if self._handle.version() != self._stamp[0]:
                # A write of ours has taken the handle there.
                self._stand()
            version, stamp = self._stamp
            if stamp is not None and not self.commit_files.may_follow(version):
                return version
            self.commit_files.refuse_empty(version + 1)
            self._go_on()
            return self._handle.version()

    def _go_on(self) -> None:
        """Take the handle to the latest version."""
        is_old = self.ahead.version - self._opened_at >= _REOPEN_AFTER
        if files.is_uri(self.path) and (is_old or self.checkpoints.last > self._handle.version()):
            self.reopen()  # from the last checkpoint: to follow would be two requests for each commit
            return
        with _named_errors(self.path):
            self._handle.update_incremental()
        self._stand()

    def _stand(self) -> None:
        """Take the version that the handle has come to, with a fresh one now and then."""
        if self._handle.version() - self._opened_at >= _REOPEN_AFTER:
            self.reopen()
        else:
            self._stamp = self.commit_files.stamp(self._handle.version())
            self.ahead.begin(self._handle)

    def reopen(self) -> int:
        """Open the table anew (it may have been replaced) and return its latest version."""
        with self.guard:
            self._take(_open(self.path))
            self._older.clear()
            return self._handle.version()

    def _take(self, handle: DeltaTable) -> None:
        self.commit_files.refuse_empty_before(handle.version())
        self.commit_files.refuse_empty(handle.version() + 1)
        if (why := exchanged(self.path)) is not None:
            raise _unreadable(self.path, why)
        self._handle = handle
        self.last_transaction = None
        self._opened_at = handle.version()
        self._stamp = self.commit_files.stamp(self._opened_at)
        self.ahead.begin(self._handle)

    @property
    def handle(self) -> DeltaTable:
        """The handle at the version seen last: commits are made with it, under ``guard``."""
        if self.ahead.is_beyond:
            with self.guard:
                self._go_on()
        return self._handle

    def at(self, version: int | None) -> DeltaTable:
        """Return a handle at that version (None: the one seen last).

        Raises StorageError VERSION_NOT_FOUND when the table has no such version (any more).
        """
        with self.guard:
            if version is None:
                return self.handle
            if version > self.version:
                self.refresh()
            if version == self._handle.version():
                return self._handle
            if version > self._handle.version() and self.handle.version() == version:
                return self._handle
            return self._older.at(version, self.version)

    @property
    def grown(self) -> int:
        """How many commits there were since the table was compacted, or first opened here."""
        return self.version - self._compacted_at

    def was_compacted(self) -> None:
        """Begin to count anew, with a fresh handle."""
        with self.guard:
            if self._opened_at < self.version and not files.is_uri(self.path):
                self.reopen()
            self._compacted_at = self.version

    @property
    def mark(self) -> object:
        """What the table was when it was seen last: another one at its path has another mark."""
        version, stamp = self._stamp
        return (self.version, self.table_id) if stamp is None else (version, stamp)

    @property
    def version(self) -> int:
        """The version seen last."""
        return max(self._handle.version(), self.ahead.version)

    @property
    def fields(self) -> list[Field]:
        """The columns as Delta's fields."""
        return self._handle.schema().fields

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow's fields: plain strings, timestamps in microseconds, UTC."""
        import pyarrow as pa

        return pa.schema(self._handle.schema())

    @property
    def table_id(self) -> str:
        """The id that the table got when it was made; another id is another table."""
        return str(self._handle.metadata().id)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return dict(self._handle.metadata().configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the table is partitioned by."""
        return tuple(self._handle.metadata().partition_columns)

    @property
    def features(self) -> frozenset[str]:
        """The table features of its protocol, those of the older numbered protocols included."""
        protocol = self._handle.protocol()
        named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        if not named:
            named = {f for v, fs in _LEGACY_WRITER.items() if v <= protocol.min_writer_version for f in fs}
        return frozenset(name[:1].lower() + name[1:] for name in named)

    @property
    def has_change_feed(self) -> bool:
        """Whether the change feed is on."""
        return self.properties.get("delta.enableChangeDataFeed", "false").lower() == "true"

    @property
    def rewrites(self) -> Rewrites:
        """What is known of the commits that took rows away or wrote them anew."""
        with self.guard:
            if self._rewrites[0] != self.table_id:
                self._rewrites = (self.table_id, Rewrites(self.path))
            return self._rewrites[1]

    def transaction_version(self, app: str) -> int | None:
        """Return the last transaction version of an application id at the version seen last."""
        with self.guard:
            seen = (self.version, app)
            if self.last_transaction is None or self.last_transaction[0] != seen:
                ahead = self.ahead.transaction(app)
                known = self._handle.transaction_version(app) if ahead is None else ahead
                self.last_transaction = seen, known
            return self.last_transaction[1]


class Tables:
    """The kept handles of one lake, by path."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._times: dict[str, ReadTime | None] = {}
        self._guard = threading.Lock()

    def open(self, path: str) -> Table:
        """Return the kept handle, opened on first use; it stands at the version it saw last."""
        with self._guard:
            table = self._tables.get(path)
            if table is None:
                table = self._tables[path] = Table.open(path)
                table.time = self._times.get(path)
            return table

    def read_time(self, path: str, time: ReadTime | None) -> None:
        """Have all readers of a table read its event time so, whenever it is opened."""
        with self._guard:
            self._times[path] = time
            if path in self._tables:
                self._tables[path].time = time

    def latest(self, path: str) -> Table:
        """Return the kept handle at the table's latest version."""
        with self._guard:
            known = self._tables.get(path)
        if known is None:
            return self.open(path)
        known.refresh()
        return known

    def known(self, path: str) -> Table | None:
        """Return the kept handle, None for a table that was not opened."""
        with self._guard:
            return self._tables.get(path)

    def forget(self, path: str) -> None:
        """Drop the handle, for a table that was dropped."""
        with self._guard:
            self._tables.pop(path, None)


def _is_dotted(fields: list[Field], struct: str) -> bool:
    """Return whether the name of a field of a struct may be another column's in statistics."""
    return any(
        "." in field.name or (field.name == struct and "." in spark_type_of(field)) for field in fields
    )


def capabilities(table: Table) -> Capabilities:
    """Return what delta-rs can do with the table, from its features and the times that are in it.

    Only Spark knows the times that an expression gives. A feature that is not known here counts as standing
    in the way of everything.
    """
    features = _active_features(table) | ({FAR_TIMES} if has_far_times(table) else set())
    unreadable = features - _READABLE
    no_changes = unreadable | (features & _CHANGES_UNREADABLE)
    unwritable = unreadable | (features - _WRITABLE)
    by_spark = table.time is not None and bool(table.time.expression)
    return Capabilities(
        arrow_reads=not (unreadable or by_spark),
        arrow_changes=not (no_changes or by_spark),
        arrow_writes=not unwritable,
        reasons=tuple(sorted(no_changes | unwritable)),
    )


def _active_features(table: Table) -> set[str]:
    """Leave out what the older numbered protocols allow, and an upgrade then names, but is not used."""
    texts = [field.to_json() for field in table.fields]
    unused = {"columnMapping", "generatedColumns", "identityColumns"}
    if table.properties.get("delta.columnMapping.mode", "none") != "none":
        unused.discard("columnMapping")
    if any("delta.generationExpression" in text for text in texts):
        unused.discard("generatedColumns")
    if any("delta.identity." in text for text in texts):
        unused.discard("identityColumns")
    return (set(table.features) | _of_folders(table)) - unused


def _of_folders(table: Table) -> set[str]:
    kinds = (spark_type_of(field) for field in table.fields if field.name in table.partition_columns)
    return {_DECIMAL_FOLDERS} if any(kind.startswith("decimal") for kind in kinds) else set()


def first_line(error: BaseException) -> str:
    r"""Return what an error says in a line, with the causes that delta-rs draws arrows to.

    The rest of delta-rs's and of Spark's errors is a stack.

    >>> first_line(Exception("An error occurred while calling o1.load.\n: [NO_FEATURE] No.\n at x"))
    '[NO_FEATURE] No.'
    """
    text = _GAP.sub(r"the commits between versions \1 and \2 are gone", _COLOURS.sub("", str(error)))
    first, *more = text.strip().splitlines() or [""]
    if more and first.startswith("An error occurred while calling "):
        return more[0].removeprefix(": ")
    causes = takewhile(lambda line: line.startswith("↳"), map(str.strip, more))
    return ": ".join([first, *(cause.removeprefix("↳").strip() for cause in causes)])


def not_done(code: str, what: str, error: BaseException) -> StorageError:
    """Return the error of a code for what was not done, with what is to be done where a disk refused it.

    A folder of a partition that no file system takes is FOLDER_TOO_LONG.
    """
    for found in _FOLDER.finditer(str(error)):
        if len(found["name"].encode()) > _LONGEST_FOLDER:
            return StorageError(
                "FOLDER_TOO_LONG",
                f"{what or 'nothing was written'}: a value of {unquote(found['column'])}, by which the table "
                f"is partitioned, makes a folder's name of more than {_LONGEST_FOLDER} bytes",
                hint="partition by what is shorter: a text cut by left(…, 80), a number that is rounded",
            )
    said = system_message(error) if isinstance(error, OSError) and error.strerror else first_line(error)
    return StorageError(code, f"{what}: {said}" if what else said, hint=disk_remedy(said))


def is_refusal(error: BaseException) -> bool:
    """Return whether the storage refused to read or write, which may pass; what is damaged stays so."""
    return isinstance(error, OSError) or _REFUSAL.search(str(error)) is not None


def storage_refusal(error: BaseException) -> LakestreamError | None:
    """Return what the storage refused as IO_ERROR, or by its name where that is an object store's.

    None for an error that is none of the storage's.

    A panic of a library in Rust, which is no Exception, is one too: of a file that it does not expect, or for
    want of files and threads.
    """
    if (named := store_refusal(error)) is not None:
        return named
    # Its other errors, of a kind of their own, are of what was asked for.
    if isinstance(error, OSError) or type(error) in (DeltaError, CommitFailedError):
        return not_done("IO_ERROR", "", error)
    if type(error).__name__ == "PanicException":
        return StorageError("IO_ERROR", f"the storage's library gave up: {first_line(error)}")
    return None


@contextmanager
def refusals_named() -> Iterator[None]:
    """Raise by its name what an object store refused, and IO_ERROR (StorageError) for what a disk does.

    A panic in Rust is one, too: nothing that catches errors would catch it. What a connection says, to Spark
    or others, is left as it is.
    """
    try:
        yield
    except ConnectionError:
        raise
    except Exception as error:
        named = storage_refusal(error)
        if named is None or named is error:
            raise
        raise named from error
    except BaseException as error:
        if (of_storage := storage_refusal(error)) is not None:
            raise of_storage from error
        raise


def is_table(path: str) -> bool:
    """Return whether a Delta table is there. Raises TABLE_UNREADABLE, or what a store refused."""
    with _named_errors(path):
        return DeltaTable.is_deltatable(path)


def _open(path: str) -> DeltaTable:
    with _named_errors(path):
        return DeltaTable(path)


@contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Raise TABLE_NOT_FOUND, TABLE_UNREADABLE or a store's refusal for what delta-rs or the disk says."""
    try:
        yield
    except TableNotFoundError as error:
        raise StorageError("TABLE_NOT_FOUND", f"there is no Delta table at {path}") from error
    except (DeltaError, OSError) as error:
        raise store_refusal(error, path) or _unreadable(path, first_line(error)) from error


def _unreadable(path: str, why: str) -> StorageError:
    return StorageError(
        "TABLE_UNREADABLE",
        f"the Delta table at {path} cannot be read: {why}",
        hint="its files, those of _delta_log too, are to be there, whole, and open to this process",
    )
