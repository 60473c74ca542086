"""Times that delta-rs counts in nanoseconds: Spark's beyond its ends are seen, and never written anew."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.transaction import AddAction

from lakestream.errors import StorageError
from lakestream.storage.delta import (
    Table,
    capabilities,
    changes_arrow_or_none,
    delete_where,
    read_arrow,
    update_where,
)
from lakestream.storage.writes.upkeep import compact

if TYPE_CHECKING:
    from pathlib import Path

FAR, NEAR = datetime(9999, 12, 31, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)


def written(path: Path, *times: datetime | None, as_spark_does: bool = True) -> Table:
    """Append rows (at, n); ``as_spark_does``: as INT96, in a file that the log is told of."""
    rows = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "n": range(len(times))})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), rows.slice(0, 0) if as_spark_does else rows, mode="append", configuration=feed)
    table = Table.open(str(path))
    if as_spark_does:
        name = f"{table.version}.parquet"
        pq.write_table(rows, path / name, use_deprecated_int96_timestamps=True)
        ends = pc.min_max(rows["at"]).as_py()
        stats = {
            "numRecords": len(times),
            "minValues": {"at": ends["min"].isoformat(), "n": 0},
            "maxValues": {"at": ends["max"].isoformat(), "n": len(times) - 1},
            "nullCount": {"at": rows["at"].null_count, "n": 0},
        }
        added = AddAction(name, (path / name).stat().st_size, {}, 0, True, json.dumps(stats))
        table.handle.create_write_transaction([added], "append", table.handle.schema())
    return Table.open(str(path))


def test_such_times_are_read_as_they_are(tmp_path: Path) -> None:
    table = written(tmp_path, FAR, NEAR, None, datetime(1, 1, 1, tzinfo=UTC))
    found = read_arrow(table)["at"]
    assert pc.min_max(found).as_py() == {"min": datetime(1, 1, 1, tzinfo=UTC), "max": FAR}


@pytest.mark.parametrize("as_spark_does", [True, False])
def test_what_delta_rs_would_falsify_is_left_to_spark(tmp_path: Path, *, as_spark_does: bool) -> None:
    table = written(tmp_path, NEAR)
    first = table.version
    assert capabilities(table).arrow_writes
    written(tmp_path, FAR, as_spark_does=as_spark_does)
    table.refresh()
    able = capabilities(table)
    assert able.arrow_reads
    assert (able.arrow_changes, able.arrow_writes) == (not as_spark_does, not as_spark_does)
    assert capabilities(Table.open(str(tmp_path))) == able
    assert changes_arrow_or_none(table, -1, first, ["at"]) is not None
    assert changes_arrow_or_none(table, first, table.version, ["at"]) is None


def test_no_such_time_is_written_anew(tmp_path: Path) -> None:
    table = written(tmp_path, FAR, NEAR)
    with pytest.raises(StorageError, match=r"EDIT_FAILED.*1678"):
        delete_where(table, "n = 1")
    with pytest.raises(StorageError, match=r"EDIT_FAILED.*1678"):
        update_where(table, {"n": "7"}, "n = 1")
    version = written(tmp_path, NEAR).version
    compact(table)
    assert table.refresh() == version
    assert FAR in read_arrow(table)["at"].to_pylist()
