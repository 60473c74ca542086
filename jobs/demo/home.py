"""The folder of the demo's lake: made anew by every run, and only ever removed when the demo made it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lakestream.errors import LakeError

if TYPE_CHECKING:
    from pathlib import Path

MARKER = ".made-by-the-lakestream-demo"


def prepare(folder: Path) -> None:
    """Make the folder empty: create it, or remove the lake that an earlier demo left in it.

    Raises LakeError NOT_A_DEMO_LAKE, and touches nothing, when anything else stands there.
    """
    if folder.is_symlink() or (folder.exists() and not _is_ours(folder)):
        raise LakeError(
            "NOT_A_DEMO_LAKE",
            f"{folder} is there and was not made by the demo, so it is not removed",
            hint="move it away, or name another folder with --lake",
        )
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("The demo removes this folder when it runs again.\n", encoding="utf-8")


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or not any(folder.iterdir()))
