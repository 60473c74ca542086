"""``lakestream serve``: the daemon."""

from __future__ import annotations

import logging

import click

from lakestream.cli.base.session import Session, command
from lakestream.errors import extra


@command("serve")
@click.option("--host", metavar="ADDRESS", help="Listen there; else the setting server_host.")
@click.option("--port", metavar="PORT", help="Listen on this port; else the setting server_port.")
@click.option("--tls-cert", metavar="FILE", help="Answer https by this certificate; else server_tls_cert.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key; else server_tls_key.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="The least that is logged; else the setting log_level.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="How it is logged; else the setting log_format."
)
@click.pass_obj
def serve(session: Session, /, **given: str | None) -> None:
    """Keep all streams current and answer over HTTP.

    Rounds over all streams go on until Ctrl-C or SIGTERM. Other commands find the daemon and let it
    run their statements. Where another daemon serves the lake, this one waits and takes over.
    """
    with extra("serve"):
        from lakestream.server.daemon import serve as serve_lake
        from lakestream.server.process.logs import write_logs

    for option, value in given.items():
        if value is not None:
            session.values[option if option.startswith("log") else f"server_{option}"] = value
    settings = session.settings()
    write_logs(settings)
    serve_lake(session.layout(), settings, logging.getLogger("lakestream.serve").info)
