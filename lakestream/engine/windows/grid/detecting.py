"""Windows of a grid detected from changed rows: which ones fire, fire again or go, and the next state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.state import summary_of, summary_sql
from lakestream.engine.reading.narrowed import of_groups
from lakestream.engine.reading.queries import changes_sql
from lakestream.engine.reading.relations import CHANGED, CHANGES, EXTREMES, FIRED
from lakestream.engine.streams.stream import EventRange, opens_once
from lakestream.engine.streams.write import windows_from, windows_in_range
from lakestream.engine.windows.family import Advance, Fired
from lakestream.engine.windows.grid.events import GridEvents
from lakestream.engine.windows.grid.extremes import Extremes
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.engine.windows.totals import least, spans_of, total
from lakestream.engine.windows.waiting import check_groups, check_windows
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql
from lakestream.triggers.detect import WIDE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lakestream.engine.base.rows import Rows
    from lakestream.engine.reading.relations import Spans
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import TickInput
    from lakestream.storage.rows.views import View
    from lakestream.triggers.detect import NetDetection

_SHOWN, _TOUCHED = "ls_shown", "ls_touched"


@dataclass(frozen=True)
class Detected:
    """A detection result that is registered, and what it comes to by group."""

    view: View
    summary: pa.Table

    @property
    def windows(self) -> int:
        """How many windows fire."""
        return total(self.summary, "windows")

    @property
    def spans(self) -> Spans:
        """The event time that they lie in."""
        return spans_of(self.summary["low"], self.summary["high"])


def detected(given: TickInput, found: Rows) -> Detected:
    """Register a detection result, and sum it up; raises TooManyWindowsError.

    Not where only windows with rows count, of which a row makes few, unless events are emitted for them. What
    is committed is not computed again.
    """
    view, groups = view_of(found.frame, FIRED), given.stream.group_columns
    if found.here is not None:
        summary = summary_of(found.here, groups)
    else:
        summary = given.spark.sql(summary_sql(str(view), groups)).toArrow()
    lists_all = not given.stream.counting_rows or given.rules is not None
    if not lists_all or given.output_committed:
        return Detected(view, summary)
    if given.touched is not None:
        # Other tables have touched them: no row of theirs lies far from the others.
        check_windows(total(summary, "windows"), given.most_windows)
    else:
        check_groups(given.stream, summary, summary["windows"], given.most_windows)
    return Detected(view, summary)


@dataclass(frozen=True)
class Detecting:
    """One tick's detection over its changed rows, which are registered."""

    given: TickInput

    @property
    def _queries(self) -> GridQueries:
        return GridQueries(self.given.stream)

    def run(self) -> Advance:
        """Return what fires, what goes, and the state behind it."""
        given, stream = self.given, self.given.stream
        changes = view_of_sql(given.spark, changes_sql(stream, CHANGED), CHANGES)
        state = given.touched_view(changes)
        fired = self._fired(changes, state)
        found, events = None, None
        if given.rules is not None:
            # Which of them open, or are no more, is found out by a list of them.
            found = detected(given, fired)
            events = GridEvents(given, found.view, state).of_rows()
        early = self._of_emission(fired, changes, state)
        if early is not None or found is None:
            found = detected(given, fired if early is None else early)
        return self._advance(found, events)

    def _advance(self, found: Detected, events: View | None) -> Advance:
        given, stream = self.given, self.given.stream
        counted = {name: total(found.summary, name) for name in ("rows", "late", "refired", "retracted")}
        touched = found.summary.select(["gid", *stream.group_columns, "first", "newest"])
        state = given.state.updated(touched)
        if given.output_committed:
            return Advance(state, counted["rows"], counted["late"], windows=found.windows)
        return Advance(
            state,
            counted["rows"],
            counted["late"],
            windows=found.windows,
            fired=fired_of(given, found, settled=stream.exact),
            replaced=self._rewritten(counted, found.view),
            events=events,
        )

    def _fired(self, changes: View, state: View) -> Rows:
        given, queries, named = self.given, self._queries, (str(changes), str(state))
        materialize, extremes = given.transport.materialize, Extremes(given.spark, given.relations)
        if given.stream.exact:
            if extremes.ends(changes, state, both=True) is None:
                extremes.none()
            if given.touched is not None:
                view_of_rows(given.spark, given.touched, _TOUCHED)
            return self._net(queries.net_detection, changes, state)
        fired = materialize(given.spark.sql(queries.detection.sql(*named)))
        if not given.stream.deletes or given.plan.appends_only:
            return fired
        ends = extremes.ends(changes, state, both=False)
        if ends is None:
            return fired
        sql = queries.detection.without_first_sql(str(view_of(fired.frame, FIRED)), named[1], str(ends))
        return materialize(given.spark.sql(sql))

    def _net(self, detection: NetDetection, changes: View, state: View) -> Rows:
        """Return what fires by the windows that there are; ends of groups, and what is touched, are known."""
        given = self.given
        hit = None if given.touched is None else _TOUCHED
        return given.transport.materialize(
            given.spark.sql(detection.sql(str(changes), str(state), EXTREMES, hit))
        )

    # --- what fires before it closes ---

    def _of_emission(self, fired: Rows, changes: View, state: View) -> Rows | None:
        """Return the detection result with what fires by other events than a closing; None for the same."""
        if self.given.stream.emission.at_open and not opens_once(self.given.stream):
            return self._net(self._queries.net_emission, changes, state)
        return self._early(fired, state)

    def _early(self, fired: Rows, state: View) -> Rows | None:
        """Return the detection result with what fires by other events than a closing; None for the same."""
        given, stream = self.given, self.given.stream
        shown = self._shown(state)
        if stream.emission.by_mark and shown is None:
            return None
        anew = _renews_open(stream) and not (given.plan.appends_only and given.target.unique)
        view = view_of(fired.frame, FIRED)
        sql = self._queries.early_sql(str(view), str(state), anew=anew, shown=shown)
        return given.transport.materialize(given.spark.sql(sql))

    def _shown(self, state: View) -> str | None:
        """Return SQL of the open windows that MAX_DELAY has shown, where rows of them may have gone."""
        import pyarrow as pa

        given, options = self.given, self.given.stream.definition.options
        if options.emission.max_delay is None or given.plan.appends_only or given.output_committed:
            return None
        if not given.target.shape.provenance or not len(given.state):
            return None
        opened = given.spark.sql(self._queries.open_sql(str(state))).toArrow()
        if not opened.num_rows:
            return None
        there = windows_from(given.tables, given.target, least(opened["low"]))
        open_now = {*zip(opened["gid"].to_pylist(), opened["low"].to_pylist(), strict=True)}
        found = open_now.intersection((gid, low) for gid, low, _ in there)
        if not found:
            return None
        gids, lows = zip(*sorted(found), strict=True)
        shown = pa.table({"gid": pa.array(gids, pa.int64()), "low": pa.array(lows, pa.int64())})
        view = view_of_rows(given.spark, shown, _SHOWN)
        return f"SELECT gid, collect_list(low) AS lows FROM {view} GROUP BY gid"

    # --- what goes ---

    def _rewritten(self, counted: Mapping[str, int], fired: View) -> list[pa.Table]:
        """Return group and start of the windows whose old rows go."""
        given, detection = self.given, self._queries.detection
        found = []
        if counted["refired"]:
            found.append(given.spark.sql(detection.refired_sql(str(fired))).toArrow())
        if counted["retracted"]:
            retracted = given.spark.sql(detection.retracted_sql(str(fired))).toArrow()
            found += [
                retracted.filter(retracted["high"].is_null()).drop_columns(["high"]),
                *self._widely_retracted(retracted),
            ]
        return found

    def _widely_retracted(self, retracted: pa.Table) -> list[pa.Table]:
        """Return the windows of wide ranges that are no more, as far as the output has them."""
        import pyarrow as pa

        ranges, target = retracted.filter(retracted["high"].is_valid()).to_pylist(), self.given.target
        if not ranges or not target.shape.provenance:
            return []
        event_range = EventRange(groups=tuple((row["gid"], row["low"], row["high"] + 1) for row in ranges))
        there = windows_in_range(self.given.tables, target, event_range)
        windows = {"gid": [gid for gid, *_ in there], "low": [low for _, low, _ in there]}
        return [pa.table(windows, schema=retracted.schema.remove(retracted.schema.get_field_index("high")))]


def fired_of(given: TickInput, found: Detected, *, settled: bool, opens: bool = True) -> Fired | None:
    """Return the windows of a detection result as what is to be computed; None for none."""
    if not found.spans:
        return None
    wide = found.windows > WIDE
    queries = GridQueries(given.stream)
    sql = queries.windows_sql(str(found.view), given.plan.clock_us, opens=opens, wide=wide)
    narrowed, own = of_groups(given.stream, found.summary)
    return Fired(found.spans, sql, settled, narrowed=narrowed, own=own)


def _renews_open(stream: Stream) -> bool:
    """Return whether what is written of open windows comes anew with each change of their group.

    So does the opening of windows that open with their first row, and go with their last one.
    """
    options = stream.definition.options
    return options.emission.at_once or (options.emission.at_open and options.ignore_nodata)
