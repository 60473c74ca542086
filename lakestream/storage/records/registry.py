"""Streams and their ticks: Delta tables under ``_lakestream``, one small delta-rs commit per change.

``streams`` holds one row per stream. ``plans`` and ``progress`` hold a row per tick, the last ones
of each stream; ``state/<uuid>`` holds the state of one stream, ``opened/<uuid>`` its open windows.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.quoting import delta_text
from lakestream.sorting import natural
from lakestream.storage.records import saved
from lakestream.storage.records.job import Failure, Recalculation, RecalculationStatus
from lakestream.storage.records.keyed import KeyedTable, Known
from lakestream.storage.records.states import SavedStates
from lakestream.storage.records.stream import (
    Accepted,
    Begun,
    Compiled,
    Resynced,
    Status,
    StreamChanges,
    StreamRecord,
    WaitingGroup,
)
from lakestream.storage.records.tick import (
    WITHDRAWN,
    Checked,
    Corrected,
    HistorySlice,
    Instant,
    Progress,
    TablePosition,
    TickPlan,
    Totals,
    checked_together,
)
from lakestream.storage.records.tick_log import TickLog
from lakestream.storage.tables.table import Tables
from lakestream.storage.writes.checkpointing import behind_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from lakestream.storage.places.layout import Layout

__all__ = [
    "WITHDRAWN",
    "Accepted",
    "Begun",
    "Checked",
    "Compiled",
    "Corrected",
    "Failure",
    "HistorySlice",
    "Instant",
    "Progress",
    "Recalculation",
    "RecalculationStatus",
    "Registry",
    "Resynced",
    "Status",
    "StreamChanges",
    "StreamRecord",
    "TablePosition",
    "TickPlan",
    "Totals",
    "WaitingGroup",
    "checked_together",
]

_KEPT_FAILURES = 50

_LISTED = "SHOW STREAMS lists those that there are"


class Registry:
    """The streams of one lake. One process writes it (``lock.writer_lock``), any may read it.

    ``kept_ticks`` says how many ticks of each stream are kept at least; asked when old ones go. Several
    threads may use one; ``writing`` takes the lock, around each commit.
    """

    def __init__(
        self,
        layout: Layout,
        tables: Tables | None = None,
        kept_ticks: Callable[[], int] = lambda: 100,
        writing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        tables = tables or Tables()
        self.states, self.opened = SavedStates(layout, tables), SavedStates(layout, tables, "opened")
        self._streams = KeyedTable(layout.system_path("streams"), saved.STREAMS.columns, "uuid", writing)
        self._is_held = False
        self._known = Known(
            saved.STREAMS.record, lambda record: (natural(record.database), natural(record.name))
        )
        path = layout.system_path("recalculations")
        self._recalculations = KeyedTable(path, saved.RECALCULATIONS.columns, "id", writing)
        self._failures = KeyedTable(layout.system_path("failures"), saved.FAILURES.columns, "id", writing)
        path = layout.system_path("plans")
        self._plans = TickLog(path, saved.PLANS.of(layout), self._streams, kept_ticks, writing)
        path = layout.system_path("progress")
        self._progress = TickLog(path, saved.PROGRESS.of(layout), self._streams, kept_ticks, writing)

    def marks(self) -> tuple[int, ...]:
        """Return how far each of its tables has come: equal marks say that nothing was written.

        What is recorded here of ticks does not count: whoever has them made knows.
        """
        return tuple(
            table.mark() for table in (self._streams, self._recalculations, self._plans, self._progress)
        )

    def seen(self) -> tuple[int, ...]:
        """Return the marks as far as this process has seen or made them; nothing is asked for it."""
        return tuple(
            table.seen for table in (self._streams, self._recalculations, self._plans, self._progress)
        )

    # --- streams --------------------------------------------------------------------------------

    def streams(self, database: str | None = None) -> list[StreamRecord]:
        """Return the streams, of all databases or one, by database and name. Loads no pyarrow.

        Raises StorageError REGISTRY_TOUCHED where others changed them, REGISTRY_REWOUND where they were put
        back from an older copy: from before a tick, or before one was registered, replaced or removed.
        """
        found = self._known.of(self._streams.rows())
        if not self._is_held:
            self._plans.hold_streams()
            self._progress.hold_streams()
            self._is_held = True
        return [record for record in found if database in (None, record.database)]

    def accept_streams(self) -> list[StreamRecord]:
        """Take the streams as they are, also from an older copy, and return them."""
        self._streams.rows()
        self._plans.note_streams()
        self._progress.note_streams()
        return self.streams()

    def find(self, database: str, name: str) -> StreamRecord | None:
        """Return a stream, or None when there is none of that name."""
        return next((s for s in self.streams(database) if s.name == name), None)

    def stream(self, database: str, name: str) -> StreamRecord:
        """Return a stream; StatementError STREAM_NOT_FOUND with the closest names."""
        found = self.find(database, name)
        if found is None:
            raise StatementError(
                "STREAM_NOT_FOUND",
                f"there is no stream {database}.{name}",
                hint=did_you_mean(name, [s.name for s in self.streams(database)])
                or f"{database} has no streams; CREATE STREAM makes one",
                missing=f"{database}.{name}",
            )
        return found

    def writers(self, table: str) -> list[StreamRecord]:
        """Return the streams that write a table, by its name with its database."""
        return [record for record in self.streams() if table in record.written]

    def add(self, record: StreamRecord) -> None:
        """Register a stream. Raises StatementError STREAM_ALREADY_EXISTS."""
        own = (record.database, record.name.lower())

        def check(rows: Iterable[dict[str, Any]]) -> None:
            if any((row["database"], row["name"].lower()) == own for row in rows):
                raise StatementError(
                    "STREAM_ALREADY_EXISTS", f"there is a stream {record.database}.{record.name}"
                )

        # Any other process of an object store's lake may register one at this moment.
        database, name = map(delta_text, own)
        alike = f"database = {database} AND lower(name) = lower({name})"
        self._streams.insert(saved.STREAMS.row(record), alike, check)
        self._note_streams()

    def update(self, uuid: str, **changes: Unpack[StreamChanges]) -> StreamRecord:
        """Change fields of a stream and return it; STREAM_NOT_FOUND when it was removed."""

        def changed(row: dict[str, Any] | None) -> dict[str, Any]:
            if row is None:
                raise StatementError(
                    "STREAM_NOT_FOUND", f"the stream {uuid} is no longer there", hint=_LISTED
                )
            return saved.STREAMS.row(replace(saved.STREAMS.record(row), **changes))

        self._streams.change(uuid, changed)
        if "sql" in changes:
            self._note_streams()
        return saved.STREAMS.record(self._streams.rows()[uuid])

    def remove(self, uuid: str) -> None:
        """Remove a stream with its state; its ticks go with the next clearing of the logs."""
        self._streams.remove([uuid])
        self._note_streams()
        with behind_commit(self._streams.path):
            self._recalculations.remove([job.id for job in self.recalculations(uuid)])
            self._failures.remove([failure.id for failure in self.failures(uuid)])
            self.remove_states(uuid)

    def _note_streams(self) -> None:
        """Have ticks' records know of a change of the streams, which is there."""
        with behind_commit(self._streams.path):
            self._plans.note_streams()

    def remove_states(self, uuid: str) -> None:
        """Remove what is saved of a stream's groups and open windows."""
        self.opened.remove(uuid)
        self.states.remove(uuid)

    # --- recalculations --------------------------------------------------------------------------

    def recalculations(self, uuid: str | None = None) -> list[Recalculation]:
        """Return the recalculations of a stream (or of all), done ones too, in the order of asking."""
        found = [saved.RECALCULATIONS.record(row) for row in self._recalculations.rows().values()]
        asked = sorted(found, key=lambda job: (job.requested_us, job.id))
        return [job for job in asked if uuid in (None, job.uuid)]

    def put_recalculation(self, job: Recalculation) -> None:
        """Record a recalculation, in the place of what was known of it."""
        self._recalculations.put([saved.RECALCULATIONS.row(job)])

    # --- failures ---------------------------------------------------------------------------------

    def failures(self, uuid: str) -> list[Failure]:
        """Return the last failures of a stream (up to 50), in order."""
        found = [saved.FAILURES.record(row) for row in self._failures.rows().values()]
        own = [failure for failure in found if failure.uuid == uuid]
        return sorted(own, key=lambda failure: failure.at_us)

    def put_failure(self, failure: Failure) -> None:
        """Record a failure; the oldest ones of its stream go."""
        self._failures.put([saved.FAILURES.row(failure)])
        old = self.failures(failure.uuid)[:-_KEPT_FAILURES]
        self._failures.remove([failure.id for failure in old])

    # --- ticks ----------------------------------------------------------------------------------

    def write_plans(self, plans: Sequence[TickPlan]) -> None:
        """Record the plans of a round of ticks in one commit; a tick is planned once."""
        self._plans.write(plans)

    def write_progress(self, progress: Sequence[Progress]) -> None:
        """Record what a round of ticks did in one commit."""
        self._progress.write(progress)

    def last(self, uuid: str) -> tuple[TickPlan | None, Progress | None]:
        """Return a stream's newest plan and newest progress; read once, then kept in memory."""
        return self._plans.last(uuid), self._progress.last(uuid)

    def last_of_all(self) -> dict[str, tuple[TickPlan | None, Progress | None]]:
        """Return the newest plan and progress of every stream that has any, by its id: one look each."""
        plans, progress = self._plans.newest(), self._progress.newest()
        return {uuid: (plans.get(uuid), progress.get(uuid)) for uuid in {*plans, *progress}}

    def history(self, uuid: str) -> list[Progress]:
        """Return what is kept of a stream's ticks (at least the last ``kept_ticks``), in order."""
        return self._progress.of(uuid)

    def plans(self, uuid: str) -> list[TickPlan]:
        """Return what is kept of the plans of a stream, as :meth:`history` of what its ticks did."""
        return self._plans.of(uuid)

    def tick_logs(self) -> dict[str, TickLog[TickPlan] | TickLog[Progress]]:
        """Return the records of ticks by the names of their tables."""
        return {"plans": self._plans, "progress": self._progress}

    def clear_history(self) -> int:
        """Let go of all but the last ``kept_ticks`` of each stream; return how many ticks went."""
        self._plans.clear()
        return self._progress.clear()
