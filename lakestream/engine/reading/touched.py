"""The windows and keys that changes of tables touch: those whose results these may have changed.

For every table that a stream follows, the rows of it that came or went since the tick before are led to
windows, by the ways that its query leaves (:mod:`lakestream.compute.windows.reach`), or to keys
(:mod:`lakestream.compute.windows.keyed.keys`). Where a way goes through other tables, rows of these count
that are there now and that were there before: so it does not matter in which order they changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.compute.windows.reach import GROUPS
from lakestream.engine.reading.narrowed import OneOf
from lakestream.engine.reading.relations import EVER, STATE, empty_view
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.streams.write import rows_in_range
from lakestream.language.quoting import quoted, quoted_text
from lakestream.storage.delta import read_commits
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.compute.windows.calculation import Read
    from lakestream.compute.windows.keyed.keys import Branch, Keys
    from lakestream.compute.windows.keyed.leads import Lead
    from lakestream.compute.windows.reach import Condition, Path
    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.rows.views import View

_RAW, _WENT, _BESIDE, _NONE = "ls_raw_followed", "ls_followed", "ls_beside", "ls_none"
_THERE = "ls_keys_there"
MAX_KEYS = 10_000
"""Keys that a tick computes again one by one; where more are touched, all are."""


@dataclass
class _Followed:
    """The tables that a stream follows, with what came and went in one tick."""

    relations: Relations
    _changed: dict[str, View] = field(default_factory=dict, kw_only=True)
    _beside: dict[str, View] = field(default_factory=dict, kw_only=True)

    def _read_changes(self) -> None:
        """Register the net changes of the followed tables that have some."""
        stream = self.relations.stream
        for read in {path.read.relation.key: path.read for path in stream.followed}.values():
            versions = versions_of(self.relations, read)
            if versions is None:
                continue
            number = len(self._changed)
            net = self.relations.net_changes(
                stream.tables[read.relation.key].path, versions, read.relation, f"{_RAW}_{number}"
            )
            if net.count():
                self._changed[read.relation.key] = view_of(net.frame, f"{_WENT}_{number}")

    def _table(self, read: Read) -> str:
        """Register a table's rows, those that went in this tick among them; return their name."""
        key = read.relation.key
        if key not in self._beside:
            listed = ", ".join(map(quoted, read.relation.columns))
            number, name = len(self._beside), f"{_BESIDE}_{len(self._beside)}"
            rows = view_of(self.relations.whole(read), f"{_RAW}_of_{number}")
            sql = f"SELECT {listed} FROM {rows}"
            if key in self._changed:
                sql += f" UNION ALL SELECT {listed} FROM {self._changed[key]}"
            self._beside[key] = view_of_sql(self.relations.spark, sql, name)
        return str(self._beside[key])


@dataclass
class Touched(_Followed):
    """The windows that one tick touches."""

    _has_rows: bool = False

    def windows(self, groups: pa.Table | None) -> pa.Table | None:
        """Return (gid, group columns, a, b): windows that are touched, of groups as the state has them.

        ``a`` and ``b`` are the numbers of the first and the last one, or instants in them where numbers are
        counted from a group's first row. None for none.
        """
        if groups is None or not groups.num_rows:
            return None
        self._read_changes()
        paths = [path for path in self.relations.stream.followed if path.read.relation.key in self._changed]
        if not paths:
            return None
        spark = self.relations.spark
        view_of_rows(spark, groups, STATE)
        found = spark.sql(" UNION ".join(self._sql(path) for path in paths)).toArrow()
        return found if found.num_rows else None

    # --- which windows that touches ---

    def _sql(self, path: Path) -> str:
        """Return SQL of the windows that the changes of one read touch."""
        grid, names = self.relations.stream.grid, self.relations.stream.group_columns
        groups = "".join(f", {GROUPS}.{name}" for name in names)
        first, newest = f"{GROUPS}.first", f"{GROUPS}.newest"
        begin, end = (
            (first, newest)
            if grid.depends_on_first
            else (
                f"{grid.ended(first, first)} + 1",
                grid.begun(newest, first),
            )
        )
        if not path.leads:
            begin = self._within(newest, first, begin)
        same = f"x.gid = {GROUPS}.gid" if self._knows_group(path) else "true"
        return (
            f"SELECT {GROUPS}.gid{groups}, coalesce(x.a, {begin}) AS a, coalesce(x.b, {end}) AS b "
            f"FROM ({self._found(path)}) x JOIN {STATE} {GROUPS} ON {same} WHERE {first} IS NOT NULL"
        )

    def _within(self, newest: str, first: str, begin: str) -> str:
        """Return the first window of the horizon that is asked for where nothing leads to windows."""
        follow, grid = self.relations.stream.late.follow, self.relations.stream.grid
        assert follow is not None and follow.within is not None  # noqa: PT018 - by create_stream
        instant = f"({newest} - {follow.within.micros}L)"
        if grid.depends_on_first:
            return f"greatest({begin}, {instant})"
        return f"greatest({begin}, {grid.ended(instant, first)} + 1)"

    def _knows_group(self, path: Path) -> bool:
        return path.leads and (path.by_group or any(node.read is None for node in path.nodes))

    def _found(self, path: Path) -> str:
        """Return SQL of what the changed rows lead to: gid where it is known, a, b (NULL: no bound)."""
        low, high = (path.low, path.high) if path.leads else (None, None)
        grid, none = self.relations.stream.grid, "CAST(NULL AS BIGINT)"
        if not grid.depends_on_first:
            low = None if low is None else f"{grid.ended(f'({low})', '0L')} + 1"
            high = None if high is None else grid.begun(f"({high})", "0L")
        gid = ""
        if self._knows_group(path):
            rows = [node.alias for node in path.nodes if node.read is None]
            gid = f"{rows[0]}._ls_gid AS gid, " if rows else f"{GROUPS}.gid, "
        return f"SELECT DISTINCT {gid}{low or none} AS a, {high or none} AS b FROM {self._joined(path)}"

    def _joined(self, path: Path) -> str:
        """Return SQL of the rows of a path, joined by its conditions."""
        read, said = path.nodes[0].read, {*path.conditions}
        assert read is not None  # a path begins with changed rows
        sql, there = f"{self._changed[read.relation.key]} n0", {"n0"}
        for node in path.nodes[1:]:
            there.add(node.alias)
            beside = self._rows() if node.read is None else self._table(node.read)
            sql += f" JOIN {beside} {node.alias} ON {_and(_take(said, there, by_group=False))}"
        own = _take(said, there, by_group=False)
        of_groups = [condition for condition in said if condition.by_group]
        if of_groups:
            rows = [node.alias for node in path.nodes if node.read is None]
            same = [f"{rows[0]}._ls_gid = {GROUPS}.gid"] if rows else []
            sql += f" JOIN {STATE} {GROUPS} ON {' AND '.join([*same, *(one.sql for one in of_groups)])}"
        own += [f"{node.time} IS NOT NULL" for node in path.nodes if node.low or node.high]
        if read.relation.only is not None:
            own.append(f"n0.tbname = {quoted_text(read.relation.only)}")
        return f"{sql} WHERE {_and(own)}"

    def _rows(self) -> str:
        """Register the rows of the trigger that windows may hold, as they are; return their name."""
        if not self._has_rows:
            self.relations.rows_at(self.relations.plan.upto, [EVER])
            self._has_rows = True
        return ROWS


@dataclass
class TouchedKeys(_Followed):
    """The keys of a view that one tick touches; its rows of others are never taken for theirs.

    ``narrowed`` is what rows of reads that count have in columns, by the view of a read.
    """

    target: Target
    narrowed: dict[str, tuple[OneOf, ...]] = field(default_factory=dict)

    def find(self) -> list[int] | None:
        """Register the keys that are touched, a branch each, and return their numbers; None: all may be."""
        keys = _keys(self.relations.stream)
        if keys.is_total:
            return None
        self._read_changes()
        if keys.anywhere & self._changed.keys():
            return None
        found: set[int] = set()
        for relation, branches in keys.by_touched.items():
            parts = [
                self._sql(branch, lead)
                for branch in branches
                for lead in branch.leads
                if lead.read.relation.key in self._changed
            ]
            if not parts:
                register_untouched(self.relations.spark, self.relations.stream, branches)
                continue
            rows = self.relations.spark.sql(f"{' UNION '.join(parts)} LIMIT {MAX_KEYS + 1}").toArrow()
            view_of_rows(self.relations.spark, rows, relation)
            found.update(rows["gid"].to_pylist())
            for branch in branches:
                self._narrow(branch, rows)
        return None if len(found) > MAX_KEYS or self._meet_others(found) else sorted(found)

    def _meet_others(self, gids: Collection[int]) -> bool:
        """Return whether the view has rows of other keys under the numbers of those that are touched."""
        keys = _keys(self.relations.stream)
        telling = keys.telling
        if not gids or not telling:
            return False  # not told: it was created without
        view_of_rows(self.relations.spark, rows_there(self.relations, self.target, gids, telling), _THERE)
        others = "".join(
            f" LEFT ANTI JOIN {relation} t ON {branches[0].same_sql(_THERE, 't')}"
            for relation, branches in keys.by_touched.items()
        )
        found = self.relations.spark.sql(f"SELECT {_THERE}.gid FROM {_THERE}{others} LIMIT 1").toArrow()
        return bool(found.num_rows)

    def register_added(self) -> Read | None:
        """Register the rows that were added where these give result rows of their own; return their read.

        None: other rows have changed too, or may give others.
        """
        stream, alone = self.relations.stream, _keys(self.relations.stream).alone
        if alone is None:
            return None
        moved = {path.read.relation.key: versions_of(self.relations, path.read) for path in stream.followed}
        versions = moved.pop(alone.relation.key)
        if versions is None or any(moved.values()):
            return None
        path = stream.tables[alone.relation.key].path
        if not all(commit.append_only for commit in read_commits(path, *versions) if commit.data_change):
            return None
        transport, columns = self.relations.transport, alone.relation.columns
        view_of(transport.appended(path, *versions, columns, versions=False).frame, alone.view)
        return alone

    def _narrow(self, branch: Branch, touched: pa.Table) -> None:
        """Note what rows of reads have in the columns that are equal to keys."""
        for view, column, place in branch.narrowed:
            one = OneOf(column, touched.column(place + 1))
            self.narrowed[view] = (*self.narrowed.get(view, ()), one)

    def _sql(self, branch: Branch, lead: Lead) -> str:
        """Return SQL of the keys that the changes of one read touch."""
        return branch.sql(lead, str(self._changed[lead.read.relation.key]), self._table, self._changed.keys())


def rows_there(
    relations: Relations, target: Target, gids: Collection[int], places: Mapping[str, int]
) -> pa.Table:
    """Return the rows that a view's table has under the numbers of keys: gid, and columns by their places.

    A place is the number (from 1) of a result column; 0: a hidden column, which is called like that.
    """
    import pyarrow as pa

    shape = target.shape
    shown = {name: shape.columns[place - 1].name for name, place in places.items() if place}
    table = relations.tables.open(target.info.path)
    read = [*dict.fromkeys([*shown.values(), *shape.places.types])]
    rows = rows_in_range(table, target, EventRange(only=tuple(gids)), read)
    beside = shape.places.kept_of(rows)
    columns = {
        name: rows[shown[name]] if place else beside[name.removeprefix("_ls_")]
        for name, place in places.items()
    }
    return pa.table({"gid": shape.places.groups(rows), **columns})


def versions_of(relations: Relations, read: Read) -> tuple[int, int] | None:
    """Return the versions ``(after, upto]`` of a table that a tick takes the changes of; None for none."""
    plan, stream = relations.plan, relations.stream
    path = stream.tables[read.relation.key].path
    if path == stream.source.info.path:
        return (plan.after, plan.upto) if plan.after < plan.upto else None
    after = plan.followed_after.get(path)
    return None if after is None else (after, plan.table_versions[path])


def register_untouched(spark: SparkSession, stream: Stream, branches: Sequence[Branch]) -> None:
    """Register that no key of some branches, which share their keys, is touched."""
    branch, lead = next((branch, lead) for branch in branches for lead in branch.leads)
    names = dict.fromkeys(read.relation.key for read in stream.calculation.reads)
    empty = {key: f"{_NONE}_{number}" for number, key in enumerate(names)}
    for key, name in empty.items():
        empty_view(spark, stream.tables[key], name)
    sql = branch.sql(lead, empty[lead.read.relation.key], lambda read: empty[read.relation.key], empty)
    view_of_sql(spark, sql, branch.touched)


def _keys(stream: Stream) -> Keys:
    assert stream.keys is not None  # by the family
    return stream.keys


def _take(conditions: set[Condition], there: set[str], *, by_group: bool) -> list[str]:
    """Take out and return the conditions that are about these rows alone, as SQL in a fixed order."""
    found = [one for one in conditions if one.by_group == by_group and one.needs <= there]
    conditions.difference_update(found)
    return sorted(one.sql for one in found)


def _and(conditions: list[str]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions) or "true"
