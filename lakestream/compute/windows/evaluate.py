"""All windows of a tick in one query, by the first way that fits.

``grouped``  an aggregate over the window's own rows: a grouped aggregate, by panes where windows overlap;
``joined``   an aggregate over a read of a table that is bounded by the window, which may be joined with
             other tables: the same, on those;
``beside``   a select over such a read, or the window's own rows, that groups them or gives them as they are:
             the windows are one more table of its join;
``by_row``   a select over the rows of windows that come with their number: grouped by window too;
``ranged``   aggregates over windows that reach around a row: by running aggregates of stretches of time;
``numbered`` anything else that reads a stretch of time which the window's bounds tell: as the next one, of
             rows that know their windows;
``lateral``  anything else: ``FROM windows, LATERAL (calculation)``, which Spark turns into joins;
``whole``    a query that knows no windows, evaluated once: that of a view which is computed as a whole;
``keyed``    the same of a query whose rows fall apart by keys: of all keys, or of those that are touched;
``each``     what Spark refuses there (a correlation two levels deep): one query a window, in batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, is_aggregate_call
from lakestream.compute.windows.calculation import (
    ALIAS,
    READ,
    ROWS,
    WINDOWS,
    Bound,
    Calculation,
    spark_sql,
)
from lakestream.compute.windows.gaps import carried
from lakestream.compute.windows.hoist import hoist
from lakestream.compute.windows.keyed.keys import NUMBER, Share
from lakestream.compute.windows.panes import partials
from lakestream.compute.windows.ranges import Ranges
from lakestream.compute.windows.window_rows import (
    TRIGGER_ROWS,
    BoundRead,
    WindowRows,
    beside_windows,
    bound_reads,
    from_windows,
)
from lakestream.language.common.query_clauses import group_keys, said
from lakestream.language.expressions.parsing import conjuncts
from lakestream.triggers.assign import ORDER_OF_ROWS, PlacedGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakestream.compute.windows.keyed.keys import Keys
    from lakestream.triggers.grid import Grid

BATCH = 8
"""Windows per query where they are evaluated each by itself."""


class Way(StrEnum):
    """How a calculation is evaluated; see the module's text."""

    GROUPED = "grouped"
    JOINED = "joined"
    BESIDE = "beside"
    BY_ROW = "by_row"
    RANGED = "ranged"
    NUMBERED = "numbered"
    LATERAL = "lateral"
    WHOLE = "whole"
    KEYED = "keyed"
    EACH = "each"


@dataclass(frozen=True)
class Evaluation:
    """A calculation and the windows it is evaluated for.

    ``by_commit``: a window holds only the rows of the commits up to the one that fired it last;
    ``only_with_rows``: windows without rows are left out (IGNORE_NODATA_TRIGGER);
    ``retracts``: some rows come with a sign of -1 and cancel an equal row; ``combines``: the aggregates
    may be combined from partial ones, as far as their kind goes (means of decimals may not); ``forces``:
    a window for which the calculation gives no row has one, of constants and NULLs (FORCE_OUTPUT);
    ``groups``: SQL of what rows are grouped by before there are windows; ``previous``: a view of the
    values before them (see :func:`carried`); ``keys``: how a view falls apart by keys;
    ``share``: of which of them there are results.
    """

    calculation: Calculation
    grid: Grid
    way: Way
    by_commit: bool
    only_with_rows: bool
    retracts: bool = False
    combines: bool = True
    forces: bool = False
    groups: tuple[str, ...] = ()
    previous: str | None = None
    keys: Keys | None = None
    share: Share = Share.ALL

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the result's columns in :meth:`sql`: c1, c2, … in the calculation's order."""
        return tuple(f"c{number}" for number, _ in enumerate(self.calculation.query.selects, 1))

    def sql(self) -> str:
        """Return the SQL over the relations ``ls_windows`` and ``ls_rows`` and the views of the reads.

        ``ls_windows``: _ls_gid BIGINT, group columns, k BIGINT, c BIGINT, low and high BIGINT µs, and the
        placeholders; ``ls_rows``: the source's columns, _ls_gid, _ls_ts BIGINT µs, _ls_v BIGINT (commit),
        _ls_sign INT. The result: _ls_gid, _ls_k, group columns, low, high, the placeholders, c1, c2, ….
        """
        if self.way in (Way.RANGED, Way.BY_ROW):
            return self._ranged() if self.way is Way.RANGED else self._by_row()
        known = bound_reads(self.calculation, self.grid) if self.way is Way.NUMBERED else {}
        body = {
            Way.GROUPED: self._grouped,
            Way.JOINED: self._joined,
            Way.BESIDE: lambda: beside_windows(self.calculation, self._rows, self._passed()),
            Way.NUMBERED: lambda: self._lateral(known),
            Way.LATERAL: lambda: self._lateral(known),
            Way.WHOLE: self._whole,
            Way.KEYED: self._keyed,
        }[self.way]()
        relations = [*self._relations(), *(f"{read.name} AS ({read.sql()})" for read in known.values())]
        evaluated = f"WITH {', '.join(relations)} {body}"
        results = self.calculation.carried
        return carried(evaluated, results, self.previous) if results else evaluated

    @property
    def _rows(self) -> WindowRows:
        return WindowRows(
            self.grid, self.by_commit, self.retracts, joins=self.way not in (Way.GROUPED, Way.BESIDE)
        )

    def _relations(self) -> list[str]:
        relations = []
        if self._needs_rows:
            relations.append(f"{TRIGGER_ROWS} AS ({self._rows.sql()})")
        if self._needs_counts:
            relations.append(
                f"ls_counts AS (SELECT _ls_gid, _ls_k, count(1) AS n "
                f"FROM {TRIGGER_ROWS} GROUP BY _ls_gid, _ls_k)"
            )
        relations.append(f"ls_fired AS ({self._fired()})")
        return relations

    @property
    def by_panes(self) -> bool:
        """Return whether windows overlap and the aggregates can be combined from panes."""
        return (
            self.way is Way.GROUPED
            and self.grid.pane is not None
            and not self.by_commit
            and not self.retracts
            and self.combines
            and partials(self._aggregates()) is not None
        )

    @property
    def _needs_rows(self) -> bool:
        return self._needs_counts or (not self.by_panes and self.calculation.reads_rows)

    @property
    def _needs_counts(self) -> bool:
        """Rows are counted apart where the evaluation itself does not go over the window's rows."""
        wanted = self.only_with_rows or "_twrownum" in self.calculation.used
        return wanted and self.way is not Way.GROUPED

    def _fired(self) -> str:
        """Return SQL of the windows, with ``_twrownum`` and only those with rows where that is asked."""
        if not self._needs_counts:
            return f"SELECT * FROM {WINDOWS}"
        join = "JOIN" if self.only_with_rows else "LEFT JOIN"
        return (
            f"SELECT x.*, coalesce(n.n, 0L) AS _twrownum FROM {WINDOWS} x "
            f"{join} ls_counts n ON n._ls_gid = x._ls_gid AND n._ls_k = x._ls_k"
        )

    # --- grouped ---

    def _aggregates(self) -> list[exp.Expr]:
        found = distinct_aggregates(self.calculation)
        return [*found, *([exp.Count(this=exp.Literal.number(1))] if self._counts_rows else [])]

    @property
    def _counts_rows(self) -> bool:
        return "_twrownum" in self.calculation.used

    def _grouped(self) -> str:
        found = self._aggregates()
        body = self._by_panes(found) if self.by_panes else self._by_rows(found)
        return self._joined_to_windows(found, body, "_twrownum" if self._counts_rows else None)

    def _by_rows(self, found: Sequence[exp.Expr]) -> str:
        listed = ", ".join(f"{node.sql('spark')} AS a{number}" for number, node in enumerate(found))
        return f"SELECT _ls_gid, _ls_k, {listed} FROM {TRIGGER_ROWS} GROUP BY _ls_gid, _ls_k"

    def _by_panes(self, found: Sequence[exp.Expr]) -> str:
        pane, parts = self.grid.pane, partials(found)
        assert pane is not None and parts is not None  # noqa: PT018 - by by_panes
        columns = [column for part in parts for column in part.columns]
        per_pane = ", ".join(f"{column.over_rows} AS {column.name}" for column in columns)
        merged = ", ".join(f"{column.merged} AS {column.name}" for column in columns)
        results = ", ".join(f"{part.result} AS a{number}" for number, part in enumerate(parts))
        names = ", ".join(column.name for column in columns)
        once = f"SELECT _ls_gid, {pane.number('_ls_ts')} AS pane, {per_pane} FROM {ROWS} GROUP BY _ls_gid, 2"
        first, last = pane.first_window("pane"), pane.last_window("pane")
        numbers = f"explode(sequence({first}, {last})) AS _ls_k"
        windows = f"SELECT _ls_gid, {names}, {numbers} FROM ({once}) WHERE {first} <= {last}"
        combined = f"SELECT _ls_gid, _ls_k, {merged} FROM ({windows}) GROUP BY _ls_gid, _ls_k"
        return f"SELECT _ls_gid, _ls_k, {results} FROM ({combined})"

    def runs_sql(self, rows: str, placed: Callable[[str, str], str], told: str = "") -> str:
        """Return the SQL of windows and results in one pass over rows that know their window.

        ``rows`` is SQL of (_ls_gid, _ls_ts BIGINT µs, _ls_run, _ls_ends, _ls_count, _ls_tied) and the
        source's columns; ``placed`` gives the SQL of windows with placeholders over a relation of (gid,
        run, low, high, ended, counted, tied, held, what the aggregates ``told`` name), passing more columns
        on. The result is that of
        :meth:`sql` and what ``placed`` has. For calculations evaluated by the way ``grouped``.
        """
        found = self._aggregates()
        names = [f"a{number}" for number, _ in enumerate(found)]
        listed = "".join(f", {node.sql('spark')} AS {name}" for node, name in zip(found, names, strict=True))
        windows = (
            f"SELECT _ls_gid AS gid, _ls_run AS run, min(_ls_ts) AS low, max(_ls_ts) + 1 AS high, "
            f"bool_or(_ls_ends) AS ended, max(_ls_count) AS counted, bool_or(_ls_tied) AS tied, "
            f"count(*) AS held{told}{listed} "
            f"FROM ({rows}) GROUP BY _ls_gid, _ls_run"
        )
        results = {node: f"{ALIAS}.{name}" for node, name in zip(found, names, strict=True)}
        if self._counts_rows:
            results[exp.column("_twrownum", table=ALIAS)] = f"{ALIAS}.{names[-1]}"
        selected = ", ".join(
            f"{_replaced(projection, results).sql('spark')} AS {column}"
            for projection, column in zip(self.calculation.query.selects, self.columns, strict=True)
        )
        return f"SELECT {ALIAS}.*, {selected} FROM ({placed(windows, ', '.join(names))}) {ALIAS}"

    def _joined_to_windows(self, found: Sequence[exp.Expr], body: str, count: str | None = None) -> str:
        """Join windows and aggregates; a window without rows has what the aggregates give over nothing.

        ``count`` names the placeholder that the last of the aggregates stands for.
        """
        has_rows = self.only_with_rows and self.way is Way.GROUPED
        join = "JOIN" if has_rows else "LEFT JOIN"
        names = {node: f"a{number}" for number, node in enumerate(found)}
        unknown = [node for node in found if over_nothing(node) is None]
        if count is not None:
            names[exp.column(count, table=ALIAS)] = f"a{len(found) - 1}"
        results = {node: f"a.{name}" if has_rows else _or_nothing(node, name) for node, name in names.items()}
        selected = ", ".join(
            f"{_replaced(projection, results).sql('spark')} AS {column}"
            for projection, column in zip(self.calculation.query.selects, self.columns, strict=True)
        )
        empty = ""
        if unknown and not has_rows:
            listed = ", ".join(f"{node.sql('spark')} AS {names[node]}" for node in unknown)
            empty = f" CROSS JOIN (SELECT {listed} FROM {ROWS} WHERE false) e"
        return (
            f"SELECT {self._passed()}, {selected} FROM ls_fired {ALIAS} "
            f"{join} ({body}) a ON a._ls_gid = {ALIAS}._ls_gid AND a._ls_k = {ALIAS}._ls_k{empty}"
        )

    def _passed(self) -> str:
        groups = "".join(f", {ALIAS}.{name}" for name in self.calculation.scope.groups)
        return f"{ALIAS}._ls_gid, {ALIAS}._ls_k{groups}, {ALIAS}._ls_low, {ALIAS}._ls_high"

    # --- windows as a table of the join ---

    def _joined(self) -> str:
        found = list(dict.fromkeys(aggregates(self.calculation.query.selects)))
        listed = ", ".join(f"{node.sql('spark')} AS a{number}" for number, node in enumerate(found))
        own = f"{ALIAS}._ls_gid, {ALIAS}._ls_k"
        rows = from_windows(self.calculation.query, self._rows, WINDOWS)
        return self._joined_to_windows(found, f"SELECT {own}, {listed} {rows} GROUP BY {own}")

    # --- around a row ---

    def _ranged(self) -> str:
        ranges = _ranges(self.calculation, self.grid, self.groups)
        assert ranges is not None  # by choose_way
        return ranges.sql(self.columns)

    # --- by row ---

    def _by_row(self) -> str:
        """Select from the rows themselves, which know their window; it is one more thing to group by.

        So a window without rows gives nothing.
        """
        query = self.calculation.query
        passed = self._passed()
        listed = ", ".join(
            f"{projection.unalias().sql('spark')} AS {column}"
            for projection, column in zip(query.selects, self.columns, strict=True)
        )
        parts = ("where", "group", "having", "qualify")
        where, group, having, qualify = (query.args.get(name) for name in parts)
        sql = f"SELECT {passed}, {listed} FROM {ROWS} {ALIAS}"
        if where:
            sql += f" {where.sql('spark')}"
        if group or having or aggregates(query.selects):
            own = [f"{ALIAS}.{name}" for name in sorted(self.calculation.used)]
            keys = [key.sql("spark") for key in group.expressions] if group else []
            sql += f" GROUP BY {', '.join([passed, *own, *keys])}"
        if having:
            sql += f" {having.sql('spark')}"
        if qualify:
            sql += f" QUALIFY {_of_window(qualify.this)}"
        if not (group or aggregates(query.selects)):
            # They are output as they came: who reads them in order of their commits sees that.
            sql += f" ORDER BY {ALIAS}._ls_high, {ALIAS}._ls_gid, {ALIAS}._ls_k, {ORDER_OF_ROWS}"
        return sql

    # --- lateral and each ---

    def _lateral(self, known: Mapping[str, BoundRead]) -> str:
        """Evaluate for each window, with the reads that are ``known`` of rows that know their windows."""
        query = self.calculation.query.copy()
        for node in list(query.find_all(exp.Subquery)):
            if node.meta.get(READ) and (read := known.get(node.meta[READ].view)):
                node.set("this", spark_sql(read.of_window))
        hoist(query, ALIAS)
        names = ", ".join(self.columns)
        body = query.sql("spark")
        if not self.forces:
            listed = ", ".join(f"r.{name}" for name in self.columns)
            return f"SELECT {self._passed()}, {listed} FROM ls_fired {ALIAS}, LATERAL ({body}) AS r({names})"
        forced = ", ".join(
            f"CASE WHEN r._ls_there THEN r.{name} ELSE {_constant(projection)} END AS {name}"
            for name, projection in zip(self.columns, query.selects, strict=True)
        )
        there = f"SELECT *, true AS _ls_there FROM ({body}) AS q({names})"
        return (
            f"SELECT {self._passed()}, {forced} FROM ls_fired {ALIAS} "
            f"LEFT JOIN LATERAL ({there}) AS r({names}, _ls_there) ON true"
        )

    def _whole(self) -> str:
        names, body = ", ".join(self.columns), self.calculation.query.sql("spark")
        listed = ", ".join(f"r.{name}" for name in self.columns)
        return f"SELECT {self._passed()}, {listed} FROM ls_fired {ALIAS} CROSS JOIN ({body}) AS r({names})"

    def _keyed(self) -> str:
        """Evaluate with the number of a row's key as its group: by that it is found again."""
        assert self.keys is not None  # by compile_stream
        names = ", ".join((*self.columns, NUMBER, *self.keys.behind))
        passed = ", ".join(f"{ALIAS}.{name}" for name in ("_ls_k", "_ls_low", "_ls_high"))
        listed = ", ".join(f"r.{name}" for name in (*self.columns, *self.keys.stored))
        return (
            f"SELECT r.{NUMBER} AS _ls_gid, {passed}, {listed} "
            f"FROM ls_fired {ALIAS} CROSS JOIN ({self.keys.sql(self.share)}) AS r({names})"
        )

    def fired_sql(self) -> str:
        """Return the SQL of the windows to evaluate, with every placeholder, for the way ``each``."""
        return f"WITH {', '.join(self._relations())} SELECT * FROM ls_fired"

    def each_sql(self, windows: Sequence[Mapping[str, str]]) -> str:
        """Return the SQL that evaluates each of a batch of windows by itself.

        ``windows`` are rows of :meth:`fired_sql`, their values as literals of Spark SQL.
        """
        parts = [self._one(values) for values in windows]
        rows = f"WITH {TRIGGER_ROWS} AS ({self._rows.sql()}) " if self.calculation.reads_rows else ""
        return rows + " UNION ALL ".join(f"({part})" for part in parts)

    def _one(self, values: Mapping[str, str]) -> str:
        bound = _bind(self.calculation.query, values)
        passed = ", ".join(
            f"{values[name]} AS {name}"
            for name in ("_ls_gid", "_ls_k", *self.calculation.scope.groups, "_ls_low", "_ls_high")
        )
        return f"SELECT {passed}, r.* FROM ({bound.sql('spark')}) AS r({', '.join(self.columns)})"


def _of_window(condition: exp.Expr) -> str:
    """Return a condition over all rows as one over the rows of each window."""
    keys = [exp.column(name, table=ALIAS) for name in ("_ls_gid", "_ls_k")]
    found = condition.copy()
    for window in found.find_all(exp.Window):
        window.set("partition_by", [key.copy() for key in keys])
    return str(found.sql("spark"))


def _constant(projection: exp.Expr) -> str:
    """Return a result column of placeholders and constants alone, NULL for any other (FORCE_OUTPUT)."""
    node = projection.unalias()
    known = all(column.table == ALIAS for column in node.find_all(exp.Column))
    plain = not list(node.find_all(exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Var))
    return str(node.sql("spark")) if known and plain else "NULL"


def distinct_aggregates(calculation: Calculation) -> list[exp.Expr]:
    """Return the aggregates of a calculation's result columns, each once."""
    return list(dict.fromkeys(aggregates(calculation.query.selects)))


def _bind(query: exp.Query, values: Mapping[str, str]) -> exp.Query:
    def bind(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.table == ALIAS:
            return exp.Var(this=values[node.name])
        if isinstance(node, exp.Var) and f"{ALIAS}." in node.name:
            text = node.name
            for name in sorted(values, key=len, reverse=True):
                text = text.replace(f"{ALIAS}.{name}", values[name])
            return exp.Var(this=text)
        return node

    return cast("exp.Query", query.transform(bind))


def _ranges(calculation: Calculation, grid: Grid, groups: tuple[str, ...]) -> Ranges | None:
    """Return the calculation over windows around a row, None where the windows are others."""
    reach = grid.reach if isinstance(grid, PlacedGrid) else None
    return None if reach is None else Ranges(calculation, reach, groups)


def choose_way(
    calculation: Calculation,
    grid: Grid,
    groups: tuple[str, ...] = (),
    *,
    at_open: bool = False,
    forces: bool = False,
) -> Way:
    """Return the first way that fits, by the shape of the calculation alone (never ``each``).

    ``at_open``: windows are evaluated when they open too, and are nothing but their start then;
    ``forces``: a window for which the calculation gives no row has one (FORCE_OUTPUT).
    """
    query = calculation.query
    if grid.rows_are_placed:
        if not _plain_select(query):
            return Way.LATERAL
        ranges = _ranges(calculation, grid, groups)
        return Way.RANGED if ranges is not None and ranges.fits else Way.BY_ROW
    of_rows = calculation.reads_rows and not calculation.reads and query.args.get("where") is None
    if of_rows and _plain_aggregate(query):
        return Way.GROUPED
    if at_open:
        return Way.LATERAL
    beside = _beside(calculation, forces=forces) if _goes_beside_windows(calculation, grid) else None
    return beside or (Way.NUMBERED if bound_reads(calculation, grid) else Way.LATERAL)


def _beside(calculation: Calculation, *, forces: bool) -> Way | None:
    """Return how a select over rows that know their windows is evaluated; None: as any other."""
    query = calculation.query
    if query.args.get("group") is not None or not aggregates(query.selects):
        return None if forces else Way.BESIDE
    return Way.JOINED if _has_a_row_for_nothing(calculation) else None


def _has_a_row_for_nothing(calculation: Calculation) -> bool:
    """Return whether what a select of aggregates gives over no rows is told without them."""
    query = calculation.query
    if calculation.reads_rows or not all(map(_is_aggregated, query.selects)):
        return False
    known = all(over_nothing(node) is not None for node in aggregates(query.selects))
    return (known or not query.args.get("joins")) and query.args.get("having") is None


def _says_only(query: exp.Query, clauses: set[str]) -> bool:
    """Return whether a query is a select of these clauses from one relation as it is, and says nothing else.

    What is evaluated otherwise than as it is written goes by what it knows, so that nothing is left out.
    """
    if not isinstance(query, exp.Select) or not said(query) <= clauses:
        return False
    source, group = query.args.get("from_"), query.args.get("group")
    if group is not None and said(group) != {"expressions"}:
        return False
    if source is None or not isinstance(source.this, exp.Subquery):
        return False
    alias = source.this.args.get("alias")
    return said(source.this) <= {"this", "alias"} and (alias is None or said(alias) <= {"this"})


def _plain_select(query: exp.Query) -> bool:
    """Return whether it is ``SELECT … FROM rows [WHERE …] [GROUP BY …] [HAVING …]`` and nothing else.

    Only QUALIFY may judge all rows of the window: aggregates over () and nothing else.
    """
    if not _says_only(query, {"expressions", "from_", "where", "group", "having", "qualify"}):
        return False
    # The rows themselves are carried as text made here: any query in the tree is one of the statement's.
    looks_around = any(not node.find_ancestor(exp.Qualify) for node in query.find_all(exp.Window))
    return not looks_around and len(list(query.find_all(exp.Select))) == 1


def _plain_aggregate(query: exp.Query) -> bool:
    """Return whether it is ``SELECT aggregates FROM one relation [WHERE …]`` and nothing else."""
    if not _says_only(query, {"expressions", "from_", "where"}):
        return False
    if not isinstance(query.args["from_"].this.this, exp.Var):
        return False
    where = query.args.get("where")
    if where is not None and list(where.find_all(exp.Query)):
        return False
    return bool(aggregates(query.selects)) and all(_is_aggregated(projection) for projection in query.selects)


def _is_aggregated(projection: exp.Expr) -> bool:
    """Return whether the projection is made of aggregates, placeholders and constants only."""
    for node in projection.walk(prune=is_aggregate_call):
        if isinstance(node, (exp.Query, exp.Window, exp.Star)):
            return False
        if isinstance(node, exp.Column) and node.table != ALIAS:
            return False
        if is_aggregate_call(node) and any(
            isinstance(inner, (exp.Window, exp.Query))
            or (isinstance(inner, exp.Column) and inner.table == ALIAS)
            for inner in node.walk()
        ):
            return False
    return True


def _goes_beside_windows(calculation: Calculation, grid: Grid) -> bool:
    """Return whether a select's FROM begins with rows that know their windows, and nothing else needs these.

    Those are the rows of the windows, or a read that is bounded by ``>= _twstart`` and ``< _twend`` exactly.
    """
    query = calculation.query
    known = {"expressions", "from_", "joins", "where", "group", "having"}
    if not isinstance(query, exp.Select) or not said(query) <= known or group_keys(query) is None:
        return False
    joined = query.args.get("joins") or []
    if not _is_table(query.args.get("from_")) or not all(_joins_plainly(join) for join in joined):
        return False
    own = [*query.selects, *(join.args["on"] for join in joined if join.args.get("on") is not None)]
    own += [query.args[name] for name in ("where", "group", "having") if query.args.get(name)]
    if any(part.find(exp.Query, exp.Window, exp.Star) for part in map(_without_counts, own)):
        return False
    source = query.args["from_"].this
    if READ not in source.meta:
        return False
    return source.meta[READ] == "" or (not grid.depends_on_first and _is_bounded(query, source))


def _is_table(part: exp.Expr | None) -> bool:
    """Return whether a part of FROM is a table or query under a name that asks for nothing of the windows."""
    node = None if part is None else part.this
    if not isinstance(node, exp.Subquery) or not said(node) <= {"this", "alias"}:
        return False
    alias = node.args.get("alias")
    if alias is None or not said(alias) <= {"this"}:
        return False
    return node.meta.get(READ) == "" or ALIAS not in node.this.sql("spark")


def _joins_plainly(join: exp.Join) -> bool:
    return (
        said(join) <= {"this", "on", "side", "kind"}
        and join.side not in ("RIGHT", "FULL")
        and _is_table(join)
    )


def _without_counts(part: exp.Expr) -> exp.Expr:
    """Return an expression without the star of ``count(*)``, which stands for no columns."""
    return part.transform(
        lambda node: exp.Literal.number(1) if isinstance(node.parent, exp.Count) and node.is_star else node
    )


def _is_bounded(query: exp.Select, source: exp.Expr) -> bool:
    """Return whether a read is bounded by ``>= _twstart`` and ``< _twend``, on its own time, in WHERE."""
    read, where = source.meta[READ], query.args.get("where")
    if where is None or (read.lower, read.upper) != (Bound("_twstart"), Bound("_twend")):
        return False
    if not read.relation.has_instants:
        return False
    names = {source.alias.lower()} | (set() if query.args.get("joins") else {""})
    parts = conjuncts(where.this)
    return all(
        any(
            isinstance(part, kind)
            and _is_column(part.this, names, read.relation.time_column)
            and _is_column(part.expression, {ALIAS}, end)
            for part in parts
        )
        for end, kind in (("_twstart", exp.GTE), ("_twend", exp.LT))
    )


def _is_column(node: exp.Expr, tables: set[str], name: str) -> bool:
    return isinstance(node, exp.Column) and node.table.lower() in tables and node.name.lower() == name.lower()


_NULL_OVER_NOTHING = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.StddevPop, exp.Stddev, exp.StddevSamp)


def over_nothing(node: exp.Expr) -> str | None:
    """Return what the aggregate gives over no rows, None where only Spark knows."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if isinstance(inner, (exp.Count, exp.CountIf)):
        return "0L"
    if isinstance(inner, _NULL_OVER_NOTHING):
        return "NULL"
    if isinstance(inner, exp.Anonymous) and inner.name.lower() in {"min_by", "max_by"}:
        return "NULL"
    return None


def _or_nothing(node: exp.Expr, name: str) -> str:
    """Return the joined column of an aggregate, with its value over nothing where there is no row."""
    column, nothing = f"a.{name}", over_nothing(node)
    if isinstance(node, exp.Column):
        return f"coalesce({column}, 0L)"
    if nothing == "NULL":
        return column
    if nothing is None:
        return f"CASE WHEN a._ls_gid IS NULL THEN e.{name} ELSE {column} END"
    return f"coalesce({column}, {nothing})"


def _replaced(projection: exp.Expr, results: Mapping[exp.Expr, str]) -> exp.Expr:
    """Put SQL in the place of some nodes."""
    return projection.unalias().transform(
        lambda node: exp.Var(this=results[node]) if node in results else node
    )
