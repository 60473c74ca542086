"""Does the steps of a scenario, to be recorded: ``python -m tests.faults.power.child NAME ROOT``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.power.recording import tell
from tests.faults.power.scenarios import SCENARIOS


def main(name: str, root: str) -> None:
    """Do all steps in a lake below the folder, and note when each of them was told."""
    scenario = SCENARIOS[name]
    with scenario.opened(Path(root, "lake"), 0) as lake:
        for number in range(len(scenario.steps)):
            scenario.do(lake, number)
            tell(f"{name} {number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
