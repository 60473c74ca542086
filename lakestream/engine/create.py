"""CREATE STREAM: everything that can be wrong is found before anything is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakestream.compute.calculation import ROWS, WINDOWS
from lakestream.compute.evaluate import Way, distinct_aggregates
from lakestream.compute.functions import aggregates
from lakestream.compute.gaps import constants_of, fits_sql, without_constants
from lakestream.compute.panes import averaged, partials
from lakestream.compute.ranges import MARKED
from lakestream.engine.admission import register_empty
from lakestream.engine.instants import newest_time, parse_instant
from lakestream.engine.names import TBNAME, has_subtables, trigger_fragments, visible_columns
from lakestream.engine.notices import event_rules
from lakestream.engine.others import OUTPUT_VERSION
from lakestream.engine.refused import refused
from lakestream.engine.relations import CHANGED, EMPTY_CHANGES, FIRED, empty_view
from lakestream.engine.stream import compile_stream
from lakestream.engine.target import (
    UNIQUE_TIMES,
    Target,
    check_existing,
    create_output,
    errors_table,
    find_errors,
    key_is_from_window,
    keys_are_unique,
    output_shape,
    refuse_tag_types,
)
from lakestream.engine.waiting import WAITING
from lakestream.errors import LakestreamError, NotSupportedError, StatementError, StreamError
from lakestream.language.expressions import parse_query, place_in
from lakestream.language.model import (
    WINDOW_CLOSE,
    CatalogName,
    CountTrigger,
    EventTrigger,
    GroupKey,
    OutputLayout,
    PeriodTrigger,
    SessionTrigger,
    SlideTrigger,
    SpanTrigger,
    StateTrigger,
)
from lakestream.language.names import quoted, quoted_text
from lakestream.language.source import place_of
from lakestream.storage.delta import capabilities
from lakestream.storage.registry import StreamRecord
from lakestream.storage.types import holds_variant, shown_type, types_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession
    from sqlglot import exp

    from lakestream.engine.stream import Stream
    from lakestream.language.model import Fragment, StreamDefinition
    from lakestream.output.columns import OutputShape
    from lakestream.storage.catalog import Catalog, TableInfo
    from lakestream.storage.registry import Registry

DEFINITION_VERSION = 1

REPLACED = "replaced"
"""Where a registration says that a stream that leaves late rows out had another definition.

Empty until the new one is begun with; then the tick and the source's version that this was at, the output's
version by then, and the parts of recalculations that were done.
"""


OUTPUT_NAME = "output_name"
"""Where a registration says the name in full of an output that was made in a catalog of Spark's."""


def create_stream(  # noqa: PLR0913 (one session computes, another one has the names in catalogs)
    spark: SparkSession,
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    zone: str,
    created_us: int,
    *,
    current: str,
    exact_by_default: bool,
    catalogs: SparkSession,
) -> StreamRecord:
    """Check a stream, make its output table, and register it; it starts after the source's version now.

    ``current`` is the database that names without one stand in, ``catalogs`` the session whose catalogs
    USING TABLE names.

    Raises StatementError for whatever is wrong with it; nothing is left behind then.
    """
    uuid = str(uuid4())
    checked = _checked(spark, catalog, registry, definition, zone, uuid, exact_by_default=exact_by_default)
    stream = checked.stream
    find_errors(catalog, definition)
    table = catalog.handles.latest(stream.source.info.path)
    found = {"until_us": _untaken_until(stream, catalog, spark), **checked.found(catalog)}
    # Nothing was made up to here.
    output, shared = _output(catalogs, catalog, registry, definition, checked, uuid)
    errors_table(catalog, definition, uuid)
    record = StreamRecord(
        uuid=uuid,
        database=definition.name.database or "",
        name=definition.name.name,
        sql=definition.text,
        status="Running",
        created_us=created_us,
        start_version=table.version,
        source_id=table.table_id,
        output=f"{output.database}.{output.name}",
        extra={
            "format": DEFINITION_VERSION,
            "zone": zone,
            "current": current,
            "shared_output": shared,
            "source": f"{stream.source.info.database}.{stream.source.info.name}",
            **({OUTPUT_NAME: output.catalog_name} if definition.layout.catalog_name else {}),
            **({OUTPUT_VERSION: catalog.handles.latest(output.path).version} if shared else {}),
            **found,
        },
    )
    registry.add(record)
    return record


def replace_stream(
    spark: SparkSession,
    catalog: Catalog,
    registry: Registry,
    record: StreamRecord,
    definition: StreamDefinition,
    *,
    current: str,
    exact_by_default: bool,
) -> None:
    """Give a stream another definition over the same source and output; its state and place go.

    Whoever calls it has the windows recalculated from the source as it is. The output table is made anew
    where its columns are others. Raises StatementError as :func:`create_stream`, NotSupportedError for a
    table that does not say which window a row is of where old rows are to go, and leaves all as it was.
    """
    zone = record.extra["zone"]
    others = _Others(registry, record.uuid)
    checked = _checked(
        spark, catalog, others, definition, zone, record.uuid, exact_by_default=exact_by_default
    )
    database, name = record.output.split(".", 1)
    info = catalog.find_table(database, name)
    if info is not None:
        try:
            _refuse_computed_columns(catalog, info)
            there = check_existing(info, checked.shape, definition, checked.group_types)
            _refuse_without_provenance(definition, info, there)
            if definition.options.drops_late and not definition.options.by_arrival:
                require_provenance("CREATE OR REPLACE STREAM", info, there)
        except StatementError:
            if record.extra["shared_output"] or info.external:
                raise
            catalog.drop_table(database, name)
            create_output(catalog, definition, checked.shape, record.uuid, lambda: spark)
    taken = definition.options.wants_history
    until = _untaken_until(checked.stream, catalog, spark) if taken else record.extra.get("until_us")
    gone = ("skipped", WAITING) if definition.options.drops_late else ("floor_us", "skipped", WAITING)
    kept = {name: value for name, value in record.extra.items() if name not in gone}
    if definition.options.drops_late:
        kept[REPLACED] = {}
    registry.remove_state(record.uuid)
    registry.update(
        record.uuid,
        sql=definition.text,
        status="Running",
        last_error=None,
        extra={**kept, "current": current, "until_us": until, **checked.found(catalog)},
    )


@dataclass(frozen=True)
class _Checked:
    """A definition in which nothing is wrong: compiled, with the columns of its output."""

    stream: Stream
    shape: OutputShape
    result_types: list[str]
    group_types: list[str]

    def found(self, catalog: Catalog) -> dict[str, Any]:
        """Return what a registered stream is compiled with."""
        tables = self.stream.tables
        return {
            "way": self.stream.way.value,
            "exact": self.stream.exact,
            "partials": self.stream.partial_types,
            "result_types": self.result_types,
            "group_types": self.group_types,
            "reads": sorted(tables),
            "read_versions": {
                name: catalog.handles.latest(info.path).version for name, info in tables.items()
            },
        }


def _checked(
    spark: SparkSession,
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
    _refuse_merged_tables(stream)
    _refuse_composite_key(stream)
    _refuse_unfillable(stream)
    _refuse_cycle(stream, registry)
    _refuse_without_feed(stream, catalog)
    stream, result_types, group_types = analyse(spark, stream)
    shape = _at_calculation(
        definition,
        lambda: output_shape(definition, stream.calculation.names, result_types, group_types, stream.zone),
    )
    if exact and definition.stores and stream.assigner is None:
        _refuse_inexact(stream)
    _check_notified(spark, stream, shape)
    return _Checked(stream, shape, list(result_types), list(group_types))


@dataclass(frozen=True)
class _Others:
    """The streams of a registry without the one that is replaced."""

    registry: Registry
    without: str

    def streams(self) -> list[StreamRecord]:
        """Return them."""
        return [record for record in self.registry.streams() if record.uuid != self.without]


def open_target(
    stream: Stream, record: StreamRecord, catalog: Catalog, spark: Callable[[], SparkSession]
) -> Target:
    """Return the output of a registered stream; it is made again when it was dropped (TDengine A8)."""
    shape = output_shape(
        stream.definition,
        stream.calculation.names,
        record.extra["result_types"],
        record.extra["group_types"],
        stream.zone,
    )
    database, name = record.output.split(".", 1)
    info = catalog.find_table(database, name) or create_output(
        catalog, _named_in_full(stream.definition, record), shape, record.uuid, spark
    )
    try:
        shape = check_existing(info, shape, stream.definition, record.extra["group_types"])
        _refuse_without_provenance(stream.definition, info, shape)
    except StatementError as error:
        raise StreamError("OUTPUT_CHANGED", error.message, hint=error.hint) from None
    if not stream.definition.stores:
        return Target(info, shape, unique=False, appends=not stream.fires_early)
    unique = keys_are_unique(stream)
    appends = unique and not record.extra["shared_output"] and not stream.fires_early
    if not shape.key:
        appends = True
    return Target(info, shape, unique, appends, errors_table(catalog, stream.definition, record.uuid))


def _named_in_full(definition: StreamDefinition, record: StreamRecord) -> StreamDefinition:
    """Return a definition with the name in full that its output was made by in a catalog of Spark's."""
    if definition.layout.catalog_name is None:
        return definition
    name = CatalogName.of(record.extra[OUTPUT_NAME])
    return replace(definition, layout=replace(definition.layout, catalog_name=name))


def analyse(spark: SparkSession, stream: Stream) -> tuple[Stream, list[str], list[str]]:
    """Let Spark check the stream over empty tables: the way, and the types of results and groups.

    Raises StatementError CALCULATION_INVALID, at the calculation or the clause that Spark refuses, and
    NOT_SUPPORTED for a VARIANT among the columns that the stream uses of its source.
    """
    _refuse_variants(stream)
    _register_empty(spark, stream)
    _check_conditions(spark, stream)
    group_types = _group_types(spark, stream)
    if stream.assigner is not None:
        return _analyse_admitted(spark, stream, group_types)
    empty = ", ".join(
        f"CAST(NULL AS {kind}) AS {name}"
        for name, kind in zip(stream.group_columns, group_types, strict=True)
    )
    groups = f", {empty}" if empty else ""
    ranges = "CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>)"
    spark.sql(
        f"SELECT 0L AS gid{groups}, 0L AS v, 0L AS first, {ranges} AS fires, {ranges} AS again, "
        f"0L AS newest, 0L AS k, 0L AS c, 0L AS low, 0L AS high, 0L AS after, false AS opening WHERE false"
    ).createOrReplaceTempView(FIRED)
    spark.sql(stream.rows_sql(CHANGED, None, None)).createOrReplaceTempView(ROWS)
    spark.sql(stream.windows_sql(FIRED, 0)).createOrReplaceTempView(WINDOWS)
    _check_trigger(spark, stream)
    fill = stream.definition.options.fill
    typed = stream
    if fill is not None:
        typed = replace(stream, calculation=without_constants(stream.calculation))
    try:
        kinds = _types(spark, typed.evaluation().sql())
    except _analysis_error() as error:
        if fill is not None:
            raise _calculation_error(stream, error) from None
        # What cannot be evaluated for all windows at once may still be, window by window.
        if stream.definition.options.force_output:
            raise NotSupportedError(
                "FORCE_OUTPUT of a calculation that Spark evaluates window by window only",
                place=place_of(stream.definition.calculation),
            ) from None
        stream = replace(stream, way=Way.EACH)
        kinds = _types_of_each(spark, stream, error)
    wanted = stream.evaluation().columns
    if fill is not None:
        _check_constants(spark, constants_of(stream.calculation, fill), kinds)
    stream = replace(stream, partial_types=_partial_types(spark, stream))
    return stream, [kinds[name] for name in wanted], group_types


def _analyse_admitted(
    spark: SparkSession, stream: Stream, group_types: list[str]
) -> tuple[Stream, list[str], list[str]]:
    """As :func:`analyse`, for a stream that leaves late rows out."""
    register_empty(spark, stream)
    stream = _without_combining(spark, stream)
    try:
        kinds = _types(spark, stream.evaluation().sql())
    except _analysis_error() as error:
        raise _calculation_error(stream, error) from None
    return stream, [kinds[name] for name in stream.evaluation().columns], group_types


def _without_combining(spark: SparkSession, stream: Stream) -> Stream:
    """Return the stream without combined aggregates where they would not give the same as whole ones."""
    if stream.way is not Way.RANGED:
        return stream
    query = stream.calculation.query
    having = query.args.get("having")
    found = aggregates([*query.selects, *([having.this] if having else [])])
    return replace(stream, way=Way.BY_ROW) if _combined_types(spark, found, MARKED) is None else stream


_CONDITIONS: dict[type, str] = {
    EventTrigger: "EVENT_WINDOW",
    SlideTrigger: "OVER (WHEN …)",
    SpanTrigger: "STATEWINDOW",
}
"""The triggers that look at rows by conditions, and what these are called."""


def _check_conditions(spark: SparkSession, stream: Stream) -> None:
    """Let Spark check the conditions that rows are to meet. Raises StatementError EXPRESSION_INVALID."""
    options, trigger = stream.definition.options, stream.definition.trigger
    if options.pre_filter is not None:
        _check_condition(spark, stream, options.pre_filter, "FILTER" if options.drops_late else "PRE_FILTER")
    if type(trigger) in _CONDITIONS:
        for fragment in trigger_fragments(trigger):
            _check_condition(spark, stream, fragment, _CONDITIONS[type(trigger)])


def _check_condition(spark: SparkSession, stream: Stream, fragment: Fragment, clause: str) -> None:
    try:
        kind = spark.sql(f"SELECT ({stream.over_row(fragment)}) AS c FROM {CHANGED}").dtypes[0][1]
    except _analysis_error() as error:
        raise refused("EXPRESSION_INVALID", clause, fragment, error) from None
    if kind not in ("boolean", "void"):
        raise StatementError(
            "EXPRESSION_INVALID",
            f"{clause} takes a condition, and {fragment.sql} is of type {kind}",
            hint="compare it with something",
            place=place_of(fragment),
        )


def _check_constants(
    spark: SparkSession, constants: Mapping[int, Fragment], kinds: Mapping[str, str]
) -> None:
    """Let Spark check the constants of FILL. Raises StatementError FILL_VALUE at one that does not fit."""
    if not constants:
        return
    listed = [fits_sql(constant, kinds[f"c{number}"]) for number, constant in constants.items()]
    fit = spark.sql(f"SELECT {', '.join(listed)}").collect()[0]
    for (number, constant), fits in zip(constants.items(), fit, strict=True):
        if not fits:
            raise StatementError(
                "FILL_VALUE",
                f"FILL(VALUE, …): {constant.sql} is no {kinds[f'c{number}']}, which result {number} is",
                hint="a constant of the result's type, or NULL",
                place=place_of(constant),
            )


_STATES = ("tinyint", "smallint", "int", "bigint", "boolean", "string")


def _check_trigger(spark: SparkSession, stream: Stream) -> None:
    """Let Spark check what the trigger looks at in a row.

    Raises StatementError EXPRESSION_INVALID, STATE_TYPE (TDengine: integers, bool and text).
    """
    fragments = trigger_fragments(stream.definition.trigger)
    if stream.cut is None or not fragments:
        return
    listed = ", ".join(
        f"({sql}) AS {n}" for sql, n in zip(stream.cut.expressions, stream.cut.columns, strict=True)
    )
    try:
        kinds = spark.sql(f"SELECT {listed} FROM {ROWS}").dtypes
    except _analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "the trigger", fragments[0], error) from None
    if isinstance(stream.definition.trigger, StateTrigger) and kinds[0][1] not in _STATES:
        raise StatementError(
            "STATE_TYPE",
            f"STATE_WINDOW({fragments[0].sql}) is of type {kinds[0][1]}",
            hint="a state is an integer, a boolean or a text",
            place=place_of(fragments[0]),
        )


def _check_notified(spark: SparkSession, stream: Stream, shape: OutputShape) -> None:
    """Let Spark check the condition of NOTIFY. Raises StatementError EXPRESSION_INVALID, NOT_SUPPORTED."""
    notification, options = stream.definition.notification, stream.definition.options
    if notification is None:
        return
    by_opening = options.at_open and not options.at_close
    if options.ignore_nodata and by_opening and WINDOW_CLOSE in notification.events:
        raise NotSupportedError(
            "NOTIFY … ON (WINDOW_CLOSE) of a stream with IGNORE_NODATA_TRIGGER that computes openings only",
            hint="EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)",
        )
    if notification.where is None:
        return
    try:
        spark.sql(f"SELECT {event_rules(stream, shape).where} FROM ({shape.nothing})").schema  # noqa: B018
    except _analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "NOTIFY … WHERE", notification.where, error) from None


def _refuse_merged_tables(stream: Stream) -> None:
    """Refuse state, event and count windows over several tables in one timeline (TDengine A2)."""
    definition = stream.definition
    if stream.cut is None or isinstance(definition.trigger, SessionTrigger):
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
    if not key_is_from_window(stream):
        raise StatementError(
            "KEY_NOT_FROM_WINDOW",
            "FILL needs a key that comes from the window, and a subtable for each group",
            hint="SELECT _wstart, …",
            place=place_in(fragment, parse_query(fragment).selects[0]),
        )


_NAMES = {StateTrigger: "STATE_WINDOW", EventTrigger: "EVENT_WINDOW", CountTrigger: "COUNT_WINDOW"}


def _window_of(definition: StreamDefinition) -> str:
    trigger = definition.trigger
    if definition.options.converts and isinstance(trigger, CountTrigger) and trigger.count == 1:
        return "a query without a window"  # the classic syntax knows no COUNT_WINDOW(1)
    return _NAMES[type(trigger)]


def _partial_types(spark: SparkSession, stream: Stream) -> dict[str, str] | None:
    """Return the types of the partial aggregates; None where they would not give the same as whole ones."""
    found = distinct_aggregates(stream.calculation) if stream.way is Way.GROUPED else []
    return _combined_types(spark, found, ROWS)


def _combined_types(spark: SparkSession, found: Sequence[exp.Expr], rows: str) -> dict[str, str] | None:
    """Return the types of the partial aggregates of some, None where these cannot be combined.

    The mean of decimals is a decimal: partial ones would round differently. Values that Spark does not
    order, such as maps, are picked by whole aggregates only.
    """
    means = averaged(found)
    if means:
        kinds = spark.sql(f"SELECT {', '.join(means)} FROM {rows}").dtypes
        if any(kind.startswith("decimal") for _, kind in kinds):
            return None
    columns = [column for part in partials(found) or [] for column in part.columns]
    if not columns:
        return {}
    listed = ", ".join(f"{column.over_rows} AS {column.name}" for column in columns)
    try:
        return types_of(spark.sql(f"SELECT {listed} FROM {rows}"))
    except _analysis_error():
        return None


def _types(spark: SparkSession, sql: str) -> dict[str, str]:
    return types_of(spark.sql(sql))


def _types_of_each(spark: SparkSession, stream: Stream, failure: Exception) -> dict[str, str]:
    """Evaluate for one window of NULLs; the error of the calculation is the first way's if that fails too."""
    names = {name: f"CAST(NULL AS {kind})" for name, kind in types_of(spark.table(WINDOWS)).items()}
    names["_twrownum"] = "0L"
    try:
        return _types(spark, stream.evaluation().each_sql([names]))
    except _analysis_error():
        raise _calculation_error(stream, failure) from None


def _calculation_error(stream: Stream, error: Exception) -> StatementError:
    definition = stream.definition
    # Of eKuiper's query the calculation is what is left of it: names may stand elsewhere.
    rewritten = definition.options.drops_late
    columns = {name for info in stream.tables.values() for name in visible_columns(info)}
    return refused(
        "CALCULATION_INVALID",
        "the calculation",
        definition.calculation,
        error,
        columns=columns.union(stream.source.columns),
        rewritten=rewritten,
    )


def _analysis_error() -> type[Exception]:
    from pyspark.errors import AnalysisException

    return AnalysisException


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


def _refuse_variants(stream: Stream) -> None:
    """Refuse a source's column of which no row can be held against another one."""
    source = stream.source.info
    for column in source.columns:
        if column.name in stream.changed_columns and holds_variant(column.type):
            raise NotSupportedError(
                f"the VARIANT {column.name} of {source.database}.{source.name} in a stream from it",
                hint="its owner can add what a stream needs of it as a column; a lookup of it is supported",
                place=place_of(stream.definition.calculation),
            )


def _register_empty(spark: SparkSession, stream: Stream) -> None:
    empty_view(
        spark,
        stream.source.info,
        CHANGED,
        EMPTY_CHANGES,
    )
    for read in stream.calculation.reads:
        empty_view(spark, stream.tables[read.relation.key], read.view)


def _group_types(spark: SparkSession, stream: Stream) -> list[str]:
    """Return the types of the groups; nothing but what stands in PARTITION BY is evaluated.

    Raises StatementError EXPRESSION_INVALID, GROUP_TYPE (a value of several parts).
    """
    keys = stream.definition.partition_by
    if not keys:
        return []
    listed = ", ".join(
        f"{group} AS {name}" for name, group in zip(stream.group_columns, stream.groups, strict=True)
    )
    try:
        kinds = types_of(spark.sql(f"SELECT {listed} FROM {CHANGED}"))
    except _analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "PARTITION BY", keys[0].expression, error) from None
    for key, kind in zip(keys, kinds.values(), strict=True):
        _refuse_group_type(key, kind)
    return list(kinds.values())


def _refuse_group_type(key: GroupKey, kind: str) -> None:
    if not kind.startswith(("array<", "map<", "struct<", "variant")):
        return
    raise StatementError(
        "GROUP_TYPE",
        f"PARTITION BY {key.expression.sql} is of type {shown_type(kind)}",
        hint=f"a part of it with a name, or its text: PARTITION BY to_json({key.expression.sql}) AS name",
        place=place_of(key.expression),
    )


def _at_calculation(definition: StreamDefinition, make: _MakeShape) -> OutputShape:
    try:
        return make()
    except LakestreamError as error:
        raise error.at(place_of(definition.calculation)) from None


def _output(
    spark: SparkSession,
    catalog: Catalog,
    registry: Registry,
    definition: StreamDefinition,
    checked: _Checked,
    uuid: str,
) -> tuple[TableInfo, bool]:
    """Return the output table, and whether it may hold rows that are not this stream's."""
    database = definition.output.database or definition.name.database or ""
    info = catalog.find_table(database, definition.output.name)
    if info is None:
        return create_output(catalog, definition, checked.shape, uuid, lambda: spark), False
    _refuse_layout_of_another(definition, info)
    for other in registry.streams():
        if other.output == f"{database}.{definition.output.name}":
            raise StatementError(
                "OUTPUT_TAKEN",
                f"{other.output} is the output table of the stream {other.database}.{other.name}",
                hint="give every stream an output table of its own",
            )
    refuse_tag_types(info, definition)
    _refuse_computed_columns(catalog, info)
    there = check_existing(info, checked.shape, definition, checked.group_types)
    _refuse_without_provenance(definition, info, there)
    return info, True


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
        "EXACT": options.drops_late and options.exact,
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
    options = definition.options
    ignores = options.ignore_disorder or options.expired_time is not None
    ignores = ignores or options.drops_late
    periodic = isinstance(definition.trigger, PeriodTrigger)
    return options.exact or (by_default and not ignores and not periodic)


def _refuse_inexact(stream: Stream) -> None:
    """Refuse EXACT where a row of the output could overwrite one that no later change would restore."""
    if key_is_from_window(stream):
        return
    fragment = stream.definition.calculation
    raise StatementError(
        "KEY_NOT_FROM_WINDOW",
        "EXACT needs a key that comes from the window, and the first result column is not one of its times",
        hint=f"select {' or '.join(sorted(UNIQUE_TIMES & stream.calculation.scope.placeholders))} first",
        place=place_in(fragment, parse_query(fragment).selects[0]),
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
    edges = [(set(record.extra.get("reads", [])), record.output) for record in registry.streams()]
    for _ in edges:
        fed |= {target for reads, target in edges if reads & fed}
    if fed & set(stream.tables):
        raise StatementError(
            "STREAM_CYCLE", f"INTO {output}: the stream would read, through other streams, what it writes"
        )


def _refuse_without_feed(stream: Stream, catalog: Catalog) -> None:
    info = stream.source.info
    if not catalog.handles.latest(info.path).has_change_feed:
        raise StatementError(
            "CHANGE_FEED_OFF",
            f"{info.database}.{info.name} has no change data feed",
            hint=_way_to_feed(info),
        )


def refuse_unfit(spark: SparkSession, catalog: Catalog, record: StreamRecord, stream: Stream) -> None:
    """Refuse a registered stream whose source, as it is now, has no feed or gives other results.

    Raises StatementError CHANGE_FEED_OFF, StreamError SOURCE_SCHEMA_CHANGED.
    """
    _refuse_without_feed(stream, catalog)
    if said := _other_results(spark, record, stream):
        raise StreamError("SOURCE_SCHEMA_CHANGED", f"{stream.source.info.path} {said}")


def refuse_other_results(spark: SparkSession, record: StreamRecord, stream: Stream) -> None:
    """Refuse a registered stream to which the tables beside its source, as they are now, give other results.

    Raises StreamError TABLE_SCHEMA_CHANGED.
    """
    if said := _other_results(spark, record, stream):
        raise StreamError("TABLE_SCHEMA_CHANGED", f"a table that the stream reads beside its source {said}")


def _other_results(spark: SparkSession, record: StreamRecord, stream: Stream) -> str:
    """Say what is other than registered in the types of results and groups, empty for nothing."""
    try:
        _, *found = analyse(spark, stream)
    except StatementError as error:
        return f"does not go with the stream: {error.message}"
    known = [record.extra["result_types"], record.extra["group_types"]]
    types = zip(chain(*found), chain(*known), strict=True)
    others = (f"gives a column of type {now} where the stream has {old}" for now, old in types if now != old)
    return next(others, "")


def _way_to_feed(info: TableInfo) -> str:
    if not info.external:
        return "switch delta.enableChangeDataFeed on"
    name = f"{quoted(info.database)}.{quoted(info.name)}"
    return f"CREATE TABLE IF NOT EXISTS {name} LOCATION {quoted_text(info.path)} switches it on, after asking"


def _untaken_until(stream: Stream, catalog: Catalog, spark: SparkSession) -> int | None:
    """Return the instant before which the rows there already are not the stream's, None for no such."""
    options = stream.definition.options
    if options.by_arrival or not stream.source.info.time_column:
        return None
    if options.wants_history:
        return parse_instant(options.history_start, stream.zone) if options.history_start else None
    info = stream.source.info
    newest = newest_time(catalog.handles.latest(info.path), info.time_column, lambda: spark)
    return None if newest is None else newest + 1


if TYPE_CHECKING:
    _MakeShape = Callable[[], OutputShape]
