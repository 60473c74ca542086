"""A query over the tree as Spark SQL: all its series at once (IoTDB A3).

The SQL reads one view of points: ``device``, ``ts`` and a column per column of the tables, each device's
points in rows of their own. Aggregates group these rows by window (and device); raw series that are
aligned by time are first put side by side, a row per instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.tree import row_windows, series_functions
from lakestream.compute.tree.expand import (
    Operand,
    Output,
    control_of,
    expansions,
    one_each,
    outputs,
    refuse_types,
)
from lakestream.compute.tree.fill import filled
from lakestream.compute.tree.series_types import NUMBERS, Typing, type_of
from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.expressions import (
    AT,
    END_TIME,
    KEEP,
    NOW,
    SPAN,
    TIME,
    aggregate_calls,
    arguments_of,
    call_of,
    number_of,
)
from lakestream.language.iotdb.functions import AGGREGATES, SCALARS
from lakestream.language.iotdb.types import SPARK_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.paths import Path, Series
    from lakestream.language.iotdb.values import Instant, Select

_MAX_WINDOWS = 10_000_000
_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class Scan:
    """What is read of one table: its columns by the name they have among the points, and its devices."""

    table: str
    columns: tuple[tuple[str, str], ...]
    devices: frozenset[str]


@dataclass(frozen=True)
class Windows:
    """The windows of GROUP BY in a range (µs): ``count`` of them, or their bounds where months are meant."""

    lower: int
    upper: int
    interval: int
    step: int
    bounds: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        """How many windows start within the range."""
        return len(self.bounds) if self.bounds else max(0, -(-(self.upper - self.lower) // self.step))


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
        self._instant = instant
        self._now_us = now_us
        self._slots: dict[tuple[str, str], str] = {}
        self._used: dict[Series, None] = {}
        self.outputs = outputs(select, series)
        for output in self.outputs:
            for operand in output.operands:
                self._use(operand)
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
            for operand in self._control.operands:
                self._use(operand)
        self.devices = self._devices()
        self.sql = self._sql() if self.outputs else ""

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
        found: dict[str, tuple[dict[tuple[str, str], None], set[str]]] = {}
        for series in self._used:
            columns, devices = found.setdefault(series.table, ({}, set()))
            columns[series.column, self._slots[series.column, series.type]] = None
            devices.add(series.device)
        return [
            Scan(table, tuple(columns), frozenset(devices)) for table, (columns, devices) in found.items()
        ]

    def filled(self, types: Sequence[str]) -> str:
        """Return the SQL of the rows after FILL, ORDER BY, LIMIT and OFFSET.

        It reads the view ``result``; ``types`` are the Spark types of its columns.
        """
        fill, partition = self.select.fill, "PARTITION BY device" if self.select.by_device else ""
        names = [f"c{i}" for i in range(len(self.outputs))]
        if fill is not None and self.has_time:
            kinds = zip(names, types, strict=True)
            names = [f"{filled(fill, name, kind, partition)} AS {name}" for name, kind in kinds]
        device = ["device"] if self.select.by_device else []
        time = self._time_order if self.has_time else []
        order = [*time, *device] if self.select.by_time else [*device, *time]
        sql = f"SELECT {', '.join([*self._keys, *names])} FROM {self.result}"
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        if self.select.limit is not None:
            sql += f" LIMIT {self.select.limit}"
        return sql + (f" OFFSET {self.select.offset}" if self.select.offset else "")

    @property
    def _time_order(self) -> list[str]:
        return ["ts DESC" if self.select.descending else "ts"]

    # --- series and their columns ---

    def _use(self, operand: Operand) -> None:
        for series in operand.series:
            self._used[series] = None
            key = (series.column, series.type)
            self._slots.setdefault(key, f"v{len(self._slots)}")

    def _devices(self) -> list[Path]:
        """Return the devices that have one of the measurements, by FROM and then by their creation."""
        found = sorted(self._used, key=lambda series: series.order)
        if self.select.by_device:
            found.sort(key=self._place_in_from)
        return list(dict.fromkeys(series.path.device for series in found))

    def _place_in_from(self, series: Series) -> int:
        sources = enumerate(self.select.sources)
        return next(place for place, source in sources if source.matches(series.path.device))

    def _having_outputs(self) -> list[Output]:
        having = self.select.having
        if having is None:
            return []
        found = expansions(self.select, having, self._series)
        for output in found:
            _check_condition(output, type_of(output), "HAVING")
            for operand in output.operands:
                self._use(operand)
        return found

    # --- the SQL ---

    def _sql(self) -> str:
        points = self._points()
        if not self.aggregates:
            return self._raw(points)
        rows = f"({self._wide(points)})" if self._side_by_side else f"({points})"
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
        if self._side_by_side:
            return [f"s{i}" for i in range(len(self._used))]
        return list(self._slots.values())

    def _raw(self, points: str) -> str:
        by_device = self.select.by_device
        rows = points if by_device else self._wide(points)
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
        condition = self._where()
        lookups = [f"{sql} AS {name}" for name, sql in self._lookups.items()]
        if lookups:
            source = f"(SELECT *, {', '.join(lookups)} FROM {self.points})"
        lower, upper = self.bounds
        conditions = [f"({condition})"] if condition else []
        conditions += [f"ts >= timestamp_micros({lower})"] if lower is not None else []
        conditions += [f"ts < timestamp_micros({upper})"] if upper is not None else []
        slots = list(self._slots.values())
        sql = f"SELECT device, ts, {', '.join(slots)} FROM {source}"
        return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _wide(self, points: str) -> str:
        """Put the series side by side: a row per instant, ``s0``, ``s1``, … in the order of their use."""
        columns = [
            f"any_value({_of_device(series.device, self._slot(series))}, true) AS s{i}"
            for i, series in enumerate(self._used)
        ]
        return f"SELECT ts, {', '.join(columns)} FROM ({points}) GROUP BY ts"

    @cached_property
    def _side_by_side(self) -> bool:
        """Whether the series are put side by side: raw ones by time, and aggregates over several devices."""
        if self.select.by_device or self.select.levels:
            return False
        if not self.aggregates or self.select.cut is not None:
            return True
        return any(map(_crosses_devices, [*self.outputs, *self._having]))

    @cached_property
    def _places(self) -> dict[Series, int]:
        """Where each series stands among those that are put side by side."""
        return {series: place for place, series in enumerate(self._used)}

    def _slot(self, series: Series) -> str:
        return self._slots[series.column, series.type]

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
        grid = f"(SELECT {', '.join(['w.k', *empty])} FROM {self._grid}"
        grid += (
            f" CROSS JOIN (SELECT explode({_texts(map(str, self.devices))}) AS device) d)"
            if by_device
            else ")"
        )
        inside = f"(SELECT {', '.join(['k', *kept])} FROM {self._assigned(rows)})"
        label = (
            "timestamp_micros(k)"
            if windows.bounds
            else f"timestamp_micros({windows.lower} + k * {windows.step})"
        )
        return f"({inside} UNION ALL {grid})", label, ["k"]

    @property
    def _grid(self) -> str:
        windows = self.windows
        assert windows is not None
        if windows.bounds:
            return f"(SELECT explode(array({', '.join(f'{start}L' for start, _ in windows.bounds)})) AS k) w"
        return f"(SELECT id AS k FROM range({windows.count})) w"

    def _assigned(self, rows: str) -> str:
        """Return each row once for each window that it lies in: windows may overlap, or leave gaps."""
        windows = self.windows
        assert windows is not None
        at = "unix_micros(ts)"
        if windows.bounds:
            each = ", ".join(f"struct({start}L AS f, {end}L AS t)" for start, end in windows.bounds)
            return (
                f"(SELECT *, w.f AS k FROM (SELECT *, explode(filter(array({each}), "
                f"x -> x.f <= {at} AND {at} < x.t)) AS w FROM {rows}))"
            )
        since = f"({at} - {windows.lower})"
        last = f"least({windows.count - 1}L, {since} div {windows.step})"
        if windows.interval == windows.step:
            return f"(SELECT *, {last} AS k FROM {rows})"
        ahead = -(-windows.interval // windows.step)
        shift = ahead * windows.step - windows.interval
        first = f"greatest(0L, ({since} + {shift}) div {windows.step} - {ahead - 1})"
        bounded = f"(SELECT *, {first} AS lo, {last} AS hi FROM {rows})"
        return f"(SELECT *, explode(sequence(lo, hi)) AS k FROM {bounded} WHERE lo <= hi)"

    # --- expressions ---

    def _column(self, output: Output) -> str:
        tree = output.expression.tree()
        sql = self._rendered(output, tree, lambda n: self._operand(output, n))
        if not (self.select.by_device and self.aggregates and output.operands):
            return sql
        having_all = frozenset.intersection(*(operand.devices for operand in output.operands))
        # A device without the series has no value, and no count of 0 either.
        return sql if having_all.issuperset(map(str, self.devices)) else _of_devices(having_all, sql)

    def _operand(self, output: Output, number: int) -> str:
        operand = output.operands[number]
        if self._side_by_side:
            columns = [f"s{self._places[series]}" for series in operand.series]
        else:
            columns = list(dict.fromkeys(map(self._slot, operand.series)))
        if len(operand.types) > 1:
            columns = [f"CAST({column} AS STRING)" for column in columns]
        value = columns[0] if len(columns) == 1 else f"coalesce({', '.join(columns)})"
        if self._side_by_side or self.select.by_device:
            return value
        return _of_devices(operand.devices, value)

    @property
    def _order(self) -> str:
        """What orders the points of an aggregate: where devices are pooled, the device after the time."""
        return "struct(ts AS t, device AS d)" if self.select.levels else "ts"

    def _rendered(self, output: Output, node: exp.Expr, operand: Callable[[int], str]) -> str:
        """Return a part of the tree of a column (or condition) as Spark SQL."""
        expression = output.expression

        def sql(part: exp.Expr) -> str:
            return self._rendered(output, part, operand)

        if isinstance(node, _COMPARISONS) and _names_time(node):
            return self._time_compared(expression, node)
        if isinstance(node, exp.Between | exp.In) and _names_time(node):
            raise expression.error("TIME_CONDITION", "time is compared by <, <=, >, >=, = or !=")
        if isinstance(node, exp.Column):
            if node.name == END_TIME:
                return "max(ts)"
            number = number_of(node)
            if number is None:
                raise expression.error("TIME_CONDITION", "time is compared with an instant")
            return operand(number)
        if isinstance(node, exp.Case):
            return _case(node, SPARK_TYPES[Typing(output).of(node)], sql)
        if isinstance(node, exp.Anonymous):
            return self._call(output, node, sql)
        return _operator(node, sql)

    def _call(self, output: Output, node: exp.Anonymous, sql: Callable[[exp.Expr], str]) -> str:
        expression = output.expression
        name = call_of(expression, node)
        if name is None:
            raise expression.error("TIME_CONDITION", "an instant or duration is compared with time")
        given, attributes = arguments_of(node)
        if name == "count_if":
            ignores_null = attributes.get("ignoreNull", "true").lower() == "true"
            keep = _keep(expression, given[1])
            return series_functions.runs(sql(given[0]), keep, self._order, ignores_null=ignores_null)
        if name in ("max_by", "min_by") and isinstance(given[0], exp.Column) and given[0].name == TIME:
            arguments = ["unix_millis(ts)", sql(given[1])]
        else:
            arguments = [sql(argument) for argument in given]
        if name in AGGREGATES:
            return series_functions.AGGREGATES[name](arguments, self._order)
        if SCALARS[name].over_rows:
            partition = "device" if self.select.by_device else ""
            return series_functions.around(name, arguments[0], attributes, partition)
        if name == "cast":
            return series_functions.cast(
                arguments[0], Typing(output).of(given[0]), attributes["type"].upper()
            )
        _check_constants(expression, name, given)
        return series_functions.scalar(name, arguments, attributes)

    # --- WHERE ---

    def _where(self) -> str:
        """Return the condition on a row of points.

        A measurement alone is that of the row's own device; a longer path is one series, looked up at the
        row's time.
        """
        where = self.select.where
        self._lookups: dict[str, str] = {}
        if where is None:
            return ""
        operands = tuple(self._where_operand(where, path) for path in where.paths)
        condition = Output("", where, operands)
        if all(operand.series for operand in operands):
            _check_condition(condition, Typing(condition, mixed="DOUBLE").of(where.tree()), "WHERE")
        return self._rendered(condition, where.tree(), lambda number: self._where_value(operands[number]))

    def _where_operand(self, where: Expression, path: Path) -> Operand:
        if len(path.nodes) > 1:
            series = one_each(self.select, where, path, self._series)
            found = tuple(one for one in (series,) if one is not None)
        else:
            devices = set(self.devices)
            found = tuple(
                one
                for one in self._series
                if one.path.device in devices
                and any(path.below(source).matches(one.path) for source in self.select.sources)
            )
        operand = Operand(str(path), found)
        if not operand.types <= NUMBERS:
            refuse_types(operand, where)
        self._use(operand)
        return operand

    def _where_value(self, operand: Operand) -> str:
        """Return the value of the row's own device, or of the one series that a longer path names."""
        slots = list(dict.fromkeys(map(self._slot, operand.series)))
        if not slots:
            return "NULL"
        if "." not in operand.shown:
            return f"coalesce({', '.join(slots)})"
        name = f"l{len(self._lookups)}"
        value = _of_device(operand.series[0].device, slots[0])
        self._lookups[name] = f"any_value({value}, true) OVER (PARTITION BY ts)"
        return name

    def _time_compared(self, expression: Expression, node: exp.Expr) -> str:
        left, right = node.this, node.expression
        sign = _BINARY[type(node)]
        if not (isinstance(left, exp.Column) and left.name == TIME):
            left, right, sign = right, left, _MIRRORED[sign]
        if not (isinstance(left, exp.Column) and left.name == TIME) or _names_time(right):
            raise expression.error("TIME_CONDITION", "time stands alone on one side of a comparison")
        return f"ts {sign} timestamp_micros({self._micros(expression, right)})"

    def _micros(self, expression: Expression, node: exp.Expr) -> int:
        """Return a constant time in microseconds."""
        if isinstance(node, exp.Paren):
            return self._micros(expression, node.this)
        if isinstance(node, exp.Neg) and node.this.is_int:
            return self._instant(-int(node.this.name))
        if isinstance(node, exp.Literal) and (node.is_int or node.is_string):
            return self._instant(node.name if node.is_string else int(node.name))
        if isinstance(node, exp.Anonymous) and node.name in (AT, NOW):
            return self._now_us if node.name == NOW else self._instant(node.expressions[0].name)
        if isinstance(node, exp.Add | exp.Sub) and _is_span(node.expression):
            shift = int(node.expression.expressions[0].name)
            return self._micros(expression, node.this) + (shift if isinstance(node, exp.Add) else -shift)
        raise expression.error("TIME_CONDITION", "time is compared with an instant, or now() ± a duration")


def _check_condition(condition: Output, kind: str, clause: str) -> None:
    if kind != "BOOLEAN":
        raise condition.expression.error("SERIES_TYPE", f"{clause} takes a condition, not {kind}")


def _case(node: exp.Case, kind: str, sql: Callable[[exp.Expr], str]) -> str:
    """Return a CASE whose results are all of one Spark type."""
    parts = ["CASE", *([sql(node.this)] if node.this is not None else [])]
    parts += [
        f"WHEN {sql(branch.this)} THEN CAST({sql(branch.args['true'])} AS {kind})"
        for branch in node.args["ifs"]
    ]
    if node.args.get("default") is not None:
        parts.append(f"ELSE CAST({sql(node.args['default'])} AS {kind})")
    return f"({' '.join(parts)} END)"


_FORMS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Paren: ("({})", ("this",)),
    exp.Neg: ("(- {})", ("this",)),
    exp.Not: ("(NOT {})", ("this",)),
    exp.Between: ("({} BETWEEN {} AND {})", ("this", "low", "high")),
    exp.Is: ("({} IS {})", ("this", "expression")),
    exp.Like: ("({} LIKE {})", ("this", "expression")),
    exp.RegexpLike: ("({} RLIKE {})", ("this", "expression")),
    **{kind: (f"({{}} {sign} {{}})", ("this", "expression")) for kind, sign in _BINARY.items()},
}
_ON_DOUBLES: dict[type[exp.Expr], str] = {
    exp.Add: "({} + {})",
    exp.Sub: "({} - {})",
    exp.Mul: "({} * {})",
    exp.Div: "try_divide({}, {})",
    exp.Mod: "try_mod({}, {})",
}
"""Arithmetic is on doubles; a division by zero gives no point."""


def _operator(node: exp.Expr, sql: Callable[[exp.Expr], str]) -> str:
    """Return an operator or a literal as Spark SQL."""
    if type(node) in _ON_DOUBLES:
        return _ON_DOUBLES[type(node)].format(_double(sql(node.this)), _double(sql(node.expression)))
    if type(node) in _FORMS:
        form, parts = _FORMS[type(node)]
        text = form.format(*(sql(node.args[part]) for part in parts))
        # sqlglot reads NOT LIKE as one node.
        return f"(NOT {text})" if node.args.get("negate") else text
    if isinstance(node, exp.In):
        return f"({sql(node.this)} IN ({', '.join(map(sql, node.expressions))}))"
    return node.sql("spark")


def _double(sql: str) -> str:
    return f"CAST({sql} AS DOUBLE)"


def _names_time(node: exp.Expr) -> bool:
    return any(column.name == TIME for column in node.find_all(exp.Column))


def _is_span(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == SPAN


def _keep(expression: Expression, node: exp.Expr) -> str:
    """Return what count_if holds the length of a run to: ``n`` is ``keep >= n``."""
    if isinstance(node, exp.Literal) and node.is_int and int(node.name) > 0:
        return f">= {node.name}"
    if isinstance(node, _COMPARISONS) and isinstance(node.this, exp.Column) and node.this.name == KEEP:
        number = node.expression
        if isinstance(number, exp.Literal) and number.is_int:
            return f"{_BINARY[type(node)]} {number.name}"
    raise expression.error(
        "ARGUMENT_KIND",
        "count_if takes the least length of a run as a whole number, or keep with a comparison",
        hint="count_if(a > 1, 3)",
    )


def _check_constants(expression: Expression, name: str, arguments: Sequence[exp.Expr]) -> None:
    """Refuse an argument that is to be a constant and is none."""
    for argument in arguments[1:]:
        number = argument.this if isinstance(argument, exp.Neg) and name == "round" else argument
        is_number = isinstance(number, exp.Literal) and number.is_int
        if name == "round" and not is_number:
            raise expression.error("ARGUMENT_KIND", "round takes the number of places as a whole number")
        if name == "substring" and not (is_number and int(number.name) > 0):
            raise expression.error("ARGUMENT_KIND", "substring takes positive whole numbers")
        if name == "replace" and not (isinstance(argument, exp.Literal) and argument.is_string):
            raise expression.error("ARGUMENT_KIND", "replace takes two texts behind the series")


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


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("spark")


def _texts(values: Iterable[str]) -> str:
    return f"array({', '.join(map(_text, values))})"


def _of_device(device: str, value: str) -> str:
    return f"CASE WHEN device = {_text(device)} THEN {value} END"


def _of_devices(devices: frozenset[str], value: str) -> str:
    if len(devices) == 1:
        return _of_device(next(iter(devices)), value)
    return f"CASE WHEN device IN ({', '.join(map(_text, sorted(devices)))}) THEN {value} END"
