"""When windows are computed and what becomes of late rows: the cases that statements give."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_statement
from lakestream.language.expressions.differences import differences
from lakestream.language.model import CreateStream, Duration, StreamDefinition
from lakestream.language.policies import (
    AtOnce,
    ByClock,
    Corrected,
    Delayed,
    DelayedFromFirstRow,
    Drop,
    DropByArrival,
    Emission,
    Exact,
    Ignore,
    IgnoreClosed,
    LatePolicy,
    OnClose,
    OnOpen,
    Refire,
    RefireClosed,
    Rewritten,
)

DELAY, HOUR = Duration(5, "s"), Duration(1, "h")
OPTIONS = {
    "emission": ("EVENT_TYPE(WINDOW_OPEN)", "EVENT_TYPE(WINDOW_CLOSE|WINDOW_OPEN)", "MAX_DELAY(5s)"),
    "late": ("EXPIRED_TIME(1h)", "IGNORE_DISORDER", "DELETE_RECALC", "EXACT"),
}


def read(*options: str) -> StreamDefinition:
    written = f"STREAM_OPTIONS({' | '.join(options)})" if options else ""
    statement = parse_statement(
        f"CREATE STREAM s SESSION(ts, 5s) FROM t {written} INTO o AS SELECT _twstart AS ws, 1 AS n"
    )
    assert isinstance(statement, CreateStream)
    return statement.definition


@pytest.mark.parametrize(
    ("options", "emission"),
    [
        ((), OnClose()),
        (("EVENT_TYPE(WINDOW_CLOSE)",), OnClose()),
        (("EVENT_TYPE(WINDOW_OPEN)",), OnOpen()),
        (("EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)",), OnOpen(closes=True)),
        (("MAX_DELAY(5s)",), Delayed(DELAY)),
        (("MAX_DELAY(5s)", "EVENT_TYPE(WINDOW_OPEN)"), Delayed(DELAY, OnOpen())),
        (("EVENT_TYPE(WINDOW_OPEN|WINDOW_CLOSE)", "MAX_DELAY(5s)"), Delayed(DELAY, OnOpen(closes=True))),
    ],
)
def test_options_say_when_windows_are_computed(options: tuple[str, ...], emission: Emission) -> None:
    found = read("IGNORE_DISORDER", *options).options
    assert (found.emission, found.late) == (emission, Ignore())


@pytest.mark.parametrize(
    ("options", "late"),
    [
        ((), Refire()),
        (("EXPIRED_TIME(1h)",), Refire(HOUR)),
        (("DELETE_RECALC", "EXPIRED_TIME(1h)"), Refire(HOUR, delete_recalc=True)),
        (("IGNORE_DISORDER",), Ignore()),
        (("EXPIRED_TIME(1h)", "IGNORE_DISORDER"), Ignore(HOUR)),
        (("IGNORE_DISORDER", "DELETE_RECALC"), Ignore(delete_recalc=True)),
        (("EXACT",), Exact()),
        (("DELETE_RECALC", "EXACT"), Exact()),
    ],
)
def test_options_say_what_becomes_of_late_rows(options: tuple[str, ...], late: LatePolicy) -> None:
    found = read("MAX_DELAY(5s)", *options).options
    assert (found.emission, found.late) == (Delayed(DELAY), late)


EMISSIONS: list[tuple[Emission, set[str]]] = [
    (OnClose(), {"at_close", "by_mark"}),
    (OnOpen(), {"at_open", "fires_early"}),
    (OnOpen(closes=True), {"at_close", "at_open", "fires_early"}),
    (AtOnce(), {"at_close", "at_once", "opens_ahead", "fires_open", "fires_early"}),
    (Delayed(DELAY), {"at_close", "max_delay", "fires_open", "fires_early", "by_mark"}),
    (Delayed(DELAY, OnOpen()), {"at_open", "max_delay", "fires_open", "fires_early"}),
    (
        DelayedFromFirstRow(DELAY),
        {"at_close", "max_delay", "opens_ahead", "fires_open", "fires_early", "by_mark"},
    ),
    (ByClock(), {"by_clock"}),
    (Corrected(HOUR), {"at_close", "recalculate_every", "by_mark"}),
]
LATE: list[tuple[LatePolicy, set[str]]] = [
    (Refire(), set()),
    (Refire(HOUR, delete_recalc=True), {"expired_time", "delete_recalc", "leaves_out"}),
    (Ignore(), {"ignores_late", "leaves_out"}),
    (RefireClosed(), {"expires_closed", "delete_recalc"}),
    (
        RefireClosed(HOUR, counts_rewritten=True),
        {"expires_closed", "expired_time", "counts_rewritten", "leaves_out"},
    ),
    (IgnoreClosed(Rewritten.COUNTED), {"ignores_late", "expires_closed", "counts_rewritten", "leaves_out"}),
    (
        IgnoreClosed(Rewritten.FOLLOWED),
        {"ignores_late", "expires_closed", "follows_updates", "delete_recalc", "leaves_out"},
    ),
    (IgnoreClosed(Rewritten.IGNORED), {"ignores_late", "expires_closed", "leaves_out"}),
    (Exact(), {"exact"}),
    (Drop(), {"drops", "leaves_out"}),
    (Drop(exact=True), {"drops", "exact", "leaves_out"}),
    (DropByArrival(), {"drops", "by_arrival", "leaves_out"}),
]


@pytest.mark.parametrize(
    ("case", "holds"),
    [*EMISSIONS, *LATE],
    ids=lambda value: str(value) if not isinstance(value, set) else " ".join(sorted(value)),
)
def test_a_case_answers_what_is_asked_of_all(case: Emission | LatePolicy, holds: set[str]) -> None:
    base = type(case).__mro__[1]
    asked = [name for name, member in vars(base).items() if isinstance(member, property)]
    assert {name for name in asked if getattr(case, name)} == holds


def test_options_that_differ_are_told_apart() -> None:
    definitions: dict[tuple[str, ...], StreamDefinition] = {}
    for length, part in product(range(4), OPTIONS.values()):
        for options in combinations(part, length):
            try:
                definitions[options] = read(*options)
            except StatementError:
                continue  # they exclude each other
    assert len(definitions) == 15
    for (one, before), (other, after) in combinations(definitions.items(), 2):
        is_same = {*one} ^ {*other} == {"DELETE_RECALC"} and "EXACT" in one
        assert bool(differences(before, after)) != is_same
