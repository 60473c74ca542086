"""What is done to a lake while the power may go: steps, each of which somebody is told of when it is done."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from lakestream import Lake, ManualClock, Settings
from lakestream.errors import LakestreamError
from lakestream.notify.outbox import Outbox
from lakestream.storage.places.backup import restore
from lakestream.storage.places.layout import Layout
from lakestream.storage.tables.durable import force_commits
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Rows = dict[str, Counter[tuple[Any, ...]]]
"""What is in tables, by their names."""
EVENT = ("stream", "event_type", "group_id", "window_start", "window_end")
"""What is the same of an event in each lake."""
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CHEAP = {"durability": "process", "transport": "auto", "small_path": "auto"}
"""How a lake goes on after a cut, whoever wrote to it before."""


@dataclass(frozen=True)
class Step:
    """Something that is done, and how to see that it was; None: to do it once more changes nothing.

    ``until``: the number of the step that takes it back, counted from here. ``seconds``: what the clock goes
    on before.
    """

    do: Callable[[Lake], object]
    done: Callable[[Lake], bool] | None = None
    until: int | None = None
    seconds: float = 0


@dataclass(frozen=True)
class Scenario:
    """Steps in a lake; the tables they fill, and for some of them DuckDB's query that says with what.

    ``notifies``: events are made, for a target that is away: they are looked at too.
    """

    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    streams: tuple[str, ...] = ()
    oracle: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notifies: bool = False

    @contextmanager
    def opened(self, root: Path, told: int, **settings: object) -> Iterator[Lake]:
        """Open its lake when so many steps have been told; Spark is asked only where it is to compute."""
        clock = ManualClock(BEGIN + timedelta(seconds=sum(step.seconds for step in self.steps[:told])))
        asking = nullcontext() if "transport" in self.settings else without_spark()
        given = Settings(**{**self.settings, **settings})
        with asking, Lake(root, clock=clock, settings=given) as lake:
            yield lake

    def do(self, lake: Lake, number: int) -> None:
        """Do one step."""
        step = self.steps[number]
        assert isinstance(lake.clock, ManualClock)
        lake.clock.advance(timedelta(seconds=step.seconds))
        step.do(lake)

    def rows(self, lake: Lake) -> Rows:
        """Return what is in the tables that it fills, as far as they are there."""
        found: Rows = {}
        for name in self.outputs:
            with suppress(NoTableError):
                found[name] = Counter(tuple(row) for row in _asked(lake, f"SELECT * FROM {name}"))
        if self.notifies:
            outbox = Outbox(f"{lake.root}/_lakestream/outbox")
            events = [event for one in outbox.since(-1) for event in outbox.events(one).to_pylist()]
            found["the outbox"] = Counter(tuple(event[name] for name in EVENT) for event in events)
        return found

    def rows_by_step(self, root: Path) -> list[Rows]:
        """Do it all in a new lake, and return what is in its tables behind each step, all computed."""
        found: list[Rows] = []
        with self.opened(root, 0, **CHEAP) as lake:
            for number in range(len(self.steps)):
                self.do(lake, number)
                run(lake)
                found.append(self.rows(lake))
        return found

    def go_on(self, root: Path, told: int, end: int) -> Rows:
        """Open a lake after a cut, see that it has what was told, go on to a step, and return its rows."""
        with self.opened(root, told, **CHEAP) as lake:
            for number, step in enumerate(self.steps[: told + 1]):
                if step.done is None or (step.until is not None and told >= number + step.until):
                    continue
                if not step.done(lake):
                    assert number == told, f"step {number} of {told} that were told is lost"
                    self.do(lake, number)
            for number in range(told, end):
                if number > told or self.steps[number].done is None:
                    self.do(lake, number)
            run(lake)
            checked(lake)
            return self.rows(lake)


class NoTableError(Exception):
    """There is no such table."""


def _asked(lake: Lake, query: str) -> list[Any]:
    try:
        return list(lake.sql(query).fetchall())
    except LakestreamError as error:
        if error.code != "TABLE_NOT_FOUND":
            raise
        raise NoTableError from error


def verified(lake: Lake, streams: tuple[str, ...]) -> None:
    """Have lakestream compare the outputs of streams with their batch evaluation."""
    for name in streams:
        found = dict(lake.sql(f"VERIFY STREAM {name}").fetchall())
        assert found["differing rows"] == "0", found


def run(lake: Lake) -> None:
    """Do all that there is to do; nothing may fail."""
    errors = [tick.error for tick in lake.run().ticks if tick.error]
    assert not errors, f"ticks failed: {errors}"


def checked(lake: Lake) -> None:
    """Have lakestream look for damage; there may be none."""
    findings = [*lake.repair.check()]
    assert not findings, f"found: {findings}"


# --- steps ---


def made(text: str, shown: str, name: str, until: int | None = None) -> Step:
    """Make something, which a statement SHOW lists then by its name."""
    return Step(lambda lake: lake.sql(text), lambda lake: _shows(lake, shown, name), until)


def dropped(text: str, shown: str, name: str) -> Step:
    """Take something away."""
    return Step(lambda lake: lake.sql(text), lambda lake: not _shows(lake, shown, name))


def _shows(lake: Lake, shown: str, name: str) -> bool:
    return name in {str(value) for row in lake.sql(shown).fetchall() for value in row}


def changed(text: str, seen: str) -> Step:
    """Change rows; the query ``seen`` has a row then, of a table that the change may have to make."""

    def done(lake: Lake) -> bool:
        with suppress(NoTableError):
            return bool(_asked(lake, seen))
        return False

    return Step(lambda lake: lake.sql(text), done)


CHANGED = (1, 2)
"""The values of rows that statements change."""
TABLE = made("CREATE TABLE source (ts TIMESTAMP, g INT, v BIGINT)", "SHOW TABLES", "source")
RUN = Step(run)


def batch(number: int) -> list[dict[str, Any]]:
    """Return rows of two groups, one of which is late; each window is closed by the next batch."""
    rows = [
        {"ts": BEGIN + timedelta(seconds=10 * number + at), "g": at % 2, "v": number * 10 + at}
        for at in range(4)
    ]
    late = BEGIN + timedelta(seconds=5, microseconds=number)
    return [*rows, {"ts": late, "g": 0, "v": 1000 + number}] if number else rows


def inserted(number: int, table: str = "source") -> Step:
    """Insert a batch, whole or not at all."""
    rows = batch(number)
    lasting = [str(row["v"]) for row in rows if row["v"] not in CHANGED]

    def done(lake: Lake) -> bool:
        (count,) = lake.sql(f"SELECT count(*) FROM {table} WHERE v IN ({', '.join(lasting)})").fetchall()[0]
        assert count in (0, len(lasting)), f"{count} of {len(lasting)} rows of a commit"
        return bool(count)

    return Step(lambda lake: lake.insert(table, rows), done)


def stream(name: str, trigger: str, options: str = "", until: int | None = None) -> Step:
    """Create a stream over the source's groups into a table of its name."""
    text = f"CREATE STREAM {name} {trigger} FROM source PARTITION BY g {options} INTO {name}_out "
    columns = "_twstart AS start, count(*) AS n, sum(v) AS total"
    return made(f"{text} AS SELECT {columns} FROM %%trows", "SHOW STREAMS", name, until)


TUMBLING = "INTERVAL(10s) SLIDING(10s)"
RANGE = "FROM '2026-03-01 00:00:00' TO '2026-03-01 00:00:15'"
SUMS = "CREATE CQ sums BEGIN SELECT sum(s), count(s) INTO root.o.d(total, n) FROM root.sg.d GROUP BY(10s) END"
TUMBLED = """
SELECT start, count(*) AS n, sum(v) AS total, g FROM (
    SELECT time_bucket(INTERVAL 10 SECOND, ts) AS start, g, v, max(ts) OVER (PARTITION BY g) AS newest
    FROM source
) WHERE start + INTERVAL 10 SECOND <= newest GROUP BY start, g
"""

IN_ORDER = "OVER (PARTITION BY g ORDER BY ts)"
SESSIONS = f"""
SELECT min(ts) AS start, count(*) AS n, sum(v) AS total, g FROM (
    SELECT ts, g, v, sum(CAST(begins AS INT)) {IN_ORDER} AS number, max(ts) OVER (PARTITION BY g) AS newest
    FROM (SELECT *, ts - lag(ts, 1, ts) {IN_ORDER} > INTERVAL 4 SECOND AS begins FROM source)
) GROUP BY g, number, newest HAVING max(ts) + INTERVAL 4 SECOND < newest
"""
COUNTED = f"""
SELECT min(ts) AS start, count(*) AS n, sum(v) AS total, g FROM (
    SELECT *, (row_number() {IN_ORDER} - 1) // 3 AS number FROM source
) GROUP BY g, number HAVING count(*) = 3
"""
STATED = f"""
SELECT min(ts) AS start, count(*) AS n, sum(v) AS total, g FROM (
    SELECT ts, g, v, sum(CAST(begins AS INT)) {IN_ORDER} AS number, max(ts) OVER (PARTITION BY g) AS newest
    FROM (SELECT *, v % 4 <> lag(v % 4, 1, v % 4) {IN_ORDER} AS begins FROM source)
) GROUP BY g, number, newest HAVING max(ts) < newest
"""

EVENTS = f"""
SELECT min(ts) AS start, count(*) AS n, sum(v) AS total, g FROM (
    SELECT *, bool_or(v % 4 = 0) OVER (PARTITION BY g, number ORDER BY ts) AS begun FROM (
        SELECT *, coalesce(sum(CAST(v % 4 = 2 AS INT)) {IN_ORDER[:-1]} ROWS BETWEEN UNBOUNDED PRECEDING
            AND 1 PRECEDING), 0) AS number FROM source
    )
) WHERE begun GROUP BY g, number HAVING bool_or(v % 4 = 2)
"""
STARTED = "EVENT_WINDOW(START WITH v % 4 = 0 END WITH v % 4 = 2)"
AWAY = "NOTIFY('ws://localhost:1/') ON"
"""Events for a target at a port where nobody is: they wait in the outbox."""


def kept_short(*tables: str) -> Step:
    """Have tables keep no old files, and no old entries of their logs."""
    properties = dict.fromkeys(_RETENTION, "interval 0 seconds")

    def do(lake: Lake) -> None:
        for name in tables:
            table = DeltaTable(f"{lake.root}/main/{name}")
            table.alter.set_table_properties(properties, raise_if_not_exists=False)
            force_commits(f"{lake.root}/main/{name}", -1, table.version())

    return Step(do)


_RETENTION = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")


def maintained(lake: Lake) -> None:
    """Put files together, and delete old ones and old entries of logs."""
    errors = [table.error for table in lake.maintain() if table.error]
    assert not errors, f"upkeep failed: {errors}"


def backed_up(batches: int) -> Step:
    """Back the lake up beside it; what was told of is restored with so many batches."""

    def place(lake: Lake) -> str:
        return str(Path(lake.root).with_name("backup"))

    def done(lake: Lake) -> bool:
        to = Path(lake.root).with_name(f"restored-{batches}")
        try:
            restore(place(lake), str(to))
        except LakestreamError:
            return False
        with Lake(to, settings=Settings(**CHEAP)) as again:
            run(again)
            checked(again)
            there = {row[0] // 10 for row in again.sql("SELECT v FROM source WHERE v < 1000").fetchall()}
        return there >= {*range(batches)}

    return Step(lambda lake: lake.repair.back_up(place(lake)), done)


def restored() -> tuple[Step, ...]:
    """Make another lake of the backup, and have it go on."""

    def place(lake: Lake) -> Path:
        return Path(lake.root).with_name("restored")

    def goes_on(lake: Lake) -> None:
        with Lake(place(lake), settings=lake.settings) as again:
            run(again)
            checked(again)
            assert [row[0] for row in again.sql("SELECT v FROM source ORDER BY v").fetchall()] == [0, 1, 2, 3]

    return (
        Step(
            lambda lake: restore(str(Path(lake.root).with_name("backup")), str(place(lake))),
            lambda lake: Layout(str(place(lake))).exists(),
        ),
        Step(goes_on),
    )


def points(seconds: int) -> Step:
    """Insert points of a time series: the same ones take the place of those that are there."""
    at = BEGIN + timedelta(seconds=seconds)
    return Step(
        lambda lake: lake.insert(
            "root.sg.d", [{"ts": at + timedelta(seconds=i), "s": float(i)} for i in range(10)]
        )
    )


def tree(text: str, shown: str, name: str) -> Step:
    """Make something of the tree."""
    return Step(
        lambda lake: lake.sql(text, dialect="iotdb"),
        lambda lake: name in {str(row[0]) for row in lake.sql(shown, dialect="iotdb").fetchall()},
    )


SCENARIOS: dict[str, Scenario] = {
    "interval": Scenario(
        (TABLE, stream("counts", TUMBLING), inserted(0), RUN, inserted(1), RUN, inserted(2), RUN),
        ("source", "counts_out"),
        ("counts",),
        {"counts_out": TUMBLED},
    ),
    "rows": Scenario(
        (
            TABLE,
            stream("sessions", "SESSION(ts, 4s)"),
            stream("counted", "COUNT_WINDOW(3)", "STREAM_OPTIONS(EXACT)"),  # otherwise late rows do not count
            stream("stated", "STATE_WINDOW(CAST(v % 4 AS INT))"),
            *(inserted(0), RUN, inserted(1), RUN, inserted(2), RUN),
        ),
        ("source", "sessions_out", "counted_out", "stated_out"),
        ("sessions", "counted", "stated"),
        {"sessions_out": SESSIONS, "counted_out": COUNTED, "stated_out": STATED},
    ),
    "exact": Scenario(
        (
            TABLE,
            stream("exactly", TUMBLING, "STREAM_OPTIONS(EXACT)"),
            *(inserted(0), inserted(1), RUN),
            changed("UPDATE source SET v = 7000 WHERE v = 1", "SELECT * FROM source WHERE v = 7000"),
            RUN,
            changed(
                "DELETE FROM source WHERE v = 2",
                "SELECT * FROM (SELECT count(*) AS n FROM source WHERE v = 2) WHERE n = 0",
            ),
            RUN,
            Step(lambda lake: lake.sql("RECALCULATE STREAM exactly RESYNC")),
            RUN,
        ),
        ("source", "exactly_out"),
        ("exactly",),
        {"exactly_out": TUMBLED},
    ),
    "upkeep": Scenario(
        (
            TABLE,
            stream("counts", TUMBLING),
            *(inserted(0), RUN, kept_short("counts_out"), inserted(1), RUN, inserted(2), RUN),
            *(Step(maintained), inserted(3), RUN, Step(maintained)),
        ),
        ("source", "counts_out"),
        ("counts",),
        {"counts_out": TUMBLED},
        {"compact_files": 2, "history_ticks": 2},
    ),
    "statements": Scenario(
        (
            made("CREATE DATABASE plant", "SHOW DATABASES", "plant"),
            made("CREATE STABLE power (ts TIMESTAMP, w INT) TAGS (hall VARCHAR(9))", "SHOW STABLES", "power"),
            changed("INSERT INTO a USING power TAGS ('A') VALUES ('2026-03-01', 1)", "SELECT * FROM a"),
            changed(
                "INSERT INTO a VALUES ('2026-03-01', 2) ('2026-03-02', 3)", "SELECT * FROM a WHERE w = 2"
            ),
            TABLE,
            inserted(0),
            changed("UPDATE source SET v = 7000 WHERE v = 1", "SELECT * FROM source WHERE v = 7000"),
            stream("one", TUMBLING, until=2),
            stream("two", TUMBLING),
            dropped("DROP STREAM one", "SHOW STREAMS", "one"),
            made("CREATE TABLE short (ts TIMESTAMP, v INT)", "SHOW TABLES", "short", until=1),
            dropped("DROP TABLE short", "SHOW TABLES", "short"),
            made("ALTER TABLE source ADD COLUMN more INT", "DESCRIBE source", "more"),
            Step(lambda lake: lake.sql("STOP STREAM two")),
            Step(lambda lake: lake.sql("START STREAM two")),
        ),
        ("source", "power", "two_out"),
        ("two",),
        {"two_out": TUMBLED},
    ),
    "backup": Scenario(
        (TABLE, stream("counts", TUMBLING), inserted(0), RUN, backed_up(1), inserted(1), RUN, backed_up(2)),
        ("source", "counts_out"),
        ("counts",),
        {"counts_out": TUMBLED},
    ),
    "restored": Scenario(
        (TABLE, stream("counts", TUMBLING), inserted(0), RUN, backed_up(1), *restored(), inserted(1), RUN),
        ("source", "counts_out"),
        ("counts",),
        {"counts_out": TUMBLED},
    ),
    "events": Scenario(
        (
            TABLE,
            stream("counts", TUMBLING, f"{AWAY} (WINDOW_CLOSE)"),
            stream("evented", STARTED, f"{AWAY} (WINDOW_OPEN | WINDOW_CLOSE)"),
            *(inserted(0), RUN, inserted(1), RUN, inserted(2), RUN),
        ),
        ("source", "counts_out", "evented_out"),
        ("counts", "evented"),
        {"counts_out": TUMBLED, "evented_out": EVENTS},
        {"notify_hosts": ("localhost",)},
        notifies=True,
    ),
    "recalculated": Scenario(
        (
            TABLE,
            stream("counts", TUMBLING),
            stream("sessions", "SESSION(ts, 4s)"),
            *(inserted(0), inserted(1), RUN),
            Step(lambda lake: lake.sql(f"RECALCULATE STREAM counts {RANGE}")),
            Step(lambda lake: lake.sql(f"RECALCULATE STREAM sessions {RANGE}")),
            *(RUN, inserted(2), RUN),
        ),
        ("source", "counts_out", "sessions_out"),
        ("counts", "sessions"),
        {"counts_out": TUMBLED, "sessions_out": SESSIONS},
    ),
    "continuous": Scenario(
        (
            points(0),
            tree(SUMS, "SHOW CQS", "sums"),
            RUN,
            Step(run, seconds=10),
            points(10),
            Step(run, seconds=10),
        ),
        ("root.sg.d", "root.o.d"),
    ),
    "spark": Scenario(
        (
            TABLE,
            stream("counts", TUMBLING, "STREAM_OPTIONS(EXACT)"),
            *(inserted(0), RUN, inserted(1), RUN),
            changed("UPDATE source SET v = 7000 WHERE v = 1", "SELECT * FROM source WHERE v = 7000"),
            RUN,
            Step(lambda lake: lake.sql("RECALCULATE STREAM counts RESYNC")),
            RUN,
        ),
        ("source", "counts_out"),
        ("counts",),
        {"counts_out": TUMBLED},
        {"transport": "spark", "small_path": "spark"},
    ),
}
