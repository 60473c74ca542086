"""Continuous queries and triggers as registered."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from lakestream.storage.places.layout import Layout
from lakestream.storage.records.definitions import QUERY_COLUMNS, Definitions, QueryRecord, TriggerRecord
from lakestream.storage.records.keyed import KeyedTable

if TYPE_CHECKING:
    from pathlib import Path

QUERY = QueryRecord("u1", "c", "CREATE CQ c …", "UTC", 1, 0, 20)


def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path / "lake"))
    found.initialise()
    return found


def test_queries_are_read_back_by_another_process(tmp_path: Path) -> None:
    ours, theirs = Definitions(layout(tmp_path)), Definitions(layout(tmp_path))
    assert theirs.queries() == []
    ours.put_queries([QUERY])
    ours.put_queries([replace(QUERY, name="b")])
    assert [record.name for record in theirs.queries()] == ["b", "c"]
    assert theirs.queries() is theirs.queries()
    done = replace(QUERY, next_us=40, last_us=20, skipped=1, last_error="E", versions={"/t": 3})
    ours.put_queries([done])
    assert theirs.query("c") == done
    ours.remove_query("c")
    assert theirs.query("c") is None


def test_triggers_come_in_the_order_of_their_creation(tmp_path: Path) -> None:
    definitions = Definitions(layout(tmp_path))
    first = TriggerRecord("u1", "z", "CREATE …", 1, {"/t": 3}, "00ff")
    definitions.put_triggers([first])
    definitions.put_triggers([TriggerRecord("u2", "a", "CREATE …", 2), replace(first, versions={"/t": 4})])
    assert [(record.name, record.versions) for record in definitions.triggers()] == [
        ("z", {"/t": 4}),
        ("a", {}),
    ]
    definitions.remove_trigger("z")
    assert [record.name for record in definitions.triggers()] == ["a"]


def test_what_was_dropped_meanwhile_stays_dropped(tmp_path: Path) -> None:
    ours, theirs = Definitions(layout(tmp_path)), Definitions(layout(tmp_path))
    ours.put_queries([QUERY, replace(QUERY, name="b")])
    theirs.remove_query("b")
    theirs.remove_query("c")
    theirs.put_queries([replace(QUERY, uuid="another", next_us=7)])
    ours.renew_queries([replace(QUERY, next_us=40), replace(QUERY, name="b", next_us=40)])
    assert ours.queries() == [replace(QUERY, uuid="another", next_us=7)]


def test_a_trigger_keeps_what_it_was_told_of_meanwhile(tmp_path: Path) -> None:
    ours, theirs = Definitions(layout(tmp_path)), Definitions(layout(tmp_path))
    trigger = TriggerRecord("u1", "z", "CREATE …", 1, {"/t": 3})
    ours.put_triggers([trigger])
    theirs.put_triggers([replace(trigger, versions={"/t": 3, "/new": 5})])
    ours.renew_triggers([replace(trigger, versions={"/t": 4, "/made": 0}, state="00")])
    assert theirs.triggers() == [replace(trigger, versions={"/t": 4, "/new": 5, "/made": 0}, state="00")]


def test_old_and_new_rows_are_put_together(tmp_path: Path) -> None:
    table = KeyedTable(layout(tmp_path).system_path("t"), {"k": "string", "v": "bigint"}, "k")
    table.put([{"k": "a", "v": 1}])
    table.put([{"k": "a", "v": 2}, {"k": "b", "v": 3}])
    assert KeyedTable(table.path, {"k": "string", "v": "bigint"}, "k").rows() == {
        "a": {"k": "a", "v": 2},
        "b": {"k": "b", "v": 3},
    }


def test_a_table_of_an_older_lakestream_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    path = layout(tmp_path).system_path("continuous_queries")
    lately = {"series", "versions", "backfill_until_us", "resume_us"}
    old = {name: kind for name, kind in QUERY_COLUMNS.items() if name not in lately}
    KeyedTable(path, old, "name").put([{**asdict(QUERY), "name": "old"}])
    ours, theirs = Definitions(layout(tmp_path)), Definitions(layout(tmp_path))
    assert ours.queries() == [replace(QUERY, name="old")]
    ours.put_queries([replace(QUERY, series=4, versions={"/t": 3})])
    assert theirs.queries() == [replace(QUERY, series=4, versions={"/t": 3}), replace(QUERY, name="old")]
    ours.remove_query("old")
    assert [record.name for record in theirs.queries()] == ["c"]
