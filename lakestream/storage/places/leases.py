"""Who runs what in a lake that daemons share: one small file, changed by conditional writes alone.

Every daemon shows that it lives by counting up in the file. One whose count stands still for
``LEASE_SECONDS``, by the clock of the one who looks, is taken for dead, and what it held is free. No
clocks are compared. A daemon that could not count for as long itself has lost what it held; a tick that
it has under way then is fenced off by the output's transaction.

On a file system a daemon also holds a lock on a file of its own for as long as it lives. So one that has
ended on this machine is found at once, and so is that the file system's locks do not reach from one machine
to another: then none may rest on them.
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from lakestream.errors import StorageError
from lakestream.forked import closed_in_forks
from lakestream.storage.places.attempts import attempted
from lakestream.storage.places.files import is_uri, read_bytes, store_answers
from lakestream.storage.places.versions import newest, put_next

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lakestream.clock import Clock

LEASE_SECONDS = 20.0
RENEW_SECONDS = 4.0
FILE = "leases.json"

TREE, MAINTENANCE = "tree", "maintenance"
"""What one daemon does beside streams: continuous queries and triggers; upkeep of the tables."""

_MEMBERS = "members"
"""The folder of the files that daemons hold a lock on, on a file system."""

_ATTEMPTS = 10
_MAX_JITTER_SECONDS = 0.3


@dataclass(frozen=True)
class Member:
    """A daemon: its process, where it listens, since when (ISO 8601, UTC), and how often it has counted.

    ``boot`` is the id of its machine's start, empty where it has none.
    """

    pid: int
    host: str
    url: str
    since: str
    beats: int = 0
    boot: str = ""


@dataclass(frozen=True)
class Roll:
    """The daemons of a lake by id, and who holds what."""

    members: dict[str, Member] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, content: bytes) -> Roll:
        """Read what :meth:`written` gave; what a newer lakestream added is passed over."""
        found = json.loads(content)
        names = Member.__dataclass_fields__
        members = {
            key: Member(**{name: value for name, value in row.items() if name in names})
            for key, row in found["members"].items()
        }
        return cls(members, found["holders"])

    def written(self) -> bytes:
        """Return the roll as JSON."""
        members = {key: asdict(member) for key, member in self.members.items()}
        return json.dumps({"members": members, "holders": self.holders}, sort_keys=True).encode()

    def of(self, member: str) -> frozenset[str]:
        """Return what a daemon holds."""
        return frozenset(what for what, holder in self.holders.items() if holder == member)


def part_of(roll: Roll, member: str, wanted: Collection[str], using: Collection[str]) -> Roll:
    """Return the roll once a daemon has taken its part of what is ``wanted``, and given up what is beyond.

    Parts are equal, rounded up. What it is ``using`` it keeps until it has let go of it. What is not wanted
    any more each gives up for itself: others may not know yet.
    """
    holders = {
        what: holder
        for what, holder in roll.holders.items()
        if holder in roll.members and (what in wanted or holder != member or what in using)
    }
    part = _size(roll, wanted)
    own = sorted(what for what, holder in holders.items() if holder == member and what in wanted)
    for what in own[part:]:
        if what not in using:
            del holders[what]
    free = sorted(set(wanted) - holders.keys())
    holders.update(dict.fromkeys(free[: max(0, part - len(own))], member))
    return Roll(roll.members, holders)


def _size(roll: Roll, wanted: Collection[str]) -> int:
    return -(-len(wanted) // len(roll.members))


class Leases:
    """One daemon's part of what there is to run in a lake.

    ``folder`` is the lake's system folder, ``wanted`` tells what there is. :meth:`renew` is called by a
    thread of its own every ``RENEW_SECONDS``, the others by the thread of the rounds. What changes the file
    raises StorageError STORE_FAILED; on a file system IO_ERROR, and LOCKS_NOT_SHARED where a daemon lives
    whose lock does not show here.
    """

    def __init__(
        self, folder: str, member: Member, wanted: Callable[[], Collection[str]], clock: Clock
    ) -> None:
        self._folder = folder
        self._id = uuid4().hex
        self._member = member
        self._wanted = wanted
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        self._held: frozenset[str] = frozenset()
        self._using: frozenset[str] = frozenset()
        self._renewed_at = float("-inf")
        self._without_lock: set[str] = set()
        self._life = None if is_uri(folder) else _begin_life(folder, self._id)

    def renew(self) -> None:
        """Show that this daemon lives, and take or give up what the number of daemons asks for."""
        began = self._clock.monotonic()
        wanted = set(self._wanted())
        roll = self._changed(lambda roll: self._with_own_part(roll, wanted))
        self._held = frozenset(sorted(roll.of(self._id) & wanted)[: _size(roll, wanted)])
        self._renewed_at = began

    def use(self) -> frozenset[str]:
        """Return what rounds may run from now on: nothing when the leases could not be renewed in time."""
        self._using = self._held if self._lasts() else frozenset()
        return self._using

    def has(self, what: str) -> bool:
        """Return whether something is still this daemon's to run."""
        return what in self._held and self._lasts()

    def _lasts(self) -> bool:
        return self._clock.monotonic() - self._renewed_at < LEASE_SECONDS

    def leave(self) -> None:
        """Give everything up, so that the others need not wait."""
        self._held = self._using = frozenset()
        self._changed(
            lambda roll: Roll(
                {key: member for key, member in roll.members.items() if key != self._id},
                {what: holder for what, holder in roll.holders.items() if holder != self._id},
            )
        )
        if self._life is not None:
            Path(self._life.name).unlink(missing_ok=True)
            self._life.close()

    def _with_own_part(self, roll: Roll, wanted: Collection[str]) -> Roll:
        self._member = replace(self._member, beats=self._member.beats + 1)
        living = {key: member for key, member in roll.members.items() if self._lives(key, member)}
        new = part_of(Roll({**living, self._id: self._member}, roll.holders), self._id, wanted, self._using)
        self._held &= new.of(self._id)  # before the file says so: its answer may be lost
        return new

    def _lives(self, key: str, member: Member) -> bool:
        now = self._clock.monotonic()
        beats, since = self._seen.get(key, (-1, now))
        if beats != member.beats:
            since = now
            if key in self._without_lock:
                raise StorageError(
                    "LOCKS_NOT_SHARED",
                    f"the daemon on {member.host} ({member.url}) lives, and its locks do not show here",
                    hint="mount the file system with locks that all machines see (NFS 4, without nolock or "
                    "local_lock), or let one machine serve the lake",
                )
        self._seen[key] = member.beats, since
        if self._life is not None and not _lives(self._folder, key):
            if member.boot == self._member.boot != "":
                return False  # it has ended here: that shows at once
            self._without_lock.add(key)
        return now - since < LEASE_SECONDS

    def _changed(self, change: Callable[[Roll], Roll]) -> Roll:
        """Change the file, and again from what it is then if somebody else did meanwhile."""
        if self._life is not None:
            with _io_named(self._folder):
                return attempted(
                    lambda: self._change_here(change),
                    (FileExistsError, FileNotFoundError),
                    attempts=_ATTEMPTS,
                    jitter_seconds=_MAX_JITTER_SECONDS,
                )
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        others = (AlreadyExistsError, PreconditionError)
        return attempted(
            lambda: self._change(change), others, attempts=_ATTEMPTS, jitter_seconds=_MAX_JITTER_SECONDS
        )

    def _change_here(self, change: Callable[[Roll], Roll]) -> Roll:
        found = newest(self._folder, FILE)
        old = Roll.read(found.content) if found.number else Roll()
        new = change(old)
        put_next(self._folder, FILE, found, new.written())
        for key in old.members.keys() - new.members.keys():
            if not _lives(self._folder, key):  # who was stopped may go on
                Path(self._folder, _MEMBERS, key).unlink(missing_ok=True)
        return new

    def _change(self, change: Callable[[Roll], Roll]) -> Roll:
        with store_answers(self._folder) as store:
            try:
                found = store.get(FILE)
            except FileNotFoundError:
                new = change(Roll())
                store.put(FILE, new.written(), mode="create")
                return new
            new = change(Roll.read(bytes(found.bytes())))
            store.put(FILE, new.written(), mode={"e_tag": found.meta["e_tag"]})
            return new


def read_roll(folder: str) -> Roll:
    """Return who runs what, as the file in a lake's system folder says; the dead may still stand in it.

    Raises StorageError STORE_FAILED, IO_ERROR.
    """
    if not is_uri(folder):
        with _io_named(folder):
            found = attempted(lambda: newest(folder, FILE), FileNotFoundError)
        return Roll.read(found.content) if found.number else Roll()
    try:
        return Roll.read(read_bytes(folder, FILE))
    except FileNotFoundError:
        return Roll()


@contextmanager
def _io_named(folder: str) -> Iterator[None]:
    """Raise StorageError IO_ERROR for what a file system refuses."""
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        raise StorageError("IO_ERROR", f"{folder}: {error.strerror or error}") from error


def _begin_life(folder: str, key: str) -> IO[bytes]:
    """Hold a lock that shows a daemon's life: the kernel takes it back at its end."""
    with _io_named(folder):
        Path(folder, _MEMBERS).mkdir(exist_ok=True)
        file = Path(folder, _MEMBERS, key).open("ab")  # noqa: SIM115 - it carries the lock
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return closed_in_forks(file)


def _lives(folder: str, key: str) -> bool:
    """Return whether a daemon's lock is held, as far as locks reach."""
    try:
        with Path(folder, _MEMBERS, key).open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
