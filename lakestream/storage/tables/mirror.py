"""Tables in a store, in part on this machine: what delta-rs would ask a store for again and again.

A mirror is a Delta table in a folder for a moment: with the schema, the properties and the protocol of
another one, and with those of its files that are needed, each of which is one request.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deltalake import DeltaTable

from lakestream.errors import StorageError
from lakestream.storage.places import files
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.tables import kept
from lakestream.storage.tables.datafiles import within
from lakestream.storage.tables.log import commit_name
from lakestream.storage.tables.looks import once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakestream.storage.tables.datafiles import Span
    from lakestream.storage.tables.log import AddedFile
    from lakestream.storage.tables.table import Table

_FEW_FILES = 8
_FEW_BYTES = 4 << 20
"""Files of so many bytes together are taken whole: delta-rs asks four times and more for parts of each."""


_PUT_TOGETHER = 1_000
_PUT_TOGETHER_BYTES = 64 << 20
"""Files that are put together on this machine, at most: more are left to delta-rs, as it reads in parts."""


@contextmanager
def mirrored(
    table: Table, names: Sequence[str] = (), unread: Mapping[str, int] | None = None
) -> Iterator[DeltaTable]:
    """Give a mirror of a table with some of its files, by their paths; it is at version 0.

    Files that are ``unread``, by path with their bytes, it has by name alone: to be removed. Raises
    StorageError READ_FAILED for a file that is gone.
    """
    with TemporaryDirectory(dir=scratch_folder()) as folder:
        taken = [_taken(table, name, Path(folder)) for name in names]
        known = [_added(name, size) for name, size in (unread or {}).items()]
        actions = [*_terms(table.ahead.handle), *taken, *known]
        first = Path(folder, commit_name(0))
        first.parent.mkdir()
        first.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        yield DeltaTable(folder)


def few_files(
    table: Table,
    version: int | None = None,
    *,
    time: str | None = None,
    spans: Sequence[Span] = (),
) -> list[str] | None:
    """Return the files of a table in a store that may have rows of some spans, where they are few and small.

    ``version`` None is the one seen last; the spans are ``[lower, upper)`` in µs since 1970 UTC, all rows
    where there are none. None: they are not few, or not the table's rows as they lie there, or not known
    without the log.
    """
    sizes = _sizes(table, version, time, spans)
    if sizes is None:
        return None
    is_few = len(sizes) <= _FEW_FILES and sum(sizes.values()) <= _FEW_BYTES
    return [*sizes] if is_few and all(map(_is_plain, sizes)) else None


def rows_there(table: Table) -> int:
    """Return how many rows a table has whose files all have statistics, at the version seen last."""
    import pyarrow as pa

    with table.guard:
        changes = table.ahead.changes(table.version)
        found = pa.table(table.ahead.handle.get_add_actions())
    counted = zip(found["path"].to_pylist(), found["num_records"].to_pylist(), strict=True)
    before = sum(rows or 0 for name, rows in counted if name not in changes.removed)
    return before + sum(file.rows or 0 for file in changes.added.values())


def count_files(table: Table) -> int:
    """Return how many data files a table has at the version seen last."""
    with table.guard:
        changes = table.ahead.changes(table.version)
        return len(table.ahead.handle.file_uris()) - len(changes.removed) + len(changes.added)


def small_files(table: Table, bytes_each: float = inf) -> dict[str, int] | None:
    """Return the files of a table in a store, at the version seen last, that have fewer bytes, with theirs.

    None: they are many or large together, or not the table's rows as they lie there.
    """
    sizes = _sizes(table, None)
    if sizes is None:
        return None
    small = {name: size for name, size in sizes.items() if size < bytes_each}
    is_little = len(small) <= _PUT_TOGETHER and sum(small.values()) <= _PUT_TOGETHER_BYTES
    return small if is_little and all(map(_is_plain, small)) else None


def _sizes(
    table: Table,
    version: int | None,
    time: str | None = None,
    spans: Sequence[Span] = (),
) -> dict[str, int] | None:
    """Return the sizes of a table's files in a store that may have rows of some spans; None as said there."""
    if not files.is_uri(table.path) or not has_plain_rows(table):
        return None
    with table.guard:
        if version is not None and version > table.version:
            table.refresh()
        upto = table.version if version is None else version
        if not table.ahead.since <= upto <= table.version:
            return None
        parts = [within(table, table.ahead.handle, time, *span) for span in spans or [(None, None)]]
        changes = table.ahead.changes(upto)
    sizes: dict[str, int] = {}
    for found in parts:
        sizes.update(zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True))
    for name in changes.removed:
        sizes.pop(name, None)
    added = changes.added.values()
    sizes.update((file.path, file.size) for file in added if _may_have(file, table, time, spans))
    return sizes


def has_plain_rows(table: Table) -> bool:
    """Return whether the files of a table in a store have its rows and columns as they are."""
    mapped = table.properties.get("delta.columnMapping.mode", "none") != "none"
    return not (mapped or table.partition_columns or "deletionVectors" in table.features)


def _may_have(file: AddedFile, table: Table, time: str | None, spans: Sequence[Span]) -> bool:
    """Return whether a file may have rows of some spans of time, by its statistics."""
    ends = file.times(time) if time is not None and table.time_of(time) is None else None
    if ends is None or not spans:
        return True
    first, last = ends
    return any(
        (lower is None or last >= lower) and (upper is None or first < upper) for lower, upper in spans
    )


def _is_plain(name: str) -> bool:
    """Return whether a path is that of a file in the table's own folder, with nothing encoded."""
    return not set("%/: ") & set(name)


def _terms(handle: DeltaTable) -> list[dict[str, Any]]:
    """Return the first actions of a table that is as another (Delta PROTOCOL.md, "Actions")."""
    made, protocol = handle.metadata(), handle.protocol()
    versions = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }
    metadata = {
        "id": made.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": handle.schema().to_json(),
        "partitionColumns": made.partition_columns,
        "configuration": made.configuration,
    }
    said = {name: value for name, value in versions.items() if value is not None}
    return [{"protocol": said}, {"metaData": metadata}]


def _taken(table: Table, name: str, folder: Path) -> dict[str, Any]:
    """Take a file over, and return its action."""
    try:
        content = once((table.path, name), lambda: kept.written(table.path, name))
    except FileNotFoundError as error:
        raise StorageError("READ_FAILED", f"the data file {name} of {table.path} is gone") from error
    Path(folder, name).write_bytes(content)
    return _added(name, len(content))


def _added(name: str, size: int) -> dict[str, Any]:
    added = {"path": quote(name), "partitionValues": {}, "size": size, "modificationTime": 0}
    return {"add": {**added, "dataChange": True}}
