"""Spark Connect, served from the daemon's own Spark."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.lake import Lake
    from lakestream.settings import Settings

_log = logging.getLogger(__name__)
_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


def connect_conf(settings: Settings) -> dict[str, str]:
    """Return Spark's settings for Spark Connect on the machine's own address; none for port 0.

    A client carries the server's token where there is one.
    """
    if not settings.connect_port:
        return {}
    conf = {
        "spark.plugins": _PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.connect_port),
    }
    if settings.server_token is not None:
        conf["spark.connect.authenticate.token"] = settings.server_token.get_secret_value()
    return conf


@contextmanager
def naming(lake: Lake, seconds: float) -> Iterator[None]:
    """Keep the names that clients see the lake's tables by, in a thread with a look every ``seconds``.

    The lake is that thread's own.
    """
    ended = threading.Event()

    def follow() -> None:
        while True:
            try:
                lake.spark  # noqa: B018 - to ask for it gives the names
            except LakestreamError:
                pass  # a table that cannot be looked at now: the rounds say so
            except Exception:  # noqa: BLE001 - Spark has ended meanwhile: another one is asked the next time
                _log.debug("names are given again", exc_info=True)
            if ended.wait(seconds):
                return

    threading.Thread(target=follow, name="names", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
