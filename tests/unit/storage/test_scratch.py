"""Temporary folders go with their process, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from lakestream.storage.places.scratch import held_folder, remove_abandoned

CODE = """
import sys
from lakestream.storage.places.scratch import scratch_folder
folder = scratch_folder()
(folder / 'spill').mkdir()
print(folder, flush=True)
sys.stdin.read()
"""


def process(within: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process with a folder."""
    started = subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(within), "PYTHONPATH": ":".join(sys.path)},
    )
    assert started.stdout is not None
    return started, Path(started.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    living, kept = process(tmp_path)
    killed, left = process(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.wait(20)
    assert left.exists()
    remove_abandoned(tmp_path)
    assert (left.exists(), kept.exists()) == (False, True)
    living.communicate("", timeout=20)
    assert not kept.exists()


def test_a_folder_that_is_held_takes_the_place_of_what_was_left(tmp_path: Path) -> None:
    killed, left = process(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.wait(20)
    with held_folder(tmp_path) as folder:
        assert (left.exists(), folder.exists()) == (False, True)
    assert [*tmp_path.iterdir()] == []


def test_what_is_no_folder_of_ours_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / "lakestream-link").symlink_to(elsewhere)
    (tmp_path / "lakestream-without-a-lock").mkdir()
    (tmp_path / "lakestream-a-file").touch()
    remove_abandoned(tmp_path)
    assert (elsewhere / "lock").exists()
    assert len([*tmp_path.iterdir()]) == 4
