"""The list of faults: each test that it names is there."""

from __future__ import annotations

import pytest

from tests.faults import named


def test_every_test_that_is_named_is_there(request: pytest.FixtureRequest) -> None:
    for fault in named.listed():
        for test in fault.tests:
            path, _, name = test.partition("::")
            text = (request.config.rootpath / path).read_text(encoding="utf-8")
            assert f"def {name}(" in text if name else "def test_" in text, test


def test_the_page_names_every_fault(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = [line for line in page.partition("## Power cuts")[0].splitlines() if line.startswith("| `")]
    assert rows == [f"| `{fault.name}` | {fault.what} | {fault.then} |" for fault in named.listed()]


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no fault nothing"):
        named.run(["nothing"])
