"""What a service manager is told, by the protocol of systemd's ``Type=notify``."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Literal


def tell_supervisor(state: Literal["READY=1", "STOPPING=1"]) -> None:
    """Tell who started the process that it serves, or that it ends; nobody where none wants to know."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # An address that begins with @ is one of Linux's that is no file.
    named = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.sendto(state.encode(), named)
