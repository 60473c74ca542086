"""A stream, checked over empty tables: what is refused of it, and the types of its results.

The small session checks it where it answers just as Spark would. Whatever it refuses, Spark is asked,
and what is wrong is said in Spark's words.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lakestream.compute.expressions.functions import aggregates
from lakestream.compute.expressions.plain import NULL, NUMBERS, TEXT, TRUTH, is_plain, kind_of, kinds_of
from lakestream.compute.expressions.plain_queries import is_plain_query
from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.evaluate import Way, distinct_aggregates
from lakestream.compute.windows.gaps import constants_of, fits_sql, without_constants
from lakestream.compute.windows.keyed.kept import NotKeptError, keeping_of, with_kept
from lakestream.compute.windows.keyed.keys import NUMBER, Share
from lakestream.compute.windows.panes import averaged, partials
from lakestream.compute.windows.ranges import MARKED
from lakestream.engine.base.names import TBNAME, trees_of, visible_columns
from lakestream.engine.base.refused import refuse_unknown, refuse_unknown_functions, refused
from lakestream.engine.reading.moved import register_unmoved
from lakestream.engine.reading.relations import CHANGED, EMPTY_CHANGES, empty_view
from lakestream.engine.reading.touched import register_untouched
from lakestream.engine.streams.source import row_expression
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.once.admission import no_events_sql
from lakestream.errors import NotSupportedError, StatementError, StreamError
from lakestream.language.common.allowed import foreign_calls
from lakestream.language.common.source import place_of
from lakestream.language.model import (
    EventTrigger,
    GroupKey,
    SlideTrigger,
    SpanTrigger,
)
from lakestream.language.quoting import literal
from lakestream.storage.columns.types import holds_variant, shown_type, types_of
from lakestream.storage.sessions.plans import refuse_calls, refuse_plan
from lakestream.triggers.analytic import Analytic
from lakestream.triggers.kinds import fragments_of, is_of_states, zeroth_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from sqlglot import exp

    from lakestream.compute.windows.keyed.keys import Keys
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.streams.expectations import Check
    from lakestream.engine.streams.stream import Stream
    from lakestream.language.model import Fragment, StreamDefinition
    from lakestream.output.columns import OutputShape
    from lakestream.storage.records.registry import StreamRecord
    from lakestream.triggers.analytic import AnalyticFunction


_STATES = {**dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int), "boolean": bool, "string": str}
"""The types that a state may have, and those of a value of it in a statement."""


_SURE = (Way.GROUPED, Way.BESIDE, Way.RANGED, Way.BY_ROW, Way.JOINED, Way.NUMBERED, Way.KEYED)
"""The ways that Spark goes with what is plain: of the others it goes some only window by window."""


def analyse(small: SmallPath, stream: Stream) -> tuple[Stream, list[str], list[str]]:
    """Check the stream over empty tables: the way, and the types of results and groups.

    Raises StatementError CALCULATION_INVALID, at the calculation or the clause that Spark refuses, and
    NOT_SUPPORTED for a VARIANT among the columns that the stream uses of its source.
    """

    def found(spark: SparkSession) -> tuple[Stream, list[str], list[str]]:
        analysed = _analyse(spark, stream)
        _refuse_calls(spark, stream)
        return analysed

    def refuse_unknown_names() -> None:
        _refuse_unknown(stream, functions=not small.brings_functions())

    is_sure = stream.way in _SURE or _is_of_windows(stream)
    is_small = is_sure and _is_plain(stream)
    # Whose stream it is makes no difference.
    about = ("analyse", replace(stream, uuid=""))
    analysed, result_types, group_types = small.ask(
        found, small=is_small, about=about, before_spark=refuse_unknown_names
    )
    return replace(analysed, uuid=stream.uuid), result_types, group_types


def _refuse_unknown(stream: Stream, *, functions: bool) -> None:
    """Refuse names that Spark does not know: it takes seconds to start, and may not be there at all."""
    scope, definition = stream.calculation.scope, stream.definition
    for clause, fragment in _expressions(definition) if functions else ():
        refuse_unknown_functions(clause, fragment)

    def columns_of(table: exp.Table) -> Sequence[str] | None:
        if table.name.startswith("%%"):
            return stream.source.columns
        if table.args.get("version") is not None:
            return None  # it may have had others
        try:
            relation = scope.resolve(table.db or None, table.name, None)
        except StatementError:
            return None  # a query of WITH
        return visible_columns(stream.tables[relation.key])

    refuse_unknown(
        "CALCULATION_INVALID",
        "the calculation",
        definition.calculation,
        stream.calculation,
        columns_of,
        functions=functions,
        rewritten=definition.options.late.drops,
    )


def _expressions(definition: StreamDefinition) -> Iterator[tuple[str, Fragment]]:
    """Yield the expressions over rows of the source, each with what it is called."""
    options, trigger = definition.options, definition.trigger
    if options.pre_filter is not None:
        yield "FILTER" if options.late.drops else "PRE_FILTER", options.pre_filter
    for expectation in definition.expected(of_results=False):
        yield f"EXPECT {expectation.name}", expectation.condition
    for fragment in fragments_of(trigger):
        yield _CONDITIONS.get(type(trigger), "the trigger"), fragment
    for key in definition.partition_by:
        yield "PARTITION BY", key.expression
    for function in definition.functions:
        yield from ((f"{function.name}()", fragment) for fragment in function.fragments)


def _is_plain(stream: Stream) -> bool:
    """Return whether Spark accepts all expressions of a stream for certain."""
    columns = kinds_of({column.name: column.type for column in stream.source.info.columns})
    columns |= {TBNAME: TEXT}
    columns |= _kinds_of_results(stream, columns)
    groups = [kind_of(group, columns) for group in stream.groups]
    options, trigger = stream.definition.options, stream.definition.trigger
    conditions = [fragment for fragment in (options.pre_filter,) if fragment is not None]
    conditions += [check.expectation.condition for check in stream.checks]
    conditions += fragments_of(trigger) if type(trigger) in _CONDITIONS else []
    written = [row_expression(fragment, stream.source, stream.zone) for fragment in conditions]
    looked_at = [kind_of(sql, columns) for sql in (stream.cut.expressions if stream.cut else ())]
    named = zip(stream.group_columns, groups, strict=True)
    return (
        None not in [*groups, *looked_at]
        and all(kind_of(sql, columns) == TRUTH for sql in written)
        and _is_plain_calculation(stream, columns, {name: kind for name, kind in named if kind})
    )


def _kinds_of_results(stream: Stream, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of what functions over events give, of those that Spark accepts for certain."""
    found: dict[str, str] = {}
    for function in stream.analytic.functions if stream.analytic else ():
        known = {**columns, **found}
        values = {kind_of(sql, known) for sql in function.values} - {NULL}
        keys = {kind_of(sql, known) for sql in function.keys}
        conditions = {kind_of(sql, known) for sql in function.conditions}
        if None in values | keys or conditions - {TRUTH} or (function.adds and values - NUMBERS):
            continue
        if function.gives:
            found |= kinds_of({function.column: function.gives})
        elif len(values) == 1:
            found[function.column] = str(values.pop())
    return found


def _is_of_windows(stream: Stream) -> bool:
    """Return whether a calculation is expressions over the windows alone, a row for each."""
    query = stream.calculation.query
    return stream.way is Way.LATERAL and not (query.args.get("from_") or aggregates(query.selects))


def _is_plain_calculation(stream: Stream, columns: Mapping[str, str], groups: Mapping[str, str]) -> bool:
    query, reads = stream.calculation.query, stream.calculation.reads
    if not reads:
        return is_plain(query, {**columns, **groups})
    tables = {
        read.view: kinds_of({one.name: one.type for one in stream.tables[read.relation.key].columns})
        for read in reads
    }
    return is_plain_query(query, tables, groups, nested=stream.way is Way.KEYED)


def _analyse(spark: SparkSession, stream: Stream) -> tuple[Stream, list[str], list[str]]:
    _refuse_variants(stream)
    _register_empty(spark, stream)
    _check_conditions(spark, stream, _checked_events(spark, stream))
    group_types = _group_types(spark, stream)
    family = family_of(stream)
    family.register_empty(spark, group_types)
    if family.assigns_rows:
        return _analyse_admitted(spark, stream, group_types)
    _check_trigger(spark, stream)
    stream = _keyed_or_whole(spark, stream)
    fill = stream.definition.options.fill
    typed = stream
    if fill is not None:
        typed = replace(stream, calculation=without_constants(stream.calculation))
    try:
        stream, kinds = _types_at_once(spark, stream, typed)
    except analysis_error() as error:
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


def _types_at_once(spark: SparkSession, stream: Stream, typed: Stream) -> tuple[Stream, dict[str, str]]:
    """Return a stream by its way, or by ``lateral`` where Spark goes no other, and the types of its results.

    ``typed`` is the stream whose results have these types. Raises Spark's error where it goes neither.
    """
    if stream.way is Way.EACH:  # a registered stream, of which that was found
        return stream, _types_of_each(spark, stream)
    try:
        return stream, _types(spark, typed.evaluation().sql())
    except analysis_error():
        if stream.way is not Way.NUMBERED:
            raise
    return replace(stream, way=Way.LATERAL), _types(spark, replace(typed, way=Way.LATERAL).evaluation().sql())


def _keyed_or_whole(spark: SparkSession, stream: Stream) -> Stream:
    """Return a view as it is, or as a whole where Spark takes its keys for none: it compares no maps."""
    if stream.keys is None:
        return stream
    stream = _with_kept(spark, stream)
    if stream.keys is None or stream.keys.is_total:
        return stream
    if stream.keys.telling is None:
        return replace(stream, keys=None, way=Way.WHOLE, why_whole="Spark does not compute it by keys")
    try:
        for branches in stream.keys.by_touched.values():
            register_untouched(spark, stream, branches)
        _types(spark, stream.evaluation(share=Share.TOUCHED).sql())
    except analysis_error():
        return replace(stream, keys=None, way=Way.WHOLE, why_whole="Spark does not compute it by keys")
    return stream


def _with_kept(spark: SparkSession, stream: Stream) -> Stream:
    """Return a view by keys with what it keeps of these, and the types of that.

    One without keys of which nothing is kept is computed as a whole.
    """
    assert stream.keys is not None  # by who asks
    found = _kept(spark, stream, stream.keys)
    keys = found.keys
    if keys is not None and keys.is_total and keys.kept is None:
        return replace(found, keys=None, way=Way.WHOLE, why_whole=keys.why_no_keys)
    return found


def _kept(spark: SparkSession, stream: Stream, keys: Keys) -> Stream:
    """Return a view with what it keeps, or with the keys of its rows alone."""
    try:
        found = _types(spark, keys.sql(Share.ALL))
    except analysis_error():
        return stream  # what is wrong with it is said of it as it was written
    types = {name: found[name] for name in (NUMBER, *keys.hidden)}
    told = replace(stream, keys=with_kept(keys, types), partial_types=types)
    try:
        types = {**types, **_types(spark, keeping_of(keys).typed_sql())}
        kept = with_kept(keys, types)
        typed = replace(stream, keys=kept, partial_types=types)
        if kept.kept is not None:
            register_unmoved(spark, kept.kept)
            for share in (Share.ALL, Share.MOVED):
                _types(spark, typed.evaluation(share=share).sql())
    except NotKeptError:
        return told
    except analysis_error():
        return told
    return typed


def _analyse_admitted(
    spark: SparkSession, stream: Stream, group_types: list[str]
) -> tuple[Stream, list[str], list[str]]:
    """As :func:`_analyse`, for a stream that leaves late rows out."""
    stream = _without_combining(spark, stream)
    try:
        kinds = _types(spark, stream.evaluation().sql())
    except analysis_error() as error:
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


def _check_conditions(spark: SparkSession, stream: Stream, rows: str) -> None:
    """Let Spark check the conditions that ``rows`` are to meet. Raises StatementError EXPRESSION_INVALID."""
    options, trigger = stream.definition.options, stream.definition.trigger
    if options.pre_filter is not None:
        clause = "FILTER" if options.late.drops else "PRE_FILTER"
        _check_condition(spark, stream, options.pre_filter, clause, rows)
    for check in stream.checks:
        _check_condition(spark, stream, check.expectation.condition, f"EXPECT {check.name}", CHANGED)
    if type(trigger) in _CONDITIONS:
        for fragment in fragments_of(trigger):
            _check_condition(spark, stream, fragment, _CONDITIONS[type(trigger)], rows)


def check_results(small: SmallPath, checks: Sequence[Check], shape: OutputShape) -> None:
    """Let Spark check what rows of the output are to meet. Raises StatementError EXPRESSION_INVALID."""
    known = kinds_of({column.name: column.type for column in shape.columns})
    for check in checks:
        fragment, clause = check.expectation.condition, f"EXPECT {check.name}"
        sql = f"SELECT ({check.condition}) AS c FROM ({shape.nothing})"
        plain = kind_of(check.condition, known) == TRUTH
        if not plain and not small.brings_functions():
            refuse_unknown_functions(clause, fragment)
        refuse = partial(_refuse_no_condition, sql=sql, fragment=fragment, clause=clause)
        small.ask(refuse, small=plain, about=("condition", sql))


def _check_condition(spark: SparkSession, stream: Stream, fragment: Fragment, clause: str, rows: str) -> None:
    sql = f"SELECT ({row_expression(fragment, stream.source, stream.zone)}) AS c FROM {rows}"
    _refuse_no_condition(spark, sql=sql, fragment=fragment, clause=clause)


def _refuse_no_condition(spark: SparkSession, *, sql: str, fragment: Fragment, clause: str) -> None:
    """Refuse what is no condition by the type of the column ``c`` of a query over no rows."""
    try:
        kind = _types(spark, sql)["c"]
    except analysis_error() as error:
        raise refused("EXPRESSION_INVALID", clause, fragment, error) from None
    if kind not in ("boolean", "void"):
        raise StatementError(
            "EXPRESSION_INVALID",
            f"{clause} takes a condition, and {fragment.sql} is of type {kind}",
            hint="compare it with something",
            place=place_of(fragment),
        )


def _checked_events(spark: SparkSession, stream: Stream) -> str:
    """Let Spark check what functions over events look at, and return a relation of events with the results.

    Raises StatementError EXPRESSION_INVALID for what it refuses, for no conditions, and no numbers in sums.
    """
    functions = stream.analytic.functions if stream.analytic else ()
    for number, function in enumerate(functions):
        rows = _events(stream, functions[:number])
        looked_at = {f"k{n}": sql for n, sql in enumerate(function.keys)}
        looked_at |= {f"v{n}": sql for n, sql in enumerate(function.values)}
        looked_at |= {f"c{n}": sql for n, sql in enumerate(function.conditions)}
        listed = ", ".join(f"({sql}) AS {name}" for name, sql in looked_at.items())
        written = stream.definition.functions[number]
        place = written.fragments[0]
        try:
            kinds = _types(spark, f"SELECT {listed} FROM {rows}")
        except analysis_error() as error:
            raise refused("EXPRESSION_INVALID", f"{written.name}()", place, error) from None
        for name, kind in kinds.items():
            _check_looked_at(function, written.name, place, name[0], kind)
    return _events(stream, functions)


def _check_looked_at(function: AnalyticFunction, name: str, place: Fragment, what: str, kind: str) -> None:
    """Refuse a condition of a function that is none, and what is no number where it is added up."""
    wanted = ""
    if what == "c" and kind not in ("boolean", "void"):
        wanted = "takes conditions"
    elif what == "v" and function.adds and not kind.startswith(_NUMBER_TYPES):
        wanted = "takes numbers"
    if wanted:
        raise StatementError(
            "EXPRESSION_INVALID", f"{name}() {wanted}, not what is of type {kind}", place=place_of(place)
        )


_NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "void")


def _events(stream: Stream, functions: tuple[AnalyticFunction, ...]) -> str:
    """Return a relation of no events, with the results of functions."""
    return f"({no_events_sql(stream, Analytic(functions))})" if functions else CHANGED


def _check_constants(
    spark: SparkSession, constants: Mapping[int, Fragment], kinds: Mapping[str, str]
) -> None:
    """Let Spark check the constants of FILL. Raises StatementError FILL_VALUE at one that does not fit."""
    if not constants:
        return
    listed = [fits_sql(constant, kinds[f"c{number}"]) for number, constant in constants.items()]
    fit = spark.sql(f"SELECT {', '.join(listed)}").toArrow()
    for (number, constant), fits in zip(constants.items(), fit.columns, strict=True):
        if not fits[0].as_py():
            raise StatementError(
                "FILL_VALUE",
                f"FILL(VALUE, …): {constant.sql} is no {kinds[f'c{number}']}, which result {number} is",
                hint="a constant of the result's type, or NULL",
                place=place_of(constant),
            )


def _check_trigger(spark: SparkSession, stream: Stream) -> None:
    """Let Spark check what the trigger looks at in a row.

    Raises StatementError EXPRESSION_INVALID, STATE_TYPE (TDengine: integers, bool and text).
    """
    fragments = fragments_of(stream.definition.trigger)
    if stream.cut is None or not fragments:
        return
    listed = ", ".join(
        f"({sql}) AS {n}" for sql, n in zip(stream.cut.expressions, stream.cut.columns, strict=True)
    )
    try:
        kinds = [*_types(spark, f"SELECT {listed} FROM {ROWS}").values()]
    except analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "the trigger", fragments[0], error) from None
    if is_of_states(stream.definition.trigger):
        zeroth = zeroth_of(stream.definition.trigger)
        for fragment, kind, value in zip(fragments, kinds, zeroth, strict=True):
            _check_state(fragment, kind, value)


def _check_state(fragment: Fragment, kind: str, zeroth: int | bool | str | None) -> None:
    """Check the type of a state, and of the value that is the zeroth. Raises StatementError STATE_TYPE."""
    if kind not in _STATES:
        raise StatementError(
            "STATE_TYPE",
            f"STATE_WINDOW({fragment.sql}) is of type {kind}",
            hint="a state is an integer, a boolean or a text",
            place=place_of(fragment),
        )
    if zeroth is not None and type(zeroth) is not _STATES[kind]:
        raise StatementError(
            "STATE_TYPE",
            f"ZEROTH_STATE({literal(zeroth)}): {fragment.sql} is of type {kind}",
            hint="a value of the state's type",
            place=place_of(fragment),
        )


def _partial_types(spark: SparkSession, stream: Stream) -> dict[str, str] | None:
    """Return the types of the partial aggregates; None where they would not give the same as whole ones."""
    if stream.way is Way.KEYED:
        return None if stream.partial_types is None else dict(stream.partial_types)
    found = distinct_aggregates(stream.calculation) if stream.way is Way.GROUPED else []
    return _combined_types(spark, found, ROWS)


def _combined_types(spark: SparkSession, found: Sequence[exp.Expr], rows: str) -> dict[str, str] | None:
    """Return the types of the partial aggregates of some, None where these cannot be combined.

    The mean of decimals is a decimal: partial ones would round differently. Values that Spark does not
    order, such as maps, are picked by whole aggregates only.
    """
    means = averaged(found)
    if means:
        kinds = spark.sql(f"SELECT {', '.join(means)} FROM {rows}").schema.jsonValue()["fields"]
        if any(str(field["type"]).startswith("decimal") for field in kinds):
            return None
    columns = [column for part in partials(found) or [] for column in part.columns]
    if not columns:
        return {}
    listed = ", ".join(f"{column.over_rows} AS {column.name}" for column in columns)
    try:
        return _types(spark, f"SELECT {listed} FROM {rows}")
    except analysis_error():
        return None


def _types(spark: SparkSession, sql: str) -> dict[str, str]:
    frame = spark.sql(sql)
    refuse_plan(frame, sql)
    return types_of(frame)


def _refuse_calls(spark: SparkSession, stream: Stream) -> None:
    """Refuse functions that are neither Spark's nor made by the owner of the session."""
    trees = trees_of(stream.definition)
    refuse_calls(spark, (name for tree in trees for name, _ in foreign_calls(tree)))


def _types_of_each(spark: SparkSession, stream: Stream, failure: Exception | None = None) -> dict[str, str]:
    """Evaluate for one window of NULLs; the error of the calculation is the first way's if that fails too."""
    names = {name: f"CAST(NULL AS {kind})" for name, kind in types_of(spark.table(WINDOWS)).items()}
    names["_twrownum"] = "0L"
    try:
        return _types(spark, stream.evaluation().each_sql([names]))
    except analysis_error() as error:
        raise _calculation_error(stream, failure or error) from None


def _calculation_error(stream: Stream, error: Exception) -> StatementError:
    definition = stream.definition
    # Of eKuiper's query the calculation is what is left of it: names may stand elsewhere.
    rewritten = definition.options.late.drops
    columns = {name for info in stream.tables.values() for name in visible_columns(info)}
    return refused(
        "CALCULATION_INVALID",
        "the calculation",
        definition.calculation,
        error,
        columns=columns.union(stream.source.columns),
        rewritten=rewritten,
    )


def analysis_error() -> tuple[type[Exception], ...]:
    """Return the kind of error that Spark refuses a query with; none where it is not installed."""
    try:
        from pyspark.errors import AnalysisException
    except ModuleNotFoundError:
        return ()
    return (AnalysisException,)


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

    Raises StatementError EXPRESSION_INVALID, GROUP_TYPE (a value of several parts, or an interval).
    """
    keys = stream.definition.partition_by
    if not keys:
        return []
    listed = ", ".join(
        f"{group} AS {name}" for name, group in zip(stream.group_columns, stream.groups, strict=True)
    )
    try:
        kinds = _types(spark, f"SELECT {listed} FROM {CHANGED}")
    except analysis_error() as error:
        raise refused("EXPRESSION_INVALID", "PARTITION BY", keys[0].expression, error) from None
    for key, kind in zip(keys, kinds.values(), strict=True):
        _refuse_group_type(key, kind)
    return list(kinds.values())


def _refuse_group_type(key: GroupKey, kind: str) -> None:
    if not kind.startswith(("array<", "map<", "struct<", "variant", "interval")):
        return
    text = "CAST({} AS STRING)" if kind.startswith("interval") else "to_json({})"
    raise StatementError(
        "GROUP_TYPE",
        f"PARTITION BY {key.expression.sql} is of type {shown_type(kind)}",
        hint=f"a part of it with a name, or its text: PARTITION BY {text.format(key.expression.sql)} AS name",
        place=place_of(key.expression),
    )


def other_results(small: SmallPath, record: StreamRecord, stream: Stream) -> str:
    """Say what is other than registered in the types of results and groups, empty for nothing."""
    try:
        _, *found = analyse(small, stream)
    except StatementError as error:
        return f"does not go with the stream: {error.message}"
    known = [record.compiled.result_types, record.compiled.group_types]
    types = zip(chain(*found), chain(*known), strict=True)
    others = (f"gives a column of type {now} where the stream has {old}" for now, old in types if now != old)
    return next(others, "")


def refuse_other_results(small: SmallPath, record: StreamRecord, stream: Stream) -> None:
    """Refuse a registered stream to which the tables beside its source, as they are now, give other results.

    Raises StreamError TABLE_SCHEMA_CHANGED.
    """
    if said := other_results(small, record, stream):
        raise StreamError("TABLE_SCHEMA_CHANGED", f"a table that the stream reads beside its source {said}")
