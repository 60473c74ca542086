"""What the columns of outputs are made of, from the definitions of streams; without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lakestream import Lake
from lakestream.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

STATEMENTS = """
    CREATE STABLE power (ts TIMESTAMP, v INT, w DOUBLE) TAGS (hall VARCHAR(8));
    CREATE STREAM minutes INTERVAL(1m) SLIDING(1m) FROM power PARTITION BY tbname, hall INTO means
      AS SELECT _twstart AS since, count(*) AS n, sum(v) + max(w) AS total, min(w) AS least FROM %%trows;
    CREATE STREAM hours INTERVAL(1h) SLIDING(1h) FROM means INTO tops
      AS WITH x AS (SELECT n AS m, total FROM %%trows) SELECT _twstart AS since, max(m + total) AS top FROM x;
    CREATE STREAM other INTERVAL(1m) SLIDING(1m) FROM power INTO others
      AS SELECT _twstart AS since, min(v) AS least FROM %%trows
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    with Lake(root) as lake:
        lake.sql(STATEMENTS)
    return root


def origins(root: Path, stream: str) -> dict[str, list[str] | None]:
    with Lake(root) as lake:
        found = next(one for one in lake.lineage(columns=True).streams if one.stream == stream)
    return {
        column.column: None if column.origins is None else [*map(str, column.origins)]
        for column in found.columns
    }


def test_columns_are_made_of_those_that_their_expressions_name(root: Path) -> None:
    assert origins(root, "main.minutes") == {
        "since": ["main.power.ts"],
        "n": [],
        "total": ["main.power.v", "main.power.w"],
        "least": ["main.power.w"],
        "tbname": ["main.power.hall", "main.power.tbname"],
        "tag_tbname": ["main.power.tbname"],
        "hall": ["main.power.hall"],
    }
    assert origins(root, "main.hours") == {
        "since": ["main.means.since"],
        "top": ["main.means.n", "main.means.total"],
    }


def test_a_stream_is_shown_with_what_leads_to_it_and_goes_on_from_it(root: Path) -> None:
    with Lake(root) as lake:
        assert [one.stream for one in lake.lineage("hours").streams] == ["main.hours", "main.minutes"]
        assert lake.lineage("hours").tables == (
            ("main.means", "output"),
            ("main.power", "super table"),
            ("main.tops", "output"),
        )


def test_the_command_prints_a_table_a_document_and_graphs(root: Path) -> None:
    def printed(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["--lake", str(root), "lineage", "hours", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "main.means.n, main.means.total" in printed()
    document = json.loads(printed("--output", "json"))
    assert [one["stream"] for one in document["streams"]] == ["main.hours", "main.minutes"]
    mermaid = printed("--output", "mermaid").splitlines()
    assert mermaid[0] == "flowchart LR"
    assert '  s0(["main.hours"])' in mermaid
    assert '  t0 -->|"n, since, total"| s0' in mermaid
    dot = printed("--output", "dot")
    assert dot.startswith("digraph lineage {")
    assert '  t0 -> s0 [label="n, since, total"];' in dot
