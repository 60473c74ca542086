"""EXPLAIN STREAM: the stages of the next tick, as the tick would run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.engine.stages import stages
from lakestream.storage.registry import TickPlan

if TYPE_CHECKING:
    from lakestream.engine.engine import Engine
    from lakestream.storage.registry import StreamRecord

_NAMES = {
    "ReadChanges": "read changes",
    "UpdateWindows": "update windows",
    "DetectWindows": "detect windows",
    "ReadRows": "read rows",
    "Compute": "compute",
    "Write": "write",
}


def explain_stream(engine: Engine, record: StreamRecord) -> list[tuple[str, str]]:
    """Return (stage, what it does) of the stream's next tick; of an empty one when nothing is new."""
    stream, target, plan = engine.next_plan(record)
    if plan is None:
        latest = engine.catalog.handles.open(stream.source.info.path).version
        plan = TickPlan(record.uuid, 0, "changes", latest, latest, 0, extra={"transport": "nothing is new"})
        lines = [("tick", "nothing is new")]
    else:
        lines = [("tick", f"{plan.tick} ({plan.kind})"), ("bytes move by", str(plan.extra["transport"]))]
    lines += [(_NAMES[type(stage).__name__], str(stage)) for stage in stages(stream, target, plan)]
    return [*lines, ("calculation", stream.calculation.query.sql("spark"))]
