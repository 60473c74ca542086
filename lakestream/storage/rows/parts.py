"""The rows of a DataFrame one part after another, as they are computed: Spark's driver holds one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakestream.storage.sessions.session import is_remote, small_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def arrow_reader(frame: DataFrame) -> pa.RecordBatchReader:
    """Return the rows of a frame of Spark, with the types that ``toArrow`` gives, in its order.

    What fails while they are computed fails in whoever reads them.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC", error_on_duplicated_field_names_in_struct=True)
    parts = _of_server(frame) if is_remote(frame.sparkSession) else _of_driver(frame)
    return pa.RecordBatchReader.from_batches(schema, (part.cast(schema) for part in parts))


def _of_driver(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each partition, while the next one is computed."""
    import pyarrow as pa
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.util import _local_iterator_from_socket

    # PySpark gives parts as pickled rows only; what it collects as Arrow is made of these.
    spark: Any = frame.sparkSession
    written = to_arrow_schema(frame.schema, timezone=spark.conf.get("spark.sql.session.timeZone"))
    with unwrap_spark_exception():
        with small_parts(spark):
            batches: Any = frame._jdf.toArrowBatchRdd()  # noqa: SLF001 - as above
            served = spark._jvm.PythonRDD.toLocalIteratorAndServe(batches, True)  # noqa: SLF001 - as above
        for batch in _local_iterator_from_socket(served, NoOpSerializer()):
            yield pa.ipc.read_record_batch(pa.py_buffer(batch), written)


def _of_server(frame: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - Spark Connect's frame
    """Yield the rows as a server of Spark Connect sends them."""
    import pyarrow as pa

    plan, client = frame._plan, frame.sparkSession.client  # noqa: SLF001 - as toLocalIterator does
    for part in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
        if isinstance(part, pa.Table):
            yield from part.to_batches()
