"""SHOW STREAMS LIKE, and SHOW CREATE STREAM. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("a1", "a_1", "ab1", "b1")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    settings = Settings(notify_hosts=("localhost",))
    with Lake(tmp_path_factory.mktemp("shown") / "lake", settings=settings) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        for name in NAMES:
            lake.sql(f"CREATE STREAM {name} SESSION(ts, 1m) FROM t INTO o_{name} AS SELECT _twstart AS ws")
        yield lake


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a%", ["a1", "a_1", "ab1"]),
        ("A%", ["a1", "a_1", "ab1"]),
        ("a_1", ["a_1", "ab1"]),
        ("a\\_1", ["a_1"]),
        ("%b%", ["ab1", "b1"]),
        ("b1", ["b1"]),
        ("b", []),
        ("", []),
        ("[ab]1", []),
    ],
)
def test_streams_are_found_by_a_pattern(lake: Lake, pattern: str, names: list[str]) -> None:
    written = pattern.replace("\\", "\\\\")
    assert [row[1] for row in lake.sql(f"SHOW STREAMS LIKE '{written}'").fetchall()] == names
    assert [row[1] for row in lake.sql(f"SHOW main.STREAMS LIKE '{written}'").fetchall()] == names


def test_a_stream_is_shown_as_it_was_written_without_what_is_secret(lake: Lake) -> None:
    text = (
        "CREATE STREAM told SESSION(ts, 1m)  FROM t NOTIFY('ws://localhost:9/n?key={}') "
        "ON (WINDOW_CLOSE) -- why\n INTO o AS SELECT _twstart AS ws"
    )
    lake.sql(text.format("s3cret"))
    [(name, shown)] = lake.sql("SHOW CREATE STREAM told").fetchall()
    assert (name, shown) == ("main.told", text.replace("key={}", "**********"))
    lake.sql("DROP STREAM told")
