"""The engine under a case: the Lake in this process, or one in a process that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


class Refused(Exception):  # noqa: N818 - an answer of the engine, not a fault of the runner
    """The engine refused a statement: the message is the rendered LakestreamError."""


class EngineDied(Exception):  # noqa: N818
    """The engine failed in a way it does not own up to: never what a case expects."""


@dataclass(frozen=True)
class Answer:
    """The rows of a statement, with the names of their columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Engine(Protocol):
    """What a case needs of an engine. Every call may raise Refused."""

    def sql(self, text: str, dialect: str) -> Answer:
        """Run a statement."""
        ...

    def insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Write rows in one commit."""
        ...

    def run(self) -> list[str]:
        """Process everything available, until idle; return what streams failed of."""
        ...

    def advance(self, by: timedelta) -> None:
        """Move the engine's clock forward."""
        ...

    def occupy(self, query: str, takes: timedelta) -> None:
        """Have the next execution of a continuous query take so long by the clock."""
        ...

    def fail(self, query: str, times: int) -> None:
        """Have the next executions of a continuous query fail."""
        ...

    def close(self) -> None:
        """Stop the engine in good order."""
        ...

    def kill(self) -> None:
        """Stop the engine at once, without a chance to write anything more."""
        ...


EngineFactory = Callable[[datetime], Engine]
"""Starts an engine on a case's lake, with its clock at the given time."""


class LocalEngine:
    """The Lake in this process, on a Spark session that all cases share."""

    def __init__(
        self, path: Path, clock: datetime, spark: SparkSession | None = None, timezone: str = "UTC"
    ) -> None:
        from lakestream import Lake, Settings
        from lakestream.clock import ManualClock
        from lakestream.errors import LakestreamError
        from tests import triggers

        self._clock = ManualClock(clock)
        settings = Settings(
            notify_hosts=("localhost",), trigger_modules=("tests.triggers",), timezone=timezone
        )
        self._error = LakestreamError
        self._lake = self._asked(lambda: Lake(path, clock=self._clock, spark=spark, settings=settings))
        self._takes: dict[str, timedelta] = {}
        self._fails: dict[str, int] = {}
        triggers.log_into(path)

    def sql(self, text: str, dialect: str) -> Answer:
        """Run a statement."""
        result = self._asked(lambda: self._lake.sql(text, dialect=dialect))
        return Answer(tuple(result.columns), [tuple(row) for row in self._asked(result.fetchall)])

    def insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Write rows in one commit."""
        self._asked(lambda: self._lake.insert(table, rows))

    def run(self) -> list[str]:
        """Process everything available."""
        summary = self._asked(lambda: self._lake.run(until="idle"))
        return [f"{tick.stream}: {tick.error}" for tick in summary.ticks if tick.error]

    def advance(self, by: timedelta) -> None:
        """Move the clock."""
        self._clock.advance(by)

    def occupy(self, query: str, takes: timedelta) -> None:
        """Have the next execution take so long by the clock."""
        self._takes[query] = takes
        self._lake._at.tree.queries.starting = self._starting

    def fail(self, query: str, times: int) -> None:
        """Have the next executions fail."""
        self._fails[query] = times
        self._lake._at.tree.queries.starting = self._starting

    def _starting(self, query: str, due_us: int) -> int:
        del due_us
        if self._fails.get(query, 0) > 0:
            self._fails[query] -= 1
            raise self._error("FAILED_ON_PURPOSE", f"this execution of {query} is to fail")
        return self._takes.pop(query, timedelta()) // timedelta(microseconds=1)

    def close(self) -> None:
        """Close the lake."""
        self._asked(self._lake.close)

    def kill(self) -> None:
        """Refuse: this process is the runner's own."""
        raise EngineDied("only an engine in a process of its own can be killed")

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except self._error as error:
            raise Refused(error.render()) from error


class ChildEngine:
    """The Lake in a process of its own, asked by lines of JSON; started when it is first needed."""

    def __init__(self, path: Path, clock: datetime, log: Path, timezone: str = "UTC") -> None:
        self._path = path
        self._clock = clock
        self._log = log
        self._timezone = timezone
        self._process: subprocess.Popen[str] | None = None

    def sql(self, text: str, dialect: str) -> Answer:
        """Run a statement."""
        answer = self._ask("sql", text=text, dialect=dialect)
        return Answer(tuple(answer["columns"]), [tuple(map(decoded, row)) for row in answer["rows"]])

    def insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Write rows in one commit."""
        self._ask("insert", table=table, rows=rows)

    def run(self) -> list[str]:
        """Process everything available."""
        return list(self._ask("run")["errors"])

    def advance(self, by: timedelta) -> None:
        """Move the clock, in the process too when there is one."""
        self._clock += by
        if self._process is not None:
            self._ask("advance", seconds=by.total_seconds())

    def occupy(self, query: str, takes: timedelta) -> None:
        """Have the next execution take so long by the clock."""
        self._ask("occupy", query=query, seconds=takes.total_seconds())

    def fail(self, query: str, times: int) -> None:
        """Have the next executions fail."""
        self._ask("fail", query=query, times=times)

    def close(self) -> None:
        """Let the process close its lake and end."""
        if self._process is None:
            return
        self._ask("close")
        self._process.wait(timeout=60)
        self._process = None

    def kill(self) -> None:
        """Kill the process, and the JVM it started, at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        process = self._process or self._start()
        pipe_in, pipe_out = streams(process)
        try:
            pipe_in.write(json.dumps({"do": request, **arguments}, default=str) + "\n")
            pipe_in.flush()
            line = pipe_out.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineDied(f"the engine process ended at {request}:\n{self._log.read_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise Refused(answer["refused"])
        if "failed" in answer:
            raise EngineDied(answer["failed"])
        return answer

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.conformance.engine_process", str(self._path)]
        with self._log.open("a") as log:
            # A session of its own, so that its JVM dies with it.
            self._process = subprocess.Popen(
                [*command, self._clock.isoformat(), self._timezone],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,
            )
        return self._process


def streams(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """Return the pipes to and from a process."""
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def encoded(value: Any) -> Any:
    """Return a value as JSON can carry it; a time as ``{"at": ISO}``."""
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [encoded(item) for item in value]
    return {"text": str(value)} if not hasattr(value, "as_tuple") else {"number": str(value)}


def decoded(value: Any) -> Any:
    """Undo :func:`encoded`."""
    from decimal import Decimal

    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, text = next(iter(value.items()))
    readers: dict[str, Callable[[str], Any]] = {
        "at": datetime.fromisoformat,
        "number": Decimal,
        "text": str,
    }
    return readers[kind](text)
