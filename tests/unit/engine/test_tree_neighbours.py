"""A trigger that fails, or panics in a library, stops no other one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.hooks import Tablet, Trigger
from lakestream.timeseries.firing import Triggers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.storage.names.table_info import TableInfo

START = datetime(2025, 1, 1, tzinfo=UTC)
SEEN: list[str] = []


class PanicException(BaseException):
    """What a panic of delta-rs is in Python."""


class Sees(Trigger):
    """Notes the devices that it was fired for."""

    def fire(self, tablet: Tablet) -> bool:
        """Note the device."""
        SEEN.append(f"{type(self).__name__} {tablet.device}")
        return True


class Panics(Sees):
    """Ends in a panic of a library."""

    def fire(self, tablet: Tablet) -> bool:
        """Raise it."""
        super().fire(tablet)
        raise PanicException("index out of bounds")


class Forgets(Sees):
    """Cannot say its state."""

    def snapshot(self) -> bytes | None:
        """Raise."""
        raise PanicException("no state")


class Unmade(Sees):
    """Cannot be made again once a process has ended."""

    broken = False

    def __init__(self) -> None:
        """Raise where it is broken."""
        if self.broken:
            raise RuntimeError("not today")


class Tree:
    """A lake of the tree on the small path, with a manual clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, ManualClock(START)
        self.lake = self.open()
        SEEN.clear()

    def open(self) -> Lake:
        settings = Settings(trigger_modules=(__name__,))
        self.lake = Lake(self.root, clock=self.clock, settings=settings)
        return self.lake

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.lake.sql(text, dialect="iotdb").fetchall()

    def round(self) -> dict[str, str | None]:
        return {report.stream: report.error for report in self.lake.tick_once()}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path / "lake")
    yield tree
    tree.lake.close()


def make_triggers(tree: Tree, *names: str) -> None:
    for name in names:
        kind = "STATEFUL" if name == "Forgets" else "STATELESS"
        tree.sql(f"CREATE {kind} TRIGGER {name} AFTER INSERT ON root.sg.** AS '{__name__}.{name}'")


def test_a_trigger_that_fails_stops_no_other(tree: Tree) -> None:
    make_triggers(tree, "Panics", "Forgets", "Sees")
    tree.sql("INSERT INTO root.sg.d(time, s) VALUES (1000, 1)")
    assert tree.round() == {"triggers on root.sg": None}
    assert SEEN == ["Panics root.sg.d", "Forgets root.sg.d", "Sees root.sg.d"]
    assert tree.round() == {}


def test_a_trigger_that_cannot_be_made_waits_alone(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    make_triggers(tree, "Unmade", "Sees")
    tree.lake.close()
    tree.open()
    monkeypatch.setattr(Unmade, "broken", True)
    tree.sql("INSERT INTO root.sg.d(time, s) VALUES (1000, 1)")
    [error] = tree.round().values()
    assert "trigger Unmade: TRIGGER_REFUSED" in str(error)
    assert SEEN == ["Sees root.sg.d"]
    assert tree.round() == {}
    monkeypatch.setattr(Unmade, "broken", False)
    tree.clock.advance(timedelta(seconds=20))
    assert tree.round() == {"triggers on root.sg": None}
    assert SEEN == ["Sees root.sg.d", "Unmade root.sg.d"]


def test_a_table_that_fails_stops_no_trigger_of_another(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.sql("CREATE DATABASE root.a; CREATE DATABASE root.b")
    tree.sql("CREATE STATELESS TRIGGER every AFTER INSERT ON root.** AS '" + __name__ + ".Sees'")
    for database in "ab":
        tree.sql(f"INSERT INTO root.{database}.d(time, s) VALUES (1000, 1)")
    version = Triggers._version

    def torn(triggers: Triggers, info: TableInfo) -> int:
        if info.name == "a":
            raise PanicException("a torn entry")
        return version(triggers, info)

    monkeypatch.setattr(Triggers, "_version", torn)
    found = tree.round()
    assert found["triggers on root.b"] is None
    assert "IO_ERROR" in str(found["triggers on root.a"])
    assert SEEN == ["Sees root.b.d"]
    monkeypatch.undo()
    tree.clock.advance(timedelta(seconds=20))
    assert tree.round() == {"triggers on root.a": None}
    assert SEEN == ["Sees root.b.d", "Sees root.a.d"]
