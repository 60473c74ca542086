"""The trigger classes of the conformance cases; they log their calls in the table ``main.trigger_log``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from lakestream.hooks import FailureStrategy, Tablet, Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakestream.hooks import TriggerContext

LOG = "main/trigger_log"
_SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("name", pa.string()),
        ("call", pa.string()),
        ("event", pa.string()),
        ("device", pa.string()),
        ("measurements", pa.string()),
        ("points", pa.int64()),
    ]
)
_lake: list[Path] = []


def log_into(lake: Path) -> None:
    """Log into this lake from now on."""
    _lake[:] = [lake]


def logged() -> list[dict[str, object]]:
    """Return the calls logged so far, in order."""
    path = str(_lake[0] / LOG)
    if not DeltaTable.is_deltatable(path):
        return []
    rows: list[dict[str, object]] = pa.table(DeltaTable(path).scan()).to_pylist()
    return sorted(rows, key=lambda row: int(str(row["n"])))


def points_of(tablet: Tablet) -> int:
    """Return how many points a tablet has."""
    rows = tablet.to_arrow()
    return sum(len(rows[name]) - rows[name].null_count for name in tablet.measurements)


class Recorder(Trigger):
    """Logs every call."""

    def __init__(self) -> None:
        self.name: str | None = None

    def validate(self, attributes: Mapping[str, str]) -> None:
        self.name = attributes.get("name")
        self.log("validate")

    def on_create(self, attributes: Mapping[str, str], context: TriggerContext) -> None:
        del context
        self.name = attributes.get("name")
        self.log("on_create")

    def on_drop(self) -> None:
        self.log("on_drop")

    def restore(self, state: bytes | None) -> None:
        del state
        self.log("restore")

    def fire(self, tablet: Tablet) -> bool:
        self.log("fire", tablet, points_of(tablet))
        return True

    def log(self, call: str, tablet: Tablet | None = None, points: int | None = None) -> None:
        """Append a row to the log."""
        row = {
            "n": len(logged()) + 1,
            "name": self.name,
            "call": call,
            "event": tablet.event if tablet else None,
            "device": tablet.device if tablet else None,
            "measurements": ",".join(sorted(tablet.measurements)) if tablet else None,
            "points": points,
        }
        write_deltalake(str(_lake[0] / LOG), pa.Table.from_pylist([row], schema=_SCHEMA), mode="append")


class Limit(Recorder):
    """Logs ``fire``, which fails for a value above the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: Mapping[str, str] = {}

    def validate(self, attributes: Mapping[str, str]) -> None:
        if "limit" not in attributes:
            raise ValueError("the attribute limit is missing")

    def on_create(self, attributes: Mapping[str, str], context: TriggerContext) -> None:
        del context
        self.name, self.attributes = attributes.get("name"), attributes

    def on_drop(self) -> None:
        pass

    def failure_strategy(self) -> FailureStrategy:
        return FailureStrategy(self.attributes.get("strategy", "optimistic"))

    def fire(self, tablet: Tablet) -> bool:
        super().fire(tablet)
        rows, limit = tablet.to_arrow(), float(self.attributes["limit"])
        exceeded = any(pc.any(pc.greater(rows[name], limit)).as_py() for name in tablet.measurements)
        if exceeded and self.attributes.get("how") == "raise":
            raise ValueError(f"a value is greater than {limit}")
        return not exceeded


tablets: list[Tablet] = []
"""What the triggers of the class Keeper have seen in this process."""


class Keeper(Trigger):
    """Keeps the tablets that it sees."""

    def fire(self, tablet: Tablet) -> bool:
        tablets.append(tablet)
        return True


class RunningCount(Recorder):
    """Keeps the number of points it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def validate(self, attributes: Mapping[str, str]) -> None:
        pass

    def on_create(self, attributes: Mapping[str, str], context: TriggerContext) -> None:
        del context
        self.name = attributes.get("name")

    def on_drop(self) -> None:
        pass

    def restore(self, state: bytes | None) -> None:
        del state
        totals = [row["points"] for row in logged() if row["name"] == self.name and row["call"] == "fire"]
        self.total = int(str(totals[-1])) if totals else 0
        self.log("restore", points=self.total)

    def fire(self, tablet: Tablet) -> bool:
        self.total += points_of(tablet)
        self.log("fire", tablet, self.total)
        return True
