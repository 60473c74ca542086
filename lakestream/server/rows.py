"""Rows of a result on their way out: as JSON for browsers, as Arrow for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakestream.engine.plain import plain
from lakestream.server.documents import ColumnDocument

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa


def json_columns(rows: pa.Table) -> list[ColumnDocument]:
    """Return the names and Arrow types of columns."""
    return [ColumnDocument(name=field.name, type=str(field.type)) for field in rows.schema]


def json_rows(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Return rows as JSON has them."""
    return [[plain(value) for value in row] for row in rows]


def arrow_bytes(rows: pa.Table) -> bytes:
    """Return rows as a stream of Arrow's IPC format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
