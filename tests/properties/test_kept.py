"""Views whose keys changed rows move: a few of the histories of ``tests.properties.kept``, and the corners.

All of it by the small path, but for decimals: no Spark is started.
"""

from __future__ import annotations

import decimal
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest
from sqlglot import exp

from lakestream import Lake, Settings
from lakestream.compute.windows.keyed import kept
from lakestream.compute.windows.keyed.keys import Branch
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from tests.properties.followed import TABLES, without_spark
from tests.properties.kept import counted, differences

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ROWS = """
INSERT INTO meters VALUES ('2025-01-01 08:00:10', 'a', 1) ('2025-01-01 08:03:10', 'b', 2)
                          ('2025-01-01 08:09:10', 'a', NULL)
"""
MOVED = (
    "changed rows of main.meters alone move what is kept of a key: {}; with other changes it is computed "
    "from all its rows"
)
SUMS = "SELECT site, count(*) AS n, sum(amps) AS total, avg(amps) AS mean FROM meters GROUP BY site"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        yield lake


@pytest.fixture
def moves() -> Iterator[Counter[str]]:
    with counted() as found:
        yield found


def made(lake: Lake, query: str, name: str = "v") -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    lake.run()


def after(lake: Lake, statement: str, name: str = "v") -> Sequence[tuple[object, ...]]:
    lake.sql(statement)
    lake.run()
    assert [stream.last_error for stream in lake.streams()] == [None] * len(lake.streams())
    return sorted(lake.sql(f"SELECT * FROM {name}").fetchall(), key=repr)


def explained(lake: Lake) -> list[str]:
    return [said for what, said in lake.sql("EXPLAIN MATERIALIZED VIEW v").fetchall() if what == "refresh"]


def test_random_histories_equal_the_query(moves: Counter[str]) -> None:
    with without_spark():
        for seed in range(2):
            assert differences(f"few {seed}", views=3, steps=2) == []
    assert moves["moved"] > 0


@pytest.mark.long
def test_many_random_histories_equal_the_query(moves: Counter[str]) -> None:
    with without_spark():
        for seed in range(100):
            assert differences(f"many {seed}") == []
    assert moves["moved"] > moves["not"] / 2


def test_a_group_comes_changes_and_goes(lake: Lake, moves: Counter[str]) -> None:
    made(lake, SUMS)
    assert after(lake, ROWS) == [("a", 2, 1, 1.0), ("b", 1, 2, 2.0)]
    assert after(lake, "DELETE FROM meters WHERE amps = 1") == [("a", 1, None, None), ("b", 1, 2, 2.0)]
    assert after(lake, "UPDATE meters SET amps = 5 WHERE site = 'b'")[1] == ("b", 1, 5, 5.0)
    assert after(lake, "DELETE FROM meters WHERE site = 'a'") == [("b", 1, 5, 5.0)]
    assert moves == {"moved": 4}


def test_distinct_rows_are_counted(lake: Lake, moves: Counter[str]) -> None:
    made(lake, "SELECT DISTINCT site, 7 AS seven FROM meters")
    assert after(lake, ROWS) == [("a", 7), ("b", 7)]
    assert after(lake, "DELETE FROM meters WHERE amps > 0") == [("a", 7)]
    assert after(lake, "DELETE FROM meters") == []
    assert moves == {"moved": 3}


def test_one_group_of_all_rows_is_there_without_rows(lake: Lake, moves: Counter[str]) -> None:
    made(lake, "SELECT count(*) AS n, sum(amps) AS total FROM meters")
    assert lake.sql("SELECT * FROM v").fetchall() == [(0, None)]
    assert after(lake, ROWS) == [(3, 3)]
    assert after(lake, "DELETE FROM meters") == [(0, None)]
    assert moves == {"moved": 2}
    assert explained(lake) == [
        "incremental, by the one key of all rows: those that a change touches",
        MOVED.format("COUNT(*), SUM(amps)"),
    ]


def test_a_row_that_having_hides_is_computed_again(lake: Lake, moves: Counter[str]) -> None:
    made(lake, "SELECT site, sum(amps) AS total FROM meters GROUP BY site HAVING count(*) > 1")
    assert after(lake, ROWS) == [("a", 1)]
    assert moves == {"not": 1}
    assert after(lake, "INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 4)") == [("a", 5)]
    assert moves == {"not": 1, "moved": 1}
    assert after(lake, "DELETE FROM meters WHERE amps > 0 AND site = 'a'") == []
    assert after(lake, "INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 4)") == [("a", 4)]


def test_the_table_that_rows_may_be_without_is_looked_at(lake: Lake, moves: Counter[str]) -> None:
    made(
        lake,
        "SELECT s.region, count(*) AS n FROM meters m LEFT JOIN sites s ON s.site = m.site GROUP BY s.region",
    )
    assert after(lake, ROWS) == [(None, 3)]
    found = after(lake, "INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'x', 1)")
    assert found == [("x", 2), (None, 1)]
    assert moves == {"moved": 1, "not": 1}


def test_what_is_not_exact_is_computed_from_all_rows(lake: Lake, moves: Counter[str]) -> None:
    lake.sql("CREATE TABLE big (ts TIMESTAMP, x BIGINT)")
    made(lake, "SELECT sum(x) AS total, count(x) AS n FROM big")
    rows = f"INSERT INTO big VALUES ('2025-01-01', 1) ('2025-01-02', {2**31 - 1})"
    assert after(lake, rows) == [(2**31, 2)]
    assert moves == {"moved": 1}
    most = 2**63 - 1
    assert after(lake, f"INSERT INTO big VALUES ('2025-01-03', {most - 2**31})") == [(most, 3)]
    assert after(lake, "UPDATE big SET x = 9999999999 WHERE ts = '2025-01-03'") == [(2**31 + 9999999999, 3)]
    assert after(lake, "DELETE FROM big WHERE x > 5000000000") == [(2**31, 2)]
    assert moves == {"moved": 1, "not": 3}
    assert after(lake, "INSERT INTO big VALUES ('2025-01-05', 7)") == [(2**31 + 7, 3)]
    assert moves == {"moved": 2, "not": 3}


def test_a_mean_is_moved_while_a_double_holds_its_sum(lake: Lake, moves: Counter[str]) -> None:
    lake.sql("CREATE TABLE big (ts TIMESTAMP, x BIGINT)")
    made(lake, "SELECT avg(x) AS mean FROM big")
    with patch.object(kept, "_EXACT", 100):
        lake.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT avg(x) AS mean FROM big")
        lake.run()
        assert after(lake, "INSERT INTO big VALUES ('2025-01-01', 60) ('2025-01-02', -40)") == [(10.0,)]
        assert moves == {"moved": 1}
        assert after(lake, "INSERT INTO big VALUES ('2025-01-03', 1)") == [(7.0,)]
        assert moves == {"moved": 1, "not": 1}


def test_keys_of_one_number_are_never_mixed(lake: Lake) -> None:
    number = Branch.number_sql
    with patch.object(Branch, "number_sql", lambda self, keys: f"pmod({number(self, keys)}, 2L)"):
        made(lake, SUMS.replace(", avg(amps) AS mean", "").replace("site", "amps"))
        expected: list[tuple[object, ...]] = []
        for amps in range(6):
            for second in range(amps + 1):
                at = f"2025-01-01 08:{amps:02}:{second:02}"
                lake.sql(f"INSERT INTO meters VALUES ('{at}', 'a', {amps})")
            lake.run()
            expected.append((amps, amps + 1, amps * (amps + 1)))
            assert sorted(lake.sql("SELECT * FROM v").fetchall()) == expected


@pytest.mark.parametrize(
    "change", ["DROP TABLE v", "DELETE FROM v WHERE site = 'a'", "UPDATE v SET total = 9"]
)
def test_what_others_wrote_into_the_view_is_computed_again(lake: Lake, change: str) -> None:
    made(lake, SUMS)
    assert after(lake, ROWS) == [("a", 2, 1, 1.0), ("b", 1, 2, 2.0)]
    lake.sql(change)
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 4)")
    lake.run()
    if change != "DROP TABLE v":
        assert str(lake.streams()[0].last_error).startswith("OUTPUT_TOUCHED")
        lake.sql("START STREAM v")
    found = after(lake, "INSERT INTO meters VALUES ('2025-01-01 08:00:12', 'a', NULL)")
    assert found == [("a", 4, 5, 2.5), ("b", 1, 2, 2.0)]


@pytest.mark.parametrize("point", ["C3", "C6a", "C6b", "C7"])
def test_a_tick_that_is_killed_moves_its_keys_once(tmp_path: Path, point: str) -> None:
    with without_spark():
        with Lake(tmp_path) as lake:
            lake.sql(TABLES)
            made(lake, SUMS)
            assert after(lake, ROWS) == [("a", 2, 1, 1.0), ("b", 1, 2, 2.0)]
            lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 4)")
            with pytest.raises(SimulatedCrash), crash_at(point, 1):
                lake.run()
        with Lake(tmp_path) as lake:
            found = after(lake, "INSERT INTO meters VALUES ('2025-01-01 08:00:12', 'b', 4)")
            assert found == [("a", 3, 5, 2.5), ("b", 2, 6, 3.0)]


def test_a_view_that_keeps_something_else_has_another_table(lake: Lake) -> None:
    made(lake, SUMS)
    lake.sql(ROWS)
    lake.run()
    lake.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT site, count(*) AS n FROM meters GROUP BY site")
    lake.run()
    assert after(lake, "INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 4)") == [("a", 3), ("b", 1)]


def test_what_cannot_be_taken_back_is_said(lake: Lake) -> None:
    made(
        lake, "SELECT site, count(*) AS n, max(amps) AS most, sum(amps / 2) AS half FROM meters GROUP BY site"
    )
    assert explained(lake)[1] == (
        "a touched key is computed from all its rows: MAX(amps), SUM(amps / 2) of a DOUBLE "
        "cannot be taken back exactly"
    )


@pytest.mark.spark
def test_decimals_are_added_up_exactly(tmp_path: Path, moves: Counter[str]) -> None:
    with Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE paid (ts TIMESTAMP, k INT, x DECIMAL(28, 9))")
        made(lake, "SELECT k, sum(x) AS total, sum(x) FILTER (WHERE x > 0) AS more FROM paid GROUP BY k")
        much = "9999999999999999999.123456789"
        lake.sql(f"INSERT INTO paid VALUES ('2025-01-01', 1, {much}) ('2025-01-02', 1, {much})")
        lake.run()
        found = after(
            lake, f"INSERT INTO paid VALUES ('2025-01-03', 1, {much}) ('2025-01-04', 1, -0.000000001)"
        )
        exact = decimal.Decimal(much)
        with decimal.localcontext(prec=50):
            assert found == [(1, exact * 3 - decimal.Decimal("0.000000001"), exact * 3)]
        assert after(lake, "DELETE FROM paid WHERE x > 0") == [(1, decimal.Decimal("-0.000000001"), None)]
    assert moves == {"moved": 3}


@pytest.mark.spark
def test_means_of_decimals_are_what_spark_gives(tmp_path: Path, moves: Counter[str]) -> None:
    random, means = Random(7), "avg(x) AS mean, avg(x) FILTER (WHERE x > 0) + 1 AS more, sum(x) AS total"
    shapes = [(28, 9), (28, 28), (28, 0), (18, 6), (3, 0)]
    with Lake(tmp_path) as lake:
        for digits, scale in shapes:
            lake.sql(f"CREATE TABLE t{digits}_{scale} (ts TIMESTAMP, k INT, x DECIMAL({digits}, {scale}))")
            made(lake, f"SELECT k, {means} FROM t{digits}_{scale} GROUP BY k", f"v{digits}_{scale}")
        for _ in range(2):
            for digits, scale in shapes:
                lake.insert(f"t{digits}_{scale}", drawn_decimals(random, digits, scale))
            lake.run()
        for digits, scale in shapes:
            lake.sql(f"DELETE FROM t{digits}_{scale} WHERE k % 3 = 0 AND x < 0")
        lake.run()
        for digits, scale in shapes:
            found = lake.sql(f"SELECT * FROM v{digits}_{scale}").to_arrow()
            path = next(tmp_path.rglob(f"t{digits}_{scale}"))
            expected = lake.spark.sql(f"SELECT k, {means} FROM delta.`{path}` GROUP BY k").toArrow()
            assert found.schema.types == expected.schema.types
            assert found.sort_by("k").to_pylist() == expected.sort_by("k").to_pylist()
    assert moves == {"moved": 3 * len(shapes)}


def drawn_decimals(random: Random, digits: int, scale: int) -> pa.Table:
    """Return rows of 100 keys with decimals of any length, and NULL."""
    wide = decimal.Context(prec=60)
    rows: list[tuple[datetime, int, decimal.Decimal | None]] = []
    for key in range(100):
        for _ in range(random.randint(1, 4)):
            most = 10 ** random.choice([1, 2, digits, random.randint(1, digits)]) - 1
            x = decimal.Decimal(random.randint(-most, most)).scaleb(-scale, wide)
            at = datetime.fromtimestamp(random.randint(0, 10**9), UTC)
            rows.append((at, key, None if random.random() < 0.1 else x))
    kinds = {"ts": pa.timestamp("us", "UTC"), "k": pa.int32(), "x": pa.decimal128(digits, scale)}
    columns = zip(zip(*rows, strict=True), kinds.items(), strict=True)
    return pa.table({name: pa.array(values, kind) for values, (name, kind) in columns})


def test_a_view_that_kept_no_means_of_decimals_goes_on_without() -> None:
    select = exp.maybe_parse("SELECT k, avg(x) AS mean FROM t GROUP BY k", into=exp.Select, dialect="spark")
    (mean,) = select.find_all(exp.Avg)
    keeping = kept.Keeping(
        select, "0L", ("k",), (mean,), (exp.column("_ls_k1"), exp.column("_ls_a1")), None, {}
    )
    types = {"_ls_k1": "int", "_ls_x1": "decimal(10,2)", "n": "bigint"}
    with pytest.raises(kept.NotKeptError, match="which was not when the view was created"):
        keeping.kept(types)
    assert keeping.kept({**types, "_ls_m1": "decimal(14,6)"}).means[0].type == "decimal(14,6)"
