"""What a call must not import: start-up time is decided here."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pyspark", "pyarrow", "pandas", "sqlglot", "pydantic", "deltalake", "apscheduler", "rich")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["status", "--help"], ["--version"], ["completion", "zsh"]]
)
def test_a_call_without_a_lake_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom lakestream.cli import cli\n"
        f"try:\n    cli.main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
