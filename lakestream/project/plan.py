"""A plan: what is to be done so that a lake is as the files of a project say, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lakestream.errors import LakestreamError
    from lakestream.project.definitions import Definition
    from lakestream.project.files import Written

Action = Literal["same", "new", "changed", "left", "refused", "unlisted", "dropped"]
"""What becomes of a table or stream. ``left``: an environment does not change it; ``refused``: it cannot be
done; ``unlisted``: it is in the lake and not in the files, and stays; ``dropped``: it goes."""


@dataclass(frozen=True)
class Step:
    """A statement to be run, where names without a database stand in ``database``.

    ``written`` is the statement of a file that it is, None for one that follows from what the lake has.
    """

    text: str
    database: str
    dialect: str = "tdengine"
    written: Written | None = None

    @classmethod
    def of(cls, written: Written) -> Step:
        """Return the step that runs a statement of a file."""
        return cls(written.text, written.database, written.dialect, written)


@dataclass(frozen=True)
class Change:
    """What becomes of something, and by which ``steps``; none for what stays as it is.

    ``clauses`` are those that differ, with what they said and say. Of a stream ``rows`` is how many it
    reads because of the change (about, where a table does not count them), ``recomputed`` whether its windows
    are computed anew, ``keeps_output`` whether its output stays (None: that is not known before). ``note``
    says in words what else there is to know. ``undo`` is run where a step behind the first one fails.
    """

    kind: str
    name: str
    action: Action
    steps: tuple[Step, ...] = ()
    clauses: tuple[tuple[str, str, str], ...] = ()
    rows: int = 0
    recomputed: bool = False
    keeps_output: bool | None = None
    note: str = ""
    error: LakestreamError | None = None
    undo: Step | None = None
    definition: Definition | None = None

    @property
    def is_change(self) -> bool:
        """Whether the lake is not as the files say, as far as a plan means to change that."""
        return self.action in {"new", "changed", "refused", "dropped"}

    def to_dict(self) -> dict[str, object]:
        """Return the change as a JSON object."""
        place = self.definition.written.place if self.definition else None
        return {
            "kind": self.kind,
            "name": self.name,
            "action": self.action,
            "file": place.file if place else None,
            "line": place.line if place else None,
            "clauses": [{"clause": c, "before": b, "after": a} for c, b, a in self.clauses],
            "rows": self.rows,
            "recomputed": self.recomputed,
            "keeps_output": self.keeps_output,
            "note": self.note,
            "error": self.error.to_dict() if self.error else None,
        }


@dataclass(frozen=True)
class Plan:
    """What is to be done to a ``lake``, in order, for an ``environment`` (None: the lake itself)."""

    lake: str
    environment: str | None
    changes: tuple[Change, ...]

    @property
    def has_changes(self) -> bool:
        """Whether anything is to be done."""
        return any(change.is_change for change in self.changes)

    @property
    def refused(self) -> list[Change]:
        """What cannot be done."""
        return [change for change in self.changes if change.action == "refused"]

    def to_dict(self) -> dict[str, object]:
        """Return the plan as a JSON object."""
        return {
            "lake": self.lake,
            "environment": self.environment,
            "changes": self.has_changes,
            "items": [change.to_dict() for change in self.changes],
        }
