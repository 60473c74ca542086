"""The columns of an output: results, the subtable's name, tags, and where each row comes from.

Sources: TDengine A8 (first column is the key and a time; one tag per grouping column, ``tag_tbname``
for tbname; OUTPUT_SUBTABLE); the provenance columns are lakestream's own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, parse_query, place_in
from lakestream.language.folders import told_text
from lakestream.language.quoting import DELTA, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa

    from lakestream.errors import Place
    from lakestream.language.model import Fragment, StreamDefinition
    from lakestream.language.quoting import Quoting
    from lakestream.output.fixed import Fixed

TBNAME = "tbname"
MAX_SUBTABLE_NAME = 192
"""Characters of a subtable's name; a longer one is cut (TDengine)."""


@dataclass(frozen=True)
class Provenance:
    """How the rows of an output say which group and window they come from.

    ``column`` is a struct of start, end and group; None: each is in a column of its own, as outputs of
    earlier versions have them. Behind them it has what is ``kept`` beside a row: names and Spark types.
    """

    column: str | None
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def start(self) -> str:
        """SQL of the window's start, of Spark and delta-rs alike; a relation's name may stand before it."""
        return self._sql("start")

    @property
    def end(self) -> str:
        """SQL of the window's end, as that of its start."""
        return self._sql("end")

    @property
    def group(self) -> str:
        """SQL of the group's number, as that of the start."""
        return self._sql("group")

    @property
    def start_in_statistics(self) -> str:
        """The window's start by the name that it has in the statistics of a table's files."""
        return f"{self.column}.start" if self.column else self.start

    @property
    def types(self) -> dict[str, str]:
        """The columns in the table's order, with their Spark types."""
        if self.column:
            fields = ",".join(f"{name}:{kind}" for name, kind in (*_FIELDS, *self.kept))
            return {self.column: f"struct<{fields}>"}
        return {self.group: "bigint", self.start: "timestamp", self.end: "timestamp"}

    @property
    def selected(self) -> str:
        """The columns as items of a select list over an evaluation's result."""
        start, end = "timestamp_micros(_ls_low)", "timestamp_micros(_ls_high)"
        if self.column:
            kept = "".join(f", '{name}', CAST(_ls_{name} AS {kind})" for name, kind in self.kept)
            return f"named_struct('start', {start}, 'end', {end}, 'group', _ls_gid{kept}) AS {self.column}"
        return f"_ls_gid AS {self.group}, {start} AS {self.start}, {end} AS {self.end}"

    def taken_from(self, other: Provenance) -> str:
        """Return the columns as items of a select list over a table that has the other's."""
        return (
            f"named_struct('start', {other.start}, 'end', {other.end}, 'group', {other.group}) "
            f"AS {self.column}"
        )

    def kept_of(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return what is kept beside rows, by name."""
        return {name: self._values(rows, name) for name, _ in self.kept}

    def groups(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the number of each row's group."""
        return self._values(rows, "group")

    def windows(self, rows: pa.Table) -> pa.Table:
        """Return the window of each row: gid, and low and high, which are its start and end in µs."""
        import pyarrow as pa

        low, high = (in_micros(self._values(rows, name)) for name in ("start", "end"))
        return pa.table({"gid": self.groups(rows), "low": low, "high": high})

    def extents(self, rows: pa.Table) -> list[tuple[int, int, int]]:
        """Return the group of each row, and the start and end of its window in µs: for few rows."""
        return [*zip(*(column.to_pylist() for column in self.windows(rows).columns), strict=True)]

    def _sql(self, field: str) -> str:
        # Of a struct's fields, window.start is not parsed by delta-rs.
        return f"{self.column}['{field}']" if self.column else f"_ls_{field}"

    def _values(self, rows: pa.Table, field: str) -> pa.ChunkedArray:
        import pyarrow.compute as pc

        return pc.struct_field(rows[self.column], field) if self.column else rows[self._sql(field)]


FLAT = Provenance(None)
"""Each in a column of its own."""

_FIELDS = (("start", "timestamp"), ("end", "timestamp"), ("group", "bigint"))


def provenance_beside(names: Iterable[str]) -> Provenance:
    """Return the provenance of a new output, in a column ``window`` or, where that is taken, ``window_1``, ….

    ``names`` are those of its other columns, which differ from it in more than case.
    """
    taken = {name.lower() for name in names}
    candidates = chain(["window"], (f"window_{number}" for number in count(1)))
    return Provenance(next(name for name in candidates if name not in taken))


def provenance_of(names: Collection[str], hidden: Collection[str]) -> Provenance | None:
    """Return where the rows of a table that is there say which windows they come from; None: nowhere.

    ``names`` are those of its columns, ``hidden`` those that its description says are not the user's.
    """
    if set(FLAT.types) <= set(names):
        return FLAT
    return Provenance(next(iter(hidden))) if len(hidden) == 1 else None


def in_micros(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as microseconds since 1970 UTC (BIGINT)."""
    import pyarrow as pa

    return values.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def micros(values: pa.ChunkedArray) -> list[int]:
    """Return times in microseconds since 1970 UTC, None for NULL."""
    found: list[int] = in_micros(values).to_pylist()
    return found


@dataclass(frozen=True)
class OutputColumn:
    """A column of the output: its Spark type, SQL over an evaluation's result, comment, and role.

    ``of_group``: its value is that of the row's group. ``label`` is the text of a result without a name:
    what TDengine calls it, where the table can. ``fixed``: what it is in all rows. ``is_folder``: the table
    is partitioned by it.
    """

    name: str
    type: str
    sql: str
    comment: str | None = None
    is_tag: bool = False
    of_group: bool = False
    label: str = ""
    fixed: Fixed | None = None
    is_folder: bool = False

    def is_called(self, name: str) -> bool:
        """Return whether a column of a table that is there is this one by its name."""
        return name == self.name or (bool(self.label) and _squeezed(name) == _squeezed(self.label))

    @property
    def value(self) -> str:
        """SQL of its value as the table holds it."""
        sql = f"CAST({self.sql} AS {self.type})"
        return told_text(sql) if self.is_folder and self.type == "string" else sql

    @property
    def selected(self) -> str:
        """The column as an item of a select list."""
        return f"{self.value} AS {quoted(self.name)}"


def _squeezed(text: str) -> str:
    return "".join(text.lower().split())


@dataclass(frozen=True)
class OutputShape:
    """All columns of an output. ``key`` names those that tell its rows apart; empty: each is one of its own.

    ``provenance`` is None for a table that the user made, which has no columns for it.
    """

    columns: tuple[OutputColumn, ...]
    key: tuple[str, ...]
    provenance: Provenance | None = FLAT

    @property
    def places(self) -> Provenance:
        """The provenance of an output that has it. Raises ValueError for one that has not."""
        if self.provenance is None:
            raise ValueError("the output does not say which windows its rows come from")
        return self.provenance

    @property
    def fixed(self) -> dict[str, Fixed]:
        """What is the same in all rows, by the columns that tell rows apart."""
        return {
            column.name: column.fixed
            for column in self.columns
            if column.fixed is not None
            and column.fixed.fits(column.type)
            and (column.of_group or column.name in self.key)
        }

    def own(self, quoting: Quoting = DELTA) -> str:
        """Return SQL of what holds for the stream's rows in an output of several; empty: nothing is fixed."""
        return " AND ".join(fixed.sql(name, quoting) for name, fixed in self.fixed.items())

    def in_folders(self, names: Collection[str]) -> OutputShape:
        """Return the shape of a table that is partitioned by columns."""
        columns = (replace(column, is_folder=column.name in names) for column in self.columns)
        return replace(self, columns=tuple(columns))

    @property
    def has_subtables(self) -> bool:
        """Return whether a row says the name of its group's subtable."""
        return any(column.name == TBNAME and column.of_group for column in self.columns)

    def listed(self, *, with_groups: bool = False) -> str:
        """Return the select list of the rows to write, over the relation of an evaluation's result.

        ``with_groups``: the relation has what :meth:`of_groups` gives already.
        """
        known = {name: held for held, name in self.held_by_groups.items()} if with_groups else {}
        listed = ", ".join(
            f"{known[column.name]} AS {quoted(column.name)}" if column.name in known else column.selected
            for column in self.columns
        )
        return f"{listed}, {self.provenance.selected}" if self.provenance else listed

    @property
    def held_by_groups(self) -> dict[str, str]:
        """The columns whose values are those of a row's group, by the names that groups have for them."""
        names = (column.name for column in self.columns if column.of_group)
        return {f"_ls_o{number}": name for number, name in enumerate(names, 1)}

    def of_groups(self) -> dict[str, str]:
        """Return SQL of those values over a relation of groups (_ls_gid, grouping columns)."""
        values = (column.value for column in self.columns if column.of_group)
        return dict(zip(self.held_by_groups, values, strict=True))

    @property
    def types(self) -> dict[str, str]:
        """The Spark types of all columns that are written."""
        own = {column.name: column.type for column in self.columns}
        return {**own, **self.provenance.types} if self.provenance else own

    @property
    def nothing(self) -> str:
        """SQL of one row of NULLs with all columns that are written."""
        listed = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in self.types.items())
        return f"SELECT {listed}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns that are written."""
        return tuple(self.types)

    def select(self, evaluated: str, *, unique: bool) -> str:
        """Return the SQL of the rows to write, from the relation of an evaluation's result.

        Rows whose first column is NULL are dropped; unless keys are ``unique`` by themselves, of rows
        with equal keys the one of the later window stays (then of the greater group id).
        """
        listed = self.listed()
        if not self.key:
            return f"SELECT {listed} FROM ({evaluated})"
        first = self.columns[0]
        order = "_ls_high AS _ls_order, _ls_gid AS _ls_then"
        rows = f"SELECT {listed}, {order} FROM ({evaluated}) WHERE {first.sql} IS NOT NULL"
        names = ", ".join(map(quoted, self.names))
        if unique:
            return f"SELECT {names} FROM ({rows})"
        key = ", ".join(map(quoted, self.key))
        latest = f"row_number() OVER (PARTITION BY {key} ORDER BY _ls_order DESC, _ls_then DESC)"
        return f"SELECT {names} FROM (SELECT *, {latest} AS _ls_rank FROM ({rows})) WHERE _ls_rank = 1"


def result_names(definition: StreamDefinition, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the result's columns: the column list, or those that the query gives.

    Raises StatementError COLUMN_COUNT, COLUMN_NAME_MISSING or DUPLICATE_COLUMN.
    """
    if definition.columns:
        if len(definition.columns) != len(given):
            raise StatementError(
                "COLUMN_COUNT",
                f"the column list has {len(definition.columns)} names, the query {len(given)} columns",
            )
        return definition.columns
    for number, name in enumerate(given, 1):
        if not name:
            raise StatementError(
                "COLUMN_NAME_MISSING",
                f"column {number} of the query has no name to store it under",
                hint="give it one with AS, or name all columns in a list behind the output's name",
            )
    counted = Counter(name.lower() for name in given)
    doubles = [*dict.fromkeys(name for name in given if counted[name.lower()] > 1)]
    if doubles:
        double = doubles[0]
        raise StatementError(
            "DUPLICATE_COLUMN",
            f"two columns of the query are called {', and two '.join(doubles)}",
            hint=f"give one another name, t.{double} AS {double}_2, or leave one out, t.* EXCEPT ({double})",
            place=_place_of_star(definition),
        )
    return given


def _place_of_star(definition: StreamDefinition) -> Place | None:
    """Return the place of the first star among a query's results, None where there is none."""
    query = definition.calculation
    star = next((item for item in parse_query(query).selects if item.is_star), None)
    return None if star is None else place_in(query, star)


def default_tag_name(definition: StreamDefinition, number: int) -> str:
    """Return the tag's name of a grouping column (from 0): its own, ``tag_tbname`` for tbname."""
    key = definition.partition_by[number]
    return "tag_tbname" if key.is_tbname else key.name


def group_expression(fragment: Fragment, definition: StreamDefinition, zone: str) -> str:
    """Return an expression over the grouping columns (TAGS, OUTPUT_SUBTABLE) as Spark SQL.

    ``zone`` is the lake's time zone. Raises StatementError COLUMN_NOT_FOUND for anything that the stream is
    not grouped by.
    """
    known = _group_names(definition)

    def resolve(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.name.lower()
        if name in known:
            return exp.column(known[name])
        raise StatementError(
            "COLUMN_NOT_FOUND",
            f"{node.name} is not a grouping column",
            hint=did_you_mean(node.name, known),
            place=place_in(fragment, node),
        )

    tree = in_spark(parse_expression(fragment), Meaning(zone), fragment)
    return str(tree.transform(resolve).sql("spark"))


def _group_names(definition: StreamDefinition) -> Mapping[str, str]:
    names = {"_tgrpid": "_ls_gid"}
    for number, key in enumerate(definition.partition_by, 1):
        column = f"_ls_g{number}"
        names[f"%%{number}"] = column
        names[(TBNAME if key.is_tbname else key.name).lower()] = column
        names[key.name.lower()] = column
        if key.is_tbname:
            names["%%tbname"] = column
    return names


def subtables_are_groups(definition: StreamDefinition) -> bool:
    """Return whether different groups have different subtables.

    So it is by default, where OUTPUT_SUBTABLE is a text around the only key, and in the classic syntax.
    """
    return definition.subtable is None or _is_around_key(definition) or _has_group_behind(definition)


def _is_around_key(definition: StreamDefinition) -> bool:
    if definition.subtable is None or len(definition.partition_by) != 1:
        return False
    node = parse_expression(definition.subtable)
    parts = node.expressions if isinstance(node, exp.Concat) else [node]
    columns = [part for part in parts if isinstance(part, exp.Column)]
    return len(columns) == 1 and all(isinstance(part, exp.Column | exp.Literal) for part in parts)


def _has_group_behind(definition: StreamDefinition) -> bool:
    """Return whether names that groups may share get the group's number behind them (TDengine 3.2.3)."""
    keyed = bool(definition.partition_by)
    return definition.options.names_apart and keyed and not _is_around_key(definition)


def subtable_sql(definition: StreamDefinition, zone: str) -> str:
    """Return SQL for the name of a group's subtable: OUTPUT_SUBTABLE cut to length, or one of its own."""
    columns = ", ".join(f"_ls_g{number}" for number, _ in enumerate(definition.partition_by, 1))
    own = f"concat('t_', md5(to_json(named_struct('g', struct({columns})))))"
    if definition.subtable is None:
        return own
    name = f"CAST({group_expression(definition.subtable, definition, zone)} AS STRING)"
    if not _has_group_behind(definition):
        return f"coalesce(substring({name}, 1, {MAX_SUBTABLE_NAME}), {own})"
    behind = f"concat({exp.Literal.string(f'_{definition.output.name}_').sql('spark')}, _ls_gid)"
    cut = f"substring({name}, 1, {MAX_SUBTABLE_NAME} - length({behind}))"
    return f"coalesce(concat({cut}, {behind}), {own})"
