"""Rows of an output with a defect of each kind, and what a verification should say of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lakestream.observation.verify import Verification


def later(row: pa.Table) -> pa.Table:
    """Return a row of a window of its own, half an hour behind the others."""
    return pa.table([_later(column.combine_chunks()) for column in row.columns], schema=row.schema)


def _later(values: pa.Array) -> pa.Array:
    """Move times, those of a struct too."""
    if pa.types.is_struct(values.type):
        return pa.StructArray.from_arrays([*map(_later, values.flatten())], fields=[*values.type])
    if not pa.types.is_timestamp(values.type):
        return values
    return pc.add(values.cast("int64"), 1_800_000_000).cast(values.type)


def changed(row: pa.Table) -> pa.Table:
    """Change a figure of a row by one part in a million."""
    at = row.schema.get_field_index("a")
    value = pc.multiply(pc.coalesce(row["a"], pa.scalar(1.0)), 1.000001)
    return row.set_column(at, row.schema.field(at), value.cast(row.schema.field(at).type))


def spoilt(rows: pa.Table) -> pa.Table:
    """Return rows of which the first is gone, the second is there twice, the third another; and one more."""
    first, second, third = (rows.slice(number, 1) for number in range(3))
    return pa.concat_tables([second, second, changed(third), rows.slice(3), later(first)])


def sides(found: Verification) -> Counter[tuple[bool, bool]]:
    """Count the differences by whether a row was expected, and whether one was found."""
    return Counter((item.expected is not None, item.found is not None) for item in found.differing)
