"""Streams of every trigger and option in lakes that are twins: the same commits, cut into ticks otherwise.

``python -m tests.properties.twins --count 100 --seed 7``. Each history draws some streams and commits to
their source, and tells them to several lakes: one runs after each commit, one at the end, one at random
with restarts and crashes and little memory. The outputs are the same; of an ``EXACT`` stream they are also
those of a lake that is given the last rows in one commit. All of it without Spark.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from math import inf, isnan, nan
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import TICK_POINTS, SimulatedCrash, crash_at
from lakestream.errors import LakestreamError
from lakestream.storage.sessions import session
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake.table import TableMerger

    from lakestream.engine.rounds.runtime import TickReport

Row = dict[str, Any]
START = datetime(2025, 3, 29, 22, 59, 50, tzinfo=UTC)
"""Ten seconds before a midnight in Berlin that begins a day of 23 hours."""
VALUES: dict[str, tuple[Any, ...]] = {
    "v": (None, 0, 1, 1, 2, 2, 3),
    "x": (None, 0.0, -0.0, 1.5, nan, inf, -inf, 1e300),
    "b": (None, True, False),
    "s": (None, "", "a", "A", "ä", " a", "o'x", "%d", "\U0001d11e"),
    "n": (None, 0, 2**62, -(2**63), 2**63 - 1),
    "d": (None, date(1969, 12, 31), date(2025, 3, 30)),
}
COLUMNS = "v INT, x DOUBLE, b BOOL, s VARCHAR(20), n BIGINT, d DATE"
SCHEMA = {
    "v": pa.int32(),
    "x": pa.float64(),
    "b": pa.bool_(),
    "s": pa.string(),
    "n": pa.int64(),
    "d": pa.date32(),
}
SITES = ("a", "b", "ö'c")
LOCATIONS = {"a": "north", "b": None, "ö'c": "north"}


@dataclass(frozen=True)
class Scale:
    """Triggers whose windows hold a few of the rows that lie so many microseconds apart."""

    unit: int
    triggers: tuple[str, ...]
    watermarks: tuple[str, ...]
    expiries: tuple[str, ...]


SECONDS = Scale(
    500_000,
    (
        "INTERVAL(10s) SLIDING(10s)",
        "INTERVAL(10s) SLIDING(4s)",
        "INTERVAL(7s, 3s) SLIDING(7s)",
        "INTERVAL(3s) SLIDING(8s)",
        "SLIDING(6s)",
        "SLIDING(7s, 2s)",
        "SESSION(ts, 3s)",
        "SESSION(ts, 500a)",
        "STATE_WINDOW(v)",
        "STATE_WINDOW(b) TRUE_FOR(2s)",
        "STATE_WINDOW(s)",
        "STATE_WINDOW(CASE WHEN x > 1 THEN 1 WHEN x <= 1 THEN 0 END)",
        "STATE_WINDOW(n) TRUE_FOR(500a)",
        "EVENT_WINDOW(START WITH v = 1 END WITH v = 2)",
        "EVENT_WINDOW(START WITH v >= 1 END WITH v >= 1)",
        "EVENT_WINDOW(START WITH v >= 1 END WITH b) TRUE_FOR(3s)",
        "EVENT_WINDOW(START WITH x > 0 END WITH s = 'a' OR v IS NULL)",
        "COUNT_WINDOW(1)",
        "COUNT_WINDOW(3)",
        "COUNT_WINDOW(4, 2)",
        "COUNT_WINDOW(3, 1)",
        "COUNT_WINDOW(2, v)",
        "COUNT_WINDOW(3, 2, v, b)",
        "COUNT_WINDOW(2, 1, s)",
    ),
    ("", "", "1s", "5s"),
    ("", "", "5s", "12s"),
)
HOURS = Scale(
    1_800_000_000,
    (
        "INTERVAL(5h) SLIDING(5h)",
        "INTERVAL(1d) SLIDING(1d)",
        "INTERVAL(2d) SLIDING(1d)",
        "INTERVAL(1d, 8h) SLIDING(1d)",
        "SLIDING(7h)",
        "SLIDING(1d)",
        "SESSION(ts, 3h)",
        "COUNT_WINDOW(3, 1)",
        "STATE_WINDOW(v) TRUE_FOR(1h)",
    ),
    ("", "2h"),
    ("", "2h", "6h"),
)
GROUPS = ("", "v", "x", "b", "s", "n", "d", "v % 2 AS odd", "x > 0 AS p", "coalesce(s, 'none') AS u", "s, b")
OWN_GROUPS = {"stable": ("tbname", "loc", "tbname, loc", "tbname, v AS w")}
FIGURES = (
    "count(*)",
    "count(v)",
    "sum(v)",
    "avg(v)",
    "min(x)",
    "max(x)",
    "min(s)",
    "max(s)",
    "first(v)",
    "last(v)",
    "first(s)",
    "last(x)",
    "count(DISTINCT v)",
    "count(DISTINCT x)",
    "max(d)",
    "min(n)",
    "count_if(b)",
    "sum(CASE WHEN b THEN 1 END)",
)


@dataclass(frozen=True)
class Stream:
    """A CREATE STREAM, less its name and its output."""

    trigger: str
    groups: str
    options: tuple[str, ...]
    columns: str
    query: str

    def statement(self, number: int) -> str:
        """Return it as the stream of a number."""
        options = f"STREAM_OPTIONS({' | '.join(self.options)}) " if self.options else ""
        by = f"PARTITION BY {self.groups} " if self.groups else ""
        return (
            f"CREATE STREAM s{number} {self.trigger} FROM src {by}{options}INTO o{number} "
            f"({self.columns}) AS SELECT {self.query}"
        )

    @property
    def is_exact(self) -> bool:
        """Whether its output follows from the last rows alone."""
        return "EXACT" in self.options


@dataclass
class History:
    """Commits to a source and where the streams are made, as they are drawn."""

    random: Random
    scale: Scale
    kind: str
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)
    newest: int = 0
    steps: list[tuple[str, Any]] = field(default_factory=list)

    def draw(self, commits: int) -> History:
        """Draw the steps."""
        for _ in range(self.random.choice((0, 0, 1, 3))):
            self.write()
        before = dict(self.rows)
        self.steps.append(("create", None))
        for _ in range(commits):
            if self.rows and self.random.random() < 0.3:
                self.change()
            else:
                self.write()
        self.before = before
        return self

    def write(self) -> None:
        """Insert rows: most in order, some of them late, none under a key that is there."""
        made: dict[tuple[int, str], Row] = {}
        for _ in range(self.random.randint(1, 5)):
            at = self.newest
            if self.random.random() < 0.25:
                at = max(0, at - self.random.randint(0, 40))
            else:
                self.newest = at = at + self.random.choice((0, 0, 1, 1, 2, 3, 6, 13, 30))
            row = self.row(at * self.scale.unit, self.site())
            made[row["ts"], row["site"]] = row
        fresh = {key: row for key, row in made.items() if key not in self.rows}
        if fresh:
            self.rows |= fresh
            self.steps.append(("insert", list(fresh.values())))

    def change(self) -> None:
        """Update or delete rows."""
        keys = self.random.sample(sorted(self.rows), min(len(self.rows), self.random.randint(1, 3)))
        if self.random.random() < 0.5:
            for key in keys:
                del self.rows[key]
            self.steps.append(("delete", keys))
        else:
            fresh = {key: self.row(*key) for key in keys}
            self.rows |= fresh
            self.steps.append(("update", list(fresh.values())))

    def site(self) -> str:
        """Draw a site; what is no plain name of a folder is for Spark."""
        return self.random.choice(SITES[:2] if self.kind == "partitioned" else SITES)

    def blank(self, ts: int, site: str) -> Row:
        """Return a row of a key without values."""
        return {"ts": ts, "site": site, **dict.fromkeys(VALUES)}

    def row(self, ts: int, site: str) -> Row:
        """Draw a row."""
        drawn = {name: self.random.choice(values) for name, values in VALUES.items()}
        return {"ts": ts, "site": site, **drawn}


def drawn_stream(random: Random, scale: Scale, kind: str) -> Stream:
    """Draw a stream that may be refused."""
    trigger = random.choice(scale.triggers)
    groups = random.choice((*GROUPS, *OWN_GROUPS.get(kind, ("site", "site, v"))))
    if kind == "stable" and trigger.startswith(("STATE", "EVENT", "COUNT")):
        groups = random.choice(("tbname", "tbname, v AS w", "tbname, loc"))
    options = []
    policy = random.choice(("", "", "EXACT", "EXACT", "IGNORE_DISORDER", "DELETE_RECALC", "both"))
    expiry = random.choice(scale.expiries) if policy != "EXACT" else ""
    watermark = random.choice(scale.watermarks)
    options += [] if policy in ("", "both") else [policy]
    options += ["IGNORE_DISORDER", "DELETE_RECALC"] * (policy == "both")
    options += [f"EXPIRED_TIME({expiry})"] * bool(expiry)
    options += [f"WATERMARK({watermark})"] * bool(watermark)
    options += [random.choice(("FILL_HISTORY", "FILL_HISTORY_FIRST"))] * (random.random() < 0.4)
    options += ["PRE_FILTER(v >= 1 OR b)"] * (random.random() < 0.25)
    options += ["LOW_LATENCY_CALC"] * (random.random() < 0.1)
    if trigger.startswith(("INTERVAL", "CALENDAR", "SLIDING")):
        options += ["IGNORE_NODATA_TRIGGER"] * (random.random() < 0.3)
    columns, query, forced = drawn_query(random, trigger, "tbname" if kind == "stable" else "site", groups)
    options += ["FORCE_OUTPUT"] * forced
    return Stream(trigger, groups, tuple(options), columns, query)


def drawn_query(random: Random, trigger: str, site: str, groups: str) -> tuple[str, str, bool]:
    """Draw a calculation: its columns, itself, and whether a window without rows is to give one."""
    is_instant = trigger.startswith("SLIDING")
    at = "_tcurrent_ts" if is_instant else "_twstart"
    times = "_tprev_ts, _tnext_ts" if is_instant else "_twend, _twduration, _twrownum"
    names = ["a1", "a2", *(["a3"] * (not is_instant))]
    low, high = ("_tprev_ts", "_tcurrent_ts") if is_instant else ("_twstart", "_twend")
    bounds = f"ts > {low} AND ts <= {high}" if is_instant else f"ts >= {low} AND ts < {high}"
    form = random.choice(("trows", "trows", "trows", "table", "by key", "rows", "filtered"))
    chosen = random.sample(FIGURES, random.randint(1, 4))
    figures = ", ".join(chosen)
    named = [f"f{n}" for n in range(len(chosen))]
    times += random.choice(("", ", _tgrpid"))
    names += ["gid"] * times.endswith("_tgrpid")
    if form == "trows" or (form == "table" and groups):
        return ", ".join(["at", *names, *named]), f"{at}, {times}, {figures} FROM %%trows", False
    if form == "table":  # rows of other groups are read as they are at a tick
        return ", ".join(["at", *names, *named]), f"{at}, {times}, {figures} FROM src WHERE {bounds}", False
    if form == "by key":
        return (
            ", ".join(["at", "k COMPOSITE KEY", *names, *named]),
            f"{at}, coalesce(v, -1), {times}, {figures} FROM %%trows GROUP BY coalesce(v, -1)",
            random.random() < 0.3,
        )
    if form == "rows":
        return (
            "at, key COMPOSITE KEY, val, until",
            f"ts, {site}, v, {high} FROM %%trows",
            False,
        )
    return (
        ", ".join(["at", *names, *named]),
        f"{at}, {times}, {figures} FROM %%trows HAVING count(*) > {random.randint(1, 2)}",
        random.random() < 0.5,
    )


SOURCES = ("plain", "stable", "located", "partitioned", "local")
"""A table, a super table, and tables that another program made: plain, partitioned, and of local times."""


class AskedSpark(Exception):  # noqa: N818 - no error: it is not tried
    """Spark would have been started."""


def refuse(*_: object, **__: object) -> None:
    """Raise AskedSpark."""
    raise AskedSpark


@dataclass
class Twin:
    """A lake, and where it runs between the steps."""

    folder: Path
    history: History
    streams: Sequence[Stream]
    settings: Settings
    runs: str
    random: Random
    refused: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.often = self.random.choice((0.0, 0.3, 0.6))
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.lake = self.opened()

    def opened(self) -> Lake:
        """Open the lake."""
        return Lake(self.folder / "lake", clock=self.clock, settings=self.settings)

    @property
    def table(self) -> str:
        """Where the source's files are."""
        inside = self.history.kind in ("plain", "stable")
        return str(self.folder / "lake/main/src" if inside else self.folder / "src")

    def outputs(self) -> dict[int, Counter[Any]]:
        """Go through the steps; return the rows of each output."""
        try:
            self.make()
            for kind, given in self.history.steps:
                self.step(kind, given)
            self.run()
            self.note_errors()
            return {
                number: self.output(number)
                for number in range(len(self.streams))
                if number not in self.refused and number not in self.failed
            }
        finally:
            self.lake.close()

    def make(self) -> None:
        """Make the source."""
        kind = self.history.kind
        if kind == "plain":
            self.lake.sql(f"CREATE TABLE src (ts TIMESTAMP, site VARCHAR(8) COMPOSITE KEY, {COLUMNS})")
        elif kind == "stable":
            self.lake.sql(f"CREATE STABLE src (ts TIMESTAMP, {COLUMNS}) TAGS (loc VARCHAR(8))")
        else:
            write_deltalake(
                self.table,
                self.arrow([]),
                partition_by=["site"] if kind == "partitioned" else None,
                configuration={"delta.enableChangeDataFeed": "true"},
            )
            self.lake.sql(f"CREATE TABLE src LOCATION '{self.table}' TIMESTAMP BY ts")

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as another program writes them."""
        zone = None if self.history.kind == "local" else "UTC"
        times = pa.timestamp("us", zone)
        site = "tbname" if self.history.kind == "stable" else "site"
        columns: dict[str, Any] = {
            "ts": pa.array([row["ts"] + _micros(START) for row in rows], pa.int64()).cast(times)
        }
        listed = pa.array([row["site"] for row in rows], pa.string())
        given = {name: pa.array([row[name] for row in rows], kind) for name, kind in SCHEMA.items()}
        if self.history.kind == "stable":
            locs = pa.array([LOCATIONS[row["site"]] for row in rows], pa.string())
            return pa.table({"tbname": listed, **columns, **given, "loc": locs})
        return pa.table({**columns, site: listed, **given})

    def step(self, kind: str, given: Any) -> None:
        """Take a step, and run perhaps."""
        if kind == "create":
            self.create()
        elif kind == "insert":
            self.append(given)
        elif kind == "delete":
            self.merge([self.history.blank(*key) for key in given]).when_matched_delete().execute()
        else:
            self.merge(given).when_matched_update_all().execute()
        if self.runs == "each" or (self.runs == "random" and self.random.random() < self.often):
            self.run()

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows as another program does."""
        table = self.arrow(rows)
        names = [column.name for column in DeltaTable(self.table).schema().fields]
        write_deltalake(self.table, table.select(names), mode="append")

    def merge(self, rows: Sequence[Row]) -> TableMerger:
        """Return a MERGE of rows by their key."""
        site = "tbname" if self.history.kind == "stable" else "site"
        return DeltaTable(self.table).merge(
            self.arrow(rows), f"t.ts = s.ts AND t.{site} = s.{site}", source_alias="s", target_alias="t"
        )

    def create(self) -> None:
        """Make the streams."""
        for number, stream in enumerate(self.streams):
            try:
                self.lake.sql(stream.statement(number))
            except LakestreamError as error:
                self.refused[number] = f"{error.code}: {error.message}"
            except AskedSpark:
                self.refused[number] = "SPARK"

    def run(self) -> None:
        """Run to idle, by a new process perhaps, and behind a crash."""
        if self.runs == "random" and self.random.random() < 0.4:
            point = self.random.choice(TICK_POINTS)
            with suppress(SimulatedCrash), crash_at(point, self.random.randint(1, 9)):
                self.note(self.lake.run().failed)
            self.lake.close()
            self.lake = self.opened()
        self.note(self.lake.run().failed)

    def note(self, failed: Sequence[TickReport]) -> None:
        """Note the streams that failed."""
        for tick in failed:
            number = int(tick.stream.rpartition(".")[2][1:])
            self.failed.setdefault(number, str(tick.error))

    def note_errors(self) -> None:
        """Note the streams that failed in a run that crashed, which told of none."""
        for stream in self.lake.streams():
            if stream.last_error:
                self.failed.setdefault(int(stream.name.rpartition(".")[2][1:]), str(stream.last_error))

    def output(self, number: int) -> Counter[Any]:
        """Return an output's rows."""
        table = DeltaTable(self.folder / f"lake/main/o{number}").to_pyarrow_table()
        hidden = [name for name in table.column_names if name.startswith("_ls")]
        return Counter(tuple(map(_plain, row.values())) for row in table.drop_columns(hidden).to_pylist())


def _micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if isnan(value) else value + 0.0 if abs(value) in (0, inf) else f"{value:.12g}"
    if isinstance(value, datetime):
        return f"{value:%m-%d %H:%M:%S.%f}"[:-3]
    return "window" if isinstance(value, dict) else value


def settings_of(random: Random, runs: str) -> Settings:
    """Return how a lake works: with the random one, in any way."""
    given: dict[str, Any] = {"sink_commits_per_second": 0, "durability": "process"}
    if runs == "random":
        given |= {
            "checkpoint_ticks": random.choice((1, 2, 100)),
            "state_memory": random.choice((0, 1024**3)),
            "max_commits_per_tick": random.choice((1, 2, 1000)),
            "max_windows_per_tick": random.choice((50, 1_000_000)),
            "small_rows": random.choice((3, *[200_000] * 5)),
        }
    return Settings(**given)


def tried(seed: str, streams: int = 8, commits: int = 10) -> tuple[Counter[str], list[str]]:
    """Try a history; return what became of its streams, and what differs."""
    random = Random(seed)
    scale = random.choice((SECONDS, SECONDS, HOURS))
    history = History(random, scale, random.choice(SOURCES)).draw(commits)
    chosen = [drawn_stream(random, scale, history.kind) for _ in range(streams)]
    counted: Counter[str] = Counter()
    found: list[str] = []
    told: dict[str, Twin] = {}
    outputs: dict[str, dict[int, Counter[Any]]] = {}
    folder = Path(mkdtemp(prefix="twins-"))
    try:
        for runs in ("each", "random", *(["last"] * any(s.is_exact for s in chosen))):
            own = history
            if runs == "last":
                own = History(random, scale, history.kind)
                late = {k: r for k, r in history.rows.items() if history.before.get(k) != r}
                before = [r for k, r in history.before.items() if _same(history.rows.get(k), r)]
                own.steps = [("insert", before)] * bool(before) + [("create", None)]
                own.steps += [("insert", list(late.values()))] * bool(late)
            twin = Twin(folder / runs, own, chosen, settings_of(random, runs), runs, Random(seed))
            told[runs] = twin
            outputs[runs] = twin.outputs()
        for number, stream in enumerate(chosen):
            why = told["each"].refused.get(number)
            failed = {runs: twin.failed[number] for runs, twin in told.items() if number in twin.failed}
            if why is not None:
                counted["spark" if why == "SPARK" else "refused " + why.split(":")[0]] += 1
                continue
            for_spark = {runs for runs, text in failed.items() if "AskedSpark" in text}
            if "each" in for_spark:
                counted["spark"] += 1
                continue
            failed = {runs: text for runs, text in failed.items() if runs not in for_spark}
            counted["partly spark"] += bool(for_spark)
            pairs = [runs for runs in ("random", "last") if runs in told and runs not in for_spark]
            pairs = [runs for runs in pairs if runs != "last" or stream.is_exact]
            base = outputs["each"].get(number)
            bad = [runs for runs in pairs if outputs[runs].get(number) != base]
            counted["red" if bad or failed else "equal"] += 1
            if failed:
                found.append(f"{stream.statement(number)}\n  failed {failed}")
            for runs in bad:
                one, other = base or Counter(), outputs[runs].get(number) or Counter()
                found.append(
                    f"{stream.statement(number)}\n  {history.kind} {runs}"
                    f"\n  only each: {sorted((one - other).elements(), key=str)[:6]}"
                    f"\n  only {runs}: {sorted((other - one).elements(), key=str)[:6]}"
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return counted, found


def _same(one: Row | None, other: Row) -> bool:
    return one is not None and {k: str(v) for k, v in one.items()} == {k: str(v) for k, v in other.items()}


def main() -> int:
    """Try histories; exit status 1 when one does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.twins")
    parser.add_argument("--count", type=int, default=20, help="how many histories (default: 20)")
    parser.add_argument("--seed", default="1", help="other seeds give other histories (default: 1)")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with without_spark(), patch.object(session, "spark_session", refuse):
        for number in range(options.count):
            seed = f"{options.seed}-{number}"
            try:
                counted, found = tried(seed)
            except Exception:  # noqa: BLE001 - it is shown
                counted, found = Counter(["broken"]), [traceback.format_exc()]
            total += counted
            sys.stdout.write(f"{seed}: {dict(counted)}\n")
            for text in found:
                sys.stdout.write(f"==== {seed}\n{text}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(total)}\n")
    return 1 if total["red"] or total["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
