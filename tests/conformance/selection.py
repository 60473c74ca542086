"""Which cases are run, and which of them are expected to fail because something is not built yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.conformance.runner import CaseFailed

if TYPE_CHECKING:
    from tests.conformance.cases import Case

HERE = Path(__file__).parent
OWN_CASES = HERE / "cases"


def cases_root() -> Path:
    """Return the folder of cases: the environment variable CASES, or the project's own."""
    return Path(os.environ.get("CASES") or OWN_CASES)


def expected_failures() -> dict[str, str]:
    """Return the cases that need what is not built yet: name -> what is missing."""
    listed: dict[str, str] = yaml.safe_load((HERE / "expected_failures.yaml").read_text()) or {}
    return listed


def marks(case: Case, missing: dict[str, str]) -> list[pytest.MarkDecorator]:
    """Mark a listed case as failing: by a refusal or other rows, never by a crash; passing fails too."""
    if case.name not in missing:
        return []
    return [pytest.mark.xfail(raises=CaseFailed, reason=f"needs {missing[case.name]}", strict=True)]
