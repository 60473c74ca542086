"""TRUE_FOR: windows that are long enough, have rows enough, or both, in streams and in queries."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.properties.followed import without_spark
from tests.reference import cut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMS: dict[str, Callable[[int, int], bool]] = {
    "COUNT 3": lambda _seconds, rows: rows >= 3,
    "3s AND COUNT 3": lambda seconds, rows: seconds >= 3 and rows >= 3,
    "3s OR COUNT 3": lambda seconds, rows: seconds >= 3 or rows >= 3,
}
"""What stands in its brackets, and whether it holds of a window of so many seconds and rows."""
KINDS: dict[str, Callable[[list[tuple[int, int | None]]], list[cut.Window]]] = {
    "STATE_WINDOW(v)": cut.states,
    "EVENT_WINDOW(START WITH v = 1 END WITH v = 2)": lambda rows: cut.events(
        rows, lambda v: v == 1, lambda v: v == 2
    ),
}
CASES = [(kind, form) for kind in KINDS for form in FORMS]


def written(lake: Lake, rows: dict[int, int | None]) -> None:
    """Write rows: seconds and values."""
    at = [{"ts": f"2025-01-01 00:00:{second:02}", "v": v} for second, v in rows.items()]
    lake.insert("t", at)


@pytest.mark.parametrize("seed", range(2))
def test_windows_of_less_give_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    rows: dict[int, int | None] = {}
    with without_spark(), Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        for number, (kind, form) in enumerate(CASES):
            lake.sql(
                f"CREATE STREAM s{number} {kind} TRUE_FOR({form}) FROM t STREAM_OPTIONS(EXACT) "
                f"INTO o{number} AS SELECT _twstart AS w, _twend AS e, count(*) AS n FROM %%trows"
            )
        for until in (14, 28, 42, 56):
            free = [second for second in range(max(0, until - 20), until) if second not in rows]
            new = {second: random.choice((None, 1, 1, 1, 2, 2, 3)) for second in random.sample(free, 7)}
            written(lake, new)
            rows |= new
            lake.run()
        for number, (kind, form) in enumerate(CASES):
            found = lake.sql(f"SELECT second(w), second(e), n FROM o{number} ORDER BY w").fetchall()
            windows = KINDS[kind](sorted(rows.items()))
            assert [tuple(row) for row in found] == [
                (window[0][0], window[-1][0], len(window))
                for window in windows
                if FORMS[form](window[-1][0] - window[0][0], len(window))
            ], (kind, form)


@pytest.mark.parametrize(("form", "first"), [("COUNT 3", [0, 10]), ("4s OR COUNT 3", [0, 4, 10])])
def test_so_they_do_in_queries(tmp_path: Path, form: str, first: list[int]) -> None:
    rows: dict[int, int | None] = {0: 1, 1: 1, 2: 1, 4: 2, 8: 2, 10: 3, 11: 3, 12: 3, 20: 4}
    with without_spark(), Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        written(lake, rows)
        text = f"FROM t STATE_WINDOW(v) TRUE_FOR({form})"
        found = lake.sql(f"SELECT second(_wstart) AS w, count(*) AS n {text} ORDER BY 1").fetchall()
        assert [row[0] for row in found] == first
        tops = lake.sql(f"SELECT top(v, 1) AS v, second(_wstart) AS w {text} ORDER BY 2").fetchall()
        assert [row[1] for row in tops] == first


def test_a_window_opens_once_it_has_rows_enough(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(
            "CREATE STREAM s STATE_WINDOW(v) TRUE_FOR(COUNT 3) FROM t "
            "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) INTO o AS SELECT _twstart AS w, _tgrpid AS g"
        )
        for second, opened in ((1, 0), (3, 0), (5, 1), (6, 1)):
            written(lake, {second: 1})
            lake.run()
            assert len(lake.sql("SELECT w FROM o").fetchall()) == opened
