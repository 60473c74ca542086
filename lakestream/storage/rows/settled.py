"""Rows in the order of their groups' numbers, in memory or in a file, found by these numbers."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.storage.places.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import pyarrow as pa

_BATCH_ROWS = 262_144
"""About the rows of a batch: as many are held in memory at a time while a file is written."""


@dataclass(frozen=True)
class Settled:
    """Rows of groups (gid BIGINT), as a value: in the order of gid, in batches such that no group is in two.

    ``in_file``: they lie in a file of this process's scratch folder, which the kernel reads where it is
    looked at, and whose pages it takes back when memory is wanted. The file has no name any more: it goes
    with the last value that needs it, and with the process.
    """

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    in_file: bool = False

    @classmethod
    def of_table(cls, rows: pa.Table) -> Settled:
        """Return the rows of a table."""
        return cls(rows.schema, tuple(_cut(_sorted(rows))))

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @cached_property
    def nbytes(self) -> int:
        """The bytes that they take in memory."""
        return 0 if self.in_file else sum(batch.nbytes for batch in self.batches)

    @cached_property
    def _firsts(self) -> np.ndarray:
        import numpy as np

        return np.array([batch["gid"][0].as_py() for batch in self.batches], np.int64)

    def of(self, gids: np.ndarray) -> pa.Table:
        """Return the rows of some groups, whose numbers are in order."""
        import pyarrow as pa

        found = [batch.take(pa.array(at)) for batch, at in self._places(gids)]
        return pa.Table.from_batches(found, self.schema)

    def count(self, gids: np.ndarray) -> int:
        """Return how many rows some groups have, whose numbers are in order."""
        return sum(len(at) for _, at in self._places(gids))

    def without(self, gids: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each batch that are of other groups; the numbers are in order."""
        import numpy as np
        import pyarrow as pa

        hidden = {id(batch): at for batch, at in self._places(gids)}
        for batch in self.batches:
            stay = np.ones(batch.num_rows, bool)
            stay[hidden.get(id(batch), [])] = False
            yield batch.filter(pa.array(stay))

    def around(self, gids: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield the rows of other groups as they lie, piece by piece; the numbers are in order, and few."""
        found = {id(batch): at for batch, at in self._places(gids)}
        for batch in self.batches:
            start = 0
            for at in (*found.get(id(batch), ()), batch.num_rows):
                if at > start:
                    yield batch.slice(start, at - start)
                start = at + 1

    def replaced(self, changed: np.ndarray, recent: pa.Table) -> Settled:
        """Return the rows with those of some groups (in order) replaced by others, of any of these groups.

        Rows in a file give another file, a batch at a time. Raises OSError where the disk takes none.
        """
        batches = self._with(changed, recent)
        return self.written(batches, self.schema) if self.in_file else Settled(self.schema, tuple(batches))

    def spilled(self, changed: np.ndarray, recent: pa.Table) -> Settled:
        """Return them as :meth:`replaced`, in a file."""
        return self.written(self._with(changed, recent), self.schema)

    @classmethod
    def written(cls, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Settled:
        """Write batches to a file that has no name, and return them from there; raises OSError."""
        import pyarrow as pa

        handle, name = tempfile.mkstemp(prefix="state-", dir=scratch_folder())
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            reader = pa.ipc.open_file(pa.memory_map(name))
        finally:
            Path(name).unlink()
        return cls(schema, tuple(map(reader.get_batch, range(reader.num_record_batches))), in_file=True)

    def _places(self, gids: np.ndarray) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield the batches that may have groups, with where these are."""
        import numpy as np

        if not len(gids) or not self.batches:
            return
        batch_of = np.maximum(np.searchsorted(self._firsts, gids, "right") - 1, 0)
        starts = [0, *(np.flatnonzero(np.diff(batch_of)) + 1), len(gids)]
        for start, end in pairwise(starts):
            batch = self.batches[batch_of[start]]
            yield batch, _rows_of(batch, gids[start:end])

    def _with(self, changed: np.ndarray, recent: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield batches of the rows of other groups with recent ones among them."""
        import numpy as np
        import pyarrow as pa

        recent = _sorted(recent)
        ends = np.searchsorted(recent["gid"].to_numpy(), self._firsts[1:], "left")
        start = 0
        for old, end in zip(self.without(changed), [*ends, recent.num_rows], strict=False):
            together = [pa.Table.from_batches([old]), recent.slice(start, end - start)]
            start = end
            yield from _cut(_sorted(pa.concat_tables(together)))
        if not self.batches:
            yield from _cut(recent)


def _sorted(rows: pa.Table) -> pa.Table:
    """Return rows in the order of gid: quick where most of them are."""
    import numpy as np

    return rows.take(np.argsort(rows["gid"].to_numpy(), kind="stable"))


def _rows_of(batch: pa.RecordBatch, gids: np.ndarray) -> np.ndarray:
    """Return where the rows of groups are in a batch; the numbers are in order."""
    import numpy as np

    known = batch["gid"].to_numpy()
    first = np.searchsorted(known, gids, "left")
    counts = np.searchsorted(known, gids, "right") - first
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)


def _cut(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows, which are in the order of gid, in batches such that no group is in two."""
    import numpy as np

    gids, start = rows["gid"].to_numpy(), 0
    while start < rows.num_rows:
        end = min(start + _BATCH_ROWS, rows.num_rows)
        end = int(np.searchsorted(gids, gids[end - 1], "right"))
        yield rows.slice(start, end - start).combine_chunks().to_batches()[0]
        start = end
