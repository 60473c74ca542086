"""The reference of whole streams, held to figures that were derived by hand from the documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.reference.stream import (
    Change,
    Count,
    Event,
    Grid,
    Run,
    Session,
    State,
    Stream,
    Undetermined,
    written,
)

if TYPE_CHECKING:
    from tests.reference.stream import Figures, Row


def count_and_sum(rows: list[Row]) -> Figures:
    """Return how many rows there are and their total."""
    return len(rows), sum(row["v"] for row in rows if row["v"] is not None)


def row(ts: int, v: int | None = 1) -> Row:
    """Return a row of the one table."""
    return {"tbname": "t", "ts": ts, "v": v}


def came(*rows: Row) -> list[Change]:
    """Return a commit of new rows."""
    return [Change(None, new) for new in rows]


SESSION = Stream(Session(4), count_and_sum)
CLASSIC = replace(SESSION, classic=True, follows_late=False, follows_updates=False)


def test_a_late_row_bridges_two_sessions() -> None:
    history = [came(row(0, 1), row(8, 2), row(20, 4)), came(row(4, 8))]
    assert written(SESSION, history[:1]) == [(0, 0, 1, 1), (8, 8, 1, 2)]
    assert written(SESSION, history) == [(0, 8, 3, 11)]


def test_a_late_row_that_is_ignored_joins_the_open_session_within_its_gap() -> None:
    history = [came(row(0, 1), row(10, 2)), came(row(7, 4)), came(row(1, 8)), came(row(30, 16))]
    assert written(CLASSIC, history) == [(0, 4, 1, 1), (7, 14, 2, 6)]


def test_at_once_shows_rows_within_the_watermark() -> None:
    stream = replace(CLASSIC, emission="at once", watermark=100)
    assert written(stream, [came(row(0, 1), row(10, 2))]) == [(0, 4, 1, 1), (10, 14, 1, 2)]


def test_an_event_window_that_nothing_has_ended_gives_nothing() -> None:
    stream = Stream(Event(), count_and_sum, emission="at once", classic=True)
    assert written(stream, [came(row(0, 1), row(1, 5))]) == []
    assert written(stream, [came(row(0, 1), row(1, 2), row(2, 1))]) == [(0, 1, 2, 3)]


def test_an_expired_row_triggers_nothing_and_is_in_what_is_computed_again() -> None:
    stream = replace(SESSION, expiry=8)
    history = [came(row(0, 1), row(10, 2), row(20, 4)), came(row(3, 8))]
    assert written(stream, history) == [(0, 0, 1, 1), (10, 10, 1, 2)]
    assert written(stream, [*history, came(row(12, 16))])[1] == (10, 12, 2, 18)


def test_a_rewritten_row_is_one_row_more() -> None:
    stream = Stream(Grid(10, 10), count_and_sum, classic=True, drops_empty=True, counts_rewritten=True)
    history = [came(row(1, 1)), [Change(row(1, 1), row(1, 2))], came(row(12, 4))]
    assert written(stream, history) == [(0, 10, 2, 3)]


def test_an_update_moves_a_row_out_of_its_window() -> None:
    history = [came(row(0, 1), row(1, 2), row(2, 3)), [Change(row(1, 2), row(1, 1))]]
    stream = Stream(State(), count_and_sum)
    assert written(stream, history[:1]) == [(0, 0, 1, 1), (1, 1, 1, 2)]
    assert written(stream, history) == [(0, 1, 2, 2)]


def test_counted_windows_count_no_late_row() -> None:
    stream = Stream(Count(2, 2), count_and_sum, follows_late=False, follows_updates=False)
    history = [came(row(1, 1), row(5, 2), row(6, 4)), came(row(3, 8)), came(row(9, 16))]
    assert [found[:2] for found in written(stream, history)] == [(1, 5), (6, 9)]


def test_the_clock_closes_a_window_once() -> None:
    stream = Stream(Grid(10, 10), count_and_sum, emission="by the clock", drops_empty=True, classic=True)
    history: list[Any] = [came(row(1, 1)), Run(9), Run(12), came(row(2, 2), row(13, 4)), Run(25)]
    assert written(stream, history) == [(0, 10, 1, 1), (10, 20, 1, 4)]


def test_rows_before_the_stream_are_its_own_once_they_change() -> None:
    old = row(1, 1)
    assert written(SESSION, [came(row(2, 2), row(9, 4))], [old]) == [(2, 2, 1, 2)]
    changed = [[Change(old, row(1, 8))], came(row(2, 2), row(9, 4))]
    assert written(SESSION, changed, [old]) == [(1, 2, 2, 10)]


def test_a_delete_that_triggers_nothing_cuts_the_open_session() -> None:
    cut = [came(row(1, 1), row(3, 2), row(6, 4)), [Change(row(3, 2), None)]]
    assert written(SESSION, cut) == [(1, 1, 1, 1)]


@pytest.mark.parametrize("of", [{"emission": "at once"}, {"trigger": Count(2, 2)}])
def test_what_no_document_says_is_not_guessed(of: dict[str, Any]) -> None:
    with pytest.raises(Undetermined):
        written(replace(SESSION, **of), [came(row(1, 1)), [Change(row(1, 1), None)]])
