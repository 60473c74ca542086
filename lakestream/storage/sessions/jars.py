"""The Delta jars that Spark needs: found in a folder, or resolved once into one.

Spark resolves ``spark.jars.packages`` anew for every session, which costs two seconds and the network.
Here it does so once; the jars that it does not bring itself are kept, and later sessions start from them.

``python -m lakestream.storage.sessions.jars FOLDER`` resolves them into FOLDER, and makes the archive of what
the JVM loads of them (this is what ``make`` runs).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from lakestream.errors import LakestreamError, PrerequisiteError
from lakestream.java import check_java
from lakestream.storage.sessions.archive import archive_beside, make_archive

_SCALA = "2.13"
_HASHES = Path(__file__).with_name("jars.sha256")
"""What `sha256sum` prints of the jars of the Delta that lakestream is made with."""
_CHECKOUT = Path(__file__).resolve().parents[3]
_HOW = (
    "connect to the network once, or name a folder that has them by LAKESTREAM_JARS; "
    "behind a mirror, set DEFAULT_ARTIFACT_REPOSITORY to its address"
)
_TIMEOUT_SECONDS = 900

Watch = Callable[[Path, Callable[[], int]], AbstractContextManager[object]]
"""Who shows that jars are being fetched: told where to and, whenever asked, how many bytes are there."""


def say_so(folder: Path, _fetched: Callable[[], int]) -> AbstractContextManager[object]:
    """Say in a line on standard error that jars are being fetched."""
    sys.stderr.write(f"fetching the Delta jars, once, into {folder}: Spark needs them\n")
    return nullcontext()


def find_jars(folder: Path | None, watch: Watch = say_so) -> list[Path]:
    """Return the Delta jars: of ``folder`` when given, else of the checkout or the user's cache.

    When neither has them they are resolved into the cache, once, which ``watch`` shows. Raises
    PrerequisiteError: JARS_MISSING (the given folder lacks them), JARS_UNREACHABLE (no network),
    JARS_NOT_STORED (no room), SPARK_MISSING, JAVA_MISSING, JAVA_TOO_OLD.
    """
    if folder is not None:
        found = jars_in(folder)
        if not found:
            raise PrerequisiteError(
                "JARS_MISSING",
                f"{folder} has no {_delta_jar()}",
                hint="leave `jars` out to have them resolved",
            )
        return found
    for candidate in (_CHECKOUT / ".jars", cache_folder()):
        found = jars_in(candidate)
        if found:
            return found
    resolved = resolve_jars(cache_folder(), watch)
    make_archive(cache_folder())
    return resolved


def jars_in(folder: Path) -> list[Path]:
    """Return the jars of a folder in order of name; empty unless this version's Delta is among them."""
    if not folder.is_dir():
        return []
    found = sorted(folder.glob("*.jar"))
    return found if any(jar.name.endswith(_delta_jar()) for jar in found) else []


def user_folder() -> Path:
    """Return the per-user folder of lakestream."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakestream"


def cache_folder() -> Path:
    """Return the per-user folder for the jars of the installed versions."""
    return user_folder() / "jars" / f"delta-{_version('delta-spark')}-spark-{_version('pyspark')}"


def resolve_jars(folder: Path, watch: Watch = say_so) -> list[Path]:
    """Fetch the Delta jars with what they need beside Spark's own into ``folder``, all or nothing.

    Raises PrerequisiteError JARS_DIFFER for others than those that lakestream is made with, and what
    find_jars raises.
    """
    check_java()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".jars-") as scratch:
            ivy = Path(scratch) / "ivy"
            with watch(folder, lambda: _size_of(ivy)):
                fetched = _fetch(ivy)
            kept = Path(scratch) / "jars"
            kept.mkdir()
            needed = _beside_spark(fetched)
            _check_hashes(needed)
            for jar in needed:
                shutil.copy2(jar, kept / jar.name)
            shutil.rmtree(folder, ignore_errors=True)
            kept.rename(folder)
    except OSError as error:
        raise PrerequisiteError(
            "JARS_NOT_STORED",
            f"the Delta jars cannot be stored in {folder}: {error.strerror or error}",
            hint="make room (300 MB) and see that the folder can be written",
        ) from error
    return jars_in(folder)


def _check_hashes(jars: list[Path]) -> None:
    """Refuse jars that are not what was published; of another Delta than the locked one nothing is known."""
    known = {name: digest for digest, name in map(str.split, _HASHES.read_text("ascii").splitlines())}
    if not any(name.endswith(_delta_jar()) for name in known):
        return
    for jar in jars:
        with jar.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != known.get(jar.name):
            raise PrerequisiteError(
                "JARS_DIFFER",
                f"{jar.name} came with the SHA-256 {found}, not {known.get(jar.name, 'expected at all')}",
                hint="something between here and the repository changed it: none of the jars was kept",
            )


def _size_of(folder: Path) -> int:
    """Return the bytes of a folder's files while others write there."""
    total = 0
    for file in folder.rglob("*.jar*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def _delta_artifact() -> str:
    spark = ".".join(_version("pyspark").split(".")[:2])
    return f"delta-spark_{spark}_{_SCALA}"


def _delta_jar() -> str:
    return f"{_delta_artifact()}-{_version('delta-spark')}.jar"


def check_spark() -> None:
    """Raise PrerequisiteError SPARK_MISSING unless pyspark can be imported."""
    if find_spec("pyspark") is None:
        raise _not_installed("pyspark")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise _not_installed(package) from None


def _not_installed(package: str) -> PrerequisiteError:
    return PrerequisiteError(
        "SPARK_MISSING", f"{package} is not installed", hint="pip install 'lakestream[spark]'"
    )


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None, "check_spark has found it"
    return Path(found.origin).parent


def _fetch(ivy: Path) -> list[Path]:
    """Have Spark itself resolve the coordinates that ``delta.configure_spark_with_delta_pip`` names."""
    ivy.mkdir()
    script = ivy / "nothing.py"
    script.write_text("", encoding="utf-8")
    command = [
        str(_spark_home() / "bin" / "spark-submit"),
        *("--packages", f"io.delta:{_delta_artifact()}:{_version('delta-spark')}"),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--master", "local[1]"),
        str(script),
    ]
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, "PYSPARK_PYTHON": sys.executable}
    try:
        ran = subprocess.run(  # noqa: S603 - Spark's own launcher
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PrerequisiteError(
            "JARS_UNREACHABLE",
            f"the Delta jars did not arrive in {_TIMEOUT_SECONDS // 60} minutes",
            hint=_HOW,
        ) from None
    fetched = sorted((ivy / "jars").glob("*.jar"))
    if ran.returncode != 0 or not any(jar.name.endswith(_delta_jar()) for jar in fetched):
        raise PrerequisiteError(
            "JARS_UNREACHABLE", f"{_delta_jar()} could not be fetched: {_reason(ran.stderr)}", hint=_HOW
        )
    return fetched


def _reason(log: str) -> str:
    """Return why nothing came: what the log of Ivy and Spark says, without its addresses."""
    known = {
        "No space left on device": "the disk is full",
        "UnknownHostException": "the repository's host is unknown here (no network?)",
        "timed out": "the repository did not answer",
        "Connection refused": "the repository refused the connection",
        "unresolved dependency": "the repository does not have it, or there is no network",
    }
    for sign, meaning in known.items():
        if sign in log:
            return meaning
    lines = [line.strip() for line in log.splitlines() if "rror" in line or "xception" in line]
    return lines[0][:200] if lines else "Spark's launcher does not say why"


def _beside_spark(fetched: list[Path]) -> list[Path]:
    """Leave out what Spark brings in its own version: two versions on one class path hide each other."""
    own = {_artifact(jar.name) for jar in (_spark_home() / "jars").glob("*.jar")}
    # Ivy names a file organisation_artifact-version.jar.
    return [jar for jar in fetched if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(file_name: str) -> str:
    return re.sub(r"-\d.*", "", file_name)


def main() -> int:
    """Resolve the jars into the folder named on the command line; return an exit status."""
    folder = Path(sys.argv[1])
    try:
        found = jars_in(folder) or resolve_jars(folder)
        archived = archive_beside(found) is not None or make_archive(folder)
    except LakestreamError as error:
        print(error.render(), file=sys.stderr)  # noqa: T201 - a command
        return error.exit_status
    print(f"{len(found)} jars in {folder}{', with an archive of their classes' * archived}")  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    sys.exit(main())
