"""What a principal may do: statements by their kinds, and the databases that they name."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language import model, parse_script
from lakestream.language.iotdb.values import CreateTrigger, DropTrigger, TreeStatement
from lakestream.server.api.guard import RequestRefused
from lakestream.storage.records.tokens import Principal, Scope
from lakestream.timeseries.tree import changes_the_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import HTTPConnection

ANYONE = Principal("anyone", Scope.ADMIN)
"""Whoever asks a server without tokens: it is reached from its own machine only."""

_READING = (
    model.UseDatabase,
    model.ShowDatabases,
    model.ShowTables,
    model.ShowSnodes,
    model.ShowStreams,
    model.ShowCreateStream,
    model.ShowQueries,
    model.KillQuery,
    model.Describe,
    model.DescribeHistory,
    model.ShowProperties,
    model.Query,
    model.VerifyStream,
    model.ExplainStream,
    model.ExplainQuery,
)
_ABOUT_QUERIES = re.compile(r"\s*(?:show\s+queries|(kill\s+query))\b", re.IGNORECASE)
_FOR_ADMINS = (model.CreateDatabase, model.DropDatabase, CreateTrigger, DropTrigger)


def asker_of(principal: Principal, client: str) -> str:
    """Return who asks, as clients are told apart: by their tokens, else by their addresses."""
    return client if principal is ANYONE else principal.name


def sees_as(principal: Principal, client: str) -> str | None:
    """Return whose statements a principal may see and end: their own; None: those of all."""
    if principal.scope is Scope.ADMIN and not principal.databases:
        return None
    return asker_of(principal, client)


def is_about_queries(sql: str, dialect: str) -> bool:
    """Return whether a script asks for nothing but statements that run: it waits for none of them."""
    if not _ABOUT_QUERIES.match(sql):
        return False
    try:
        script = parse_script(sql, dialect=dialect)
    except StatementError:
        return False
    return all(isinstance(one, model.ShowQueries | model.KillQuery) for one in script)


def kills(sql: str) -> bool:
    """Return whether a script begins with KILL QUERY, which is noted as what changes something is."""
    found = _ABOUT_QUERIES.match(sql)
    return found is not None and found[1] is not None


def who_asks(connection: HTTPConnection) -> Principal:
    """Return who asks, as the guard has found out."""
    found: Principal = connection.scope.get("principal", ANYONE)
    return found


def require(principal: Principal, scope: Scope, database: str | None = None) -> None:
    """Refuse what a principal may not do (RequestRefused FORBIDDEN); ``database`` None: something of all."""
    _require_scope(principal, scope)
    if principal.databases and (database is None or not principal.reaches(database)):
        where = "everything" if database is None else f"the database {database}"
        raise _forbidden(principal, f"is not for {where}", "other databases")


def _require_scope(principal: Principal, scope: Scope) -> None:
    if principal.scope < scope:
        raise _forbidden(principal, f"has the scope {principal.scope.name.lower()}", scope.name.lower())


def require_statements(principal: Principal, sql: str, dialect: str, database: str) -> Scope:
    """Refuse a script with a statement that a principal may not run, and return the scope that it needs.

    Raises RequestRefused FORBIDDEN, and StatementError for what cannot be read.
    """
    needed = Scope.READ
    for statement in parse_script(sql, dialect=dialect):
        scope = scope_of(statement)
        needed = max(needed, scope)
        if isinstance(statement, TreeStatement):
            require(principal, scope, None if principal.databases else database)
            continue
        if isinstance(statement, model.UseDatabase):
            database = statement.name
        _require_scope(principal, scope)
        for named in _databases(statement, database):
            require(principal, scope, named)
    return needed


def scope_of(statement: model.Statement | TreeStatement) -> Scope:
    """Return the scope that a statement needs: Python, places outside and databases are an admin's."""
    outside = any(isinstance(part, (model.Location, model.CatalogName)) for part in _parts(statement))
    if isinstance(statement, _FOR_ADMINS) or outside:
        return Scope.ADMIN
    if isinstance(statement, TreeStatement):
        return Scope.WRITE if changes_the_lake(statement) else Scope.READ
    return Scope.READ if isinstance(statement, _READING) else Scope.WRITE


def _databases(statement: model.Statement, current: str) -> set[str]:
    """Return the databases that a statement is for: those that its names say, or mean without one.

    What tells of all tells a token of its own; tables of a query are looked at where they are read.
    """
    if isinstance(statement, (model.Query, model.ExplainQuery, model.ShowDatabases)):
        return set()
    if isinstance(statement, model.ShowStreams):
        return set() if statement.database is None else {statement.database}
    if isinstance(statement, (model.CreateDatabase, model.DropDatabase)):
        return {statement.name}
    if isinstance(statement, model.ShowTables):
        return {statement.database or current}
    names = [part for part in _parts(statement) if isinstance(part, model.TableName)]
    return {name.database or current for name in names} or {current}


def _parts(value: object) -> Iterator[object]:
    """Yield what a statement is made of, at every depth."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _parts(part)
    elif is_dataclass(value):
        yield value
        for one in fields(value):
            yield from _parts(getattr(value, one.name))


def _forbidden(principal: Principal, why: str, needed: str) -> RequestRefused:
    hint = f"a token for {needed}: `lakestream token create`"
    return RequestRefused(403, "FORBIDDEN", f"the token {principal.name} {why}", hint)
