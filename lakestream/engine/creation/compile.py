"""A stream's definition resolved against the lake: its source, its columns, its calculation."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import (
    Scope,
    compile_calculation,
)
from lakestream.compute.windows.evaluate import Way, choose_way
from lakestream.compute.windows.gaps import filled
from lakestream.compute.windows.keyed.kept import with_kept
from lakestream.compute.windows.keyed.keys import by_groups, keys_of
from lakestream.compute.windows.keyed.leads import NotKeyedError
from lakestream.compute.windows.reach import paths_anywhere, paths_of
from lakestream.engine.base.names import (
    TBNAME,
    Names,
    has_subtables,
    names_used,
    relation_of,
)
from lakestream.engine.streams.expectations import source_checks
from lakestream.engine.streams.source import Source, row_expression
from lakestream.engine.streams.stream import Stream, timestamp_us
from lakestream.engine.windows.windowing import analytic_of, placeholders_of, windowing_of
from lakestream.errors import NotSupportedError, Place, StatementError
from lakestream.language import parse_statement
from lakestream.language.common.source import place_of
from lakestream.language.expressions.checks import (
    COMMON_PLACEHOLDERS,
)
from lakestream.language.model import (
    CLOCK,
    QUARANTINE,
    CreateStream,
    Fragment,
    GroupKey,
)
from lakestream.language.quoting import quoted
from lakestream.triggers.assign import ORDER
from lakestream.triggers.kinds import is_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.compute.windows.keyed.keys import Keys
    from lakestream.compute.windows.reach import Path
    from lakestream.language.iotdb.values import TreeStatement
    from lakestream.language.model import (
        Expectation,
        Statement,
        StreamDefinition,
        StreamOptions,
        TableName,
    )
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.records.registry import StreamRecord


_OF_TABLE = GroupKey(Fragment(TBNAME), "tag_tbname", is_tbname=True)
"""What the rows of a stream are grouped by that writes those of all subtables into one table."""


def compile_stream(  # noqa: PLR0913 (what is known of a registered stream, one by one)
    uuid: str,
    definition: StreamDefinition,
    catalog: Catalog,
    zone: str,
    *,
    exact: bool,
    way: Way | None = None,
    partial_types: Mapping[str, str] | None = None,
    floor_us: int | None = None,
    groups_view: bool = True,
    tells_folders: bool = True,
    columns_then: Mapping[str, Sequence[str]] | None = None,
) -> Stream:
    """Resolve a definition against the lake; ``way`` and ``partial_types`` are what creation found.

    ``groups_view``: windows of a view are of groups where it groups by columns of its trigger table; those
    of one that was registered by a lakestream that knew none of that stay of all. ``tells_folders``: beside
    its rows a view says of what texts their folders are, which one that was registered before does not.
    ``columns_then`` are the columns that its tables had at creation, where a ``*`` stands for them.

    Raises StatementError TABLE_NOT_FOUND or COLUMN_NOT_FOUND with the place in the statement.
    """
    database = definition.name.database or ""
    zone = definition.options.zone or zone
    names = Names(catalog, database, names_used(definition), zone, columns_then)
    source = _source(definition.source, names, catalog, database)
    source = replace(source, computed=tuple(function.column for function in definition.functions))
    info, subtable = source.info, source.subtable
    if definition.options.one_table and has_subtables(info) and subtable is None:
        # Rows of equal time are told apart by their tables.
        definition = replace(definition, partition_by=(_OF_TABLE,))
    whole = is_whole(definition.trigger)
    if not info.time_column and not definition.options.late.drops and not whole:
        raise StatementError(
            "NO_TIME_COLUMN",
            f"{info.database}.{info.name} has no time column, and a stream's trigger table needs one",
            hint="CREATE TABLE … LOCATION … TIMESTAMP BY says which column is the time; "
            "a query may join tables without one",
            place=_place(definition.source),
        )
    windowing = windowing_of(definition, source, zone)
    grid, assigner = windowing.grid, windowing.assigner
    used = None if _takes_whole_rows(definition) else names.used
    relation = relation_of(info, subtable, used, columns_then)
    if assigner is not None:
        relation = replace(relation, order=ORDER, computed=source.computed)
    scope = Scope(
        relation,
        tuple(f"_ls_g{number}" for number, _ in enumerate(definition.partition_by, 1)),
        next((n for n, key in enumerate(definition.partition_by, 1) if key.is_tbname), None),
        COMMON_PLACEHOLDERS | placeholders_of(definition.trigger),
        zone,
        names.relation,
        whole_orders=definition.options.view is not None,
    )
    calculation = compile_calculation(definition.calculation, scope)
    if groups_view and definition.options.view is not None and calculation.reads and not whole:
        calculation, columns = by_groups(calculation)
        definition = replace(definition, partition_by=tuple(map(_of_column, columns)))
    if definition.options.fill is not None:
        calculation = filled(calculation, definition.options.fill)
    analytic = analytic_of(definition, source, zone, relation.columns)
    # Functions over events look at what FILTER leaves out, too.
    condition = definition.options.pre_filter if analytic is None else None
    groups = tuple(row_expression(key.expression, source, zone) for key in definition.partition_by)
    by_time = windowing.cut is None and assigner is None
    followed = _followed(definition, names, calculation, relation.key if exact and by_time else None)
    keys, why_whole = None, ""
    if whole:
        folders = _folders(definition, calculation) if tells_folders else ()
        keys, why_whole = _keys(definition, calculation, folders, way, partial_types or {})
    if way is None:
        at_open = definition.options.emission.at_open
        of_grid = choose_way(
            calculation, grid, groups, at_open=at_open, forces=definition.options.force_output
        )
        way = of_grid if not whole else Way.WHOLE if keys is None else Way.KEYED
    return Stream(
        uuid,
        definition,
        zone,
        source,
        groups,
        row_expression(condition, source, zone) if condition else None,
        grid,
        calculation,
        way,
        names.tables,
        exact,
        partial_types,
        floor_us,
        windowing.cut,
        assigner,
        analytic,
        _time_us(definition.options, source, zone) if assigner is not None else "",
        followed=followed,
        checks=source_checks(definition, source, zone),
        keys=keys,
        why_whole=why_whole,
    )


def _of_column(name: str) -> GroupKey:
    return GroupKey(Fragment(quoted(name)), name)


def _keys(
    definition: StreamDefinition,
    calculation: Calculation,
    folders: Collection[int],
    way: Way | None,
    types: Mapping[str, str],
) -> tuple[Keys | None, str]:
    """Return by what keys the rows of a view without windows fall apart, or why by none.

    ``folders`` are the results (from 1) by which its table is partitioned; ``way`` and the ``types`` of what
    it may keep are what creation found: None, and none, at creation.
    """
    view = definition.options.view
    if view is not None and view.policy == "FULL":
        return None, "REFRESH POLICY FULL"
    try:
        keys = with_kept(keys_of(calculation, folders), types)
    except NotKeyedError as why:
        return None, str(why)
    if way is not Way.WHOLE:
        return keys, ""
    if keys.is_total:
        return None, keys.why_no_keys
    return None, "it was not by keys when it was created (instead: CREATE OR REPLACE MATERIALIZED VIEW)"


def _folders(definition: StreamDefinition, calculation: Calculation) -> list[int]:
    """Return the numbers (from 1) of the results by which an output is partitioned."""
    by = {name.lower() for name in definition.layout.partitioned_by}
    return [number for number, name in enumerate(calculation.names, 1) if name.lower() in by]


def _followed(
    definition: StreamDefinition, names: Names, calculation: Calculation, own: str | None
) -> tuple[Path, ...]:
    """Return how changes of the tables that a stream follows lead to windows; those of a version do not.

    ``own`` is the trigger table where it is followed unasked: a query that reads it by its name has rows that
    the trigger does not see. Raises StatementError TABLE_NOT_FOUND, OPTION_WITHOUT_EFFECT for one that the
    query does not read.
    """
    follow = definition.options.late.follow
    if follow is None and own is None:
        return ()
    led = paths_anywhere if is_whole(definition.trigger) else paths_of  # a whole has no windows to lead to
    paths = [path for path in led(calculation) if path.read.relation.version is None]
    if follow is None:
        return tuple(path for path in paths if path.read.relation.key == own and path.leads)
    if follow.tables is None:
        return tuple(paths)
    read, found = {path.read.relation.key for path in paths}, {own}
    for name in follow.tables:
        info, _ = names.find(name.database or names.database, name.name)
        key = f"{info.database}.{info.name}"
        if key not in read:
            raise StatementError(
                "OPTION_WITHOUT_EFFECT",
                f"EXACT({name}): the query does not read {key}",
                hint="EXACT(ALL) follows what it reads",
                place=_place(name),
            )
        found.add(key)
    return tuple(path for path in paths if path.read.relation.key in found)


def _takes_whole_rows(definition: StreamDefinition) -> bool:
    """Return whether rows of the source are written on as they are, with all columns: into the quarantine."""
    return any(one.action == QUARANTINE for one in definition.expected(of_results=False))


def _source(name: TableName, names: Names, catalog: Catalog, database: str) -> Source:
    """Return the trigger table of a name; a stream without one has the lake's clock in its place."""
    if name == CLOCK:
        return Source(catalog.clock(), None)
    info, subtable = names.find(name.database or database, name.name)
    names.tables[f"{info.database}.{info.name}"] = info
    return Source(info, subtable)


def _place(name: TableName) -> Place:
    return Place(name.line, name.column, len(name.name))


def _time_us(options: StreamOptions, source: Source, zone: str) -> str:
    """Return SQL of a row's time; texts are read as times, integers as milliseconds (eKuiper).

    Raises StatementError TIMESTAMP_MISSING or TIMESTAMP_TYPE.
    """
    if options.late.by_arrival:
        return "CAST(NULL AS BIGINT)"
    fragment = options.late.time_column
    if options.late.exact and fragment is not None and fragment.sql.strip("`") != source.info.time_column:
        raise NotSupportedError(
            "EXACT by another time than the table's own",
            hint=f"TIMESTAMP = '{source.info.time_column}'" if source.info.time_column else "",
            place=place_of(fragment),
        )
    if fragment is None and not source.info.time_column:
        raise StatementError(
            "TIMESTAMP_MISSING",
            f"{source.info.database}.{source.info.name} has no time column of its own",
            hint="WITH (TIMESTAMP = 'column')",
        )
    name = source.info.time_column if fragment is None else row_expression(fragment, source, zone).strip("`")
    kind, column = source.info.column(name).type, quoted(name)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return timestamp_us(name)
    if kind in ("string", "varchar"):
        return f"unix_micros(try_cast({column} AS TIMESTAMP))"
    if kind in ("bigint", "int"):
        return f"CAST({column} AS BIGINT) * 1000L"
    raise StatementError(
        "TIMESTAMP_TYPE",
        f"the column {name} is of type {kind}, which is no time",
        hint="a timestamp, a text, or milliseconds since 1970 as an integer",
        place=place_of(fragment) if fragment else None,
    )


def definition_of(record: StreamRecord) -> StreamDefinition:
    """Read a registered stream's definition again from its statement."""
    statement = _registered(record.sql)
    if not isinstance(statement, CreateStream):
        raise TypeError(f"the registry holds no CREATE STREAM for {record.name}")
    of_whole = statement.otherwise is not None and record.compiled.way in (Way.WHOLE, Way.KEYED)
    definition = statement.otherwise if of_whole and statement.otherwise else statement.definition
    named = replace(definition, name=definition.name.within(record.database))
    return named.within(record.current or record.database)


def expectations_of(record: StreamRecord) -> tuple[Expectation, ...]:
    """Return the expectations of a registered stream; its statement is read where it may have some."""
    statement = _registered(record.sql) if "expect" in record.sql.lower() else None
    return statement.definition.expectations if isinstance(statement, CreateStream) else ()


@lru_cache(maxsize=1_000)
def _registered(sql: str) -> Statement | TreeStatement:
    """Read a statement of the registry, which several ask for when a stream is loaded."""
    return parse_statement(sql)


def compile_record(record: StreamRecord, catalog: Catalog) -> Stream:
    """Compile a registered stream, but for groups that wait; StatementError when its tables have gone."""
    stream = compile_stream(
        record.uuid,
        definition_of(record),
        catalog,
        record.zone,
        exact=record.compiled.exact,
        way=Way(record.compiled.way),
        partial_types=record.compiled.partial_types,
        floor_us=record.floor_us,
        groups_view=bool(record.compiled.group_types),
        tells_folders=record.compiled.tells_folders,
        columns_then=record.compiled.columns,
    )
    waiting = tuple(group.gid for group in record.waiting_groups)
    return replace(stream, group_types=record.compiled.group_types, waiting_groups=waiting)
