"""A lake, what has been done to it, and what its outputs must be."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.storage.places.backup import restore
from lakestream.storage.sessions import session
from tests.machine.oracle import TRIGGERS, Row, results
from tests.old_lakes.make import HERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

START = datetime(2025, 1, 1, tzinfo=UTC)
NOW = datetime(2025, 3, 1, tzinfo=UTC)
GROUPS = (0, 1, 2)
CLOSING = 60
"""Seconds behind the newest row, by which every window of time is over."""

_SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("g", pa.int32()), ("k", pa.int32()), ("v", pa.int32())]
)


@dataclass(frozen=True)
class Followed:
    """A stream: the table or the stream that it follows, its kind of window, and whether it has groups."""

    source: str
    kind: str
    grouped: bool


class World:
    """A lake on the small path: whoever asks for Spark fails, unless steps may ask for it.

    ``archive`` is a lake of an earlier version.
    """

    def __init__(self, archive: str | None = None, *, asks_spark: bool = False) -> None:
        self.folder = Path(mkdtemp(prefix="lakestream-machine-"))
        self.root = self.folder / "lake"
        if archive is not None:
            with tarfile.open(HERE / archive) as packed:
                packed.extractall(self.folder, filter="data")
        self.tables: dict[str, dict[int, Row]] = {}
        self.streams: dict[str, Followed] = {}
        self.stopped: set[str] = set()
        self._names = count(1)
        self._clock = ManualClock(NOW)
        self._spark = session.spark_session
        if not asks_spark:
            session.spark_session = _refused
        self.lake = self._opened()

    def close(self) -> None:
        """Leave nothing behind."""
        session.spark_session = self._spark
        self.lake.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _opened(self) -> Lake:
        settings = Settings(sink_commits_per_second=0, checkpoint_ticks=3, max_commits_per_tick=4)
        return Lake(self.root, clock=self._clock, settings=settings)

    # --- tables and streams ---

    def create_table(self) -> None:
        """Make a table."""
        name = f"t{next(self._names)}"
        self.lake.sql(f"CREATE TABLE {name} (ts TIMESTAMP, g INT, k INT, v INT)")
        self.tables[name] = {}

    def drop_table(self, table: str) -> None:
        """Drop a table that nobody follows."""
        self.lake.sql(f"DROP TABLE {table}")
        del self.tables[table]

    def create_stream(self, source: str, kind: str, *, grouped: bool) -> None:
        """Make a stream over a table or, without groups, over the output of another stream."""
        name = f"s{next(self._names)}"
        self._define("CREATE STREAM", name, Followed(source, kind, grouped))

    def replace_stream(self, name: str, kind: str) -> None:
        """Give a stream another kind of window."""
        old = self.streams[name]
        self._define("CREATE OR REPLACE STREAM", name, Followed(old.source, kind, old.grouped))
        self.stopped.discard(name)

    def _define(self, words: str, name: str, stream: Followed) -> None:
        source, value = (f"o_{stream.source}", "n") if stream.source in self.streams else (stream.source, "v")
        nodata = "|IGNORE_NODATA_TRIGGER" if "INTERVAL" in TRIGGERS[stream.kind] else ""
        groups = "PARTITION BY g " if stream.grouped else ""
        self.lake.sql(
            f"{words} {name} {TRIGGERS[stream.kind]} FROM {source} {groups}"
            f"STREAM_OPTIONS(EXACT|FILL_HISTORY{nodata}) INTO o_{name} "
            f"AS SELECT _twstart AS w, count(*) AS n, sum({value}) AS s FROM %%trows"
        )
        self.streams[name] = stream

    def drop_stream(self, name: str) -> None:
        """Drop a stream whose output nobody follows, and its output."""
        self.lake.sql(f"DROP STREAM {name}")
        self.lake.sql(f"DROP TABLE IF EXISTS o_{name}")
        del self.streams[name]
        self.stopped.discard(name)

    def stop(self, name: str) -> None:
        """STOP STREAM."""
        self.lake.sql(f"STOP STREAM {name}")
        self.stopped.add(name)

    def start(self, name: str) -> None:
        """START STREAM."""
        self.lake.sql(f"START STREAM {name}")
        self.stopped.discard(name)

    def recalculate(self, name: str, start: int, end: int) -> None:
        """Ask for a range anew."""
        self.lake.sql(f"RECALCULATE STREAM {name} FROM '{_shown(start)}' TO '{_shown(end)}'")

    def resync(self, name: str) -> None:
        """Ask for everything anew, from the source as it is."""
        self.lake.sql(f"RECALCULATE STREAM {name} RESYNC")

    # --- rows, by statements ---

    def insert(self, table: str, *rows: Row) -> None:
        """Write rows by key."""
        self.lake.insert(table, _arrow(rows))
        self.tables[table].update({row[0]: row for row in rows})

    def update(self, table: str, v: int, *seconds: int) -> None:
        """Set a value."""
        self.lake.sql(f"UPDATE {table} SET v = {v} WHERE {_where(seconds)}")
        self.tables[table].update({at: (*self.tables[table][at][:3], v) for at in seconds})

    def delete(self, table: str, *seconds: int) -> None:
        """Delete rows."""
        self.lake.sql(f"DELETE FROM {table} WHERE {_where(seconds)}")
        self._without(table, seconds)

    # --- rows, by others ---

    def append(self, table: str, *rows: Row) -> None:
        """Append rows of new times past lakestream."""
        write_deltalake(self._path(table), _arrow(rows), mode="append")
        self.tables[table].update({row[0]: row for row in rows})

    def merge(self, table: str, rows: Sequence[Row], gone: Sequence[int]) -> None:
        """Write some rows and delete others by one MERGE past lakestream."""
        doomed = [self.tables[table][at] for at in gone]
        marks = pa.array([False] * len(rows) + [True] * len(doomed))
        source = _arrow([*rows, *doomed]).append_column("gone", marks)
        columns = {name: f"s.{name}" for name in _SCHEMA.names}
        merger = self._delta(table).merge(source, "t.ts = s.ts", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.gone").when_matched_update(columns)
        merger.when_not_matched_insert(columns).execute()
        self._without(table, gone)
        self.tables[table].update({row[0]: row for row in rows})

    def overwrite(self, table: str, *seconds: int) -> None:
        """Write a table anew with some of its rows, past lakestream."""
        rows = [self.tables[table][at] for at in seconds]
        write_deltalake(self._path(table), _arrow(rows), mode="overwrite")
        self.tables[table] = {row[0]: row for row in rows}

    def tend(self, name: str) -> None:
        """Compact and clear a table or an output as others do, which changes no row."""
        path = self._path(f"o_{name}" if name in self.streams else name)
        if DeltaTable.is_deltatable(path):
            DeltaTable(path).optimize.compact()
            DeltaTable(path).vacuum(dry_run=False)
            DeltaTable(path).create_checkpoint()

    # --- the lake ---

    def maintain(self) -> None:
        """Compact, clear and checkpoint what there is."""
        self.lake.maintain()

    def restart(self) -> None:
        """End in good order and begin again."""
        self.lake.close()
        self.lake = self._opened()

    def run(self) -> None:
        """Run until there is nothing to do."""
        failed = self.lake.run().failed
        assert not failed, [(tick.stream, tick.error) for tick in failed]

    def kill(self, point: str, nth: int) -> None:
        """Run until a crash point is reached for the nth time, if it is; the next process knows nothing."""
        try:
            with crash_at(point, nth):
                self.lake.run()
                self.lake.maintain()
                self.lake.close()
        except SimulatedCrash:
            pass
        self.lake = self._opened()

    def move(self) -> None:
        """Go on in what was restored from a backup, at another place."""
        number = next(self._names)
        backup, moved = self.folder / f"backup{number}", self.folder / f"lake{number}"
        self.lake.repair.back_up(str(backup))
        self.lake.close()
        restore(str(backup), str(moved))
        shutil.rmtree(self.root)
        shutil.rmtree(backup)
        self.root = moved
        self.lake = self._opened()

    # --- what must hold ---

    def check(self) -> None:
        """Close the windows by later rows, run, and hold every output and table to what it must be."""
        for table, rows in self.tables.items():
            newest = max(rows, default=0) + CLOSING
            self.insert(table, *((newest + group, group, 9, 0) for group in GROUPS))
        self.run()
        self.check_outputs()

    def check_outputs(self) -> None:
        """Hold every output and every table to what it must be once everything has run."""
        states = {status.name: status for status in self.lake.streams()}
        assert self.streams.keys() <= states.keys()
        errors = {name: status.last_error for name, status in states.items() if status.last_error}
        assert not errors, errors
        for name in self.streams.keys() - self._behind():
            assert self.found(name) == self.expected(name), name
        for table, rows in self.tables.items():
            there = pa.table(self._delta(table).to_pyarrow_table()).to_pylist()
            assert sorted(map(_row, there)) == sorted(rows.values()), table

    def expected(self, name: str) -> list[tuple[int | None, ...]]:
        """Return what a stream must have said."""
        stream = self.streams[name]
        if stream.source in self.streams:
            before = self.expected(stream.source)
            rows: list[Row] = [(start or 0, 0, 0, n) for start, n, _ in before]
        else:
            rows = list(self.tables[stream.source].values())
        return results(stream.kind, rows, grouped=stream.grouped)

    def found(self, name: str) -> list[tuple[int | None, ...]]:
        """Return what a stream has said."""
        path = self._path(f"o_{name}")
        if not DeltaTable.is_deltatable(path):
            return []
        columns = [*(["g"] if self.streams[name].grouped else []), "w", "n", "s"]
        rows = pa.table(DeltaTable(path).to_pyarrow_table(columns=columns)).to_pylist()
        return sorted(
            tuple(_second(row[name]) if name == "w" else row[name] for name in columns) for row in rows
        )

    def _behind(self) -> set[str]:
        """Return the streams that are stopped, and those that follow them."""
        behind = set(self.stopped)
        while more := {name for name, one in self.streams.items() if one.source in behind} - behind:
            behind |= more
        return behind

    def _without(self, table: str, seconds: Iterable[int]) -> None:
        for at in seconds:
            del self.tables[table][at]

    def _path(self, table: str) -> str:
        return str(self.root / "main" / table)

    def _delta(self, table: str) -> DeltaTable:
        return DeltaTable(self._path(table))


def _refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("Spark is asked")


def _arrow(rows: Iterable[Row]) -> pa.Table:
    listed = [dict(zip(_SCHEMA.names, (_time(at), *rest), strict=True)) for at, *rest in rows]
    return pa.Table.from_pylist(listed, schema=_SCHEMA)


def _row(row: dict[str, Any]) -> Row:
    return _second(row["ts"]), row["g"], row["k"], row["v"]


def _where(seconds: Iterable[int]) -> str:
    return " OR ".join(f"ts = '{_shown(at)}'" for at in seconds)


def _time(second: int) -> datetime:
    return START + timedelta(seconds=second)


def _shown(second: int) -> str:
    return _time(second).isoformat(sep=" ")


def _second(time: datetime) -> int:
    return int((time - START).total_seconds())
