"""What each scope of a token lets do, over every route that there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from starlette.websockets import WebSocketDisconnect

from lakestream.errors import StatementError
from lakestream.lake import Lake
from lakestream.settings import Settings
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.tokens import Scope, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient

    Serve = Callable[..., AbstractContextManager[TestClient]]

READ, WRITE, ADMIN = Scope
ONE = "/api/streams/{database}/{name}"
EVERY = {"read", "write", "admin", "read of other", "admin of other"}
"""Tokens: of all databases, and of one that the stream is not in."""
OF_ALL = EVERY - {"read of other", "admin of other"}
WRITERS = {"write", "admin"}

ALLOWED: dict[tuple[str, str], set[str]] = {
    ("GET", "/metrics"): OF_ALL,
    ("GET", "/api/lake"): EVERY,
    ("GET", "/api/streams"): EVERY,
    ("GET", "/api/queries"): OF_ALL,
    ("GET", "/api/lineage"): EVERY,
    ("GET", "/api/events"): OF_ALL,
    ("GET", ONE): OF_ALL,
    ("GET", f"{ONE}/runs"): OF_ALL,
    ("GET", f"{ONE}/output"): OF_ALL,
    ("GET", "/api/statements"): EVERY,
    ("POST", "/api/statements"): EVERY,
    ("DELETE", "/api/statements/{query}"): EVERY,
    ("POST", f"{ONE}/start"): WRITERS,
    ("POST", f"{ONE}/stop"): WRITERS,
    ("POST", f"{ONE}/recalculate"): WRITERS,
    ("POST", f"{ONE}/verify"): OF_ALL,
}
"""By route, whose tokens are let in; ``/healthz`` asks for none."""
BODIES: dict[str, dict[str, Any]] = {
    "/api/statements": {"sql": "SELECT 1 AS x", "database": "other"},
    f"{ONE}/recalculate": {"from": "no time"},
    f"{ONE}/verify": {},
}


@pytest.fixture
def texts(root: str) -> dict[str, str]:
    """The tokens by who has them."""
    tokens = Tokens(Layout(root))
    made = {scope.name.lower(): tokens.issue(scope.name.lower(), scope, [], 0) for scope in Scope}
    for scope in (READ, ADMIN):
        name = f"{scope.name.lower()} of other"
        made[name] = tokens.issue(name, scope, ["other"], 0)
    return made


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_route_lets_in_whom_it_should(
    serve: Serve, texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakestream.lake.Lake.verify", _nothing)
    with serve() as client:
        admin = {"Authorization": f"Bearer {texts['admin']}"}
        paths = client.get("/openapi.json", headers=admin).json()["paths"]
        routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        assert routes - {("GET", "/healthz")} == ALLOWED.keys(), "a new route is judged before it is listed"
        found: dict[tuple[str, str], set[str]] = {}
        for method, path in ALLOWED:
            url = re.sub(r"\{(\w+)\}", lambda part: _of(part[1]), path)
            assert client.request(method, url).status_code == 401, (method, path)
            for who, text in texts.items():
                asked = {"Authorization": f"Bearer {text}"}
                answer = client.request(method, url, headers=asked, json=BODIES.get(path))
                assert answer.status_code != 401, (method, path, who)
                if answer.status_code != 403:
                    found.setdefault((method, path), set()).add(who)
                else:
                    assert answer.json()["error"]["code"] == "FORBIDDEN", (method, path, who)
        assert found == ALLOWED
        assert client.get("/healthz").status_code in (200, 503)


def test_what_is_let_in_everywhere_shows_its_own_alone(
    serve: Serve, root: str, texts: dict[str, str]
) -> None:
    with Lake(root, settings=Settings()) as lake:
        lake.sql("CREATE DATABASE other")
    with serve() as client:
        client.headers["Authorization"] = f"Bearer {texts['admin of other']}"
        assert client.get("/api/streams").json() == []
        assert client.get("/api/statements").json() == []
        assert client.delete("/api/statements/1").status_code == 404
        asked = {"sql": "SELECT * FROM main.power", "database": "other"}
        assert client.post("/api/statements", json=asked).status_code == 403


def test_live_messages_are_guarded_like_what_they_tell_of(serve: Serve, texts: dict[str, str]) -> None:
    with serve() as client:
        for who, text in texts.items():
            headers = {"Host": "127.0.0.1:8600", "Authorization": f"Bearer {text}"}
            for url in ("/api/live", "/api/live?stream=main.hourly"):
                if "other" not in who or "stream" not in url:
                    with client.websocket_connect(url, headers=headers):
                        continue
                with pytest.raises(WebSocketDisconnect) as refused:
                    client.websocket_connect(url, headers=headers).__enter__()
                assert refused.value.reason == "FORBIDDEN"


def test_no_token_stands_in_an_answer_or_the_log(
    serve: Serve, texts: dict[str, str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    answers = []
    with serve(token="a-secret-of-the-settings") as client:
        for text in (*texts.values(), "a-secret-of-the-settings"):
            for headers in ({"Authorization": f"Bearer {text}"}, {"Authorization": f"Bearer {text}-not"}):
                answers += [client.get(path, headers=headers) for _, path in ALLOWED if "{" not in path]
            answers.append(client.get(f"/?token={text}"))
            answers.append(client.get(f"/api/lake?token={text}"))
    said = "".join(f"{answer.text}{answer.headers}" for answer in answers) + "".join(capfd.readouterr())
    # What the client of the test says of its own requests is not the server's.
    said += "".join(one.getMessage() for one in caplog.records if not one.name.startswith("httpx"))
    for text in (*texts.values(), "a-secret-of-the-settings"):
        assert text not in said


def _of(part: str) -> str:
    return {"database": "main", "name": "hourly", "query": "1"}[part]


def _nothing(*_: object) -> None:
    raise StatementError("BAD_VALUE", "nothing is verified here")
