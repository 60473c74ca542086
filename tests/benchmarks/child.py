"""One repetition of one scenario by one system: figures as JSON on the last line of standard output."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.scenarios import SCENARIOS


def main(scenario: str, system: str, scale: str) -> None:
    """Run the repetition in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakestream-bench-") as folder:
        measured = SCENARIOS[scenario][system](Path(folder), float(scale))
    sys.stdout.write(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
