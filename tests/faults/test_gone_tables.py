"""Folders of tables that go, are emptied, or become another table: named, and led out of, without Spark.

Each damage of each kind of table, in the process that has read it and in another one. The judge is DuckDB.
"""

from __future__ import annotations

import shutil
from itertools import product
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.clock import SystemClock
from lakestream.engine.recalculation.resync import Resync
from lakestream.errors import StreamError
from lakestream.lake import Lake
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults
CLOCK = SystemClock()

_OF_MINUTE = "INTERVAL(1m) SLIDING(1m) FROM a"
_RESULT = "SELECT _twstart AS w, sum(v) AS s FROM %%trows"
_EXACT = "STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER)"
TABLES = f"""
CREATE STABLE a (ts TIMESTAMP, v INT) TAGS (n INT);
CREATE STREAM plain {_OF_MINUTE} {_EXACT} INTO plain_o AS {_RESULT};
CREATE STREAM parted {_OF_MINUTE} PARTITION BY n {_EXACT} INTO parted_o PARTITIONED BY (n) AS {_RESULT};
CREATE STREAM counted COUNT_WINDOW(2) FROM a PARTITION BY tbname INTO counted_o AS {_RESULT};
CREATE STREAM held {_OF_MINUTE} {_EXACT} EXPECT small CHECK (v < 50) ON VIOLATION QUARANTINE
  INTO held_o AS {_RESULT};
CREATE STREAM x {_OF_MINUTE} PARTITION BY tbname {_EXACT}
  INTO shared OUTPUT_SUBTABLE(concat('x_', tbname)) AS {_RESULT};
CREATE STREAM y {_OF_MINUTE} PARTITION BY tbname {_EXACT}
  INTO shared OUTPUT_SUBTABLE(concat('y_', tbname)) AS {_RESULT};
"""
_SUMS = """
SELECT {key}date_trunc('minute', ts) AS w, sum(v) FROM {rows}
WHERE date_trunc('minute', ts) + INTERVAL 1 MINUTE <= (SELECT max(ts) FROM {rows}) GROUP BY ALL ORDER BY ALL
"""
_COUNTED = """
SELECT tbname, min(ts) AS w, sum(v) FROM (
  SELECT *, row_number() OVER (PARTITION BY tbname ORDER BY ts) - 1 AS i FROM a
) GROUP BY tbname, i // 2 HAVING count(*) = 2 ORDER BY ALL
"""
_TWICE = "(SELECT *, p || '_' || tbname AS name FROM a, (VALUES ('x'), ('y')) p(p))"
JUDGED = {
    "plain_o": ("w, s", _SUMS.format(key="", rows="a")),
    "parted_o": ("n, w, s", _SUMS.format(key="n, ", rows="a")),
    "counted_o": ("tag_tbname, w, s", _COUNTED),
    "held_o": ("w, s", _SUMS.format(key="", rows="(SELECT * FROM a WHERE v < 50)")),
    "held__quarantine": ("ts, v", "SELECT ts, v FROM a WHERE v >= 50 ORDER BY ALL"),
    "shared": ("tbname, w, s", _SUMS.format(key="name, ", rows=_TWICE)),
}
"""By table, what of it is held against what DuckDB makes of the source."""
WRITERS = {
    "plain_o": ("plain",),
    "parted_o": ("parted",),
    "counted_o": ("counted",),
    "held_o": ("held",),
    "held__quarantine": ("held",),
    "shared": ("x", "y"),
    "a": ("plain", "parted", "counted", "held", "x", "y"),
}


class Story:
    """A lake whose source gets three rows a minute, one of which is expected to be less."""

    def __init__(self, root: Path) -> None:
        self.root, self.minutes = root, 0
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for _ in range(3):
            self.come()
            self.lake.run()

    def come(self) -> None:
        """Let the rows of a minute come."""
        rows = [
            {"tbname": f"t{n}", "n": n, "ts": f"2026-01-01 00:{self.minutes:02}:{second:02}", "v": value}
            for n, second, value in ((1, 1, self.minutes), (2, 31, 7), (1, 41, 50 + self.minutes))
        ]
        self.lake.insert("a", rows)
        self.minutes += 1

    def reopen(self) -> None:
        self.lake.close()
        self.lake = Lake(self.root)

    def path(self, table: str) -> Path:
        return self.root / "main" / table

    def states(self) -> dict[str, str]:
        return {
            one.name: f"{one.status} {(one.last_error or '').partition(':')[0]}".strip()
            for one in self.lake.streams()
        }

    def wrong(self) -> list[str]:
        """Return the tables whose rows are not what DuckDB makes of the source."""
        with duckdb.connect() as judge:
            judge.execute("SET timezone = 'UTC'")
            for table in ("a", *JUDGED):
                judge.register(table, DeltaTable(str(self.path(table))).to_pyarrow_table())
            return [
                table
                for table, (columns, query) in JUDGED.items()
                if judge.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
                != judge.execute(query).fetchall()
            ]

    def resync(self, names: Iterable[str]) -> None:
        """Have streams computed anew, and let rows of another minute come."""
        for name in names:
            self.lake.sql(f"RECALCULATE STREAM {name} RESYNC")
        self.come()
        self.go_on()

    def go_on(self) -> None:
        """Go on until no stream stands still: what is Retrying is tried again after a pause."""
        for _ in range(40):
            self.lake.run()
            if set(self.states().values()) == {"Running"}:
                return
            CLOCK.sleep(0.1)


def remove(table: Path) -> None:
    shutil.rmtree(table)


def remove_log(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")


def empty(table: Path) -> None:
    remove(table)
    table.mkdir()


def remove_entries(table: Path) -> None:
    """Leave the folder of the log, and nothing in it."""
    remove_log(table)
    (table / "_delta_log").mkdir()


def move(table: Path) -> None:
    table.rename(table.with_name("moved"))


def _another(table: Path, rows: int) -> None:
    """Put another table of the same columns and properties in its place, as another lake would have it."""
    old = DeltaTable(str(table))
    kept, parted = old.to_pyarrow_table(), old.metadata().partition_columns
    properties = old.metadata().configuration
    remove(table)
    write_deltalake(
        str(table),
        kept.slice(0, rows),
        partition_by=parted or None,
    )
    DeltaTable(str(table)).alter.set_table_properties(properties, raise_if_not_exists=False)


def replace_by_empty(table: Path) -> None:
    _another(table, 0)


def replace_by_copy(table: Path) -> None:
    """The rows are the same, and whoever wrote them is not the stream."""
    _another(table, 1 << 30)


def replace_by_longer(table: Path) -> None:
    """Have the other table more commits than the stream has seen."""
    _another(table, 0)
    for number in range(30):
        DeltaTable(str(table)).alter.set_table_properties({"theirs": str(number)}, raise_if_not_exists=False)


GONE: dict[str, Callable[[Path], None]] = {
    "folder removed": remove,
    "log removed": remove_log,
    "emptied": empty,
    "entries removed": remove_entries,
    "moved away": move,
}
REPLACED: dict[str, Callable[[Path], None]] = {
    "another, empty": replace_by_empty,
    "another, of the same rows": replace_by_copy,
    "another, with a longer log": replace_by_longer,
}
DAMAGES = {**GONE, **REPLACED}


CASES = [
    case
    for case in product(WRITERS, DAMAGES, ("resync", "put back"), (False, True))
    if (case[0], case[2]) != ("a", "resync") or case[1] not in GONE  # there is nothing to compute from
    if case[0] != "held__quarantine" or case[1] in GONE
]


def named(table: str, damage: str) -> str:
    """Return the state that the streams of a damaged table are in."""
    if table == "a":
        return "Failed TABLE_NOT_FOUND" if damage in GONE else "Failed SOURCE_REPLACED"
    return "Failed OUTPUT_GONE" if damage in GONE else "Failed OUTPUT_REPLACED"


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "lake")
    yield told
    told.lake.close()


EACH_TIME = {
    ("plain_o", "folder removed", "resync", False),
    ("parted_o", "log removed", "put back", True),
    ("shared", "folder removed", "resync", True),
    ("shared", "another, empty", "resync", False),
    ("held__quarantine", "folder removed", "resync", False),
    ("a", "emptied", "put back", False),
    ("counted_o", "log removed", "resync", False),
}


@pytest.mark.parametrize(
    ("table", "damage", "way", "anew"),
    leaving(CASES, lambda case: case not in EACH_TIME),
)
def test_a_table_that_goes_is_named_and_led_out_of(
    story: Story, tmp_path: Path, table: str, damage: str, way: str, *, anew: bool
) -> None:
    story.come()
    shutil.copytree(story.path(table), tmp_path / "kept")
    if anew:
        story.reopen()
    DAMAGES[damage](story.path(table))
    story.lake.run()
    state = named(table, damage)
    assert story.states() == {name: state if name in WRITERS[table] else "Running" for name in story.states()}
    assert {(one.where, one.code) for one in story.lake.repair.check()} >= {
        (f"main.{name}", state.removeprefix("Failed ")) for name in WRITERS[table]
    } or damage == "moved away"
    if way == "put back":
        shutil.rmtree(story.path(table), ignore_errors=True)
        shutil.copytree(tmp_path / "kept", story.path(table))
        for name in WRITERS[table]:
            story.lake.sql(f"START STREAM {name}")
        story.come()
        story.go_on()
    else:
        story.resync(WRITERS[table])
    assert set(story.states().values()) == {"Running"}
    if table == "a" and damage != "another, of the same rows" and way == "resync":
        return  # what the source had is given up
    assert story.wrong() == []
    assert [*story.lake.repair.check()] == []


LEFT_OUT = """
CREATE TABLE ev (ts TIMESTAMP, n STRING, v INT);
CREATE STREAM other INTERVAL(1m) SLIDING(1m) FROM ev INTO other_o
  AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
"""
ERRORS_CASES = [*product(GONE, ("resync", "put back"), (False, True))]


@pytest.mark.parametrize(
    ("damage", "way", "anew"),
    leaving(
        ERRORS_CASES,
        lambda case: case not in {("folder removed", "put back", True), ("log removed", "resync", False)},
    ),
)
def test_rows_left_out_that_go_are_named_and_led_out_of(
    tmp_path: Path, damage: str, way: str, *, anew: bool
) -> None:
    """The table of rows that were left out is not begun anew behind the back of who reads it."""
    root, errors = tmp_path / "lake", tmp_path / "lake" / "main" / "late__errors"
    lake = Lake(root)

    def come(minute: int) -> None:
        """Let the row of a minute come, and one that is late."""
        lake.insert("ev", [{"ts": f"2026-01-01 00:{minute:02}:00", "n": "a", "v": 1}])
        lake.run()
        lake.insert("ev", [{"ts": f"2025-01-01 00:{minute:02}:00", "n": "late", "v": 1}])
        lake.run()

    def states() -> dict[str, str]:
        return {
            s.name: f"{s.status} {(s.last_error or '').partition(':')[0]}".strip() for s in lake.streams()
        }

    def left_out() -> int:
        return len(DeltaTable(str(errors)).to_pyarrow_table())

    try:
        lake.sql(LEFT_OUT)
        lake.sql(
            "CREATE STREAM late WITH (TIMESTAMP='ts') INTO late_o AS "
            "SELECT sum(v) AS s FROM ev GROUP BY TUMBLINGWINDOW(mi, 1)",
            dialect="ekuiper",
        )
        for minute in range(3):
            come(minute)
        assert left_out() == 3
        if anew:
            lake.close()
        shutil.copytree(errors, tmp_path / "kept")
        GONE[damage](errors)
        if anew:
            lake = Lake(root)
        come(3)
        assert states() == {"late": "Failed OUTPUT_GONE", "other": "Running"}
        assert ("main.late", "OUTPUT_GONE") in {(one.where, one.code) for one in lake.repair.check()}
        if way == "put back":
            shutil.rmtree(errors, ignore_errors=True)
            shutil.copytree(tmp_path / "kept", errors)
            lake.sql("START STREAM late")
        else:
            lake.sql("RECALCULATE STREAM late RESYNC")
            lake.run()
        come(4)
        assert states() == {"late": "Running", "other": "Running"}
        assert left_out() == (5 if way == "put back" else 1)
        if damage != "moved away":
            assert [*lake.repair.check()] == []
        lake.sql("DROP TABLE late__errors")  # by a statement: it is made again
        come(5)
        assert states() == {"late": "Running", "other": "Running"}
        assert left_out() == 1
    finally:
        lake.close()


def test_a_resync_that_fails_is_not_tried_for_ever(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    remove(story.path("plain_o"))
    calls: list[int] = []
    resync = Resync.run

    def failing(self: Resync, now_us: int, clock_us: int) -> int:
        calls.append(now_us)
        if len(calls) > 3:  # else a run that goes on for ever would
            return resync(self, now_us, clock_us)
        raise StreamError("CALCULATION_FAILED", "as often as it is tried")

    with monkeypatch.context() as patch:
        patch.setattr(Resync, "run", failing)
        story.lake.sql("RECALCULATE STREAM plain RESYNC")
        for _ in range(2):
            story.lake.run()
    assert len(calls) == 1
    assert story.states()["plain"] == "Failed CALCULATION_FAILED"
    story.lake.sql("START STREAM plain")  # what was asked for is taken up
    story.come()
    story.go_on()
    assert set(story.states().values()) == {"Running"}
    assert story.wrong() == []


def test_tables_that_statements_drop_are_made_again(story: Story) -> None:
    with Lake(story.root) as other:
        for table in JUDGED:
            other.sql(f"DROP TABLE {table}")
    story.come()
    story.lake.run()
    assert set(story.states().values()) == {"Running"}
    story.resync(WRITERS["a"])
    assert story.wrong() == []
