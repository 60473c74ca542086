"""What a stream's next tick takes: a range of the source's versions, cut by commits, rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.engine.instants import newest_time
from lakestream.engine.transport import ARROW, SPARK
from lakestream.errors import StreamError
from lakestream.storage.delta import capabilities, read_commits
from lakestream.storage.registry import TickPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.stream import Stream
    from lakestream.storage.delta import CommitInfo, Table, Tables
    from lakestream.storage.registry import StreamRecord


@dataclass(frozen=True)
class Limits:
    """How much one tick takes, and up to what size its bytes travel as Arrow."""

    commits: int
    rows: int
    bytes: int
    small_rows: int
    small_bytes: int
    transport: str


@dataclass(frozen=True)
class Position:
    """Where a stream stands: its last tick, and the source's version that it has taken whole.

    While history is under way ``version`` is None, ``slice`` the number of the next part and ``cuts``
    the instants between the parts, decided once (None: not yet).
    """

    tick: int
    version: int | None
    slice: int = 0
    cuts: tuple[int, ...] | None = None


def next_plan(
    record: StreamRecord, stream: Stream, position: Position, tables: Tables, limits: Limits, clock_us: int
) -> TickPlan | None:
    """Return the plan of the stream's next tick, None when there is nothing new.

    Raises StreamError SOURCE_REPLACED, SOURCE_REWOUND, CHANGES_LOST and the like: the named state.
    """
    source = tables.latest(stream.source.info.path)
    _check_source(record, position, source)
    if position.version is None:
        return _history_plan(record, stream, position, tables, limits, clock_us)
    if source.version == position.version:
        return None
    commits = _admitted(read_commits(source.path, position.version, source.version), limits)
    size = _Size(sum(c.add_rows or 0 for c in commits), sum(c.add_bytes for c in commits))
    unknown = any(c.add_rows is None for c in commits)
    extra: dict[str, Any] = {"transport": _transport(source, size, limits, unknown=unknown)}
    return _plan(record, stream, position, tables, limits, clock_us, "changes", position.version, commits[-1].version, extra)


def replay_plans(  # noqa: PLR0913
    record: StreamRecord, stream: Stream, position: Position, saved: int | None, tables: Tables, limits: Limits
) -> list[TickPlan]:
    """Return plans that bring a state from the saved version (None: from nothing) to the position.

    They are for the state only and never written.
    """
    plans = []
    source = tables.latest(stream.source.info.path)
    if saved is None and stream.definition.options.wants_history:
        upper = position.cuts[position.slice - 1] if position.version is None and position.cuts else None
        extra = {"transport": _transport(source, _table_size(source, record.start_version), limits)}
        plans.append(_replay(record, "history", -1, record.start_version, extra, upper))
    after = record.start_version if saved is None else saved
    if position.version is not None and position.version > after:
        commits = read_commits(source.path, after, position.version)
        size = _Size(sum(c.add_rows or 0 for c in commits), sum(c.add_bytes for c in commits))
        extra = {"transport": _transport(source, size, limits)}
        plans.append(_replay(record, "changes", after, position.version, extra, None))
    return plans


def _replay(
    record: StreamRecord, kind: str, after: int, upto: int, extra: dict[str, Any], upper: int | None
) -> TickPlan:
    lower = record.extra.get("until_us") if kind == "history" else None
    return TickPlan(record.uuid, 0, kind, after, upto, 0, {}, lower, upper, extra)


def _check_source(record: StreamRecord, position: Position, source: Table) -> None:
    if source.table_id != record.source_id:
        raise StreamError(
            "SOURCE_REPLACED",
            f"{source.path} is another table than the one that the stream was created on",
            hint="drop the stream and create it again",
        )
    if position.version is not None and source.version < position.version:
        raise StreamError(
            "SOURCE_REWOUND",
            f"{source.path} is at version {source.version}, before version {position.version} that was taken",
            hint="drop the stream and create it again",
        )


@dataclass(frozen=True)
class _Size:
    rows: int
    bytes: int


def _admitted(commits: Sequence[CommitInfo], limits: Limits) -> Sequence[CommitInfo]:
    """Return the first commits that together stay within the limits; one at least."""
    rows = size = 0
    for number, commit in enumerate(commits):
        rows += commit.add_rows or 0
        size += commit.add_bytes
        if number and (number >= limits.commits or rows > limits.rows or size > limits.bytes):
            return commits[:number]
    return commits


def _transport(source: Table, size: _Size, limits: Limits, *, unknown: bool = False) -> str:
    able = capabilities(source)
    if not (able.arrow_reads and able.arrow_changes) or limits.transport == SPARK:
        return SPARK
    if limits.transport == ARROW:
        return ARROW
    small = not unknown and size.rows <= limits.small_rows and size.bytes <= limits.small_bytes
    return ARROW if small else SPARK


def _history_plan(  # noqa: PLR0913 - what a plan is made of
    record: StreamRecord, stream: Stream, position: Position, tables: Tables, limits: Limits, clock_us: int
) -> TickPlan:
    """Take the rows there were at creation, in parts of event time when they are many."""
    source = tables.open(stream.source.info.path)
    size = _table_size(source, record.start_version)
    cuts = _cuts(source, stream, size, limits) if position.cuts is None else position.cuts
    part = position.slice
    start = record.extra.get("until_us")
    lower = start if part == 0 else cuts[part - 1]
    upper = cuts[part] if part < len(cuts) else None
    share = _Size(size.rows // (len(cuts) + 1), size.bytes // (len(cuts) + 1))
    extra: dict[str, Any] = {
        "transport": _transport(source, share, limits),
        "slice": part,
        "cuts": list(cuts),
    }
    return _plan(
        record, stream, position, tables, limits, clock_us, "history", -1, record.start_version, extra, (lower, upper)
    )


def _cuts(source: Table, stream: Stream, size: _Size, limits: Limits) -> tuple[int, ...]:
    """Return the instants between the parts of history: even steps between the oldest and newest file."""
    parts = max(-(-size.rows // limits.rows), -(-size.bytes // limits.bytes), 1)
    if parts == 1:
        return ()
    low, high = _time_span(source, stream.source.info.time_column)
    if low is None or high is None:
        return ()
    return tuple(sorted({low + (high - low) * number // parts for number in range(1, parts)}))


def _time_span(source: Table, column: str) -> tuple[int | None, int | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(source.handle.get_add_actions(flatten=True))
    name = f"min.{column}"
    if name not in files.column_names or files[name].null_count:
        return None, None
    oldest = pc.min(files[name]).cast(pa.timestamp("us", "UTC"))
    return int(oldest.value), newest_time(source, column)


def _table_size(source: Table, version: int) -> _Size:
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(source.at(version).get_add_actions(flatten=True))
    rows, size = pc.sum(files["num_records"]).as_py(), pc.sum(files["size_bytes"]).as_py()
    return _Size(rows or 0, size or 0)


def _plan(  # noqa: PLR0913
    record: StreamRecord,
    stream: Stream,
    position: Position,
    tables: Tables,
    limits: Limits,
    clock_us: int,
    kind: str,
    after: int,
    upto: int,
    extra: dict[str, Any],
    span: tuple[int | None, int | None] = (None, None),
) -> TickPlan:
    """Freeze the versions of all tables that the calculation reads; the source is read at ``upto``."""
    versions: dict[str, int] = {}
    large: dict[str, bool] = {}
    for read in stream.calculation.reads:
        info = stream.tables[read.relation.key]
        if info.path == stream.source.info.path:
            versions[info.path] = upto
        elif info.path not in versions:
            versions[info.path] = tables.latest(info.path).version
        if read.lower is None:
            size = _table_size(tables.open(info.path), versions[info.path])
            large[info.path] = size.rows > limits.small_rows or size.bytes > limits.small_bytes
    if large:
        extra = {**extra, "large_tables": large}
    return TickPlan(
        uuid=record.uuid,
        tick=position.tick + 1,
        kind=kind,
        after=after,
        upto=upto,
        clock_us=clock_us,
        table_versions=versions,
        lower_us=span[0],
        upper_us=span[1],
        extra=extra,
    )
