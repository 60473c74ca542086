"""The job of a good engineer: DuckDB over the files that are new, delta-rs for what closed.

It keeps partial aggregates of the open windows only. What it has taken of the source stands in the output's
log, as the transaction of the commit that brought the rows (so nothing is written twice), and the partial
aggregates of that version in a file beside it. Windows that late rows change are calculated again from the
source and replaced; the output's files are small and in the order of time, so that this rewrites little.

``python -m tests.benchmarks.rivals.duckdb_job SOURCE FOLDER LENGTH STEP [--watch]`` calculates windows of a
length, one every step, in seconds, of what is there; with ``--watch``, until it is ended.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.benchmarks.rivals.deltalog import Following, Log

SECOND_US = 1_000_000
OUTPUT = pa.schema(
    [
        ("start", pa.timestamp("us", "UTC")),
        ("tbname", pa.string()),
        ("mean", pa.float64()),
        ("top", pa.float64()),
        ("n", pa.int64()),
    ]
)
_APPLICATION = "duckdb_job"
_OPEN = "tbname TEXT, start BIGINT, until BIGINT, total DOUBLE, top DOUBLE, n BIGINT"
_FILE_BYTES = 2 << 20


class Windows(Protocol):
    """How rows become windows: queries over the partial aggregates in the table ``open``."""

    def partials(self) -> str:
        """Return the query for the partial aggregates with the rows of ``$files``."""

    def closed(self) -> str:
        """Return the query for windows that the watermark ``$now`` closes and ``$before`` had not."""

    def needed(self) -> str:
        """Return the condition for partial aggregates of windows that are open at ``$now``."""

    def late(self) -> str:
        """Return the query for windows that ``$before`` had closed and rows of ``$files`` change."""

    def again(self) -> str:
        """Return the query for the windows in the table ``late``, from rows of ``$files``."""


@dataclass(frozen=True)
class Grid:
    """Windows of a length, one every step (µs); a partial aggregate for each step."""

    length: int
    step: int

    def partials(self) -> str:
        """Aggregate the new rows by step, and add what is known of the steps."""
        return (
            "SELECT tbname, start, max(until) AS until, sum(total) AS total, max(top) AS top,"
            " sum(n)::BIGINT AS n FROM (FROM open UNION ALL"
            f" SELECT tbname, {self._step_of_row()}, max(epoch_us(ts)), sum(v), max(v), count(*)"
            " FROM read_parquet($files) GROUP BY ALL) GROUP BY ALL"
        )

    def closed(self) -> str:
        """Put the windows together from their steps."""
        return (
            f"SELECT tbname, start - step AS start, sum(total) / sum(n) AS mean, max(top) AS top, sum(n) AS n"
            f" FROM open, {self._steps()} WHERE start - step + {self.length} > $before"
            f" AND start - step + {self.length} <= $now GROUP BY ALL"
        )

    def needed(self) -> str:
        """Keep the steps of open windows."""
        return f"start + {self.length} > $now"

    def late(self) -> str:
        """Take the windows that late rows lie in, of all devices that have any."""
        return (
            f"WITH late AS (SELECT tbname, {self._step_of_row()} AS start FROM read_parquet($files)"
            f" WHERE ts < make_timestamptz($before // {self.step} * {self.step}))"
            f" SELECT tbname, start, start + {self.length} AS until FROM (SELECT DISTINCT tbname FROM late),"
            f" (SELECT DISTINCT start - step AS start FROM late, {self._steps()})"
            f" WHERE start + {self.length} <= $before"
        )

    def again(self) -> str:
        """Aggregate the rows of those windows."""
        return (
            "SELECT late.tbname, start, avg(v) AS mean, max(v) AS top, count(*) AS n"
            " FROM late JOIN read_parquet($files) AS rows ON rows.tbname = late.tbname"
            " AND epoch_us(ts) >= start AND epoch_us(ts) < until"
            " WHERE ts >= make_timestamptz($first) AND ts < make_timestamptz($last) GROUP BY ALL"
        )

    def _steps(self) -> str:
        return f"range(0, {self.length}, {self.step}) steps(step)"

    def _step_of_row(self) -> str:
        return f"epoch_us(ts) // {self.step} * {self.step}"


@dataclass(frozen=True)
class Sessions:
    """Runs of rows with at most a gap (µs) between two; a partial aggregate for each open one.

    They are for sources in the order of time: a late row would be a session of its own.
    """

    gap: int

    def partials(self) -> str:
        """Sort what is open and what is new by time, and cut where the gap is too long."""
        return (
            "SELECT tbname, min(start) AS start, max(until) AS until, sum(total) AS total, max(top) AS top,"
            " sum(n)::BIGINT AS n FROM (SELECT *, count(*) FILTER (cut) OVER (PARTITION BY tbname"
            " ORDER BY start ROWS UNBOUNDED PRECEDING) AS number FROM (SELECT *,"
            f" start - lag(until) OVER (PARTITION BY tbname ORDER BY start) > {self.gap} AS cut"
            " FROM (FROM open UNION ALL SELECT tbname, epoch_us(ts), epoch_us(ts), v, v, 1"
            " FROM read_parquet($files)))) GROUP BY tbname, number"
        )

    def closed(self) -> str:
        """Take the sessions whose gap has passed."""
        return (
            "SELECT tbname, start, total / n AS mean, top, n FROM open"
            f" WHERE until + {self.gap} < $now AND until + {self.gap} >= $before"
        )

    def needed(self) -> str:
        """Keep the sessions that may go on."""
        return f"until + {self.gap} >= $now"

    def late(self) -> str:
        """Take none."""
        return "SELECT tbname, start, until FROM open WHERE $files IS NULL AND $before IS NULL"

    def again(self) -> str:
        """Aggregate none."""
        raise NotImplementedError


@dataclass
class Job(Following):
    """Keeps the windows of a source in an output. ``plus``: what its mean adds, to tell jobs apart."""

    source: Path
    folder: Path
    windows: Windows
    plus: int = 0
    _next: int = field(default=0, init=False)
    _watermark: int = field(default=0, init=False)
    _rows: DeltaTable | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Go on where the output's log says that the last run ended."""
        self._log = Log(self.source)
        self._target = self._open_target()
        self._duckdb = duckdb.connect(config={"threads": 2})
        self._duckdb.execute("SET TimeZone = 'UTC'")
        self._duckdb.execute(f"CREATE TABLE open ({_OPEN})")
        taken = self._target.transaction_version(_APPLICATION)
        if taken is not None:
            self._next = taken + 1
            self._duckdb.execute(f"INSERT INTO open FROM '{self._state(self._next)}'")
            self._watermark = self._newest()

    def run(self) -> int:
        """Take the commits that are there and return which one is needed next."""
        files, following = self._log.added(self._next)
        if files:
            self._take(files, following)
        return self._next

    def _take(self, files: list[str], following: int) -> None:
        """Add the rows of files to the open windows, and write those that closed or changed."""
        before = self._watermark
        late = self._late(files)
        self._duckdb.execute(f"CREATE OR REPLACE TABLE open AS {self.windows.partials()}", {"files": files})
        self._watermark = max(before, self._newest())
        closed = self._windows(self.windows.closed(), before=before, now=self._watermark)
        self._duckdb.execute(
            f"DELETE FROM open WHERE NOT ({self.windows.needed()})", {"now": self._watermark}
        )
        self._duckdb.execute(f"COPY open TO '{self._state(following)}' (FORMAT parquet)")
        self._write(closed, late, following)
        self._state(self._next).unlink(missing_ok=True)
        self._next = following

    def _newest(self) -> int:
        """Return the newest time of the source (µs): its window is always open."""
        [(newest,)] = self._duckdb.execute("SELECT max(until) FROM open").fetchall()
        return int(newest)

    def _late(self, files: list[str]) -> pa.Table | None:
        """Return the windows that had closed and change, None without any; the table ``late`` names them."""
        query = f"CREATE OR REPLACE TABLE late AS {self.windows.late()}"
        self._duckdb.execute(query, {"files": files, "before": self._watermark})
        [(first, last)] = self._duckdb.execute("SELECT min(start), max(until) FROM late").fetchall()
        if first is None:
            return None
        return self._windows(self.windows.again(), files=self._between(first, last), first=first, last=last)

    def _windows(self, query: str, **values: object) -> pa.Table:
        """Return the output's rows of a query for windows, in the order of time."""
        shown = "make_timestamptz(start) AS start, tbname, mean + $plus AS mean, top, n"
        ordered = f"SELECT {shown} FROM ({query}) ORDER BY start"
        found = self._duckdb.sql(ordered, params=values | {"plus": self.plus})
        return found.to_arrow_table().cast(OUTPUT)

    def _between(self, first: int, last: int) -> list[str]:
        """Return the source's files that may have rows of a time, by their statistics."""
        if self._rows is None:
            self._rows = DeltaTable(self.source)
        self._rows.update_incremental()
        files = pa.table(self._rows.get_add_actions(flatten=True))
        low, high = (files[edge].cast(pa.int64()) for edge in ("min.ts", "max.ts"))
        chosen = files["path"].filter(pc.and_(pc.greater_equal(high, first), pc.less(low, last)))
        return [str(self.source / path) for path in chosen.to_pylist()]

    def _write(self, closed: pa.Table, late: pa.Table | None, following: int) -> None:
        """Commit windows that closed, and late ones in place of what they were."""
        properties = CommitProperties(app_transactions=[Transaction(_APPLICATION, following - 1)])
        write = partial(
            write_deltalake, self._target, target_file_size=_FILE_BYTES, commit_properties=properties
        )
        if late is None:
            write(closed, mode="append")
        else:
            replaced = _those(late) + _behind(closed)
            write(pa.concat_tables([late, closed]), mode="overwrite", predicate=replaced)

    def _open_target(self) -> DeltaTable:
        self.folder.mkdir(exist_ok=True)
        return DeltaTable.create(self.target, OUTPUT, mode="ignore")

    def _state(self, following: int) -> Path:
        """Return the file with the partial aggregates before a commit is taken."""
        return self.folder / f"open-{following}.parquet"


def _those(windows: pa.Table) -> str:
    """Return the condition of the rows of windows, by all their times and all their devices."""
    starts = ", ".join(f"'{start.isoformat()}'" for start in windows["start"].unique().to_pylist())
    names = ", ".join(f"'{name}'" for name in windows["tbname"].unique().to_pylist())
    return f"start IN ({starts}) AND tbname IN ({names})"


def _behind(windows: pa.Table) -> str:
    """Return the further condition of rows of windows that are new, of which there are none yet."""
    if not windows.num_rows:
        return ""
    return f" OR start >= '{windows['start'][0].as_py().isoformat()}'"


def main(source: str, folder: str, length: str, step: str, watch: str = "") -> None:
    """Run the job over what is there, or until it is ended."""
    windows = Grid(int(length) * SECOND_US, int(step) * SECOND_US)
    job = Job(Path(source), Path(folder), windows)
    if watch:
        job.watch()
    else:
        job.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
