"""``lakestream lineage``: which tables and columns streams make others of; it starts no Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import complete_stream
from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.observation.lineage import StreamLineage

_FORMS = ("table", "json", "mermaid", "dot")


@command("lineage")
@click.argument("stream", shell_complete=complete_stream, required=False)
@click.option(
    "--output",
    "form",
    type=click.Choice(_FORMS),
    help="json: one document; mermaid, dot: a graph for these programs.",
)
@click.pass_obj
def lineage(session: Session, stream: str | None, form: str | None) -> None:
    """Show what the columns of outputs are made of.

    With STREAM, the streams that lead to it and those that go on from it too.
    """
    session.json = session.json if form is None else form == "json"
    with session.open() as lake:
        lineages = lake.lineage(stream, columns=True)
    found = lineages.streams
    if session.json:
        tables = [{"name": name, "kind": kind} for name, kind in lineages.tables]
        print_json({"tables": tables, "streams": found})
    elif form in ("mermaid", "dot"):
        click.echo("\n".join((_mermaid if form == "mermaid" else _dot)(found)))
    elif found:
        print_table(("stream", "output", "column", "made of"), [row for one in found for row in _rows(one)])
    else:
        click.echo("no streams")


def _rows(stream: StreamLineage) -> Iterable[tuple[str, str, str, str]]:
    for column in stream.columns:
        origins = "not known" if column.origins is None else ", ".join(map(str, column.origins))
        yield stream.stream, stream.writes or "", column.column, origins


def _edges(streams: Sequence[StreamLineage]) -> list[tuple[str, str, str]]:
    """Return (from, to, label): tables to streams, and streams to tables, by what columns come from them."""
    found = []
    for stream in streams:
        for table in stream.reads:
            origins = {o.column for c in stream.columns for o in c.origins or () if o.table == table}
            found.append((table, stream.stream, ", ".join(sorted(origins))))
        if stream.writes is not None:
            found.append((stream.stream, stream.writes, ", ".join(c.column for c in stream.columns)))
    return found


def _numbers(streams: Sequence[StreamLineage]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of the graph's nodes: of tables and of streams, which may be called alike."""
    tables = dict.fromkeys(name for s in streams for name in (*s.reads, s.writes) if name is not None)
    return (
        {name: f"t{number}" for number, name in enumerate(tables)},
        {stream.stream: f"s{number}" for number, stream in enumerate(streams)},
    )


def _mermaid(streams: Sequence[StreamLineage]) -> list[str]:
    tables, own = _numbers(streams)
    lines = ["flowchart LR"]
    lines += [f'  {node}["{_plain(name)}"]' for name, node in tables.items()]
    lines += [f'  {node}(["{_plain(name)}"])' for name, node in own.items()]
    for stream in streams:
        for one, other, label in _edges([stream]):
            ends = (own[one], tables[other]) if one == stream.stream else (tables[one], own[other])
            said = f'|"{_plain(label)}"|' if label else ""
            lines.append(f"  {ends[0]} -->{said} {ends[1]}")
    return lines


def _dot(streams: Sequence[StreamLineage]) -> list[str]:
    tables, own = _numbers(streams)
    lines = ["digraph lineage {", "  rankdir=LR;"]
    lines += [f"  {node} [shape=box, label={_quoted(name)}];" for name, node in tables.items()]
    lines += [f"  {node} [shape=ellipse, label={_quoted(name)}];" for name, node in own.items()]
    for stream in streams:
        for one, other, label in _edges([stream]):
            ends = (own[one], tables[other]) if one == stream.stream else (tables[one], own[other])
            lines.append(f"  {ends[0]} -> {ends[1]} [label={_quoted(label)}];")
    return [*lines, "}"]


def _quoted(text: str) -> str:
    """Return a text as a string of dot."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain(text: str) -> str:
    """Return a text as Mermaid takes it within quotes: what is markup there by its number."""
    return re.sub(r'["#<>&;|\\`]', lambda match: f"#{ord(match.group())};", text)
