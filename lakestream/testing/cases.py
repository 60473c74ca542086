"""Cases of stream tests, read from YAML with the places of what may be recorded in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from lakestream.errors import LakestreamError, Place, StatementError, did_you_mean
from lakestream.language import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    Row = dict[str, Any]

START = datetime(2025, 1, 1, tzinfo=UTC)
"""Where the clock of a case stands that does not say: no test depends on the hour."""

_KEYS = ("test", "sql", "dialect", "timezone", "clock", "parameters", "tables", "steps", "expect")
_STEPS = ("insert", "sql", "clock", "expect", "events")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Loader(yaml.SafeLoader):
    """Reads YAML in which times are texts, as statements have them."""


class Dumper(yaml.SafeDumper):
    """Writes texts that look like times without quotes, as :class:`Loader` reads them."""

    def ignore_aliases(self, _data: object) -> bool:
        """Write everything where it stands."""
        return True


for _kind in (Loader, Dumper):
    _kind.yaml_implicit_resolvers = {
        first: [rule for rule in rules if rule[0] != _TIMESTAMP]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True)
class Expected:
    """The rows that a table is to have, or that a query gives; ``span`` is where they stand in the file.

    ``indent`` is that of what they are expected of, None where that stands in braces.
    """

    table: str
    rows: Sequence[Row]
    span: tuple[int, int]
    indent: int | None
    sql: str | None = None


@dataclass(frozen=True)
class Step:
    """A step of a case: its kind, what it says, and the line that it stands in."""

    kind: str
    said: Any
    line: int


@dataclass(frozen=True)
class Case:
    """A case: its name, the line it begins in, and what it says. ``end`` is where it ends in its file."""

    name: str
    line: int
    sql: str = ""
    dialect: str = DIALECTS[0]
    timezone: str | None = None
    clock: datetime = START
    parameters: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    end: int = 0
    indent: int = 2

    @property
    def expects(self) -> list[Expected]:
        """All tables and queries with the rows that are expected of them."""
        return [one for step in self.steps if step.kind == "expect" for one in step.said]


def read_cases(path: Path, file: str) -> list[Case]:
    """Return the cases of a file. Raises StatementError TEST_INVALID, with the line."""
    text = path.read_text(encoding="utf-8")
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        return [] if root is None else [_case(loader, node) for node in _items(root)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(mark.line + 1, mark.column + 1, text=text, file=file) if mark else None
        raise StatementError("TEST_INVALID", str(error.problem), place=place) from None
    except _Wrong as error:
        mark = error.node.start_mark
        place = Place(mark.line + 1, mark.column + 1, text=text, file=file)
        raise StatementError("TEST_INVALID", str(error), hint=error.hint, place=place) from None
    except LakestreamError as error:
        raise error.in_file(file) from None


class _Wrong(Exception):  # noqa: N818 - it becomes an error with a place
    def __init__(self, node: yaml.Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.hint = hint


def _case(loader: Loader, node: yaml.Node) -> Case:
    keyed = _mapping(node, _KEYS, "a case")
    parts = {name: part.value for name, part in keyed.items()}
    if "test" not in parts:
        raise _Wrong(node, "the case has no name", "test: what it shows")
    said = {
        name: loader.construct_document(part) for name, part in parts.items() if name not in _STEPS_OF_CASE
    }
    _check(parts, said)
    steps = [_step(loader, one) for one in _items(parts["steps"])] if "steps" in parts else []
    if "expect" in parts:
        line = keyed["expect"].key.start_mark.line + 1
        steps.append(Step("expect", [*_expected(loader, parts["expect"])], line))
    return Case(
        name=str(said["test"]),
        line=node.start_mark.line + 1,
        sql=said.get("sql", ""),
        dialect=said.get("dialect", DIALECTS[0]),
        timezone=said.get("timezone"),
        clock=_instant(parts["clock"], said["clock"]) if "clock" in said else START,
        parameters=said.get("parameters") or {},
        tables=said.get("tables") or {},
        steps=tuple(steps),
        end=_end(node),
        indent=node.start_mark.column,
    )


_STEPS_OF_CASE = ("steps", "expect")


def _check(parts: dict[str, yaml.Node], said: dict[str, Any]) -> None:
    if said.get("dialect", DIALECTS[0]) not in DIALECTS:
        raise _Wrong(
            parts["dialect"], f"there is no dialect {said['dialect']}", f"known: {', '.join(DIALECTS)}"
        )
    for name, kind in (("sql", str), ("parameters", dict), ("tables", dict)):
        if not isinstance(said.get(name, kind()) or kind(), kind):
            raise _Wrong(parts[name], f"{name} is a {'text' if kind is str else 'mapping'}")
    for table, rows in (said.get("tables") or {}).items():
        _rows(parts["tables"], table, rows)
    try:
        ZoneInfo(said.get("timezone", "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise _Wrong(parts["timezone"], f"there is no time zone {said['timezone']}") from None


def _step(loader: Loader, node: yaml.Node) -> Step:
    parts = _mapping(node, _STEPS, "a step")
    if len(parts) != 1:
        raise _Wrong(node, "a step says one thing", f"one of {', '.join(_STEPS)}")
    [(kind, (_, part))] = parts.items()
    line = node.start_mark.line + 1
    if kind == "expect":
        return Step(kind, [*_expected(loader, part)], line)
    said = loader.construct_document(part)
    if kind == "insert":
        if not isinstance(said, dict):
            raise _Wrong(part, "insert names tables with their rows", "insert: {table: [{column: value}]}")
        for table, rows in said.items():
            _rows(part, table, rows)
    if kind == "sql" and not isinstance(said, str):
        raise _Wrong(part, "sql is a text of statements")
    if kind == "events" and not isinstance(said, list):
        raise _Wrong(part, "events is a list of what events say", "events: [{eventType: WINDOW_CLOSE}]")
    if kind == "clock":
        said = _moved(part, said)
    return Step(kind, said, line)


def _expected(loader: Loader, node: yaml.Node) -> Iterator[Expected]:
    """Yield what is expected: by tables, or of a query with ``sql`` and ``rows``."""
    parts = _mapping(node, None, "expect")
    if "sql" in parts:
        _mapping(node, ("sql", "rows"), "expect")
        if "rows" not in parts:
            raise _Wrong(node, "rows are wanted beside sql")
        sql = loader.construct_document(parts["sql"].value)
        yield _rows_of(loader, "the query", parts["rows"], str(sql), in_braces=_is_in_braces(node))
        return
    for table, part in parts.items():
        yield _rows_of(loader, table, part, None, in_braces=_is_in_braces(node))


def _rows_of(loader: Loader, table: str, part: _Part, sql: str | None, *, in_braces: bool) -> Expected:
    key, node = part
    rows = loader.construct_document(node) or []
    _rows(node, table, rows)
    indent = None if in_braces else key.start_mark.column
    return Expected(table, rows, (key.end_mark.index + 1, _end(node)), indent, sql)


def _rows(node: yaml.Node, table: str, rows: object) -> None:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _Wrong(node, f"the rows of {table} are a list of mappings", "- {column: value}")


class _Part(NamedTuple):
    """A part of a mapping."""

    key: yaml.Node
    value: yaml.Node


def _mapping(node: yaml.Node, known: Sequence[str] | None, what: str) -> dict[str, _Part]:
    """Return the parts of a mapping by their keys; ``known`` are those that it may have."""
    if not isinstance(node, yaml.MappingNode):
        raise _Wrong(node, f"{what} is a mapping")
    found: dict[str, _Part] = {}
    for key, value in node.value:
        if known is not None and key.value not in known:
            hint = did_you_mean(key.value, known)
            raise _Wrong(key, f"{what} has no {key.value}", hint)
        if key.value in found:
            raise _Wrong(key, f"{key.value} is there twice")
        found[str(key.value)] = _Part(key, value)
    return found


def _items(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _Wrong(node, "a list is wanted", "- …")
    return list(node.value)


def _is_in_braces(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _end(node: yaml.Node) -> int:
    """Return where a node ends: a block's mark is behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not _is_in_braces(node) and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _instant(node: yaml.Node, said: object) -> datetime:
    try:
        found = datetime.fromisoformat(str(said))
    except ValueError:
        raise _Wrong(node, f"{said} is no time", "2025-01-01 08:00:00") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _moved(node: yaml.Node, said: object) -> timedelta | datetime:
    """Return how far a clock is moved, or up to when."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", str(said), re.ASCII)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else _instant(node, said)
