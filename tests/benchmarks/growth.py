"""How what is measured grows: the same scenario at several sizes, as numbers of a page and for its plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Axis:
    """A scenario at shares of its full size, of which there are ``full``; the systems that are compared."""

    name: str
    scenario: str
    full: int
    scales: tuple[float, ...]
    systems: tuple[str, ...]
    title: str

    def size(self, scale: float) -> int:
        """Return how many there are at a share."""
        return round(self.full * scale)


AXES = (
    Axis(
        "rows",
        "catchup_tumbling",
        5_000_000,
        (0.02, 0.1, 0.4, 1.0),
        ("lakestream", "structured_streaming", "merge_job", "duckdb_job"),
        "Catching up with rows",
    ),
    Axis(
        "groups",
        "known_groups_1m",
        1_000_000,
        (0.001, 0.01, 0.1, 1.0),
        ("lakestream", "duckdb_job"),
        "A tick of 100 groups where so many are known",
    ),
    Axis(
        "streams",
        "many_streams_thousand",
        1_000,
        (0.002, 0.01, 0.03, 0.2, 1.0),
        ("lakestream", "duckdb_job"),
        "A round of different streams over 1,000 new rows",
    ),
    Axis(
        "commits",
        "small_tick_large_source",
        2_000,
        (0.01, 0.1, 0.4, 1.0),
        ("lakestream", "structured_streaming"),
        "A small tick where the source has so many commits",
    ),
)


def points(rows: Sequence[Mapping[str, Any]], axis: Axis, scale: float) -> Iterator[dict[str, object]]:
    """Yield the processor seconds of an axis at a share, which other work of the machine changes little."""
    for row in rows:
        if row["metric"] == "cpu_seconds":
            yield {
                "axis": axis.name,
                "size": axis.size(scale),
                "system": row["system"],
                "cpu_seconds": round(row["median"], 4),
            }


def markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the plot and the numbers of each axis that was measured."""
    measured = ((axis, [one for one in found if one["axis"] == axis.name]) for axis in AXES)
    return "\n".join(_section(axis, numbers) for axis, numbers in measured if numbers)


def _section(axis: Axis, found: Sequence[Mapping[str, Any]]) -> str:
    plot = f"![processor seconds by {axis.name}](growth-{axis.name}.svg)"
    return f"## {axis.title}\n\n{plot}\n\n{_table(axis, found)}"


def _table(axis: Axis, found: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each size and a column for each system."""
    seconds = {(one["size"], one["system"]): one["cpu_seconds"] for one in found}
    lines = [
        f"| {axis.name} | {' | '.join(f'`{system}`' for system in axis.systems)} |",
        f"| ---: |{' ---: |' * len(axis.systems)}",
    ]
    for size in sorted({size for size, _ in seconds}):
        cells = (f"{seconds[size, s]:.3g}" if (size, s) in seconds else "" for s in axis.systems)
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
