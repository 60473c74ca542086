"""EXACT streams whose query reads the trigger table itself, with rows in it that the trigger does not see.

Each history is told to a lake that runs after every commit; another lake is given the last rows in one
commit. The outputs are the same, or the stream is refused by name. All of it without Spark.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from lakestream import Lake, Settings
from lakestream.errors import LakestreamError
from lakestream.storage.sessions import session
from tests.properties.followed import without_spark
from tests.properties.twins import AskedSpark, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = "CREATE TABLE src (ts TIMESTAMP, site VARCHAR(8) COMPOSITE KEY, v INT, b BOOLEAN)"
START = datetime(2025, 1, 1, 8, tzinfo=UTC)
GRID = (
    "INTERVAL(7s) SLIDING(7s)",
    "INTERVAL(10s) SLIDING(4s)",
    "INTERVAL(3s) SLIDING(8s)",
    "SLIDING(6s)",
)
CUT = (
    "SESSION(ts, 3s)",
    "STATE_WINDOW(v)",
    "EVENT_WINDOW(START WITH v >= 1 END WITH v >= 2)",
    "COUNT_WINDOW(3)",
    "COUNT_WINDOW(3, 1)",
)
READS = (
    "{low} < ts AND ts <= {high}",
    "ts >= {low} AND ts < {high}",
    "ts >= {low} - INTERVAL 9 SECONDS AND ts < {high}",
    "ts >= {low} AND ts < {high} AND site = 'a'",
)
BOUNDS = (("_twstart", "_twend"), ("_tprev_ts", "_tcurrent_ts"))
"""What bounds a window, and what an instant of SLIDING looks back on."""
AROUND = (
    *READS,
    "ts > {high} - INTERVAL 12 SECONDS AND ts <= {low} + INTERVAL 5 SECONDS",
    "ts >= {low} AND ts < {low} + INTERVAL 4 SECONDS",
)
"""What a window that opens sees: it ends where it starts."""
EVENTS = ("WINDOW_OPEN", "WINDOW_OPEN | WINDOW_CLOSE")
OPTIONS = ("EXACT", "EXACT(src)", "EXACT(ALL)", "EXACT(ALL, WITHIN 1d)")
Row = dict[tuple[int, str], tuple[int | None, bool | None]]


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    """Have the small path alone compute."""
    with without_spark(), patch.object(session, "spark_session", refuse):
        yield


def drawn_stream(random: Random, triggers: tuple[str, ...], *, opens: bool = False) -> str:
    """Draw a stream of the table; ``opens``: one that computes as windows open."""
    trigger = random.choice(triggers)
    low, high = BOUNDS[trigger.startswith("SLIDING")]
    where = random.choice(AROUND if opens else READS).format(low=low, high=high)
    groups = random.choice(("", "", "PARTITION BY site "))
    if groups and random.random() < 0.5:
        where += " AND site = %%1"
    options = [random.choice((*OPTIONS, "EXACT", "EXACT"))]
    options += ["PRE_FILTER(v >= 1 OR b)"] * (random.random() < 0.7)
    options += ["IGNORE_NODATA_TRIGGER"] * (trigger in GRID and random.random() < 0.3)
    options += ["WATERMARK(2s)"] * (random.random() < 0.2)
    if opens:  # its rows go by its start
        high, options = "_twstart", [*options, f"EVENT_TYPE({random.choice(EVENTS)})"]
    return (
        f"CREATE STREAM s {trigger} FROM src {groups}STREAM_OPTIONS({' | '.join(options)}) INTO o "
        f"(at, n, total, most) AS SELECT {high}, count(*), sum(v), max(v) FROM src WHERE {where}"
    )


def drawn_commits(random: Random) -> Iterator[tuple[str, Row]]:
    """Draw statements, each with the rows that are there behind it."""
    rows: Row = {}
    for number in range(random.randint(4, 9)):
        if number > 1 and random.random() < 0.25:
            at, site = random.choice(sorted(rows))
            del rows[at, site]
            yield f"DELETE FROM src WHERE ts = {_time(at)} AND site = '{site}'", dict(rows)
            continue
        drawn = {
            (random.randint(0, 10 + 8 * number), random.choice("ab")): (
                random.choice((None, 0, 0, 1, 2)),
                random.choice((None, False, False, True)),
            )
            for _ in range(random.randint(1, 3))
        }
        rows |= drawn
        yield f"INSERT INTO src VALUES {_values(drawn)}", dict(rows)


def _time(at: int) -> str:
    return f"'{START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}'"


def _values(rows: Row) -> str:
    def said(value: object) -> str:
        return "NULL" if value is None else str(value)

    return " ".join(f"({_time(at)}, '{site}', {said(v)}, {said(b)})" for (at, site), (v, b) in rows.items())


def output(folder: Path, stream: str, statements: list[str]) -> list[tuple[object, ...]]:
    """Return what a stream gives in a lake that runs after each statement."""
    with Lake(folder, settings=Settings()) as lake:
        lake.sql(TABLE)
        lake.sql(stream)
        for statement in statements:
            lake.sql(statement)
            report = lake.run()
            assert not report.failed, report
        columns = lake.sql("SELECT * FROM o").columns
        return sorted(lake.sql(f"SELECT {', '.join(columns)} FROM o").fetchall(), key=repr)


def tried(folder: Path, seed: str, triggers: tuple[str, ...], *, opens: bool = False) -> tuple[str, str]:
    """Return what became of a history, and what differs."""
    random = Random(seed)
    stream = drawn_stream(random, triggers, opens=opens)
    commits = list(drawn_commits(random))
    try:
        found = output(folder / f"{seed}-each", stream, [statement for statement, _ in commits])
        last = commits[-1][1]
        statements = [f"INSERT INTO src VALUES {_values(last)}"] if last else []
        expected = output(folder / f"{seed}-once", stream, statements)
    except LakestreamError as error:
        return error.code, f"{error.code}: {error}\n   {stream}"
    except AskedSpark:
        return "spark", stream
    if found == expected:
        return "equal", ""
    return "differs", f"{seed}: {stream}\n  {commits}\n  found    {found}\n  expected {expected}"


CHANGES = (
    "INSERT INTO src VALUES ('2025-01-01 08:00:01', 'a', 1, true) ('2025-01-01 08:00:40', 'a', 1, true)",
    "INSERT INTO src VALUES ('2025-01-01 08:00:03', 'a', 0, false)",
    "INSERT INTO src VALUES ('2025-01-01 08:00:03', 'a', 5, false)",
    "INSERT INTO src VALUES ('2025-01-01 08:00:03', 'a', 0, NULL)",
    "DELETE FROM src WHERE ts = '2025-01-01 08:00:03'",
)
"""A late row that PRE_FILTER leaves out, lets in and leaves out again, and that goes."""


@pytest.mark.parametrize("trigger", ["INTERVAL(7s) SLIDING(7s)", "INTERVAL(14s) SLIDING(7s)", "SLIDING(7s)"])
def test_a_late_row_that_the_trigger_does_not_see_reaches_the_query(tmp_path: Path, trigger: str) -> None:
    low, high = BOUNDS[trigger.startswith("SLIDING")]
    stream = (
        f"CREATE STREAM s {trigger} FROM src STREAM_OPTIONS(EXACT | PRE_FILTER(v >= 1 OR b)) INTO o "
        f"(at, n, m) AS SELECT {high}, count(*), max(v) FROM src WHERE ts > {low} AND ts <= {high}"
    )
    assert after_each_change(tmp_path, stream, "max(n), max(m)") == [(1, 1), (2, 1), (2, 5), (2, 1), (1, 1)]


def after_each_change(tmp_path: Path, stream: str, asked: str) -> list[tuple[Any, ...]]:
    """Return what is asked of the output after each of the changes."""
    found = []
    with Lake(tmp_path / "lake", settings=Settings()) as lake:
        lake.sql(TABLE)
        lake.sql(stream)
        for statement in CHANGES:
            lake.sql(statement)
            assert not lake.run().failed
            found.append(lake.sql(f"SELECT {asked} FROM o WHERE n > 0").fetchall()[0])
    return found


@pytest.mark.parametrize("trigger", CUT)
@pytest.mark.parametrize("groups", ["", "PARTITION BY site "])
def test_where_rows_cut_windows_such_a_query_is_refused(tmp_path: Path, trigger: str, groups: str) -> None:
    filters = "" if groups else " | PRE_FILTER(v >= 1 OR b)"
    stream = (
        f"CREATE STREAM s {trigger} FROM src {groups}STREAM_OPTIONS(EXACT{filters}) INTO o (at, n) "
        "AS SELECT _twstart, count(*) FROM "
    )
    with pytest.raises(LakestreamError, match="reads rows of") as refused:
        output(tmp_path / "refused", f"{stream}src WHERE ts >= _twstart AND ts <= _twend", [])
    assert (refused.value.code, refused.value.hint) == ("NOT_SUPPORTED", "read %%trows in its place")
    output(tmp_path / "taken", f"{stream}%%trows", [])


@pytest.mark.parametrize("events", EVENTS)
def test_windows_that_open_follow_rows_before_them(tmp_path: Path, events: str) -> None:
    stream = (
        f"CREATE STREAM s INTERVAL(7s) SLIDING(7s) FROM src STREAM_OPTIONS(EXACT | PRE_FILTER(v >= 1 OR b) | "
        f"EVENT_TYPE({events})) INTO o (at, n, m) AS SELECT _twstart, count(*), max(v) FROM src "
        "WHERE ts >= _twstart - INTERVAL 7 SECONDS AND ts < _twstart"
    )
    assert after_each_change(tmp_path, stream, "sum(n), max(m)") == [(1, 1), (2, 1), (2, 5), (2, 1), (1, 1)]


@pytest.mark.parametrize("trigger", [*CUT, "INTERVAL(7s) SLIDING(7s)"])
def test_what_stays_as_it_was_at_the_opening_is_refused(tmp_path: Path, trigger: str) -> None:
    options = "EXACT | EVENT_TYPE(WINDOW_OPEN)" + " | MAX_DELAY(3s)" * trigger.startswith("INTERVAL")
    stream = (
        f"CREATE STREAM s {trigger} FROM src STREAM_OPTIONS({options}) INTO o (at, n) AS SELECT _twstart, "
        "count(*) FROM src WHERE ts >= _twstart AND ts <= _twend"
    )
    with pytest.raises(LakestreamError, match="as windows open") as refused:
        output(tmp_path / "refused", stream, [])
    assert refused.value.code == "NOT_SUPPORTED"
    output(tmp_path / "taken", stream.replace("EXACT | ", ""), [])


def test_what_leads_to_no_window_is_refused(tmp_path: Path) -> None:
    stream = (
        "CREATE STREAM s INTERVAL(7s) SLIDING(7s) FROM src STREAM_OPTIONS({}) INTO o (at, n) "
        "AS SELECT _twstart, (SELECT max(v) FROM src) FROM %%trows"
    )
    with pytest.raises(LakestreamError, match="UNBOUNDED_READ"):
        output(tmp_path / "refused", stream.format("EXACT"), [])
    output(tmp_path / "taken", stream.format("EXACT(ALL, WITHIN 1d)"), [])


DRAWN = pytest.mark.parametrize(("triggers", "opens"), [(GRID, False), (CUT, False), (GRID[:3], True)])


@DRAWN
@pytest.mark.parametrize("number", range(3))
def test_own_rows_count(tmp_path: Path, triggers: tuple[str, ...], opens: bool, number: int) -> None:
    outcome, said = tried(tmp_path, f"kept-{number}", triggers, opens=opens)
    assert outcome != "differs", said


@DRAWN
@pytest.mark.long
def test_own_rows_count_in_many_histories(tmp_path: Path, triggers: tuple[str, ...], opens: bool) -> None:
    counted: Counter[str] = Counter()
    for number in range(100):
        outcome, said = tried(tmp_path, f"long-{number}", triggers, opens=opens)
        assert outcome != "differs", said
        counted[outcome] += 1
    assert counted["equal"]
