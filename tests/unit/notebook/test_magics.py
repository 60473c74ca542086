"""The magics in a shell of IPython's; nothing here starts Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from lakestream.engine.base.result import Result
from lakestream.errors import StatementError
from lakestream.notebook.charts import chart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.utils.capture import CapturedIO

TABLES = """%%sql
CREATE TABLE power (ts TIMESTAMP, watts DOUBLE);
INSERT INTO power VALUES ('2025-01-01 08:10:00', 700), ('2025-01-01 08:50:00', 740)
  ('2025-01-01 09:30:00', 0)
"""
STREAM = """%%stream --rows 5
CREATE STREAM hourly INTERVAL(1h) SLIDING(1h) FROM power STREAM_OPTIONS(FILL_HISTORY)
INTO power_hourly
AS SELECT _twstart AS hour, count(*) AS n, avg(watts) AS mean FROM %%trows
"""


@dataclass
class Notebook:
    """A shell whose cells show what they would show in a notebook."""

    shell: InteractiveShell

    def __call__(self, cell: str) -> CapturedIO:
        with capture_output() as shown:
            self.shell.run_cell(cell)
        return shown


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Notebook]:
    notebook = Notebook(InteractiveShell.instance())
    notebook("%load_ext lakestream")
    notebook(f"%lake {tmp_path / 'lake'}")
    yield notebook
    notebook.shell.run_line_magic("lake", "").close()
    InteractiveShell.clear_instance()


def test_a_stream_is_made_run_and_shown_in_one_cell(run: Notebook) -> None:
    run(TABLES)
    shown = run(STREAM)
    assert not shown.stderr
    progress, *rest = shown.outputs
    assert "created stream main.hourly" in progress.data["text/html"]
    final = [one.data["text/html"] for one in rest if "rows in" in one.data.get("text/html", "")]
    assert "3 rows in, 1 out" in final[-1]
    assert final[-1].endswith("; done</div>")
    rows, drawn = rest[-2:]
    assert "<th>mean</th>" in rows.data["text/html"]
    assert "720.0" in rows.data["text/html"]
    assert "vegaEmbed" in drawn.data["text/html"]


def test_statements_give_results_and_variables(run: Notebook) -> None:
    run(TABLES)
    run("%%sql found\nSELECT count(*) AS n FROM power")
    found = run.shell.user_ns["found"]
    assert isinstance(found, Result)
    assert found.fetchall() == [(3,)]
    shown = run("%%sql --chart\nSELECT ts, watts FROM power")
    assert ["vegaEmbed" in one.data["text/html"] for one in shown.outputs] == [False, True]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%sql\nSELECT * FROM nothing", "there is no table main.nothing"),
        ("%%stream\nSELECT 1", "%%stream takes one CREATE STREAM"),
        ("%%stream\nCREATE STREAM", "SYNTAX"),
        ("%%sql --dialect oracle\nSELECT 1", "invalid choice"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(run: Notebook, cell: str, said: str) -> None:
    shown = run(cell)
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr + shown.stdout


def test_a_chart_has_a_line_for_each_number_by_group() -> None:
    at = [datetime(2025, 1, 1, hour, tzinfo=UTC) for hour in (8, 9)]
    rows = pa.table(
        {
            "hour": pa.array(at, pa.timestamp("us", "UTC")),
            "n.of": [1, 2],
            "price": [Decimal("1.5"), None],
            "hall": ["A", "B"],
        }
    )
    drawn = chart(rows).to_dict()
    assert drawn["spec"]["encoding"]["x"]["field"] == "hour"
    assert drawn["spec"]["encoding"]["color"]["field"] == "hall"
    assert drawn["spec"]["transform"][0]["fold"] == ["n.of", "price"]
    with pytest.raises(StatementError, match="NOTHING_TO_CHART"):
        chart(pa.table({"hall": ["A"]}))


def test_a_lake_that_cannot_be_opened_is_told_and_leaves_the_one_before(run: Notebook) -> None:
    run(TABLES)
    refused = run("%lake /proc/nothing")
    assert refused.stderr.startswith("UsageError: error[LAKE_NOT_WRITABLE]")
    assert "Traceback" not in refused.stderr + refused.stdout
    assert run("%%sql\nSELECT count(*) AS n FROM power").stderr == ""


def test_a_shell_without_html_shows_the_rows_too() -> None:
    rows = Result(["name", "n"], [("a", 1), ("b", None)], message="two")
    assert repr(rows).splitlines()[-1] == "two"
    assert [line.split() for line in repr(rows).splitlines() if line[:1] in "nab"] == [
        ["name", "n"],
        ["a", "1"],
        ["b", "NULL"],
    ]
    assert "5 more rows" in repr(Result(["n"], [(1,)] * 105))
    assert repr(Result(message="created table main.t")) == "created table main.t"
