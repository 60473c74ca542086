"""What is emitted for windows: that they opened, closed or went, as a relation of events."""

from __future__ import annotations

EVENTS = "ls_events"


def kind_sql(kind: str, again: str = "false") -> str:
    """Return the columns of an event that say what it is; ``again`` is SQL."""
    return f"'{kind}' AS kind, {again} AS again, CAST(NULL AS STRING) AS extra"
