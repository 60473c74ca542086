"""What is said of a query that no executor of a cluster came for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakestream.engine.rounds.failing import as_failure, may_pass
from lakestream.errors import StorageError
from lakestream.storage.places.layout import Layout
from lakestream.storage.sessions import jobs
from lakestream.storage.sessions.executors import lonely

CANCELLED = RuntimeError(
    "[SPARK_JOB_CANCELLED] Job 3 cancelled (no executors: no executor came from spark://host:7077 within "
    "60 s: each needs 4,096 MiB and 1 core; the cluster has no worker ;) SQLSTATE: XXKDA"
)


def wrapped() -> StorageError:
    error = StorageError("COMMIT_FAILED", "the table was not written")
    error.__cause__ = CANCELLED
    return error


@pytest.mark.parametrize("error", [CANCELLED, wrapped()])
def test_a_stream_says_that_no_executor_came_and_is_tried_again(error: Exception) -> None:
    failure = as_failure(error)
    assert failure.code == "NO_EXECUTORS"
    assert failure.message.endswith("each needs 4,096 MiB and 1 core; the cluster has no worker")
    assert may_pass(failure)


def test_other_errors_are_what_they_are() -> None:
    assert lonely(RuntimeError("Job 3 cancelled")) is None


def test_a_session_beside_others_follows_the_executors_of_a_cluster_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its shuffles have Spark's 200 parts; and executors that do not find the lake write elsewhere."""
    shared: Any = object()
    session: Any = SimpleNamespace(addTag=lambda _: None)
    done: list[object] = []
    layout = Layout("/lake")
    monkeypatch.setattr(jobs, "check_reach", lambda *asked: done.append(asked))
    monkeypatch.setattr(jobs, "statement_session", lambda *_: session)
    monkeypatch.setattr(jobs, "is_remote", lambda _: True)
    monkeypatch.setattr(jobs, "fit_cluster", done.append)
    own = jobs.OwnSession(lambda: shared, layout)
    assert own.get() is own.get() is session
    assert done == [(shared, layout), session, session]
