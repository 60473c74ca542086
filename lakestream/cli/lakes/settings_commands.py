"""``config show`` and ``completion``."""

from __future__ import annotations

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import PROGRAM, Session, command


@click.group("config")
def config() -> None:
    """Look at the settings."""


@command("show")
@click.pass_obj
def show_settings(session: Session) -> None:
    """Show every setting, its value, and what set it."""
    settings = session.settings()
    won = settings.sources()
    values = settings.shown()
    if session.json:
        print_json(
            {"settings": {name: {"value": value, "from": won[name]} for name, value in values.items()}}
        )
    else:
        print_table(
            ("setting", "value", "from"), [(name, value, won[name]) for name, value in values.items()]
        )


config.add_command(show_settings)


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows the shells of the choice"
    root = ctx.find_root().command
    click.echo(found(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
