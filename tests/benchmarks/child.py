"""One run of one scenario by one system, or one preparation: in a process of its own, in a given folder.

``python -m tests.benchmarks.child run SCENARIO SYSTEM FOLDER SCALE`` prints figures as JSON on the last
line of standard output; ``… prepare PREPARATION FOLDER SCALE`` fills the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.benchmarks.scenarios import PREPARATIONS, SCENARIOS


def run(scenario: str, system: str, folder: str, scale: str) -> None:
    """Run a scenario and print its figures."""
    measured = SCENARIOS[scenario].systems[system](Path(folder), float(scale))
    sys.stdout.write(json.dumps(measured) + "\n")


def prepare(preparation: str, folder: str, scale: str) -> None:
    """Make what several runs start from."""
    PREPARATIONS[preparation].make(Path(folder), float(scale))


if __name__ == "__main__":
    (run if sys.argv[1] == "run" else prepare)(*sys.argv[2:])
