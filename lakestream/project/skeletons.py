"""A new project: the files that it begins with."""

from __future__ import annotations

from importlib.resources import as_file, files
from shutil import copytree
from typing import TYPE_CHECKING

from lakestream.errors import LakeError

if TYPE_CHECKING:
    from pathlib import Path


def new_project(folder: Path) -> list[str]:
    """Make a project in a folder that is not there yet, or is empty, and return the names of its files.

    Raises LakeError PROJECT_EXISTS.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise LakeError("PROJECT_EXISTS", f"{folder} is there already", hint="name a folder that is not")
    with as_file(files("lakestream.project") / "skeleton") as skeleton:
        copytree(skeleton, folder, dirs_exist_ok=True)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
