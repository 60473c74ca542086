"""Windows of GROUP BY time, as Spark SQL (IoTDB A3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """The windows of GROUP BY in a range (µs): ``count`` of them, or their bounds where months are meant."""

    lower: int
    upper: int
    interval: int
    step: int
    bounds: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        """How many windows start within the range."""
        return len(self.bounds) if self.bounds else max(0, -(-(self.upper - self.lower) // self.step))

    @property
    def label(self) -> str:
        """SQL of the instant at which the window ``k`` begins."""
        return "timestamp_micros(k)" if self.bounds else f"timestamp_micros({self.lower} + k * {self.step})"

    @property
    def every(self) -> str:
        """SQL of a relation ``w`` of all windows."""
        if self.bounds:
            return f"(SELECT explode(array({', '.join(f'{start}L' for start, _ in self.bounds)})) AS k) w"
        return f"(SELECT id AS k FROM range({self.count})) w"

    def assigned(self, rows: str) -> str:
        """Return SQL of each row once for each window ``k`` it lies in: they may overlap, or leave gaps."""
        at = "unix_micros(ts)"
        if self.bounds:
            each = ", ".join(f"struct({start}L AS f, {end}L AS t)" for start, end in self.bounds)
            return (
                f"(SELECT *, w.f AS k FROM (SELECT *, explode(filter(array({each}), "
                f"x -> x.f <= {at} AND {at} < x.t)) AS w FROM {rows}))"
            )
        since = f"({at} - {self.lower})"
        last = f"least({self.count - 1}L, {since} div {self.step})"
        if self.interval == self.step:
            return f"(SELECT *, {last} AS k FROM {rows})"
        ahead = -(-self.interval // self.step)
        shift = ahead * self.step - self.interval
        first = f"greatest(0L, ({since} + {shift}) div {self.step} - {ahead - 1})"
        bounded = f"(SELECT *, {first} AS lo, {last} AS hi FROM {rows})"
        return f"(SELECT *, explode(sequence(lo, hi)) AS k FROM {bounded} WHERE lo <= hi)"
