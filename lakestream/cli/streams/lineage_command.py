"""``lakestream lineage``: of which tables and columns others are made; it starts no Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import complete_stream
from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakestream.engine.streams.origins import ColumnLineage
    from lakestream.observation.lineage import Lineage


@dataclass(frozen=True)
class _Step:
    """A stream or a continuous query, the tables that it reads, and the columns of those that it writes."""

    name: str
    reads: tuple[str, ...]
    writes: Mapping[str, tuple[ColumnLineage, ...]]


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
    steps = _steps(lineages)
    if session.json:
        tables = [{"name": name, "kind": kind} for name, kind in lineages.tables]
        print_json({"tables": tables, "streams": lineages.streams, "queries": lineages.queries})
    elif form in ("mermaid", "dot"):
        click.echo("\n".join((_mermaid if form == "mermaid" else _dot)(steps)))
    elif steps:
        heads = ("stream or query", "output", "column", "made of")
        print_table(heads, [row for step in steps for row in _rows(step)])
    else:
        click.echo("no streams")


def _steps(lineages: Lineage) -> list[_Step]:
    streams = [
        _Step(one.stream, one.reads, {} if one.writes is None else {one.writes: one.columns})
        for one in lineages.streams
    ]
    queries = [
        _Step(one.query, one.reads, {table.table: table.columns for table in one.writes})
        for one in lineages.queries
    ]
    return streams + queries


def _rows(step: _Step) -> Iterable[tuple[str, str, str, str]]:
    for table, columns in step.writes.items():
        for column in columns:
            origins = "not known" if column.origins is None else ", ".join(map(str, column.origins))
            yield step.name, table, column.column, origins


def _edges(step: _Step) -> tuple[dict[str, str], dict[str, str]]:
    """Return by table that leads to a step, and that it leads to, the columns that come from there."""
    columns = [column for found in step.writes.values() for column in found]
    reads = {
        table: ", ".join(sorted({o.column for c in columns for o in c.origins or () if o.table == table}))
        for table in step.reads
    }
    return reads, {table: ", ".join(c.column for c in found) for table, found in step.writes.items()}


def _numbers(steps: Sequence[_Step]) -> tuple[dict[str, str], list[tuple[str, _Step]]]:
    """Return the names of the graph's nodes: of tables and of steps, which may be called alike."""
    tables = dict.fromkeys(name for step in steps for name in (*step.reads, *step.writes))
    return (
        {name: f"t{number}" for number, name in enumerate(tables)},
        [(f"s{number}", step) for number, step in enumerate(steps)],
    )


def _mermaid(steps: Sequence[_Step]) -> list[str]:
    tables, numbered = _numbers(steps)
    lines = ["flowchart LR"]
    lines += [f'  {node}["{_plain(name)}"]' for name, node in tables.items()]
    lines += [f'  {node}(["{_plain(step.name)}"])' for node, step in numbered]

    def arrow(one: str, other: str, label: str) -> str:
        said = f'|"{_plain(label)}"|' if label else ""
        return f"  {one} -->{said} {other}"

    return lines + _arrows(tables, numbered, arrow)


def _dot(steps: Sequence[_Step]) -> list[str]:
    tables, numbered = _numbers(steps)
    lines = ["digraph lineage {", "  rankdir=LR;"]
    lines += [f"  {node} [shape=box, label={_quoted(name)}];" for name, node in tables.items()]
    lines += [f"  {node} [shape=ellipse, label={_quoted(step.name)}];" for node, step in numbered]

    def arrow(one: str, other: str, label: str) -> str:
        return f"  {one} -> {other} [label={_quoted(label)}];"

    return [*lines, *_arrows(tables, numbered, arrow), "}"]


def _arrows(
    tables: Mapping[str, str],
    numbered: Sequence[tuple[str, _Step]],
    arrow: Callable[[str, str, str], str],
) -> list[str]:
    """Return the arrows from tables to steps, and from steps to tables."""
    lines = []
    for node, step in numbered:
        reads, writes = _edges(step)
        lines += [arrow(tables[table], node, label) for table, label in reads.items()]
        lines += [arrow(node, tables[table], label) for table, label in writes.items()]
    return lines


def _quoted(text: str) -> str:
    """Return a text as a string of dot."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain(text: str) -> str:
    """Return a text as Mermaid takes it within quotes: what is markup there by its number."""
    return re.sub(r'["#<>&;|\\`]', lambda match: f"#{ord(match.group())};", text)
