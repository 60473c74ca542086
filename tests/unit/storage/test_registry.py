from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakestream.errors import StatementError, StorageError
from lakestream.storage.records.keyed import KeyedTable
from lakestream.storage.records.registry import Compiled, Progress, Registry, StreamRecord, TickPlan
from lakestream.storage.records.tick_log import TickLog

if TYPE_CHECKING:
    from lakestream.storage.places.layout import Layout


def record(uuid: str = "u1", name: str = "s") -> StreamRecord:
    at = (1, 2, "id", "main.out", "main.t", "UTC")
    return StreamRecord(
        uuid, "main", name, "CREATE STREAM …", "Running", *at, Compiled("by_row", exact=False)
    )


def test_streams_are_kept(layout: Layout) -> None:
    registry = Registry(layout)
    assert registry.streams() == []
    registry.add(record())
    registry.add(record("u2", "a'b\\c"))
    assert [s.name for s in Registry(layout).streams("main")] == ["a'b\\c", "s"]
    with pytest.raises(StatementError, match="STREAM_ALREADY_EXISTS"):
        registry.add(record("u3", "S"))
    changed = registry.update("u1", status="Failed", last_error="why", skipped=((1, 2),))
    assert Registry(layout).stream("main", "s") == changed
    registry.remove("u1")
    assert Registry(layout).find("main", "s") is None
    with pytest.raises(StatementError, match="STREAM_NOT_FOUND") as error:
        registry.update("u1", status="Running")
    assert error.value.hint == "SHOW STREAMS lists those that there are"
    for database, hint in (
        ("main", "known: a'b\\c"),
        ("other", "other has no streams; CREATE STREAM makes one"),
    ):
        with pytest.raises(StatementError, match="STREAM_NOT_FOUND") as error:
            registry.stream(database, "s")
        assert error.value.hint == hint


def test_of_two_processes_one_registers_a_name(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Registry(layout), Registry(layout)
    first.add(record("u0", "other"))
    assert [s.name for s in second.streams()] == ["other"]
    read = KeyedTable.rows

    def reading(table: KeyedTable) -> dict[str, dict[str, Any]]:
        """Let the other process come in between the look and the write, once."""
        found = read(table)
        monkeypatch.setattr(KeyedTable, "rows", read)
        first.add(record("u1", "Δ"))
        return found

    monkeypatch.setattr(KeyedTable, "rows", reading)
    with pytest.raises(StatementError, match="STREAM_ALREADY_EXISTS"):
        second.add(record("u2", "δ"))
    second.add(record("u3", "t"))
    assert [s.uuid for s in Registry(layout).streams()] == ["u0", "u3", "u1"]


def test_the_last_plan_and_progress_are_found_after_a_restart(layout: Layout) -> None:
    registry = Registry(layout)
    registry.add(record())
    assert registry.last("u1") == (None, None)
    plan = TickPlan("u1", 1, "changes", 0, 5, 7, {"/x": 3}, None, 9, "arrow", closed=(1, 2))
    done = Progress("u1", 1, 5, rows_in=10, seconds=0.5)
    registry.write_plans([plan, TickPlan("u2", 4, "changes", 0, 1, 7)])
    registry.write_progress([done])
    registry.write_plans([])
    assert registry.last("u1") == (plan, done)
    assert Registry(layout).last("u1") == (plan, done)
    assert Registry(layout).history("u1") == [done]


def test_another_process_sees_new_ticks(layout: Layout) -> None:
    writer, reader = Registry(layout), Registry(layout)
    for tick in range(3):
        writer.write_plans([TickPlan("u1", tick, "changes", tick, tick + 1, 0)])
        assert reader.last("u1")[0] == writer.last("u1")[0]


def test_ticks_do_not_pile_up(layout: Layout) -> None:
    registry = Registry(layout)
    registry.add(record())
    for tick in range(400):
        registry.write_progress([Progress("u1", tick, tick), Progress("gone", tick, tick)])
    kept = registry.history("u1")
    assert [p.tick for p in kept] == list(range(kept[0].tick, 400))
    assert 100 <= len(kept) < 200
    assert len(registry.history("gone")) < 100
    assert Registry(layout).last("u1")[1] == Progress("u1", 399, 399)


def test_state_is_kept_by_tick(layout: Layout) -> None:
    registry = Registry(layout)
    assert registry.states.read("u1") is None
    first, second = pa.table({"a": [1, 2]}), pa.table({"b": ["x"]})
    registry.states.write("u1", 3, first)
    registry.states.write("u1", 5, second)
    registry.states.write("u1", 6, second.slice(0, 0))
    again = Registry(layout)
    assert again.states.read("u1") == (6, second.slice(0, 0))
    assert again.states.read("u1", 5) == (5, second)
    assert again.states.read("u1", 4) == (3, first)
    assert again.states.read("u1", 2) is None
    again.add(record())
    again.remove("u1")
    assert again.states.read("u1") is None
    assert not Path(layout.system_path("state/u1")).exists()


def test_streams_are_listed_without_arrow_or_spark(layout: Layout) -> None:
    Registry(layout).add(record())
    code = (
        "import sys; from lakestream.storage.places.layout import Layout;"
        "from lakestream.storage.records.registry import Registry;"
        "registry = Registry(Layout(sys.argv[1])); assert registry.streams(); registry.last('u1');"
        "print([m for m in ('pyarrow', 'pyspark', 'sqlglot', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, layout.root], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_two_writers_at_once_lose_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no lock keeps processes apart, a change is made again on what another one wrote meanwhile."""
    one, other = Registry(layout), Registry(layout)
    one.add(record())
    one.add(record("u2", "t"))
    whole = KeyedTable._commit

    def late(table: KeyedTable, *arguments: Any) -> None:
        monkeypatch.setattr(KeyedTable, "_commit", whole)
        other.update("u1", retry_us=1)  # between the look of the first one and its write
        whole(table, *arguments)

    monkeypatch.setattr(KeyedTable, "_commit", late)
    one.update("u1", status="Stopped")
    monkeypatch.setattr(KeyedTable, "_commit", late)
    one.update("u2", status="Failed")
    found = {stream.uuid: stream for stream in one.streams()}
    assert found == {stream.uuid: stream for stream in Registry(layout).streams()}
    assert (found["u1"].status, found["u1"].retry_us) == ("Stopped", 1)
    assert found["u2"].status == "Failed"


def test_ticks_that_two_writers_append_are_all_seen(layout: Layout) -> None:
    one, other = Registry(layout), Registry(layout)
    for tick in range(1, 4):
        one.write_plans([TickPlan("u1", tick, "changes", tick, tick + 1, 0)])
        other.write_plans([TickPlan("u2", tick, "changes", tick, tick + 1, 0)])
    assert one.last_of_all() == other.last_of_all()
    assert {uuid: plan.tick for uuid, (plan, _) in one.last_of_all().items() if plan} == {"u1": 3, "u2": 3}


def test_what_another_process_appends_is_read_alone(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = Registry(layout), Registry(layout)
    writer.write_progress([Progress("u1", 1, 5), Progress("u2", 1, 5)])
    assert reader.last_of_all() == writer.last_of_all()
    monkeypatch.setattr(TickLog, "_scanned", lambda *_: pytest.fail("all of it was read"))
    for tick in range(2, 5):
        writer.write_progress([Progress("u1", tick, 5 + tick)])
        assert reader.last("u1")[1] == Progress("u1", tick, 5 + tick)
    assert reader.last_of_all() == writer.last_of_all()


def test_ticks_that_were_put_together_are_read_as_before(layout: Layout) -> None:
    writer, reader = Registry(layout), Registry(layout)
    writer.add(record())
    writer.add(record("u2", "t"))
    writer.write_progress([Progress("u2", 1, 7)])
    assert reader.last("u2")[1] == Progress("u2", 1, 7)
    for tick in range(70):
        writer.write_progress([Progress("u1", tick, tick)])
    files = [*Path(layout.system_path("progress")).glob("*.parquet")]
    assert len(DeltaTable(layout.system_path("progress")).file_uris()) < 10 < len(files)
    for registry in (reader, Registry(layout)):
        assert registry.last_of_all() == writer.last_of_all()
        assert [p.tick for p in registry.history("u1")] == list(range(70))


def test_a_stream_that_rests_keeps_its_ticks_while_others_lose_theirs(layout: Layout) -> None:
    registry = Registry(layout, kept_ticks=lambda: 5)
    registry.add(record())
    registry.add(record("u2", "t"))
    registry.write_progress([Progress("u2", tick, 7) for tick in range(3)])
    for tick in range(70):
        registry.write_progress([Progress("u1", tick, tick), Progress("gone", tick, tick)])
    assert [p.tick for p in registry.history("u2")] == [0, 1, 2]
    kept = [p.tick for p in registry.history("u1")]
    assert kept == list(range(kept[0], 70))
    assert 5 <= len(kept) < 20
    assert len(registry.history("gone")) < 20
    assert registry.clear_history() > 0
    assert [p.tick for p in registry.history("u1")] == list(range(65, 70))
    assert registry.clear_history() == 0


def test_an_appended_file_that_is_gone_has_all_of_it_read(layout: Layout) -> None:
    writer, reader = Registry(layout), Registry(layout)
    writer.write_progress([Progress("u1", 1, 5)])
    assert reader.last("u1")[1] == Progress("u1", 1, 5)
    writer.write_progress([Progress("u1", 2, 6)])
    newest = max(
        Path(layout.system_path("progress")).glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns
    )
    newest.unlink()
    with pytest.raises(StorageError, match="REGISTRY_DAMAGED"):
        reader.last("u1")
