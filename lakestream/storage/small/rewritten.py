"""Queries in DuckDB's words, kept for the user's next processes: to rewrite one takes longer than to run it.

A text of Spark's has one of DuckDB's, whatever the rows are. What is kept is bound to the code that rewrites,
and is believed where its checksum holds; where the file cannot be had, every query is rewritten.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestream.storage.places.scratch import user_folder
from lakestream.storage.small.exact import NotExactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.storage.small.typed.scopes import Columns

_log = logging.getLogger(__name__)

_VIEW = "view\x01"
"""What no text of a user has in it."""
_MARKED = re.compile(rf'"{_VIEW}([^"]*)"')
_DECIMALS, _COLUMNS = "decimals\x01", "columns\x01"
_NAME = "queries.sqlite"
_MOST = 5_000
"""Of more queries than that the oldest ones are forgotten, so that the file stays in some tens of MiB."""
_LONGEST = 50_000
_WAIT_SECONDS = 1.0
"""How long another process may write before a query is rewritten once more instead."""
_SETUP = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS queries (
  number INTEGER PRIMARY KEY, query BLOB UNIQUE, said TEXT NOT NULL, checksum BLOB NOT NULL);
"""


def marked(view: str) -> str:
    """Return the name that stands for a view in a query."""
    return f"{_VIEW}{view}"


@dataclass(frozen=True)
class DuckQuery:
    """A query for DuckDB that names the ``views`` it reads, which are relations or queries there."""

    sql: str
    views: tuple[str, ...]

    def over(self, relations: Mapping[str, str]) -> str:
        """Return its text over views, given as SQL; raises NotExactError for one that is not there."""
        for view in self.views:
            if view not in relations:
                raise NotExactError(f"there is no view {view}")
        parts = _MARKED.split(self.sql)
        return "".join(relations[part] if at % 2 else part for at, part in enumerate(parts))


@lru_cache(maxsize=2_000)
def rewritten(
    text: str,
    views: tuple[tuple[str, Columns | None], ...] = (),
    *,
    many: bool = False,
    decimals: bool = False,
) -> DuckQuery:
    """Return a query in Spark's SQL as DuckDB's; raises NotExactError for what may not mean the same.

    ``views``: the columns of what it reads, where they are known. ``many``: in words that are quick over many
    rows; such queries are not kept, as they take longer to run. ``decimals``: its casts to decimals have been
    looked at, and are exact.
    """
    if many:
        return _new(text, views, many=True, decimals=decimals)
    told = f"{_DECIMALS}{text}" if decimals else text
    if any(columns is not None for _, columns in views):
        told = f"{views!r}{_COLUMNS}{told}"
    kept = _of_user(os.getpid())
    query = kept.find(told)
    if query is None:
        query = _new(text, views, many=False, decimals=decimals)
        kept.add(told, query)
    return query


def _new(
    text: str, views: tuple[tuple[str, Columns | None], ...], *, many: bool, decimals: bool
) -> DuckQuery:
    # Loaded where it is needed: it and sqlglot's dialect of DuckDB take longer to load than a look does.
    from lakestream.storage.small.dialect.query import duckdb_sql
    from lakestream.storage.small.typed.passing import settled

    return duckdb_sql(settled(text, views), many=many, decimals=decimals)


@lru_cache(maxsize=1)
def _of_user(_process: int) -> KeptQueries:
    """Return the queries in the user's folder; a process that was forked opens them by itself."""
    return KeptQueries(user_folder() / _NAME)


class KeptQueries:
    """Queries in a file that processes share; with one that is damaged, none are known. For any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_damaged = False

    def find(self, text: str) -> DuckQuery | None:
        """Return what a query was rewritten to, None where that is not known."""
        key = _key(text)
        for said, checksum in self._asked("SELECT said, checksum FROM queries WHERE query = ?", key):
            if isinstance(said, str) and checksum == _checksum(key, said):
                sql, *views = json.loads(said)
                return DuckQuery(sql, tuple(views))
        return None

    def add(self, text: str, query: DuckQuery) -> None:
        """Keep what a query was rewritten to; the oldest ones make room."""
        key, said = _key(text), json.dumps([query.sql, *query.views])
        if len(said) > _LONGEST:
            return
        added = "INSERT OR REPLACE INTO queries (query, said, checksum) VALUES (?, ?, ?) RETURNING number"
        for (number,) in self._asked(added, key, said, _checksum(key, said)):
            self._asked("DELETE FROM queries WHERE number <= ?", number - _MOST)

    def _asked(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; none where the file cannot be had, or is damaged."""
        with self._lock:
            try:
                return [] if self._is_damaged else self._opened().execute(sql, values).fetchall()
            except (sqlite3.OperationalError, OSError) as error:
                _log.debug("%s cannot be had: %s", self._path, error)
            except sqlite3.DatabaseError as error:
                _log.debug("%s goes, and is made anew by the next process: %s", self._path, error)
                self._is_damaged = True
                with suppress(OSError):
                    self._path.unlink()
        return []

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Queries may have values in them that others need not see.
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(
                self._path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.executescript(_SETUP)
            self._connection = connection
        return self._connection


def _key(text: str) -> bytes:
    return hashlib.sha256(_code() + text.encode()).digest()


def _checksum(key: bytes, said: str) -> bytes:
    return hashlib.sha256(key + said.encode()).digest()


@cache
def _code() -> bytes:
    """Return what tells versions of the code that rewrites apart: its own text, and sqlglot's version."""
    import sqlglot

    version: str = sqlglot.__version__  # type: ignore[attr-defined]  # it is in no list of names
    digest = hashlib.sha256(version.encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.digest()
