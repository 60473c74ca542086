"""Figures of several runs as medians: as JSON, on the terminal, and as a table of a page."""

from __future__ import annotations

import json
import re
import statistics
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    Rows = Sequence[Mapping[str, Any]]

UNITS = {
    "seconds": "s",
    "rows_per_second": "rows/s",
    "cpu_seconds": "s",
    "peak_mib": "MiB",
    "growth": "times",
}

_BLOCK = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def summary(figures: Mapping[tuple[str, str, str], Sequence[float]]) -> list[dict[str, object]]:
    """Return one row per scenario, system and metric: median, least and greatest value."""
    return [
        {
            "scenario": scenario,
            "system": system,
            "metric": metric,
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            "unit": UNITS[metric],
        }
        for (scenario, system, metric), values in figures.items()
    ]


def write(rows: Rows, path: Path) -> None:
    """Write the rows as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def terminal_table(rows: Rows) -> Table:
    """Return all rows as a table for the terminal."""
    table = Table("scenario", "system", "metric", "median", "min", "max", "unit")
    for row in rows:
        figures = (f"{row[name]:,.3f}" for name in ("median", "min", "max"))
        table.add_row(row["scenario"], row["system"], row["metric"], *figures, row["unit"])
    return table


def markdown(rows: Rows) -> str:
    """Return a table in Markdown, a line per scenario and system."""
    lines = [
        "| scenario | system | seconds | least to greatest | rows a second | CPU seconds | peak MiB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    by_run: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault((row["scenario"], row["system"]), {})[row["metric"]] = row
    lines += [_line((scenario, system), metrics) for (scenario, system), metrics in by_run.items()]
    return "\n".join(lines) + "\n"


def _line(names: Iterable[str], metrics: Mapping[str, Mapping[str, Any]]) -> str:
    seconds = metrics["seconds"]
    cells = [
        *(f"`{name}`" for name in names),
        _seconds(seconds["median"]),
        f"{_seconds(seconds['min'])}–{_seconds(seconds['max'])}",
        _cell(metrics, "rows_per_second", "{:,.0f}".format),
        _cell(metrics, "cpu_seconds", _seconds),
        _cell(metrics, "peak_mib", "{:,.0f}".format),
    ]
    return f"| {' | '.join(cells)} |"


def _cell(metrics: Mapping[str, Mapping[str, Any]], metric: str, shown: Callable[[float], str]) -> str:
    """Return a median as it is shown, nothing when it was not measured."""
    return shown(metrics[metric]["median"]) if metric in metrics else ""


def _seconds(value: float) -> str:
    """Return three digits that count: a poll takes a millisecond, a catch-up a minute.

    >>> [_seconds(value) for value in (0.00123, 0.1234, 12.34, 123.4)]
    ['0.00123', '0.123', '12.3', '123']
    """
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def fill(page: Path, text: str) -> None:
    """Replace what is between the page's two marks. Raises ValueError when the page lacks them."""
    text, found = _BLOCK.subn(lambda _: text, page.read_text(encoding="utf-8"))
    if found != 1:
        raise ValueError(f"{page} has no block between <!-- figures --> and <!-- end of figures -->")
    page.write_text(text, encoding="utf-8")
