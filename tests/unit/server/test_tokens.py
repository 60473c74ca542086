"""Whose token lets do what, in which databases; and what is noted of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from starlette.websockets import WebSocketDisconnect

from lakestream.cli import cli
from lakestream.errors import ConfigError
from lakestream.lake import Lake
from lakestream.settings import Settings
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.tokens import Scope, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from starlette.testclient import TestClient

READ, WRITE, ADMIN = Scope
OF_MAIN = "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM power INTO o"
COUNTED = "SELECT _twstart AS w, count(*) AS n FROM %%trows"


@pytest.fixture
def tokens(root: str) -> Tokens:
    return Tokens(Layout(root))


@pytest.fixture
def asked(
    serve: Callable[..., AbstractContextManager[TestClient]], root: str, tokens: Tokens
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Ask by a token of a scope, and return the status and the code of the error or the message."""
    with Lake(root, settings=Settings()) as lake:
        lake.sql("CREATE DATABASE other; CREATE TABLE other.t (ts TIMESTAMP, v INT)")
    known: dict[tuple[Scope, tuple[str, ...]], str] = {}

    with serve() as client:

        def ask(scope: Scope, sql: str, *databases: str, database: str = "main") -> tuple[int, str]:
            if (scope, databases) not in known:
                known[scope, databases] = tokens.issue(f"{scope.name} {databases}", scope, databases, 0)
            answer = client.post(
                "/api/statements",
                headers={"Authorization": f"Bearer {known[scope, databases]}"},
                json={"sql": sql, "database": database, "dialect": "tdengine"},
            )
            said = answer.json()
            return answer.status_code, said["error"]["code"] if "error" in said else str(said["message"])

        yield ask


@pytest.mark.parametrize(
    ("scope", "sql"),
    [
        (READ, "SHOW STREAMS"),
        (READ, "DESCRIBE other.t"),
        (READ, "SELECT 1"),
        (WRITE, "INSERT INTO other.t VALUES ('2026-01-01', 1)"),
        (WRITE, "CREATE TABLE more (ts TIMESTAMP, v INT)"),
        (WRITE, "STOP STREAM hourly"),
        (WRITE, "SHOW STREAMS; DROP TABLE IF EXISTS nothing"),
        (ADMIN, "CREATE DATABASE third"),
        (ADMIN, "DROP DATABASE IF EXISTS nowhere"),
        (ADMIN, "CREATE TABLE outside LOCATION '/tmp/nothing'"),
        (ADMIN, f"{OF_MAIN} LOCATION '/dev/null/out' AS {COUNTED}"),
        (ADMIN, f"{OF_MAIN} USING TABLE c.d.out AS {COUNTED}"),
    ],
)
def test_a_statement_needs_its_scope(asked: Callable[..., tuple[int, str]], scope: Scope, sql: str) -> None:
    for given in Scope:
        status, said = asked(given, sql)
        assert (status == 403) == (given < scope), (given, said)
        if status == 403:
            assert said == "FORBIDDEN"


@pytest.mark.parametrize("sql", ["CREATE DATABASE third", "DROP DATABASE other FORCE"])
def test_databases_are_made_and_dropped_by_whom_they_are_for(
    asked: Callable[..., tuple[int, str]], sql: str
) -> None:
    assert asked(ADMIN, sql, "main") == (403, "FORBIDDEN")
    assert asked(ADMIN, sql)[0] == 200


@pytest.mark.parametrize(
    "sql",
    [
        "DESCRIBE other.t",
        "SELECT * FROM other.t",
        "SELECT * FROM (SELECT * FROM other.t) x",
        "INSERT INTO other.t VALUES ('2026-01-01', 1)",
        "USE other; DESCRIBE t",
        "CREATE TABLE other.u (ts TIMESTAMP, v INT)",
        "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM other.t INTO o AS SELECT count(*) AS n FROM %%trows",
        "CREATE STREAM s PERIOD(1h) INTO o AS SELECT count(*) AS n FROM other.t",
        "SHOW other.STREAMS",
        "SELECT * FROM information_schema.ins_streams",
    ],
)
def test_a_token_for_a_database_reaches_no_other_one(asked: Callable[..., tuple[int, str]], sql: str) -> None:
    assert asked(WRITE, sql, "main") == (403, "FORBIDDEN")
    assert asked(ADMIN, sql, "main") == (403, "FORBIDDEN")
    assert asked(WRITE, sql)[1] != "FORBIDDEN"


def test_a_token_for_a_database_works_there_wherever_it_begins(
    serve: Callable[..., AbstractContextManager[TestClient]], root: str, tokens: Tokens
) -> None:
    with Lake(root, settings=Settings()) as lake:
        lake.sql(
            "CREATE DATABASE other; CREATE TABLE other.t (ts TIMESTAMP, v INT);"
            "CREATE STREAM other.far INTERVAL(1m) SLIDING(1m) FROM main.power INTO other.o "
            "AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
        )
    token = tokens.issue("one", WRITE, ["other"], 0)
    with serve() as client:
        client.headers["Authorization"] = f"Bearer {token}"

        def ask(sql: str) -> list[list[Any]]:
            answer = client.post("/api/statements", json={"sql": sql, "database": "main"})
            assert answer.status_code == 200, answer.json()
            rows: list[list[Any]] = answer.json()["rows"]
            return rows

        assert ask("SHOW DATABASES") == [["other"]]
        assert ask("SELECT 1 AS x") == [[1]]
        ask("INSERT INTO other.t VALUES ('2026-01-01', 1)")
        assert ask("SELECT v FROM other.t") == [[1]]
        assert [row[0] for row in ask("DESCRIBE other.t")] == ["ts", "v"]
        for shown in ("SHOW STREAMS", "SHOW other.STREAMS"):
            assert [row[1] for row in ask(shown)] == ["far"]


def test_the_page_shows_a_token_its_databases(
    serve: Callable[..., AbstractContextManager[TestClient]], tokens: Tokens
) -> None:
    texts = {name: tokens.issue(name, READ, [name], 0) for name in ("main", "other")}
    with serve() as client:
        assert client.get("/api/streams").status_code == 401
        for name, status in (("main", 200), ("other", 403)):
            client.headers["Authorization"] = f"Bearer {texts[name]}"
            assert client.get("/api/streams/main/hourly").status_code == status
            assert client.get("/api/streams/main/hourly/runs").status_code == status
            assert client.get("/api/events?stream=main.hourly").status_code == status
            assert client.post("/api/streams/main/hourly/stop").status_code == 403
            assert {one["database"] for one in client.get("/api/streams").json()} <= {name}
            lineage = client.get("/api/lineage").json()
            assert [one["name"] for one in lineage["streams"]] == ["main.hourly"] * (name == "main")
            assert bool(lineage["tables"]) == (name == "main")
            assert client.get("/metrics").status_code == 403
            with client.websocket_connect("/api/live", headers={"Host": "127.0.0.1"}):
                pass  # it hears of its databases
            away = f"/api/live?stream={'other' if name == 'main' else 'main'}.hourly"
            with pytest.raises(WebSocketDisconnect) as refused:
                client.websocket_connect(away, headers={"Host": "127.0.0.1"}).__enter__()
            assert refused.value.reason == "FORBIDDEN"


def test_a_token_is_told_once_and_kept_as_a_hash(root: str, tokens: Tokens) -> None:
    text = tokens.issue("one", READ, [], 7)
    kept = b"".join(file.read_bytes() for file in (_system(root) / "tokens").rglob("*") if file.is_file())
    assert text.encode() not in kept
    assert text.removeprefix("ls_").encode() not in kept
    assert tokens.holder(text) == tokens.every()[0]
    assert tokens.holder(text[:-1]) is None
    with pytest.raises(ConfigError, match="TOKEN_EXISTS"):
        tokens.issue("one", ADMIN, [], 8)


def test_a_revoked_token_lets_in_nobody_at_once(
    serve: Callable[..., AbstractContextManager[TestClient]], tokens: Tokens, root: str
) -> None:
    text = tokens.issue("one", READ, [], 0)
    tokens.issue("other", READ, [], 0)
    with serve() as client:
        assert client.get(f"/?token={text}").status_code == 303
        assert text not in str(client.cookies)
        assert client.get("/api/streams").status_code == 200
        Tokens(Layout(root)).revoke("one")
        assert client.get("/api/streams").status_code == 401
    with pytest.raises(ConfigError, match="TOKEN_NOT_FOUND"):
        tokens.revoke("one")


def test_what_changes_something_is_noted(asked: Callable[..., tuple[int, str]], root: str) -> None:
    asked(READ, "SHOW STREAMS")
    asked(READ, "STOP STREAM hourly")
    asked(WRITE, "STOP STREAM hourly")
    asked(WRITE, "DROP TABLE nothing")
    asked(WRITE, "NOTHING OF SQL")
    with Lake(root, settings=Settings()) as lake:
        noted = lake.sql("SELECT who, client, did, outcome FROM information_schema.ins_audit").fetchall()
    assert sorted(tuple(row) for row in noted) == [
        ("READ ()", "testclient", "STOP STREAM hourly", "FORBIDDEN"),
        ("WRITE ()", "testclient", "DROP TABLE nothing", "TABLE_NOT_FOUND"),
        ("WRITE ()", "testclient", "STOP STREAM hourly", "ok"),
    ]


def test_secrets_of_targets_are_not_noted(asked: Callable[..., tuple[int, str]], root: str) -> None:
    asked(
        WRITE,
        "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM power NOTIFY('ws://u:geheim@localhost/?k=geheim')",
    )
    kept = b"".join(file.read_bytes() for file in (_system(root) / "audit").rglob("*") if file.is_file())
    assert b"geheim" not in kept


def _system(root: str) -> Path:
    from pathlib import Path

    return Path(root, "_lakestream")


def test_there_is_no_token_for_a_database_that_is_not_there(tmp_path: Path) -> None:
    run = partial(CliRunner().invoke, cli)
    lake = ["--lake", str(tmp_path / "lake")]
    assert run([*lake, "init"]).exit_code == 0
    refused = run([*lake, "token", "create", "grafana", "--database", "nowhere"])
    assert (refused.exit_code, "DATABASE_NOT_FOUND" in refused.stderr) == (2, True), refused.output
    assert run([*lake, "token", "create", "grafana", "--database", "main"]).exit_code == 0
