"""Secrets that urls of targets name: they are put in when a target is reached, and kept nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.covered import with_secrets
from lakestream.notify.connection import DeliveryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import SecretStr

    from lakestream.notify.dispatcher import Sender


@dataclass
class Named:
    """Sends to a target whose url names secrets; ``connect`` reaches a url that has them."""

    url: str
    secrets: Mapping[str, SecretStr]
    connect: Callable[[str], Sender]
    _sender: Sender | None = None

    def send(self, message: str) -> None:
        """Hand a message over. Raises DeliveryFailed, also where a secret is not among the settings."""
        if self._sender is None:
            try:
                self._sender = self.connect(with_secrets(self.url, self.secrets))
            except KeyError as missing:
                unknown = f"the setting `secrets` of this process has no {missing.args[0]}"
                raise DeliveryFailed(unknown, lasting=True) from None
        self._sender.send(message)

    def close(self) -> None:
        """Let go of the target."""
        if self._sender is not None:
            self._sender.close()
