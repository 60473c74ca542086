"""Windows that rows cut and that have closed stay as they were, but for those that a change touches.

Changes that a stream leaves out make the source's windows others than those of the output; a later change
elsewhere is no reason to bring that in. All of it without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from lakestream import Lake
from lakestream.storage.sessions import session
from tests.properties.followed import without_spark
from tests.properties.twins import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

Rows = list[tuple[float, float, int]]
OUTPUT = "CREATE TABLE o (since TIMESTAMP, until TIMESTAMP, n BIGINT)"


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    """Have the small path alone compute."""
    with without_spark(), patch.object(session, "spark_session", refuse):
        yield


def _insert(*rows: tuple[int, int]) -> str:
    return "INSERT INTO p VALUES " + " ".join(f"('2025-01-01 00:00:{at:02}', {v})" for at, v in rows)


def _output(folder: Path, trigger: str, options: str, commits: list[str], *, is_theirs: bool = False) -> Rows:
    """Return the output's rows, as seconds, of a stream that runs behind each commit."""
    with Lake(folder) as lake:
        lake.sql("CREATE TABLE p (ts TIMESTAMP, v INT)")
        if is_theirs:
            lake.sql(OUTPUT)
        lake.sql(
            f"CREATE STREAM s {trigger} FROM p {options} INTO o (since, until, n) "
            "AS SELECT _twstart, _twend, count(*) FROM %%trows"
        )
        for commit in commits:
            lake.sql(commit)
            assert not lake.run().failed
        found = lake.sql("SELECT since, until, n FROM o ORDER BY since").to_arrow().to_pylist()
    return [(_second(row["since"]), _second(row["until"]), row["n"]) for row in found]


def _second(at: datetime) -> float:
    return round(at.timestamp() % 60, 3)


DELETED = [
    _insert((5, 1), (7, 1), (10, 2), (12, 2), (20, 3)),
    "DELETE FROM p WHERE ts = '2025-01-01 00:00:12'",
    _insert((6, 1)),
    _insert((30, 9)),
]
"""A row of a window that has closed goes, which triggers nothing; then a late row comes into another one."""


@pytest.mark.parametrize("is_theirs", [False, True])
@pytest.mark.parametrize(
    ("trigger", "rows"),
    [
        ("SESSION(ts, 2s)", [(5, 7, 3), (10, 12, 2), (20, 20, 1)]),
        ("STATE_WINDOW(v)", [(5, 7, 3), (10, 12, 2), (20, 20, 1)]),
        ("STATE_WINDOW(v) EXTEND(1)", [(5, 9.999, 3), (10, 19.999, 2), (20, 29.999, 1)]),
        ("STATE_WINDOW(v) EXTEND(2)", [(5, 7, 3), (7.001, 12, 2), (12.001, 20, 1)]),
    ],
)
def test_a_late_row_elsewhere_leaves_a_window_as_it_closed(
    tmp_path: Path, trigger: str, rows: Rows, is_theirs: bool
) -> None:
    assert _output(tmp_path, trigger, "", DELETED, is_theirs=is_theirs) == rows


@pytest.mark.parametrize("is_theirs", [False, True])
def test_an_expired_row_is_not_counted_for_a_change_elsewhere(tmp_path: Path, is_theirs: bool) -> None:
    commits = [
        _insert((10, 2), (20, 3), (34, 3), (41, 2), (45, 2)),
        _insert((32, 3)),  # has expired
        _insert((46, 1)),
        _insert((44, 2)),
        _insert((54, 3)),
    ]
    rows = [(10, 19.999, 1), (20, 40.999, 2), (41, 45.999, 3), (46, 53.999, 1)]
    options = "STREAM_OPTIONS(EXPIRED_TIME(8s))"
    found = _output(tmp_path, "STATE_WINDOW(v) EXTEND(1)", options, commits, is_theirs=is_theirs)
    assert found == rows


@pytest.mark.parametrize(
    ("trigger", "rows"),
    [
        ("STATE_WINDOW(v)", [(4, 14, 5)]),
        ("STATE_WINDOW(v) EXTEND(1)", [(4, 19.999, 5)]),
        ("STATE_WINDOW(v) EXTEND(2)", [(4, 14, 5)]),
    ],
)
def test_an_expired_row_does_not_cut_what_is_open_when_a_late_one_comes(
    tmp_path: Path, trigger: str, rows: Rows
) -> None:
    commits = [_insert((4, 2), (12, 2), (14, 2)), _insert((5, 9)), _insert((7, 2)), _insert((20, 1))]
    found = _output(tmp_path, trigger, "STREAM_OPTIONS(EXPIRED_TIME(8s))", commits)
    assert found == rows


def test_an_open_window_that_a_change_touches_begins_where_its_rows_say(tmp_path: Path) -> None:
    gone = "DELETE FROM p WHERE ts = '2025-01-01 00:00:08'"
    commits = ["INSERT INTO p VALUES ('2025-01-01 00:00:08', NULL)", _insert((3, 1)), _insert((13, 1)), gone]
    options = "STREAM_OPTIONS(IGNORE_DISORDER | DELETE_RECALC | WATERMARK(4s))"
    found = _output(
        tmp_path, "STATE_WINDOW(v) EXTEND(2)", options, [*commits, _insert((50, 9)), _insert((59, 9))]
    )
    assert found == [(3, 13, 2)]
