"""The pictures of timelines are what runs of today draw."""

from __future__ import annotations

import pytest

from tools.timelines import FOLDER, SCENES, draw


@pytest.mark.parametrize("name", SCENES)
def test_the_picture_is_what_a_run_draws(name: str) -> None:
    assert draw(SCENES[name]) == (FOLDER / f"{name}.svg").read_text(encoding="utf-8"), (
        "python -m tools.timelines"
    )


def test_every_picture_is_drawn() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SCENES)
