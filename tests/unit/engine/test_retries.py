"""When a stream that failed is tried again."""

from __future__ import annotations

import pytest

from lakestream.engine.rounds.failing import LONGEST_PAUSE_US, Retries, may_pass
from lakestream.errors import LakestreamError, StorageError, StreamError


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StorageError("COMMIT_FAILED", "no space left"), True),
        (StorageError("CREATE_FAILED", "no space left"), True),
        (StorageError("IO_ERROR", "connection lost"), True),
        (StorageError("TABLE_NOT_FOUND", "gone"), False),
        (StreamError("SOURCE_REPLACED", "another table"), False),
        (StreamError("CALCULATION_FAILED", "a cast"), False),
    ],
)
def test_only_errors_of_the_storage_pass(error: LakestreamError, passes: bool) -> None:
    assert may_pass(error) is passes


def test_pauses_grow_up_to_the_longest_one() -> None:
    retries = Retries()
    assert retries.is_due("u", 0)
    pauses = [retries.put("u", 0) for _ in range(12)]
    assert pauses[:3] == [1_000_000, 2_000_000, 4_000_000]
    assert pauses[-1] == LONGEST_PAUSE_US
    assert not retries.is_due("u", LONGEST_PAUSE_US - 1)
    assert retries.is_due("u", LONGEST_PAUSE_US)
    retries.forget("u")
    assert retries.put("u", 0) == 1_000_000
    retries.keep({"other"})
    assert retries.due == {}
