"""What continuous queries over time series must write (IoTDB), execution by execution; times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = float | int | None
Points = dict[str, dict[int, float]]
"""The values of one measurement by device (in the order of their creation) and time."""
Table = list[tuple[int, str, list[Value]]]
"""The rows of a result: time, device (empty where rows have none) and the columns."""


@dataclass(frozen=True)
class Query:
    """A continuous query over the measurement ``s`` of devices below one path.

    ``align``: "device", "level" (all devices pooled), "time" (one column per device, for each function).
    ``functions`` are aggregates where there is an ``interval`` or a ``gap`` (a session's), else "s", "s + 1"
    or "diff". ``fill`` is "", "previous", "previous 5", "linear" or "7"; ``least`` is HAVING count(s) >= it.
    """

    align: str
    functions: tuple[str, ...]
    every: int
    start: int
    end: int = 0
    interval: int = 0
    step: int = 0
    gap: int = 0
    fill: str = ""
    least: int = 0
    where: int | None = None
    limit: int | None = None
    offset: int = 0
    discard: bool = False


@dataclass
class Running:
    """A continuous query as it runs: when it is due next, what it has written, and each of its writes.

    ``written`` is by target device and column; ``writes`` counts the points of each execution by device.
    """

    query: Query
    due: int
    written: dict[tuple[str, int, int], float] = field(default_factory=dict)
    writes: list[dict[str, int]] = field(default_factory=list)

    def advance(self, now: int, points: Points) -> None:
        """Execute all that is due; DISCARD goes on with the first instant that is not before now."""
        query = self.query
        while self.due <= now:
            self._write(executed(query, self.due, points))
            following = self.due + query.every
            if query.discard and following < now:
                following += -(-(now - following) // query.every) * query.every
            self.due = following

    def _write(self, rows: Table) -> None:
        counts: dict[str, int] = {}
        for time, device, values in rows:
            for place, value in enumerate(values):
                if value is not None:
                    target = device or f"column {place}"
                    self.written[target, time, 0 if not device else place] = float(value)
                    counts[target] = counts.get(target, 0) + 1
        self.writes.append(counts)


def first_due(query: Query, now: int) -> int:
    """Return the first instant at which a query that is made now is due: multiples of EVERY, now included."""
    return -(-now // query.every) * query.every


def executed(query: Query, due: int, points: Points) -> Table:
    """Return the result of the execution due at an instant."""
    lower, upper = due - query.start, due - query.end
    seen = {
        device: {
            time: value
            for time, value in sorted(own.items())
            if lower <= time < upper and (query.where is None or value >= query.where)
        }
        for device, own in points.items()
    }
    if query.align == "device":
        tables = [_of_device(query, device, seen[device], lower, upper) for device in sorted(seen)]
        parts = [_filled(query, table) for table in tables]
        rows = [row for part in parts for row in part]
    elif query.align == "level":
        # Of points of one time the device decides, by its name.
        pooled = sorted((time, device, value) for device, own in seen.items() for time, value in own.items())
        own = [(time, value) for time, _, value in pooled]
        rows = _filled(query, _windows(query, "", own, lower, upper))
    else:
        rows = _filled(query, _by_time(query, seen, lower, upper))
    last = None if query.limit is None else query.offset + query.limit
    return rows[query.offset : last]


def _of_device(query: Query, device: str, own: dict[int, float], lower: int, upper: int) -> Table:
    if query.interval or query.gap:
        return _windows(query, device, list(own.items()), lower, upper)
    return [(time, device, row) for time, row in _raw(query, own)]


def _raw(query: Query, own: dict[int, float]) -> list[tuple[int, list[Value]]]:
    rows, before = [], None
    for time, value in own.items():
        made: list[Value] = []
        for name in query.functions:
            if name == "diff":
                made.append(None if before is None else value - before)
            else:
                made.append(value + 1 if name == "s + 1" else value)
        before = value
        if any(one is not None for one in made):
            rows.append((time, made))
    return rows


def _by_time(query: Query, seen: Points, lower: int, upper: int) -> Table:
    """Put the devices side by side: for each function a column per device."""
    times: dict[int, list[Value]] = {}
    width = len(query.functions) * len(seen)
    for place, own in enumerate(seen.values()):
        one = (
            [(time, row) for time, _, row in _windows(query, "", list(own.items()), lower, upper)]
            if query.interval
            else _raw(query, own)
        )
        for time, row in one:
            target = times.setdefault(time, [None] * width)
            for number, value in enumerate(row):
                target[number * len(seen) + place] = value
    return [(time, "", times[time]) for time in sorted(times)]


def _windows(query: Query, device: str, own: list[tuple[int, float]], lower: int, upper: int) -> Table:
    """Return the windows of points, which are in order: from the range's start, or as a session cuts them."""
    windows = _sessions(query, own) if query.gap else _timed(query, own, lower, upper)
    return [
        (start, device, [aggregate(name, inside) for name in query.functions])
        for start, inside in windows
        if len(inside) >= query.least
    ]


def _timed(
    query: Query, own: list[tuple[int, float]], lower: int, upper: int
) -> list[tuple[int, list[float]]]:
    starts = range(lower, upper, query.step)
    return [
        (start, [value for time, value in own if start <= time < min(start + query.interval, upper)])
        for start in starts
    ]


def _sessions(query: Query, own: list[tuple[int, float]]) -> list[tuple[int, list[float]]]:
    found: list[tuple[int, list[float]]] = []
    last = None
    for time, value in own:
        if last is None or time - last > query.gap:
            found.append((time, []))
        found[-1][1].append(value)
        last = time
    return found


def aggregate(name: str, values: list[float]) -> Value:
    """Return an aggregate of values in the order of time."""
    if name == "count":
        return len(values)
    if not values:
        return None
    if name == "mode":
        return max(values, key=lambda value: (values.count(value), -values.index(value)))
    results = {
        "sum": sum(values),
        "avg": sum(values) / len(values),
        "first_value": values[0],
        "last_value": values[-1],
        "max_value": max(values),
    }
    return results[name]


def _filled(query: Query, rows: Table) -> Table:
    """Fill the columns of the rows of one device, or of all where rows have none."""
    if not query.fill:
        return rows
    times = [time for time, _, _ in rows]
    columns = [[row[place] for _, _, row in rows] for place in range(len(rows[0][2]))] if rows else []
    filled = [[_one(query.fill, times, column, place) for place in range(len(rows))] for column in columns]
    return [
        (time, device, [column[place] for column in filled]) for place, (time, device, _) in enumerate(rows)
    ]


def _one(fill: str, times: list[int], column: list[Value], place: int) -> Value:
    value = column[place]
    if value is not None:
        return value
    if fill == "7":
        return 7
    before = max((i for i in range(place) if column[i] is not None), default=None)
    after = min((i for i in range(place, len(column)) if column[i] is not None), default=None)
    if before is None:
        return None
    old = column[before]
    assert old is not None
    if fill.startswith("previous"):
        return old if fill == "previous" or times[place] - times[before] <= int(fill.split()[1]) else None
    if after is None:
        return None
    new = column[after]
    assert new is not None
    return old + (new - old) * (times[place] - times[before]) / (times[after] - times[before])
