"""CALENDAR by its text: the grid that its windows lie on, how far they lie apart, how it is printed."""

from __future__ import annotations

import pytest

from lakestream.language import parse_statement
from lakestream.language.expressions.shown import trigger_text
from lakestream.language.model import CalendarTrigger, CreateStream
from lakestream.triggers.grid import MONDAY, FixedGrid, Grid, LocalGrid, MonthGrid, grid_of
from lakestream.triggers.kinds import step_us, type_in_messages
from lakestream.triggers.sqltime import DAY

ZONE = "Europe/Berlin"


def read(text: str) -> CalendarTrigger:
    """Return the trigger of a stream that is written so."""
    statement = parse_statement(f"CREATE STREAM s {text} FROM t INTO o AS SELECT _twstart AS t FROM %%trows")
    assert isinstance(statement, CreateStream)
    assert isinstance(statement.definition.trigger, CalendarTrigger)
    return statement.definition.trigger


@pytest.mark.parametrize(
    ("text", "grid", "days"),
    [
        ("CALENDAR(WEEK)", LocalGrid(7 * DAY, 7 * DAY, MONDAY, ZONE), 7),
        ("CALENDAR(WEEK FROM SUNDAY)", LocalGrid(7 * DAY, 7 * DAY, MONDAY + 6 * DAY, ZONE), 7),
        ("CALENDAR(MONTH)", MonthGrid(1, 1, 0, 0, ZONE), 30),
        ("CALENDAR(MONTH FROM 25)", MonthGrid(1, 1, 0, 24 * DAY, ZONE), 30),
        ("CALENDAR(QUARTER)", MonthGrid(3, 3, 0, 0, ZONE), 91),
        ("CALENDAR(QUARTER FROM FEBRUARY)", MonthGrid(3, 3, 1, 0, ZONE), 91),
        ("CALENDAR(YEAR)", MonthGrid(12, 12, 0, 0, ZONE), 365),
        ("CALENDAR(YEAR FROM APRIL)", MonthGrid(12, 12, 3, 0, ZONE), 365),
        ("CALENDAR(YEAR FROM APRIL 6)", MonthGrid(12, 12, 3, 5 * DAY, ZONE), 365),
    ],
)
def test_each_unit_lies_on_a_grid_that_intervals_have(text: str, grid: Grid, days: int) -> None:
    trigger = read(text)
    assert grid_of(trigger, ZONE) == grid
    assert grid.is_tumbling
    assert step_us(trigger) == days * DAY
    assert trigger_text(trigger) == text
    assert type_in_messages(trigger) == "Calendar"


def test_weeks_of_utc_are_all_of_one_length() -> None:
    assert grid_of(read("CALENDAR(WEEK)"), "UTC") == FixedGrid(7 * DAY, 7 * DAY, MONDAY)
