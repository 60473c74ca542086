"""Whether a stream can go on from where it stands: its source and its output, held against what it knows.

Each check raises a StreamError whose code is the stream's named state. The one command that leads out of
each is :func:`way_out`'s.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.names import TBNAME, names_used
from lakestream.errors import StatementError, StorageError, StreamError
from lakestream.output.columns import FLAT
from lakestream.storage.columns.types import ddl, is_widened, spark_type_of
from lakestream.storage.delta import commit_digest, read_commits
from lakestream.storage.records.registry import TablePosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakestream.engine.streams.stream import Stream
    from lakestream.errors import LakestreamError
    from lakestream.storage.delta import CommitInfo, Table, Tables
    from lakestream.storage.records.registry import StreamRecord, TickPlan

_RESTORE = "RESTORE"
_COLUMN_ID = "delta.columnMapping.id"


# --- the source ---


def check_source(record: StreamRecord, version: int | None, source: Table, commit: str | None = None) -> None:
    """Hold the source against the one that the stream was created on, and ``version``, taken of it.

    ``commit`` is the digest of that commit, as it was taken. Raises StreamError SOURCE_REPLACED,
    SOURCE_REWOUND or SOURCE_HISTORY_REWRITTEN; the source is then opened anew, as it is now.
    """
    _check_table(record.source_id, version, source, commit)


def check_followed(stream: Stream, followed: Mapping[str, TablePosition], tables: Tables) -> None:
    """Hold the tables whose changes a stream follows, by path, against those that it has taken some of.

    Raises what :func:`check_source` raises; SOURCE_REPLACED too where a name stands for another table now.
    """
    read = {info.path for info in (stream.source.info, *stream.tables.values())}
    for path, at in followed.items():
        if path not in read:
            raise StreamError(
                "SOURCE_REPLACED",
                f"{path}, whose changes the stream follows, is none of the tables that it reads now",
            )
        _check_table(at.table_id, at.version, tables.latest(path), at.commit)


def _check_table(table_id: str, version: int | None, source: Table, commit: str | None) -> None:
    found = _digest(source, version, commit)
    if source.table_id != table_id:
        raise StreamError(
            "SOURCE_REPLACED",
            f"{source.path} is another table than the one that the stream was created on",
        )
    if version is not None and source.version < version:
        raise StreamError(
            "SOURCE_REWOUND",
            f"{source.path} is at version {source.version}, before version {version} that was taken",
        )
    if found not in (None, commit):
        raise StreamError(
            "SOURCE_HISTORY_REWRITTEN",
            f"the commit of version {version} of {source.path} is another one than that which was taken",
        )


def _digest(table: Table, version: int | None, known: str | None) -> str | None:
    """Return the digest of a commit; None where it was not known, or the log has it no more.

    Where it is not the one that is known, the table may be another one: it is opened as it is now.
    """
    if version is None or known is None:
        return None
    found = commit_digest(table.path, version)
    if found != known:
        table.reopen()
    return found


def check_columns(stream: Stream, source: Table, after: int, commits: Sequence[CommitInfo]) -> None:
    """Hold the columns that the stream uses after each commit against those it had at version ``after``.

    Raises StreamError SOURCE_SCHEMA_CHANGED with the column and the version.
    """
    changing = [commit for commit in commits if commit.schema_json is not None]
    if not changing:
        return
    before = _columns(_schema_at(source, after))
    names = names_used(stream.definition)
    always = {TBNAME, stream.source.info.time_column, *stream.source.info.key}
    used: list[tuple[str, ...]]
    theirs = [name for name in before if name not in FLAT.types]
    used = [(name,) for name in theirs if names is None or name in always or name.lower() in names]
    time = stream.source.info.read_time
    used += [part.path for part in time.parts] if time is not None else []
    for commit in changing:
        now = _columns(commit.schema_json or "")
        for path in used:
            what = _difference(_field_at(before, path), _field_at(now, path))
            if what:
                raise StreamError(
                    "SOURCE_SCHEMA_CHANGED",
                    f"the column {'.'.join(path)}, which the stream uses, {what} at version "
                    f"{commit.version} of {source.path}",
                )


def check_tables(stream: Stream, tables: Tables, before: Mapping[str, int]) -> bool:
    """Hold the tables that the calculation reads beside the source against their versions ``before``.

    Returns whether one has columns of wider types. Raises what :func:`wider_columns` raises.
    """
    wider = False
    for info in stream.tables.values():
        if info.path not in before or info.path == stream.source.info.path:
            continue
        table = tables.latest(info.path)
        try:
            known = types_at(table, before[info.path])
        except StorageError:
            continue  # its log was cleared: nothing tells any more
        wider = bool(wider_columns(stream, known, table)) or wider
    return wider


def types_at(table: Table, version: int | None) -> dict[str, str]:
    """Return the columns that readers see at a version, with their Spark SQL types.

    Raises StorageError VERSION_NOT_FOUND.
    """
    kinds = {field.name: spark_type_of(field) for field in table.at(version).schema().fields}
    made = {table.time.column: "timestamp"} if table.time is not None else {}
    return {name: {**kinds, **made}[name] for name in table.columns(version)}


def wider_columns(stream: Stream, known: Mapping[str, str], table: Table) -> dict[str, str]:
    """Return the columns that are used and whose types have become wider than those known, with these types.

    Raises StreamError TABLE_SCHEMA_CHANGED for a column that the stream uses and that is gone, without which
    no tick would ever be done, or of a type now that does not hold all values of the one before.
    """
    now = types_at(table, None)
    changed = [name for name, kind in known.items() if now.get(name) != kind]
    names = names_used(stream.definition) if changed else None
    used = [name for name in changed if names is None or name.lower() in names]
    for name in used:
        if name not in now:
            raise _table_changed(name, "is gone", table)
        if not is_widened(known[name], now[name]):
            raise _table_changed(name, f"became {now[name]} instead of {known[name]}", table)
    return {name: now[name] for name in used}


def _table_changed(column: str, what: str, table: Table) -> StreamError:
    return StreamError(
        "TABLE_SCHEMA_CHANGED",
        f"the column {column}, which the stream reads, {what} at version {table.version} of {table.path}",
    )


def _schema_at(source: Table, version: int) -> str:
    try:
        return str(source.at(version).schema().to_json())
    except StorageError as error:
        raise StreamError(
            "CHANGES_LOST",
            f"the columns that {source.path} had at version {version} cannot be read: {error.message}",
        ) from error


def _columns(schema_json: str) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for field in json.loads(schema_json)["fields"]}


def _field_at(columns: dict[str, dict[str, Any]], path: Sequence[str]) -> dict[str, Any] | None:
    """Return a column, or a field in a struct, None where there is none."""
    field = columns.get(path[0])
    if len(path) == 1 or field is None:
        return field
    kind = field["type"]
    return (
        _field_at({inner["name"]: inner for inner in kind["fields"]}, path[1:]) if _is_struct(kind) else None
    )


def _is_struct(kind: object) -> bool:
    return isinstance(kind, dict) and kind["type"] == "struct"


def _difference(before: dict[str, Any] | None, now: dict[str, Any] | None) -> str | None:
    """Say what happened to a column, None when it is the same one."""
    if before is None:
        return None
    if now is None:
        return "is gone"
    if before["type"] != now["type"]:
        return f"became {ddl(now['type'])} instead of {ddl(before['type'])}"
    ids = [field.get("metadata", {}).get(_COLUMN_ID) for field in (before, now)]
    if None not in ids and ids[0] != ids[1]:
        return "was dropped and made again"
    return None


# --- the output ---


def check_output(mark: TablePosition | None, output: Table, *, is_own: bool) -> bool:
    """Raise StreamError where others changed rows of an output since the stream wrote to it last.

    OUTPUT_REPLACED when it is another table. OUTPUT_REWOUND when rows that the stream wrote were taken
    back: a restore does that, and a log that was set back and written anew. OUTPUT_TOUCHED for another
    change of rows, where all of them are streams' (``is_own``): the log has it, in a commit that is part of
    no stream's transaction. Upkeep is passed over. Return whether the columns may be others.
    """
    if mark is None:
        return False
    is_same = _refuse_set_back(mark, output)
    commits = _commits_behind(mark.version, output)
    for commit in commits:
        if is_same and _takes_back(commit):
            raise _rewound(output, f"was restored to an older version, by its version {commit.version}")
    for commit in commits:
        if is_own and commit.is_foreign:
            who = f" by {commit.engine}" if commit.engine else ""
            what = f"{commit.operation or 'a commit'} of version {commit.version}{who}"
            raise StreamError("OUTPUT_TOUCHED", f"others changed rows of the output {output.path}: {what}")
    return any(commit.schema_changed for commit in commits)


def _refuse_set_back(mark: TablePosition, output: Table) -> bool:
    """Raise StreamError OUTPUT_REPLACED or OUTPUT_REWOUND; return whether the table is of the same id."""
    found = refuse_other(mark, output)
    if output.table_id != mark.table_id:
        return False
    if output.version < mark.version:
        raise _rewound(output, f"is at version {output.version}, before version {mark.version}, written last")
    if found not in (None, mark.commit):
        raise _rewound(output, f"has another version {mark.version} than that which was written last")
    return True


def check_beside(marks: Mapping[str, TablePosition], tables: Tables) -> None:
    """Raise StreamError where what a stream wrote into tables beside its output was taken back.

    ``marks`` are where they stood, by path. OUTPUT_REPLACED, OUTPUT_REWOUND; who changes rows there may.
    """
    for path, mark in marks.items():
        _refuse_set_back(mark, tables.latest(path))


def refuse_gone(mark: TablePosition | None, tables: Iterable[str]) -> None:
    """Raise StreamError OUTPUT_GONE for tables that are not there though a stream wrote to them.

    They are given by name. ``mark`` is None where it did not, or where a statement has dropped one.
    """
    for table in tables if mark is not None else ():
        raise gone(table)


def gone(table: str) -> StreamError:
    """Return OUTPUT_GONE of a table that a stream wrote to, by name."""
    return StreamError(
        "OUTPUT_GONE",
        f"the stream's table {table} is not at its place any more: rows that the stream wrote are gone",
    )


def refuse_other(mark: TablePosition | None, output: Table) -> str | None:
    """Raise StreamError OUTPUT_REPLACED for another table in the place of the one that was written.

    One that a commit of its own log has replaced goes on. Return the digest of the commit written last.
    """
    if mark is None:
        return None
    found = _digest(output, mark.version, mark.commit)
    if output.table_id != mark.table_id and (found is None or found != mark.commit):
        raise StreamError(
            "OUTPUT_REPLACED",
            f"at {output.path} is another table than the output that was written last: rows that the stream "
            "wrote are gone",
        )
    return found


def settled(mark: TablePosition | None, output: Table, written: int | None, *, is_own: bool) -> TablePosition:
    """Return up to where an output is known to have nothing of others, after a tick that wrote a version.

    ``mark`` is where it was so before. What came between that and the tick is for the next check to see.
    """
    latest = TablePosition.of(output)
    if mark is None or mark.table_id != latest.table_id:
        return latest
    if latest.version == mark.version + (written == latest.version):
        return latest  # as nearly always: nothing but the tick's own commit
    for commit in _commits_behind(mark.version, output):
        if _takes_back(commit) or (is_own and commit.is_foreign):
            before = commit.version - 1
            return replace(latest, version=before, commit=commit_digest(output.path, before))
    return latest


def _commits_behind(version: int, output: Table) -> list[CommitInfo]:
    """Return the commits of an output behind a version; none where its log was cleared: nothing tells."""
    try:
        return read_commits(output.path, version, output.version)
    except StreamError:
        return []


def _takes_back(commit: CommitInfo) -> bool:
    return commit.operation == _RESTORE and commit.data_change


def _rewound(output: Table, what: str) -> StreamError:
    return StreamError("OUTPUT_REWOUND", f"the output {output.path} {what}")


def check_tick(app: str, tick: int, output: Table) -> None:
    """Raise StreamError REGISTRY_REWOUND when the output has ticks behind ``tick``, the last one recorded.

    A tick's plan is recorded before its output is written.
    """
    committed = output.transaction_version(app) or 0
    if committed > tick:
        raise StreamError(
            "REGISTRY_REWOUND",
            f"the output {output.path} has tick {committed} of the stream, and tick {tick} is the last one "
            "recorded: the lake's records were put back from an older copy",
        )


def check_plan(plan: TickPlan, version: int | None) -> None:
    """Raise StreamError REGISTRY_REWOUND where a plan does not go on from the version recorded last."""
    if plan.kind != "history" and plan.after != version:
        raise StreamError(
            "REGISTRY_REWOUND",
            f"tick {plan.tick} was planned from version {plan.after} of the source on, and version "
            f"{version} is the last one recorded: the lake's records were put back from an older copy",
        )


# --- named states ---


def named_state(record: StreamRecord, error: LakestreamError, *, by_resync: bool = False) -> LakestreamError:
    """Return the error as the stream's named state, with the command that leads out of it as its hint.

    ``by_resync``: it is RESYNC that was refused, which is no way out then.

    A column that the statement names and the source lacks is SOURCE_SCHEMA_CHANGED: it was there when the
    stream was created.
    """
    if isinstance(error, StatementError) and error.code == "COLUMN_NOT_FOUND":
        error = StreamError("SOURCE_SCHEMA_CHANGED", f"{error.message}, which the stream uses")
    if by_resync and error.code == "SOURCE_SCHEMA_CHANGED":
        error.hint = f"put the columns back as they were; or drop and create {record.database}.{record.name}"
        return error
    error.hint = way_out(f"{record.database}.{record.name}", error.code) or error.hint
    return error


def way_out(stream: str, code: str) -> str:
    """Return the command that takes a stream out of a named state, empty where there is no single one."""
    resync = f"RECALCULATE STREAM {stream} RESYNC"
    return {
        "SOURCE_REPLACED": resync,
        "SOURCE_REWOUND": resync,
        "SOURCE_HISTORY_REWRITTEN": f"{resync}; or put the commit back as it was, then START STREAM {stream}",
        "CHANGES_LOST": resync,
        "CHANGE_FEED_OFF": f"switch delta.enableChangeDataFeed on, then {resync}",
        "SOURCE_SCHEMA_CHANGED": f"{resync}, once the column is back, or where the results keep their types "
        "with the new one; or drop and create the stream",
        "TABLE_SCHEMA_CHANGED": f"put the column back as it was, then START STREAM {stream}; "
        "or drop and create it",
        "OUTPUT_CHANGED": f"put the columns back, then START STREAM {stream}; "
        f"or of a materialized view {resync}, which makes it anew",
        "OUTPUT_GONE": f"{resync}, which makes it anew; or put it back, then START STREAM {stream}",
        "OUTPUT_REPLACED": f"{resync}; or put the other one back, then START STREAM {stream}",
        "OUTPUT_REWOUND": resync,
        "OUTPUT_TOUCHED": f"{resync}; or START STREAM {stream}, which goes on with the rows as they are",
        "REGISTRY_REWOUND": resync,
        "STATE_DAMAGED": resync,
        "OUTPUT_CONSTRAINT": f"drop the constraint or repair the data, then START STREAM {stream}",
        "FOLDER_TOO_LONG": f"START STREAM {stream} once the row is gone, or {resync} where its history has "
        "it; or drop it and create it with another PARTITIONED BY",
        "FENCED": f"START STREAM {stream}, once a single process runs it",
        "CALCULATION_FAILED": f"START STREAM {stream} tries again",
    }.get(code, "")
