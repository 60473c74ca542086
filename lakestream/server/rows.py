"""Rows of a result as the API tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakestream.engine.plain import plain

if TYPE_CHECKING:
    from lakestream.engine.result import Result


def column_types(result: Result) -> list[str]:
    """Return the Arrow types of a result's columns; of one without rows, ``null``."""
    import pyarrow as pa

    if result.arrow is not None:
        return [str(field.type) for field in result.arrow.schema]
    columns = list(zip(*result.fetchall(), strict=True)) or [()] * len(result.columns)
    return [str(pa.infer_type(column)) for column in columns]


def json_rows(result: Result) -> list[list[Any]]:
    """Return rows as JSON has them."""
    return [[plain(value) for value in row] for row in result.fetchall()]
