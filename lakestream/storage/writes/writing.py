"""Rows written in one commit: by delta-rs, in a store with a request for each file and one for the commit.

delta-rs lists a log before each commit, and again behind it to read twice what it has written. In a store it
therefore writes into a mirror of the table, and what it has written there is put into the table under the
condition that nobody has committed meanwhile.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from lakestream.storage.places import files
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.tables import kept
from lakestream.storage.tables.durable import data_files
from lakestream.storage.tables.log import commit_name, known_commit
from lakestream.storage.tables.looks import look_anew
from lakestream.storage.tables.mirror import few_files, has_plain_rows, mirrored, small_files
from lakestream.storage.writes.checkpointing import NO_HOOKS, keep_checkpoints, owe_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, WriterProperties

    from lakestream.storage.tables.table import Table

_MIRRORED_BYTES = 64 << 20
"""More rows are not laid on this machine's disk: delta-rs sends them as it goes."""
_FEW_ASKED = 3
"""Files of others that are read in one step of a table's upkeep."""
_LARGE_BYTES = 100 << 20
"""The size from which on delta-rs leaves files as they are, where nothing else is said."""


def write_rows(
    table: Table,
    rows: pa.Table,
    *,
    replace: str | None = None,
    commit_properties: CommitProperties | None = None,
    target_file_size: int | None = None,
) -> None:
    """Append rows of the table's columns, or put them in the place of those that a predicate holds for.

    They come behind the version seen last; the table then stands at their commit. Raises delta-rs's
    CommitFailedError where another commit came in between, behind which the table stands then; on a local
    disk only where the two do not go together.
    """
    how: dict[str, Any] = {
        "mode": "append" if replace is None else "overwrite",
        "predicate": replace,
        "commit_properties": commit_properties,
        "target_file_size": target_file_size,
    }
    names, before = _mirrored_files(table, rows, replace), table.version
    if names is None:
        write_deltalake(table.handle, rows, post_commithook_properties=NO_HOOKS, **how)
    else:
        with mirrored(table, names) as mirror:
            write_deltalake(mirror, rows, post_commithook_properties=NO_HOOKS, **how)
            _put(table, mirror)
    keep_checkpoints(table, before)


def replace_rows(
    table: Table,
    rows: pa.Table,
    *,
    commit_properties: CommitProperties | None = None,
    writer_properties: WriterProperties | None = None,
) -> None:
    """Put rows, with their columns, in the place of all that a table has, of which none is read.

    Raises delta-rs's CommitFailedError as :func:`write_rows`.
    """
    how: dict[str, Any] = {
        "mode": "overwrite",
        "schema_mode": "overwrite",
        "commit_properties": commit_properties,
        "writer_properties": writer_properties,
        "post_commithook_properties": NO_HOOKS,
    }
    there, before = None if rows.nbytes > _MIRRORED_BYTES else small_files(table), table.version
    if there is None or not rows.schema.equals(table.schema):
        write_deltalake(table.handle, rows, **how)
    else:
        with mirrored(table, unread=there) as mirror:
            write_deltalake(mirror, rows, **how)
            _put(table, mirror)
    keep_checkpoints(table, before)


def made_with_rows(
    path: str, rows: pa.Table, properties: Mapping[str, str], *, commit_properties: CommitProperties
) -> bool:
    """Make a table in a store with its first rows, in a commit; false: another writer has made one."""
    with TemporaryDirectory(dir=scratch_folder()) as folder:
        write_deltalake(folder, rows, configuration={**properties}, commit_properties=commit_properties)
        return _is_put(path, Path(folder), 0, 0)


def all_rows(table: Table) -> pa.Table:
    """Return the rows of a table, with a request for each file in a store that was not written here."""
    import pyarrow as pa

    names = small_files(table)
    if names is None:
        return pa.table(table.handle.scan())
    with mirrored(table, [*names]) as mirror:
        return pa.table(mirror.scan())


def are_at_hand(table: Table) -> bool:
    """Return whether all rows of a table take few requests: most files were written here."""
    return len(_asked_for(table, small_files(table) or ())) <= _FEW_ASKED


def put_together(table: Table, target_bytes: int | None = None, *, in_parts: bool = False) -> bool:
    """Put the small files of a table together, in a commit that changes no row; return whether it was made.

    ``target_bytes`` is about the size of what they become, and of files that stay as they are; ``in_parts``
    leaves all but a few to the next time that a store has to be asked for. Raises delta-rs's
    CommitFailedError as :func:`write_rows`.
    """
    names, before = small_files(table, target_bytes or _LARGE_BYTES), table.version
    if names is not None and in_parts:
        left = {*_asked_for(table, names)[_FEW_ASKED:]}
        names = {name: size for name, size in names.items() if name not in left}
    if names is None:
        done = table.handle.optimize.compact(target_size=target_bytes, post_commithook_properties=NO_HOOKS)
        keep_checkpoints(table, before)
        return bool(done["numFilesAdded"])
    with mirrored(table, [*names]) as mirror:
        done = mirror.optimize.compact(target_size=target_bytes, post_commithook_properties=NO_HOOKS)
        if done["numFilesAdded"]:
            _put(table, mirror)
    if done["numFilesAdded"]:
        owe_checkpoint(table)
    return bool(done["numFilesAdded"])


def _asked_for(table: Table, names: Iterable[str]) -> list[str]:
    """Return those of a table's files that were neither written nor read here."""
    return [name for name in names if kept.held(table.path, name) is None]


def _mirrored_files(table: Table, rows: pa.Table, replace: str | None) -> list[str] | None:
    """Return the files that a mirror needs for a write; None where none is made for it."""
    if not files.is_uri(table.path) or rows.nbytes > _MIRRORED_BYTES or not has_plain_rows(table):
        return None
    return [] if replace is None else few_files(table)


def _put(table: Table, mirror: DeltaTable) -> None:
    """Put what a mirror's first write has left into the table, as its next commit."""
    folder, version = Path(unquote(urlparse(mirror.table_uri).path)), table.version + 1
    if not _is_put(table.path, folder, 1, version):
        look_anew()
        table.refresh()
        raise CommitFailedError(f"version {version} of {table.path} was committed by another writer")
    content = Path(folder, commit_name(1)).read_bytes()
    table.ahead.take(known_commit(table.path, version, content))


def _is_put(path: str, folder: Path, made: int, version: int) -> bool:
    """Put a commit that was made in a folder into a table, as a version; false: there is another one."""
    entry, name = folder / commit_name(made), commit_name(version)
    content = entry.read_bytes()
    for file in data_files(entry):
        kept.write(path, file, (folder / file).read_bytes())
    # The answer to a request that was done may be lost, and the request be made again.
    return kept.write_new(path, name, content) or content == kept.read(path, name)
