"""Each call of a round to the storage fails in its turn, in several ways: what follows is exact all the same.

The n-th call fails, for n = 1, 2, … until a round makes no further one. Failing is refusing to do anything,
or doing it and losing the answer.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.storage.places import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT, g VARCHAR(4));
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a PARTITION BY g INTO o AS
  SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows;
CREATE STREAM c COUNT_WINDOW(2) FROM a PARTITION BY g INTO oc AS
  SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM chained INTERVAL(2m) SLIDING(2m) FROM o INTO oo AS
  SELECT _twstart AS w, sum(n) AS n FROM %%trows;
"""
GENERIC = "Generic LocalFileSystem error: No space left on device (os error 28)"
Failure = tuple[Callable[[], Exception], set[str]]
EVERYWHERE = {"files", "delta-rs", "rows"}
ERRORS: dict[str, Failure] = {
    "disk full": (lambda: OSError(errno.ENOSPC, "No space left on device"), EVERYWHERE),
    "not permitted": (lambda: PermissionError(errno.EACCES, "Permission denied"), EVERYWHERE),
    "damaged": (lambda: OSError(errno.EIO, "Input/output error"), EVERYWHERE),
    "in time": (lambda: TimeoutError("timed out"), EVERYWHERE),
    "as delta-rs says it": (
        lambda: DeltaError(GENERIC),
        {"delta-rs", "rows"},
    ),
    "of a commit": (lambda: CommitFailedError("Failed to commit: Permission denied"), {"delta-rs"}),
    "as Arrow says it": (lambda: Exception("C Data interface error: Input/output error"), {"rows"}),
}
"""By name, an error and what it comes from."""
METHODS = ("__init__", "update_incremental", "get_add_actions", "file_uris", "create_checkpoint")
FILES = ("read_bytes", "write_bytes", "exists", "stamp", "size")


class Storage:
    """Counts the calls to the storage, and fails one of them."""

    def __init__(self) -> None:
        self.count, self.fails_at, self.does = 0, 0, False
        self.error, self.layers = ERRORS["damaged"]

    def counted(self, call: Callable[..., Any], layer: str) -> Callable[..., Any]:
        """Return a call that is counted where the error comes from its layer."""

        @wraps(call)
        def counting(*given: Any, **named: Any) -> Any:
            self.count += layer in self.layers
            if self.count != self.fails_at or layer not in self.layers:
                return call(*given, **named)
            if self.does:
                call(*given, **named)
            raise self.error()

        return counting

    @contextmanager
    def failing(self, at: int, failure: Failure, *, does: bool) -> Iterator[None]:
        """Have the call of a number fail."""
        (self.error, self.layers), self.count, self.fails_at, self.does = failure, 0, at, does
        yield
        self.fails_at = 0


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """Put the counter between lakestream and delta-rs."""
    counter, patch = Storage(), pytest.MonkeyPatch()
    modules = [one for name, one in sys.modules.items() if name.startswith("lakestream.")]
    for module in modules:
        if hasattr(module, "write_deltalake"):
            patch.setattr(module, "write_deltalake", counter.counted(module.write_deltalake, "delta-rs"))
    for name in METHODS:
        patch.setattr(DeltaTable, name, counter.counted(getattr(DeltaTable, name), "delta-rs"))
    patch.setattr(DeltaTable, "scan", counter.counted(DeltaTable.scan, "rows"))
    for name in FILES:
        patch.setattr(files, name, counter.counted(getattr(files, name), "files"))
    yield counter
    patch.undo()


class Story:
    """A lake whose source gets the rows of a minute at a time."""

    def __init__(self, root: Path) -> None:
        self.root, self.minute = root, 0
        self.lake = Lake(root)
        self.lake.sql(TABLES)

    def come(self) -> None:
        at = f"2026-01-01 {self.minute // 60:02}:{self.minute % 60:02}"
        self.lake.insert("a", [{"ts": f"{at}:{s}", "v": 1, "g": g} for g, s in (("x", "00"), ("y", "30"))])
        self.minute += 1

    def reopen(self) -> None:
        with suppress(LakestreamError):
            self.lake.close()
        self.lake = Lake(self.root)

    def check(self) -> None:
        """Hold the outputs against what they are to be."""
        last = self.minute - 1
        states = {one.name: (one.status, one.last_error) for one in self.lake.streams()}
        assert {status for status, _ in states.values()} == {"Running"}, states
        assert self.lake.sql("SELECT count(*) AS n, sum(n) AS s FROM o").fetchall() == [(2 * last, 2 * last)]
        pairs = self.minute // 2
        assert self.lake.sql("SELECT count(*) AS n, sum(s) AS s FROM oc").fetchall() == [
            (2 * pairs, 4 * pairs)
        ]
        closed = max((last - 1) // 2, 0)
        found = self.lake.sql("SELECT count(*) AS n, sum(n) AS s FROM oo").fetchall()
        assert found == [(closed, 4 * closed or None)], found


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    for _ in range(3):
        told.come()
        told.lake.run()
    told.check()
    yield told
    with suppress(LakestreamError):
        told.lake.close()


@pytest.mark.parametrize("step", [23, 1])
@pytest.mark.parametrize("does", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("failure", ERRORS.values(), ids=ERRORS)
def test_a_round_goes_on_after_any_call_fails(
    story: Story, storage: Storage, failure: Failure, does: bool, step: int
) -> None:
    number = 1
    while True:
        story.come()
        story.lake.close()
        with storage.failing(number, failure, does=does), suppress(LakestreamError, OSError):
            story.reopen()
            story.lake.run()
        made = storage.count
        story.reopen()
        story.lake.run()
        story.check()
        if made < number:
            break
        number += step
    assert made > 3
