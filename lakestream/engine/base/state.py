"""What a stream knows between ticks: per group two instants, and the partial aggregates of open windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.engine.base.keyed import Keyed, among, each_once, in_part
from lakestream.storage.records.states import StateChanges
from lakestream.storage.rows.reading import constant
from lakestream.storage.rows.views import give_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import pyarrow as pa

NEWEST = "newest"

EXPIRED = "expired"
"""The column, where a stream keeps them, with the instants of expired rows in a group's open window."""

CLOSED = "closed"
"""The column, where a stream keeps it, with the end of a group's last closed window (µs, NULL for none)."""

HEARD, DUE = "heard", "due"
"""The columns, where a stream keeps them, with when a group was heard of last, and when it is idle if no row
comes until then (µs, NULL while it is idle)."""

DELAYS = "delays"
"""The column of a saved state with the delays of a group's open windows."""

MANY_GROUPS = 2_000
"""More groups than these are not all looked at: which ones a tick touches is found out first, by a query."""

_GIVEN_BACK = 100_000
"""Rows that are brought in order whose memory is given back: as much again is taken for it."""


@dataclass(frozen=True)
class Unsaved:
    """The groups (gid) that have changed since the state was saved, which was as of a tick.

    ``opened``: the open windows were saved with it.
    """

    tick: int
    gids: np.ndarray
    opened: bool = False

    def and_of(self, gids: pa.Array) -> Unsaved:
        """Return them with those that have changed now."""
        import numpy as np

        return replace(self, gids=each_once(np.append(self.gids, gids.to_numpy())))


class GroupState:
    """The state of all groups, a value: gid, group columns, first and newest (µs).

    It is a function of the history. ``opened`` has a row per open window of the streams that keep
    partial aggregates (gid, group columns, k, its rows, its aggregates); None where they must be
    computed anew from the source, whose rows they stand for. ``touched`` are the groups (gid) that the last
    update came for: what follows the state looks at those alone. ``unsaved`` says what is to be saved of it,
    None for all. What looks at ``rows`` or ``opened`` looks
    at all groups; some are found, and replaced, at the cost of these.
    """

    def __init__(
        self,
        rows: pa.Table | Keyed | None = None,
        opened: pa.Table | Keyed | None = None,
        touched: pa.Array | None = None,
        unsaved: Unsaved | None = None,
    ) -> None:
        self._rows, self._opened, self.touched, self.unsaved = rows, opened, touched, unsaved

    @property
    def rows(self) -> pa.Table | None:
        """All groups as one Arrow table, None for none."""
        return _table(self._rows)

    @property
    def opened(self) -> pa.Table | None:
        """All open windows as one Arrow table, None where they are not known."""
        return _table(self._opened)

    @property
    def knows_opened(self) -> bool:
        """Whether the open windows are known, if there is none of them."""
        return self._opened is not None

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupState) and (self.rows, self.opened) == (other.rows, other.opened)

    __hash__ = None  # type: ignore[assignment]

    def saved(self, version: int) -> pa.Table:
        """Return the groups as a checkpoint keeps them: with the source's version that they stand for."""
        assert self.rows is not None
        return with_number(self.rows, "version", version)

    def opened_saved(self, version: int) -> pa.Table | None:
        """Return the open windows as a checkpoint keeps them; None for none, or where they are not known."""
        opened = self.opened
        return None if opened is None or not opened.num_rows else with_number(opened, "version", version)

    @classmethod
    def loaded(
        cls, rows: pa.Table, *, keeps_expired: bool = False, keeps_closed: bool = False
    ) -> tuple[int, GroupState]:
        """Return the version and the state of a checkpoint.

        ``keeps_expired``, ``keeps_closed``: of a stream that keeps expired rows, or the end of closed
        windows, which an older lakestream did not save.
        """
        import pyarrow as pa

        own = [name for name in ("version", DELAYS) if name in rows.column_names]
        known = rows.drop_columns(own)
        if keeps_expired and EXPIRED not in known.column_names:
            known = known.append_column(EXPIRED, none_listed(len(known)))
        if keeps_closed and CLOSED not in known.column_names:
            known = known.append_column(CLOSED, pa.nulls(len(known), pa.int64()))
        return int(rows["version"][0].as_py()), cls(known)

    def merged(self, kinds: pa.Schema) -> pa.Table:
        """Return groups and open windows as one table: a row of either has NULLs for the other.

        ``kinds`` are the columns that it has however little is known: what reads it is one query then.
        """
        import pyarrow as pa

        known = [nullable(rows) for rows in (self.rows, self.opened) if rows is not None]
        return pa.concat_tables([kinds.empty_table(), *known], promote_options="default")

    def without(self, gids: Sequence[int]) -> GroupState:
        """Return the state of the other groups."""
        import pyarrow as pa

        if not gids:
            return self
        listed = pa.array(gids, pa.int64())
        tables = (self.rows, self.opened)
        return _state(*(None if rows is None else among(rows, listed, others=True) for rows in tables))

    def in_part(self, part: int, parts: int) -> GroupState:
        """Return the state of one of several parts of the groups, as :func:`keyed.in_part` has them."""
        if parts == 1:
            return self
        tables = (self.rows, self.opened)
        return _state(*(None if rows is None else in_part(rows, part, parts) for rows in tables))

    def only(self, gids: Sequence[int] | pa.Array | pa.ChunkedArray) -> GroupState:
        """Return the state of some groups."""
        import pyarrow as pa

        listed = gids if isinstance(gids, (pa.Array, pa.ChunkedArray)) else pa.array(gids, pa.int64())
        self._index()
        tables = (self._rows, self._opened)
        return _state(*(None if rows is None else _keyed(rows).of(listed) for rows in tables))

    def updated(self, touched: pa.Table, opened: pa.Table | None = None) -> GroupState:
        """Return the state with the rows of the touched groups replaced; a group without newest row goes.

        ``opened`` are the open windows of the touched groups; None: they are not known any more.
        """
        import pyarrow.compute as pc

        if touched.num_rows == 0:
            return GroupState(self._rows, None if opened is None else self._opened, unsaved=self.unsaved)
        gids = touched["gid"].combine_chunks()
        kept: pa.Table | Keyed | None = opened
        self._index()
        if opened is not None and self._opened is not None:
            kept = _replaced(self._opened, opened, gids)
        elif len(self):
            kept = None
        known = touched.filter(pc.is_valid(touched[NEWEST])) if touched[NEWEST].null_count else touched
        rows = _replaced(self._rows, known, gids)
        return GroupState(rows, kept, gids, None if self.unsaved is None else self.unsaved.and_of(gids))

    def with_opened(self, opened: pa.Table | None) -> GroupState:
        """Return the state with its open windows."""
        return GroupState(self._rows, opened, unsaved=self.unsaved)

    def as_saved(self, tick: int) -> GroupState:
        """Return the state as one that is saved as of a tick; what is not by group is always saved whole."""
        import numpy as np

        unsaved = Unsaved(tick, np.empty(0, np.int64), self.knows_opened) if self._is_by_group else None
        return GroupState(self._rows, self._opened, self.touched, unsaved)

    @property
    def _is_by_group(self) -> bool:
        rows = self._rows
        return isinstance(rows, Keyed) or (rows is not None and "gid" in rows.column_names)

    @cached_property
    def first_due(self) -> int | None:
        """The first instant (µs) at which a group is due to be idle, None for none."""
        import pyarrow.compute as pc

        first: int | None = None if self.rows is None else pc.min(self.rows[DUE]).as_py()
        return first

    @cached_property
    def nbytes(self) -> int:
        """The bytes that it takes in memory."""
        return sum(rows.nbytes for rows in (self._rows, self._opened) if rows is not None)

    def spilled(self) -> GroupState:
        """Return the state with its groups and open windows in a file, where they are found by group.

        Raises OSError where the disk takes none.
        """
        if not self._is_by_group:
            return self
        self._index()
        rows, opened = (
            None if known is None else _keyed(known).spilled() for known in (self._rows, self._opened)
        )
        return GroupState(rows, opened, self.touched, self.unsaved)

    def changes(self, version: int) -> StateChanges | None:
        """Return which groups are not saved, as of the source's version; None where all are to be."""
        if self.unsaved is None:
            return None
        self._index()
        return _changes(self._rows, self.unsaved, version)

    def opened_changes(self, version: int) -> StateChanges | None:
        """Return which open windows are not saved, as :meth:`changes` does of groups."""
        if self.unsaved is None or not self.unsaved.opened:
            return None
        self._index()
        return _changes(self._opened, self.unsaved, version)

    def of(self, gids: pa.Array | pa.ChunkedArray) -> pa.Table | None:
        """Return the rows of some groups."""
        self._index()
        return None if self._rows is None else _keyed(self._rows).of(gids)

    def _index(self) -> None:
        """Have the rows found by group from now on: to bring them in order costs as much as there are."""
        for name in ("_rows", "_opened"):
            known = getattr(self, name)
            if known is None or isinstance(known, Keyed):
                continue
            setattr(self, name, Keyed.of_table(known))
            are_many = len(known) > _GIVEN_BACK
            del known
            if are_many:
                give_back()


def with_number(rows: pa.Table, name: str, number: int) -> pa.Table:
    """Return rows with a further column of one BIGINT.

    In a query's text a number that differs from tick to tick makes it another query, which is to be planned.
    """
    return rows.append_column(name, constant(number, rows.num_rows))


def _changes(rows: pa.Table | Keyed | None, unsaved: Unsaved, version: int) -> StateChanges | None:
    import numpy as np
    import pyarrow as pa

    if rows is None:
        return None
    changed = _keyed(rows).of(pa.array(unsaved.gids))
    gone = unsaved.gids[~np.isin(unsaved.gids, changed["gid"].to_numpy())]
    return StateChanges(unsaved.tick, version, changed, pa.array(gone), len(rows))


def _table(rows: pa.Table | Keyed | None) -> pa.Table | None:
    return rows.rows if isinstance(rows, Keyed) else rows


def _keyed(rows: pa.Table | Keyed) -> Keyed:
    return rows if isinstance(rows, Keyed) else Keyed.of_table(rows)


def _state(rows: pa.Table | None, opened: pa.Table | None) -> GroupState:
    return GroupState(rows, opened) if rows is not None and rows.num_rows else GroupState()


def none_listed(rows: int) -> pa.Array:
    """Return a column of empty lists of instants."""
    import pyarrow as pa

    return pa.array([[]] * rows, pa.list_(pa.int64()))


def nullable(rows: pa.Table) -> pa.Table:
    """Return a table whose columns may all hold NULL, so that others may lack them."""
    import pyarrow as pa

    return rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))


def gids_sql(gids: Iterable[int]) -> str:
    """Return groups as SQL lists them."""
    return ", ".join(f"{gid}L" for gid in gids)


def _replaced(old: pa.Table | Keyed | None, new: pa.Table, gids: pa.Array) -> pa.Table | Keyed:
    """Return the rows of other groups and the new ones."""
    return new if old is None or not len(old) else _keyed(old).replaced(new, gids)


def summary_sql(fired: str, groups: Sequence[str]) -> str:
    """Return SQL that sums up a detection result by group."""
    listed = "".join(f", any_value({name}) AS {name}" for name in groups)
    return (
        f"SELECT gid{listed}, min(first) AS first, max(newest) AS newest, "
        f"sum(rows) AS rows, sum(late) AS late, "
        f"sum(windows) AS windows, sum(size(refired)) AS refired, sum(size(retracted)) AS retracted, "
        f"min(low) AS low, max(high) AS high FROM {fired} GROUP BY gid"
    )


def summary_of(fired: pa.Table, groups: Sequence[str]) -> pa.Table:
    """Sum up a detection result that travelled as Arrow, as :func:`summary_sql` does in Spark."""
    import pyarrow.compute as pc

    for name in ("refired", "retracted"):
        count = pc.list_value_length(fired[name]).cast("int64")
        fired = fired.set_column(fired.schema.get_field_index(name), name, count)
    wanted = [
        *((name, "one") for name in groups),
        ("first", "min"),
        ("newest", "max"),
        *((name, "sum") for name in ("rows", "late", "windows", "refired", "retracted")),
        ("low", "min"),
        ("high", "max"),
    ]
    return _summed(fired, "gid", wanted)


_SAME = ("first", "newest", "base", "base_before", "first_before", "closed", "closed_before", "done")


def _late_columns(updated: pa.Table) -> pa.Table:
    """Return what late windows are summed up from."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def only_late(column: str) -> pa.ChunkedArray:
        none = pa.scalar(None, pa.int64())
        return pc.if_else(updated["_ls_late"], updated[column].cast(pa.int64()), none)

    columns = {
        "gid": updated["_ls_gid"],
        "late": pc.fill_null(only_late("_ls_fresh"), 0),
        "refired": updated["_ls_late"].cast(pa.int8()),
        "ignored": updated["_ls_ignored"].cast(pa.int8()),
        "low": only_late("_ls_low"),
        "high": only_late("_ls_high"),
    }
    return pa.table(columns)


def update_summary_of(updated: pa.Table, groups: Sequence[str]) -> pa.Table:
    """Sum up an incremental result by group."""
    rows = _late_columns(updated)
    for name in groups:
        rows = rows.append_column(name, updated[name])
    for name in _SAME:
        rows = rows.append_column(name, updated[f"_ls_{name}"])
    rows = rows.append_column("rows", updated["_ls_fresh"])
    wanted = [
        *((name, "one") for name in groups),
        *((name, "max") for name in _SAME),
        ("rows", "sum"),
        ("late", "sum"),
        ("refired", "max"),
        ("ignored", "max"),
        ("low", "min"),
        ("high", "max"),
    ]
    return _summed(rows, "gid", wanted)


def summary_in_steps(groups: pa.Table, flagged: pa.Table | None) -> pa.Table:
    """Sum up by group what the judged groups and the flagged windows say, as above."""
    import pyarrow.compute as pc

    if flagged is None:
        none = constant(0, groups.num_rows)
        return groups.append_column("late", none).append_column("ignored", none)
    wanted = [("late", "sum"), ("refired", "max"), ("ignored", "max"), ("low", "min"), ("high", "max")]
    own = _summed(_late_columns(flagged), "gid", wanted)
    for name, judged in {"base": "start", "base_before": "start_before"}.items():
        groups = groups.append_column(name, groups[judged])
    joined = groups.join(own, "gid", join_type="left outer")
    for name in ("late", "refired", "ignored"):
        filled = pc.fill_null(joined[name], 0)
        joined = joined.set_column(joined.schema.get_field_index(name), name, filled)
    return joined


def _summed(rows: pa.Table, key: str, wanted: Sequence[tuple[str, str]]) -> pa.Table:
    summed = rows.group_by(key, use_threads=False).aggregate([*wanted])
    return summed.select([key, *(f"{name}_{how}" for name, how in wanted)]).rename_columns(
        [key, *(name for name, _ in wanted)]
    )
