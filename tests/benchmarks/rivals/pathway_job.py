"""Pathway over the Parquet files of the source, in the rivals' environment.

Its connector for Delta tables wants a licence's key. So rows come by its connector for Python, from the files
that the source's log names, and windows go into a Parquet file each time that some have closed.

``python -m tests.benchmarks.rivals.pathway_job watch SOURCE TARGET`` takes commits as they come, until it is
ended. ``… files`` reads lines ``FOLDER TARGET`` from standard input, calculates the windows of a folder's
files, and says ``done`` for each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from tests.benchmarks.rivals.deltalog import Log, follow

if TYPE_CHECKING:
    from collections.abc import Callable

    Take = Callable[[str], None]

WINDOW_US = 10_000_000


def calculate(feed: Callable[[Take], None], target: Path) -> None:
    """Write the tumbling windows of the files that are fed; each appears once, when it closes."""
    import pathway as pw
    from pathway.internals.parse_graph import G

    class Rows(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            feed(self._take)

        def _take(self, file: str) -> None:
            rows = parquet.read_table(file, columns=["ts", "v", "tbname"])
            for ts, v, name in zip(
                rows["ts"].cast(pa.int64()).to_pylist(),
                rows["v"].to_pylist(),
                rows["tbname"].to_pylist(),
                strict=True,
            ):
                self.next(ts=ts, v=v, tbname=name)
            self.commit()

    G.clear()
    schema = pw.schema_from_types(ts=int, v=float, tbname=str)
    rows = pw.io.python.read(Rows(), schema=schema, autocommit_duration_ms=1_000)
    windows = rows.windowby(
        rows.ts,
        window=pw.temporal.tumbling(duration=WINDOW_US),
        instance=rows.tbname,
        behavior=pw.temporal.exactly_once_behavior(),
    ).reduce(
        start=pw.this._pw_window_start,
        tbname=pw.this._pw_instance,
        mean=pw.reducers.avg(pw.this.v),
        top=pw.reducers.max(pw.this.v),
        n=pw.reducers.count(),
    )
    sink = _Sink(target)
    pw.io.subscribe(windows, on_change=sink.take, on_time_end=sink.write)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


class _Sink:
    """Keeps the windows that closed at one time and writes them as a file."""

    def __init__(self, target: Path) -> None:
        target.mkdir(exist_ok=True)
        self._target = target
        self._windows: list[dict[str, Any]] = []

    def take(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """Take a window."""
        del key, time
        if is_addition:
            self._windows.append(row)

    def write(self, time: int) -> None:
        """Write what there is; the file appears when it is complete."""
        if self._windows:
            rows = pa.Table.from_pylist(self._windows)
            starts = rows["start"].cast(pa.timestamp("us", "UTC"))
            file = self._target / f".{time}.parquet"
            parquet.write_table(rows.set_column(rows.schema.get_field_index("start"), "start", starts), file)
            file.rename(self._target / f"{time}.parquet")
            self._windows = []


def _follow(source: Path, take: Take) -> None:
    log = Log(source)
    position = 0

    def run() -> int:
        nonlocal position
        files, position = log.added(position)
        for file in files:
            take(file)
        return position

    follow(log, position, run)


def _once(folder: Path, take: Take) -> None:
    """Feed a folder's files in the order of their rows: late ones would be dropped."""

    def first(file: Path) -> int:
        return int(parquet.read_table(file, columns=["ts"])["ts"][0].value)

    for file in sorted(folder.glob("*.parquet"), key=first):
        take(str(file))


def main(mode: str, *folders: str) -> None:
    """Run as the module says."""
    if mode == "watch":
        source, target = map(Path, folders)
        calculate(lambda take: _follow(source, take), target)
    for line in sys.stdin if mode != "watch" else ():
        files, windows = map(Path, line.split())
        calculate(lambda take, files=files: _once(files, take), windows)  # type: ignore[misc]
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
