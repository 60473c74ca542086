"""A batch of random histories in this process: half of them with EXACT, half with the other policies."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from hypothesis import Phase, seed, settings

from lakestream import Settings
from lakestream.settings import PREFIX
from lakestream.storage.sessions.session import spark_session
from tests.properties.machine import ExactMachine, Machine, PolicyMachine, run_histories
from tests.properties.profiles import number
from tests.small import FEW_TABLES, INTERPRETED

STEPS = 15


def main(name: str, count: int, folder: Path) -> int:
    """Run the histories of the seed called ``name``; write the script of one that fails."""
    for variable in [known for known in os.environ if known.startswith(PREFIX)]:
        del os.environ[variable]
    spark = spark_session(
        Settings(master="local[1]", driver_memory="2g", spark_conf={**INTERPRETED, **FEW_TABLES})
    )
    halves: list[tuple[type[Machine], int]] = [
        (ExactMachine, count - count // 2),
        (PolicyMachine, count // 2),
    ]
    for machine, half in halves:
        how = settings(
            number(max(half, 1)),
            stateful_step_count=STEPS,
            derandomize=False,
            phases=(Phase.generate, Phase.shrink),
        )
        try:
            run_histories(seed(name)(machine), spark, how)
        except Exception:  # noqa: BLE001 - a mismatch, and anything that lakestream raises
            traceback.print_exc()
            _keep(folder / f"failure-{name}.py")
            return 1
    return 0


def _keep(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(Machine.failure or "", encoding="utf-8")
    sys.stdout.write(f"{Machine.failure}\nwritten to {file}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
