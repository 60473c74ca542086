"""Streams of every kind on a standalone cluster of this machine, held against those of a local run.

Usage: ``python -m tests.cluster [--rows N] [--scenario NAME]… [--stream NAME]… [--folder DIR]``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from lakestream.clock import SystemClock
from tests.cluster.history import STREAMS
from tests.cluster.scenarios import SCENARIOS, Run


def main() -> int:
    """Run the scenarios asked for; exit status 1 when an output is not what it is locally."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the source")
    parser.add_argument("--scenario", action="append", choices=[*SCENARIOS], default=[])
    parser.add_argument("--stream", action="append", choices=[*STREAMS, "once"], default=[])
    parser.add_argument("--folder", type=Path, help="where logs and lakes stay; else they go")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no master and worker outlive it
    clock, wrong = SystemClock(), 0
    with tempfile.TemporaryDirectory(prefix="lakestream-cluster-") as scratch:
        folder = options.folder or Path(scratch)
        run = Run(folder, options.rows, tuple(options.stream) or (*STREAMS, "once"))
        for name in options.scenario or [*SCENARIOS]:
            begun = clock.monotonic()
            found = SCENARIOS[name](run)
            wrong += bool(found)
            said = "; ".join(found) or "as it is to be"
            sys.stdout.write(f"{name}: {said} ({clock.monotonic() - begun:.0f} s)\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
