"""The commits of a table in a store that its handle has not taken: to take one is a list and two requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from lakestream.storage.places import files
from lakestream.storage.tables.log import commit_at
from lakestream.storage.tables.looks import is_new

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from lakestream.storage.tables.log import AddedFile, CommitInfo

_LISTED_EVERY = 100
_LISTED_AFTER = timedelta(hours=1)
"""Of so many looks at a table one lists its log, and the first one after so long: others ask for the next
commit alone. It may have been cleared away with those before it, a day after it was made or later."""

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")
_CLOCK = SystemClock()

_MOST = 100
"""Commits that are taken in a look: of more, the handle is opened anew from a checkpoint, which is some 20
requests. So many are known each for itself, and those before them summed up."""


@dataclass
class FileChanges:
    """The data files that commits have put in and not taken out again, by path, and those they took out."""

    added: dict[str, AddedFile] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    transactions: dict[str, int] = field(default_factory=dict)

    def take(self, commit: CommitInfo) -> None:
        """Do what a commit says."""
        for name in commit.removed:
            if self.added.pop(name, None) is None:
                self.removed.add(name)
        self.added.update((file.path, file) for file in commit.files)
        self.transactions.update(commit.transactions)


class Ahead:
    """What is known of a table beyond a handle: commits that change rows alone, up to ``version``."""

    handle: DeltaTable
    """The handle that lacks them."""
    since: int
    """The version from which on its commits are known each for itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._looks = 0
        self._looked_at = _CLOCK.now()
        self.version = -1
        self.before = FileChanges()
        self.commits: list[CommitInfo] = []

    def begin(self, handle: DeltaTable) -> None:
        """Begin at the version that a handle has come to."""
        self.before = FileChanges()
        self.commits.clear()
        self.handle = handle
        self.version = self.since = handle.version()

    @property
    def is_beyond(self) -> bool:
        """Whether the handle lacks a commit."""
        return self.version > self.handle.version()

    def take(self, commit: CommitInfo) -> None:
        """Take the next commit."""
        self.commits.append(commit)
        self.version = commit.version
        if len(self.commits) >= 2 * _MOST:
            for old in self.commits[:_MOST]:
                self.before.take(old)
            self.since = self.commits[_MOST - 1].version
            del self.commits[:_MOST]

    def changes(self, upto: int) -> FileChanges:
        """Return what became of files behind the handle up to a version, which is not before ``since``."""
        before = self.before
        changes = FileChanges({**before.added}, {*before.removed}, {**before.transactions})
        for commit in self.commits:
            if commit.version <= upto:
                changes.take(commit)
        return changes

    def follow(self) -> bool:
        """Take what is there by now, once in a look; return false where the handle is to find out itself.

        Commits are numbered without gaps: without the next one there is no later one.
        """
        if not is_new(self):
            return True
        self._looks, before, self._looked_at = self._looks + 1, self._looked_at, _CLOCK.now()
        if self._looks % _LISTED_EVERY == 0 or self._looked_at - before > _LISTED_AFTER:
            there = self._listed()
            if there == {self.version}:
                return True
            if not {self.version, self.version + 1} <= there:
                return False
        begun = self.version
        while (commit := commit_at(self._path, self.version + 1)) is not None:
            if commit.schema_changed or commit.protocol_changed or self.version - begun >= _MOST:
                return False
            self.take(commit)
        return True

    def _listed(self) -> set[int]:
        """Return the versions that a list of the log has, from the one seen last on."""
        listed = files.tags(self._path, "_delta_log/", f"_delta_log/{self.version:020}")
        return {int(name[-25:-5]) for name in listed if _COMMIT.fullmatch(name)}

    def transaction(self, app: str) -> int | None:
        """Return the last transaction version of an application id in these commits."""
        known = (dict(commit.transactions) for commit in reversed(self.commits))
        newest = next((versions[app] for versions in known if app in versions), None)
        return self.before.transactions.get(app) if newest is None else newest
