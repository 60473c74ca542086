"""Rounds of ticks, continuous queries and triggers of one lake, until there is nothing to do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lakestream.engine.reading.apart import Apart
from lakestream.errors import LakestreamError, SparkGoneError, extra
from lakestream.statements.workspace import Workspace, tree_of
from lakestream.storage.delta import one_look
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.places.claims import Patience, wait_for_claim
from lakestream.storage.places.leases import TREE
from lakestream.storage.tables.table import Tables, storage_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakestream.engine.lanes.lanes import Lanes
    from lakestream.engine.lanes.slot import Slot
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.observation.openlineage.sender import Sender
    from lakestream.settings import Settings
    from lakestream.statements.streams import StreamStatements
    from lakestream.storage.records.registry import StreamRecord
    from lakestream.timeseries.rounds import TreeRounds
    from lakestream.timeseries.tree import TreeEngine


@dataclass
class RunSummary:
    """The ticks of a run, in order."""

    ticks: list[TickReport] = field(default_factory=list)

    @property
    def failed(self) -> list[TickReport]:
        """The ticks that ended in an error."""
        return [tick for tick in self.ticks if tick.error]


@dataclass
class Rounds:
    """Runs rounds. ``alarms`` tells when the clock makes something due, as the last round left it."""

    at: Workspace
    streams: StreamStatements
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    _part: frozenset[str] | None = None
    _deaths: int = 0
    """Of Spark, that have been told."""
    _noted: tuple[Mapping[str, Alarm], Mapping[str, Alarm]] = ({}, {})
    _hearing: Callable[[], None] | None = None
    """Whom to tell of what ends beside the round that goes on; None: the round waits for it."""

    @cached_property
    def lanes(self) -> Lanes:
        """What takes the turns that rounds leave."""
        from lakestream.engine.lanes.lanes import Lanes

        settings = self.at.settings
        most = settings.parallel_ticks or os.cpu_count() or 1
        priorities = settings.tick_priorities
        return Lanes(
            self.at.engine,
            partial(_slot, self.at),
            partial(_slot_here, self.at),
            most,
            priorities,
            self.at.system_clock,
        )

    @cached_property
    def tree(self) -> TreeRounds:
        """What is due of the tree, where it is asked for."""
        from lakestream.storage.sessions.jobs import OwnSession
        from lakestream.timeseries.rounds import TreeRounds

        at = self.at
        session = OwnSession(lambda: at.shared, at.layout)

        def beside() -> TreeEngine:
            return tree_of(at, Catalog(at.layout, at.clock, Tables()), session.get, Apart())

        return TreeRounds(at.layout, at.system_clock, lambda: at.tree, beside, session)

    @cached_property
    def lineage(self) -> Sender | None:
        """Who tells of ticks by OpenLineage; None: nobody is to be told. Raises EXTRA_MISSING."""
        if self.at.settings.openlineage_url is None:
            return None
        with extra("openlineage"):
            from lakestream.observation.openlineage.sender import Sender
        at = self.at
        return Sender(at.registry, at.catalog, lambda: at.tree.queries, at.system_clock, at.settings)

    def tick_once(
        self,
        on_tick: Callable[[TickReport], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> list[TickReport]:
        """Run one round; see :meth:`lakestream.lake.Lake.tick_once`."""
        self.at.layout.refuse_gone()
        self._hearing = ended
        try:
            reports = self._begun(self._everything, on_tick)
        finally:
            self._hearing = None
        if ended is not None:
            self.lanes.begin(ended)
            return reports
        while not self.lanes.are_idle:
            reports += self._ended(on_tick)
        return reports

    def _begun(
        self, work: Callable[[], list[TickReport]], on_tick: Callable[[TickReport], None] | None
    ) -> list[TickReport]:
        """Take back what has ended, and run what is small of a round; turns that it leaves have to begin."""
        with self._noticing_death():
            self._take_part()
            try:
                with self._telling(on_tick), one_look():
                    reports = self._collected()
                    return reports + work()
            except BaseException as error:
                if (of_storage := storage_refusal(error)) is not None:
                    raise of_storage from error
                raise

    def _ended(self, on_tick: Callable[[TickReport], None] | None) -> list[TickReport]:
        """Wait for the end of a turn, and return what it did."""
        self.lanes.wait()
        with self._noticing_death(), self._telling(on_tick):
            return self._collected()

    @contextmanager
    def _noticing_death(self) -> Iterator[None]:
        """Raise SparkGoneError where Spark has died since the last round, whoever noticed it, or dies now.

        What is kept of streams is read from the lake again.
        """
        self.at.spark.check()
        deaths = self.at.spark.deaths
        try:
            if deaths.last is not None and deaths.count > self._deaths:
                raise deaths.last
            with self._gone_named():
                yield
        except SparkGoneError:
            self.at.spark.goes_on()
            self._deaths = deaths.count
            self.at.engine.forget()
            self._forget_tree()
            raise

    @contextmanager
    def _gone_named(self) -> Iterator[None]:
        """Raise SparkGoneError for whatever fails because Spark has ended."""
        try:
            yield
        except LakestreamError:
            raise
        except Exception as error:
            self.at.refuse_gone(error)
            raise

    @contextmanager
    def _telling(self, on_tick: Callable[[TickReport], None] | None) -> Iterator[None]:
        """Have somebody hear of each tick as it is recorded."""
        services, lineage = self.at.engine.services, self.lineage
        before = services.tell
        hearing = [*filter(None, [on_tick, None if lineage is None else lineage.tell])]

        def tell(report: TickReport) -> None:
            for hear in hearing:
                hear(report)

        if hearing:
            services.tell = tell
        try:
            yield
        finally:
            services.tell = before

    def _collected(self) -> list[TickReport]:
        """Take back the streams of turns that have ended, and return what these did."""
        reports: list[TickReport] = []
        while self.lanes.have_news:
            reports += self.lanes.collect()
        if reports:
            self._send_events(at_once=True)
        if "tree" in self.__dict__:
            reports += [self.at.engine.services.told(report) for report in self.tree.collect()]
            self._note_alarms()
        return reports

    def _take_part(self) -> None:
        """Follow the leases: what another daemon ran before is read from the lake."""
        part = None if self.at.leases is None else self.at.leases.use()
        if part is None or part == self._part:
            return
        self._part = part
        self.at.engine.take(part)
        # Events are sent by the daemon that runs their stream, from where the one before has stopped.
        self.at.notifier.close()
        self.at.notifier.only = part
        self._forget_tree()

    def _forget_tree(self) -> None:
        self.at.forget_tree()
        if "tree" in self.__dict__:
            self.tree.forget()

    def _everything(self) -> list[TickReport]:
        return [*self._tick_streams(), *self._run_tree()]

    def _tick_streams(self) -> list[TickReport]:
        # To find out that there is nothing to do, others need not be kept from writing.
        seen = self.at.engine.see()
        if self.at.notifier.is_waiting() and seen.look.is_empty:
            return []
        self._send_events(at_once=False)
        # What it records takes the lake's lock, for that moment; what it ticks nobody else does meanwhile.
        reports = self.at.engine.round(seen)
        if reports:
            self._send_events(at_once=True)
        self._note_alarms()
        return reports

    def _send_events(self, *, at_once: bool) -> None:
        """Have those told who are to know of what was recorded; ``at_once``: something was, just now."""
        if not at_once and self.at.notifier.is_waiting():
            return
        with self.at.writing("events"):
            self.at.notifier.follow(at_once=at_once)

    def _run_tree(self) -> list[TickReport]:
        """Run what is due of the tree, or have it run beside: no stream waits for it."""
        if (self._part is not None and TREE not in self._part) or not self.at.runs_tree():
            return []
        if self._hearing is not None:
            self.tree.begin(self._hearing)
            return []
        reports = [self.at.engine.services.told(report) for report in self.tree.run()]
        self._note_alarms()
        return reports

    def _note_alarms(self) -> None:
        """Put the alarms of streams and of continuous queries together, where one of them has changed."""
        parts = (self.at.engine.alarms, self.tree.alarms if "tree" in self.__dict__ else {})
        if any(part is not known for part, known in zip(parts, self._noted, strict=True)):
            self.alarms, self._noted = {**parts[0], **parts[1]}, parts

    def run(
        self,
        until: str = "idle",
        on_tick: Callable[[TickReport], None] | None = None,
        streams: Sequence[str] | None = None,
    ) -> RunSummary:
        """Process everything available; see :meth:`lakestream.lake.Lake.run`."""
        if until != "idle":
            raise ValueError('run() goes on until "idle"')
        self.at.layout.refuse_gone()
        check_settings(self.at.settings)
        if streams is None:
            return self._run_until_idle(on_tick, self._everything)
        self.at.engine.restrict(frozenset(self.streams.named(name).uuid for name in streams))
        try:
            return self._run_until_idle(on_tick, self._tick_streams)
        finally:
            self.at.engine.restrict(None)

    def _run_until_idle(
        self, on_tick: Callable[[TickReport], None] | None, work: Callable[[], list[TickReport]]
    ) -> RunSummary:
        summary = RunSummary()
        self._deaths = self.at.spark.deaths.count
        self.at.asking.hurry()
        self.at.engine.asking.hurry()
        busy = Patience(self.at.system_clock, self.at.settings.lock_wait_seconds)
        while True:
            reports, held = self._begun(work, on_tick), self.at.engine.held
            has_turns = not self.lanes.are_idle
            if has_turns:
                reports += self._ended(on_tick)
            summary.ticks += reports
            if reports or has_turns:
                busy.begin()
                continue
            # What was held while the round looked may be free by now: whether it is over says the next one.
            if held.limited:
                self.at.system_clock.sleep(held.wait_seconds())
                continue
            if held.claimed and busy.waits():
                continue
            if self.at.settings.alert_urls:  # a stream may have failed before it had a tick
                self.at.notifier.follow(at_once=True)
            self.at.notifier.drain()
            if all(map(self.at.notifier.is_blocked, held.blocked)):
                return summary

    def interrupt(self) -> None:
        """Have what runs beside the rounds fail, of ticks and of the tree; called in another thread."""
        if "lanes" in self.__dict__:
            self.lanes.interrupt()
        if "tree" in self.__dict__:
            self.tree.own.interrupt()

    def close(self) -> None:
        """Let the ticks that run end, and what is told of them be sent."""
        if "lanes" in self.__dict__:
            self.lanes.close()
        if "tree" in self.__dict__:
            self.tree.close()
        if (lineage := self.__dict__.pop("lineage", None)) is not None:
            lineage.close()


@contextmanager
def ticking(at: Workspace, record: StreamRecord, doing: str) -> Iterator[Engine]:
    """Tick a stream as a turn does: with its claim, and the lake's lock for moments only.

    What ticks it is waited for first; ``doing`` is what others are told. Raises BusyError STREAM_BUSY.
    """
    from lakestream.engine.base.turns import Turn
    from lakestream.engine.rounds.engine import engine_beside

    at.lock_clock.forget()
    wait = at.settings.lock_wait_seconds
    claim = wait_for_claim(
        *(at.layout, record.uuid, record.full_name),
        wait_seconds=wait,
        clock=at.lock_clock,
        told=at.spark.telling,
    )
    turn, known = Turn((record,), None, {record.uuid: claim}), at.engine.loader.known
    handed = {record.uuid: known.pop(record.uuid)} if record.uuid in known else {}
    try:
        claim.say(doing, at.system_clock.now().timestamp())
        own = engine_beside(at.engine, _slot_here(at), turn, handed, at.engine.services.tell)
        yield own
        at.engine.take_back(turn, own)
    except BaseException:
        at.engine.forget(record.uuid)
        raise
    finally:
        claim.release()


def _slot(at: Workspace) -> Slot:
    """Return what turns work with in a thread of their own."""
    from lakestream.engine.lanes.slot import Slot
    from lakestream.engine.reading.small import SmallPath
    from lakestream.storage.sessions.jobs import OwnSession
    from lakestream.storage.small.session import SmallSession

    session = OwnSession(lambda: at.shared, at.layout)
    larger = SmallSession(at.small.larger.room)
    small = SmallPath(session.get, at.small.is_on, larger, refused=at.small.refused)

    def interrupt() -> None:
        small.interrupt()
        session.interrupt()

    def close() -> None:
        small.close()
        session.close()

    return Slot(Catalog(at.layout, at.clock, Tables()), session.get, small, interrupt, close)


def _slot_here(at: Workspace) -> Slot:
    """Return what a turn works with that is taken in the thread of the rounds."""
    from lakestream.engine.lanes.slot import Slot

    return Slot(at.catalog, lambda: at.session, at.small, at.interrupt, lambda: None)


def check_settings(settings: Settings) -> None:
    """Refuse what would be found wrong once there is something to do: rounds begin with all of it in order.

    Raises PrerequisiteError EXTRA_MISSING.
    """
    # Whether a receiver is there is no error: whatever becomes of its events, ticks go on.
    if settings.openlineage_url is not None:
        with extra("openlineage"):
            import openlineage.client  # noqa: F401 (it is needed for the first tick)
