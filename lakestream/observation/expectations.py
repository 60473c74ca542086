"""What a stream's expectations have counted."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from lakestream.engine.creation.compile import expectations_of
from lakestream.engine.streams.quarantine import RESULTS_SUFFIX, SOURCE_SUFFIX
from lakestream.language.model import QUARANTINE
from lakestream.storage.records.registry import Checked, Totals

if TYPE_CHECKING:
    from lakestream.storage.records.registry import Progress, StreamRecord


@dataclass(frozen=True)
class ExpectationStatus:
    """An expectation of a stream, and how many rows met it and did not, since the stream was created.

    ``rows`` says of which table they are: ``source`` or ``output``.
    """

    name: str
    rows: str
    condition: str
    action: str
    passed: int
    violated: int

    def __str__(self) -> str:
        return f"{self.name}: {self.violated:,} of {self.passed + self.violated:,} violated"


def expectations_held(record: StreamRecord, progress: Progress | None) -> tuple[ExpectationStatus, ...]:
    """Return the expectations of a stream with their counts up to its last tick."""
    totals = (progress.totals if progress else None) or Totals()
    return tuple(
        ExpectationStatus(
            one.name,
            "output" if one.of_results else "source",
            " ".join(one.condition.sql.split()),
            one.action,
            *astuple(totals.checked.get(one.name, Checked())),
        )
        for one in expectations_of(record)
    )


def quarantines_of(record: StreamRecord) -> tuple[str, ...]:
    """Return the names of the quarantines that a stream has."""
    put = {one.of_results for one in expectations_of(record) if one.action == QUARANTINE}
    suffixes = {SOURCE_SUFFIX: False, RESULTS_SUFFIX: True}
    return tuple(f"{record.database}.{record.name}{suffix}" for suffix, of in suffixes.items() if of in put)
