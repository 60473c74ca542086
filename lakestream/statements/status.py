"""SHOW STREAMS: the state of every stream, without Spark."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.covered import redacted_text
from lakestream.engine.base.instants import from_micros
from lakestream.engine.base.result import Result
from lakestream.errors import (
    StorageError,
    StreamError,
)
from lakestream.observation.expectations import expectations_held, quarantines_of
from lakestream.storage.places.claims import works
from lakestream.storage.records.registry import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lakestream.language import model
    from lakestream.notify.deliveries import Delivery
    from lakestream.observation.expectations import ExpectationStatus
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.places.claims import Work
    from lakestream.storage.records.registry import Progress, Recalculation, StreamRecord


@dataclass(frozen=True)
class StreamStatus:
    """A stream as ``SHOW STREAMS`` lists it.

    ``lag`` counts commits of its source still to take. ``tick`` and ``version`` (of the source) are
    those of its last tick, None before the first one; the counts are of all ticks since the stream was
    created. ``recalculating`` says how many parts of its recalculations are done, None when there is
    none under way. ``held_back`` says what keeps a stream that has something to do from doing it: the
    limit of its output's commits or bytes a second, events that wait for their target, or a source that
    cannot be read, of which ``lag`` tells nothing.
    ``lag_seconds`` is the age of the oldest commit still to take, None when the log no longer tells it.
    ``retry_us`` is when a stream that is Retrying is tried next. ``sources`` are the tables that it reads,
    the triggering one first; ``output`` is None for one that only notifies. ``waiting_groups`` names the
    groups that wait, each with how many windows of it would have fired at once. ``doing`` is what Spark
    computes of it now, or is to compute, and ``begun_us`` since when; ``waits_for_turn`` says which.
    ``expectations`` has the counts of each; rows that do not meet them are in the tables ``quarantines``.
    Times are microseconds since 1970 UTC.
    """

    database: str
    name: str
    status: str
    tick: int | None
    version: int | None
    lag: int
    rows_in: int
    rows_out: int
    late: int
    recalculating: str | None
    held_back: str | None
    last_error: str | None
    sql: str
    created_us: int
    lag_seconds: float | None = 0.0
    last_tick_us: int | None = None
    last_tick_seconds: float | None = None
    sources: tuple[str, ...] = ()
    output: str | None = None
    retry_us: int | None = None
    waiting_groups: tuple[str, ...] = ()
    doing: str | None = None
    begun_us: int | None = None
    waits_for_turn: bool = False
    expectations: tuple[ExpectationStatus, ...] = ()
    quarantines: tuple[str, ...] = ()

    @property
    def is_failing(self) -> bool:
        """Return whether the stream could not be brought up to date."""
        return self.status in {"Failed", "Retrying"}

    @property
    def why(self) -> str:
        """Return in a sentence why the stream's output is not current, or not all of it; empty when it is."""
        return next(self._reasons(), self._left_out)

    @property
    def _left_out(self) -> str:
        """What keeps rows of the source, or results, out of an output that is current."""
        # What FAIL names was corrected before the stream ran again.
        violated = [str(one) for one in self.expectations if one.violated and one.action != "FAIL"]
        return f"Rows did not meet what is expected of them: {'; '.join(violated)}" if violated else ""

    def _reasons(self) -> Iterator[str]:
        """Yield why it is not current, what a person has to see to before what passes."""
        behind = _behind(self.lag, self.lag_seconds)
        if self.status == "Failed":
            yield f"It failed and waits for START STREAM: {self.last_error}"
        if self.status == "Retrying":
            at = "" if self.retry_us is None else f" at {from_micros(self.retry_us):%H:%M:%S} UTC"
            yield f"It is tried again{at}: {self.last_error}"
        if self.status == "Stopped":
            yield f"It is stopped until START STREAM{behind and f', {behind}'}"
        if self.held_back:
            yield f"It is held back by {self.held_back}{behind and f', {behind}'}"
        if self.waiting_groups:
            yield f"Groups wait, because a row lies far from their others: {'; '.join(self.waiting_groups)}"
        if self.doing and self.begun_us is not None:
            does = "It waits for its turn" if self.waits_for_turn else "Spark computes"
            since = f"{from_micros(self.begun_us):%H:%M:%S} UTC"
            yield f"{does} since {since}: {self.doing}{behind and f', it is {behind}'}"
        if self.recalculating:
            yield f"It is recalculating: {self.recalculating} are done"
        if self.tick is None and behind:
            yield f"No tick has run yet, {behind}"
        if behind:
            yield f"It is {behind}"


def _behind(commits: int, seconds: float | None) -> str:
    """Return how far a stream is behind its source, empty when it is not."""
    if not commits:
        return ""
    age = "" if seconds is None else f", the oldest {seconds:,.0f} s old"
    return f"{commits:,} commit{'' if commits == 1 else 's'} behind{age}"


def _held(at: Workspace) -> list[Delivery]:
    """Return the deliveries that streams wait for; none where that table is damaged, as ``check`` says."""
    with suppress(StorageError):
        return [delivery for delivery in at.deliveries.all() if delivery.holds]
    return []


def stream_statuses(at: Workspace) -> list[StreamStatus]:
    """Return the state of every stream; starts no Spark. Raises StorageError LAKE_GONE."""
    at.layout.refuse_gone()
    last = at.registry.last_of_all()
    seen: dict[str, tuple[int | None, str | None]] = {}
    jobs = [job for job in at.registry.recalculations() if job.is_open]
    held = _held(at)
    done = works(at.layout)
    found = []
    for record in at.registry.streams():
        source = record.source
        if source not in seen:
            seen[source] = _seen(at, source)
        version, unreadable = seen[source]
        progress = last.get(record.uuid, (None, None))[1]
        own = [job for job in jobs if job.uuid == record.uuid]
        waits = [d.target for d in held if d.stream_id == record.uuid]
        status = _status(record, progress, version, own, waits, at.system_clock.now())
        lag_seconds = _lag_seconds(at, record, progress, status.lag)
        held_back = unreadable or status.held_back
        status = replace(status, lag_seconds=lag_seconds, held_back=held_back)
        found.append(_with_work(status, done.get(record.uuid)))
    return found


def _with_work(status: StreamStatus, work: Work | None) -> StreamStatus:
    if work is None:
        return status
    since_us = round(work.since * 1_000_000)
    return replace(status, doing=work.doing, begun_us=since_us, waits_for_turn=work.waits)


def show_streams(at: Workspace, statement: model.ShowStreams) -> Result:
    """SHOW STREAMS; a pattern is one of SQL's LIKE, whose letters are of either case."""
    columns = (
        "database",
        "name",
        "status",
        "tick",
        "version",
        "lag",
        "rows_in",
        "rows_out",
        "last_error",
        "sql",
    )
    rows = [
        (
            *(getattr(status, column) for column in columns),
            "; ".join(status.waiting_groups) or None,
            "; ".join(map(str, status.expectations)) or None,
        )
        for status in stream_statuses(at)
        if statement.database in {None, status.database}
        and status.database in at.catalog.reach
        and _is_like(status.name, statement.like)
    ]
    return Result((*columns, "waiting_groups", "expectations"), rows)


def _is_like(name: str, pattern: str | None) -> bool:
    """Return whether a name is as a pattern of SQL's LIKE says, which may escape by a backslash."""
    if pattern is None:
        return True
    parts = re.findall(r"\\?.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(regex, name, re.IGNORECASE | re.DOTALL) is not None


def show_created(at: Workspace, statement: model.ShowCreateStream) -> Result:
    """SHOW CREATE STREAM: as it was written, but for secrets. Raises StatementError STREAM_NOT_FOUND."""
    name = statement.name.within(at.database)
    record = at.registry.stream(name.database or "", name.name)
    return Result(("Stream", "Create Stream"), [(str(name), redacted_text(record.sql))])


def _lag_seconds(at: Workspace, record: StreamRecord, progress: Progress | None, lag: int) -> float | None:
    """Return the age of the oldest commit that a stream has still to take."""
    if not lag:
        return 0.0
    from lakestream.storage.delta import read_commits

    done = record.start_version if progress is None else progress.version
    info = at.catalog.find_table(*record.source.split(".", 1), anywhere=True)
    try:
        commit = read_commits(info.path, done, done + 1)[0] if info is not None else None
    except (StreamError, StorageError):
        return None  # the log was cleared, or is damaged; the stream will say so
    if commit is None or not commit.timestamp_ms:
        return None
    return max(0.0, at.clock.now().timestamp() - commit.timestamp_ms / 1_000)


def _seen(at: Workspace, source: str) -> tuple[int | None, str | None]:
    """Return the latest version of a source, or why it cannot be read."""
    try:
        return at.latest_version(source), None
    except StorageError as error:
        return None, str(error)


def _status(
    record: StreamRecord,
    progress: Progress | None,
    latest: int | None,
    jobs: Sequence[Recalculation],
    targets: Sequence[str],
    now: datetime,
) -> StreamStatus:
    done = record.start_version if progress is None else progress.version
    totals = (progress.totals if progress else None) or Totals()
    return StreamStatus(
        database=record.database,
        name=record.name,
        status=record.status,
        tick=progress.tick if progress else None,
        version=progress.version if progress else None,
        lag=max(0, latest - done) if latest is not None else 0,
        rows_in=totals.rows_in,
        rows_out=totals.rows_out,
        late=totals.late,
        recalculating=_parts_done(jobs),
        held_back=_held_back(progress, now, targets),
        last_error=record.last_error,
        sql=redacted_text(record.sql),
        created_us=record.created_us,
        last_tick_us=progress.finished_us if progress else None,
        last_tick_seconds=progress.seconds if progress else None,
        sources=record.sources,
        output=record.table,
        retry_us=record.retry_us if record.status == "Retrying" else None,
        waiting_groups=tuple(map(str, record.waiting_groups)),
        expectations=expectations_held(record, progress),
        quarantines=quarantines_of(record),
    )


def _held_back(progress: Progress | None, now: datetime, targets: Sequence[str]) -> str | None:
    """Return what keeps a stream back; ``targets`` are those that it waits for."""
    if targets:
        return f"events that {', '.join(targets)} cannot be told of"
    held_until = progress.held_until if progress else 0.0
    return "the output's rate limit" if held_until > now.timestamp() else None


def _parts_done(jobs: Sequence[Recalculation]) -> str | None:
    if not jobs:
        return None
    done, parts = sum(job.part for job in jobs), sum(job.parts or 1 for job in jobs)
    return f"{done} of {parts} parts"
