"""One repetition: the folders of its runs, and the processes that they are made in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks.scenarios import PREPARATIONS, SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

Figures = dict[str, list[float]]

ENVIRONMENT = {
    "LAKESTREAM_MASTER": "local[2]",
    "LAKESTREAM_DRIVER_MEMORY": "2g",
    "POLARS_MAX_THREADS": "2",
}
"""Settings of lakestream, of the Spark session that Structured Streaming runs in, and of Polars."""


@dataclass
class Repetition:
    """Runs scenarios one after the other; what several of them start from is made once.

    All of them see their lake under the same path, ``root/work``: what is prepared there is moved
    aside, and every run gets its own copy.
    """

    root: Path
    scale: float
    _unprepared: set[str] = field(default_factory=set)

    def run(self, scenario: str, system: str) -> Figures | None:
        """Run a scenario by a system; None when it failed (it has said why on standard error)."""
        if not self._set_up(SCENARIOS[scenario].start):
            return None
        said = self._child("run", scenario, system)
        return None if said is None else json.loads(said.splitlines()[-1])

    def _set_up(self, start: str | None) -> bool:
        """Fill the work folder with what a run starts from; False when that could not be made."""
        if start is not None and not self._prepare(start):
            return False
        shutil.rmtree(self._work, ignore_errors=True)
        if start is None:
            self._work.mkdir()
        else:
            shutil.copytree(self.root / start, self._work, copy_function=_link_data)
        return True

    def _prepare(self, name: str) -> bool:
        if name not in self._unprepared and not (self.root / name).exists():
            if self._set_up(PREPARATIONS[name].start) and self._child("prepare", name) is not None:
                self._work.rename(self.root / name)
            else:
                self._unprepared.add(name)
        return name not in self._unprepared

    @property
    def _work(self) -> Path:
        return self.root / "work"

    def _child(self, *arguments: str) -> str | None:
        command = [sys.executable, "-m", "tests.benchmarks.child", *arguments, str(self._work)]
        child = subprocess.run(
            [*command, str(self.scale)],
            env=os.environ | ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if child.returncode:
            sys.stderr.write(f"{' '.join(arguments)} failed with status {child.returncode}\n")
            return None
        return child.stdout


def _link_data(source: str, target: str) -> None:
    """Link a data file, which is never written again, and copy any other."""
    if source.endswith(".parquet") and "_delta_log" not in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
