"""Which points a write to the tree names: kept in its commit, where the change feed does not tell.

A merge leaves what a row does not name, so the feed's rows hold more points than were written, and of a
statement of several rows the feed has lost the order. The rows themselves then stand in the commit's
userMetadata; those of a write that is too large for that do not.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.storage.tables.log import CommitInfo

_POINTS, _ROW_BY_ROW = "points", "row_by_row"
_MOST_BYTES = 1_048_576
"""How much of a commit's file the rows may take: some 100,000 of a continuous query."""


@dataclass(frozen=True)
class Written:
    """The rows of a write as it named them, NULL where it named no point, with the table's columns.

    ``row_by_row``: they are the rows of one statement, each of which is a write of its own (IoTDB).
    """

    rows: pa.Table
    row_by_row: bool

    def metadata(self, *, rewrites: bool) -> dict[str, object]:
        """Return what the commit's userMetadata says: nothing where the feed tells as much.

        ``rewrites``: the commit may hold more than these rows.
        """
        if not rewrites and (not self.row_by_row or self.rows.num_rows == 1):
            return {}
        text = _packed(self.rows)
        return {_POINTS: text, _ROW_BY_ROW: self.row_by_row} if len(text) <= _MOST_BYTES else {}


def written_of(commit: CommitInfo) -> Written | None:
    """Return the rows that a commit says it was a write of, None where it does not say."""
    if commit.user_metadata is None or _POINTS not in commit.user_metadata:
        return None
    try:
        metadata = json.loads(commit.user_metadata)
        return Written(_unpacked(metadata[_POINTS]), bool(metadata[_ROW_BY_ROW]))
    except (ValueError, TypeError, KeyError, zlib.error):
        return None  # what others wrote there


def _packed(rows: pa.Table) -> str:
    import pyarrow as pa

    known = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.select(known).schema) as stream:
        stream.write_table(rows.select(known))
    return base64.b64encode(zlib.compress(sink.getvalue().to_pybytes(), 1)).decode()


def _unpacked(text: str) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(zlib.decompress(base64.b64decode(text))).read_all()
