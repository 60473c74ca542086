"""Every case file's cases, one test per case (see README.md in this folder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.runner import run_case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conformance.cases import Case
    from tests.conformance.engines import EngineFactory


@pytest.mark.spark
def test_case(case: Case, start_engine: Callable[[Path], EngineFactory], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run_case(case, start_engine(lake), lake)
