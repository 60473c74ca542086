"""When windows are computed, and what becomes of late rows: one case for each way there is.

What many places ask is a property of all cases; a case says where its answer is another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.language.model import Duration, Fragment, TableName

# --- when windows are computed -------------------------------------------------------------------


class _Emission:
    """What is asked of every emission: the answers of one that computes windows when they close."""

    @property
    def at_close(self) -> bool:
        """Whether windows are computed when the watermark closes them."""
        return True

    @property
    def at_open(self) -> bool:
        """Whether windows are computed when they open."""
        return False

    @property
    def at_once(self) -> bool:
        """Whether windows that are still open are computed with every change of theirs."""
        return False

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock closes windows, and not the watermark."""
        return False

    @property
    def max_delay(self) -> Duration | None:
        """How often open windows are computed, in processing time; None: not by that."""
        return None

    @property
    def recalculate_every(self) -> Duration | None:
        """How far the instants lie apart at which late changes are corrected; None: there are none."""
        return None

    @property
    def opens_ahead(self) -> bool:
        """Whether a window is open from its first row on, whether the watermark has reached it or not."""
        return False

    @property
    def fires_open(self) -> bool:
        """Whether rows of windows that are still open are computed."""
        return self.at_once or self.max_delay is not None

    @property
    def fires_early(self) -> bool:
        """Whether windows fire, or open, before they close."""
        return self.fires_open or self.at_open

    @property
    def by_mark(self) -> bool:
        """Whether the rows of a tick compute what the watermark closes by them, and nothing else."""
        return not (self.at_once or self.at_open or self.by_clock)


@dataclass(frozen=True)
class OnClose(_Emission):
    """Windows are computed when the watermark closes them."""


@dataclass(frozen=True)
class OnOpen(_Emission):
    """Windows are computed when they open; with ``closes``, when they close too (EVENT_TYPE)."""

    closes: bool = False
    at_open = True

    @property
    def at_close(self) -> bool:
        """Whether windows are computed when the watermark closes them."""
        return self.closes


@dataclass(frozen=True)
class AtOnce(_Emission):
    """Windows are computed with every change of theirs, from their first row on (AT_ONCE)."""

    at_once = True
    opens_ahead = True


@dataclass(frozen=True)
class Delayed(_Emission):
    """Windows are computed ``on`` their events, and while open each ``delay`` (MAX_DELAY)."""

    delay: Duration
    on: OnClose | OnOpen = field(default_factory=OnClose)

    @property
    def at_close(self) -> bool:
        """Whether windows are computed when the watermark closes them."""
        return self.on.at_close

    @property
    def at_open(self) -> bool:
        """Whether windows are computed when they open."""
        return self.on.at_open

    @property
    def max_delay(self) -> Duration:
        """How often open windows are computed, in processing time."""
        return self.delay


@dataclass(frozen=True)
class DelayedFromFirstRow(_Emission):
    """As :class:`Delayed`, of windows that are open from their first row on (classic MAX_DELAY)."""

    delay: Duration
    opens_ahead = True

    @property
    def max_delay(self) -> Duration:
        """How often open windows are computed, in processing time."""
        return self.delay


@dataclass(frozen=True)
class ByClock(_Emission):
    """Windows are computed once, when the wall clock closes them (FORCE_WINDOW_CLOSE)."""

    at_close = False
    by_clock = True


@dataclass(frozen=True)
class Corrected(_Emission):
    """Windows are computed when they close; late changes are corrected ``every`` so often.

    That is CONTINUOUS_WINDOW_CLOSE.
    """

    every: Duration

    @property
    def recalculate_every(self) -> Duration:
        """How far the instants lie apart at which late changes are corrected."""
        return self.every


Emission = OnClose | OnOpen | AtOnce | Delayed | DelayedFromFirstRow | ByClock | Corrected
"""When results of windows are computed."""


# --- what becomes of late rows -------------------------------------------------------------------


@dataclass(frozen=True)
class Follow:
    """Which tables beside the trigger table are followed: ``tables`` (None: all that the query reads).

    A change of which neither a key nor a time tells what it touches is taken to touch the windows that end
    ``within`` so much of their group's newest row (None: such a query is refused).
    """

    tables: tuple[TableName, ...] | None = None
    within: Duration | None = None


class _LatePolicy:
    """What is asked of every policy: the answers of one by which late rows fire their windows again."""

    @property
    def exact(self) -> bool:
        """Whether every change of the source is followed (EXACT)."""
        return False

    @property
    def follow(self) -> Follow | None:
        """Which other tables' changes reach the results (EXACT(ALL)); None: of none."""
        return None

    @property
    def ignores_late(self) -> bool:
        """Whether late rows do not fire windows that have closed."""
        return False

    @property
    def expired_time(self) -> Duration | None:
        """How far behind the newest row of its group a row has expired; None: rows do not expire by time."""
        return None

    @property
    def expires_closed(self) -> bool:
        """Whether a late row has expired where its windows have closed, and counts in those that are open."""
        return False

    @property
    def delete_recalc(self) -> bool:
        """Whether a deleted row makes its windows fire again."""
        return False

    @property
    def counts_rewritten(self) -> bool:
        """Whether a row that is rewritten counts as one more, beside what it was."""
        return False

    @property
    def follows_updates(self) -> bool:
        """Whether updates recalculate windows though late rows do not."""
        return False

    @property
    def drops(self) -> bool:
        """Whether there is one timeline for all groups, whose watermark says which rows are admitted.

        A row behind it is left out for good, and each window fires once, over the rows that were admitted.
        """
        return False

    @property
    def by_arrival(self) -> bool:
        """Whether a row's time is when it was taken, so that none is late."""
        return False

    @property
    def time_column(self) -> Fragment | None:
        """What a row's time is; None: that of the table."""
        return None

    @property
    def leaves_out(self) -> bool:
        """Whether some change of the source counts for nothing, by what the statement says."""
        return self.ignores_late or self.expired_time is not None or self.drops or self.by_arrival


@dataclass(frozen=True)
class Refire(_LatePolicy):
    """A late row fires its windows again, where it has not expired; by DELETE_RECALC a deleted one too."""

    expired_time: Duration | None = None
    delete_recalc: bool = False


@dataclass(frozen=True)
class Ignore(_LatePolicy):
    """A late row fires nothing (IGNORE_DISORDER); by DELETE_RECALC a deleted row fires its windows again."""

    expired_time: Duration | None = None
    delete_recalc: bool = False
    ignores_late = True


class Rewritten(StrEnum):
    """What becomes of a row that is rewritten where late rows are ignored."""

    COUNTED = "counted"
    """It counts as one more, beside what it was."""
    FOLLOWED = "followed"
    """Its windows fire again, for what it was and for what it is."""
    IGNORED = "ignored"
    """It is as a late row."""


@dataclass(frozen=True)
class RefireClosed(_LatePolicy):
    """A late row fires windows again that have closed, and counts in those that are open."""

    expired_time: Duration | None = None
    counts_rewritten: bool = False
    expires_closed = True

    @property
    def delete_recalc(self) -> bool:
        """Whether a deleted row makes its windows fire again: where a rewritten one does."""
        return not self.counts_rewritten


@dataclass(frozen=True)
class IgnoreClosed(_LatePolicy):
    """A late row has expired where its windows have closed, and counts in those that are open."""

    rewritten: Rewritten
    expired_time: Duration | None = None
    ignores_late = True
    expires_closed = True

    @property
    def counts_rewritten(self) -> bool:
        """Whether a row that is rewritten counts as one more, beside what it was."""
        return self.rewritten is Rewritten.COUNTED

    @property
    def follows_updates(self) -> bool:
        """Whether updates recalculate windows though late rows do not."""
        return self.rewritten is Rewritten.FOLLOWED

    @property
    def delete_recalc(self) -> bool:
        """Whether a deleted row makes its windows fire again: where a rewritten one does."""
        return self.follows_updates


@dataclass(frozen=True)
class Exact(_LatePolicy):
    """Every change of the source is followed (lakestream's own), and of the tables of ``follow``."""

    follow: Follow | None = None
    exact = True


@dataclass(frozen=True)
class Drop(_LatePolicy):
    """A row behind the watermark of all groups is left out for good; ``exact``: it corrects windows.

    Its time is ``time_column`` (None: that of the table).
    """

    time_column: Fragment | None = None
    exact: bool = False
    drops = True


@dataclass(frozen=True)
class DropByArrival(_LatePolicy):
    """As :class:`Drop`, where a row's time is when it was taken."""

    drops = True
    by_arrival = True


@dataclass(frozen=True)
class ByArrival(_LatePolicy):
    """Rows count when they come, whatever their time, and what becomes of them then is not looked at."""

    by_arrival = True


LatePolicy = Refire | Ignore | RefireClosed | IgnoreClosed | Exact | Drop | DropByArrival | ByArrival
"""What becomes of a row that comes late, or is changed."""
