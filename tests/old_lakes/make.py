"""Make a lake with streams of every family in the middle of their work, and pack it.

``python -m tests.old_lakes.make NAME`` writes ``NAME.tar.gz`` beside this file. It is run once with a
version; the archive stays as it is.
"""

from __future__ import annotations

import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from lakestream import Lake, ManualClock, Settings

HERE = Path(__file__).parent
NOW = datetime(2025, 1, 1, 1, tzinfo=UTC)
TRIGGERS = {
    "tumbling": ("INTERVAL(10s) SLIDING(10s)", "FILL_HISTORY"),
    "exact": ("INTERVAL(10s) SLIDING(5s)", "FILL_HISTORY|EXACT"),
    "instants": ("SLIDING(10s)", "FILL_HISTORY"),
    "sessions": ("SESSION(at, 5s)", "FILL_HISTORY|EXACT"),
    "states": ("STATE_WINDOW(s)", "FILL_HISTORY"),
    "events": ("EVENT_WINDOW(START WITH s = 1 END WITH s = 2)", "FILL_HISTORY"),
    "counts": ("COUNT_WINDOW(2)", "FILL_HISTORY"),
    "delayed": ("INTERVAL(1m) SLIDING(1m)", "FILL_HISTORY|MAX_DELAY(10s)"),
}
"""Streams by their name: trigger and options."""


@click.command(help=__doc__)
@click.argument("name")
def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        _fill(lake)
        with tarfile.open(HERE / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(lake, arcname="lake")


def _fill(path: Path) -> None:
    with Lake(path, settings=Settings(master="local[2]"), clock=ManualClock(NOW)) as lake:
        lake.sql("CREATE TABLE t (at TIMESTAMP, g INT, s INT, x DOUBLE)")
        lake.sql(rows_from(0, 60))
        for stream, (trigger, options) in TRIGGERS.items():
            start = "_tprev_ts" if stream == "instants" else "_twstart"
            lake.sql(
                f"CREATE STREAM {stream} {trigger} FROM t PARTITION BY g STREAM_OPTIONS({options}) "
                f"INTO o_{stream} AS SELECT {start} AS w, count(*) AS n, sum(x) AS total FROM %%trows"
            )
        lake.sql(
            "CREATE STREAM dropping WITH (TIMESTAMP='at') INTO o_dropping AS "
            "SELECT g, count(*) AS n FROM t GROUP BY g, TUMBLINGWINDOW(ss, 10)",
            dialect="ekuiper",
        )
        lake.run()
        lake.sql(rows_from(60, 75))
        lake.sql("DELETE FROM t WHERE at = '2025-01-01 00:00:12'")
        lake.run()
        lake.sql("CREATE DATABASE root.ln", dialect="iotdb")
        lake.sql("INSERT INTO root.ln.d1(timestamp, v) VALUES (1000, 1.5), (2000, 2.5)", dialect="iotdb")


def rows_from(start: int, end: int) -> str:
    """Return a statement that inserts a row a second in two groups, seven seconds left out of each 20."""
    rows = (
        f"('2025-01-01 00:{second // 60:02}:{second % 60:02}', {second % 2}, {second // 3 % 2 + 1}, {second})"
        for second in range(start, end)
        if second % 20 < 13
    )
    return f"INSERT INTO t VALUES {', '.join(rows)}"


if __name__ == "__main__":
    main()
