from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from lakestream.errors import StorageError, StreamError
from lakestream.storage.columns.times import values_of
from lakestream.storage.columns.types import delta_field
from lakestream.storage.delta import (
    Table,
    Tables,
    append,
    capabilities,
    changes_arrow,
    create,
    delete_where,
    read_arrow,
    read_commits,
    timestamp_literal,
    update_where,
)
from lakestream.storage.names.table_info import Column
from lakestream.storage.rows.reading import among, plain
from lakestream.storage.tables.datafiles import data_files
from lakestream.storage.tables.log import SAME_ROWS, Rewrites, commit_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo

S = 1_000_000


@pytest.fixture
def table(meters: TableInfo, rows: Callable[..., pa.Table]) -> Table:
    table = Table.open(meters.path)
    for second in range(1, 6):
        append(table, rows((second, float(second))))
    return table


def test_a_time_range_is_half_open_and_exact_to_the_microsecond(
    table: Table, rows: Callable[..., pa.Table]
) -> None:
    append(table, rows((2.000001, 7.0), (1.999999, 8.0)))
    found = read_arrow(table, columns=["v"], spans=[(2 * S, 4 * S)], time_column="ts")
    assert sorted(found["v"].to_pylist()) == [2.0, 3.0, 7.0]
    assert found.column_names == ["v"]
    with pytest.raises(ValueError, match="time_column"):
        read_arrow(table, spans=[(1, None)])


def test_of_several_time_ranges_no_file_between_is_read(table: Table) -> None:
    between = data_files(table, table.version, "ts", 3 * S, 4 * S - 2_000)["path"].to_pylist()
    for name in between:
        Path(table.path, name).unlink()
    assert len(between) == 1
    found = read_arrow(table, columns=["v"], spans=[(None, 2 * S), (4 * S + 1_000, None)], time_column="ts")
    assert sorted(found["v"].to_pylist()) == [1.0, 5.0]


def test_types_are_plain(table: Table) -> None:
    schema = read_arrow(table).schema
    assert schema.field("tbname").type == pa.string()
    assert schema.field("ts").type == pa.timestamp("us", "UTC")
    assert changes_arrow(table, 0, 5, ["tbname"]).schema.types == [pa.string(), pa.int64(), pa.string()]
    assert changes_arrow(table, 5, 5, ["tbname"]).schema.types == [pa.string(), pa.int64(), pa.string()]


def test_an_older_version_is_read_without_moving_the_handle(table: Table) -> None:
    assert read_arrow(table, 2).num_rows == 2
    assert table.version == 5
    assert read_arrow(table).num_rows == 5
    with pytest.raises(StorageError, match="VERSION_NOT_FOUND"):
        read_arrow(table, 99)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda entry: entry.write_bytes(entry.read_bytes()[:50]), "TABLE_UNREADABLE"),
        (lambda entry: entry.write_bytes(bytes(50)), "TABLE_UNREADABLE"),
        (lambda entry: entry.unlink(), "VERSION_NOT_FOUND"),
    ],
    ids=["torn", "zeros", "gone"],
)
def test_an_older_version_that_is_damaged_is_not_taken_for_none(
    table: Table, damage: Callable[[Path], object], code: str
) -> None:
    damage(Path(table.path, commit_name(2)))
    with pytest.raises(StorageError) as caught:
        read_arrow(table, 3)
    assert caught.value.code == code


def test_a_stale_handle_reads_a_newer_version(table: Table, rows: Callable[..., pa.Table]) -> None:
    stale = Table.open(table.path)
    append(table, rows((9, 9.0)))
    assert stale.version == 5
    assert read_arrow(stale, 6).num_rows == 6
    assert changes_arrow(stale, 5, 6, ["v"]).num_rows == 1


def test_a_handle_lives_through_many_commits(table: Table, rows: Callable[..., pa.Table]) -> None:
    other = Table.open(table.path)
    for second in range(50):
        append(table, rows((second, 0.0)))
    assert other.refresh() == 55
    assert read_arrow(other, 30).num_rows == 30


def test_updates_and_deletes_are_changes(table: Table) -> None:
    assert update_where(table, {"v": "v + 10"}, f"ts = {timestamp_literal(S)}") == 1
    assert delete_where(table, "v = 2.0") == 1
    changed = changes_arrow(table, 5, 7, ["v"]).to_pylist()
    assert {(r["v"], r["_change_type"], r["_commit_version"]) for r in changed} == {
        (1.0, "update_preimage", 6),
        (11.0, "update_postimage", 6),
        (2.0, "delete", 7),
    }
    kinds = [(c.append_only, c.data_change, c.cdc_files > 0) for c in read_commits(table.path, 4, 7)]
    assert kinds == [(True, True, False), (False, True, True), (False, True, True)]
    with pytest.raises(StorageError, match="EDIT_FAILED"):
        delete_where(table, "nothing = 1")


def test_commits_that_rewrite_are_looked_for_once_and_as_far_as_the_log_goes_back(table: Table) -> None:
    update_where(table, {"v": "v + 10"}, f"ts = {timestamp_literal(S)}")
    assert table.rewrites.within(2, 6) == [6]
    delete_where(table, "v = 2.0")
    table.handle.optimize.compact()
    assert table.rewrites.within(0, table.version) == [6, 7]
    assert table.rewrites.within(6, table.version) == [7]
    assert table.rewrites.within(7, table.version) == []
    (Path(table.path) / commit_name(6)).unlink()
    assert table.rewrites.within(0, table.version) == [6, 7]
    assert Rewrites(table.path).within(0, table.version) == [7]


def test_a_column_may_have_any_name(catalog: Catalog) -> None:
    """Delta-rs takes the names of a scan as they are, and those of the change feed as SQL."""
    names = ["From", "group", "Über-Wert", 'q"x']
    columns = (Column("order", "timestamp"), *(Column(name, "int") for name in names))
    info = catalog.create_table("main", "odd", columns, kind="table", time_column="order", key=("order",))
    table = Table.open(info.path)
    made = {"order": pa.array([S], pa.timestamp("us", "UTC"))}
    append(table, pa.table(made | {name: pa.array([1], pa.int32()) for name in names}))
    assert changes_arrow(table, table.version - 1, table.version, names).select(names).to_pylist() == [
        dict.fromkeys(names, 1)
    ]
    assert read_arrow(table, columns=names, spans=[(0, None)], time_column="order").num_rows == 1


def test_a_compaction_changes_nothing(table: Table) -> None:
    table.handle.optimize.compact()
    [info] = read_commits(table.path, 5, 6)
    assert not info.data_change
    assert changes_arrow(table, 5, 6, ["v"]).num_rows == 0


def test_a_change_feed_that_is_off_is_named(tmp_path: Path, rows: Callable[..., pa.Table]) -> None:
    path = str(tmp_path / "t")
    fields = [delta_field("ts", "timestamp"), delta_field("v", "double"), delta_field("tbname", "string")]
    table = create(path, fields, properties={"delta.enableChangeDataFeed": "false"})
    append(table, rows((1, 1.0)))
    with pytest.raises(StreamError) as caught:
        changes_arrow(table, 0, 1, ["v"])
    assert caught.value.code == "CHANGE_FEED_OFF"


def test_a_change_feed_switched_off_in_between_is_named(table: Table, rows: Callable[..., pa.Table]) -> None:
    table.handle.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    append(table, rows((9, 9.0)))
    with pytest.raises(StreamError, match=r"CHANGE_FEED_OFF.*version 6"):
        changes_arrow(table, 4, 7, ["v"])


def test_a_change_feed_switched_on_in_between_is_named(tmp_path: Path, rows: Callable[..., pa.Table]) -> None:
    fields = [delta_field("ts", "timestamp"), delta_field("v", "double"), delta_field("tbname", "string")]
    table = create(str(tmp_path / "t"), fields, properties={"delta.enableChangeDataFeed": "false"})
    append(table, rows((1, 1.0)))
    table.handle.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    append(table, rows((2, 2.0)))
    with pytest.raises(StreamError, match="CHANGE_FEED_OFF"):
        changes_arrow(table, 0, 3, ["v"])
    assert changes_arrow(table, 2, 3, ["v"])["v"].to_pylist() == [2.0]


def test_a_table_that_is_not_there_is_named(tmp_path: Path, table: Table) -> None:
    with pytest.raises(StorageError, match="TABLE_NOT_FOUND"):
        Table.open(str(tmp_path / "none"))
    tables = Tables()
    assert tables.open(table.path) is tables.latest(table.path)


def test_our_tables_can_do_everything(table: Table) -> None:
    found = capabilities(table)
    assert (found.arrow_reads, found.arrow_changes, found.arrow_writes, found.reasons) == (
        True,
        True,
        True,
        (),
    )


def test_a_table_replaced_at_its_path_is_another(table: Table, rows: Callable[..., pa.Table]) -> None:
    before = table.table_id
    shutil.rmtree(table.path)
    fields = [delta_field("ts", "timestamp"), delta_field("v", "double"), delta_field("tbname", "string")]
    other = create(table.path, fields)
    for second in range(1, 8):
        append(other, rows((second, -1.0)))
    assert table.refresh() == 7
    assert table.table_id == other.table_id != before
    assert set(read_arrow(table)["v"].to_pylist()) == {-1.0}
    shutil.rmtree(table.path)
    with pytest.raises(StorageError, match="TABLE_NOT_FOUND"):
        table.refresh()


def test_views_and_dictionaries_are_plain_wherever_they_stand() -> None:
    words = pa.array(["a", None], pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.uint16()), words)
    rows = pa.table(
        {
            "coded": coded,
            "seen": pa.array([b"x", None, b""], pa.binary_view()),
            "listed": pa.array([["a"], None, []], pa.large_list(pa.string_view())),
            "nested": pa.array([[["a"]], None, []], pa.list_(pa.list_(pa.large_string()))),
            "mapped": pa.array([[("k", b"v")], None, []], pa.map_(pa.string_view(), pa.binary_view())),
            "made": pa.array([{"a b": ["x"]}, None, {}], pa.struct({"a b": pa.list_(pa.string_view())})),
            "none": pa.nulls(3),
        }
    )
    found = plain(rows)
    assert found.to_pylist() == rows.to_pylist()
    assert [str(kind).replace("element", "item") for kind in found.schema.types] == [
        "string",
        "binary",
        "list<item: string>",
        "list<item: list<item: string>>",
        "map<string, binary>",
        "struct<a b: list<item: string>>",
        "null",
    ]
    assert plain(rows.slice(3)).schema == found.schema


FAR = {"first": -62_135_596_800_000_000, "before": -62_135_596_800_000_001, "after": 253_402_300_800_000_000}


def test_times_of_any_year_are_written() -> None:
    written = {name: timestamp_literal(instant) for name, instant in FAR.items()}
    assert written == {
        "first": "'0001-01-01T00:00:00.000000Z'",
        "before": "'0000-12-31T23:59:59.999999Z'",
        "after": "'+10000-01-01T00:00:00.000000Z'",
    }


def test_times_of_any_year_are_found_beside_others(tmp_path: Path) -> None:
    instants = [*FAR.values(), S]
    write_deltalake(tmp_path, pa.table({"ts": pa.array(instants, pa.timestamp("us", "UTC"))}))
    for wanted in ([FAR["before"], S], [S], [FAR["after"], FAR["first"]], instants):
        found = read_arrow(str(tmp_path), where=among("ts", wanted))["ts"].cast(pa.int64())
        assert sorted(found.to_pylist()) == sorted(wanted)


def test_times_that_python_does_not_reach_are_texts() -> None:
    times = pa.chunked_array([pa.array([FAR["before"], S, None], pa.timestamp("us", "UTC"))])
    texts = ["0000-12-31 23:59:59.999999Z", "1970-01-01 00:00:01.000000Z", None]
    assert values_of(times) == texts
    structs = pa.chunked_array([pa.StructArray.from_arrays([times.combine_chunks()], ["start"])])
    assert values_of(structs) == [{"start": text} for text in texts]
    assert values_of(times.slice(1)) == [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None]
    far = pa.chunked_array([pa.array([2**63 - 1, S], pa.timestamp("us"))])
    assert values_of(far) == ["+294247-01-10 04:00:54.775807", "1970-01-01 00:00:01.000000"]


def test_days_that_python_does_not_reach_are_texts() -> None:
    days = pa.array([-719_163, 0, None, 2_932_897], pa.int32()).cast(pa.date32())
    texts = ["0000-12-31", "1970-01-01", None, "+10000-01-01"]
    assert values_of(pa.chunked_array([days])) == texts
    listed = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), days)
    assert values_of(pa.chunked_array([listed])) == [texts[:2], texts[2:]]
    paired = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), days[:2])
    assert values_of(pa.chunked_array([paired])) == [[("a", texts[0])], [("b", texts[1])]]
    assert values_of(pa.chunked_array([days[1:3]])) == [date(1970, 1, 1), None]


def test_a_commit_that_says_it_changes_no_row_is_passed_over(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, pa.table({"v": [1, 2], "old": [1, 2]}), configuration=feed)
    same = CommitProperties(custom_metadata={"userMetadata": SAME_ROWS})
    moved = pa.table({"v": [1, 2], "new": [1, 2]})
    write_deltalake(tmp_path, moved, mode="overwrite", schema_mode="overwrite", commit_properties=same)
    write_deltalake(tmp_path, pa.table({"v": [3], "new": [3]}), mode="append")
    path = str(tmp_path)
    [commit] = read_commits(path, 0, 1)
    assert (commit.same_rows, commit.data_change, commit.add_bytes, commit.written) == (True, False, 0, ())
    assert sorted(changes_arrow(path, -1, 2, ["v"])["v"].to_pylist()) == [1, 2, 3]
    assert changes_arrow(path, 0, 2, ["v"])["v"].to_pylist() == [3]
    assert changes_arrow(path, 0, 1, ["v"]).num_rows == 0
