"""What is shown on a terminal: of a long ``run`` each stream's rows, and that Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakestream.cli.base.output import console, described

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lakestream.engine.rounds.runtime import TickReport


_drawn: list[_Drawn] = []


def is_drawing() -> bool:
    """Return whether something is drawn just now: what is written to stderr stands above it."""
    return bool(_drawn)


class _Drawn:
    """What is drawn on stderr until it is closed, and wiped then."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console(err=True), transient=True)

    def __enter__(self) -> Self:
        """Begin to draw."""
        _drawn.append(self)
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe what was drawn."""
        self._progress.stop()
        _drawn.remove(self)


class TickProgress(_Drawn):
    """Bars on stderr, one per stream, fed with the report of every tick; gone when closed.

    A bar counts source commits: those done against those done and still waiting.
    """

    def __init__(self) -> None:
        self._bars: dict[str, TaskID] = {}
        self._rows: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._commits: dict[str, int] = {}
        figures = TextColumn("{task.fields[figures]}", justify="right")
        super().__init__(TextColumn("{task.description}"), BarColumn(bar_width=24), figures)
        # Until the first tick there is only Spark to wait for.
        self._waiting: TaskID | None = self._progress.add_task("starting", total=None, figures="")

    def on_tick(self, report: TickReport) -> None:
        """Move the bar of the report's stream."""
        name = report.stream
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=None, figures="")
        self._rows[name] = self._rows.get(name, 0) + report.rows_in
        self._seconds[name] = self._seconds.get(name, 0.0) + report.seconds
        self._commits[name] = self._commits.get(name, 0) + report.commits
        done = self._commits[name]
        self._progress.update(
            self._bars[name],
            completed=done,
            total=max(1, done + report.lag),
            figures=described(self._rows[name], self._seconds[name], report.lag),
        )


class WaitProgress(_Drawn):
    """A bar on stderr while something is waited for, of what is fetched with the bytes so far."""

    def __init__(self, what: str, fetched: Callable[[], int] | None = None) -> None:
        size = [] if fetched is None else [_Fetched(fetched)]
        super().__init__(TextColumn("{task.description}"), BarColumn(bar_width=24), *size)
        # How much there is to fetch, or how long a start takes, nobody tells.
        self._progress.add_task(what, total=None)


class _Fetched(ProgressColumn):
    """The bytes so far, asked for whenever the bar is drawn."""

    max_refresh = 0.5

    def __init__(self, fetched: Callable[[], int]) -> None:
        super().__init__()
        self._fetched = fetched

    def render(self, task: Task) -> Text:  # noqa: ARG002 (rich's signature)
        return Text(f"{self._fetched() / 1e6:.1f} MB")
