"""A lake that is copied while it runs, and goes on from the copy: exactly once, wherever the copy lies."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.clock import SystemClock
from lakestream.errors import LakestreamError
from lakestream.storage.places import backup as backups
from lakestream.storage.places.backup import restore
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
LAKE = """
CREATE TABLE source (ts TIMESTAMP, g INT, v BIGINT);
CREATE TABLE names (ts TIMESTAMP, g INT, name STRING);
CREATE STREAM first INTERVAL(10s) SLIDING(10s) FROM source PARTITION BY g
  INTO firsts AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows;
CREATE STREAM second COUNT_WINDOW(2) FROM firsts PARTITION BY g
  INTO seconds AS SELECT _twstart AS ts, sum(total) AS total FROM %%trows;
"""


def rows(number: int) -> list[dict[str, Any]]:
    return [{"ts": BEGIN + timedelta(seconds=5 * number + at), "g": at % 2, "v": number} for at in range(4)]


def totals(numbers: int) -> Counter[tuple[datetime, int, int]]:
    """Return what the first stream has to write of so many commits."""
    found: Counter[tuple[int, int]] = Counter()
    for number in range(numbers):
        for row in rows(number):
            found[(row["ts"] - BEGIN) // timedelta(seconds=10), row["g"]] += row["v"]
    newest = {g: (numbers - 1) * 5 + 2 + g for g in (0, 1)}
    return Counter(
        (BEGIN + timedelta(seconds=10 * window), g, total)
        for (window, g), total in found.items()
        if 10 * (window + 1) <= newest[g]
    )


def go_on(lake: Lake, numbers: int) -> None:
    """Insert what a lake lacks of so many commits, and look at what its streams make of it."""
    there = {row[0] for row in lake.sql("SELECT DISTINCT v FROM source").fetchall()}
    assert there == {*range(len(there))}
    for number in range(len(there), numbers):
        lake.insert("source", rows(number))
    assert [tick.error for tick in lake.run().ticks if tick.error] == []
    found = Counter(tuple(row) for row in lake.sql("SELECT ts, g, total FROM firsts").fetchall())
    assert found == totals(numbers)
    sums = [total for _, g, total in sorted(found.elements()) if g == 0]
    pairs = [one + other for one, other in zip(sums[::2], sums[1::2], strict=False)]
    seconds = lake.sql("SELECT ts, total FROM seconds WHERE g = 0 ORDER BY ts").fetchall()
    assert [row[1] for row in seconds] == pairs
    assert [*lake.repair.check()] == []


def test_a_lake_goes_on_from_copies_that_were_made_while_it_ran(tmp_path: Path) -> None:
    done = threading.Event()
    with Lake(tmp_path / "lake") as lake:
        lake.sql(LAKE)

        def live() -> None:
            for number in range(10):
                lake.insert("source", rows(number))
                lake.run()
            done.set()

        writer = threading.Thread(target=live)
        writer.start()
        for number in count():
            with Lake(tmp_path / "lake") as other:
                other.repair.back_up(str(tmp_path / f"copy{number % 2}"))
            restore(str(tmp_path / f"copy{number % 2}"), str(tmp_path / f"restored{number}"))
            if done.is_set():
                break
        writer.join()
        go_on(lake, 14)
    assert number > 0
    for restored in range(number + 1):
        with Lake(tmp_path / f"restored{restored}") as again:
            go_on(again, 14)


def test_what_was_cut_short_is_neither_a_backup_nor_a_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(LAKE)
        go_on(lake, 3)
        lake.repair.back_up(str(tmp_path / "earlier"))
        go_on(lake, 6)
        for name in ("new", "earlier"):
            cut_short(monkeypatch, "_copy", lambda to=name: lake.repair.back_up(str(tmp_path / to)))
    with pytest.raises(LakestreamError, match="no backup that was completed"):
        restore(str(tmp_path / "new"), str(tmp_path / "restored"))
    cut_short(monkeypatch, "_fetch", lambda: restore(str(tmp_path / "earlier"), str(tmp_path / "restored")))
    with pytest.raises(LakestreamError, match="there is no lake"):
        Lake(tmp_path / "restored", create=False)
    restore(str(tmp_path / "earlier"), str(tmp_path / "restored"))
    with Lake(tmp_path / "restored") as again:
        assert again.sql("SELECT count(DISTINCT v) FROM source").fetchall() == [(3,)]
        go_on(again, 6)
    with pytest.raises(LakestreamError, match="there is a lake"):
        restore(str(tmp_path / "earlier"), str(tmp_path / "restored"))


@pytest.mark.long
def test_copies_that_are_killed_at_any_time_are_whole_or_none(tmp_path: Path) -> None:
    """Processes that back up, and that restore, are killed at random moments, while the lake goes on."""
    draws, clock = Random(7), SystemClock()
    copy, made = tmp_path / "copy", 0
    with Lake(tmp_path / "lake") as lake:
        lake.sql(LAKE)
        begun = clock.monotonic()
        kill_after(600, "--lake", lake.root, "backup", str(tmp_path / "whole"))
        usual = clock.monotonic() - begun
        for number in range(12):
            go_on(lake, number + 1)
            kill_after(draws.uniform(0.4, 1.6) * usual, "--lake", lake.root, "backup", str(copy))
            restored = tmp_path / f"restored{number}"
            if not (copy / backups.LIST).exists():
                with pytest.raises(LakestreamError, match="no backup that was completed"):
                    restore(str(copy), str(restored))
                continue
            kill_after(draws.uniform(0.4, 1.6) * usual, "restore", str(copy), str(restored))
            if not Layout(str(restored)).exists():
                restore(str(copy), str(restored))
            with Lake(restored) as again:
                go_on(again, number + 2)
            made += 1
        lake.repair.back_up(str(copy))
    assert made
    restore(str(copy), str(tmp_path / "last"))
    with Lake(tmp_path / "last") as again:
        go_on(again, 14)


def kill_after(seconds: float, *arguments: str) -> None:
    """Run a command, and kill it after a while unless it has ended."""
    command = [sys.executable, "-m", "lakestream", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cut_short(monkeypatch: pytest.MonkeyPatch, function: str, does: Any) -> None:
    """Have a copy end after a few files, as a kill does."""
    real, made = getattr(backups, function), count(1)

    def copied(*arguments: Any) -> None:
        if next(made) > 5:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backups, function, copied)
        with pytest.raises(KeyboardInterrupt):
            does()


def test_a_backup_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(LAKE)
        go_on(lake, 3)
        lake.repair.back_up(str(tmp_path / "copy"))
        with pytest.raises(LakestreamError, match="lies in the lake"):
            lake.repair.back_up(str(tmp_path / "lake" / "copy"))
    lost = next((tmp_path / "copy").rglob("*.parquet"))
    lost.unlink()
    with pytest.raises(LakestreamError, match=f"lacks .*{lost.name}"):
        restore(str(tmp_path / "copy"), str(tmp_path / "restored"))
