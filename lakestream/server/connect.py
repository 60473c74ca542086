"""Spark Connect, served from the daemon's own Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.settings import Settings

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


def with_connect(settings: Settings) -> Settings:
    """Return the settings with Spark Connect on the machine's own address; unchanged for port 0.

    A client carries the server's token where there is one.
    """
    if not settings.connect_port:
        return settings
    conf = {
        "spark.plugins": _PLUGIN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.connect_port),
    }
    if settings.server_token is not None:
        conf["spark.connect.authenticate.token"] = settings.server_token.get_secret_value()
    return settings.model_copy(update={"spark_conf": {**conf, **settings.spark_conf}})
