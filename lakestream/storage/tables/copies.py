"""Copies of a table's rows as JSON, beside the lake's own tables: for when one is damaged.

They are written behind the commit that they are of, and are not forced to the disk: a power cut may leave
them older, or torn, so that the first process after it makes them anew. Local disks only.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakestream.storage.places.layout import COPIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = dict[str, Any]

_NOTE, _IN_USE = "_noted.json", "-in-use"
_OF_A_COMMIT = re.compile(r"\d{20}\.json")
_WHOLE_AFTER = 64
"""After so many commits all rows are written into one file, and those of the commits go."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Form:
    """What a table is made of: its columns (name to Spark SQL type), and the one that is the key.

    ``version`` is the one of the table that the copies are of.
    """

    columns: dict[str, str]
    key: str
    version: int


@dataclass(frozen=True)
class Copy:
    """What one commit made of a table's rows, or all of them (``since`` no version: None)."""

    form: Form
    since: int | None
    rows: list[Row]
    gone: list[str]

    @classmethod
    def read(cls, file: Path) -> Copy | None:
        """Return what a file holds, None where it is torn or gone."""
        found = _read(file)
        return cls(**{**found, "form": Form(**found["form"])}) if found else None


class Copies:
    """The copies of the rows of the table at ``path``: a file for each commit, named by its version."""

    def __init__(self, path: str) -> None:
        self.folder = Path(path).parent / COPIES / Path(path).name

    def are_kept(self) -> bool:
        """Return whether there are any, or were."""
        return bool(self._files())

    def version(self) -> int:
        """Return the version of the table that they are of, -1 for none."""
        files = self._files()
        return int(files[-1].stem) if files else -1

    def keep(
        self, form: Form, rows: Mapping[str, Row], since: int, changed: Iterable[str], gone: Iterable[str]
    ) -> None:
        """Keep ``rows``, of which some have changed since a version and others are gone, by their keys.

        All of them where others' commits came in between, or many were kept apart. What the disk refuses is
        said in the log: the rows themselves are committed.
        """
        files = self._files()
        follows = bool(files) and int(files[-1].stem) == since == form.version - 1
        if not follows or len(files) >= _WHOLE_AFTER:
            self.keep_all(form, rows)
            return
        with self.said_in_the_log():
            self._write(Copy(form, since, [rows[key] for key in changed if key in rows], [*gone]))

    def keep_all(self, form: Form, rows: Mapping[str, Row]) -> None:
        """Keep ``rows`` and nothing else."""
        with self.said_in_the_log():
            self.folder.mkdir(parents=True, exist_ok=True)
            old = [*self.folder.iterdir()]
            kept = self._write(Copy(form, None, [*rows.values()], []))
            for file in old:
                if file.name != kept:
                    file.unlink(missing_ok=True)

    @contextmanager
    def said_in_the_log(self) -> Iterator[None]:
        """Say in the log what the disk refuses."""
        try:
            yield
        except OSError as error:
            _log.warning("no copy of rows was kept in %s: %s", self.folder, error.strerror)

    def form(self) -> Form | None:
        """Return what the table is made of, None where that cannot be read."""
        found = self._read()
        return found[-1].form if found else None

    def rows(self) -> list[Row]:
        """Return the rows as the last commit left them, of what can be read."""
        rows: dict[str, Row] = {}
        for copy in self._read():
            kept = {} if copy.since is None else rows
            rows = {key: row for key, row in kept.items() if key not in copy.gone}
            rows |= {row[copy.form.key]: row for row in copy.rows}
        return [*rows.values()]

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file whole: who reads has the old or the new content."""
        draft = self.folder / f".{name}.{uuid4().hex}"
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(self.folder / name)

    def _write(self, copy: Copy) -> str:
        name = f"{copy.form.version:020}.json"
        self.write(name, asdict(copy))
        return name

    def _files(self) -> list[Path]:
        """Return the files of commits, in their order."""
        try:
            names = sorted(file.name for file in self.folder.iterdir())
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names if _OF_A_COMMIT.fullmatch(name)]

    def _read(self) -> list[Copy]:
        return [copy for copy in map(Copy.read, self._files()) if copy is not None]


def copied_tables(system_root: str) -> list[str]:
    """Return the names of the tables of a lake that have copies."""
    folders = sorted(Path(system_root, COPIES).glob("*/"))
    return [one.name for one in folders if Copies(str(Path(system_root, one.name))).are_kept()]


def _read(file: Path) -> Row:
    """Return what a file holds; nothing where it is torn or gone."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Batch:
    """Rows of one commit as JSON has them, the version it made, and what its transaction says."""

    version: int
    app: str
    number: int
    epoch: int
    rows: list[Row]


class Batches:
    """Copies of what commits appended to the table at ``path``, until it is needed no more.

    While the table is made anew of them they lie in a folder of their own: who is cut off begins again.
    """

    def __init__(self, path: str) -> None:
        self._copies = Copies(path)
        self._in_use = Copies(f"{path}{_IN_USE}")

    def noted(self) -> int:
        """Return the version of the table that was copied last, -1 for none."""
        return int(_read(self._copies.folder / _NOTE).get("version", -1))

    def add(self, batch: Batch, owner: str) -> None:
        """Keep what a commit appended for an owner; what the disk refuses is said in the log."""
        with self._copies.said_in_the_log():
            self._copies.folder.mkdir(parents=True, exist_ok=True)
            self._copies.write(f"{batch.version:020}-{owner}.json", asdict(batch))
            self._copies.write(_NOTE, {"version": batch.version})

    def forget(self, until: Mapping[str, int]) -> None:
        """Let go of what owners have had, each before a version; that of others stays."""
        for file in self._files(self._copies):
            version, _, owner = file.stem.partition("-")
            if int(version) < until.get(owner, 0):
                file.unlink(missing_ok=True)

    def note(self, version: int) -> None:
        """Note the version of the table where a later one is noted: a power cut took that commit."""
        if self.noted() > version:
            with self._copies.said_in_the_log():
                self._copies.write(_NOTE, {"version": version})

    @property
    def are_in_use(self) -> bool:
        """Whether the table was to be made anew of them, and that was cut off."""
        return self._in_use.folder.is_dir()

    def use(self) -> list[Batch]:
        """Return what is kept and can be read, in the order of the commits, and keep from now on what comes.

        What is used is there until :meth:`used`.
        """
        if self.are_in_use:
            shutil.rmtree(self._copies.folder, ignore_errors=True)
        elif self._copies.folder.is_dir():
            self._copies.folder.rename(self._in_use.folder)
        found = [Batch(**row) for row in map(_read, self._files(self._in_use)) if row]
        return [*{(one.app, one.number): one for one in reversed(found)}.values()][::-1]

    def used(self) -> None:
        """Let go of what was used."""
        shutil.rmtree(self._in_use.folder, ignore_errors=True)

    def _files(self, copies: Copies) -> list[Path]:
        return sorted(copies.folder.glob("[0-9]*.json"))
