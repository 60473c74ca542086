"""One daemon at a time serves a lake."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from lakestream.clock import SystemClock
from lakestream.errors import ConfigError
from lakestream.server import daemon
from lakestream.server.daemon import check_tls, check_token
from lakestream.server.process.connect import connect_conf
from lakestream.server.process.owner import Owner, Ownership, find_owner
from lakestream.settings import Settings
from lakestream.storage.places import files
from lakestream.storage.places.layout import Layout
from lakestream.storage.places.leases import Leases, Member
from lakestream.storage.places.lock import try_lock
from lakestream.storage.records.tokens import Scope, Tokens
from tests.certificates import certificate

if TYPE_CHECKING:
    from pathlib import Path


class TakingOver(SystemClock):
    """A clock whose first sleep ends the other daemon."""

    def __init__(self, other: Ownership) -> None:
        self.other = other

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.other.__exit__()


def test_a_second_daemon_waits_and_takes_over(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "lake"))
    layout.initialise()
    assert find_owner(layout) is None
    announcements: list[Owner | None] = []
    first = Ownership.wait(layout, SystemClock(), announcements.append)
    assert (find_owner(layout), announcements) == (None, [])
    announced = first.announce("http://127.0.0.1:8600", SystemClock())
    assert find_owner(Layout(layout.root)) == announced
    with Ownership.wait(Layout(layout.root), TakingOver(first), announcements.append) as second:
        assert announcements == [announced]
        second.announce("http://127.0.0.1:8601", SystemClock())
        found = find_owner(layout)
        assert found is not None
        assert found.url == "http://127.0.0.1:8601"
    assert find_owner(layout) is None


def test_daemons_that_share_a_folder_stand_beside_one_another_and_after_one_that_does_not(
    tmp_path: Path,
) -> None:
    layout = Layout(str(tmp_path / "lake"))
    layout.initialise()
    heard: list[Owner | None] = []
    alone = Ownership.wait(layout, SystemClock(), heard.append)
    with (
        Ownership.wait(layout, TakingOver(alone), heard.append, shared=True),
        Ownership.wait(layout, SystemClock(), heard.append, shared=True),
    ):
        assert heard == [None]
        assert try_lock(layout, "daemon.lock") is None
        leases = Leases(
            layout.system_root,
            Member(os.getpid(), socket.gethostname(), "http://127.0.0.1:8600", "now"),
            set,
            SystemClock(),
        )
        assert find_owner(layout) is None
        leases.renew()
        owner = find_owner(layout)
        assert owner is not None
        assert owner.url == "http://127.0.0.1:8600"
        leases.leave()
    assert find_owner(layout) is None


@pytest.mark.parametrize("links", [True, False])
def test_a_lake_is_shared_where_links_are_kept_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(daemon, "has_links", lambda _: links)
    said: list[str] = []
    layout = Layout(str(tmp_path))
    assert not daemon._may_share(layout, Settings(), said.append)
    assert daemon._may_share(layout, Settings(share_streams=True), said.append) == links
    assert bool(said) != links


@pytest.mark.parametrize(
    ("host", "pid", "is_here"),
    [
        (socket.gethostname(), os.getpid(), True),
        ("elsewhere", os.getpid(), False),
        (socket.gethostname(), 2**22 + 1, False),
    ],
    ids=["here", "elsewhere", "ended"],
)
def test_of_daemons_that_share_a_lake_one_that_lives_here_is_asked(
    host: str, pid: int, is_here: bool
) -> None:
    files.store_of.cache_clear()
    layout = Layout("memory:///lake")
    assert find_owner(layout) is None
    Leases(layout.system_root, Member(pid, host, "http://127.0.0.1:8600", "now"), set, SystemClock()).renew()
    expected = Owner(pid, host, "http://127.0.0.1:8600", "now") if is_here else None
    assert find_owner(layout) == expected


def test_others_than_this_machine_need_a_token(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    layout.initialise()
    check_token(Settings(server_host="::1"), layout)
    check_token(Settings(server_host="0.0.0.0", server_token="a-secret-of-the-test"), layout)
    with pytest.raises(ConfigError, match="TOKEN_NEEDED"):
        check_token(Settings(server_host="0.0.0.0"), layout)
    Tokens(layout).issue("reader", Scope.READ, [], 0)
    check_token(Settings(server_host="0.0.0.0"), layout)


def test_a_short_token_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(server_token="hunter2")
    assert (caught.value.code, "hunter2" in str(caught.value)) == ("SETTING_INVALID", False)
    assert "hunter" not in str(Settings(server_token="hunter2" * 3).shown())


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    other = certificate(tmp_path, name="other")[1]
    locked = certificate(tmp_path, name="locked", password=b"secret")
    check_tls(Settings())
    check_tls(Settings(server_tls_cert=cert, server_tls_key=key))
    for wrong in ((cert, None), (None, key), (cert, other), (key, cert), (cert, tmp_path / "gone"), locked):
        with pytest.raises(ConfigError) as caught:
            check_tls(Settings(server_tls_cert=wrong[0], server_tls_key=wrong[1]))
        assert caught.value.code == "TLS_UNUSABLE"


def test_spark_connect_listens_on_this_machine_and_asks_for_the_token() -> None:
    settings = Settings(server_token="a-secret-of-the-test", connect_port=15_002)
    conf = connect_conf(settings)
    assert conf["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert conf["spark.connect.authenticate.token"] == "a-secret-of-the-test"
    assert connect_conf(Settings()) == {}


def test_what_a_user_sets_of_spark_goes_before_what_a_daemon_sets() -> None:
    settings = Settings(spark_conf={"spark.x": "1"}).with_spark_conf({"spark.x": "2", "spark.y": "2"})
    assert settings.spark_conf == {"spark.x": "1", "spark.y": "2"}
