"""What the demo prints after the feeding: results, rates, ticks, checks and how to query the outputs."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rich import box
from rich.table import Table

from jobs.demo.feed import DATABASE, STREAMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from jobs.demo.by_clock import Fired
    from jobs.demo.changes import Effect
    from jobs.demo.check import Comparison, Difference, Row
    from jobs.demo.feed import Feed
    from lakestream.lake import Lake
    from lakestream.observation.verify import Verification

TIMEZONE = "America/New_York"

HIGHLIGHTS = {
    "The wettest days": """
        SELECT origin, day, records, mean_temp, rain, last_pressure - first_pressure AS pressure_change
        FROM nyc.weather_daily ORDER BY rain DESC, origin LIMIT 5""",
    "The windiest six hours (without those of the file's faulty record, 1,048 mph)": """
        SELECT origin, since, records, mean_wind, max_wind, max_gust
        FROM nyc.wind_6h WHERE max_wind < 1000 ORDER BY mean_wind DESC, origin, since LIMIT 5""",
    "The hours with the longest mean delay (at least 10 departures)": """
        SELECT origin, hour, scheduled, departed, mean_delay, max_delay
        FROM nyc.departures_hourly WHERE departed >= 10 ORDER BY mean_delay DESC, origin LIMIT 5""",
    "The days with the most flights in rain": """
        SELECT origin, day, flights, cancelled, mean_delay, flights_in_rain, mean_delay_in_rain, min_visib
        FROM nyc.delays_and_weather ORDER BY flights_in_rain DESC, origin LIMIT 5""",
    "The airlines' days with the most flights in rain": """
        SELECT airline, day, flights, departed, mean_delay, flights_in_rain, min_visib
        FROM nyc.airline_days ORDER BY flights_in_rain DESC, airline LIMIT 5""",
}
"""A few rows of each output, by Spark SQL."""

_SHOWN_DIFFERENCES = 20


def print_highlights(lake: Lake, console: Console) -> None:
    """Print some rows of each output; instants as New York's clocks showed them."""
    for title, query in HIGHLIGHTS.items():
        result = lake.sql(query)
        _print_table(title, result.columns, result.fetchall(), console)


def print_effect(effect: Effect, console: Console) -> None:
    """Print a statement and the rows that it changed in the output that tells most, before and after."""
    console.print(f"\n{effect.change.title}", style="bold")
    console.print(effect.change.statement, style="dim")
    shown = effect.outputs[effect.change.shown]
    differences = shown.differences[:_SHOWN_DIFFERENCES]
    rows = [row for d in differences for row in _sides(d, shown.columns, ("before", "after"))]
    _print_table(effect.change.shown, ("", *shown.columns), rows, console)
    counts = {name: len(compared.differences) for name, compared in effect.outputs.items()}
    changed = ", ".join(f"{n} {'row' if n == 1 else 'rows'} of {name}" for name, n in counts.items() if n)
    console.print(f"changed: {changed or 'nothing'}; all other rows are as before")


def print_fired(fired: Fired, console: Console) -> None:
    """Print what the clock fired at an instant."""
    wrote = ", ".join(f"{tick.stream} wrote {tick.rows_out} rows" for tick in fired.ticks)
    console.print(f"{_cell(fired.at)} by the clock: {wrote}")


def print_rates(feed: Feed, console: Console) -> None:
    """Print rows per second, from the first commit to the last tick."""
    console.print(
        f"{feed.rows:,} rows in {feed.commits} commits fed and processed by {len(STREAMS)} streams"
        f" in {feed.seconds:.1f} s: {feed.rows / feed.seconds:,.0f} rows per second"
    )


def print_ticks(feed: Feed, console: Console) -> None:
    """Print per stream and for all: ticks, rows and the seconds of a tick (median and 95th percentile)."""
    names = sorted({tick.stream for tick in feed.ticks})
    rows = [_tick_row(name, feed, {name}) for name in names]
    rows.append(_tick_row("all", feed, set(names)))
    columns = ("stream", "ticks", "rows in", "rows out", "median s", "p95 s")
    _print_table("Ticks", columns, rows, console)


def print_checks(
    verified: Mapping[str, Verification], compared: Mapping[str, Comparison], console: Console
) -> bool:
    """Print VERIFY's result and the comparison with DuckDB, per output and in total.

    Return whether every row is as it must be; the rows that are not are printed.
    """
    console.print("\nVERIFY STREAM (the output against lakestream's own batch evaluation):")
    for name, result in verified.items():
        console.print(f"  {name}: {result.equal_rows} of {result.expected_rows} rows equal")
        for difference in islice(result.differing, _SHOWN_DIFFERENCES):
            console.print(f"    differs: {difference}")
    console.print("\nCheck (the output against DuckDB over the raw CSV files):")
    for name, comparison in compared.items():
        console.print(f"  {name}: {comparison}")
        _print_differences(comparison, console)
    equal, total = (sum(getattr(c, part) for c in compared.values()) for part in ("equal", "total"))
    console.print(f"  total: {equal} of {total} rows equal")
    verify_holds = all(v.holds and v.equal_rows == v.expected_rows for v in verified.values())
    return verify_holds and equal == total > 0


def query_lines(folder: Path) -> dict[str, str]:
    """Return one shell command per engine that reads an output of the lake as it lies on disk."""
    python = shlex.quote(sys.executable)
    path = folder / DATABASE / "departures_hourly"
    source = f"DeltaTable({_text(path)})"
    by_airport = "SELECT origin, sum(departed), max(max_delay) FROM departures GROUP BY origin"
    scripts = {
        "Spark": (
            "from lakestream import Lake; "
            f"lake = Lake({_text(folder)}, create=False); "
            f"departures = lake.table({_text(f'{DATABASE}.departures_hourly')}); "
            'departures.groupBy("origin").max("max_delay").show(); lake.close()'
        ),
        "DuckDB": (
            "import duckdb; from deltalake import DeltaTable; "
            f"departures = duckdb.read_parquet({source}.file_uris()); "
            f"print(duckdb.sql({_text(by_airport)}))"
        ),
        "pandas": (
            "from deltalake import DeltaTable; "
            f"departures = {source}.to_pandas(); "
            'print(departures.groupby("origin").agg({"departed": "sum", "max_delay": "max"}))'
        ),
    }
    return {engine: f"{python} -c {shlex.quote(script)}" for engine, script in scripts.items()}


def print_query_lines(folder: Path, console: Console) -> None:
    """Print the commands of :func:`query_lines`, unwrapped so that they can be copied."""
    console.print(f"\nThe lake stays in {folder}. Query its outputs:")
    for engine, line in query_lines(folder).items():
        console.print(f"\n# {engine}\n{line}", soft_wrap=True)
    console.print(f"\nSee it: .venv/bin/lakestream serve --lake {shlex.quote(str(folder))}", soft_wrap=True)


def _text(value: object) -> str:
    """Return a Python literal in double quotes, which a shell line in single quotes takes as it is."""
    return json.dumps(str(value), ensure_ascii=False)


def _print_differences(comparison: Comparison, console: Console) -> None:
    if not comparison.differences:
        return
    rows: list[Row] = []
    for difference in comparison.differences[:_SHOWN_DIFFERENCES]:
        rows.extend(_sides(difference, comparison.columns, ("expected", "output")))
    hidden = len(comparison.differences) - _SHOWN_DIFFERENCES
    _print_table("Rows that differ", ("side", *comparison.columns), rows, console)
    if hidden > 0:
        console.print(f"  and {hidden} more")


def _sides(difference: Difference, columns: Sequence[str], names: tuple[str, str]) -> list[Row]:
    """Return both rows of a difference, each behind the name of its side."""
    absent = ("no such row", *[""] * (len(columns) - 1))
    return [(names[0], *(difference.expected or absent)), (names[1], *(difference.actual or absent))]


def _tick_row(name: str, feed: Feed, streams: set[str]) -> Row:
    ticks = [tick for tick in feed.ticks if tick.stream in streams]
    seconds = [tick.seconds for tick in ticks]
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    rows_in, rows_out = sum(t.rows_in for t in ticks), sum(t.rows_out for t in ticks)
    return name, len(ticks), rows_in, rows_out, statistics.median(seconds), p95


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    """Print rows under a title; numbers stand right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        numeric = any(isinstance(row[place], (int, float)) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(f"\n{title}", style="bold")
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"{value.astimezone(ZoneInfo(TIMEZONE)):%Y-%m-%d %H:%M}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
