"""What the global options say, and the lake they name."""

from __future__ import annotations

import gc
import shlex
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from lakestream.errors import ConfirmationNeededError, LakeError, LakestreamError
from lakestream.language.quoting import quoted_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.cli.base.remote import RemoteLake
    from lakestream.lake import Lake
    from lakestream.settings import Settings
    from lakestream.storage.places.layout import Layout

PROGRAM = "lakestream"


@dataclass
class Session:
    """The global options of one call; ``lake`` is the flag's value or that of LAKESTREAM_LAKE."""

    lake: str | None = None
    profile: str | None = None
    json: bool = False
    debug: bool = False
    yes: bool = False
    no_daemon: bool = False
    values: dict[str, str] = field(default_factory=dict)
    quiet: bool = False
    """Whether nothing is to be shown of work that goes on."""

    def location(self) -> str:
        """Return the path or URI of the lake: flag, else environment, else profile.

        Raises LakeError (LAKE_NOT_GIVEN) when none of them names one.
        """
        lake = self.lake or self.settings().lake
        if lake:
            return lake
        raise LakeError(
            "LAKE_NOT_GIVEN",
            "no lake is named",
            hint=f"give --lake PATH or set LAKESTREAM_LAKE; `{PROGRAM} init PATH` makes a lake",
        )

    def settings(self) -> Settings:
        """Return the settings: built-in, then profile, then environment, then --set (ConfigError)."""
        from lakestream.settings import Settings

        given: dict[str, str] = dict(self.values)
        if self.profile:
            given["profile"] = self.profile
        return Settings(**given)

    def layout(self) -> Layout:
        """Return where the lake's things lie; LakeError LAKE_NOT_FOUND when there is no lake."""
        from lakestream.storage.places.layout import Layout

        location = self.location()
        layout = Layout(location)
        if not layout.exists():
            is_file = layout.is_local and Path(layout.root).is_file()
            raise LakeError(
                "LAKE_NOT_FOUND",
                f"{layout.root} is a file, not a lake" if is_file else f"there is no lake at {layout.root}",
                hint=f"`{PROGRAM} init PATH` makes one"
                if is_file
                else f"{PROGRAM} init {shlex.quote(location)}",
            )
        return layout

    def open(self, *, create: bool = False) -> Lake:
        """Open the lake; without ``create`` it has to be there (LakeError, LAKE_NOT_FOUND)."""
        is_first = "lakestream.lake" not in sys.modules
        from lakestream.lake import Lake

        if is_first:
            gc.freeze()  # what is loaded stays: no garbage need be looked for there, least of all at the end
        if not create:
            self.layout()

        # Without --profile and --set the lake reads its settings itself, when it first needs them:
        # pydantic alone would take half of the time that `status` has.
        settings = self.settings() if self.profile or self.values else None
        return Lake(
            self.location(), create=create, confirm=self.confirm, settings=settings, watch=self._waiting
        )

    def _waiting(self, what: str, fetched: Callable[[], int] | None) -> AbstractContextManager[object]:
        """Show what Spark is waited for: a bar on a terminal, else a line; nothing beside JSON."""
        if self.json or self.quiet:
            return nullcontext()
        from lakestream.cli.base.progress import WaitProgress, is_drawing

        draws = is_terminal(sys.stderr) and not is_drawing()
        if fetched is not None or not draws:
            click.echo(what, err=True)
        return WaitProgress(what if fetched is None else "fetching", fetched) if draws else nullcontext()

    @contextmanager
    def statements(self, *, written: bool = False) -> Iterator[Lake | RemoteLake]:
        """Give what runs statements: the daemon that serves the lake, else the lake itself.

        Unless the user has ``written`` them, their errors have no place: it would be in a text that nobody
        has seen.
        """
        remote = None if self.no_daemon else self._daemon()
        try:
            if remote is not None:
                yield remote
            else:
                with self.open() as lake:
                    yield lake
        except LakestreamError as error:
            error.place = error.place if written else None
            raise

    def _daemon(self) -> RemoteLake | None:
        from lakestream.cli.base.remote import RemoteLake
        from lakestream.server.process.owner import find_owner

        owner = find_owner(self.layout())
        if owner is None:
            return None
        certificate = self.settings().server_tls_cert if owner.url.startswith("https:") else None
        return RemoteLake(
            owner.url,
            token=lambda: self.settings().server_token,
            confirm=self.confirm,
            certificate=certificate,
        )

    def say(self, message: str) -> None:
        """Write talk to stderr, except in JSON mode, where that is for errors only."""
        if not self.json:
            click.echo(message, err=True)

    def progress(self, asked: str) -> Literal["bars", "plain", "none"]:
        """Return how work that goes on is shown, by what ``--progress`` asked for."""
        if self.json and asked == "plain":
            raise click.UsageError("--progress plain is for people, --output json for programs")
        if self.json or asked == "none":
            self.quiet = True
            return "none"
        return "bars" if asked == "auto" and is_terminal(sys.stderr) else "plain"

    def confirm(self, question: str) -> bool:
        """Ask on the terminal; --yes answers. Raises ConfirmationNeededError when nobody can be asked."""
        if self.yes:
            return True
        if not is_terminal(sys.stdin):
            raise ConfirmationNeededError(question, hint="say yes with --yes")
        return click.confirm(question, err=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether the stream is open and a terminal; a closed standard stream is None."""
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:
        return False


class GlobalOption(click.Option):
    """An option that stands before or after the command; the later one wins."""

    def __init__(self, *declarations: str, keep: Callable[[Session, Any], None], **attributes: Any) -> None:  # noqa: ANN401
        def callback(ctx: click.Context, _param: click.Parameter, value: object) -> None:
            # One that is absent here may have been given before the command.
            if value:
                keep(ctx.ensure_object(Session), value)

        super().__init__(declarations, expose_value=False, callback=callback, **attributes)


def _keep_settings(session: Session, assignments: tuple[str, ...]) -> None:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE", param_hint="--set")
        session.values[name.strip()] = value


def _keeper(name: str) -> Callable[[Session, Any], None]:
    return lambda session, value: setattr(session, name, value)


def global_options(*, root: bool = False) -> list[click.Parameter]:
    """Return fresh global options; those of the root read the environment too."""
    return [
        GlobalOption(
            "--lake",
            keep=_keeper("lake"),
            metavar="PATH",
            envvar="LAKESTREAM_LAKE" if root else None,
            help="The lake: a folder or a URI (s3://…); else LAKESTREAM_LAKE, else the profile's.",
        ),
        GlobalOption(
            "--profile",
            keep=_keeper("profile"),
            metavar="NAME",
            help="The settings of conf/NAME.toml, or of a .toml file; else LAKESTREAM_PROFILE.",
        ),
        GlobalOption(
            "--set",
            "assignments",
            keep=_keep_settings,
            multiple=True,
            metavar="NAME=VALUE",
            help="One setting; wins over environment and profile. May be repeated.",
        ),
        GlobalOption(
            "--output",
            keep=lambda session, value: setattr(session, "json", value == "json"),
            type=click.Choice(["table", "json"]),
            help="json: one JSON document on stdout, errors as one on stderr.",
        ),
        GlobalOption(
            "--yes", "-y", keep=_keeper("yes"), is_flag=True, help="Answer every question with yes."
        ),
        GlobalOption(
            "--no-daemon",
            keep=_keeper("no_daemon"),
            is_flag=True,
            help="Run statements in this process, also where a daemon serves the lake.",
        ),
        GlobalOption("--debug", keep=_keeper("debug"), is_flag=True, help="Show the traceback of an error."),
    ]


class LakestreamCommand(click.Command):
    """A command that takes the global options too and lists them apart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (click's)
        super().__init__(*args, **kwargs)
        own = {name for param in self.params for name in param.opts}
        # A command may have an option of its own in the place of a global one.
        self.params.extend(option for option in global_options() if own.isdisjoint(option.opts))

    def get_short_help_str(self, limit: int = 200) -> str:
        """Return the first sentence, for which a list of commands takes as many lines as it needs."""
        return super().get_short_help_str(max(limit, 200))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the global ones."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                (shared if isinstance(param, GlobalOption) else own).append(record)
        for title, records in (("Options", own), ("Global options", shared)):
            with formatter.section(title):
                formatter.write_dl(records)


def command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of lakestream: a click command with the global options."""
    return click.command(name, cls=LakestreamCommand)


def quoted_stream(stream: str) -> str:
    """Return a stream's name, ``s`` or ``db.s``, as quoted identifiers of a statement.

    >>> quoted_stream("main.daily")
    '`main`.`daily`'
    """
    return quoted_path(*stream.split(".", 1))


progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "plain", "none"]),
    default="auto",
    show_default=True,
    help="What is said of work that goes on: bars on a terminal and lines elsewhere, lines, or nothing.",
)
