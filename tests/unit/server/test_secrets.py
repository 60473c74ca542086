"""A secret of a target is in no place where the lake shows something of itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lakestream.cli.app import cli
from lakestream.cli.base.session import Session
from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from starlette.testclient import TestClient

SECRET = "geheim"
URL = f"ws://{SECRET}:{SECRET}@localhost:1/in?key={SECRET}"
STREAM = (
    "CREATE STREAM told INTERVAL(1m) SLIDING(1m) FROM loads "
    f"NOTIFY('{URL}') ON (WINDOW_CLOSE) INTO told_out AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
)
SETTINGS = Settings(
    notify_hosts=("localhost",),
    alert_urls=(f"wss://localhost:1/?key={SECRET}", f"https://alarms.example/hook/{SECRET}"),
    spark_conf={"spark.hadoop.fs.s3a.secret.key": SECRET},
)
STATEMENTS = (
    *("SHOW STREAMS", "SHOW CREATE STREAM told", "SHOW TABLES", "SHOW QUERIES", "SHOW DATABASES"),
    *("EXPLAIN STREAM told", "DESCRIBE told_out", STREAM, STREAM.replace("AS SELECT", "AS SELECTED")),
    STREAM.replace("told", "other").replace("localhost", "elsewhere"),
    STREAM.replace("told", "other").replace("loads", "nothing"),
    *(
        f"SELECT * FROM information_schema.{table}"
        for table in (
            *("ins_streams", "ins_stream_tasks", "ins_stream_recalculates", "ins_stream_targets"),
            "ins_audit",
        )
    ),
)
COMMANDS = (
    *(
        ["status"],
        ["show", "told"],
        ["logs"],
        ["events"],
        ["lineage"],
        ["check"],
        ["doctor"],
        ["config", "show"],
    ),
    *(["sql", STREAM], ["sql", "EXPLAIN STREAM told"]),
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def told(root: str, caplog: pytest.LogCaptureFixture) -> str:
    """A lake with a stream whose target cannot be reached, and its log."""
    caplog.set_level(logging.DEBUG)
    with Lake(root, settings=SETTINGS) as lake:
        lake.sql("CREATE TABLE loads (ts TIMESTAMP, watts DOUBLE)")
        lake.sql(STREAM)
        lake.insert("loads", [{"ts": f"2025-01-01 08:0{minute}:00", "watts": 1} for minute in range(3)])
        lake.run()
    assert "cannot be told of events" in caplog.text
    return root


def test_statements_and_their_errors_show_none(told: str, caplog: pytest.LogCaptureFixture) -> None:
    said = []
    with Lake(told, settings=SETTINGS) as lake:
        for sql in STATEMENTS:
            try:
                said.append(str(lake.sql(sql).fetchall()))
            except LakestreamError as error:
                said += [error.render(), str(error), json.dumps(error.to_dict()), repr(error)]
        said += [repr(one) for one in (*lake.streams(), *lake.failures("told"), *lake.repair.check())]
        said.append(repr(lake.settings))
    for text in said:
        assert SECRET not in text
    assert SECRET not in caplog.text


def test_commands_show_none(told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESTREAM_NOTIFY_HOSTS", "localhost")
    monkeypatch.setenv("LAKESTREAM_ALERT_URLS", ",".join(SETTINGS.alert_urls))
    monkeypatch.setenv("LAKESTREAM_SPARK_CONF", json.dumps(SETTINGS.spark_conf))
    monkeypatch.setenv("LAKESTREAM_SERVER_TOKEN", f"{SECRET}-of-the-server")
    for output in ("table", "json"):
        for command in COMMANDS:
            arguments = ["--lake", told, "--output", output, "--no-daemon", *command]
            ran = CliRunner().invoke(
                cli, arguments, obj=Session(json=output == "json"), standalone_mode=False
            )
            assert SECRET not in ran.output + str(ran.exception), (command, ran.output)


def test_answers_of_the_server_show_none(
    told: str, serve: Callable[..., AbstractContextManager[TestClient]]
) -> None:
    with serve() as client:
        paths = client.get("/openapi.json").json()["paths"]
        asked = [path for path, methods in paths.items() if "get" in methods]
        for path in asked:
            answer = client.get(path.replace("{database}", "main").replace("{name}", "told"))
            assert answer.status_code in (200, 503), path
            assert SECRET not in answer.text, path
        for sql in STATEMENTS:
            answer = client.post("/api/statements", json={"sql": sql})
            assert SECRET not in answer.text, sql
    assert told


def test_of_its_files_only_the_definition_has_it(told: str) -> None:
    """As docs/notifications.md says: the statement is kept as it was written, and with its copy."""
    found = {
        str(file.relative_to(told)).split("/")[1]
        for file in Path(told).rglob("*")
        if file.is_file() and SECRET.encode() in file.read_bytes()
    }
    assert found <= {"streams", "copies"}
