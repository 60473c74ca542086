"""Which names lakestream accepts: each must make one safe segment of a path, or one Delta column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakestream.errors import Place, StatementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_NAME = 128
_MAX_CATALOG_NAME = 255
FILE_FORMATS = frozenset(
    {"avro", "binaryfile", "cloudfiles", "csv", "delta", "hudi", "iceberg", "image", "jdbc", "json", "kafka"}
    | {"libsvm", "orc", "parquet", "rate", "socket", "statestore", "text", "xml"}
)
"""Spark reads ``format.`path` `` as a file: none of these may name a database."""

_DEVICE = re.compile(
    r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE | re.DOTALL
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_RESERVED = ("_lakestream", "_delta_log")
_COLUMN_REFUSED = re.compile(r"[ ,;{}()\n\t=]")


def _reason(name: str, longest: int = MAX_NAME) -> str:
    """Return why a name is refused for tables and columns alike, or an empty text."""
    if not name:
        return "a name may not be empty"
    if len(name) > longest:
        return f"a name has at most {longest} characters, this one has {len(name)}"
    if _CONTROL.search(name):
        return "a name may hold no control, line or direction characters"
    if name.startswith("%%"):
        return "%% begins a placeholder, not a name"
    return ""


def _path_reason(name: str) -> str:
    if "/" in name or "\\" in name:
        return "a name may hold no / and no \\"
    if ".." in name or name.startswith("."):
        return "a name may neither begin with a dot nor hold two dots in a row"
    if name.endswith((".", " ")) or name.startswith(" "):
        return "a name may not begin or end with a blank, nor end with a dot"
    if name.lower().startswith(_RESERVED):
        return "names beginning with _lakestream or _delta_log belong to lakestream and Delta Lake"
    if _DEVICE.fullmatch(name):
        return f"{name} is a device on Windows"
    return ""


def check_name(name: str, place: Place) -> str:
    """Return the name of a database, table or stream, which becomes a directory.

    Raises StatementError(BAD_NAME) for what no file system or catalog could keep apart safely.
    """
    return _accept(name, _reason(name) or _path_reason(name), place)


def check_database_name(name: str, place: Place) -> str:
    """Return a database's name: a table's, and none that Spark takes for a file format."""
    if name.lower() in FILE_FORMATS:
        return _accept(name, f"{name} names a file format in Spark SQL", place)
    return check_name(name, place)


def check_catalog_name(parts: Sequence[str], places: Sequence[Place]) -> None:
    """Raise BAD_NAME for a table's name in a catalog of Spark's that is none, or that Spark takes for a path.

    A part has at most 255 characters, as in Unity Catalog; which others it may have is the catalog's affair.
    """
    for part, place in zip(parts, places, strict=True):
        _accept(part, _reason(part, _MAX_CATALOG_NAME), place)
    if len(parts) == 2 and parts[0].lower() in FILE_FORMATS:
        _accept(parts[0], f"{parts[0]} names a file format in Spark SQL", places[0])


def check_column_name(name: str, place: Place) -> str:
    """Return the name of a column or tag: one that Delta stores without column mapping.

    Names beginning with ``_ls_`` are the hidden columns of output tables.
    """
    return _accept(name, _column_reason(name), place)


def _column_reason(name: str) -> str:
    reason = _reason(name)
    if not reason and _COLUMN_REFUSED.search(name):
        reason = "Delta Lake allows no blank and none of , ; { } ( ) = in a column's name"
    if not reason and name.lower().startswith("_ls_"):
        reason = "names beginning with _ls_ are lakestream's own"
    return reason


def stored_name(name: str) -> str:
    """Return what a column of that name, which another table has, is called in a table of a lake."""
    return name_of_text(name) if _column_reason(name) else name


def name_of_text(text: str) -> str:
    """Return a name for a column that has none: its text without what a column's name cannot have."""
    return re.sub(r"\W+", "_", text.lower()).strip("_")[:MAX_NAME] or "value"


class FreeNames:
    """Names beside those that are ``taken``, without regard to case; each that is given is taken then."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return a name, with a number behind it where it is taken."""
        free, number = name, self._next.get(name, 2)
        while free.lower() in self._taken:
            free, number = f"{name}_{number}", number + 1
        self._next[name] = number
        self._taken.add(free.lower())
        return free


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name with a number behind it where it is taken, without regard to case."""
    return FreeNames(taken).take(name)


def _accept(name: str, reason: str, place: Place) -> str:
    if reason:
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        raise StatementError(
            "BAD_NAME", f"{shown!r} cannot be a name: {reason}", hint="choose another name", place=place
        )
    return name
