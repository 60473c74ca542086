"""Targets of notifications: how their urls are read, and which may be reached.

That is what the setting ``notify_hosts`` lists, and public addresses by wss. A url is data of whoever writes
statements: without a policy it would reach every service that this machine can reach (OWASP, server-side
request forgery). Names are resolved once, every address is judged, and the connection goes to an address
that was judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakestream.covered import NAMED_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Address = IPv4Address | IPv6Address

MAX_URL = 2_048
_NAT64 = IPv6Network("64:ff9b::/96")
_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_NUMERIC = re.compile(r"(.*\.)?(0[xX][0-9a-fA-F]*|[0-9]+)\.?")
_DOTTED = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")


@dataclass(frozen=True)
class Endpoint:
    """Where a url leads: ``secure`` for wss, the host without brackets in lower case, the port."""

    secure: bool
    host: str
    port: int


WEBSOCKETS = {"ws": 0, "wss": 0}
WEBHOOKS = {"http": 80, "https": 443}
"""Schemes, each with the port that a url of it need not name; 0: it must."""


def read_target(url: str, schemes: Mapping[str, int] = WEBSOCKETS) -> Endpoint:
    """Return where a url leads, of a websocket unless told. Raises ValueError, without the url's secrets.

    TDengine: protocol, address or name, and port; a path and parameters may follow. An address is
    written in one way only, so that no other spelling of it passes a policy. Secrets of the settings may
    be named (``{{secrets.NAME}}``), but not in the host or port.
    """
    if len(url) > MAX_URL:
        raise ValueError(f"a url has at most {MAX_URL:,} characters")
    if not _PLAIN.fullmatch(url):
        raise ValueError("a url has neither blanks nor other characters than those of ASCII")
    if "{{" in NAMED_SECRET.sub("", url):
        raise ValueError("what stands for a secret is {{secrets.NAME}}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("its host or port cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in schemes:
        known = " and ".join(f"{one}://" for one in schemes)
        raise ValueError(f"only {known} are sent to, not {scheme or 'a text without scheme'}")
    if parts.fragment or url.endswith("#"):
        raise ValueError("a url of a websocket has no #fragment")
    port = port or schemes[scheme]
    if not _is_host(host):
        raise ValueError("its host is neither a name nor an address as it is written")
    if not port:
        raise ValueError("its port is missing")
    return Endpoint(scheme in {"wss", "https"}, host, port)


def _is_host(host: str) -> bool:
    if ":" in host:
        return re.fullmatch(r"[0-9a-f:.]+", host) is not None
    if _NUMERIC.fullmatch(host):
        return _DOTTED.fullmatch(host) is not None
    return _HOST.fullmatch(host) is not None and ".." not in host


class Refused(Exception):  # noqa: N818 - a verdict
    """The policy does not let a target be reached; the text says why, without secrets."""


@dataclass(frozen=True)
class HostPolicy:
    """The hosts that are listed: names or addresses, with a port or without, and networks (10.0.0.0/8).

    ``schemes`` are those of the urls, each with the port that need not be named.
    """

    listed: tuple[str, ...]
    schemes: Mapping[str, int] = field(default_factory=lambda: WEBSOCKETS)

    def check(self, url: str) -> Endpoint:
        """Return where a url leads, as far as it can be judged by its text. Raises Refused."""
        endpoint = read_target(url, self.schemes)
        if self._lists(endpoint):
            return endpoint
        address = _address(endpoint.host)
        name = endpoint.host.rstrip(".")
        if not endpoint.secure:
            raise Refused(f"without TLS only listed hosts are sent to, {endpoint.host} is not listed")
        if name == "localhost" or name.endswith(".localhost"):
            raise Refused(f"{endpoint.host} is this machine and not listed")
        if address is not None and not is_public(address):
            raise Refused(f"{endpoint.host} is no public address and not listed")
        return endpoint

    def allowed(self, endpoint: Endpoint, addresses: Iterable[str]) -> list[str]:
        """Return the addresses of an endpoint, in their order; one that may not be reached raises Refused.

        The addresses of a host that is listed by name are what the name says.
        """
        found = list(addresses)
        if not self._lists(endpoint):
            for text in found:
                address = ip_address(text.partition("%")[0])
                if not (endpoint.secure and is_public(address)) and not self._in_networks(address):
                    raise Refused(f"{endpoint.host} leads to {text}, which is neither listed nor public")
        return found

    def _lists(self, endpoint: Endpoint) -> bool:
        names = {item.lower().strip("[]") for item in self.listed}
        host = endpoint.host.rstrip(".")
        if names & {host, f"{host}:{endpoint.port}", f"{host}]:{endpoint.port}"}:
            return True
        address = _address(endpoint.host)
        return address is not None and self._in_networks(address)

    def _in_networks(self, address: Address) -> bool:
        inner = _embedded(address)
        return any(inner in ip_network(item, strict=False) for item in self.listed if "/" in item)


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet, whatever it is wrapped in."""
    inner = _embedded(address)
    special = inner.is_multicast or inner.is_unspecified or inner.is_reserved or inner.is_link_local
    return inner.is_global and not special


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one stands for (mapped, 6to4, Teredo, NAT64), or itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


def _address(host: str) -> Address | None:
    try:
        return ip_address(host.rstrip("."))
    except ValueError:
        return None


def first_refusal(urls: Sequence[str], listed: Sequence[str]) -> tuple[int, str] | None:
    """Return the number of the first url that the policy refuses and why, None where it refuses none."""
    policy = HostPolicy(tuple(listed))
    for number, url in enumerate(urls):
        try:
            policy.check(url)
        except Refused as refused:
            return number, str(refused)
    return None
