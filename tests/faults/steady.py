"""A steady load: a commit a second for as long as you like; what it costs at the end, beside the beginning.

Usage: ``python -m tests.faults.steady MINUTES [compressed]``. Streams of three kinds are kept current by a
daemon of their own while rows are written, some of them late. Maintenance comes in the middle of each
quarter of the time. With ``compressed`` a commit holds the rows of two minutes, and the next one comes as
soon as this one is in the outputs: a day takes some minutes. One table is printed at the end; exit status 1
where a bound is broken, or an output is not the batch evaluation of its stream.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from rich.console import Console
from rich.table import Table

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from tests.faults.attach import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_T = TypeVar("_T")

GROUPS = 20
ROWS = 50
"""Rows of a commit, and ten times as many compressed."""
LATE_EVERY = 10
"""Of so many commits one has rows that are late."""
COMPRESSED_SECONDS = 120
"""The event time of a commit, compressed."""
SOURCE = "readings"
_FIRST_US = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
STREAMS = {
    "grid": "INTERVAL(10s) SLIDING(10s) FROM readings PARTITION BY g",
    "exact": "INTERVAL(10s) SLIDING(5s) FROM readings PARTITION BY g STREAM_OPTIONS(EXACT)",
    "sessions": "SESSION(ts, 5s) FROM readings PARTITION BY g STREAM_OPTIONS(EXACT)",
}
BEHIND_MOST = 220
"""Log entries behind a table's last checkpoint: ``compact_commits``, twice, and some."""
FILES_MOST = 150
"""Files of a table that ticks write: ``compact_commits``, and some, beside one for each two MiB."""
MORE_MOST = 0.2
"""The part by which the last quarter may cost more than the first."""
SLOPE_MOST = 1.0
"""MiB an hour by which the daemon's memory may grow, once it is warm."""
WARM = 1_500
"""Commits that are written before: DuckDB remembers each buffer that queries of few rows had, up to 32,768 of
a kind, which is some 15 MiB; with three streams it has them after so many."""
_FILE_BYTES = 2 * 1024 * 1024
_SHORT = {
    "delta.deletedFileRetentionDuration": "interval 30 seconds",
    "delta.logRetentionDuration": "interval 30 seconds",
}
"""How long outputs keep what is old, so that it is seen to go; VERIFY needs all of the source."""
_OWN = Settings(history_ticks=1_000_000)
_SETTINGS = {
    "LAKESTREAM_SERVER_PORT": "0",
    "LAKESTREAM_CONNECT_PORT": "0",
    "LAKESTREAM_MASTER": "local[1]",
    "LAKESTREAM_DRIVER_MEMORY": "1g",
    "LAKESTREAM_HISTORY_TICKS": str(_OWN.history_ticks),
    "LAKESTREAM_MAINTENANCE_AT": "never",
}


@dataclass(frozen=True)
class Look:
    """What was seen of the daemon and the lake: MiB, seconds of processor, the most of a table, files."""

    at: float
    resident: float
    processor: float
    files: int
    behind: int
    kept: int


@dataclass
class Steady:
    """A lake, its daemon, and what was seen."""

    root: Path
    log: Path
    minutes: float
    compressed: bool
    clock: SystemClock = field(default_factory=SystemClock)
    written: list[tuple[float, int]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    def make(self) -> None:
        """Make the lake."""
        with Lake(self.root, settings=_OWN) as lake:
            lake.sql(f"CREATE TABLE {SOURCE} (ts TIMESTAMP, g INT, v BIGINT)")
            for name, trigger in STREAMS.items():
                lake.sql(
                    f"CREATE STREAM {name} {trigger} INTO o_{name} AS "
                    "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
                )
        for name in STREAMS:
            self._table(f"o_{name}").alter.set_table_properties(_SHORT)

    def run(self) -> None:
        """Write until the time is over, and end the daemon when it has taken all."""
        count = round(self.minutes * 60 / (COMPRESSED_SECONDS if self.compressed else 1))
        upkeep = {count * part // 8 for part in (1, 3, 5, 7)}
        begun, looked = self.clock.monotonic(), self.clock.monotonic()
        with self._daemon() as daemon, Lake(self.root, settings=_OWN) as lake:
            for number in range(count):
                if not self.compressed:
                    self.clock.sleep(max(0.0, begun + number - self.clock.monotonic()))
                self._write(number)
                if self.compressed:
                    self._await_current(lake, daemon)
                if number in upkeep:
                    failed = [one for one in lake.maintain() if one.error]
                    assert not failed, failed
                if self.clock.monotonic() > looked + 5:
                    looked = self.clock.monotonic()
                    self.looks.append(self._look(daemon))
            self._await_current(lake, daemon)

    def _write(self, number: int) -> None:
        """Commit the rows of the next moments, some of them late now and then."""
        seconds, count = (COMPRESSED_SECONDS, 10 * ROWS) if self.compressed else (1, ROWS)
        numbers, span = np.arange(count), 1_000_000 * seconds
        at = _FIRST_US + number * span + numbers * (span // count)
        if number % LATE_EVERY == LATE_EVERY - 1:
            at[::7] -= 40_000_000
        rows = {"g": numbers % GROUPS, "v": (numbers + number) * 7919 % 1024}
        # A group of two is silent every other minute, so that sessions end.
        heard = (rows["g"] % 2 == 0) | (at // 60_000_000 % 2 == 0)
        columns = {
            "ts": pa.array(at[heard], pa.timestamp("us", "UTC")),
            "g": pa.array(rows["g"][heard], pa.int32()),
            "v": pa.array(rows["v"][heard], pa.int64()),
        }
        write_deltalake(self._path(SOURCE), pa.table(columns), mode="append")
        self.written.append((self.clock.now().timestamp(), int(heard.sum())))

    def _await_current(self, lake: Lake, daemon: subprocess.Popen[bytes]) -> None:
        deadline = self.clock.monotonic() + 300
        while {(one.status, one.lag) for one in lake.streams()} != {("Running", 0)}:
            assert daemon.poll() is None, self.log.read_text()[-4_000:]
            assert self.clock.monotonic() < deadline, lake.streams()
            self.clock.sleep(0.05)

    @contextmanager
    def _daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "lakestream", "--lake", str(self.root), "serve"]
        with self.log.open("ab") as log:
            daemon = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(CHECKOUT), **_SETTINGS}
            )
        try:
            yield daemon
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(60) == 0, self.log.read_text()[-4_000:]
        finally:
            daemon.kill()
            daemon.wait()

    def _look(self, daemon: subprocess.Popen[bytes]) -> Look:
        process = Path(f"/proc/{daemon.pid}")
        status, stat = (process / "status").read_text(), (process / "stat").read_text().rpartition(")")[2]
        own = [_live(table) for table in self._tables() if table.name != SOURCE]
        return Look(
            self.clock.now().timestamp(),
            int(status.partition("VmRSS:")[2].split()[0]) / 1024,
            sum(map(int, stat.split()[11:13])) / os.sysconf("SC_CLK_TCK"),
            max(files for files, _ in own),
            max(behind for _, behind in own),
            max(len([*self._path(f"o_{name}").rglob("*.*")]) for name in STREAMS),
        )

    def _tables(self) -> list[Path]:
        """Return the folders of the tables that there are, those of the lake itself among them."""
        return [log.parent for log in self.root.rglob("_delta_log") if [*log.glob("*.json")]]

    def _path(self, table: str) -> Path:
        return self.root / "main" / table

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(self._path(name))

    # --- what came of it ---

    def wrong(self) -> list[str]:
        """Return the outputs that are not the batch evaluation of their stream over the whole source."""
        with Lake(self.root, settings=_OWN) as lake:
            counts = {name: dict(lake.sql(f"VERIFY STREAM {name}").fetchall()) for name in STREAMS}
        found = [
            f"{name} does not verify: {one}" for name, one in counts.items() if int(one["differing rows"])
        ]
        with duckdb.connect() as db:
            db.register("source", self._table(SOURCE).to_pyarrow_dataset())
            db.register("found", self._table("o_exact").to_pyarrow_dataset())
            # The windows of a group that its last row has passed; those without rows too.
            wanted = (
                "SELECT w, count(ts) AS n, sum(v) AS total FROM"
                " (SELECT g, unnest(generate_series(time_bucket(INTERVAL 5 seconds, min(ts))"
                " - INTERVAL 5 seconds, max(ts) - INTERVAL 10 seconds, INTERVAL 5 seconds)) AS w"
                " FROM source GROUP BY g) AS cut"
                " LEFT JOIN source ON source.g = cut.g AND ts >= w AND ts < w + INTERVAL 10 seconds"
                " GROUP BY cut.g, w"
            )
            for one, other in (("found", "wanted"), ("wanted", "found")):
                db.sql(f"CREATE OR REPLACE VIEW wanted AS {wanted}")
                rows = db.sql(f"SELECT w, n, total FROM {one} EXCEPT ALL SELECT w, n, total FROM {other}")
                beyond = rows.limit(3).fetchall()
                found += [f"exact: rows of {one} that {other} has not: {beyond}"] if beyond else []
        return found

    def lines(self) -> list[Line]:
        """Return the figures by quarters."""
        with Lake(self.root, settings=_OWN) as lake:
            runs = {name: lake.runs(name, 1_000_000) for name in STREAMS}
        ticks = sorted((run.at_us, run.seconds * 1e3) for of_one in runs.values() for run in of_one)
        waits = _quarters(self._waits(sorted((run.at_us, run.rows_in) for run in runs["grid"])))
        took, looks = _quarters([took for _, took in ticks]), _quarters(self.looks)
        commits = [sum(part[0].at <= at <= part[-1].at for at, _ in self.written) for part in looks]
        spent = [
            (part[-1].processor - part[0].processor) * 1e3 / max(1, count)
            for part, count in zip(looks, commits, strict=True)
        ]
        warm = self.written[WARM][0] if len(self.written) > WARM else float("inf")
        slope, error = _slope([look for part in looks[1:] for look in part if look.at >= warm])
        said = f"{slope:.1f} ± {2 * error:.1f} MiB an hour; at most {SLOPE_MOST:.0f} once warm"
        lines = [Line("ticks", [len(part) for part in took])]
        for name, parts in (("a tick", took), ("commit to output", waits)):
            lines += [_level(f"{name}, p{of}, ms", [_quantile(one, of) for one in parts]) for of in (50, 99)]
        return [
            *lines,
            _level("processor of a commit, ms", spent),
            Line(
                "resident, least, MiB",
                [min(look.resident for look in part) for part in looks],
                said,
                slope - 2 * error > SLOPE_MOST,
            ),
            Line("resident, most, MiB", [max(look.resident for look in part) for part in looks]),
            _bounded("files of a table", [max(look.files for look in part) for part in looks], FILES_MOST),
            _bounded(
                "entries behind checkpoint", [max(x.behind for x in part) for part in looks], BEHIND_MOST
            ),
            _level("files kept of an output", [max(look.kept for look in part) for part in looks], since=1),
        ]

    def _waits(self, runs: Sequence[tuple[int, int]]) -> list[float]:
        """Return how long each commit waited until a tick had taken it, in ms; ticks take whole commits."""
        ends = np.array([at / 1e6 for at, _ in runs])
        taken = np.cumsum([rows for _, rows in runs])
        rows = np.cumsum([rows for _, rows in self.written])
        assert taken[-1] == rows[-1], (taken[-1], rows[-1])
        at = np.array([at for at, _ in self.written])
        return [float(wait) for wait in (ends[np.searchsorted(taken, rows)] - at) * 1e3]


@dataclass(frozen=True)
class Line:
    """A figure by quarters, what it may be, and whether it is not."""

    name: str
    values: Sequence[float]
    bound: str = ""
    is_broken: bool = False


def _level(name: str, values: Sequence[float], since: int = 0) -> Line:
    """Return a figure whose last quarter may be no more than some above an earlier one, the first mostly."""
    more = values[-1] / values[since] - 1 if values[since] else 0.0
    return Line(name, values, f"{more:+.0%}; at most {MORE_MOST:+.0%}", more > MORE_MOST)


def _bounded(name: str, values: Sequence[float], most: float) -> Line:
    return Line(name, values, f"at most {most:,.0f}", max(values) > most)


def _quarters(values: Sequence[_T]) -> list[Sequence[_T]]:
    ends = [round(len(values) * part / 4) for part in range(5)]
    return [values[low:high] for low, high in pairwise(ends)]


def _quantile(values: Sequence[float], percent: int) -> float:
    return float(np.percentile(values, percent))


def _slope(looks: Sequence[Look]) -> tuple[float, float]:
    """Return by how many MiB an hour the memory grew, by least squares, and the error of that.

    Of the least of each minute: what is in use between two ticks.
    """
    least: dict[int, float] = {}
    for look in looks:
        minute = int(look.at // 60)
        least[minute] = min(look.resident, least.get(minute, look.resident))
    if len(least) < 4:
        return 0.0, float("inf")
    hours = np.array([*least]) / 60
    (slope, _), covariance = np.polyfit(hours - hours.mean(), [*least.values()], 1, cov=True)
    return float(slope), float(covariance[0][0]) ** 0.5


def _live(table: Path) -> tuple[int, int]:
    """Return a table's files, less one for each two MiB, and its log entries behind a checkpoint."""
    sizes = pa.table(DeltaTable(table).get_add_actions(flatten=True))["size_bytes"].to_pylist()
    log = table / "_delta_log"
    last = log / "_last_checkpoint"
    since = json.loads(last.read_text())["version"] if last.exists() else -1
    behind = sum(int(entry.stem) > since for entry in log.glob("*.json"))
    return len(sizes) - sum(sizes) // _FILE_BYTES, behind


def main() -> int:
    """Run it, print the table; exit status 1 when a bound is broken or an output is wrong: its lake stays."""
    minutes, *compressed = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="lakestream-steady-"))
    steady = Steady(folder / "lake", folder / "daemon.log", float(minutes), bool(compressed))
    steady.make()
    steady.run()
    lines, console = steady.lines(), Console(width=140)
    shown = Table("", "1st quarter", "2nd", "3rd", "last", "bound", "")
    for line in lines:
        values = (f"{value:,.4g}" for value in line.values)
        shown.add_row(line.name, *values, line.bound, "broken" if line.is_broken else "")
    console.print(shown)
    wrong = steady.wrong()
    console.print("\n".join(wrong) or "all outputs are the batch evaluation of their stream")
    if wrong or any(line.is_broken for line in lines):
        console.print(f"the lake is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
