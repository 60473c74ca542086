"""The output table of a stream, and what a tick's rows replace in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import ALIAS
from lakestream.compute.windows.evaluate import Way
from lakestream.engine.streams.comments import comment_of_output, commented
from lakestream.engine.streams.unsorted import refuse_unsorted
from lakestream.errors import LakestreamError, StatementError, StorageError, did_you_mean
from lakestream.language.common.source import place_of
from lakestream.language.expressions.grouping import asks_for_subtables, selected_groups
from lakestream.language.expressions.parsing import given_name, parse_query, place_in, text_of
from lakestream.language.model import GROUP_ID
from lakestream.language.quoting import quoted
from lakestream.output.columns import (
    FLAT,
    TBNAME,
    OutputColumn,
    OutputShape,
    default_tag_name,
    group_expression,
    provenance_beside,
    provenance_of,
    result_names,
    subtable_sql,
    subtables_are_groups,
)
from lakestream.output.fixed import fixed_subtable, fixed_tag, fixed_value
from lakestream.storage.columns.types import WIDER, spark_type
from lakestream.storage.names.metastore import NewCatalogTable
from lakestream.storage.names.table_info import Column
from lakestream.storage.records.stream import ERRORS_SUFFIX
from lakestream.storage.sessions.altering import alter
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.expectations import Check
    from lakestream.engine.streams.stream import Stream
    from lakestream.language.model import OutputLayout, StreamDefinition
    from lakestream.output.columns import Provenance
    from lakestream.output.fixed import Fixed
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo

AT = "_ls_at"
"""The key of results that are stored in no table of the user's, which have no key of their own."""

ERRORS = {
    "at": "timestamp",
    "reason": "string",
    "event_time": "timestamp",
    "commit_version": "bigint",
    "event": "string",
}
"""The columns of a stream's error table: when and why a row was left out, and the row as JSON."""

UNIQUE_TIMES = frozenset({"_twstart", "_twend", "_tcurrent_ts", "_tprev_ts", "_tnext_ts"})


@dataclass(frozen=True)
class Target:
    """An output table: its description, the shape of the rows written to it, and how they are written.

    ``unique``: every row of the stream has a key of its own; ``appends``: and nothing else is in the
    table, so that windows that fire for the first time are a plain append. ``errors`` is the table of the
    rows that the stream leaves out, None where it leaves out none. ``checks`` are what rows of it are to
    meet; those that do not may go to ``refused``, which is another such output. ``quarantine`` is the table
    of rows of the source that do not meet what is expected of these.
    """

    info: TableInfo
    shape: OutputShape
    unique: bool
    appends: bool
    errors: TableInfo | None = None
    checks: tuple[Check, ...] = ()
    refused: Target | None = None
    quarantine: TableInfo | None = None

    @property
    def tables(self) -> tuple[TableInfo, ...]:
        """The tables that rows of windows are in."""
        return (self.info,) if self.refused is None else (self.info, self.refused.info)

    @property
    def beside(self) -> tuple[TableInfo, ...]:
        """The tables beside the output that ticks write."""
        return (*self.quarantines, *filter(None, [self.errors]))

    @property
    def quarantines(self) -> tuple[TableInfo, ...]:
        """The tables of what does not meet expectations."""
        return (*self.tables[1:], *filter(None, [self.quarantine]))


def output_shape(
    definition: StreamDefinition,
    names: tuple[str, ...],
    result_types: Sequence[str],
    group_types: Sequence[str],
    zone: str,
    kept: Sequence[tuple[str, str]] = (),
) -> OutputShape:
    """Return the columns that a stream's output has; types are Spark's.

    ``zone`` is the lake's time zone, ``kept`` what the view keeps of its keys (names and types).
    Raises StatementError COLUMN_COUNT, COLUMN_NAME_MISSING, DUPLICATE_COLUMN,
    FIRST_COLUMN_NOT_TIME, TYPE_NOT_STORABLE, NON_DETERMINISTIC.
    """
    refuse_unsorted(definition.calculation)
    results = result_names(definition, names)
    count = len(results)
    said = (_comments(definition, count), _labels(definition, count), _fixed(definition, count))
    columns = [
        OutputColumn(name, _storable(name, kind), f"c{number}", comment, label=label, fixed=fixed)
        for number, (name, kind, comment, label, fixed) in enumerate(
            zip(results, result_types, *said, strict=True), 1
        )
    ]
    if not definition.stores:
        at = OutputColumn(AT, "timestamp", "timestamp_micros(_ls_low)")
        return OutputShape((at, *columns), (AT, FLAT.group))
    if definition.options.late.drops or definition.options.view is not None:
        # Each window fires once, so no row ever replaces another one; or all of a window's rows give way.
        return _shape(definition, columns, (), kept)
    if columns[0].type != "timestamp":
        fragment = definition.calculation
        raise StatementError(
            "FIRST_COLUMN_NOT_TIME",
            f"the first result column, {columns[0].name}, is a {columns[0].type}: it must be a timestamp",
            hint="it is the key of the output; select _twstart or another time first",
            place=place_in(fragment, parse_query(fragment).selects[0]),
        )
    key = [columns[0].name, *([columns[1].name] if definition.composite_key else [])]
    if not definition.partition_by or definition.options.one_table:
        return _shape(definition, columns, key)
    groups = _tags(definition, group_types, zone)
    if asks_for_subtables(definition.partition_by, definition.subtable, definition.tags):
        return _shape(definition, [*columns, _subtable(definition, zone), *groups], [TBNAME, *key])
    query = parse_query(definition.calculation)
    selected = selected_groups(definition.partition_by, query, results)
    added = [replace(column, is_tag=False) for column in groups if column.name not in selected]
    own = [selected.get(column.name, column.name) for column in groups]
    return _shape(definition, [*columns, *added], [*own, *key])


def _subtable(definition: StreamDefinition, zone: str) -> OutputColumn:
    sql = subtable_sql(definition, zone)
    return OutputColumn(TBNAME, "string", sql, of_group=True, fixed=fixed_subtable(definition))


def _shape(
    definition: StreamDefinition,
    columns: Sequence[OutputColumn],
    key: Sequence[str],
    kept: Sequence[tuple[str, str]] = (),
) -> OutputShape:
    """Return the shape of a new output of the user's."""
    _refuse_duplicates(columns)
    _refuse_layout(definition.layout, {column.name: column.type for column in columns})
    provenance = replace(provenance_beside(column.name for column in columns), kept=tuple(kept))
    return OutputShape(tuple(columns), tuple(key), provenance)


def _comments(definition: StreamDefinition, count: int) -> Sequence[str | None]:
    """Return the comments of the results, as a view's list of columns gives them."""
    view = definition.options.view
    return (view.column_comments if view is not None else ()) or [None] * count


def _labels(definition: StreamDefinition, count: int) -> list[str]:
    """Return the texts of the results that the query gives no name, empty for the others."""
    items = parse_query(definition.calculation).selects
    if definition.columns or len(items) != count:
        return [""] * count
    return ["" if given_name(item) else text_of(item) for item in items]


def _fixed(definition: StreamDefinition, count: int) -> list[Fixed | None]:
    """Return what results are in all rows, None for those that differ."""
    items = parse_query(definition.calculation).selects
    return [fixed_value(item.unalias()) for item in items] if len(items) == count else [None] * count


_FOREIGN = re.compile(r"\b(?:interval|variant|void)\b(?![:`])")
"""What no column of a lake's table has in its type, wherever it stands there; not a field of that name."""


def _storable(name: str, kind: str) -> str:
    if kind == "void":
        return "string"
    if _FOREIGN.search(kind):
        raise StatementError(
            "TYPE_NOT_STORABLE",
            f"the result column {name} is of type {kind}, which a table cannot hold",
            hint="convert it: an interval to a number of milliseconds, another one with CAST(… AS STRING)",
        )
    return kind


def _tags(definition: StreamDefinition, group_types: Sequence[str], zone: str) -> list[OutputColumn]:
    if definition.tags is not None:
        values = [group_expression(tag.expression, definition, zone) for tag in definition.tags]
        kinds = {f"_ls_g{number}": kind for number, kind in enumerate(group_types, 1)}
        return [
            OutputColumn(
                tag.name,
                kinds[value] if tag.type_name is None else spark_type(tag.type_name),
                value,
                tag.comment,
                is_tag=True,
                of_group=True,
                fixed=fixed_tag(tag.expression),
            )
            for tag, value in zip(definition.tags, values, strict=True)
        ]
    return _tags_of_keys(definition, group_types)


def _tags_of_keys(definition: StreamDefinition, group_types: Sequence[str]) -> list[OutputColumn]:
    return [
        OutputColumn(
            default_tag_name(definition, number),
            _storable(f"tag {number + 1}", kind),
            f"_ls_g{number + 1}",
            is_tag=True,
            of_group=True,
        )
        for number, kind in enumerate(group_types)
    ]


def _refuse_duplicates(columns: Sequence[OutputColumn]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen or column.name.lower() in FLAT.types:
            raise StatementError(
                "DUPLICATE_COLUMN",
                f"the output would have two columns called {column.name}",
                hint="name the columns after INTO, or the tags by TAGS",
            )
        seen.add(column.name.lower())


_NO_FOLDER = re.compile(r"array|map|struct|variant|binary")
"""What begins the types of values that no folder is named after; of bytes each writer has another text."""


def _refuse_layout(layout: OutputLayout, types: Mapping[str, str]) -> None:
    """Refuse to lay an output out by what is no column of it, or has no values that name folders."""
    clause = layout.clause
    if clause is None:
        return
    by, known = ({name.lower() for name in names} for names in (layout.partitioned_by, types))
    for name, kind in types.items():
        if name.lower() in by and _NO_FOLDER.match(kind):
            raise StatementError(
                "TYPE_NOT_STORABLE",
                f"{clause.sql}: {name} is of type {kind}, of whose values no folders can be made",
                hint="another column, or one with the value as a text",
                place=place_of(clause),
            )
    for name in layout.named:
        if name.lower() not in known:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{clause.sql}: {name} is no column of the output",
                hint=did_you_mean(name, types),
                place=place_of(clause),
            )


def columns_of(shape: OutputShape) -> list[Column]:
    """Return the columns of a table of that shape."""
    own = [Column(column.name, column.type, column.comment, is_tag=column.is_tag) for column in shape.columns]
    return [*own, *(Column(name, kind) for name, kind in shape.places.types.items())]


def create_output(
    catalog: Catalog,
    stream: Stream,
    definition: StreamDefinition,
    shape: OutputShape,
    spark: Callable[[], SparkSession],
) -> TableInfo:
    """Make the output table of a stream; raises StorageError CREATE_FAILED and leaves nothing then.

    ``definition`` is the stream's, with names in full. ``spark`` gives the session whose catalogs the
    statement names.
    """
    output = definition.output
    times = [column.name for column in shape.columns if column.type == "timestamp"]
    layout, clustered_by = definition.layout, _spelled(shape, definition.layout.clustered_by)
    name = layout.catalog_name
    try:
        info = catalog.create_table(
            output.database or definition.name.database or "",
            output.name if definition.stores else stream.uuid,
            columns_of(commented(stream, shape)),
            kind="output",
            time_column=times[0] if times else "",
            key=shape.key,
            hidden=tuple(shape.places.types),
            writer=stream.uuid,
            comment=comment_of_output(stream),
            partitioned_by=_spelled(shape, layout.partitioned_by),
            location=layout.location.path if layout.location else None,
            cataloged=NewCatalogTable(spark(), name, tuple(clustered_by)) if name else None,
        )
    except LakestreamError as error:
        raise error.at(layout.place) from None
    if clustered_by and name is None:
        _cluster(catalog, info, spark(), clustered_by)
    return info


def _spelled(shape: OutputShape, names: Sequence[str]) -> list[str]:
    """Return columns as the output spells them."""
    spelled = {column.name.lower(): column.name for column in shape.columns}
    return [spelled[name.lower()] for name in names]


def _cluster(catalog: Catalog, info: TableInfo, spark: SparkSession, names: Sequence[str]) -> None:
    """Cluster an output that was just made (Delta's liquid clustering, which only Spark sets up)."""
    try:
        alter(spark, info.path, f"CLUSTER BY ({', '.join(map(quoted, names))})")
    except Exception as error:
        # Spark and Delta have no common kind of error.
        catalog.drop_table(info.database, info.name)
        what = f"{info.database}.{info.name} was not clustered by {', '.join(names)}: {first_line(error)}"
        raise StorageError("CREATE_FAILED", what) from error
    catalog.handles.forget(info.path)


def errors_table(catalog: Catalog, definition: StreamDefinition, writer: str) -> TableInfo | None:
    """Return the table of the rows that a stream leaves out, made where it is missing; None: it has none."""
    if not definition.options.late.drops:
        return None
    database, name = _errors_name(definition)
    columns = [Column(column, kind) for column, kind in ERRORS.items()]
    return find_errors(catalog, definition) or catalog.create_table(
        database, name, columns, kind="output", time_column="at", writer=writer
    )


def find_errors(catalog: Catalog, definition: StreamDefinition) -> TableInfo | None:
    """Return the error table of a stream (``<stream>__errors``) if it is there.

    Raises StatementError TABLE_EXISTS where the name is that of another table.
    """
    database, name = _errors_name(definition)
    there = catalog.find_table(database, name) if definition.options.late.drops else None
    if there is not None and (there.kind, [column.name for column in there.columns]) != ("output", [*ERRORS]):
        raise StatementError(
            "TABLE_EXISTS",
            f"there is a table {database}.{name}, where the rows that the stream leaves out would go",
            hint="rename the table or the stream",
        )
    return there


def missing_errors(catalog: Catalog, definition: StreamDefinition) -> Iterator[str]:
    """Yield the name of a stream's error table where it is to be there and is not."""
    if definition.options.late.drops and find_errors(catalog, definition) is None:
        yield ".".join(_errors_name(definition))


def _errors_name(definition: StreamDefinition) -> tuple[str, str]:
    return definition.name.database or "", f"{definition.name.name}{ERRORS_SUFFIX}"


def check_existing(
    info: TableInfo, shape: OutputShape, definition: StreamDefinition, group_types: Sequence[str]
) -> OutputShape:
    """Hold an existing table against the shape, and return the shape as it is written there.

    Columns stand in the table's order under its names (TDengine A8), or are found by name where the
    statement lists them; other columns of the table are then NULL. A result goes into a column of its own
    type or of one that holds all its values (lakestream's own), a tag into one of its own type; in the
    classic syntax both into any that they convert to, under the table's names. The shape is without
    provenance where the table has no columns for it.

    Raises StatementError OUTPUT_MISMATCH that names the first difference.
    """
    if info.read_time is not None:
        raise StatementError(
            "OUTPUT_MISMATCH",
            f"{info.database}.{info.name} has {info.time_column} as {info.read_time.description}",
        )
    converts, by_name = definition.options.converts, bool(definition.columns)
    known = [column for column in info.columns if column.name not in info.hidden]
    if any(column.name == TBNAME for column in known):
        shape = _with_subtables(definition, shape)
    there = [column for column in known if not column.is_tag]
    ours = [column for column in shape.columns if not column.is_tag]
    tags = [column for column in shape.columns if column.is_tag]
    tags_there = [column for column in known if column.is_tag]
    if converts and [tag.name for tag in tags] == [GROUP_ID] and GROUP_ID not in {t.name for t in tags_there}:
        tags = _tags_of_keys(definition, group_types)
    tags_by_name = _names_tags(definition) if converts else by_name
    columns = [
        *_placed(info, ours, there, by_name=by_name, converts=converts),
        *_placed(info, tags, tags_there, by_name=tags_by_name, converts=converts),
    ]
    provenance = _with_kept(info, shape)
    names = {column.name: written.name for column, written in zip([*ours, *tags], columns, strict=True)}
    return OutputShape(tuple(columns), tuple(names.get(name, name) for name in shape.key), provenance)


def _with_kept(info: TableInfo, shape: OutputShape) -> Provenance | None:
    """Return the provenance of a table that is there, with what the stream keeps in it."""
    found = provenance_of([column.name for column in info.columns], info.hidden)
    if found is None or found.column is None:
        return found
    found = replace(found, kept=shape.provenance.kept if shape.provenance else ())
    ((name, kind),) = found.types.items()
    if info.column(name).type != kind:
        raise _mismatch(info, f"{name} holds something else than what is kept of its rows")
    return found


def _with_subtables(definition: StreamDefinition, shape: OutputShape) -> OutputShape:
    """Return the shape as a table with subtables has it: those of earlier versions had for any groups."""
    columns, zone = list(shape.columns), "UTC"  # names that are made from a hash have no times in them
    groups = [column for column in columns if column.of_group]
    if not groups or any(column.name == TBNAME for column in columns):
        return shape
    results = [column for column in columns if not column.of_group]
    key = [name for name in shape.key if name not in {column.name for column in groups}]
    tags = [replace(column, is_tag=True) for column in groups]
    return replace(shape, columns=(*results, _subtable(definition, zone), *tags), key=(TBNAME, *key))


def _names_tags(definition: StreamDefinition) -> bool:
    """Return whether TAGS names tags of a table that is there, instead of describing new ones."""
    return any(tag.type_name is None for tag in definition.tags or ())


def _placed(
    info: TableInfo,
    ours: Sequence[OutputColumn],
    there: Sequence[Column],
    *,
    by_name: bool,
    converts: bool,
) -> list[OutputColumn]:
    """Return results, or tags, as the table's columns hold them: those of their names, or in order."""
    columns = []
    for number, column in enumerate(ours):
        named = (one for one in there if column.is_called(one.name))
        found = next(named if by_name else iter(there[number : number + 1]), None)
        if found is None:
            raise _mismatch(info, f"it has no {_kind(column)} for {column.name} {column.type}")
        written = _converted(column, found) if converts else _widened(column, found)
        if written is None:
            raise _mismatch(
                info,
                f"{_kind(column)} {number + 1} is {found.name} {found.type} there and {column.name} "
                f"{column.type} in the stream",
            )
        columns.append(written)
    if not by_name and len(there) > len(columns):
        more = there[len(columns)]
        raise _mismatch(
            info,
            f"{_kind(more)} {len(columns) + 1} is {more.name} {more.type} there and nothing in the stream",
        )
    return columns


def _kind(column: OutputColumn | Column) -> str:
    return "tag" if column.is_tag else "column"


def refuse_tag_types(info: TableInfo, definition: StreamDefinition) -> None:
    """Refuse types in TAGS of the classic syntax for a table that is there, which has types (TDengine).

    Raises StatementError TAG_TYPE_GIVEN.
    """
    if not definition.options.converts:
        return
    for tag in definition.tags or ():
        if tag.type_name is not None and tag.name != GROUP_ID:
            raise StatementError(
                "TAG_TYPE_GIVEN",
                f"TAGS gives {tag.name} a type, and {info.database}.{info.name} is there already, "
                "with types of its own",
                hint=f"TAGS ({', '.join(one.name for one in definition.tags or ())})",
                place=place_of(tag.expression),
            )


def _mismatch(info: TableInfo, what: str) -> StatementError:
    return StatementError(
        "OUTPUT_MISMATCH",
        f"the output table {info.database}.{info.name} does not match the result: {what}",
        hint="name and type of every column must match, in order; or list the columns, INTO o (a, b); "
        "or write into a new table",
    )


_CONVERTED = frozenset(
    {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean", "string"}
)
"""Types of which each is converted to each other one, where the value allows it."""


def _widened(ours: OutputColumn, there: Column) -> OutputColumn | None:
    """Return a result as a column of a table holds it; None where that does not hold all its values.

    A tag is what groups are told apart by: its type is the table's (TDengine).
    """
    fits = there.type == ours.type or (not ours.is_tag and there.type in WIDER.get(ours.type, ()))
    return replace(ours, name=there.name, type=there.type) if fits and ours.is_called(there.name) else None


def _converted(ours: OutputColumn, there: Column) -> OutputColumn | None:
    """Return a result converted to a column of a table, NULL where the value does not fit; None: no way.

    The subtable's name and tags stay what they are.
    """
    if (there.name == TBNAME) != (ours.name == TBNAME) or there.is_tag != ours.is_tag:
        return None
    if there.type == ours.type:
        return replace(ours, name=there.name)
    kinds = {ours.type.partition("(")[0], there.type.partition("(")[0]}
    if not (kinds <= _CONVERTED or there.type == "string"):
        return None
    return replace(ours, name=there.name, type=there.type, sql=f"try_cast({ours.sql} AS {there.type})")


def kept_fields(stream: Stream) -> tuple[tuple[str, str], ...]:
    """Return what a view keeps beside its rows, as provenance has it: names and Spark types."""
    stored = {} if stream.keys is None else stream.keys.stored
    return tuple((name.removeprefix("_ls_"), kind) for name, kind in stored.items())


def key_is_from_window(stream: Stream) -> bool:
    """Return whether the first column is a time of the window, and subtables are those of the groups.

    No two windows then write rows of one key.
    """
    first = stream.calculation.query.selects[0].unalias()
    own = isinstance(first, exp.Column) and first.table == ALIAS and first.name in UNIQUE_TIMES
    return own and subtables_are_groups(stream.definition)


def keys_are_unique(stream: Stream) -> bool:
    """Return whether each window gives one row, of a key that no other window has; or rows have no key."""
    if stream.late.drops:
        return True
    if stream.definition.options.view is not None:
        return False
    return stream.way in {Way.GROUPED, Way.JOINED} and key_is_from_window(stream)
