"""One test per case; what opens its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.cases import Case, load
from tests.conformance.engines import ChildEngine, Engine, EngineFactory, LocalEngine
from tests.conformance.selection import cases_root, expected_failures, left_cases, marks

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per case, named by the case."""
    if "case" in metafunc.fixturenames:
        missing = expected_failures()
        cases = load(cases_root())
        left = left_cases(cases)
        parameters = [pytest.param(case, id=case.name, marks=marks(case, missing, left)) for case in cases]
        metafunc.parametrize("case", parameters)


@pytest.fixture
def start_engine(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[Path], EngineFactory]:
    """Return what opens engines on a lake: in this process, or where the case kills one in its own."""

    def on(lake: Path) -> EngineFactory:
        ends = iter(case.ends)
        spark: SparkSession = request.getfixturevalue("spark")

        def start(clock: datetime) -> Engine:
            if next(ends) == "kill":
                return ChildEngine(lake, clock, tmp_path / "engine.log", case.timezone)
            return LocalEngine(lake, clock, spark, case.timezone)

        return start

    return on
