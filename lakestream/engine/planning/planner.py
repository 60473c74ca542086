"""What a stream's next tick takes: a range of the source's versions, cut by commits, rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from lakestream.engine.base.instants import latest, newest_time, oldest_time
from lakestream.engine.planning.analysis import refuse_other_results
from lakestream.engine.planning.checks import check_columns, check_followed, check_source, wider_columns
from lakestream.engine.reading.relations import history_of
from lakestream.engine.reading.transport import DUCKDB, SPARK, Size, choose_transport, row_bytes
from lakestream.engine.streams.stream import followed_paths
from lakestream.engine.windows.families import family_of
from lakestream.storage.delta import capabilities, commit_digest, read_commits, rows_of
from lakestream.storage.records.registry import HistorySlice, TablePosition, TickPlan
from lakestream.storage.rows.changes import checked_commits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.delta import CommitInfo, Table, Tables
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Instant, StreamRecord

    Span = tuple[int | None, int | None]


class Taking(NamedTuple):
    """What a plan says of the commits that it takes; ``oldest_us`` None: not known.

    ``commit`` is the digest of the last one, None where none is taken.
    """

    transport: str
    appends_only: bool = True
    oldest_us: int | None = None
    commit: str | None = None


@dataclass(frozen=True)
class Limits:
    """How much one tick takes, and up to what size its bytes travel as Arrow.

    ``memory`` is what more rows may take (bytes) that are only added, for DuckDB to compute them.
    """

    commits: int
    rows: int
    bytes: int
    small: Size
    transport: str
    memory: int = 0


@dataclass(frozen=True)
class Position:
    """Where a stream stands: its last tick, and the source's version that it has taken whole.

    While history is under way ``version`` is None, ``slice`` the number of the next part and ``cuts``
    the instants between the parts, decided once (None: not yet). ``commit`` is the digest of the commit of
    ``version``, None where it is not known. ``followed`` are the other tables whose changes it follows, by
    path, up to which it has taken these; empty before its first tick.
    """

    tick: int
    version: int | None
    slice: int = 0
    cuts: tuple[int, ...] | None = None
    commit: str | None = None
    followed: Mapping[str, TablePosition] = field(default_factory=dict)


@dataclass(frozen=True)
class Planner:
    """Plans the ticks of one stream; ``clock_us`` is the wall clock that the plans are made at.

    ``small`` leads to Spark for the ends of a history that is taken in parts, where only it can read times.
    """

    record: StreamRecord
    stream: Stream
    tables: Tables
    limits: Limits
    clock_us: int
    small: SmallPath

    def following(self, position: Position, source: Table) -> TickPlan | None:
        """Return the plan of the next tick, None when there is nothing new; ``source`` at its latest.

        Raises StreamError SOURCE_REPLACED, SOURCE_REWOUND, CHANGES_LOST and the like: the named state.
        """
        ahead = self.check(position, source)
        if position.version is None:
            return self._history(position)
        moved = self._moved(position)
        if not ahead and not moved:
            return None
        whole = family_of(self.stream).is_whole
        commits = ahead if whole or not ahead else self._at_once(_admitted(ahead, self.limits))
        taking = self._taking(source, commits)
        if moved or whole:
            transport = self._transport(source, self._size_of_touched(position, commits, moved))
            taking = taking._replace(transport=transport, appends_only=False, oldest_us=None)
        upto = commits[-1].version if commits else position.version
        return self._plan(position, "changes", (position.version, upto), taking)

    def _moved(self, position: Position) -> list[str]:
        """Return where the followed tables lie that have new versions."""
        known = position.followed
        return [path for path, at in known.items() if self.tables.latest(path).version > at.version]

    def _size_of_touched(
        self, position: Position, commits: Sequence[CommitInfo], moved: Sequence[str]
    ) -> Size:
        """Return the rows and bytes that a tick reads to find out what changes of other tables touch.

        Where a change leads to windows by way of other rows, these are all looked at.
        """
        if family_of(self.stream).is_whole:
            alone = _changed_alone(self.stream, commits, moved)
            tables = [self.tables.open(info.path) for info in self.stream.tables.values()]
            sizes = [table_size(table, table.version) for table in tables if table.path != alone]
            if alone == self._source_path:
                sizes.append(size_of(commits))
            elif alone is not None:
                after, upto = position.followed[alone].version, self.tables.open(alone).version
                sizes.append(size_of(read_commits(alone, after, upto)))
            return Size(sum(one.rows for one in sizes), sum(one.bytes for one in sizes))
        sizes = [size_of(commits)]
        for path in moved:
            table = self.tables.open(path)
            sizes.append(size_of(read_commits(path, position.followed[path].version, table.version)))
        through = {
            self._source_path if node.read is None else self.stream.tables[node.read.relation.key].path
            for way in self.stream.followed
            if self.stream.tables[way.read.relation.key].path in moved
            for node in way.nodes[1:]
        }
        sizes += [table_size(table, table.version) for table in map(self.tables.open, through)]
        return Size(sum(one.rows for one in sizes), sum(one.bytes for one in sizes))

    def by_clock(
        self,
        position: Position,
        kind: str,
        *,
        windows: Sequence[tuple[int, int]] = (),
        closed: tuple[int, int] | None = None,
    ) -> TickPlan | None:
        """Return the plan of a tick that takes no changes; ``windows`` and ``closed`` say which fire.

        None while history is under way, which comes first.
        """
        if position.version is None:
            return None
        source = self.tables.open(self._source_path)
        taking = Taking(self._transport(source, Size(0, 0)))
        plan = self._plan(position, kind, (position.version, position.version), taking)
        return replace(plan, windows=tuple(windows), closed=closed)

    def period(
        self, position: Position, source: Table, closed: tuple[int, int], instant: Instant
    ) -> TickPlan:
        """Return the plan of an instant of PERIOD: it takes all commits since the one before.

        ``closed`` are the instant executed last and this one.
        """
        assert position.version is not None  # PERIOD takes no history
        commits = read_commits(source.path, position.version, source.version)
        taking = self._taking(source, commits)
        plan = self._plan(position, "period", (position.version, source.version), taking)
        return replace(plan, clock_us=closed[1], closed=closed, instant=instant)

    def _taking(self, source: Table, commits: Sequence[CommitInfo]) -> Taking:
        """Return what a plan says of commits."""
        changing = [commit for commit in commits if commit.data_change]
        times = [commit.times(self.stream.logged_time) for commit in changing]
        appends_only = all(commit.append_only for commit in changing)
        known = [ends[0] for ends in times if ends is not None]
        oldest = min(known) if appends_only and known and len(known) == len(times) else None
        commit = commits[-1].digest if commits else None
        transport = self._transport(source, size_of(commits), adds=appends_only)
        return Taking(transport, appends_only, oldest, commit)

    def _at_once(self, commits: Sequence[CommitInfo]) -> Sequence[CommitInfo]:
        """Return the first commits that one tick gives the same for as one for each would."""
        if self.stream.definition.options.low_latency:
            return commits[:1]
        together = commits[: family_of(self.stream).taken_at_once(commits)]
        return together[: _before_deletes(together)] if self._takes_deletes_alone else together

    @property
    def _takes_deletes_alone(self) -> bool:
        """Whether the first row that a delete leaves depends on which rows there were by then.

        It does where rows that are late, or expired, open no windows.
        """
        return self.stream.deletes and (not self.stream.refires or self.stream.expiry is not None)

    def check(self, position: Position, source: Table) -> Sequence[CommitInfo]:
        """Return the commits ahead of the position; raises the stream's named state as ``following`` does."""
        is_new = position.version is not None and source.version > position.version
        check_source(self.record, position.version, source, position.commit if is_new else None)
        check_followed(self.stream, position.followed, self.tables)
        if position.version is None or not is_new:
            return ()
        ahead = checked_commits(source, position.version, source.version)
        check_columns(self.stream, source, position.version, ahead)
        return ahead

    def replay(self, position: Position, saved: int | None) -> list[TickPlan]:
        """Return plans that bring a state from the saved version (None: from nothing) to the position.

        They are for the state only and never written.
        """
        plans = []
        start = self.record.start_version
        source = self.tables.latest(self._source_path)
        has_begun = position.version is not None or position.slice > 0
        if saved is None and has_begun and self.stream.definition.options.wants_history:
            upper = position.cuts[position.slice - 1] if position.version is None and position.cuts else None
            taking = Taking(self._transport(source, table_size(source, start), adds=True))
            span = (self.record.until_us, upper)
            plans.append(self._replayed("history", (-1, start), taking, span))
        after = start if saved is None else saved
        if position.version is not None:
            for versions in _without(after, position.version, self.record.skipped):
                plans += self._replayed_changes(source, versions)
        return plans

    def again(self, after: int | None, upto: int) -> list[TickPlan]:
        """Return plans that take the commits of ``(after, upto]`` as if each had been taken for itself.

        None: from the stream's creation on. Commits are taken together only where the policies cannot tell:
        where each one's rows are newer than all rows before, or, of rows that are admitted, always, since
        these are judged commit by commit. The plans are never written.
        """
        source = self.tables.latest(self._source_path)
        plans: list[TickPlan] = []
        newest: int | None = None
        start = self.record.start_version
        history = history_of(self.record, self.stream.definition)
        if after is None and history.taken and family_of(self.stream).follows_history:
            transport = self._transport(source, table_size(source, start))
            whole = self._replan("history", (-1, start), Taking(transport), (history.start_us, None))
            plans.append(replace(whole, slice=HistorySlice(0, ())))
        for versions in _without(start if after is None else after, upto, history.skipped):
            commits: Sequence[CommitInfo] = read_commits(source.path, *versions)
            while commits:
                taken, newest = self._taken_again(commits, newest)
                span = (commits[0].version - 1, commits[taken - 1].version)
                plans.append(self._replan("changes", span, self._taking(source, commits[:taken])))
                commits = commits[taken:]
        return plans

    def changes_again(self, after: int, upto: int) -> TickPlan:
        """Return the plan of a tick that took the commits of ``(after, upto]``."""
        source = self.tables.latest(self._source_path)
        taking = self._taking(source, read_commits(source.path, after, upto))
        return self._replan("changes", (after, upto), taking)

    def recalculation_again(self, version: int) -> TickPlan:
        """Return the plan of a part of a recalculation that was done at a version of the source."""
        source = self.tables.open(self._source_path)
        return self.recalculation(version, 0, table_size(source, version), {})

    def _taken_again(self, commits: Sequence[CommitInfo], newest: int | None) -> tuple[int, int | None]:
        """Return how many commits are taken together, and the newest time of a row after them."""
        within = _admitted(commits, self.limits)
        if family_of(self.stream).judges_commits:
            return len(within), newest
        for number, commit in enumerate(within):
            if not commit.data_change:
                continue
            ends = commit.times(self.stream.logged_time)
            in_order = commit.append_only and ends is not None and (newest is None or ends[0] > newest)
            if not in_order and number:
                return number, newest
            newest = newest if ends is None else latest(newest, ends[1])
            if not in_order or self.stream.emission.at_open:
                return number + 1, newest
        return len(within), newest

    def _replan(
        self, kind: str, versions: tuple[int, int], taking: Taking, span: Span = (None, None)
    ) -> TickPlan:
        return self._plan(Position(0, versions[0]), kind, versions, taking, span)

    def _replayed_changes(self, source: Table, versions: tuple[int, int]) -> list[TickPlan]:
        plans = []
        commits: Sequence[CommitInfo] = read_commits(source.path, *versions)
        while commits:
            taken = _before_deletes(commits) if self._takes_deletes_alone else len(commits)
            span = (commits[0].version - 1, commits[taken - 1].version)
            plans.append(self._replayed("changes", span, self._taking(source, commits[:taken])))
            commits = commits[taken:]
        return plans

    def recalculation(
        self, version: int, part: int, size: Size, followed: Mapping[str, TablePosition]
    ) -> TickPlan:
        """Return the plan of a part of a recalculation at a version of the source, for ``size`` of rows.

        The tables that are ``followed`` are read where they stand.
        """
        source = self.tables.open(self._source_path)
        taking = Taking(self._transport(source, size))
        position = Position(part, version, followed=followed)
        return self._plan(position, "recalculation", (version, version), taking)

    def _replayed(
        self, kind: str, versions: tuple[int, int], taking: Taking, span: Span = (None, None)
    ) -> TickPlan:
        plan = TickPlan(self.record.uuid, 0, kind, *versions, 0, {}, *span, taking.transport)
        return replace(plan, appends_only=taking.appends_only, oldest_us=taking.oldest_us)

    def _transport(self, source: Table, size: Size, *, adds: bool = False) -> str:
        """Return by which way rows move; ``adds``: a tick takes them that were only added."""
        limits = self.limits
        chosen = choose_transport(source, size, limits.small, wanted=limits.transport)
        if chosen != SPARK or limits.transport == SPARK or not (adds and family_of(self.stream).sums_up):
            return chosen
        able = capabilities(source)
        fits = memory_of(size, len(self.stream.changed_columns)) <= limits.memory
        return DUCKDB if fits and able.arrow_reads and able.arrow_changes else SPARK

    def _history(self, position: Position) -> TickPlan:
        """Take the rows there were at creation, in parts of event time when they are many."""
        source = self.tables.open(self._source_path)
        size = table_size(source, self.record.start_version)
        time = self.stream.source.info.time_column
        cuts = self._cuts(source, time, size) if position.cuts is None else position.cuts
        part, parts = position.slice, len(cuts) + 1
        lower = self.record.until_us if part == 0 else cuts[part - 1]
        upper = cuts[part] if part < len(cuts) else None
        part_size = Size(size.rows // parts, size.bytes // parts)
        taking = Taking(self._transport(source, part_size, adds=True))
        plan = self._plan(position, "history", (-1, self.record.start_version), taking, (lower, upper))
        return replace(plan, slice=HistorySlice(part, cuts))

    def _cuts(self, source: Table, time: str, size: Size) -> tuple[int, ...]:
        """Return the instants between the parts of history: even steps between the oldest and newest row."""
        parts = max(-(-size.rows // self.limits.rows), -(-size.bytes // self.limits.bytes), 1)
        if parts == 1 or family_of(self.stream).is_whole:
            return ()
        low, high = oldest_time(source, time, self.small.spark), newest_time(source, time, self.small.spark)
        if low is None or high is None:
            return ()
        return tuple(sorted({low + (high - low) * number // parts for number in range(1, parts)}))

    def _plan(
        self,
        position: Position,
        kind: str,
        versions: tuple[int, int],
        taking: Taking,
        span: Span = (None, None),
    ) -> TickPlan:
        """Freeze the versions of all tables that the calculation reads; the source is read at the end.

        Raises StreamError TABLE_SCHEMA_CHANGED for a version that it could not be computed of.
        """
        frozen: dict[str, int] = {}
        large: dict[str, bool] = {}
        wider: dict[str, TableInfo] = {}
        stays = {} if kind == "changes" else position.followed
        for read in self.stream.calculation.reads:
            info = self.stream.tables[read.relation.key]
            if info.path == self._source_path:
                frozen[info.path] = versions[1]
            elif info.path in stays:
                frozen[info.path] = stays[info.path].version
            elif info.path not in frozen:
                table = self.tables.latest(info.path)
                known = {column.name: column.type for column in info.columns}
                if kinds := wider_columns(self.stream, known, table):
                    wider[read.relation.key] = _retyped(info, kinds)
                frozen[info.path] = table.version
            if read.lower is None:
                table = self.tables.open(info.path)
                large[info.path] = not table_size(table, frozen[info.path]).fits(self.limits.small)
        if wider:
            stream = replace(self.stream, tables={**self.stream.tables, **wider})
            refuse_other_results(self.small, self.record, stream)
        return TickPlan(
            self.record.uuid,
            position.tick + 1,
            kind,
            *versions,
            self.clock_us,
            frozen,
            *span,
            transport=taking.transport,
            appends_only=taking.appends_only,
            oldest_us=taking.oldest_us,
            wider_tables=bool(wider),
            large_tables=large,
            spark_only=self.limits.transport == SPARK,
            commit=taking.commit or position.commit or commit_digest(self._source_path, versions[1]),
            followed=self._followed(stays),
            followed_after=self._followed_after(position, frozen) if kind == "changes" else {},
        )

    def _followed(self, stays: Mapping[str, TablePosition]) -> dict[str, TablePosition]:
        """Return where the followed tables are read: where they stood already, or as they are."""
        paths = followed_paths(self.stream)
        return {path: stays.get(path) or TablePosition.of(self.tables.open(path)) for path in paths}

    def _followed_after(self, position: Position, frozen: Mapping[str, int]) -> dict[str, int]:
        """Return from which versions on changes of the followed tables are taken."""
        known = position.followed
        return {path: at.version for path, at in known.items() if at.version < frozen.get(path, at.version)}

    @property
    def _source_path(self) -> str:
        return self.stream.source.info.path


def _changed_alone(stream: Stream, commits: Sequence[CommitInfo], moved: Sequence[str]) -> str | None:
    """Return where the table lies of which a view needs no other rows than changed ones; None for none."""
    source = stream.source.info.path
    if not moved and _adds_alone(stream, commits):
        return source
    changed = [*moved, *([source] if commits else [])]
    tables = [key for key, info in stream.tables.items() if info.path in changed]
    kept = None if stream.keys is None else stream.keys.kept
    read = None if kept is None else kept.moving(tables)
    return None if read is None else stream.tables[read.relation.key].path


def _adds_alone(stream: Stream, commits: Sequence[CommitInfo]) -> bool:
    """Return whether commits of the source only add rows, which give rows of a view of their own."""
    alone = None if stream.keys is None else stream.keys.alone
    if alone is None or stream.tables[alone.relation.key].path != stream.source.info.path:
        return False
    return all(commit.append_only for commit in commits if commit.data_change)


def _retyped(info: TableInfo, kinds: Mapping[str, str]) -> TableInfo:
    columns = (replace(column, type=kinds.get(column.name, column.type)) for column in info.columns)
    return replace(info, columns=tuple(columns))


_UNKNOWN_ROWS = 2**40


def _without(after: int, upto: int, skipped: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return ``(after, upto]`` without the ranges that are skipped, which lie in it or before it."""
    ranges = []
    for start, end in sorted((start, end) for start, end in skipped):
        if after < start:
            ranges.append((after, min(start, upto)))
        after = max(after, end)
    return [*ranges, *([(after, upto)] if after < upto else [])]


def size_of(commits: Sequence[CommitInfo]) -> Size:
    """Return the rows and bytes that commits added."""
    rows = sum(_UNKNOWN_ROWS if commit.add_rows is None else commit.add_rows for commit in commits)
    return Size(rows, sum(commit.add_bytes for commit in commits))


_GROWTH = 8
"""What a byte of a file takes in memory while windows are computed."""


def memory_of(size: Size, columns: int) -> int:
    """Return about how many bytes rows of some columns take in memory while windows of them are computed."""
    return max(size.rows * row_bytes(columns), size.bytes * _GROWTH)


def _admitted(commits: Sequence[CommitInfo], limits: Limits) -> Sequence[CommitInfo]:
    """Return the first commits that together stay within the limits; one at least."""
    rows = size = 0
    for number, commit in enumerate(commits):
        rows += commit.add_rows or 0
        size += commit.add_bytes
        if number and (number >= limits.commits or rows > limits.rows or size > limits.bytes):
            return commits[:number]
    return commits


def _before_deletes(commits: Sequence[CommitInfo]) -> int:
    """Return how many commits there are before the first one that takes rows away; one at least."""
    ahead = (n for n, commit in enumerate(commits) if commit.data_change and not commit.append_only)
    return max(next(ahead, len(commits)), 1)


def way_of(source: Table, version: int, limits: Limits) -> str:
    """Return by which way all rows of a version of a table move."""
    return choose_transport(source, table_size(source, version), limits.small, wanted=limits.transport)


def table_size(source: Table, version: int) -> Size:
    """Return the rows (about, where statistics do not tell) and bytes of a table's files at a version."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(source.at(version).get_add_actions(flatten=True))
    return Size(rows_of(files), pc.sum(files["size_bytes"]).as_py() or 0)
