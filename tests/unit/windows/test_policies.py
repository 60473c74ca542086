"""What each policy makes of late rows, updates, deletes and open windows (TDengine A5, A7, A11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.engine.windows.rows.policy import counts_on, keeps_closed, keeps_expired
from tests.unit.windows.streams import classic, new

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

TENS, SESSION, STATE = "INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)", "STATE_WINDOW(v)"
FOLLOWING = {"refires", "follows_source", "follows_updates"}
OF_STREAMS = (*FOLLOWING, "deletes", "goes_by_ticks", "forgets_what_went", "counts_rewritten")
OF_ROW_WINDOWS = (keeps_expired, keeps_closed, counts_on)


def holding(stream: Stream) -> set[str]:
    """Return the names of what holds of a stream, whoever answers it."""
    found = {name for name in OF_STREAMS if getattr(stream, name)}
    found |= {name for name in ("fires_early", "fires_open") if getattr(stream.emission, name)}
    return found | {rule.__name__ for rule in OF_ROW_WINDOWS if rule(stream)}


@pytest.mark.parametrize(
    ("trigger", "options", "policies"),
    [
        (TENS, "", FOLLOWING),
        (SESSION, "", FOLLOWING),
        (STATE, "", FOLLOWING),
        ("SLIDING(10s)", "", set()),
        ("PERIOD(10s)", "", {"goes_by_ticks"}),
        ("COUNT_WINDOW(3)", "", {"counts_on"}),
        ("COUNT_WINDOW(3, 2)", "", {"counts_on"}),
        ("COUNT_WINDOW(3, 1)", "", {*FOLLOWING, "counts_on"}),
        ("COUNT_WINDOW(1)", "", {*FOLLOWING, "counts_on"}),
        (TENS, "IGNORE_DISORDER", set()),
        (TENS, "DELETE_RECALC", {*FOLLOWING, "deletes"}),
        (TENS, "IGNORE_DISORDER | DELETE_RECALC", {"deletes"}),
        (TENS, "EXPIRED_TIME(1h)", {"refires", "follows_updates"}),
        (SESSION, "EXPIRED_TIME(1h)", {"refires", "follows_updates"}),
        (STATE, "EXPIRED_TIME(1h)", {"refires", "follows_updates", "keeps_expired"}),
        (TENS, "EXACT", {*FOLLOWING, "deletes", "forgets_what_went"}),
        (SESSION, "EXACT", {*FOLLOWING, "deletes"}),
        ("COUNT_WINDOW(3)", "EXACT", {*FOLLOWING, "deletes", "counts_on"}),
        (TENS, "MAX_DELAY(3s)", {*FOLLOWING, "fires_early", "fires_open"}),
        (TENS, "EVENT_TYPE(WINDOW_OPEN)", {*FOLLOWING, "fires_early"}),
        (TENS, "EXACT | MAX_DELAY(3s)", {*FOLLOWING, "deletes", "fires_early", "fires_open"}),
    ],
)
def test_policies_of_the_syntax_with_the_trigger_first(
    trigger: str, options: str, policies: set[str]
) -> None:
    assert holding(new(trigger, options)) == policies


@pytest.mark.parametrize(
    ("window", "options", "policies"),
    [
        ("INTERVAL(10s)", "", {"counts_rewritten"}),
        ("INTERVAL(10s)", "IGNORE UPDATE 0", {"follows_updates", "deletes"}),
        ("INTERVAL(10s)", "IGNORE EXPIRED 0", {"refires", "follows_source", "counts_rewritten"}),
        ("INTERVAL(10s)", "IGNORE EXPIRED 0 IGNORE UPDATE 0", {*FOLLOWING, "deletes"}),
        ("INTERVAL(10s)", "TRIGGER AT_ONCE", {"counts_rewritten", "fires_early", "fires_open"}),
        ("INTERVAL(10s)", "TRIGGER MAX_DELAY 5s", {"counts_rewritten", "fires_early", "fires_open"}),
        ("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE", {"goes_by_ticks", "counts_rewritten"}),
        (SESSION, "", {"counts_rewritten", "keeps_closed"}),
        (SESSION, "IGNORE EXPIRED 0", {"refires", "follows_source", "counts_rewritten"}),
        ("COUNT_WINDOW(3)", "", {"counts_rewritten", "keeps_closed"}),
        (STATE, "DELETE_MARK 1h IGNORE EXPIRED 0", {"refires", "counts_rewritten", "keeps_expired"}),
    ],
)
def test_policies_of_the_classic_syntax(window: str, options: str, policies: set[str]) -> None:
    assert holding(classic(window, options)) == policies
