"""What a stream knows between ticks: per group the first and the newest instant, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

FIRST, NEWEST = "first", "newest"


class GroupState:
    """The state of all groups as one Arrow table: gid, group columns, first and newest (µs).

    It is a function of the history: both instants only ever move one way.
    """

    def __init__(self, rows: pa.Table | None = None) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return 0 if self.rows is None else self.rows.num_rows

    def saved(self, version: int) -> pa.Table:
        """Return the state as a checkpoint keeps it: with the source's version that it stands for."""
        import pyarrow as pa

        assert self.rows is not None
        return self.rows.append_column("version", pa.array([version] * len(self), pa.int64()))

    @classmethod
    def loaded(cls, rows: pa.Table) -> tuple[int, GroupState]:
        """Return the version and the state of a checkpoint."""
        return int(rows["version"][0].as_py()), cls(rows.drop_columns(["version"]))

    def updated(self, touched: pa.Table) -> GroupState:
        """Return the state with the touched groups' rows replaced."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if touched.num_rows == 0:
            return self
        if self.rows is None or self.rows.num_rows == 0:
            return GroupState(touched)
        old = self.rows.filter(
            pc.invert(pc.is_in(self.rows["gid"], value_set=touched["gid"].combine_chunks()))
        )
        return GroupState(
            pa.concat_tables([old, touched.select(old.column_names).cast(old.schema)]).combine_chunks()
        )


def summary_sql(fired: str, groups: Sequence[str]) -> str:
    """Return SQL that sums up a detection result by group."""
    listed = "".join(f", any_value({name}) AS {name}" for name in groups)
    return (
        f"SELECT gid{listed}, min(first) AS first, max(newest) AS newest, "
        f"sum(rows) AS rows, sum(late) AS late, "
        f"sum(windows) AS windows, sum(size(again)) AS again, min(low) AS low, max(high) AS high "
        f"FROM {fired} GROUP BY gid"
    )


def summary_of(fired: pa.Table, groups: Sequence[str]) -> pa.Table:
    """Sum up a detection result that travelled as Arrow, as :func:`summary_sql` does in Spark."""
    import pyarrow.compute as pc

    counted = fired.set_column(
        fired.schema.get_field_index("again"), "again", pc.list_value_length(fired["again"]).cast("int64")
    )
    wanted = [
        *((name, "first") for name in groups),
        ("first", "min"),
        ("newest", "max"),
        *((name, "sum") for name in ("rows", "late", "windows", "again")),
        ("low", "min"),
        ("high", "max"),
    ]
    summed = counted.group_by("gid", use_threads=False).aggregate(wanted)
    return summed.select(["gid", *(f"{name}_{how}" for name, how in wanted)]).rename_columns(
        ["gid", *(name for name, _ in wanted)]
    )
