"""Case files: read from YAML, checked for their form, named by dialect, file and id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

DIALECTS = ("tdengine", "iotdb", "ekuiper")
STEPS: dict[str, tuple[set[str], set[str]]] = {
    "insert": ({"table", "rows"}, set()),
    "delete": ({"table", "where"}, set()),
    "update": ({"table", "set", "where"}, set()),
    "expect": ({"sql", "rows"}, {"tolerance", "any_order", "dialect", "columns"}),
    "expect_error": ({"sql", "match"}, {"dialect"}),
    "occupy": ({"cq", "for"}, set()),
    "fail": ({"cq", "times"}, set()),
}
"""The steps written as mappings: what each must and may say."""

UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
MANUAL_START = datetime(2025, 6, 1, tzinfo=UTC)
"""Where the clock of a case without ``clock`` starts: manual too, so that no run depends on the hour."""


class CaseFormatError(ValueError):
    """A case file that is not in the format of the README."""


@dataclass(frozen=True)
class Step:
    """One step: its kind and what it says (a text, a list or a mapping, as written)."""

    kind: str
    said: Any


@dataclass(frozen=True)
class Case:
    """One case: ``name`` is dialect/file/id, ``clock`` where its manual clock starts.

    ``timezone`` is the lake's.
    """

    name: str
    about: str
    dialect: str
    clock: datetime
    steps: tuple[Step, ...]
    timezone: str = "UTC"

    @property
    def ends(self) -> tuple[str, ...]:
        """How each of its engines ends: one that is killed must run in a process of its own."""
        return (*(restart_of(step)[0] for step in self.steps if step.kind == "restart"), "clean")


def load(root: Path) -> list[Case]:
    """Read all case files at or under ``root``, in the order of their paths.

    Raises CaseFormatError where a file is not in the format, and when there is no case at all.
    """
    files = [root] if root.is_file() else sorted({*root.rglob("*.yaml"), *root.rglob("*.yml")})
    found = [case for file in files for case in load_file(file)]
    if not found:
        raise CaseFormatError(f"{root} holds no case files (*.yaml)")
    twice = sorted({c.name for c in found if sum(d.name == c.name for d in found) > 1})
    if twice:
        raise CaseFormatError(f"cases of one name under {root}: {', '.join(twice)}")
    return found


def load_file(file: Path) -> list[Case]:
    """Read the cases of one file."""
    try:
        written = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    except yaml.YAMLError as error:
        raise CaseFormatError(f"{file}: {error}") from error
    if not isinstance(written, list):
        raise CaseFormatError(f"{file}: a list of cases is wanted")
    return [case_of(file, said) for said in written]


def case_of(file: Path, said: dict[str, Any]) -> Case:
    """Check one case and return it."""
    where = f"{file}: case {said.get('id', '?')}"
    unknown = set(said) - {"id", "about", "dialect", "clock", "timezone", "steps"}
    missing = {"id", "dialect", "steps"} - set(said)
    if unknown or missing:
        raise CaseFormatError(f"{where}: unknown {sorted(unknown)}, missing {sorted(missing)}")
    if said["dialect"] not in DIALECTS:
        raise CaseFormatError(f"{where}: dialect {said['dialect']!r} is none of {', '.join(DIALECTS)}")
    return Case(
        name=f"{said['dialect']}/{file.stem}/{said['id']}",
        about=said.get("about", ""),
        dialect=said["dialect"],
        clock=instant(said["clock"]) if "clock" in said else MANUAL_START,
        steps=tuple(step_of(f"{where}, step {n}", step) for n, step in enumerate(said["steps"], 1)),
        timezone=said.get("timezone", "UTC"),
    )


def step_of(where: str, said: dict[str, Any]) -> Step:
    """Check one step and return it."""
    if not isinstance(said, dict) or len(said) != 1:
        raise CaseFormatError(f"{where}: a mapping of one key is wanted")
    kind, what = next(iter(said.items()))
    step = Step(kind, what)
    if kind in STEPS:
        required, optional = STEPS[kind]
        if not isinstance(what, dict) or not required <= set(what) <= required | optional:
            raise CaseFormatError(f"{where}: {kind} wants {sorted(required)}, may have {sorted(optional)}")
    elif not well_formed(step):
        raise CaseFormatError(f"{where}: {kind}: {what!r} is not understood")
    return step


def well_formed(step: Step) -> bool:
    """Check a step that is not a fixed mapping."""
    if step.kind == "sql":
        return isinstance(step.said, str) or (
            isinstance(step.said, list) and all(isinstance(s, str) for s in step.said)
        )
    if step.kind == "run":
        return bool(step.said == "idle")
    if step.kind == "advance":
        return duration(step.said) is not None
    if step.kind == "expect_events":
        return isinstance(step.said, list)
    return step.kind == "restart" and restart_of(step)[0] in ("clean", "kill")


def restart_of(step: Step) -> tuple[str, timedelta | None]:
    """Return a restart's mode (clean or kill) and how long the engine is down by the clock, if said."""
    if isinstance(step.said, dict):
        down_for = step.said.get("down_for")
        return step.said.get("mode", "clean"), None if down_for is None else duration(down_for)
    return str(step.said), None


def duration(text: str) -> timedelta:
    """Read ``10s``, ``2999ms``, ``330m``, ``13h``, ``1d``; raise CaseFormatError for anything else."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", str(text))
    if found is None:
        raise CaseFormatError(f"{text!r} is no duration")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def instant(text: str | datetime) -> datetime:
    """Read an ISO time; one without a zone is UTC."""
    read = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
