"""The lake as the API shows it: documents made of what lies in the lake, without Spark."""

from __future__ import annotations

import json
import os
import socket
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakestream import __version__
from lakestream.engine.base.instants import from_micros
from lakestream.server.shown.documents import (
    DeliveryDocument,
    EventDocument,
    FailureDocument,
    LakeDocument,
    LineageDocument,
    OwnerDocument,
    QueryDocument,
    QueryNode,
    RecalculationDocument,
    RunDocument,
    StreamDetails,
    StreamDocument,
    StreamNode,
    TableNode,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pydantic import BaseModel

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.lake import Lake
    from lakestream.observation.observe import Event, Outline, Run
    from lakestream.server.news.live import Rates
    from lakestream.statements.status import StreamStatus
    from lakestream.storage.records.registry import Recalculation


class Reader:
    """Answers what only looks, one question at a time, by a lake of its own."""

    def __init__(self, lake: Lake, rates: Rates, alarms: Callable[[], Mapping[str, Alarm]]) -> None:
        """``alarms`` are those of the lake that runs the streams."""
        self._lake = lake
        self._alarms = alarms
        self._rates = rates
        self._since = lake.clock.now()
        self._turn = threading.Lock()

    def lake(self) -> LakeDocument:
        """Return what lake this is, and who serves it."""
        owner = OwnerDocument(pid=os.getpid(), host=socket.gethostname(), since=self._since)
        return LakeDocument(
            root=self._lake.root,
            timezone=self._lake.timezone,
            version=__version__,
            owner=owner,
            now=self._lake.clock.now(),
        )

    def statuses(self) -> list[StreamStatus]:
        """Return the state of every stream."""
        with self._turn:
            return self._lake.streams()

    def waiting(self) -> dict[str, int]:
        """Return by target how many events wait for it."""
        with self._turn:
            return self._lake.waiting_events()

    def streams(self) -> list[StreamDocument]:
        """Return every stream."""
        with self._turn:
            outlines = self._lake.triggers(self._alarms())
            return [
                StreamDocument(**self._stream(status, outlines[_name(status)]))
                for status in self._lake.streams()
                if _name(status) in outlines
            ]

    def stream(self, name: str) -> StreamDetails:
        """Return a stream with what it is made of. Raises StatementError STREAM_NOT_FOUND."""
        with self._turn:
            jobs, details = self._lake.recalculations(name), self._lake.details(name)
            status = next(status for status in self._lake.streams() if _name(status) == name)
            return StreamDetails(
                **self._stream(status, self._lake.triggers(self._alarms())[name]),
                sql=status.sql,
                created_at=from_micros(status.created_us),
                recalculations=[_recalculation(job) for job in jobs],
                errors=[
                    FailureDocument(at=from_micros(f.at_us), code=f.code, message=f.message)
                    for f in self._lake.failures(name)
                ],
                errors_table=details.errors_table,
                newest=_instant(details.newest_us),
            )

    def runs(self, name: str, limit: int) -> list[RunDocument]:
        """Return a stream's last ticks and failures, newest first."""
        with self._turn:
            return [run_document(run) for run in self._lake.runs(name, limit)]

    def queries(self) -> list[QueryDocument]:
        """Return the continuous queries by name."""
        with self._turn:
            rows = self._lake.sql("SHOW CQS", dialect="iotdb").fetchall()
        return [QueryDocument(**dict(zip(QueryDocument.model_fields, row, strict=True))) for row in rows]

    def lineage(self, reaches: Callable[[str], bool]) -> LineageDocument:
        """Return the streams of the databases that ``reaches`` says, and what is between them.

        Continuous queries are of no database (``""``).
        """
        with self._turn:
            found = self._lake.lineage()
        streams = [one for one in found.streams if reaches(one.stream.rpartition(".")[0])]
        queries = [one for one in found.queries if reaches("")]
        shown = {name for one in streams for name in (*one.reads, one.writes)}
        shown |= {name for one in queries for name in (*one.reads, *(to.table for to in one.writes))}
        return LineageDocument(
            tables=[TableNode(name=name, kind=kind) for name, kind in found.tables if name in shown],
            streams=[
                StreamNode(name=one.stream, reads=list(one.reads), writes=one.writes) for one in streams
            ],
            queries=[
                QueryNode(name=one.query, reads=list(one.reads), writes=[to.table for to in one.writes])
                for one in queries
            ],
        )

    def events(self, stream: str | None, after: str | None, limit: int) -> list[EventDocument]:
        """Return events, oldest first; see :meth:`lakestream.lake.Lake.events`."""
        with self._turn:
            return [event_document(event) for event in self._lake.events(stream, after, limit)]

    def _stream(self, status: StreamStatus, outline: Outline) -> dict[str, Any]:
        return {
            **_fields(status, StreamDocument),
            "why": status.why,
            "rows_per_second": self._rates.of(_name(status)),
            "last_tick_at": _instant(status.last_tick_us),
            "retry_at": _instant(status.retry_us),
            "begun_at": _instant(status.begun_us),
            "next_due_at": _instant(outline.next_due_us),
            "trigger": outline.trigger,
        }


def _name(status: StreamStatus) -> str:
    return f"{status.database}.{status.name}"


def _fields(value: StreamStatus | TickReport | Run, document: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a value that a document has under the same name."""
    return {name: one for name, one in asdict(value).items() if name in document.model_fields}


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _recalculation(job: Recalculation) -> RecalculationDocument:
    return RecalculationDocument(
        id=job.id,
        start=_instant(job.start_us),
        end=_instant(job.end_us),
        done=job.part,
        parts=job.parts,
        rows=job.rows_out,
        status=job.status,
    )


def run_document(run: Run) -> RunDocument:
    """Return a tick as the API tells it."""
    return tick_document(run, from_micros(run.at_us))


def tick_document(tick: TickReport | Run, at: datetime) -> RunDocument:
    """Return a tick that ended at a time as the API tells it."""
    return RunDocument(**_fields(tick, RunDocument), at=at)


def event_document(event: Event) -> EventDocument:
    """Return an event as the API tells it."""
    return EventDocument(
        id=event.id,
        stream=event.stream,
        at=from_micros(event.at_us),
        type=event.type,
        group=event.group,
        event=json.loads(event.event),
        deliveries=[DeliveryDocument(target=target, state=state) for target, state in event.deliveries],
    )
