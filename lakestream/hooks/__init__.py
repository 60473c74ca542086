"""Python triggers on insert: what one is made of (IoTDB A4). Subclass :class:`Trigger`.

>>> class Alert(Trigger):
...     def fire(self, tablet: Tablet) -> bool:
...         return tablet.device != "root.ln.broken"
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    import pyarrow as pa


class FailureStrategy(Enum):
    """What a failed call of ``fire`` does: nothing but a line in the log, or refuse what comes after it."""

    OPTIMISTIC = "optimistic"
    PESSIMISTIC = "pessimistic"


@dataclass(frozen=True)
class TriggerContext:
    """Where a trigger stands: its name, event and pattern as in SHOW TRIGGERS, and the lake's root."""

    name: str
    event: str
    pattern: str
    lake_root: str


@dataclass(frozen=True)
class Tablet:
    """The points that one commit brings to a device, as far as the trigger's pattern matches its series.

    ``id`` never changes when a tablet is delivered again; ``event`` is BEFORE_INSERT or AFTER_INSERT;
    ``commit_version`` is that of the database's table, None before the insert. ``types`` are IoTDB's.
    """

    id: str
    device: str
    event: str
    commit_version: int | None
    measurements: tuple[str, ...]
    types: tuple[str, ...]
    rows: pa.Table

    def to_arrow(self) -> pa.Table:
        """Return the points: ``ts`` (µs, UTC), then a column per measurement, NULL where there is none."""
        return self.rows

    def to_pandas(self) -> pd.DataFrame:
        """Return the points as :meth:`to_arrow` does, for pandas."""
        return self.rows.to_pandas()


class Trigger:
    """Base class of triggers; every method may be left as it is. What one raises counts as failed."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        """Check the attributes of CREATE TRIGGER; raise to refuse the statement."""

    def on_create(self, attributes: Mapping[str, str], context: TriggerContext) -> None:
        """Begin; called once for each instance, before anything else but ``validate``."""

    def on_drop(self) -> None:
        """End; called once, by DROP TRIGGER."""

    def restore(self, state: bytes | None) -> None:
        """Go on after a restart, STATEFUL only: with what ``snapshot`` gave last, None when nothing."""

    def snapshot(self) -> bytes | None:
        """Return the state to keep, STATEFUL only: saved together with how far the trigger has come."""
        return None

    def failure_strategy(self) -> FailureStrategy:
        """Return what a failed call of ``fire`` does."""
        return FailureStrategy.OPTIMISTIC

    def fire(self, tablet: Tablet) -> bool:
        """Look at points that are about to be inserted, or were; False means failed.

        AFTER INSERT a tablet comes at least once: after a crash again, with the same ``id``.
        """
        del tablet
        return True


__all__ = ["FailureStrategy", "Tablet", "Trigger", "TriggerContext"]
