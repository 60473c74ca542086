"""Hashes of many values at once are those of XXH64 over the bytes of each."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest
import xxhash

from lakestream.storage.small.functions.hashing import INSTANT, hashes

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAYOUT = {"BIGINT": "<q", INSTANT: "<q"}
DRAWN = {
    "TINYINT": lambda random: random.randrange(-(2**7), 2**7),
    "INTEGER": lambda random: random.randrange(-(2**31), 2**31),
    "BIGINT": lambda random: random.randrange(-(2**63), 2**63),
    "BOOLEAN": lambda random: random.randrange(2),
    "DATE": lambda random: random.randrange(-700_000, 2_900_000),
    INSTANT: lambda random: random.randrange(-(6 * 10**16), 2 * 10**17),
}
TEXTS = {
    "BOOLEAN": lambda number: "true" if number else "false",
    "DATE": lambda number: str(date(1970, 1, 1) + timedelta(days=number)),
    INSTANT: lambda number: f"{(EPOCH + timedelta(microseconds=number)).replace(tzinfo=None)}+00",
}


@pytest.mark.parametrize("kind", DRAWN)
def test_numbers_are_hashed_as_the_bytes_of_each(kind: str) -> None:
    random = Random(kind)
    numbers = [DRAWN[kind](random) for _ in range(200)]
    seeds = [random.randrange(-(2**63), 2**63) for _ in numbers]
    texts = [*map(TEXTS.get(kind, str), numbers), None]
    found = hashes(*_columns([*seeds, 42], texts, kind)).to_pylist()
    pairs = zip(seeds, numbers, strict=True)
    assert found == [*(_hash(seed, struct.pack(LAYOUT.get(kind, "<i"), n)) for seed, n in pairs), 42]


def test_texts_and_fractions_are_too() -> None:
    assert hashes(*_columns([42, 42, 7], ["ä", "ä", None], "VARCHAR")).to_pylist() == [
        *[_hash(42, "ä".encode())] * 2,
        7,
    ]
    zeros = hashes(*_columns([42, 42], ["-0.0", "0.0"], "DOUBLE")).to_pylist()
    assert zeros == [_hash(42, bytes(8))] * 2


def _hash(seed: int, value: bytes) -> int:
    return int.from_bytes(xxhash.xxh64_digest(value, seed % 2**64), "big", signed=True)


def _columns(seeds: list[int], texts: list[str | None], kind: str) -> list[pa.ChunkedArray]:
    kinds = [kind] * len(seeds)
    columns = (pa.array(seeds, pa.int64()), pa.array(texts, pa.string()), pa.array(kinds))
    return [pa.chunked_array([column]) for column in columns]
