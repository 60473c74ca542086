"""Plots of how what is measured grows, drawn in the rivals' environment, which has what draws them.

``python -m tests.benchmarks.plots NUMBERS FOLDER`` writes a file ``growth-AXIS.svg`` for each axis.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.growth import AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.growth import Axis


def draw(axis: Axis, found: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw the processor seconds of each system by size, both logarithmic."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for system in axis.systems:
        line = sorted((one["size"], one["cpu_seconds"]) for one in found if one["system"] == system)
        if line:
            axes.plot(*zip(*line, strict=True), marker="o", label=system)
    axes.set(xscale="log", yscale="log", xlabel=axis.name, ylabel="processor seconds", title=axis.title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main(numbers: str, folder: str) -> None:
    """Draw all axes that have numbers."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lakestream"  # the same numbers are the same file
    mpl.rcParams["svg.fonttype"] = "none"
    found = json.loads(Path(numbers).read_text("utf-8"))
    for axis in AXES:
        chosen = [one for one in found if one["axis"] == axis.name]
        if chosen:
            draw(axis, chosen, Path(folder, f"growth-{axis.name}.svg"))


if __name__ == "__main__":
    main(*sys.argv[1:])
