from __future__ import annotations

from tests.golden.names import steady

ID = "0a1b2c3d-0000-4000-8000-00000000000f"
NOW = 1_800_000_000.5


def test_what_differs_from_run_to_run_is_replaced() -> None:
    lines = [
        f"commit /tmp/pytest-of-me/pytest-3/popen-gw1/test_a0/lake lakestream:{ID} 1",
        "sql SELECT 1800000000123456L, 1700000000123456L, '2027-01-15 08:00:01.5', '2025-01-01 00:00:00'",
        f"commit <x> lakestream:{ID} 2",
    ]
    assert steady(lines, NOW) == [
        "commit <folder>/test_a0/lake lakestream:<id 0> 1",
        "sql SELECT <now>L, 1700000000123456L, '<now>', '2025-01-01 00:00:00'",
        "commit <x> lakestream:<id 0> 2",
    ]


def test_folders_are_the_same_wherever_they_lie() -> None:
    lines = [
        "commit /a/base/popen-gw0/test_case_2/lake x",
        "commit /tmp/pytest-of-me/pytest-3/test_case_2/lake x",
    ]
    assert steady(lines, 0) == ["commit <folder>/test_case_2/lake x"] * 2
