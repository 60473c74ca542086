"""Which statements are IoTDB's, whatever dialect is named: those that mean nothing in any other one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.language.reading.reader import Reader

HEADS: tuple[tuple[str, ...], ...] = (
    ("CREATE", "TIMESERIES"),
    ("CREATE", "ALIGNED", "TIMESERIES"),
    ("CREATE", "CQ"),
    ("CREATE", "CONTINUOUS", "QUERY"),
    ("CREATE", "STATELESS", "TRIGGER"),
    ("CREATE", "STATEFUL", "TRIGGER"),
    ("DELETE", "DATABASE"),
    ("DROP", "CQ"),
    ("DROP", "CONTINUOUS", "QUERY"),
    ("BACKFILL", "CQ"),
    ("BACKFILL", "CONTINUOUS", "QUERY"),
    ("DROP", "TRIGGER"),
    ("SHOW", "TIMESERIES"),
    ("SHOW", "CQS"),
    ("SHOW", "CONTINUOUS", "QUERIES"),
    ("SHOW", "TRIGGERS"),
    ("ALTER", "CQ"),
    ("ALTER", "CONTINUOUS", "QUERY"),
    ("ALTER", "TIMESERIES"),
    ("DROP", "TIMESERIES"),
    ("DELETE", "TIMESERIES"),
    ("SHOW", "DEVICES"),
    ("COUNT", "TIMESERIES"),
    ("COUNT", "DEVICES"),
)
"""First words that no other dialect knows."""

_DATABASES = (("CREATE", "DATABASE"), ("DROP", "DATABASE"))
"""What has a plain name behind it elsewhere, and a path here."""
_TABLES = (("INSERT", "INTO"), ("DELETE", "FROM"))
"""What has ``database.table`` behind it elsewhere, and a longer path here."""


def is_iotdb(reader: Reader) -> bool:
    """Return whether a statement, of which nothing is taken yet, can only be one of IoTDB's.

    ``root.ln`` may also be a table of a database that is called so; a longer path is a path.
    """
    if any(reader.sees(*head) for head in HEADS):
        return True
    if any(reader.sees(*head) for head in _DATABASES):
        return _is_path(reader, 2, least=2)
    if any(reader.sees(*head) for head in _TABLES):
        return _is_path(reader, 2, least=3)
    return reader.sees("SELECT") and any(
        word.is_word("FROM") and _is_path(reader, at + 1, least=3) for at, word in enumerate(reader.words)
    )


def _is_path(reader: Reader, at: int, *, least: int) -> bool:
    """Return whether a path with at least so many nodes, or one with ``*``, stands at an index."""
    words = reader.words[at : at + 2 * least - 1]
    if not words or not words[0].is_word("ROOT"):
        return False
    dotted = [word.is_symbol(".") for word in words[1::2]]
    wild = len(words) > 2 and dotted[0] and words[2].is_symbol("*")
    return wild or (len(words) == 2 * least - 1 and all(dotted))
