"""The values that windows without rows take over (FILL(PREV)): those of the output's row before them.

That row holds what the last window with rows gave when it closed, or was corrected to, whatever tick that
was in: the output is the state. A tick's windows of a group follow one another, so one row each will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import WINDOWS
from lakestream.engine.streams.write import read_windows
from lakestream.language.quoting import quoted
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Tables

PREVIOUS = "ls_previous"
_ROWS, _STARTS = "ls_output_before", "ls_starts_before"


def register_previous(spark: SparkSession, tables: Tables, stream: Stream, target: Target) -> None:
    """Register the values before the registered windows, by group: _ls_gid, and c1, c2, … as carried."""
    low = stream.grid.low("(min(_ls_k) - 1)", "NULL")
    starts = spark.sql(f"SELECT _ls_gid, {low} AS low FROM {WINDOWS} GROUP BY _ls_gid").toArrow()
    view_of_rows(spark, starts, _STARTS)
    numbers = stream.calculation.carried
    names = [target.shape.columns[number - 1].name for number in numbers]
    view_of(arrow_frame(spark, _rows(tables, target, names, starts)), _ROWS)
    places = target.shape.places
    values = ", ".join(f"r.{quoted(name)} AS c{number}" for name, number in zip(names, numbers, strict=True))
    view_of_sql(
        spark,
        f"SELECT s._ls_gid, {values} FROM {_STARTS} s "
        f"JOIN {_ROWS} r ON r.{places.group} = s._ls_gid AND unix_micros(r.{places.start}) = s.low",
        PREVIOUS,
    )


def _rows(tables: Tables, target: Target, names: list[str], starts: pa.Table) -> pa.Table:
    """Return the output's rows of the windows that start from the first of some instants to the last."""
    import pyarrow.compute as pc

    ends = pc.min_max(starts["low"]).as_py()
    lower, upper = ends["min"] or 0, ends["max"] or 0
    table = tables.latest(target.info.path)
    return read_windows(table, target.shape, lower, upper + 1, columns=names)
