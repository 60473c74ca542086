"""The series that a query over the tree reads, and their columns among the points (IoTDB A3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestream.compute.tree.expand import Operand
    from lakestream.language.iotdb.paths import Path, Series
    from lakestream.language.iotdb.values import Select


@dataclass(frozen=True)
class Scan:
    """What is read of one table: its columns by the name they have among the points, and its devices."""

    table: str
    columns: tuple[tuple[str, str], ...]
    devices: frozenset[str]


@dataclass
class UsedSeries:
    """The series that a query reads, in the order in which it names them.

    Series of one column and type share ``v0``, ``v1``, … among the points; side by side each has a column
    of its own, ``s0``, ``s1``, ….
    """

    _slots: dict[tuple[str, str], str] = field(init=False, default_factory=dict)
    _used: dict[Series, None] = field(init=False, default_factory=dict)

    def use(self, operands: Iterable[Operand]) -> None:
        """Have the series of operands read too."""
        for operand in operands:
            for series in operand.series:
                self._used[series] = None
                self._slots.setdefault((series.column, series.type), f"v{len(self._slots)}")

    @property
    def columns(self) -> list[str]:
        """The columns of the points."""
        return list(self._slots.values())

    @property
    def aligned_columns(self) -> list[str]:
        """The columns of the rows in which the series stand side by side."""
        return [f"s{i}" for i in range(len(self._used))]

    @property
    def scans(self) -> list[Scan]:
        """What is to be read of each table."""
        found: dict[str, tuple[dict[tuple[str, str], None], set[str]]] = {}
        for series in self._used:
            columns, devices = found.setdefault(series.table, ({}, set()))
            columns[series.column, self._slot(series)] = None
            devices.add(series.device)
        return [
            Scan(table, tuple(columns), frozenset(devices)) for table, (columns, devices) in found.items()
        ]

    def devices(self, select: Select) -> list[Path]:
        """Return the devices that have one of the measurements, by FROM and then by their creation."""
        found = sorted(self._used, key=lambda series: series.order)
        if select.by_device:
            found.sort(key=lambda series: _place_in_from(select, series))
        return list(dict.fromkeys(series.path.device for series in found))

    def among_points(self, operand: Operand) -> list[str]:
        """Return the columns of the points that an operand is in, each once."""
        return list(dict.fromkeys(map(self._slot, operand.series)))

    def side_by_side(self, operand: Operand) -> list[str]:
        """Return the columns of an operand where the series stand side by side."""
        return [f"s{self._places[series]}" for series in operand.series]

    def aligned(self, points: str) -> str:
        """Return SQL that puts the series side by side: a row per instant."""
        columns = [
            f"any_value({of_device(series.device, self._slot(series))}, true) AS s{i}"
            for i, series in enumerate(self._used)
        ]
        return f"SELECT ts, {', '.join(columns)} FROM ({points}) GROUP BY ts"

    @cached_property
    def _places(self) -> dict[Series, int]:
        """Where each series stands among those that are put side by side."""
        return {series: place for place, series in enumerate(self._used)}

    def _slot(self, series: Series) -> str:
        return self._slots[series.column, series.type]


def _place_in_from(select: Select, series: Series) -> int:
    return next(place for place, source in enumerate(select.sources) if source.matches(series.path.device))


def text(value: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return exp.Literal.string(value).sql("spark")


def of_device(device: str, value: str) -> str:
    """Return SQL of a value where the row is of a device, else NULL."""
    return f"CASE WHEN device = {text(device)} THEN {value} END"


def of_devices(devices: frozenset[str], value: str) -> str:
    """Return SQL of a value where the row is of one of some devices, else NULL."""
    if len(devices) == 1:
        return of_device(next(iter(devices)), value)
    return f"CASE WHEN device IN ({', '.join(map(text, sorted(devices)))}) THEN {value} END"
