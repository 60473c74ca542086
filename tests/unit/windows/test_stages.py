"""A whole tick as its stages, as it runs and as EXPLAIN prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream.engine.streams.stream import EventRange
from lakestream.engine.ticks.stages import stages
from tests.unit.windows.streams import classic, ekuiper, new, plan, stream, target

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.records.registry import TickPlan

TENS, SESSION, TUMBLING = "INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)", "TUMBLINGWINDOW(ss, 10)"
EVENT_TIME = "TIMESTAMP = 'ts'"
RANGE = EventRange(overlap_us=10_000_000, to_us=20_000_000)
EXTENT = "that end after 1970-01-01T00:00:10+00:00 before 1970-01-01T00:00:20+00:00"
CHANGES = ("read changes", "changes of (4, 5] of db.m: ts, tbname")
ROWS = ("read rows", "rows of db.m in the span of the windows")
LATE_ROWS = ("read rows", "rows of db.m in the span of late windows, if any")
COMPUTE = ("compute", "grouped")
LATE = ("compute", "grouped; late windows only, if any")
APPEND = ("write", "append in db.o, one commit")
APPEND_AND_REWRITE = ("write", "append in db.o, late windows rewritten, one commit")
REPLACE = ("write", "replace all rows of the windows in db.o, one commit")
ERRORS = ("write errors", "rows left out and windows that fail, if any, appended to db.s__errors")
TENS_BY_TABLE = "INTERVAL(10s) SLIDING(10s) by tbname, watermark 0s"
SESSION_BY_TABLE = "SESSION(ts, 5s) by tbname, watermark 0s"
TUMBLING_ONCE = "INTERVAL(10s) SLIDING(10s), by one timeline"


def said(
    of: Stream, tick: TickPlan, event_range: EventRange | None = None, **written: Any
) -> list[tuple[str, str]]:
    return [(stage.title, str(stage)) for stage in stages(of, target(of, **written), tick, event_range)]


def test_a_tick_of_a_grid_by_partial_aggregates() -> None:
    update = f"{TENS_BY_TABLE}, late rows fire their windows again; by partial aggregates of the open windows"
    assert said(new(TENS), plan()) == [
        CHANGES,
        ("update windows", update),
        LATE_ROWS,
        LATE,
        APPEND_AND_REWRITE,
    ]


def test_a_tick_of_a_grid_row_by_row() -> None:
    detect = f"{TENS_BY_TABLE}, late rows fire their windows again"
    assert said(new(TENS), plan(appends_only=False)) == [
        CHANGES,
        ("detect windows", detect),
        ROWS,
        COMPUTE,
        APPEND_AND_REWRITE,
    ]


def test_a_tick_of_row_windows() -> None:
    cut = f"{SESSION_BY_TABLE}, late rows fire their windows again"
    one = f"{cut}; rows in order are cut and computed in one query"
    assert said(new(SESSION), plan()) == [CHANGES, ("detect windows", one), ROWS, COMPUTE, APPEND_AND_REWRITE]
    rewritten = said(new(SESSION), plan(appends_only=False))
    assert rewritten == [CHANGES, ("detect windows", cut), ROWS, COMPUTE, APPEND_AND_REWRITE]


@pytest.mark.parametrize(
    ("options", "late"),
    [
        (EVENT_TIME, "tolerance 0s, late rows are left out"),
        (f"{EVENT_TIME}, LATE_TOLERANCE = '5s'", "tolerance 5s, late rows are left out"),
        ("", "by the time of arrival"),
    ],
)
def test_a_tick_of_admitted_rows(options: str, late: str) -> None:
    admit = f"{TUMBLING_ONCE}, {late}: {CHANGES[1]}, and the rows that were held"
    compute = ("compute", "by_row; windows that fail are left out")
    assert said(ekuiper(TUMBLING, options), plan()) == [("admit rows", admit), compute, ERRORS, APPEND]


def test_exact_rewrites_admitted_windows() -> None:
    found = said(ekuiper(TUMBLING, f"{EVENT_TIME}, EXACT = 'true'"), plan())
    assert "every change is followed" in found[0][1]
    assert found[-1] == ("write", "rewrite from the first window that changed in db.o, one commit")


def test_an_instant_of_the_clock_and_what_is_written_before_it() -> None:
    of = new("PERIOD(10s)")
    counted = (
        "PERIOD(10s) by tbname, watermark 0s, late rows are ignored: "
        "the rows written since the instant before, by group"
    )
    assert said(of, plan()) == [CHANGES, ("fire", counted)]
    fire = ("fire", f"{counted}; the instant for every group there is")
    replace = ("write", "replace rows of equal key in db.o, one commit")  # its key is computed
    assert said(of, plan("period")) == [CHANGES, fire, COMPUTE, replace]
    only = said(new("PERIOD(10s)", "IGNORE_NODATA_TRIGGER"), plan("period"))[1][1]
    assert only == f"{counted}; the instant for every group with such rows"


def test_windows_that_the_clock_closes_are_read_from_the_state_and_appended() -> None:
    of = classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE")
    fire = f"{TENS_BY_TABLE}, late rows are ignored: windows that the clock has closed, as the state has them"
    assert said(of, plan("clock", closed=(0, 10))) == [("fire by the clock", fire), ROWS, COMPUTE, APPEND]


@pytest.mark.parametrize(("trigger", "rule"), [(TENS, TENS_BY_TABLE), (SESSION, SESSION_BY_TABLE)])
def test_windows_whose_delay_is_over_replace_what_was_written_of_them(trigger: str, rule: str) -> None:
    fire = (
        f"{rule}, late rows fire their windows again: open windows whose delay is over, as the state has them"
    )
    assert said(new(trigger, "MAX_DELAY(3s)"), plan("delay", windows=((1, 0),))) == [
        ("fire by the clock", fire),
        ROWS,
        COMPUTE,
        ("write", "replace rows of equal key in db.o, one commit"),
    ]


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        (new(TENS), f"{TENS_BY_TABLE}, late rows fire their windows again"),
        (new(SESSION, "IGNORE_DISORDER"), f"{SESSION_BY_TABLE}, late rows are ignored"),
    ],
)
def test_a_recalculation_reads_no_changes_and_replaces_all_there_was(of: Stream, rule: str) -> None:
    again = f"{rule}: all windows {EXTENT} again, in the source as it is"
    assert said(of, plan("recalculation"), RANGE) == [("fire again", again), ROWS, COMPUTE, REPLACE]


def test_a_recalculation_of_admitted_rows_takes_late_ones_too() -> None:
    again = (
        f"{TUMBLING_ONCE}, tolerance 0s, late rows are left out: all windows {EXTENT} anew from db.m, "
        "late rows included"
    )
    compute = ("compute", "by_row; windows that fail are left out")
    found = said(ekuiper(TUMBLING), plan("recalculation"), RANGE)
    assert found == [("admit again", again), compute, ERRORS, REPLACE]


@pytest.mark.parametrize("kind", ["flush", "clock"])
def test_admitted_windows_that_end_without_changes_are_appended(kind: str) -> None:
    assert said(ekuiper(TUMBLING, ""), plan(kind))[-1] == APPEND


def test_windows_made_anew_replace_all_there_was() -> None:
    assert said(ekuiper(TUMBLING), plan("anew"))[-1] == REPLACE


def test_history_is_read_at_its_version() -> None:
    assert said(new(TENS, "FILL_HISTORY"), plan("history"))[0] == (
        "read changes",
        "history at version 5 of db.m: ts, tbname",
    )


@pytest.mark.parametrize(
    ("of", "tick", "emitted"),
    [
        (new(TENS, notify="WINDOW_CLOSE"), plan(), "WINDOW_CLOSE into the outbox, for ws://h:1/n"),
        (
            new(TENS, notify="WINDOW_OPEN | WINDOW_CLOSE"),
            plan(),
            "WINDOW_OPEN, WINDOW_CLOSE into the outbox, for ws://h:1/n",
        ),
        (new(TENS, notify="WINDOW_CLOSE"), plan("history"), ""),
        (new(TENS), plan(), ""),
    ],
)
def test_what_is_emitted_goes_into_the_outbox_before_the_commit(
    of: Stream, tick: TickPlan, emitted: str
) -> None:
    written = said(of, tick)[-1][1]
    assert written.partition("; before it ")[2] == emitted


def test_other_tables_are_read_at_the_version_of_the_plan() -> None:
    of = stream(
        f"CREATE STREAM s {TENS} FROM m PARTITION BY tbname INTO o "
        "AS SELECT _twstart AS ws, count(*) AS n FROM nt WHERE ts >= _twstart AND ts < _twend"
    )
    assert dict(said(of, plan()))["read rows"] == "db.nt at its version in the plan"
    instants = stream(
        "CREATE STREAM s PERIOD(10s) INTO o "
        "AS SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS ws, count(*) AS n FROM nt"
    )
    assert dict(said(instants, plan("period")))["read rows"] == "db.nt at its version in the plan"
    assert "read rows" not in dict(said(new("PERIOD(10s)"), plan("period")))


FILLED = "TRIGGER CONTINUOUS_WINDOW_CLOSE"


@pytest.mark.parametrize(
    ("of", "computed"),
    [
        (new("INTERVAL(10s) SLIDING(5s)"), "grouped, by panes"),
        (new("INTERVAL(10s) SLIDING(5s)", "IGNORE_DISORDER"), "grouped"),
        (new(TENS), "grouped"),
        (classic("INTERVAL(10s) FILL(NULL)", FILLED), "grouped; windows without rows: FILL(NULL)"),
        (classic("INTERVAL(10s) FILL(VALUE, 0)", FILLED), "grouped; windows without rows: FILL(VALUE, 0)"),
    ],
)
def test_the_way_of_evaluation_and_what_windows_without_rows_hold_is_said(of: Stream, computed: str) -> None:
    assert dict(said(of, plan(appends_only=False)))["compute"] == computed


def test_rows_of_a_shared_output_replace_those_of_equal_key() -> None:
    assert said(new(TENS), plan(), shared=True)[-1][1].startswith("replace rows of equal key in db.o")


@pytest.mark.parametrize(
    ("of", "tick", "rewrites"),
    [
        (new(TENS), plan(), True),
        (new(TENS, "EXACT"), plan(), True),
        (new(TENS, "IGNORE_DISORDER"), plan(), False),
        (new(TENS, "IGNORE_DISORDER | DELETE_RECALC"), plan(appends_only=False), True),
        (new("SLIDING(10s)"), plan(), False),
        (new("PERIOD(10s)"), plan("period"), False),
        (new("COUNT_WINDOW(3)"), plan(), False),
        (new("COUNT_WINDOW(3, 1)"), plan(), True),
        (classic("INTERVAL(10s)"), plan(), False),
        (classic("INTERVAL(10s)", "IGNORE UPDATE 0"), plan(appends_only=False), True),
        (classic("INTERVAL(10s)", "TRIGGER AT_ONCE"), plan(), True),
        (new("SESSION(ts, 5s)", "IGNORE_DISORDER | MAX_DELAY(3s)"), plan(), True),
    ],
)
def test_windows_are_said_to_be_rewritten_where_one_may_fire_again(
    of: Stream, tick: TickPlan, rewrites: bool
) -> None:
    assert ("late windows rewritten" in said(of, tick)[-1][1]) is rewrites
