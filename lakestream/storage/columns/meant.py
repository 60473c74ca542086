"""Rows as they are meant: event times of other kinds as timestamps, CHARs without the blanks at their end.

A CHAR lies in some files filled with blanks and in others not, as it was written; it is the same text. Two
texts of a column by which a table is partitioned are NULL (:data:`~lakestream.language.folders.UNTOLD`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.folders import UNTOLD, told_text
from lakestream.language.quoting import quoted
from lakestream.storage.columns.times import timed_arrow, timed_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.storage.tables.table import Table

_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata of a column in which Spark keeps the type that a text was declared with."""


def meant_arrow(table: Table, rows: pa.Table, shown: Sequence[str]) -> pa.Table:
    """Return the columns ``shown`` of rows that were read of a table, as they are meant."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in _text_folders(table, rows.column_names):
        is_untold = pc.is_in(rows[name], pa.array(UNTOLD, rows[name].type))
        told = pc.if_else(is_untold, pa.scalar(None, rows[name].type), rows[name])
        rows = rows.set_column(rows.column_names.index(name), name, told)
    for name in _chars(table, rows.column_names):
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pc.utf8_rtrim(rows[name], " "))
    return timed_arrow(table.time, rows, shown)


def meant_spark(table: Table, rows: DataFrame, shown: Sequence[str]) -> DataFrame:
    """Return what :func:`meant_arrow` does, of a DataFrame."""
    from pyspark.sql import functions as F  # noqa: N812

    for name in _text_folders(table, rows.columns):
        rows = rows.withColumn(name, F.expr(told_text(quoted(name))))
    for name in _chars(table, rows.columns):
        rows = rows.withColumn(name, F.rtrim(F.col(quoted(name))))
    return timed_spark(table.time, rows, shown)


def text_folders(table: Table) -> list[str]:
    """Return the columns of texts by which a table is partitioned."""
    texts = {field.name for field in table.fields if field.type.type == "string"}
    return [name for name in table.partition_columns if name in texts]


def _text_folders(table: Table, names: list[str]) -> list[str]:
    return [name for name in text_folders(table) if name in names]


def _chars(table: Table, names: list[str]) -> list[str]:
    return [
        field.name
        for field in table.fields
        if field.name in names and str(field.metadata.get(_DECLARED, "")).startswith("char(")
    ]
