"""Changed rows lead to every key: a few of the drawn queries of ``tests.properties.leading``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lakestream import Lake, Settings
from tests.properties.leading import MADE, check

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_of_keys_that_a_change_does_not_touch_are_the_same(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    with Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(MADE)
        assert [found for number in range(25) for found in check(lake, f"few-{number}", seen)] == []
    assert seen["changes"] > 150
