"""Cases run as from a shell: over a project, over statements of their own, and recorded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from lakestream.cli import cli
from tests.unit.cli.test_schema import check
from tests.unit.project.conftest import READINGS

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

OWN = """
- test: windows of the clock and their events
  clock: 2025-01-01 00:00:00
  sql: |
    CREATE TABLE pulses (ts TIMESTAMP, n INT);
    CREATE STREAM s PERIOD(1h) FROM pulses NOTIFY('wss://example.com:8443/x') ON (ON_TIME)
      INTO counted AS SELECT min(ts) AS since, count(*) AS pulses FROM %%trows;
  steps:
    - insert: {pulses: [{ts: 2024-12-31 20:00:00, n: 1}]}
    - clock: 1h
    - expect: {counted: [{since: 2024-12-31 20:00:00, pulses: 1}]}
    - events: [{eventType: ON_TIME}]
    - insert: {pulses: [{ts: 2024-12-31 21:00:00, n: 1}]}
    - clock: 2025-01-01 02:00:00
  expect: {sql: SELECT count(*) AS n FROM counted, rows: [{n: 2}]}
- test: a table outside
  sql: |
    CREATE TABLE theirs LOCATION '/nowhere' TIMESTAMP BY ts;
    CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM theirs INTO o AS SELECT _twstart, 1 AS n FROM %%trows;
  expect: {o: []}
- test: a statement that is wrong
  sql: |
    CREATE TABLE t (ts TIMESTAMP);
    CREATE STREEM s;
  expect: {t: []}
- test: a clock that goes back
  sql: CREATE TABLE t (ts TIMESTAMP)
  steps: [{clock: 2024-01-01}]
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def called(*words: str) -> Result:
    return CliRunner().invoke(cli, ["test", *words])


def test_cases_with_statements_of_their_own_need_no_project(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    outcome = called("own.yaml", "--junit", "report.xml", "--output", "json")
    assert outcome.exit_code == 1
    check("test", outcome.stdout)
    found = json.loads(outcome.stdout)["tests"]
    assert [(one["test"], one["outcome"], one["line"]) for one in found] == [
        ("windows of the clock and their events", "passed", 2),
        ("a table outside", "failed", 16),
        ("a statement that is wrong", "failed", 21),
        ("a clock that goes back", "failed", 26),
    ]
    codes = [re.findall(r"error\[(\w+)\]", one["message"]) for one in found[1:]]
    assert codes == [["TABLE_OUTSIDE"], ["SYNTAX", "PROJECT_INVALID"], []]
    assert "the clock stands at 2025-01-01 00:00:00+00:00 already" in found[3]["message"]
    suite = ET.parse(tmp_path / "report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")


PROJECT = """# of one case

- test: means   # what it shows
  tables:
    readings: [{tbname: a, room: x, ts: 2025-01-01 00:10:00, celsius: 1}] # one row
  steps:
    - insert: {readings: [{tbname: a, room: x, ts: 2025-01-01 01:10:00, celsius: 3}]}
    - expect:
        # by the hour
        rooms: # said
          - {mean: 7}   # to be recorded

    # at last
  expect: {rooms: [{room: x, mean: 1}]}

- test: nothing is expected yet
  tables:
    readings:
      - {tbname: a, room: 'no', ts: 2025-01-01 00:10:00, celsius: 0.5}
      - {tbname: a, room: 'no', ts: 2025-01-01 02:10:00, celsius: 0.5}
# the end
"""


def test_what_is_found_is_recorded_and_all_else_stays(tmp_path: Path) -> None:
    files = {
        "lakestream.toml": "[parameters]\nwindow = '1h'",
        "tables/readings.sql": READINGS,
        "streams/rooms.sql": "CREATE STREAM rooms_stream INTERVAL(${window}) SLIDING(1h) FROM readings "
        "PARTITION BY room STREAM_OPTIONS(FILL_HISTORY) INTO rooms "
        "AS SELECT _twstart AS hour, avg(celsius) AS mean FROM %%trows;",
        "streams/other.sql": "CREATE STREAM other INTERVAL(1h) SLIDING(1h) FROM nothing INTO others "
        "AS SELECT _twstart, count(*) AS n FROM %%trows;",
        "tests/rooms.yaml": PROJECT,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    failing = called("-k", "means")
    assert failing.exit_code == 1
    assert "rooms.yaml, line 8" in failing.stdout
    assert re.search(r"^- 7\n\+ 1$", failing.stdout, re.MULTILINE)
    (tmp_path / "streams" / "other.sql").unlink()
    assert called("--record").exit_code == 0
    recorded = (
        PROJECT.replace("rooms: # said\n          - {mean: 7}", "rooms:\n          - {mean: 1.0}")
        .replace("[{room: x, mean: 1}]", "[{room: x, mean: 1}]")
        .replace(
            "02:10:00, celsius: 0.5}\n",
            "02:10:00, celsius: 0.5}\n  expect:\n    rooms:\n"
            "      - {hour: '2025-01-01 00:00:00', mean: 0.5, room: 'no'}\n"
            "      - {hour: '2025-01-01 01:00:00', mean: null, room: 'no'}\n",
        )
    )
    assert (tmp_path / "tests" / "rooms.yaml").read_text(encoding="utf-8") == recorded
    assert called().exit_code == 0
    assert not (tmp_path / "lake").exists()
    stream = tmp_path / "streams" / "rooms.sql"
    stream.write_text(files["streams/rooms.sql"].replace("AS mean", "AS middle"), encoding="utf-8")
    assert called("--record").exit_code == 0
    again = (tmp_path / "tests" / "rooms.yaml").read_text(encoding="utf-8")
    assert ("mean: " in again, "rooms: [{room: x}]}" in again, called().exit_code) == (False, True, 0)


def test_no_tests_are_an_error(tmp_path: Path) -> None:
    assert "NO_TESTS" in called().stderr
    (tmp_path / "a.yaml").write_text("- test: a", encoding="utf-8")
    assert "NO_TESTS" in called("a.yaml", "-k", "b").stderr
    (tmp_path / "a.yaml").write_text("- tes: a", encoding="utf-8")
    wrong = called("a.yaml")
    assert (wrong.exit_code, "error[TEST_INVALID]" in wrong.stdout) == (1, True)
