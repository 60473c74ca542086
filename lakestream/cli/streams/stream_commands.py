"""One stream: ``explain``, ``verify``, ``start``, ``stop``, ``drop``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import complete_stream, streams_option
from lakestream.cli.base.output import counted, print_json, print_table
from lakestream.cli.base.session import Session, command, progress_option, quoted_stream
from lakestream.cli.sql.sql_command import show_result
from lakestream.clock import SystemClock
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.cli.base.remote import RemoteLake
    from lakestream.lake import Lake
    from lakestream.observation.verify import Verification


stream_argument = click.argument("stream", shell_complete=complete_stream)


@command("explain")
@stream_argument
@click.pass_obj
def explain(session: Session, stream: str) -> None:
    """Show the stages of a stream's next tick."""
    with session.statements() as lake:
        show_result(session, lake.explain(stream))


@command("verify")
@click.argument("stream", shell_complete=complete_stream, required=False)
@streams_option
@click.option("--from", "start", metavar="TIME", help="First event time to compare (included).")
@click.option("--to", "end", metavar="TIME", help="Event time to stop at (not included).")
@progress_option
@click.pass_obj
def verify(
    session: Session,
    stream: str | None,
    streams: tuple[str, ...] | None,
    start: str | None,
    end: str | None,
    progress: str,
) -> int:
    """Compare a stream's output with its batch evaluation.

    The output table is held against the statement evaluated over the source at the stream's
    progress; without STREAM those of all streams. Leaves with status 1 when rows differ; they are
    shown.
    """
    if stream is not None and streams is not None:
        raise click.UsageError("give a STREAM or --streams, not both")
    shown = session.progress(progress) != "none"
    with session.statements() as lake:
        if stream is not None:
            return _verify_one(session, _compared(session, lake, stream, (start, end), shown))
        names = streams or [f"{known.database}.{known.name}" for known in lake.streams()]
        found, failed = _all_compared(session, lake, names, (start, end), shown)
    return _verify_many(session, found, failed)


def _all_compared(
    session: Session,
    lake: Lake | RemoteLake,
    streams: Sequence[str],
    span: tuple[str | None, str | None],
    shown: bool,
) -> tuple[list[Verification], dict[str, LakestreamError]]:
    """Compare streams; one that has nothing to be compared keeps none of the others from it."""
    found: list[Verification] = []
    failed: dict[str, LakestreamError] = {}
    for stream in streams:
        try:
            found.append(_compared(session, lake, stream, span, shown))
        except LakestreamError as error:
            if error.exit_status != 1 or len(streams) == 1:
                raise
            failed[stream] = error
            session.say(error.render())
    return found, failed


def _compared(
    session: Session,
    lake: Lake | RemoteLake,
    stream: str,
    span: tuple[str | None, str | None],
    shown: bool,
) -> Verification:
    """Compare a stream, and say when that begins and ends where it is ``shown``."""
    clock = SystemClock()
    began = clock.monotonic()
    if shown:
        session.say(f"comparing {stream}")
    found = lake.verify(stream, start=span[0], end=span[1])
    if shown:
        session.say(f"compared {counted(found.expected_rows, 'row')} in {clock.monotonic() - began:.1f} s")
    return found


def _verify_one(session: Session, found: Verification) -> int:
    if session.json:
        print_json(_as_json(found))
    else:
        _show_verification(found)
    return 0 if found.holds else 1


def _verify_many(session: Session, found: list[Verification], failed: Mapping[str, LakestreamError]) -> int:
    holds = not failed and all(verification.holds for verification in found)
    if session.json:
        errors = {stream: error.to_dict() for stream, error in failed.items()}
        streams = [_as_json(verification) for verification in found]
        print_json({"holds": holds, "streams": streams, "errors": errors})
    else:
        if not found and not failed:
            click.echo("no streams", err=True)
        for verification in found:
            click.echo(f"{verification.stream}:")
            _show_verification(verification)
        for stream in failed:
            click.echo(f"{stream}: not compared")
    return 0 if holds else 1


def _as_json(found: Verification) -> dict[str, object]:
    return {"holds": found.holds, **{f.name: getattr(found, f.name) for f in fields(found)}}


def _show_verification(found: Verification) -> None:
    rows = [
        (side, *values)
        for difference in found.differing
        for side, values in (("expected", difference.expected), ("found", difference.found))
        if values is not None
    ]
    if rows:
        print_table(("row", *found.columns), rows)
    if found.differing_rows > len(found.differing):
        click.echo(f"the first {len(found.differing):,} of {counted(found.differing_rows, 'difference')}")
    if found.late_ignored:
        click.echo(f"{counted(found.late_ignored, 'row')} of the source left out: late")
    if found.left_out_columns:
        click.echo(f"not compared, from the wall clock: {', '.join(found.left_out_columns)}")
    if found.left_out_rows:
        click.echo(f"{counted(found.left_out_rows, 'row')} left out: {found.left_out_reason}")
    if found.others_rows:
        click.echo(f"{counted(found.others_rows, 'row')} of others in the output, not compared")
    if found.others_rows is None and not found.holds:
        click.echo("nothing tells rows of others in the output from the stream's: they count as different")
    for one in found.quarantines:
        click.echo(f"{one.table}: {one.equal_rows:,} of {one.expected_rows:,} rows equal")
    basis = f", compared with {found.compared_with}" if found.by_replay else ""
    click.echo(f"{found.equal_rows:,} of {found.expected_rows:,} rows equal{basis}")


@command("start")
@stream_argument
@click.pass_obj
def start(session: Session, stream: str) -> None:
    """Start a stream that was stopped or has failed."""
    _run(session, f"START STREAM {quoted_stream(stream)}")


@command("stop")
@stream_argument
@click.pass_obj
def stop(session: Session, stream: str) -> None:
    """Stop a stream until it is started again."""
    _run(session, f"STOP STREAM {quoted_stream(stream)}")


@command("drop")
@stream_argument
@click.pass_obj
def drop(session: Session, stream: str) -> int:
    """Drop a stream after asking; its output table stays."""
    if not session.confirm(f"Drop the stream {stream}?"):
        session.say("nothing was dropped")
        return 1
    _run(session, f"DROP STREAM {quoted_stream(stream)}")
    return 0


def _run(session: Session, statement: str) -> None:
    with session.statements() as lake:
        show_result(session, lake.sql(statement))
