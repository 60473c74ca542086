"""The root command: global options, the commands' list, and the exit status."""

from __future__ import annotations

import gc
import logging
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lakestream import __version__
from lakestream.cli.base.failures import status_of, wants_json
from lakestream.cli.base.pandas import leave_pandas_for_later
from lakestream.cli.base.session import PROGRAM, Session, global_options
from lakestream.cli.jobs.job_commands import job
from lakestream.cli.lakes.attach_command import attach
from lakestream.cli.lakes.backup_command import backup, restore
from lakestream.cli.lakes.check_command import check, repair
from lakestream.cli.lakes.docs_command import docs
from lakestream.cli.lakes.doctor_command import doctor
from lakestream.cli.lakes.lake_commands import init, show, status
from lakestream.cli.lakes.maintain_command import maintain
from lakestream.cli.lakes.migrate_command import migrate
from lakestream.cli.lakes.settings_commands import completion, config
from lakestream.cli.lakes.token_command import token
from lakestream.cli.projects.new_command import new
from lakestream.cli.projects.plan_commands import apply, plan
from lakestream.cli.projects.test_command import test
from lakestream.cli.sql.sql_command import sql
from lakestream.cli.streams.lineage_command import lineage
from lakestream.cli.streams.log_commands import events, logs
from lakestream.cli.streams.recalculate_command import recalculate
from lakestream.cli.streams.run_command import run
from lakestream.cli.streams.serve_command import serve
from lakestream.cli.streams.stream_commands import drop, explain, start, stop, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOKED_AT = 100_000
"""New objects after which garbage is looked for: of a start's, which stay, Python would look at every 700."""


class RootGroup(click.Group):
    """The group that turns whatever a command raises into a message and an exit status."""

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
for _command in (
    init,
    new,
    test,
    plan,
    apply,
    attach,
    sql,
    run,
    serve,
    status,
    show,
    logs,
    events,
    explain,
    lineage,
    verify,
    recalculate,
    start,
    stop,
    drop,
    maintain,
    migrate,
    job,
    doctor,
    check,
    repair,
    backup,
    restore,
    token,
    config,
    docs,
    completion,
):
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command line on the arguments of the process."""
    leave_pandas_for_later()
    # Commands say themselves what becomes of streams; the daemon's log has it.
    logging.getLogger("lakestream.states").setLevel(logging.CRITICAL)
    gc.set_threshold(_LOOKED_AT)
    cli.main()
