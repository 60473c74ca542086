"""Which streams a round looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakestream.engine.rounds.wakeups import Look, WaitCondition, WakeUpIndex
from lakestream.errors import StorageError

WAITING = {
    "both": WaitCondition(("/a",), 100),
    "rows": WaitCondition(("/c", "/a"), None),
    "others": WaitCondition(("/b",), None),
    "clock": WaitCondition((), 50),
}


class Lake:
    """A registry and tables of which only marks are asked."""

    def __init__(self) -> None:
        self.registry: tuple[int, ...] = (1, 2)
        self.tables = {"/a": 7, "/b": 9, "/c": 1}

    def latest(self, path: str) -> Any:
        if path not in self.tables:
            raise StorageError("TABLE_NOT_FOUND", path)
        return SimpleNamespace(mark=self.tables[path])


def look(lake: Lake, now_us: int, waiting: dict[str, WaitCondition | None] | None = None) -> Look:
    agenda = WakeUpIndex((1, 2), {"/a": 7, "/b": 9, "/c": 1}, waiting or dict(WAITING))
    return agenda.look(lake.registry, lake, now_us)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now_us", "streams"), [(49, set()), (50, {"clock"}), (99, {"clock"}), (100, {"clock", "both"})]
)
def test_an_instant_wakes_those_that_wait_for_it(now_us: int, streams: set[str]) -> None:
    found = look(Lake(), now_us)
    assert found.streams == streams
    assert found.is_empty is not bool(streams)


def test_a_commit_wakes_those_that_read_the_table() -> None:
    lake = Lake()
    lake.tables["/a"] = 8
    found = look(lake, 0)
    assert (found.streams, found.sources) == ({"both", "rows"}, {"/a": 8, "/b": 9, "/c": 1})


def test_those_that_wait_for_nothing_are_looked_at_every_time() -> None:
    assert look(Lake(), 0, {**WAITING, "busy": None}).streams == {"busy"}


def test_those_are_looked_at_whose_table_was_not() -> None:
    unseen: dict[str, WaitCondition | None] = {"one": WaitCondition(("/a", "/d"), None)}
    assert look(Lake(), 0, {**WAITING, **unseen}).streams == {"one"}


def test_all_are_looked_at_when_the_registry_has_changed_or_a_table_is_gone() -> None:
    changed, gone = Lake(), Lake()
    changed.registry = (1, 3)
    del gone.tables["/b"]
    for lake in (changed, gone):
        found = look(lake, 0)
        assert found.streams is None
        assert not found.is_empty
