"""``lakestream serve``: the daemon."""

from __future__ import annotations

import click

from lakestream.cli.base.session import Session, command
from lakestream.errors import extra


@command("serve")
@click.option("--host", metavar="ADDRESS", help="Listen there; else the setting server_host.")
@click.option("--port", metavar="PORT", help="Listen on this port; else the setting server_port.")
@click.option("--tls-cert", metavar="FILE", help="Answer https by this certificate; else server_tls_cert.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key; else server_tls_key.")
@click.pass_obj
def serve(
    session: Session, host: str | None, port: str | None, tls_cert: str | None, tls_key: str | None
) -> None:
    """Keep all streams current and answer over HTTP.

    Rounds over all streams go on until Ctrl-C or SIGTERM. Other commands find the daemon and let it
    run their statements. Where another daemon serves the lake, this one waits and takes over.
    """
    with extra("serve"):
        from lakestream.server.daemon import serve as serve_lake

    given = {
        "server_host": host,
        "server_port": port,
        "server_tls_cert": tls_cert,
        "server_tls_key": tls_key,
    }
    session.values.update({name: value for name, value in given.items() if value is not None})
    settings = session.settings()
    serve_lake(session.layout(), settings, session.say)
