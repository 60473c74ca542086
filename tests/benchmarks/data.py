"""Rows for the benchmarks: devices that send a value every second, written by delta-rs.

``python -m tests.benchmarks.data WRITER ARGUMENTS`` writes them in a process of its own, so that the
memory it takes is not that of the system under measurement; ARGUMENTS are a JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
from pyarrow import parquet

from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_US = 1_000_000
START_US = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * SECOND_US
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("v", pa.float64()), ("tbname", pa.string()), ("g", pa.int32())]
)

LARGE_ROWS, LARGE_COMMITS, LARGE_DEVICES = 10_000_000, 2_000, 100
_SMALL_COMMIT_ROWS = 500
_CHECKPOINT_COMMITS = 100

_NO_UPKEEP = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def rows(first: int, count: int, devices: int) -> pa.Table:
    """Return ``count`` rows in time order, numbered from ``first``: every device once a second."""
    number = np.arange(first, first + count)
    return table_of(START_US + (number // devices) * SECOND_US, number, devices)


def first_devices(second: int, count: int, devices: int) -> pa.Table:
    """Return a row of each of the first ``count`` of many devices, at a second from the start."""
    number = np.arange(count)
    return table_of(np.full(count, START_US + second * SECOND_US), number, devices)


RUN_ROWS, RUN_SECONDS = 10, 70
"""A run of rows of a device, one a second, and the seconds from one run to the next: a minute's pause."""


def runs(first: int, count: int, devices: int) -> pa.Table:
    """Return rows in time order, numbered from ``first``, in which every device sends in runs.

    ``state`` changes from run to run, ``phase`` numbers the rows of a run.
    """
    number = np.arange(first, first + count)
    run, phase = np.divmod(number // devices, RUN_ROWS)
    content = table_of(START_US + (run * RUN_SECONDS + phase) * SECOND_US, number, devices)
    columns = {"state": pa.array(run % 3, pa.int32()), "phase": pa.array(phase, pa.int32())}
    for name, values in columns.items():
        content = content.append_column(name, values)
    return content.select(["ts", "v", "state", "phase", "tbname", "g"])


def run_us(number: int) -> int:
    """Return when a run begins (µs)."""
    return START_US + number * RUN_SECONDS * SECOND_US


def burst(start_us: int, step_us: int, first: int, count: int) -> pa.Table:
    """Return rows numbered from ``first``, every device of the large source once a step from ``start_us`` on.

    They stand five milliseconds beside the full step: no row has the time of one of :func:`rows`.
    """
    number = np.arange(first, first + count)
    return table_of(start_us + (number // LARGE_DEVICES) * step_us + 5_000, number, LARGE_DEVICES)


def table_of(times_us: np.ndarray, number: np.ndarray, devices: int) -> pa.Table:
    """Return rows of those times, in which the devices take turns."""
    device = number % devices
    names = np.array([f"d{n}" for n in range(devices)])
    columns = [
        pa.array(times_us, pa.timestamp("us", "UTC")),
        pa.array(np.sin(number) * 10),
        pa.array(names[device]),
        pa.array(device % 7, pa.int32()),
    ]
    return pa.table(columns, schema=SCHEMA)


def append(table: DeltaTable, content: pa.Table) -> None:
    """Append rows as one commit; returns as soon as that is there, leaving the log as it is."""
    write_deltalake(table, content, mode="append", post_commithook_properties=_NO_UPKEEP)


def seconds_since_commit(table: DeltaTable, path: Path) -> float:
    """Return for how long the last commit of a handle has been there: its writer reads the log after it."""
    written = (path / "_delta_log" / f"{table.version():020}.json").stat().st_mtime
    return max(0.0, SystemClock().now().timestamp() - written)


def large_shape(scale: float) -> tuple[int, int, int]:
    """Return the large source's rows, its big commits and its small ones, which come after them."""
    commits = max(20, round(LARGE_COMMITS * scale))
    big = max(1, commits // 40)
    in_small = (commits - big) * _SMALL_COMMIT_ROWS
    # Whole windows of ten seconds, so that a tick of the benchmark is one window of every device.
    whole = LARGE_DEVICES * 10
    count = max(round(LARGE_ROWS * scale), 2 * in_small) // whole * whole
    return count, big, commits - big


# --- writers, called in a process apart ----------------------------------------------------------


def write_apart(writer: Callable[..., None], **arguments: object) -> None:
    """Run one of the writers below in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.data", writer.__name__, json.dumps(arguments)]
    subprocess.run(command, check=True)


def write_rows(path: str, first: int, sizes: list[int], devices: int) -> None:
    """Append :func:`rows` in commits of the given sizes."""
    table = DeltaTable(path)
    for size in sizes:
        write_deltalake(table, rows(first, size, devices), mode="append")
        first += size


def write_runs(path: str, first: int, sizes: list[int], devices: int) -> None:
    """Append :func:`runs` in commits of the given sizes."""
    table = DeltaTable(path)
    for size in sizes:
        write_deltalake(table, runs(first, size, devices), mode="append")
        first += size


def write_burst(path: str, start_us: int, step_us: int, first: int, sizes: list[int], closed_us: int) -> None:
    """Append :func:`burst` in commits of the given sizes; with ``closed_us``, a row of every device then.

    Those rows are part of the last commit; 0 is for none.
    """
    table = DeltaTable(path)
    for number, size in enumerate(sizes, start=1):
        content = burst(start_us, step_us, first, size)
        if closed_us and number == len(sizes):
            content = pa.concat_tables([content, burst(closed_us, 0, 0, LARGE_DEVICES)])
        write_deltalake(table, content, mode="append")
        first += size


def write_large(path: str, scale: float) -> None:
    """Append the rows of the large source in the order of time: big commits, then many small ones."""
    count, big, small = large_shape(scale)
    in_big = count - small * _SMALL_COMMIT_ROWS
    size = in_big // big // LARGE_DEVICES * LARGE_DEVICES
    sizes = [size] * (big - 1) + [in_big - size * (big - 1)] + [_SMALL_COMMIT_ROWS] * small
    first = 0
    for version, size in enumerate(sizes, start=DeltaTable(path).version() + 1):
        _commit(Path(path), version, rows(first, size, LARGE_DEVICES))
        first += size
        if version % _CHECKPOINT_COMMITS == 0:
            DeltaTable(path).create_checkpoint()


def _commit(table: Path, version: int, content: pa.Table) -> None:
    """Append rows by hand: after each commit delta-rs looks through all files, too much for 2,000 of them."""
    file = table / f"part-{version:05}.parquet"
    parquet.write_table(content, file, compression="snappy")
    span = pc.min_max(content["ts"]).as_py()
    statistics = {
        "numRecords": content.num_rows,
        "minValues": {"ts": f"{span['min']:%Y-%m-%dT%H:%M:%S.000Z}"},
        "maxValues": {"ts": f"{span['max']:%Y-%m-%dT%H:%M:%S.000Z}"},
        "nullCount": {"ts": 0},
    }
    now_ms = round(SystemClock().now().timestamp() * 1_000)
    added = {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }
    commit = {"timestamp": now_ms, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    actions = (json.dumps(action) for action in ({"commitInfo": commit}, {"add": added}))
    (table / "_delta_log" / f"{version:020}.json").write_text("\n".join(actions) + "\n", encoding="utf-8")


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
