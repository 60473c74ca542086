"""Which cases are kept: each one that is named is there."""

from __future__ import annotations

import pytest

from tests.tiers import KEPT


def test_every_case_that_is_kept_is_one(request: pytest.FixtureRequest) -> None:
    collected = {item.nodeid for item in request.session.items}
    for path, tests in KEPT.items():
        for name, cases in tests.items():
            assert f"def {name}(" in (request.config.rootpath / path).read_text(encoding="utf-8"), name
            if not cases:
                continue
            there = [item for item in collected if item.startswith(f"{path}::{name}[")]
            if not there:
                pytest.skip(f"{path} is not among what runs")
            assert [case for case in cases if f"{path}::{name}[{case}]" not in there] == [], name
