"""Events as rows of the outbox: identity and text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lakestream.language.model import (
    ON_TIME,
    WINDOW_CLOSE,
    WINDOW_OPEN,
    Duration,
    IntervalTrigger,
    SessionTrigger,
)
from lakestream.notify.events import WINDOW_INVALIDATION, EventRules
from lakestream.notify.outbox import COLUMNS
from lakestream.notify.rows import outbox_rows
from lakestream.output.columns import FLAT

LOW, HIGH = 1_735_689_600_000_000, 1_735_689_610_000_000
INTERVAL = IntervalTrigger(Duration(10, "s"), Duration(0, "s"), Duration(10, "s"))


def rules(**changes: Any) -> EventRules:
    usual: dict[str, Any] = {
        "uuid": "u",
        "stream": "s",
        "trigger": INTERVAL,
        "wanted": (WINDOW_CLOSE,),
        "columns": (),
        "table": "NULL",
        "subtables": False,
        "places": FLAT,
        "calculates": True,
        "at_open": False,
        "at_close": True,
        "only_with_rows": False,
    }
    return EventRules(**{**usual, **changes})


def written(of: EventRules, **changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "seq": 0,
        "gid": 7,
        "low": LOW,
        "high": HIGH,
        "kind": WINDOW_CLOSE,
        "extra": None,
        "table_name": 'the "table"\n',
        "has_result": True,
        "has_rows": True,
        "passing": ['{"n":1}'],
    }
    found = pa.Table.from_pylist([{**usual, **changes}])
    rows = outbox_rows(of, found, now_ms=1_000, tag="changes:3")
    assert rows.column_names == list(COLUMNS)
    row: dict[str, Any] = rows.to_pylist()[0]
    return row


def event_of(of: EventRules, **changes: Any) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(written(of, **changes)["event"])
    return event


def test_a_closing_has_its_window_and_result() -> None:
    event = event_of(rules())
    trigger_id = event.pop("triggerId")
    assert len(trigger_id) == 32
    assert event == {
        "tableName": 'the "table"\n',
        "eventType": "WINDOW_CLOSE",
        "eventTime": 1_000,
        "triggerType": "Interval",
        "groupId": "7",
        "windowStart": LOW // 1_000,
        "windowEnd": HIGH // 1_000,
        "result": {"n": 1},
    }


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"has_result": False}, None),
        ({"kind": WINDOW_INVALIDATION}, None),
        ({"has_rows": False, "passing": None}, {}),
        ({"passing": ['{"n":1}', '{"n":2}']}, {"data": [{"n": 1}, {"n": 2}], "curSize": 2}),
    ],
)
def test_the_result_of_an_event(changes: dict[str, Any], result: dict[str, Any] | None) -> None:
    more = {"curOffset": 0, "finish": True} if result else {}
    assert event_of(rules(), **changes).get("result") == (None if result is None else {**result, **more})


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        (WINDOW_OPEN, {"windowStart": LOW // 1_000}),
        (ON_TIME, {}),
        (WINDOW_INVALIDATION, {"windowStart": LOW // 1_000, "windowEnd": HIGH // 1_000}),
    ],
)
def test_what_an_event_says_of_its_window(kind: str, bounds: dict[str, int]) -> None:
    event = event_of(rules(), kind=kind, table_name=None)
    assert {name: event[name] for name in event if name.startswith("window")} == bounds
    assert "tableName" not in event


def test_windows_of_rows_end_with_their_last_instant() -> None:
    of = rules(trigger=SessionTrigger("ts", Duration(1, "s")))
    row = written(of, extra='{"conditionCause":"gap"}')
    event = json.loads(row["event"])
    assert (event["windowEnd"], event["conditionCause"]) == ((HIGH - 1) // 1_000, "gap")
    assert int(row["window_end"].timestamp() * 1_000_000) == HIGH - 1


def test_the_classic_syntax_names_the_window() -> None:
    event = event_of(rules(classic=True))
    assert (event["windowId"], event["windowType"]) == (event["triggerId"], "Time")


def test_ids_follow_from_window_and_commit_alone() -> None:
    first, again = written(rules()), written(rules(), passing=['{"n":2}'])
    opened, other = written(rules(), kind=WINDOW_OPEN), written(rules(), gid=8)
    assert (first["event_id"], first["trigger_id"]) == (again["event_id"], again["trigger_id"])
    assert opened["trigger_id"] == first["trigger_id"]
    assert len({first["event_id"], opened["event_id"], other["event_id"]}) == 3
    assert other["trigger_id"] != first["trigger_id"]


def test_no_events_are_no_rows() -> None:
    nothing = pa.table({name: pa.array([], kind) for name, kind in EMPTY.items()})
    assert outbox_rows(rules(), nothing, now_ms=1, tag="t").num_rows == 0


EMPTY = {
    "seq": pa.int64(),
    "gid": pa.int64(),
    "low": pa.int64(),
    "high": pa.int64(),
    "kind": pa.string(),
    "extra": pa.string(),
    "table_name": pa.string(),
    "has_result": pa.bool_(),
    "has_rows": pa.bool_(),
    "passing": pa.list_(pa.string()),
}
