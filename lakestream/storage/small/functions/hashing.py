"""Spark's xxhash64 of values by their texts, as DuckDB hands them over: XXH64 of the bytes Spark lays out."""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Words = npt.NDArray[np.uint64]

INSTANT = "TIMESTAMP WITH TIME ZONE"
_EIGHT_BYTES = ("BIGINT", INSTANT)
_DECIMAL = "DECIMAL("
_MOST_IN_EIGHT_BYTES = 18
"""Digits of the decimals that Spark holds as whole numbers of eight bytes."""
_PRIMES = (
    11_400_714_785_074_694_791,
    14_029_467_366_897_019_727,
    1_609_587_929_392_839_161,
    9_650_029_242_287_828_579,
    2_870_177_450_012_600_261,
)
"""The five primes of XXH64."""


def hashes(seeds: pa.ChunkedArray, texts: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.Array:
    """Return Spark's xxhash64 of values by their texts, from seeds; the seed where a text is NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = kinds.unique().to_pylist()
    if len(found) == 1 and not found[0].startswith(("VARCHAR", "DOUBLE", _DECIMAL)):
        words = pa.py_buffer(_of_numbers(seeds, texts, found[0]))
        hashed = pa.Array.from_buffers(pa.int64(), len(texts), [None, words])
        return pc.if_else(pc.is_valid(texts.combine_chunks()), hashed, seeds.combine_chunks())
    started = seeds.unique()
    if len(found) == 1 and len(started) == 1 and not texts.null_count:
        return _known(started[0].as_py(), found[0]).of(texts.combine_chunks())
    rows = [*zip(seeds.to_pylist(), texts.to_pylist(), kinds.to_pylist(), strict=True)]
    known = {row: row[0] if row[1] is None else _of_text(*row) for row in dict.fromkeys(rows)}
    return pa.array([known[row] for row in rows], pa.int64())


_MOST_KNOWN = 4_096
"""Texts of one seed whose hashes are kept: rows of a few thousand groups come in many pieces."""


class _Known:
    """The hashes of texts from one seed, which are found many at a time."""

    def __init__(self, seed: int, kind: str) -> None:
        import pyarrow as pa

        self._seed, self._kind = seed, kind
        self._pairs = (pa.array([], pa.string()), pa.array([], pa.int64()))

    def of(self, texts: pa.Array) -> pa.Array:
        """Return the hashes of texts; several threads may ask."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known, hashed = self._pairs
        at = pc.index_in(texts, value_set=known)
        if at.null_count:
            new = texts.filter(pc.is_null(at)).unique()
            found = [_of_text(self._seed, text, self._kind) for text in new.to_pylist()]
            known, hashed = (pa.concat_arrays(both) for both in ((known, new), (hashed, pa.array(found))))
            at = pc.index_in(texts, value_set=known)
            if len(known) <= _MOST_KNOWN:
                self._pairs = known, hashed
        return hashed.take(at)


@lru_cache(maxsize=16)
def _known(seed: int, kind: str) -> _Known:
    return _Known(seed, kind)


@cache
def hash_of_truth(seed: int, *, truth: bool) -> int:
    """Return Spark's xxhash64 of a BOOLEAN from a seed."""
    import pyarrow as pa

    columns = ([seed], [str(truth).lower()], ["BOOLEAN"])
    return int(hashes(*(pa.chunked_array([column]) for column in columns))[0].as_py())


def _of_text(seed: int, text: str, kind: str) -> int:
    """Return the hash of one value."""
    import xxhash

    value = xxhash.xxh64_intdigest(_bytes(text, kind), seed % 2**64)
    return value - 2**64 if value >= 2**63 else value


def _bytes(text: str, kind: str) -> bytes:
    if kind == "VARCHAR":
        return text.encode()
    if kind.startswith(_DECIMAL):
        return _of_digits(int(text.replace(".", "")), int(kind[len(_DECIMAL) :].partition(",")[0]))
    # Spark takes the zeros for one value, and so all that is not a number.
    value = float(text)
    return struct.pack("<d", abs(value) if value == 0 or math.isnan(value) else value)


def _of_digits(number: int, precision: int) -> bytes:
    """Return a decimal's digits: eight bytes where they fit, else as few as there are, the last one last."""
    if precision <= _MOST_IN_EIGHT_BYTES:
        return struct.pack("<q", number)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _of_numbers(seeds: pa.ChunkedArray, texts: pa.ChunkedArray, kind: str) -> npt.NDArray[np.int64]:
    """Return the hashes of values that are numbers of four or eight bytes; of a NULL any."""
    import numpy as np

    words = _numbers(texts, kind).view(np.uint64)
    seed = seeds.to_numpy().astype(np.int64).view(np.uint64)
    p1, p2, p3, p4, p5 = (np.uint64(prime) for prime in _PRIMES)
    if kind in _EIGHT_BYTES:
        mixed = (seed + p5 + np.uint64(8)) ^ (_turned(words * p2, 31) * p1)
        mixed = _turned(mixed, 27) * p1 + p4
    else:
        mixed = (seed + p5 + np.uint64(4)) ^ ((words & np.uint64(0xFFFFFFFF)) * p1)
        mixed = _turned(mixed, 23) * p2 + p3
    mixed = (mixed ^ (mixed >> np.uint64(33))) * p2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * p3
    found: npt.NDArray[np.int64] = (mixed ^ (mixed >> np.uint64(32))).view(np.int64)
    return found


def _turned(words: Words, bits: int) -> Words:
    import numpy as np

    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _numbers(texts: pa.ChunkedArray, kind: str) -> npt.NDArray[np.int64]:
    """Return the numbers by which Spark holds values that are no fraction and no text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "BOOLEAN":
        numbers = pc.equal(texts, "true").cast(pa.int64())
    elif kind == "DATE":
        numbers = texts.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif kind == INSTANT:
        numbers = texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    else:
        numbers = texts.cast(pa.int64())
    found: npt.NDArray[np.int64] = pc.fill_null(numbers, 0).to_numpy()
    return found
