"""Rows of groups that are found by the group's number, and replaced at the cost of those that change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_MOST_APART = 32_768
"""Changed rows that lie beside the others before they are put among them."""


@dataclass(frozen=True)
class Keyed:
    """A table with a column gid (BIGINT), as a value: what replaces rows gives another one.

    ``settled`` is in the order of gid. Of the groups in ``changed``, in order too, only the rows in
    ``recent`` count.
    """

    settled: pa.Table
    recent: pa.Table
    changed: np.ndarray

    @classmethod
    def of_table(cls, rows: pa.Table) -> Keyed:
        """Return the rows of a table."""
        import numpy as np

        order = np.argsort(rows["gid"].to_numpy(), kind="stable")
        settled = rows.take(order).combine_chunks()
        return cls(settled, rows.schema.empty_table(), np.empty(0, np.int64))

    def __len__(self) -> int:
        return int(self.settled.num_rows - len(self._hidden) + self.recent.num_rows)

    @cached_property
    def _gids(self) -> np.ndarray:
        gids: np.ndarray = self.settled["gid"].to_numpy()
        return gids

    @cached_property
    def _hidden(self) -> np.ndarray:
        """The settled rows of groups that have changed since."""
        return self._rows_of(self.changed)

    def _rows_of(self, gids: np.ndarray) -> np.ndarray:
        """Return where the settled rows of groups are, whose numbers are in order."""
        import numpy as np

        first = np.searchsorted(self._gids, gids, "left")
        counts = np.searchsorted(self._gids, gids, "right") - first
        ends = np.cumsum(counts)
        return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, in no order; costs as much as there are."""
        import numpy as np
        import pyarrow as pa

        if not len(self.changed):
            return self.settled
        stay = np.ones(self.settled.num_rows, bool)
        stay[self._hidden] = False
        return pa.concat_tables([self.settled.filter(pa.array(stay)), self.recent]).combine_chunks()

    def of(self, gids: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Return the rows of some groups."""
        import numpy as np
        import pyarrow as pa

        wanted = each_once(gids.to_numpy(zero_copy_only=False))
        unchanged = wanted[~np.isin(wanted, self.changed, assume_unique=True)]
        found = [self.settled.take(self._rows_of(unchanged))]
        if self.recent.num_rows and len(unchanged) < len(wanted):
            found.append(among(self.recent, pa.array(wanted)))
        return pa.concat_tables(found).combine_chunks()

    def replaced(self, new: pa.Table, gids: pa.Array | pa.ChunkedArray) -> Keyed:
        """Return the rows with those of some groups replaced by new ones, which are of these groups."""
        import numpy as np
        import pyarrow as pa

        changed = each_once(np.append(self.changed, gids.to_numpy(zero_copy_only=False)))
        others = among(self.recent, gids, others=True)
        aligned = new.select(self.settled.column_names).cast(self.settled.schema)
        recent = pa.concat_tables([others, aligned]).combine_chunks()
        found = Keyed(self.settled, recent, changed)
        return Keyed.of_table(found.rows) if max(recent.num_rows, len(changed)) > _MOST_APART else found


def each_once(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in order, each once; numpy's own answer loads what it has for masked arrays."""
    import numpy as np

    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def among(rows: pa.Table, gids: pa.Array | pa.ChunkedArray, *, others: bool = False) -> pa.Table:
    """Return the rows of some groups, or those of all others; looks at each row."""
    import pyarrow.compute as pc

    found = pc.is_in(rows["gid"], value_set=gids)
    return rows.filter(pc.invert(found) if others else found)
