"""The changes of a version range as delta-rs reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

from lakestream.storage.rows.changes import changes_arrow

if TYPE_CHECKING:
    from pathlib import Path


def test_columns_are_taken_by_their_exact_names(tmp_path: Path) -> None:
    rows = pa.table({"Ts": [1], "order": [2], 'a"b.c': [3]})
    write_deltalake(str(tmp_path), rows, configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(str(tmp_path), rows, mode="append")
    found = changes_arrow(str(tmp_path), 0, 1, rows.column_names)
    assert found.select(rows.column_names).to_pylist() == rows.to_pylist()
