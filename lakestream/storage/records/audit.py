"""Who changed what through the server, and who was not let: a table of the lake, a row for each."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakestream.covered import redacted_text
from lakestream.errors import LakestreamError
from lakestream.storage.records.keyed import compact, damage_named, open_system, was_written
from lakestream.storage.rows.reading import read_arrow, timestamp_literal
from lakestream.storage.tables.table import Table, first_line
from lakestream.storage.writes.checkpointing import behind_commit
from lakestream.storage.writes.edits import append, delete_where

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

COLUMNS = {
    "at": "timestamp",
    "who": "string",
    "client": "string",
    "did": "string",
    "outcome": "string",
    "seconds": "double",
}
_log = logging.getLogger(__name__)
_LONGEST = 10_000
_FILES = 50


class Audit:
    """Notes what changes a lake by a request; ``did`` is the statement, urls without their secrets."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout, self._path = layout, layout.system_path("audit")
        self._clock = clock
        self._turn = threading.Lock()
        self._table: Table | None = None

    @contextmanager
    def noting(self, who: str, client: str, did: str) -> Iterator[None]:
        """Note what is done meanwhile, with its outcome: ``ok``, or the code of what it failed of."""
        begun, outcome = self._clock.monotonic(), "ok"
        try:
            yield
        except LakestreamError as error:
            outcome = error.code
            raise
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self.note(who, client, did, outcome, self._clock.monotonic() - begun)

    def note(self, who: str, client: str, did: str, outcome: str, seconds: float = 0.0) -> None:
        """Write one row, and put the table's files together now and then.

        What was done stays done: a row that cannot be written is in the log instead.
        """
        import pyarrow as pa

        row: dict[str, Any] = {
            "at": self._clock.now(),
            "who": who,
            "client": client,
            "did": redacted_text(did)[:_LONGEST],
            "outcome": outcome,
            "seconds": seconds,
        }
        with self._turn:
            try:
                self._layout.refuse_gone()
                table = self._table = self._table or open_system(self._path, COLUMNS)
                append(table, pa.Table.from_pylist([row], schema=table.schema))
            except Exception as error:  # noqa: BLE001 - of the disk, of delta-rs, or of damage
                self._table = None
                said = {key: row[key] for key in ("who", "client", "did", "outcome")}
                _log.error("not in the audit (%s): %s", first_line(error), said)
                return
            with behind_commit(self._path):
                compact(table, _FILES)

    def remove(self, before_us: int, *, dry_run: bool = False) -> int:
        """Delete what was noted before an instant (µs since 1970 UTC), and return how many rows that is.

        With ``dry_run`` they are only counted.
        """
        if not was_written(self._path):
            return 0
        old = f"at < {timestamp_literal(before_us)}"
        if not dry_run:
            return delete_where(self._path, old)
        with damage_named(self._path):
            return int(Table.open(self._path).handle.scan(columns=["at"], predicate=old).read_all().num_rows)

    def rows(self) -> pa.Table:
        """Return all that was noted, in no order."""
        import pyarrow as pa

        if not was_written(self._path):
            kinds = {"timestamp": pa.timestamp("us", "UTC"), "double": pa.float64(), "string": pa.string()}
            return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()]).empty_table()
        with damage_named(self._path):
            return read_arrow(self._path, None, columns=list(COLUMNS))
