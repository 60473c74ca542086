"""One of several daemons that share a lake: its rounds and its leases, without a server.

Usage: ``python -m tests.faults.sharer LAKE SECONDS``; leases last so many seconds. Prints a line when it is
about to tick.
"""

from __future__ import annotations

import os
import sys

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from lakestream.scheduler.watch import watch
from lakestream.server.process import sharing
from lakestream.storage.places import leases
from tests.faults.child import Quiet


def main(root: str, seconds: str) -> None:
    """Run until a signal."""
    leases.LEASE_SECONDS = float(seconds)
    sharing.RENEW_SECONDS = float(seconds) / 5  # type: ignore[attr-defined]  # as it is used there
    lake = Lake(root, settings=Settings(checkpoint_ticks=3), create=False)
    url = f"http://127.0.0.1/{os.getpid()}"
    with sharing.sharing(lake._at.layout, url, SystemClock(), _say) as held:
        lake.share(held)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        watch(lake, Quiet(), poll_seconds=0.05)
    lake.close()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
