"""What happened to windows of a grid, by a detection result: opened, closed, closed again, or no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.windows.events import EVENTS, kind_sql
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.language.model import ON_TIME, WINDOW_CLOSE, WINDOW_OPEN, SlidingTrigger
from lakestream.notify.events import WINDOW_INVALIDATION
from lakestream.storage.rows.views import view_of_rows, view_of_sql
from lakestream.triggers.detect import numbered_sql

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import TickInput
    from lakestream.storage.rows.views import View

_OPEN_BEFORE, _BEGUN = "ls_open_before", "ls_begun"


@dataclass(frozen=True)
class GridEvents:
    """The events of one tick, from its detection result ``fired`` over the groups of ``state``."""

    given: TickInput
    fired: View
    state: View

    @property
    def stream(self) -> Stream:
        """The stream that tells."""
        return self.given.stream

    @property
    def queries(self) -> GridQueries:
        """The queries of the stream."""
        return GridQueries(self.stream)

    @property
    def _tells_openings(self) -> bool:
        return self.given.rules is not None and WINDOW_OPEN in self.given.rules.wanted

    def of_rows(self) -> View | None:
        """Return what changed rows did: windows that closed, again or for the first time, opened or went."""
        found = []
        if not self.stream.emission.by_clock:
            found.append(self._closings())
        if not isinstance(self.stream.definition.trigger, SlidingTrigger):
            found += [self._retracted(), *self._opened_and_left()]
        return view_of_sql(self.given.spark, " UNION ALL ".join(found), EVENTS) if found else None

    def of_closing(self, *, recomputes: bool = False) -> View:
        """Return the windows that the clock (``recomputes``: a recalculation) has let fire."""
        return view_of_sql(self.given.spark, self._closings(closed_only=recomputes), EVENTS)

    def _groups(self) -> str:
        return "".join(f", {name}" for name in self.stream.group_columns)

    def _closings(self, *, closed_only: bool = False) -> str:
        """Return SQL of the windows that a detection result lets fire."""
        grid, k, first = self.stream.grid, "k", "first"
        kind = ON_TIME if isinstance(self.stream.definition.trigger, SlidingTrigger) else WINDOW_CLOSE
        windows = self.queries.detection.windows_sql(str(self.fired), newest=closed_only)
        still = ""
        if closed_only:
            still = f" WHERE k <= {grid.closed(f'(newest - {self.stream.watermark_delay}L)', first)}"
        return (
            f"SELECT gid{self._groups()}, {grid.low(k, first)} AS low, {grid.high(k, first)} AS high, "
            f"{kind_sql(kind, 'refired')} FROM ({windows}){still}"
        )

    def _retracted(self) -> str:
        """Return SQL of the windows that are no more by a detection result."""
        grid, k, first = self.stream.grid, "k", "first_retracted"
        return (
            f"SELECT gid{self._groups()}, {grid.low(k, first)} AS low, {grid.high(k, first)} AS high, "
            f"{kind_sql(WINDOW_INVALIDATION, 'true')} "
            f"FROM ({numbered_sql(f'gid{self._groups()}, first_retracted', 'retracted', str(self.fired))}) "
            f"WHERE {grid.exists(k)}"
        )

    def _opened_and_left(self) -> list[str]:
        """Return SQL of the windows that opened, and of those that were open and are no more."""
        if self.stream.definition.options.ignore_nodata:
            return self._by_their_rows() if self._tells_openings else []
        found = [self._openings()] if self._tells_openings else []
        if self.stream.deletes:
            found.append(self._left())
        if self.stream.exact and self._tells_openings:
            found.append(self._reopened())
        return found

    def _openings(self) -> str:
        """Return SQL of the windows whose start the watermark has reached in the tick.

        So do those that an earlier first row of a group brings.
        """
        base, base_before, begun, begun_before, *_ = self._bounds()
        ranges = (
            f"CASE WHEN first_before IS NULL THEN array(struct({base} + 1 AS a, {begun} AS b)) ELSE array("
            f"struct(greatest({base}, {begun_before}) + 1 AS a, {begun} AS b), "
            f"struct({base} + 1 AS a, least({base_before}, {begun}) AS b)) END"
        )
        return self._happening(WINDOW_OPEN, self._ranged(ranges))

    def _left(self) -> str:
        """Return SQL of open windows that are no more: the watermark or the first row has passed them."""
        return self._happening(WINDOW_INVALIDATION, self._ranged(self.queries.left_open_ranges(), "_before"))

    def _reopened(self) -> str:
        """Return SQL of the windows that had closed and are open again: the watermark went back."""
        base, _, begun, _, closed, closed_before = self._bounds()
        ranges = (
            f"array(struct(greatest({base}, {closed}) + 1 AS a, "
            f"CASE WHEN first_before IS NOT NULL THEN least({begun}, {closed_before}) END AS b))"
        )
        return self._happening(WINDOW_OPEN, self._ranged(ranges))

    def _by_their_rows(self) -> list[str]:
        """Return SQL of what opened and what is no more, where windows without rows do not count.

        A window opens when the watermark has reached a row of it, or by a late row; it goes
        with its last row.
        """
        base, base_before, begun, begun_before, closed, closed_before = self._bounds()
        were = f"array(struct(greatest({base_before}, {closed_before}) + 1 AS a, {begun_before} AS b))"
        stays_closed = f"CASE WHEN {closed_before} IS NOT NULL THEN least({closed}, {closed_before}) END"
        begins = (
            f"array(struct(greatest({base}, {stays_closed}) + 1 AS a, {begun} AS b), "
            f"struct({base} + 1 AS a, least({base_before}, {begun}) AS b))"
        )
        plan = self.given.plan
        before = plan.upto if plan.kind == "history" else plan.after
        self._keep_with_rows(_OPEN_BEFORE, self._ranged(were, "_before"), before)
        self._keep_with_rows(_BEGUN, self._ranged(begins), plan.upto)
        late = f"SELECT * FROM ({self._closings()}) WHERE refired"
        return [
            self._happening(WINDOW_OPEN, _without(_BEGUN, _OPEN_BEFORE)),
            self._happening(WINDOW_OPEN, _without(f"({late})", _BEGUN), "true"),
            self._happening(WINDOW_INVALIDATION, _without(_OPEN_BEFORE, _BEGUN)),
        ]

    def _happening(self, kind: str, windows: str, refired: str = "false") -> str:
        return f"SELECT gid{self._groups()}, low, high, {kind_sql(kind, refired)} FROM ({windows})"

    def _bounds(self) -> tuple[str, ...]:
        """Return SQL of window numbers, each now and before: before the first, last begun, last closed."""
        grid, watermark = self.stream.grid, self.stream.watermark_delay
        watermarks = [(f"(newest{when} - {watermark}L)", f"first{when}") for when in ("", "_before")]
        bases = [grid.ended(first, first) for _, first in watermarks]
        begun = [grid.begun(watermark, first) for watermark, first in watermarks]
        return (*bases, *begun, *(grid.closed(watermark, first) for watermark, first in watermarks))

    def _ranged(self, ranges: str, when: str = "") -> str:
        """Return SQL of the windows of ranges over groups as they are now and were before the tick.

        They are (gid, group columns, low, high, mark); ``when``: of the groups now, or "_before".
        """
        groups = "".join(f", any_value(f.{name}) AS {name}" for name in self.stream.group_columns)
        moved = (
            f"SELECT f.gid{groups}, min(f.first) AS first, max(f.newest) AS newest, "
            f"any_value(s.first) AS first_before, any_value(s.newest) AS newest_before "
            f"FROM {self.fired} f LEFT JOIN {self.state} s ON s.gid = f.gid GROUP BY f.gid"
        )
        grid, first = self.stream.grid, f"first{when}"
        columns = f"gid{self._groups()}, {first}, newest{when}"
        numbered = numbered_sql(columns, ranges, f"({moved}) WHERE {first} IS NOT NULL")
        return (
            f"SELECT gid{self._groups()}, {grid.low('k', first)} AS low, {grid.high('k', first)} AS high, "
            f"newest{when} - {self.stream.watermark_delay}L AS mark "
            f"FROM (SELECT DISTINCT * FROM ({numbered})) WHERE {grid.exists('k')}"
        )

    def _keep_with_rows(self, view: str, windows: str, version: int) -> None:
        """Register those of the windows that have a row up to the watermark at a version of the source."""
        ends = f"SELECT coalesce(min(low), 0) AS low, coalesce(max(high), 0) AS high FROM ({windows})"
        (span,) = self.given.spark.sql(ends).toArrow().to_pylist()
        low, high = span["low"], span["high"]
        self.given.relations.rows_at(version, [(low, high)])
        within = "r._ls_gid = w.gid AND r._ls_ts >= w.low AND r._ls_ts < w.high AND r._ls_ts <= w.mark"
        kept = self.given.spark.sql(f"SELECT w.* FROM ({windows}) w LEFT SEMI JOIN {ROWS} r ON {within}")
        view_of_rows(self.given.spark, kept.toArrow(), view)


def _without(windows: str, others: str) -> str:
    """Return SQL of windows that are none of the others."""
    return f"SELECT a.* FROM {windows} a LEFT ANTI JOIN {others} b ON b.gid = a.gid AND b.low = a.low"
