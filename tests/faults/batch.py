"""One lake under the random killer, on a Spark of its own.

Usage: ``python -m tests.faults.batch SEED CYCLES TRANSPORT [jvm]``
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from lakestream import Settings
from lakestream.storage.sessions.session import spark_session
from tests.faults import killer


def main() -> int:
    """Run the cycles; exit status 1 when an output was not what it should be, and its lake stays."""
    seed, cycles, transport, *jvm = sys.argv[1:]

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {seed}: {text}\n")
        sys.stdout.flush()

    folder = Path(tempfile.mkdtemp(prefix="lakestream-faults-"))
    spark = spark_session(Settings(master="local[2]", driver_memory="2g"))
    try:
        killer.run(
            folder / "lake",
            spark,
            cycles=int(cycles),
            seed=seed,
            transport=transport,
            jvm=bool(jvm),
            tell=tell,
        )
    except AssertionError as error:
        tell(f"{error}\nthe lake is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
