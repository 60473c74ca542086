"""What a principal may do: statements by their kinds, and the databases that they name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

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
    model.Describe,
    model.Query,
    model.VerifyStream,
    model.ExplainStream,
)
_FOR_ADMINS = (model.CreateDatabase, model.DropDatabase, CreateTrigger, DropTrigger)


def who_asks(connection: HTTPConnection) -> Principal:
    """Return who asks, as the guard has found out."""
    found: Principal = connection.scope.get("principal", ANYONE)
    return found


def require(principal: Principal, scope: Scope, database: str | None = None) -> None:
    """Refuse what a principal may not do (RequestRefused FORBIDDEN); ``database`` None: something of all."""
    if principal.scope < scope:
        raise _forbidden(principal, f"has the scope {principal.scope.name.lower()}", scope.name.lower())
    if principal.databases and (database is None or not principal.reaches(database)):
        where = "everything" if database is None else f"the database {database}"
        raise _forbidden(principal, f"is not for {where}", "other databases")


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
        for named in {_database_of(statement, database), *_databases(statement)}:
            require(principal, scope, named)
    return needed


def scope_of(statement: model.Statement | TreeStatement) -> Scope:
    """Return the scope that a statement needs: Python, places outside and databases are an admin's."""
    outside = isinstance(statement, model.CreateTable) and (statement.location or statement.catalog_name)
    if isinstance(statement, model.CreateStream):
        outside = statement.definition.layout.catalog_name
    if isinstance(statement, _FOR_ADMINS) or outside:
        return Scope.ADMIN
    if isinstance(statement, TreeStatement):
        return Scope.WRITE if changes_the_lake(statement) else Scope.READ
    return Scope.READ if isinstance(statement, _READING) else Scope.WRITE


def _database_of(statement: model.Statement, current: str) -> str | None:
    """Return the database that a statement is for where it names none, None for one that is for all."""
    if isinstance(statement, model.ShowDatabases):
        return None
    if isinstance(statement, model.ShowStreams):
        return statement.database
    if isinstance(statement, model.ShowTables):
        return statement.database or current
    return current


def _databases(value: object) -> Iterator[str]:
    """Yield the databases that the names in a statement say."""
    if isinstance(value, model.TableName):
        if value.database:
            yield value.database
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _databases(part)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _databases(getattr(value, one.name))


def _forbidden(principal: Principal, why: str, needed: str) -> RequestRefused:
    hint = f"a token for {needed}: `lakestream token create`"
    return RequestRefused(403, "FORBIDDEN", f"the token {principal.name} {why}", hint)
