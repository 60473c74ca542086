"""``lakestream token``: who may ask the server, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from lakestream.storage.records.tokens import Principal, Tokens

_COLUMNS = ("token", "scope", "databases", "created")


@click.group("token")
def token() -> None:
    """Make, list and revoke the tokens of the lake's server."""


def _tokens(session: Session) -> Tokens:
    from lakestream.storage.records.tokens import Tokens

    return Tokens(session.layout())


@command("create")
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "write", "admin"]), default="read", show_default=True)
@click.option("--database", "databases", multiple=True, help="Only for this one; may be repeated.")
@click.pass_obj
def create(session: Session, name: str, scope: str, databases: tuple[str, ...]) -> None:
    """Make a token called NAME, and print it: the lake keeps only a hash.

    read: queries, and what the page shows. write: also rows, tables and streams. admin: also databases,
    tables outside of the lake, and triggers in Python.
    """
    from lakestream.clock import SystemClock
    from lakestream.engine.base.instants import to_micros
    from lakestream.storage.records.tokens import Scope

    now_us = to_micros(SystemClock().now())
    with session.open() as lake:
        for database in databases:
            lake.database = database  # raises DATABASE_NOT_FOUND
    text = _tokens(session).issue(name, Scope[scope.upper()], databases, now_us)
    if session.json:
        print_json({"name": name, "token": text})
    else:
        click.echo(text)


@command("list")
@click.pass_obj
def list_tokens(session: Session) -> None:
    """List the tokens, without their texts."""
    found = [_shown(one) for one in _tokens(session).every()]
    if session.json:
        print_json({"tokens": [dict(zip(_COLUMNS, row, strict=True)) for row in found]})
    elif found:
        print_table(_COLUMNS, found)
    else:
        click.echo("no tokens")


def _shown(one: Principal) -> tuple[str, ...]:
    from lakestream.engine.base.instants import from_micros

    created = from_micros(one.created_us).isoformat(timespec="seconds")
    return (one.name, one.scope.name.lower(), ", ".join(one.databases) or "all", created)


@command("revoke")
@click.argument("name")
@click.pass_obj
def revoke(session: Session, name: str) -> None:
    """Let nobody in any more by the token NAME; a daemon that runs follows at once."""
    _tokens(session).revoke(name)
    if session.json:
        print_json({"revoked": name})
    else:
        click.echo(f"revoked {name}")


for _command in (create, list_tokens, revoke):
    token.add_command(_command)
