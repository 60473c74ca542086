"""Texts of a column by which a table is partitioned: its values are names of folders."""

from __future__ import annotations

UNTOLD = ("", "__HIVE_DEFAULT_PARTITION__")
"""What such a name does not tell from NULL: Spark writes NULL for these, delta-rs does at times."""


def told_text(sql: str) -> str:
    """Return SQL of such a text as it is meant: NULL for those of UNTOLD."""
    for text in UNTOLD:
        sql = f"nullif({sql}, '{text}')"
    return sql
