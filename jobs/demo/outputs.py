"""The outputs as they lie on disk, read past lakestream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from jobs.demo.feed import DATABASE, STREAMS

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("origin", "device", "airline")
_OWN = "_ls_"
_BESIDE = ("tbname", "window")
"""What lakestream adds to a result: the subtable, and the window that a row came from."""


def read_outputs(folder: Path) -> dict[str, pa.Table]:
    """Return the rows of each output of the lake: its key, then the other columns of the result."""
    return {name: read_output(folder / DATABASE / name) for name in STREAMS}


def read_output(path: Path) -> pa.Table:
    """Return the rows of a table: the airport, device or airline, then the columns of the result."""
    query = QueryBuilder().register("output", DeltaTable(path)).execute("SELECT * FROM output")
    rows = pa.table(query.read_all())
    [key] = [name for name in rows.column_names if name in _KEYS]
    of_result = [n for n in rows.column_names if n not in {key, *_BESIDE} and not n.startswith(_OWN)]
    return rows.select([key, *of_result])
