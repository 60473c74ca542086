"""What a power cut leaves: of what was written since the last force to the disk anything, whole, torn or not.

A process is recorded while it makes a lake and works on it. From every state that a cut may leave at any
moment (``tests.faults.power.disk``) the lake opens, has all that somebody was told of, and goes on to the
rows that it would have without the cut. ``make test`` tries some states of one scenario, ``make faults`` all
of all.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from tests.faults.power.disk import Disk, cuts
from tests.faults.power.recording import COMPILER, Event, record
from tests.faults.power.scenarios import CHEAP, SCENARIOS, Scenario, verified

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.power.disk import Tree

pytestmark = pytest.mark.faults

TRIED, VERIFIED = 12, 10
"""How many states of a scenario are tried where not all are; each how many-th is verified."""
ASKING = ("exact", "continuous", "spark")
"""The scenarios in which Spark is asked."""
PASSING = ("/claims", "/lock")
"""Names of what is for running processes: none of them is alive after a power cut."""


@dataclass(frozen=True)
class Recording:
    """What the process of a scenario did to its folder, and what is in the tables in the end.

    The folder is ``whole`` by now: the lakes that cuts leave lie where it was, as they would.
    """

    scenario: Scenario
    root: Path
    whole: Path
    inode: int
    events: list[Event]
    rows: dict[str, Counter[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Record scenarios, each of them once."""
    known: dict[str, Recording] = {}

    def recording(name: str) -> Recording:
        if name not in known:
            known[name] = _recorded(name, tmp_path_factory.mktemp(name) / "recorded")
        return known[name]

    return recording


def _recorded(name: str, root: Path) -> Recording:
    root.mkdir()
    scenario, inode = SCENARIOS[name], root.stat().st_ino
    events = record(root, ["tests.faults.power.child", name, str(root)])
    assert played(events, root, inode).now() == found(root), "the recorder has not seen all"
    with scenario.opened(root / "lake", len(scenario.steps), **CHEAP) as lake:
        verified(lake, scenario.streams)
        rows = scenario.rows(lake)
    whole = root.rename(root.with_name("whole"))
    return Recording(scenario, root, whole, inode, events, rows)


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


needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C compiler, by the name of cc")
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.spark] * (name in ASKING)) for name in SCENARIOS]
)


@needs_compiler
@each
def test_what_was_told_is_on_the_disk(recorded: Callable[[str], Recording], name: str) -> None:
    recording = recorded(name)
    disk = Disk(str(recording.root), recording.inode)
    for event in recording.events:
        disk.do(event)
        if event.kind == "told":
            lasting = disk.lasting()
            lost = {path for path, content in disk.now().items() if lasting.get(path, "") != content}
            assert {path for path in lost if not any(part in path for part in PASSING)} == set(), event.path


@needs_compiler
@each
def test_the_rows_are_those_of_a_query_over_the_source(
    recorded: Callable[[str], Recording], name: str
) -> None:
    recording = recorded(name)
    for table, query in recording.scenario.oracle.items():
        with duckdb.connect() as asked:
            asked.execute("SET timezone = 'UTC'")
            for read in ("source", table):
                folder = recording.whole / "lake" / "main" / read
                asked.register(read, DeltaTable(str(folder)).to_pyarrow_table())
            wanted = Counter(asked.execute(query).fetchall())
            assert wanted == Counter(asked.execute(f"SELECT start, n, total, g FROM {table}").fetchall())


@needs_compiler
@each
def test_a_lake_goes_on_after_a_power_cut(recorded: Callable[[str], Recording], name: str) -> None:
    recording = recorded(name)
    scenario, lake_root = recording.scenario, recording.root / "lake"
    moments = cuts(recording.events, str(recording.root), recording.inode)
    if os.environ.get("FAULT_CELLS") != "all":
        moments = Random(7).sample(moments, TRIED)
    for number, moment in enumerate(moments):
        laid(moment.tree, recording.root)
        event = recording.events[moment.event]
        try:
            assert scenario.go_on(lake_root, moment.told) == recording.rows
            if number % VERIFIED == 0:
                with scenario.opened(lake_root, len(scenario.steps), **CHEAP) as lake:
                    verified(lake, scenario.streams)
        except Exception as error:
            at = f"{event.kind} {event.path or event.inode}, event {moment.event}, {moment.told} told"
            raise AssertionError(f"state {number} of {len(moments)}, cut after {at}") from error


# --- the disk that forgets ---


TOP, FOLDER, FILE, OTHER = 1, 2, 3, 4
MADE = [Event("mkdir", FOLDER, 0, "/top/f", "", b""), Event("force", TOP, 0, "", "", b"")]
WRITTEN = [*MADE, Event("create", FILE, 0, "/top/f/a", "", b""), Event("write", FILE, 0, "", "", b"abcd")]
NAMED = Event("force", FOLDER, 0, "", "", b"")
FORCED = Event("force", FILE, 0, "", "", b"")
RENAMED = Event("rename", 0, 0, "/top/f/a", "/top/f/b", b"")
REWRITTEN = [Event("truncate", FILE, 0, "", "", b""), Event("write", FILE, 0, "", "", b"xy")]


@pytest.mark.parametrize(
    ("events", "left"),
    [
        (MADE[:1], [{}, {"f": None}]),
        (MADE, [{"f": None}]),
        (WRITTEN, [{}, {"a": b""}, {"a": b"ab"}, {"a": b"abcd"}]),
        ([*WRITTEN, FORCED], [{}, {"a": b"abcd"}]),
        ([*WRITTEN, NAMED], [{"a": b""}, {"a": b"ab"}, {"a": b"abcd"}]),
        ([*WRITTEN, FORCED, RENAMED], [{}, {"a": b"abcd"}, {"b": b"abcd"}]),
        ([*WRITTEN, FORCED, RENAMED, NAMED], [{"b": b"abcd"}]),
        ([*WRITTEN, FORCED, NAMED, *REWRITTEN], [{"a": b"abcd"}, {"a": b"xb"}, {"a": b"xy"}]),
        (
            [*WRITTEN, FORCED, NAMED, Event("unlink", 0, 0, "/top/f/a", "", b"")],
            [{}, {"a": b"abcd"}],
        ),
        (
            [*WRITTEN, FORCED, Event("link", 0, 0, "/top/f/a", "/top/f/b", b"")],
            [{}, {"a": b"abcd"}, {"b": b"abcd"}, {"a": b"abcd", "b": b"abcd"}],
        ),
    ],
)
def test_what_a_cut_leaves(events: list[Event], left: list[dict[str, bytes | None]]) -> None:
    disk = Disk("/top", TOP)
    for event in events:
        disk.do(event)
    states = [dict(tree) for tree in disk.states(0)]
    if events[:2] == MADE != events:
        states = [{name.removeprefix("f/"): tree[name] for name in tree if name != "f"} for tree in states]
    assert {frozenset(state.items()) for state in states} == {frozenset(state.items()) for state in left}


def test_of_many_changes_each_two_are_tried_in_each_way() -> None:
    disk = Disk("/top", TOP)
    names = [f"n{number}" for number in range(12)]
    for number, name in enumerate(names):
        disk.do(Event("mkdir", 10 + number, 0, f"/top/{name}", "", b""))
    states = [*disk.states(0)]
    assert len(states) < 40
    ways = {
        (one, two, one in tree, two in tree) for tree in states for one in names for two in names if one < two
    }
    assert len(ways) == 4 * len(names) * (len(names) - 1) // 2
