"""Each call of a round to the storage fails in its turn, in several ways: what follows is exact all the same.

The n-th call fails, for n = 1, 2, … until a round makes no further one. Failing is refusing to do anything,
or doing it and losing the answer.
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings
from lakestream.storage.places import files
from tests.notify.catcher import Catcher
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = """
CREATE TABLE a (ts TIMESTAMP, v INT, g VARCHAR(4));
CREATE TABLE d (ts TIMESTAMP, g VARCHAR(4) COMPOSITE KEY, f INT);
INSERT INTO d VALUES ('2026-01-01 00:00:00', 'x', 2), ('2026-01-01 00:00:00', 'y', 3);
"""
GENERIC = "Generic LocalFileSystem error: No space left on device (os error 28)"
DENIED = "Generic LocalFileSystem error: Permission denied (os error 13)"
Failure = tuple[Callable[[], Exception], set[str]]
EVERYWHERE = {"files", "delta-rs", "rows"}
ERRORS: dict[str, Failure] = {
    "disk full": (lambda: OSError(errno.ENOSPC, "No space left on device"), EVERYWHERE),
    "not permitted": (lambda: PermissionError(errno.EACCES, "Permission denied"), EVERYWHERE),
    "damaged": (lambda: OSError(errno.EIO, "Input/output error"), EVERYWHERE),
    "in time": (lambda: TimeoutError("timed out"), EVERYWHERE),
    "as delta-rs says it": (
        lambda: DeltaError(GENERIC),
        {"delta-rs", "rows"},
    ),
    "of a commit": (lambda: CommitFailedError(f"Failed to commit transaction: {DENIED}"), {"delta-rs"}),
    "as Arrow says it": (lambda: Exception(f"C Data interface error: External: {GENERIC}"), {"rows"}),
}
"""By name, an error and what it comes from."""
METHODS = ("__init__", "update_incremental", "get_add_actions", "file_uris", "create_checkpoint")
TOLD = 20
"""Calls that fail one after the other in one lake: what a check reads is not to grow with their number."""
FILES = ("read_bytes", "write_bytes", "exists", "stamp", "size")


class Storage:
    """Counts the calls to the storage, and fails one of them."""

    def __init__(self) -> None:
        self.count, self.fails_at, self.does = 0, 0, False
        self.error, self.layers = ERRORS["damaged"]

    def counted(self, call: Callable[..., Any], layer: str) -> Callable[..., Any]:
        """Return a call that is counted where the error comes from its layer."""

        @wraps(call)
        def counting(*given: Any, **named: Any) -> Any:
            self.count += layer in self.layers
            if self.count != self.fails_at or layer not in self.layers:
                return call(*given, **named)
            if self.does:
                call(*given, **named)
            raise self.error()

        return counting

    @contextmanager
    def failing(self, at: int, failure: Failure, *, does: bool) -> Iterator[None]:
        """Have the call of a number fail."""
        (self.error, self.layers), self.count, self.fails_at, self.does = failure, 0, at, does
        yield
        self.fails_at = 0


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """Put the counter between lakestream and delta-rs."""
    counter, patch = Storage(), pytest.MonkeyPatch()
    modules = [one for name, one in sys.modules.items() if name.startswith("lakestream.")]
    for module in modules:
        if hasattr(module, "write_deltalake"):
            patch.setattr(module, "write_deltalake", counter.counted(module.write_deltalake, "delta-rs"))
    for name in METHODS:
        patch.setattr(DeltaTable, name, counter.counted(getattr(DeltaTable, name), "delta-rs"))
    patch.setattr(DeltaTable, "scan", counter.counted(DeltaTable.scan, "rows"))
    for name in FILES:
        patch.setattr(files, name, counter.counted(getattr(files, name), "files"))
    yield counter
    patch.undo()


@dataclass(frozen=True)
class Kind:
    """Statements that make streams of a kind, what comes with each minute, and their outputs.

    What is read of an output is to be what DuckDB makes of a query over the tables it comes from.
    """

    made: str
    outputs: dict[str, str]
    comes: tuple[str, ...] = ()
    events: str = ""


CLOSED = "ts < (SELECT date_trunc('minute', max(ts)) FROM a)"
BY_MINUTE = f"SELECT date_trunc('minute', ts) AS w, g, count(*) AS n, sum(v) AS s FROM a WHERE {CLOSED}"
KINDS = {
    "windows": Kind(
        """
        CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a PARTITION BY g INTO o AS
          SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows;
        CREATE STREAM c COUNT_WINDOW(2) FROM a PARTITION BY g INTO oc AS
          SELECT _twstart AS w, sum(v) AS s FROM %%trows;
        CREATE STREAM chained INTERVAL(2m) SLIDING(2m) FROM o INTO oo AS
          SELECT _twstart AS w, sum(n) AS n FROM %%trows;
        """,
        {
            "w, g, n, s FROM o": f"{BY_MINUTE} GROUP BY ALL",
            "w, g, s FROM oc": "SELECT min(ts), g, sum(v) FROM (SELECT *, (row_number() OVER (PARTITION BY g "
            "ORDER BY ts) - 1) // 2 AS pair FROM a) GROUP BY g, pair HAVING count(*) = 2",
            "w, n FROM oo": "SELECT time_bucket(INTERVAL 2 minutes, w) AS two, sum(n) FROM o "
            "WHERE w < (SELECT time_bucket(INTERVAL 2 minutes, max(w)) FROM o) GROUP BY two",
        },
    ),
    "views": Kind(
        """
        CREATE MATERIALIZED VIEW by_key AS
          SELECT g, count(*) AS n, sum(v) AS s, max(v) AS most FROM a GROUP BY g;
        CREATE MATERIALIZED VIEW joined AS SELECT a.ts, a.g, d.f * a.v AS x FROM a JOIN d ON d.g = a.g;
        CREATE MATERIALIZED VIEW of_view AS SELECT n, count(*) AS many FROM by_key GROUP BY n;
        """,
        {
            "g, n, s, most FROM by_key": "SELECT g, count(*), sum(v), max(v) FROM a GROUP BY g",
            "ts, g, x FROM joined": "SELECT a.ts, a.g, d.f * a.v FROM a JOIN d ON d.g = a.g",
            "n, many FROM of_view": "SELECT n, count(*) FROM (SELECT count(*) AS n FROM a GROUP BY g) "
            "GROUP BY n",
        },
        (
            "UPDATE a SET v = v + 1 WHERE g = 'x'",
            "DELETE FROM a WHERE v = 3",
            "UPDATE d SET f = f + 1 WHERE g = 'y'",
        ),
    ),
    "followed": Kind(
        """
        CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a STREAM_OPTIONS(EXACT(ALL)) INTO o AS
          SELECT _twstart AS w, sum(d.f * a.v) AS s FROM a JOIN d ON d.g = a.g
          WHERE a.ts >= _twstart AND a.ts < _twend;
        """,
        {
            "w, s FROM o": "SELECT date_trunc('minute', a.ts), sum(d.f * a.v) FROM a JOIN d ON d.g = a.g "
            f"WHERE a.{CLOSED} GROUP BY 1",
        },
        ("UPDATE d SET f = f + 1 WHERE g = 'y'", "UPDATE a SET v = v + 1 WHERE g = 'x'"),
    ),
    "quarantined": Kind(
        """
        CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a
          EXPECT few CHECK (v < 10) ON VIOLATION QUARANTINE
          INTO o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows;
        """,
        {
            "w, n, s FROM o": "SELECT date_trunc('minute', ts), count(*), sum(v) FROM a "
            f"WHERE v < 10 AND {CLOSED} GROUP BY 1",
            "ts, v, g FROM s__quarantine": "SELECT ts, v, g FROM a WHERE v >= 10",
        },
        ("INSERT INTO a (ts, v, g) SELECT max(ts) + INTERVAL '1' SECOND, 10 + count(*), 'x' FROM a",),
    ),
    "notified": Kind(
        """
        CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a PARTITION BY g
          NOTIFY('{url}') ON (WINDOW_CLOSE)
          INTO o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS s FROM %%trows;
        """,
        {"w, g, n, s FROM o": f"{BY_MINUTE} GROUP BY ALL"},
        events=f"SELECT epoch_ms(w), n, s FROM ({BY_MINUTE} GROUP BY ALL)",
    ),
}


def in_utc(rows: pa.Table) -> pa.Table:
    """Return rows whose instants have no zone: DuckDB's own arithmetic with zones is an extension."""
    fields = [
        pa.field(one.name, pa.timestamp("us") if pa.types.is_timestamp(one.type) else one.type)
        for one in rows.schema
    ]
    return rows.cast(pa.schema(fields))


class Story:
    """A lake whose source gets the rows of a minute at a time."""

    def __init__(self, root: Path, kind: Kind, catcher: Catcher) -> None:
        self.root, self.kind, self.catcher, self.minute = root, kind, catcher, 0
        self.lake = self.opened()
        self.lake.sql(TABLES)
        with without_spark():
            self.lake.sql(kind.made.format(url=catcher.url))

    def opened(self) -> Lake:
        return Lake(self.root, settings=Settings(notify_hosts=("localhost",)))

    def come(self) -> None:
        at = f"2026-01-01 {self.minute // 60:02}:{self.minute % 60:02}"
        rows = (("x", "00", 1), ("y", "30", self.minute % 7))
        self.lake.insert("a", [{"ts": f"{at}:{s}", "v": v, "g": g} for g, s, v in rows])
        for statement in self.kind.comes:
            self.lake.sql(statement)
        self.minute += 1

    def close(self) -> None:
        with suppress(LakestreamError):
            self.lake.close()

    def reopen(self) -> None:
        self.close()
        self.lake = self.opened()

    def check(self) -> None:
        """Hold the outputs against what they are to be, and what was sent."""
        states = {one.name: (one.status, one.last_error) for one in self.lake.streams()}
        assert {status for status, _ in states.values()} == {"Running"}, states
        folders = [one for one in (self.root / "main").iterdir() if (one / "_delta_log").is_dir()]
        with duckdb.connect() as judge:
            for one in folders:
                judge.register(one.name, in_utc(DeltaTable(str(one)).to_pyarrow_table()))
            for shown, query in self.kind.outputs.items():
                found, wanted = (Counter(judge.execute(q).fetchall()) for q in (f"SELECT {shown}", query))
                assert found == wanted, (shown, found - wanted, wanted - found)
            if self.kind.events:
                self.check_events(Counter(judge.execute(self.kind.events).fetchall()))

    def check_events(self, wanted: Counter[tuple[Any, ...]]) -> None:
        """Hold each message once against the windows that closed: none lost, none told under two ids."""
        self.catcher.events(sum(wanted.values()))
        messages = {one["messageId"]: one for one in self.catcher.messages}
        events = [event for one in messages.values() for of in one["streams"] for event in of["events"]]
        assert (
            Counter((one["windowStart"], one["result"]["n"], one["result"]["s"]) for one in events) == wanted
        )


@pytest.fixture(params=KINDS)
def told(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Story]]:
    """Return what begins a story of a kind anew, with a few minutes behind it."""
    with ExitStack() as open_ones:
        numbers = count()

        def begun() -> Story:
            open_ones.close()
            story = Story(tmp_path / str(next(numbers)), KINDS[request.param], caught := Catcher())
            open_ones.callback(caught.close)
            open_ones.callback(story.close)
            for _ in range(3):
                story.come()
                story.lake.run()
            story.check()
            return story

        yield begun


@pytest.mark.parametrize("step", [23, 1])
@pytest.mark.parametrize("does", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("failure", ERRORS.values(), ids=ERRORS)
def test_a_round_goes_on_after_any_call_fails(
    told: Callable[[], Story], storage: Storage, failure: Failure, does: bool, step: int
) -> None:
    for tried, number in enumerate(count(1, step)):
        if tried % TOLD == 0:
            story = told()
        story.come()
        story.lake.close()
        with storage.failing(number, failure, does=does), suppress(LakestreamError, OSError):
            story.reopen()
            story.lake.run()
        made = storage.count
        story.reopen()
        story.lake.run()
        story.check()
        if made < number:
            break
    assert tried > 0
