"""Where things lie in a lake: ``<root>/<database>/<table>`` and ``<root>/_lakestream/<name>``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from lakestream.errors import LakeError, StatementError, StorageError
from lakestream.storage.places import files

FORMAT_VERSION = 1
"""Version of the layout and of the tables under ``_lakestream``, written into ``lake.json``."""

SYSTEM_FOLDER = "_lakestream"
MARKER = "lake.json"
COPIES = "copies"
"""The folder of copies of what else would be lost with one file, among the lake's own."""
HANDED = "handed"
"""The folder of files that executors of a cluster are given to read, among the lake's own."""
_HERE = "./"
_MAX_NAME = 128
_MAX_SEGMENT = 240
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))}
_SAFE = "-_.~"
_MISREAD = re.compile(r"[%\[\]^|\\\x00-\x1f\ud800-\udfff]")
_NO_PATH = re.compile(r"[?#]")
"""What ends the path of a URI: what stands behind it would name no other place."""
_SCHEME_ALONE = re.compile("([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
_ESCAPE = "="
"""Stands for the % of percent-encoding: delta-rs decodes a % in a path, and so would leave the folder."""


def safe_segment(name: str) -> str:
    """Return ``name`` as one path segment; ``segment_name`` reverses it.

    Other characters than letters, digits, ``-``, ``_``, ``.``, ``~`` are encoded in UTF-8 as ``=XX``.

    A leading ``_`` or ``.`` is encoded too: Hadoop and Delta take such folders for hidden. Raises
    StatementError BAD_NAME for an empty name, ``.``, ``..``, a NUL, a device name of Windows, or a
    name that is too long (128 characters, 240 bytes encoded).
    """
    if not name or name in {".", ".."} or "\0" in name or name.split(".", maxsplit=1)[0].lower() in _DEVICES:
        raise StatementError(
            "BAD_NAME", f"{name!r} cannot be a name", hint="begin with a letter; letters, digits, _"
        )
    segment = quote(name, safe=_SAFE).replace("%", _ESCAPE)
    if segment[0] in "_.":
        segment = f"{_ESCAPE}{ord(segment[0]):02X}{segment[1:]}"
    if len(name) > _MAX_NAME or len(segment) > _MAX_SEGMENT:
        raise StatementError(
            "BAD_NAME",
            f"the name {name[:40]!r}… has {len(name)} characters",
            hint=f"at most {_MAX_NAME} characters, {_MAX_SEGMENT} bytes when encoded",
        )
    return segment


def segment_name(segment: str) -> str:
    """Return the name that a path segment stands for."""
    return unquote(segment.replace("%", "%25").replace(_ESCAPE, "%"))


def refuse_misread(path: str) -> None:
    """Raise LakeError BAD_PATH for what delta-rs refuses, or Spark reads as others, and bytes of no UTF-8."""
    found = _MISREAD.search(path) or (files.is_uri(path) and _NO_PATH.search(path)) or None
    if found is not None:
        shown = found[0] if found[0].isprintable() else f"character {ord(found[0])}"
        also = " ? #" if files.is_uri(path) else ""
        raise LakeError(
            "BAD_PATH",
            f"the path {path} has a {shown} in it",
            hint=f"take a path without % [ ] ^ | \\{also} and control characters",
        )


def absolute(location: str) -> str:
    """Return a folder as an absolute path without links, a URI without a closing slash.

    ``file:`` URIs are folders, and ``s3a`` is ``s3``. Raises LakeError BAD_PATH, also for ``scheme:/path``,
    which is no folder and, without ``//``, no URI of a store.
    """
    if location.startswith("file:"):
        location = unquote(urlsplit(location).path)
    refuse_misread(location)
    _refuse_scheme_alone(location)
    if not files.is_uri(location):
        folder = str(Path(location).expanduser().resolve())
        refuse_misread(folder)
        return folder
    return re.sub("^s3a://", "s3://", location).rstrip("/")


def _refuse_scheme_alone(location: str) -> None:
    found = _SCHEME_ALONE.match(location)
    if found is None:
        return
    scheme = found[1]
    raise LakeError(
        "BAD_PATH",
        f"{location} has a scheme without //: lakestream reads folders, and URIs of object stores",
        hint="the URI of what is mounted there, such as s3://bucket/table or abfss://…"
        if scheme.lower() == "dbfs"
        else f"{scheme}://…, or for a folder of that name ./{location}",
    )


def _marker(timezone: str) -> bytes:
    return json.dumps({"format": FORMAT_VERSION, "timezone": timezone}).encode()


class Layout:
    """The paths of one lake. The root is a local path (made absolute) or a URI."""

    def __init__(self, root: str) -> None:
        self.is_local = not files.is_uri(root)
        self.root = absolute(root) if self.is_local else root.rstrip("/")
        refuse_misread(self.root)

    def __repr__(self) -> str:
        """Return the root, for messages."""
        return f"Layout({self.root!r})"

    def database_path(self, database: str) -> str:
        """Return the folder of a database."""
        return self._inside(files.join(self.root, safe_segment(database)))

    def table_path(self, database: str, name: str) -> str:
        """Return the folder of a table; StorageError OUTSIDE_LAKE when a link leads out of the lake."""
        return self._inside(files.join(self.root, safe_segment(database), safe_segment(name)))

    def system_path(self, name: str) -> str:
        """Return the folder of a system table, ``<root>/_lakestream/<name>``; ``name`` may hold ``/``."""
        segments = [safe_segment(part) for part in name.split("/")]
        return self._inside(files.join(self.root, SYSTEM_FOLDER, *segments))

    def results_path(self, name: str) -> str:
        """Return the folder of what a stream without an output table computed."""
        return self.system_path(f"results/{name}")

    @property
    def handed(self) -> str:
        """The folder of files that executors of a cluster are given to read."""
        return self.system_path(HANDED)

    def place_of(self, path: str) -> str:
        """Return how records name a table: by its place in the lake, which stays when the lake is moved.

        A table that lies elsewhere is named by its path.
        """
        inside = path.startswith(f"{self.root}/")
        return f"{_HERE}{path[len(self.root) + 1 :]}" if inside else path

    def path_of(self, place: str) -> str:
        """Return the path of a table that records name."""
        return files.join(self.root, *place[len(_HERE) :].split("/")) if place.startswith(_HERE) else place

    @property
    def system_root(self) -> str:
        """The folder of lakestream's own files."""
        return files.join(self.root, SYSTEM_FOLDER)

    def exists(self) -> bool:
        """Return whether a lake was made here."""
        if self.is_local:
            return files.exists(self.system_root, MARKER) or files.exists(self._copies, MARKER)
        try:  # a store says why it refuses only where it is asked for content
            files.read_bytes(self.system_root, MARKER)
        except FileNotFoundError:
            return False
        return True

    def refuse_gone(self) -> None:
        """Raise StorageError LAKE_GONE where an open lake on a local disk is not there any more.

        It is so where its disk is not mounted, or somebody moved it: nothing is to be made in its place.
        """
        if self.is_local and not self.exists():
            raise StorageError(
                "LAKE_GONE",
                f"the lake at {self.root} is not there any more",
                hint="put it back, or mount its disk: all goes on then",
            )

    def make_folders(self) -> None:
        """Make the lake's own folders where they are not there. Raises LakeError LAKE_NOT_WRITABLE."""
        if self.is_local:
            try:
                files.make_folder(Path(self.system_root))
            except OSError as error:
                raise LakeError("LAKE_NOT_WRITABLE", f"cannot make {self.root}: {error}") from error

    def initialise(self, timezone: str = "UTC") -> None:
        """Make a folder a lake, with its time zone; does nothing to a lake that is there already."""
        self.make_folders()
        if not self.exists():
            files.write_bytes(self.system_root, MARKER, _marker(timezone))
        self.copy_marker()

    def copy_marker(self) -> None:
        """Keep a copy of what is said of the lake, unless there is one: on a local disk."""
        if self.is_local and not files.exists(self._copies, MARKER):
            files.write_bytes(self._copies, MARKER, json.dumps(self._marked()).encode())

    def marker(self) -> tuple[str, str]:
        """Return the path and the text of the file that says that a lake is here."""
        return files.join(self.system_root, MARKER), files.read_bytes(self.system_root, MARKER).decode()

    def timezone(self) -> str:
        """Return the time zone that the lake was made with: days and longer windows follow it."""
        return str(self._marked().get("timezone", "UTC"))

    @property
    def _copies(self) -> str:
        return files.join(self.system_root, COPIES)

    def _marked(self) -> dict[str, Any]:
        """Return what is said of the lake. Raises StorageError REGISTRY_DAMAGED."""
        marker = files.join(self.system_root, MARKER)
        try:
            found = json.loads(files.read_bytes(self.system_root, MARKER))
        except (FileNotFoundError, ValueError):
            found = None
        if isinstance(found, dict):
            return found
        copy = files.join(self._copies, MARKER)
        hint = f"write {_marker('the time zone of the lake').decode()} into it, or put it back from a backup"
        raise StorageError(
            "REGISTRY_DAMAGED",
            f"{marker}, which says what the lake is, cannot be read",
            hint=f"put it back: cp '{copy}' '{marker}'" if files.exists(self._copies, MARKER) else hint,
        )

    def check(self) -> None:
        """Raise LakeError LAKE_NOT_FOUND when there is none, LAKE_TOO_NEW when its format is a later one.

        StorageError REGISTRY_DAMAGED when what says so cannot be read.
        """
        if not self.exists():
            raise LakeError(
                "LAKE_NOT_FOUND", f"there is no lake at {self.root}", hint="make one with: lakestream init"
            )
        found = self._marked().get("format", 0)
        if found > FORMAT_VERSION:
            raise LakeError(
                "LAKE_TOO_NEW",
                f"the lake at {self.root} has format {found}, this lakestream reads up to {FORMAT_VERSION}",
                hint="install a newer lakestream",
            )

    def refuse_inside(self, path: str) -> None:
        """Raise StatementError LOCATION_IN_LAKE for an absolute location in the lake, or around it."""
        own, other = f"{absolute(self.root)}/", f"{path.rstrip('/')}/"
        if own.startswith(other) or other.startswith(own):
            raise StatementError(
                "LOCATION_IN_LAKE",
                f"{path} lies in the lake at {self.root}, or the lake in it",
                hint="tables of the lake have names; LOCATION names tables outside",
            )

    def _inside(self, path: str) -> str:
        """Refuse a path that a symbolic link takes out of the lake."""
        if self.is_local and not Path(path).resolve().is_relative_to(self.root):
            raise StorageError(
                "OUTSIDE_LAKE",
                f"{path} leads out of the lake",
                hint="CREATE TABLE … LOCATION names tables outside",
            )
        return path
