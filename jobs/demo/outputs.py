"""The outputs as they lie on disk, read past lakestream."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from jobs.demo import by_clock
from jobs.demo.feed import DATABASE, STREAMS

_KEYS = ("origin", "device")
_OWN = "_ls_"


def read_outputs(folder: Path) -> dict[str, pa.Table]:
    """Return the rows of each output of the lake: the airport, then the columns of the result."""
    paths = {name: Path(DATABASE, name) for name in STREAMS} | by_clock.OUTPUTS
    return {name: _read(folder / path) for name, path in paths.items()}


def _read(path: Path) -> pa.Table:
    query = QueryBuilder().register("output", DeltaTable(path)).execute("SELECT * FROM output")
    rows = pa.table(query.read_all())
    [key] = [name for name in rows.column_names if name in _KEYS]
    of_result = [n for n in rows.column_names if n not in {key, "tbname"} and not n.startswith(_OWN)]
    return rows.select([key, *of_result])
