"""Settings of a PostgreSQL client's session: what is set holds, is refused, or is said to have no effect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.server.api.guard import RequestRefused
from lakestream.server.api.permits import require_statements
from lakestream.server.postgres.failing import refusal, told
from lakestream.storage.records.tokens import Principal, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.server.shown.documents import StatementRequest

SEARCH_PATH = "search_path"
_READ_ONLY = ("transaction_read_only", "default_transaction_read_only")
_TIMEOUT = "statement_timeout"
_TIME_ZONE = "timezone"
_SET = re.compile(
    r"set\s+(?:(?P<local>local)\s+|session\s+)?"
    r"(?:(?P<special>time\s+zone|names)\s+|(?P<name>[\w.]+)\s*(?:=|\bto\b)\s*)(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_RESET = re.compile(
    r"(?:reset\s+(?:session\s+)?(?P<name>time\s+zone|[\w.]+)|discard\s+all)\s*", re.IGNORECASE
)
_TRANSACTION = re.compile(
    r"(?P<all>set\s+session\s+characteristics\s+as\s+transaction)\b|(set|start)\s+transaction\b|begin\b",
    re.IGNORECASE,
)
_MODE = re.compile(r"\bread\s+(?P<mode>only|write)\b", re.IGNORECASE)
_OPTION = re.compile(r"(?:-c\s*+|--)(?P<name>[\w.-]++)=(?P<value>(?:\\.|\S)*)")
_SPECIAL = {"time zone": _TIME_ZONE, "names": "client_encoding"}
_AS_THEY_ARE = {
    "client_encoding": ("UTF8", {"utf8", "utf-8", "unicode", "sql_ascii"}),
    "datestyle": ("ISO", {"iso", "iso, mdy", "iso, ymd", "iso, dmy", "iso,mdy", "iso,ymd", "iso,dmy"}),
    "intervalstyle": ("postgres", {"postgres"}),
    "bytea_output": ("hex", {"hex"}),
    "standard_conforming_strings": ("on", {"on", "true", "yes", "1"}),
}
"""What how values are told hangs on: what it is, and by which words a client may say so."""
_OF_THE_CONNECTION = ("user", "database", "options", "replication", "client_encoding")
"""What a connection begins with that is no setting; the encoding is told instead: UTF8."""
_NO_EFFECT = "times are told in UTC, and queries reckon in the lake's time zone: the setting has no effect"
_READER = Principal("a session that only reads", Scope.READ)
_GIVEN = 3
"""What set_config() is given."""
_ON = {"on", "true", "yes", "1", "t", "y"}
_TIME = re.compile(r"(?P<number>\d+)\s*(?P<unit>us|ms|s|min|h|d)?")
_SECONDS = {None: 1e-3, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class Change:
    """What is set: a name in lower case, its value (None: as it was at first), and whether it is local.

    What is local holds for this transaction alone.
    """

    name: str
    value: str | None
    is_local: bool = False


class SessionSettings:
    """What a client has set, by name, in lower case; what is LOCAL ends with its transaction."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self._before: dict[str, str | None] = {}

    def begin_with(self, said: Mapping[str, str]) -> None:
        """Take what a connection begins with, its options among it. Raises PgError as :meth:`set` does."""
        options = {found["name"]: found["value"] for found in _OPTION.finditer(said.get("options", ""))}
        for name, value in {**said, **options}.items():
            if name not in _OF_THE_CONNECTION:
                self.set(Change(_plain(name), re.sub(r"\\(.)", r"\1", value)))

    def changed_by(self, sql: str) -> list[Change] | None:
        """Return what a statement sets, None for one that is about no setting."""
        mode, set_, reset = _TRANSACTION.match(sql), _SET.fullmatch(sql), _RESET.fullmatch(sql)
        if mode:
            return _of_transaction(sql, is_local=not mode["all"])
        if set_:
            value = set_["value"].strip().strip("'\"")
            name = _plain(set_["special"] or set_["name"])
            return [Change(name, None if value.lower() == "default" else value, bool(set_["local"]))]
        if reset:
            name = _plain(reset["name"] or "all")
            return [Change(one, None) for one in ([*self.given] if name == "all" else [name])]
        return None

    def set(self, change: Change) -> str:
        """Take a setting; return what is to be said of it. Raises PgError for what cannot be so."""
        name, value = change.name, change.value
        _require(name, value)
        if change.is_local:
            self._before.setdefault(name, self.given.get(name))
        if value is None:
            self.given.pop(name, None)
        else:
            self.given[name] = value
        return _NO_EFFECT if name == _TIME_ZONE and value is not None else ""

    def end_transaction(self) -> list[Change]:
        """Return what makes that which was local as it was before the transaction."""
        before, self._before = self._before, {}
        return [Change(name, value) for name, value in before.items()]

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written: in this transaction, else in the session."""
        return next((self.given[name].lower() in _ON for name in _READ_ONLY if name in self.given), False)

    @property
    def seconds(self) -> float | None:
        """How long a statement may take by the client's own word, None for any time."""
        found = _TIME.fullmatch(self.given.get(_TIMEOUT, "0").lower())
        assert found is not None
        return int(found["number"]) * _SECONDS[found["unit"]] or None


def set_in(tree: exp.Expr) -> list[Change]:
    """Return what a query sets by ``set_config()`` where it has a row.

    Raises PgError where only running it could tell what it sets.
    """
    calls = [one for one in tree.find_all(exp.Anonymous) if one.name.lower() == "set_config"]
    if not all(isinstance(tree, exp.Select) and _is_selected(one, tree) for one in calls):
        hint = "SELECT set_config(…), as a column by itself"
        raise refusal("0A000", "NOT_SUPPORTED: set_config() within an expression", hint)
    return [_of_call(one) for one in calls]


def _is_selected(call: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether a call is all of a column that a query gives."""
    above = call.parent
    while isinstance(above, exp.Alias | exp.Dot | exp.Paren | exp.Cast):
        above = above.parent
    return above is tree


def _of_call(call: exp.Anonymous) -> Change:
    values = [_constant(one) for one in call.expressions]
    if len(values) != _GIVEN or values[0] is None:
        raise refusal("42883", "NOT_SUPPORTED: set_config() takes a name, a value and whether it is local")
    return Change(_plain(values[0]), values[1], (values[2] or "").lower() in _ON)


def _constant(node: exp.Expr) -> str | None:
    """Return a constant as text, None for NULL. Raises PgError for what is none."""
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Literal | exp.Boolean):
        return str(node.this)
    raise refusal("0A000", "NOT_SUPPORTED: set_config() of what is no constant", "give it the value itself")


def require_reading(asked: StatementRequest) -> None:
    """Raise PgError for statements that write, in a session that its client has made one that only reads."""
    try:
        require_statements(_READER, asked.sql, asked.dialect, asked.database)
    except RequestRefused:
        raise refusal("25006", "FORBIDDEN: the session only reads", "SET TRANSACTION READ WRITE") from None
    except StatementError as error:
        raise told(error) from None


def _of_transaction(sql: str, *, is_local: bool) -> list[Change]:
    found = _MODE.search(sql)
    if found is None:
        return []
    value = "on" if found["mode"].lower() == "only" else "off"
    return [Change(_READ_ONLY[not is_local], value, is_local)]


def _plain(name: str) -> str:
    """Return the name of a setting as it is kept."""
    name = " ".join(name.lower().split())
    return _SPECIAL.get(name, name)


def _require(name: str, value: str | None) -> None:
    if value is None:
        return
    if name in _AS_THEY_ARE:
        fixed, words = _AS_THEY_ARE[name]
        if value.lower() not in words:
            raise refusal("0A000", f"NOT_SUPPORTED: {name} is {fixed} and cannot be {value}")
    if name == _TIMEOUT and not _TIME.fullmatch(value.lower()):
        raise refusal("22023", f"BAD_VALUE: {value} is no time", "5000, 5s, 1min, or 0 for none")
