"""The classic CREATE STREAM: what it means in terms of the syntax with the trigger first."""

from __future__ import annotations

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_statement
from lakestream.language.expressions.parsing import column_names, parse_query
from lakestream.language.model import (
    CountTrigger,
    CreateStream,
    Duration,
    EventTrigger,
    IntervalTrigger,
    SessionTrigger,
    StreamDefinition,
)
from lakestream.language.policies import (
    AtOnce,
    ByClock,
    Corrected,
    Delayed,
    DelayedFromFirstRow,
    Emission,
    IgnoreClosed,
    LatePolicy,
    OnClose,
    Refire,
    RefireClosed,
    Rewritten,
)

SELECT = "SELECT _wstart AS ws, count(*) AS n FROM t"


def read(text: str) -> StreamDefinition:
    statement = parse_statement(text)
    assert isinstance(statement, CreateStream)
    return statement.definition


def result(definition: StreamDefinition) -> str:
    return parse_query(definition.calculation).sql("spark")


def columns(definition: StreamDefinition) -> tuple[str, ...]:
    return column_names(parse_query(definition.calculation).selects)


def test_the_window_clause_is_the_trigger() -> None:
    found = read(f"CREATE STREAM s INTO o AS {SELECT} INTERVAL(10s, 2s) SLIDING(5s)")
    assert found.trigger == IntervalTrigger(Duration(10, "s"), Duration(2, "s"), Duration(5, "s"))
    assert found.source.name == "t"
    assert found.options.ignore_nodata
    assert result(found) == "SELECT _twstart AS ws, COUNT(*) AS n FROM %%trows"


def test_the_policies_are_the_classic_ones_by_default() -> None:
    options = read(f"CREATE STREAM s INTO o AS {SELECT} INTERVAL(10s)").options
    assert (options.emission, options.late) == (OnClose(), IgnoreClosed(Rewritten.COUNTED))
    assert not options.fill_history


def test_options_stand_in_any_order() -> None:
    text = "FILL_HISTORY 1 ASYNC IGNORE UPDATE 0 WATERMARK 5s TRIGGER AT_ONCE DELETE_MARK 1h"
    options = read(f"CREATE STREAM s {text} INTO o AS {SELECT} INTERVAL(10s)").options
    assert options.fill_history
    assert options.emission == AtOnce()
    assert options.watermark == Duration(5, "s")
    assert options.late == IgnoreClosed(Rewritten.FOLLOWED, Duration(1, "h"))


def test_ignore_expired_0_follows_late_rows_and_updates() -> None:
    options = read(f"CREATE STREAM s IGNORE EXPIRED 0 INTO o AS {SELECT} INTERVAL(10s)").options
    assert options.late == RefireClosed(counts_rewritten=True)


@pytest.mark.parametrize(
    ("written", "emission", "late"),
    [
        ("TRIGGER AT_ONCE", OnClose(), Refire()),
        ("TRIGGER MAX_DELAY 9s DELETE_MARK 1h", Delayed(Duration(9, "s")), Refire(Duration(1, "h"))),
        ("IGNORE UPDATE 0 IGNORE EXPIRED 0", OnClose(), Refire()),
    ],
)
def test_nothing_of_a_row_by_itself_opens_ahead_or_has_closed(
    written: str, emission: Emission, late: LatePolicy
) -> None:
    options = read(f"CREATE STREAM s {written} INTO o AS SELECT ts, v FROM t").options
    assert (options.emission, options.late) == (emission, late)


def test_windows_of_max_delay_are_open_from_their_first_row_on() -> None:
    options = read(f"CREATE STREAM s TRIGGER MAX_DELAY 9s INTO o AS {SELECT} INTERVAL(10s)").options
    assert options.emission == DelayedFromFirstRow(Duration(9, "s"))


def test_the_clock_closes_windows_once() -> None:
    options = read(f"CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS {SELECT} INTERVAL(10s)").options
    assert (options.emission, options.late) == (ByClock(), IgnoreClosed(Rewritten.COUNTED))


@pytest.mark.parametrize(
    ("written", "every"), [("", Duration(60, "m")), (" RECALCULATE 90s", Duration(90, "s"))]
)
def test_late_changes_are_corrected_from_time_to_time(written: str, every: Duration) -> None:
    text = f"CREATE STREAM s TRIGGER CONTINUOUS_WINDOW_CLOSE{written} INTO o AS {SELECT} INTERVAL(10s)"
    options = read(text).options
    assert (options.emission, options.late) == (Corrected(every), IgnoreClosed(Rewritten.IGNORED))


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    found = read("CREATE STREAM s INTO o AS SELECT _wstart, _wend, _wduration FROM t SESSION(ts, 5s)")
    assert found.trigger == SessionTrigger("ts", Duration(5, "s"))
    assert result(found) == (
        "SELECT _twstart AS _wstart, _twend + _LS_DURATION('5s') AS _wend, "
        "_twduration + 5000 AS _wduration FROM %%trows"
    )


def test_conditions_of_an_event_window_stand_without_brackets() -> None:
    found = read(f"CREATE STREAM s INTO o AS {SELECT} EVENT_WINDOW START WITH a > 5 END WITH f(a) < 2")
    assert isinstance(found.trigger, EventTrigger)
    assert (found.trigger.start.sql, found.trigger.end.sql) == ("a > 5", "f(a) < 2")


def test_a_query_without_a_window_takes_row_by_row() -> None:
    found = read("CREATE STREAM s INTO o AS SELECT ts, v * 2 AS dbl FROM t WHERE v > 1")
    assert found.trigger == CountTrigger(1, 1)
    assert found.options.pre_filter is not None
    assert found.options.pre_filter.sql == "v > 1"
    assert found.options.late == Refire()


@pytest.mark.parametrize(
    ("text", "fill"),
    [
        ("", None),
        ("FILL(NONE)", None),
        ("FILL(NULL)", "FILL(NULL)"),
        ("fill(prev)", "FILL(PREV)"),
        ("FILL(VALUE, 0, -1.5, 'a, b', NULL)", "FILL(VALUE, 0, -1.5, 'a, b', NULL)"),
    ],
)
def test_fill_says_what_windows_without_rows_hold(text: str, fill: str | None) -> None:
    found = read(f"CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS {SELECT} INTERVAL(1m) {text}")
    assert (str(found.options.fill) if found.options.fill else None) == fill
    assert found.options.ignore_nodata == (fill is None)


def test_cut_windows_want_times_of_their_own() -> None:
    assert read(f"CREATE STREAM s INTO o AS {SELECT} STATE_WINDOW(v)").options.unique_times
    for query in (f"{SELECT} SESSION(ts, 5s)", f"{SELECT} INTERVAL(5s)", "SELECT ts, v FROM t"):
        assert not read(f"CREATE STREAM s INTO o AS {query}").options.unique_times


def test_names_of_groups_stand_for_their_values() -> None:
    found = read(
        "CREATE STREAM s INTO o TAGS (cc VARCHAR(9)) SUBTABLE(concat('x-', cc)) AS "
        "SELECT _wstart, cc AS text, place, count(*) FROM t "
        "PARTITION BY concat('tag-', tbname) AS cc, place INTERVAL(9s)"
    )
    assert [key.name for key in found.partition_by] == ["cc", "place"]
    assert found.tags is not None
    assert [(tag.name, tag.expression.sql) for tag in found.tags] == [("cc", "cc")]
    assert result(found).startswith("SELECT _twstart AS _wstart, %%1 AS text, %%2 AS place")
    assert columns(found) == ("_wstart", "text", "place", "count")


def test_an_alias_may_stand_without_as_and_groups_have_a_number() -> None:
    found = read(f"CREATE STREAM s INTO o AS {SELECT} PARTITION BY tbname tname INTERVAL(1m)")
    assert [(key.name, key.is_tbname) for key in found.partition_by] == [("tname", True)]
    assert found.tags is not None
    assert [(tag.name, tag.type_name) for tag in found.tags] == [("group_id", "BIGINT")]


def test_aggregates_alone_are_keyed_by_the_start_of_their_window() -> None:
    found = read("create stream s into o as select count(*), avg(v), avg(v) from t interval(10s)")
    assert columns(found) == ("_wstart", "count", "avg_v", "avg_v_2")


@pytest.mark.parametrize("first", ["max(v)", "first(v)", "last_row(v)", "spread(v)"])
def test_any_aggregate_that_stands_first_is_keyed_by_the_start_of_its_window(first: str) -> None:
    found = read(f"CREATE STREAM s INTO o AS SELECT {first} AS x FROM t INTERVAL(10s)")
    assert columns(found) == ("_wstart", "x")


def test_a_list_of_all_columns_names_the_key_too() -> None:
    found = read("CREATE STREAM s INTO o (at, n) AS SELECT max(ts), count(*) FROM t INTERVAL(10s)")
    assert columns(found) == ("max_ts", "count")


def test_results_are_converted_to_a_table_that_is_there() -> None:
    assert read(f"CREATE STREAM s INTO o AS {SELECT} INTERVAL(10s)").options.converts


def test_without_into_results_are_sent_only() -> None:
    found = read(
        "CREATE STREAM s FILL_HISTORY 1 AS SELECT _wstart, avg(v) FROM t INTERVAL(1m) "
        "NOTIFY('ws://h:1') ON (WINDOW_CLOSE)"
    )
    assert not found.stores
    assert found.options.notify_only
    assert found.notification is not None
    assert found.notification.labels == ("_wstart", "avg(v)")


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("INTO o SUBTABLE('x') AS SELECT _wstart FROM t INTERVAL(10s)", "OUTPUT_SUBTABLE_WITHOUT_GROUPS", 24),
        ("INTO o TAGS (a INT) TAGS (b INT) AS SELECT _wstart FROM t INTERVAL(1s)", "CLAUSE_TWICE", 37),
        ("INTO o AS SELECT _wstart, top(v, 3) AS n FROM t INTERVAL(10s)", "FUNCTION_NOT_ALLOWED", 43),
        (
            "TRIGGER CONTINUOUS_WINDOW_CLOSE INTO o AS SELECT _wstart FROM t SESSION(ts, 5s)",
            "OPTION_WITHOUT_EFFECT",
            17,
        ),
        (
            "TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE 10a INTO o AS SELECT _wstart FROM t INTERVAL(1s)",
            "BAD_DURATION",
            61,
        ),
        ("INTO o AS SELECT _twnextstart FROM t INTERVAL(10s) nosuch", "SYNTAX", 68),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, code: str, column: int) -> None:
    with pytest.raises(StatementError) as refused:
        parse_statement(f"CREATE STREAM s {text}")
    assert refused.value.code == code
    assert refused.value.place is not None
    assert refused.value.place.column == column


def test_pause_and_resume_are_stop_and_start() -> None:
    assert type(parse_statement("PAUSE STREAM IF EXISTS s")) is type(parse_statement("STOP STREAM s"))
    assert parse_statement("RESUME STREAM IGNORE UNTREATED s") == parse_statement(
        "START STREAM IGNORE UNTREATED s"
    )
