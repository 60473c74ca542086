"""A lake with one stream, told step by step and held to the reference whenever the stream has run.

The steps are methods with literal arguments, so that a history can be written down as a script and run
again (:func:`script`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.storage.sessions.session import spark_session
from tests.properties.definitions import START, Definition, elapsed
from tests.properties.driving import NOW, Rows, differences
from tests.reference.fold import Change, Recalculate, Resync, evaluate
from tests.reference.grid import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from pyspark.sql import Column, SparkSession

    from tests.reference.fold import Event, Row

Cells = tuple[str, str, int, int | None, float | None]
"""A row as it is written in a script: tbname, loc, ticks since the start, v, x."""
Name = tuple[str, int]
"""What tells rows apart: tbname and ticks since the start."""
Transport = Literal["arrow", "spark"]

HALF_A_SECOND = Span(500, "a")
CREATE = "CREATE STABLE meters (ts TIMESTAMP, v INT, x DOUBLE) TAGS (loc VARCHAR(16))"


@dataclass(frozen=True)
class Setup:
    """The stream, the rows there are when it is created, and how the lake works."""

    definition: Definition
    tick: Span = HALF_A_SECOND
    before: tuple[Cells, ...] = ()
    transport: Transport = "arrow"
    commits_per_tick: int = 1_000
    checkpoint_ticks: int = 100


class World:
    """A lake in a folder of its own, and what has been done to it; a context manager."""

    def __init__(self, setup: Setup, spark: SparkSession | None = None) -> None:
        self.setup = setup
        self.now: dict[Name, Cells] = {}
        self.is_stopped = False
        self._spark = spark or spark_session(Settings(master="local[2]", driver_memory="1g"))
        self._stream = setup.definition.stream()
        self._uses = setup.definition.uses()
        self._events: list[Event] = []
        self._taken = 0
        self._is_halfway = False
        self._folder = Path(mkdtemp(prefix="lakestream-property-"))
        self._transport = setup.transport
        self._lake = self._opened()
        self._lake.sql(CREATE)
        if setup.before:
            self.insert(*setup.before)
        filled = setup.definition.fill_history
        self._not_taken = [] if filled else [self._used(cells) for cells in self.now.values()]
        if self._not_taken:
            self._events.clear()
        self._lake.sql(setup.definition.statement())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave nothing behind."""
        self._lake.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- the source ---

    def insert(self, *rows: Cells) -> None:
        """Write rows by key."""
        self._lake.insert("meters", [{**row, "ts": row["ts"].isoformat()} for row in self._rows(rows)])
        self._changed(self.now | by_name(rows))

    def update(self, v: int, *names: Name) -> None:
        """Set ``v`` of some rows."""
        self._lake.sql(f"UPDATE meters SET v = {v} WHERE {self._where(names)}")
        self._changed(self.now | {name: (*self.now[name][:3], v, self.now[name][4]) for name in names})

    def delete(self, *names: Name) -> None:
        """Delete some rows."""
        self._lake.sql(f"DELETE FROM meters WHERE {self._where(names)}")
        self._changed({name: cells for name, cells in self.now.items() if name not in names})

    def clear(self) -> None:
        """Delete all rows."""
        self._lake.sql("DELETE FROM meters")
        self._changed({})

    def move(self, name: Name, cells: Cells) -> None:
        """Change any column of a row past lakestream: another time, table or group."""
        (row,) = self._rows([cells])
        values = {column: literal(value) for column, value in row.items()}
        self._meters().update(updates=values, predicate=self._where([name]))
        others = {n: c for n, c in self.now.items() if n != name}
        self._changed(others | {name_of(cells): cells}, moved={name_of(cells): name})

    def merge(self, rows: tuple[Cells, ...], gone: tuple[Name, ...] = (), by: str = "delta-rs") -> None:
        """Write and delete rows by one MERGE past lakestream."""
        doomed = [self.now[name] for name in gone]
        source = self._arrow([*rows, *doomed]).append_column(
            "gone", pa.array([False] * len(rows) + [True] * len(doomed))
        )
        self._merge_by_spark(source) if by == "spark" else self._merge_by_delta_rs(source)
        kept = {name: cells for name, cells in self.now.items() if name not in gone}
        self._changed(kept | by_name(rows))

    def overwrite(self, *rows: Cells) -> None:
        """Replace all rows past lakestream."""
        write_deltalake(self._meters(), self._arrow(rows), mode="overwrite")
        self._changed(by_name(rows))

    def optimize(self) -> None:
        """Rewrite the files of the source without changing a row."""
        self._meters().optimize.compact()

    def vacuum(self) -> None:
        """Remove the files of the source that are beyond retention."""
        self._meters().vacuum(dry_run=False)

    # --- the stream ---

    def run(self) -> None:
        """Run to idle, and hold the output to the reference.

        A stream that was stopped after a crash stands at any of the commits before.
        """
        failed = self._lake.run().failed
        assert not failed, failed[0].error
        self._note_taken()
        if not self._is_halfway:
            self.check()

    def crash(self, point: str, nth: int = 1) -> None:
        """Run until a crash point is reached for the nth time, if it is, and go on in a new process."""
        try:
            with crash_at(point, nth):
                self._lake.run()
                self._note_taken()
                self._lake.close()
        except SimulatedCrash:
            self._is_halfway = self._is_halfway or not self.is_stopped
        self._lake = self._opened()

    def restart(self, transport: Transport) -> None:
        """Close the lake in good order and open it again."""
        self._lake.close()
        self._transport = transport
        self._lake = self._opened()

    def stop(self) -> None:
        """STOP STREAM."""
        self._lake.sql("STOP STREAM s")
        self.is_stopped = True

    def start(self) -> None:
        """START STREAM."""
        self._lake.sql("START STREAM s")
        self.is_stopped = False

    def recalculate(self, start: int, end: int | None = None, crash: tuple[str, int] | None = None) -> None:
        """Recalculate ``[start, end)`` in ticks since the start, perhaps with a crash on the way."""
        until = f" TO '{self._at(end).isoformat()}'" if end is not None else ""
        self._lake.sql(f"RECALCULATE STREAM s FROM '{self._at(start).isoformat()}'{until}")
        self._events.append(Recalculate(self._at(start), None if end is None else self._at(end)))
        if crash:
            self.crash(*crash)
        self.run()

    def resync(self, crash: tuple[str, int] | None = None) -> None:
        """Take up the source as it is, perhaps with a crash on the way."""
        self._lake.sql("RECALCULATE STREAM s RESYNC")
        self._events.append(Resync())
        if crash:
            self.crash(*crash)
        self.run()

    def verify(self) -> None:
        """Ask lakestream itself."""
        found = self._lake.verify("s")
        assert found.holds, "\n".join(["VERIFY differs", *map(str, found.differing)])

    def check(self) -> None:
        """Hold the output to the reference; the message shows the rows that only one side has."""
        wanted = evaluate(self._stream, self._events[: self._taken], self._not_taken)
        differing = differences(self._output(), wanted)
        stream = self._lake.streams()[0]
        state = [f"the stream is {stream.status}: {stream.last_error}"] if stream.last_error else []
        assert not differing, "\n".join([self.setup.definition.statement(), *differing, *state])

    # --- inside ---

    def _note_taken(self) -> None:
        """Note that a run has come to its end: everything was taken, unless the stream is stopped."""
        if not self.is_stopped:
            self._taken, self._is_halfway = len(self._events), False

    def _opened(self) -> Lake:
        settings = Settings(
            transport=self._transport,
            timezone=self.setup.definition.zone,
            max_commits_per_tick=self.setup.commits_per_tick,
            checkpoint_ticks=self.setup.checkpoint_ticks,
            sink_commits_per_second=0,
        )
        path = self._folder / "lake"
        return Lake(path, clock=ManualClock(NOW), spark=self._spark, settings=settings)

    def _output(self) -> Rows:
        table = pa.table(DeltaTable(self._folder / "lake/main/o").to_pyarrow_table())
        columns = self.setup.definition.columns()
        return [tuple(row[name] for name in columns) for row in table.select(columns).to_pylist()]

    def _meters(self) -> DeltaTable:
        return DeltaTable(self._folder / "lake/main/meters")

    def _changed(self, after: dict[Name, Cells], moved: Mapping[Name, Name] | None = None) -> None:
        """Note a commit by the rows there are after it."""
        moved = moved or {}
        written = {name: cells for name, cells in after.items() if self.now.get(name) != cells}
        gone = self.now.keys() - after.keys() - set(moved.values())
        deletes = [Change(self._used(self.now[name]), "delete") for name in gone]
        writes = [
            Change(self._used(cells), was=self._used(self.now[moved[name]]) if name in moved else None)
            for name, cells in written.items()
        ]
        self._events.append([*deletes, *writes])
        self.now = after

    def _used(self, cells: Cells) -> Row:
        """Return a row as far as the stream sees it."""
        return {name: value for name, value in self._row(cells).items() if name in self._uses}

    def _row(self, cells: Cells) -> Row:
        table, location, ticks, v, x = cells
        return {"tbname": table, "loc": location, "ts": self._at(ticks), "v": v, "x": x}

    def _rows(self, rows: Iterable[Cells]) -> list[Row]:
        return [self._row(cells) for cells in rows]

    def _at(self, ticks: int) -> datetime:
        return START + ticks * elapsed(self.setup.tick)

    def _arrow(self, rows: Iterable[Cells]) -> pa.Table:
        schema = pa.schema(self._meters().schema().to_arrow())
        return pa.Table.from_pylist(self._rows(rows), schema=schema)

    def _where(self, names: Iterable[Name]) -> str:
        return " OR ".join(
            f"(tbname = {literal(table)} AND ts = {literal(self._at(ticks))})" for table, ticks in names
        )

    def _merge_by_delta_rs(self, source: pa.Table) -> None:
        columns = {name: f"s.{name}" for name in source.column_names if name != "gone"}
        merger = self._meters().merge(source, ON, source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.gone").when_matched_update(columns)
        merger.when_not_matched_insert(columns).execute()

    def _merge_by_spark(self, source: pa.Table) -> None:
        from delta.tables import DeltaTable as SparkTable

        columns: dict[str, str | Column] = {
            name: f"s.{name}" for name in source.column_names if name != "gone"
        }
        target = SparkTable.forPath(self._spark, str(self._folder / "lake/main/meters")).alias("t")
        merger = target.merge(self._spark.createDataFrame(source).alias("s"), ON)
        merger = merger.whenMatchedDelete("s.gone").whenMatchedUpdate(set=columns)
        merger.whenNotMatchedInsert(values=columns).execute()


ON = "t.tbname = s.tbname AND t.ts = s.ts"


def by_name(rows: Iterable[Cells]) -> dict[Name, Cells]:
    """Return rows by what tells them apart."""
    return {name_of(cells): cells for cells in rows}


def name_of(cells: Cells) -> Name:
    """Return what tells a row apart."""
    return cells[0], cells[2]


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return f"'{value.isoformat()}'" if hasattr(value, "isoformat") else repr(value)


def script(setup: Setup, steps: Iterable[str]) -> str:
    """Return a program that does the steps again; its exit status is 1 while they fail."""
    return "\n".join([HEAD, f"with World({said(setup)}) as world:", *(f"    {step}" for step in steps), ""])


def said(value: Any) -> str:
    """Return a value as Python; fields of dataclasses that have their default are left out."""
    if not is_dataclass(value):
        return repr(value)
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value)}
    listed = [f"{name}={said(item)}" for name, item in given.items() if item != defaults[name]]
    return f"{type(value).__name__}({', '.join(listed)})"


HEAD = '''\
"""A history on which a stream and the reference differ."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.properties.definitions import Definition
from tests.properties.world import Setup, World
from tests.reference.grid import Interval, Sliding, Span
'''
