"""What a user of the package gets with it: an SBOM, licences that are checked, and known vulnerabilities.

``make supply`` installs what lakestream needs (with Spark) into an environment of its own, from the lock, and
writes ``dist/lakestream.cdx.json`` (CycloneDX). Exit status 1 for a licence that is on no list, or for a
vulnerability that is known; where no data on these are reachable, it says so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "supply"
PRODUCT, TOOLS = FOLDER / "product", FOLDER / "tools"
LISTED = FOLDER / "product.txt"
SBOM = ROOT / "dist" / "lakestream.cdx.json"
UV = [str(ROOT / ".venv" / "bin" / "uv"), "--quiet"]
FREE = (
    "Apache",
    "BSD",
    "ISC",
    "MIT",
    "MPL",
    "Mozilla",
    "PSF",
    "Python Software Foundation",
    "Unlicense",
    "Zlib",
)
"""Parts of the names of licences that ask for no more than a notice, or for changes of their own files."""


def run(*command: str) -> int:
    """Run a command with its output shown, and return its exit status."""
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def install(folder: Path, lock: Path) -> None:
    """Make an environment from a lock."""
    subprocess.run([*UV, "venv", "--clear", "--python", sys.executable, str(folder)], check=True)
    python = str(folder / "bin" / "python")
    command = [*UV, "pip", "install", "--python", python, "--require-hashes", "-r", str(lock)]
    subprocess.run(command, check=True)


def tool(name: str) -> str:
    """Return the path of a program of the tools' environment."""
    return str(TOOLS / "bin" / name)


def list_product() -> None:
    """Write what the package needs, as the lock pins it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [*UV, "pip", "compile", "pyproject.toml", "--extra", "spark", "-c", "requirements.lock"]
    options = ["--generate-hashes", "--no-header", "--no-annotate", "-o", str(LISTED)]
    subprocess.run([*command, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Do it all, and return whether something is wrong."""
    list_product()
    install(PRODUCT, LISTED)
    install(TOOLS, Path(__file__).parent / "supply" / "requirements.lock")
    SBOM.parent.mkdir(exist_ok=True)
    pyproject = ["--pyproject", "pyproject.toml", "--output-reproducible"]
    wrong = run(tool("cyclonedx-py"), "environment", *pyproject, "-o", str(SBOM), str(PRODUCT))
    allowed = ["--partial-match", "--allow-only", ";".join(FREE)]
    shown = ["--from", "mixed", "--format", "markdown", "--python", str(PRODUCT / "bin" / "python")]
    wrong |= run(tool("pip-licenses"), *shown, *allowed)
    wrong |= run(tool("pip-audit"), "--disable-pip", "--require-hashes", "-r", str(LISTED))
    print(f"{SBOM.relative_to(ROOT)} lists what comes with the package")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
