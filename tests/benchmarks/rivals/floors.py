"""What reading and aggregating cost alone: one query of DuckDB or Polars over files into a Parquet file.

No stream, no state and no transaction. Rows cut windows as those of the data's ``runs`` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from duckdb import DuckDBPyConnection

_BY_TIME = "OVER (PARTITION BY tbname ORDER BY ts ROWS UNBOUNDED PRECEDING)"
_LAST_WINDOW_IS_OPEN = "QUALIFY number < max(number) OVER (PARTITION BY tbname)"


def duckdb_grid(length_us: int, step_us: int, files: Sequence[str], target: Path) -> None:
    """Write the closed windows of a length, one every step."""
    _connection().execute(
        "COPY (SELECT make_timestamptz(start) AS start, tbname, mean, top, n FROM ("
        "  SELECT (epoch_us(ts) // $step - pane) * $step AS start, tbname, avg(v) AS mean, max(v) AS top,"
        "    count(*) AS n FROM read_parquet($files), range($panes) panes(pane) GROUP BY ALL)"
        " WHERE start + $length <= (SELECT epoch_us(max(ts)) FROM read_parquet($files))"
        f") TO '{target}' (FORMAT parquet)",
        {
            "step": step_us,
            "length": length_us,
            "panes": length_us // step_us,
            "files": list(files),
        },
    )


def duckdb_cut(kind: str, gap_us: int, run_rows: int, files: Sequence[str], target: Path) -> None:
    """Write the closed windows that rows cut."""
    rows = "read_parquet($files)"
    numbered = {
        "session": _changes(f"epoch_us(ts) - lag(epoch_us(ts)) OVER by_time > {gap_us}"),
        "state": _changes("state <> lag(state) OVER by_time"),
        "event": f"SELECT *, count(*) FILTER (phase = 9) {_BY_TIME} - (phase = 9)::INT AS number FROM {rows}",
        "count": f"SELECT *, (row_number() {_BY_TIME} - 1) // {run_rows} AS number FROM {rows}",
    }[kind]
    if kind == "event":
        started = "count(*) FILTER (phase = 0) OVER (PARTITION BY tbname, number ORDER BY ts) > 0"
        numbered = f"FROM ({numbered}) QUALIFY {started}"
    closed = {"event": "HAVING bool_or(phase = 9)", "count": f"HAVING count(*) = {run_rows}"}
    _connection().execute(
        "COPY (SELECT min(ts) AS start, tbname, avg(v) AS mean, max(v) AS top, count(*) AS n"
        f" FROM ({numbered}) GROUP BY tbname, number {closed.get(kind, _LAST_WINDOW_IS_OPEN)})"
        f" TO '{target}' (FORMAT parquet)",
        {"files": list(files)},
    )


def _changes(cut: str) -> str:
    """Return the query that numbers the rows of a device by how often a condition held up to them."""
    return (
        f"SELECT *, count(*) FILTER (cut) {_BY_TIME} AS number FROM (SELECT *, {cut} AS cut"
        " FROM read_parquet($files) WINDOW by_time AS (PARTITION BY tbname ORDER BY ts))"
    )


def _connection() -> DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def polars_cut(kind: str, gap_us: int, run_rows: int, files: Sequence[str], target: Path) -> None:
    """Write the closed windows that rows cut."""
    import polars as pl

    name, phase = pl.col("tbname"), pl.col("phase")
    changed = name.ne_missing(name.shift())
    numbers = {
        "session": (changed | (pl.col("ts").diff().dt.total_microseconds() > gap_us)).cum_sum(),
        "state": (changed | (pl.col("state") != pl.col("state").shift())).cum_sum(),
        "event": (phase == 9).cum_sum() - (phase == 9).cast(pl.Int32),
        "count": pl.int_range(pl.len()).over("tbname") // run_rows,
    }
    rows = pl.scan_parquet(list(files)).sort("tbname", "ts").with_columns(number=numbers[kind])
    if kind == "event":
        rows = rows.filter((phase == 0).cum_sum().over("tbname", "number") > 0)
    windows = rows.group_by("tbname", "number").agg(
        start=pl.col("ts").min(),
        mean=pl.col("v").mean(),
        top=pl.col("v").max(),
        n=pl.len(),
        ended=(phase == 9).any(),
    )
    windows.filter(_closed(run_rows)[kind]).select("start", "tbname", "mean", "top", "n").sink_parquet(target)


def _closed(run_rows: int) -> Mapping[str, pl.Expr]:
    import polars as pl

    newest = pl.col("number").max().over("tbname")
    followed = pl.col("number") < newest
    return {
        "session": followed,
        "state": followed,
        "event": pl.col("ended"),
        "count": pl.col("n") == run_rows,
    }
