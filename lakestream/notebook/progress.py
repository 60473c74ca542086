"""Progress of ticks in a cell: a line, written anew as they end."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Self

from IPython.display import HTML, DisplayHandle, display

if TYPE_CHECKING:
    from types import TracebackType

    from lakestream.engine.rounds.runtime import TickReport


class CellProgress:
    """What ticks of streams have done so far, below what was ``said`` before them."""

    def __init__(self, said: str) -> None:
        self._said = said
        self._ticks = self._rows_in = self._rows_out = 0
        self._seconds = 0.0
        self._lag = 0
        self._handle: DisplayHandle | None = None

    def __enter__(self) -> Self:
        """Show that it begins."""
        self._handle = display(HTML(self._text("starting")), display_id=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say what was done in all."""
        self._show("stopped" if error else "done")

    def on_tick(self, report: TickReport) -> None:
        """Count a tick that has ended."""
        self._ticks += 1
        self._rows_in += report.rows_in
        self._rows_out += report.rows_out
        self._seconds += report.seconds
        self._lag = report.lag
        self._show(f"{self._lag:,} commits to go" if self._lag else "up to date")

    def _show(self, state: str) -> None:
        if self._handle is not None:
            self._handle.update(HTML(self._text(state)))

    def _text(self, state: str) -> str:
        speed = f", {self._rows_in / self._seconds:,.0f} rows/s" if self._seconds else ""
        done = f"{self._ticks:,} ticks: {self._rows_in:,} rows in, {self._rows_out:,} out{speed}"
        return f"<div>{escape(self._said)}</div><div>{done}; {escape(state)}</div>"
