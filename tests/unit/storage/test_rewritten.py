"""Queries that were rewritten are found by the next process, and by nobody where the file is not sound."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

from lakestream.storage.small import rewritten as module
from lakestream.storage.small.dialect.query import duckdb_sql
from lakestream.storage.small.rewritten import DuckQuery, KeptQueries, rewritten

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "SELECT a / 2 AS half FROM v WHERE b > 1"
QUERY = DuckQuery("SELECT 1", ("v", "w"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "within" / "queries.sqlite"


def test_what_one_process_has_rewritten_another_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "user_folder", lambda: tmp_path)
    answers, dialects = [], []
    for _ in range(2):
        rewritten.cache_clear()
        module._of_user.cache_clear()
        monkeypatch.setattr(
            "lakestream.storage.small.dialect.query.duckdb_sql",
            lambda text, **more: dialects.append(text) or duckdb_sql(text, **more),  # type: ignore[func-returns-value]
        )
        answers.append(rewritten(TEXT))
    assert answers == [duckdb_sql(TEXT)] * 2
    assert dialects == [TEXT]
    rewritten.cache_clear()
    module._of_user.cache_clear()


def test_a_query_is_kept_for_others_but_not_shown_to_them(path: Path) -> None:
    KeptQueries(path).add(TEXT, QUERY)
    assert KeptQueries(path).find(TEXT) == QUERY
    assert KeptQueries(path).find(TEXT + " ") is None
    assert path.stat().st_mode & 0o077 == 0


def test_other_code_rewrites_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeptQueries(path).add(TEXT, QUERY)
    monkeypatch.setattr(module, "_code", lambda: b"another version")
    assert KeptQueries(path).find(TEXT) is None


@pytest.mark.parametrize(
    "damage", ["said = replace(said, 'SELECT 1', 'SELECT 2')", "said = x'00'", "checksum = x'00'"]
)
def test_what_is_not_as_it_was_written_is_not_believed(path: Path, damage: str) -> None:
    KeptQueries(path).add(TEXT, QUERY)
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE queries SET {damage}")
    kept = KeptQueries(path)
    assert kept.find(TEXT) is None
    kept.add(TEXT, QUERY)
    assert kept.find(TEXT) == QUERY


def test_a_query_does_not_answer_for_another_one(path: Path) -> None:
    kept = KeptQueries(path)
    kept.add(TEXT, QUERY)
    kept.add("SELECT 2", DuckQuery("SELECT 2", ()))
    with sqlite3.connect(path) as connection:
        [mine, _] = connection.execute("SELECT query FROM queries ORDER BY number").fetchall()
        connection.execute("DELETE FROM queries WHERE number = 1")
        connection.execute("UPDATE queries SET query = ?", mine)
    assert kept.find(TEXT) is None


def test_a_damaged_file_goes_and_the_next_process_makes_it_anew(path: Path) -> None:
    KeptQueries(path).add(TEXT, QUERY)
    path.write_bytes(b"no database" * 1_000)
    kept = KeptQueries(path)
    kept.add(TEXT, QUERY)
    assert kept.find(TEXT) is None
    assert not path.exists()
    after = KeptQueries(path)
    after.add(TEXT, QUERY)
    assert after.find(TEXT) == QUERY


def test_without_a_folder_none_are_known(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = KeptQueries(tmp_path / "file" / "queries.sqlite")
    kept.add(TEXT, QUERY)
    assert kept.find(TEXT) is None


def test_the_oldest_make_room_and_long_ones_take_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    kept = KeptQueries(path)
    for number in range(4):
        kept.add(str(number), QUERY)
    kept.add("long", DuckQuery("x" * 60_000, ()))
    assert [kept.find(str(number)) for number in range(4)] == [None, None, QUERY, QUERY]
    assert kept.find("long") is None


def _add_some(path: Path, process: int) -> None:
    kept = KeptQueries(path)
    for number in range(50):
        kept.add(f"{process} {number}", DuckQuery(f"SELECT {number}", (str(process),)))


def test_several_processes_write_at_once(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add_some, args=(path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = [KeptQueries(path).find(f"{process} {number}") for process in range(3) for number in range(50)]
    assert found == [DuckQuery(f"SELECT {n}", (str(p),)) for p in range(3) for n in range(50)]


def test_a_process_that_was_forked_opens_the_file_by_itself() -> None:
    assert module._of_user(os.getpid()) is module._of_user(os.getpid())
    assert module._of_user(os.getpid()) is not module._of_user(-1)
