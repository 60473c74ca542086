"""The changes of a version range as delta-rs reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from lakestream.storage.rows.changes import changes_arrow
from lakestream.storage.rows.reading import read_arrow

if TYPE_CHECKING:
    from pathlib import Path


def test_columns_are_taken_by_their_exact_names(tmp_path: Path) -> None:
    rows = pa.table({"Ts": [1], "order": [2], 'a"b.c': [3]})
    write_deltalake(str(tmp_path), rows, configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(str(tmp_path), rows, mode="append")
    found = changes_arrow(str(tmp_path), 0, 1, rows.column_names)
    assert found.select(rows.column_names).to_pylist() == rows.to_pylist()


def test_the_empty_text_of_a_folder_is_null(tmp_path: Path) -> None:
    path, rows = str(tmp_path), pa.table({"g": ["", "x", None], "v": [1, 2, 3]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, rows, partition_by=["g"], configuration=feed)
    added = changes_arrow(path, -1, 0, ["g", "v"])
    DeltaTable(path).update({"v": "v + 10"})
    expected = [("x", 2), (None, 1), (None, 3)]
    changed = changes_arrow(path, 0, 1, ["g", "v"])
    came = changed.filter(pc.equal(changed["_change_type"], "update_postimage"))
    for found, more in ((added, 0), (came, 10), (read_arrow(path), 10)):
        pairs = zip(found["g"].to_pylist(), found["v"].to_pylist(), strict=True)
        assert sorted(pairs, key=repr) == [(text, number + more) for text, number in expected]
