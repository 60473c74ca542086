"""Files of rows that are handed to Spark, in a lake in a store: written, listed, removed. No Spark."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestream.clock import ManualClock, SystemClock
from lakestream.storage.places import files
from lakestream.storage.rows import handed
from tests.store_server import BUCKET, store_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    with store_server() as server, pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment().items():
            patched.setenv(name, value)
        yield f"s3://{BUCKET}/of_files/_lakestream/handed"


def names_in(folder: str) -> list[str]:
    return sorted(name for name, _ in handed._listed(folder))


def test_files_are_as_they_were_handed_and_go_one_by_one(folder: str) -> None:
    rows = pa.table({"n": range(300_000), "text": ["ä b"] * 300_000})
    for name in ("one.parquet", "other.parquet"):
        handed._write(folder, name, rows)
    assert names_in(folder) == ["one.parquet", "other.parquet"]
    assert pq.read_table(io.BytesIO(files.read_bytes(folder, "one.parquet"))).equals(rows)
    handed._remove(folder, ["one.parquet"])
    assert names_in(folder) == ["other.parquet"]
    handed._remove(folder, [])
    assert names_in(folder) == ["other.parquet"]
    handed._remove(folder, ["other.parquet"])


def test_what_a_killed_process_left_goes_after_a_day(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handed._write(folder, "left.parquet", pa.table({"n": [1]}))
    handed._remove_abandoned(folder)
    assert names_in(folder) == ["left.parquet"]
    tomorrow = ManualClock(SystemClock().now() + timedelta(hours=25))
    monkeypatch.setattr(handed, "SystemClock", lambda: tomorrow)
    handed._remove_abandoned(folder)
    assert names_in(folder) == []
