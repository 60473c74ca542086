"""Windows that are cut by rows and computed in one query: where rows came only behind what was cut.

That is what nearly every tick brings. Each row is given its window by a sort, and the windows their
results by one aggregate over it; :mod:`cutting` has what late rows and other changes need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.evaluate import Way
from lakestream.engine.base.rows import Rows
from lakestream.engine.base.state import CLOSED, EXPIRED, MANY_GROUPS, none_listed, with_number
from lakestream.engine.reading.relations import EVER
from lakestream.engine.reading.transport import SPARK, fits_here
from lakestream.engine.windows.rows.policy import keeps_closed, keeps_expired
from lakestream.engine.windows.rows.queries import RowQueries
from lakestream.engine.windows.totals import spans_of, total
from lakestream.language.quoting import quoted
from lakestream.storage.rows.views import view_of, view_of_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import TickInput
    from lakestream.storage.records.registry import TickPlan
    from lakestream.storage.rows.views import View

_GROUPS, _CUT = "ls_passing", "ls_passed"
_OPENED = ["_ls_gid", "_ls_low", "_ls_lasts", "_ls_counted"]
_ENDS = ["_ls_gid", "_ls_high"]


def is_in_order(stream: Stream, target: Target, plan: TickPlan) -> bool:
    """Return whether a tick may be made in one query, should its rows turn out to be in order."""
    return (
        may_be_in_order(stream)
        and plan.appends_only
        and plan.kind in ("changes", "history")
        and target.unique
        and target.shape.provenance is not None
    )


def may_be_in_order(stream: Stream) -> bool:
    """Return whether ticks of a stream that only take added rows may be made in one query."""
    emission = stream.definition.options.emission
    return (
        stream.cut is not None
        and stream.cut.is_disjoint
        and stream.way is Way.GROUPED
        and stream.definition.notification is None
        and emission.at_close
        and not emission.fires_early
    )


def known_sums(stream: Stream, state: GroupState, added: pa.Table | None) -> pa.Table | None:
    """Return added rows summed up by group as ``Cutting.summed`` does it, without a query for it.

    None where that takes one: groups that are new, or by more than columns; a PRE_FILTER; late rows. Where
    there are many groups, it costs more than a query.
    """
    names = _plain_groups(stream)
    if len(state) > MANY_GROUPS or added is None or state.rows is None or stream.cut is None or not names:
        return None
    columns = dict(zip(stream.group_columns, names, strict=True))
    known = state.rows.select(["gid", *columns, "safe"])
    keys = {key: added[name].cast(known.schema.field(key).type) for key, name in columns.items()}
    sums = _by_group(keys, added[stream.time_name]).join(known, keys=[*keys], join_type="left outer")
    return _of_known(sums, stream)


def _by_group(keys: dict[str, pa.ChunkedArray], times: pa.ChunkedArray) -> pa.Table:
    """Return how many rows each group has, and its first and last instant (µs)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    rows = pa.table({**keys, "ts": micros}).filter(pc.is_valid(micros))
    summed = rows.group_by([*keys], use_threads=False).aggregate(
        [("ts", "count"), ("ts", "min"), ("ts", "max")]
    )
    return summed.select([*keys, "ts_count", "ts_min", "ts_max"]).rename_columns([*keys, "n", "low", "high"])


def _of_known(sums: pa.Table, stream: Stream) -> pa.Table | None:
    """Return sums with what only late rows and other changes have; None with a new group or a late row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if sums["gid"].null_count or pc.any(pc.less_equal(sums["low"], sums["safe"])).as_py():
        return None
    none = pa.nulls(len(sums), pa.int64())
    columns = {
        "late": pa.repeat(0, len(sums)),
        "low": sums["low"] if stream.refires else none,
        "low_kept": sums["low"],
        "high_removed": none,
    }
    if keeps_expired(stream):
        columns[EXPIRED] = none_listed(len(sums))
    found = sums.drop_columns(["low", "safe"])
    for name, values in columns.items():
        found = found.append_column(name, values)
    return found


@dataclass(frozen=True)
class InOrderResult:
    """The output's rows of the windows that closed, the number of these, and the next state of the groups."""

    due: Rows | None
    windows: int
    groups: pa.Table


@dataclass(frozen=True)
class _Windows:
    """What the query gave: the output's rows and the number of windows that closed, and how the others stand.

    ``opened`` has _ls_gid, _ls_low, _ls_lasts and _ls_counted of the windows that are open, one of each group
    at most; ``ends`` _ls_gid and _ls_high of the last one that has closed.
    """

    due: Rows | None
    count: int
    opened: pa.Table
    ends: pa.Table


@dataclass(frozen=True)
class InOrder:
    """One tick's rows in order, cut and computed with what is open of the windows before them."""

    given: TickInput

    @property
    def stream(self) -> Stream:
        """The stream whose rows are cut."""
        return self.given.stream

    def run(self, changes: pa.Table) -> InOrderResult | None:
        """Return what the changes (summed up by group) give; None where they are not in order.

        ``changes`` has gid, group columns, n, low, low_kept and high (µs), as ``Cutting.summed`` gives it.
        """
        groups = self._classified(changes)
        if groups is None or groups.num_rows == 0:
            return None
        self._read(groups)
        view_of_rows(self.given.spark, with_number(groups, "upto", self.given.plan.upto), _GROUPS)
        rows = self.given.spark.sql(self._sql())
        windows = self._here(rows.toArrow()) if self._fit_here(changes, rows) else self._in_spark(rows)
        if windows is None:
            return None
        return InOrderResult(windows.due, windows.count, self._next(groups, windows))

    def _fit_here(self, changes: pa.Table, rows: DataFrame) -> bool:
        """Return whether the windows are few enough to be read as Arrow: nearly each has a new row."""
        is_here = self.given.transport.name != SPARK
        return is_here or fits_here(total(changes, "n"), len(rows.columns))

    # --- where groups go on ---

    def _classified(self, changes: pa.Table) -> pa.Table | None:
        """Return the groups with rows to cut, and from where to where; None when a row came late."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self.stream.cut is not None  # by passes()
        old = self._old(changes)
        if keeps_expired(self.stream) and (_any_listed(changes[EXPIRED]) or _any_listed(old[EXPIRED])):
            return None
        if keeps_closed(self.stream) and pc.any(pc.greater(changes["late"], 0)).as_py():
            return None  # it may be in the open window
        goes_on = pc.add(old["safe"], 1)
        from_us = pc.coalesce(old["resume"], goes_on, changes["low_kept"])
        limit = old["safe"] if self.stream.cut.begins_apart else pc.coalesce(old["resume"], old["safe"])
        if pc.any(pc.less_equal(changes["low"], limit)).as_py():
            return None
        first = pc.min_element_wise(old["first"], changes["low_kept"])
        newest = pc.max_element_wise(old["newest"], changes["high"])
        groups = changes.select(["gid", *self.stream.group_columns])
        columns = {
            "first": first,
            "newest": newest,
            "safe": pc.coalesce(
                old["safe"], pa.scalar(EVER[0] - 1, pa.int64())
            ),  # even the first instant is new
            "from_us": from_us,
            "mark": pc.subtract(newest, self.stream.watermark_delay),
            "counted": pc.coalesce(old["counted"], pa.scalar(0, pa.int64())),
            "resume": old["resume"],
            "known": old["newest"],
        }
        if keeps_closed(self.stream):
            columns[CLOSED] = old[CLOSED]
        for name, values in columns.items():
            groups = groups.append_column(name, values)
        is_new = pc.is_null(old["safe"])
        is_ahead = pc.or_kleene(is_new, pc.greater(changes["high"], limit))
        moves = pc.and_(pc.is_valid(changes["high"]), pc.fill_null(is_ahead, False))
        return groups.filter(moves).combine_chunks()

    def _old(self, changes: pa.Table) -> pa.Table:
        """Return what the state knows of the groups, NULLs for new ones."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = ["first", "newest", "safe", "resume", "counted"]
        names += [CLOSED] if keeps_closed(self.stream) else []
        names += [EXPIRED] if keeps_expired(self.stream) else []
        known = self.given.state.of(changes["gid"])
        if known is None or not known.num_rows:
            none = pa.nulls(changes.num_rows, pa.int64())
            return pa.table({**dict.fromkeys(names, none), EXPIRED: none_listed(changes.num_rows)})
        found = pc.index_in(changes["gid"], value_set=known["gid"].combine_chunks())
        return known.select(names).take(found)

    def _read(self, groups: pa.Table) -> None:
        import pyarrow.compute as pc

        # What came is here; no row of a group lies between what was its newest one and that.
        spans = spans_of(groups["from_us"], pc.add(groups["known"], 1))
        self.given.relations.rows_as_changed(spans)

    # --- the query ---

    def _sql(self) -> str:
        """Return the SQL of all windows with their results as the output has them, and how they stand."""
        shape = self.given.target.shape
        rows = RowQueries(self.stream).rows_in_runs_sql(_GROUPS)
        assert self.stream.cut is not None  # by passes()
        evaluated = self.stream.evaluation(settled=True).runs_sql(rows, self._placed, self.stream.cut.told)
        there = f"({shape.columns[0].sql}) IS NOT NULL AS _ls_is_row"
        return f"SELECT {shape.listed(with_groups=True)}, {_STANDING}, {there} FROM ({evaluated})"

    def _placed(self, windows: str, results: str) -> str:
        """Return SQL of windows with their placeholders, their results, and how they stand."""
        cut, held = self.stream.cut, self.given.target.shape.of_groups()
        assert cut is not None  # by passes()
        names = "".join(f", {name}" for name in self.stream.group_columns)
        values = "".join(f", {sql} AS {name}" for name, sql in held.items())
        groups = f"SELECT gid, gid AS _ls_gid, resume, upto AS c{names} FROM {_GROUPS}"
        known = (
            f"SELECT w.*, false AS opening, g.* EXCEPT (gid, _ls_gid) "
            f"FROM ({windows}) w JOIN (SELECT *{values} FROM ({groups})) g ON g.gid = w.gid"
        )
        known = f"SELECT *, low AS k FROM ({cut.placed(known, 'resume')})"
        standing = f"run IS NOT NULL AS is_window, {cut.closed} AS closed, {cut.lasts} AS lasts"
        more = ", ".join([*_STANDS, *held, results])
        return RowQueries(self.stream).cut_windows_sql(
            f"(SELECT *, {standing} FROM ({known}))", self.given.plan.clock_us, more
        )

    # --- what it gave ---

    def _here(self, windows: pa.Table) -> _Windows | None:
        """Sort out what is here as Arrow; None where times alone do not tell the windows."""
        import pyarrow.compute as pc

        if not _is_cut_by_time(windows):
            return None
        closed = pc.and_(windows["_ls_is_window"], windows["_ls_closed"])
        is_open = pc.and_(windows["_ls_is_window"], pc.invert(windows["_ls_closed"]))
        fired = pc.and_(closed, windows["_ls_lasts"])
        is_due = pc.and_(fired, windows["_ls_is_row"])
        due = windows.select(list(self.given.target.shape.names)).filter(is_due)
        return _Windows(
            Rows(self.given.spark, due) if due.num_rows else None,
            pc.sum(fired).as_py() or 0,
            windows.select(_OPENED).filter(is_open),
            _last_ends(windows.select(_ENDS).filter(closed)),
        )

    def _in_spark(self, rows: DataFrame) -> _Windows | None:
        """Do the same where the windows may be too many: they stay in Spark, and are written by it."""
        spark, kept = self.given.spark, self.given.transport.materialize(rows).frame
        view = view_of(kept, _CUT)
        counts = spark.sql(_counts_sql(view)).toArrow().to_pylist()[0]
        if counts["tied"] or counts["overlaps"]:
            return None
        of_groups = f"FROM {view} WHERE _ls_is_window AND"
        names = ", ".join(map(quoted, self.given.target.shape.names))
        due = spark.sql(f"SELECT {names} {of_groups} _ls_closed AND _ls_lasts AND _ls_is_row")
        return _Windows(
            Rows.of(due) if counts["due"] else None,
            counts["fired"],
            spark.sql(f"SELECT {', '.join(_OPENED)} {of_groups} NOT _ls_closed").toArrow(),
            spark.sql(
                f"SELECT _ls_gid, max(_ls_high) AS _ls_high {of_groups} _ls_closed GROUP BY 1"
            ).toArrow(),
        )

    def _next(self, groups: pa.Table, windows: _Windows) -> pa.Table:
        """Return the groups' next state."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cut, opened = self.stream.cut, windows.opened
        assert cut is not None  # by passes()
        at = pc.index_in(groups["gid"], value_set=opened["_ls_gid"].combine_chunks())
        resume = opened["_ls_low"].take(at).combine_chunks()
        lasting = pc.if_else(opened["_ls_lasts"].take(at), resume, None).combine_chunks()
        counted = pc.fill_null(opened["_ls_counted"].take(at), 0)
        nothing = pa.nulls(groups.num_rows, pa.int64())
        state = groups.select(["gid", *self.stream.group_columns, "first", "newest"])
        columns = {
            "safe": groups["mark"],
            "resume": resume,
            "counted": pc.subtract(counted, pc.multiply(pc.divide(counted, cut.size), cut.size)),
            "starts": _listed(resume if cut.counts else nothing),
            "opened": _listed(lasting),
        }
        if keeps_closed(self.stream):
            columns[CLOSED] = pc.coalesce(_of_groups(groups, windows.ends), groups[CLOSED])
        if keeps_expired(self.stream):
            columns[EXPIRED] = none_listed(groups.num_rows)
        for name, values in columns.items():
            state = state.append_column(name, values)
        return state


_STANDS = ("is_window", "closed", "lasts", "counted", "tied")
_STANDING = ", ".join(["_ls_gid", "_ls_low", "_ls_high", *(f"{name} AS _ls_{name}" for name in _STANDS)])


def _is_cut_by_time(windows: pa.Table) -> bool:
    """Return whether the times of rows alone tell what windows they are in: not where some are tied."""
    import pyarrow.compute as pc

    outside = pc.invert(windows["_ls_is_window"])
    if pc.any(pc.and_(outside, windows["_ls_tied"])).as_py():
        return False
    spans = windows.select(["_ls_gid", "_ls_low", "_ls_high"]).filter(windows["_ls_is_window"])
    ordered = spans.sort_by([("_ls_gid", "ascending"), ("_ls_low", "ascending")])
    before, after = ordered.slice(0, max(ordered.num_rows - 1, 0)), ordered.slice(1)
    overlap = pc.and_(
        pc.equal(before["_ls_gid"], after["_ls_gid"]), pc.less(after["_ls_low"], before["_ls_high"])
    )
    return not pc.any(overlap).as_py()


def _counts_sql(windows: View) -> str:
    """Return SQL of how many windows fire and have a row, and whether times alone do not tell the windows."""
    last = "lag(_ls_high) OVER (PARTITION BY _ls_gid, _ls_is_window ORDER BY _ls_low)"
    before = f"IF(_ls_is_window, {last}, NULL)"
    fired = "_ls_is_window AND _ls_closed AND _ls_lasts"
    return (
        f"SELECT count_if({fired}) AS fired, count_if({fired} AND _ls_is_row) AS due, "
        f"coalesce(bool_or(_ls_tied AND NOT _ls_is_window), false) AS tied, "
        f"coalesce(bool_or(_ls_low < before), false) AS overlaps "
        f"FROM (SELECT *, {before} AS before FROM {windows})"
    )


def _last_ends(closed: pa.Table) -> pa.Table:
    """Return where the last closed window of each group ends."""
    last = closed.group_by("_ls_gid", use_threads=False).aggregate([("_ls_high", "max")])
    return last.rename_columns(_ENDS)


def _of_groups(groups: pa.Table, ends: pa.Table) -> pa.Array:
    """Return the end of each group, NULL for none."""
    import pyarrow.compute as pc

    at = pc.index_in(groups["gid"], value_set=ends["_ls_gid"].combine_chunks())
    return ends["_ls_high"].take(at).combine_chunks()


def _listed(values: pa.Array) -> pa.Array:
    """Return each value as a list of it, a NULL as an empty one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.cumulative_sum(pc.is_valid(values).cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values.drop_null())


def _any_listed(lists: pa.ChunkedArray) -> bool:
    """Return whether one of the lists, which may be NULL, has anything in it."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.greater(pc.list_value_length(lists), 0)).as_py())


def _plain_groups(stream: Stream) -> tuple[str, ...]:
    """Return the columns that rows are grouped by; none where more than columns tells."""
    names = tuple(group.strip("`") for group in stream.groups)
    is_plain = set(names) <= set(stream.changed_columns) and not (stream.condition or stream.checks)
    return names if is_plain and stream.floor_us is None and stream.source.subtable is None else ()
