"""Each keyword of each statement, misspelt: the error stands at the word and names the nearest one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lakestream.errors import StatementError
from lakestream.language import parse_script

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUERY = "AS SELECT _twstart, count(*) AS n FROM %%trows"
_STREAM = "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t"
_NOTIFYING = "NOTIFY_OPTIONS(NOTIFY_HISTORY | ON_FAILURE_PAUSE)"
_TUMBLING = "AS SELECT count(*) AS n FROM t GROUP BY TUMBLINGWINDOW(ss, 10)"
_OPTIONS = (
    "WATERMARK(10s) | IGNORE_NODATA_TRIGGER | PRE_FILTER(v > 1) | MAX_DELAY(10s) | LOW_LATENCY_CALC",
    "EXPIRED_TIME(1h) | FILL_HISTORY('2020-01-01') | FORCE_OUTPUT | EVENT_TYPE(WINDOW_CLOSE)",
    "FILL_HISTORY_FIRST | DELETE_RECALC | IGNORE_DISORDER",
    "EXACT",
)
_SOURCES = (
    "TIMESTAMP = 'ts', TIMEZONE = 'UTC', LATE_TOLERANCE = '5s', EXACT = true",
    "TIME_CHARACTERISTIC = 'event', TIMESTAMP = 'ts'",
)
TDENGINE = (
    *(f"{_STREAM} PARTITION BY k STREAM_OPTIONS({options}) INTO o {_QUERY}" for options in _OPTIONS),
    *(f"{_STREAM} EXPECT good CHECK (v > 0) ON VIOLATION {action} INTO o {_QUERY}" for action in
      ("WARN", "DROP", "FAIL", "QUARANTINE")),
    *(f"CREATE STREAM s WITH ({options}) INTO o {_TUMBLING}"
      for options in _SOURCES),
    f"{_STREAM} NOTIFY('ws://a:1/x') ON (WINDOW_OPEN | WINDOW_CLOSE) {_NOTIFYING} INTO o {_QUERY}",
    "CREATE STREAM s PERIOD(1m) FROM t NOTIFY('ws://a:1/x') ON (ON_TIME) INTO o AS SELECT 1 AS n",
    "CREATE STREAM s TRIGGER WINDOW_CLOSE WATERMARK 9s FILL_HISTORY 1 INTO o AS SELECT 1 FROM t INTERVAL(1m)",
    "CREATE STREAM s IGNORE EXPIRED 0 IGNORE UPDATE 0 DELETE_MARK 10d INTO o AS SELECT 1 FROM t INTERVAL(1m)",
    "CREATE TABLE IF NOT EXISTS t (ts TIMESTAMP COMMENT 'a', k STRING COMPOSITE KEY, v INT) COMMENT 'x'",
    "CREATE TABLE t LOCATION '/x'",
    "CREATE STABLE s (ts TIMESTAMP, v INT) TAGS (k INT) COMMENT 'x'",
    "CREATE TABLE d USING s TAGS (1)",
    "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k",
    "RECALCULATE STREAM s FROM '2020-01-01' TO '2020-01-02'",
    "DROP STREAM IF EXISTS s",
    "SHOW STREAMS",
    "ALTER TABLE t ADD COLUMN x INT",
    "INSERT INTO t VALUES (1, 2)",
)  # fmt: skip
_BODY = "BEGIN SELECT count(s) INTO root.x.d(n) FROM root.y.d GROUP BY (10s) END"
IOTDB = (
    f"CREATE CONTINUOUS QUERY q RESAMPLE EVERY 10s BOUNDARY 0 RANGE 10s TIMEOUT POLICY BLOCKED {_BODY}",
    "CREATE TIMESERIES root.a.b WITH DATATYPE=INT32, ENCODING=PLAIN, COMPRESSOR=SNAPPY",
    "CREATE STATELESS TRIGGER t AFTER INSERT ON root.a.** AS 'a.b' WITH ('x'='1')",
)
_NAMES = {"PLAIN", "SNAPPY"}
"""Words that may be any."""


def misspelt(word: str) -> Iterator[str]:
    half = len(word) // 2
    yield word[:half] + word[half + 1 :]
    yield word[: half - 1] + word[half] + word[half - 1] + word[half + 1 :]
    yield f"{word}S"


def cases(statement: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield a word, what it is misspelt as, the statement with it, and where it stands."""
    head = re.split(r" (?:AS|BEGIN) SELECT ", statement)[0]
    for found in re.finditer(r"(?<!')\b[A-Z_]{4,}[0-9]*\b(?!')", head):
        for wrong in set(misspelt(found[0])) - {found[0]}:
            if found[0] not in _NAMES:
                text = statement[: found.start()] + wrong + statement[found.end() :]
                yield found[0], wrong, text, found.start() + 1


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [*(("tdengine", one) for one in TDENGINE), *(("iotdb", one) for one in IOTDB)],
)
def test_a_misspelt_word(dialect: str, statement: str) -> None:
    parse_script(statement, dialect=dialect)
    for word, wrong, text, column in cases(statement):
        with pytest.raises(StatementError) as caught:
            parse_script(text, dialect=dialect)
        error = caught.value
        assert error.place is not None, (text, str(error))
        at = (error.place.line, error.place.column, error.place.length)
        assert at == (1, column, len(wrong)), (text, str(error), error.render())
        assert word in error.hint, (text, str(error))
        assert "^" * len(wrong) in error.render()
