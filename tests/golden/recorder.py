"""A pytest plugin that writes, per test, the sequence of statements, views, results and commits.

``pytest -p tests.golden.recorder --golden DIR …`` records; ``python -m tests.golden OLD NEW`` compares. What
differs from run to run (paths, identities, the wall clock) is replaced by what is the same. Only what the
process itself does is seen, not what a child does.
"""

from __future__ import annotations

import re
import threading
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.names import steady

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Recorder:
    """Takes lines while a test runs, and writes them when it is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: list[str] | None = None
        self._thread = threading.get_ident()

    def begin(self) -> None:
        self._lines = []

    def take(self, kind: str, text: str) -> None:
        """Take one line; what other threads do beside the test has no order, and is left out."""
        if self._lines is not None and threading.get_ident() == self._thread:
            self._lines.append(f"{kind} {' '.join(text.split())}")

    def end(self, test: str, now: float) -> None:
        lines, self._lines = self._lines or [], None
        name = re.sub(r"[^\w.\[\]-]+", "_", test)[:200]
        (self.folder / f"{name}.log").write_text("".join(f"{line}\n" for line in steady(lines, now)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", metavar="DIR", type=Path, help="record statements and commits of each test")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--golden")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(folder)
        _watch(recorder)
        config.pluginmanager.register(_Tests(recorder), "golden-tests")


class _Tests:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._recorder.begin()
        try:
            return (yield)
        finally:
            self._recorder.end(item.nodeid, time.time())  # noqa: TID251 - what the test saw as now


class _Listener:
    """A trap that tells of each crash point that is passed, and never springs."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def reached(self, point: str) -> None:
        self._recorder.take("point", point)


def _watch(recorder: Recorder) -> None:
    """Put the recorder around what goes to Spark and to Delta."""
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame

    from lakestream.engine.base import faults
    from lakestream.storage.small.session import SmallFrame, SmallSession
    from lakestream.storage.writes import commit

    for session, frame in ((SparkSession, DataFrame), (SmallSession, SmallFrame)):
        _around(recorder, session, "sql", lambda _, sql, *__, **___: ("sql", sql))
        _around(recorder, frame, "toArrow", lambda *_: ("arrow", ""))
        _around(recorder, frame, "createOrReplaceTempView", lambda _, name: ("view", name))
    _around(recorder, commit, "_write", _written)
    faults._traps.insert(0, _Listener(recorder))  # type: ignore[arg-type]


def _written(table: Any, rows: Any, tag: Any, replace: str | None) -> tuple[str, str]:
    form = "none" if rows is None else "arrow" if hasattr(rows, "num_rows") else "spark"
    return "commit", f"{table.path} {tag.app} {tag.tick} {form} replace={replace}"


def _around(recorder: Recorder, owner: Any, name: str, entry: Callable[..., tuple[str, str]]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder.take(*entry(*args, **kwargs))
        return original(*args, **kwargs)

    setattr(owner, name, recorded)
