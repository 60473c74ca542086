"""Set a checkout up: virtual environment, locked packages, Delta jars. ``make`` runs this before anything.

Uses the standard library only, and says in a sentence what is missing. Each part is done once; when all is
there it takes a tenth of a second. The syntax is kept old, so that an old Python can still say that it is.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, NoReturn  # noqa: UP035 - an old Python must be able to read this

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
JARS = ROOT / ".jars"
STAMP = VENV / ".lakestream"
OLDEST = (3, 11)
NEEDED_BYTES = 3 * 1024**3
MISSING = 69  # sysexits.h: EX_UNAVAILABLE, as all of lakestream's missing prerequisites
NO_NETWORK = "see the lines above; if there is no network here, connect to one, then run make again"


def fail(message: str, hint: str) -> NoReturn:
    """Print what is wrong and what to do, and end."""
    print(f"setup: {message}\n  {hint}", file=sys.stderr)
    sys.exit(MISSING)


def use_new_python() -> None:
    """Go on with a new enough Python: this one, or the newest in PATH."""
    if sys.version_info >= OLDEST:
        return
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        found = shutil.which(name)
        if found:
            os.execv(found, [found, *sys.argv])
    fail(
        f"this is Python {sys.version_info[0]}.{sys.version_info[1]}, lakestream needs 3.11 or newer",
        "install it (Debian and Ubuntu: apt-get install python3.11 python3.11-venv; macOS: brew install "
        "python@3.12), or name it: make PYTHON=/path/to/python3.11",
    )


def check_java() -> None:
    """End with a message unless Java 17 or newer starts."""
    sys.path.insert(0, str(ROOT))
    from lakestream.errors import PrerequisiteError
    from lakestream.java import check_java as check

    try:
        check()
    except PrerequisiteError as error:
        fail(error.message, error.hint)


def check_disk() -> None:
    """End with a message when packages, jars and tests would not fit."""
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED_BYTES:
        fail(
            f"{ROOT} has {free / 1e9:.1f} GB free, the set-up needs 3 GB",
            "make room there, or put the checkout on another disk",
        )


def run(command: List[str], message: str, hint: str) -> None:  # noqa: UP006 - as above
    """Run a command with its output shown; end with the message when it fails."""
    try:
        failed = subprocess.call(command, cwd=ROOT) != 0
    except OSError:
        failed = True
    if failed:
        fail(message, hint)


def digest() -> str:
    """Return what the installed state depends on, as one text."""
    content = hashlib.sha256(f"{sys.version} {ROOT}".encode())
    for name in ("requirements.lock", "pyproject.toml"):
        content.update((ROOT / name).read_bytes())
    return content.hexdigest()


def installed() -> bool:
    """Tell whether the environment holds what the lock says."""
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == digest()


def install() -> None:
    """Make the virtual environment and install the locked packages, each checked by its hash."""
    run(
        [sys.executable, "-m", "venv", str(VENV)],
        "the virtual environment could not be made",
        "Debian and Ubuntu keep that apart: apt-get install python3-venv",
    )
    # Compiled now: a start would compile what it imports, every time where it may not write there.
    uv_install = [uv(), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(PYTHON)]
    print("installing the locked packages", flush=True)
    run([*uv_install, "--require-hashes", "-r", str(LOCK)], "the packages could not be installed", NO_NETWORK)
    # setuptools is among them, so the project itself needs no network.
    run(
        [*uv_install, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        "lakestream itself could not be installed",
        "see the lines above",
    )
    run(
        [str(PYTHON), "-m", "compileall", "-q", "lakestream", "scheduler"],
        "lakestream could not be compiled",
        "see the lines above",
    )
    STAMP.write_text(digest())


def uv() -> str:
    """Return uv: the one in PATH, else one installed into the environment from the lock."""
    own = VENV / "bin" / "uv"
    found = shutil.which("uv")
    if found or own.exists():
        return found or str(own)
    pinned = re.search(r"^uv==.*(?:\n .*)*", LOCK.read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as scratch:
        requirement = Path(scratch) / "uv.txt"
        requirement.write_text(pinned.group(0) if pinned else "uv")
        run(
            [str(PYTHON), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(requirement)],
            "uv, which installs the packages, could not be fetched",
            NO_NETWORK,
        )
    return str(own)


def jars_there() -> bool:
    """Tell whether the jars of the locked Delta are in .jars, and what makes Spark start quickly."""
    delta = re.search(r"^delta-spark==([\w.]+)", LOCK.read_text(), re.MULTILINE)
    found = delta is not None and any(JARS.glob(f"*delta-spark_*-{delta.group(1)}.jar"))
    return found and (JARS / "classes.jsa").exists()


def resolve_jars() -> None:
    """Fetch the Delta jars into .jars; the module says itself what it does, and what is wrong."""
    status = subprocess.call([str(PYTHON), "-m", "lakestream.storage.sessions.jars", str(JARS)], cwd=ROOT)
    if status != 0:
        sys.exit(status)


def main() -> None:
    """Do what is not done yet."""
    use_new_python()
    check_java()
    if installed() and jars_there():
        return
    check_disk()
    if not installed():
        install()
    if not jars_there():
        resolve_jars()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
