"""Urls of targets: what is read, what is refused, what is shown."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from lakestream.covered import redacted, redacted_text
from lakestream.targets import Endpoint, HostPolicy, Refused, is_public, read_target


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("ws://localhost:8080/notify", Endpoint(secure=False, host="localhost", port=8080)),
        ("wss://Example.COM:443/in?key=foo", Endpoint(secure=True, host="example.com", port=443)),
        ("ws://user:pw@h:1", Endpoint(secure=False, host="h", port=1)),
        ("WS://[::1]:80/x", Endpoint(secure=False, host="::1", port=80)),
        ("ws://192.168.1.1:8080", Endpoint(secure=False, host="192.168.1.1", port=8080)),
    ],
)
def test_a_url_is_read(url: str, endpoint: Endpoint) -> None:
    assert read_target(url) == endpoint


@pytest.mark.parametrize(
    "url",
    [
        "http://h:80",
        "file:///etc/passwd",
        "//h:80",
        "ws://h",
        "ws://h:0",
        "ws://h:99999",
        "ws://h:x",
        "ws://:80",
        "ws://0x7f.1:80",
        "ws://127.1:80",
        "ws://2130706433:80",
        "ws://0177.0.0.1:80",
        "ws://h:80/#x",
        "ws://h h:80",
        "ws://h:80/\n",
        "ws://exämple.com:80",
        "ws://a..b:80",
        "ws://[::1:80",
        f"ws://h:80/{'x' * 5_000}",
    ],
)
def test_a_url_that_leads_nowhere_plainly_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_target(url)


def test_what_is_shown_of_a_url_has_no_secrets_and_its_length() -> None:
    for url in (
        "wss://me:secret@example.com:443/in?key=secret",
        "ws://h:1?secret",
        "secret",
        "ws://secret@h:1",
    ):
        shown = redacted(url)
        assert "secret" not in shown
        assert len(shown) == len(url)
    assert redacted("ws://localhost:8080/notify") == "ws://localhost:8080/notify"
    for text in ("NOTIFY('ws://a:1?k=it''secret')", 'NOTIFY("wss://a:1?k=it""secret")'):
        assert "secret" not in redacted_text(text)
        assert len(redacted_text(text)) == len(text)
    text = "NOTIFY('ws://a:1?k=secret', \"wss://u:secret@b:2\") ON (WINDOW_OPEN)"
    assert "secret" not in redacted_text(text)
    assert redacted_text(text).index("ON (") == text.index("ON (")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "239.1.2.3",
        "255.255.255.255",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_an_address_that_is_not_of_the_public_internet(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_a_public_address(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    ("listed", "url"),
    [
        ((), "wss://example.com:443/x"),
        ((), "wss://8.8.8.8:443"),
        (("localhost",), "ws://localhost:8080/notify"),
        (("LOCALHOST:8080",), "ws://localhost:8080"),
        (("10.0.0.0/8",), "ws://10.1.2.3:80"),
        (("[::1]:80",), "ws://[::1]:80"),
        (("::1",), "ws://[::1]:81"),
    ],
)
def test_what_the_policy_lets_through(listed: tuple[str, ...], url: str) -> None:
    HostPolicy(listed).check(url)


@pytest.mark.parametrize(
    ("listed", "url"),
    [
        ((), "ws://example.com:80"),
        ((), "wss://localhost:8080"),
        ((), "wss://a.localhost.:8080"),
        ((), "wss://127.0.0.1:8080"),
        ((), "wss://[::ffff:169.254.169.254]:443"),
        (("localhost:8081",), "ws://localhost:8080"),
        (("10.0.0.0/8",), "ws://11.1.2.3:80"),
        (("example.com",), "ws://sub.example.com:80"),
    ],
)
def test_what_the_policy_refuses(listed: tuple[str, ...], url: str) -> None:
    with pytest.raises(Refused):
        HostPolicy(listed).check(url)


def test_every_address_that_a_name_leads_to_is_judged() -> None:
    policy = HostPolicy(("10.0.0.0/8", "inner"))
    outer = Endpoint(secure=True, host="example.com", port=443)
    assert policy.allowed(outer, ["8.8.8.8", "10.1.1.1"]) == ["8.8.8.8", "10.1.1.1"]
    with pytest.raises(Refused, match=r"169\.254\.169\.254"):
        policy.allowed(outer, ["8.8.8.8", "169.254.169.254"])
    assert policy.allowed(Endpoint(secure=False, host="inner", port=80), ["192.168.1.1"]) == ["192.168.1.1"]
