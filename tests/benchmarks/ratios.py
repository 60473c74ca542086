"""How many times as long as other systems lakestream may take, and how much memory; where it took more."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEASURED = "lakestream"


@dataclass(frozen=True)
class Bounded:
    """A scenario at a share of its rows, and the most that its seconds may be, by system, in times theirs.

    ``mib``: the most that the peak of its memory may be, None for any.
    """

    scenario: str
    scale: float
    most: Mapping[str, float]
    mib: float | None = None

    @property
    def systems(self) -> tuple[str, ...]:
        """Return who is measured."""
        return (MEASURED, *self.most)


def read() -> list[Bounded]:
    """Return the bounds of ``ratios.toml``."""
    written = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return [Bounded(name, entry["scale"], entry["most"], entry.get("mib")) for name, entry in written.items()]


def compared(bounds: Sequence[Bounded], rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """Return a line for each bound and whether it holds; one that could not be measured does not."""
    medians = {(row["scenario"], row["system"]): row["median"] for row in rows if row["metric"] == "seconds"}
    peaks = {row["scenario"]: row["median"] for row in rows if _is_peak(row)}
    lines = []
    for bounded in bounds:
        lines += [_line(bounded.scenario, *most, medians) for most in bounded.most.items()]
        if bounded.mib is not None:
            lines.append(_memory_line(bounded.scenario, bounded.mib, peaks))
    return lines


def _is_peak(row: Mapping[str, Any]) -> bool:
    return bool((row["system"], row["metric"]) == (MEASURED, "peak_mib"))


def _memory_line(scenario: str, most: float, peaks: Mapping[str, float]) -> tuple[str, bool]:
    peak = peaks.get(scenario)
    if peak is None:
        return f"{scenario}: no peak of memory", False
    return f"{scenario}: {peak:.0f} MiB, at most {most:.0f}", peak <= most


def _line(
    scenario: str, system: str, most: float, medians: Mapping[tuple[str, str], float]
) -> tuple[str, bool]:
    ours, theirs = medians.get((scenario, MEASURED)), medians.get((scenario, system))
    if ours is None or theirs is None:
        return f"{scenario}: nothing to hold against {system}", False
    ratio = ours / theirs
    return f"{scenario}: {ratio:.3g} times {system}, at most {most:g}", ratio <= most
