"""Times before 1678 and after 2261 that Spark wrote: delta-rs takes them for others.

Spark writes a TIMESTAMP as INT96, which delta-rs reads as nanoseconds in 64 bits, and those end there. A
query by its SQL can be told better, its change feed and what rewrites files cannot. Which files have such
times is known by their statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakestream.errors import StreamError
from lakestream.storage.places import files
from lakestream.storage.tables.log import FAR_US, read_commits

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lakestream.storage.tables.table import Table


@dataclass
class _Known:
    """Whether a table had such times at a version; it is taken to have them from then on."""

    table_id: str
    version: int
    found: bool


_known: WeakKeyDictionary[Table, _Known] = WeakKeyDictionary()


def has_far_times(table: Table) -> bool:
    """Return whether a file of the table, at the version seen last, has times that delta-rs cannot read.

    The files are looked at once, then only those of new commits.
    """
    known = _known.get(table)
    if known is None or known.table_id != table.table_id or known.version > table.version:
        known = _known[table] = _Known(table.table_id, table.version, _of_all(table))
    if known.version < table.version and not known.found:
        known.found = _of_commits(table, known.version)
    known.version = table.version
    return known.found


def _of_all(table: Table) -> bool:
    import pyarrow as pa

    with table.guard:  # in a store the handle may lack what came since
        found = pa.table(table.ahead.handle.get_add_actions(flatten=True))
        since = table.ahead.changes(table.version)
    ends = [
        name
        for name in found.column_names
        if name.startswith(("min.", "max.")) and pa.types.is_timestamp(found.schema.field(name).type)
    ]
    before = {path for name in ends for path in _far(found, name)} - since.removed
    return _written_so(table, before | {file.path for file in since.added.values() if file.is_far})


def _far(found: pa.Table, name: str) -> list[str]:
    """Return the paths of the files of which a statistic is beyond the ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = found[name].cast(pa.timestamp("us", found.schema.field(name).type.tz)).cast(pa.int64())
    beyond = pc.or_(pc.less(micros, FAR_US[0]), pc.greater(micros, FAR_US[1]))
    paths: list[str] = found["path"].filter(pc.fill_null(beyond, False)).to_pylist()
    return paths


def _of_commits(table: Table, after: int) -> bool:
    with table.guard:
        if table.ahead.handle.version() <= after:  # in a store, where each commit would be asked for
            since = table.ahead.changes(table.version).added.values()
            return _written_so(table, {file.path for file in since if file.is_far})
    try:
        commits = read_commits(table.path, after, table.version)
    except StreamError:
        return _of_all(table)
    return _written_so(table, {file.path for commit in commits for file in commit.files if file.is_far})


def _written_so(table: Table, paths: Iterable[str]) -> bool:
    """Return whether one of the files has a column of INT96; one that is not at hand is taken to have one."""
    return any(_has_int96(table, path) for path in paths)


def _has_int96(table: Table, path: str) -> bool:
    import pyarrow.parquet as pq

    if files.is_uri(table.path):
        return True
    try:
        schema = pq.read_metadata(files.join(table.path, path)).schema
    except OSError:
        return True
    return any(schema.column(number).physical_type == "INT96" for number in range(len(schema)))
