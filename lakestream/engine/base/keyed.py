"""Rows of groups that are found by the group's number, and replaced at the cost of those that change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.storage.rows.settled import Settled

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_MOST_APART = 32_768
"""Changed rows that lie beside the others before they are put among them; more beside very many."""

_PART_APART = 64

_PIECE_ROWS = 256
"""Rows on average that lie together between changed ones where they are not copied to be looked at."""


@dataclass(frozen=True)
class Keyed:
    """A table with a column gid (BIGINT), as a value: what replaces rows gives another one.

    Of the groups in ``changed``, whose numbers are in order, only the rows in ``recent`` count, and not the
    ``hidden`` ones that are settled.
    """

    settled: Settled
    recent: pa.Table
    changed: np.ndarray
    hidden: int = 0

    @classmethod
    def of_table(cls, rows: pa.Table) -> Keyed:
        """Return the rows of a table."""
        return cls._of(Settled.of_table(rows))

    @classmethod
    def _of(cls, settled: Settled) -> Keyed:
        import numpy as np

        return cls(settled, settled.schema.empty_table(), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.settled) - self.hidden + int(self.recent.num_rows)

    @cached_property
    def nbytes(self) -> int:
        """The bytes that they take in memory."""
        return self.settled.nbytes + int(self.recent.nbytes)

    @property
    def rows(self) -> pa.Table:
        """All rows, in no order; costs as much as there are; what it takes is kept but of those in a file."""
        return self._together() if self.settled.in_file else self._rows

    @cached_property
    def _rows(self) -> pa.Table:
        return self._together()

    def _together(self) -> pa.Table:
        import pyarrow as pa

        settled = self.settled
        if len(self.changed) <= len(settled) // _PIECE_ROWS:  # they are not copied for it
            pieces = pa.Table.from_batches(settled.around(self.changed), settled.schema)
            return pa.concat_tables([pieces, self.recent])
        others = pa.Table.from_batches(settled.without(self.changed), settled.schema)
        return pa.concat_tables([others, self.recent]).combine_chunks()

    def of(self, gids: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Return the rows of some groups."""
        import numpy as np
        import pyarrow as pa

        wanted = each_once(gids.to_numpy(zero_copy_only=False))
        unchanged = wanted[~np.isin(wanted, self.changed, assume_unique=True)]
        found = [self.settled.of(unchanged)]
        if self.recent.num_rows and len(unchanged) < len(wanted):
            found.append(among(self.recent, pa.array(wanted)))
        return pa.concat_tables(found).combine_chunks()

    def replaced(self, new: pa.Table, gids: pa.Array | pa.ChunkedArray) -> Keyed:
        """Return the rows with those of some groups replaced by new ones, which are of these groups.

        Raises OSError where they lie in a file, and the disk takes no other one.
        """
        import numpy as np
        import pyarrow as pa

        replaced = each_once(gids.to_numpy(zero_copy_only=False))
        newly = replaced[~np.isin(replaced, self.changed, assume_unique=True)]
        hidden = self.hidden + self.settled.count(newly)
        others = among(self.recent, gids, others=True)
        aligned = new.select(self.settled.schema.names).cast(self.settled.schema)
        recent = pa.concat_tables([others, aligned])
        changed = each_once(np.append(self.changed, replaced))
        if max(recent.num_rows, len(changed)) > max(_MOST_APART, len(self.settled) // _PART_APART):
            return self._of(self.settled.replaced(changed, recent))
        return Keyed(self.settled, recent.combine_chunks(), changed, hidden)

    def spilled(self) -> Keyed:
        """Return the rows, but for recent ones, in a file; raises OSError where the disk takes none."""
        return self if self.settled.in_file else self._of(self.settled.spilled(self.changed, self.recent))


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


def in_part(rows: pa.Table, part: int, parts: int) -> pa.Table:
    """Return the rows of one of several parts of the groups, a power of two, by their numbers (gid)."""
    import pyarrow.compute as pc

    if parts == 1:
        return rows
    return rows.filter(pc.equal(pc.bit_wise_and(rows["gid"], parts - 1), part))


def parts_of(rows: int, most: int) -> int:
    """Return in how many parts of the groups, a power of two, there are about ``most`` of the rows in each.

    >>> parts_of(0, 100), parts_of(100, 100), parts_of(101, 100), parts_of(750, 100)
    (1, 1, 2, 8)
    """
    return 1 << (max(rows - 1, 0) // most).bit_length()


def parted(batches: list[pa.RecordBatch], schema: pa.Schema, parts: int) -> list[pa.Table]:
    """Return the rows of each part of the groups, as :func:`in_part`; lets go of the batches on the way."""
    import pyarrow as pa

    found = [[schema.empty_table()] for _ in range(parts)]
    batches.reverse()
    while batches:
        rows = pa.Table.from_batches([batches.pop()])
        for part, own in enumerate(found):
            own.append(in_part(rows, part, parts))
    return [pa.concat_tables(own) for own in found]
