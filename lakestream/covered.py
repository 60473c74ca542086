"""What is shown of a text with secrets in it: they are covered, and nothing moves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

_SOCKETS = re.compile(r"(?i)\bwss?://(?:[^'\"\s]|''|\"\")*")
_TARGETS = re.compile(r"(?i)\b(?:wss?|https?)://(?:[^'\"\s]|''|\"\")*")
_TELLS = re.compile(r"(?i)\bnotify\b")
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/?#@]*@)?(?P<place>[^?#]*)(?P<more>.*)", re.DOTALL
)
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential|account[.]?key|sas[.]?key")
"""As Spark's own ``spark.redaction.regex``, and names of keys of object stores."""
SECRET_NAME = re.compile(r"\w+", re.ASCII)
"""The name of a secret, as the setting ``secrets`` and urls have it."""

NAMED_SECRET = re.compile(r"\{\{secrets\.(\w+)\}\}", re.ASCII)
"""A place in a url in which a secret of the settings is to stand."""


def redacted(url: str) -> str:
    """Return a url as it may be shown, of equal length: user, password and parameters are covered.

    >>> redacted("wss://me:secret@example.com:443/in?key=foo")
    'wss://*********@example.com:443/in?*******'
    """
    found = _PARTS.fullmatch(url)
    if found is None:
        return "*" * len(url)
    user, more = found["user"] or "", found["more"]
    place, secret = found["place"], ""
    if not found["scheme"].lower().startswith("ws"):
        # The path of a webhook is what lets one in, also behind a scheme that is misspelt.
        place, slash, path = place.partition("/")
        secret = slash + "*" * len(path)
    covered = "*" * (len(user) - 1) + "@" if user else ""
    return f"{found['scheme']}{covered}{place}{secret}{more[:1]}{'*' * (len(more) - 1)}"


def with_secrets(url: str, secrets: Mapping[str, SecretStr]) -> str:
    """Return a url with its named secrets, quoted as urls need it. Raises KeyError for one that is unknown.

    >>> with_secrets("wss://example.com:443/in?key={{secrets.plant}}", {"plant": SecretStr("a&b")})
    'wss://example.com:443/in?key=a%26b'
    """
    return NAMED_SECRET.sub(lambda found: quote(secrets[found[1]].get_secret_value(), safe=""), url)


def redacted_text(text: str) -> str:
    """Return a text with the urls in it that somebody is told by as they may be shown; nothing in it moves.

    They are those of websockets, and of webhooks where the text has a NOTIFY, which refuses them: other
    texts may be about pages.

    >>> redacted_text("… NOTIFY('https://hooks.example.com/T0/key') ON (WINDOW_CLOSE)")
    "… NOTIFY('https://hooks.example.com/******') ON (WINDOW_CLOSE)"
    """
    urls = _TARGETS if _TELLS.search(text) else _SOCKETS
    return urls.sub(lambda found: redacted(found[0]), text)


def redacted_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Spark with those covered whose names say that they are secret."""
    return {name: "*" * 8 if _SECRET.search(name) else value for name, value in values.items()}
