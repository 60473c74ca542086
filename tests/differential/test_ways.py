"""However a calculation is evaluated, its rows are the same: each way against the one that takes anything."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from lakestream import Lake, Settings
from lakestream.compute.windows.evaluate import Way
from lakestream.engine.creation import compile as compiling
from lakestream.engine.reading import transport
from lakestream.storage.delta import read_arrow
from lakestream.storage.sessions import session
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    Calculated = tuple[str, str, Way]

TABLES = """
CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (g INT);
CREATE TABLE a USING meters TAGS (1); CREATE TABLE b USING meters TAGS (2);
CREATE TABLE ref (ts TIMESTAMP, p INT);
CREATE TABLE sites (ts TIMESTAMP, name VARCHAR(5) COMPOSITE KEY, factor INT)
"""
COMMITS = """
INSERT INTO sites VALUES ('2025-01-01', 'a', 2) ('2025-01-01', 'b', NULL)
INSERT INTO ref VALUES ('2025-01-01 08:00:01', 2) ('2025-01-01 08:00:12', 5) ('2025-01-01 08:00:20', 7)
INSERT INTO a VALUES ('2025-01-01 08:00:00', 1) ('2025-01-01 08:00:03', 2) ('2025-01-01 08:00:12', 1)
INSERT INTO b VALUES ('2025-01-01 08:00:04.999', NULL) ('2025-01-01 08:00:05', 2) ('2025-01-01 08:00:21', 1)
INSERT INTO a VALUES ('2025-01-01 08:00:10', 5) ('2025-01-01 08:00:40', 1)
INSERT INTO b VALUES ('2025-01-01 08:00:06', 2) ('2025-01-01 08:00:55', 3); DELETE FROM a WHERE v = 2
INSERT INTO sites VALUES ('2025-01-01', 'b', 3)
""".strip().splitlines()
JOINED = "FROM %%tbname m {kind} JOIN sites s ON s.name = %%1 WHERE m.ts >= _twstart AND m.ts < _twend"
KEYED = "ws, k COMPOSITE KEY, n"
TOP = "p % 2 AS k, count(*) AS n FROM ref WHERE ts >= _twstart"
CALCULATIONS = (
    ("ws, n, top", "count(*), max(p) FROM ref WHERE ts >= _twstart AND ts < _twend", Way.JOINED),
    ("ws, n, x", f"count(*), sum(m.v * s.factor) {JOINED}", Way.JOINED),
    (KEYED, f"m.v, count(s.factor) {JOINED} GROUP BY m.v", Way.BESIDE),
    (
        KEYED,
        f"m.v AS u, count(*) {JOINED} AND s.factor > 1 GROUP BY u HAVING count(*) < _twrownum + 1",
        Way.BESIDE,
    ),
    (KEYED, "v + 1, avg(v) FROM %%trows GROUP BY 2", Way.BESIDE),
    (KEYED + ", until", "v, count(*), _twend FROM %%trows GROUP BY v HAVING count(*) >= 1", Way.BESIDE),
    (
        KEYED,
        (
            "r.p, count(m.v) FROM ref r LEFT JOIN meters m ON m.ts > r.ts AND m.tbname = %%1 "
            "WHERE r.ts >= _twstart AND r.ts < _twend GROUP BY r.p"
        ),
        Way.BESIDE,
    ),
    (KEYED, f"{TOP} AND ts < _twend GROUP BY p % 2 ORDER BY n DESC, k LIMIT 1", Way.NUMBERED),
    ("ws, n, top", "count(*), max(p) FROM ref WHERE ts >= _twstart - 7s AND ts <= _twend", Way.NUMBERED),
    ("ws, n, top", "count(*), max(v) FROM %%tbname WHERE ts > _twend - 8s AND ts <= _twend", Way.NUMBERED),
    (
        KEYED,
        (
            "r.p, count(m.v) FROM ref r JOIN %%tbname m ON m.ts >= _twstart AND m.ts < _twend "
            "WHERE r.ts >= _twstart - 20s AND r.ts < _twstart GROUP BY r.p HAVING count(*) > 0 "
            "ORDER BY r.p LIMIT 2"
        ),
        Way.NUMBERED,
    ),
    (
        KEYED,
        (
            "p, n FROM (SELECT p, row_number() OVER (ORDER BY p) AS n FROM ref "
            "WHERE ts >= _twstart AND ts < _twend) UNION ALL SELECT _twend, v, 0 FROM %%tbname "
            "WHERE ts >= _twstart AND ts < _twend AND v > 4"
        ),
        Way.NUMBERED,
    ),
)
"""The columns of an output, what is calculated for them, and the way it goes."""
KINDS = ("", "LEFT")
WINDOWS = (
    ("INTERVAL(10s) SLIDING(10s)", "IGNORE_NODATA_TRIGGER"),
    pytest.param("INTERVAL(10s) SLIDING(4s)", "IGNORE_NODATA_TRIGGER|EXACT(ALL)", marks=pytest.mark.long),
    pytest.param("INTERVAL(4s) SLIDING(10s)", "EXACT", marks=pytest.mark.long),
)


SPANS = (
    ("ws, n, top", "count(*), max(v) FROM %%tbname WHERE ts >= _twstart AND ts <= _twend", Way.NUMBERED),
    (
        KEYED,
        "v, count(*) FROM %%tbname WHERE ts > _twstart - 9s AND ts <= _twend GROUP BY v ORDER BY v LIMIT 2",
        Way.NUMBERED,
    ),
    ("ws, n", "count(*) FROM ref WHERE ts >= _twstart AND ts <= _twend", Way.LATERAL),
)
"""Calculations of windows that groups have of their own: other tables would be read for all groups."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every way be one that small ticks go in this process."""
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: pytest.fail("Spark is asked"))


def _rows(
    folder: Path, windows: str, options: str, calculations: Sequence[Calculated] = CALCULATIONS
) -> dict[str, object]:
    """Run streams of all calculations over the commits; return what each wrote, by its name and way."""
    found: dict[str, object] = {}
    with without_spark(), Lake(folder, settings=Settings()) as lake:
        lake.sql(TABLES)
        for number, (columns, text, _) in enumerate(calculations):
            for kind in KINDS if "{kind}" in text else ("",):
                lake.sql(
                    f"CREATE STREAM s{number}{kind} {windows} FROM meters PARTITION BY tbname "
                    f"{options} INTO o{number}{kind} ({columns}) "
                    f"AS SELECT _twstart, {text.format(kind=kind)}"
                )
        for commit in COMMITS:
            lake.sql(commit)
            assert lake.run().failed == []
        for stream in lake.streams():
            way = dict(lake.explain(stream.name).fetchall())["compute"]
            output = f"o{stream.name[1:]}"
            found[f"{stream.name} {way}"] = lake.sql(f"SELECT * FROM {output} ORDER BY ALL").fetchall()
    return found


def _check(folder: Path, windows: str, options: str, calculations: Sequence[Calculated]) -> None:
    """Hold the rows of all calculations against those by the way that takes anything."""
    chosen = _rows(folder / "chosen", windows, options, calculations)
    with patch.object(compiling, "choose_way", lambda *_, **__: Way.LATERAL):
        lateral = _rows(folder / "lateral", windows, options, calculations)
    ways = {name.split()[0].rstrip("LEFT"): name.split()[1] for name in chosen}
    assert ways == {f"s{number}": way for number, (_, _, way) in enumerate(calculations)}
    assert {name.split()[0]: rows for name, rows in chosen.items()} == {
        name.split()[0]: rows for name, rows in lateral.items()
    }
    assert all(chosen.values())


@pytest.mark.parametrize(("windows", "options"), WINDOWS)
def test_a_way_gives_the_rows_of_the_one_that_takes_anything(
    tmp_path: Path, windows: str, options: str
) -> None:
    _check(tmp_path, windows, f"STREAM_OPTIONS({options})", CALCULATIONS)


@pytest.mark.parametrize("options", ["STREAM_OPTIONS(EXACT)", pytest.param("", marks=pytest.mark.long)])
def test_windows_of_groups_find_the_rows_of_their_own_tables(tmp_path: Path, options: str) -> None:
    # EXACT cannot follow rows before a window that rows cut.
    spans = [span for span in SPANS if "EXACT" not in options or "_twstart - 9s" not in span[1]]
    _check(tmp_path, "SESSION(ts, 6s)", options, spans)


def test_of_groups_whose_windows_are_computed_again_no_others_are_read(tmp_path: Path) -> None:
    read: list[int] = []

    def counted(*args: Any, **given: Any) -> pa.Table:
        rows = read_arrow(*args, **given)
        read.append(rows.num_rows)
        return rows

    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        for number, source in enumerate(("%%trows", "%%tbname WHERE ts >= _twstart AND ts < _twend")):
            lake.sql(
                f"CREATE STREAM s{number} INTERVAL(10s) SLIDING(10s) FROM meters PARTITION BY tbname, g "
                f"STREAM_OPTIONS(EXACT) INTO o{number} (ws, n, x) "
                f"AS SELECT _twstart, count(*), sum(v) FROM {source}"
            )
        lake.sql(COMMITS[2] + ";" + COMMITS[3] + "; INSERT INTO b VALUES ('2025-01-01 08:01:00', 1)")
        assert lake.run().failed == []
        lake.sql("CREATE TABLE `it's` USING meters TAGS (NULL)")
        lake.sql("INSERT INTO `it's` VALUES ('2025-01-01 08:00:01', 7) ('2025-01-01 08:00:31', 7)")
        lake.sql("INSERT INTO a VALUES ('2025-01-01 08:00:01', 4)")
        assert lake.run().failed == []
        lake.sql("INSERT INTO `it's` VALUES ('2025-01-01 08:00:02', 8)")
        with patch.object(transport, "read_arrow", counted):
            assert lake.run().failed == []
        assert sorted(read) == [2, 2]
        outputs = (lake.sql(f"SELECT ws, n, x, g FROM o{n} ORDER BY ws, n, g").fetchall() for n in (0, 1))
        first, second = outputs
        assert first == second
        assert [row[1:] for row in first if row[1] and row[3] is None] == [(2, 15, None)]


CUTS = (
    "SESSION(ts, 4s)",
    "STATE_WINDOW(gid)",
    "EVENT_WINDOW(START WITH gid > 1 END WITH gid = 0)",
    "COUNT_WINDOW(3)",
)
"""Windows that rows cut, by a column with the name of one of the tick's own."""


def _cut(folder: Path, settings: Settings, read: list[int]) -> dict[str, list[tuple[Any, ...]]]:
    """Run streams of all cuts over commits in order, each tick in a lake that is opened anew."""

    def counted(*args: Any, **given: Any) -> pa.Table:
        rows = read_arrow(*args, **given)
        read.append(rows.num_rows)
        return rows

    values = cycle((1, 2, 2, 0, "NULL", 1, 3))
    with without_spark():
        with Lake(folder, settings=settings) as lake:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, gid INT) TAGS (mark VARCHAR(5))")
            for name, mark in (("a", "'x'"), ("b", "NULL"), ("c", "''")):
                lake.sql(f"CREATE TABLE {name} USING meters TAGS ({mark})")
            for number, clause in enumerate(CUTS):
                lake.sql(
                    f"CREATE STREAM s{number} {clause} FROM meters PARTITION BY tbname, mark INTO o{number} "
                    f"AS SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(gid) AS total FROM %%trows"
                )
        for commit in range(4):
            with Lake(folder, settings=settings) as lake:
                for name in "abc":
                    rows = (
                        f"('2025-01-01 08:{commit:02}:{second:02}', {next(values)})"
                        for second in SECONDS[name]
                    )
                    lake.sql(f"INSERT INTO {name} VALUES {' '.join(rows)}")
                with patch.object(transport, "read_arrow", counted):
                    assert lake.run().failed == []
        with Lake(folder, settings=settings) as lake:
            return {
                clause: lake.sql(
                    f"SELECT tbname, ws, we, n, total, mark FROM o{number} ORDER BY ALL"
                ).fetchall()
                for number, clause in enumerate(CUTS)
            }


SECONDS = {"a": (0, 1, 2, 9, 11, 30, 59), "b": (0, 3, 6, 20, 57, 58), "c": (5, 17, 18, 58)}


def test_many_rows_in_order_are_cut_as_few_are_and_are_not_read_again(tmp_path: Path) -> None:
    few: list[int] = []
    many: list[int] = []
    found = _cut(tmp_path / "many", Settings(small_rows=0), many)
    assert found == _cut(tmp_path / "few", Settings(), few)
    assert all(found.values())
    assert sorted(few) == sorted(many)
