"""What statements of the IoTDB dialect say, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.paths import Path
    from lakestream.language.model import Fragment, Now, TableName, Value

Instant = int | str
"""A point in time: milliseconds since 1970 UTC, or ISO text (in the lake's zone unless it names one)."""

TimeoutPolicy = Literal["BLOCKED", "DISCARD"]
RowWindow = Literal["SESSION", "VARIATION", "CONDITION", "COUNT"]
FillMethod = Literal["PREVIOUS", "LINEAR", "CONSTANT"]
Event = Literal["BEFORE_INSERT", "AFTER_INSERT"]


@dataclass(frozen=True)
class Span:
    """A duration such as ``1h30m``: calendar months (``mo``, ``y``) and microseconds of elapsed time."""

    months: int
    micros: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TableMapping:
    """``USING TABLE table (device = expression, time = column)``: whose rows are a database's points.

    ``time`` is the name of the column, without quotes.
    """

    table: TableName
    device: Fragment
    time: Fragment


@dataclass(frozen=True)
class CreateTreeDatabase:
    """``CREATE DATABASE root.ln [USING TABLE …]``."""

    path: Path
    mapping: TableMapping | None
    place: Fragment


@dataclass(frozen=True)
class DropTreeDatabase:
    """``DELETE DATABASE root.ln``."""

    path: Path
    place: Fragment


@dataclass(frozen=True)
class ShowTreeDatabases:
    """``SHOW DATABASES``."""


@dataclass(frozen=True)
class CreateTimeseries:
    """``CREATE TIMESERIES path WITH DATATYPE=type``; several for ``CREATE ALIGNED TIMESERIES``."""

    series: tuple[tuple[Path, str], ...]
    place: Fragment


@dataclass(frozen=True)
class ShowTimeseries:
    """``SHOW TIMESERIES [pattern]``."""

    pattern: Path | None


@dataclass(frozen=True)
class ShowDevices:
    """``SHOW DEVICES [pattern]``."""

    pattern: Path | None


@dataclass(frozen=True)
class CountTree:
    """``COUNT DEVICES [pattern]``, or ``COUNT TIMESERIES [pattern] [GROUP BY LEVEL=n]``; root is level 0."""

    of_devices: bool
    pattern: Path | None
    level: int | None = None


@dataclass(frozen=True)
class InsertPoints:
    """``INSERT INTO device(time, m, …) VALUES (…), …``; ``time`` may be left out: now."""

    device: Path
    measurements: tuple[str, ...]
    times: tuple[Instant | Now, ...]
    rows: tuple[tuple[Value, ...], ...]
    place: Fragment


@dataclass(frozen=True)
class Item:
    """One expression of the SELECT list; an alias names its one column."""

    expression: Expression
    alias: str | None


@dataclass(frozen=True)
class Target:
    """``device(measurement, …)`` of INTO, with placeholders as written."""

    device: Path
    measurements: tuple[str, ...]


@dataclass(frozen=True)
class TimeGroup:
    """``GROUP BY([start, end), interval[, step])``; the range is None in a continuous query."""

    range: tuple[Instant | Now, Instant | Now] | None
    interval: Span
    step: Span


@dataclass(frozen=True)
class RowGroup:
    """``GROUP BY SESSION(gap) | VARIATION(e[, delta]) | CONDITION(e, keep >= n) | COUNT(e, size)``.

    Windows that the rows themselves cut. ``number`` is the gap (µs), the delta, n or the size, and ``keep``
    the comparison that the rows of a CONDITION's window are held to. Rows without a value of the expression
    are left out where ``ignores_null``.
    """

    kind: RowWindow
    expression: Expression | None
    number: float
    keep: str = "="
    ignores_null: bool = True


@dataclass(frozen=True)
class Fill:
    """``FILL(PREVIOUS[, within])``, ``FILL(LINEAR)`` or ``FILL(constant)``."""

    method: FillMethod
    value: Value = None
    within: Span | None = None


@dataclass(frozen=True)
class Select:
    """A query over the tree. ``text`` is the query as written; ``levels`` empty for no LEVEL.

    ``by_time``: ORDER BY TIME is written, and goes before the order of devices, which is turned round where
    ``device_descending``. ``columns_from`` and ``columns`` (None: all) are SOFFSET and SLIMIT. GROUP BY is
    of time (``group``) or of rows (``cut``). ``latest``: SELECT LAST, a row for each series that has a point,
    in the order of the series' names where ``by_series`` (ORDER BY TIMESERIES).
    """

    items: tuple[Item, ...]
    into: tuple[Target, ...]
    sources: tuple[Path, ...]
    where: Expression | None
    group: TimeGroup | None
    cut: RowGroup | None
    levels: tuple[int, ...]
    having: Expression | None
    fill: Fill | None
    by_time: bool
    descending: bool
    limit: int | None
    offset: int
    by_device: bool
    text: Fragment
    latest: bool = False
    by_series: bool = False
    device_descending: bool = False
    columns_from: int = 0
    columns: int | None = None


@dataclass(frozen=True)
class QueryTree:
    """A SELECT on its own, with INTO or without."""

    select: Select


@dataclass(frozen=True)
class CreateContinuousQuery:
    """``CREATE CQ id [RESAMPLE …] [TIMEOUT POLICY …] BEGIN SELECT … END``; None: not said."""

    name: str
    every: Span | None
    boundary: Instant | Now | None
    start_offset: Span | None
    end_offset: Span | None
    policy: TimeoutPolicy
    select: Select
    text: str
    place: Fragment

    @property
    def distance(self) -> Span:
        """How far apart two executions are due: EVERY, by default the interval of GROUP BY."""
        if self.every is not None:
            return self.every
        assert self.select.group is not None
        return self.select.group.interval

    @property
    def reach(self) -> Span:
        """How long before its due instant the range of an execution starts: RANGE, by default EVERY."""
        return self.start_offset or self.distance


@dataclass(frozen=True)
class DropContinuousQuery:
    """``DROP CQ id``."""

    name: str
    place: Fragment


@dataclass(frozen=True)
class BackfillContinuousQuery:
    """``BACKFILL CQ id FROM start [TO end]``: event times, half-open; None: up to what comes next."""

    name: str
    start: Instant | Now
    end: Instant | Now | None
    place: Fragment


@dataclass(frozen=True)
class ShowContinuousQueries:
    """``SHOW CQS``."""


@dataclass(frozen=True)
class CreateTrigger:
    """``CREATE STATELESS|STATEFUL TRIGGER name BEFORE|AFTER INSERT ON pattern AS 'class' …``."""

    name: str
    stateful: bool
    event: Event
    pattern: Path
    class_name: str
    uri: str | None
    attributes: tuple[tuple[str, str], ...]
    text: str
    place: Fragment


@dataclass(frozen=True)
class DropTrigger:
    """``DROP TRIGGER name``."""

    name: str
    place: Fragment


@dataclass(frozen=True)
class ShowTriggers:
    """``SHOW TRIGGERS``."""


TreeStatement = (
    CreateTreeDatabase
    | DropTreeDatabase
    | ShowTreeDatabases
    | CreateTimeseries
    | ShowTimeseries
    | ShowDevices
    | CountTree
    | InsertPoints
    | QueryTree
    | CreateContinuousQuery
    | DropContinuousQuery
    | BackfillContinuousQuery
    | ShowContinuousQueries
    | CreateTrigger
    | DropTrigger
    | ShowTriggers
)
