"""Makes a version: ``make release VERSION=0.2.0`` (CONTRIBUTING.md says what a version promises).

It writes the version where it stands, gives what is under Unreleased in CHANGELOG.md its heading, builds
wheel and sdist into ``dist/``, commits and tags. Nothing leaves the machine: what publishes it is printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lakestream.clock import SystemClock

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "pyproject.toml": r'^version = "(.*)"$',
    "lakestream/__init__.py": r'^__version__ = "(.*)"$',
    "lakestream/integrations/dbt/dbt_project.yml": r'^version: "(.*)"$',
}
"""Where the version stands: in each file the group of its pattern."""
_UNRELEASED = "## Unreleased\n"


def main(version: str, root: Path = ROOT) -> int:
    """Make a version of the checkout in ``root`` and return the exit status."""
    if problem := _refused(version, root):
        print(f"release: {problem}", file=sys.stderr)
        return 1
    for name, pattern in PLACES.items():
        path = root / name
        text = path.read_text("utf-8")
        found = re.search(pattern, text, re.MULTILINE)
        assert found is not None, name
        path.write_text(f"{text[: found.start(1)]}{version}{text[found.end(1) :]}", "utf-8")
    changes = root / "CHANGELOG.md"
    heading = f"{_UNRELEASED}\n## {version}, {SystemClock().now():%Y-%m-%d}\n"
    changes.write_text(changes.read_text("utf-8").replace(_UNRELEASED, heading, 1), "utf-8")
    build(root)
    _git(root, "commit", "--quiet", "--all", "--message", f"Version {version}")
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print(f"made version {version}; to publish it:")
    print(f"  git push --follow-tags\n  uv publish dist/lakestream-{version}*")
    return 0


def version_of(root: Path) -> str:
    """Return the version of a checkout, which says the same in every place. Raises ValueError."""
    found = {re.findall(p, (root / name).read_text("utf-8"), re.MULTILINE)[0] for name, p in PLACES.items()}
    if len(found) != 1:
        raise ValueError(f"the version is {' and '.join(sorted(found))}")
    return str(found.pop())


def _refused(version: str, root: Path) -> str:
    """Return why no such version can be made, empty where it can."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"{version or 'nothing'} is no version; VERSION=MAJOR.MINOR.PATCH"
    known = version_of(root)
    if _numbers(version) <= _numbers(known):
        return f"{version} is not later than {known}"
    if _git(root, "status", "--porcelain"):
        return "there are changes that are not committed"
    _, begin, rest = (root / "CHANGELOG.md").read_text("utf-8").partition(_UNRELEASED)
    if not begin or not re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip():
        return "CHANGELOG.md has nothing under Unreleased"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def build(root: Path) -> None:
    """Build wheel and sdist into ``dist/``."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--out-dir", "dist", "."], cwd=root, check=True)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
