"""Random histories of one stream: what hypothesis draws step by step, for a World to carry out.

:class:`ExactMachine` holds streams with EXACT to the batch evaluation of the source as it is,
:class:`PolicyMachine` the others to the rules of their options.
"""

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

from lakestream.engine.base.faults import TICK_POINTS
from tests.properties.definitions import (
    COMBINED,
    FIGURES,
    GROUPINGS,
    HOURS,
    LOCATIONS,
    SECONDS,
    WHOLE,
    ZONES,
    Definition,
    Scale,
    elapsed,
)
from tests.properties.world import Cells, Name, Setup, Transport, World, by_name, name_of, script
from tests.reference.grid import NOTHING, Interval, Span

if TYPE_CHECKING:
    from hypothesis import settings
    from pyspark.sql import SparkSession

LATE, FAR = 64, 40
"""In ticks: how far late rows reach back, and what closes nearly every window."""
TICKS = {SECONDS: Span(500, "a"), HOURS: Span(30, "m")}
EXPIRED_TIMES = {SECONDS: ("5s", "12s", "20s"), HOURS: ("2h", "90m", "6h")}
CRASHES = st.tuples(st.sampled_from(TICK_POINTS), st.integers(1, 2))
TRANSPORTS: st.SearchStrategy[Transport] = st.sampled_from(("arrow", "spark"))
RARELY = st.integers(0, 29).map(lambda n: n == 29)
"""What takes long: Spark's own way of moving bytes, and VERIFY."""
values = st.sampled_from((None, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 30, 99))
shares = st.sampled_from((0.5, 0.1, 1e6, -3.25, None))


@st.composite
def definitions(draw: st.DrawFn, scale: Scale, *, exact: bool) -> Definition:
    """Draw a stream: with EXACT, or with any of the options that say what it ignores."""
    trigger = draw(st.sampled_from(scale.triggers))
    expired = draw(st.sampled_from(("", "", *EXPIRED_TIMES[scale]))) if not exact else ""
    expired_time = Span.of(expired) if expired else NOTHING
    watermarks = [w for w in scale.watermarks if not expired or elapsed(w) <= elapsed(expired_time)]
    return Definition(
        trigger=trigger,
        grouping=draw(st.sampled_from(tuple(GROUPINGS))),
        watermark=draw(st.sampled_from(watermarks)),
        pre_filter=draw(st.sampled_from((False, False, True))),
        ignore_nodata=draw(st.booleans()),
        zone=draw(st.sampled_from(ZONES)) if scale is HOURS else "UTC",
        fill_history=draw(st.booleans()),
        ignore_disorder=not exact and draw(st.booleans()),
        expired_time=expired_time,
        delete_recalc=not exact and isinstance(trigger, Interval) and draw(st.booleans()),
        exact=exact,
        figures=draw(st.sampled_from((COMBINED, FIGURES, WHOLE))),
    )


@st.composite
def setups(draw: st.DrawFn, *, exact: bool) -> Setup:
    """Draw a stream, the rows before it, and how the lake works: mostly in the cheap way."""
    scale = draw(st.sampled_from((SECONDS, SECONDS, SECONDS, HOURS)))
    return Setup(
        draw(definitions(scale, exact=exact)),
        TICKS[scale],
        tuple(draw(arriving(0, scale.steps, most=6))) if draw(st.booleans()) else (),
        "spark" if draw(RARELY) else "arrow",
        draw(st.sampled_from((1_000, 1, 2))),
        draw(st.sampled_from((100, 1, 2))),
    )


@st.composite
def arriving(draw: st.DrawFn, newest: int, steps: int, most: int = 4) -> list[Cells]:
    """Draw rows in the order of time, from the newest one's time on."""
    gaps = st.sampled_from((0, 1, 3, steps // 4, steps // 2, steps, 2 * steps))
    rows = []
    for _ in range(draw(st.integers(1, most))):
        newest += draw(gaps)
        rows.append(draw(cells(newest)))
    return list(by_name(rows).values())


@st.composite
def cells(draw: st.DrawFn, ticks: int) -> Cells:
    """Draw one row at a time."""
    table = draw(st.sampled_from(tuple(LOCATIONS)))
    return (table, LOCATIONS[table], ticks, draw(values), draw(shares))


@st.composite
def rewritten(draw: st.DrawFn, old: Cells) -> Cells:
    """Draw a row anew under its key; it may come into another group."""
    return (old[0], draw(st.sampled_from((old[1], "A", "B", "C"))), old[2], draw(values), draw(shares))


def has_rows(machine: Machine) -> bool:
    """Return whether there is a row to change."""
    return bool(machine.world.now)


def is_running(machine: Machine) -> bool:
    """Return whether the stream is not stopped."""
    return not machine.world.is_stopped


def crashing(crash: tuple[str, int] | None) -> dict[str, Any]:
    """Return a crash as a named argument, if there is one."""
    return {"crash": crash} if crash else {}


class Machine(RuleBasedStateMachine):
    """The steps. Subclasses begin them, with the streams they are about; ``spark`` is given to both."""

    spark: ClassVar[SparkSession | None] = None
    failure: ClassVar[str | None] = None
    """The last history that failed, as a script."""
    histories: ClassVar[int] = 0

    world: World
    runs = st.booleans()
    data = st.data()

    def begin(self, setup: Setup, first: list[Cells], verifies: bool) -> None:
        """Make the lake, with some rows after the stream was created."""
        Machine.histories += 1
        self.steps: list[str] = []
        self.has_failed = False
        self.verifies = verifies
        self.world = World(setup, self.spark)
        self.step("insert", *first)

    def step(self, name: str, *arguments: Any, run: bool = False, **named: Any) -> None:
        """Take a step of the world, keeping it as text; then run the stream, if asked to."""
        said = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
        self.steps.append(f"world.{name}({', '.join(said)})")
        try:
            getattr(self.world, name)(*arguments, **named)
        except Exception:
            self.has_failed = True
            Machine.failure = script(self.world.setup, self.steps)
            raise
        if run:
            self.step("run")

    def teardown(self) -> None:
        """Close the windows that are still open, and see that all is well."""
        if not hasattr(self, "world"):
            return
        try:
            if not self.has_failed:
                self.finish()
        finally:
            self.world.close()

    def finish(self) -> None:
        """Run what is left to run, with a late row more in every table to close all windows."""
        if self.world.is_stopped:
            self.step("start")
        self.step("run")
        at = self.newest + FAR
        closing = [(table, LOCATIONS[table], at + v, v, 0.5) for table in LOCATIONS for v in (10, 11)]
        self.step("insert", *closing, run=True)
        if self.verifies:
            self.step("verify")

    @property
    def newest(self) -> int:
        """The time of the newest row, in ticks since the start."""
        return max((ticks for _, ticks in self.world.now), default=0)

    def some(self, data: st.DataObject, most: int = 3) -> list[Name]:
        """Draw some rows."""
        names = st.sampled_from(sorted(self.world.now))
        return data.draw(st.lists(names, min_size=1, max_size=most, unique=True))

    # --- rows that arrive ---

    @rule(data=data, run=runs)
    def insert(self, data: st.DataObject, run: bool) -> None:
        """Rows come in order, in several groups."""
        self.step("insert", *data.draw(arriving(self.newest, 16)), run=run)

    @rule(data=data, run=runs)
    def insert_late(self, data: st.DataObject, run: bool) -> None:
        """Rows come out of order, some under keys that are there."""
        at = data.draw(st.lists(st.integers(self.newest - LATE, self.newest), min_size=1, max_size=3))
        rows = by_name(data.draw(cells(ticks)) for ticks in at)
        self.step("insert", *rows.values(), run=run)

    # --- rows that change ---

    @precondition(has_rows)
    @rule(data=data, v=st.integers(0, 99), run=runs)
    def update(self, data: st.DataObject, v: int, run: bool) -> None:
        """Rows get another value, and with it perhaps another group."""
        self.step("update", v, *self.some(data), run=run)

    @precondition(has_rows)
    @rule(data=data, run=runs)
    def move(self, data: st.DataObject, run: bool) -> None:
        """A row gets another time, table, group or value."""
        name = data.draw(st.sampled_from(sorted(self.world.now)))
        old = self.world.now[name]
        table = data.draw(st.sampled_from(tuple(LOCATIONS)))
        ticks = max(0, old[2] + data.draw(st.sampled_from((0, 0, 1, -1, 8, -8, 30, -30))))
        new = data.draw(rewritten((table, old[1], ticks, *old[3:])))
        if name_of(new) == name or name_of(new) not in self.world.now:
            self.step("move", name, new, run=run)

    @precondition(has_rows)
    @rule(data=data, run=runs)
    def merge(self, data: st.DataObject, run: bool) -> None:
        """One MERGE updates, inserts and deletes."""
        touched = self.some(data, most=5)
        kept = data.draw(st.integers(0, len(touched)))
        rows = by_name(data.draw(rewritten(self.world.now[name])) for name in touched[:kept])
        rows |= by_name([data.draw(cells(self.newest - data.draw(st.integers(-8, 24))))])
        gone = tuple(name for name in touched[kept:] if name not in rows)
        by: dict[str, Any] = {"by": "spark"} if self.world.setup.transport == "spark" else {}
        self.step("merge", tuple(rows.values()), gone, **by, run=run)

    @precondition(has_rows)
    @rule(data=data, run=runs)
    def change_one_row_often(self, data: st.DataObject, run: bool) -> None:
        """One tick finds several changes of one row."""
        name = data.draw(st.sampled_from(sorted(self.world.now)))
        for _ in range(data.draw(st.integers(2, 3))):
            if name not in self.world.now:
                self.step("insert", data.draw(rewritten((name[0], "A", name[1], None, None))))
            elif data.draw(st.booleans()):
                self.step("update", data.draw(st.integers(0, 99)), name)
            else:
                self.step("delete", name)
        if run:
            self.step("run")

    # --- rows that go ---

    @precondition(has_rows)
    @rule(data=data, run=runs)
    def delete(self, data: st.DataObject, run: bool) -> None:
        """Rows are deleted."""
        self.step("delete", *self.some(data), run=run)

    @precondition(has_rows)
    @rule(run=runs)
    def delete_newest(self, run: bool) -> None:
        """What closed a window is deleted."""
        self.step("delete", *(name for name in self.world.now if name[1] == self.newest), run=run)

    @precondition(has_rows)
    @rule(run=runs)
    def clear(self, run: bool) -> None:
        """All rows are deleted."""
        self.step("clear", run=run)

    @precondition(has_rows)
    @rule(data=data, same=st.booleans(), run=runs)
    def overwrite(self, data: st.DataObject, same: bool, run: bool) -> None:
        """All rows are written anew: as they were, or some of them otherwise."""
        rows = dict(self.world.now)
        for number, (name, old) in enumerate(self.world.now.items()):
            if not same and number % 2:
                rows[name] = data.draw(rewritten(old))
        if not same and data.draw(st.booleans()):
            del rows[data.draw(st.sampled_from(sorted(rows)))]
        self.step("overwrite", *rows.values(), run=run)

    # --- everything else ---

    @rule(data=data, what=st.sampled_from(("maintain", "stop or start", "restart", "run")), run=runs)
    def operate(self, data: st.DataObject, what: str, run: bool) -> None:
        """No row changes: files do, or the stream stops or goes on, or the process."""
        if what == "maintain":
            self.step("optimize")
            self.step("vacuum")
        elif what == "restart":
            is_cheap = self.world.setup.transport == "arrow"
            self.step("restart", "arrow" if is_cheap else data.draw(TRANSPORTS))
        elif what == "stop or start":
            self.step("start" if self.world.is_stopped else "stop")
        if run or what == "run":
            self.step("run")

    @rule(crash=CRASHES, run=runs)
    def crash(self, crash: tuple[str, int], run: bool) -> None:
        """The process dies on the way, and another one goes on."""
        self.step("crash", *crash, run=run)

    @precondition(is_running)
    @rule(start=st.integers(-40, 120), length=st.none() | st.integers(1, 40), crash=st.none() | CRASHES)
    def recalculate(self, start: int, length: int | None, crash: tuple[str, int] | None) -> None:
        """A range is recalculated."""
        end = [] if length is None else [start + length]
        self.step("recalculate", start, *end, **crashing(crash))

    @precondition(is_running)
    @rule(crash=st.none() | CRASHES)
    def resync(self, crash: tuple[str, int] | None) -> None:
        """The stream takes up the source as it is."""
        self.step("resync", **crashing(crash))


class ExactMachine(Machine):
    """Streams with EXACT."""

    @initialize(setup=setups(exact=True), first=arriving(0, 16, most=8), verifies=RARELY)
    def begin_exact(self, setup: Setup, first: list[Cells], verifies: bool) -> None:
        """Make the lake."""
        self.begin(setup, first, verifies)


class PolicyMachine(Machine):
    """Streams without EXACT."""

    @initialize(setup=setups(exact=False), first=arriving(0, 16, most=8), verifies=RARELY)
    def begin_with_policies(self, setup: Setup, first: list[Cells], verifies: bool) -> None:
        """Make the lake."""
        self.begin(setup, first, verifies)


def run_histories(machine: type[Machine], spark: SparkSession, how: settings) -> None:
    """Run histories of a machine; a failure carries its history as a script."""
    Machine.spark = spark
    Machine.failure = None
    try:
        run_state_machine_as_test(machine, settings=how)
    except Exception as error:
        if Machine.failure:
            error.add_note(Machine.failure)
        raise
