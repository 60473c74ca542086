"""What a round does itself, and what it leaves to turns: what needs Spark, or computes many rows."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.storage.delta import look_anew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakestream.engine.rounds.runtime import StreamRuntime
    from lakestream.storage.places.claims import Claim
    from lakestream.storage.records.registry import StreamRecord, TickPlan

    Planned = tuple[StreamRuntime, TickPlan]


class TurnNeededError(BaseException):
    """What a round was about to do needs Spark, or takes long: it is for a turn, and not begun."""


@dataclass(frozen=True)
class Turn:
    """What is done to a stream, or some that share a query, beside rounds: planned ticks; None: what is due.

    ``claims`` are those of the streams, by id; ``is_suspect``: Spark has died of what it does, or of what
    was done beside.
    """

    records: tuple[StreamRecord, ...]
    planned: tuple[Planned, ...] | None
    claims: dict[str, Claim]
    is_suspect: bool = False

    @property
    def uuids(self) -> frozenset[str]:
        """The ids of the streams."""
        return frozenset(record.uuid for record in self.records)

    @property
    def name(self) -> str:
        """The streams by name."""
        return ", ".join(f"{record.database}.{record.name}" for record in self.records)

    @property
    def doing(self) -> str:
        """What is done, for those who ask."""
        if self.planned is None:
            return "what is due by Spark"
        return ", ".join(f"tick {plan.tick} ({plan.kind})" for _, plan in self.planned)


@dataclass
class Turns:
    """The streams that a round works on, which nobody else does meanwhile, and those that it leaves to turns.

    ``try_claim`` claims a stream by its id; None: whoever made this has claimed what there is.
    ``ended`` counts the claims that this process has given back.
    """

    try_claim: Callable[[str], Claim | None] | None
    ended: Callable[[], int] = lambda: 0
    left: list[Turn] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    """The streams of turns that have not come back."""
    known: dict[str, StreamRuntime] = field(default_factory=dict)
    """What is known of streams that are left to turns."""
    missed: set[str] = field(default_factory=set)
    """The streams that the round wanted, and others worked on."""
    _here: dict[str, Claim] = field(default_factory=dict)
    _within_round: bool = False
    _given_back: int = 0
    _ended: int = 0
    """How many claims others in this process had given back when one was taken last."""

    @contextmanager
    def within_round(self) -> Iterator[None]:
        """Have what is for turns refused, and streams claimed as they are taken, up to the end."""
        self._within_round = True
        try:
            yield
        finally:
            self._within_round = False
            for uuid in [*self._here]:
                self.give_back(uuid)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let somebody else have Spark for a moment of the round."""
        before, self._within_round = self._within_round, False
        try:
            yield
        finally:
            self._within_round = before

    def check_turn(self) -> None:
        """Raise TurnNeededError within a round."""
        if self._within_round:
            raise TurnNeededError

    def has(self, uuid: str) -> bool:
        """Return whether a stream is one that nobody else works on by now."""
        return self.try_claim is None or uuid in self._here

    @property
    def here(self) -> frozenset[str]:
        """The streams that the round which goes on works on itself."""
        return frozenset(self._here)

    def take(self, uuid: str) -> bool:
        """Return whether a stream is this round's to work on: nobody else does.

        What was read of it before may have been overtaken: whoever takes it reads it now.
        """
        if self.try_claim is None or uuid in self._here:
            return True
        claim = self.try_claim(uuid)
        if claim is None:
            self.missed.add(uuid)
            return False
        self._here[uuid] = claim
        if (ended := self.ended() - self._given_back) != self._ended:
            self._ended = ended
            look_anew()
        return True

    @contextmanager
    def claiming(self, uuid: str) -> Iterator[bool]:
        """Have a stream for a moment beside rounds, which gives whether nobody else works on it."""
        is_taken_by_round = uuid in self._here
        is_taken = self.take(uuid)
        try:
            yield is_taken
        finally:
            if not is_taken_by_round:
                self.give_back(uuid)

    def give_back(self, uuid: str) -> None:
        """Let others work on a stream that the round has taken, or has not."""
        if (claim := self._here.pop(uuid, None)) is not None:
            claim.release()
            self._given_back += 1

    def leave(
        self,
        records: Sequence[StreamRecord],
        planned: Sequence[Planned] | None = None,
        *,
        is_suspect: bool = False,
    ) -> None:
        """Leave streams to a turn, unless others work on one: then it is planned again."""
        if any(record.uuid in self.elsewhere for record in records):
            return
        if not all(self.take(record.uuid) for record in records):
            return
        claims = {record.uuid: self._here.pop(record.uuid) for record in records}
        self.elsewhere |= {*claims}
        self.left.append(
            Turn(tuple(records), None if planned is None else tuple(planned), claims, is_suspect)
        )

    def hand_over(self, turn: Turn) -> dict[str, StreamRuntime]:
        """Return what is known of the streams of a turn, which goes with them."""
        return {uuid: self.known.pop(uuid) for uuid in turn.uuids if uuid in self.known}

    def come_back(self, turn: Turn) -> None:
        """Let the streams of a turn be for rounds again."""
        self.elsewhere -= turn.uuids
