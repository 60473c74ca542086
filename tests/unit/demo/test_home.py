from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.demo import home
from lakestream.errors import LakeError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_folder_is_made(tmp_path: Path) -> None:
    home.prepare(tmp_path / "a" / "lake")
    assert [path.name for path in (tmp_path / "a" / "lake").iterdir()] == [home.MARKER]


def test_an_earlier_demo_is_removed(tmp_path: Path) -> None:
    home.prepare(tmp_path / "lake")
    (tmp_path / "lake" / "nyc").mkdir()
    home.prepare(tmp_path / "lake")
    assert not (tmp_path / "lake" / "nyc").exists()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    home.prepare(tmp_path)
    assert (tmp_path / home.MARKER).is_file()


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_anything_else_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    place, kept = tmp_path / "lake", tmp_path / "kept"
    home.prepare(kept)
    if kind == "folder":
        (place / "data").mkdir(parents=True)
    elif kind == "file":
        place.write_text("mine", encoding="utf-8")
    else:
        place.symlink_to(kept)
    with pytest.raises(LakeError) as caught:
        home.prepare(place)
    assert caught.value.code == "NOT_A_DEMO_LAKE"
    assert place.exists()
    assert (kept / home.MARKER).is_file()
