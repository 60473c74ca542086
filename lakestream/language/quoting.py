"""Names and texts in SQL: the one place that quotes, for Spark and for delta-rs, which do it otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def quoted(name: str) -> str:
    """Return a name as Spark SQL and lakestream's statements take it, whatever is in it.

    >>> quoted("day`s")
    '`day``s`'
    """
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    r"""Return a text as a string of lakestream's statements, and a literal of Spark SQL.

    >>> print(quoted_text("it's"))
    'it\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: int | bool | str) -> str:
    """Return a value as a literal of Spark SQL and of lakestream's statements.

    >>> literal(True), literal(-1), literal("a")
    ('TRUE', '-1', "'a'")
    """
    if isinstance(value, bool):
        return str(value).upper()
    return quoted_text(value) if isinstance(value, str) else str(value)


def quoted_path(*names: str) -> str:
    """Return names one within another, as Spark SQL takes them.

    >>> quoted_path("main", "day")
    '`main`.`day`'
    """
    return ".".join(map(quoted, names))


def delta_text(text: str) -> str:
    """Return a text as a literal of delta-rs's SQL (a quote is doubled, a backslash is itself)."""
    return "'" + text.replace("'", "''") + "'"


def delta_name(name: str) -> str:
    """Return a column's name as delta-rs's SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Quoting:
    """How an engine's SQL writes a column's name and a text."""

    name: Callable[[str], str]
    text: Callable[[str], str]


SPARK = Quoting(quoted, quoted_text)
DELTA = Quoting(delta_name, delta_text)
"""delta-rs's."""
