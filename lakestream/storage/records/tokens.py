"""Who may ask a lake's server for what: tokens, of which the lake keeps a hash and nobody the text."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from lakestream.errors import ConfigError
from lakestream.language.quoting import delta_text
from lakestream.storage.records.keyed import KeyedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.storage.places.layout import Layout
    from lakestream.storage.records.keyed import Row

_COLUMNS = {"name": "string", "hash": "string", "scope": "string", "bases": "string", "created_us": "bigint"}
_PREFIX = "ls_"
_BYTES = 32


class Scope(IntEnum):
    """What a token lets do: each also what the ones before it do."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True)
class Principal:
    """Somebody who asks: by which token, for what, and in which databases (none: in all)."""

    name: str
    scope: Scope
    databases: tuple[str, ...] = ()
    created_us: int = 0

    def reaches(self, database: str) -> bool:
        """Return whether a database is one of theirs."""
        return not self.databases or database.lower() in self.databases


class Tokens:
    """The tokens of one lake. They are random, so that a plain hash of one tells nothing of it."""

    def __init__(self, layout: Layout) -> None:
        self._rows = KeyedTable(layout.system_path("tokens"), _COLUMNS, "name")

    def issue(self, name: str, scope: Scope, databases: Sequence[str], now_us: int) -> str:
        """Make a token and return its text, which is told this once (``now_us``: µs since 1970 UTC).

        Raises ConfigError TOKEN_EXISTS for a name that is taken.
        """
        text = _PREFIX + secrets.token_urlsafe(_BYTES)
        row: Row = {
            "name": name,
            "hash": _hash(text),
            "scope": scope.name.lower(),
            "bases": "\n".join(sorted({one.lower() for one in databases})),
            "created_us": now_us,
        }

        def check(there: Iterable[Row]) -> None:
            if any(one["name"] == name for one in there):
                raise ConfigError(
                    "TOKEN_EXISTS", f"there is a token {name}", hint="revoke it, or take another name"
                )

        self._rows.insert(row, f"name = {delta_text(name)}", check)
        return text

    def revoke(self, name: str) -> None:
        """Have a token let in nobody any more. Raises ConfigError TOKEN_NOT_FOUND."""
        if name not in self._rows.rows():
            raise ConfigError("TOKEN_NOT_FOUND", f"there is no token {name}", hint="`lakestream token list`")
        self._rows.remove([name])

    def every(self) -> list[Principal]:
        """Return who has a token, by name."""
        return [_principal(row) for _, row in sorted(self._rows.rows().items())]

    def holder(self, text: str) -> Principal | None:
        """Return whose token a text is, None for nobody's."""
        return self._matching(_hash(text), lambda row: str(row["hash"]))

    def holder_of_pass(self, text: str) -> Principal | None:
        """Return from whose token a pass was made (see :func:`pass_of`), None for nobody's."""
        return self._matching(text, lambda row: pass_of(str(row["hash"])))

    def _matching(self, given: str, known: Callable[[Row], str]) -> Principal | None:
        found = None
        for row in self._rows.rows().values():  # all of them: how long it takes tells nothing
            if hmac.compare_digest(given.encode(), known(row).encode()):
                found = row
        return None if found is None else _principal(found)


def pass_of(secret: str) -> str:
    """Return what a browser keeps in the place of a token: it follows from its hash, and does not tell it."""
    return hmac.digest(secret.encode(), b"lakestream page", "sha256").hex()


def pass_of_token(text: str) -> str:
    """Return the pass of a token's text."""
    return pass_of(_hash(text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _principal(row: Row) -> Principal:
    databases = tuple(row["bases"].split("\n")) if row["bases"] else ()
    return Principal(row["name"], Scope[row["scope"].upper()], databases, row["created_us"])
