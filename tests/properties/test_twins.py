"""Lakes that are told the same commits have the same outputs, however these were cut into ticks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from math import inf, nan
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake, Settings
from lakestream.storage.sessions import session
from tests.properties.followed import without_spark
from tests.properties.twins import refuse, tried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    """Have the small path alone compute."""
    with without_spark(), patch.object(session, "spark_session", refuse):
        yield


TIED = (
    "('2025-01-01 08:00:20', 'a', 1)",
    " ".join(f"('2025-01-01 08:00:30', '{site}', 2)" for site in "abcd"),
    "('2025-01-01 08:01:30', 'a', 3)",
    "('2025-01-01 08:01:40', 'a', 4)",
)
"""Commits in order, of which one has several rows of one time."""


@pytest.mark.parametrize("trigger", ["COUNT_WINDOW(2, 1)", "COUNT_WINDOW(3, 2)", "COUNT_WINDOW(2)"])
def test_of_windows_that_begin_at_one_instant_the_last_one_counts(tmp_path: Path, trigger: str) -> None:
    found = []
    for name, commits in (("each", TIED), ("one", (" ".join(TIED),))):
        with Lake(tmp_path / name, settings=Settings()) as lake:
            lake.sql("CREATE TABLE src (ts TIMESTAMP, site VARCHAR(8) COMPOSITE KEY, v INT)")
            lake.sql(
                f"CREATE STREAM s {trigger} FROM src STREAM_OPTIONS(EXACT) INTO o AS SELECT _twstart AS at, "
                "_twend AS until, count(*) AS n, sum(v) AS total FROM %%trows"
            )
            for commit in commits:
                lake.sql(f"INSERT INTO src VALUES {commit}")
                assert not lake.run().failed
            found.append(lake.sql("SELECT at, until, n, total FROM o ORDER BY ALL").fetchall())
    assert found[0] == found[1]
    assert len({row[0] for row in found[0]}) == len(found[0])


def test_a_history_gives_the_same_however_it_is_cut() -> None:
    counted, found = tried("kept", streams=3, commits=4)
    assert (counted["red"], found) == (0, [])
    assert counted["equal"]


KEYS: dict[str, tuple[pa.DataType, list[object]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "double": (pa.float64(), [nan, inf, -inf, 0.0, -0.0, 1.5, None]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "date": (pa.date32(), [date(1969, 12, 31), None]),
    "text": (pa.string(), ["", "o'x", None]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_replace_those_of_their_key_whatever_it_is(tmp_path: Path, kind: str) -> None:
    arrow, values = KEYS[kind]
    start = datetime(2025, 1, 1, tzinfo=UTC)
    with Lake(tmp_path / "lake", settings=Settings()) as lake:
        for number, second in enumerate((0, 30, 1, 31, 60)):
            at = pa.array([start + timedelta(seconds=second)] * len(values), pa.timestamp("us", "UTC"))
            rows = pa.table({"ts": at, "g": pa.array(values, arrow)})
            write_deltalake(
                tmp_path / "src",
                rows,
                mode="append",
                configuration=None if number else {"delta.enableChangeDataFeed": "true"},
            )
            if not number:
                lake.sql(f"CREATE TABLE src LOCATION '{tmp_path / 'src'}' TIMESTAMP BY ts")
                lake.sql(
                    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM src PARTITION BY g AS gg "
                    "STREAM_OPTIONS(FILL_HISTORY | IGNORE_NODATA_TRIGGER) INTO o (at, c COMPOSITE KEY, n) "
                    "AS SELECT _twstart, 1, count(*) FROM %%trows GROUP BY 1"
                )
            assert not lake.run().failed
        found = lake.sql("SELECT second(at), gg, n FROM o").fetchall()
    same = 2 if kind == "double" else 1  # 0.0 and -0.0 are one group
    wanted = {(at, str(v + 0.0 if isinstance(v, float) else v)) for at in (0, 30) for v in values}
    assert {(at, str(v)) for at, v, _ in found} == wanted
    assert sorted(n for *_, n in found) == [2] * (len(wanted) - 2 * (same - 1)) + [4] * (2 * (same - 1))


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_histories_give_the_same_however_they_are_cut(number: int) -> None:
    counted, found = tried(f"long-{number}")
    assert (counted["red"], found) == (0, [])


LATE = (
    "('2025-01-01 08:00:02', 'a', 2)",
    "('2025-01-01 08:00:07', 'a', 2)",
    "('2025-01-01 08:00:07.5', 'a', 1) ('2025-01-01 08:00:00', 'a', 0)",
    "('2025-01-01 08:00:20', 'a', 2) ('2025-01-01 08:00:03', 'a', 1)",
    "('2025-01-01 08:00:30', 'a', 1)",
)
"""Commits of one group with rows that are late, and have expired by 5 seconds."""


@pytest.mark.parametrize(
    ("trigger", "policy"),
    [
        ("COUNT_WINDOW(2, 1)", "IGNORE_DISORDER | DELETE_RECALC"),
        ("SESSION(ts, 6s)", "IGNORE_DISORDER | DELETE_RECALC"),
        ("SESSION(ts, 6s)", "EXPIRED_TIME(5s) | DELETE_RECALC"),
        ("STATE_WINDOW(v)", "IGNORE_DISORDER | DELETE_RECALC"),
        ("INTERVAL(5s) SLIDING(5s)", "EXPIRED_TIME(5s) | DELETE_RECALC"),
    ],
)
def test_commits_are_judged_one_by_one_also_where_deletes_are_followed(
    tmp_path: Path, trigger: str, policy: str
) -> None:
    found = []
    for often in (True, False):
        with Lake(tmp_path / str(often), settings=Settings()) as lake:
            lake.sql("CREATE TABLE src (ts TIMESTAMP, site VARCHAR(8) COMPOSITE KEY, v INT)")
            lake.sql(
                f"CREATE STREAM s {trigger} FROM src STREAM_OPTIONS({policy}) INTO o AS "
                "SELECT _twstart AS at, _twend AS until, count(*) AS n, sum(v) AS total FROM %%trows"
            )
            for commit in LATE:
                lake.sql(f"INSERT INTO src VALUES {commit}")
                assert not often or not lake.run().failed
            assert not lake.run().failed
            found.append(lake.sql("SELECT at, until, n, total FROM o ORDER BY ALL").fetchall())
    assert found[0] == found[1]
