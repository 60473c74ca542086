"""How many times as long as other systems lakestream may take, and where it took longer."""

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
    """A scenario at a share of its rows, and the most that its seconds may be, by system, in times theirs."""

    scenario: str
    scale: float
    most: Mapping[str, float]

    @property
    def systems(self) -> tuple[str, ...]:
        """Return who is measured."""
        return (MEASURED, *self.most)


def read() -> list[Bounded]:
    """Return the bounds of ``ratios.toml``."""
    written = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return [Bounded(name, entry["scale"], entry["most"]) for name, entry in written.items()]


def compared(bounds: Sequence[Bounded], rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """Return a line for each bound and whether it holds; one that could not be measured does not."""
    medians = {(row["scenario"], row["system"]): row["median"] for row in rows if row["metric"] == "seconds"}
    return [
        _line(bounded.scenario, system, most, medians)
        for bounded in bounds
        for system, most in bounded.most.items()
    ]


def _line(
    scenario: str, system: str, most: float, medians: Mapping[tuple[str, str], float]
) -> tuple[str, bool]:
    ours, theirs = medians.get((scenario, MEASURED)), medians.get((scenario, system))
    if ours is None or theirs is None:
        return f"{scenario}: nothing to hold against {system}", False
    ratio = ours / theirs
    return f"{scenario}: {ratio:.3g} times {system}, at most {most:g}", ratio <= most
