"""Runs one case, step by step, on any engine."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.conformance.cases import Case, Step, duration, restart_of
from tests.conformance.compare import difference, different_events
from tests.conformance.engines import Answer, Engine, EngineFactory, Refused
from tests.notify.catcher import Catcher
from tests.triggers import LOG as TRIGGER_LOG

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

REFUSAL_DIALECT = "tdengine"
"""The dialect that the runner itself speaks: UPDATE, DELETE, SHOW STREAMS."""


CAUGHT = "ws://localhost:8080"
"""Where the cases send notifications: the runner catches them."""


class CaseFailed(AssertionError):  # noqa: N818 - a verdict
    """A case does not hold: the step, and what was expected and got."""


class StepNotSupported(Exception):  # noqa: N818
    """A step that needs a part of the engine which this build does not have."""


def run_case(case: Case, start: EngineFactory, lake: Path) -> None:
    """Run a case on engines that ``start`` opens on the directory ``lake``.

    Raises CaseFailed, naming the step, where the case does not hold, also when the engine refuses
    something. An engine that fails in any other way raises what it raises.
    """
    run = CaseRun(case, start, lake)
    try:
        for number, step in enumerate(case.steps, 1):
            try:
                run.step(step)
            except (Refused, StepNotSupported, AssertionError) as problem:
                place = f"{case.name}, step {number} ({step.kind}): {case.about}"
                raise CaseFailed(
                    f"{place}\n{shown(step)}\n" + "\n".join([str(problem), *run.errors])
                ) from None
    finally:
        run.close()


class CaseRun:
    """A case under way: its engine, and where its clock is."""

    def __init__(self, case: Case, start: EngineFactory, lake: Path) -> None:
        self.case = case
        self.clock: datetime = case.clock
        self.engine: Engine = start(case.clock)
        self.errors: list[str] = []
        self._ends = iter(case.ends)
        self._end = next(self._ends)
        self._start = start
        self._lake = lake
        self._caught: Catcher | None = None
        self._events_seen = 0

    def step(self, step: Step) -> None:
        """Run one step; raises Refused, StepNotSupported or AssertionError."""
        steps: dict[str, Callable[[Any], None]] = {
            "sql": self._sql,
            "insert": lambda said: self.engine.insert(said["table"], said["rows"]),
            "delete": lambda said: self._change(delete_statement(said)),
            "update": lambda said: self._change(update_statement(said)),
            "run": lambda _: self._run(),
            "advance": self._advance,
            "expect": self._expect,
            "expect_error": self._expect_error,
            "expect_events": self._expect_events,
            "restart": lambda _: self._restart(step),
            "occupy": lambda said: self.engine.occupy(said["cq"], duration(said["for"])),
            "fail": lambda said: self.engine.fail(said["cq"], int(said["times"])),
        }
        steps[step.kind](step.said)

    def _sql(self, said: str | list[str]) -> None:
        for text in [said] if isinstance(said, str) else said:
            self.engine.sql(self._to_catcher(text), self.case.dialect)

    def _to_catcher(self, text: str) -> str:
        """Return a statement whose notifications come to the runner."""
        if CAUGHT not in text:
            return text
        if self._caught is None:
            self._caught = Catcher()
        return text.replace(CAUGHT, self._caught.url)

    def close(self) -> None:
        """End the engine, and let go of what the runner itself has opened."""
        self.engine.kill() if self._end == "kill" else self.engine.close()
        if self._caught is not None:
            self._caught.close()

    def _expect_events(self, said: list[dict[str, Any]]) -> None:
        events = self._caught.events(self._events_seen + len(said)) if self._caught is not None else []
        new, self._events_seen = events[self._events_seen :], len(events)
        different = different_events(new, said)
        assert different is None, different

    def _change(self, statement: str) -> None:
        self.engine.sql(statement, REFUSAL_DIALECT)

    def _run(self) -> None:
        # A stream may fail and the case still hold; where it does not, this is why.
        self.errors += self.engine.run()

    def _advance(self, said: str) -> None:
        self.clock += duration(said)
        self.engine.advance(duration(said))
        self._run()

    def _restart(self, step: Step) -> None:
        mode, down_for = restart_of(step)
        self.engine.kill() if mode == "kill" else self.engine.close()
        self._end = next(self._ends)
        if down_for is not None:
            self.clock += down_for
        self.engine = self._start(self.clock)
        if down_for is not None:
            self._run()

    def _expect(self, said: dict[str, Any]) -> None:
        # Without a dialect of its own an expectation is plain Spark SQL, which every dialect passes on.
        answer = self.engine.sql(said["sql"], said.get("dialect", REFUSAL_DIALECT))
        rows = picked(answer, said["columns"]) if "columns" in said else answer.rows
        tolerance = float(said["tolerance"]) if "tolerance" in said else None
        any_order = bool(said.get("any_order", False))
        different = difference(rows, said["rows"], tolerance=tolerance, any_order=any_order)
        assert different is None, different

    def _expect_error(self, said: dict[str, Any]) -> None:
        before = self._remains()
        try:
            self.engine.sql(said["sql"], said.get("dialect", self.case.dialect))
        except Refused as refusal:
            message = str(refusal)
        else:
            raise AssertionError("the statement was accepted")
        found = re.search(said["match"], message, re.IGNORECASE)
        assert found, f"the message does not match {said['match']!r}:\n{message}"
        after = self._remains()
        assert before == after, f"something of the refused statement remains: {before ^ after}"

    def _remains(self) -> set[str]:
        """Return what a refused statement may not change: the streams, and the tables' versions."""
        streams = self.engine.sql("SHOW STREAMS", REFUSAL_DIALECT)
        names = {json.dumps(row, default=str) for row in streams.rows}
        logs = (p.relative_to(self._lake) for p in self._lake.rglob("_delta_log/*.json"))
        # A trigger that is called for a statement, and refuses it, logs that all the same.
        kept = (p for p in logs if p.parts[0] != "_lakestream" and not p.is_relative_to(TRIGGER_LOG))
        return names | {str(p) for p in kept}


def not_supported(what: str) -> None:
    """Fail a step whose part of the engine is missing."""
    raise StepNotSupported(f"{what}: not supported by this build")


def picked(answer: Answer, columns: list[str]) -> list[list[Any]]:
    """Return the named columns of an answer, in the order named; an empty answer may lack them."""
    if not answer.rows:
        return []
    known = [name.lower() for name in answer.columns]
    missing = [name for name in columns if name.lower() not in known]
    assert not missing, f"no column {missing} among {list(answer.columns)}"
    places = [known.index(name.lower()) for name in columns]
    return [[row[place] for place in places] for row in answer.rows]


def delete_statement(said: dict[str, Any]) -> str:
    """Return the DELETE of a delete step."""
    table, where = rows_of(said)
    return f"DELETE FROM {table} WHERE {where}"


def update_statement(said: dict[str, Any]) -> str:
    """Return the UPDATE of an update step."""
    table, where = rows_of(said)
    sets = ", ".join(f"{column} = {literal(value)}" for column, value in said["set"].items())
    return f"UPDATE {table} SET {sets} WHERE {where}"


def rows_of(said: dict[str, Any]) -> tuple[str, str]:
    """Return the table of a step and its condition: a device's rows are some of its database's."""
    table, where = said["table"], said["where"]
    root, *nodes = table.split(".")
    if root != "root" or len(nodes) < 2:
        return table, where
    return f"root.{nodes[0]}", f"device = {literal(table)} AND ({where})"


def literal(value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


def shown(step: Step) -> str:
    """Return a step's statement, or what it says, for a message."""
    text = step.said.get("sql", step.said) if isinstance(step.said, dict) else step.said
    return str(text)
