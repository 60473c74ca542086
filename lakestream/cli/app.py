"""The root command: global options, the commands' list, and the exit status."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lakestream import __version__
from lakestream.cli.base.failures import status_of, wants_json
from lakestream.cli.base.pandas import leave_pandas_for_later
from lakestream.cli.base.session import PROGRAM, Session, global_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMMANDS = {
    "init": "lakes.lake_commands",
    "new": "projects.new_command",
    "test": "projects.test_command",
    "plan": "projects.plan_commands",
    "apply": "projects.plan_commands",
    "attach": "lakes.attach_command",
    "sql": "sql.sql_command",
    "run": "streams.run_command",
    "serve": "streams.serve_command",
    "status": "lakes.lake_commands",
    "show": "lakes.lake_commands",
    "logs": "streams.log_commands",
    "events": "streams.log_commands",
    "explain": "streams.stream_commands",
    "lineage": "streams.lineage_command",
    "verify": "streams.stream_commands",
    "recalculate": "streams.recalculate_command",
    "start": "streams.stream_commands",
    "stop": "streams.stream_commands",
    "drop": "streams.stream_commands",
    "maintain": "lakes.maintain_command",
    "migrate": "lakes.migrate_command",
    "job": "jobs.job_commands",
    "doctor": "lakes.doctor_command",
    "check": "lakes.check_command",
    "repair": "lakes.check_command",
    "backup": "lakes.backup_command",
    "restore": "lakes.backup_command",
    "token": "lakes.token_command",
    "config": "lakes.settings_commands",
    "docs": "lakes.docs_command",
    "completion": "lakes.settings_commands",
}
"""The commands in the order in which they are met, and their modules, of which a call loads one."""
_LOOKED_AT = 200_000
"""New objects after which garbage is looked for: of a start's, which stay, Python would look at every 700."""


class RootGroup(click.Group):
    """The group that turns whatever a command raises into a message and an exit status."""

    commands: Mapping[str, click.Command]  # type: ignore[assignment]  # of which click only reads

    def main(self, args: Sequence[str] | None = None, *_names: str, **extra: Any) -> NoReturn:  # type: ignore[override]  # noqa: ANN401
        """Run the command line and leave the process with its exit status (SystemExit).

        Other arguments are those of click's method; the program is always called lakestream.
        """
        arguments = list(sys.argv[1:] if args is None else args)
        session = Session(json=wants_json(arguments))
        extra.update(prog_name=PROGRAM, obj=session, standalone_mode=False)

        def invoke() -> int | None:
            status: int | None = super(RootGroup, self).main(arguments, **extra)
            return status

        sys.exit(status_of(invoke, session))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the commands in the order in which they are met, not by the alphabet."""
        return list(self.commands)


class _Commands(Mapping[str, click.Command]):
    """The commands by name, each loaded when it is looked at."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"lakestream.cli.{_COMMANDS[name]}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"{PROGRAM} {__version__}")
    ctx.exit()


@click.group(
    cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
def cli() -> None:
    """Stream processing by SQL on Delta Lake.

    A lake is a folder of Delta tables; a stream is one CREATE STREAM statement that keeps a table
    current. Begin with `lakestream init ./lake`, then `lakestream --lake ./lake sql`.
    """


cli.params.extend(global_options(root=True))
cli.commands = _Commands()


def main() -> NoReturn:
    """Run the command line on the arguments of the process."""
    leave_pandas_for_later()
    # Commands say themselves what becomes of streams; the daemon's log has it.
    logging.getLogger("lakestream.states").setLevel(logging.CRITICAL)
    gc.set_threshold(_LOOKED_AT)
    cli.main()
