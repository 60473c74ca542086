"""What hypothesis draws step by step, for a World to carry out; a failure is made smaller, and a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakestream.engine.base.faults import MAINTENANCE_POINTS, TICK_POINTS
from tests.machine.oracle import OF_TIME, TRIGGERS, Row
from tests.machine.world import GROUPS, World

if TYPE_CHECKING:
    from hypothesis import settings

MOST_TABLES, MOST_STREAMS = 3, 6
ARCHIVES = (None, None, None, "v0_1.tar.gz")
kinds = st.sampled_from(tuple(TRIGGERS))
states = st.integers(0, 3)
values = st.none() | st.integers(-5, 99)


def has_rows(machine: Machine) -> bool:
    """Return whether a table has rows."""
    return any(machine.world.tables.values())


def has_streams(machine: Machine) -> bool:
    """Return whether there is a stream."""
    return bool(machine.world.streams)


def computes_anew(machine: Machine) -> bool:
    """Return whether there is a stream, and what computes it anew."""
    return machine.asks_spark and bool(machine.world.streams)


class Machine(RuleBasedStateMachine):
    """The steps."""

    asks_spark: ClassVar[bool] = False
    """Whether there are steps that Spark is needed for: what computes anew."""
    failure: ClassVar[str] = ""
    """The last history that failed, as a script."""
    taken: ClassVar[int] = 0
    """How many steps were taken."""

    world: World
    data = st.data()

    @initialize(archive=st.sampled_from(ARCHIVES), kind=kinds, grouped=st.booleans())
    def begin(self, archive: str | None, kind: str, grouped: bool) -> None:
        """Make a lake, or take one of an earlier version, with a table and a stream."""
        said = repr(archive) + ", asks_spark=True" * self.asks_spark
        self.steps = [f"world = World({said})"]
        self.has_failed = False
        self.world = World(archive, asks_spark=self.asks_spark)
        self.step("create_table")
        self.step("create_stream", "t1", kind, grouped=grouped)

    def step(self, name: str, *arguments: Any, **named: Any) -> None:
        """Take a step of the world, keeping it as text."""
        said = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
        self.steps.append(f"world.{name}({', '.join(said)})")
        Machine.taken += 1
        try:
            getattr(self.world, name)(*arguments, **named)
        except BaseException:
            self.has_failed = True
            Machine.failure = "\n".join(["from tests.machine.world import World", *self.steps, ""])
            raise

    def teardown(self) -> None:
        """See that all is well at the end."""
        if not hasattr(self, "world"):
            return
        try:
            if not self.has_failed:
                self.step("check")
        finally:
            self.world.close()

    def table(self, data: st.DataObject, *, filled: bool = False) -> str:
        """Draw a table."""
        tables = self.world.tables
        return data.draw(st.sampled_from([name for name in tables if tables[name] or not filled]))

    def some(self, data: st.DataObject, table: str) -> list[int]:
        """Draw times of rows that are there."""
        there = st.sampled_from(sorted(self.world.tables[table]))
        return data.draw(st.lists(there, min_size=1, max_size=4, unique=True))

    def rows(self, data: st.DataObject, table: str, *, new: bool = False) -> list[Row]:
        """Draw rows: behind the newest one, and some before it."""
        newest = max(self.world.tables[table], default=0)
        ats = st.lists(st.integers(max(0, newest - 70), newest + 30), min_size=1, max_size=6, unique=True)
        taken = self.world.tables[table] if new else {}
        return [
            (at, data.draw(st.sampled_from(GROUPS)), data.draw(states), data.draw(values))
            for at in data.draw(ats)
            if at not in taken
        ]

    # --- rows ---

    @rule(data=data)
    def insert(self, data: st.DataObject) -> None:
        """Rows come, some late, some under keys that are there."""
        table = self.table(data) if self.world.tables else None
        if table:
            self.step("insert", table, *self.rows(data, table))

    @rule(data=data)
    def append(self, data: st.DataObject) -> None:
        """Somebody else writes rows."""
        table = self.table(data) if self.world.tables else None
        rows = self.rows(data, table, new=True) if table else []
        if rows:
            self.step("append", table, *rows)

    @precondition(has_rows)
    @rule(data=data, v=st.integers(-5, 99))
    def update(self, data: st.DataObject, v: int) -> None:
        """Rows get another value."""
        table = self.table(data, filled=True)
        self.step("update", table, v, *self.some(data, table))

    @precondition(has_rows)
    @rule(data=data)
    def delete(self, data: st.DataObject) -> None:
        """Rows go."""
        table = self.table(data, filled=True)
        self.step("delete", table, *self.some(data, table))

    @precondition(has_rows)
    @rule(data=data)
    def merge(self, data: st.DataObject) -> None:
        """Somebody else writes and deletes rows at once."""
        table = self.table(data, filled=True)
        rows = self.rows(data, table)
        gone = [at for at in self.some(data, table) if at not in {row[0] for row in rows}]
        self.step("merge", table, rows, gone)

    @precondition(has_rows)
    @rule(data=data)
    def overwrite(self, data: st.DataObject) -> None:
        """Somebody else keeps some rows only."""
        table = self.table(data, filled=True)
        self.step("overwrite", table, *self.some(data, table))

    # --- tables and streams ---

    @precondition(lambda machine: len(machine.world.tables) < MOST_TABLES)
    @rule()
    def create_table(self) -> None:
        """Make a table."""
        self.step("create_table")

    @precondition(lambda machine: len(machine.world.streams) < MOST_STREAMS)
    @rule(data=data, kind=kinds, grouped=st.booleans())
    def create_stream(self, data: st.DataObject, kind: str, grouped: bool) -> None:
        """Make a stream over a table, or over the output of another one."""
        streams = self.world.streams.items() if self.asks_spark else ()
        followed = [name for name, one in streams if one.kind in OF_TIME and not one.grouped]
        source = data.draw(st.sampled_from([*self.world.tables, *followed]))
        if source in self.world.streams:
            self.step("create_stream", source, data.draw(st.sampled_from(OF_TIME)), grouped=False)
        else:
            self.step("create_stream", source, kind, grouped=grouped)

    @precondition(computes_anew)
    @rule(data=data, kind=kinds)
    def replace_stream(self, data: st.DataObject, kind: str) -> None:
        """Give a stream that nobody follows, over a table, another kind of window."""
        if free := self._free(of_tables=True):
            self.step("replace_stream", data.draw(st.sampled_from(free)), kind)

    @precondition(has_streams)
    @rule(data=data)
    def drop(self, data: st.DataObject) -> None:
        """Drop a stream that nobody follows, and its table where that is the last one over it."""
        if not (free := self._free()):
            return
        name = data.draw(st.sampled_from(free))
        source = self.world.streams[name].source
        self.step("drop_stream", name)
        followed = {one.source for one in self.world.streams.values()}
        if source in self.world.tables and source not in followed and len(self.world.tables) > 1:
            self.step("drop_table", source)

    def _free(self, *, of_tables: bool = False) -> list[str]:
        streams = self.world.streams
        followed = {one.source for one in streams.values()}
        return [
            n for n, one in streams.items() if n not in followed and not (of_tables and one.source in streams)
        ]

    @precondition(has_streams)
    @rule(data=data)
    def stop_or_start(self, data: st.DataObject) -> None:
        """A stream stops, or goes on."""
        name = data.draw(st.sampled_from(sorted(self.world.streams)))
        self.step("start" if name in self.world.stopped else "stop", name)

    @precondition(computes_anew)
    @rule(data=data, start=st.integers(-10, 200), length=st.integers(1, 100))
    def recalculate(self, data: st.DataObject, start: int, length: int) -> None:
        """A range, or everything, is computed anew."""
        name = data.draw(st.sampled_from(sorted(self.world.streams)))
        if start < 0:
            self.step("resync", name)
        else:
            self.step("recalculate", name, start, start + length)

    # --- the lake ---

    @rule(data=data, what=st.sampled_from(("run", "run", "check", "restart", "maintain", "tend", "move")))
    def operate(self, data: st.DataObject, what: str) -> None:
        """Nothing changes but files and processes."""
        if what == "tend":
            self.step(what, data.draw(st.sampled_from([*self.world.tables, *self.world.streams])))
        else:
            self.step(what)

    @rule(point=st.sampled_from(TICK_POINTS + MAINTENANCE_POINTS), nth=st.integers(1, 6))
    def kill(self, point: str, nth: int) -> None:
        """The process dies on the way, and another one goes on."""
        self.step("kill", point, nth)


def run_machine(how: settings, machine: type[Machine] = Machine) -> None:
    """Run histories; a failure carries its history as a script."""
    Machine.failure = ""
    try:
        run_state_machine_as_test(machine, settings=how)
    except BaseException as error:
        if Machine.failure:
            error.add_note(Machine.failure)
        raise
