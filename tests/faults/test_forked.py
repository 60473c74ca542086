"""Processes that are forked off a process that has a lake: they leave it alone, and hold nothing of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults.attach import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.e2e]

BEGIN = """
import atexit, os, sys
from lakestream import Lake
from lakestream.errors import LakestreamError
from lakestream.storage.places.claims import try_claim
from lakestream.storage.places.lock import try_lock
from lakestream.storage.places.scratch import scratch_folder

def ends(child):
    assert os.waitpid(child, 0)[1] == 0

root = sys.argv[1]
lake = Lake(root)
lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
lake.sql("CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t INTO o AS SELECT _twstart, sum(v) n FROM %%trows")
"""
USES = """
if not (child := os.fork()):
    for use in (
        lambda: lake.run(),
        lambda: lake.sql("INSERT INTO t VALUES ('2026-01-01', 1)"),
        lambda: lake.insert("t", []),
        lambda: lake.root,
        lambda: lake.another(),
        lambda: Lake(root),
    ):
        try:
            use()
        except LakestreamError as error:
            assert error.code == "FORKED", error
        else:
            os._exit(1)
    lake.close()
    if not (grandchild := os.fork()):
        try:
            Lake(root)
        except LakestreamError as error:
            os._exit(error.code != "FORKED")
    ends(grandchild)
    os._exit(0)
ends(child)
lake.run()
"""
ENDS = """
folder = scratch_folder()
if not (child := os.fork()):
    assert scratch_folder() != folder
    atexit._run_exitfuncs()
    os._exit(0)
ends(child)
assert folder.is_dir()
"""
HOLDS = """
layout = lake._at.layout
claim, notes = try_claim(layout, "s"), try_lock(layout, "notes")
reads, writes = os.pipe()
begun, begins = os.pipe()
with lake._at.writing("a test"):
    if not (child := os.fork()):
        os.close(writes)
        os.write(begins, b".")
        os.read(reads, 1)
        os._exit(0)
    os.read(begun, 1)
claim.release()
notes.close()
assert try_claim(layout, "s"), "the claim is held"
assert try_lock(layout, "notes"), "the lock is held"
with Lake(root) as another:
    another.sql("INSERT INTO t VALUES ('2026-01-01', 1)")
os.close(writes)
ends(child)
"""
FIRST = """
other = sys.argv[1] + "-other"
if not (child := os.fork()):
    with Lake(other) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT); INSERT INTO t VALUES ('2026-01-01', 1)")
    os._exit(0)
ends(child)
with Lake(other) as lake:
    assert lake.sql("SELECT count(*) FROM t").fetchall() == [(1,)]
"""


@pytest.mark.parametrize(
    "program",
    [BEGIN + USES, BEGIN + ENDS, BEGIN + HOLDS, BEGIN.partition("root =")[0] + FIRST],
    ids=["uses", "ends", "holds", "first"],
)
def test_a_forked_process_leaves_its_parents_lake_alone(program: str, tmp_path: Path) -> None:
    """It is refused by name, removes and holds nothing; the first lake may be opened in it."""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lake")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
