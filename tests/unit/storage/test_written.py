"""Rows of the files that commits added are those of the change feed, whatever wrote the files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.errors import StreamError
from lakestream.storage.rows import changes as module
from lakestream.storage.rows.changes import changes_arrow
from lakestream.storage.tables.table import Table
from lakestream.storage.writes.edits import TABLE_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, dt.UTC)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [1, None, -(2**63)]),
    "byte": (pa.int8(), [1, None, -128]),
    "float": (pa.float32(), [1.5, None, float("inf")]),
    "double": (pa.float64(), [1.5, None, -0.0]),
    "flag": (pa.bool_(), [True, None, False]),
    "text": (pa.string(), ["a", None, "é b"]),
    "large": (pa.large_string(), ["a", None, ""]),
    "bytes": (pa.binary(), [b"a", None, b"\x00"]),
    "day": (pa.date32(), [dt.date(2026, 1, 2), None, dt.date(1969, 12, 31)]),
    "exact": (pa.decimal128(12, 3), [Decimal("1.500"), None, Decimal("20.250")]),
    "instant": (pa.timestamp("us", "UTC"), [MOMENT, None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)]),
    "wall": (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), None, dt.datetime(1969, 1, 1)]),  # noqa: DTZ001
    "list": (pa.list_(pa.string()), [["a", None], None, []]),
    "struct": (pa.struct({"a": pa.int32(), "b.c": pa.string()}), [{"a": 1, "b.c": None}, None, {"a": None}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),
    "a.b": (pa.int32(), [1, None, 3]),
}


def table_of(names: Sequence[str]) -> pa.Table:
    columns = {name: pa.array(VALUES[name][1], VALUES[name][0]) for name in names}
    return pa.table({"id": pa.array([0, 1, 2], pa.int64()), **columns})


def both(path: Path, after: int, upto: int, *, alike: bool = True) -> list[dict[str, Any]]:
    """Return the rows of commits; ``alike``: as their files have them, and as the feed does."""
    table = Table.open(str(path))
    commits, columns = module.checked_commits(table, after, upto), table.columns(None)
    by_feed = module._read_changes(table, commits, after, upto, columns)
    by_files = module._added(table, commits, columns)
    assert (by_files is not None) is alike
    found = changes_arrow(table, after, upto, columns)
    order = [("_commit_version", "ascending"), ("id", "ascending")]
    assert found.schema.equals(by_feed.schema)
    rows: list[dict[str, Any]] = found.sort_by(order).to_pylist()
    assert repr(rows) == repr(by_feed.sort_by(order).to_pylist())
    return rows


@pytest.mark.parametrize("name", VALUES)
def test_values_of_each_type_are_those_of_the_feed(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        write_deltalake(str(tmp_path), table_of([name]), mode="append", configuration=TABLE_PROPERTIES)
    rows = both(tmp_path, -1, 1)
    assert [row["_commit_version"] for row in rows] == [0, 0, 0, 1, 1, 1]
    assert {row["_change_type"] for row in rows} == {"insert"}


@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"list", "struct", "map", "bytes", "a.b", "large"}))
def test_partitions_have_their_values(tmp_path: Path, name: str) -> None:
    rows = table_of([name, "text"] if name != "text" else [name])
    write_deltalake(str(tmp_path), rows, partition_by=[name], configuration=TABLE_PROPERTIES)
    table = Table.open(str(tmp_path))
    commits = module.checked_commits(table, -1, 0)
    if commits[0].misread:  # an encoded name, which the feed does not find
        assert module._added(table, commits, ["id"]) is None
    else:
        both(tmp_path, -1, 0)


def test_columns_that_came_later_are_null_before(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table_of(["long"]), configuration=TABLE_PROPERTIES)
    write_deltalake(str(tmp_path), table_of(["long", "text", "struct"]), mode="append", schema_mode="merge")
    rows = both(tmp_path, -1, 1)
    assert [row["text"] for row in rows] == [None, None, None, "a", None, "é b"]


def test_a_field_that_came_later_is_left_to_the_feed(tmp_path: Path) -> None:
    for kind in (pa.struct({"a": pa.int32()}), pa.struct({"a": pa.int32(), "b": pa.string()})):
        rows = pa.table({"id": pa.array([0], pa.int64()), "s": pa.array([{"a": 1}], kind)})
        configuration = TABLE_PROPERTIES
        write_deltalake(str(tmp_path), rows, mode="append", schema_mode="merge", configuration=configuration)
    assert [row["s"] for row in both(tmp_path, -1, 1, alike=False)] == [{"a": 1, "b": None}] * 2


def written_anew(path: Path, rows: pa.Table, **options: Any) -> None:
    """Put rows in the place of a table's only file, and its size into the log."""
    (file,) = path.glob("*.parquet")
    log, before = path / "_delta_log" / f"{0:020}.json", file.stat().st_size
    pq.write_table(rows, file, **options)
    log.write_text(log.read_text().replace(f'"size":{before}', f'"size":{file.stat().st_size}'))


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "UTC")]
)
def test_times_of_other_units_and_zones(tmp_path: Path, kind: pa.DataType) -> None:
    write_deltalake(str(tmp_path), table_of(["instant", "text"]), configuration=TABLE_PROPERTIES)
    (file,) = tmp_path.glob("*.parquet")
    rows = pq.read_table(file)
    times = rows["instant"].cast(pa.int64()).cast(pa.timestamp("us", "UTC")).cast(kind, safe=False)
    texts = rows["text"].cast(pa.dictionary(pa.int32(), pa.string()))
    written_anew(tmp_path, rows.set_column(1, "instant", times).set_column(2, "text", texts))
    both(tmp_path, -1, 0)


def test_times_that_spark_writes_in_96_bits(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table_of(["instant"]), configuration=TABLE_PROPERTIES)
    (file,) = tmp_path.glob("*.parquet")
    written_anew(tmp_path, pq.read_table(file), use_deprecated_int96_timestamps=True)
    assert both(tmp_path, -1, 0)[0]["instant"] == MOMENT


def test_many_rows_come_in_pieces(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(300_000), pa.int64())})
    write_deltalake(str(tmp_path), rows, configuration=TABLE_PROPERTIES)
    table = Table.open(str(tmp_path))
    found = module._added(table, module.checked_commits(table, -1, 0), ["id"])
    assert found is not None
    assert max(map(len, found["id"].chunks)) <= 131_072
    assert found["id"].to_pylist() == rows["id"].to_pylist()


def test_commits_that_change_rows_are_left_to_the_feed(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table_of(["long"]), configuration=TABLE_PROPERTIES)
    DeltaTable(str(tmp_path)).update(updates={"long": "7"}, predicate="id = 1")
    DeltaTable(str(tmp_path)).delete("id = 2")
    kinds = [row["_change_type"] for row in both(tmp_path, 0, 2, alike=False)]
    assert sorted(kinds) == ["delete", "update_postimage", "update_preimage"]


def test_rows_written_anew_are_no_changes(tmp_path: Path) -> None:
    for _ in range(2):
        write_deltalake(str(tmp_path), table_of(["long"]), mode="append", configuration=TABLE_PROPERTIES)
    DeltaTable(str(tmp_path)).optimize.compact()
    assert [row["_commit_version"] for row in both(tmp_path, 0, 2)] == [1, 1, 1]


@pytest.mark.parametrize("damage", ["gone", "torn", "empty", "replaced"])
def test_a_damaged_file_is_lost(tmp_path: Path, damage: str) -> None:
    write_deltalake(str(tmp_path), table_of(["long"]), configuration=TABLE_PROPERTIES)
    (file,) = tmp_path.glob("*.parquet")
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "replaced":
        pq.write_table(pa.concat_tables([pq.read_table(file)] * 300), file, compression="none")
    else:
        file.write_bytes(content[: len(content) // 2] if damage == "torn" else b"")
    with pytest.raises(StreamError) as lost:
        changes_arrow(str(tmp_path), -1, 0, ["id", "long"])
    assert lost.value.code == "CHANGES_LOST"


def test_rows_that_the_log_tells_and_the_file_has_not(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table_of(["long"]), configuration=TABLE_PROPERTIES)
    (file,) = tmp_path.glob("*.parquet")
    written_anew(tmp_path, pq.read_table(file).slice(0, 0))
    with pytest.raises(StreamError) as lost:
        changes_arrow(str(tmp_path), -1, 0, ["id"])
    assert lost.value.code == "CHANGES_LOST"
