"""Alerts: who is told that a stream has failed or runs again, and by what."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.covered import redacted
from lakestream.errors import ConfigError, StorageError, StreamError
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.errors import LakestreamError


class Hook:
    """A webhook on this machine: what it was sent; it answers ``statuses``, and 200 once they are used up."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, dict[str, Any]]] = []
        self.statuses: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = hook.statuses.pop(0) if hook.statuses else 200
                if status == 200:
                    hook.taken.append((self.path, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("localhost", 0), Handler)
        self.url = f"http://localhost:{self.server.server_port}/services/T0?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def texts(self) -> list[str]:
        return [document["text"] for _, document in self.taken]


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


def opened(root: Path, *urls: str) -> Lake:
    return Lake(root, settings=Settings(alert_urls=urls, notify_hosts=("localhost",)))


def made(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v DOUBLE)")
    lake.sql(
        "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t INTO o "
        "AS SELECT _twstart AS w, avg(v) AS m FROM %%trows"
    )


def fail(lake: Lake, error: LakestreamError) -> None:
    at = lake._at
    at.engine.failing.fail(at.registry.stream("main", "s"), error)


def test_each_change_of_a_stream_is_told_once(tmp_path: Path, hook: Hook) -> None:
    catcher = Catcher()
    with opened(tmp_path, hook.url, f"{catcher.url}/alarms") as lake:
        made(lake)
        lake.run()
        fail(lake, StorageError("COMMIT_FAILED", "disk full"))
        fail(lake, StorageError("COMMIT_FAILED", "disk full"))
    with opened(tmp_path, hook.url, f"{catcher.url}/alarms") as lake:
        lake.insert("t", [{"ts": 0, "v": 1.0}, {"ts": 60_000, "v": 1.0}])
        lake.run()
        fail(lake, StreamError("CHANGES_LOST", "version 7 is gone"))
        lake.run()
    told = [
        "main.s is tried again: COMMIT_FAILED: disk full",
        "main.s runs again",
        "main.s has failed: CHANGES_LOST: version 7 is gone (RECALCULATE STREAM main.s RESYNC)",
    ]
    assert hook.texts() == told
    assert [event["text"] for event in catcher.events(3)] == told
    path, document = hook.taken[0]
    assert path == "/services/T0?x=1"
    (stream,) = document["streams"]
    assert stream["streamName"] == "main.s"
    (event,) = stream["events"]
    assert (event["eventType"], event["status"]) == ("STREAM_STATE", "Retrying")
    catcher.close()


def test_what_a_webhook_does_not_take_is_sent_again(tmp_path: Path, hook: Hook) -> None:
    hook.statuses = [404, 404]  # once more when the lake is closed
    with opened(tmp_path, hook.url) as lake:
        made(lake)
        lake.run()
        fail(lake, StreamError("CHANGES_LOST", "version 7 is gone"))
        lake.run()
    assert hook.texts() == []
    with opened(tmp_path, hook.url) as lake:
        lake.run()
        (event,) = lake.events()
        assert (event.stream, event.type) == ("main.s", "STREAM_STATE")
        assert [state for _, state in event.deliveries] == ["sent"]
        targets = "SELECT stream_name, stream_id, sent FROM information_schema.ins_stream_targets"
        assert lake.sql(targets).fetchall() == [(None, "alerts", 1)]
    assert len(hook.texts()) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.org", "only http"),
        ("http://example.org/x", "without TLS"),
        ("https://127.0.0.1/x", "no public address"),
        ("wss://example.org", "its port is missing"),
    ],
)
def test_where_alerts_may_not_go(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match="SETTING_INVALID") as refused:
        Settings(alert_urls=[url])
    assert why in refused.value.message
    Settings(alert_urls="https://hooks.example.org/services/T0, wss://example.org:443/x")


def test_the_path_of_a_webhook_is_covered() -> None:
    assert redacted("https://hooks.example.org/T0/B0?x=1") == "https://hooks.example.org/*****?***"
