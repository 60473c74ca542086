"""A lake that lies elsewhere than before goes on: its records name its own tables by their places in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.storage.delta import read_arrow
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.definitions import Definitions, QueryRecord, TriggerRecord
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

STREAM = """
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM m STREAM_OPTIONS(EXACT(ALL)) INTO o AS
SELECT _twstart AS w, sum(m.v * s.f) AS n FROM m JOIN sites s ON s.name = m.site
WHERE m.ts >= _twstart AND m.ts < _twend
"""


def _results(lake: Lake) -> list[int | None]:
    assert lake.run().failed == []
    return [row[0] for row in lake.sql("SELECT n FROM o ORDER BY w").fetchall()]


def test_a_stream_follows_its_tables_where_the_lake_lies_now(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with without_spark():
        with Lake(old) as lake:
            lake.sql("CREATE TABLE m (ts TIMESTAMP, site VARCHAR(5) COMPOSITE KEY, v INT)")
            lake.sql("CREATE TABLE sites (ts TIMESTAMP, name VARCHAR(5) COMPOSITE KEY, f INT)")
            lake.sql("INSERT INTO sites VALUES ('2025-01-01', 'a', 1) ('2025-01-01', 'b', 2)")
            lake.sql(STREAM)
            lake.sql("INSERT INTO m VALUES ('2025-01-01 08:00:00', 'a', 1) ('2025-01-01 08:00:30', 'b', 2)")
            lake.sql("INSERT INTO m VALUES ('2025-01-01 08:01:00', 'a', 1)")
            assert _results(lake) == [5]
        old.rename(new)
        with Lake(new) as lake:
            lake.sql("UPDATE sites SET f = 10 WHERE name = 'a'")
            assert _results(lake) == [14]
    for name in ("plans", "progress"):
        assert str(tmp_path) not in str(read_arrow(str(new / "_lakestream" / name)).to_pylist())


@pytest.mark.parametrize("elsewhere", ["/data/t", "s3://bucket/t"])
def test_definitions_say_how_far_they_have_come_by_places(tmp_path: Path, elsewhere: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    layout = Layout(str(old))
    layout.initialise()
    versions = {layout.table_path("db", "points"): 7, elsewhere: 9}
    Definitions(layout).put_queries([QueryRecord("u", "q", "CREATE CQ", "UTC", 0, 0, 0, versions=versions)])
    Definitions(layout).put_triggers([TriggerRecord("v", "t", "CREATE TRIGGER", 1, versions)])
    old.rename(new)
    layout = Layout(str(new))
    versions = {layout.table_path("db", "points"): 7, elsewhere: 9}
    definitions = Definitions(layout)
    assert [record.versions for record in definitions.queries()] == [versions]
    assert [record.versions for record in definitions.triggers()] == [versions]


def test_a_lake_says_what_opens_it(tmp_path: Path) -> None:
    for name in ("a", "it's"):
        with Lake(tmp_path / name) as lake:
            assert repr(lake) == f"Lake({str(tmp_path / name)!r})"
