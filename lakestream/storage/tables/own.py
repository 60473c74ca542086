"""Commits to tables of lakestream's own say so: what others write there is told from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties

from lakestream.errors import StorageError
from lakestream.storage.tables.log import commit_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.storage.tables.log import CommitInfo

_OWN = "lakestream"
"""What a commit of lakestream's says first of itself."""
_LOOKED_BACK = 200
"""Commits that are looked through for the last one that says so: whoever writes makes one."""


def own(**said: object) -> CommitProperties:
    """Return what a commit to a table of lakestream's own says of itself: that it is one, and more (JSON)."""
    return CommitProperties(custom_metadata={"userMetadata": json.dumps({_OWN: "record", **said})})


def last_said(path: str, after: int, upto: int) -> dict[str, Any]:
    """Return what the newest commit of ours in ``(after, upto]`` says of itself; nothing where there is none.

    Raises StorageError REGISTRY_TOUCHED where others changed rows behind it, or behind ``after``, which was
    read before. What an older lakestream wrote says nothing: where no commit does, all are believed.
    """
    is_known, said, touched = after >= max(0, upto - _LOOKED_BACK), {}, None
    for commit in _back(path, after, upto):
        said = _said(commit)
        if said:
            is_known = True
            break
        touched = commit if commit.data_change else touched
    if touched is not None and is_known:
        raise StorageError(
            "REGISTRY_TOUCHED",
            f"others changed rows of {path}, a table of lakestream's own: {touched.operation or 'a commit'} "
            f"of version {touched.version}",
            hint="`lakestream repair` goes back to what lakestream wrote last",
        )
    return said


def last_own(path: str, upto: int) -> int | None:
    """Return the version of the newest commit of ours; None where none is found."""
    return next((commit.version for commit in _back(path, -1, upto) if _said(commit)), None)


def as_before(path: str, version: int) -> CommitProperties | None:
    """Return what a repair says of itself: the same as the commits before it, which may be of no records."""
    return None if last_own(path, version) is None else own()


def _back(path: str, after: int, upto: int) -> Iterator[CommitInfo]:
    """Yield the commits of ``(after, upto]``, the newest first, as far as the log has them."""
    for version in range(upto, max(after, upto - _LOOKED_BACK, -1), -1):
        commit = commit_at(path, version)
        if commit is None:
            return
        yield commit


def _said(commit: CommitInfo) -> dict[str, Any]:
    try:
        said = json.loads(commit.user_metadata or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) and _OWN in said else {}
