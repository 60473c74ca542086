"""A query over the tree as Spark SQL: all its series at once (IoTDB A3).

The SQL reads one view of points: ``device``, ``ts`` and a column per column of the tables, each device's
points in rows of their own. Aggregates group these rows by window (and device); raw series that are
aligned by time are first put side by side, a row per instant.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.compute.tree import row_windows
from lakestream.compute.tree.expand import control_of, expansions, outputs
from lakestream.compute.tree.fill import filled
from lakestream.compute.tree.rendering import Rendering
from lakestream.compute.tree.series_types import check_condition, type_of
from lakestream.compute.tree.used import UsedSeries, of_devices, text
from lakestream.compute.tree.where import Where
from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.expressions import aggregate_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.compute.tree.expand import Output
    from lakestream.compute.tree.time_windows import Windows
    from lakestream.compute.tree.used import Scan
    from lakestream.language.iotdb.paths import Path, Series
    from lakestream.language.iotdb.values import Instant, Select

_MAX_WINDOWS = 10_000_000


class SeriesQuery:
    """A SELECT, resolved against the series there are.

    ``windows`` are None without GROUP BY time; ``instant`` gives a written time in microseconds; ``now_us``
    is what ``now()`` stands for; ``[lower, upper)`` (µs) are the only times that points are taken of, None
    for no bound. The SQL reads the views ``points`` (what ``scans`` says) and ``result`` (what ``sql``
    gives), which ``number`` tells from those of other queries. Raises StatementError SERIES_TYPE,
    SERIES_AMBIGUOUS, ALIAS_OF_MANY, TIME_CONDITION, ARGUMENT_KIND or GROUP_BY_TOO_FINE.
    """

    def __init__(
        self,
        select: Select,
        series: Sequence[Series],
        *,
        windows: Windows | None,
        instant: Callable[[Instant], int],
        now_us: int,
        bounds: tuple[int | None, int | None] = (None, None),
        number: int = 0,
    ) -> None:
        self.points, self.result = f"ls_points_{number}", f"ls_result_{number}"
        self.select = select
        self.windows = windows
        self.bounds = bounds
        self._series = series
        by_device = "device" if select.by_device else ""
        # Where devices are pooled, the device orders after the time.
        order = "struct(ts AS t, device AS d)" if select.levels else "ts"
        self._rendering = Rendering(order, by_device, instant, now_us)
        self._used = UsedSeries()
        self.outputs = self._sliced(outputs(select, series))
        for output in self.outputs:
            self._used.use(output.operands)
        if windows is not None and windows.count > _MAX_WINDOWS:
            raise StatementError(
                "GROUP_BY_TOO_FINE",
                f"GROUP BY would make {windows.count:,} windows",
                hint=f"at most {_MAX_WINDOWS:,}",
                place=place_of(select.text),
            )
        self._having = self._having_outputs()
        self._control = control_of(select, series)
        if self._control is not None:
            self._used.use(self._control.operands)
        self.devices = self._used.devices(select)
        self.sql = self._sql() if self.outputs else ""

    def _sliced(self, found: list[Output]) -> list[Output]:
        """Return the columns that SOFFSET and SLIMIT leave. Raises StatementError BAD_NUMBER for none."""
        select = self.select
        if found and select.columns_from >= len(found):
            raise StatementError(
                "BAD_NUMBER",
                f"SOFFSET {select.columns_from} is beyond the {len(found)} columns of the result",
                place=place_of(select.text),
            )
        upto = None if select.columns is None else select.columns_from + select.columns
        return found[select.columns_from : upto]

    @property
    def aggregates(self) -> bool:
        """Whether the result is of aggregates."""
        return any(item.expression.aggregates for item in self.select.items)

    @property
    def types(self) -> list[str]:
        """The IoTDB types of the columns ``c0``, ``c1``, …."""
        return [type_of(output) for output in self.outputs]

    @property
    def has_time(self) -> bool:
        """Whether the rows of the result have a time."""
        return not self.aggregates or self.windows is not None or self.select.cut is not None

    def most_rows(self, points: int) -> int:
        """Return how many rows the result has at most, from so many rows of points."""
        if not self.aggregates or self.select.cut is not None:
            return points
        devices = len(self.devices) if self.select.by_device else 1
        return devices * (self.windows.count if self.windows is not None else 1)

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns as IoTDB calls them."""
        time = ["Time"] if self.has_time else []
        device = ["Device"] if self.select.by_device else []
        return [*time, *device, *(output.name for output in self.outputs)]

    @property
    def scans(self) -> list[Scan]:
        """What is to be read of each table."""
        return self._used.scans

    def filled(self, types: Sequence[str]) -> str:
        """Return the SQL of the rows after FILL, ORDER BY, LIMIT and OFFSET.

        It reads the view ``result``; ``types`` are the Spark types of its columns.
        """
        if self.select.latest:
            return self._latest
        fill, partition = self.select.fill, "PARTITION BY device" if self.select.by_device else ""
        names = [f"c{i}" for i in range(len(self.outputs))]
        if fill is not None and self.has_time:
            kinds = zip(names, types, strict=True)
            names = [f"{filled(fill, name, kind, partition)} AS {name}" for name, kind in kinds]
        device = ["device"] if self.select.by_device else []
        device_order = [f"{name} DESC" if self.select.device_descending else name for name in device]
        time = self._time_order if self.has_time else []
        order = [*time, *device_order] if self.select.by_time else [*device_order, *time]
        sql = f"SELECT {', '.join([*self._keys, *names])} FROM {self.result}"
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        if self.select.limit is not None:
            sql += f" LIMIT {self.select.limit}"
        return sql + (f" OFFSET {self.select.offset}" if self.select.offset else "")

    @property
    def _latest(self) -> str:
        """SQL of one row with the latest point of each column: its time ``t0`` and its value ``c0``, …."""
        times = [f"CASE WHEN c{i} IS NOT NULL THEN ts END" for i in range(len(self.outputs))]
        points = [f"max({time}) AS t{i}, max_by(c{i}, {time}) AS c{i}" for i, time in enumerate(times)]
        return f"SELECT {', '.join(points)} FROM {self.result}"

    @property
    def _time_order(self) -> list[str]:
        return ["ts DESC" if self.select.descending else "ts"]

    def _having_outputs(self) -> list[Output]:
        having = self.select.having
        if having is None:
            return []
        found = expansions(self.select, having, self._series)
        for output in found:
            check_condition(output, type_of(output), "HAVING")
            self._used.use(output.operands)
        return found

    # --- the SQL ---

    def _sql(self) -> str:
        points = self._points()
        if not self.aggregates:
            return self._raw(points)
        rows = f"({self._used.aligned(points)})" if self._side_by_side else f"({points})"
        where, label, keys = self._cut(rows) if self.select.cut is not None else self._windowed(rows)
        columns = [f"{self._column(output)} AS c{i}" for i, output in enumerate(self.outputs)]
        device = ["device"] if self.select.by_device else []
        head = [*([f"{label} AS at"] if label else []), *device]
        grouped = [*keys, *device]
        sql = f"SELECT {', '.join([*head, *columns])} FROM {where}"
        sql += f" GROUP BY {', '.join(grouped)}" if grouped else ""
        having = [f"({self._column(output)})" for output in self._having]
        if self.select.cut is not None and row_windows.kept(self.select.cut):
            having.append(row_windows.kept(self.select.cut))
        sql += f" HAVING {' AND '.join(having)}" if having else ""
        shown = [*(["at AS ts"] if label else []), *device, *(f"c{i}" for i in range(len(columns)))]
        sql = f"SELECT {', '.join(shown)} FROM ({sql})"
        # A condition on series that are not there holds for no row.
        is_never = self.select.having is not None and not self._having
        return f"{sql} WHERE false" if is_never or self._has_no_windows else sql

    @property
    def _has_no_windows(self) -> bool:
        """Whether windows would be cut by a series that is not there."""
        cut = self.select.cut
        return cut is not None and cut.expression is not None and self._control is None

    def _cut(self, rows: str) -> tuple[str, str, list[str]]:
        """Return rows with the windows that they cut, the windows' label, and what to group by."""
        group = self.select.cut
        assert group is not None
        names = self._names
        some = " OR ".join(f"{name} IS NOT NULL" for name in names)
        pointed = f"(SELECT * FROM {rows} WHERE {some})"
        control = "NULL" if self._control is None else self._column(self._control)
        partition = "device" if self.select.by_device else ""
        return row_windows.cut(group, pointed, control, partition), "min(ts)", ["k"]

    @property
    def _names(self) -> list[str]:
        """The columns of the rows that are put into windows."""
        return self._used.aligned_columns if self._side_by_side else self._used.columns

    def _raw(self, points: str) -> str:
        by_device = self.select.by_device
        rows = points if by_device else self._used.aligned(points)
        columns = [f"{self._column(output)} AS c{i}" for i, output in enumerate(self.outputs)]
        some = " OR ".join(f"c{i} IS NOT NULL" for i in range(len(columns)))
        selected = ", ".join([*self._keys, *columns])
        return f"SELECT * FROM (SELECT {selected} FROM ({rows})) WHERE {some}"

    @property
    def _keys(self) -> list[str]:
        return [*(["ts"] if self.has_time else []), *(["device"] if self.select.by_device else [])]

    def _points(self) -> str:
        """Return the points that the query looks at: within the bounds, and where WHERE holds."""
        source = self.points
        where = Where(self.select, self._series, self.devices, self._used, self._rendering)
        lookups = [f"{sql} AS {name}" for name, sql in where.lookups.items()]
        if lookups:
            source = f"(SELECT *, {', '.join(lookups)} FROM {self.points})"
        lower, upper = self.bounds
        conditions = [f"({where.sql})"] if where.sql else []
        conditions += [f"ts >= timestamp_micros({lower})"] if lower is not None else []
        conditions += [f"ts < timestamp_micros({upper})"] if upper is not None else []
        sql = f"SELECT device, ts, {', '.join(self._used.columns)} FROM {source}"
        return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    @cached_property
    def _side_by_side(self) -> bool:
        """Whether the series are put side by side: raw ones by time, and aggregates over several devices."""
        if self.select.by_device or self.select.levels:
            return False
        if not self.aggregates or self.select.cut is not None:
            return True
        return any(map(_crosses_devices, [*self.outputs, *self._having]))

    # --- windows ---

    def _windowed(self, rows: str) -> tuple[str, str, list[str]]:
        """Return rows with their windows, the windows' label, and what to group by.

        A row without points stands in every window (of every device): empty windows are in the result.
        """
        windows = self.windows
        if windows is None:
            return rows, "", []
        by_device = self.select.by_device
        names = self._names
        kept = [*([] if self._side_by_side else ["device"]), "ts", *names]
        empty = [
            *([] if self._side_by_side else ["d.device" if by_device else "NULL"]),
            *["NULL"] * (len(names) + 1),
        ]
        grid = f"(SELECT {', '.join(['w.k', *empty])} FROM {windows.every}"
        grid += f" CROSS JOIN (SELECT explode({_texts(self.devices)}) AS device) d)" if by_device else ")"
        inside = f"(SELECT {', '.join(['k', *kept])} FROM {windows.assigned(rows)})"
        return f"({inside} UNION ALL {grid})", windows.label, ["k"]

    # --- expressions ---

    def _column(self, output: Output) -> str:
        tree = output.expression.tree()
        sql = self._rendering.sql(output, tree, lambda n: self._operand(output, n))
        if not (self.select.by_device and self.aggregates and output.operands):
            return sql
        having_all = frozenset.intersection(*(operand.devices for operand in output.operands))
        # A device without the series has no value, and no count of 0 either.
        return sql if having_all.issuperset(map(str, self.devices)) else of_devices(having_all, sql)

    def _operand(self, output: Output, number: int) -> str:
        operand = output.operands[number]
        columns = (self._used.side_by_side if self._side_by_side else self._used.among_points)(operand)
        if operand.pools_measurements and not output.expression.counts_times:
            columns = [" + ".join(f"CAST({column} IS NOT NULL AS INT)" for column in columns)]
        elif len(operand.types) > 1:
            columns = [f"CAST({column} AS STRING)" for column in columns]
        value = columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"
        if self._side_by_side or self.select.by_device:
            return value
        return of_devices(operand.devices, value)


def _crosses_devices(output: Output) -> bool:
    """Tell whether an aggregate is over an expression of series of several devices."""
    expression, tree = output.expression, output.expression.tree()
    for call in aggregate_calls(expression, tree):
        devices = {
            device for number in expression.path_numbers(call) for device in output.operands[number].devices
        }
        if len(devices) > 1:
            return True
    return False


def _texts(paths: Iterable[Path]) -> str:
    return f"array({', '.join(text(str(path)) for path in paths)})"
