"""Two meters, one stream over each of them by itself, and the rows that there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream.clock import Clock

    Row = tuple[int, int | None]
    Window = tuple[float, float, Sequence[Row]]
    """From a second to a second, as the output names them, and the rows in it."""
    Windows = Callable[[Sequence[Row]], Iterable[Window]]
    """The windows of a group's rows (second, value), which are in order."""

START = datetime(2025, 1, 1, tzinfo=UTC)
SECONDS, STATES = 60, (0, 1, 2, 3, None)


class World:
    """A lake with the meters, opened anew for each step; ``windows`` says what the stream is to write.

    ``statement`` makes the stream: its output o has tag_tbname, ws, we, n and total. Only rows up to the
    newest less ``watermark`` seconds count. ``clock`` is the machine's unless another is given.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        statement: str,
        windows: Windows,
        transport: str,
        *,
        watermark: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._folder, self._spark, self._transport, self._clock = folder, spark, transport, clock
        self._windows, self._watermark = windows, watermark
        self.rows: dict[tuple[str, int], int | None] = {}
        with self._opened() as lake:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (loc VARCHAR(8))")
            lake.sql(statement)

    def _opened(self) -> Lake:
        settings = Settings(transport=self._transport)
        return Lake(self._folder / "lake", spark=self._spark, settings=settings, clock=self._clock)

    def write(self, rows: dict[tuple[str, int], int | None]) -> None:
        """Insert or update rows."""
        self.rows |= rows
        with self._opened() as lake:
            lake.insert("meters", [_row(name, second, v) for (name, second), v in rows.items()])

    def delete(self, name: str, second: int) -> None:
        """Delete a row."""
        self.rows.pop((name, second), None)
        with self._opened() as lake:
            lake.sql(f"DELETE FROM meters WHERE tbname = '{name}' AND ts = '{_at(second).isoformat()}'")

    def tick(self) -> None:
        """Run to idle by a lake that was opened anew."""
        with self._opened() as lake:
            failed = lake.run().failed
            assert not failed, failed[0].error

    def run(self) -> None:
        """Run to idle, and compare."""
        self.tick()
        found = [(r["tag_tbname"], r["ws"], r["we"], r["n"], r["total"]) for r in self._output()]
        assert sorted(found) == self._expected()

    def windows(self) -> list[Any]:
        """Return the windows that the output has: name, first and last second, in order."""
        return sorted((r["tag_tbname"], _second(r["ws"]), _second(r["we"])) for r in self._output())

    def _output(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            DeltaTable(self._folder / "lake" / "main" / "o").to_pyarrow_table().to_pylist()
        )
        return rows

    def resynchronise(self) -> None:
        """Take everything from the source as it is."""
        with self._opened() as lake:
            lake.recalculate("s", resync=True)

    def recalculate(self, since: int, until: int) -> None:
        """Compute windows of a range again."""
        with self._opened() as lake:
            lake.recalculate("s", _at(since).isoformat(), _at(until).isoformat())

    def verify(self) -> None:
        """VERIFY finds what the reference says."""
        with self._opened() as lake:
            assert lake.verify("s").holds

    def _expected(self) -> list[tuple[Any, ...]]:
        expected = []
        for name in {name for name, _ in self.rows}:
            seconds = sorted(second for other, second in self.rows if other == name)
            mark = seconds[-1] - self._watermark
            rows = [(second, self.rows[name, second]) for second in seconds if second <= mark]
            expected += [_result(name, window) for window in self._windows(rows)]
        return sorted(expected)


def _at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def _second(instant: datetime) -> int:
    return round((instant - START).total_seconds())


def _row(name: str, second: int, v: int | None) -> dict[str, Any]:
    return {"tbname": name, "loc": "x", "ts": _at(second).isoformat(), "v": v}


def _result(name: str, window: Window) -> tuple[Any, ...]:
    low, high, rows = window
    values = [v for _, v in rows if v is not None]
    return (name, _at(low), _at(high), len(rows), sum(values) if values else None)


def from_first_to_last(windows: Iterable[Sequence[Row]]) -> list[Window]:
    """Return windows of rows as they are named where their rows alone make them."""
    return [(rows[0][0], rows[-1][0], rows) for rows in windows]
