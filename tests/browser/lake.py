"""A lake that shows a page what a test wants to see, behind the real HTTP API."""

from __future__ import annotations

import math
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.result import Result
from lakestream.errors import Place, StatementError
from lakestream.server.shown.documents import (
    DeliveryDocument,
    EventDocument,
    FailureDocument,
    LakeDocument,
    LineageDocument,
    OwnerDocument,
    QueryDocument,
    QueryNode,
    RecalculationDocument,
    RunDocument,
    StreamDetails,
    StreamDocument,
    StreamNode,
    TableNode,
)
from lakestream.storage.records.registry import Recalculation
from tests.unit.cli.conftest import verification

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lakestream.observation.verify import Verification

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
EVIL = "<img src=x onerror=document.title='hurt'>"
HOURLY = "CREATE STREAM hourly INTERVAL(1h) SLIDING(1h)\n  FROM power PARTITION BY tbname INTO power_hourly\n"


def stream(name: str, **changes: Any) -> dict[str, Any]:
    """Return a stream that is well, with changes."""
    well: dict[str, Any] = {
        "database": "main",
        "name": name,
        "status": "Running",
        "tick": 40,
        "version": 41,
        "lag": 0,
        "lag_seconds": None,
        "rows_in": 1_336_776,
        "rows_out": 19_483,
        "late": 12,
        "rows_per_second": 1_204.5,
        "last_tick_at": NOW,
        "last_tick_seconds": 0.18,
        "next_due_at": None,
        "recalculating": None,
        "held_back": None,
        "why": "",
        "last_error": None,
        "retry_at": None,
        "waiting_groups": [],
        "doing": None,
        "begun_at": None,
        "waits_for_turn": False,
        "expectations": [],
        "quarantines": [],
        "sources": ["main.power"],
        "output": f"main.{name}_out",
        "trigger": "INTERVAL(1h) SLIDING(1h)",
    }
    return {**well, **changes}


STREAMS = [
    stream("hourly", output="main.power_hourly", recalculating="2 of 5 parts"),
    stream("alarms", trigger="EVENT_WINDOW(START WITH watts > 9000 …)", lag=3, lag_seconds=75.0),
    stream(
        "daily",
        status="Failed",
        sources=["main.power_hourly"],
        trigger="INTERVAL(1d) SLIDING(1d)",
        last_error="CHANGES_LOST: the changes of version 7 of power are gone (RECALCULATE STREAM main.daily "
        "RESYNC)",
    ),
    stream("report", trigger="PERIOD(10m)", next_due_at=NOW + timedelta(minutes=10), rows_per_second=0.0),
    stream("mirror", status="Retrying", retry_at=NOW + timedelta(seconds=30), last_error="STORAGE: away"),
    stream("old", status="Stopped", tick=None, version=None, last_tick_at=None, last_tick_seconds=None),
    stream(EVIL, output="main.evil", sources=["main.weather"]),
]


class ShownLake:
    """Stands for the daemon's reader and for the lakes of its statements; ``asked`` notes what was said."""

    def __init__(self) -> None:
        self.streams_shown = list(STREAMS)
        self.queries_shown: list[QueryDocument] = []
        self.asked: list[tuple[Any, ...]] = []
        self.ticks = 40
        self.events_shown = [event(number) for number in range(3)]
        self.database = "main"
        self.answers: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {
            "SHOW DATABASES": (["name"], [("main",)]),
            "SHOW `main`.STABLES": (["stable_name"], [("power",)]),
            "SHOW `main`.TABLES": (["table_name", "stable_name"], [("drill", "power"), ("weather", None)]),
            "DESCRIBE `main`.`power`": (["field"], [("ts",), ("watts",)]),
            "EXPLAIN STREAM `main`.`hourly`": (
                ["stage", "what"],
                [("tick", "41 (changes)"), ("write", "one commit")],
            ),
            "SELECT ts": (["ts", "watts"], [(NOW - timedelta(hours=n), 700.0 + n) for n in range(3)]),
        }

    # --- what the reader answers ---

    def lake(self) -> LakeDocument:
        owner = OwnerDocument(pid=4711, host="plant", since=NOW)
        return LakeDocument(
            root="/srv/lakes/power", timezone="Europe/Helsinki", version="0.1.0", owner=owner, now=NOW
        )

    def streams(self) -> list[StreamDocument]:
        return [StreamDocument(**one) for one in self.streams_shown]

    def _of(self, name: str) -> dict[str, Any]:
        for one in self.streams_shown:
            if f"{one['database']}.{one['name']}" == name:
                return one
        raise StatementError("STREAM_NOT_FOUND", f"there is no stream {name}", hint="did you mean hourly?")

    def stream(self, name: str) -> StreamDetails:
        one = self._of(name)
        failed = FailureDocument(
            at=NOW, code="CALCULATION_FAILED", message="line 3, column 22: a division\nof a text"
        )
        days = [NOW - timedelta(hours=30), NOW - timedelta(hours=20)]
        job = RecalculationDocument.model_validate(
            {
                "id": "r",
                "from": days[0],
                "to": days[1],
                "done": 2,
                "parts": 5,
                "rows": 340,
                "status": "Running",
            }
        )
        is_busy = one["name"] == "hourly"
        return StreamDetails(
            **one,
            sql=f"{HOURLY}  AS SELECT _twstart AS hour, avg(watts) AS mean FROM %%trows",
            created_at=NOW,
            recalculations=[job] if is_busy else [],
            errors=[failed] if is_busy else [],
            errors_table="main.hourly__errors" if is_busy else None,
            newest=NOW + timedelta(minutes=90) if is_busy else None,
        )

    def runs(self, name: str, limit: int) -> list[RunDocument]:
        if self._of(name)["tick"] is None:
            return []
        return [run(tick) for tick in range(self.ticks, 0, -1)][:limit]

    def queries(self) -> list[QueryDocument]:
        return self.queries_shown

    def lineage(self, reaches: Callable[[str], bool]) -> LineageDocument:
        del reaches
        kinds = {"main.power": "super table", "main.weather": "table"}
        kinds |= {one["output"]: "output" for one in self.streams_shown}
        kinds |= {"root.means": "table"} if self.queries_shown else {}
        kinds = {source: "table" for one in self.streams_shown for source in one["sources"]} | kinds
        return LineageDocument(
            tables=[TableNode(name=name, kind=kind) for name, kind in sorted(kinds.items())]
            if self.streams_shown
            else [],
            streams=[
                StreamNode(
                    name=f"{one['database']}.{one['name']}", reads=one["sources"], writes=one["output"]
                )
                for one in self.streams_shown
            ],
            queries=[QueryNode(name="means", reads=["main.power"], writes=["root.means"])]
            if self.queries_shown
            else [],
        )

    def events(self, stream: str | None, after: str | None, limit: int) -> list[EventDocument]:
        del after
        return self.events_shown[:limit] if stream in (None, "main.hourly") else []

    # --- what the lakes of statements do ---

    async def run(
        self,
        work: Callable[[ShownLake], Any],
        gone: object,
        sent: object,
        *,
        yes: bool = False,
        limited: bool = True,
    ) -> Any:
        del gone, sent, yes, limited
        return work(self)

    def restrict(self, databases: tuple[str, ...], asker: str | None = None) -> None:
        del databases, asker

    def noting(self, *_: str) -> AbstractContextManager[None]:
        return nullcontext()

    def newest_results(self, stream: str, limit: int, *, windows: bool) -> pa.Table:
        assert windows
        if self._of(stream)["tick"] is None:
            raise StatementError("TABLE_NOT_FOUND", f"there is no table of {stream}")
        hours = [NOW - timedelta(hours=number) for number in range(48)]
        rows: list[dict[str, Any]] = [
            {"tbname": hall, "hour": hour, "mean": value(number, phase), "n": 60 - number % 3}
            for number, hour in enumerate(hours)
            for phase, hall in enumerate(("hall A", "hall B", EVIL))
        ]
        types = {"tbname": pa.string(), "hour": pa.timestamp("us", "UTC"), "mean": pa.float64()}
        for row in rows:
            again = row["n"] == 58
            row["window"] = {"start": row["hour"], "end": row["hour"] + timedelta(hours=1), "again": again}
        time = pa.timestamp("us", "UTC")
        window = pa.struct([("start", time), ("end", time), ("again", pa.bool_())])
        return pa.Table.from_pylist(rows[:limit], pa.schema({**types, "n": pa.int64(), "window": window}))

    def sql(self, text: str, dialect: str = "tdengine", limit: int | None = None) -> Result:
        del dialect, limit
        for asked, (columns, rows) in self.answers.items():
            if text.startswith(asked):
                return Result(columns, rows)
        if text.startswith("SELECT wrong"):
            place = Place(1, 8, 5)
            raise StatementError(
                "NO_COLUMN", "there is no column wrong", hint="did you mean watts?", place=place
            )
        self.asked.append((text,))
        return Result(message="done")

    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> Verification:
        self.asked.append((stream, start, end))
        return verification(93, 93)

    def recalculate(
        self, stream: str, start: str | None = None, end: str | None = None, *, resync: bool = False
    ) -> Recalculation:
        if not resync and (start is None or start > "2030"):
            raise StatementError("BAD_RANGE", "the range lies in the future", hint="begin before now")
        self.asked.append((stream, start, end))
        return Recalculation("asked", "uuid", None, None, resync, "Waiting", to_micros(NOW))


def value(number: int, phase: int) -> float:
    return 500 + 200 * math.sin(number / 4 + phase) + 40 * phase


def run(tick: int) -> RunDocument:
    """Return a tick, some of them late, behind or failed."""
    return RunDocument(
        tick=tick,
        kind="changes",
        at=NOW - timedelta(minutes=40 - tick),
        seconds=0.15 + 0.05 * (tick % 5),
        rows_in=1_000,
        rows_out=10,
        windows=10,
        late=tick % 7 if tick % 3 == 0 else 0,
        violated=0,
        lag=max(0, 6 - abs(tick - 20)),
        error="STORAGE: away" if tick == 11 else None,
    )


def event(number: int) -> EventDocument:
    return EventDocument(
        id=f"{number}-0",
        stream="main.hourly",
        at=NOW + timedelta(seconds=number),
        type="WINDOW_CLOSE",
        group="17",
        event={"tableName": EVIL, "windowStart": 1_740_830_400_000, "result": {"mean": number}},
        deliveries=[DeliveryDocument(target="wss://plant.example/alarms", state="sent")],
    )
