"""Which cases of a test are left to ``make test-long``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


KEPT: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("kept.toml").read_text(encoding="utf-8")
)
"""By file and test, the ids of the cases that ``make test`` keeps."""


def is_left(nodeid: str) -> bool:
    """Return whether a case is left to ``make test-long``, because others of its test are kept, or none."""
    path, _, rest = nodeid.partition("::")
    name, _, case = rest.partition("[")
    kept = KEPT.get(path, {}).get(name)
    return kept is not None and case.removesuffix("]") not in kept


def leaving(cases: Iterable[Any], is_long: Callable[[Any], bool]) -> list[Any]:
    """Return the cases as parameters; tuples are several. Those that ``is_long`` says are marked so."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.long] * is_long(case)
        )
        for case in cases
    ]


def every_other(cases: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters, each second one marked as long."""
    listed = [*cases]
    return leaving(listed, lambda case: listed.index(case) % 2 == 1)


def by_spark(case: tuple[str, str]) -> bool:
    """Return whether a case of a kind and a transport goes by Spark, where a tick takes seconds."""
    return case[1] == "spark"
