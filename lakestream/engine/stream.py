"""A stream, compiled: its definition resolved against the lake, and the SQL that its ticks run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.calculation import (
    TIME_PSEUDO_COLUMNS,
    Calculation,
    Scope,
    compile_calculation,
    rewrite_expression,
)
from lakestream.compute.evaluate import Evaluation, Way, choose_way
from lakestream.engine.names import TBNAME, Names, has_subtables, relation_of, visible_columns
from lakestream.errors import StatementError, did_you_mean
from lakestream.language.expressions import parse_expression, place_in
from lakestream.language.model import IntervalTrigger
from lakestream.triggers.detect import Detection
from lakestream.triggers.grid import Grid, grid_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.language.model import Fragment, StreamDefinition
    from lakestream.storage.catalog import Catalog, TableInfo

COMMON_PLACEHOLDERS = frozenset({"_tgrpid", "_tlocaltime"})
WINDOW_PLACEHOLDERS = frozenset({"_twstart", "_twend", "_twduration", "_twrownum"})
SLIDING_PLACEHOLDERS = frozenset({"_tprev_ts", "_tcurrent_ts", "_tnext_ts"})


@dataclass(frozen=True)
class Source:
    """The trigger table of a stream: all of a table, or the rows of one subtable."""

    info: TableInfo
    subtable: str | None

    @property
    def time(self) -> str:
        """The event time as SQL."""
        return quoted(self.info.time_column)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that streams see."""
        return visible_columns(self.info)

    def tbname(self) -> str:
        """Return SQL for the name of the table that a row belongs to."""
        return quoted(TBNAME) if has_subtables(self.info) else text(self.info.name)


@dataclass(frozen=True)
class Stream:
    """Everything a tick needs to know about a stream; made anew from its definition whenever needed."""

    uuid: str
    definition: StreamDefinition
    zone: str
    source: Source
    groups: tuple[str, ...]
    condition: str | None
    grid: Grid
    calculation: Calculation
    way: Way
    tables: Mapping[str, TableInfo]

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The names of the group columns in all relations of a tick."""
        return tuple(f"_ls_g{number}" for number, _ in enumerate(self.groups, 1))

    @property
    def refires(self) -> bool:
        """Whether a late row makes its windows fire again (TDengine A7: INTERVAL does, SLIDING ignores)."""
        return isinstance(self.definition.trigger, IntervalTrigger)

    @property
    def detection(self) -> Detection:
        """How the stream finds out which windows fire."""
        watermark = self.definition.options.watermark
        return Detection(self.grid, self.group_columns, watermark.micros if watermark else 0, self.refires)

    def evaluation(self, *, retracts: bool = False) -> Evaluation:
        """How the calculation is evaluated; ``retracts`` when rows were taken back in the tick."""
        return Evaluation(
            self.calculation,
            self.grid,
            self.way,
            # Where rows were taken back, what a window held when it fired last is not what is there now.
            by_commit=retracts or not self.refires,
            only_with_rows=self.definition.options.ignore_nodata,
            retracts=retracts,
        )

    @property
    def changed_columns(self) -> tuple[str, ...]:
        """The source's columns that a tick needs of changed rows, in the table's order."""
        if self.calculation.reads_rows:
            return self.source.columns
        wanted = self._mentioned() | {self.source.info.time_column}
        return tuple(name for name in self.source.columns if name in wanted)

    def _mentioned(self) -> set[str]:
        texts = [*self.groups, *([self.condition] if self.condition else [])]
        return {name for name in self.source.columns if any(quoted(name) in part for part in texts)}

    # --- relations of a tick, as SQL over the views of what was read ---

    def group_id(self) -> str:
        """Return SQL for the number of a row's group: 64 bits of a hash that tells NULLs apart."""
        if not self.groups:
            return "0L"
        return f"xxhash64({', '.join(f'({group}) IS NULL, {group}' for group in self.groups)})"

    def _group_list(self) -> str:
        return "".join(
            f", {group} AS {name}" for group, name in zip(self.groups, self.group_columns, strict=True)
        )

    def _admitted(self) -> str:
        """Return SQL that holds for rows that the trigger sees: PRE_FILTER, the subtable, a time."""
        parts = [f"{self.source.time} IS NOT NULL"]
        if self.source.subtable is not None:
            parts.append(f"{quoted(TBNAME)} = {text(self.source.subtable)}")
        if self.condition:
            parts.append(f"({self.condition})")
        return " AND ".join(parts)

    def changes_sql(self, changed: str) -> str:
        """Return SQL of what detection takes, from the changed rows (deletes trigger nothing)."""
        return (
            f"SELECT {self.group_id()} AS gid{self._group_list()}, unix_micros({self.source.time}) AS ts, "
            f"CAST(_commit_version AS BIGINT) AS v, _change_type <> 'update_preimage' AS kept "
            f"FROM {changed} WHERE {self._admitted()} AND _change_type <> 'delete'"
        )

    def empty_state_sql(self, changes: str) -> str:
        """Return SQL of a state without groups, with the types that the changes' columns have."""
        groups = "".join(f", {name}" for name in self.group_columns)
        return f"SELECT gid{groups}, ts AS first, ts AS newest FROM {changes} WHERE false"

    def rows_sql(self, changed: str, before: str | None, excluded: str | None) -> str:
        """Return SQL of the rows that windows may hold: those before the tick, and the changed ones.

        ``before`` is a view of the source's rows before the tick, ``excluded`` one of those among them
        that the stream never takes (written before it was created).
        """
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        marks = f"{self.group_id()} AS _ls_gid, unix_micros({self.source.time}) AS _ls_ts"
        sign = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
        taken = f"CAST(_commit_version AS BIGINT) AS _ls_v, {sign} AS _ls_sign"
        parts = [f"SELECT {columns}, {marks}, {taken} FROM {changed} WHERE {self._admitted()}"]
        if before is not None:
            rows = f"SELECT {columns} FROM {before}"
            if excluded is not None:
                rows = f"{rows} EXCEPT ALL SELECT {columns} FROM {excluded}"
            parts.append(
                f"SELECT {columns}, {marks}, -1L AS _ls_v, 1 AS _ls_sign "
                f"FROM ({rows}) WHERE {self._admitted()}"
            )
        return " UNION ALL ".join(parts)

    def windows_sql(self, fired: str, clock_us: int) -> str:
        """Return SQL of the windows to compute with their placeholders, from a detection result."""
        k, first = "k", "first"
        groups = "".join(f", {name}" for name in self.group_columns)
        times = self.grid.placeholders(k, first)
        marks = "".join(f", timestamp_micros({sql}) AS {name}" for name, sql in times.items())
        if "_twstart" in times:
            marks += f", ({times['_twend']} - {times['_twstart']}) div 1000L AS _twduration"
        if "_tlocaltime" in self.calculation.used:
            # Only then: a literal that changes with every tick makes Spark compile its code anew.
            marks += f", {clock_us * 1000}L AS _tlocaltime"
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, {self.grid.low(k, first)} AS _ls_low, "
            f"{self.grid.high(k, first)} AS _ls_high{marks}, gid AS _tgrpid "
            f"FROM ({self.detection.windows_sql(fired)})"
        )


def quoted(name: str) -> str:
    """Return a column's name as Spark SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def compile_stream(
    uuid: str, definition: StreamDefinition, catalog: Catalog, zone: str, way: Way | None = None
) -> Stream:
    """Resolve a definition against the lake; ``way`` is how creation found it can be evaluated.

    Raises StatementError TABLE_NOT_FOUND or COLUMN_NOT_FOUND with the place in the statement.
    """
    database = definition.name.database or ""
    names = Names(catalog, database)
    source_name = definition.source
    info, subtable = names.find(source_name.database or database, source_name.name)
    source = Source(info, subtable)
    names.tables[f"{info.database}.{info.name}"] = info
    grid = grid_of(definition.trigger, zone)
    relation = relation_of(info, subtable)
    windowed = isinstance(definition.trigger, IntervalTrigger)
    scope = Scope(
        relation,
        tuple(f"_ls_g{number}" for number, _ in enumerate(definition.partition_by, 1)),
        next((n for n, key in enumerate(definition.partition_by, 1) if key.is_tbname), None),
        COMMON_PLACEHOLDERS | (WINDOW_PLACEHOLDERS if windowed else SLIDING_PLACEHOLDERS),
        zone,
        names.relation,
    )
    calculation = compile_calculation(definition.calculation, scope)
    condition = definition.options.pre_filter
    return Stream(
        uuid,
        definition,
        zone,
        source,
        tuple(_row_expression(key.expression, source) for key in definition.partition_by),
        _row_expression(condition, source) if condition else None,
        grid,
        calculation,
        way or choose_way(calculation, grid),
        names.tables,
    )


def _row_expression(fragment: Fragment, source: Source) -> str:
    """Return an expression over the trigger table's rows (PARTITION BY, PRE_FILTER) as Spark SQL."""
    known = {name.lower(): name for name in source.columns}

    def resolve(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.name.lower()
        if name == TBNAME:
            return exp.Var(this=source.tbname())
        if name in TIME_PSEUDO_COLUMNS:
            return exp.column(source.info.time_column, quoted=True)
        if name not in known:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{source.info.database}.{source.info.name} has no column {node.name}",
                hint=did_you_mean(node.name, source.columns),
                place=place_in(fragment, node),
            )
        return exp.column(known[name], quoted=True)

    return rewrite_expression(parse_expression(fragment).transform(resolve)).sql("spark")
