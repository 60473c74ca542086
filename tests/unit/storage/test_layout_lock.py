from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakestream.clock import InterruptibleClock, SystemClock
from lakestream.errors import BusyError, LakeError, StatementError, StorageError
from lakestream.storage.places.layout import Layout, safe_segment, segment_name
from lakestream.storage.places.lock import try_lock, writer_lock

if TYPE_CHECKING:
    from lakestream.clock import ManualClock


@pytest.mark.parametrize("name", ["meters", "a b", "a/b", "Ünïcode", "%41", "_hidden", ".x", "a.b", "x'\"`;"])
def test_a_segment_stands_for_its_name_and_is_one_visible_folder(name: str) -> None:
    segment = safe_segment(name)
    assert segment_name(segment) == name
    assert "/" not in segment
    assert segment[0] not in "_."


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b", "NUL", "com1", "con.txt", "x" * 129, "ü" * 100])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(StatementError) as caught:
        safe_segment(name)
    assert caught.value.code == "BAD_NAME"


def test_names_stay_inside_the_lake(layout: Layout, tmp_path: Path) -> None:
    assert Path(layout.table_path("../x", "../../etc")).is_relative_to(layout.root)
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(layout.root, "db").symlink_to(outside)
    with pytest.raises(StorageError, match="OUTSIDE_LAKE"):
        layout.table_path("db", "t")


def test_a_root_may_be_a_uri() -> None:
    layout = Layout("s3://bucket/lake/")
    assert not layout.is_local
    assert layout.table_path("db", "t") == "s3://bucket/lake/db/t"
    assert layout.system_path("state/u1") == "s3://bucket/lake/_lakestream/state/u1"


def test_a_lake_knows_that_it_is_one(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "new"))
    with pytest.raises(LakeError, match="LAKE_NOT_FOUND"):
        layout.check()
    layout.initialise()
    layout.initialise()
    layout.check()
    Path(layout.system_root, "lake.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(LakeError, match="LAKE_TOO_NEW"):
        layout.check()


def test_the_lock_nests_and_is_given_back(layout: Layout, clock: ManualClock) -> None:
    other = Layout(layout.root)
    with writer_lock(layout, wait_seconds=0, clock=clock), writer_lock(layout, wait_seconds=0, clock=clock):
        with pytest.raises(BusyError) as caught, writer_lock(other, wait_seconds=1, clock=clock):
            pass
        assert caught.value.code == "LAKE_LOCKED"
        assert str(os.getpid()) in caught.value.message
    with writer_lock(other, wait_seconds=0, clock=clock):
        pass


def test_who_waits_for_the_lock_can_be_interrupted(layout: Layout, clock: ManualClock) -> None:
    other, waiting = Layout(layout.root), InterruptibleClock()
    with writer_lock(other, wait_seconds=0, clock=clock):
        waiting.interrupt()
        with pytest.raises(BusyError) as caught, writer_lock(layout, wait_seconds=60, clock=waiting):
            pass
    assert caught.value.code == "INTERRUPTED"
    with writer_lock(layout, wait_seconds=0, clock=waiting):
        pass


def test_the_lock_names_the_process_that_holds_it_and_goes_with_it(
    layout: Layout, clock: ManualClock
) -> None:
    code = (
        "import sys; from lakestream.clock import SystemClock;"
        "from lakestream.storage.places.layout import Layout;"
        "from lakestream.storage.places.lock import writer_lock\n"
        "with writer_lock(Layout(sys.argv[1]), wait_seconds=0, clock=SystemClock(), purpose='a test'):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, layout.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(BusyError, match=rf"process {holder.pid} \(a test\)"),
        writer_lock(layout, wait_seconds=0, clock=clock),
    ):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with writer_lock(layout, wait_seconds=0, clock=clock):
        pass


def test_threads_of_one_lake_share_its_lock(layout: Layout, clock: ManualClock) -> None:
    entered = threading.Event()

    def work() -> None:
        with writer_lock(layout, wait_seconds=0, clock=clock):
            entered.set()

    with writer_lock(layout, wait_seconds=0, clock=clock):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert entered.is_set()


def test_who_waits_for_the_lock_comes_before_who_had_it(layout: Layout) -> None:
    order: list[str] = []
    clock = SystemClock()

    def wait() -> None:
        with writer_lock(Layout(layout.root), wait_seconds=60, clock=clock):
            order.append("waited")

    with writer_lock(layout, wait_seconds=0, clock=clock):
        waiting = threading.Thread(target=wait)
        waiting.start()
        while (turn := try_lock(layout, "lock.turn")) is not None:
            turn.close()
    with writer_lock(layout, wait_seconds=60, clock=clock):
        order.append("again")
    waiting.join()
    assert order == ["waited", "again"]
