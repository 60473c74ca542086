"""Values as JSON has them and as people read them, and rows as tables; for all that shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: object) -> object:
    """Return the value as JSON has it.

    Times become ISO 8601 text, lengths of time ``2 days 03:00:00``, decimals text (exact), bytes
    hexadecimal text, and the floats JSON lacks the texts NaN, Infinity and -Infinity. A field of a
    dataclass that counts microseconds since 1970 UTC (``created_us``, ``at_us``) is the instant
    (``created_at``, ``at``).
    """
    if is_dataclass(value):
        return dict(_field(f.name, getattr(value, f.name)) for f in fields(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return _scalar(value)


def shown(value: object) -> str:
    """Return the value as a text for people: what it holds as JSON, a time with a blank, nothing as NULL.

    >>> shown(None), shown(True), shown({"a": [datetime(2025, 1, 1, tzinfo=UTC)]})
    ('NULL', 'true', '{"a": ["2025-01-01T00:00:00+00:00"]}')
    """
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return str(value)
    made = plain(value)
    return json.dumps(made, ensure_ascii=False) if isinstance(made, (bool, dict, list)) else str(made)


def cell(value: object) -> str:
    """Return the value as one line of a table; control characters are escaped."""
    return shown(value).translate(_CONTROLS)


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[object]], screen: Console | None = None
) -> list[str]:
    """Return rows under their column names, as lines; numbers stand right.

    On a ``screen`` long values are folded; where it has no room for the names either, each row is a block of
    lines, one a column.
    """
    values = [list(row) for row in rows]
    names = [name.translate(_CONTROLS) for name in columns]
    right = [_is_numeric([line[place] for line in values]) for place, _ in enumerate(names)]
    cells = [[cell(value) for value in line] for line in values]
    if screen is None:
        lines = _in_columns(names, right, cells)
    elif sum(map(_width, names)) + len(_GAP) * (len(names) - 1) <= screen.width:
        lines = _folded(names, right, cells, screen)
    else:
        lines = _in_blocks(names, cells, screen)
    # The last column is padded to its width; in a pipe that is only noise.
    return [line.rstrip() for line in lines]


_GAP = "   "


def _is_numeric(values: Sequence[object]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in there)


def _in_columns(names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay a table out as rich does where nothing is folded: rich itself takes as long as a small tick."""
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        fills = [" " * (width - _width(text)) for width, text in zip(widths, cells, strict=True)]
        laid = [f + c if r else c + f for c, f, r in zip(cells, fills, right, strict=True)]
        return _GAP.join(laid)

    return [line(names), "─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), *map(line, rows)]


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _folded(
    names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], screen: Console
) -> list[str]:
    """Lay a table out within the width of the screen."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, is_right in zip(names, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with screen.capture() as captured:
        screen.print(table)
    return captured.get().splitlines()


def _in_blocks(names: Sequence[str], rows: Sequence[Sequence[str]], screen: Console) -> list[str]:
    """Lay each row out as a block: a rule with its number, and a line for each column, folded behind it."""
    from rich.table import Table
    from rich.text import Text

    with screen.capture() as captured:
        for number, row in enumerate(rows, 1):
            screen.rule(f"row {number}", characters="─", style="none", align="left")
            block = Table.grid(padding=(0, len(_GAP), 0, 0))
            block.add_column(no_wrap=True)
            block.add_column(overflow="fold")
            for name, text in zip(names, row, strict=True):
                block.add_row(Text(name), Text(text))
            screen.print(block)
    return captured.get().splitlines()


def _field(name: str, value: object) -> tuple[str, object]:
    instant = name.removesuffix("_us")
    if instant == name:
        return name, plain(value)
    return (
        instant if instant == "at" else f"{instant}_at",
        (_EPOCH + timedelta(microseconds=value)).isoformat() if isinstance(value, int) else None,
    )


def _length(value: timedelta) -> str:
    """Return a length of time as text, its sign before all of it.

    >>> _length(timedelta(hours=-1)), _length(timedelta(days=2, microseconds=5))
    ('-01:00:00', '2 days 00:00:00.000005')
    """
    sign, within = ("-", -value) if value < timedelta() else ("", value)
    days = f"{within.days} day{'s' if within.days != 1 else ''} " if within.days else ""
    return f"{sign}{days}{(_EPOCH + within - timedelta(days=within.days)).time().isoformat()}"


def _scalar(value: object) -> bool | int | float | str | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _length(value)
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
