"""Work that is done again where others came in between.

tenacity is for waits that grow: with it comes asyncio, a thirtieth of what a job over few rows takes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from deltalake.exceptions import CommitFailedError

from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_CLOCK = SystemClock()
_CONFLICTS = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DELTA_CONCURRENT",
)


def attempted(
    work: Callable[[], _T],
    errors: type[Exception] | tuple[type[Exception], ...],
    *,
    attempts: int = 5,
    jitter_seconds: float = 0.2,
    before_next: Callable[[], object] = lambda: None,
) -> _T:
    """Return what work returns, done again a random moment after it met one of the errors.

    The last of so many attempts raises the error; ``before_next`` is called before each further one.
    """
    for _ in range(attempts - 1):
        try:
            return work()
        except errors:
            before_next()
            _CLOCK.sleep(random.uniform(0, jitter_seconds))  # noqa: S311 - a pause is no secret
    return work()


def is_conflict(error: BaseException) -> bool:
    """Return whether another commit stood in the way, in delta-rs's or Delta's (Spark's) terms."""
    return isinstance(error, CommitFailedError) or any(name in str(error) for name in _CONFLICTS)
