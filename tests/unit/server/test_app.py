"""What the routes answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream.lake import Lake
from lakestream.server.api.guard import BODY_LIMIT
from lakestream.settings import Settings

if TYPE_CHECKING:
    from starlette.testclient import TestClient

EVIL = "http://evil.example"
JSON = {"headers": {"Content-Type": "application/json"}}
BOTH = {"from": "2025-01-01", "resync": True}


def test_the_lake_and_its_health(client: TestClient, root: str) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    lake = client.get("/api/lake").json()
    assert (lake["root"], lake["timezone"], lake["now"].endswith("Z")) == (root, "UTC", True)


def test_a_stream_with_all_that_is_known_of_it(client: TestClient) -> None:
    [listed] = client.get("/api/streams").json()
    stream = client.get("/api/streams/main/hourly").json()
    assert listed.items() <= stream.items()
    assert (stream["trigger"], stream["sources"], stream["output"]) == (
        "PERIOD(1h)",
        ["main.power"],
        "main.power_hourly",
    )
    assert (stream["tick"], stream["rows_in"], stream["last_tick_at"]) == (1, 2, "2025-01-01T12:00:00Z")
    assert stream["next_due_at"].endswith(":00:00Z")
    assert [(job["done"], job["parts"], job["from"]) for job in stream["recalculations"]] == [
        (1, 3, "2025-01-01T12:00:00Z")
    ]
    assert [(error["code"], error["message"]) for error in stream["errors"]] == [
        ("COMMIT_FAILED", "no space left")
    ]
    assert stream["errors_table"] is None


def test_runs_are_newest_first(client: TestClient) -> None:
    runs = client.get("/api/streams/main/hourly/runs").json()
    assert [(run["tick"], run["kind"], run["error"]) for run in runs] == [
        (2, "failed", "COMMIT_FAILED: no space left"),
        (1, "period", None),
    ]
    assert len(client.get("/api/streams/main/hourly/runs?limit=1").json()) == 1


def test_the_newest_rows_of_an_output(client: TestClient) -> None:
    output = client.get("/api/streams/main/hourly/output?limit=1").json()
    assert [column["name"] for column in output["columns"]] == ["hour", "n"]
    assert output["rows"] == [["2025-01-01T09:00:00+00:00", 0]]
    assert output["windows"] == [None]


def test_lineage(client: TestClient) -> None:
    assert client.get("/api/lineage").json() == {
        "tables": [
            {"name": "main.power", "kind": "table"},
            {"name": "main.power_hourly", "kind": "table"},
        ],
        "streams": [{"name": "main.hourly", "reads": ["main.power"], "writes": "main.power_hourly"}],
        "queries": [],
    }


def test_statements_begin_in_their_database_and_tell_the_one_they_end_in(client: TestClient) -> None:
    def run(sql: str, **more: Any) -> dict[str, Any]:
        answer = client.post("/api/statements", json={"sql": sql, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    assert run("CREATE DATABASE d; USE d; CREATE TABLE t (ts TIMESTAMP, x INT)")["database"] == "d"
    assert [row[0] for row in run("SHOW TABLES")["rows"]] == ["power", "power_hourly"]
    tables = run("SHOW TABLES", database="d")
    assert [row[0] for row in tables["rows"]] == ["t"]
    assert (tables["types"][0], tables["truncated"]) == ("string", False)


def test_a_stream_is_stopped_started_and_recalculated(client: TestClient) -> None:
    def status() -> str:
        return str(client.get("/api/streams/main/hourly").json()["status"])

    assert client.post("/api/streams/main/hourly/stop").json() == {"message": "stopped stream main.hourly"}
    assert status() == "Stopped"
    assert client.post("/api/streams/main/hourly/start").status_code == 200
    assert status() == "Running"
    refused = client.post("/api/streams/main/hourly/recalculate", json={"from": "2025-01-01"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "NOT_SUPPORTED")


def test_metrics_tell_of_every_stream(client: TestClient) -> None:
    text = client.get("/metrics").text
    assert 'lakestream_streams{status="Running"} 1.0' in text
    assert 'lakestream_rows_in_total{stream="main.hourly"} 2.0' in text


def test_the_api_describes_itself(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert "/api/streams/{database}/{name}/output" in document["paths"]


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "code"),
    [
        ("GET", "/api/streams/main/nope", {}, 404, "STREAM_NOT_FOUND"),
        ("GET", "/api/streams/%2e%2e/%2e%2e", {}, 404, "STREAM_NOT_FOUND"),
        ("GET", "/api/streams/main/%3Cscript%3E", {}, 404, "STREAM_NOT_FOUND"),
        ("GET", f"/api/streams/main/{'x' * 129}", {}, 400, "BAD_REQUEST"),
        ("GET", "/api/streams/main/hourly/runs?limit=0", {}, 400, "BAD_REQUEST"),
        ("GET", "/api/events?after=x", {}, 400, "BAD_VALUE"),
        ("GET", "/static/%2e%2e/app.py", {}, 404, "NOT_FOUND"),
        ("GET", "/nowhere", {}, 404, "NOT_FOUND"),
        ("DELETE", "/api/streams/main/hourly", {}, 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/api/streams/main/nope/stop", {}, 404, "STREAM_NOT_FOUND"),
        ("POST", "/api/streams/main/a%60%3B%20DROP%20STREAM%20hourly/stop", {}, 404, "STREAM_NOT_FOUND"),
        ("POST", "/api/streams/main/hourly/recalculate", {"json": {}}, 400, "BAD_REQUEST"),
        ("POST", "/api/streams/main/hourly/recalculate", {"json": BOTH}, 400, "BAD_REQUEST"),
        ("POST", "/api/streams/main/hourly/verify", {"json": {"until": "now"}}, 400, "BAD_REQUEST"),
        ("POST", "/api/streams/main/nope/verify", {"json": {}}, 404, "STREAM_NOT_FOUND"),
        ("POST", "/api/statements", {"json": {"sql": "SELEC"}}, 400, "SYNTAX"),
        ("POST", "/api/statements", {"json": {"sql": "SHOW TABLES", "more": 1}}, 400, "BAD_REQUEST"),
        ("POST", "/api/statements", {"content": b"{"}, 400, "BAD_REQUEST"),
        (
            "POST",
            "/api/statements",
            {**JSON, "content": rb'{"sql": "SELECT 1", "\ud800": 1}'},
            400,
            "BAD_REQUEST",
        ),
        ("POST", "/api/statements", {**JSON, "content": rb'{"sql": "\ud800"}'}, 400, "BAD_CHARACTER"),
        (
            "POST",
            "/api/statements",
            {**JSON, "content": rb'{"sql": "SELECT 1", "database": "\ud800"}'},
            404,
            "DATABASE_NOT_FOUND",
        ),
        (
            "POST",
            "/api/statements",
            {**JSON, "content": rb'{"sql": "SELECT 1", "dialect": "\ud800"}'},
            400,
            "UNKNOWN_DIALECT",
        ),
        ("POST", "/api/statements", {"content": b"x" * (BODY_LIMIT + 1)}, 413, "TOO_LARGE"),
        ("POST", "/api/statements", {"content": (b"x" * BODY_LIMIT for _ in range(2))}, 413, "TOO_LARGE"),
        ("GET", "/api/lake", {"headers": {"Host": "evil.example"}}, 400, "BAD_HOST"),
        ("GET", "/api/lake", {"headers": {"Host": ""}}, 400, "BAD_HOST"),
        ("POST", "/api/streams/main/hourly/stop", {"headers": {"Origin": EVIL}}, 403, "BAD_ORIGIN"),
        ("POST", "/api/streams/main/hourly/stop", {"headers": {"Origin": "null"}}, 403, "BAD_ORIGIN"),
    ],
)
def test_what_is_refused(
    client: TestClient, method: str, path: str, more: dict[str, Any], status: int, code: str
) -> None:
    answer = client.request(method, path, **more)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/streams/main/hourly").json()["status"] == "Running"


def test_an_error_of_a_statement_has_its_place(client: TestClient) -> None:
    error = client.post("/api/statements", json={"sql": "SHOW TABLES;\nDROP STREAM nope"}).json()["error"]
    assert (error["place"]["line"], error["exit_status"]) == (2, 2)


def test_a_page_of_this_server_may_change_things(client: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8600"}
    assert client.post("/api/streams/main/hourly/stop", headers=own).status_code == 200


def test_the_reference_has_every_route_and_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/docs").text
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page
    assert 'href="#StreamDocument"' in page
    assert "://" not in page


def test_continuous_queries_are_listed(client: TestClient, root: str) -> None:
    assert client.get("/api/queries").json() == []
    with Lake(root, settings=Settings()) as lake:
        lake.sql("CREATE TIMESERIES root.ln.d.s WITH DATATYPE=INT32")
        lake.sql("CREATE CQ c BEGIN SELECT avg(s) INTO root.ln.m(s) FROM root.ln.d GROUP BY (1h) END")
    (query,) = client.get("/api/queries").json()
    assert (query["name"], query["state"], query["skipped"]) == ("c", "ACTIVE", 0)
    assert query["next_at"].endswith("Z")
