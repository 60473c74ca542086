"""A resynchronisation of a small source, and another definition of its stream, ask no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, ManualClock
from lakestream.engine.reading.small import SmallPath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = {
    "tumbling": "INTERVAL(1m) SLIDING(1m) FROM t PARTITION BY s",
    "hopping": "INTERVAL(2m) SLIDING(1m) FROM t",
    "sessions": "SESSION(ts, 20s) FROM t PARTITION BY s",
    "counted": "COUNT_WINDOW(3) FROM t PARTITION BY s",
    "stated": "STATE_WINDOW(v) FROM t PARTITION BY s",
    "evented": "EVENT_WINDOW(START WITH v > 1 END WITH v > 2) FROM t PARTITION BY s",
}
VIEWS = {
    "by_key": "SELECT s, count(*) AS n, sum(v) AS total FROM t GROUP BY s",
    "by_window": "SELECT window.start AS w, count(*) AS n FROM t GROUP BY window(ts, '1 minute')",
}
SELECTED = "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(SmallPath, "_of_spark", lambda *_: pytest.fail("Spark is asked"))
    with Lake(tmp_path / "lake") as opened:
        opened.sql("CREATE TABLE t (ts TIMESTAMP, v INT, s VARCHAR(4))")
        yield opened


def _insert(lake: Lake, minute: int) -> None:
    rows = [(second, (minute * second) % 4, "ab"[second % 2]) for second in (3, 14, 25, 36, 58)]
    lake.insert("t", [{"ts": f"2026-01-01 00:0{minute}:{at:02}", "v": v, "s": s} for at, v, s in rows])
    lake.run()


def _rows(lake: Lake, name: str) -> list[str]:
    return sorted(map(str, lake.sql(f"SELECT * FROM {name}").fetchall()))


def test_streams_that_are_resynchronised_go_on_as_others(lake: Lake) -> None:
    for name, trigger in KINDS.items():
        lake.sql(f"CREATE STREAM {name} {trigger} INTO of_{name} {SELECTED}")
    for name, query in VIEWS.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for minute in range(3):
        _insert(lake, minute)
    for name in (*KINDS, *VIEWS):
        lake.sql(f"RECALCULATE STREAM {name} RESYNC")
    lake.run()
    for minute in range(3, 6):
        _insert(lake, minute)
    assert {stream.status for stream in lake.streams()} == {"Running"}
    for name, trigger in KINDS.items():
        lake.sql(
            f"CREATE STREAM {name}_again {trigger} STREAM_OPTIONS(FILL_HISTORY) INTO again_{name} {SELECTED}"
        )
    for name, query in VIEWS.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name}_again AS {query}")
    lake.run()
    for name in KINDS:
        assert _rows(lake, f"of_{name}") == _rows(lake, f"again_{name}") != [], name
    for name in VIEWS:
        assert _rows(lake, name) == _rows(lake, f"{name}_again") != [], name


def test_a_stream_with_another_definition_goes_on(lake: Lake) -> None:
    lake.sql(f"CREATE STREAM one {KINDS['tumbling']} INTO of_one {SELECTED}")
    for minute in range(3):
        _insert(lake, minute)
    lake.sql(f"CREATE OR REPLACE STREAM one {KINDS['tumbling'].replace('1m', '2m')} INTO of_one {SELECTED}")
    for minute in range(3, 6):
        _insert(lake, minute)
    found = lake.sql("SELECT w, s, n FROM of_one ORDER BY w, s").fetchall()
    assert [(w.minute, s, n) for w, s, n in found] == [
        (m, s, n) for m in (0, 2) for s, n in (("a", 6), ("b", 4))
    ]


CLASSIC = "AS SELECT _wstart AS at, {} FROM t PARTITION BY s AS {} INTERVAL(1m)"


@pytest.mark.parametrize(
    ("figure", "tag"), [("count(*) AS many", "part"), ("count(*) AS n", "place"), ("avg(v) AS n", "part")]
)
def test_columns_of_other_names_or_types_have_the_output_made_anew(lake: Lake, figure: str, tag: str) -> None:
    def define(word: str, figure: str, tag: str) -> dict[str, str]:
        said = lake.sql(
            f"{word} STREAM c TRIGGER WINDOW_CLOSE IGNORE EXPIRED 0 INTO o TAGS ({tag} VARCHAR(4)) "
            + CLASSIC.format(figure, tag)
        )
        return {row[0]: row[2] for row in said.fetchall()} if said.columns else {}

    name = figure.rpartition(" ")[2]
    define("CREATE", "count(*) AS n", "part")
    for minute in range(3):
        _insert(lake, minute)
    wanted = len(_rows(lake, "o"))
    assert define("CREATE OR REPLACE", figure, tag)["output"] == "made anew: its columns are others"
    lake.run()
    assert lake.sql("SELECT * FROM o").columns == ("at", name, "tbname", tag)
    kinds = {row[0]: row[1] for row in lake.sql("DESCRIBE o").fetchall()}
    assert kinds[name] == ("DOUBLE" if "avg" in figure else "BIGINT")
    assert len(_rows(lake, "o")) == wanted


OVER = {
    "some": "SELECT w, n FROM h WHERE n > 1",
    "pairs": "SELECT a.w, b.n FROM h a JOIN h b ON a.n = b.total",
    "counted": "SELECT n, count(*) AS many FROM h GROUP BY n",
    "over": "SELECT n FROM some",
}


@pytest.mark.parametrize("groups", [("PARTITION BY s", ""), ("", "PARTITION BY s")])
def test_views_over_an_output_whose_groups_are_others_are_made_anew(
    lake: Lake, groups: tuple[str, str]
) -> None:
    text = f"STREAM h SESSION(ts, 12s) FROM t {{}} STREAM_OPTIONS(EXACT | FILL_HISTORY) INTO h {SELECTED}"
    lake.sql("CREATE " + text.format(groups[0]))
    for name, query in OVER.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    _insert(lake, 0)
    lake.sql("CREATE OR REPLACE " + text.format(groups[1]))
    for name in OVER:
        lake.sql(f"RECALCULATE STREAM {name} RESYNC")
    lake.run()
    _insert(lake, 1)
    assert {one.status for one in lake.streams()} == {"Running"}
    for name, query in OVER.items():
        assert sorted(map(str, lake.sql(query).fetchall())) == _rows(lake, name)


class Delayed:
    """A lake with a stream that shows what is open once five seconds have passed."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.lake = Lake(path, clock=self.clock)
        self.lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        self.define("CREATE", "SESSION(ts, 20s)")

    def define(self, word: str, trigger: str) -> None:
        self.lake.sql(
            f"{word} STREAM s {trigger} FROM t STREAM_OPTIONS(EXACT | MAX_DELAY(5s) | FILL_HISTORY) "
            "INTO o AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
        )

    def insert(self, *seconds: int) -> None:
        self.lake.insert("t", [{"ts": f"2026-01-01 00:00:{at:02}", "v": at} for at in seconds])

    def pass_delay(self) -> list[tuple[int, int]]:
        """Let a delay pass; return the second of each window that is shown, and its rows."""
        assert not self.lake.run().failed
        self.clock.advance(timedelta(seconds=6))
        assert not self.lake.run().failed
        return [(at.second, n) for at, n in self.lake.sql("SELECT w, n FROM o ORDER BY w").fetchall()]


@pytest.fixture
def delayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Delayed]:
    monkeypatch.setattr(SmallPath, "_of_spark", lambda *_: pytest.fail("Spark is asked"))
    one = Delayed(tmp_path / "lake")
    with one.lake:
        yield one


@pytest.mark.parametrize("trigger", ["INTERVAL(30s) SLIDING(30s)", "COUNT_WINDOW(3)", "SESSION(ts, 10s)"])
def test_what_another_definition_opens_is_shown_when_the_one_before_has_shown_others(
    delayed: Delayed, trigger: str
) -> None:
    delayed.insert(1, 12, 40)
    assert delayed.pass_delay() == [(1, 2), (40, 1)]
    delayed.define("CREATE OR REPLACE", trigger)
    closed = [(1, 3)] if "COUNT" in trigger else [(1, 1), (12, 1)] if "SESSION" in trigger else [(0, 2)]
    opened = [] if "COUNT" in trigger else [(40, 1)] if "SESSION" in trigger else [(30, 1)]
    assert delayed.pass_delay() == closed + opened


def test_what_was_shown_may_be_gone_when_its_stream_is_resynchronised(delayed: Delayed) -> None:
    delayed.insert(1, 12, 40)
    assert delayed.pass_delay() == [(1, 2), (40, 1)]
    delayed.lake.sql("DELETE FROM t WHERE v = 40")
    delayed.lake.sql("RECALCULATE STREAM s RESYNC")
    assert delayed.pass_delay() == [(1, 2)]


def test_what_is_open_is_shown_where_a_stream_is_replaced_before_its_first_tick(delayed: Delayed) -> None:
    delayed.insert(1, 12, 40)
    delayed.define("CREATE OR REPLACE", "INTERVAL(30s) SLIDING(30s)")
    assert delayed.pass_delay() == [(0, 2), (30, 1)]
