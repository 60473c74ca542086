"""The Spark of a lake and of those beside it: given, or started on first need, and anew where it has died."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from lakestream.errors import BusyError, PrerequisiteError, SparkGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.settings import Settings
    from lakestream.storage.sessions.jars import Watch

MOST_IN_A_ROW = 10
"""A Spark that has died so often, each time soon, is not started again by this process."""

LIVED_SECONDS = 60.0
"""One that has lived so long has not died soon: the next one is started at once."""

BLAMED_SECONDS = 86_400.0
"""So long it is remembered that Spark has died under somebody's statements."""

_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_BLAME_SECONDS = 3600.0

_log = logging.getLogger(__name__)


@dataclass
class Blame:
    """How often Spark has died under somebody's statements, the last time when, and until when they rest."""

    deaths: int = 0
    at: float = -inf
    until: float = -inf


@dataclass
class Guests:
    """Those whose statements run in a Spark that is there for streams; for several threads.

    Of what a statement makes it may die, and whoever may read can send that again and again: their next
    statements wait then, for longer each time, and streams are not held to have been the reason.
    """

    clock: Clock
    _inside: Counter[str] = field(default_factory=Counter)
    _under: set[str] = field(default_factory=set)
    _blames: dict[str, Blame] = field(default_factory=dict)
    _own: threading.local = field(default_factory=threading.local)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def asking(self, who: str) -> Iterator[None]:
        """Run somebody's statement in this thread."""
        self._own.who, self._own.is_in = who, False
        try:
            yield
        except SparkGoneError as gone:
            if self._own.is_in and gone.code == "SPARK_DIED":
                self._blame(who)
            raise
        finally:
            if self._own.is_in:
                with self._guard:
                    self._inside -= Counter([who])
            self._own.who = None

    def enter(self) -> None:
        """Note that the statement of this thread, if it runs one, needs Spark.

        Raises BusyError SPARK_REFUSED while it has died under statements of theirs too often.
        """
        who = getattr(self._own, "who", None)
        if who is None or self._own.is_in:
            return
        with self._guard:
            blame = self._blames.get(who, Blame())
            if (seconds := blame.until - self.clock.monotonic()) > 0:
                raise BusyError(
                    "SPARK_REFUSED",
                    f"Spark has died {blame.deaths} times while statements of {who} ran in it; these may use "
                    f"it again in {seconds:.0f} s",
                    hint="what needs no Spark is answered meanwhile; it lives where a statement makes less "
                    "at once, or driver_memory is greater",
                )
            self._inside[who] += 1
            self._own.is_in = True

    @property
    def were_in(self) -> bool:
        """Whether somebody's statement runs in the Spark that is there, or did when it died."""
        with self._guard:
            return bool(self._inside or self._under)

    def began(self) -> None:
        """Note that another Spark is there."""
        with self._guard:
            self._under.clear()

    def _blame(self, who: str) -> None:
        now = self.clock.monotonic()
        with self._guard:
            self._under.add(who)
            blame = self._blames.setdefault(who, Blame())
            if now - blame.at > BLAMED_SECONDS:
                blame.deaths = 0
            blame.deaths, blame.at = blame.deaths + 1, now
            blame.until = now + _pause(blame.deaths, _LONGEST_BLAME_SECONDS)


@dataclass
class Deaths:
    """How often the Spark that a process has started has died, and when another one may be started.

    The first time that is at once, then after pauses that grow as long as each dies soon.
    """

    clock: Clock
    count: int = 0
    last: SparkGoneError | None = None
    _in_a_row: int = 0
    _began_at: float = inf
    _rests_until: float = -inf

    @property
    def goes_on(self) -> bool:
        """Whether another Spark is ever started."""
        return self._in_a_row < MOST_IN_A_ROW

    @property
    def rests(self) -> bool:
        """Whether none is started now."""
        return not self.goes_on or self._seconds > 0

    @property
    def _seconds(self) -> float:
        return self._rests_until - self.clock.monotonic()

    def note(self, gone: SparkGoneError, *, in_a_row: bool = True) -> None:
        """Count a death; not as one of a row where guests may be the reason, who rest in its place."""
        now = self.clock.monotonic()
        if now - self._began_at >= LIVED_SECONDS:
            self._in_a_row = 0
        self.count, self.last, self._began_at = self.count + 1, gone, inf
        if in_a_row:
            self._in_a_row += 1
            self._rests_until = now + _pause(self._in_a_row, _LONGEST_PAUSE_SECONDS)

    def check(self) -> None:
        """Raise BusyError SPARK_RESTING while no Spark is started, SparkGoneError where none ever is."""
        if self.last is not None and not self.goes_on:
            raise self.last
        if (seconds := self._seconds) > 0:
            raise BusyError(
                "SPARK_RESTING",
                f"Spark has died {self._in_a_row} times in a row; it is started again in {seconds:.0f} s",
                hint="try again then; driver_memory may be too small",
            )

    def began(self) -> None:
        """Note that one was started."""
        self._began_at = self.clock.monotonic()
        if self.count:
            _log.warning("another Spark was started, after %d that have died", self.count)


def _pause(deaths: int, longest: float) -> float:
    """Return the seconds until the next start, or statement, after so many deaths."""
    from tenacity import RetryCallState, Retrying, wait_chain, wait_exponential, wait_none

    series = RetryCallState(Retrying(), None, (), {})
    series.attempt_number = deaths
    return wait_chain(wait_none(), wait_exponential(max=longest))(series)


class SharedSpark:
    """The Spark of a lake, which other lakes beside it have too: given, or started on first need.

    One that was started here is let go of when its JVM has ended, and whoever needs Spark starts another.
    """

    def __init__(self, given: SparkSession | None, watch: Watch | None, clock: Clock) -> None:
        self.given = given
        self.deaths, self.guests = Deaths(clock), Guests(clock)
        self._watch = watch
        self._session: SparkSession | None = None
        self._starting = threading.Lock()

    def telling(self, what: str) -> AbstractContextManager[object]:
        """Tell whoever watches what is waited for, as long as it is."""
        return nullcontext() if self._watch is None else self._watch(what, None)

    def session(self, settings: Settings, schemes: Callable[[], Collection[str]]) -> SparkSession:
        """Return the session that users have; one that is started reads the stores of the ``schemes``.

        Raises BusyError SPARK_RESTING, SPARK_REFUSED, and what the start of a Spark raises.
        """
        from lakestream.storage.sessions.session import adopt_session

        self.check()
        self.guests.enter()
        with self._starting:
            if self._session is None and self.given is not None:
                self._session = adopt_session(self.given)
            elif self._session is None:
                self._session = self._started(settings, schemes())
            return self._session

    def brings_functions(self, settings: Settings) -> bool:
        """Return whether Spark may have functions of others: all but one that is still to be started may."""
        from lakestream.storage.sessions.session import brings_functions

        return self.given is not None or self._session is not None or brings_functions(settings)

    def check(self) -> None:
        """Raise SparkGoneError when Spark has ended that was given, or that this process found there.

        One that was started here is let go of.
        """
        spark = self.given or self._session
        if spark is None:
            return
        from lakestream.storage.sessions.session import check_given

        try:
            check_given(spark)
        except SparkGoneError as gone:
            if self.given is not None or not self._lets_go(spark, gone):
                raise

    def goes_on(self) -> bool:
        """Return whether Spark is there, or started when it is needed: let go of what has ended."""
        try:
            self.check()
        except SparkGoneError:
            return False
        return self.deaths.goes_on

    def _lets_go(self, spark: SparkSession, gone: SparkGoneError) -> bool:
        """Let go of a session; return False where that is not ours to do."""
        from lakestream.storage.sessions.session import forget_spark

        if self._session is not spark:
            return True  # somebody else has
        with self._starting:
            if self._session is spark:
                if not forget_spark(gone):
                    return False
                self._session = None
                self.deaths.note(gone, in_a_row=not self.guests.were_in)
        return True

    def _started(self, settings: Settings, schemes: Collection[str]) -> SparkSession:
        from lakestream.storage.sessions.jars import say_so
        from lakestream.storage.sessions.session import forget_spark, spark_session

        self.deaths.check()
        try:
            session = spark_session(settings, self._watch or say_so, schemes)
        except PrerequisiteError as error:
            if error.code != "SPARK_NOT_STARTED" or not self.deaths.count:
                raise
            # It has started before: what it died of takes this one too.
            gone = SparkGoneError("SPARK_DIED", error.message, hint=error.hint)
            forget_spark(gone)
            self.deaths.note(gone)
            self.deaths.check()
            raise
        self.deaths.began()
        self.guests.began()
        return session
