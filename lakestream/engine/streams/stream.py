"""A stream, compiled: its definition resolved against the lake, and the SQL that its ticks run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.compute.expressions.functions import aggregates
from lakestream.compute.windows.calculation import (
    ROWS,
    Calculation,
)
from lakestream.compute.windows.evaluate import Evaluation, Way
from lakestream.compute.windows.incremental import Incremental, can_be_incremental
from lakestream.compute.windows.keyed.keys import Share
from lakestream.engine.base.names import (
    TBNAME,
)
from lakestream.engine.base.state import gids_sql
from lakestream.engine.streams.expectations import stays_sql
from lakestream.language.quoting import quoted, quoted_text
from lakestream.triggers.kinds import is_periodic, late_rows_refire, step_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.compute.windows.keyed.keys import Keys
    from lakestream.compute.windows.reach import Path
    from lakestream.engine.streams.expectations import Check
    from lakestream.engine.streams.source import Source
    from lakestream.language.model import (
        StreamDefinition,
    )
    from lakestream.language.policies import Emission, LatePolicy
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.triggers.analytic import Analytic
    from lakestream.triggers.assign import Assigner
    from lakestream.triggers.cut import Cut
    from lakestream.triggers.grid import Grid


@dataclass(frozen=True)
class EventRange:
    """A range of event time: windows that begin in ``[from_us, to_us)`` and end after ``overlap_us``.

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

    @property
    def begins_anew(self) -> bool:
        """Whether no row of a window lies before it: it is the first part of a stream's whole time."""
        return self.overlap_us is None and self.from_us is None


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
    analytic: Analytic | None = None
    """Functions of an event and those before it; None where it has none. FILTER comes behind them then."""
    time_us: str = ""
    """SQL of a row's time (BIGINT µs, NULL where it has none), of a stream that admits rows."""
    waiting_groups: tuple[int, ...] = ()
    """The groups of which it takes no row for now."""
    group_types: tuple[str, ...] = ()
    """Types of the group columns; none where they are not known, as of a stream that is being created."""
    followed: tuple[Path, ...] = ()
    """How changes of other tables that its query reads lead to windows (EXACT(ALL))."""
    checks: tuple[Check, ...] = ()
    """What rows of the source are to meet."""
    keys: Keys | None = None
    """How the rows of a view without windows fall apart by keys; None where they do not."""
    why_whole: str = ""
    """Why a view is computed as a whole, where it is."""

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The names of the group columns in all relations of a tick."""
        return tuple(f"_ls_g{number}" for number, _ in enumerate(self.groups, 1))

    @property
    def emission(self) -> Emission:
        """When results of windows are computed."""
        return self.definition.options.emission

    @property
    def late(self) -> LatePolicy:
        """What becomes of late rows."""
        return self.definition.options.late

    @property
    def refires(self) -> bool:
        """Whether a late row makes its windows fire again (TDengine A7; IGNORE_DISORDER; EXACT)."""
        if self.exact:
            return True
        if self.late.ignores_late:
            return False
        expires_closed = self.late.expires_closed
        return late_rows_refire(self.definition.trigger, expires_closed=expires_closed)

    @property
    def is_periodic(self) -> bool:
        """Whether the wall clock alone triggers it."""
        return is_periodic(self.definition.trigger)

    @property
    def follows_source(self) -> bool:
        """Whether rows that are only added give the same windows however they are cut into commits."""
        if self.assigner is not None:
            return False
        return self.refires and self.late.expired_time is None

    @property
    def goes_by_ticks(self) -> bool:
        """Whether what it writes depends on when its ticks were, which only their record tells."""
        options = self.definition.options
        return self.is_periodic or options.emission.by_clock or options.late.by_arrival

    @property
    def forgets_what_went(self) -> bool:
        """Whether a row that came and went leaves nothing behind: all follows from the source as it is.

        It does not where it depends on what came when, or on the clock.
        """
        return self.exact and self.cut is None and not self.emission.fires_early and not self.goes_by_ticks

    @cached_property
    def keeps_order(self) -> bool:
        """Whether it shows in which order rows of equal time came: it is then found out.

        By a window's rows or bounds, or as the window's rows are output as they are.
        """
        query = self.calculation.query
        gives_rows = not (query.args.get("group") or aggregates(query.selects))
        return self.assigner is not None and (
            self.assigner.goes_by_order
            or self.analytic is not None
            or self.calculation.orders_rows
            or gives_rows
        )

    @property
    def row_us(self) -> str:
        """SQL of a row's time in microseconds."""
        return self.time_us or f"unix_micros({self.source.time})"

    @property
    def logged_time(self) -> str:
        """The name by which commits tell the times of its source, empty where they do not.

        What its time is made of is told there, which need be no timestamp.
        """
        return "" if self.source.info.read_time is not None else self.source.info.time_column

    @property
    def follows_updates(self) -> bool:
        """Whether a rewritten row makes its windows fire again, for what it was and for what it is."""
        return (self.refires and not self.counts_rewritten) or self.late.follows_updates

    @property
    def counts_rewritten(self) -> bool:
        """Whether a rewritten row counts as one more: what it was stays (classic IGNORE UPDATE 1)."""
        return self.late.counts_rewritten and not self.exact

    @property
    def deletes(self) -> bool:
        """Whether a deleted row makes its windows fire again."""
        return self.exact or self.late.delete_recalc

    @property
    def watermark_delay(self) -> int:
        """WATERMARK in microseconds."""
        watermark = self.definition.options.watermark
        return watermark.micros if watermark else 0

    @property
    def step_us(self) -> int:
        """About how far windows lie apart, in microseconds."""
        return step_us(self.definition.trigger)

    @property
    def expiry(self) -> int | None:
        """EXPIRED_TIME in microseconds; None: rows never expire."""
        expired = self.late.expired_time
        return expired.micros if expired else None

    @cached_property
    def incremental(self) -> Incremental | None:
        """How windows are kept by partial aggregates; None where they cannot be."""
        options = self.definition.options
        if (
            self.partial_types is None
            or self.calculation.carried
            or not can_be_incremental(
                self.calculation, self.grid, self.way, only_with_rows=options.ignore_nodata
            )
        ):
            return None
        return Incremental(
            self.calculation,
            self.grid,
            self.group_columns,
            group_sql(self.group_columns),
            self.watermark_delay,
            self.expiry,
            self.refires,
            options.ignore_nodata,
            options.emission.at_once,
            self.partial_types,
        )

    def evaluation(
        self,
        *,
        retracts: bool = False,
        settled: bool = False,
        previous: str | None = None,
        share: Share = Share.ALL,
    ) -> Evaluation:
        """How the calculation is evaluated.

        ``retracts``: rows were taken back in the tick; ``settled``: the rows are those of the source as
        it is, so that a window need not tell what was there when it fired; ``previous``: a view of the
        values that stand before the windows (FILL(PREV)); ``share``: of which keys.
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
            keys=self.keys,
            share=share,
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
        return group_sql(self.groups)

    def group_list(self) -> str:
        """Return select items of the group columns, each behind a comma."""
        return "".join(
            f", {group} AS {name}" for group, name in zip(self.groups, self.group_columns, strict=True)
        )

    def admitted(self) -> str:
        """Return SQL that holds for rows that the trigger sees: PRE_FILTER, EXPECT, the subtable, a time.

        Those of groups that wait are not among them.
        """
        parts = [f"{self.row_us if self.time_us else self.source.time} IS NOT NULL"]
        if self.floor_us is not None:
            parts.append(f"unix_micros({self.source.time}) >= {self.floor_us}L")
        if self.source.subtable is not None:
            parts.append(f"{quoted(TBNAME)} = {quoted_text(self.source.subtable)}")
        if self.condition:
            parts.append(f"({self.condition})")
        if stays := stays_sql(self.checks):
            parts.append(stays)
        if self.waiting_groups:
            parts.append(f"{self.group_id()} NOT IN ({gids_sql(self.waiting_groups)})")
        return " AND ".join(parts)

    @property
    def counting_rows(self) -> str:
        """The relation of the rows that windows have to hold to count; empty where those without do too."""
        return ROWS if self.definition.options.ignore_nodata else ""

    # --- instants of the wall clock ---

    # --- rows that are admitted ---

    @property
    def time_name(self) -> str:
        """The name of the column that a row's time comes from."""
        fragment = self.late.time_column
        return self.source.info.time_column if fragment is None else fragment.sql.strip("`")

    # --- windows that are cut by rows ---


def opens_once(stream: Stream) -> bool:
    """Return whether what a stream computes as its windows open stays, whatever changes then."""
    is_net = stream.exact and stream.cut is None and stream.emission.max_delay is None
    return stream.emission.at_open and not is_net


def followed_paths(stream: Stream) -> list[str]:
    """Return where the tables lie beside its source whose changes a stream follows."""
    found = dict.fromkeys(stream.tables[path.read.relation.key].path for path in stream.followed)
    return [path for path in found if path != stream.source.info.path]


def group_sql(groups: Sequence[str]) -> str:
    """Return SQL for the number of a group, from SQL of what it is grouped by."""
    if not groups:
        return "0L"
    return f"xxhash64({', '.join(f'({group}) IS NULL, {group}' for group in groups)})"


def timestamp_us(name: str) -> str:
    """Return SQL of a time column in microseconds."""
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"
