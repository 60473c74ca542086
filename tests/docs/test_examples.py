"""Every example of README and docs/ does what the page says; see :mod:`tests.docs.pages` for the rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, SMALL, Runner, commands, examples, pages, tidy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    before = dict(os.environ)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in pages() if p not in SMALL], ids=_name)
def test_the_page_does_what_it_says(spark: SparkSession, folder: Path, page: Path) -> None:
    runner = Runner(spark, folder)
    check(runner, page)
    runner.close()


@pytest.mark.parametrize("page", [p for p in pages() if p in SMALL], ids=_name)
def test_the_page_does_what_it_says_without_spark(
    folder: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.delattr(SparkSession, "builder")
    runner = Runner(None, folder)
    check(runner, page)
    runner.close()


def check(runner: Runner, page: Path) -> None:
    for example in examples(page):
        where = f"{page.name}:{example.block.line}"
        printed = runner.run(example.block)
        if example.expected is not None:
            assert printed == tidy(example.expected), f"{where} prints\n{printed}"


def test_commands_are_cut_at_the_dollar_sign() -> None:
    text = '$ lakestream sql "SELECT\n1"\n1\n$ lakestream run --poll 1 \\\n  --watch\n'
    assert list(commands(text)) == [
        (["lakestream", "sql", "SELECT\n1"], "1"),
        (["lakestream", "run", "--poll", "1", "--watch"], ""),
    ]
