"""Daemons share what there is to run: never two the same, and nothing stays without one."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.clock import ManualClock
from lakestream.errors import StorageError
from lakestream.storage.places import files
from lakestream.storage.places.leases import FILE, LEASE_SECONDS, Leases, Member, Roll, read_roll
from lakestream.storage.places.versions import has_links, newest, put_next

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)
STREAMS = frozenset("abcd")
FOLDER = "memory:///lake"


class Daemons:
    """Daemons of one store, or of one folder of several machines, on one clock."""

    def __init__(self, folder: str = FOLDER) -> None:
        files.store_of.cache_clear()
        self.folder = folder
        self.clock = ManualClock(START)
        self.wanted: Collection[str] = STREAMS

    def one(self, pid: int = 1, boot: str = "") -> Leases:
        member = Member(pid, "host", "http://127.0.0.1:8600", START.isoformat(), boot=boot)
        return Leases(self.folder, member, lambda: self.wanted, self.clock)

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))


@pytest.fixture(params=["store", "folder"])
def daemons(request: pytest.FixtureRequest, tmp_path: Path) -> Daemons:
    return Daemons(FOLDER if request.param == "store" else str(tmp_path))


def test_one_daemon_runs_everything(daemons: Daemons) -> None:
    first = daemons.one()
    assert first.use() == frozenset()
    first.renew()
    assert first.use() == STREAMS
    daemons.wanted = STREAMS | {"e"}
    first.renew()
    assert first.has("e")


def test_a_second_one_gets_its_part_once_the_first_has_let_go(daemons: Daemons) -> None:
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    first.use()
    second.renew()
    assert second.use() == frozenset()
    first.renew()
    second.renew()
    assert second.use() == frozenset()  # the first one still runs them
    assert len(first.use()) == 2
    first.renew()
    second.renew()
    assert len(second.use()) == 2
    assert first.use() | second.use() == STREAMS


def test_what_a_dead_one_had_is_taken_over(daemons: Daemons) -> None:
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    first.use()
    second.renew()
    daemons.advance(LEASE_SECONDS - 1)
    second.renew()
    assert second.use() == frozenset()
    daemons.advance(1)
    assert first.use() == frozenset()  # it was away, and knows that by its own clock
    assert not first.has("a")
    second.renew()
    assert second.use() == STREAMS
    assert [member.pid for member in read_roll(daemons.folder).members.values()] == [2]


def test_what_is_not_wanted_for_a_moment_stays_with_whoever_runs_it(daemons: Daemons) -> None:
    """A stream is stopped and started again before its daemon has looked."""
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    first.use()
    daemons.wanted = STREAMS - {"d"}
    second.renew()
    daemons.wanted = STREAMS
    second.renew()
    assert first.has("d")
    assert not second.has("d")


def test_what_is_given_up_is_not_run_though_the_answer_is_lost(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    second.renew()
    change = Leases._changed

    def unanswered(*arguments: Any) -> None:
        change(*arguments)
        raise StorageError("STORE_FAILED", "the store does not answer")

    with monkeypatch.context() as lost:
        lost.setattr(Leases, "_changed", unanswered)
        with pytest.raises(StorageError):
            first.renew()
    second.renew()
    assert second.use()
    assert not first.use() & second.use()


def test_one_that_leaves_gives_everything_back_at_once(daemons: Daemons) -> None:
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    first.use()
    first.leave()
    assert first.use() == frozenset()
    second.renew()
    assert second.use() == STREAMS


def test_a_change_by_another_one_is_not_lost(daemons: Daemons, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = daemons.one(1), daemons.one(2)
    first.renew()
    whole = Roll.read

    def late(content: bytes) -> Roll:
        monkeypatch.setattr(Roll, "read", whole)
        second.renew()  # between the look of the first one and its write
        return whole(content)

    monkeypatch.setattr(Roll, "read", late)
    first.renew()
    assert len(read_roll(daemons.folder).members) == 2


def test_what_a_newer_version_added_is_passed_over() -> None:
    content = (
        b'{"members": {"x": {"pid": 1, "host": "h", "url": "u", "since": "s", "mood": 1}}, "holders": {}}'
    )
    assert Roll.read(content).members["x"].host == "h"


def test_nothing_was_ever_shared(tmp_path: Path) -> None:
    assert read_roll("memory:///nothing") == read_roll(str(tmp_path)) == read_roll("/nothing") == Roll()
    assert FILE == "leases.json"


def ended(one: Leases) -> None:
    """End a daemon as the kernel does that of a process."""
    assert one._life is not None
    one._life.close()


def test_one_that_has_ended_on_this_machine_is_found_at_once(tmp_path: Path) -> None:
    daemons = Daemons(str(tmp_path))
    first, second = daemons.one(1, "a start"), daemons.one(2, "a start")
    first.renew()
    second.renew()
    assert second.use() == frozenset()
    ended(first)
    second.renew()
    assert second.use() == STREAMS
    assert len([*tmp_path.joinpath("members").iterdir()]) == 1


def test_one_that_was_stopped_and_goes_on_is_not_taken_for_ended(tmp_path: Path) -> None:
    daemons = Daemons(str(tmp_path))
    first, second = daemons.one(1, "a start"), daemons.one(2, "a start")
    first.renew()
    second.renew()
    daemons.advance(LEASE_SECONDS)
    second.renew()
    assert second.use() == STREAMS
    first.renew()
    second.renew()
    assert {member.pid for member in read_roll(daemons.folder).members.values()} == {1, 2}


def test_one_that_has_ended_elsewhere_is_waited_for(tmp_path: Path) -> None:
    daemons = Daemons(str(tmp_path))
    first, second = daemons.one(1, "a start"), daemons.one(2, "of another machine")
    first.renew()
    ended(first)
    second.renew()
    daemons.advance(LEASE_SECONDS - 1)
    second.renew()
    assert second.use() == frozenset()
    daemons.advance(1)
    second.renew()
    assert second.use() == STREAMS


def test_locks_that_do_not_reach_the_other_machine_are_noticed(tmp_path: Path) -> None:
    daemons = Daemons(str(tmp_path))
    first, second = daemons.one(1, "a start"), daemons.one(2, "of another machine")
    ended(first)  # its lock is not seen, and it lives
    first.renew()
    second.renew()
    first.renew()
    with pytest.raises(StorageError, match="LOCKS_NOT_SHARED"):
        second.renew()
    assert second.use() == frozenset()


def test_a_folder_that_nobody_may_write_to_is_named(tmp_path: Path) -> None:
    one = Daemons(str(tmp_path)).one()
    tmp_path.joinpath(f"{FILE}.{1:020}").mkdir()
    with pytest.raises(StorageError, match="IO_ERROR"):
        one.renew()


def test_of_two_that_write_a_version_one_is_told(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert has_links(folder)
    before = newest(folder, "f")
    put_next(folder, "f", before, b"1")
    with pytest.raises(FileExistsError):
        put_next(folder, "f", before, b"2")
    for number in range(30):
        put_next(folder, "f", newest(folder, "f"), str(number).encode())
    assert newest(folder, "f") == (31, b"29")
    assert len([*tmp_path.iterdir()]) == 10


def test_a_link_whose_answer_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def answered_twice(*arguments: Any) -> None:
        link(*arguments)
        raise FileExistsError  # NFS: the request was sent again

    monkeypatch.setattr(os, "link", answered_twice)
    put_next(str(tmp_path), "f", newest(str(tmp_path), "f"), b"1")
    assert newest(str(tmp_path), "f") == (1, b"1")


def test_a_file_system_without_links_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", shutil.copyfile)  # writes over what is there
    assert not has_links(str(tmp_path))

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    assert not has_links(str(tmp_path))
    assert [*tmp_path.iterdir()] == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["renew", "round", "leave"]), st.integers(0, 2), st.sampled_from([0.0, 4.0, 11.0])
        ),
        max_size=60,
    )
)
def test_no_two_run_the_same_and_nothing_stays_behind(steps: list[tuple[str, int, float]]) -> None:
    daemons = Daemons()
    leases = [daemons.one(pid) for pid in range(3)]
    for what, number, seconds in steps:
        daemons.advance(seconds)
        one = leases[number]
        if what == "renew":
            one.renew()
        elif what == "round":
            one.use()
        else:
            one.leave()
        running = [name for lease in leases for name in STREAMS if name in lease._using and lease.has(name)]
        assert len(running) == len(set(running))
    survivor = leases[0]
    survivor.renew()
    daemons.advance(LEASE_SECONDS)
    survivor.renew()
    assert survivor.use() == STREAMS
