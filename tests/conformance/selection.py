"""Which cases are run, and which of them are expected to fail because something is not built yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.conformance.runner import CaseFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.cases import Case

HERE = Path(__file__).parent
OWN_CASES = HERE / "cases"
_FEW = 4


def cases_root() -> Path:
    """Return the folder of cases: the environment variable CASES, or the project's own."""
    return Path(os.environ.get("CASES") or OWN_CASES)


def expected_failures() -> dict[str, str]:
    """Return the cases that need what is not built yet: name -> what is missing."""
    listed: dict[str, str] = yaml.safe_load((HERE / "expected_failures.yaml").read_text()) or {}
    return listed


def left_cases(cases: Sequence[Case]) -> set[str]:
    """Return the own cases that are left to the long tests: of a file with many, seven of eight."""
    if os.environ.get("CASES"):
        return set()
    files: dict[str, list[str]] = {}
    for case in cases:
        files.setdefault(case.name.rpartition("/")[0], []).append(case.name)
    many = [names for names in files.values() if len(names) > _FEW]
    return {name for names in many for number, name in enumerate(names) if number % 8}


def marks(case: Case, missing: dict[str, str], left: set[str]) -> list[pytest.MarkDecorator]:
    """Mark a case that is left to the long tests, and a listed one as failing.

    It fails by a refusal or other rows, never by a crash; passing fails too.
    """
    found = [pytest.mark.long] if case.name in left else []
    if case.name in missing:
        reason = f"needs {missing[case.name]}"
        found.append(pytest.mark.xfail(raises=CaseFailed, reason=reason, strict=True))
    return found
