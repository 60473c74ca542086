"""SQL of the relations that a tick reads: changed rows, their net effect, rows that windows may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.compute.windows.window_rows import each_sql
from lakestream.engine.base.state import gids_sql
from lakestream.language.quoting import quoted
from lakestream.storage.delta import POSITION
from lakestream.triggers.kinds import counts_what_is_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.streams.stream import Stream


def net_sql(stream: Stream, changed: str, upto: int, columns: Sequence[str]) -> str:
    """Return SQL of the changed rows without what cancels out: deleted and written with alike columns.

    Per commit, or over all of them where EXACT asks for the outcome only. ``_change_type`` becomes
    insert, update_postimage and update_preimage (the commit wrote the row's key anew), or delete;
    ``_ls_sign`` counts the rows, below 0 for those that went.
    """
    if counts_what_is_written(stream.definition.trigger):
        return _written_net_sql(changed, columns)
    listed = ", ".join(map(quoted, columns))
    went = "'delete'" if stream.counts_rewritten else "'delete', 'update_preimage'"
    came = "'insert', 'update_postimage'"
    sign = f"CASE WHEN _change_type IN ({came}) THEN 1 WHEN _change_type IN ({went}) THEN -1 ELSE 0 END"
    version = f"CAST({upto} AS BIGINT)" if stream.exact else "_commit_version"
    summed = (
        f"SELECT {listed}, {version} AS _commit_version, CAST(sum({sign}) AS BIGINT) AS _ls_sign, "
        f"bool_or(_change_type IN ('update_preimage', 'update_postimage')) AS updated FROM {changed} "
        f"GROUP BY {listed}, {version} HAVING sum({sign}) <> 0"
    )
    keys = _keys(stream, columns)
    replaced = f"updated OR max(_ls_sign) OVER (PARTITION BY _commit_version, {keys}) > 0"
    old = f"WHEN {replaced} THEN 'update_preimage' ELSE 'delete'"
    # A row that took the place of another is told from one that is new.
    anew = f"updated OR min(_ls_sign) OVER (PARTITION BY _commit_version, {keys}) < 0"
    new = f"CASE WHEN {anew} THEN 'update_postimage' ELSE 'insert' END"
    kind = f"CASE WHEN _ls_sign > 0 THEN {new} {old} END"
    net = f"SELECT {listed}, _commit_version, _ls_sign, {kind} AS _change_type FROM ({summed})"
    return (
        f"SELECT * FROM ({net}) WHERE _change_type <> 'update_preimage'" if stream.counts_rewritten else net
    )


def rewritten_sql(stream: Stream, changed: str, columns: Sequence[str]) -> str:
    """Return SQL of what rows were before changes wrote them anew: what :meth:`net_sql` leaves out."""
    listed = ", ".join(map(quoted, columns))
    kinds = ("insert", "delete", "update_preimage", "update_postimage")
    inserted, deleted, old, new = (f"count_if(_change_type = '{kind}')" for kind in kinds)
    summed = (
        f"SELECT {listed}, _commit_version, {deleted} - {inserted} AS went, {old} AS old, {new} AS new "
        f"FROM {changed} GROUP BY {listed}, _commit_version"
    )
    replaced = f"max(greatest(new, -went)) OVER (PARTITION BY _commit_version, {_keys(stream, columns)}) > 0"
    counted = f"SELECT *, CAST(old + IF({replaced}, greatest(went, 0L), 0L) AS INT) AS n FROM ({summed})"
    return f"SELECT {listed} FROM {each_sql(f'({counted})', 'n')}"


def _keys(stream: Stream, columns: Sequence[str]) -> str:
    """Return SQL of what tells rows apart, among columns that were read."""
    key = [name for name in stream.source.info.key if name in columns]
    return ", ".join(quoted(name) for name in key or [stream.source.info.time_column])


def _written_net_sql(changed: str, columns: Sequence[str]) -> str:
    """Return :meth:`net_sql` of rows that count as they are written.

    An updated row is written, also where its values stay. What a commit only moves to other files is deleted
    and inserted alike, and was not written.
    """
    listed = ", ".join(map(quoted, columns))
    inserted, deleted, updated = (
        f"count_if(_change_type = '{kind}')" for kind in ("insert", "delete", "update_postimage")
    )
    written = f"greatest({inserted} - {deleted}, 0L) + {updated}"
    return (
        f"SELECT {listed}, _commit_version, {written} AS _ls_sign, 'insert' AS _change_type "
        f"FROM {changed} GROUP BY {listed}, _commit_version HAVING {written} > 0"
    )


def changes_sql(stream: Stream, changed: str) -> str:
    """Return SQL of what detection takes, from the changed rows."""
    old = [
        *(["update_preimage"] if stream.follows_updates or _sees_rewritten(stream) else []),
        *(["delete"] if stream.deletes or _watches_open(stream) else []),
    ]
    taken = ", ".join(f"'{kind}'" for kind in ("insert", "update_postimage", *old))
    kept = "_change_type IN ('insert', 'update_postimage')"
    refiring = [
        *(["insert", "update_postimage"] if stream.refires else []),
        *(["update_preimage", "update_postimage"] if stream.follows_updates else []),
        *(["delete"] if stream.deletes else []),
    ]
    touches = f"_change_type IN ({', '.join(f'{kind!r}' for kind in refiring)})" if refiring else "false"
    return (
        f"SELECT {stream.group_id()} AS gid{stream.group_list()}, unix_micros({stream.source.time}) AS ts, "
        f"CAST(_commit_version AS BIGINT) AS v, {kept} AS kept, {touches} AS touches, "
        f"_change_type <> 'delete' AS expires "
        f"FROM {changed} WHERE {stream.admitted()} AND _change_type IN ({taken})"
    )


def shrunk_sql(stream: Stream, changed: str) -> str:
    """Return SQL of the groups that wait of which rows went (gid), from the changed rows."""
    return (
        f"SELECT DISTINCT {stream.group_id()} AS gid FROM {changed} "
        f"WHERE _ls_sign < 0 AND {stream.group_id()} IN ({gids_sql(stream.waiting_groups)})"
    )


def fresh_sql(stream: Stream, changed: str, from_us: int | None = None) -> str:
    """Return SQL of the rows that an incremental query takes: columns, groups and the time in µs.

    ``from_us``: only rows from this instant on, which Spark looks for in the files' statistics.
    """
    later = "" if from_us is None else f" AND {stream.source.time} >= timestamp_micros({from_us}L)"
    columns = ", ".join(quoted(name) for name in stream.changed_columns)
    return f"SELECT {columns}{fresh_columns(stream)} FROM {changed} WHERE {stream.admitted()}{later}"


def fresh_columns(stream: Stream) -> str:
    """Return select items for what an incremental query takes of a row beside the source's columns."""
    return f"{stream.group_list()}, unix_micros({stream.source.time}) AS _ls_ts"


def empty_state_sql(stream: Stream, changes: str) -> str:
    """Return SQL of a state without groups, with the types that the changes' columns have."""
    groups = "".join(f", {name}" for name in stream.group_columns)
    return f"SELECT gid{groups}, ts AS first, ts AS newest FROM {changes} WHERE false"


def open_rows_sql(stream: Stream) -> str:
    """Return SQL of the registered rows of the source, as :meth:`fresh_sql` gives changed ones."""
    columns = ", ".join(quoted(name) for name in stream.changed_columns)
    return f"SELECT {columns}{stream.group_list()}, _ls_ts FROM {ROWS}"


def rows_sql(stream: Stream, changed: str | None, before: str | None, excluded: str | None) -> str:
    """Return SQL of the rows that windows may hold: those before the tick, and the changed ones.

    ``before`` is a view of the source's rows before the tick, ``excluded`` one of those among them
    that the stream never takes (written before it was created).
    """
    columns = ", ".join(quoted(name) for name in stream.changed_columns)
    marks = f"{stream.group_id()} AS _ls_gid, {stream.row_us} AS _ls_ts"
    parts = []
    if changed is not None:
        taken = "CAST(_commit_version AS BIGINT) AS _ls_v, CAST(_ls_sign AS BIGINT) AS _ls_sign"
        parts.append(f"SELECT {columns}, {marks}, {taken} FROM {changed} WHERE {stream.admitted()}")
    if before is not None:
        rows = f"SELECT {columns} FROM {before}"
        if excluded is not None:
            rows = f"{rows} EXCEPT ALL SELECT {columns} FROM {excluded}"
        parts.append(
            f"SELECT {columns}, {marks}, -1L AS _ls_v, 1L AS _ls_sign FROM ({rows}) WHERE {stream.admitted()}"
        )
    return " UNION ALL ".join(parts)


def taken_sql(stream: Stream, changed: str, columns: Sequence[str], before: str, excluded: str) -> str:
    """Return SQL of what changed rows (``columns``, with _commit_version and _ls_sign) are to the stream.

    Of alike rows it takes those beyond as many as are ``excluded``; ``before`` has the rows from before the
    changes. So one that goes and comes back as it was is not taken, and one that comes beside it is.
    """
    listed, read = (", ".join(map(quoted, names)) for names in (columns, stream.changed_columns))
    names = [quoted(name) for name in stream.changed_columns]
    by = ", ".join(f"c.{name}" for name in names)

    def same(other: str) -> str:
        return " AND ".join(f"c.{name} <=> {other}.{name}" for name in names)

    def counted(rows: str) -> str:
        return f"(SELECT {read}, count(1) AS n FROM {rows} GROUP BY {read})"

    so_far = (
        f"coalesce(b.n, 0L) + sum(c._ls_sign) OVER (PARTITION BY {by} ORDER BY c._commit_version "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    alike = (
        f"SELECT c.*, e.n AS _ls_excluded, {so_far} AS _ls_so_far FROM {changed} c "
        f"JOIN {counted(excluded)} e ON {same('e')} LEFT JOIN {counted(before)} b ON {same('b')}"
    )
    moved = (
        "CAST(greatest(_ls_so_far - _ls_excluded, 0L) "
        "- greatest(_ls_so_far - _ls_sign - _ls_excluded, 0L) AS BIGINT)"
    )
    others = ", ".join(quoted(name) for name in columns if name != "_ls_sign")
    return (
        f"SELECT {listed} FROM {changed} c "
        f"LEFT ANTI JOIN {excluded} e ON {same('e')} UNION ALL "
        f"SELECT {listed} FROM (SELECT {others}, {moved} AS _ls_sign FROM ({alike})) WHERE _ls_sign <> 0"
    )


def placed_rows_sql(stream: Stream, placed: str, excluded: str | None) -> str:
    """Return what :meth:`rows_sql` does of rows with their commit and place, which is in _ls_p.

    Of alike rows, as many as are excluded go, those of the first places.
    """
    columns = ", ".join(quoted(name) for name in stream.changed_columns)
    rows = placed
    if excluded is not None:
        same = " AND ".join(f"r.{quoted(name)} <=> e.{quoted(name)}" for name in stream.changed_columns)
        rows = (
            f"(SELECT r.* FROM (SELECT *, row_number() OVER (PARTITION BY {columns} "
            f"ORDER BY _commit_version, {POSITION}) AS _ls_alike FROM {placed}) r LEFT JOIN "
            f"(SELECT {columns}, count(1) AS n FROM {excluded} GROUP BY {columns}) e ON {same} "
            f"WHERE r._ls_alike > coalesce(e.n, 0L))"
        )
    return (
        f"SELECT {columns}, {stream.group_id()} AS _ls_gid, {stream.row_us} AS _ls_ts, "
        f"_commit_version AS _ls_v, {POSITION} AS _ls_p FROM {rows} WHERE {stream.admitted()}"
    )


def _watches_open(stream: Stream) -> bool:
    """Return whether what goes from windows that are open shows there at once, also where it is not followed.

    It may cut a window that is cut by rows, or be the last row of one that emits events if it has rows.
    """
    tells = stream.definition.notification is not None and stream.definition.options.ignore_nodata
    return stream.emission.fires_open or stream.cut is not None or tells


def _sees_rewritten(stream: Stream) -> bool:
    """Return whether what a rewritten row was is taken out of windows that are open as soon as it is."""
    return _watches_open(stream) and not stream.counts_rewritten
