"""Queries over the tree as SQL, where the text of it tells: the rest is held by conformance cases."""

from __future__ import annotations

import pytest

from lakestream.compute.tree.series import SeriesQuery
from lakestream.compute.tree.targets import by_time
from lakestream.errors import StatementError
from lakestream.language import parse_statement
from lakestream.language.iotdb.paths import Path, Series
from lakestream.language.iotdb.values import QueryTree, Select


def path(text: str) -> Path:
    return Path(tuple(text.split(".")))


def select_of(text: str) -> Select:
    statement = parse_statement(text, dialect="iotdb")
    assert isinstance(statement, QueryTree)
    return statement.select


def query(text: str, *series: str) -> SeriesQuery:
    """Return a query over series of doubles, created in this order."""
    known = [Series(path(one), "DOUBLE", "sg", one.split(".")[-1], n) for n, one in enumerate(series)]
    return SeriesQuery(select_of(text), known, windows=None, instant=lambda _: 0, now_us=0)


@pytest.mark.parametrize(
    "condition",
    [
        "cast(s AS TEXT) NOT LIKE 'a%'",
        "cast(s AS TEXT) NOT REGEXP 'a'",
        "s NOT IN (1)",
        "s NOT BETWEEN 1 AND 2",
        "s IS NOT NULL",
    ],
)
def test_a_negated_condition_is_negated(condition: str) -> None:
    assert "(NOT (" in query(f"SELECT s FROM root.sg.d WHERE {condition}", "root.sg.d.s").sql


def test_devices_stand_in_the_order_of_from_and_then_of_their_creation() -> None:
    series = ("root.sg.z.s", "root.sg.b.s", "root.sh.a.s")
    by_wildcard = query("SELECT s FROM root.*.* ALIGN BY DEVICE", *series)
    by_name = query("SELECT s FROM root.sh.a, root.sg.b, root.sg.* ALIGN BY DEVICE", *series)
    assert list(map(str, by_wildcard.devices)) == ["root.sg.z", "root.sg.b", "root.sh.a"]
    assert list(map(str, by_name.devices)) == ["root.sh.a", "root.sg.b", "root.sg.z"]


def test_a_placeholder_in_the_device_alone_needs_a_target_for_every_column() -> None:
    sources = [path("root.sg.a.s"), path("root.sg.b.s")]
    assert by_time(select_of("SELECT s INTO root.o.::(::) FROM root.sg.*"), sources) == [
        path("root.o.a.s"),
        path("root.o.b.s"),
    ]
    with pytest.raises(StatementError, match="1 targets for 2 columns"):
        by_time(select_of("SELECT s INTO root.o.::(t) FROM root.sg.*"), sources)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("s = '1'", "DOUBLE and TEXT cannot be compared"),
        ("s IN (1, 'a')", "DOUBLE and TEXT cannot be compared"),
        ("s BETWEEN 1 AND true", "DOUBLE and BOOLEAN cannot be compared"),
        ("s LIKE '1%'", "LIKE and REGEXP take texts, not DOUBLE"),
        ("s > 1 AND s", "AND, OR and NOT take conditions, not DOUBLE"),
        ("s + 1", "WHERE takes a condition, not DOUBLE"),
    ],
)
def test_a_condition_that_points_cannot_be_held_to_is_refused(condition: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as refused:
        query(f"SELECT s FROM root.sg.d WHERE {condition}", "root.sg.d.s")
    assert refused.value.code == "SERIES_TYPE"


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        ("time BETWEEN 1 AND 2", "(ts BETWEEN timestamp_micros(7) AND timestamp_micros(7))"),
        (
            "time NOT BETWEEN 1 AND now() - 1s",
            "(NOT (ts BETWEEN timestamp_micros(7) AND timestamp_micros(-1000000)))",
        ),
        ("time IN (1, 2025-01-01)", "(ts IN (timestamp_micros(7), timestamp_micros(7)))"),
        ("time NOT IN (1)", "(NOT (ts IN (timestamp_micros(7))))"),
    ],
)
def test_time_lies_between_and_among_instants(condition: str, sql: str) -> None:
    select = select_of(f"SELECT s FROM root.sg.d WHERE {condition}")
    known = [Series(path("root.sg.d.s"), "DOUBLE", "sg", "s", 0)]
    assert sql in SeriesQuery(select, known, windows=None, instant=lambda _: 7, now_us=0).sql


@pytest.mark.parametrize("condition", ["s BETWEEN time AND 2", "s IN (time)", "time BETWEEN s AND 2"])
def test_time_stands_before_between_and_in(condition: str) -> None:
    with pytest.raises(StatementError) as refused:
        query(f"SELECT s FROM root.sg.d WHERE {condition}", "root.sg.d.s")
    assert refused.value.code == "TIME_CONDITION"
