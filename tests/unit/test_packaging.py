"""The project's files say the same thing in each place."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def requirements(name: str) -> set[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found.group(0).lower().replace("_", "-")


def test_the_lock_is_compiled_from_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = set(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        needed |= set(extra)
    build_tools = {"setuptools>=77", "uv"}
    assert requirements("requirements.in") == needed | build_tools


def test_the_lock_holds_each_requirement_with_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    assert {name_of(requirement) for requirement in requirements("requirements.in")} <= pinned
    stanzas = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in stanza for stanza in stanzas)


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("pyspark", "pyarrow", "deltalake", "pydantic", "sqlglot", "pandas")
    code = f"import sys, lakestream; print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
