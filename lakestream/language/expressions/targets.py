"""Targets of notifications: urls of websockets, how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakestream.covered import NAMED_SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_URL = 2_048
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
