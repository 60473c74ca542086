"""CREATE STREAM: everything that can be wrong is found before anything is made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lakestream.compute.windows.evaluate import Way
from lakestream.engine.base.instants import newest_time, parse_instant, tells_newest
from lakestream.engine.base.names import TBNAME, has_subtables, names_used
from lakestream.engine.base.refused import refuse_unknown_functions, refused
from lakestream.engine.creation.compile import compile_record, compile_stream
from lakestream.engine.creation.unseen import refuse_unseen
from lakestream.engine.planning.analysis import analyse, analysis_error, check_results, other_results
from lakestream.engine.planning.checks import refuse_gone, refuse_other
from lakestream.engine.streams.expectations import result_checks
from lakestream.engine.streams.quarantine import Quarantine
from lakestream.engine.streams.quarantine import refuse_unfit as refuse_unfit_expectations
from lakestream.engine.streams.stream import opens_once
from lakestream.engine.streams.target import (
    UNIQUE_TIMES,
    Target,
    check_existing,
    create_output,
    errors_table,
    find_errors,
    kept_fields,
    key_is_from_window,
    keys_are_unique,
    missing_errors,
    output_shape,
    refuse_tag_types,
)
from lakestream.engine.ticks.notices import event_rules
from lakestream.engine.windows.families import family_of
from lakestream.errors import BusyError, LakestreamError, NotSupportedError, StatementError, StreamError
from lakestream.language.common.source import place_of
from lakestream.language.expressions.parsing import parse_query, place_in
from lakestream.language.model import (
    WINDOW_CLOSE,
    CatalogName,
    CountTrigger,
    EventTrigger,
    OutputLayout,
    StateTrigger,
)
from lakestream.language.quoting import quoted, quoted_text
from lakestream.output.columns import result_names, subtables_are_groups
from lakestream.storage.delta import capabilities
from lakestream.storage.places.claims import MIGRATING, claim_of_table, work_on
from lakestream.storage.records.registry import Compiled, StreamRecord
from lakestream.triggers.kinds import is_each_row, is_periodic, is_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakestream.engine.reading.apart import Apart
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.streams.stream import Stream
    from lakestream.language.model import StreamDefinition
    from lakestream.output.columns import OutputShape
    from lakestream.output.fixed import Fixed
    from lakestream.storage.delta import Table
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Registry, StreamChanges, TablePosition

DEFINITION_VERSION = 1

_COLLATIONS = "__COLLATIONS"
"""Where a Delta schema says that texts of a column have a collation."""

_Made = TypeVar("_Made")


def create_stream(  # noqa: PLR0913 (one session computes, another one has the names in catalogs)
    small: SmallPath,
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    zone: str,
    created_us: int,
    *,
    uuid: str,
    current: str,
    exact_by_default: bool,
    catalogs: Callable[[], SparkSession],
) -> StreamRecord:
    """Check a stream, make its output table, and register it; it starts after the source's version now.

    ``uuid`` is to be its id, ``current`` is the database that names without one stand in, ``catalogs`` the
    session whose catalogs USING TABLE names.

    Raises StatementError for whatever is wrong with it; nothing is left behind then.
    """
    checked = _checked(small, catalog, registry, definition, zone, uuid, exact_by_default=exact_by_default)
    stream = checked.stream
    find_errors(catalog, definition)
    table = catalog.handles.latest(stream.source.info.path)
    version, until = _start(stream, table, catalog, small)
    compiled = checked.found(catalog)
    # Nothing was made up to here.
    output, shared = _output(catalogs, small.apart, catalog, registry, definition, checked)
    errors_table(catalog, definition, uuid)
    Quarantine(definition, uuid).of_source(catalog, stream.source)
    record = StreamRecord(
        uuid=uuid,
        database=definition.name.database or "",
        name=definition.name.name,
        sql=definition.text,
        status="Running",
        created_us=created_us,
        start_version=version,
        source_id=table.table_id,
        output=f"{output.database}.{output.name}",
        source=f"{stream.source.info.database}.{stream.source.info.name}",
        zone=zone,
        compiled=compiled,
        current=current,
        shared_output=shared,
        output_version=catalog.handles.latest(output.path).version if shared else None,
        output_name=output.catalog_name if definition.layout.catalog_name else None,
        until_us=until,
        form=DEFINITION_VERSION,
    )
    registry.add(record)
    return record


def check_view(
    small: SmallPath,
    catalog: Catalog,
    registry: Registry,
    record: StreamRecord,
    definition: StreamDefinition,
    *,
    zone: str,
    exact_by_default: bool,
) -> None:
    """Raise what :func:`create_stream` raises of a view that is to take the place of a registered one."""
    others = _Others(registry, record.uuid)
    _checked(small, catalog, others, definition, zone, record.uuid, exact_by_default=exact_by_default)


def replace_stream(
    small: SmallPath,
    catalog: Catalog,
    registry: Registry,
    record: StreamRecord,
    definition: StreamDefinition,
    *,
    current: str,
    exact_by_default: bool,
    recalculate: Callable[[], object],
) -> bool:
    """Give a stream another definition over the same source and output; its state and place go.

    ``recalculate`` has the windows recalculated from the source as it is: it is called before the stream is
    changed, so that a crash between the two leaves no definition whose windows nobody computes. The output
    table is made anew where its columns are others: returns whether it stays. Raises StatementError as
    :func:`create_stream`, NotSupportedError for a table that does not say which window a row is of where old
    rows are to go, and leaves all as it was.
    """
    others = _Others(registry, record.uuid)
    checked = _checked(
        small, catalog, others, definition, record.zone, record.uuid, exact_by_default=exact_by_default
    )
    keeps = _keeps_output(catalog, others, record, definition, checked)
    recalculate()
    if not keeps:
        catalog.drop_table(*record.output.split(".", 1))
        create_output(catalog, checked.stream, definition, checked.shape, small.spark)
    taken = definition.options.wants_history
    until = _history_start(checked.stream) if taken else record.until_us
    changes: StreamChanges = {
        "sql": definition.text,
        "status": "Running",
        "last_error": None,
        "compiled": checked.found(catalog),
        "current": current,
        "until_us": until,
        "skipped": (),
        "waiting_groups": (),
    }
    if definition.options.late.drops or definition.options.late.by_arrival:
        changes |= {"is_replaced": True, "begun": None}
    else:
        changes |= {"resynced": None}
    Quarantine(definition, record.uuid).drop(catalog)
    errors_table(catalog, definition, record.uuid)
    registry.remove_states(record.uuid)
    registry.update(record.uuid, **changes)
    return keeps


def try_stream(
    small: SmallPath,
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    zone: str,
    *,
    record: StreamRecord | None,
    exact_by_default: bool,
) -> bool:
    """Raise what :func:`create_stream` would, of a registered stream :func:`replace_stream`; nothing is made.

    Returns whether the output of a registered one would stay.
    """
    if record is None:
        uuid = str(uuid4())
        checked = _checked(
            small, catalog, registry, definition, zone, uuid, exact_by_default=exact_by_default
        )
        info = catalog.find_table(*_output_name(definition))
        is_new = registry.find(definition.name.database or "", definition.name.name) is None
        if info is not None and is_new:  # a view that is made anew has its table
            _refuse_existing(catalog, registry, definition, checked, info)
        return False
    others = _Others(registry, record.uuid)
    checked = _checked(
        small, catalog, others, definition, record.zone, record.uuid, exact_by_default=exact_by_default
    )
    return _keeps_output(catalog, others, record, definition, checked)


def _keeps_output(
    catalog: Catalog,
    others: _Others,
    record: StreamRecord,
    definition: StreamDefinition,
    checked: _Checked,
) -> bool:
    """Return whether the output that a stream has takes the rows of another definition.

    Raises StatementError where it does not, and is not the stream's own.
    """
    info = catalog.find_table(*record.output.split(".", 1))
    if info is None:
        return True  # it is made again by the next tick
    try:
        _refuse_computed_columns(catalog, info)
        there = check_existing(
            info, checked.shape, _as_it_stands(definition, record, info), checked.group_types
        )
        _refuse_without_provenance(definition, info, there)
        if definition.options.late.drops and not definition.options.late.by_arrival:
            require_provenance("CREATE OR REPLACE STREAM", info, there)
        _refuse_rows_among_others(catalog, others, info, there)
        _refuse_other_rows(record, _fixed_of(record, catalog, info), there)
    except StatementError:
        if record.shared_output or info.external or _writers_of(others, info):
            raise
        return False
    return True


def _as_it_stands(definition: StreamDefinition, record: StreamRecord, info: TableInfo) -> StreamDefinition:
    """Return a definition that converts nothing where its stream has made the table.

    Into one that was there before it the classic syntax writes under the table's names, and converts
    (TDengine).
    """
    if info.writer != record.uuid:
        return definition
    return replace(definition, options=replace(definition.options, converts=False))


def _refuse_other_rows(record: StreamRecord, were: dict[str, Fixed] | None, shape: OutputShape) -> None:
    """Refuse to call other rows than before the stream's own: those that it has written would stay."""
    if were is not None and were != shape.fixed:
        raise StatementError(
            "OUTPUT_MISMATCH",
            f"its rows in {record.output} are told from others' by {', '.join(were | shape.fixed)}, "
            "and that would be another value",
            hint="drop the stream and its rows, and create it anew",
        )


@dataclass(frozen=True)
class _Checked:
    """A definition in which nothing is wrong: compiled, with the columns of its output."""

    stream: Stream
    shape: OutputShape
    result_types: list[str]
    group_types: list[str]

    def found(self, catalog: Catalog) -> Compiled:
        """Return what a registered stream is compiled with."""
        tables = self.stream.tables
        partials = self.stream.partial_types
        return Compiled(
            way=self.stream.way.value,
            exact=self.stream.exact,
            partial_types=None if partials is None else dict(partials),
            result_types=tuple(self.result_types),
            group_types=tuple(self.group_types),
            reads=tuple(sorted(tables)),
            columns=_columns_now(self.stream),
            tells_folders=self.stream.keys is not None and bool(self.stream.keys.folders),
            read_versions={name: catalog.handles.latest(info.path).version for name, info in tables.items()},
        )


def _columns_now(stream: Stream) -> dict[str, tuple[str, ...]] | None:
    """Return the columns of what a stream reads, where a ``*`` stands for them; None where none does."""
    if names_used(stream.definition) is not None:
        return None
    relations = [stream.calculation.scope.source, *(read.relation for read in stream.calculation.reads)]
    return {one.key: one.columns for one in relations if one.version is None}


def _checked(
    small: SmallPath,
    catalog: Catalog,
    registry: Registry | _Others,
    definition: StreamDefinition,
    zone: str,
    uuid: str,
    *,
    exact_by_default: bool,
) -> _Checked:
    """Return a definition compiled, once nothing is wrong with it."""
    exact = _is_exact(definition, by_default=exact_by_default)
    stream = compile_stream(uuid, definition, catalog, zone, exact=exact)
    _refuse_migrating(stream, catalog)
    _refuse_merged_tables(stream)
    _refuse_composite_key(stream)
    _refuse_unfillable(stream)
    _refuse_cycle(stream, registry)
    _refuse_without_feed(stream, catalog)
    _refuse_other_time(stream)
    _refuse_unfollowable(stream)
    refuse_unseen(stream)
    _refuse_collations(stream, catalog)
    names = stream.calculation.names
    _at_calculation(definition, lambda: result_names(definition, names))  # before Spark is asked for types
    stream, result_types, group_types = analyse(small, stream)
    _refuse_not_incremental(stream)
    shape = _at_calculation(
        definition,
        lambda: output_shape(
            definition, stream.calculation.names, result_types, group_types, stream.zone, kept_fields(stream)
        ),
    )
    if exact and definition.options.view is None and definition.stores and stream.assigner is None:
        _refuse_inexact(stream)
    _check_notified(small, stream, shape)
    checked = _Checked(stream, shape, list(result_types), list(group_types))
    _check_expected(small, catalog, checked)
    return checked


@dataclass(frozen=True)
class _Others:
    """The streams of a registry without the one that is replaced."""

    registry: Registry
    without: str

    def streams(self) -> list[StreamRecord]:
        """Return them."""
        return [record for record in self.registry.streams() if record.uuid != self.without]


def open_target(
    stream: Stream,
    record: StreamRecord,
    catalog: Catalog,
    spark: Callable[[], SparkSession],
    mark: TablePosition | None = None,
) -> Target:
    """Return the output of a registered stream; it is made again when it was dropped (TDengine A8).

    ``mark`` is where it was written last. Raises StreamError OUTPUT_GONE, OUTPUT_REPLACED, OUTPUT_CHANGED.
    """
    quarantine = Quarantine(stream.definition, record.uuid)
    info = _there(record, catalog, mark)
    refuse_gone(mark, [*quarantine.missing(catalog), *missing_errors(catalog, stream.definition)])
    if info is None:
        info = _made_again(stream, record, catalog, spark)
    try:
        folders = catalog.handles.latest(info.path).partition_columns
        shape = _shape_there(stream, record, info).in_folders(folders)
        _refuse_without_provenance(stream.definition, info, shape)
        quarantine.refuse_taken(catalog)
    except StatementError as error:
        raise StreamError("OUTPUT_CHANGED", error.message, hint=error.hint) from None
    if not stream.definition.stores:
        rows = quarantine.of_source(catalog, stream.source)
        return Target(info, shape, unique=False, appends=not stream.emission.fires_early, quarantine=rows)
    unique = keys_are_unique(stream)
    appends = unique and not record.shared_output and not stream.emission.fires_early
    if not shape.key:
        appends = True
    errors = errors_table(catalog, stream.definition, record.uuid)
    checks = result_checks(stream.definition, shape, stream.zone)
    target = Target(info, shape, unique, appends, errors, checks)
    return replace(
        target,
        refused=quarantine.of_results(catalog, target),
        quarantine=quarantine.of_source(catalog, stream.source),
    )


def drop_unfit_view(stream: Stream, record: StreamRecord, catalog: Catalog) -> None:
    """Drop the table of a view that does not take its rows any more: it is made again by its next tick.

    What its rows are told apart by follows from the tables that it reads, which may be others by now.
    """
    info = catalog.find_table(*record.output.split(".", 1))
    if stream.definition.options.view is None or info is None or info.external:
        return
    try:
        _shape_there(stream, record, info)
    except StatementError:
        catalog.drop_table(info.database, info.name)


def _there(record: StreamRecord, catalog: Catalog, mark: TablePosition | None) -> TableInfo | None:
    """Return the output of a stream if it is there; one that was written to is to be the same one."""
    info = catalog.find_table(*record.output.split(".", 1))
    if info is None:
        refuse_gone(mark, [record.output])
    else:
        refuse_other(mark, catalog.handles.latest(info.path))
    return info


def _made_again(
    stream: Stream, record: StreamRecord, catalog: Catalog, spark: Callable[[], SparkSession]
) -> TableInfo:
    """Make the output of a registered stream, unless another one of its streams has done so."""
    definition = _named_in_full(stream.definition, record)
    try:
        return create_output(catalog, stream, definition, _shape_of(stream, record), spark)
    except LakestreamError as error:
        info = catalog.find_table(*record.output.split(".", 1)) if error.code == "TABLE_EXISTS" else None
        if info is None:
            raise
        return info


def _shape_of(stream: Stream, record: StreamRecord) -> OutputShape:
    """Return the columns that a registered stream's output has where the stream makes it."""
    found = record.compiled
    names, zone = stream.calculation.names, stream.zone
    if len(names) != len(found.result_types):  # it was registered by a lakestream that did not note them
        raise StreamError("SOURCE_SCHEMA_CHANGED", "* stands for other columns than when it was created")
    kept = kept_fields(stream)
    return output_shape(stream.definition, names, found.result_types, found.group_types, zone, kept)


def _shape_there(stream: Stream, record: StreamRecord, info: TableInfo) -> OutputShape:
    """Return the columns of a registered stream's output as the table has them that is there."""
    shape = _shape_of(stream, record)
    return check_existing(info, shape, stream.definition, record.compiled.group_types)


def _fixed_of(record: StreamRecord, catalog: Catalog, info: TableInfo) -> dict[str, Fixed] | None:
    """Return what tells the rows of a registered stream from others'; None: its tables have gone."""
    try:
        return _shape_there(compile_record(record, catalog), record, info).fixed
    except (StatementError, StreamError):
        return None


def _named_in_full(definition: StreamDefinition, record: StreamRecord) -> StreamDefinition:
    """Return a definition with the name in full that its output was made by in a catalog of Spark's."""
    if definition.layout.catalog_name is None:
        return definition
    assert record.output_name is not None  # by create_stream
    name = CatalogName.of(record.output_name)
    return replace(definition, layout=replace(definition.layout, catalog_name=name))


def _check_expected(small: SmallPath, catalog: Catalog, checked: _Checked) -> None:
    """Check expectations of results over the columns of the output that there is, or would be."""
    definition, shape = checked.stream.definition, checked.shape
    Quarantine(definition, checked.stream.uuid).refuse_taken(catalog)
    name = definition.output.within(definition.name.database or "")
    info = catalog.find_table(name.database or "", name.name)
    if info is not None:
        with suppress(StatementError):  # it is refused, or made anew
            shape = check_existing(info, shape, definition, checked.group_types)
    refuse_unfit_expectations(definition, checked.stream.source, shape, str(name))
    check_results(small, result_checks(definition, shape, checked.stream.zone), shape)


def _check_notified(small: SmallPath, stream: Stream, shape: OutputShape) -> None:
    """Let Spark check the condition of NOTIFY. Raises StatementError EXPRESSION_INVALID, NOT_SUPPORTED."""
    notification, options = stream.definition.notification, stream.definition.options
    if notification is None:
        return
    by_opening = options.emission.at_open and not options.emission.at_close
    if options.ignore_nodata and by_opening and WINDOW_CLOSE in notification.events:
        raise NotSupportedError(
            "NOTIFY … ON (WINDOW_CLOSE) of a stream with IGNORE_NODATA_TRIGGER that computes openings only",
            hint="EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)",
        )
    if notification.where is None:
        return
    sql = f"SELECT {event_rules(stream, shape).where} FROM ({shape.nothing})"
    if not small.brings_functions():
        refuse_unknown_functions("NOTIFY … WHERE", notification.where)
    try:
        small.apart.ask(("notify", sql), lambda: small.spark().sql(sql).schema)
    except analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "NOTIFY … WHERE", notification.where, error) from None


def _refuse_migrating(stream: Stream, catalog: Catalog) -> None:
    """Refuse to read an output whose columns are being made others."""
    for info in stream.tables.values():
        if info.kind != "output":
            continue
        work = work_on(catalog.layout, claim_of_table(info.path))
        if work is not None and work.doing == MIGRATING:
            raise BusyError(
                "TABLE_BUSY",
                f"process {work.pid} migrates {info.database}.{info.name}",
                hint="try again when that has ended",
            )


def _refuse_merged_tables(stream: Stream) -> None:
    """Refuse state, event and count windows over several tables in one timeline (TDengine A2)."""
    definition = stream.definition
    if stream.cut is None or is_session(definition.trigger):
        return
    if not has_subtables(stream.source.info) or stream.source.subtable is not None:
        return
    if not any(key.is_tbname for key in definition.partition_by):
        raise StatementError(
            "TBNAME_MISSING",
            f"{_window_of(definition)} on a super table needs tbname in PARTITION BY",
            hint="PARTITION BY tbname",
        )


def _refuse_composite_key(stream: Stream) -> None:
    """Refuse windows cut by rows that may share a time, where the syntax asks for times of their own."""
    info, trigger = stream.source.info, stream.definition.trigger
    composite = [name for name in info.key if name not in (info.time_column, TBNAME)]
    if stream.definition.options.unique_times and composite:
        raise StatementError(
            "COMPOSITE_KEY",
            f"{_NAMES[type(trigger)]} on {info.database}.{info.name}, which has a composite key "
            f"({', '.join(info.key)})",
            hint="the syntax with the trigger before FROM puts rows of one time in order by the key",
        )


def _refuse_unfillable(stream: Stream) -> None:
    """Refuse FILL where a window without rows has no row, or none of a key of its own."""
    if stream.definition.options.fill is None:
        return
    fragment = stream.definition.calculation
    if stream.way is not Way.GROUPED:
        raise NotSupportedError(
            "FILL of a query that is more than aggregates, times of the window and grouping columns",
            hint="for example SELECT _wstart, count(*), avg(v)",
            place=place_of(fragment),
        )
    _refuse_shared_keys(stream, "FILL", hint="SELECT _wstart, …")


def _refuse_shared_keys(stream: Stream, clause: str, *, hint: str) -> None:
    """Refuse a clause where two windows may write rows of one key; ``hint`` says what to select first."""
    definition, fragment = stream.definition, stream.definition.calculation
    if key_is_from_window(stream):
        return
    if definition.subtable is not None and not subtables_are_groups(definition):
        alone = len(definition.partition_by) == 1
        raise StatementError(
            "KEY_NOT_FROM_WINDOW",
            f"{clause} needs a subtable for each group, and this may give two groups one name",
            hint="concat('o_', %%1)" if alone else "without OUTPUT_SUBTABLE each group has one of its own",
            place=place_of(definition.subtable),
        )
    raise StatementError(
        "KEY_NOT_FROM_WINDOW",
        f"{clause} needs a key that comes from the window, and the first result column is no time of it",
        hint=hint,
        place=place_in(fragment, parse_query(fragment).selects[0]),
    )


_NAMES = {StateTrigger: "STATE_WINDOW", EventTrigger: "EVENT_WINDOW", CountTrigger: "COUNT_WINDOW"}


def _window_of(definition: StreamDefinition) -> str:
    trigger = definition.trigger
    if definition.options.converts and is_each_row(trigger):
        return "a query without a window"  # the classic syntax knows no COUNT_WINDOW(1)
    return _NAMES[type(trigger)]


def _refuse_computed_columns(catalog: Catalog, info: TableInfo) -> None:
    """Refuse an output with columns whose values Delta takes from nobody: rows are written there again."""
    computed = {"generatedColumns": "generated", "identityColumns": "identity"}
    reasons = capabilities(catalog.handles.latest(info.path)).reasons
    found = [computed[reason] for reason in reasons if reason in computed]
    if found:
        raise StatementError(
            "OUTPUT_MISMATCH",
            f"the output table {info.database}.{info.name} has {' and '.join(found)} columns, "
            "and rows of windows are written again",
            hint="a table without them, or a new one",
        )


def _at_calculation(definition: StreamDefinition, make: Callable[[], _Made]) -> _Made:
    try:
        return make()
    except LakestreamError as error:
        raise error.at(place_of(definition.calculation)) from None


def _output(
    spark: Callable[[], SparkSession],
    apart: Apart,
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    checked: _Checked,
) -> tuple[TableInfo, bool]:
    """Return the output table, and whether it may hold rows that are not this stream's."""
    name = _output_name(definition)
    info = catalog.find_table(*name)
    stream, shape = checked.stream, checked.shape
    if info is None and _is_made_by_spark(definition):
        # It is there for the next try, and is not the stream's until that one registers it.
        apart.ask(
            ("output", stream.uuid, shape), lambda: create_output(catalog, stream, definition, shape, spark)
        )
        info = catalog.find_table(*name)
    if info is None:
        return create_output(catalog, stream, definition, shape, spark), False
    if info.writer == stream.uuid:
        return info, False
    _refuse_existing(catalog, registry, definition, checked, info)
    return info, True


def _output_name(definition: StreamDefinition) -> tuple[str, str]:
    """Return the database and the name of a stream's output."""
    return definition.output.database or definition.name.database or "", definition.output.name


def _refuse_existing(
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    checked: _Checked,
    info: TableInfo,
) -> None:
    """Raise StatementError where a stream cannot write into a table that is there."""
    if definition.options.view is not None:
        raise StatementError(
            "TABLE_EXISTS",
            f"there is a table {info.database}.{info.name}",
            hint="a view has a table of its own",
        )
    _refuse_layout_of_another(definition, info)
    refuse_tag_types(info, definition)
    _refuse_computed_columns(catalog, info)
    there = check_existing(info, checked.shape, definition, checked.group_types)
    _refuse_without_provenance(definition, info, there)
    _refuse_rows_among_others(catalog, registry, info, there)


def _is_made_by_spark(definition: StreamDefinition) -> bool:
    """Return whether only Spark makes the output."""
    return bool(definition.layout.catalog_name or definition.layout.clustered_by)


def drop_made(catalog: Catalog, definition: StreamDefinition, uuid: str) -> None:
    """Drop the tables that were made for a stream which is then refused."""
    Quarantine(definition, uuid).drop(catalog)
    output = definition.output.within(definition.name.database or "")
    made = catalog.find_table(output.database or "", output.name), find_errors(catalog, definition)
    for info in made:
        if info is not None and info.writer == uuid:
            catalog.drop_table(info.database, info.name)


def _refuse_rows_among_others(
    catalog: Catalog, registry: Registry | _Others, info: TableInfo, shape: OutputShape
) -> None:
    """Refuse an output of other streams whose rows nothing tells from those of this one (TDengine A8)."""
    for other in _writers_of(registry, info):
        ours, theirs = shape.fixed, _fixed_of(other, catalog, info) or {}
        if not any(ours[name].is_apart(theirs[name]) for name in ours.keys() & theirs.keys()):
            raise StatementError(
                "OUTPUT_TAKEN",
                f"{other.output} is the output table of the stream {other.database}.{other.name}, "
                "and nothing tells the rows of both apart",
                hint="in both a tag of one value, TAGS (site STRING AS 'north'), or subtables that begin "
                "otherwise, OUTPUT_SUBTABLE(concat('north_', tbname)); or an output table of its own",
            )


def _writers_of(registry: Registry | _Others, info: TableInfo) -> list[StreamRecord]:
    return [one for one in registry.streams() if one.output == f"{info.database}.{info.name}"]


def _refuse_layout_of_another(definition: StreamDefinition, info: TableInfo) -> None:
    """Refuse to say how a table lies that is there."""
    if definition.layout != OutputLayout():
        raise StatementError(
            "OUTPUT_LAYOUT",
            f"{info.database}.{info.name} is there already, and lies as it does",
            hint="leave PARTITIONED BY, CLUSTER BY, LOCATION and USING TABLE out, or write into a new table",
        )


def _refuse_without_provenance(definition: StreamDefinition, info: TableInfo, shape: OutputShape) -> None:
    """Refuse what needs rows that say which window they are of, for a table without columns for that."""
    if shape.provenance:
        return
    table, options = f"{info.database}.{info.name}", definition.options
    needing = {
        "NOTIFY": definition.notification is not None,
        "EXACT": options.late.drops and options.late.exact,
        "DELETE_OUTPUT_TABLE": options.delete_output,
        "FILL(PREV)": options.fill is not None and options.fill.mode == "PREV",
    }
    for what, is_so in needing.items():
        if is_so:
            raise NotSupportedError(
                f"{what} into {table}, whose rows do not say which window they are of",
                hint="write into a new table",
            )


def require_provenance(what: str, info: TableInfo, shape: OutputShape) -> None:
    """Raise NotSupportedError for rows of windows that are to go, where they do not say whose they are."""
    if not shape.provenance:
        raise NotSupportedError(
            f"{what} with rows in {info.database}.{info.name}, which do not say which window they are of",
            hint="write into a new table",
        )


def _is_exact(definition: StreamDefinition, *, by_default: bool) -> bool:
    """Return whether a stream is EXACT: by its option, or by default where it names no other policy."""
    late, periodic = definition.options.late, is_periodic(definition.trigger)
    return late.exact or (by_default and not late.leaves_out and not periodic)


def _refuse_inexact(stream: Stream) -> None:
    """Refuse EXACT where a row of the output could overwrite one that no later change would restore."""
    times = sorted(UNIQUE_TIMES & stream.calculation.scope.placeholders)
    _refuse_shared_keys(stream, "EXACT", hint=f"select {' or '.join(times)} first")


def _refuse_not_incremental(stream: Stream) -> None:
    """Refuse a view that is to be refreshed incrementally and would be computed as a whole."""
    view = stream.definition.options.view
    if view is None or view.policy != "INCREMENTAL" or not family_of(stream).is_whole:
        return
    if stream.keys is None:
        why = f"not refreshed incrementally: {view.why}, not by keys: {stream.why_whole}"
    elif nowhere := stream.keys.leading_nowhere:
        said = f"no equal columns lead from a change of {', '.join(sorted(nowhere))} to its keys"
        why = f"{said} (instead: a join with it by a.x = b.x)"
    else:
        return
    raise StatementError(
        "VIEW_NOT_INCREMENTAL",
        why,
        hint="REFRESH POLICY AUTO computes it again as a whole",
        place=place_of(stream.definition.calculation),
    )


def _refuse_other_time(stream: Stream) -> None:
    """Refuse windows of another column than the table's time: by that a stream knows its rows."""
    view, source = stream.definition.options.view, stream.source.info
    if view is not None and view.time is not None and view.time.lower() != source.time_column.lower():
        raise StatementError(
            "VIEW_NOT_INCREMENTAL",
            f"window({view.time}, …): the time of {source.database}.{source.name} is {source.time_column}",
            hint="REFRESH POLICY AUTO computes it again as a whole",
            place=place_of(stream.definition.calculation),
        )


def _refuse_cycle(stream: Stream, registry: Registry | _Others) -> None:
    """Refuse an output that the stream reads, directly or by way of other streams."""
    definition = stream.definition
    output = f"{definition.output.database or definition.name.database}.{definition.output.name}"
    if output in stream.tables:
        raise StatementError(
            "OUTPUT_IS_SOURCE",
            f"INTO {output}: the output table may not be the trigger table or a source table",
            hint="write into another table",
        )
    fed = {output}
    edges = [(set(record.compiled.reads), record.output) for record in registry.streams()]
    for _ in edges:
        fed |= {target for reads, target in edges if reads & fed}
    if fed & set(stream.tables):
        raise StatementError(
            "STREAM_CYCLE", f"INTO {output}: the stream would read, through other streams, what it writes"
        )


def _refuse_without_feed(stream: Stream, catalog: Catalog) -> None:
    for info in _with_changes(stream):
        if not catalog.handles.latest(info.path).has_change_feed:
            raise StatementError(
                "CHANGE_FEED_OFF",
                f"{info.database}.{info.name} has no change data feed",
                hint=_way_to_feed(info),
            )


def _with_changes(stream: Stream) -> list[TableInfo]:
    """Return the tables whose changes a stream takes: its source, and those that it follows."""
    followed = (stream.tables[path.read.relation.key] for path in stream.followed)
    return [*{info.path: info for info in (stream.source.info, *followed)}.values()]


def _refuse_unfollowable(stream: Stream) -> None:
    """Refuse EXACT(ALL) where a change of another table could not reach exactly what it changes."""
    definition = stream.definition
    follow, place = definition.options.late.follow, place_of(definition.calculation)
    if follow is None:
        return
    if not family_of(stream).follows_tables:
        raise NotSupportedError(
            "EXACT of other tables with windows that rows cut",
            hint="INTERVAL, CALENDAR or SLIDING; or EXACT, and RECALCULATE STREAM after other tables changed",
        )
    if opens_once(stream):
        raise NotSupportedError(
            "EXACT of other tables with EVENT_TYPE(WINDOW_OPEN) and MAX_DELAY", hint="leave one of them out"
        )
    if "_tlocaltime" in stream.calculation.used:
        raise StatementError(
            "NON_DETERMINISTIC",
            "EXACT of other tables computes windows again, and the wall clock would give them other results",
            hint="a time of the window, such as _twend, in its place",
            place=place,
        )
    for path in () if family_of(stream).is_whole else stream.followed:
        if not path.leads and follow.within is None:
            raise StatementError(
                "UNBOUNDED_READ",
                f"neither a key nor a time leads from a change of {path.read.relation.key} to windows",
                hint="join it by equal columns, bound its time by the window, or say how far back a change "
                "counts: EXACT(ALL, WITHIN 30d)",
                place=place,
            )


def _refuse_collations(stream: Stream, catalog: Catalog) -> None:
    """Refuse a column that is followed whose texts have an order of their own: rows lose it as Arrow."""
    columns = {stream.source.info.path: {*stream.changed_columns}}
    for path in stream.followed:
        read = path.read.relation
        columns.setdefault(stream.tables[read.key].path, set()).update(read.columns)
    for info in _with_changes(stream):
        for field in catalog.handles.open(info.path).fields:
            if field.name not in columns[info.path] or _COLLATIONS not in field.to_json():
                continue
            raise NotSupportedError(
                f"the column {field.name} of {info.database}.{info.name}, which has a collation, in a stream",
                hint="its owner can add what a stream needs of it as a column without one: lower(…), or "
                "collate(…, 'UTF8_BINARY')",
                place=place_of(stream.definition.calculation),
            )


def refuse_unfit(small: SmallPath, catalog: Catalog, record: StreamRecord, stream: Stream) -> None:
    """Refuse a registered stream whose source, as it is now, has no feed or gives other results.

    Raises StatementError CHANGE_FEED_OFF, StreamError SOURCE_SCHEMA_CHANGED.
    """
    _refuse_without_feed(stream, catalog)
    if said := other_results(small, record, stream):
        paths = sorted({stream.source.info.path, *(info.path for info in stream.tables.values())})
        which = paths[0] if len(paths) == 1 else f"one of {', '.join(paths)}"
        raise StreamError("SOURCE_SCHEMA_CHANGED", f"{which} {said}")


def _way_to_feed(info: TableInfo) -> str:
    if not info.external:
        return "switch delta.enableChangeDataFeed on"
    name = f"{quoted(info.database)}.{quoted(info.name)}"
    return f"CREATE TABLE IF NOT EXISTS {name} LOCATION {quoted_text(info.path)} switches it on, after asking"


def _start(stream: Stream, table: Table, catalog: Catalog, small: SmallPath) -> tuple[int, int | None]:
    """Return the version of its source behind which a stream starts, and before when rows are not its.

    Those are the rows that are there in that version; None: there are none such. Where rows have to be read
    for it, the stream starts behind the version of that moment.
    """
    options, column = stream.definition.options, stream.source.info.time_column
    if options.wants_history or options.late.by_arrival or not column:
        return table.version, _history_start(stream)

    def found() -> tuple[int, int | None]:
        source = catalog.handles.latest(table.path)
        newest = newest_time(source, column, small.spark)
        return source.version, None if newest is None else newest + 1

    if tells_newest(table, column):
        return found()
    return small.apart.ask(("newest", table.path, table.table_id, column), found)


def _history_start(stream: Stream) -> int | None:
    """Return where the history begins that a stream takes, None where that is nowhere."""
    options = stream.definition.options
    if options.late.by_arrival or not stream.source.info.time_column or not options.history_start:
        return None
    return parse_instant(options.history_start, stream.zone)
