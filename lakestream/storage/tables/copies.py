"""Copies of a small table's rows, a file each, beside the lake's own tables: for when one is damaged.

They are written behind the commit that they are of, and are not forced to the disk: a power cut may leave
them older, or torn, so that the first process after it makes them anew. Local disks only.
"""

from __future__ import annotations

import json
import logging
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = dict[str, Any]

FOLDER = "copies"
_FORM, _NOTE, _IN_USE = "_form.json", "_noted.json", "-in-use"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Form:
    """What a table is made of: its columns (name to Spark SQL type), and the one that is the key.

    ``version`` is the one of the table that the copies are of.
    """

    columns: dict[str, str]
    key: str
    version: int


class Copies:
    """The copies of the rows of the table at ``path``."""

    def __init__(self, path: str) -> None:
        self.folder = Path(path).parent / FOLDER / Path(path).name

    def are_kept(self) -> bool:
        """Return whether there are any, or were."""
        return (self.folder / _FORM).is_file()

    def version(self) -> int:
        """Return the version of the table that they are of, -1 for none."""
        form = self.form()
        return -1 if form is None else form.version

    def keep(
        self, form: Form, rows: Mapping[str, Row], since: int, changed: Iterable[str], gone: Iterable[str]
    ) -> None:
        """Keep ``rows``, of which some have changed since a version and others are gone, by their keys.

        All of them where the copies are of another version. What the disk refuses is said in the log: the
        rows themselves are committed.
        """
        if self.version() != since:
            self.keep_all(form, rows)
            return
        with self.said_in_the_log():
            for key in changed:
                if key in rows:
                    self.write(_named(key), rows[key])
            for key in gone:
                (self.folder / _named(key)).unlink(missing_ok=True)
            self.write(_FORM, asdict(form))

    def keep_all(self, form: Form, rows: Mapping[str, Row]) -> None:
        """Keep ``rows`` and nothing else."""
        with self.said_in_the_log():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            for key, row in rows.items():
                self.write(_named(key), row)
            self.write(_FORM, asdict(form))

    @contextmanager
    def said_in_the_log(self) -> Iterator[None]:
        """Say in the log what the disk refuses."""
        try:
            yield
        except OSError as error:
            _log.warning("no copy of rows was kept in %s: %s", self.folder, error.strerror)

    def form(self) -> Form | None:
        """Return what the table is made of, None where that cannot be read."""
        found = _read(self.folder / _FORM)
        return Form(found["columns"], found["key"], found["version"]) if found else None

    def rows(self) -> list[Row]:
        """Return the rows that can be read."""
        files = sorted(file for file in self.folder.glob("*.json") if file.name != _FORM)
        return [row for row in map(_read, files) if row]

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file whole: who reads has the old or the new content."""
        draft = self.folder / f".{name}.{uuid4().hex}"
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(self.folder / name)


def copied_tables(system_root: str) -> list[str]:
    """Return the names of the tables of a lake that have copies."""
    return sorted(form.parent.name for form in Path(system_root, FOLDER).glob(f"*/{_FORM}"))


def _named(key: str) -> str:
    """Return the name of the file of a key, which may hold anything."""
    return f"{sha256(key.encode()).hexdigest()[:32]}.json"


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
