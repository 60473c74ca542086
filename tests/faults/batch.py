"""One lake under the random killer, on a Spark of its own.

Usage: ``python -m tests.faults.batch SEED CYCLES TRANSPORT``
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lakestream import Settings
from lakestream.storage.sessions.session import spark_session
from tests.faults import killer

if TYPE_CHECKING:
    from pathlib import Path


def main() -> int:
    """Run the cycles; exit status 1 when an output was not what it should be, and its lake stays."""
    seed, cycles, transport = sys.argv[1:]
    spark = spark_session(Settings(master="local[2]", driver_memory="2g"))

    def kill(root: Path, cycles: int, seed: str, tell: killer.Tell) -> int:
        return killer.run(root, spark, cycles=cycles, seed=seed, transport=transport, tell=tell)

    return killer.command(kill, seed, int(cycles), int(cycles))


if __name__ == "__main__":
    sys.exit(main())
