"""Recordings of scenarios, and what comes of a lake that a power cut left in one of their states."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
from deltalake import DeltaTable

from lakestream.clock import SystemClock
from tests.faults.power.disk import Disk, cuts
from tests.faults.power.recording import Event, record
from tests.faults.power.scenarios import CHEAP, SCENARIOS, Rows, Scenario, verified

if TYPE_CHECKING:
    from tests.faults.power.disk import Cuts, Moment, Tree


MEMORY = Path("/dev/shm")
MORE = 2
"""Steps behind the one in which the power was cut."""
_EACH = 50
"""States between two lines that say how far it is."""


@dataclass(frozen=True)
class Recording:
    """What the process of a scenario did to its folder, and what is in the tables behind each step.

    The folder is ``whole`` by now: the lakes that cuts leave lie where it was, as they would.
    """

    name: str
    scenario: Scenario
    root: Path
    whole: Path
    inode: int
    events: list[Event]
    rows: list[Rows]

    def cuts(self) -> Cuts:
        """Return every state that a cut may leave."""
        return cuts(self.events, str(self.root), self.inode)

    def held_against_duckdb(self) -> None:
        """Compare the tables, for which a query is known, with what DuckDB makes of the source."""
        for table, query in self.scenario.oracle.items():
            with duckdb.connect() as asked:
                asked.execute("SET timezone = 'UTC'")
                for read in ("source", table):
                    folder = self.whole / "lake" / "main" / read
                    asked.register(read, DeltaTable(str(folder)).to_pyarrow_table())
                wanted = Counter(asked.execute(query).fetchall())
                columns = ", ".join(column[0] for column in asked.description or ())
                found = Counter(asked.execute(f"SELECT {columns} FROM {table}").fetchall())
                assert found == wanted, f"{table} is not what DuckDB makes of the source"


@dataclass
class Tried:
    """How many states of a scenario there are, were tried, and which failed, by what was wrong.

    ``lasting``: how many differ in more than what processes note of themselves.
    """

    name: str
    states: int = 0
    distinct: int = 0
    lasting: int = 0
    chosen: int = 0
    tried: int = 0
    seconds: float = 0
    failures: dict[str, list[str]] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Return how many failed."""
        return sum(map(len, self.failures.values()))


def recorded(name: str, root: Path, *, verify: bool) -> Recording:
    """Do a scenario in a folder that is made for it, and record that.

    ``verify``: have lakestream compare its tables with the batch evaluation.
    """
    root.mkdir()
    scenario, inode = SCENARIOS[name], root.stat().st_ino
    events = record(root, ["tests.faults.power.child", name, str(root)])
    assert played(events, root, inode).now() == found(root), "the recorder has not seen all"
    with scenario.opened(root / "lake", len(scenario.steps), **CHEAP) as lake:
        if verify:
            verified(lake, scenario.streams)
        in_the_end = scenario.rows(lake)
    rows = scenario.rows_by_step(root.with_name("uncut") / "lake")
    assert rows[-1] == in_the_end, "the rows are others"
    whole = root.rename(root.with_name("whole"))
    return Recording(name, scenario, root, whole, inode, events, rows)


def played(events: list[Event], root: Path, inode: int) -> Disk:
    """Return a disk to which events have happened."""
    disk = Disk(str(root), inode)
    for event in events:
        disk.do(event)
    return disk


def found(root: Path) -> Tree:
    """Return what is in a folder."""
    return {
        str(file.relative_to(root)): None if file.is_dir() else file.read_bytes() for file in root.rglob("*")
    }


def laid(tree: Tree, root: Path) -> None:
    """Make a folder as a power cut leaves it; the machine has been started anew since."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, content in tree.items():
        if content is None:
            (root / name).mkdir(parents=True, exist_ok=True)
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    for note in root.glob("lake/_lakestream/boot-*"):
        note.unlink()


def try_one(recording: Recording, moment: Moment, *, verify: bool = False) -> None:
    """Have a lake go on from a state; AssertionError, or what it raises, where it does not come to its rows.

    ``verify``: have lakestream compare it with the batch evaluation as well.
    """
    scenario, root = recording.scenario, recording.root
    laid(moment.tree, root)
    end = min(moment.told + 1 + MORE, len(scenario.steps))
    found = scenario.go_on(root / "lake", moment.told, end)
    assert found == recording.rows[end - 1], "the rows are others"
    if verify and end == len(scenario.steps):
        with scenario.opened(root / "lake", end, **CHEAP) as lake:
            verified(lake, scenario.streams)


def try_all(name: str, count: int | None, seed: int) -> Tried:
    """Record a scenario and try its states, or so many of them by chance; go on behind those that fail.

    In memory, where the machine has a file system for that.
    """
    logging.disable(logging.CRITICAL)
    clock = SystemClock()
    begun = clock.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        recording = recorded(name, Path(folder, "recorded"), verify=False)
        recording.held_against_duckdb()
        left = recording.cuts()
        chosen = chosen_of(left.moments, len(left.moments) if count is None else count, seed)
        tried = Tried(name, left.states, left.distinct, len(left.moments), len(chosen))
        for moment in chosen:
            try:
                try_one(recording, moment)
            except Exception as error:  # noqa: BLE001 each state is tried, whatever comes of another
                places = tried.failures.setdefault(_kind(error, recording), [])
                places.append(placed(recording, moment))
                if len(places) == 1:
                    say(f"{name}: {_kind(error, recording)}", places[0])
            tried.tried += 1
            tried.seconds = clock.monotonic() - begun
            if tried.tried % _EACH == 0:
                say(f"{name}: {tried.tried} of {tried.chosen}, {tried.failed} failed, {tried.seconds:.0f} s")
    return tried


def say(*lines: str) -> None:
    """Print a line at once, and others below it."""
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def chosen_of(moments: list[Moment], count: int, seed: int) -> list[Moment]:
    """Return so many of the states by chance, or all where there are no more; in an order by chance."""
    return Random(seed).sample(moments, min(count, len(moments)))


def placed(recording: Recording, moment: Moment) -> str:
    """Say when the power was cut."""
    event = recording.events[moment.event]
    where = event.path or event.inode
    return f"state {moment.number} after event {moment.event}, {event.kind} {where}, {moment.told} told"


def _kind(error: Exception, recording: Recording) -> str:
    text = str(error).replace(str(recording.root), "")
    return f"{type(error).__name__}: {text.strip().splitlines()[0][:200] if text.strip() else ''}"
