"""A plan put into effect, change by change: what fails leaves the lake as it was, and others go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakestream.errors import LakestreamError
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.engine.base.result import Result
    from lakestream.project.plan import Change, Plan, Step

    Run = Callable[[str, str], Result]
    """Runs a text of statements in a dialect."""


@dataclass(frozen=True)
class Outcome:
    """What became of a change: done, failed of an ``error``, or skipped ``because_of`` another one.

    ``message`` is what its statements answered.
    """

    change: Change
    outcome: Literal["done", "failed", "skipped"]
    error: LakestreamError | None = None
    because_of: str | None = None
    message: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the outcome as a JSON object: the change, and what became of it."""
        return {
            **self.change.to_dict(),
            "outcome": self.outcome,
            "error": self.error.to_dict() if self.error else None,
            "because_of": self.because_of,
            "message": self.message,
        }


def apply_plan(plan: Plan, run: Run) -> Iterator[Outcome]:
    """Run the steps of a plan by ``run`` and yield what became of each change.

    A change that failed is skipped by those that need what it makes. A crash in between leaves nothing half
    done: a plan made anew has what is left.
    """
    applying = _Applying(run)
    broken: dict[str, str] = {}
    for change in filter(lambda one: one.is_change, plan.changes):
        reads = change.definition.reads if change.definition else frozenset()
        before = next((broken[name] for name in sorted(reads) if name in broken), None)
        outcome = Outcome(change, "skipped", because_of=before) if before else applying.outcome(change)
        if outcome.outcome != "done":
            made = change.definition.makes if change.definition else {f"{change.kind} {change.name}"}
            broken |= dict.fromkeys(made, change.name)
        yield outcome


class _Applying:
    """Runs steps, each where its names without a database stand."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def outcome(self, change: Change) -> Outcome:
        """Run a change."""
        if change.error is not None:
            return Outcome(change, "failed", change.error)
        messages = []
        for number, step in enumerate(change.steps):
            try:
                messages.append(_message(self._step(step)))
            except LakestreamError as error:
                if number and change.undo is not None:
                    self._step(change.undo)
                located = step.written or (change.definition.written if change.definition else None)
                if step.written is None:
                    error.place = None  # of a statement that nobody wrote
                return Outcome(change, "failed", located.located(error) if located else error)
        return Outcome(change, "done", message="; ".join(messages))

    def _step(self, step: Step) -> Result:
        self._run(f"USE {quoted(step.database)}", "tdengine")
        return self._run(step.text, step.dialect)


def _message(result: Result) -> str:
    """Return what a statement answered: of a stream that was replaced, what becomes of its output."""
    if not result.columns:
        return result.message
    said = {row[0]: row[2] for row in result.fetchall()}
    return f"output {said['output']}; recomputed: {said['recomputed']}"
