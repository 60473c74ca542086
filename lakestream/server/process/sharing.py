"""A daemon's part of a lake, which it shares with the other daemons of the lake."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakestream.storage.places.leases import MAINTENANCE, RENEW_SECONDS, TREE, Leases, Member
from lakestream.storage.places.lock import boot_id
from lakestream.storage.places.proof import prove_store
from lakestream.storage.records.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_PROVED_EVERY = 15
"""Renewals after which a daemon looks again whether its clock is the store's: a minute's."""


@contextmanager
def sharing(layout: Layout, url: str, clock: Clock, say: Callable[[str], None]) -> Iterator[Leases]:
    """Take part in running a lake's streams; what this daemon has goes back at the end.

    Raises StorageError when the leases cannot be taken at first, and what prove_store does; later that is
    said, and what cannot be renewed in time is given up.
    """
    from lakestream.scheduler.regular import regularly

    registry = Registry(layout)
    since = clock.now().isoformat()
    member = Member(os.getpid(), socket.gethostname(), url, since, boot=(boot_id() or "").strip())
    leases = Leases(
        layout.system_root,
        member,
        lambda: {TREE, MAINTENANCE, *(record.uuid for record in registry.streams())},
        clock,
    )
    prove_store(layout.system_root, clock)
    leases.renew()
    renewed = 1

    def renew() -> None:
        nonlocal renewed
        try:
            if renewed % _PROVED_EVERY == 0:
                prove_store(layout.system_root, clock)
            leases.renew()
            renewed += 1
        except Exception as error:  # noqa: BLE001 - the store may answer the next time
            say(f"the leases were not renewed: {error}")

    try:
        with regularly(RENEW_SECONDS, renew):
            yield leases
    finally:
        leases.leave()
