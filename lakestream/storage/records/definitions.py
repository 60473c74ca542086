"""Continuous queries and triggers as registered: a Delta table each under ``_lakestream``, a row each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lakestream.storage.records.keyed import KeyedTable, Known, Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestream.storage.places.layout import Layout


@dataclass(frozen=True)
class QueryRecord:
    """A continuous query. Times are microseconds since 1970 UTC.

    ``next_us`` is the due instant of the execution that comes next: what is due follows from it alone.
    ``last_us`` is that of the last one that succeeded, None before the first; ``skipped`` counts instants
    that DISCARD dropped. ``series`` and ``versions`` are the snapshot of the tree that an execution which has
    begun reads: up to which series, and each table, by path, at which version; None and empty before.
    Under BACKFILL the instants before ``backfill_until_us`` are done one by one, and then goes on what
    comes at ``resume_us``; None: nothing is filled. A new ``uuid`` tells these executions from those before.
    """

    uuid: str
    name: str
    sql: str
    zone: str
    created_us: int
    boundary_us: int
    next_us: int
    last_us: int | None = None
    skipped: int = 0
    last_error: str | None = None
    series: int | None = None
    versions: dict[str, int] = field(default_factory=dict)
    backfill_until_us: int | None = None
    resume_us: int | None = None


@dataclass(frozen=True)
class TriggerRecord:
    """A trigger. ``order`` counts triggers in the order of their creation.

    ``versions`` says up to which version of each database's table an AFTER trigger has seen the commits;
    ``state`` is the snapshot of a STATEFUL one as hexadecimal digits.
    """

    uuid: str
    name: str
    sql: str
    order: int
    versions: dict[str, int] = field(default_factory=dict)
    state: str | None = None


QUERY_COLUMNS = {
    "uuid": "string",
    "name": "string",
    "sql": "string",
    "zone": "string",
    "created_us": "bigint",
    "boundary_us": "bigint",
    "next_us": "bigint",
    "last_us": "bigint",
    "skipped": "bigint",
    "last_error": "string",
    "series": "bigint",
    "versions": "string",
    "backfill_until_us": "bigint",
    "resume_us": "bigint",
}
TRIGGER_COLUMNS = {
    "uuid": "string",
    "name": "string",
    "sql": "string",
    "order": "bigint",
    "versions": "string",
    "state": "string",
}


class Definitions:
    """The continuous queries and triggers of one lake; statements change them beside the rounds."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._queries = KeyedTable(layout.system_path("continuous_queries"), QUERY_COLUMNS, "name")
        self._triggers = KeyedTable(layout.system_path("triggers"), TRIGGER_COLUMNS, "name")
        self._known_queries = Known(self._query, lambda record: record.name)
        self._known_triggers = Known(self._trigger, lambda record: record.order)

    def are_none(self) -> bool:
        """Return whether nothing was ever defined."""
        return self._queries.mark() < 0 and self._triggers.mark() < 0

    def queries(self) -> list[QueryRecord]:
        """Return the continuous queries by name: the same list as long as nothing has changed."""
        return self._known_queries.of(self._queries.rows())

    def query(self, name: str) -> QueryRecord | None:
        """Return a continuous query, None when there is none of that name."""
        row = self._queries.rows().get(name)
        return self._query(row) if row is not None else None

    def put_queries(self, records: Iterable[QueryRecord]) -> None:
        """Record continuous queries in the place of what was known of them, in one commit."""
        self._queries.put(map(self._row, records))

    def renew_queries(self, records: Iterable[QueryRecord]) -> None:
        """Record how far continuous queries have come, in one commit; one that was dropped stays dropped."""
        self._queries.renew([*map(self._row, records)], _of_one)

    def remove_query(self, name: str) -> None:
        """Remove a continuous query."""
        self._queries.remove([name])

    def triggers(self) -> list[TriggerRecord]:
        """Return the triggers in the order of their creation: the same list while nothing has changed."""
        return self._known_triggers.of(self._triggers.rows())

    def put_triggers(self, records: Iterable[TriggerRecord]) -> None:
        """Record triggers in the place of what was known of them, in one commit."""
        self._triggers.put(map(self._row, records))

    def renew_triggers(self, records: Iterable[TriggerRecord]) -> None:
        """Record how far triggers have come, and their states; one that was dropped stays dropped."""
        self._triggers.renew([*map(self._row, records)], _further)

    def remove_trigger(self, name: str) -> None:
        """Remove a trigger."""
        self._triggers.remove([name])

    # --- rows; the lake's own tables are named by their places in it ---

    def _row(self, record: QueryRecord | TriggerRecord) -> dict[str, Any]:
        versions = {self._layout.place_of(path): version for path, version in record.versions.items()}
        return {**asdict(record), "versions": json.dumps(versions)}

    def _versions(self, row: dict[str, Any]) -> dict[str, int]:
        saved = json.loads(row["versions"] or "{}")
        return {self._layout.path_of(place): version for place, version in saved.items()}

    def _query(self, row: dict[str, Any]) -> QueryRecord:
        return QueryRecord(**{**row, "versions": self._versions(row)})

    def _trigger(self, row: dict[str, Any]) -> TriggerRecord:
        return TriggerRecord(**{**row, "versions": self._versions(row)})


def _of_one(old: Row, new: Row) -> Row | None:
    """Return the new row of a definition, None where the old one is of another definition of its name."""
    return new if old["uuid"] == new["uuid"] else None


def _further(old: Row, new: Row) -> Row | None:
    """Return the new row of a trigger, which a statement may have told of further tables."""
    known, own = json.loads(old["versions"]), json.loads(new["versions"])
    versions = {path: max(known.get(path, -1), own.get(path, -1)) for path in {**known, **own}}
    return _of_one(old, {**new, "versions": json.dumps(versions)})
