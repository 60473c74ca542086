"""How records are saved: the columns of their tables, and the keys of the JSON in the column ``extra``.

These names lie in every lake, and processes of earlier lakestreams read and write them: they stay. A key that
is not known here is kept with its record and written back as it was.
"""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakestream.storage.records.job import Failure, Recalculation
from lakestream.storage.records.stream import Accepted, Begun, Compiled, Resynced, StreamRecord, WaitingGroup
from lakestream.storage.records.tick import (
    Checked,
    Corrected,
    HistorySlice,
    Instant,
    Progress,
    TablePosition,
    TickPlan,
    Totals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakestream.storage.places.layout import Layout

    Keys = dict[str, Any]

_Record = TypeVar("_Record")
_Small = TypeVar("_Small", Begun, WaitingGroup)
_EXTRA, _JSON = "extra", "table_versions"
_BY_PATH = (_JSON, "large_tables", "followed", "followed_after", "beside")
"""What is said of tables by their paths."""
_TAKE_COMMITS = ("changes", "period")
"""Kinds of ticks whose plans say how old their changes are, and that this is not known."""


@dataclass(frozen=True)
class Form(Generic[_Record]):
    """How records of a kind are saved: the ``columns`` of their table, by name, with their types.

    ``keys`` gives what stands in the column ``extra`` of a record; ``facts`` the fields that it says, given
    the keys, of which it takes out what it knows. ``layout`` is that of the lake, whose own tables are saved
    by their places in it.
    """

    kind: Callable[..., _Record]
    columns: dict[str, str]
    keys: Callable[[_Record], Keys] | None = None
    facts: Callable[[Keys], dict[str, Any]] | None = None
    layout: Layout | None = None

    def of(self, layout: Layout) -> Form[_Record]:
        """Return the form for records of a lake."""
        return replace(self, layout=layout)

    def row(self, record: _Record) -> dict[str, Any]:
        """Return a record as a row of its table."""
        row = {name: getattr(record, name) for name in self.columns if name != _EXTRA}
        if _JSON in row:
            row[_JSON] = json.dumps(self._by_place(row)[_JSON])
        if self.keys is not None:
            row[_EXTRA] = json.dumps(self._by_place(self.keys(record)))
        return row

    def record(self, row: dict[str, Any]) -> _Record:
        """Read a row; columns that a newer lakestream added are passed over."""
        values = {name: row[name] for name in self.columns if name in row and name != _EXTRA}
        if _JSON in values:
            values = self._by_path({**values, _JSON: json.loads(values[_JSON])})
        facts = {} if self.facts is None else self.facts(self._by_path(json.loads(row[_EXTRA])))
        return self.kind(**values, **facts)

    def _by_place(self, said: Keys) -> Keys:
        return said if self.layout is None else _renamed(said, self.layout.place_of)

    def _by_path(self, said: Keys) -> Keys:
        return said if self.layout is None else _renamed(said, self.layout.path_of)


def _renamed(said: Keys, name: Callable[[str], str]) -> Keys:
    """Return what is said, of tables by other names."""
    named = {key: said[key] for key in _BY_PATH if said.get(key)}
    return {**said, **{key: {name(k): v for k, v in tables.items()} for key, tables in named.items()}}


def _given(**keys: object) -> Keys:
    """Return the keys that have a value."""
    return {name: value for name, value in keys.items() if value is not None}


def _tuple(found: list[Any] | None) -> tuple[Any, ...] | None:
    return None if found is None else tuple(found)


def _pairs(found: list[Any]) -> tuple[Any, ...]:
    return tuple(map(tuple, found))


# --- streams ---


def _keys_of_stream(record: StreamRecord) -> Keys:
    compiled, begun = record.compiled, record.begun
    replaced = {} if record.is_replaced else None if begun is None else asdict(begun)
    return {
        **record.unknown,
        "zone": record.zone,
        "shared_output": record.shared_output,
        "source": record.source,
        "until_us": record.until_us,
        "way": compiled.way,
        "exact": compiled.exact,
        "partials": compiled.partial_types,
        "result_types": compiled.result_types,
        "group_types": compiled.group_types,
        "reads": compiled.reads,
        "read_versions": compiled.read_versions,
        **({} if record.resynced is None else {"floor_us": record.resynced.floor_us}),
        **_given(
            tells_folders=compiled.tells_folders or None,
            columns=compiled.columns,
            format=record.form,
            current=record.current,
            output_name=record.output_name,
            output_version=record.output_version,
            skipped=record.skipped or None,
            replaced=replaced,
            waiting_groups=[*map(asdict, record.waiting_groups)] or None,
            dropped=record.dropped or None,
            retry_us=record.retry_us,
            migrated=record.migrated,
            accepted=None if record.accepted is None else astuple(record.accepted),
        ),
    }


def _facts_of_stream(saved: Keys) -> dict[str, Any]:
    replaced = saved.pop("replaced", None)
    return {
        "zone": saved.pop("zone", ""),
        "shared_output": saved.pop("shared_output", False),
        "source": saved.pop("source", ""),
        "until_us": saved.pop("until_us", None),
        "compiled": _compiled(saved),
        "resynced": Resynced(saved.pop("floor_us")) if "floor_us" in saved else None,
        "form": saved.pop("format", None),
        "current": saved.pop("current", None),
        "output_name": saved.pop("output_name", None),
        "output_version": saved.pop("output_version", None),
        "skipped": _pairs(saved.pop("skipped", [])),
        "is_replaced": replaced == {},
        "begun": _known(Begun, replaced) if replaced else None,
        "waiting_groups": tuple(_known(WaitingGroup, group) for group in saved.pop("waiting_groups", [])),
        "dropped": saved.pop("dropped", {}),
        "retry_us": saved.pop("retry_us", None),
        "migrated": _tuple(saved.pop("migrated", None)),
        "accepted": _accepted(saved.pop("accepted", None)),
        "unknown": saved,
    }


def _accepted(found: list[Any] | None) -> Accepted | None:
    if found is None:
        return None
    return Accepted(found[0], None if found[1] is None else TablePosition(*found[1]))


def _columns(found: dict[str, list[str]] | None) -> dict[str, tuple[str, ...]] | None:
    return None if found is None else {table: tuple(names) for table, names in found.items()}


def _compiled(saved: Keys) -> Compiled:
    return Compiled(
        way=saved.pop("way", ""),
        exact=saved.pop("exact", False),
        partial_types=saved.pop("partials", None),
        result_types=tuple(saved.pop("result_types", ())),
        group_types=tuple(saved.pop("group_types", ())),
        reads=tuple(saved.pop("reads", ())),
        read_versions=saved.pop("read_versions", {}),
        tells_folders=saved.pop("tells_folders", False),
        columns=_columns(saved.pop("columns", None)),
    )


# --- ticks ---


def _keys_of_plan(plan: TickPlan) -> Keys:
    instant, part = plan.instant, plan.slice
    return {
        **plan.unknown,
        "transport": plan.transport,
        "appends_only": plan.appends_only,
        **({"oldest_us": plan.oldest_us} if plan.kind in _TAKE_COMMITS else _given(oldest_us=plan.oldest_us)),
        **({} if part is None else {"slice": part.number, "cuts": part.cuts}),
        **_given(
            windows=plan.windows or None,
            closed=plan.closed,
            neighbours=None if instant is None else (instant.before_us, instant.after_us),
            missed=None if instant is None else instant.missed,
            wider_tables=plan.wider_tables or None,
            large_tables=plan.large_tables or None,
            spark_only=plan.spark_only or None,
            commit=plan.commit,
            followed=_positions(plan.followed),
            followed_after=plan.followed_after or None,
        ),
    }


def _positions(followed: dict[str, TablePosition]) -> Keys | None:
    return {path: astuple(position) for path, position in followed.items()} or None


def _places(saved: Keys, name: str) -> dict[str, TablePosition]:
    return {path: TablePosition(*values) for path, values in saved.pop(name, {}).items()}


def _facts_of_plan(saved: Keys) -> dict[str, Any]:
    around, missed = saved.pop("neighbours", None), saved.pop("missed", 0)
    return {
        "transport": saved.pop("transport", ""),
        "appends_only": saved.pop("appends_only", False),
        "oldest_us": saved.pop("oldest_us", None),
        "slice": _slice(saved, "slice"),
        "windows": _pairs(saved.pop("windows", [])),
        "closed": _tuple(saved.pop("closed", None)),
        "instant": Instant(around[0], around[1], missed) if around else None,
        "wider_tables": saved.pop("wider_tables", False),
        "large_tables": saved.pop("large_tables", {}),
        "spark_only": saved.pop("spark_only", False),
        "commit": saved.pop("commit", None),
        "followed": _places(saved, "followed"),
        "followed_after": saved.pop("followed_after", {}),
        "unknown": saved,
    }


def _slice(saved: Keys, name: str) -> HistorySlice | None:
    """Return the part of history that keys say, its number under a name."""
    return HistorySlice(saved.pop(name), tuple(saved.pop("cuts", ()))) if name in saved else None


_TOTALS = {"total_in": "rows_in", "total_out": "rows_out", "total_late": "late", "total_missed": "missed"}
"""The counts since a stream's creation by their keys."""


def _keys_of_progress(progress: Progress) -> Keys:
    totals, mark, corrected, part = progress.totals, progress.output, progress.corrected, progress.next_slice
    return {
        **progress.unknown,
        **({} if totals is None else {key: getattr(totals, name) for key, name in _TOTALS.items()}),
        **({} if part is None else {"next_slice": part.number, "cuts": part.cuts}),
        **_given(
            checked=_saved_checked(progress.checked),
            total_checked=_saved_checked({} if totals is None else totals.checked),
            kind=progress.kind,
            lag=progress.lag,
            windows=progress.windows,
            held_until=progress.held_until or None,
            output=None if mark is None else [value for value in astuple(mark) if value is not None],
            closed_us=progress.closed_us,
            corrected=None if corrected is None else astuple(corrected),
            commit=progress.commit,
            followed=_positions(progress.followed),
            beside=_positions(progress.beside),
        ),
    }


def _facts_of_progress(saved: Keys) -> dict[str, Any]:
    totals = {name: saved.pop(key) for key, name in _TOTALS.items() if key in saved}
    if totals:
        totals["checked"] = _checked(saved.pop("total_checked", {}))
    mark, corrected = saved.pop("output", None), saved.pop("corrected", None)
    return {
        "totals": Totals(**totals) if totals else None,
        "next_slice": _slice(saved, "next_slice"),
        "kind": saved.pop("kind", None),
        "lag": saved.pop("lag", None),
        "windows": saved.pop("windows", None),
        "held_until": saved.pop("held_until", 0.0),
        "output": TablePosition(*mark) if mark else None,
        "closed_us": saved.pop("closed_us", None),
        "corrected": Corrected(*corrected) if corrected else None,
        "commit": saved.pop("commit", None),
        "followed": _places(saved, "followed"),
        "beside": _places(saved, "beside"),
        "checked": _checked(saved.pop("checked", {})),
        "unknown": saved,
    }


def _saved_checked(checked: Mapping[str, Checked]) -> Keys | None:
    return {name: astuple(counts) for name, counts in checked.items()} or None


def _checked(saved: Keys) -> dict[str, Checked]:
    return {name: Checked(*counts) for name, counts in saved.items()}


# --- recalculations ---


def _keys_of_recalculation(job: Recalculation) -> Keys:
    is_cut = job.cuts is not None
    return {
        **job.unknown,
        **({"cuts": job.cuts, "rows": job.rows, "versions": job.versions} if is_cut else {}),
        **_given(
            asked_at=job.asked_at,
            groups=job.groups,
            place=job.place,
            rows_out=job.rows_out if job.part else None,
        ),
    }


def _facts_of_recalculation(saved: Keys) -> dict[str, Any]:
    return {
        "cuts": _tuple(saved.pop("cuts", None)),
        "rows": saved.pop("rows", 0),
        "versions": tuple(saved.pop("versions", ())),
        "asked_at": saved.pop("asked_at", None),
        "groups": _tuple(saved.pop("groups", None)),
        "place": saved.pop("place", None),
        "rows_out": saved.pop("rows_out", 0),
        "unknown": saved,
    }


# --- their tables ---

STREAMS = Form(
    StreamRecord,
    {
        "uuid": "string",
        "database": "string",
        "name": "string",
        "sql": "string",
        "status": "string",
        "created_us": "bigint",
        "start_version": "bigint",
        "source_id": "string",
        "output": "string",
        "last_error": "string",
        "extra": "string",
    },
    _keys_of_stream,
    _facts_of_stream,
)
PLANS = Form(
    TickPlan,
    {
        "uuid": "string",
        "tick": "bigint",
        "kind": "string",
        "after": "bigint",
        "upto": "bigint",
        "clock_us": "bigint",
        "table_versions": "string",
        "lower_us": "bigint",
        "upper_us": "bigint",
        "extra": "string",
    },
    _keys_of_plan,
    _facts_of_plan,
)
PROGRESS = Form(
    Progress,
    {
        "uuid": "string",
        "tick": "bigint",
        "version": "bigint",
        "rows_in": "bigint",
        "rows_out": "bigint",
        "late": "bigint",
        "seconds": "double",
        "finished_us": "bigint",
        "extra": "string",
    },
    _keys_of_progress,
    _facts_of_progress,
)
RECALCULATIONS = Form(
    Recalculation,
    {
        "id": "string",
        "uuid": "string",
        "start_us": "bigint",
        "end_us": "bigint",
        "resync": "boolean",
        "status": "string",
        "requested_us": "bigint",
        "part": "bigint",
        "extra": "string",
    },
    _keys_of_recalculation,
    _facts_of_recalculation,
)
FAILURES = Form(
    Failure,
    {
        "id": "string",
        "uuid": "string",
        "at_us": "bigint",
        "tick": "bigint",
        "code": "string",
        "message": "string",
    },
)


def _known(kind: type[_Small], saved: dict[str, Any]) -> _Small:
    """Return a small record of what was saved; what a later lakestream saves besides is passed over."""
    return kind(**{field.name: saved[field.name] for field in fields(kind)})
