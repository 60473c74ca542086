"""WHERE of a query over the tree, on a row of points (IoTDB A3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.compute.tree.expand import Operand, Output, one_each, refuse_types
from lakestream.compute.tree.series_types import NUMBERS, Typing, check_condition
from lakestream.compute.tree.used import of_device

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lakestream.compute.tree.rendering import Rendering
    from lakestream.compute.tree.used import UsedSeries
    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.paths import Path, Series
    from lakestream.language.iotdb.values import Select


@dataclass
class Where:
    """The condition of a query on a row of points; it adds the series that it names to those ``used``.

    A measurement alone is that of the row's own device (one of ``devices``); a longer path is one series,
    looked up at the row's time: ``lookups`` are the columns that the condition reads beside those of the
    points, with their SQL. Raises StatementError SERIES_TYPE, SERIES_AMBIGUOUS, TIME_CONDITION.
    """

    select: Select
    series: Sequence[Series]
    devices: Collection[Path]
    used: UsedSeries
    rendering: Rendering
    lookups: dict[str, str] = field(init=False, default_factory=dict)
    sql: str = field(init=False, default="")

    def __post_init__(self) -> None:
        where = self.select.where
        if where is None:
            return
        operands = tuple(self._operand(where, path) for path in where.paths)
        condition = Output("", where, operands)
        if all(operand.series for operand in operands):
            check_condition(condition, Typing(condition, mixed="DOUBLE").of(where.tree()), "WHERE")
        self.sql = self.rendering.sql(condition, where.tree(), lambda number: self._value(operands[number]))

    def _operand(self, where: Expression, path: Path) -> Operand:
        if len(path.nodes) > 1:
            series = one_each(self.select, where, path, self.series)
            found = tuple(one for one in (series,) if one is not None)
        else:
            devices = set(self.devices)
            found = tuple(
                one
                for one in self.series
                if one.path.device in devices
                and any(path.below(source).matches(one.path) for source in self.select.sources)
            )
        operand = Operand(str(path), found)
        if not operand.types <= NUMBERS:
            refuse_types(operand, where)
        self.used.use([operand])
        return operand

    def _value(self, operand: Operand) -> str:
        """Return the value of the row's own device, or of the one series that a longer path names."""
        columns = self.used.among_points(operand)
        if not columns:
            return "NULL"
        if "." not in operand.shown:
            return f"coalesce({', '.join(columns)})"
        name = f"l{len(self.lookups)}"
        value = of_device(operand.series[0].device, columns[0])
        self.lookups[name] = f"any_value({value}, true) OVER (PARTITION BY ts)"
        return name
