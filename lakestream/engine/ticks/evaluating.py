"""The calculation evaluated for the windows that are registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.windows.evaluate import BATCH, Way
from lakestream.compute.windows.keyed.keys import Share
from lakestream.language.quoting import quoted
from lakestream.storage.columns.types import types_of
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.streams.stream import Stream


def evaluated_sql(
    spark: SparkSession,
    stream: Stream,
    *,
    retracts: bool,
    settled: bool = False,
    previous: str | None = None,
    share: Share = Share.ALL,
) -> str:
    """Return the SQL of the calculation's result for the registered windows, by the stream's way.

    ``previous`` names a view of the values before the windows, for a stream that carries them on;
    ``share``: of which keys of a view.
    """
    if stream.way is not Way.EACH:
        return stream.evaluation(retracts=retracts, settled=settled, previous=previous, share=share).sql()
    view_of(_each_window(spark, stream, retracts=retracts, settled=settled), "ls_evaluated")
    return "SELECT * FROM ls_evaluated"


def _each_window(spark: SparkSession, stream: Stream, *, retracts: bool, settled: bool) -> DataFrame:
    """Evaluate window by window what Spark cannot for all at once, in batches of a query each."""
    import pyarrow as pa

    evaluation = stream.evaluation(retracts=retracts, settled=settled)
    windows = spark.sql(evaluation.fired_sql())
    kinds = types_of(windows)
    listed = ", ".join(_as_literal(name, kind) for name, kind in kinds.items())
    view_of(windows, "ls_each")
    literals = [
        dict(zip(kinds, row, strict=True)) for row in spark.sql(f"SELECT {listed} FROM ls_each").collect()
    ]
    if not literals:
        nothing = {name: f"CAST(NULL AS {kind})" for name, kind in kinds.items()}
        return spark.sql(evaluation.each_sql([nothing])).limit(0)
    batches = [literals[at : at + BATCH] for at in range(0, len(literals), BATCH)]
    # One batch after the other: joins of all of them at once would hold as many broadcasts in memory.
    results = [spark.sql(evaluation.each_sql(batch)).toArrow() for batch in batches]
    return arrow_frame(spark, pa.concat_tables(results)).coalesce(1)


def _as_literal(name: str, kind: str) -> str:
    """Return SQL that gives a value as a literal of Spark SQL."""
    column = quoted(name)
    if kind == "string":
        escaped = f"replace(replace({column}, '\\\\', '\\\\\\\\'), '\\'', '\\\\\\'')"
        body = f"concat('\\'', {escaped}, '\\'')"
    else:
        body = f"concat('CAST(\\'', CAST({column} AS STRING), '\\' AS {kind})')"
    return f"coalesce({body}, 'CAST(NULL AS {kind})') AS {column}"
