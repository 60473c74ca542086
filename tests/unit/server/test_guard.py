"""Who may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.websockets import WebSocketDisconnect

from lakestream.server.api.guard import COOKIE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient

    Serve = Callable[..., AbstractContextManager[TestClient]]

TOKEN = "a-secret-of-the-test"


def test_a_token_opens_everything_and_health_needs_none(serve: Serve) -> None:
    with serve(token=TOKEN) as client:
        assert client.get("/healthz").status_code == 200
        for path in ("/api/lake", "/metrics", "/openapi.json", "/", "/static/app.js"):
            refused = client.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "TOKEN_NEEDED")
        assert client.get("/api/lake", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/api/lake", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert client.get(f"/api/lake?token={TOKEN}").status_code == 401


def test_a_first_visit_with_the_token_leaves_a_cookie_without_it(serve: Serve) -> None:
    with serve(token=TOKEN) as client:
        assert client.get("/?token=wrong").status_code == 401
        visit = client.get(f"/?token={TOKEN}")
        assert (visit.status_code, visit.headers["location"]) == (303, "/")
        cookie = visit.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert client.get("/api/lake").status_code == 200
        client.cookies.set(COOKIE, "0" * 64, domain="127.0.0.1")
        client.cookies.clear()
        assert client.get("/api/lake", headers={"Cookie": f"{COOKIE}={'0' * 64}"}).status_code == 401


def test_a_name_of_the_server_is_listed_and_an_address_needs_no_listing(serve: Serve) -> None:
    with serve(names=("lake.example",)) as client:
        for host, status in (("lake.example:80", 200), ("[::1]:8600", 200), ("10.0.0.1", 200), ("evil", 400)):
            assert client.get("/healthz", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("host", ["[", "]", "[::1", "a[b]", "[v1.x]", "[lake]:80", "a:b:c", "", "@", "a@["])
def test_a_host_or_an_origin_that_is_no_address_is_refused(serve: Serve, host: str) -> None:
    with serve(token=TOKEN) as client:
        answer = client.get("/api/lake", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_HOST")
        for origin in (f"http://{host}", host):
            answer = client.post("/api/statements", headers={"Origin": origin})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "BAD_ORIGIN")


@pytest.mark.parametrize("cookie", ["", ";", "=", f"{COOKIE}", f"{COOKIE}=;a[b]=c", 'a b="; @=,', "ä=ö"])
def test_a_cookie_that_is_none_is_no_token(serve: Serve, cookie: str) -> None:
    with serve(token=TOKEN) as client:
        headers = {b"Cookie": cookie.encode("latin-1")}
        assert client.get("/api/lake", headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("token", "headers", "code"),
    [
        (None, {"Origin": "http://evil.example"}, "BAD_ORIGIN"),
        (TOKEN, {}, "TOKEN_NEEDED"),
        (None, {"Host": "evil"}, "BAD_HOST"),
    ],
)
def test_a_websocket_is_guarded_too(
    serve: Serve, token: str | None, headers: dict[str, str], code: str
) -> None:
    with serve(token=token) as client, pytest.raises(WebSocketDisconnect) as refused:
        client.websocket_connect("/api/live", headers={"Host": "127.0.0.1", **headers}).__enter__()
    assert refused.value.reason == code
