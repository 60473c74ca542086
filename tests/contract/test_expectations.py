"""Expectations: rows that do not meet them are counted, dropped, refused or quarantined, as batch has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.engine.base.faults import QUARANTINE_POINTS, TICK_POINTS, SimulatedCrash, crash_at
from lakestream.errors import LakestreamError
from lakestream.notify.outbox import Outbox
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE p (ts TIMESTAMP, v INT, g VARCHAR(4))"
EXPECT = "EXPECT positive CHECK (v >= 0) ON VIOLATION {} EXPECT small CHECK (v < 100)"
RESULTS = "EXPECT few CHECK (n < 3) ON VIOLATION {}"
CALCULATION = "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
TUMBLING = "INTERVAL(1m) SLIDING(1m) FROM p PARTITION BY g"
KEPT = {("tumbling", "arrow")}
TRIGGERS = {
    "tumbling": TUMBLING,
    "hopping": "INTERVAL(2m) SLIDING(1m) FROM p PARTITION BY g",
    "sessions": "SESSION(ts, 20s) FROM p PARTITION BY g",
    "states": "STATE_WINDOW(v) FROM p PARTITION BY g",
    "counts": "COUNT_WINDOW(2) FROM p PARTITION BY g",
    "events": "EVENT_WINDOW(START WITH v < 5 END WITH v > 5) FROM p PARTITION BY g",
}


def minute(number: int, *rows: tuple[int, int | None], group: str = "a") -> str:
    """Return an INSERT of (second, value) into a minute."""
    values = (
        f"('2025-01-01 00:{number:02d}:{second:02d}', {'NULL' if v is None else v}, '{group}')"
        for second, v in rows
    )
    return f"INSERT INTO p VALUES {', '.join(values)}"


def stream(
    source: str = "", results: str = "", *, trigger: str = TUMBLING, options: str = "EXACT", name: str = "s"
) -> str:
    chosen = f"STREAM_OPTIONS({options})" if options else ""
    return f"CREATE STREAM {name} {trigger} {chosen} {source} INTO o {results} AS {CALCULATION}"


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return sorted(lake.sql(query).fetchall(), key=repr)


def quarantined(lake: Lake) -> list[tuple[Any, ...]]:
    return rows(lake, "SELECT v, quarantine_reason FROM s__quarantine")


def counts(lake: Lake) -> dict[str, tuple[int, int]]:
    return {one.name: (one.passed, one.violated) for one in lake.streams()[0].expectations}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake whose streams are computed without Spark, with one table."""
    lake = Lake(tmp_path / "lake")
    lake.sql(TABLE)
    return lake


# --- what becomes of rows ---


def test_rows_that_do_not_meet_a_warning_stay_and_are_counted(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("WARN")))
    lake.sql(minute(0, (1, 5), (2, -1), (3, None)))
    lake.sql(minute(1, (1, 200)))
    lake.run()
    assert rows(lake, "SELECT n, total FROM o") == [(3, 4)]
    # NULL meets no condition.
    assert counts(lake) == {"positive": (2, 2), "small": (2, 2)}
    assert lake.runs("s")[0].violated == 4


def test_dropped_rows_are_not_among_those_of_windows(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("DROP"), RESULTS.format("DROP")))
    lake.sql(minute(0, (1, 5), (2, -1), (3, None)))
    lake.sql(minute(1, (1, 1), (2, 1), (3, 1)))
    lake.sql(minute(2, (1, 2)))
    lake.run()
    assert rows(lake, "SELECT n, total FROM o") == [(1, 5)]
    assert counts(lake) == {"positive": (5, 2), "small": (6, 1), "few": (1, 1)}


def test_the_quarantine_has_whole_rows_with_why_they_are_there(lake: Lake) -> None:
    lake.sql("CREATE TABLE q (ts TIMESTAMP, v INT, g VARCHAR(4), note VARCHAR(9))")
    lake.sql(
        "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM q EXPECT positive CHECK (v >= 0) ON VIOLATION "
        "QUARANTINE EXPECT known CHECK (g IS NOT NULL) ON VIOLATION QUARANTINE INTO o AS " + CALCULATION
    )
    lake.sql(
        "INSERT INTO q VALUES ('2025-01-01 00:00:01', -1, NULL, 'odd'), ('2025-01-01 00:00:02', 1, 'a', '')"
    )
    lake.run()
    found = lake.sql("SELECT note, v, g, quarantine_tick, quarantine_reason FROM s__quarantine")
    assert found.fetchall() == [("odd", -1, None, 1, "positive, known")]
    assert [info.kind for info in lake._at.catalog.tables("main") if info.name.endswith("quarantine")] == [
        "quarantine"
    ]


def test_a_corrected_row_leaves_the_quarantine_and_another_one_comes(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("QUARANTINE"), RESULTS.format("QUARANTINE")))
    lake.sql(minute(0, (1, 5), (2, -1), (3, -2), (4, 7)))
    lake.sql(minute(1, (1, 1)))
    lake.run()
    assert quarantined(lake) == [(-1, "positive"), (-2, "positive")]
    assert rows(lake, "SELECT n, total FROM o") == [(2, 12)]
    lake.sql(minute(0, (2, 3), (4, -7)))  # a key that is there is written anew
    lake.sql("DELETE FROM p WHERE v = -2")
    lake.run()
    assert quarantined(lake) == [(-7, "positive")]
    assert rows(lake, "SELECT n, total FROM o") == [(2, 8)]
    lake.sql(minute(0, (4, 7)))
    lake.run()
    assert rows(lake, "SELECT n, total FROM o") == []
    assert rows(lake, "SELECT n, total, quarantine_reason FROM s__quarantine_results") == [(3, 15, "few")]
    lake.sql("DELETE FROM p WHERE v = 7")
    lake.run()
    assert rows(lake, "SELECT n, total FROM o") == [(2, 8)]
    assert rows(lake, "SELECT * FROM s__quarantine_results") == []


def test_what_is_mended_can_be_inserted_from_the_quarantine(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("QUARANTINE")))
    lake.sql(minute(0, (1, 5), (2, -1)))
    lake.sql(minute(1, (1, 1)))
    lake.run()
    lake.sql(
        "INSERT INTO p SELECT ts, abs(v) AS v, g FROM s__quarantine WHERE quarantine_reason = 'positive'"
    )
    lake.run()
    assert quarantined(lake) == []
    assert rows(lake, "SELECT n, total FROM o") == [(2, 6)]


OTHERS = {
    "ekuiper": "CREATE STREAM s WITH (TIMESTAMP='ts') {} INTO o {} AS "
    "SELECT count(*) AS n, sum(v) AS total FROM p GROUP BY TUMBLINGWINDOW(mi, 1)",
    "classic": "CREATE STREAM s {} INTO o {} AS "
    "SELECT _wstart, count(*) AS n, sum(v) AS total FROM p INTERVAL(1m)",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
def test_other_languages_have_expectations_too(lake: Lake, statement: str) -> None:
    lake.sql(statement.format(EXPECT.format("QUARANTINE"), RESULTS.format("QUARANTINE")))
    lake.sql(minute(0, (1, 5), (2, -1)))
    lake.sql(minute(1, (1, 1), (2, 1), (3, 1)))
    lake.sql(minute(2, (1, 1)))
    lake.run()
    assert quarantined(lake) == [(-1, "positive")]
    assert rows(lake, "SELECT n, total FROM o") == [(1, 5)]
    assert rows(lake, "SELECT n, total FROM s__quarantine_results") == [(3, 3)]
    assert counts(lake) == {"positive": (5, 1), "small": (6, 0), "few": (1, 1)}


# --- a stream that is stopped ---


def test_a_row_that_is_to_stop_the_stream_does_and_nothing_is_written(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("FAIL")))
    lake.sql(minute(0, (1, 5), (2, -1)))
    lake.sql(minute(1, (1, 1)))
    lake.run()
    status = lake.streams()[0]
    assert status.status == "Failed"
    assert status.last_error is not None
    assert "EXPECTATION_FAILED" in status.last_error
    assert "v = -1" in status.last_error
    assert "START STREAM main.s" in status.last_error
    assert rows(lake, "SELECT * FROM o") == []
    lake.sql("START STREAM s")
    lake.run()
    assert lake.streams()[0].status == "Failed"
    lake.sql("UPDATE p SET v = 1 WHERE v = -1")
    lake.sql("START STREAM s")
    lake.run()
    assert lake.streams()[0].status == "Running"
    assert rows(lake, "SELECT n, total FROM o") == [(2, 6)]


def test_a_result_that_is_to_stop_the_stream_does_until_the_source_is_corrected(lake: Lake) -> None:
    lake.sql(stream("", RESULTS.format("FAIL")))
    lake.sql(minute(0, (1, 1), (2, 1), (3, 1)))
    lake.sql(minute(1, (1, 1)))
    lake.run()
    status = lake.streams()[0]
    assert status.last_error is not None
    assert "n = 3" in status.last_error
    assert rows(lake, "SELECT * FROM o") == []
    lake.sql("DELETE FROM p WHERE ts = '2025-01-01 00:00:03'")
    lake.sql("START STREAM s")
    lake.run()
    assert rows(lake, "SELECT n, total FROM o") == [(2, 2)]


def test_a_stream_goes_on_with_another_expectation(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("FAIL"), options="EXACT | FILL_HISTORY"))
    lake.sql(minute(0, (1, 5), (2, -1)))
    lake.sql(minute(1, (1, 1)))
    lake.run()
    again = stream(EXPECT.format("QUARANTINE"), options="EXACT | FILL_HISTORY")
    changed = lake.sql(again.replace("CREATE", "CREATE OR REPLACE", 1)).fetchall()
    assert [clause for clause, _, _ in changed] == ["EXPECT", "output", "recomputed"]


# --- what is refused ---


WRONG = [
    (stream("EXPECT a CHECK (w > 0)"), "COLUMN_NOT_FOUND", "w"),
    (stream("", "EXPECT a CHECK (v > 0)"), "COLUMN_NOT_FOUND", "v"),
    (stream("EXPECT a CHECK (sum(v) > 0)"), "NOT_SCALAR", "sum"),
    (stream("EXPECT a CHECK (rand() > 0)"), "NON_DETERMINISTIC", "rand"),
    (stream("EXPECT a CHECK (v > 0) EXPECT A CHECK (v > 1)"), "DUPLICATE_EXPECTATION", "A"),
    (stream("EXPECT a CHECK (v > 0) ON VIOLATION DROPS"), "UNKNOWN_ACTION", "DROPS"),
]


@pytest.mark.parametrize(("statement", "code", "word"), WRONG)
def test_what_is_wrong_is_refused_at_its_place(lake: Lake, statement: str, code: str, word: str) -> None:
    assert refusal(lake, statement) == (code, word)


@pytest.mark.parametrize("clause", [("EXPECT a CHECK (v)", ""), ("", "EXPECT a CHECK (n)")])
def test_what_is_no_condition_is_refused(
    tmp_path: Path, spark: SparkSession, clause: tuple[str, str]
) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql(TABLE)
        assert refusal(lake, stream(*clause)) == ("EXPRESSION_INVALID", max(clause)[-2])


def refusal(lake: Lake, statement: str) -> tuple[str, str]:
    """Return the code of what a statement is refused with, and the word at its place."""
    with pytest.raises(LakestreamError) as found:
        lake.sql(statement)
    place = found.value.place
    assert place is not None
    return found.value.code, statement[place.column - 1 :][: place.length]


def test_results_that_are_told_of_are_not_dropped(lake: Lake) -> None:
    told = stream("", RESULTS.format("DROP")).replace(
        " INTO o", " NOTIFY('wss://example.com:443/') ON (WINDOW_CLOSE) INTO o"
    )
    with pytest.raises(LakestreamError, match="of a stream that notifies") as found:
        lake.sql(told)
    assert found.value.code == "NOT_SUPPORTED"


def test_a_table_of_the_quarantines_name_is_not_written_into(lake: Lake) -> None:
    lake.sql("CREATE TABLE s__quarantine (ts TIMESTAMP, v INT)")
    with pytest.raises(LakestreamError) as found:
        lake.sql(stream(EXPECT.format("QUARANTINE")))
    assert found.value.code == "TABLE_EXISTS"
    with pytest.raises(LakestreamError) as found:
        lake.sql(
            "DROP TABLE s__quarantine; "
            + stream(EXPECT.format("QUARANTINE"))
            + "; INSERT INTO s__quarantine (ts) VALUES (1)"
        )
    assert found.value.code == "TABLE_IS_OUTPUT"


# --- what is seen ---


def test_what_expectations_count_is_seen(lake: Lake) -> None:
    lake.sql(stream(EXPECT.format("QUARANTINE")))
    lake.sql(minute(0, (1, 5), (2, -1)))
    lake.run()
    seen = lake.sql(
        "SELECT expectation, rows_of, condition, action, passed, violated "
        "FROM information_schema.ins_stream_expectations ORDER BY expectation"
    )
    assert seen.fetchall() == [
        ("positive", "source", "v >= 0", "QUARANTINE", 1, 1),
        ("small", "source", "v < 100", "WARN", 2, 0),
    ]
    assert lake.sql("SELECT violated FROM information_schema.ins_stream_tasks").fetchall() == [(1,)]
    assert lake.sql("SHOW STREAMS").fetchall()[0][-1] == "positive: 1 of 2 violated; small: 0 of 2 violated"
    stages = dict(lake.sql("EXPLAIN STREAM s").fetchall())
    assert stages["check rows"].endswith("quarantine in main.s__quarantine")


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point in ("Q1", "C6b") else pytest.mark.long)
        for point in (*TICK_POINTS, *QUARANTINE_POINTS)
    ],
)
def test_a_crash_neither_loses_nor_doubles_rows_of_the_quarantine(tmp_path: Path, point: str) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLE)
        lake.sql(stream(EXPECT.format("QUARANTINE"), RESULTS.format("QUARANTINE")))
        lake.sql(minute(0, (1, 1), (2, -1), (3, 1), (4, 1)))
        lake.sql(minute(1, (1, 1)))
        with crash_at(point), pytest.raises(SimulatedCrash):
            _run_and_close(lake)
    with Lake(tmp_path / "lake") as lake:
        lake.run()
        assert quarantined(lake) == [(-1, "positive")]
        assert rows(lake, "SELECT n FROM s__quarantine_results") == [(3,)]
        assert counts(lake) == {"positive": (4, 1), "small": (5, 0), "few": (0, 1)}


@pytest.mark.parametrize("options", ["EXACT", ""], ids=["exact", "default"])
def test_a_tick_that_has_written_to_a_quarantine_is_finished_under_a_lower_limit(
    tmp_path: Path, options: str
) -> None:
    """Divided, it would be other ticks, which write the same rows once more."""
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLE)
        lake.sql(stream(EXPECT.format("QUARANTINE"), RESULTS.format("QUARANTINE"), options=options))
        for number in range(6):
            lake.sql(minute(number, (1, 1), (2, -1), (3, 1), (4, 1)))
        with crash_at("Q1", 2), pytest.raises(SimulatedCrash):
            lake.run()
    with Lake(tmp_path / "lake", settings=Settings(max_windows_per_tick=2)) as lake:
        assert not lake.run().failed
        assert quarantined(lake) == [(-1, "positive")] * 6
        assert rows(lake, "SELECT n FROM s__quarantine_results") == [(3,)] * 5  # the last is open


def test_a_tick_that_has_emitted_events_is_finished_under_a_lower_limit(tmp_path: Path) -> None:
    """Divided, it would be other ticks, whose events are told once more."""
    catcher = Catcher()
    hosts = Settings(notify_hosts=("localhost",))
    told = f"NOTIFY('{catcher.url}') ON (WINDOW_CLOSE)"
    with Lake(tmp_path / "lake", settings=hosts) as lake:
        lake.sql(TABLE)
        lake.sql(f"CREATE STREAM s {TUMBLING} {told} INTO o AS {CALCULATION}")
        for number in range(6):
            lake.sql(minute(number, (1, 1)))
        with crash_at("C5"), pytest.raises(SimulatedCrash):
            lake.run()
    with Lake(tmp_path / "lake", settings=hosts.but(max_windows_per_tick=2)) as lake:
        assert not lake.run().failed
        assert len(Outbox(lake._at.outbox.path).read(None, None, 100)) == 5
    catcher.close()


def _run_and_close(lake: Lake) -> None:
    lake.run()
    lake.close()  # the state is saved then


# --- by Spark, and held against the batch evaluation ---


def test_a_result_replaces_another_one_of_its_key_and_is_then_judged(
    tmp_path: Path, spark: SparkSession
) -> None:
    lake = Lake(tmp_path / "lake", spark=spark)
    lake.sql(TABLE)
    lake.sql(
        "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM p INTO o EXPECT few CHECK (n < 3) ON VIOLATION "
        "QUARANTINE AS SELECT CAST('2025-01-01' AS TIMESTAMP) AS w, count(*) AS n FROM %%trows"
    )
    lake.sql(minute(0, (1, 1)))
    lake.sql(minute(1, (1, 1), (2, 1), (3, 1)))
    lake.run()
    assert rows(lake, "SELECT n FROM o") == [(1,)]
    lake.sql(minute(2, (1, 1)))
    lake.run()
    assert rows(lake, "SELECT n FROM o") == []
    assert rows(lake, "SELECT n FROM s__quarantine_results") == [(3,)]
    lake.sql(minute(3, (1, 1)))
    lake.run()
    assert rows(lake, "SELECT n FROM o") == [(1,)]
    assert rows(lake, "SELECT n FROM s__quarantine_results") == []


@pytest.mark.parametrize(
    ("trigger", "transport"),
    [
        pytest.param(trigger, transport, marks=[] if (trigger, transport) in KEPT else pytest.mark.long)
        for trigger in TRIGGERS
        for transport in ("arrow", "spark")
    ],
)
def test_incremental_equals_batch(tmp_path: Path, spark: SparkSession, trigger: str, transport: str) -> None:
    settings = Settings(transport=transport, small_path="spark")
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql(TABLE)
        lake.sql(minute(0, (9, -3)))
        options = "EXACT" if trigger != "hopping" else ""
        sources = EXPECT.format("QUARANTINE") + " EXPECT other CHECK (v <> 3) ON VIOLATION DROP"
        lake.sql(stream(sources, RESULTS.format("QUARANTINE"), trigger=TRIGGERS[trigger], options=options))
        lake.sql(minute(1, (1, 1), (2, 8), (3, -1), (9, 4)))
        lake.run()
        lake.sql(minute(1, (4, 1), (5, 1), (3, 2), (45, -7)))
        lake.sql(minute(2, (1, 9), (2, 3)))
        lake.sql("DELETE FROM p WHERE v = -7")
        lake.run()
        lake.sql(minute(3, (1, -9), (2, 4), (3, 9)))
        lake.run()
        assert lake.streams()[0].status == "Running", lake.streams()[0].last_error
        assert quarantined(lake) == [(-9, "positive")]
        verified = lake.verify("s")
        assert verified.holds, (verified.differing, verified.quarantines)
        assert [one.expected_rows == one.found_rows for one in verified.quarantines] == [True, True]
        lake.sql("RECALCULATE STREAM s RESYNC")
        lake.run()
        assert [row[1] for row in quarantined(lake)] == ["positive"]
        assert lake.verify("s").holds


@pytest.mark.spark
@pytest.mark.long
def test_verify_finds_what_others_did_to_a_quarantine(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql(TABLE)
        lake.sql(stream(EXPECT.format("QUARANTINE"), options="EXACT | FILL_HISTORY"))
        lake.sql(minute(0, (1, 5), (2, -1), (3, -2)))
        lake.run()
        assert lake.verify("s").holds
        info = lake._at.catalog.table("main", "s__quarantine")
        lake._at.catalog.handles.latest(info.path).handle.delete("v = -1")
        verified = lake.verify("s")
        assert not verified.holds
        assert [one.differing_rows for one in verified.quarantines] == [1]
        again = stream(
            "EXPECT positive CHECK (v > 5) ON VIOLATION QUARANTINE", options="EXACT | FILL_HISTORY"
        )
        lake.sql(again.replace("CREATE", "CREATE OR REPLACE", 1))
        lake.run()
        assert [v for v, _ in quarantined(lake)] == [-1, -2, 5]
        assert lake.verify("s").holds


def test_the_row_that_stops_a_stream_is_shown_by_its_own_columns(tmp_path: Path) -> None:
    with Lake(tmp_path) as lake:
        lake.sql(TABLE)
        lake.sql(stream(results="EXPECT few CHECK (n < 2) ON VIOLATION FAIL", options="FILL_HISTORY"))
        lake.sql(minute(0, (1, 5), (2, 5)))
        lake.sql(minute(9, (1, 5)))
        [failed] = lake.run().failed
    assert failed.error is not None
    assert "(w = 2025-01-01 00:00:00+00:00, n = 2, total = 10, " in failed.error
    assert not {"window", "{", "datetime"} & {*failed.error.replace("(", " ").split()}
    assert "datetime" not in failed.error
