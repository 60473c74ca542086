"""What other packages use of Delta tables, in one place."""

from __future__ import annotations

from lakestream.storage.rows.appended import appended_spark
from lakestream.storage.rows.arrivals import (
    POSITION,
    arrivals_arrow,
    arrivals_spark,
    placed_rows_arrow,
    placed_rows_spark,
)
from lakestream.storage.rows.changes import changes_arrow, changes_arrow_or_none, changes_spark
from lakestream.storage.rows.reading import align, read_arrow, read_spark, time_range, timestamp_literal
from lakestream.storage.tables.datafiles import rows_between, rows_of
from lakestream.storage.tables.log import CommitInfo, commit_digest, read_commits
from lakestream.storage.tables.looks import Seldom, look_anew, one_look
from lakestream.storage.tables.table import Capabilities, Table, Tables, capabilities, is_table
from lakestream.storage.writes.alike import create_alike
from lakestream.storage.writes.commit import (
    Change,
    CommitResult,
    CommitTag,
    commit,
    commit_made,
    rewrite,
    said_by,
    was_last_written_by,
)
from lakestream.storage.writes.edits import (
    append,
    create,
    delete_where,
    edited_by_spark,
    insert_rows,
    lies_behind,
    update_where,
)
from lakestream.storage.writes.keys import are_apart
from lakestream.storage.writes.owed import Owed, owe
from lakestream.storage.writes.upkeep import Rules, Upkeep, compact, keep_up, retention, shorten_log
from lakestream.storage.writes.written import Written, written_of

__all__ = [
    "POSITION",
    "Capabilities",
    "Change",
    "CommitInfo",
    "CommitResult",
    "CommitTag",
    "Owed",
    "Rules",
    "Seldom",
    "Table",
    "Tables",
    "Upkeep",
    "Written",
    "align",
    "append",
    "appended_spark",
    "are_apart",
    "arrivals_arrow",
    "arrivals_spark",
    "capabilities",
    "changes_arrow",
    "changes_arrow_or_none",
    "changes_spark",
    "commit",
    "commit_digest",
    "commit_made",
    "compact",
    "create",
    "create_alike",
    "delete_where",
    "edited_by_spark",
    "insert_rows",
    "is_table",
    "keep_up",
    "lies_behind",
    "look_anew",
    "one_look",
    "owe",
    "placed_rows_arrow",
    "placed_rows_spark",
    "read_arrow",
    "read_commits",
    "read_spark",
    "retention",
    "rewrite",
    "rows_between",
    "rows_of",
    "said_by",
    "shorten_log",
    "time_range",
    "timestamp_literal",
    "update_where",
    "was_last_written_by",
    "written_of",
]
