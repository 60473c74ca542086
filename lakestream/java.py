"""Find the Java that Spark would start, and say what to do when it is missing or too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lakestream.errors import PrerequisiteError

OLDEST = 17
"""The oldest major version that Spark 4 runs on."""

_HOW = (
    f"install Java {OLDEST} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or point JAVA_HOME at one"
)


@dataclass(frozen=True)
class Java:
    """A Java that starts: its executable, its major version, and the version as it says it."""

    executable: str
    major: int
    version: str


def check_java() -> Java:
    """Return the Java that Spark will start: that of JAVA_HOME, else the one in PATH.

    Raises PrerequisiteError JAVA_MISSING when there is none or it does not start, JAVA_TOO_OLD when it is
    older than 17. Takes as long as ``java -version``, about 0.1 s.
    """
    executable = _executable()
    output = _version_output(executable)
    found = re.search(r'version "([^"]+)"', output)
    if found is None:
        raise PrerequisiteError(
            "JAVA_MISSING", f"{executable} does not say which Java it is: {output.strip()[:200]}", hint=_HOW
        )
    version = found.group(1)
    java = Java(executable, _major(version), version)
    if java.major < OLDEST:
        raise PrerequisiteError(
            "JAVA_TOO_OLD", f"{executable} is Java {version}, Spark needs {OLDEST} or newer", hint=_HOW
        )
    return java


def _executable() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        found = shutil.which(str(Path(home) / "bin" / "java"))
        if found is None:
            raise PrerequisiteError(
                "JAVA_MISSING", f"JAVA_HOME is {home}, and there is no bin/java in it", hint=_HOW
            )
        return found
    found = shutil.which("java")
    if found is None:
        raise PrerequisiteError("JAVA_MISSING", "Java was not found", hint=_HOW)
    return found


def _version_output(executable: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - the executable is the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError("JAVA_MISSING", f"{executable} does not start: {error}", hint=_HOW) from error
    return ran.stderr + ran.stdout


def _major(version: str) -> int:
    """Return 8 for "1.8.0_392" and 17 for "17.0.15" or "17-ea"."""
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def is_local(master: str) -> bool:
    """Return whether a master is Spark in this process, and no cluster."""
    return master.startswith("local") and not master.startswith("local-cluster")
