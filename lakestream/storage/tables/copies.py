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
_FORM = "_form.json"
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
        with self._said_in_the_log():
            for key in changed:
                if key in rows:
                    self._write(_named(key), rows[key])
            for key in gone:
                (self.folder / _named(key)).unlink(missing_ok=True)
            self._write(_FORM, asdict(form))

    def keep_all(self, form: Form, rows: Mapping[str, Row]) -> None:
        """Keep ``rows`` and nothing else."""
        with self._said_in_the_log():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            for key, row in rows.items():
                self._write(_named(key), row)
            self._write(_FORM, asdict(form))

    @contextmanager
    def _said_in_the_log(self) -> Iterator[None]:
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

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
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
