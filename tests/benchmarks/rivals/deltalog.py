"""The log of a Delta table, as jobs follow it that take what is new since their last run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOK_EVERY_SECONDS = 0.01


@dataclass(frozen=True)
class Log:
    """The commits of a table to which rows are only appended."""

    table: Path

    def has(self, version: int) -> bool:
        """Return whether there is such a commit."""
        return self._commit(version).exists()

    def added(self, first: int) -> tuple[list[str], int]:
        """Return the files that commits from ``first`` on added, and the version behind the newest.

        Raises ValueError when one of them took rows away: such a job has no answer to that.
        """
        files: list[str] = []
        version = first
        while self.has(version):
            for line in self._commit(version).read_text("utf-8").splitlines():
                action = json.loads(line)
                if action.get("remove", {}).get("dataChange"):
                    raise ValueError(f"version {version} of {self.table} removes rows")
                if action.get("add", {}).get("dataChange"):
                    files.append(str(self.table / unquote(action["add"]["path"])))
            version += 1
        return files, version

    def _commit(self, version: int) -> Path:
        return self.table / "_delta_log" / f"{version:020}.json"


class Following:
    """A job on what is new in a source; its output stands in its folder."""

    source: Path
    folder: Path

    @property
    def target(self) -> Path:
        """Return where the output is."""
        return self.folder / "target"

    def run(self) -> int:
        """Take the commits that are there and return which one is needed next."""
        raise NotImplementedError

    def watch(self) -> None:
        """Take commits as they come, without end."""
        follow(Log(self.source), self.run(), self.run)


def follow(log: Log, version: int, run: Callable[[], int]) -> None:
    """Run a job whenever there is a commit that it has not taken; it returns which one it needs next."""
    from lakestream.clock import SystemClock

    clock = SystemClock()
    while True:
        if log.has(version):
            version = run()
        else:
            clock.sleep(LOOK_EVERY_SECONDS)
