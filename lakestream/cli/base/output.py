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
    lines = [list(row) for row in rows]
    names = [name.translate(_CONTROLS) for name in columns]
    right = [_is_numeric([line[place] for line in lines]) for place, _ in enumerate(names)]
    cells = [[cell(value) for value in line] for line in lines]
    write = _folded if is_terminal(sys.stderr if err else sys.stdout) else _in_columns
    # The last column is padded to its width; in a pipe that is only noise.
    click.echo("\n".join(line.rstrip() for line in write(names, right, cells, err)), err=err)


def _is_numeric(values: Sequence[object]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in there)


def _in_columns(
    names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], _err: bool
) -> list[str]:
    """Lay a table out as rich does where nothing is folded: rich itself takes as long as a small tick."""
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        fills = [" " * (width - _width(text)) for width, text in zip(widths, cells, strict=True)]
        laid = [f + c if r else c + f for c, f, r in zip(cells, fills, right, strict=True)]
        return "   ".join(laid)

    return [line(names), "─" * (sum(widths) + 3 * (len(widths) - 1)), *map(line, rows)]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _folded(
    names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], err: bool
) -> list[str]:
    """Lay a table out within the width of the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, is_right in zip(names, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    screen = console(err=err)
    with screen.capture() as captured:
        screen.print(table)
    return captured.get().splitlines()


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
