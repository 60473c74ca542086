"""A table that is no longer at its place on a local disk, found again by the id that Delta gave it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.errors import LakestreamError
from lakestream.storage.places import files
from lakestream.storage.tables.table import Table, is_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def found_again(place: str, table_id: str, among: Iterable[str]) -> list[str]:
    """Return the folders with the table of an id that was at a place: near it, and among others.

    Near is beside the first folder on the way there that is gone, under any name, or in a folder beside it.
    """
    if files.is_uri(place):
        return []
    candidates = dict.fromkeys([*_near(Path(place)), *among])
    return [path for path in candidates if path != place and _is_of(path, table_id)]


def _near(place: Path) -> Iterator[str]:
    above = next(folder for folder in place.parents if folder.is_dir())
    tail = place.relative_to(above).parts
    try:
        beside = sorted(above.iterdir())
    except OSError:
        return  # it may not be listed
    for folder in beside:
        yield str(Path(folder, *tail[1:]))
        yield str(Path(folder, *tail))


def _is_of(path: str, table_id: str) -> bool:
    try:
        return Path(path, "_delta_log").is_dir() and is_table(path) and Table.open(path).table_id == table_id
    except (LakestreamError, OSError):
        return False
