"""The jars that Spark needs, those of Delta and of a store: found in a folder, or resolved once into one.

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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from lakestream.errors import LakestreamError, PrerequisiteError
from lakestream.java import check_java
from lakestream.storage.places.scratch import held_folder, user_folder
from lakestream.storage.sessions.archive import archive_beside, make_archive

_SCALA = "2.13"
_HASHES = Path(__file__).with_name("jars.sha256")
"""What `sha256sum` prints of the jars of the Delta and the Hadoop that lakestream is made with."""
_CHECKOUT = Path(__file__).resolve().parents[3]
_HOW = (
    "connect to the network once, or name a folder that has them by LAKESTREAM_JARS; "
    "behind a mirror, set DEFAULT_ARTIFACT_REPOSITORY to its address"
)
_TIMEOUT_SECONDS = 900
_STORE_FOLDER = "s3"

Watch = Callable[[str, Callable[[], int] | None], AbstractContextManager[object]]
"""Who shows what is waited for: told what that is and, of what is fetched, how many bytes are there."""

_ONCE = "making an archive of Spark's classes, once: each later start takes half as long with it"


@dataclass(frozen=True)
class Jars:
    """Jars that are fetched together: what they are, the coordinates of one in Maven, and how it is named.

    A folder with a jar whose name ends so has them all. ``megabytes`` is what they take of the disk.
    """

    what: str
    coordinates: str
    jar: str
    megabytes: int


def say_so(what: str, fetched: Callable[[], int] | None) -> AbstractContextManager[object]:
    """Say in a line on standard error what is fetched: that may take minutes, all else less."""
    if fetched is not None:
        sys.stderr.write(f"{what}\n")
    return nullcontext()


def delta_jars() -> Jars:
    """Return what the Delta of the installed version is; PrerequisiteError SPARK_MISSING without one."""
    spark, delta = ".".join(_version("pyspark").split(".")[:2]), _version("delta-spark")
    name = f"delta-spark_{spark}_{_SCALA}"
    return Jars("the Delta jars", f"io.delta:{name}:{delta}", f"{name}-{delta}.jar", 300)


def store_jars() -> Jars:
    """Return what reads S3 for the installed Spark: of the version of the Hadoop that it brings."""
    check_spark()
    [client] = (_spark_home() / "jars").glob("hadoop-client-api-*.jar")
    hadoop = client.stem.removeprefix("hadoop-client-api-")
    return Jars(
        "Hadoop's jars for S3 (690 MB)",
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        f"hadoop-aws-{hadoop}.jar",
        1_500,
    )


def find_jars(folder: Path | None, watch: Watch = say_so) -> list[Path]:
    """Return the Delta jars: of ``folder`` when given, else of the checkout or the user's cache.

    When neither has them they are resolved into the cache, once, which ``watch`` shows. Raises
    PrerequisiteError: JARS_MISSING (the given folder lacks them), JARS_UNREACHABLE (no network),
    JARS_NOT_STORED (no room), SPARK_MISSING, JAVA_MISSING, JAVA_TOO_OLD.
    """
    if folder is not None:
        return jars_in(folder) or _missing(folder, delta_jars())
    for candidate in (_CHECKOUT / ".jars", cache_folder()):
        found = jars_in(candidate)
        if found:
            return found
    resolved = resolve_jars(cache_folder(), watch)
    with watch(_ONCE, None):
        make_archive(cache_folder())
    return resolved


def find_store_jars(delta: list[Path], folder: Path | None, watch: Watch = say_so) -> list[Path]:
    """Return the jars by which Spark reads S3: those of ``folder``, else of ``s3`` beside the Delta jars.

    Where there are none they are resolved there, once, unless a folder is given. Raises as find_jars does.
    """
    beside = delta[0].parent / _STORE_FOLDER
    if folder is not None and jars_in(folder, store_jars()):
        return []  # they are among what was found there
    found = jars_in(beside, store_jars())
    if not found and folder is not None:
        return _missing(folder, store_jars())
    return found or resolve_jars(beside, watch, store_jars())


def _missing(folder: Path, needed: Jars) -> NoReturn:
    others = sorted(one.name for one in folder.glob(f"*{needed.jar.partition('_')[0]}*.jar"))
    beside = f", of another version {others[0]}" if others else ""
    # Jars of another Delta for the same Spark go with that version of the package.
    fitting = [one for one in others if needed.jar.rpartition("-")[0] in one and "delta-spark" in one]
    other_way = f", or pip install delta-spark=={fitting[0][:-4].rpartition('-')[2]}" if fitting else ""
    raise PrerequisiteError(
        "JARS_MISSING",
        f"{folder} has no {needed.jar}{beside}",
        hint="leave `jars` out to have those resolved that go with the packages installed here" + other_way,
    )


def jars_in(folder: Path, needed: Jars | None = None) -> list[Path]:
    """Return the jars of a folder in order of name; empty unless the needed ones (Delta's) are there."""
    if not folder.is_dir():
        return []
    found, jar = sorted(folder.glob("*.jar")), (needed or delta_jars()).jar
    return found if any(one.name.endswith(jar) for one in found) else []


def cache_folder() -> Path:
    """Return the per-user folder for the jars of the installed versions."""
    return user_folder() / "jars" / f"delta-{_version('delta-spark')}-spark-{_version('pyspark')}"


def resolve_jars(folder: Path, watch: Watch = say_so, needed: Jars | None = None) -> list[Path]:
    """Fetch jars (Delta's) with what they need beside Spark's own into ``folder``, all or nothing.

    Raises PrerequisiteError JARS_DIFFER for others than those that lakestream is made with, and what
    find_jars raises.
    """
    check_java()
    needed = needed or delta_jars()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held_folder(folder.parent) as scratch:
            ivy = scratch / "ivy"
            said = f"fetching {needed.what}, once, into {folder}: Spark needs them"
            with watch(said, lambda: _size_of(ivy)):
                fetched = _fetch(ivy, needed)
            kept = scratch / "jars"
            kept.mkdir()
            jars = _beside_spark(fetched)
            _check_hashes(jars, needed)
            for jar in jars:
                jar.rename(kept / jar.name)
            shutil.rmtree(folder, ignore_errors=True)
            kept.rename(folder)
    except OSError as error:
        raise PrerequisiteError(
            "JARS_NOT_STORED",
            f"{needed.what} cannot be stored in {folder}: {error.strerror or error}",
            hint=f"make room ({needed.megabytes} MB) and see that the folder can be written",
        ) from error
    return jars_in(folder, needed)


def _check_hashes(jars: list[Path], needed: Jars) -> None:
    """Refuse jars that are not what was published; of versions that are not listed nothing is known."""
    known = {name: digest for digest, name in map(str.split, _HASHES.read_text("ascii").splitlines())}
    if not any(name.endswith(needed.jar) for name in known):
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


def _fetch(ivy: Path, needed: Jars) -> list[Path]:
    """Have Spark itself resolve coordinates, as ``delta.configure_spark_with_delta_pip`` does."""
    ivy.mkdir()
    script = ivy / "nothing.py"
    script.write_text("", encoding="utf-8")
    command = [
        str(_spark_home() / "bin" / "spark-submit"),
        *("--packages", needed.coordinates),
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
            f"{needed.what} did not arrive in {_TIMEOUT_SECONDS // 60} minutes",
            hint=_how(needed),
        ) from None
    fetched = sorted((ivy / "jars").glob("*.jar"))
    if ran.returncode != 0 or not any(jar.name.endswith(needed.jar) for jar in fetched):
        raise PrerequisiteError(
            "JARS_UNREACHABLE",
            f"{needed.jar} could not be fetched: {_reason(ran.stderr)}",
            hint=_how(needed),
        )
    return fetched


def _how(needed: Jars) -> str:
    """Return what leads to jars; those of a Delta that is newer than lakestream may be nowhere yet."""
    known = re.search(r"delta-spark_\S+-(\S+)\.jar", _HASHES.read_text("ascii"))
    is_other = needed.coordinates.startswith("io.delta:") and known is not None and known[1] not in needed.jar
    if known is None or not is_other:
        return _HOW
    return f"pip install delta-spark=={known[1]}, which lakestream is made with, or {_HOW}"


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
