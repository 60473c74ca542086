"""Results for people and for programs: tables and JSON on stdout, talk on stderr."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

import click

from lakestream.cli.base.session import is_terminal
from lakestream.engine.base.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

WIDE = 100_000
"""Columns of an output that is not a terminal: nothing is folded or cut in a file or a pipe."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
}


def print_json(document: Mapping[str, object], *, err: bool = False) -> None:
    """Write one JSON document (see :func:`plain`); ASCII only, so that every locale can carry it."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False), err=err)


def cell(value: object) -> str:
    """Return the value as one line of a table; control characters are escaped, None is NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    made = plain(value)
    if isinstance(made, (dict, list)):
        text = json.dumps(made, ensure_ascii=False)
    else:
        text = str(value) if isinstance(value, datetime) else str(made)
    return text.translate(_CONTROLS)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, err: bool = False) -> None:
    """Write rows under their column names; numbers stand right. Folds only on a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        values = [line[place] for line in lines if line[place] is not None]
        numeric = bool(values) and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) for v in values
        )
        table.add_column(
            Text(name.translate(_CONTROLS)), justify="right" if numeric else "left", overflow="fold"
        )
    for line in lines:
        table.add_row(*(Text(cell(value)) for value in line))
    screen = console(err=err)
    with screen.capture() as captured:
        screen.print(table)
    # The last column is padded to its width; in a pipe that is only noise.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=err)


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
