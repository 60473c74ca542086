"""What a power cut leaves: of what was written since the last force to the disk anything, whole, torn or not.

A disk that forgets: it knows which files were forced with their folders. Before each force the lake is copied
as a cut could have left it then. From each copy the lake opens, has all that somebody was told of, and goes
on to the rows that it would have without the cut.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.storage.places.lock import _BOOT_NOTE as BOOT
from lakestream.storage.tables import durable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
BATCHES = 4
STREAM = (
    "CREATE STREAM counts INTERVAL(10s) SLIDING(10s) FROM source PARTITION BY g "
    "INTO counted AS SELECT _twstart AS start, count(*) AS n, sum(v) AS total FROM %%trows"
)


def batch(number: int) -> list[dict[str, Any]]:
    """Return rows of two groups, one of which is late; each window is closed by the next batch."""
    rows = [
        {"ts": BEGIN + timedelta(seconds=10 * number + at), "g": at % 2, "v": number * 10 + at}
        for at in range(4)
    ]
    late = BEGIN + timedelta(seconds=5, microseconds=number)
    return [*rows, {"ts": late, "g": 0, "v": 1000 + number}] if number else rows


def expected(batches: int) -> Counter[tuple[datetime, int, int, int]]:
    """Return the output over so many batches: the windows of a group that a later row has closed."""
    rows = [row for number in range(batches) for row in batch(number)]
    windows: dict[tuple[int, datetime], list[int]] = {}
    for row in rows:
        start = BEGIN + (row["ts"] - BEGIN) // timedelta(seconds=10) * timedelta(seconds=10)
        windows.setdefault((row["g"], start), []).append(row["v"])
    newest = {g: max(row["ts"] for row in rows if row["g"] == g) for g in (0, 1)}
    return Counter(
        (start, g, len(values), sum(values))
        for (g, start), values in windows.items()
        if start + timedelta(seconds=10) <= newest[g]
    )


@dataclass
class Told:
    """What somebody was told of before a cut."""

    batches: int = 0
    has_stream: bool = False


@dataclass
class Cut:
    """A moment at which the power may go: what lasts for certain, what may, and what was told by then."""

    lasting: dict[str, bytes]
    written: dict[str, bytes]
    told: Told


@dataclass
class Disk:
    """Notes what was forced, and what there was to lose just before."""

    root: Path
    told: Told = field(default_factory=Told)
    cuts: list[Cut] = field(default_factory=list)
    _content: dict[Path, bytes] = field(default_factory=dict)
    _named: set[Path] = field(default_factory=set)

    def force(self, file: Path) -> None:
        """Note that a file's content, or the names in a folder, were forced."""
        if file.is_dir():
            self._named |= {*file.iterdir()}
        elif file.exists():
            self._content[file] = file.read_bytes()

    def note(self) -> None:
        """Note what a cut would find now."""
        files = {file: file.read_bytes() for file in self.root.rglob("*") if file.is_file()}
        lasting = {
            file: self._content[file] for file in files if file in self._content and file in self._named
        }
        written = {file: content for file, content in files.items() if lasting.get(file) != content}
        # Written whole and forced before they get their names: see places.files.write_bytes.
        marks = {file for file in written if file.name in ("lake.json", BOOT, "lock", "lock.turn")}
        lasting |= {file: written.pop(file) for file in marks}
        told = Told(self.told.batches, self.told.has_stream)
        self.cuts.append(Cut(self._by_name(lasting), self._by_name(written), told))

    def _by_name(self, files: dict[Path, bytes]) -> dict[str, bytes]:
        return {str(file.relative_to(self.root)): content for file, content in files.items()}


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> list[Cut]:
    """All moments of a lake that is made, filled, and run."""
    root = tmp_path_factory.mktemp("power") / "lake"
    disk = Disk(root)
    force, force_commits = durable.force, durable.force_commits

    def noted(table: str, after: int, upto: int) -> None:
        disk.note()
        force_commits(table, after, upto)

    def forced(file: Path) -> None:
        force(file)
        disk.force(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "force", forced)
        for module in ("tables.durable", "writes.edits"):
            patch.setattr(f"lakestream.storage.{module}.force_commits", noted)
        with Lake(root) as lake:
            lake.sql("CREATE TABLE source (ts TIMESTAMP, g INT, v BIGINT)")
            lake.sql(STREAM)
            disk.told.has_stream = True
            for number in range(BATCHES):
                lake.insert("source", batch(number))
                disk.told.batches = number + 1
                lake.run()
    disk.note()
    return disk.cuts


LEFT: dict[str, Callable[[str, bytes, random.Random], bytes | None]] = {
    "nothing": lambda *_: None,
    "names": lambda *_: b"",
    "halves": lambda _name, content, _chance: content[: len(content) // 2],
    "logs": lambda name, content, _chance: content if "_delta_log" in name else None,
    "logs and names": lambda name, content, _chance: content if "_delta_log" in name else b"",
    "logs and halves": lambda name, content, _: content if "_delta_log" in name else content[:-5],
    "data": lambda name, content, _chance: None if "_delta_log" in name else content,
    "data and names": lambda name, content, _chance: b"" if "_delta_log" in name else content,
    "all": lambda _name, content, _chance: content,
    "some": lambda _name, content, chance: chance.choice([None, b"", content, content[:9]]),
}
"""What a cut leaves of a file that was not forced; None: not even its name."""


def after(cut: Cut, root: Path, left: str, seed: int) -> None:
    """Make a lake as a power cut leaves it; the machine has been started anew since."""
    chance = random.Random(seed)
    files = dict(cut.lasting)
    for name, content in sorted(cut.written.items()):
        kept = LEFT[left](name, content, chance)
        if kept is not None:
            files[name] = kept
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (root / "_lakestream" / BOOT).unlink(missing_ok=True)


def go_on(root: Path, told: Told) -> None:
    """Open a lake after a cut, look whether it has what was told, and have it do the rest."""
    with Lake(root, settings=Settings()) as lake:
        if not told.has_stream:
            lake.sql("CREATE TABLE IF NOT EXISTS source (ts TIMESTAMP, g INT, v BIGINT)")
        there = Counter(row[0] for row in lake.sql("SELECT v FROM source").fetchall())
        streams = lake.sql("SHOW STREAMS").fetchall()
        assert streams or not told.has_stream
        if not streams:
            lake.sql(STREAM)
        whole = [number for number in range(BATCHES) if {row["v"] for row in batch(number)} <= there.keys()]
        assert whole == [*range(len(whole))]
        assert len(whole) >= told.batches
        assert sum(there.values()) == sum(len(batch(number)) for number in whole)
        for number in range(len(whole), BATCHES):
            lake.insert("source", batch(number))
        ticks = lake.run().ticks
        assert [tick.error for tick in ticks if tick.error] == []
        found = Counter(tuple(row) for row in lake.sql("SELECT start, g, n, total FROM counted").fetchall())
        assert found == expected(BATCHES)
        assert [*lake.repair.check()] == []


@pytest.mark.parametrize("left", LEFT)
def test_a_lake_goes_on_after_a_power_cut(cuts: list[Cut], left: str, tmp_path: Path) -> None:
    assert len(cuts) > 20
    for number, cut in enumerate(cuts):
        root = tmp_path / "lake"
        after(cut, root, left, seed=number)
        try:
            go_on(root, cut.told)
        except Exception as error:
            kept = sorted(cut.written)
            raise AssertionError(f"cut {number} of {len(cuts)}, {left} left of {kept}") from error
        shutil.rmtree(root)
