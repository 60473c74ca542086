"""The house's gates: sizes of classes and rooms, and questions that belong into one room.

What is beyond a gate today stands in ``gates.toml`` with its number, which may only go down: ``make lint``
fails for more, and for less that was not written down.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent / "lakestream"
MOST_METHODS, MOST_LINES, MOST_FILES = 25, 400, 12
FAMILY_ROOMS = ("language", "triggers", "engine/windows")
"""Where a stream may be asked of which kind its trigger is."""
STATEMENTS = ("CreateTrigger",)
"""What is named so and is no kind of a stream's trigger."""
VIEW_FILES = ("storage/rows/views.py", "storage/sessions/remote.py", "storage/sessions/archive.py")
"""Where views are registered: by those who hand them on, and by sessions of their own."""
STORED_FACTS, STORAGE = {"extra", "unknown"}, "storage"
"""What holds facts of a stored record by their saved keys, and the room that knows these."""

ALLOWED: dict[str, int] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def main() -> int:
    """Print what is beyond a gate and return the exit status."""
    found = Counter(dict(_beyond()))
    problems = 0
    for gate in sorted(found | Counter(ALLOWED)):
        count, allowed = found[gate], ALLOWED.get(gate, 0)
        if count > allowed:
            print(f"{gate}: {count}, allowed are {allowed or 'none beyond the gate'}")
            problems += 1
        elif count < allowed:
            print(f"{gate}: {count or 'within the gate'}; write that down in place of {allowed}")
            problems += 1
    return 1 if problems else 0


def _beyond() -> Iterator[tuple[str, int]]:
    rooms: Counter[str] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        room = str(path.parent.relative_to(ROOT))
        rooms[room] += path.name != "__init__.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from _classes(name, tree)
        if not room.startswith(FAMILY_ROOMS) and (kinds := sum(map(_asks_kind, ast.walk(tree)))):
            yield f"kinds of triggers asked for in {name}", kinds
        if name not in VIEW_FILES and (views := sum(map(_registers, ast.walk(tree)))):
            yield f"views registered in {name}", views
        if not room.startswith(STORAGE) and (keys := sum(map(_asks_by_key, ast.walk(tree)))):
            yield f"string keys on stored records in {name}", keys
    for room, files in rooms.items():
        if files > MOST_FILES:
            yield f"files in {room}/", files


def _classes(name: str, tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if methods > MOST_METHODS:
                yield f"methods of {node.name} in {name}", methods
            if lines > MOST_LINES:
                yield f"lines of {node.name} in {name}", lines


def _asks_kind(node: ast.AST) -> bool:
    """Return whether a node is ``isinstance(…, SomeTrigger)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    names = [part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)]
    return any(name.endswith("Trigger") and name not in STATEMENTS for name in names)


def _registers(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "createOrReplaceTempView"


def _asks_by_key(node: ast.AST) -> bool:
    """Return whether a node is ``….extra[…]``, ``….extra.get(…)`` or ``… in ….extra``."""
    if isinstance(node, ast.Compare):
        asks = isinstance(node.ops[0], ast.In | ast.NotIn)
        return asks and _holds_facts(node.comparators[0])
    if isinstance(node, ast.Subscript):
        return _holds_facts(node.value)
    return isinstance(node, ast.Attribute) and node.attr == "get" and _holds_facts(node.value)


def _holds_facts(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in STORED_FACTS


if __name__ == "__main__":
    sys.exit(main())
