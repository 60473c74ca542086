"""Each call of a statement to the storage fails in its turn: it is done or it is not, and says what is true.

Given again it does what it was to do, or says that this is done; what comes of the lake then is what comes
of it where nothing has failed. No Spark.
"""

from __future__ import annotations

import resource
import shutil
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings
from tests.faults.test_nth_call import ERRORS, Storage, storage
from tests.notify.catcher import Catcher
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["storage"]
pytestmark = pytest.mark.faults

MADE = """
CREATE TABLE a (ts TIMESTAMP, v INT, g VARCHAR(4));
CREATE TABLE n (ts TIMESTAMP, x INT);
CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (site VARCHAR(8));
CREATE TABLE m0 USING m TAGS ('s0');
CREATE DATABASE other;
CREATE TABLE other.t (ts TIMESTAMP, v INT);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a INTO o AS SELECT _twstart AS w, count(*) AS n FROM %%trows;
CREATE STREAM told INTERVAL(1m) SLIDING(1m) FROM a NOTIFY('{url}') ON (WINDOW_CLOSE) INTO ot AS
  SELECT _twstart AS w, count(*) AS n FROM %%trows;
CREATE MATERIALIZED VIEW mv AS SELECT g, count(*) AS n FROM a GROUP BY g;
"""
OF_ROWS = "AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
EVERY_MINUTE = "STREAM z INTERVAL(1m) SLIDING(1m) FROM a"
STATEMENTS = {
    "stream": f"CREATE {EVERY_MINUTE} INTO oz {OF_ROWS}",
    "history": f"CREATE {EVERY_MINUTE} STREAM_OPTIONS(FILL_HISTORY) INTO oz {OF_ROWS}",
    "notified": f"CREATE {EVERY_MINUTE} NOTIFY('{{url}}') ON (WINDOW_CLOSE) INTO oz {OF_ROWS}",
    "quarantined": f"CREATE {EVERY_MINUTE} EXPECT e CHECK (v < 3) ON VIOLATION QUARANTINE INTO oz {OF_ROWS}",
    "another stream": f"CREATE OR REPLACE STREAM s INTERVAL(2m) SLIDING(2m) FROM a INTO o {OF_ROWS}",
    "no stream": "DROP STREAM s",
    "no notified": "DROP STREAM told",
    "stopped": "STOP STREAM s",
    "anew": "RECALCULATE STREAM s FROM '2026-01-01'",
    "view": "CREATE MATERIALIZED VIEW z AS SELECT g, sum(v) AS t FROM a GROUP BY g",
    "no view": "DROP MATERIALIZED VIEW mv",
    "table": "CREATE TABLE z (ts TIMESTAMP, v INT)",
    "no table": "DROP TABLE n",
    "subtable": "CREATE TABLE m1 USING m TAGS ('s1')",
    "rows of a subtable": "INSERT INTO m1 USING m TAGS ('s1') VALUES ('2026-01-01 00:00:00', 1)",
    "no subtable": "DROP TABLE m0",
    "no super table": "DROP STABLE m",
    "database": "CREATE DATABASE z",
    "no database": "DROP DATABASE other",
    "rows": "INSERT INTO n VALUES ('2026-01-01 00:00:00', 9)",
    "other rows": "UPDATE a SET v = v * 0 WHERE g = 'y'",
    "no rows": "DELETE FROM a WHERE v = 1",
    "column": "ALTER TABLE a ADD COLUMN z INT",
    "tag": "ALTER STABLE m ADD TAG z INT",
}
DONE = {
    *("STREAM_ALREADY_EXISTS", "STREAM_NOT_FOUND", "TABLE_EXISTS", "TABLE_NOT_FOUND"),
    *("DATABASE_EXISTS", "DATABASE_NOT_FOUND", "DUPLICATE_COLUMN"),
}
"""What a statement says that is done already."""
SETTINGS = Settings(notify_hosts=("localhost",))


def opened(root: Path) -> Lake:
    return Lake(root, settings=SETTINGS)


def insert(lake: Lake, minute: int) -> None:
    rows = (("x", "00", 1), ("y", "30", minute))
    lake.insert("a", [{"ts": f"2026-01-01 00:0{minute}:{s}", "v": v, "g": g} for g, s, v in rows])


def come(lake: Lake, *minutes: int) -> None:
    """Let rows of these minutes come, and be taken."""
    for minute in minutes:
        insert(lake, minute)
        lake.run()


def contents(root: Path, lake: Lake) -> dict[str, Any]:
    """Return what there is in a lake: its streams, and the rows of its tables."""
    found: dict[str, Any] = {one.name: one.status for one in lake.streams()}
    found["tables"] = sorted(str(row[:2]) for row in lake.sql("SHOW TABLES").fetchall())
    found["databases"] = sorted(row[0] for row in lake.sql("SHOW DATABASES").fetchall())
    for log in root.glob("[!_]*/*/_delta_log"):
        rows = DeltaTable(str(log.parent)).to_pyarrow_table().to_pylist()
        shown = [{key: row[key] for key in row if key[:1] != "_" and key[:4] != "quar"} for row in rows]
        found[log.parent.name] = sorted(map(str, shown))
    return found


def is_as(text: str, lake: Lake) -> str:
    """Run a statement, none being a round; return "" where it is done, else the code of what it says."""
    try:
        if text:
            lake.sql(text)
        else:
            lake.run()
    except LakestreamError as error:
        return error.code
    return ""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A lake of every kind, and the url that one of its streams tells."""
    root, caught = tmp_path_factory.mktemp("made") / "lake", Catcher()
    with opened(root) as lake, without_spark():
        lake.sql(MADE.format(url=caught.url))
        come(lake, 0, 1, 2)
    yield root, caught.url
    caught.close()


@contextmanager
def breaking_off(size: int) -> Iterator[None]:
    """Have each file that is written end at a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def after(
    made: tuple[Path, str],
    root: Path,
    name: str,
    fails: AbstractContextManager[None] | None = None,
    *,
    anew: bool = False,
) -> dict[str, Any]:
    """Return what a lake has after a statement that failed and was given again, and rows that came since.

    ``anew``: the lake is opened anew between.
    """
    base, url = made
    shutil.copytree(base, root)
    lake = opened(root)
    insert(lake, 3)
    text = STATEMENTS.get(name, "").format(url=url)
    with fails or nullcontext():
        failed = is_as(text, lake)
    if anew:
        with suppress(LakestreamError):
            lake.close()
        lake = opened(root)
    again = is_as(text, lake) if failed else ""
    assert again in {"", *DONE}, failed
    come(lake, 4, 5)
    assert [*lake.repair.check()] == [], failed
    found = contents(root, lake)
    lake.close()
    shutil.rmtree(root)
    return found


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("does", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("step", [29, 1])
def test_a_statement_is_done_or_not_whichever_call_fails(
    made: tuple[Path, str], tmp_path: Path, storage: Storage, name: str, does: bool, step: int
) -> None:
    number = 1
    wanted = after(made, tmp_path / "plain", name)
    while True:
        fails = storage.failing(number, ERRORS["damaged"], does=does)
        assert after(made, tmp_path / str(number), name, fails, anew=number % 2 > 0) == wanted, number
        if storage.count < number:
            break
        number += step


@pytest.mark.parametrize("name", [*STATEMENTS, "round"])
@pytest.mark.parametrize("size", [0, 100, 700, 1_300, 2_500, 5_000])
def test_a_statement_is_done_or_not_where_files_break_off(
    made: tuple[Path, str], tmp_path: Path, name: str, size: int
) -> None:
    wanted = after(made, tmp_path / "plain", name)
    for anew in (False, True):
        assert after(made, tmp_path / str(anew), name, breaking_off(size), anew=anew) == wanted
