"""What is emitted for windows: that they opened, closed or went, as a relation of events."""

from __future__ import annotations

EVENTS = "ls_events"


def kind_sql(kind: str, refired: str = "false") -> str:
    """Return the columns of an event that say what it is; ``refired`` is SQL."""
    return f"'{kind}' AS kind, {refired} AS refired, CAST(NULL AS STRING) AS extra"
