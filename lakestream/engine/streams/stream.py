"""A stream, compiled: its definition resolved against the lake, and the SQL that its ticks run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates
from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS
from lakestream.compute.windows.calculation import (
    ROWS,
    Calculation,
    Scope,
    compile_calculation,
)
from lakestream.compute.windows.evaluate import Evaluation, Way, choose_way
from lakestream.compute.windows.gaps import filled
from lakestream.compute.windows.incremental import Incremental, can_be_incremental
from lakestream.engine.base.names import (
    TBNAME,
    Names,
    has_subtables,
    names_used,
    relation_of,
    trigger_fragments,
    visible_columns,
)
from lakestream.engine.base.state import gids_sql
from lakestream.errors import NotSupportedError, Place, StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.common.source import place_of
from lakestream.language.expressions.checks import (
    COMMON_PLACEHOLDERS,
    PERIOD_PLACEHOLDERS,
    SLIDING_PLACEHOLDERS,
    WINDOW_PLACEHOLDERS,
)
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.language.model import (
    CLOCK,
    MICROS,
    CountTrigger,
    EventTrigger,
    Fragment,
    GroupKey,
    IntervalTrigger,
    PeriodTrigger,
    RowTrigger,
    SessionTrigger,
    SlidingTrigger,
    StateTrigger,
)
from lakestream.language.quoting import quoted, quoted_text
from lakestream.storage.delta import POSITION
from lakestream.triggers.assign import ORDER, Assigner, PlacedGrid, assigner_of
from lakestream.triggers.cut import Cut, SpanGrid, cut_of
from lakestream.triggers.detect import Detection, NetDetection
from lakestream.triggers.grid import Grid, grid_of
from lakestream.triggers.period import Period

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.language.model import (
        StreamDefinition,
        StreamOptions,
        TableName,
        Trigger,
    )
    from lakestream.storage.catalog import Catalog
    from lakestream.storage.table_info import TableInfo


_OF_TABLE = GroupKey(Fragment(TBNAME), "tag_tbname", is_tbname=True)
"""What the rows of a stream are grouped by that writes those of all subtables into one table."""


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
        return quoted(TBNAME) if has_subtables(self.info) else quoted_text(self.info.name)


@dataclass(frozen=True)
class Part:
    """A part of event time: windows that begin in ``[from_us, to_us)`` and end after ``overlap_us``.

    ``over_us``: and at or before that. Microseconds, None for no bound. ``groups``: of these groups only,
    those that begin from an instant on and before another one (group, both in µs). ``only``: of these groups
    only (none: of all), ``without``: of none of these.
    """

    overlap_us: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    over_us: int | None = None
    groups: tuple[tuple[int, int, int], ...] = ()
    only: tuple[int, ...] = ()
    without: tuple[int, ...] = ()


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
    exact: bool = False
    partial_types: Mapping[str, str] | None = None
    """Types of the partial aggregates; None where they do not give the same as whole ones."""
    floor_us: int | None = None
    """Rows before it are not the stream's: set by a resynchronisation of one that takes no history."""
    cut: Cut | None = None
    """How rows are cut into windows; None where windows follow from time alone."""
    assigner: Assigner | None = None
    """How admitted rows are assigned to windows; None where late rows are not left out."""
    time_us: str = ""
    """SQL of a row's time (BIGINT µs, NULL where it has none), of a stream that admits rows."""
    waiting_groups: tuple[int, ...] = ()
    """The groups of which it takes no row for now."""

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The names of the group columns in all relations of a tick."""
        return tuple(f"_ls_g{number}" for number, _ in enumerate(self.groups, 1))

    @property
    def plain_groups(self) -> tuple[str, ...]:
        """The columns that rows are grouped by; none where it takes an expression or a condition to tell."""
        names = tuple(group.strip("`") for group in self.groups)
        is_plain = set(names) <= set(self.changed_columns) and not self.condition
        return names if is_plain and self.floor_us is None and self.source.subtable is None else ()

    @property
    def refires(self) -> bool:
        """Whether a late row makes its windows fire again (TDengine A7; IGNORE_DISORDER; EXACT)."""
        if self.exact:
            return True
        if self.definition.options.ignore_disorder:
            return False
        trigger = self.definition.trigger
        if isinstance(trigger, CountTrigger):
            return trigger.step == 1 or self.definition.options.expires_closed
        return not isinstance(trigger, SlidingTrigger | PeriodTrigger)

    @property
    def is_periodic(self) -> bool:
        """Whether the wall clock alone triggers it."""
        return isinstance(self.definition.trigger, PeriodTrigger)

    @property
    def follows_source(self) -> bool:
        """Whether rows that are only added give the same windows however they are cut into commits."""
        if self.assigner is not None:
            return False
        return self.refires and self.definition.options.expired_time is None

    @property
    def goes_by_ticks(self) -> bool:
        """Whether what it writes depends on when its ticks were, which only their record tells."""
        options = self.definition.options
        return self.is_periodic or options.by_clock or options.by_arrival

    @property
    def forgets_what_went(self) -> bool:
        """Whether a row that came and went leaves nothing behind: all follows from the source as it is.

        It does not where it depends on what came when, or on the clock.
        """
        return self.exact and self.cut is None and not self.fires_early and not self.goes_by_ticks

    @property
    def keeps_order(self) -> bool:
        """Whether it shows in which order rows of equal time came: it is then found out.

        By a window's rows or bounds, or as the window's rows are output as they are.
        """
        query = self.calculation.query
        gives_rows = not (query.args.get("group") or aggregates(query.selects))
        return self.assigner is not None and (
            self.assigner.goes_by_order or self.calculation.orders_rows or gives_rows
        )

    @property
    def row_us(self) -> str:
        """SQL of a row's time in microseconds."""
        return self.time_us or f"unix_micros({self.source.time})"

    @property
    def goes_by_table_time(self) -> bool:
        """Whether a row's time is that of the source's own time column, by which its files are found."""
        return not self.time_us or self.time_us == _timestamp_us(self.source.info.time_column)

    @property
    def follows_updates(self) -> bool:
        """Whether a rewritten row makes its windows fire again, for what it was and for what it is."""
        return (self.refires and not self.counts_rewritten) or self.definition.options.follow_updates

    @property
    def fires_early(self) -> bool:
        """Whether windows fire, or open, before they close: their rows are then written more than once."""
        options = self.definition.options
        return options.at_once or options.at_open or options.max_delay is not None

    @property
    def counts_rewritten(self) -> bool:
        """Whether a rewritten row counts as one more: what it was stays (classic IGNORE UPDATE 1)."""
        return self.definition.options.counts_rewritten and not self.exact

    @property
    def fires_open(self) -> bool:
        """Whether rows of windows that are open are computed: what changes or goes in them does so there."""
        options = self.definition.options
        return options.at_once or options.max_delay is not None

    @property
    def renews_open(self) -> bool:
        """Whether what is written of open windows comes anew with each change of their group.

        So does the opening of windows that open with their first row, and go with their last one.
        """
        options = self.definition.options
        return options.at_once or (options.at_open and options.ignore_nodata)

    @property
    def _watches_open(self) -> bool:
        """Whether what goes from windows that are open shows there at once, also where it is not followed.

        It may cut a window that is cut by rows, or be the last row of one that is told of if it has rows.
        """
        tells = self.definition.notification is not None and self.definition.options.ignore_nodata
        return self.fires_open or self.cut is not None or tells

    @property
    def _sees_rewritten(self) -> bool:
        """Whether what a rewritten row was is taken out of windows that are open as soon as it is."""
        return self._watches_open and not self.counts_rewritten

    @property
    def deletes(self) -> bool:
        """Whether a deleted row makes its windows fire again."""
        return self.exact or self.definition.options.delete_recalc

    @property
    def watermark_delay(self) -> int:
        """WATERMARK in microseconds."""
        watermark = self.definition.options.watermark
        return watermark.micros if watermark else 0

    @property
    def step_us(self) -> int:
        """About how far windows lie apart, in microseconds."""
        trigger = self.definition.trigger
        if not isinstance(trigger, IntervalTrigger | SlidingTrigger):
            return MICROS["s"]
        step = trigger.step
        return step.months * 30 * MICROS["d"] if step.months else max(step.micros, 1)

    @property
    def expiry(self) -> int | None:
        """EXPIRED_TIME in microseconds; None: rows never expire."""
        expired = self.definition.options.expired_time
        return expired.micros if expired else None

    @property
    def keeps_expired(self) -> bool:
        """Whether it must know of expired rows: by its values a row may cut the window it lies in."""
        return self.expiry is not None and self.cut is not None and self.cut.looks_inside

    @property
    def counts_on(self) -> bool:
        """Whether windows go on by what was counted: no late row is ever counted in them."""
        return self.cut is not None and self.cut.counts and not self.definition.options.expires_closed

    @property
    def keeps_closed(self) -> bool:
        """Whether it must know up to where windows have closed: late rows join windows that are open only."""
        return self.cut is not None and not self.refires and self.definition.options.expires_closed

    @property
    def detection(self) -> Detection:
        """How the stream finds out which windows fire, commit by commit."""
        touches, options = self.deletes or self.follows_updates, self.definition.options
        return Detection(
            self.grid,
            self.group_columns,
            self.watermark_delay,
            self.refires,
            touches,
            self.expiry,
            # Where the clock closes windows, the mark says nothing.
            "any" if options.by_clock else "not closed" if options.expires_closed else "beyond",
        )

    @property
    def net_detection(self) -> NetDetection:
        """How an EXACT stream finds out which windows fire."""
        return NetDetection(self.grid, self.group_columns, self.watermark_delay)

    def period(self, created_us: int) -> Period:
        """Return the instants of a stream that the wall clock triggers."""
        trigger = self.definition.trigger
        assert isinstance(trigger, PeriodTrigger)  # by is_periodic
        return Period(trigger, self.zone, created_us)

    @property
    def carries(self) -> bool:
        """Whether a window without rows takes values of the one before it: what changes one changes both."""
        return bool(self.calculation.carried)

    def evaluation(
        self, *, retracts: bool = False, settled: bool = False, previous: str | None = None
    ) -> Evaluation:
        """How the calculation is evaluated.

        ``retracts``: rows were taken back in the tick; ``settled``: the rows are those of the source as
        it is, so that a window need not tell what was there when it fired; ``previous``: a view of the
        values that stand before the windows (FILL(PREV)).
        """
        return Evaluation(
            self.calculation,
            self.grid,
            self.way,
            # Where rows were taken back, what a window held when it fired last is not what is there now.
            by_commit=not settled and (retracts or not self.follows_source),
            only_with_rows=self.definition.options.ignore_nodata,
            retracts=retracts and not settled,
            combines=self.partial_types is not None,
            forces=self.definition.options.force_output,
            groups=self.groups,
            previous=previous,
        )

    def incremental(self, limit: int) -> Incremental | None:
        """How windows are kept by partial aggregates; None where they cannot be.

        ``limit`` is the most windows without rows that one tick makes of one group.
        """
        options = self.definition.options
        if (
            self.partial_types is None
            or self.carries
            or not can_be_incremental(
                self.calculation, self.grid, self.way, only_with_rows=options.ignore_nodata
            )
        ):
            return None
        return Incremental(
            self.calculation,
            self.grid,
            self.group_columns,
            _group_id(self.group_columns),
            self.watermark_delay,
            self.expiry,
            self.refires,
            options.ignore_nodata,
            options.at_once,
            limit,
            self.partial_types,
        )

    @property
    def changed_columns(self) -> tuple[str, ...]:
        """The source's columns that the statement uses anywhere, in the table's order.

        A row that was rewritten counts as changed when one of them differs.
        """
        return self.calculation.scope.source.columns

    # --- relations of a tick, as SQL over the views of what was read ---

    def group_id(self) -> str:
        """Return SQL for the number of a row's group: 64 bits of a hash that tells NULLs apart."""
        return _group_id(self.groups)

    def _group_list(self) -> str:
        return "".join(
            f", {group} AS {name}" for group, name in zip(self.groups, self.group_columns, strict=True)
        )

    def over_row(self, fragment: Fragment) -> str:
        """Return SQL over a row of the source of an expression of the statement."""
        return _row_expression(fragment, self.source, self.zone)

    def admitted(self) -> str:
        """Return SQL that holds for rows that the trigger sees: PRE_FILTER, the subtable, a time.

        Those of groups that wait are not among them.
        """
        parts = [f"{self.row_us if self.time_us else self.source.time} IS NOT NULL"]
        if self.floor_us is not None:
            parts.append(f"unix_micros({self.source.time}) >= {self.floor_us}L")
        if self.source.subtable is not None:
            parts.append(f"{quoted(TBNAME)} = {quoted_text(self.source.subtable)}")
        if self.condition:
            parts.append(f"({self.condition})")
        if self.waiting_groups:
            parts.append(f"{self.group_id()} NOT IN ({gids_sql(self.waiting_groups)})")
        return " AND ".join(parts)

    def net_sql(self, changed: str, upto: int, columns: Sequence[str]) -> str:
        """Return SQL of the changed rows without what cancels out: deleted and written with alike columns.

        Per commit, or over all of them where EXACT asks for the outcome only. ``_change_type`` becomes
        insert, update_postimage and update_preimage (the commit wrote the row's key anew), or delete;
        ``_ls_sign`` counts the rows, below 0 for those that went.
        """
        if self.is_periodic:
            return self._written_net_sql(changed, columns)
        listed = ", ".join(map(quoted, columns))
        went = "'delete'" if self.counts_rewritten else "'delete', 'update_preimage'"
        came = "'insert', 'update_postimage'"
        sign = f"CASE WHEN _change_type IN ({came}) THEN 1 WHEN _change_type IN ({went}) THEN -1 ELSE 0 END"
        version = f"CAST({upto} AS BIGINT)" if self.exact else "_commit_version"
        summed = (
            f"SELECT {listed}, {version} AS _commit_version, CAST(sum({sign}) AS BIGINT) AS _ls_sign, "
            f"bool_or(_change_type IN ('update_preimage', 'update_postimage')) AS updated FROM {changed} "
            f"GROUP BY {listed}, {version} HAVING sum({sign}) <> 0"
        )
        keys = self._keys(columns)
        replaced = f"updated OR max(_ls_sign) OVER (PARTITION BY _commit_version, {keys}) > 0"
        old = f"WHEN {replaced} THEN 'update_preimage' ELSE 'delete'"
        # A row that took the place of another is told from one that is new.
        anew = f"updated OR min(_ls_sign) OVER (PARTITION BY _commit_version, {keys}) < 0"
        new = f"CASE WHEN {anew} THEN 'update_postimage' ELSE 'insert' END"
        kind = f"CASE WHEN _ls_sign > 0 THEN {new} {old} END"
        net = f"SELECT {listed}, _commit_version, _ls_sign, {kind} AS _change_type FROM ({summed})"
        return (
            f"SELECT * FROM ({net}) WHERE _change_type <> 'update_preimage'" if self.counts_rewritten else net
        )

    def rewritten_sql(self, changed: str, columns: Sequence[str]) -> str:
        """Return SQL of what rows were before changes wrote them anew: what :meth:`net_sql` leaves out."""
        listed = ", ".join(map(quoted, columns))
        kinds = ("insert", "delete", "update_preimage", "update_postimage")
        inserted, deleted, old, new = (f"count_if(_change_type = '{kind}')" for kind in kinds)
        summed = (
            f"SELECT {listed}, _commit_version, {deleted} - {inserted} AS went, {old} AS old, {new} AS new "
            f"FROM {changed} GROUP BY {listed}, _commit_version"
        )
        replaced = f"max(greatest(new, -went)) OVER (PARTITION BY _commit_version, {self._keys(columns)}) > 0"
        counted = f"SELECT *, CAST(old + IF({replaced}, greatest(went, 0L), 0L) AS INT) AS n FROM ({summed})"
        return f"SELECT {listed} FROM ({counted}) LATERAL VIEW explode(array_repeat(1, n)) AS _ls_each"

    def _keys(self, columns: Sequence[str]) -> str:
        """Return SQL of what tells rows apart, among columns that were read."""
        key = [name for name in self.source.info.key if name in columns]
        return ", ".join(quoted(name) for name in key or [self.source.info.time_column])

    def _written_net_sql(self, changed: str, columns: Sequence[str]) -> str:
        """Return :meth:`net_sql` for PERIOD: an updated row is written, also where its values stay.

        What a commit only moves to other files is deleted and inserted alike, and was not written.
        """
        listed = ", ".join(map(quoted, columns))
        inserted, deleted, updated = (
            f"count_if(_change_type = '{kind}')" for kind in ("insert", "delete", "update_postimage")
        )
        written = f"greatest({inserted} - {deleted}, 0L) + {updated}"
        return (
            f"SELECT {listed}, _commit_version, {written} AS _ls_sign, 'insert' AS _change_type "
            f"FROM {changed} GROUP BY {listed}, _commit_version HAVING {written} > 0"
        )

    def changes_sql(self, changed: str) -> str:
        """Return SQL of what detection takes, from the changed rows."""
        old = [
            *(["update_preimage"] if self.follows_updates or self._sees_rewritten else []),
            *(["delete"] if self.deletes or self._watches_open else []),
        ]
        taken = ", ".join(f"'{kind}'" for kind in ("insert", "update_postimage", *old))
        kept = "_change_type IN ('insert', 'update_postimage')"
        again = [
            *(["insert", "update_postimage"] if self.refires else []),
            *(["update_preimage", "update_postimage"] if self.follows_updates else []),
            *(["delete"] if self.deletes else []),
        ]
        touches = f"_change_type IN ({', '.join(f'{kind!r}' for kind in again)})" if again else "false"
        return (
            f"SELECT {self.group_id()} AS gid{self._group_list()}, unix_micros({self.source.time}) AS ts, "
            f"CAST(_commit_version AS BIGINT) AS v, {kept} AS kept, {touches} AS touches, "
            f"_change_type <> 'delete' AS expires "
            f"FROM {changed} WHERE {self.admitted()} AND _change_type IN ({taken})"
        )

    def shrunk_sql(self, changed: str) -> str:
        """Return SQL of the groups that wait of which rows went (gid), from the changed rows."""
        return (
            f"SELECT DISTINCT {self.group_id()} AS gid FROM {changed} "
            f"WHERE _ls_sign < 0 AND {self.group_id()} IN ({gids_sql(self.waiting_groups)})"
        )

    def fresh_sql(self, changed: str, from_us: int | None = None) -> str:
        """Return SQL of the rows that an incremental query takes: columns, groups and the time in µs.

        ``from_us``: only rows from this instant on, which Spark looks for in the files' statistics.
        """
        later = "" if from_us is None else f" AND {self.source.time} >= timestamp_micros({from_us}L)"
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        return f"SELECT {columns}{self.fresh_columns()} FROM {changed} WHERE {self.admitted()}{later}"

    def fresh_columns(self) -> str:
        """Return select items for what an incremental query takes of a row beside the source's columns."""
        return f"{self._group_list()}, unix_micros({self.source.time}) AS _ls_ts"

    def empty_state_sql(self, changes: str) -> str:
        """Return SQL of a state without groups, with the types that the changes' columns have."""
        groups = "".join(f", {name}" for name in self.group_columns)
        return f"SELECT gid{groups}, ts AS first, ts AS newest FROM {changes} WHERE false"

    def open_rows_sql(self) -> str:
        """Return SQL of the registered rows of the source, as :meth:`fresh_sql` gives changed ones."""
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        return f"SELECT {columns}{self._group_list()}, _ls_ts FROM {ROWS}"

    def late_sql(self, updated: str, upto: int) -> str:
        """Return SQL of a detection result with the windows that changed late by an incremental one.

        Those before the first one that there was fire too, without rows unless only the others count.
        """
        groups = "".join(f", any_value({name}) AS {name}" for name in self.group_columns)
        last = "least(max(_ls_base_before), max(_ls_closed_before))"
        if self.definition.options.ignore_nodata:
            last = "CAST(NULL AS BIGINT)"
        opened = f"struct(max(_ls_base) + 1 AS a, {last} AS b)"
        return (
            f"SELECT _ls_gid AS gid{groups}, CAST({upto} AS BIGINT) AS v, max(_ls_first) AS first, "
            f"filter(array({opened}), r -> r.a <= r.b) AS fires, "
            f"collect_list(struct(_ls_k AS a, _ls_k AS b)) FILTER (WHERE _ls_late) AS again "
            f"FROM {updated} GROUP BY _ls_gid"
        )

    def early_sql(self, fired: str, state: str, *, anew: bool = False, shown: str | None = None) -> str:
        """Return SQL of a detection result with what fires by other events than a window's closing.

        Those are changes of open windows, or openings; where the clock closes windows rows fire nothing.
        ``anew``: the old rows of open windows go, whether they have new ones or not. ``shown`` is SQL of
        (gid, lows ARRAY<BIGINT µs>): the open windows that the output has rows of, which come anew.
        """
        options, grid, first = self.definition.options, self.grid, "first"
        mark = f"(newest - {self.watermark_delay}L)"
        before = {"first": "first_before", "newest": "newest_before"}
        lows, joined = "CAST(NULL AS ARRAY<BIGINT>)", ""
        if shown is not None:
            lows, joined = "w.lows", f" LEFT JOIN ({shown}) w ON f.gid = w.gid"
        known = "".join(
            f", coalesce(lag(f.{name}) OVER (PARTITION BY f.gid ORDER BY f.v), s.{name}) AS {other}"
            for name, other in before.items()
        )
        more: list[str] = []
        gone, first_gone = "gone", "first_gone"
        last = "v = max(v) OVER (PARTITION BY gid)"
        begins = f"greatest({grid.closed(mark, first)}, {grid.ended(first, first)}) + 1"
        if options.at_once:
            more = [f"struct({begins} AS a, CASE WHEN {last} THEN {grid.begun('newest', first)} END AS b)"]
        elif options.at_open:
            more = self._opening_ranges()
            if self.deletes and not options.ignore_nodata:
                gone = f"concat(gone, {self.left_open_ranges()})"
        fires = "fires" if options.at_close else "slice(fires, 1, 0)"
        if more:
            fires = f"concat({fires}, filter(array({', '.join(more)}), r -> r.a <= r.b))"
        if anew or shown is not None:
            first_gone = "coalesce(known_first, first_gone)"
            went = self._open_range("known_newest", "known_first")
            if shown is not None:
                again = self._numbers_sql("lows", first)
                still = f"filter({again}, r -> r.a >= {begins})"
                fires = f"concat({fires}, CASE WHEN {last} THEN {still} ELSE slice(fires, 1, 0) END)"
                went = self._numbers_sql("lows", "known_first")
            gone = f"CASE WHEN {last} THEN concat(gone, {went}) ELSE gone END"
        ranges = "concat(fires, again)"
        own = "first_before, newest_before, known_first, known_newest, lows, lowest, highest"
        return (
            f"SELECT * EXCEPT ({own}), "
            f"aggregate({ranges}, 0L, (n, r) -> n + r.b - r.a + 1) AS windows, "
            f"{grid.low('lowest', first)} AS low, {grid.high('highest', first)} AS high FROM ("
            f"SELECT *, array_min(transform({ranges}, r -> r.a)) AS lowest, "
            f"array_max(transform({ranges}, r -> r.b)) AS highest FROM ("
            f"SELECT * EXCEPT (fires, gone, first_gone, windows, low, high), {fires} AS fires, "
            f"{gone} AS gone, {first_gone} AS first_gone FROM ("
            f"SELECT f.*{known}, s.first AS known_first, s.newest AS known_newest, {lows} AS lows "
            f"FROM {fired} f LEFT JOIN {state} s ON f.gid = s.gid{joined})))"
        )

    def _opening_ranges(self) -> list[str]:
        """Return SQL of the ranges of windows that open, each (a, b), over groups now and ``_before``.

        Where windows without rows do not count, all that are open come anew: their rows come and go.
        """
        options, grid, first = self.definition.options, self.grid, "first"
        mark, mark_before = (f"(newest{when} - {self.watermark_delay}L)" for when in ("", "_before"))
        base = grid.ended(first, first)
        begun_before = f"coalesce({grid.begun(mark_before, 'first_before')}, {base})"
        lower = [base]
        if not options.ignore_nodata:
            lower.append(begun_before)
        if options.at_close:
            lower.append(grid.closed(mark, first))
        elif options.ignore_nodata:
            lower.append(f"coalesce({grid.closed(mark_before, 'first_before')}, {base})")
        earlier = f"least({grid.ended('first_before', 'first_before')}, {begun_before})"
        return [
            f"struct(greatest({', '.join(lower)}) + 1 AS a, {grid.begun(mark, first)} AS b)",
            f"struct({base} + 1 AS a, CASE WHEN first_before IS NOT NULL THEN {earlier} END AS b)",
        ]

    def left_open_ranges(self) -> str:
        """Return SQL of the ranges of open windows that the mark, or the group's first row, has left.

        It is over (first, newest) of groups as they are now, and with ``_before`` as they were.
        """
        grid, first = self.grid, "first_before"
        mark, mark_before = (f"(newest{when} - {self.watermark_delay}L)" for when in ("", "_before"))
        lowest = f"greatest({grid.closed(mark_before, first)}, {grid.ended(first, first)})"
        begun = grid.begun(mark_before, first)
        behind = f"struct(greatest({lowest}, {grid.begun(mark, 'first')}) + 1 AS a, {begun} AS b)"
        before = f"struct({lowest} + 1 AS a, least({begun}, {grid.ended('first', 'first')}) AS b)"
        # Of a group without rows both are the same.
        return f"filter(array_distinct(array({behind}, {before})), r -> r.a <= r.b)"

    def _open_range(self, newest: str, first: str) -> str:
        """Return SQL of the range of a group's windows that have begun and that the mark has not closed."""
        mark = f"({newest} - {self.watermark_delay}L)"
        upto = newest if self.definition.options.at_once else mark
        a = f"greatest({self.grid.closed(mark, first)}, {self.grid.ended(first, first)}) + 1"
        return f"filter(array(struct({a} AS a, {self.grid.begun(upto, first)} AS b)), r -> r.a <= r.b)"

    def _numbers_sql(self, lows: str, first: str) -> str:
        """Return SQL of the ranges of the windows that begin at instants of an array, which may be NULL."""
        k = self.grid.begun("l", first)
        ranges = f"transform(coalesce({lows}, array()), l -> struct({k} AS a, {k} AS b))"
        return f"filter({ranges}, r -> r.a <= r.b)"

    def open_sql(self, state: str) -> str:
        """Return SQL of the windows that are open: gid, k BIGINT, low BIGINT µs."""
        mark = f"(newest - {self.watermark_delay}L)"
        first = f"greatest({self.grid.closed(mark, 'first')}, {self.grid.ended('first', 'first')}) + 1"
        upto = "newest" if self.definition.options.opens_ahead else mark
        return (
            f"SELECT gid, k, {self.grid.low('k', 'first')} AS low FROM ("
            f"SELECT gid, first, explode(sequence(a, b)) AS k FROM (SELECT gid, first, {first} AS a, "
            f"{self.grid.begun(upto, 'first')} AS b FROM {state} WHERE first IS NOT NULL) WHERE a <= b)"
        )

    def fired_sql(self, state: str, version: int, ranges: str) -> str:
        """Return SQL of a detection result in which windows of the groups of a state fire.

        ``ranges`` is SQL of (gid, a BIGINT, b BIGINT): the first window and the last one.
        """
        groups = "".join(f", s.{name}" for name in self.group_columns)
        none = "CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>)"
        return (
            f"SELECT s.gid{groups}, CAST({version} AS BIGINT) AS v, s.first, s.newest, "
            f"array(struct(r.a, r.b)) AS fires, {none} AS again, {none} AS gone, s.first AS first_gone, "
            f"0L AS rows, 0L AS late, r.b - r.a + 1 AS windows, {self.grid.low('r.a', 's.first')} AS low, "
            f"{self.grid.high('r.b', 's.first')} AS high FROM ({ranges}) r JOIN {state} s ON s.gid = r.gid "
            f"WHERE r.a <= r.b"
        )

    def clock_sql(self, state: str, from_us: int, to_us: int) -> str:
        """Return SQL of the ranges of windows that end in ``(from_us, to_us]``, for each group of a state."""
        grid = self.grid
        return (
            f"SELECT gid, greatest({grid.ended(f'{from_us}L', 'first')}, {grid.ended('first', 'first')}) + 1 "
            f"AS a, {grid.ended(f'{to_us}L', 'first')} AS b FROM {state} WHERE first IS NOT NULL"
        )

    def recalculated_sql(self, state: str, version: int, part: Part) -> str:
        """Return SQL of a detection result with all windows of a part of event time that have fired."""
        groups = "".join(f", {name}" for name in self.group_columns)
        grid = self.grid
        lower = [f"{grid.ended('first', 'first')} + 1", *self._first_numbers(part, "first")]
        mark, options = f"(newest - {self.watermark_delay}L)", self.definition.options
        upper = [grid.closed(mark, "first")]
        if self.fires_early:
            upper = [grid.begun("newest" if options.opens_ahead else mark, "first")]
        if part.to_us is not None:
            upper.append(grid.begun(f"{part.to_us - 1}L", "first"))
        a = f"greatest({', '.join(lower)})" if len(lower) > 1 else lower[0]
        b = f"least({', '.join(upper)})" if len(upper) > 1 else upper[0]
        of = f" AND gid IN ({gids_sql(part.only)})" if part.only else ""
        none = "CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>)"
        return (
            f"SELECT gid{groups}, CAST({version} AS BIGINT) AS v, first, newest, {none} AS fires, "
            f"array(struct(a, b)) AS again, {none} AS gone, first AS first_gone, 0L AS rows, 0L AS late, "
            f"b - a + 1 AS windows, {grid.low('a', 'first')} AS low, {grid.high('b', 'first')} AS high "
            f"FROM (SELECT *, {a} AS a, {b} AS b FROM {state} WHERE first IS NOT NULL{of}) WHERE a <= b"
        )

    def _first_numbers(self, part: Part, first: str) -> list[str]:
        """Return SQL of the numbers that no window of a part goes below."""
        grid, numbers = self.grid, []
        if part.overlap_us is not None:
            numbers.append(f"{grid.ended(f'{part.overlap_us}L', first)} + 1")
        if part.from_us is not None:
            numbers.append(f"{grid.begun(f'{part.from_us - 1}L', first)} + 1")
        return numbers

    @property
    def begins_again(self) -> bool:
        """Whether a recalculation may find that its groups begin earlier, with rows that were left out."""
        return not self.refires and not self.grid.depends_on_first

    def first_of_part_sql(self, part: Part) -> str | None:
        """Return SQL of a part's first window: number, first instant, and that of the window before it (µs).

        None for a part without a beginning. Not for grids that depend on the first row.
        """
        numbers = self._first_numbers(part, "0L")
        if not numbers:
            return None
        first = f"greatest({', '.join(numbers)})" if len(numbers) > 1 else numbers[0]
        low, before = self.grid.low("k", "0L"), self.grid.low("(k - 1)", "0L")
        return f"SELECT k, {low} AS low, {before} AS before FROM (SELECT {first} AS k)"

    def begun_sql(self, state: str, early: str) -> str:
        """Return SQL of the groups' state, begun with the earliest of ``early`` (gid, early BIGINT µs)."""
        names = "".join(f", s.{name}" for name in self.group_columns)
        return (
            f"SELECT s.gid{names}, least(s.first, e.early) AS first, s.newest FROM {state} s LEFT JOIN "
            f"(SELECT gid, min(early) AS early FROM ({early}) GROUP BY gid) e ON s.gid = e.gid"
        )

    def rows_sql(self, changed: str | None, before: str | None, excluded: str | None) -> str:
        """Return SQL of the rows that windows may hold: those before the tick, and the changed ones.

        ``before`` is a view of the source's rows before the tick, ``excluded`` one of those among them
        that the stream never takes (written before it was created).
        """
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        marks = f"{self.group_id()} AS _ls_gid, {self.row_us} AS _ls_ts"
        parts = []
        if changed is not None:
            taken = "CAST(_commit_version AS BIGINT) AS _ls_v, CAST(_ls_sign AS BIGINT) AS _ls_sign"
            parts.append(f"SELECT {columns}, {marks}, {taken} FROM {changed} WHERE {self.admitted()}")
        if before is not None:
            rows = f"SELECT {columns} FROM {before}"
            if excluded is not None:
                rows = f"{rows} EXCEPT ALL SELECT {columns} FROM {excluded}"
            parts.append(
                f"SELECT {columns}, {marks}, -1L AS _ls_v, 1L AS _ls_sign "
                f"FROM ({rows}) WHERE {self.admitted()}"
            )
        return " UNION ALL ".join(parts)

    def placed_rows_sql(self, placed: str, excluded: str | None) -> str:
        """Return what :meth:`rows_sql` does of rows with their commit and place, which is in _ls_p.

        Of alike rows, as many as are excluded go, those of the first places.
        """
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        rows = placed
        if excluded is not None:
            same = " AND ".join(f"r.{quoted(name)} <=> e.{quoted(name)}" for name in self.changed_columns)
            rows = (
                f"(SELECT r.* FROM (SELECT *, row_number() OVER (PARTITION BY {columns} "
                f"ORDER BY _commit_version, {POSITION}) AS _ls_alike FROM {placed}) r LEFT JOIN "
                f"(SELECT {columns}, count(1) AS n FROM {excluded} GROUP BY {columns}) e ON {same} "
                f"WHERE r._ls_alike > coalesce(e.n, 0L))"
            )
        return (
            f"SELECT {columns}, {self.group_id()} AS _ls_gid, {self.row_us} AS _ls_ts, "
            f"_commit_version AS _ls_v, {POSITION} AS _ls_p FROM {rows} WHERE {self.admitted()}"
        )

    def windows_sql(self, fired: str, clock_us: int, *, opens: bool = True, wide: bool = True) -> str:
        """Return SQL of the windows to compute with their placeholders, from a detection result.

        ``opens``: of windows that compute when they open, those that are not closed do so now. ``wide``:
        some of its ranges may have very many windows; where only those with rows count, they are known by
        the rows, which are registered.
        """
        if self.is_periodic:
            return self._periods_sql(fired)
        if self.cut is not None:
            return self.cut_windows_sql(fired, clock_us)
        k, first = "k", "first"
        groups = "".join(f", {name}" for name in self.group_columns)
        times = self.grid.placeholders(k, first)
        opening = self._opening() if opens else ""
        if opening:
            times["_twend"] = f"CASE WHEN {opening} THEN {times['_twstart']} ELSE {times['_twend']} END"
        marks = "".join(f", timestamp_micros({sql}) AS {name}" for name, sql in times.items())
        if "_twstart" in times:
            marks += f", ({times['_twend']} - {times['_twstart']}) div 1000L AS _twduration"
        if "_tlocaltime" in self.calculation.used:
            # Only then: a literal that changes with every tick makes Spark compile its code anew.
            marks += f", {clock_us * 1000}L AS _tlocaltime"
        rows = self.counting_rows if wide else ""
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, {self.grid.low(k, first)} AS _ls_low, "
            f"{self.grid.high(k, first)} AS _ls_high{marks}, gid AS _tgrpid "
            f"FROM ({self.detection.windows_sql(fired, newest=bool(opening), rows=rows)})"
        )

    @property
    def counting_rows(self) -> str:
        """The relation of the rows that windows have to hold to count; empty where those without do too."""
        return ROWS if self.definition.options.ignore_nodata else ""

    def _opening(self) -> str:
        """Return SQL that is true for a window that opens, over its number, newest and first of its group."""
        options = self.definition.options
        if not options.at_open:
            return ""
        if not options.at_close:
            return "true"
        return f"k > {self.grid.closed(f'(newest - {self.watermark_delay}L)', 'first')}"

    # --- instants of the wall clock ---

    def _periods_sql(self, fired: str) -> str:
        """Return SQL of instants with their placeholders, from (gid, groups, k, c, low, high, after).

        ``low`` is the instant before, ``high`` the instant, ``after`` the one after it (BIGINT µs).
        """
        groups = "".join(f", {name}" for name in self.group_columns)
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, low AS _ls_low, high AS _ls_high, "
            f"low * 1000L AS _tprev_localtime, after * 1000L AS _tnext_localtime, "
            f"high * 1000L AS _tlocaltime, gid AS _tgrpid FROM {fired}"
        )

    def written_sql(self, changed: str, since_us: int) -> str:
        """Return SQL of the rows that were written since an instant: they are all of one trigger."""
        columns = ", ".join(quoted(name) for name in self.changed_columns)
        return (
            f"SELECT {columns}, {self.group_id()} AS _ls_gid, {since_us}L AS _ls_ts, "
            f"CAST(_commit_version AS BIGINT) AS _ls_v, 1L AS _ls_sign "
            f"FROM {changed} LATERAL VIEW explode(array_repeat(1, CAST(_ls_sign AS INT))) AS _ls_each "
            f"WHERE {self.admitted()}"
        )

    # --- rows that are admitted ---

    @property
    def time_name(self) -> str:
        """The name of the column that a row's time comes from."""
        fragment = self.definition.options.time_column
        return self.source.info.time_column if fragment is None else fragment.sql.strip("`")

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """The columns by whose hash rows of equal time are put in order: all that Spark can hash."""
        kinds = {column.name: column.type for column in self.source.info.columns}
        return tuple(name for name in self.changed_columns if "map<" not in kinds[name])

    def of_subtable(self) -> str:
        """Return SQL that narrows a condition to the subtable that the stream is on."""
        subtable = self.source.subtable
        return "" if subtable is None else f" AND {quoted(TBNAME)} = {quoted_text(subtable)}"

    # --- windows that are cut by rows ---

    def cut_rows_sql(self, cuts: str) -> str:
        """Return SQL of the registered rows to cut (_ls_gid, _ls_ts, _ls_x1, …).

        ``cuts`` is a view of (gid, from_us, upto, mark BIGINT µs): the rows from the one to the other, both
        included; where the stream keeps them, also of the instants of expired rows, which do not cut.
        """
        counting = " AND NOT array_contains(f.expired, r._ls_ts)" if self.keeps_expired else ""
        known = "r._ls_gid, r._ls_ts, f.mark AS _ls_mark"
        return f"SELECT {known}{self._looked_at()} {self._rows_to_cut(cuts, 'upto')}{counting}"

    def rows_in_runs_sql(self, cuts: str) -> str:
        """Return SQL of the registered rows to cut with all they have, each with its window's number.

        ``cuts`` has counted BIGINT and safe BIGINT µs besides: see :meth:`Cut.runs_sql`.
        """
        assert self.cut is not None
        known = "f.counted AS _ls_counted, r._ls_ts > f.safe AS _ls_is_new"
        return self.cut.runs_sql(f"SELECT r.*, {known}{self._looked_at()} {self._rows_to_cut(cuts, 'mark')}")

    def _looked_at(self) -> str:
        assert self.cut is not None
        expressions = "".join(f", ({sql}) AS {name}" for name, sql in self.cut.looked_up.items())
        return ", true AS _ls_x1" if self.cut.counts and not expressions else expressions

    def _rows_to_cut(self, cuts: str, upto: str) -> str:
        between = f"r._ls_ts BETWEEN f.from_us AND f.{upto}"
        return f"FROM {ROWS} r JOIN {cuts} f ON f.gid = r._ls_gid WHERE {between}"

    def cut_windows_sql(self, fired: str, clock_us: int, more: str = "") -> str:
        """Return SQL of windows with their placeholders, from (gid, groups, k, c, low, high, opening).

        ``more`` are columns that are passed on.
        """
        groups = "".join(f", {name}" for name in self.group_columns)
        local = f", {clock_us * 1000}L AS _tlocaltime" if "_tlocaltime" in self.calculation.used else ""
        passed = f", {more}" if more else ""
        last = "CASE WHEN opening THEN low ELSE high - 1 END"
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, low AS _ls_low, high AS _ls_high, "
            f"timestamp_micros(low) AS _twstart, timestamp_micros({last}) AS _twend, "
            f"({last} - low) div 1000L AS _twduration{local}, gid AS _tgrpid{passed} FROM {fired}"
        )


def _group_id(groups: Sequence[str]) -> str:
    """Return SQL for the number of a group, from SQL of what it is grouped by."""
    if not groups:
        return "0L"
    return f"xxhash64({', '.join(f'({group}) IS NULL, {group}' for group in groups)})"


def compile_stream(
    uuid: str,
    definition: StreamDefinition,
    catalog: Catalog,
    zone: str,
    *,
    exact: bool,
    way: Way | None = None,
    partial_types: Mapping[str, str] | None = None,
    floor_us: int | None = None,
) -> Stream:
    """Resolve a definition against the lake; ``way`` and ``partial_types`` are what creation found.

    Raises StatementError TABLE_NOT_FOUND or COLUMN_NOT_FOUND with the place in the statement.
    """
    database = definition.name.database or ""
    zone = definition.options.zone or zone
    names = Names(catalog, database, names_used(definition), zone)
    source = _source(definition.source, names, catalog, database)
    info, subtable = source.info, source.subtable
    if definition.options.one_table and has_subtables(info) and subtable is None:
        # Rows of equal time are told apart by their tables.
        definition = replace(definition, partition_by=(_OF_TABLE,))
    if not info.time_column and not definition.options.drops_late:
        raise StatementError(
            "NO_TIME_COLUMN",
            f"{info.database}.{info.name} has no time column, and a stream's trigger table needs one",
            hint="CREATE TABLE … LOCATION … TIMESTAMP BY says which column is the time; "
            "a query may join tables without one",
            place=_place(definition.source),
        )
    trigger = definition.trigger
    overlaps = isinstance(trigger, CountTrigger) and trigger.step < trigger.count
    grid: Grid = SpanGrid(disjoint=not overlaps)
    cut = None
    assigner = None
    if definition.options.drops_late:
        assigner = _assigner(definition, source, zone)
        grid = PlacedGrid(assigner.reach)
    elif isinstance(trigger, IntervalTrigger | SlidingTrigger):
        grid = grid_of(trigger, zone)
    elif isinstance(trigger, RowTrigger):
        cut = _cut(trigger, source, zone, tells=definition.notification is not None)
    relation = relation_of(info, subtable, names.used)
    if assigner is not None:
        relation = replace(relation, order=ORDER)
    scope = Scope(
        relation,
        tuple(f"_ls_g{number}" for number, _ in enumerate(definition.partition_by, 1)),
        next((n for n, key in enumerate(definition.partition_by, 1) if key.is_tbname), None),
        COMMON_PLACEHOLDERS | _placeholders(trigger),
        zone,
        names.relation,
    )
    calculation = compile_calculation(definition.calculation, scope)
    if definition.options.fill is not None:
        calculation = filled(calculation, definition.options.fill)
    condition = definition.options.pre_filter
    groups = tuple(_row_expression(key.expression, source, zone) for key in definition.partition_by)
    return Stream(
        uuid,
        definition,
        zone,
        source,
        groups,
        _row_expression(condition, source, zone) if condition else None,
        grid,
        calculation,
        way or choose_way(calculation, grid, groups, at_open=definition.options.at_open),
        names.tables,
        exact,
        partial_types,
        floor_us,
        cut,
        assigner,
        _time_us(definition.options, source, zone) if assigner is not None else "",
    )


def _source(name: TableName, names: Names, catalog: Catalog, database: str) -> Source:
    """Return the trigger table of a name; a stream without one has the lake's clock in its place."""
    if name == CLOCK:
        return Source(catalog.clock(), None)
    info, subtable = names.find(name.database or database, name.name)
    names.tables[f"{info.database}.{info.name}"] = info
    return Source(info, subtable)


def _place(name: TableName) -> Place:
    return Place(name.line, name.column, len(name.name))


def _placeholders(trigger: Trigger) -> frozenset[str]:
    if isinstance(trigger, SlidingTrigger):
        return SLIDING_PLACEHOLDERS
    return PERIOD_PLACEHOLDERS if isinstance(trigger, PeriodTrigger) else WINDOW_PLACEHOLDERS


def _assigner(definition: StreamDefinition, source: Source, zone: str) -> Assigner:
    trigger = definition.trigger
    assert not isinstance(trigger, SlidingTrigger | PeriodTrigger | SessionTrigger | StateTrigger)
    assert not isinstance(trigger, EventTrigger | CountTrigger)  # no statement combines them
    found = [_row_expression(fragment, source, zone) for fragment in trigger_fragments(trigger)]
    return assigner_of(trigger, zone, found, by_arrival=definition.options.by_arrival)


def _timestamp_us(name: str) -> str:
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"


def _time_us(options: StreamOptions, source: Source, zone: str) -> str:
    """Return SQL of a row's time; texts are read as times, integers as milliseconds (eKuiper).

    Raises StatementError TIMESTAMP_MISSING or TIMESTAMP_TYPE.
    """
    if options.by_arrival:
        return "CAST(NULL AS BIGINT)"
    fragment = options.time_column
    if options.exact and fragment is not None and fragment.sql.strip("`") != source.info.time_column:
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
    name = source.info.time_column if fragment is None else _row_expression(fragment, source, zone).strip("`")
    kind, column = source.info.column(name).type, quoted(name)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return _timestamp_us(name)
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


def _cut(trigger: RowTrigger, source: Source, zone: str, *, tells: bool) -> Cut:
    """Return the cut of a trigger over a table.

    Raises StatementError SESSION_COLUMN (not the time), COLUMN_NOT_FOUND, COUNT_COLUMN (a tag).
    """
    if isinstance(trigger, SessionTrigger):
        known = {source.info.time_column.lower(), *TIME_PSEUDO_COLUMNS}
        if trigger.column.lower() not in known:
            raise StatementError(
                "SESSION_COLUMN",
                f"SESSION goes by the event time, {trigger.column} is another column",
                hint=f"SESSION({source.info.time_column}, {trigger.gap})",
            )
    if isinstance(trigger, CountTrigger):
        tags = {column.name.lower() for column in source.info.columns if column.is_tag} | {TBNAME}
        for fragment in trigger.columns:
            if parse_expression(fragment).name.lower() in tags:
                raise StatementError(
                    "COUNT_COLUMN",
                    f"COUNT_WINDOW counts by columns, {fragment.sql} is a tag",
                    place=place_of(fragment),
                )
    found = [_row_expression(fragment, source, zone) for fragment in trigger_fragments(trigger)]
    if isinstance(trigger, CountTrigger) and found:
        found = [" OR ".join(f"({sql}) IS NOT NULL" for sql in found)]
    if isinstance(trigger, EventTrigger):
        seen = [_columns_seen(fragment, source) for fragment in trigger_fragments(trigger)] if tells else []
        found = [*(f"coalesce({sql}, false)" for sql in found), *seen]
    ties = [quoted(name) for name in source.info.key if name != source.info.time_column]
    return cut_of(trigger, found, ties, tells=tells)


def _columns_seen(fragment: Fragment, source: Source) -> str:
    """Return SQL of the columns that a condition looks at in a row, as a JSON object."""
    known = {name.lower(): name for name in source.columns}
    seen = [_path(column, source)[1][0] for column in parse_expression(fragment).find_all(exp.Column)]
    names = dict.fromkeys(known[name.lower()] for name in seen if name.lower() in known)
    listed = ", ".join(f"{quoted_text(name)}, {quoted(name)}" for name in names)
    return f"to_json(named_struct({listed}), map('ignoreNullFields', 'false'))" if names else "'{}'"


def _path(node: exp.Column, source: Source) -> tuple[str, list[str]]:
    """Return the table that a column is said to be of, its name, and those of the fields in it.

    So ``t.customer.id`` is of t, and ``customer.id`` of no table (an empty text).
    """
    nested = {column.name.lower() for column in source.info.columns if "<" in column.type}
    qualifier, names = "", [part.name for part in node.parts]
    while len(names) > 1 and names[0].lower() not in nested:
        qualifier = names.pop(0)
    return qualifier, names


def _row_expression(fragment: Fragment, source: Source, zone: str) -> str:
    """Return an expression over the trigger table's rows (PARTITION BY, PRE_FILTER) as Spark SQL."""
    known = {name.lower(): name for name in source.columns}
    tables = {"", source.info.name.lower(), (source.subtable or "").lower()}

    def resolve(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        qualifier, (written, *fields) = _path(node, source)
        name = written.lower()
        if qualifier.lower() not in tables:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{qualifier}.{written} is no column of {source.info.database}.{source.info.name}",
                hint=written,
                place=place_in(fragment, node),
            )
        if name == TBNAME:
            return exp.Var(this=source.tbname())
        if name in TIME_PSEUDO_COLUMNS:
            return exp.column(source.info.time_column, quoted=True)
        if name not in known:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{source.info.database}.{source.info.name} has no column {written}",
                hint=did_you_mean(written, source.columns),
                place=place_in(fragment, node),
            )
        found: exp.Expr = exp.column(known[name], quoted=True)
        for field in fields:
            found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
        return found

    tree = in_spark(parse_expression(fragment), Meaning(zone), fragment)
    return str(tree.transform(resolve).sql("spark"))
