from __future__ import annotations

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakestream.errors import StatementError, StorageError
from lakestream.storage.columns.types import delta_field
from lakestream.storage.delta import append, create, insert_rows, read_arrow, read_commits
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.names.registered import SubtableInfo
from lakestream.storage.names.subtables import Subtables
from lakestream.storage.names.table_info import Column, TableInfo, with_time_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.clock import ManualClock
    from lakestream.storage.places.layout import Layout


def test_databases_come_and_go(catalog: Catalog, meters: TableInfo) -> None:
    assert catalog.databases.create("other")
    assert catalog.databases.names() == ["main", "other"]
    assert not catalog.databases.create("other", if_not_exists=True)
    with pytest.raises(StatementError, match="DATABASE_EXISTS"):
        catalog.databases.create("OTHER")
    with pytest.raises(StatementError, match="did you mean main"):
        catalog.table("mian", "meters")
    assert catalog.drop_database("main")
    assert not Path(meters.path).exists()
    assert not catalog.drop_database("main", if_exists=True)


def test_a_table_describes_itself_to_another_catalog(
    layout: Layout, clock: ManualClock, catalog: Catalog, meters: TableInfo
) -> None:
    assert Catalog(layout, clock).table("main", "meters") == meters
    assert meters.tags == (Column("loc", "string", is_tag=True),)
    assert meters.column("v").comment == "volts"
    assert [info.name for info in catalog.tables("main")] == ["meters"]


def test_names_are_checked(catalog: Catalog, meters: TableInfo) -> None:
    columns = [Column("ts", "timestamp")]
    assert catalog.create_table("main", "meters", columns, time_column="ts", if_not_exists=True) == meters
    for name in ("meters", "METERS"):
        with pytest.raises(StatementError, match="TABLE_EXISTS"):
            catalog.create_table("main", name, columns, time_column="ts")
    with pytest.raises(StatementError, match="did you mean meters"):
        catalog.table("main", "meter")
    with pytest.raises(StatementError, match="DUPLICATE_COLUMN"):
        catalog.create_table("main", "t", [*columns, Column("TS", "int")], time_column="ts")
    with pytest.raises(StatementError, match="change feed"):
        catalog.create_table("main", "t", [*columns, Column("_change_type", "int")], time_column="ts")
    with pytest.raises(StatementError, match="COLUMN_NOT_FOUND"):
        meters.column("w")


def test_a_strange_name_is_one_folder(catalog: Catalog, layout: Layout) -> None:
    info = catalog.create_table("main", "../%41 ü", [Column("ts", "timestamp")], time_column="ts")
    assert Path(info.path).parent == Path(layout.root, "main")
    assert catalog.table_names("main") == ["../%41 ü"]
    append(catalog.handle(info), pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC"))}))
    assert read_arrow(info.path).num_rows == 1


@pytest.mark.usefixtures("meters")
def test_columns_and_tags_are_added(catalog: Catalog) -> None:
    with_tag = catalog.add_column("main", "meters", Column("gid", "int", is_tag=True))
    assert [column.name for column in with_tag.tags] == ["loc", "gid"]
    assert catalog.add_column("main", "meters", Column("w", "double")).columns[-1] == Column("w", "double")
    with pytest.raises(StatementError, match="DUPLICATE_COLUMN"):
        catalog.add_column("main", "meters", Column("V", "double"))


def test_subtables_are_registered_or_found_in_rows(
    catalog: Catalog, meters: TableInfo, rows: Callable[..., pa.Table]
) -> None:
    created = Subtables(catalog).create("main", [SubtableInfo("d1", "meters", {"loc": "x"})])
    assert Subtables(catalog).create("main", created, if_not_exists=True) == []
    with pytest.raises(StatementError, match="TABLE_EXISTS"):
        Subtables(catalog).create("main", created)
    with pytest.raises(StatementError, match="TAG_NOT_FOUND"):
        Subtables(catalog).create("main", [SubtableInfo("d9", "meters", {"lok": "x"})])
    data = rows((1, 1.0, "d2"), (2, 1.0, "d2")).append_column("loc", pa.array(["old", "new"]))
    append(catalog.handle(meters), data)
    assert Subtables(catalog).of("main", "meters") == [
        created[0],
        SubtableInfo("d2", "meters", {"loc": "new"}),
    ]
    assert Subtables(catalog).find("main", "d2") == SubtableInfo("d2", "meters", {"loc": "new"})
    assert Subtables(catalog).find("main", "d3") is None


def test_a_tag_is_set_in_rows_too(catalog: Catalog, meters: TableInfo, rows: Callable[..., pa.Table]) -> None:
    append(catalog.handle(meters), rows((1, 1.0, "d1"), (1, 1.0, "d2")))
    Subtables(catalog).create("main", [SubtableInfo("d1", "meters", {"loc": "x"})])
    assert Subtables(catalog).set_tag("main", "d1", {"loc": "y"}, {"loc": "'y'"}).tags == {"loc": "y"}
    found = {r["tbname"]: r["loc"] for r in read_arrow(meters.path).to_pylist()}
    assert found == {"d1": "y", "d2": None}
    assert Subtables(catalog).drop("main", "d1")
    assert not Subtables(catalog).drop("main", "d1")
    assert read_arrow(meters.path).num_rows == 1


def test_tags_of_any_type_are_kept(catalog: Catalog) -> None:
    kinds = {"a": "decimal(4,1)", "b": "binary", "c": "date", "date": "string"}
    columns = [Column("ts", "timestamp"), *(Column(n, t, is_tag=True) for n, t in kinds.items())]
    catalog.create_table("main", "s", columns, kind="stable", time_column="ts")
    tags = {"a": Decimal("1.5"), "b": b"\x00\xff", "c": date(2025, 1, 1), "date": "2025"}
    Subtables(catalog).create("main", [SubtableInfo("d", "s", tags)])
    assert Subtables(catalog).find("main", "d") == SubtableInfo("d", "s", tags)


def test_dropping_takes_data_and_subtables(catalog: Catalog, meters: TableInfo) -> None:
    Subtables(catalog).create("main", [SubtableInfo("d1", "meters", {"loc": "x"})])
    assert catalog.drop_table("main", "meters")
    assert Subtables(catalog).find("main", "d1") is None
    assert catalog.find_table("main", "meters") is None
    assert not catalog.drop_table("main", "meters", if_exists=True)
    with pytest.raises(StatementError, match="TABLE_NOT_FOUND"):
        catalog.drop_table("main", "meters")
    assert not Path(meters.path).exists()


def test_a_dropped_table_made_anew_is_another(catalog: Catalog, meters: TableInfo) -> None:
    before = catalog.handle(meters).table_id
    catalog.drop_table("main", "meters")
    again = catalog.create_table("main", "meters", [Column("t", "timestamp")], time_column="t")
    assert [column.name for column in again.columns] == ["t"]
    assert catalog.handle(again).table_id != before


def test_the_name_of_an_external_table_goes_when_its_files_are_gone(catalog: Catalog, tmp_path: Path) -> None:
    location = str(tmp_path / "outside")
    catalog.create_table("main", "t", [Column("ts", "timestamp")], time_column="ts", location=location)
    shutil.rmtree(location)
    with pytest.raises(StorageError, match=r"TABLE_NOT_FOUND.*DROP TABLE main\.t"):
        catalog.table("main", "t")
    assert catalog.drop_table("main", "t")
    assert catalog.table_names("main") == []


def test_an_external_table_stays_when_its_name_goes(catalog: Catalog, tmp_path: Path) -> None:
    path = str(tmp_path / "elsewhere")
    create(path, [delta_field(n, t) for n, t in {"a": "int", "t": "timestamp", "u": "timestamp"}.items()])
    info = with_time_column(catalog.external("main", "ext", path).said, "u", "UTC", None)
    assert (info.external, info.time_column, info.key, info.path) == (True, "u", (), path)
    assert catalog.table_names("main") == []
    catalog.register_external(info)
    assert catalog.table("main", "ext") == info
    catalog.drop_table("main", "ext")
    assert Path(path, "_delta_log").is_dir()
    assert catalog.external("main", "ext", path).said.time_column == "t"
    none = str(tmp_path / "none")
    create(none, [delta_field("a", "int")])
    assert catalog.external("main", "x", none).said.time_column == ""


def test_insert_upserts_by_key_and_otherwise_appends(
    catalog: Catalog, meters: TableInfo, rows: Callable[..., pa.Table]
) -> None:
    def insert(*items: tuple[float, float] | tuple[float, float, str]) -> str | None:
        version = insert_rows(meters, rows(*items), tables=catalog.handles)
        return read_commits(meters.path, version - 1, version)[0].operation

    def found() -> list[tuple[str, float]]:
        data = read_arrow(meters.path).to_pylist()
        return sorted((r["tbname"], r["v"]) for r in data)

    assert insert((1, 1.0), (2, 2.0), (2, 3.0)) == "WRITE"
    assert insert((2, 9.0, "d2")) == "WRITE"
    assert insert((1.5, 4.0)) == "WRITE"
    assert insert((2, 5.0), (3, 6.0)) == "MERGE"
    assert insert((4, 7.0)) == "WRITE"
    assert found() == [("d1", 1.0), ("d1", 4.0), ("d1", 5.0), ("d1", 6.0), ("d1", 7.0), ("d2", 9.0)]
    null = pa.table({"ts": pa.nulls(1, pa.timestamp("us", "UTC")), "tbname": ["d1"]})
    with pytest.raises(StatementError, match=r"column ts .* cannot be NULL"):
        insert_rows(meters, null, tables=catalog.handles)


def test_insert_sees_rows_that_others_appended(
    catalog: Catalog, meters: TableInfo, rows: Callable[..., pa.Table]
) -> None:
    insert_rows(meters, rows((1, 1.0)), tables=catalog.handles)
    append(meters.path, rows((5.000001, 2.0)))
    insert_rows(meters, rows((5, 3.0)), tables=catalog.handles)
    insert_rows(meters, rows((5.000001, 4.0)), tables=catalog.handles)
    assert sorted(read_arrow(meters.path)["v"].to_pylist()) == [1.0, 3.0, 4.0]
