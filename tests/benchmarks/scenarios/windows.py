"""The windows that scenarios calculate over."""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks import data


@dataclass(frozen=True)
class Window:
    """Windows of a length, one every step, in seconds."""

    length: int
    step: int

    def clause(self) -> str:
        """Return the trigger of a stream."""
        return f"INTERVAL({self.length}s) SLIDING({self.step}s)"

    def durations(self) -> tuple[str, ...]:
        """Return the arguments of Spark's ``window``."""
        return tuple(f"{part} seconds" for part in dict.fromkeys((self.length, self.step)))

    def closed(self, first: int, newest: int) -> int:
        """Return how many windows have closed when the rows' seconds go from ``first`` to ``newest``."""
        earliest = (first - self.length) // self.step + 1
        return (newest - self.length) // self.step - earliest + 1


TUMBLING, HOPPING = Window(10, 10), Window(60, 5)


@dataclass(frozen=True)
class Cut:
    """Windows cut by rows, each of a run of them; one closes with its last row or with the next run."""

    clause: str
    by_itself: bool

    def closed(self, runs: int) -> int:
        """Return how many windows of a device have closed after some runs."""
        return runs if self.by_itself else runs - 1


GAP_SECONDS = 30
CUTS = {
    "session": Cut(f"SESSION(ts, {GAP_SECONDS}s)", by_itself=False),
    "state": Cut("STATE_WINDOW(state)", by_itself=False),
    "event": Cut("EVENT_WINDOW(START WITH phase = 0 END WITH phase = 9)", by_itself=True),
    "count": Cut(f"COUNT_WINDOW({data.RUN_ROWS})", by_itself=True),
}
