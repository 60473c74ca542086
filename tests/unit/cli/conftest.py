"""A lake that says what a test wants to hear, in the place of ``lakestream.lake``."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from click.testing import CliRunner

from lakestream.cli import cli
from lakestream.storage.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome


@dataclass
class FakeResult:
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    message: str = ""

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows


@dataclass(frozen=True)
class FakeStatus:
    database: str = "main"
    name: str = "daily"
    status: str = "Running"
    tick: int | None = 12
    version: int | None = 34
    lag: int = 0
    rows_in: int = 336_776
    rows_out: int = 1_095
    late: int = 2
    last_error: str | None = None


@dataclass(frozen=True)
class FakeReport:
    stream: str = "main.daily"
    tick: int = 1
    commits: int = 2
    rows_in: int = 1_000
    rows_out: int = 10
    seconds: float = 0.5
    lag: int = 0


@dataclass(frozen=True)
class FakeVerification:
    equal_rows: int
    expected_rows: int
    differing: list[tuple[Any, ...]] = field(default_factory=list)


class FakeLake:
    """Answers from its attributes, and notes what it was asked."""

    def __init__(self) -> None:
        self.root = "/lakes/one"
        self.settings = SimpleNamespace(poll_seconds=0.01)
        self.results: dict[str, FakeResult] = {}
        self.default = FakeResult(message="done")
        self.error: BaseException | None = None
        self.asked: list[Any] = []
        self.statuses: list[FakeStatus] = []
        self.rounds: deque[list[FakeReport]] = deque()
        self.verification = FakeVerification(3, 3)
        self.confirm: Callable[[str], bool] | None = None
        self.closed = False

    def open(self, path: str, *, create: bool = True, confirm: Any = None, settings: Any = None) -> Self:
        self.asked.append(("open", path, create, settings))
        self.confirm = confirm
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def _answer(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error

    def sql(self, text: str, dialect: str = "tdengine") -> FakeResult:
        self._answer("sql", text, dialect)
        return self.results.get(text, self.default)

    def explain(self, stream: str) -> FakeResult:
        self._answer("explain", stream)
        return self.results["explain"]

    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> FakeVerification:
        self._answer("verify", stream, start, end)
        return self.verification

    def streams(self) -> list[FakeStatus]:
        self._answer("streams")
        return self.statuses

    def run(self, until: str = "idle", on_tick: Callable[[FakeReport], None] | None = None) -> None:
        self._answer("run", until)
        for reports in self.rounds:
            for report in reports:
                if on_tick is not None:
                    on_tick(report)

    def tick_once(self) -> list[FakeReport]:
        self._answer("tick")
        return self.rounds.popleft() if self.rounds else []


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    fake = FakeLake()
    monkeypatch.setitem(sys.modules, "lakestream.lake", SimpleNamespace(Lake=fake.open))
    there = Layout.exists
    monkeypatch.setattr(Layout, "exists", lambda self: self.root.endswith(("/one", "/two")) or there(self))
    return fake


@pytest.fixture
def call(lake: FakeLake) -> Callable[..., Outcome]:
    """Run the command line on the fake lake; ``LAKESTREAM_LAKE`` names one."""
    del lake

    def run(*arguments: str, text: str | bytes | None = None, env: dict[str, str] | None = None) -> Outcome:
        environment: dict[str, str | None] = {"LAKESTREAM_LAKE": "one", "NO_COLOR": "1", **(env or {})}
        return CliRunner().invoke(cli, arguments, input=text, env=environment)

    return run
