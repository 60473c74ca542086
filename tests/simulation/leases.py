"""Daemons that share the streams of a lake: killed, asleep, cut off from the store, in each other's way.

What must hold: no two daemons may run the same at any moment, none more than its part, and once all is well
everything is run by somebody.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

from obstore.exceptions import AlreadyExistsError, PreconditionError

from lakestream.errors import StorageError
from lakestream.storage.places import attempts, leases
from lakestream.storage.places.leases import LEASE_SECONDS, RENEW_SECONDS, TREE, Leases, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.ground import Ground

_OF_THE_STORE = (StorageError, AlreadyExistsError, PreconditionError)
_DAEMONS = 3
_SETTLING_SECONDS = 3 * LEASE_SECONDS


class _Found:
    """What the store has under a name."""

    def __init__(self, content: bytes, tag: int) -> None:
        self._content, self.meta = content, {"e_tag": str(tag)}

    def bytes(self) -> bytes:
        return self._content


class _Store:
    """One file, changed on condition; it may fail, lose its answer, or be changed by others in between."""

    def __init__(self, world: _World) -> None:
        self.world = world
        self.content: bytes | None = None
        self.tag = 0

    def get(self, _name: str) -> _Found:
        self._may_fail()
        if self.content is None:
            raise FileNotFoundError
        found = _Found(self.content, self.tag)
        self.world.meanwhile()
        return found

    def put(self, _name: str, content: bytes, *, mode: Any) -> None:
        self._may_fail()
        if mode == "create" and self.content is not None:
            raise AlreadyExistsError("there is one")
        if mode != "create" and mode["e_tag"] != str(self.tag):
            raise PreconditionError("another one")
        self.content, self.tag = content, self.tag + 1
        self._may_fail()

    def _may_fail(self) -> None:
        if self.world.is_wild and self.world.ground.chance(2):
            raise StorageError("STORE_FAILED", "the store does not answer")


class _Daemon:
    def __init__(self, world: _World) -> None:
        self.leases = Leases("memory:///lake", Member(1, "h", "u", "t"), lambda: world.wanted, world.ground)
        self.renews_at = world.ground.seconds
        self.asleep_until = 0.0
        self.using: frozenset[str] = frozenset()


class _World:
    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.is_wild = True
        self.wanted = {TREE, *(f"s{n}" for n in range(ground.random.randint(1, 5)))}
        self.store = _Store(self)
        self.daemons = [_Daemon(self) for _ in range(_DAEMONS)]
        self._renewing: list[_Daemon] = []

    def step(self) -> None:
        """Let something happen to a daemon."""
        ground, daemon = self.ground, self.ground.random.choice(self.daemons)
        ground.steps += 1
        ground.pass_time(ground.random.random())
        if self.is_wild and ground.chance(4):
            self._disturb(daemon)
        if daemon.asleep_until > ground.seconds:
            return
        if daemon.renews_at <= ground.seconds:
            self._renew(daemon)
        else:
            daemon.using = daemon.leases.use()
        self.check()

    def _disturb(self, daemon: _Daemon) -> None:
        what = self.ground.random.choice(("kill", "leave", "sleep", "sleep", "wanted", "long"))
        if what == "sleep":
            daemon.asleep_until = self.ground.seconds + self.ground.random.random() * 2 * LEASE_SECONDS
        elif what == "wanted":
            self.wanted ^= {f"s{self.ground.random.randint(0, 6)}"}
        elif what == "long":
            self.ground.pass_time(self.ground.random.random() * LEASE_SECONDS)
        else:
            if what == "leave":
                self._leave(daemon)
            self.daemons[self.daemons.index(daemon)] = _Daemon(self)

    def _leave(self, daemon: _Daemon) -> None:
        with suppress(*_OF_THE_STORE):
            daemon.leases.leave()

    def _renew(self, daemon: _Daemon) -> None:
        self._renewing.append(daemon)
        with suppress(*_OF_THE_STORE):
            daemon.leases.renew()
        self._renewing.remove(daemon)
        daemon.renews_at = self.ground.seconds + RENEW_SECONDS

    def meanwhile(self) -> None:
        """Let time pass, or another daemon renew, between what one reads and what it writes."""
        if self.is_wild and self.ground.chance(3):
            self.ground.pass_time(self.ground.random.random() * LEASE_SECONDS)
        if self.is_wild and len(self._renewing) == 1 and self.ground.chance(10):
            others = [one for one in self.daemons if one not in self._renewing]
            self._renew(self.ground.random.choice(others))

    def check(self) -> None:
        """Raise AssertionError where two may run the same."""
        runs = [what for one in self.daemons for what in one.leases._held if one.leases.has(what)]
        assert len(runs) == len(set(runs)), f"two daemons run the same: {sorted(runs)}"

    def settle(self) -> None:
        """Let all be well, and see that everything is run by somebody."""
        self.is_wild = False
        until = self.ground.seconds + _SETTLING_SECONDS
        for daemon in self.daemons:
            daemon.asleep_until = 0.0
        while self.ground.seconds < until:
            self.step()
        run = [what for one in self.daemons for what in one.leases.use()]
        assert sorted(run) == sorted(self.wanted), f"{sorted(run)} are run of {sorted(self.wanted)}"
        part = -(-len(self.wanted) // len(self.daemons))
        assert all(len(one.leases.use()) <= part for one in self.daemons)


def run(ground: Ground, steps: int) -> None:
    """Take steps, then let all be well."""
    world = _World(ground)

    @contextmanager
    def answers(_folder: str) -> Iterator[_Store]:
        yield world.store

    with (
        patch.object(leases, "store_answers", answers),
        patch.object(attempts, "_CLOCK", ground),
        patch.object(leases, "uuid4", lambda: UUID(int=ground.random.getrandbits(128))),
    ):
        for _ in range(steps):
            world.step()
        world.settle()
