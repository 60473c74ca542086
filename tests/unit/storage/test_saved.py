"""What is saved of records keeps its names and shapes: lakes of earlier versions have them, and read them."""

from __future__ import annotations

import json
import tarfile
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakestream.storage.records import saved
from lakestream.storage.records.registry import (
    Begun,
    Checked,
    Compiled,
    Corrected,
    HistorySlice,
    Instant,
    Recalculation,
    Resynced,
    TablePosition,
    Totals,
    WaitingGroup,
)
from tests.old_lakes.make import HERE

if TYPE_CHECKING:
    from pathlib import Path

    Row = dict[str, Any]

CREATED = {
    "format": 1,
    "zone": "UTC",
    "current": "main",
    "shared_output": False,
    "source": "main.t",
    "until_us": None,
    "way": "by_row",
    "exact": False,
    "partials": None,
    "result_types": ["int", "bigint"],
    "group_types": ["string"],
    "reads": ["main.t", "main.u"],
    "read_versions": {"main.t": 1, "main.u": 7},
}
STREAM = {
    "uuid": "u",
    "database": "main",
    "name": "s",
    "sql": "CREATE STREAM …",
    "status": "Running",
    "created_us": 1,
    "start_version": 2,
    "source_id": "id",
    "output": "main.o",
    "last_error": "why",
}
STREAMS: list[Row] = [
    CREATED,
    {
        **CREATED,
        "shared_output": True,
        "output_version": 4,
        "output_name": "cat.db.o",
        "until_us": 17,
        "exact": True,
        "partials": {"p": "double"},
        "floor_us": 18,
        "skipped": [[3, 5], [7, 8]],
        "replaced": {"tick": 3, "version": 5, "output": 2, "parts": {"job": 1}},
        "waiting_groups": [{"gid": 7, "name": "k = 1", "windows": 100}],
        "dropped": {"t1": 9},
        "retry_us": 99,
        "migrated": ["_window"],
        "accepted": [3, ["id", 4, "d3"]],
    },
    {**CREATED, "floor_us": None, "replaced": {}, "migrated": [], "accepted": [3, None]},
]
PLAN = {
    "uuid": "u",
    "tick": 1,
    "kind": "changes",
    "after": 1,
    "upto": 2,
    "clock_us": 3,
    "table_versions": {"/t": 4},
    "lower_us": 5,
    "upper_us": 6,
}
PLANS: dict[str, Row] = {
    "changes": {"transport": "spark", "appends_only": False, "oldest_us": None},
    "period": {
        "transport": "arrow",
        "appends_only": True,
        "oldest_us": 4,
        "closed": [1, 2],
        "neighbours": [3, 5],
        "missed": 0,
        "wider_tables": True,
        "large_tables": {"/t": False},
        "spark_only": True,
        "commit": "d1",
        "followed": {"/t": ["id", 4, "d3"]},
        "followed_after": {"/t": 3},
    },
    "clock": {"transport": "arrow", "appends_only": True, "closed": [1, 2]},
    "delay": {"transport": "arrow", "appends_only": True, "windows": [[7, 1], [8, 2]]},
    "history": {"transport": "arrow", "appends_only": True, "slice": 0, "cuts": []},
    "anew": {"transport": "arrow", "appends_only": True},
}
TICK = {
    "uuid": "u",
    "tick": 1,
    "version": 2,
    "rows_in": 3,
    "rows_out": 4,
    "late": 5,
    "seconds": 0.5,
    "finished_us": 6,
}
TOTALS = {"total_in": 1, "total_out": 2, "total_late": 3, "total_missed": 4}
PROGRESS: list[Row] = [
    {},
    TOTALS,
    {
        "kind": "history",
        "lag": 0,
        "windows": 0,
        "held_until": 1.5,
        **TOTALS,
        "output": ["id", 7],
        "closed_us": 8,
        "corrected": [1, 2, None],
        "commit": "d2",
        "followed": {"/t": ["id", 4, "d3"]},
        "beside": {"/q": ["id", 5, "d4"]},
        "checked": {"positive": [1, 2]},
        "total_checked": {"positive": [3, 4]},
        "next_slice": 1,
        "cuts": [10, 20],
    },
]
JOB = {
    "id": "j",
    "uuid": "u",
    "start_us": 1,
    "end_us": 2,
    "resync": True,
    "status": "Done",
    "requested_us": 3,
    "part": 0,
}
JOBS: list[tuple[int, Row]] = [
    (0, {}),
    (0, {"asked_at": 0, "groups": [], "place": 0}),
    (0, {"asked_at": 4, "cuts": [], "rows": 0, "versions": [5]}),
    (1, {"asked_at": 4, "groups": [7], "place": 5, "cuts": [1], "rows": 9, "versions": [5], "rows_out": 0}),
    (2, {"cuts": [1], "rows": 9, "versions": [5, 6], "rows_out": 3}),
]
FAILURE = {"id": "f", "uuid": "u", "at_us": 1, "tick": 2, "code": "C", "message": "m"}


def rows_of(base: Row, *kept: Row) -> list[Row]:
    return [{**base, "extra": extra} for extra in kept]


CASES: dict[str, tuple[saved.Form[Any], list[Row]]] = {
    "streams": (saved.STREAMS, rows_of(STREAM, *STREAMS)),
    "plans": (
        saved.PLANS,
        [row for kind, extra in PLANS.items() for row in rows_of({**PLAN, "kind": kind}, extra)],
    ),
    "progress": (saved.PROGRESS, rows_of(TICK, *PROGRESS)),
    "recalculations": (
        saved.RECALCULATIONS,
        [row for part, extra in JOBS for row in rows_of({**JOB, "part": part}, extra)],
    ),
    "failures": (saved.FAILURES, [FAILURE]),
}
ROWS = [
    pytest.param(form, row, id=f"{name} {n}")
    for name, (form, rows) in CASES.items()
    for n, row in enumerate(rows)
]


def written(row: Row) -> Row:
    """Return a row as its table has it."""
    return {name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()}


def read(row: Row) -> Row:
    """Return a row with what its texts of JSON say."""
    return {
        name: json.loads(value) if name in ("extra", "table_versions") else value
        for name, value in row.items()
    }


@pytest.mark.parametrize(("form", "row"), ROWS)
def test_a_row_is_written_as_it_was_read(form: saved.Form[Any], row: Row) -> None:
    record = form.record(written(row))
    assert read(form.row(record)) == row
    assert form.record(form.row(record)) == record
    assert getattr(record, "unknown", {}) == {}


@pytest.mark.parametrize("name", [name for name in CASES if name != "failures"])
def test_what_is_not_known_is_kept(name: str) -> None:
    form, rows = CASES[name]
    for row in rows:
        newer = {**row, "extra": {**row["extra"], "newer": {"a": [None, 1]}}}
        record = form.record(written({**newer, "column_of_a_newer_one": 1}))
        assert record.unknown == {"newer": {"a": [None, 1]}}
        assert read(form.row(record)) == newer


def test_what_a_later_lakestream_says_of_small_records_is_passed_over() -> None:
    form, rows = CASES["streams"]
    begun = {"tick": 3, "version": 5, "output": 2, "parts": {}, "newer": 1}
    waiting = [{"gid": 1, "name": "g = 1", "windows": 2, "newer": 1}]
    extra = {**rows[0]["extra"], "replaced": begun, "waiting_groups": waiting}
    record = form.record(written({**rows[0], "extra": extra}))
    assert record.begun == Begun(3, 5, 2, {})
    assert [str(group) for group in record.waiting_groups] == ["g = 1: 2 windows"]


@pytest.mark.parametrize("name", CASES)
def test_every_field_is_saved(name: str) -> None:
    """A field that nothing saves would have its default in all of them."""
    form, rows = CASES[name]
    records = [form.record(written(row)) for row in rows]
    for field in fields(records[0]):
        made = field.default_factory
        default = field.default if made is MISSING else made()
        differs = any(getattr(record, field.name) != default for record in records)
        assert differs or field.name == "unknown", field.name


def test_keys_go_to_the_fields_that_they_are_of() -> None:
    stream = saved.STREAMS.record(written({**STREAM, "extra": STREAMS[1]}))
    types = ({"p": "double"}, ("int", "bigint"), ("string",), ("main.t", "main.u"))
    assert stream.compiled == Compiled("by_row", True, *types, {"main.t": 1, "main.u": 7})
    assert (stream.resynced, stream.floor_us, stream.skipped) == (Resynced(18), 18, ((3, 5), (7, 8)))
    assert (stream.is_replaced, stream.begun) == (False, Begun(3, 5, 2, {"job": 1}))
    assert (stream.waiting_groups, stream.migrated) == ((WaitingGroup(7, "k = 1", 100),), ("_window",))
    assert (stream.sources, stream.until_us, stream.form) == (("main.t", "main.u"), 17, 1)
    asked = saved.STREAMS.record(written({**STREAM, "extra": STREAMS[2]}))
    assert (asked.is_replaced, asked.begun, asked.resynced, asked.migrated) == (
        True,
        None,
        Resynced(None),
        (),
    )
    period = saved.PLANS.record(written({**PLAN, "extra": PLANS["period"]}))
    assert (period.closed, period.instant, period.large_tables) == ((1, 2), Instant(3, 5, 0), {"/t": False})
    history = saved.PLANS.record(written({**PLAN, "extra": PLANS["history"]}))
    assert (history.slice, history.instant, history.closed) == (HistorySlice(0, ()), None, None)
    done = saved.PROGRESS.record(written({**TICK, "extra": PROGRESS[2]}))
    assert (done.totals, done.output) == (
        Totals(1, 2, 3, 4, {"positive": Checked(3, 4)}),
        TablePosition("id", 7),
    )
    assert (done.checked, done.violated) == ({"positive": Checked(1, 2)}, 2)
    assert (done.corrected, done.next_slice) == (Corrected(1, 2, None), HistorySlice(1, (10, 20)))
    job: Recalculation = saved.RECALCULATIONS.record(written({**JOB, "extra": JOBS[3][1]}))
    assert (job.groups, job.cuts, job.versions, job.parts) == ((7,), (1,), (5,), 2)


@pytest.mark.parametrize("archive", sorted(path.name for path in HERE.glob("*.tar.gz")))
@pytest.mark.parametrize("name", ["streams", "plans", "progress"])
def test_rows_of_lakes_of_earlier_versions_stay_as_they_are(name: str, archive: str, tmp_path: Path) -> None:
    with tarfile.open(HERE / archive) as packed:
        packed.extractall(tmp_path, filter="data")
    table = DeltaTable(str(tmp_path / "lake" / "_lakestream" / name))
    rows = pa.table(table.scan()).to_pylist()
    assert rows
    form = CASES[name][0]
    for row in rows:
        known = {column: row[column] for column in form.columns if column in row}
        assert read(form.row(form.record(row))) == read(known)
