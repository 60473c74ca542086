"""Keys of rows that are to be written, held against those of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.rows.reading import read_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa

    from lakestream.storage.tables.table import Table


def span_of(rows: pa.Table, column: str) -> tuple[int, int]:
    """Return the first and last time of rows, in microseconds since 1970 UTC."""
    import pyarrow as pa

    return ends_of(rows[column].cast(pa.timestamp("us", rows[column].type.tz)).cast(pa.int64()))


def ends_of(numbers: pa.ChunkedArray) -> tuple[int, int]:
    """Return the least and the greatest of some numbers."""
    import pyarrow.compute as pc

    ends = pc.min_max(numbers)
    return ends["min"].as_py(), ends["max"].as_py()


def meets_keys(table: Table, rows: pa.Table, key: Sequence[str], time_column: str) -> bool:
    """Return whether a row of the table has the key of one of the rows, NULL being equal to NULL.

    Keys of the rows' range of time are read only.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return False
    first, last = span_of(rows, time_column)
    old = read_arrow(table, columns=list(key), spans=[(first, last + 1)], time_column=time_column)
    if not old.num_rows:
        return False
    new = rows.select(list(key)).cast(old.schema)
    sides = (_distinct(compared(one, key), key) for one in (old, new))
    both = pa.concat_tables(sides).group_by(list(key)).aggregate([([], "count_all")])
    return bool(pc.max(both["count_all"]).as_py() > 1)


def are_apart(table: Table, columns: Sequence[str]) -> bool:
    """Return whether no two rows of a table have equal values, NULL being equal to NULL, in some columns."""
    rows = read_arrow(table, columns=list(columns)) if columns else None
    return rows is not None and _distinct(compared(rows, columns), columns).num_rows == rows.num_rows


def compared(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the key of rows as SQL compares it: Arrow's groups take 0.0 and -0.0 for two."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = rows.select(list(key))
    for place, field in enumerate(found.schema):
        if pa.types.is_floating(field.type):
            whole = pc.add(found[field.name], pa.scalar(0.0, field.type))  # -0.0 + 0.0 is 0.0
            found = found.set_column(place, field, whole)
    return found


def numbered(*tables: pa.Table) -> list[np.ndarray]:
    """Return numbers for the rows of tables, from 0 on, below how many rows there are of all of them.

    Those whose values are equal have one number; NULL is equal to NULL, and NaN to NaN. The tables have the
    columns of the first one.
    """
    import numpy as np
    import pyarrow as pa

    kind = tables[0].schema
    rows = pa.concat_tables([table.select(kind.names).cast(kind) for table in tables])
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in compared(rows, kind.names).columns:
        values = column.combine_chunks().dictionary_encode(null_encoding="encode")
        both = numbers * len(values.dictionary) + values.indices.to_numpy().astype(np.int64)
        numbers = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    return np.split(numbers, np.cumsum([table.num_rows for table in tables])[:-1])


def _distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    return rows.group_by(list(key)).aggregate([]).select(list(key))
