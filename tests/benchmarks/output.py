"""An output table seen from outside: when rows of a window appear, and what the windows hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from pyarrow import parquet

from tests.benchmarks.data import SECOND_US
from tests.benchmarks.process import CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.process import Program

_LOOK_EVERY_SECONDS = 0.002
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Output:
    """Follows the log of an output table commit by commit, the same way whoever writes it."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._version = 0

    def skip(self) -> None:
        """Pass over the commits that are there."""
        for _ in self._new_files():
            pass

    def wait_for(self, start_us: int, program: Program, seconds: float = 600.0) -> None:
        """Wait for a commit with rows of the window that starts then; skips the commits up to it.

        Raises RuntimeError when the program ends and TimeoutError when the commit does not come.
        """
        until = CLOCK.monotonic() + seconds
        while not any(_holds(file, start_us) for file in self._new_files()):
            program.check()
            if CLOCK.monotonic() > until:
                raise TimeoutError(f"no rows of window {start_us} in {self._table} after {seconds:.0f} s")
            CLOCK.sleep(_LOOK_EVERY_SECONDS)

    def counted(self, first_us: int, until_us: int) -> tuple[int, int]:
        """Return how many windows start in the span, and how many rows they counted."""
        return counted(self._table, first_us, until_us)

    def _new_files(self) -> Iterator[dict[str, Any]]:
        """Yield the files of each new commit with their statistics."""
        while (commit := self._table / "_delta_log" / f"{self._version:020}.json").exists():
            self._version += 1
            for line in commit.read_text("utf-8").splitlines():
                added = json.loads(line).get("add")
                if added and added.get("stats"):
                    yield json.loads(added["stats"])


class Files:
    """Follows a folder of Parquet files, of a system that has no table's log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[Path] = set()

    def skip(self) -> None:
        """Pass over the files that are there."""
        self._seen.update(self._files())

    def wait_for(self, start_us: int, program: Program, seconds: float = 600.0) -> None:
        """Wait for a file with rows of the window that starts then; skips the files up to it.

        Raises RuntimeError when the program ends and TimeoutError when the file does not come.
        """
        until = CLOCK.monotonic() + seconds
        while not any(_has(parquet.read_table(file), start_us) for file in self._new()):
            program.check()
            if CLOCK.monotonic() > until:
                raise TimeoutError(f"no rows of window {start_us} in {self._folder} after {seconds:.0f} s")
            CLOCK.sleep(_LOOK_EVERY_SECONDS)

    def counted(self, first_us: int, until_us: int) -> tuple[int, int]:
        """Return how many windows start in the span, and how many rows they counted."""
        return _counted(pa.concat_tables(map(parquet.read_table, self._files())), first_us, until_us)

    def _new(self) -> list[Path]:
        new = [file for file in self._files() if file not in self._seen]
        self._seen.update(new)
        return new

    def _files(self) -> list[Path]:
        """Return the files that are complete."""
        if not self._folder.exists():
            return []
        return [file for file in self._folder.iterdir() if not file.name.startswith((".", "_"))]


def _holds(statistics: dict[str, Any], start_us: int) -> bool:
    """Return whether a file has rows of windows around this start, by its statistics."""
    if "start" not in statistics.get("minValues", {}):
        return False
    low, high = (_micros(statistics[edge]["start"]) for edge in ("minValues", "maxValues"))
    return low <= start_us <= high


def _micros(text: str) -> int:
    return round((datetime.fromisoformat(text) - _EPOCH).total_seconds()) * SECOND_US


def counted(table: Path, first_us: int, until_us: int) -> tuple[int, int]:
    """Return how many windows of an output start in the span, and how many rows they counted."""
    query = QueryBuilder().register("output", DeltaTable(table))
    windows = pa.table(query.execute("SELECT start, n FROM output").read_all())
    return _counted(windows, first_us, until_us)


def _counted(windows: pa.Table, first_us: int, until_us: int) -> tuple[int, int]:
    starts = _starts(windows)
    inside = pc.and_(pc.greater_equal(starts, first_us), pc.less(starts, until_us))
    chosen = windows["n"].filter(inside)
    return len(chosen), int(pc.sum(chosen).as_py() or 0)


def _has(windows: pa.Table, start_us: int) -> bool:
    return bool(pc.any(pc.equal(_starts(windows), start_us)).as_py())


def _starts(windows: pa.Table) -> pa.ChunkedArray:
    """Return when windows start (µs); a time without a zone is UTC."""
    return windows["start"].cast(pa.timestamp("us", windows["start"].type.tz)).cast(pa.int64())


def require(found: object, expected: object, what: str) -> None:
    """Raise RuntimeError when a system has not computed what it had to: its figures mean nothing."""
    if found != expected:
        raise RuntimeError(f"{what}: expected {expected}, found {found}")
