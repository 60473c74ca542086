"""What a tick takes of memory by its size: MiB of this process beyond what it had, measured and fitted.

Usage: ``python -m tests.scale.memory [NAME]…``: all that there are, or some. Each size has a process of its
own, in which a small tick has come before; no Spark.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.scale.costs import Fed, fitted

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (50_000, 150_000, 450_000)
_OF = "--of"


def _sessions(fed: Fed, windows: int) -> None:
    """A session for each row, of a thousand groups."""
    fed.lake.sql("DROP STREAM s0")
    fed.lake.sql(
        "CREATE STREAM s SESSION(ts, 5s) FROM m0 PARTITION BY g INTO sessions AS "
        "SELECT _twstart AS at, avg(v) AS v FROM %%trows"
    )
    fed.round(groups=1_000)
    fed.round(rows=windows, groups=1_000, apart=10)


MEASURES: dict[str, Callable[[Fed, int], object]] = {
    "rows": lambda fed, rows: fed.round(rows=rows),
    "groups": lambda fed, groups: fed.round(rows=groups, groups=groups),
    "windows": lambda fed, windows: fed.round(rows=windows, groups=1, apart=10),
    "sessions": _sessions,
}
"""A tick of a size: by its rows; by the groups that it makes known, each with an open window; by the windows
of the clock's grid, and by those that rows cut, which it closes."""


def taken(name: str, size: int) -> tuple[float, float]:
    """Return the MiB that a tick takes at its peak, and that are held behind it."""
    with tempfile.TemporaryDirectory(prefix="lakestream-scale-") as folder, Fed(Path(folder, "lake")) as fed:
        fed.round()
        fed.round()
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # what was the peak before counts no more
        MEASURES[name](fed, size)
        return _status("VmHWM") - before, _status("VmRSS") - before


def _status(name: str) -> float:
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0]) / 1024


def _in_process(name: str, size: int) -> list[float]:
    command = [sys.executable, "-m", "tests.scale.memory", _OF, name, str(size)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in said.split()]


def main(*words: str) -> None:
    """Print what each step takes at three sizes, and the lines through them."""
    if words[:1] == (_OF,):
        print(*taken(words[1], int(words[2])))  # noqa: T201 - the parent reads it
        return
    for name in words or MEASURES:
        found = {size: _in_process(name, size) for size in SIZES}
        peak = fitted([*found], [one[0] for one in found.values()])
        shown = ", ".join(f"{size}: {most:.0f} MiB ({held:.0f} held)" for size, (most, held) in found.items())
        sys.stdout.write(f"{name}: {shown}; {peak.fixed:.0f} MiB and {peak.each * 1024:.3f} KiB each\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
