"""Rows that stay beside those that are written anew: of many at once, as each would be judged by itself."""

from __future__ import annotations

import tracemalloc
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.engine.streams import replacing
from lakestream.engine.streams.replacing import Replacing
from lakestream.output.columns import FLAT, Provenance
from lakestream.storage.writes.keys import numbered

if TYPE_CHECKING:
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Table

TIME = pa.timestamp("us", "UTC")
KEYS = {"ts": TIME, "g": pa.float64(), "s": pa.string()}
STRUCT = Provenance("window")
TOLD = [(places, key) for places in (FLAT, STRUCT, None) for key in ([*KEYS], ["ts"], []) if places or key]
"""How rows say which window they come from, and what tells them apart: one of these at least."""


def rows_of(random: Random, count: int, places: Provenance | None) -> pa.Table:
    """Return rows of some keys and windows, drawn from few values."""
    columns: dict[str, Any] = {
        "ts": pa.array([random.randrange(4) for _ in range(count)], TIME),
        "g": pa.array([random.choice([0.0, -0.0, 1.5, float("nan"), None]) for _ in range(count)]),
        "s": pa.array([random.choice(["a", "", None]) for _ in range(count)], pa.string()),
        "v": pa.array([random.randrange(1_000_000) for _ in range(count)], pa.int64()),
    }
    group = pa.array([random.randrange(3) for _ in range(count)], pa.int64())
    start = pa.array([random.randrange(4) for _ in range(count)], TIME)
    end = pa.array([4 + random.randrange(3) for _ in range(count)], TIME)
    if places is FLAT:
        columns |= {"_ls_group": group, "_ls_start": start, "_ls_end": end}
    elif places is not None:
        columns["window"] = pa.StructArray.from_arrays([start, end, group], ["start", "end", "group"])
    return pa.table(columns)


def replacing_of(
    old: pa.Table, places: Provenance | None, key: list[str], retracted: pa.Table | None, patch: Any
) -> Replacing:
    shape = SimpleNamespace(key=key, provenance=places)
    target = SimpleNamespace(shape=shape, info=SimpleNamespace(time_column="ts"), appends=not key)
    table = SimpleNamespace(refresh=lambda: 1, schema=old.schema)
    patch.setattr(replacing, "read_arrow", lambda *_, **__: old)
    return Replacing(cast("Table", table), cast("Target", target), retracted)


def one_by_one(
    old: pa.Table, new: pa.Table, places: Provenance | None, key: list[str], retracted: pa.Table | None
) -> list[str]:
    """Return what is written, each row judged by itself."""

    def keyed(row: dict[str, Any], window: tuple[int, int, int]) -> tuple[Any, ...]:
        if not key:
            return window[:2]
        return tuple("NaN" if row[name] != row[name] else row[name] for name in key)

    def listed(rows: pa.Table) -> list[tuple[dict[str, Any], tuple[int, int, int]]]:
        windows = places.extents(rows) if places else [(0, 0, 0)] * rows.num_rows
        return [*zip(rows.to_pylist(), windows, strict=True)]

    gone = set() if retracted is None else {tuple(row.values()) for row in retracted.to_pylist()}
    written = {keyed(row, window): window for row, window in listed(new)}
    stay = []
    for row, (gid, low, high) in listed(old):
        by = written.get(keyed(row, (gid, low, high)))
        later = by is not None and (gid, low) != by[:2] and (high, gid, low) > (by[2], by[0], by[1])
        if not (places and (gid, low) in gone) and (by is None or (places and later)):
            stay.append((row, (gid, low, high)))
    lost = {keyed(*one) for one in stay}
    kept = [row for row, window in listed(new) if keyed(row, window) not in lost]
    return sorted(map(repr, [*kept, *(row for row, _ in stay)]))


@pytest.mark.parametrize(("places", "key"), TOLD)
def test_rows_stay_as_if_each_was_judged_by_itself(
    places: Provenance | None, key: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(40):
        random = Random(seed)
        old, new = (rows_of(random, random.randrange(most), places) for most in (30, 12))
        names = ["gid", "low"]
        gone = None if places is None or seed % 3 == 0 else places.windows(old).select(names).slice(0, 5)
        found = replacing_of(old, places, key, gone, monkeypatch)._with_survivors(new, new, "")
        assert sorted(map(repr, found.to_pylist())) == one_by_one(old, new, places, key, gone), seed


@pytest.mark.parametrize("key", [["ts", "s"], []], ids=len)
def test_many_rows_are_not_looked_at_one_by_one(key: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of Python for each of them took some hundred bytes a row."""
    count = 50_000
    numbers = pa.array(range(count), pa.int64())
    start = numbers.cast(TIME)
    window = pa.StructArray.from_arrays([start, start, numbers], ["start", "end", "group"])
    old = pa.table({"ts": start, "s": pa.array(map(str, range(count))), "window": window})
    new = old.slice(0, count // 2)
    gone = STRUCT.windows(old).select(["gid", "low"]).slice(count // 2, count // 4)
    tested = replacing_of(old, STRUCT, key, gone, monkeypatch)
    tracemalloc.start()
    try:
        found = tested._with_survivors(new, new, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.num_rows == count * 3 // 4
    assert peak < 100 * count


def test_rows_that_are_equal_have_one_number() -> None:
    nan = float("nan")
    left = pa.table({"a": pa.array([1.0, nan, None, -0.0]), "b": pa.array(["x", None, "x", "x"])})
    right = pa.table({"b": pa.array([None, "x", "x"]), "a": pa.array([nan, 0.0, None])})
    ours, theirs = numbered(left, right)
    assert len({*ours}) == 4
    assert [*theirs] == [ours[1], ours[3], ours[2]]
    assert [*map(len, numbered(left.slice(4), right.slice(3)))] == [0, 0]
