"""What a receiver of OpenLineage hears of ticks, and what becomes of them where it does not listen."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from openlineage.client.event_v2 import RunState

from lakestream.clock import ManualClock
from lakestream.engine.rounds.runtime import TickReport
from lakestream.lake import Lake
from lakestream.observation.openlineage.events import Told, events_of
from lakestream.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
CREATE TABLE power (ts TIMESTAMP, watts DOUBLE) COMMENT 'of the plant';
CREATE STREAM hourly INTERVAL(1h) SLIDING(1h) FROM power INTO power_hourly
  AS SELECT _twstart AS hour, count(*) AS n, max(watts) AS most FROM %%trows;
INSERT INTO power VALUES ('2025-01-01 08:10:00', 700), ('2025-01-01 09:00:00', 0)
"""


def ticked(root: Path, **settings: Any) -> None:
    with Lake(root, settings=Settings(**settings)) as lake:
        lake.sql(TABLES)
        assert [tick.error for tick in lake.run().ticks] == [None]
        assert lake.sql("SELECT most FROM power_hourly").fetchall() == [(700.0,)]


def test_each_tick_is_a_run_with_its_tables_and_the_lineage_of_columns(tmp_path: Path) -> None:
    heard = tmp_path / "events.ndjson"
    ticked(tmp_path / "lake", openlineage_url=str(heard), openlineage_namespace="plant")
    events = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    start, end = events
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("plant", "main.hourly")
    assert "CREATE STREAM hourly" in end["job"]["facets"]["sql"]["query"]
    source, output = end["inputs"][0], end["outputs"][0]
    assert (source["namespace"], source["name"]) == ("file", str(tmp_path / "lake" / "main" / "power"))
    assert source["facets"]["symlinks"]["identifiers"][0]["name"] == "main.power"
    assert source["facets"]["documentation"]["description"] == "of the plant"
    assert [one["name"] for one in source["facets"]["schema"]["fields"]] == ["ts", "watts"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    fields = output["facets"]["columnLineage"]["fields"]
    assert [one["field"] for one in fields["most"]["inputFields"]] == ["watts"]
    assert fields["most"]["inputFields"][0]["name"] == source["name"]
    assert fields["most"]["inputFields"][0]["transformations"][0]["subtype"] == "TRANSFORMATION"
    assert [one["field"] for one in fields["hour"]["inputFields"]] == ["ts"]
    assert fields["n"]["inputFields"] == []


def test_an_execution_of_a_continuous_query_is_a_run_too(tmp_path: Path) -> None:
    heard, clock = tmp_path / "events.ndjson", ManualClock(datetime(2025, 1, 1, tzinfo=UTC))
    settings = Settings(openlineage_url=str(heard))
    with Lake(tmp_path / "lake", settings=settings, clock=clock) as lake:
        lake.sql("INSERT INTO root.ln.a(time, t) VALUES (2025-01-01T00:00:30Z, 20)", dialect="iotdb")
        lake.sql(
            "CREATE CQ mean RESAMPLE EVERY 1m BEGIN SELECT avg(t) INTO root.mean.a(t) FROM root.ln.a "
            "GROUP BY(1m) END",
            dialect="iotdb",
        )
        clock.advance(timedelta(minutes=1))
        assert {tick.error for tick in lake.run().ticks} == {None}
    start, end = [json.loads(line) for line in heard.read_text().splitlines()][-2:]
    assert (start["eventType"], end["eventType"], end["job"]["name"]) == ("START", "COMPLETE", "mean")
    assert end["job"]["facets"]["jobType"]["jobType"] == "QUERY"
    [source], [output] = end["inputs"], end["outputs"]
    assert [one["facets"]["symlinks"]["identifiers"][0]["name"] for one in (source, output)] == [
        "root.ln",
        "root.mean",
    ]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    [origin] = output["facets"]["columnLineage"]["fields"]["t"]["inputFields"]
    assert (origin["name"], origin["field"]) == (source["name"], "t")


def test_a_server_hears_of_them_with_its_key(tmp_path: Path) -> None:
    heard: list[tuple[str, str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append((self.path, self.headers["Authorization"], body["eventType"]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        ticked(tmp_path / "lake", openlineage_url=url, openlineage_token="k" * 16)
    finally:
        server.shutdown()
        server.server_close()
    assert heard == [("/api/v1/lineage", f"Bearer {'k' * 16}", kind) for kind in ("START", "COMPLETE")]


def test_a_tick_that_failed_is_a_run_of_its_own() -> None:
    report = TickReport("main.s", 3, "changes", 1, 2, 1, 0, 0, 0, 0, 1.5, "arrow", 0)
    ended = datetime(2025, 1, 1, tzinfo=UTC)
    told = Told("u1", "main.s", "STREAM", "CREATE STREAM s", {}, {}, {})
    failed = [*events_of(told, replace(report, error="COMMIT_FAILED: no space"), ended, "plant")]
    assert [event.eventType for event in failed] == [RunState.START, RunState.FAIL]
    facets = failed[1].run.facets
    assert facets is not None
    assert getattr(facets["errorMessage"], "message", "") == "COMMIT_FAILED: no space"
    assert failed[0].eventTime == "2024-12-31T23:59:58.500000+00:00"
    done = events_of(told, report, ended, "plant")[1].run.runId
    later = events_of(told, report, ended + timedelta(hours=1), "plant")[1].run.runId
    assert done == later != failed[1].run.runId


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "/nowhere/events.ndjson"])
def test_a_receiver_that_is_not_there_stops_no_tick(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "lakestream.openlineage"):
        ticked(tmp_path / "lake", openlineage_url=url)
    said = [record.getMessage() for record in caplog.records if record.name == "lakestream.openlineage"]
    assert said
    assert "OpenLineage event" in said[0]
