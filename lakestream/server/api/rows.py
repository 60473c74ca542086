"""Rows of a result as the API tells them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.plain import plain
from lakestream.engine.base.result import Result
from lakestream.server.shown.documents import VerificationDocument

if TYPE_CHECKING:
    from lakestream.observation.verify import Verification


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


def verification_document(found: Verification) -> VerificationDocument:
    """Return a verification as the API tells it."""
    sides = [side for item in found.differing for side in (item.expected, item.found) if side is not None]
    types = column_types(Result(found.columns, sides))
    values = {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    return VerificationDocument.model_validate({**values, "types": types})
