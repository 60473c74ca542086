"""The commits of a table in a store that its handle has not taken: to take one is a list and two requests."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from lakestream.storage.places import files
from lakestream.storage.tables.log import commit_at
from lakestream.storage.tables.looks import is_new

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltalake import DeltaTable

    from lakestream.storage.tables.log import CommitInfo

_LISTED_EVERY = 100
_LISTED_AFTER = timedelta(hours=1)
"""Of so many looks at a table one lists its log, and the first one after so long: others ask for the next
commit alone. It may have been cleared away with those before it, a day after it was made or later."""

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")
_CLOCK = SystemClock()

_MOST = 100
"""Commits that a handle may lack: it is opened anew then, from a checkpoint, which is some 20 requests."""


class Ahead:
    """What is known of a table beyond a handle: commits that change rows alone, up to ``version``."""

    handle: DeltaTable
    """The handle that lacks them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._looks = 0
        self._looked_at = _CLOCK.now()
        self.version = -1
        self.commits: list[CommitInfo] = []

    def begin(self, handle: DeltaTable) -> None:
        """Begin at the version that a handle has come to."""
        self.commits.clear()
        self.handle, self.version = handle, handle.version()

    def take(self, commit: CommitInfo) -> None:
        """Take the next commit."""
        self.commits.append(commit)
        self.version = commit.version

    def follow(self) -> bool:
        """Take what is there by now, once in a look; return false where the handle is to find out itself.

        Commits are numbered without gaps: without the next one there is no later one.
        """
        if not is_new(self):
            return True
        self._looks, before, self._looked_at = self._looks + 1, self._looked_at, _CLOCK.now()
        if self._looks % _LISTED_EVERY == 0 or self._looked_at - before > _LISTED_AFTER:
            listed = files.tags(self._path, "_delta_log/", f"_delta_log/{self.version:020}")
            if not self._leads_on(listed):
                return False
        while (commit := commit_at(self._path, self.version + 1)) is not None:
            if commit.schema_changed or commit.protocol_changed or len(self.commits) >= _MOST:
                return False
            self.take(commit)
        return True

    def _leads_on(self, listed: Iterable[str]) -> bool:
        """Return whether a log has the commit seen last, and the one behind it where there are later ones."""
        versions = {int(name[-25:-5]) for name in listed if _COMMIT.fullmatch(name)}
        return self.version in versions and (len(versions) == 1 or self.version + 1 in versions)

    def transaction(self, app: str) -> int | None:
        """Return the last transaction version of an application id in these commits."""
        known = [dict(commit.transactions) for commit in reversed(self.commits)]
        return next((versions[app] for versions in known if app in versions), None)
