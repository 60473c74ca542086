"""What a power cut leaves: of what was written since the last force to the disk anything, whole, torn or not.

A process is recorded while it makes a lake and works on it. From every state that a cut may leave at any
moment (``tests.faults.power.disk``) the lake opens, has all that somebody was told of, and goes on to the
rows that it would have without the cut. ``make test`` tries some states of one scenario, ``make faults`` all
of all, ``python -m tests.faults --power`` too, some scenarios at a time and with a summary.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.power import trying
from tests.faults.power.disk import PASSING, Disk
from tests.faults.power.recording import COMPILER, Event
from tests.faults.power.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.power.trying import Recording

pytestmark = pytest.mark.faults

TRIED, VERIFIED = 12, 10
"""How many states of a scenario are tried where not all are; each how many-th is verified."""
ASKING = ("exact", "continuous", "spark")
"""The scenarios in which Spark is asked."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recording]:
    """Record scenarios, each of them once."""
    known: dict[str, Recording] = {}

    def recording(name: str) -> Recording:
        if name not in known:
            known[name] = trying.recorded(name, tmp_path_factory.mktemp(name) / "recorded", verify=True)
        return known[name]

    return recording


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
    recorded(name).held_against_duckdb()


@needs_compiler
@each
def test_a_lake_goes_on_after_a_power_cut(recorded: Callable[[str], Recording], name: str) -> None:
    recording = recorded(name)
    moments = recording.cuts().moments
    count = len(moments) if os.environ.get("FAULT_CELLS") == "all" else TRIED
    for number, moment in enumerate(trying.chosen_of(moments, count, seed=7)):
        try:
            trying.try_one(recording, moment, verify=number % VERIFIED == 0)
        except Exception as error:
            raise AssertionError(trying.placed(recording, moment)) from error


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
