"""The project's files say the same thing in each place."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from lakestream.errors import PrerequisiteError, extra

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
    for packages in project["optional-dependencies"].values():
        needed |= set(packages)
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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist, made of a copy: what an earlier build left behind would get in."""
    folder = tmp_path_factory.mktemp("built")
    copied, made = folder / "copy", folder / "dist"
    left_out = shutil.ignore_patterns(
        ".*", "build", "dist", "*.egg-info", "__pycache__", "*lake", "*-warehouse"
    )
    shutil.copytree(ROOT, copied, symlinks=True, ignore=left_out)
    for kind in ("sdist", "wheel"):
        code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, made], cwd=copied, capture_output=True, check=True)
    return made


def test_the_wheel_is_one_package_with_all_that_it_needs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"lakestream"}
    for needed in (
        "conf/server.toml",
        "conf/deploy/compose.s3.yml",
        "conf/deploy/grafana/dashboard.json",
        "docs/getting-started.md",
        "docs/streams/late-rows.md",
        "cli/jobs/databricks.yml",
        "integrations/dbt/dbt_project.yml",
        "integrations/dbt/macros/materializations.sql",
        "scheduler/watch.py",
        "server/api/static/index.html",
        "storage/sessions/jars.sha256",
        "py.typed",
    ):
        assert f"lakestream/{needed}" in names


def test_the_sdist_has_tests_and_documentation(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/unit/test_packaging.py", "docs/index.md", "conf/local.toml", "CONTRIBUTING.md"} <= names
    assert {"tables/streams/wind_6h.sql", "tools/setup.py", "lakestream/scheduler/watch.py"} <= names


def test_an_installation_by_target_finds_its_profiles_bundle_and_pages(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "target")
    code = (
        "import lakestream; from lakestream.settings import Settings; "
        "from lakestream.cli.jobs.bundle import Bundle, find_bundle; "
        "print(lakestream.__file__, Settings(profile='server').driver_memory, "
        "len(Bundle(find_bundle(None)).jobs()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "target")}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == [str(tmp_path / "target/lakestream/__init__.py"), "8g", "4"]


def test_what_an_extra_brings_is_named_where_it_is_missing() -> None:
    with pytest.raises(PrerequisiteError) as refused, extra("serve"):
        importlib.import_module("nobody_has_this")
    assert (refused.value.code, refused.value.hint) == ("EXTRA_MISSING", "pip install 'lakestream[serve]'")


COMPILED = """
from sqlglot.parsers.spark import SparkParser
SparkParser.__mypyc_attrs__ = ()
from lakestream.cli.app import main
main()
"""


def test_a_compiled_parser_is_refused_by_name(tmp_path: Path) -> None:
    """As ``sqlglotc`` compiles it, which no dialect here could extend."""
    asked = [sys.executable, "-c", COMPILED, "--lake", str(tmp_path / "lake")]
    for command, status in ((["init"], 69), (["doctor"], 1)):
        ran = subprocess.run([*asked, *command], capture_output=True, text=True, check=False)
        assert ran.returncode == status, ran
        assert "SQLGLOT_COMPILED" in ran.stdout + ran.stderr
        assert "pip uninstall sqlglotc" in ran.stdout + ran.stderr
