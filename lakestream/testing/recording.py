"""The rows that a case finds written into its file, where those stand that it expects; all else stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from lakestream.language.common.edited import Edit, Edited
from lakestream.testing.cases import Dumper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakestream.testing.cases import Case
    from lakestream.testing.running import Found


def write_found(path: Path, found: Sequence[tuple[Case, Sequence[Found]]]) -> bool:
    """Write what cases found into their file, and return whether that changes it."""
    text = path.read_text(encoding="utf-8")
    edits = [edit for case, rows in found for edit in _edits(case, rows)]
    new = Edited.by(text, edits).text
    if new != text:
        path.write_text(new, encoding="utf-8")
    return new != text


def _edits(case: Case, found: Sequence[Found]) -> list[Edit]:
    if case.expects:
        return [
            Edit(*one.expected.span, _listed(one.rows, one.expected.indent))
            for one in found
            if [*one.expected.rows] != one.rows
        ]
    blank = " " * case.indent
    tables = "".join(f"\n{blank}  {one.expected.table}:{_listed(one.rows, case.indent + 2)}" for one in found)
    return [Edit(case.end, case.end, f"\n{blank}expect:{tables}")] if found else []


def _listed(rows: Sequence[dict[str, Any]], indent: int | None) -> str:
    """Return rows behind their key: one a line, all in one line where that stands in braces."""
    if not rows or indent is None:
        return f" [{', '.join(map(_row, rows))}]"
    blank = " " * (indent + 2)
    return "".join(f"\n{blank}- {_row(row)}" for row in rows)


def _row(row: dict[str, Any]) -> str:
    return yaml.dump(row, Dumper=Dumper, default_flow_style=True, sort_keys=False, width=10**6).strip()
