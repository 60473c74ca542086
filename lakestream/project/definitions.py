"""What the statements of a project define, by name, and in which order they are to be made."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakestream.errors import LakestreamError, ProjectError, StatementError
from lakestream.language import model
from lakestream.language.expressions.parsing import parse_query, place_in
from lakestream.language.iotdb import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.errors import Place
    from lakestream.project.files import Written

KINDS = {
    model.CreateDatabase: "database",
    model.CreateTable: "table",
    model.CreateSubtables: "subtables",
    values.CreateTreeDatabase: "tree database",
    values.CreateTimeseries: "timeseries",
    model.CreateStream: "stream",
    values.CreateContinuousQuery: "continuous query",
    values.CreateTrigger: "trigger",
}
"""What a statement of a project may define, in the order in which it is made where nothing else tells."""


@dataclass(frozen=True)
class Definition:
    """Something that a statement defines: its kind and name, what it ``makes``, and what it ``reads``.

    Both are names in lower case: ``database.table``, or of another kind ``kind name``.
    """

    kind: str
    name: str
    written: Written
    makes: frozenset[str]
    reads: frozenset[str] = frozenset()


def define(statements: Iterable[Written]) -> list[Definition]:
    """Return what statements define, in the order in which it is made.

    Raises ProjectError: NOT_A_DEFINITION for a statement that defines nothing, DEFINED_TWICE, STREAM_CYCLE.
    """
    found: list[Definition] = []
    errors: list[LakestreamError] = []
    makers: dict[str, Definition] = {}
    for written in statements:
        try:
            definition = _definition(written)
            _refuse_twice(definition, makers)
        except StatementError as error:
            errors.append(written.located(error))
            continue
        found.append(definition)
        makers |= dict.fromkeys(definition.makes, definition)
    if errors:
        raise ProjectError(errors)
    return _in_order(found, makers)


def _definition(written: Written) -> Definition:
    statement = written.statement
    kind = KINDS.get(type(statement))
    if kind is None:
        raise StatementError(
            "NOT_A_DEFINITION",
            "the files of a project define tables and streams, and this statement does not",
            hint="`lakestream sql` runs any other",
        )
    name, makes, reads = _OF[type(statement)](statement, written.database)
    return Definition(kind, name, written, frozenset(map(str.lower, makes)), frozenset(map(str.lower, reads)))


_Names = tuple[str, list[str], list[str]]


def _database(statement: model.CreateDatabase, _: str) -> _Names:
    return statement.name, [f"database {statement.name}"], []


def _table(statement: model.CreateTable, current: str) -> _Names:
    name = statement.name.within(current)
    return str(name), [str(name)], [f"database {name.database}"]


def _subtables(statement: model.CreateSubtables, current: str) -> _Names:
    names = [str(one.name.within(current)) for one in statement.subtables]
    return ", ".join(names), names, [str(one.stable.within(current)) for one in statement.subtables]


def _stream(statement: model.CreateStream, current: str) -> _Names:
    definition = statement.definition.within(current)
    reads = [str(name) for name, _ in tables_read(statement.definition, current)]
    made = [str(definition.output)] if definition.stores else []
    within = [definition.name.database, *([definition.output.database] if definition.stores else [])]
    reads += [f"database {database}" for database in within]
    return str(definition.name), [f"stream {definition.name}", *made], reads


def _tree_database(statement: values.CreateTreeDatabase, current: str) -> _Names:
    mapped = statement.mapping
    return str(statement.path), [str(statement.path)], [str(mapped.table.within(current))] if mapped else []


def _timeseries(statement: values.CreateTimeseries, _: str) -> _Names:
    names = [str(path) for path, _ in statement.series]
    return ", ".join(names), names, [".".join(name.split(".")[:2]) for name in names]


def _query(statement: values.CreateContinuousQuery, _: str) -> _Names:
    return statement.name, [f"continuous query {statement.name}"], []


def _trigger(statement: values.CreateTrigger, _: str) -> _Names:
    return statement.name, [f"trigger {statement.name}"], []


_OF: dict[type, Callable[[Any, str], _Names]] = {
    model.CreateDatabase: _database,
    model.CreateTable: _table,
    model.CreateSubtables: _subtables,
    model.CreateStream: _stream,
    values.CreateTreeDatabase: _tree_database,
    values.CreateTimeseries: _timeseries,
    values.CreateContinuousQuery: _query,
    values.CreateTrigger: _trigger,
}


def tables_read(definition: model.StreamDefinition, current: str) -> list[tuple[model.TableName, Place]]:
    """Return the tables that a stream names in its query, with their places, after the one that triggers it.

    A table's place is that of its first word. A name that WITH gives is none of a table.
    """
    query = parse_query(definition.calculation)
    named = {one.alias_or_name.lower() for one in query.find_all(exp.CTE)}
    own = definition.within(current).source
    place = model_place(definition.source)
    found = [] if definition.source == model.CLOCK else [(own, place)]
    for table in query.find_all(exp.Table):
        is_named = not table.db and table.name.lower() in named
        if table.name and not table.name.startswith("%%") and not is_named:
            name = model.TableName(table.db or current, table.name)
            found.append((name, place_in(definition.calculation, table)))
    return found


def model_place(name: model.TableName) -> Place:
    """Return the place of a name's first word."""
    from lakestream.errors import Place

    return Place(name.line, name.column, len(name.database or name.name))


def _refuse_twice(definition: Definition, makers: dict[str, Definition]) -> None:
    for name in sorted(definition.makes & makers.keys()):
        place = makers[name].written.place
        raise StatementError(
            "DEFINED_TWICE",
            f"{name} is defined twice, the first time in {place.file}, line {place.line}",
            hint="take one of them out",
        )


def _in_order(found: Sequence[Definition], makers: dict[str, Definition]) -> list[Definition]:
    """Return definitions behind what they read, else by kind and in the order in which they were read."""
    rank = {one: (list(KINDS.values()).index(one.kind), number) for number, one in enumerate(found)}
    sorter = TopologicalSorter(
        {one: {makers[name] for name in one.reads if name in makers} - {one} for one in found}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[Definition] = error.args[1]
        names = " from ".join(one.name for one in reversed(cycle))
        refused = StatementError("STREAM_CYCLE", f"streams read from one another: {names}")
        raise ProjectError([cycle[0].written.located(refused)]) from None
    ordered: list[Definition] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda one: rank[one])
        ordered += ready
        sorter.done(*ready)
    return ordered
