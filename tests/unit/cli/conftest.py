"""A lake that says what a test wants to hear, in the place of ``lakestream.lake``."""

from __future__ import annotations

import sys
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from click.testing import CliRunner

from lakestream.cli import cli
from lakestream.engine.base.result import Result
from lakestream.engine.rounds.runtime import TickReport
from lakestream.observation.verify import Verification
from lakestream.statements.status import StreamStatus
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.testing import Result as Outcome

    from lakestream.observation.comparison import Difference
    from lakestream.statements.maintenance import Maintained
    from lakestream.statements.migration import Migrated


def status(**changes: Any) -> StreamStatus:
    """Return the status of a stream that is well, with changes."""
    well: dict[str, Any] = {
        "database": "main",
        "name": "daily",
        "status": "Running",
        "tick": 12,
        "version": 34,
        "lag": 0,
        "rows_in": 336_776,
        "rows_out": 1_095,
        "late": 2,
        "recalculating": None,
        "held_back": None,
        "last_error": None,
        "sql": "CREATE STREAM daily …",
        "created_us": 0,
    }
    return StreamStatus(**{**well, **changes})


def report(**changes: Any) -> TickReport:
    """Return what a tick did, with changes."""
    usual: dict[str, Any] = {
        "stream": "main.daily",
        "tick": 1,
        "kind": "changes",
        "after": 0,
        "upto": 2,
        "commits": 2,
        "rows_in": 1_000,
        "rows_out": 10,
        "windows": 10,
        "late": 0,
        "seconds": 0.5,
        "transport": "arrow",
        "lag": 0,
    }
    return TickReport(**{**usual, **changes})


def verification(equal: int, expected: int, *differing: Difference, **changes: Any) -> Verification:
    """Return what a comparison found, with changes."""
    usual: dict[str, Any] = {
        "stream": "main.daily",
        "columns": ("day", "watts"),
        "equal_rows": equal,
        "expected_rows": expected,
        "found_rows": expected,
        "differing_rows": len(differing),
        "differing": differing,
        "late_ignored": 0,
        "left_out_columns": (),
        "left_out_rows": 0,
        "left_out_reason": "",
        "others_rows": 0,
        "compared_with": "the batch evaluation",
    }
    return Verification(**{**usual, **changes})


class FakeLake:
    """Answers from its attributes, and notes what it was asked."""

    def __init__(self) -> None:
        self.alarms: dict[str, Any] = {}
        self.root = "/lakes/one"
        self.settings = SimpleNamespace(poll_seconds=0.01)
        self.results: dict[str, Result] = {}
        self.default = Result(message="done")
        self.error: BaseException | None = None
        self.errors: dict[str, Exception] = {}
        self.asked: list[Any] = []
        self.statuses: list[StreamStatus] = []
        self.maintained: list[Maintained] = []
        self.migrated: list[Migrated] = []
        self.rounds: deque[list[TickReport]] = deque()
        self.verification = verification(3, 3)
        self.waiting: dict[str, int] = {}
        self.confirm: Callable[[str], bool] | None = None
        self.closed = False

    def open(
        self, path: str, *, create: bool = True, confirm: Any = None, settings: Any = None, **_: Any
    ) -> Self:
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

    def sql(self, text: str, dialect: str = "tdengine") -> Result:
        self._answer("sql", text, dialect)
        if text in self.errors:
            raise self.errors[text]
        return self.results.get(text, self.default)

    def explain(self, stream: str) -> Result:
        self._answer("explain", stream)
        return self.results["explain"]

    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> Verification:
        self._answer("verify", stream, start, end)
        return self.verification

    def waiting_events(self) -> dict[str, int]:
        self._answer("waiting_events")
        return self.waiting

    def streams(self) -> list[StreamStatus]:
        self._answer("streams")
        return self.statuses

    def run(
        self,
        until: str = "idle",
        on_tick: Callable[[TickReport], None] | None = None,
        streams: Sequence[str] | None = None,
    ) -> None:
        self._answer("run", until, *(streams or ()))
        for reports in self.rounds:
            for report in reports:
                if on_tick is not None:
                    on_tick(report)

    def maintain(self, *, dry_run: bool = False) -> list[Maintained]:
        self._answer("maintain", dry_run)
        return self.maintained

    def migrate(self, *streams: str, dry_run: bool = False) -> list[Migrated]:
        self._answer("migrate", streams, dry_run)
        return self.migrated

    def tick_once(
        self,
        on_tick: Callable[[TickReport], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> list[TickReport]:
        del ended
        self._answer("tick")
        reports = self.rounds.popleft() if self.rounds else []
        for report in reports:
            if on_tick is not None:
                on_tick(report)
        return reports


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
