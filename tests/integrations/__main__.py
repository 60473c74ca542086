"""Operators by Airflow, assets by Dagster, models by dbt, and what lints the image: ``make integrations``.

Each is installed into an environment of its own, from a lock; the first two with what lakestream needs, whose
code there is this checkout's. dbt speaks to a daemon of this one; the tools that lint know nothing of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.apart import Apart

HERE = Path(__file__).parent
BESIDE = ("airflow", "dagster")
"""Those that lakestream works beside, in their process."""
NAMES = ("airflow", "dagster", "dbt", "deploy")


def main(chosen: list[str]) -> int:
    """Run the checks of all or of those that are named, and return the exit status."""
    unknown = {*chosen} - {*NAMES}
    if unknown:
        sys.stderr.write(f"there is no {', '.join(sorted(unknown))}: {', '.join(NAMES)}\n")
        return 2
    return max([_check(name) for name in NAMES if name in chosen or not chosen])


def _check(name: str) -> int:
    made = Apart(f"integrations-{name}", HERE / name / "requirements.lock")
    if not made.make():
        return 1
    python = made.python if name in BESIDE else sys.executable
    own = {"AIRFLOW_HOME": str(made.folder / "home"), "TOOLS": str(made.folder / "bin")}
    command = [python, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull]
    checks = [f"--rootdir={HERE.parents[1]}", str(HERE / name / "checks.py")]
    environment = {**os.environ, **own, "PYTHONPATH": str(HERE.parents[1])}
    return subprocess.run([*command, *checks], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
