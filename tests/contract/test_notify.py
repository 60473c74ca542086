"""What streams tell of, over a websocket: late rows, deletes, recalculations, groups, both syntaxes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.errors import StatementError
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = 1_735_689_600_000
START_AT = datetime(2025, 1, 1, tzinfo=UTC)
TUMBLING = "INTERVAL(10s) SLIDING(10s) FROM nt"
STREAMS = {
    "plain": f"{TUMBLING} {{n}} INTO o1 AS SELECT _twstart AS ws, count(*) AS n FROM %%trows",
    "exact": f"{TUMBLING} STREAM_OPTIONS(EXACT) {{n}} INTO o2 "
    "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows",
    "only": f"{TUMBLING} {{n}}",
    "nodata": f"{TUMBLING} STREAM_OPTIONS(IGNORE_NODATA_TRIGGER | DELETE_RECALC) {{n}} INTO o3 "
    "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows",
    "atopen": f"{TUMBLING} STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) {{n}} INTO o4 "
    "AS SELECT _twstart AS ws, 7 AS n",
    "session": "SESSION(ts, 5s) FROM nt STREAM_OPTIONS(DELETE_RECALC) {n} INTO o5 "
    "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows",
    "raw": f"{TUMBLING} STREAM_OPTIONS(CALC_NOTIFY_ONLY) {{n}} WHERE `max(v)` > 3 "
    "AS SELECT max(v) FROM %%trows",
    "groups": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY loc {n} INTO o6 "
    "OUTPUT_SUBTABLE(concat('x_', loc)) AS SELECT _twstart AS ws, sum(v) AS n FROM %%trows",
    "classic": "INTO o7 AS SELECT _wstart, avg(v) FROM nt INTERVAL(10s) {n} ON_FAILURE DROP",
}


def sent(lake: Lake) -> int:
    """Return how many events the lake's targets have taken."""
    events = lake.events(limit=100_000)
    return sum(state == "sent" for event in events for _, state in event.deliveries)


class Notified:
    """A lake with all the streams, and what came of each since the last look."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.catcher = Catcher()
        self.lake = Lake(root, spark=spark, settings=Settings(notify_hosts=("localhost",)))
        self.lake.sql(
            "CREATE TABLE nt (ts TIMESTAMP, v INT); CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)"
        )
        self.lake.sql("CREATE TABLE shared (ts TIMESTAMP, n BIGINT)")
        clause = f"NOTIFY('{self.catcher.url}/in?key=secret') ON (WINDOW_OPEN | WINDOW_CLOSE)"
        for name, statement in STREAMS.items():
            self.lake.sql(f"CREATE STREAM {name} {statement.format(n=clause)}")
        self._seen = 0

    def write(self, *rows: tuple[int, int]) -> None:
        self.lake.insert("nt", [{"ts": at(second), "v": value} for second, value in rows])

    def run(self) -> dict[str, list[tuple[Any, ...]]]:
        """Run, and return (event, start, end, result) of each stream; result is n where there is one."""
        assert not self.lake.run().failed
        events = self.catcher.events(sent(self.lake))
        new, self._seen = events[self._seen :], len(events)
        return {name: [short(e) for e in new if e["streamName"] == name] for name in STREAMS}


def at(second: int) -> datetime:
    return datetime(2025, 1, 1, 0, 0, second, tzinfo=UTC)


def short(event: dict[str, Any]) -> tuple[Any, ...]:
    ends = [(event[name] - START) / 1_000 for name in ("windowStart", "windowEnd") if name in event]
    result = event.get("result")
    said = () if result is None else (result.get("n", result.get("max(v)", result.get("avg(v)"))),)
    return (event["eventType"].removeprefix("WINDOW_"), *ends, *said)


@pytest.fixture(scope="module")
def notified(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Notified]:
    notified = Notified(tmp_path_factory.mktemp("notified") / "lake", spark)
    yield notified
    notified.lake.close()
    notified.catcher.close()


def test_what_is_emitted_as_rows_come_late_change_and_go(notified: Notified) -> None:
    """One history from the first row on; each step says what every stream tells of it."""
    lake = notified.lake
    notified.write((1, 1), (12, 2))
    lake.insert("m", [{"tbname": name, "loc": loc, "ts": at(s), "v": s} for name, loc, s in METERS])
    found = notified.run()
    first = [("OPEN", 0), ("CLOSE", 0, 10, 1), ("OPEN", 10)]
    assert found["plain"] == found["exact"] == found["nodata"] == found["classic"] == first
    assert found["only"] == [("OPEN", 0), ("CLOSE", 0, 10), ("OPEN", 10)]
    assert found["atopen"] == [("OPEN", 0, 7), ("CLOSE", 0, 10), ("OPEN", 10, 7)]
    assert found["session"] == [("OPEN", 1), ("CLOSE", 1, 1, 1), ("OPEN", 12)]
    assert found["groups"] == [("OPEN", 0), ("CLOSE", 0, 10, 1), ("OPEN", 10), ("OPEN", 10)]
    assert found["raw"] == [], "its condition is about results, and holds of none"

    notified.write((33, 4), (48, 4))
    found = notified.run()
    opened = [("OPEN", 20), ("CLOSE", 20, 30, 0), ("OPEN", 30), ("CLOSE", 30, 40, 1), ("OPEN", 40)]
    assert found["plain"] == found["exact"] == [("CLOSE", 10, 20, 1), *opened]
    assert found["nodata"] == [("CLOSE", 10, 20, 1), *opened[2:]], "windows without rows do not count"
    assert found["raw"] == [("CLOSE", 30, 40, 4)]
    assert found["session"] == [("CLOSE", 12, 12, 1), ("OPEN", 33), ("CLOSE", 33, 33, 1), ("OPEN", 48)]

    notified.write((3, 10))
    found = notified.run()
    assert found["plain"] == found["exact"] == found["nodata"] == [("CLOSE", 0, 10, 2)]
    assert found["raw"] == [("CLOSE", 0, 10, 10)]
    assert found["session"] == [("CLOSE", 1, 3, 2)]
    assert found["only"] == found["atopen"] == found["classic"] == [], "nothing of theirs has changed"

    notified.write((7, 10))
    found = notified.run()
    assert found["session"] == [("INVALIDATION", 12, 12), ("CLOSE", 1, 12, 4)], "one session became of two"

    lake.sql("DELETE FROM nt WHERE ts = '2025-01-01 00:00:12'")
    found = notified.run()
    assert found["plain"] == []
    assert found["exact"] == [("CLOSE", 10, 20, 0)]
    assert found["nodata"] == [("INVALIDATION", 10, 20)]
    assert found["session"] == [("CLOSE", 1, 7, 3)]

    lake.sql("DELETE FROM nt WHERE ts = '2025-01-01 00:00:48'")
    found = notified.run()
    assert found["exact"] == [("INVALIDATION", 30, 40), ("INVALIDATION", 40, 50), ("OPEN", 30)]

    for name in ("plain", "session", "groups", "nodata"):
        lake.sql(f"RECALCULATE STREAM {name} FROM '2025-01-01 00:00:00'")
    found = notified.run()
    assert found.pop("plain") == [("CLOSE", 10, 20, 0)], "the row that was deleted without being followed"
    assert not any(found.values())


METERS = (("a", 1, 1), ("b", 2, 11), ("a", 1, 12))


def test_events_say_what_they_belong_to(notified: Notified) -> None:
    events = notified.catcher.events(sent(notified.lake))
    assert events, "the history above has run"
    by_window: dict[tuple[str, str, int], set[str]] = {}
    for event in events:
        key = (event["streamName"], event["groupId"], event["windowStart"])
        by_window.setdefault(key, set()).add(event["triggerId"])
    assert all(len(ids) == 1 for ids in by_window.values()), "a window has one id"
    assert len({next(iter(ids)) for ids in by_window.values()}) == len(by_window)
    tables = {e["tableName"] for e in events if e["streamName"] == "groups"}
    assert tables == {"x_1", "x_2"}
    assert all("tableName" not in e for e in events if e["streamName"] in ("only", "raw"))
    classic = [e for e in events if e["streamName"] == "classic"]
    assert {(e["triggerType"], e["windowType"], e["windowId"] == e["triggerId"]) for e in classic} == {
        ("Interval", "Time", True)
    }
    assert set(notified.catcher.paths) == {"/in?key=secret"}


def test_secrets_are_not_shown(notified: Notified) -> None:
    assert "secret" not in str(notified.lake.sql("SHOW STREAMS").fetchall())
    assert "secret" not in str(notified.lake.sql("SELECT sql FROM information_schema.ins_streams").fetchall())
    assert "secret" not in str(notified.lake.sql("EXPLAIN STREAM plain").fetchall())
    assert "secret" not in str(
        notified.lake.sql("SELECT * FROM information_schema.ins_stream_targets").fetchall()
    )
    with pytest.raises(StatementError) as refused:
        notified.lake.sql(f"CREATE STREAM x {TUMBLING} NOTIFY('ws://u:secret@h:80?secret') ON (WINDOW_OPEN)")
    assert refused.value.code == "NOTIFY_HOST"
    assert "secret" not in refused.value.render()


def test_events_can_be_asked_for_by_sql(notified: Notified) -> None:
    rows = notified.lake.sql(
        "SELECT event_type, count(*) FROM information_schema.ins_stream_events "
        "WHERE stream_name = 'session' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    session = [
        e["eventType"] for e in notified.catcher.events(sent(notified.lake)) if e["streamName"] == "session"
    ]
    assert dict(rows) == {kind: session.count(kind) for kind in set(session)}
    targets = notified.lake.sql("SELECT sum(sent), sum(dropped) FROM information_schema.ins_stream_targets")
    assert [tuple(row) for row in targets.fetchall()] == [(len(notified.catcher.events()), 0)]


def test_an_output_that_does_not_say_where_its_rows_come_from_is_refused(notified: Notified) -> None:
    with pytest.raises(StatementError, match="do not say which window they are of"):
        notified.lake.sql(
            f"CREATE STREAM x {TUMBLING} NOTIFY('{notified.catcher.url}') ON (WINDOW_OPEN) INTO shared "
            "AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
        )


@pytest.mark.parametrize("name", ["only", "raw"])
def test_a_stream_that_stores_nothing_is_held_against_its_events(notified: Notified, name: str) -> None:
    assert notified.lake.verify(name).holds


def test_a_stream_that_pauses_waits_for_its_target(tmp_path: Path, spark: SparkSession) -> None:
    catcher = Catcher()
    url, port = catcher.url, catcher.port
    catcher.close()
    settings = Settings(notify_hosts=("localhost",))
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT)")
        lake.sql(
            f"CREATE STREAM s COUNT_WINDOW(1) FROM nt NOTIFY('{url}') ON (WINDOW_CLOSE) "
            "NOTIFY_OPTIONS(ON_FAILURE_PAUSE) INTO o AS SELECT _twstart AS ws, sum(v) AS n FROM %%trows"
        )
        for second in (1, 2):
            lake.insert("nt", [{"ts": at(second), "v": second}])
            lake.run()
        assert len(lake.sql("SELECT * FROM o").fetchall()) == 1, "the second row waits"
        assert "cannot be told of" in str(lake.streams()[0].held_back)
        catcher = Catcher(port)
        while len(catcher.events()) < 2:
            lake.run()
        assert [e["result"]["n"] for e in catcher.events(2)] == [1, 2]
        assert lake.streams()[0].held_back is None
        catcher.close()


CLOSING = {
    "plain": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname {o}",
    "alike": "INTERVAL(20s) SLIDING(20s) FROM m PARTITION BY tbname {o}",
    "picked": "INTERVAL(15s) SLIDING(15s) FROM m PARTITION BY tbname {o} WHERE kind > 20",
    "hopping": "INTERVAL(20s) SLIDING(10s) FROM m {o}",
    "exact": "INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(EXACT | WATERMARK(5s)) {o}",
    "ignoring": "INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(IGNORE_DISORDER | EXPIRED_TIME(20s)) {o}",
    "nodata": "INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(IGNORE_NODATA_TRIGGER) {o}",
}


def test_partial_aggregates_tell_of_closings_as_detection_does(tmp_path: Path, spark: SparkSession) -> None:
    """A stream that tells of openings too is detected row by row: both tell of the same closings."""
    catcher, drawn = Catcher(), Random(7)
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(notify_hosts=("localhost",))) as lake:
        lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        for name, trigger in CLOSING.items():
            for suffix, on in {"": "WINDOW_CLOSE", "_all": "WINDOW_OPEN | WINDOW_CLOSE"}.items():
                clause = f"NOTIFY('{catcher.url}') ON ({on})"
                lake.sql(
                    f"CREATE STREAM {name}{suffix} {trigger.format(o=clause)} INTO o_{name}{suffix} "
                    "AS SELECT _twstart AS ws, count(*) AS n, sum(v) AS total, max(v) AS kind FROM %%trows"
                )
        front = 0
        for step in range(6):
            front += drawn.randint(5, 30)
            late = [drawn.randint(0, front)] if step in (2, 3) else []
            seconds = {front, front - drawn.randint(0, 4), *late}
            rows = [
                {"tbname": drawn.choice("ab"), "loc": 1, "ts": START_AT + timedelta(seconds=s), "v": s}
                for s in sorted(seconds)
            ]
            lake.insert("m", rows)
            if step == 0:
                assert all("partial aggregates" in str(lake.explain(name).fetchall()) for name in CLOSING)
            if step == 4:
                lake.sql("DELETE FROM m WHERE v = " + str(front))
            assert not lake.run().failed
        events = catcher.events(sent(lake))
    catcher.close()
    for name in CLOSING:
        own, whole = (
            [
                (e["eventType"], e["windowStart"], e.get("windowEnd"), e["groupId"], str(e.get("result")))
                for e in events
                if e["streamName"] == stream and e["eventType"] != "WINDOW_OPEN"
            ]
            for stream in (name, f"{name}_all")
        )
        assert own == whole, name
        assert len(own) > 3
