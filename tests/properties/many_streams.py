"""Many streams over one history in one lake, each of them held to the reference.

A stream is refused, as the reference says; or its output is the reference's, and VERIFY finds the same; or
it is red.
"""

from __future__ import annotations

import re
import shutil
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.errors import LakestreamError
from tests.properties.dimensions import FIGURES as FIGURES_OF
from tests.properties.dimensions import GROUPS, Combination, columns_of, output_columns, sentence, stream
from tests.properties.drawn import TABLES, history_of
from tests.reference.stream import Change, Grid, Stream, Undetermined, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.properties.drawn import Step
    from tests.reference.stream import History, Row

START = datetime(2025, 1, 1, tzinfo=UTC)


def expected(of: Combination, steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """Return the output's rows, times as seconds. Raises Undetermined."""
    values = of.of
    if values["source"] == "nested":
        history: History = [[Change(None, row) for row in _mid(steps)]]
        rows = written(stream(values), history)
    else:
        before, history = history_of(steps, values["source"])
        taken = values["history"] == "filled"
        rows = written(
            stream(values),
            [before, *history] if taken and before else history,
            () if taken else [change.new for change in before if change.new],
        )
    width = len(GROUPS[values["groups"]][0])
    return [_as_output(values, row, width) for row in rows]


def _as_output(values: Mapping[str, str], row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    groups, (start, end, *figures) = row[:width], row[width:]
    times = (start,) if values["trigger"] in ("each row", "period") else (start, end)
    subtable: tuple[str | None, ...] = ()
    if values["output"] == "subtable":
        # What a group of NULL is called nobody says.
        subtable = (None if None in groups else "_".join(["out", *map(str, groups)]),)
    return (*subtable, *groups, *times, *figures)


def _mid(steps: Sequence[Step]) -> list[Row]:
    """Return what the stream before a nested one has written: the highest values of two seconds."""

    def calculate(rows: list[Row]) -> tuple[Any, ...]:
        v = [row["v"] for row in rows if row["v"] is not None]
        x = [row["x"] for row in rows if row["x"] is not None]
        return max(v, default=None), max(x, default=None)

    before, history = history_of(steps, "super")
    mid = Stream(
        Grid(2, 2),
        calculate,
        exact=True,
        group=lambda row: (row["tbname"], row["loc"]),
        drops_empty=True,
    )
    rows = written(mid, [before, *history] if before else history)
    return [
        {"tbname": f"m_{table}", "loc": place, "ts": start, "v": v, "x": x}
        for table, place, start, _, v, x in rows
    ]


CREATE_MID = (
    "CREATE STREAM mid INTERVAL(2s) SLIDING(2s) FROM meters PARTITION BY tbname "
    "STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER | FILL_HISTORY) "
    "INTO mid OUTPUT_SUBTABLE(concat('m_', %%tbname)) (ts, v, x, loc) "
    "AS SELECT _twstart, max(v), max(x), max(loc) FROM %%trows"
)


@dataclass
class Verdict:
    """What became of a combination."""

    of: Combination
    outcome: str
    """refused, equal, red, or open: the documents do not say."""
    detail: str = ""


class World:
    """A lake with the streams of a history."""

    def __init__(
        self, spark: SparkSession, history: Mapping[str, str], steps: Sequence[Step], *, verifies: bool = True
    ) -> None:
        self.spark, self.of, self.steps, self.verifies = spark, history, steps, verifies
        self.folder = Path(mkdtemp(prefix="lakestream-matrix-"))
        self.clock = ManualClock(START)
        self.verdicts: dict[int, Verdict] = {}
        self.lake = self.opened()

    def opened(self) -> Lake:
        """Open the lake."""
        settings = Settings(
            transport="spark" if self.of["process"] == "by spark" else "auto",
            sink_commits_per_second=0,
            checkpoint_ticks=2,
        )
        return Lake(self.folder / "lake", clock=self.clock, spark=self.spark, settings=settings)

    def run(self, streams: Sequence[Combination]) -> list[Verdict]:
        """Go through the steps; return what became of each stream."""
        try:
            self.make_tables()
            for step in self.steps:
                self.take(step, streams)
            return [self.safely(number, of) for number, of in enumerate(streams)]
        finally:
            self.lake.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def make_tables(self) -> None:
        """Make the sources."""
        key = "k INT COMPOSITE KEY, " if self.of["key"] == "composite" else ""
        self.lake.sql(f"CREATE STABLE meters (ts TIMESTAMP, {key}v INT, x DOUBLE) TAGS (loc VARCHAR(16))")
        self.lake.sql(f"CREATE TABLE plain (ts TIMESTAMP, {key}v INT, x DOUBLE, loc VARCHAR(16))")
        for name, place in TABLES.items():
            self.lake.sql(f"CREATE TABLE {name} USING meters TAGS ('{place}')")

    def take(self, step: Step, streams: Sequence[Combination]) -> None:
        """Take one step."""
        if step.kind == "create":
            self.create(streams)
        elif step.kind == "reopen":
            self.lake.close()
            self.lake = self.opened()
        elif step.kind == "run":
            now = (self.clock.now() - START).total_seconds()
            self.clock.advance(timedelta(seconds=max(0, step.now - now)))
            self.tick(step.how)
        else:
            self.commit(step)

    def create(self, streams: Sequence[Combination]) -> None:
        """Make the streams, and the one that nested ones read."""
        if any(of.of["source"] == "nested" for of in streams):
            self.lake.sql(CREATE_MID)
        for number, of in enumerate(streams):
            if of.of["output"] == "existing":
                self.lake.sql(existing(of.of, f"o{number}"))
            try:
                self.lake.sql(sentence(of.of, f"s{number}", f"o{number}"))
            except LakestreamError as error:
                outcome = "refused" if of.refused else "red"
                self.verdicts[number] = Verdict(of, outcome, f"{error.code}: {error.message}")
            else:
                if of.refused:
                    self.verdicts[number] = Verdict(of, "red", f"not refused: {of.refused}")

    def tick(self, crash: str) -> None:
        """Run to idle, with a crash before that perhaps."""
        if crash:
            point, nth = crash.split(":")
            try:
                with crash_at(point, int(nth)):
                    self.lake.run()
            except SimulatedCrash:
                pass
            self.lake.close()
            self.lake = self.opened()
        for report in self.lake.run().failed:
            name = report.stream.rpartition(".")[2]
            if name == "mid":
                raise AssertionError(report.error)
            number = int(name[1:])
            self.verdicts.setdefault(number, Verdict(Combination({}), "red", f"failed: {report.error}"))

    def commit(self, step: Step) -> None:
        """Write a commit, by the statement that its kind asks for."""
        table = (
            "plain" if (step.changes[0].new or step.changes[0].old or {})["tbname"] == "plain" else "meters"
        )
        first = step.changes[0]
        if first.old is None or (step.how == "rewrite" and first.new is not None):
            self.lake.insert(table, [as_written(c.new, table) for c in step.changes if c.new is not None])
        elif first.new is None:
            where = " OR ".join(f"({where_of(c.old, table)})" for c in step.changes if c.old is not None)
            self.lake.sql(f"DELETE FROM {table} WHERE {where}")
        elif step.how == "update":
            self.lake.sql(updating(step.changes, table))
        else:
            values = {name: sql(value) for name, value in as_written(first.new, table).items()}
            DeltaTable(self.folder / "lake/main" / table).update(
                updates=values, predicate=where_of(first.old, table)
            )

    def safely(self, number: int, of: Combination) -> Verdict:
        """Judge a stream; what is raised is red too."""
        try:
            return self.judged(number, of)
        except Exception:  # noqa: BLE001 - whatever it is, it is shown
            return Verdict(of, "red", traceback.format_exc())

    def judged(self, number: int, of: Combination) -> Verdict:
        """Hold a stream's output to the reference."""
        if number in self.verdicts:
            return replace(self.verdicts[number], of=of)
        try:
            wanted = tidy(expected(of, self.steps))
        except Undetermined as why:
            return Verdict(of, "open", str(why))
        got = tidy([_as_named(of.of, row) for row in self.output(of, number)])
        missing, extra = wanted - got, got - wanted
        if of.of["output"] == "existing":
            extra = self.not_left_over(of, wanted, extra)
        if missing or extra:
            lines = [f"only expected: {row}" for row in sorted(missing.elements(), key=str)]
            lines += [f"only got: {row}" for row in sorted(extra.elements(), key=str)]
            return Verdict(of, "red", "\n".join(lines))
        return self.verified(number, of) if self.verifies else Verdict(of, "equal")

    def not_left_over(self, of: Combination, wanted: Counter[Any], extra: Counter[Any]) -> Counter[Any]:
        """Return the rows under keys that are expected: those of others stay in a table of the user's."""
        width = len(GROUPS[of.of["groups"]][0]) + 1
        keys = {row[:width] for row in wanted}
        return Counter({row: n for row, n in extra.items() if row[:width] in keys or n > 1})

    def verified(self, number: int, of: Combination) -> Verdict:
        """Ask VERIFY as well."""
        found = self.lake.verify(f"s{number}")
        if found.holds:
            return Verdict(of, "equal")
        return Verdict(of, "red", "\n".join(["VERIFY differs", *map(str, found.differing)]))

    def output(self, of: Combination, number: int) -> list[tuple[Any, ...]]:
        """Return what a stream has written, times as seconds."""
        table = DeltaTable(self.folder / f"lake/main/o{number}").to_pyarrow_table()
        names = output_columns(of.of)
        return [tuple(row[name] for name in names) for row in table.select(names).to_pylist()]


def _as_named(of: Mapping[str, str], row: tuple[Any, ...]) -> tuple[Any, ...]:
    if of["output"] != "subtable":
        return row
    if None in row[1 : 1 + len(GROUPS[of["groups"]][0])]:
        return (None, *row[1:])
    # Behind a name that groups could share the classic syntax puts the output's name and the group's number.
    return (re.sub(r"_o\d+_-?\d+$", "", row[0]), *row[1:])


def existing(of: Mapping[str, str], output: str) -> str:
    """Return the CREATE TABLE of an output that is there before its stream."""
    times = (
        "ts_start TIMESTAMP"
        if of["trigger"] in ("each row", "period")
        else "ts_start TIMESTAMP, ts_end TIMESTAMP"
    )
    if of["trigger"] == "sliding":
        times = "ts_end TIMESTAMP, ts_start TIMESTAMP"
    types = ["DOUBLE"] * len(columns_of(of))
    if of["trigger"] != "each row":
        types = [_type(name, column) for name, column in FIGURES_OF[of["figures"]]]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(columns_of(of), types, strict=True))
    groups = GROUPS[of["groups"]][0]
    if not groups:
        return f"CREATE TABLE {output} ({times}, {columns})"
    tags = ", ".join(
        f"{alias} {'VARCHAR(270)' if alias == 'tag_tbname' and of['syntax'] == 'new' else kind}"
        for _, alias, kind in groups
    )
    return f"CREATE STABLE {output} ({times}, {columns}) TAGS ({tags})"


def _type(name: str, column: str) -> str:
    if name.startswith("count") or name == "hyperloglog":
        return "BIGINT"
    if column == "v":
        return {"sum": "BIGINT", "avg": "DOUBLE", "spread": "DOUBLE"}.get(name, "INT")
    return "DOUBLE"


def updating(changes: Sequence[Change], table: str) -> str:
    """Return the UPDATE of ``v`` and ``x`` of some rows."""
    pairs = [(where_of(change.old, table), change.new) for change in changes if change.new is not None]
    where = " OR ".join(f"({condition})" for condition, _ in pairs)
    cases = {
        name: " ".join(f"WHEN {condition} THEN {sql(new[name])}" for condition, new in pairs)
        for name in ("v", "x")
    }
    sets = ", ".join(f"{name} = CASE {case} END" for name, case in cases.items())
    return f"UPDATE {table} SET {sets} WHERE {where}"


def as_written(row: Row, table: str) -> dict[str, Any]:
    """Return a row as it is inserted."""
    at = (START + timedelta(seconds=row["ts"])).isoformat()
    return {name: value for name, value in {**row, "ts": at}.items() if table == "meters" or name != "tbname"}


def sql(value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def where_of(row: Row | None, table: str) -> str:
    """Return the condition that is true of one row."""
    assert row is not None
    at = (START + timedelta(seconds=row["ts"])).isoformat()
    parts = [f"ts = '{at}'", *([f"tbname = '{row['tbname']}'"] * (table == "meters"))]
    return " AND ".join([*parts, *(f"k = {row['k']}" for _ in range("k" in row))])


def tidy(rows: Sequence[tuple[Any, ...]]) -> Counter[Any]:
    """Return rows as they are compared: each with how often it is there."""
    return Counter(tuple(map(_tidy, row)) for row in rows)


def _tidy(value: Any) -> Any:
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return round((at - START).total_seconds(), 6)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return float(f"{value:.9g}")
