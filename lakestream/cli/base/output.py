"""Results for people and for programs: tables and JSON on stdout, talk on stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from lakestream.cli.base.session import is_terminal
from lakestream.engine.base.plain import plain, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

WIDE = 100_000
"""Columns of an output that is not a terminal: nothing is folded or cut in a file or a pipe."""


def print_json(document: Mapping[str, object], *, err: bool = False) -> None:
    """Write one JSON document (see :func:`plain`); ASCII only, so that every locale can carry it."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False), err=err)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, err: bool = False) -> None:
    """Write rows under their column names (see :func:`table_lines`); only a terminal has a width."""
    screen = console(err=err) if is_terminal(sys.stderr if err else sys.stdout) else None
    click.echo("\n".join(table_lines(columns, rows, screen)), err=err)


def console(*, err: bool = False) -> Console:
    """Return a rich console that reads no markup, as wide as the terminal, else :data:`WIDE`."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    return Console(
        stderr=err,
        markup=False,
        emoji=False,
        highlight=False,
        width=None if is_terminal(stream) else WIDE,
    )


def unique_names(columns: Sequence[str]) -> list[str]:
    """Return the names with ``_2``, ``_3`` … after repeated ones, as keys of a JSON object.

    >>> unique_names(["a", "b", "a"])
    ['a', 'b', 'a_2']
    """
    made: list[str] = []
    for name in columns:
        candidate, count = name, 1
        while candidate in made:
            count += 1
            candidate = f"{name}_{count}"
        made.append(candidate)
    return made


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, object]:
    """Return a result as a JSON document: the columns in order and the rows as objects."""
    names = unique_names(columns)
    return {"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def wants_colour(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal whose user did not set NO_COLOR."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "commit"), counted(336776, "row")
    ('1 commit', '336,776 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def described(rows: int, seconds: float, lag: int) -> str:
    """Return rows, rows per second of work and lag in commits, for people.

    >>> described(336_776, 2.0, 3)
    '336,776 rows  168,388 rows/s  lag 3 commits'
    """
    speed = f"{rows / seconds:,.0f} rows/s" if seconds > 0 else "- rows/s"
    return f"{counted(rows, 'row')}  {speed}  lag {counted(lag, 'commit')}"
