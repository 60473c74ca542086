"""eKuiper's statements: what they mean in terms of every stream's definition."""

from __future__ import annotations

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_expression, parse_statement
from lakestream.language.model import (
    BoundedSessionTrigger,
    CreateStream,
    CreateTable,
    Duration,
    IntervalTrigger,
    LatestTrigger,
    SlideTrigger,
    SpanTrigger,
    StreamDefinition,
    Trigger,
)

EVENT = "WITH (TIMESTAMP='ts')"


def read(select: str, options: str = EVENT) -> StreamDefinition:
    statement = parse_statement(f"CREATE STREAM s {options} INTO o AS {select}")
    assert isinstance(statement, CreateStream)
    return statement.definition


def seconds(number: int) -> Duration:
    return Duration(number, "s")


def interval(length: Duration, step: Duration) -> IntervalTrigger:
    return IntervalTrigger(length, Duration(0, length.unit), step, local=True)


@pytest.mark.parametrize(
    ("window", "trigger"),
    [
        ("TUMBLINGWINDOW(ss, 10)", interval(seconds(10), seconds(10))),
        ("TumblingWindow(DD, 1)", interval(Duration(1, "d"), Duration(1, "d"))),
        ("HOPPINGWINDOW(mi, 10, 5)", interval(Duration(10, "m"), Duration(5, "m"))),
        ("SLIDINGWINDOW(ms, 10)", SlideTrigger(Duration(10, "a"), Duration(0, "a"))),
        ("SLIDINGWINDOW(hh, 1, 2)", SlideTrigger(Duration(1, "h"), Duration(2, "h"))),
        ("SESSIONWINDOW(ss, 30, 3)", BoundedSessionTrigger(seconds(30), seconds(3))),
        ("COUNTWINDOW(5)", LatestTrigger(5, 5)),
        ("COUNTWINDOW(5, 2)", LatestTrigger(5, 2)),
    ],
)
def test_windows_are_triggers(window: str, trigger: Trigger) -> None:
    assert read(f"SELECT count(*) FROM t GROUP BY {window}").trigger == trigger


def test_states_begin_and_end() -> None:
    single = read("SELECT x FROM t GROUP BY STATEWINDOW(x > 1)").trigger
    assert isinstance(single, SpanTrigger)
    assert (single.begin.sql, single.end) == ("x > 1", None)
    double = read("SELECT x FROM t GROUP BY STATEWINDOW(x > 1, x < 0)").trigger
    assert isinstance(double, SpanTrigger)
    assert double.end is not None
    assert (double.begin.sql, double.end.sql) == ("x > 1", "x < 0")


def test_filter_is_what_the_trigger_sees_and_over_what_triggers() -> None:
    found = read("SELECT x FROM t GROUP BY SLIDINGWINDOW(ss, 1) FILTER (WHERE x > 1) OVER (WHEN x > 2)")
    assert found.options.pre_filter is not None
    assert found.options.pre_filter.sql == "x > 1"
    assert isinstance(found.trigger, SlideTrigger)
    assert found.trigger.when is not None
    assert found.trigger.when.sql == "x > 2"


def test_a_filter_belongs_to_the_window_that_it_follows() -> None:
    found = read("SELECT k FROM t GROUP BY COUNTWINDOW(2) FILTER (WHERE x > 1), k")
    assert found.options.pre_filter is not None
    assert parse_normal(found.calculation.sql) == "select k from %%trows group by k"


@pytest.mark.parametrize(
    "select",
    [
        "SELECT x FROM t PARTITION BY k, k + 1 GROUP BY COUNTWINDOW(2)",
        "SELECT x FROM t GROUP BY COUNTWINDOW(2) OVER (PARTITION BY k, k + 1)",
    ],
)
def test_partition_by_gives_keys_windows_of_their_own(select: str) -> None:
    assert [key.expression.sql for key in read(select).partition_by] == ["k", "k + 1"]


@pytest.mark.parametrize(
    ("select", "calculation"),
    [
        ("SELECT x, y FROM t GROUP BY COUNTWINDOW(2)", "SELECT x, y FROM %%trows"),
        (
            "SELECT count(*) AS c FROM t WHERE x > 1 GROUP BY COUNTWINDOW(2) HAVING max(x) < 9",
            "SELECT count(*) AS c FROM %%trows WHERE x > 1 HAVING (max(x) < 9) AND (count(1) > 0)",
        ),
        (
            "SELECT k, stddev(x) AS d FROM t GROUP BY k, TUMBLINGWINDOW(ss, 1) ORDER BY d LIMIT 1",
            "SELECT k, stddev_pop(x) AS d FROM %%trows GROUP BY k ORDER BY d, min(_ls_order) LIMIT 1",
        ),
        (
            "SELECT x FROM t GROUP BY COUNTWINDOW(2) LIMIT 1",
            "SELECT x FROM %%trows ORDER BY _ls_order LIMIT 1",
        ),
        (
            "SELECT a.x FROM t AS a WHERE a.x > 1 GROUP BY COUNTWINDOW(2) HAVING count(a.y) > 1",
            "SELECT x FROM %%trows WHERE x > 1 QUALIFY count(y) OVER () > 1",
        ),
        (
            "SELECT k + 1 AS g, count(*) AS c FROM t a GROUP BY g, COUNTWINDOW(2)",
            "SELECT k + 1 AS g, count(*) AS c FROM %%trows GROUP BY k + 1",
        ),
        (
            "SELECT x * 2 AS y FROM t WHERE y > 3 GROUP BY COUNTWINDOW(2)",
            "SELECT x * 2 AS y FROM %%trows WHERE (x * 2) > 3",
        ),
        (
            "SELECT event_time() AS e, rule_id() AS r FROM t GROUP BY COUNTWINDOW(2)",
            "SELECT timestamp_micros(_ls_order['_ls_ts']) AS e, 's' AS r FROM %%trows",
        ),
        (
            "SELECT k, event_time() AS e FROM t GROUP BY k, COUNTWINDOW(2)",
            "SELECT k, _twend AS e FROM %%trows GROUP BY k",
        ),
        (
            "SELECT last_value(x, false) AS v FROM t GROUP BY COUNTWINDOW(2)",
            "SELECT max_by(x, _ls_order) AS v FROM %%trows HAVING (count(1) > 0)",
        ),
        (
            "SELECT x, row_number() AS n FROM t GROUP BY COUNTWINDOW(2)",
            "SELECT x, row_number() OVER (ORDER BY _ls_order) AS n FROM %%trows",
        ),
        (
            "SELECT k, x AS first, window_end() AS we FROM t GROUP BY k, TUMBLINGWINDOW(ss, 1)",
            "SELECT k, first_row(x) AS first, _twend AS we FROM %%trows GROUP BY k",
        ),
        (
            "SELECT * FROM t WHERE x > 20 GROUP BY COUNTWINDOW(5,1) HAVING COUNT(*) > 2",
            "SELECT * FROM %%trows WHERE x > 20 QUALIFY count(*) OVER () > 2",
        ),
        (
            "SELECT k FROM t GROUP BY COUNTWINDOW(2) HAVING x > 1",
            "SELECT k FROM %%trows QUALIFY first_row(x) OVER () > 1",
        ),
        (
            "SELECT k FROM t GROUP BY COUNTWINDOW(2) HAVING window_end() > '2025-01-01'",
            "SELECT k FROM %%trows QUALIFY (_twend > '2025-01-01') AND count(1) OVER () > 0",
        ),
        (
            "SELECT k, max(x) AS Top FROM t GROUP BY k, COUNTWINDOW(2) HAVING top > 1 AND x < 9",
            "SELECT k, max(x) AS top FROM %%trows GROUP BY k HAVING ((max(x)) > 1 AND first_row(x) < 9)",
        ),
        (
            "SELECT sum(x) AS x FROM t GROUP BY COUNTWINDOW(2) HAVING x > 1 AND max(x) < 9",
            "SELECT sum(x) AS x FROM %%trows HAVING ((sum(x)) > 1 AND max(x) < 9) AND (count(1) > 0)",
        ),
        (
            "SELECT k, kurtosis(x) AS u FROM t GROUP BY COUNTWINDOW(2) HAVING count(*) > 1",
            "SELECT first_row(k), kurtosis(x) AS u FROM %%trows HAVING (count(*) > 1) AND (count(1) > 0)",
        ),
        ("SELECT * FROM t GROUP BY k, COUNTWINDOW(2)", "SELECT * FROM %%trows GROUP BY k"),
        (
            "SELECT *, count(*), x AS y FROM t GROUP BY COUNTWINDOW(2)",
            "SELECT *, count(*) AS `count`, first_row(x) AS y FROM %%trows HAVING (count(1) > 0)",
        ),
    ],
)
def test_what_is_left_is_the_calculation(select: str, calculation: str) -> None:
    assert parse_normal(read(select).calculation.sql) == parse_normal(calculation)


def test_columns_may_be_qualified_by_the_table() -> None:
    found = read("SELECT t.k, sum(t.x) AS s FROM t WHERE t.x > 1 GROUP BY t.k, TUMBLINGWINDOW(ss, 1)")
    assert parse_normal(found.calculation.sql) == (
        "select k, sum( x) as s from %%trows where x > 1 group by k"
    )
    assert found.columns == ("k", "s")


def parse_normal(text: str) -> str:
    return " ".join(text.split()).lower()


def test_columns_are_called_by_alias_column_or_function() -> None:
    found = read(
        "SELECT count(*), avg(x) AS a, window_end(), event_time(), stddev(x), x + 1 FROM t "
        "GROUP BY k, TUMBLINGWINDOW(ss, 1)"
    )
    assert found.columns == ("count", "a", "window_end", "event_time", "stddev", "kuiper_field_5")


@pytest.mark.parametrize(
    ("options", "by_arrival", "tolerance", "zone"),
    [
        ("WITH (TIMESTAMP='ts')", False, None, None),
        ("WITH (TIME_CHARACTERISTIC='event')", False, None, None),
        ("WITH (TIMEZONE='Asia/Shanghai')", True, None, "Asia/Shanghai"),
        ("WITH (TIMESTAMP='ts', LATE_TOLERANCE='500ms')", False, Duration(500, "a"), None),
        ("WITH (TIMESTAMP='ts', LATE_TOLERANCE=2000)", False, Duration(2000, "a"), None),
        ("", True, None, None),
    ],
)
def test_the_options_say_what_time_is(
    options: str, by_arrival: bool, tolerance: Duration | None, zone: str | None
) -> None:
    found = read("SELECT x FROM t GROUP BY COUNTWINDOW(2)", options).options
    assert found.late.drops
    assert (found.late.by_arrival, found.watermark, found.zone) == (by_arrival, tolerance, zone)


def test_the_time_column_is_quoted() -> None:
    options = read("SELECT x FROM t GROUP BY COUNTWINDOW(2)", "WITH (TIMESTAMP='order')").options
    column = options.late.time_column
    assert column is not None
    assert parse_expression(column).name == "order"


def test_other_statements_are_read_as_before() -> None:
    assert not read("SELECT x FROM t COUNT_WINDOW(2)", "").options.late.drops


def test_an_expression_has_the_meaning_of_one_dialect() -> None:
    with pytest.raises(StatementError, match="in eKuiper's dialect") as refused:
        parse_statement("CREATE TABLE t LOCATION 'x' TIMESTAMP BY (f(a))", dialect="ekuiper")
    assert (refused.value.code, refused.value.place and refused.value.place.column) == ("NOT_SUPPORTED", 42)


def test_a_table_of_events_has_no_key() -> None:
    text = "CREATE TABLE t (name STRING, ts TIMESTAMP)"
    found = parse_statement(text, dialect="ekuiper")
    assert isinstance(found, CreateTable)
    assert not found.keyed
    with pytest.raises(StatementError, match="must be a TIMESTAMP"):
        parse_statement(text)
