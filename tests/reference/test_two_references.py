"""The reference of whole streams agrees with that of INTERVAL and SLIDING, which knows calendars too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.reference import fold
from tests.reference.grid import Interval, Sliding, Span
from tests.reference.stream import Change, Grid, Instants, Stream, key_of, written

if TYPE_CHECKING:
    from tests.reference.stream import Figures, Row

START = datetime(2025, 1, 1, tzinfo=UTC)
TRIGGERS: list[tuple[Any, Any]] = [
    (Grid(10, 10), Interval(Span(10, "s"), Span(10, "s"))),
    (Grid(10, 4), Interval(Span(10, "s"), Span(4, "s"))),
    (Grid(4, 10), Interval(Span(4, "s"), Span(10, "s"))),
    (Instants(6), Sliding(Span(6, "s"))),
]
POLICIES: dict[str, dict[str, Any]] = {
    "default": {},
    "ignore disorder": {"ignore_disorder": True},
    "expired time": {"expired_time": timedelta(seconds=8)},
    "delete recalc": {"delete_recalc": True},
    "exact": {"exact": True},
}


def _figures(rows: list[Row]) -> Figures:
    return len(rows), sum(row["v"] for row in rows)


def _history(random: Random) -> list[list[Change]]:
    there: dict[Any, Row] = {}
    history, newest = [], 0
    for _ in range(9):
        newest += random.choice((0, 1, 5, 14))
        kind = random.choice(("insert", "insert", "late", "update", "delete"))
        if kind in ("insert", "late") or not there:
            at = newest if kind == "insert" else max(0, newest - random.randint(0, 25))
            new = {"tbname": random.choice("ab"), "ts": at, "v": random.randint(1, 9)}
            change = Change(there.get(key_of(new)), new)
        else:
            old = there[random.choice(sorted(there))]
            change = Change(old, {**old, "v": random.randint(10, 19)} if kind == "update" else None)
        if change.old is not None:
            del there[key_of(change.old)]
        if change.new is not None:
            there[key_of(change.new)] = change.new
        history.append([change])
    return history


def _in_time(row: Row | None) -> Row:
    assert row is not None
    return {**row, "ts": START + timedelta(seconds=row["ts"])}


def _as_commit(commit: list[Change]) -> list[fold.Change]:
    return [
        fold.Change(_in_time(c.new), was=None if c.old is None else _in_time(c.old))
        if c.new is not None
        else fold.Change(_in_time(c.old), "delete")
        for c in commit
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("trigger", "other"), TRIGGERS, ids=[str(trigger) for trigger, _ in TRIGGERS])
@pytest.mark.parametrize("watermark", [0, 4])
def test_both_say_the_same(trigger: Any, other: Any, policy: str, watermark: int) -> None:
    follows = isinstance(trigger, Grid) and policy != "ignore disorder"
    options = POLICIES[policy]
    stream = Stream(
        trigger,
        _figures,
        watermark=watermark,
        follows_late=follows or policy == "exact",
        follows_updates=follows or policy == "exact",
        follows_deletes=policy in ("delete recalc", "exact"),
        exact=policy == "exact",
        expiry=8 if policy == "expired time" else None,
        group=lambda row: (row["tbname"],),
    )
    known = fold.Stream(
        other, _figures, group=lambda r: (r["tbname"],), watermark=timedelta(seconds=watermark), **options
    )
    for seed in range(30):
        history = _history(Random(seed))
        wanted = [
            (group, _second(start), _second(end), *figures)
            for group, start, end, *figures in fold.evaluate(known, map(_as_commit, history))
        ]
        assert sorted(written(stream, history)) == sorted(wanted), history


def _second(at: datetime) -> int:
    return round((at - START).total_seconds())
